"""The account of a data set: what is left of its budget, charges, and grants of answers.

A release that does not fit is refused, and then nothing is charged. A grant is a fixed number of answers of one law.
They are paid for together, and taken one by one.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpensemble._checks import ShownAsSentences
from dpensemble._spending import Original, Spending
from dpensemble.aggregation.aggregator import PaidAnswers
from dpensemble.cost import gaussian_epsilon
from dpensemble.errors import BudgetError, LedgerError, TamperedLedgerError
from dpensemble.guarantee import Budget
from dpensemble.server.entries import EVERYONE, Entry, GrantStanding, Transaction, check_name, require_new_name
from dpensemble.server.entry_log import EntryLog
from dpensemble.server.filters import Amount, Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState(ShownAsSentences):
    """State of an account. Public. ``str(state)`` is a sentence for people, and `to_dict` is the form for programs.

    Parameters
    ----------
    data_set, whom : str
        Data set, and the owner of the account.
    terms : Terms
        Terms of the account.
    spent, left : Amount
        Amounts in whole units.
    """

    data_set: str
    whom: str
    terms: Terms
    spent: Amount
    left: Amount

    def __str__(self) -> str:
        """Return in one sentence what the account allows and what is left."""
        terms, whom = self.terms, "" if self.whom == "everyone" else f", {self.whom}"
        how = "epsilons add up" if terms.filter == "basic" else f"a filter by {terms.unit}"
        return (
            f"{self.data_set}{whom}: epsilon {terms.budget.epsilon:g} at delta {terms.budget.delta:g} for good "
            f"({how}); {self.share_left:.1%} left, enough for {self.fitting_words}."
        )

    @property
    def share_left(self) -> float:
        """Share of the limit that is left."""
        return self.left.loss / self.terms.limit.loss

    @property
    def fitting_epsilon(self) -> float:
        """Largest epsilon of a release with delta 0 that would still fit, rounded down, or 0 if none would."""
        low, high = 0.0, self.terms.budget.epsilon
        while high - low > 1e-4 * max(high, 1e-3):
            middle = (low + high) / 2
            price = self.terms.price(Spending(name=self.whom, epsilon=middle, delta=0.0))
            low, high = (middle, high) if price.loss <= self.left.loss else (low, middle)
        return math.floor(low * 1e4) / 1e4

    @property
    def fitting_gaussian(self) -> float | None:
        """Largest epsilon, at the account's delta, of Gaussian noise that would still fit, or None for other filters.

        Label moments are such noise. For answers by a law, about as much fits.
        """
        mu = self.terms.gaussian_left(self.left)
        return None if mu is None else math.floor(gaussian_epsilon(mu, self.terms.budget.delta) * 1e3) / 1e3

    @property
    def fitting_words(self) -> str:
        """Which single release would still fit, in words that follow "enough for"."""
        fits, gaussian = self.fitting_epsilon, self.fitting_gaussian
        delta = f"delta {self.terms.budget.delta:g}"
        if not gaussian:
            return f"a release of epsilon up to {fits:.4g} at delta 0" if fits else "no further release"
        other = f", or any release of epsilon up to {fits:.4g} at delta 0" if fits else ""
        return f"a release by Gaussian noise of epsilon up to {gaussian:.4g} at {delta}{other}"

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values, with losses in units of 1."""
        return {
            "data_set": self.data_set,
            "whom": self.whom,
            **self.terms.to_dict(),
            "limit": self.terms.limit.plain_loss,
            "spent": self.spent.plain_loss,
            "left": self.left.plain_loss,
            "share_left": self.share_left,
            "delta_left": self.left.plain_delta,
            "fitting_epsilon": self.fitting_epsilon,
            "fitting_gaussian": self.fitting_gaussian,
        }


