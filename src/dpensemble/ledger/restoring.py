"""What a restored ledger is charged, so that no release since its copy counts for nothing.

A copy of a ledger does not know what was charged after it. A signed checkpoint that is newer than the copy states what
every account had spent, so that much is charged exactly. What came later is known to nobody but the owner. By default
all that is left of every account is charged, which is at least as much. Otherwise the owner states the later releases,
and the statement stands in the chain.

Grants that are open in the copy were charged as a whole, so they take nothing more. They are closed, because a lost
answer that was drawn again would be a second release under one charge.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from dpensemble._checks import integer_between
from dpensemble._spending import Spending
from dpensemble.errors import LedgerError, TamperedLedgerError
from dpensemble.ledger.chain import Fields, canonical
from dpensemble.ledger.charges import DataSetCharges
from dpensemble.ledger.entry_log import EntryLog
from dpensemble.ledger.filters import Amount
from dpensemble.ledger.names import EVERYONE, now
from dpensemble.ledger.standing import AccountStanding, GrantStanding, Name
from dpensemble.ledger.tables import accounts
from dpensemble.ledger.transaction import Transaction

_UP_TO, _REST = "charges up to checkpoint {:,}, whose entries are lost", "all that was left, after a restore"

# What stands in the place of a checkpoint if there is none.
_NONE: Fields = {"number": 0, "hash": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRelease:
    """A release after the copy of a ledger, as the owner states it.

    Parameters
    ----------
    data_set : str or None
        Name of its data set, or None in a ledger of one data set.
    what : str
        A short public description.
    epsilon, delta : float
        Its budget.
    """

    data_set: str | None
    what: str
    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Outcome of a restore.

    Parameters
    ----------
    ledger : str
        Its id.
    entries : int
        Number of entries of the copy.
    checkpoint : int
        Number of the newest checkpoint, or 0 without any.
    is_newer : bool
        Whether the checkpoint states more than the copy.
    spends_rest : bool
        Whether all that was left of every account is charged.
    charged : list of str
        Data sets and what they were charged for.
    closed : list of str
        Grants that are closed.
    """

    ledger: str
    entries: int
    checkpoint: int
    is_newer: bool
    spends_rest: bool
    charged: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)


