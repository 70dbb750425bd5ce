"""Reads and additions of one transaction in the database of a ledger."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import sqlalchemy as sa

from dpensemble.errors import TamperedLedgerError
from dpensemble.ledger.chain import Entry, following
from dpensemble.ledger.standing import Standing, follow
from dpensemble.ledger.tables import charges, entries

#: Seconds that a charge waits for other charges.
PATIENCE = 60
# Statements are built once, because building one takes longer than SQLite takes to run it.
_NEWEST = sa.select(entries).order_by(entries.c.number.desc()).limit(1)
# Number of entries that are read at once.
_BATCH = 1000
_FROM = sa.select(entries).where(entries.c.number >= sa.bindparam("first")).order_by(entries.c.number).limit(_BATCH)


@cache
def _select_statement(table: sa.Table, names: tuple[str, ...]) -> sa.Select[Any]:
    return sa.select(table).where(*_conditions(table, names)).order_by(table.columns[0])


@cache
def _insert_statement(table: sa.Table) -> sa.Insert:
    return sa.insert(table)


def _conditions(table: sa.Table, names: tuple[str, ...]) -> list[Any]:
    return [table.c[name] == sa.bindparam(name) for name in names]


class Transaction:
    """Reads and additions that happen together, or not at all."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        # Nobody else adds meanwhile, so the newest entry stays the newest until this transaction adds one.
        self._last: Entry | None = None
        #: Standing of accounts and grants after all entries so far.
        self.standing = Standing()

    def catch_up(self, standing: Standing) -> None:
        """Follow the entries since `standing`, which this process or a signature has confirmed, or raise."""
        later = self._entries_from(standing.number)
        if standing.number:
            same = next(later, None)
            if same is None or (same.number, same.hash) != (standing.number, standing.hash):
                raise TamperedLedgerError(
                    f"entry {standing.number:,} of the ledger is missing or different: the ledger is an old copy, or "
                    "was changed; restore the newest copy. Nothing is charged until then."
                )
        self.standing = follow(standing, later)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Undo, within the transaction, what the block added if the block raises."""
        last, standing = self._last, self.standing
        try:
            with self._connection.begin_nested():
                yield
        except BaseException:
            self._last, self.standing = last, standing
            raise

    def rows(self, table: sa.Table, **where: Any) -> list[Any]:
        """Return the rows of a table with these values, in the order of its first column."""
        return list(self._connection.execute(_select_statement(table, tuple(where)), where))

    def row(self, table: sa.Table, **where: Any) -> Any:
        """Return the one row with these values, or None."""
        rows = self.rows(table, **where)
        return rows[0] if rows else None

    def sums(self) -> dict[tuple[str, str], tuple[int, int, int]]:
        """Return the sums of losses and deltas, and the number of rows, in the table of charges."""
        columns = (sa.func.sum(charges.c.loss), sa.func.sum(charges.c.delta), sa.func.count())
        query = sa.select(charges.c.data_set, charges.c.whom, *columns).group_by(charges.c.data_set, charges.c.whom)
        return {
            (data_set, whom): (int(loss), int(delta), int(number))
            for data_set, whom, loss, delta, number in self._connection.execute(query)
        }

    def containing(self, kind: str, text: str) -> list[Entry]:
        """Return the entries of a kind whose body contains a text. Reads all entries of that kind."""
        query = sa.select(entries).where(entries.c.kind == kind, entries.c.body.contains(text, autoescape=True))
        return [Entry(*row) for row in self._connection.execute(query)]

    def of_kind(self, kind: str) -> list[Entry]:
        """Return the entries of a kind, oldest first."""
        return [Entry(*row) for row in self.rows(entries, kind=kind)]

    def last(self) -> Entry | None:
        """Return the newest entry."""
        if self._last is None:
            row = self._connection.execute(_NEWEST).first()
            self._last = None if row is None else Entry(*row)
        return self._last

    def entry(self, number: int) -> Entry | None:
        """Return an entry by its number."""
        row = self.row(entries, number=number)
        return None if row is None else Entry(*row)

    def all_entries(self) -> Iterator[Entry]:
        """Yield all entries in turn."""
        return self._entries_from(0)

    def _entries_from(self, number: int) -> Iterator[Entry]:
        while rows := self._connection.execute(_FROM, {"first": number}).all():
            yield from (Entry(*row) for row in rows)
            if len(rows) < _BATCH:
                return
            number = rows[-1].number + 1

    def add(self, table: sa.Table, **values: Any) -> None:
        """Add a row."""
        self._connection.execute(_insert_statement(table), values)

    def add_all(self, table: sa.Table, rows: Sequence[sa.Row[tuple[object, ...]]]) -> None:
        """Add rows of the same table of another database, in their order."""
        for start in range(0, len(rows), _BATCH):
            self._connection.execute(_insert_statement(table), [row._asdict() for row in rows[start : start + _BATCH]])

    def append(self, kind: str, fields: dict[str, Any]) -> Entry:
        """Add an entry to the chain."""
        if kind != "ledger" and self.standing.schema > 1:
            # Two copies of a ledger never have the same entry, even for the same charge.
            fields = fields | {"nonce": secrets.token_hex(8)}
        entry = following(self.last(), kind, fields)
        self.standing = self.standing.after(entry)
        self.add(
            entries,
            number=entry.number,
            kind=entry.kind,
            body=entry.body,
            previous=entry.previous,
            hash=entry.hash,
        )
        self._last = entry
        return entry
