"""Whether a ledger is what it was: every hash, and every other table worked out anew from the entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpensemble.errors import LedgerError
from dpensemble.ledger.chain import START, Entry, canonical
from dpensemble.ledger.store import Transaction, accounts, answers, charges, grants, requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a ledger that holds consists of.

    Parameters
    ----------
    entries, accounts, grants, requests : int
        Numbers of them; grants are all releases.
    head : str
        Hash of the newest entry.
    """

    entries: int
    accounts: int
    grants: int
    requests: int
    head: str


def verified(transaction: Transaction) -> Verified:
    """Check all entries and all tables; raise on the first thing that does not hold."""
    previous, number = START, 0
    rows: dict[str, set[tuple[Any, ...]]] = {table.name: set() for table in _TABLES}
    kinds = dict.fromkeys(("ledger", *_ROWS), 0)
    for entry in transaction.all_entries():
        number += 1
        if entry.number != number or entry.previous != previous or not entry.holds():
            raise LedgerError(f"entry {number:,} of the ledger was changed, removed or put in.")
        if entry.kind not in kinds or (entry.kind == "ledger") != (number == 1):
            raise LedgerError(f"entry {number:,} of the ledger has a kind that has no place there.")
        kinds[entry.kind] += 1
        if entry.kind in _ROWS:
            for table, row in _ROWS[entry.kind](entry):
                rows[table.name].add(row)
        previous = entry.hash
    for table in _TABLES:
        found = {tuple(row) for row in transaction.rows(table)}
        if found != rows[table.name]:
            raise LedgerError(f"table {table.name} of the ledger does not follow from its entries; it was changed.")
    return Verified(
        entries=number, accounts=kinds["account"], grants=kinds["grant"], requests=kinds["request"], head=previous
    )


_TABLES = (accounts, charges, grants, requests, answers)
_Rows = list[tuple[Any, tuple[Any, ...]]]


def _account(entry: Entry) -> _Rows:
    said = entry.fields
    return [(accounts, (said["data_set"], said["whom"], canonical(said["terms"])))]


def _grant(entry: Entry) -> _Rows:
    said = entry.fields
    found: _Rows = [
        (charges, (entry.number, said["data_set"], one["whom"], one["loss"], one["delta"])) for one in said["charges"]
    ]
    if "name" in said:
        settings = said["settings"]
        found.append((grants, (said["data_set"], said["name"], canonical(settings), settings["answers"])))
    return found


def _request(entry: Entry) -> _Rows:
    said = entry.fields
    return [(requests, (said["data_set"], said["grant_name"], said["request"], said["votes"], said["total"]))]


def _answer(entry: Entry) -> _Rows:
    said = entry.fields
    return [(answers, (said["data_set"], said["grant_name"], said["request"], said["told"]))]


_ROWS: dict[str, Callable[[Entry], _Rows]] = {
    "account": _account,
    "grant": _grant,
    "request": _request,
    "answer": _answer,
}