def refusal(state: AccountState, price: Amount) -> BudgetError:
    """Return the error of a release that would exceed what an account allows. It contains only public numbers."""
    terms, parts = state.terms, []
    if price.loss > state.left.loss:
        loss, left, limit = (one.plain_loss for one in (price, state.left, terms.limit))
        parts.append(f"takes {loss:.6g} of {terms.unit}, but {left:.6g} of {limit:.6g} is left")
    if price.delta > state.left.delta:
        delta, left = price.plain_delta, state.left.plain_delta
        parts.append(f"takes a delta of {delta:.3g}, but {left:.3g} is left for releases without a Renyi curve")
    words = state.fitting_words
    would = f"{words} would fit" if state.fitting_epsilon or state.fitting_gaussian else "no further release fits"
    figures = {
        "unit": terms.unit,
        **{name: one.plain_loss for name, one in _three(state, price)},
        **{f"{name}_delta": one.plain_delta for name, one in _three(state, price)},
        # In the unit of the request.
        "fits": state.left.plain_loss,
    }
    return BudgetError(
        f"ledger: this release {' and '.join(parts)} for {state.whom} of data set {state.data_set!r} (lifetime epsilon "
        f"{terms.budget.epsilon:g} at delta {terms.budget.delta:g}); nothing was charged, and {would}.",
        figures=figures,
    )


def _three(state: AccountState, price: Amount) -> list[tuple[str, Amount]]:
    return [("requested", price), ("spent", state.spent), ("remaining", state.left)]


class _DataSetCharges:
    """Charges the releases of one data set of a ledger."""

    def __init__(self, ledger: EntryLog, data_set: str) -> None:
        self.ledger, self.data_set = ledger, data_set

    def states_in(self, transaction: Transaction) -> list[AccountState]:
        """Return the states of the account of everyone, and of each person's or group's account."""
        standings = {
            whom: one for (data_set, whom), one in transaction.standing.accounts.items() if data_set == self.data_set
        }
        states = []
        for whom, one in standings.items():
            terms = Terms.from_dict(json.loads(one.terms))
            spent = one.spent if whom == EVERYONE else standings[EVERYONE].spent + one.spent
            left = Amount(max(0, terms.limit.loss - spent.loss), max(0, terms.limit.delta - spent.delta))
            states.append(AccountState(data_set=self.data_set, whom=whom, terms=terms, spent=spent, left=left))
        return sorted(states, key=lambda state: (state.whom != EVERYONE, state.whom))

    def charge(self, spendings: Sequence[Spending], about: dict[str, Any]) -> None:
        """Charge a release in a separate transaction, or raise. With a key, charge only what was not charged before."""
        with self.ledger.writing() as transaction:
            key: dict[str, Any] = {name: about[name] for name in ("release", "part") if name in about}
            before = self.of_release(transaction, key) if key else []
            if not before:
                self.charge_in(transaction, spendings, about)
                return
            price = _largest_loss({state.whom: state for state in self.states_in(transaction)}, spendings)
        paid = before[0].fields["charges"][0]
        if not price.within(Amount(paid["loss"], paid["delta"])):
            raise LedgerError(
                f"ledger: release {about['release']} of data set {self.data_set!r} was charged less than it takes now; "
                "finish it with the version that began it."
            )

    def of_release(self, transaction: Transaction, key: dict[str, Any]) -> list[Entry]:
        """Return the charges of this data set with a key."""
        entries = transaction.containing("grant", {"release": key["release"]})
        fields = {"data_set": self.data_set, **key}
        return [entry for entry in entries if fields.items() <= entry.fields.items()]

    def charge_in(self, transaction: Transaction, spendings: Sequence[Spending], about: dict[str, Any]) -> None:
        """Charge the largest loss of any group to the account of everyone within a transaction, or raise."""
        if not all(one.worst_case for one in spendings):
            raise BudgetError(
                "ledger= takes releases whose guarantee holds for every data set, but analysis='data-dependent' and "
                "'until-spent' hold only for this private data set: use 'worst-case'."
            )
        transaction.require_tables()
        states = {state.whom: state for state in self.states_in(transaction)}
        _require_relation(states, spendings)
        price = _largest_loss(states, spendings)
        for state in states.values():
            # The charge of everyone counts in the accounts of groups that earlier releases opened.
            if not (state.spent + price).within(state.terms.limit):
                raise refusal(state, price)
        self.add_charge(transaction, price, about)

    def add_charge(self, transaction: Transaction, amount: Amount, about: dict[str, Any], whom: str = EVERYONE) -> None:
        """Add a charge within a transaction, whether it fits or not."""
        total = transaction.standing.accounts[self.data_set, whom].spent + amount
        charge = {"whom": whom, "loss": amount.loss, "delta": amount.delta}
        fields = {
            "data_set": self.data_set,
            "charges": [charge],
            "totals": [{"whom": whom, "loss": total.loss, "delta": total.delta}],
        }
        transaction.append("grant", fields | about)

    def everyone(self, transaction: Transaction) -> AccountState:
        """Return the state of the account that all records share."""
        return self.states_in(transaction)[0]


