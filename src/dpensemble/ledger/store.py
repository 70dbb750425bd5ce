"""The only module that connects to a database: SQLite by default, or PostgreSQL for several machines.

Every write is one transaction that excludes all other writes: ``BEGIN IMMEDIATE`` in SQLite, an advisory
lock in PostgreSQL. When it returns, it has reached the disk (``synchronous=FULL`` over a write-ahead log, or
PostgreSQL's ``synchronous_commit``). Rows are added and never changed, and triggers enforce this (`protection.py`).
Only the entries decide what may be charged (`standing.py`). The contents of the other tables follow from the entries,
and `verify` compares them.
"""

from __future__ import annotations

import logging
import math
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DisconnectionError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dpensemble.errors import LedgerError
from dpensemble.ledger import protection
from dpensemble.ledger.addresses import ServerPlace, vetted_url
from dpensemble.ledger.tables import METADATA, entries
from dpensemble.ledger.transaction import PATIENCE, Transaction

# Number of connections that a service keeps open.
_KEPT_OPEN = 5
# Advisory lock of a ledger's writers in PostgreSQL, by its tables' name.
_LOCK = 0x6470656E73656D62

# Without a handler, Python prints a traceback when a signal interrupts the end of a connection.
logging.getLogger("sqlalchemy").addHandler(logging.NullHandler())


def step(name: str) -> None:
    """Mark one step on the way to the disk. Tests replace this function to kill the process."""


class LockedLedgerError(LedgerError):
    """Another program holds the lock of the ledger. Nothing was written."""


