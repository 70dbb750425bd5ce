"""Addresses of ledgers in PostgreSQL, and what a server states about itself, however its address is spelt."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from dpensemble.errors import InvalidParameterError, LedgerError

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


def vetted_url(address: str) -> tuple[sa.URL, str]:
    """Return the URL of a database and the address as it may be shown.

    As for private tables, the address holds no password, and a connection to another machine is encrypted.

    Raises `LedgerError` otherwise. The error does not quote the address.
    """
    # Rarely needed, and imports libraries for tables.
    from dpensemble.datasets.database_addresses import vetted_address  # noqa: PLC0415

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
class ServerPlace:
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
    def of(cls, connection: sa.Connection, table: str) -> ServerPlace:
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


def is_certain(place: str) -> bool:
    """Return whether a remembered name identifies the server, and not only an address of it."""
    named = _NAMED.fullmatch(place)
    return named is not None and named["system"] != "unknown"
