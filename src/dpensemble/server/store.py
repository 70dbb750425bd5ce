"""The only module that connects to a database: SQLite by default, or PostgreSQL for several machines.

Every write is one transaction that excludes all other writes: ``BEGIN IMMEDIATE`` in SQLite, an advisory
lock in PostgreSQL. When it returns, it has reached the disk (``synchronous=FULL`` over a write-ahead log, or
PostgreSQL's ``synchronous_commit``). Only the entries decide what may be charged (`entries.py`). The contents of the
other tables follow from the entries, and verification compares them.

Rows are added and never changed. Triggers refuse changed rows, existing keys, negative numbers, and entries that do not
follow the newest one. They stop mistakes, and users who may only insert rows. The chain, the witness and checkpoints
detect changes by somebody who may drop triggers.
"""

from __future__ import annotations

import logging
import math
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, DisconnectionError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dpensemble.errors import InvalidParameterError, LedgerError
from dpensemble.server.entries import METADATA, Transaction, entries

_SCHEME = "postgresql://"
# Settings of libpq that a ledger's address may hold besides those of a private table's address.
_MORE_SETTINGS = ("options", "passfile")
_NAMED = re.compile(
    r"PostgreSQL system (?P<system>\d+|unknown), database (?P<database>.*), schema (?P<schema>.*?)(, at .*)?"
)
_SYSTEM = sa.text("SELECT system_identifier FROM pg_control_system()")
# The schema in which the tables are, or would be made.
_SCHEMA = sa.text(
    "SELECT current_database(), COALESCE((SELECT nspname FROM pg_class JOIN pg_namespace ON "
    "pg_namespace.oid = relnamespace WHERE pg_class.oid = to_regclass(:table)), current_schema())"
)


def _vetted_url(address: str) -> tuple[sa.URL, str]:
    """Return the URL of a database and the address as it may be shown.

    As for private tables, the address holds no password, and a connection to another machine is encrypted.

    Raises `LedgerError` otherwise. The error does not quote the address.
    """
    # Rarely needed, and imports libraries for tables.
    from dpensemble.datasets.arrow_sources import vetted_address  # noqa: PLC0415

    if not address.startswith(_SCHEME):
        raise _malformed()
    try:
        uri = vetted_address(address, os.environ, "ledger", _MORE_SETTINGS)
        return sa.make_url(uri.replace(_SCHEME, "postgresql+psycopg://", 1)), address
    except InvalidParameterError as error:
        raise LedgerError(str(error)) from None
    except SQLAlchemyError:
        raise _malformed() from None


def _malformed() -> LedgerError:
    return LedgerError("ledger must be a file or an address such as postgresql://user@host/name: correct it.")


@dataclass(frozen=True)
class _ServerPlace:
    """Where a server says that the tables of a ledger are.

    Parameters
    ----------
    system : str or None
        The server's identifier, made with its files, or None if the provider forbids to ask for it.
    database, schema : str
        Names.
    """

    system: str | None
    database: str
    schema: str

    @classmethod
    def of(cls, connection: sa.Connection, table: str) -> _ServerPlace:
        """Ask the server."""
        try:
            with connection.begin_nested():
                system = str(connection.execute(_SYSTEM).scalar_one())
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            system = None
        database, schema = connection.execute(_SCHEMA, {"table": table}).one()
        return cls(system, str(database), str(schema))

    def names(self, address: str) -> tuple[str, ...]:
        """Return the names under which a ledger here is remembered: what the server states, and the address."""
        here = f"database {self.database}, schema {self.schema}"
        if self.system is None:
            return (f"PostgreSQL system unknown, {here}, at {address}", address)
        return (f"PostgreSQL system {self.system}, {here}", address)

    def may_be(self, place: str) -> bool:
        """Return whether a remembered name may stand for this place."""
        named = _NAMED.fullmatch(place)
        if named is not None:
            systems = {named["system"], self.system or "unknown"}
            is_same = len(systems) == 1 or "unknown" in systems
            return is_same and (named["database"], named["schema"]) == (self.database, self.schema)
        if not place.startswith(_SCHEME):
            return False
        url = sa.make_url(place)
        # Without a database in the address, or with a service, only the server knew which database was meant.
        return url.database in (None, "", self.database) or not {"dbname", "service"}.isdisjoint(url.query)


_KEPT = "rows of a ledger are never changed"
_KNOWN = "a ledger has a row with this key"
_NEGATIVE = "numbers of a ledger are whole and not negative"
_APART = "an entry of a ledger follows the newest one"


def _triggers_of(table: sa.Table, dialect: str) -> dict[str, list[str]]:
    """Return the statements that create each trigger of a table, by the trigger's name."""
    return _sqlite(table) if dialect == "sqlite" else _postgresql(table)


def _first_triggers(table: sa.Table, dialect: str) -> set[str]:
    """Return the names of the triggers in ledgers of the first version."""
    events = ("UPDATE", "DELETE") if dialect == "sqlite" else ("kept",)
    return {f"{table.name}_{event}" for event in events}


def _installed_triggers(connection: sa.Connection) -> set[str]:
    """Return the names of all enabled triggers of the database."""
    if connection.dialect.name == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    else:
        query = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
    return {name for (name,) in connection.exec_driver_sql(query)}


