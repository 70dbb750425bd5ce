"""Charge releases of a data set within a transaction, or refuse them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from dpensemble._spending import Spending
from dpensemble.errors import BudgetError, LedgerError
from dpensemble.ledger.account_state import AccountState, refusal
from dpensemble.ledger.chain import Entry, Fields, canonical
from dpensemble.ledger.entry_log import EntryLog
from dpensemble.ledger.filters import Amount, Terms
from dpensemble.ledger.names import EVERYONE, now
from dpensemble.ledger.tables import charges
from dpensemble.ledger.transaction import Transaction
from dpensemble.ledger.verify import require_tables


class DataSetCharges:
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

    def charge(self, spendings: Sequence[Spending], about: Fields) -> None:
        """Charge a release in a separate transaction, or raise. With a key, charge only what was not charged before."""
        with self.ledger.writing() as transaction:
            key: Fields = {name: about[name] for name in ("release", "part") if name in about}
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

    def of_release(self, transaction: Transaction, key: Fields) -> list[Entry]:
        """Return the charges of this data set with a key."""
        entries = transaction.containing("grant", canonical({"release": key["release"]})[1:-1])
        fields = {"data_set": self.data_set, **key}
        return [entry for entry in entries if fields.items() <= entry.fields.items()]

    def charge_in(self, transaction: Transaction, spendings: Sequence[Spending], about: Fields) -> None:
        """Charge the largest loss of any group to the account of everyone within a transaction, or raise."""
        if not all(one.worst_case for one in spendings):
            raise BudgetError(
                "ledger= takes releases whose guarantee holds for every data set, but analysis='data-dependent' and "
                "'until-spent' hold only for this private data set: use 'worst-case'."
            )
        require_tables(transaction)
        states = {state.whom: state for state in self.states_in(transaction)}
        _require_relation(states, spendings)
        price = _largest_loss(states, spendings)
        for state in states.values():
            # The charge of everyone counts in the accounts of groups that earlier releases opened.
            if not (state.spent + price).within(state.terms.limit):
                raise refusal(state, price)
        self.add_charge(transaction, price, about)

    def add_charge(self, transaction: Transaction, amount: Amount, about: Fields, whom: str = EVERYONE) -> None:
        """Add a charge within a transaction, whether it fits or not."""
        total = transaction.standing.accounts[self.data_set, whom].spent + amount
        charge = {"whom": whom, "loss": amount.loss, "delta": amount.delta}
        fields = {
            "data_set": self.data_set,
            "charges": [charge],
            "totals": [{"whom": whom, "loss": total.loss, "delta": total.delta}],
            "time": now(),
        }
        entry = transaction.append("grant", fields | about)
        transaction.add(charges, number=entry.number, data_set=self.data_set, **charge)

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