class Store:
    """A database with the tables of a ledger: a file (SQLite), or an address such as ``postgresql://user@host/name``."""

    def __init__(self, where: str | Path) -> None:
        #: Seconds that a transaction waits for locks of others.
        self.patience: float = PATIENCE
        #: Whether connections are kept open.
        self.is_kept_open = False
        address = str(where)
        self.file = None if "://" in address else Path(address).absolute()
        #: The place in words that may be shown, without a password.
        self.place = str(self.file)
        if self.file is not None:
            # Only `create` makes a file.
            self._url = _url_of_file(self.file, "rw")
        else:
            self._url, self.place = vetted_url(address)
        # A connection for each transaction, so that no connection is shared with a fork.
        self._engine = self._new_engine(self._url, poolclass=NullPool)

    @property
    def identities(self) -> tuple[str, ...]:
        """Permanent names of one database: real path and path of the file, or what the server states and the address.

        Raises `LedgerError` if the database cannot be reached.
        """
        if self.file is not None:
            # A link that is changed to point to another file is another ledger in the same place.
            return tuple(dict.fromkeys((os.path.realpath(self.file), os.path.abspath(self.file))))
        return self._server.names(self._url.set(username=None, drivername="postgresql").render_as_string())

    @cached_property
    def _server(self) -> ServerPlace:
        """What the server states about the ledger's tables."""
        with self._database_errors("read"), self._engine.connect() as connection:
            return ServerPlace.of(connection, entries.name)

    def may_be(self, place: str) -> bool:
        """Return whether a remembered place may be this database, under any address."""
        return place in self.identities if self.file is not None else self._server.may_be(place)

    def _new_engine(self, url: sa.URL, **pooled: Any) -> sa.Engine:
        if self.file is not None:
            pooled["connect_args"] = {"timeout": self.patience, "isolation_level": None}
        else:
            # A server that cannot be reached is given up, too. The address may state other limits.
            limits = {"connect_timeout": math.ceil(self.patience), "tcp_user_timeout": self._milliseconds}
            stated = self._url.query
            pooled["connect_args"] = {name: value for name, value in limits.items() if name not in stated}
        try:
            engine = sa.create_engine(url, **pooled)
        except ImportError:
            raise LedgerError(
                'a ledger in PostgreSQL needs psycopg, which is not installed: run pip install "dpensemble[ledger]".'
            ) from None
        if self.file is not None:
            sa.event.listen(engine, "connect", _durable_sqlite)
            sa.event.listen(engine, "connect", self._note_file)
            sa.event.listen(engine, "checkout", self._require_same_file)
        return engine

    def exists(self) -> bool:
        """Return whether there is an entry of a ledger. An interrupted `create` leaves tables without entries."""
        try:
            if self.file is not None and not self.file.exists():
                return False
        except OSError as error:
            raise LedgerError(f"{self.place} cannot be a ledger ({error.strerror}): correct the path.") from None
        with self._database_errors("read"), self._engine.connect() as connection:
            if not sa.inspect(connection).has_table(entries.name):
                return False
            return connection.execute(sa.select(entries.c.number).limit(1)).first() is not None

    def create(self, fill: Callable[[Transaction], None]) -> None:
        """Create the tables and what `fill` adds, in one transaction. Rows can be added and never changed."""
        url = self._url if self.file is None else _url_of_file(self.file, "rwc")
        engine = self._new_engine(url, poolclass=NullPool)
        with self._database_errors("made"), engine.connect() as connection:
            self._begin_writing(connection)
            try:
                METADATA.create_all(connection)
                self._protect(connection)
                fill(Transaction(connection))
                step("created")
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    def protect(self) -> None:
        """Create missing triggers."""
        with self._database_errors("protected"), self._engine.begin() as connection:
            self._protect(connection)

    def _protect(self, connection: sa.Connection) -> None:
        there = protection.installed(connection)
        for name, statements in self._triggers().items():
            if name not in there:
                for statement in statements:
                    connection.exec_driver_sql(statement)

    def missing(self) -> tuple[set[str], set[str]]:
        """Return the names of missing triggers: those of every version, and those of only the present version."""
        with self._database_errors("read"), self._engine.connect() as connection:
            missing = set(self._triggers()) - protection.installed(connection)
        dialect = self._engine.dialect.name
        first = {name for table in METADATA.tables.values() for name in protection.first_names(table, dialect)}
        return missing & first, missing - first

    def _triggers(self) -> dict[str, list[str]]:
        dialect = self._engine.dialect.name
        return {
            name: statements
            for table in METADATA.tables.values()
            for name, statements in protection.statements(table, dialect).items()
        }

    @contextmanager
    def kept_open(self, patience: float = PATIENCE) -> Iterator[None]:
        """Keep connections open and reuse them within the block. No process may fork in the block.

        Within the block a transaction waits `patience` seconds for locks of others.
        Closing the last connection to SQLite clears its log, which is slow. PostgreSQL starts a process for each.
        """
        alone, before = self._engine, self.patience
        self.patience = patience
        # A restarted database has forgotten its connections. A ping detects that.
        self._engine = self._new_engine(
            self._url, pool_size=_KEPT_OPEN, max_overflow=-1, pool_pre_ping=self.file is None
        )
        try:
            if self.file is not None:
                with self._database_errors("read"), self._engine.connect() as connection:
                    # Only connections that were read from are open.
                    connection.execute(sa.select(entries.c.number).limit(1)).all()
                    connection.rollback()
            self.is_kept_open = True
            yield
        finally:
            self.is_kept_open, self.patience = False, before
            pooled, self._engine = self._engine, alone
            pooled.dispose()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Read within the block, from a consistent snapshot."""
        with self._database_errors("read"), self._engine.connect() as connection:
            if self.file is not None:
                connection.exec_driver_sql("BEGIN")
            else:
                # In one trip to the server.
                connection.exec_driver_sql(
                    f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET LOCAL lock_timeout = {self._milliseconds}"
                )
            yield Transaction(connection)
            connection.rollback()

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Read and add within the block while nobody else adds. The additions are on the disk at the end, or undone."""
        with self._database_errors("written"), self._engine.connect() as connection:
            self._begin_writing(connection)
            step("begun")
            try:
                yield Transaction(connection)
                step("added")
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
            step("committed")

    def _begin_writing(self, connection: sa.Connection) -> None:
        if self.file is not None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql(
                f"SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = {self._milliseconds}"
            )
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")

    @property
    def _milliseconds(self) -> int:
        return round(1000 * self.patience)

    def _note_file(self, _connection: Any, record: Any) -> None:
        record.info["file"] = self._identity()

    def _require_same_file(self, _connection: Any, record: Any, _proxy: Any) -> None:
        """Open the file again if another file has taken its place. Refuse a file with a second name."""
        if record.info["file"] != self._identity():
            raise DisconnectionError

    def _identity(self) -> tuple[int, int] | None:
        assert self.file is not None  # noqa: S101
        try:
            status = self.file.stat()
        except FileNotFoundError:
            return None
        if status.st_nlink > 1:
            raise two_names(self.file)
        return status.st_dev, status.st_ino

    @contextmanager
    def _database_errors(self, what: str) -> Iterator[None]:
        """Turn an error of the database into one sentence, without its content."""
        try:
            yield
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None)
            reason = str(cause or type(error).__name__).split("\n")[0]
            if _is_lock(cause):
                raise LockedLedgerError(
                    f"ledger {self.place} cannot be {what} now ({reason[:200]}), because another program holds its "
                    "lock: end that program, or try again later."
                ) from None
            if what != "made" and self.file is not None and not self.file.exists():
                reason = "the file is missing"
            raise LedgerError(
                f"ledger {self.place} cannot be {what} ({reason[:200]}), so no noise is drawn: repair it and try again."
            ) from None


def _url_of_file(file: Path, mode: str) -> sa.URL:
    return sa.URL.create("sqlite", database=f"file:{quote(str(file))}", query={"mode": mode, "uri": "true"})


def _is_lock(reason: object) -> bool:
    """Return whether a database reports that others hold a lock."""
    if isinstance(reason, sqlite3.Error):
        # The lower byte is the class of an error.
        return vars(reason).get("sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    # psycopg may not be installed.
    return type(reason).__name__ == "LockNotAvailable"


def _durable_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "recursive_triggers = ON"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def two_names(path: Path) -> LedgerError:
    """Return the error of a file that has a second name, a hard link."""
    return LedgerError(
        f"{path} has a second name (a hard link), under which another program could charge it without being noticed. "
        "Back-ups by hard links, such as 'cp -al' or 'rsync --link-dest' on the same disk, make such names: copy the "
        "ledger by 'sqlite3 ledger.db \".backup copy.db\"' instead, and remove the other name."
    )