def _sqlite(table: sa.Table) -> dict[str, list[str]]:
    name = table.name
    statements_of = {
        f"{name}_{event}": [f"CREATE TRIGGER {name}_{event} BEFORE {event} ON {name} BEGIN {_aborted(_KEPT)} END"]
        for event in ("UPDATE", "DELETE")
    }
    rules = [f"{_aborted(_KNOWN)[:-1]} WHERE {_exists(table)};"]
    for column in _numbers(table):
        rules.append(f"{_aborted(_NEGATIVE)[:-1]} WHERE typeof(NEW.{column}) <> 'integer' OR NEW.{column} < 0;")
    if _is_chain(table):
        rules.append(f"{_aborted(_APART)[:-1]} WHERE {_is_apart(table)};")
    statements_of[f"{name}_INSERT"] = [
        f"CREATE TRIGGER {name}_INSERT BEFORE INSERT ON {name} BEGIN {' '.join(rules)} END"
    ]
    return statements_of


def _aborted(why: str) -> str:
    return f"SELECT RAISE(ABORT, '{why}');"


def _postgresql(table: sa.Table) -> dict[str, list[str]]:
    name = table.name
    rules = [(_KNOWN, _exists(table)), *((_NEGATIVE, f"NEW.{column} < 0") for column in _numbers(table))]
    if _is_chain(table):
        rules.append((_APART, _is_apart(table)))
    body = " ".join(f"IF {condition} THEN RAISE EXCEPTION '{why}'; END IF;" for why, condition in rules)
    return {
        f"{name}_kept": [
            "CREATE OR REPLACE FUNCTION dpensemble_kept() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{_KEPT}'; END $$",
            f"CREATE OR REPLACE TRIGGER {name}_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON {name} "
            "FOR EACH STATEMENT EXECUTE FUNCTION dpensemble_kept()",
        ],
        f"{name}_added": [
            f"CREATE OR REPLACE FUNCTION {name}_added() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {body} RETURN NEW; END $$",
            f"CREATE OR REPLACE TRIGGER {name}_added BEFORE INSERT ON {name} "
            f"FOR EACH ROW EXECUTE FUNCTION {name}_added()",
        ],
    }


def _numbers(table: sa.Table) -> list[str]:
    return [column.name for column in table.columns if isinstance(column.type, sa.Integer)]


def _exists(table: sa.Table) -> str:
    """Return the condition that a new row has the primary key, or another unique key, of an existing row."""
    uniques = [one.columns for one in table.constraints if isinstance(one, sa.UniqueConstraint)]
    keys = [[column.name for column in columns] for columns in (table.primary_key.columns, *uniques)]
    same = sorted(" AND ".join(f"{name} = NEW.{name}" for name in key) for key in keys)
    return " OR ".join(f"EXISTS (SELECT 1 FROM {table.name} WHERE {one})" for one in same)  # noqa: S608 - names of our own


def _is_chain(table: sa.Table) -> bool:
    return "previous" in table.columns


def _is_apart(table: sa.Table) -> str:
    """Return the condition that a new entry does not follow the newest one."""
    newest = f"FROM {table.name} ORDER BY number DESC LIMIT 1"
    return (
        f"NEW.number <> COALESCE((SELECT number {newest}), 0) + 1 "
        f"OR NEW.previous <> COALESCE((SELECT hash {newest}), NEW.previous)"
    )


# Seconds that a charge waits for other charges.
_PATIENCE = 60
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
        self.patience: float = _PATIENCE
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
            self._url, self.place = _vetted_url(address)
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
    def _server(self) -> _ServerPlace:
        """What the server states about the ledger's tables."""
        with self._database_errors("read"), self._engine.connect() as connection:
            return _ServerPlace.of(connection, entries.name)

    def may_be(self, place: str) -> bool:
        """Return whether a remembered place may be this database, under any address."""
        return place in self.identities if self.file is not None else self._server.may_be(place)

    @staticmethod
    def is_certain(place: str) -> bool:
        """Return whether a remembered place identifies the server, and not only an address of it."""
        named = _NAMED.fullmatch(place)
        return named is not None and named["system"] != "unknown"

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
        there = _installed_triggers(connection)
        for name, statements in self._triggers().items():
            if name not in there:
                for statement in statements:
                    connection.exec_driver_sql(statement)

    def missing(self) -> tuple[set[str], set[str]]:
        """Return the names of missing triggers: those of every version, and those of only the present version."""
        with self._database_errors("read"), self._engine.connect() as connection:
            missing = set(self._triggers()) - _installed_triggers(connection)
        dialect = self._engine.dialect.name
        first = {name for table in METADATA.tables.values() for name in _first_triggers(table, dialect)}
        return missing & first, missing - first

    def _triggers(self) -> dict[str, list[str]]:
        dialect = self._engine.dialect.name
        return {
            name: statements
            for table in METADATA.tables.values()
            for name, statements in _triggers_of(table, dialect).items()
        }

    @contextmanager
    def kept_open(self, patience: float = _PATIENCE) -> Iterator[None]:
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