def _require_relation(states: dict[str, AccountState], spendings: Sequence[Spending]) -> None:
    """Raise for a release whose loss is stated for another neighbouring relation than the account's."""
    allowed = {state.terms.relation for state in states.values()}
    for spending in spendings:
        if spending.relation is not None and spending.relation not in allowed:
            raise BudgetError(
                f"ledger: the account is for relation={min(allowed).value!r}, but this release is for "
                f"{str(spending.relation)!r}, and their losses do not add up; use relation={min(allowed).value!r}."
            )


def _largest_loss(states: dict[str, AccountState], spendings: Sequence[Spending]) -> Amount:
    """Return the largest loss of any group, which is charged to the account that all records share.

    A record is in one group of a run, so it loses no more. The names of groups do not matter, because the next run may
    name the same records otherwise.
    """
    if EVERYONE not in states or not spendings:
        raise LedgerError("the data set has no account of everyone: open it first.")
    amounts = [states[EVERYONE].terms.price(spending) for spending in spendings]
    return Amount(max(one.loss for one in amounts), max(one.delta for one in amounts))


class LedgerGrant:
    """A grant by its name: charged when its first answer is requested, and continued afterwards.

    `more` holds further public settings that the name stands for.
    """

    def __init__(self, account: _DataSetCharges, name: str, more: Mapping[str, Any] | None = None) -> None:
        self.account, self.name, self._more = account, name, dict(more or {})

    def resumed(self, design: Any) -> PaidInLedger | None:
        """Return the answers of a grant that was charged before with these settings, or None if its name is new."""
        with self.account.ledger.reading() as transaction:
            standing = self._standing(transaction)
            if standing is None:
                self._require_new_name(transaction)
                return None
        self._require_same(standing, design)
        return PaidInLedger(self)

    def book(self, design: Any) -> PaidInLedger:
        """Charge the grant unless it was charged before with these settings, and return its answers."""
        settings, account = self._settings(design), self.account
        (group,) = design.groups
        curve = (design.cost * design.promised_answers).renyi
        spending = Spending(
            name=group.name,
            epsilon=design.spent,
            delta=group.budget.delta,
            find_cost=lambda: curve,
            relation=design.relation,
        )
        with account.ledger.writing() as transaction:
            standing = self._standing(transaction)
            if standing is None:
                self._require_new_name(transaction)
                about = {"what": "answers", "name": self.name, "settings": settings}
                account.charge_in(transaction, [spending], about)
        if standing is not None:
            self._require_same(standing, design)
        return PaidInLedger(self)

    def _standing(self, transaction: Transaction) -> GrantStanding | None:
        return transaction.standing.grants.get((self.account.data_set, self.name))

    def _require_new_name(self, transaction: Transaction) -> None:
        names = [name for data_set, name in transaction.standing.grants if data_set == self.account.data_set]
        require_new_name("grant", self.name, names)

    def _settings(self, design: Any) -> dict[str, Any]:
        return {**design.settings(), **self._more}

    def _require_same(self, standing: GrantStanding, design: Any) -> None:
        if not standing.has_settings(self._settings(design)):
            raise LedgerError(
                f"grant {self.name!r} of data set {self.account.data_set!r} was charged with other settings: use them, "
                "or another name."
            )


