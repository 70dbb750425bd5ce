"""Remaining budgets of one data set, and charges to them."""

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


class LedgerAccount(DataSetCharges):
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

    def book(self, design: Any) -> LedgerBook:
        """Return the book of a new grant. An `Aggregator` calls this."""
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
