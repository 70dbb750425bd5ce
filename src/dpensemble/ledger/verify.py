"""Check that a ledger is unchanged: every hash, and every other table against the entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpensemble.errors import TamperedLedgerError
from dpensemble.ledger.chain import Entry, canonical
from dpensemble.ledger.standing import Standing
from dpensemble.ledger.tables import accounts, answers, charges, grants, requests
from dpensemble.ledger.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Contents of a verified ledger.

    Parameters
    ----------
    entries, accounts, grants, requests : int
        Numbers of entries, accounts, grants (all releases) and requests.
    head : str
        Hash of the newest entry.
    """

    entries: int
    accounts: int
    grants: int
    requests: int
    head: str


def verified(transaction: Transaction) -> Verified:
    """Check all entries and all tables. Raise at the first failed check."""
    standing = Standing()
    rows: dict[str, set[tuple[Any, ...]]] = {table.name: set() for table in _TABLES}
    kinds = Counter[str]()
    for entry in transaction.all_entries():
        standing = standing.after(entry)
        kinds[entry.kind] += 1
        if entry.kind in _ROWS:
            for table, row in _ROWS[entry.kind](entry):
                rows[table.name].add(row)
    for table in _TABLES:
        if {tuple(row) for row in transaction.rows(table)} != rows[table.name]:
            raise _changed(table.name)
    return Verified(
        entries=standing.number,
        accounts=kinds["account"],
        grants=kinds["grant"],
        requests=kinds["request"],
        head=standing.hash,
    )


def require_tables(transaction: Transaction) -> None:
    """Raise if the small tables of a ledger do not follow from its entries. Takes milliseconds."""
    standing = transaction.standing
    sums = {
        name: (one.spent.loss, one.spent.delta, one.charges) for name, one in standing.accounts.items() if one.charges
    }
    if transaction.sums() != sums:
        raise _changed(charges.name)
    terms = {(row.data_set, row.whom): row.terms for row in transaction.rows(accounts)}
    if terms != {name: one.terms for name, one in standing.accounts.items()}:
        raise _changed(accounts.name)
    settings = {(row.data_set, row.name): (row.settings, row.answers) for row in transaction.rows(grants)}
    if settings != {name: (one.settings, one.answers) for name, one in standing.grants.items()}:
        raise _changed(grants.name)


def _changed(table: str) -> TamperedLedgerError:
    return TamperedLedgerError(
        f"table {table} of the ledger does not follow from its entries: restore the newest copy, or find out who "
        "changed it. Nothing is charged until then."
    )


_TABLES = (accounts, charges, grants, requests, answers)
_Rows = list[tuple[Any, tuple[Any, ...]]]


def _account(entry: Entry) -> _Rows:
    fields = entry.fields
    return [(accounts, (fields["data_set"], fields["whom"], canonical(fields["terms"])))]


def _grant(entry: Entry) -> _Rows:
    fields = entry.fields
    rows: _Rows = [
        (charges, (entry.number, fields["data_set"], one["whom"], one["loss"], one["delta"]))
        for one in fields["charges"]
    ]
    if "name" in fields:
        settings = fields["settings"]
        rows.append((grants, (fields["data_set"], fields["name"], canonical(settings), settings["answers"])))
    return rows


def _request(entry: Entry) -> _Rows:
    fields = entry.fields
    return [(requests, (fields["data_set"], fields["grant_name"], fields["request"], fields["votes"], fields["total"]))]


def _answer(entry: Entry) -> _Rows:
    fields = entry.fields
    return [(answers, (fields["data_set"], fields["grant_name"], fields["request"], fields["told"]))]


_ROWS: dict[str, Callable[[Entry], _Rows]] = {
    "account": _account,
    "grant": _grant,
    "request": _request,
    "answer": _answer,
}
