"""What one data set may still spend, and the charges that it admits."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpensemble._original import Original
from dpensemble._spending import Spending
from dpensemble.budget import Budget
from dpensemble.cost import gaussian_epsilon
from dpensemble.errors import BudgetError, LedgerError
from dpensemble.ledger.chain import Entry, canonical
from dpensemble.ledger.filters import DELTA_UNITS, LOSS_UNITS, Amount, Terms
from dpensemble.ledger.grants import LedgerBook, LedgerGrant
from dpensemble.ledger.names import EVERYONE, check_name, now
from dpensemble.ledger.store import Transaction, charges
from dpensemble.ledger.verify import require_tables

if TYPE_CHECKING:
    from dpensemble.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """Where an account stands; public.

    Parameters
    ----------
    data_set, whom : str
        Whose account.
    terms : Terms
        What it allows.
    spent, left : Amount
        In whole units.
    """

    data_set: str
    whom: str
    terms: Terms
    spent: Amount
    left: Amount

    @property
    def share_left(self) -> float:
        """Share of the limit that is left."""
        return self.left.loss / self.terms.limit.loss

    @property
    def fitting_epsilon(self) -> float:
        """Largest epsilon of a release without a delta that would still fit, rounded down; 0 if none would."""
        low, high = 0.0, self.terms.budget.epsilon
        while high - low > 1e-4 * max(high, 1e-3):
            middle = (low + high) / 2
            asked = self.terms.price(Spending(name=self.whom, epsilon=middle, delta=0.0))
            low, high = (middle, high) if asked.loss <= self.left.loss else (low, middle)
        return math.floor(low * 1e4) / 1e4

    @property
    def fitting_gaussian(self) -> float | None:
        """Largest epsilon, at the account's delta, of Gaussian noise that would still fit; None for other filters.

        Label moments are such noise; of answers by a law about as much fits.
        """
        mu = self.terms.gaussian_left(self.left)
        return None if mu is None else math.floor(gaussian_epsilon(mu, self.terms.budget.delta) * 1e3) / 1e3

    @property
    def fitting_words(self) -> str:
        """What single release would still fit, in words that follow "enough for"."""
        fits, gaussian = self.fitting_epsilon, self.fitting_gaussian
        delta = f"delta {self.terms.budget.delta:g}"
        if not gaussian:
            return f"a release of epsilon up to {fits:.4g} without a delta" if fits else "nothing any more"
        other = f", or of epsilon up to {fits:.4g} without a delta where no more is known of it" if fits else ""
        return f"a release by Gaussian noise of epsilon up to {gaussian:.4g} at {delta}{other}"

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values; losses in units of 1."""
        return {
            "data_set": self.data_set,
            "whom": self.whom,
            **self.terms.to_dict(),
            "limit": self.terms.limit.loss / LOSS_UNITS,
            "spent": self.spent.loss / LOSS_UNITS,
            "left": self.left.loss / LOSS_UNITS,
            "share_left": self.share_left,
            "delta_left": self.left.delta / DELTA_UNITS,
            "fitting_epsilon": self.fitting_epsilon,
            "fitting_gaussian": self.fitting_gaussian,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One charge of a release; public.

    Parameters
    ----------
    number : int
        Of its entry.
    whom : str
        Whose account.
    what : str
        What was released.
    name : str or None
        Of the grant, where it has one.
    time : str
        When, by the clock of whoever charged.
    amount : Amount
        In whole units.
    """

    number: int
    whom: str
    what: str
    name: str | None
    time: str
    amount: Amount


class LedgerAccount:
    """The account of a data set in a ledger; `fit` of every method takes it as ``ledger=``.

    Made by `Ledger.open_account` and `Ledger.account`.

    Parameters
    ----------
    ledger : Ledger
        The ledger.
    data_set : str
        Name of the data set.
    """

    def __init__(self, ledger: Ledger, data_set: str) -> None:
        self.ledger, self.data_set = ledger, data_set

    def __repr__(self) -> str:
        return f"LedgerAccount({self.ledger.place!r}, {self.data_set!r})"

    def one_release(self, what: str, *, release: str | None = None) -> Callable[[Sequence[Spending]], None]:
        """Return what charges one release, and does not charge it again where it is announced twice.

        Parameters
        ----------
        what : str
            Public name of the method.
        release : str, optional
            Public key that nobody else uses, such as a random one. What was charged under the same key is not charged
            again, also after a restart.
        """
        return _OneRelease(self, what, release)

    def has_release(self, release: str) -> bool:
        """Return whether anything was charged under the key of a release; waits for charges that are under way.

        Parameters
        ----------
        release : str
            What `one_release` was given.
        """
        with self.ledger.writing() as transaction:
            return bool(self._of_release(transaction, {"release": release}))

    def charge_budget(self, what: str, budget: Budget) -> None:
        """Charge a release of your own, of which epsilon and delta are known, before you make it.

        Parameters
        ----------
        what : str
            A few public words.
        budget : Budget
            What it costs.

        Raises
        ------
        BudgetError
            If the release would pass what the account allows. Nothing is charged.
        LedgerError
            If the charge did not reach the disk.
        """
        spending = Spending(name=EVERYONE, epsilon=budget.epsilon, delta=budget.delta)
        self.charge([spending], {"what": check_name("what", what)})

    def state(self, whom: str = EVERYONE) -> AccountState:
        """Return where the account stands; public.

        Parameters
        ----------
        whom : str, default="everyone"
            A person or group that has an account of its own.
        """
        for found in self.states():
            if found.whom == whom:
                return found
        raise LedgerError(f"{whom} has no account in {self.data_set!r}; open it first.")

    def states(self) -> list[AccountState]:
        """Return where the accounts of everyone, and of each person or group that has one, stand."""
        with self.ledger.reading() as transaction:
            return self._states(transaction)

    def history(self) -> list[Charge]:
        """Return every charge, oldest first; public."""
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
        """Return a named grant for an `Aggregator`, which goes on with it after a restart.

        Parameters
        ----------
        name : str
            Public. The same name stands for the same settings and answers, which are charged once.
        more : mapping, optional
            Public settings beyond the aggregator's, from names to plain values, that the name stands for as well.
        """
        return LedgerGrant(self, check_name("name", name), more)

    def book(self, design: Any) -> LedgerBook:
        """Return a new grant's book; an `Aggregator` calls this."""
        return self.grant(secrets.token_hex(8)).book(design)

    def resumed(self, _design: Any) -> None:
        """Return nothing: a grant without a name begins anew."""

    def _states(self, transaction: Transaction) -> list[AccountState]:
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
        """Charge a release in a transaction of its own, or refuse it; with a key only what was not charged before."""
        with self.ledger.writing() as transaction:
            key: dict[str, Any] = {name: about[name] for name in ("release", "part") if name in about}
            before = self._of_release(transaction, key) if key else []
            if not before:
                self.charge_in(transaction, spendings, about)
                return
            asked = _largest_loss({state.whom: state for state in self._states(transaction)}, spendings)
        paid = before[0].fields["charges"][0]
        if not asked.within(Amount(paid["loss"], paid["delta"])):
            raise LedgerError(
                f"ledger: release {about['release']} of data set {self.data_set!r} was charged less than it takes now; "
                "finish it with the version that it was begun with."
            )

    def _of_release(self, transaction: Transaction, key: dict[str, Any]) -> list[Entry]:
        """Return the charges of this data set that have a key."""
        found = transaction.containing("grant", canonical({"release": key["release"]})[1:-1])
        wanted = {"data_set": self.data_set, **key}
        return [entry for entry in found if wanted.items() <= entry.fields.items()]

    def charge_in(self, transaction: Transaction, spendings: Sequence[Spending], about: dict[str, Any]) -> None:
        """Charge the largest loss of any group to the account of everyone within a transaction, or refuse."""
        if not all(one.worst_case for one in spendings):
            raise BudgetError(
                "ledger= takes releases whose guarantee holds for every data set, and analysis='data-dependent' or "
                "'until-spent' holds for the data at hand only; use 'worst-case'."
            )
        require_tables(transaction)
        states = {state.whom: state for state in self._states(transaction)}
        _require_relation(states, spendings)
        asked = _largest_loss(states, spendings)
        for state in states.values():
            # The charge of everyone counts in the accounts of groups, which earlier releases opened.
            if not (state.spent + asked).within(state.terms.limit):
                raise _refusal(state, asked)
        total = states[EVERYONE].spent + asked
        charge = {"whom": EVERYONE, "loss": asked.loss, "delta": asked.delta}
        fields = {
            "data_set": self.data_set,
            "charges": [charge],
            "totals": [{"whom": EVERYONE, "loss": total.loss, "delta": total.delta}],
            "time": now(),
        }
        entry = transaction.append("grant", fields | about)
        transaction.add(charges, number=entry.number, data_set=self.data_set, **charge)


class _OneRelease(Original, spends=("__call__",)):
    """Charges one release once, however often the release is announced."""

    def __init__(self, account: LedgerAccount, what: str, release: str | None) -> None:
        self._account, self._what, self._release = account, what, release
        self._charged: set[Any] = set()

    def __call__(self, spendings: Sequence[Spending]) -> None:
        """Charge a release when it is announced for the first time."""
        announced = tuple(
            (one.name, one.epsilon, one.delta, None if one.cost is None else one.cost.rdp.tobytes())
            for one in spendings
        )
        if announced not in self._charged:
            about: dict[str, Any] = {"what": self._what}
            if self._release is not None:
                about |= {"release": self._release, "part": len(self._charged) + 1}
            self._account.charge(spendings, about)
            self._charged.add(announced)


def _require_relation(states: dict[str, AccountState], spendings: Sequence[Spending]) -> None:
    """Refuse a release whose loss is stated for other neighbours than the account's."""
    allowed = {state.terms.relation for state in states.values()}
    for spending in spendings:
        if spending.relation is not None and spending.relation not in allowed:
            raise BudgetError(
                f"ledger: the account is for relation={min(allowed).value!r}, and this release is for "
                f"{str(spending.relation)!r}, whose losses do not add to it; use relation={min(allowed).value!r}."
            )


def _largest_loss(states: dict[str, AccountState], spendings: Sequence[Spending]) -> Amount:
    """Return the largest loss of any group, which is charged to the account that all records share.

    A record is in one group of a run, so it loses no more. Names of groups decide nothing, because the next run may
    name the same records otherwise.
    """
    if EVERYONE not in states or not spendings:
        raise LedgerError("the data set has no account of everyone; open it first.")
    amounts = [states[EVERYONE].terms.price(spending) for spending in spendings]
    return Amount(max(one.loss for one in amounts), max(one.delta for one in amounts))


def _refusal(state: AccountState, asked: Amount) -> BudgetError:
    """Return the error of a release that would pass what an account allows; it names public numbers only."""
    terms, parts = state.terms, []
    if asked.loss > state.left.loss:
        loss, left, limit = (one / LOSS_UNITS for one in (asked.loss, state.left.loss, terms.limit.loss))
        parts.append(f"takes {loss:.6g} of {terms.unit}, and {left:.6g} of {limit:.6g} is left")
    if asked.delta > state.left.delta:
        delta, left = asked.delta / DELTA_UNITS, state.left.delta / DELTA_UNITS
        parts.append(f"takes a delta of {delta:.3g}, and {left:.3g} is left for releases without a Renyi curve")
    words = state.fitting_words
    would = f"{words} would fit" if state.fitting_epsilon or state.fitting_gaussian else "nothing fits any more"
    figures = {
        "unit": terms.unit,
        **{name: one.loss / LOSS_UNITS for name, one in _three(state, asked)},
        **{f"{name}_delta": one.delta / DELTA_UNITS for name, one in _three(state, asked)},
        # In the unit of what was requested.
        "fits": state.left.loss / LOSS_UNITS,
    }
    return BudgetError(
        f"ledger: this release {' and '.join(parts)} for {state.whom} of data set {state.data_set!r} (lifetime epsilon "
        f"{terms.budget.epsilon:g} at delta {terms.budget.delta:g}); nothing was charged, and {would}.",
        figures=figures,
    )


def _three(state: AccountState, asked: Amount) -> list[tuple[str, Amount]]:
    return [("requested", asked), ("spent", state.spent), ("remaining", state.left)]