class Restoring:
    """Charges a restored copy of a ledger within a transaction."""

    def __init__(self, ledger: EntryLog, transaction: Transaction) -> None:
        self._ledger, self._transaction = ledger, transaction
        self._entries = transaction.standing.number
        self._charged: list[str] = []

    def run(
        self,
        checkpoints: Sequence[Fields],
        released: Sequence[StatedRelease] | None,
        *,
        joins: bool,
        seen: int = 0,
    ) -> Restored:
        """Charge what is lost and write the statement, or raise. Without `released` the rest is charged.

        `seen` is the number of the newest entry that this machine's witness has seen.
        """
        if not checkpoints and (joins or released is not None):
            raise LedgerError(
                "checkpoint is missing: give the newest one that was stored away from the ledger. Without any, "
                "state no releases, so that all that is left is charged."
            )
        newer = [one for one in checkpoints if self._is_newer(one)]
        newest = max([_NONE, *checkpoints], key=lambda one: int(one["number"]))
        spent = [_spent(one) for one in newer]
        known = max(self._entries, int(newest["number"]))
        if released is not None and not released and seen > known:
            raise LedgerError(
                f"nothing_released cannot hold: this machine has seen entry {seen:,} of the ledger, and the copy and "
                f"the checkpoints end at entry {known:,}; restore the newest copy, state the releases, or leave it "
                "out, so that all that is left is charged."
            )
        if joins and newer:
            raise LedgerError(
                f"joins=True is for a ledger that lacks nothing, but this one lacks entry {newest['number']:,} of a "
                "checkpoint: it is a copy; leave joins out."
            )
        if released is not None and any(one is None for one in spent):
            raise LedgerError(
                f"checkpoint {newest['number']:,} was made by an earlier version and does not state what accounts had "
                "spent: state no releases, so that all that is left is charged."
            )
        closed = [] if joins else [name for (_, name), one in self._grants if not one.is_closed]
        self._transaction.append("restored", self._statement(newest, released, joins=joins))
        for one in spent:
            self._charge_up_to(one or {}, int(newest["number"]))
        if not joins:
            self._charge_rest() if released is None else self._charge_stated(released)
        return Restored(
            ledger=self._ledger.id,
            entries=self._entries,
            checkpoint=int(newest["number"]),
            is_newer=bool(newer),
            spends_rest=released is None and not joins,
            charged=self._charged,
            closed=sorted(closed),
        )

    @property
    def _grants(self) -> Iterable[tuple[Name, GrantStanding]]:
        return self._transaction.standing.grants.items()

    def _is_newer(self, checkpoint: Fields) -> bool:
        """Return whether a checkpoint states more than the copy. Raise if the copy contradicts the checkpoint."""
        number = integer_between("number", checkpoint.get("number"), 1, 2**62)
        entry = self._transaction.entry(number)
        if checkpoint.get("ledger") != self._ledger.id or (
            number <= self._entries and (entry is None or entry.hash != checkpoint.get("hash"))
        ):
            raise TamperedLedgerError(
                f"the ledger lacks entry {number:,} of a signed checkpoint, although it has more entries: it was "
                "rewritten, or it is the copy of another branch; restore the newest copy."
            )
        return number > self._entries

    def _statement(self, newest: Fields, released: Sequence[StatedRelease] | None, *, joins: bool) -> Fields:
        """Return the entry: what the copy was, and what the owner states about later releases."""
        stated: object = "all that was left of every account"
        if joins:
            stated = "another machine charges this ledger, which was not restored"
        elif released is not None:
            stated = [asdict(one) | {"epsilon": str(one.epsilon), "delta": str(one.delta)} for one in released]
        return {
            "checkpoint": {"number": newest["number"], "hash": newest["hash"]},
            "copy": self._entries,
            "closes": not joins,
            "released": stated,
            "time": now(),
        }

    def _charge_up_to(self, spent: Mapping[Name, AccountStanding], number: int) -> None:
        """Open accounts that the copy lacks, and charge what the checkpoint states beyond the copy."""
        for (data_set, whom), stated in spent.items():
            there = self._transaction.standing.accounts.get((data_set, whom))
            if there is None:
                terms = json.loads(stated.terms)
                self._transaction.append("account", {"data_set": data_set, "whom": whom, "terms": terms, "time": now()})
                self._transaction.add(accounts, data_set=data_set, whom=whom, terms=canonical(terms))
                there = AccountStanding(stated.terms)
            elif there.terms != stated.terms:
                raise TamperedLedgerError(
                    f"the account of {data_set!r} has other terms than in a signed checkpoint: restore another copy."
                )
            missing = Amount(
                max(0, stated.spent.loss - there.spent.loss), max(0, stated.spent.delta - there.spent.delta)
            )
            self._charge(data_set, missing, _UP_TO.format(number), whom=whom)

    def _charge_rest(self) -> None:
        for data_set in self._data_sets():
            self._charge(data_set, self._left(data_set), _REST)

    def _charge_stated(self, released: Sequence[StatedRelease]) -> None:
        for one in released:
            names = self._data_sets()
            data_set = names[0] if one.data_set is None and len(names) == 1 else one.data_set
            if data_set is None or data_set not in names:
                raise LedgerError(
                    f"data_set={one.data_set!r:.60} is none of the ledger's data sets for {one.what!r:.60}: name one "
                    f"of {', '.join(map(repr, names))}."
                )
            amount = left = self._left(data_set)
            if math.isfinite(one.epsilon) and math.isfinite(one.delta):
                terms = self._account(data_set).everyone(self._transaction).terms
                price = terms.price(Spending(name=EVERYONE, epsilon=one.epsilon, delta=one.delta))
                # The release happened, whether it fits or not. Nothing is left if it does not fit.
                amount = price if price.within(left) else left
            self._charge(data_set, amount, one.what)

    def _charge(self, data_set: str, amount: Amount, what: str, whom: str = EVERYONE) -> None:
        if amount != Amount():
            self._account(data_set).add_charge(self._transaction, amount, {"what": what, "restored": True}, whom)
            self._charged.append(f"{data_set}: {what}")

    def _left(self, data_set: str) -> Amount:
        return self._account(data_set).everyone(self._transaction).left

    def _account(self, data_set: str) -> DataSetCharges:
        return DataSetCharges(self._ledger, data_set)

    def _data_sets(self) -> list[str]:
        return sorted({data_set for data_set, _ in self._transaction.standing.accounts})


def _spent(checkpoint: Fields) -> dict[Name, AccountStanding] | None:
    """Return what every account had spent by a checkpoint, or None if an earlier version made the checkpoint."""
    # The checkpoint that the ledger writes for itself holds the whole standing.
    rows = checkpoint.get("accounts", checkpoint.get("standing", {}).get("accounts"))
    if rows is None:
        return None
    return {
        (data_set, whom): AccountStanding(terms, Amount(loss, delta), number)
        for data_set, whom, terms, loss, delta, number in rows
    }
