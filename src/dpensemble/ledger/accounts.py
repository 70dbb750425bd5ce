"""What one data set may still spend, and the charges that it admits."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpensemble._original import Original
from dpensemble._spending import Spending
from dpensemble.budget import Budget
from dpensemble.errors import LedgerError
from dpensemble.ledger.account_state import AccountState
from dpensemble.ledger.charges import DataSetCharges
from dpensemble.ledger.filters import Amount
from dpensemble.ledger.grants import LedgerBook, LedgerGrant
from dpensemble.ledger.names import EVERYONE, check_name


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


class LedgerAccount(DataSetCharges):
    """The account of a data set in a ledger; `fit` of every method takes it as ``ledger=``.

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
            return bool(self.of_release(transaction, {"release": release}))

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
        for one in self.states():
            if one.whom == whom:
                return one
        raise LedgerError(f"{whom} has no account in {self.data_set!r}; open it first.")

    def states(self) -> list[AccountState]:
        """Return where the accounts of everyone, and of each person or group that has one, stand."""
        with self.ledger.reading() as transaction:
            return self.states_in(transaction)

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