class PaidInLedger(PaidAnswers):
    """The paid answers of one grant, in the ledger."""

    def __init__(self, grant: LedgerGrant) -> None:
        self._ledger, self._name = grant.account.ledger, (grant.account.data_set, grant.name)
        self._where = {"data_set": grant.account.data_set, "grant_name": grant.name}
        self._key = self._ledger.key

    @property
    def answered(self) -> int:
        """Number of answers that were taken, or can no longer be taken."""
        with self._ledger.reading() as transaction:
            grant = transaction.standing.grants[self._name]
        return grant.answers if grant.is_closed else grant.used

    def take(self, key: str, request: bytes, answers_: int) -> str | None:
        """Take answers to a request, on the disk before this returns, or return the stored response for this key."""
        plain = self._key.hash_votes(request)

        def work(transaction: Transaction) -> str | None:
            row = transaction.request(request=key, **self._where)
            if row is not None:
                self._require_charged(transaction, key, row, plain)
                if row.votes not in (self._bound(key, row.total, plain), plain):
                    raise self.other_votes(key)
                answer = transaction.answer(request=key, **self._where)
                if answer is None:
                    # The process ended before the response was stored.
                    self._require_open(transaction)
                    return None
                return str(answer.told)
            grant = self._require_open(transaction)
            self.require_left(answers_, grant.answers, grant.used)
            total = grant.used + answers_
            votes = self._bound(key, total, plain)
            fields = {**self._where, "request": key, "votes": votes, "total": total}
            transaction.append("request", fields)
            return None

        return self._ledger.together(work)

    def _require_open(self, transaction: Transaction) -> GrantStanding:
        grant = transaction.standing.grants[self._name]
        if grant.is_closed:
            raise BudgetError(
                f"grant {self._name[1]!r} of data set {self._name[0]!r} was closed when the ledger was restored, "
                "because its later answers are lost: use a new grant. Stored answers can still be requested.",
                figures={"unit": "answers", "spent": grant.answers, "remaining": 0, "fits": 0},
            )
        return grant

    def _bound(self, key: str, total: int, plain: str) -> str:
        """Return a hash of votes for one request only, so that a copy of the row is useless for another request."""
        return self._key.bound_votes([*self._name, key, total, plain])

    def _require_charged(self, transaction: Transaction, key: str, row: Any, plain: str) -> None:
        """Raise for a row without an entry in the chain, such as a copy of another request's row."""
        # Only the key's owner can write a bound hash. Hashes of the first version are looked up in the entries.
        if row.votes != plain:
            return
        fields = {**self._where, "request": key, "votes": row.votes, "total": row.total}
        entries = transaction.containing("request", {"request": key})
        if not any(fields.items() <= entry.fields.items() for entry in entries):
            raise TamperedLedgerError(
                f"request {key!r} of grant {self._name[1]!r} is in a table of the ledger but in no entry: restore the "
                "newest copy, or find out who changed it."
            )

    def store(self, key: str, text: str) -> str:
        """Store what was drawn for a key, unless another process did first. Return the stored response."""

        def work(transaction: Transaction) -> str:
            answer = transaction.answer(request=key, **self._where)
            if answer is not None:
                return str(answer.told)
            transaction.append("answer", {**self._where, "request": key, "told": text})
            return text

        return self._ledger.together(work, is_charged=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One charge of a release. Public.

    Parameters
    ----------
    number : int
        Number of its entry.
    whom : str
        Owner of the account.
    what : str
        Name of the release.
    name : str or None
        Name of the grant, if it has one.
    time : str
        Time of the charge, by the clock of the process that charged.
    amount : Amount
        Amount in whole units.
    """

    number: int
    whom: str
    what: str
    name: str | None
    time: str
    amount: Amount


class LedgerAccount(_DataSetCharges):
    """The account of a data set in a ledger. Pass it as ``ledger=`` to `fit` of any method.

    Made by `Ledger.open_account` and `Ledger.account`.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
    data_set : str
        Name of the data set.
    """

    def __repr__(self) -> str:
        return f"LedgerAccount({self.ledger.place!r}, {self.data_set!r})"

    def one_release(self, what: str, *, release: str | None = None) -> Callable[[Sequence[Spending]], None]:
        """Return a function that charges one release, and charges it only once if it is announced twice.

        Parameters
        ----------
        what : str
            Public name of the method.
        release : str, optional
            Unique public key, for example a random one. What was charged under the same key is not charged
            again, even after a restart.
        """
        return _OneRelease(self, what, release)

    def has_release(self, release: str) -> bool:
        """Return whether anything was charged under the key of a release. Waits for charges in progress.

        Parameters
        ----------
        release : str
            The key given to `one_release`.
        """
        with self.ledger.writing() as transaction:
            return bool(self.of_release(transaction, {"release": release}))

    def charge_budget(self, what: str, budget: Budget) -> None:
        """Charge a release made outside this library. Call this before you make the release.

        Parameters
        ----------
        what : str
            A short public description.
        budget : Budget
            Epsilon and delta of the release.

        Raises
        ------
        BudgetError
            If the release would exceed what the account allows. Nothing is charged.
        LedgerError
            If the charge did not reach the disk.
        """
        spending = Spending(name=EVERYONE, epsilon=budget.epsilon, delta=budget.delta)
        stated = {"epsilon": budget.epsilon, "delta": budget.delta}
        self.charge([spending], {"what": check_name("what", what), "stated": stated})

    def state(self, whom: str = EVERYONE) -> AccountState:
        """Return the state of the account. Public.

        Parameters
        ----------
        whom : str, default="everyone"
            A person or group with a separate account.
        """
        for one in self.states():
            if one.whom == whom:
                return one
        raise LedgerError(f"{whom} has no account in {self.data_set!r}: open it first.")

    def states(self) -> list[AccountState]:
        """Return the states of the account of everyone, and of each person's or group's account."""
        with self.ledger.reading() as transaction:
            return self.states_in(transaction)

    def history(self) -> list[Charge]:
        """Return every charge, oldest first. Public."""
        with self.ledger.reading() as transaction:
            entries = [(entry.number, entry.fields) for entry in transaction.of_kind("grant")]
        return [
            Charge(
                number=number,
                whom=charge["whom"],
                what=str(fields.get("what", "")),
                name=fields.get("name"),
                time=str(fields.get("time", "")),
                amount=Amount(charge["loss"], charge["delta"]),
            )
            for number, fields in entries
            if fields["data_set"] == self.data_set
            for charge in fields["charges"]
        ]

    def grant(self, name: str, more: Mapping[str, Any] | None = None) -> LedgerGrant:
        """Return a named grant for an `Aggregator`, which continues the grant after a restart.

        Parameters
        ----------
        name : str
            Public. The same name stands for the same settings and answers, which are charged once.
        more : mapping, optional
            Further public settings, from names to plain values, that the name stands for as well.
        """
        return LedgerGrant(self, check_name("name", name), more)

    def book(self, design: Any) -> PaidInLedger:
        """Charge a new grant, and return its answers. An `Aggregator` calls this."""
        return self.grant(secrets.token_hex(8)).book(design)

    def resumed(self, _design: Any) -> None:
        """Return nothing: a grant without a name always starts as a new grant."""


class _OneRelease(Original, spends=("__call__",)):
    """Charges one release once, however often the release is announced."""

    def __init__(self, account: LedgerAccount, what: str, release: str | None) -> None:
        self._account, self._what, self._release = account, what, release
        self._charged: set[Any] = set()

    def __call__(self, spendings: Sequence[Spending]) -> None:
        """Charge a release when it is announced for the first time."""
        losses = tuple(
            (one.name, one.epsilon, one.delta, None if one.cost is None else one.cost.rdp.tobytes())
            for one in spendings
        )
        if losses not in self._charged:
            about: dict[str, Any] = {"what": self._what}
            if self._release is not None:
                about |= {"release": self._release, "part": len(self._charged) + 1}
            self._account.charge(spendings, about)
            self._charged.add(losses)
