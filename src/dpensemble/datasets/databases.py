"""Tables of DuckDB, SQLite and PostgreSQL: their addresses, which hold no passwords, and their rows.

Rows are streams of Arrow batches. The packages are optional, and are imported when an address needs them. Errors of a
database while it reads rows are never repeated, since their texts may quote rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from dpensemble._entries import Rows
from dpensemble.clusters.vetting import is_here
from dpensemble.datasets.parquet import ROWS_AT_ONCE
from dpensemble.errors import DataError, FileError, InvalidParameterError

_EXAMPLE = "postgresql://USER@HOST/DATABASE"
_ENCRYPTS = ("require", "verify-ca", "verify-full")
# Settings of libpq that hold no secret. The address is part of a run's records.
_SETTINGS = (
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "service",
    "connect_timeout",
    "application_name",
    "target_session_attrs",
)


def file_and_table(text: str, scheme: str, parameter: str = "private") -> tuple[Path, str]:
    """Return file and table of ``scheme:FILE:TABLE``, the value of a parameter."""
    file, _, table = text.removeprefix(scheme).rpartition(":")
    if not file or not table or file.startswith("//"):
        raise InvalidParameterError(
            f"{parameter} must name a file and a table of {scheme[:-1]}: write {scheme}FILE:TABLE, without // before "
            "the file.",
            parameter=parameter,
        )
    return Path(file), table


@dataclass(frozen=True)
class PostgreSQLAddress:
    """An address for libpq, and a table.

    Attributes
    ----------
    uri : str
        Address without the table. Rows that cross a network are encrypted.
    table : str
        Name of the table, with its schema if one was given.
    """

    uri: str
    table: str

    @property
    def shown(self) -> str:
        """The address as errors show it."""
        return self.uri.partition("?")[0]

    @classmethod
    def of(
        cls, text: str, environment: Mapping[str, str] = os.environ, parameter: str = "private"
    ) -> PostgreSQLAddress:
        """Read ``postgresql://USER@HOST:PORT/DATABASE?table=TABLE``, with settings of libpq after ``&``.

        Raises
        ------
        InvalidParameterError
            If the address holds a password, names no table, or asks for a connection to another machine without
            encryption. Errors never repeat an address before it is known to hold no password.
        """
        uri, table = _vetted(text, environment, parameter, _SETTINGS, f"{_EXAMPLE}?table=TABLE")
        if not table:
            raise _malformed(parameter, f"{_EXAMPLE}?table=TABLE")
        return cls(uri, table)


def vetted_address(text: str, environment: Mapping[str, str], parameter: str, more: tuple[str, ...] = ()) -> str:
    """Return the address of a database for libpq, under the rules of `PostgreSQLAddress.of`, without a table.

    `more` are settings that the address may hold besides those of a table's address.
    """
    uri, table = _vetted(text, environment, parameter, (*_SETTINGS, *more), _EXAMPLE)
    if table:
        raise _malformed(parameter, _EXAMPLE)
    return uri


def _vetted(
    text: str, environment: Mapping[str, str], parameter: str, allowed: tuple[str, ...], example: str
) -> tuple[str, str]:
    """Return a vetted address for libpq, and the table that the text names, or ""."""
    start, _, query = text.partition("?")
    user, at, place = start.partition("://")[2].rpartition("@")
    try:
        parts, settings = urlsplit(text), dict(parse_qsl(query, strict_parsing=bool(query), keep_blank_values=True))
        host, _ = unquote(place.partition("/")[0]), parts.port
    except ValueError:
        raise _malformed(parameter, example) from None
    if ":" in user or {"password", "sslpassword"} & settings.keys():
        raise InvalidParameterError(
            f"{parameter} must not hold a password, because other users can see it in the list of processes: leave "
            "it out, and set PGPASSWORD or write ~/.pgpass.",
            parameter=parameter,
        )
    table = settings.pop("table", "")
    # One host and one user. A second @ or a ? may be a part of a password, and libpq splits hosts at commas.
    odd = "/" in user or "@" in user + query or (at and not user) or "#" in text
    several = any("," in named for named in (host, settings.get("host", ""), settings.get("hostaddr", "")))
    if not text.startswith(f"{parts.scheme}://") or odd or several:
        raise _malformed(parameter, example)
    for name in settings:
        if name not in allowed:
            raise InvalidParameterError(
                f"{parameter} must not set {name}: use {', '.join(allowed)} only, and write other settings of "
                "libpq into a service file.",
                parameter=parameter,
            )
    mode = settings.get("sslmode", environment.get("PGSSLMODE"))
    if not _stays_here(host, settings, environment) and mode not in _ENCRYPTS:
        if mode is not None:
            raise InvalidParameterError(
                f"sslmode={mode!r} would let rows cross a network in the clear: write "
                "sslmode=verify-full, or sslmode=require.",
                parameter=parameter,
            )
        settings["sslmode"] = "require"
    kept = urlencode(settings, quote_via=quote)
    return f"{start}?{kept}" if kept else start, table


def _malformed(parameter: str, example: str) -> InvalidParameterError:
    return InvalidParameterError(f"{parameter} must be an address such as {example}: correct it.", parameter=parameter)


def _stays_here(host: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Return whether a connection surely stays on this machine. A service may name any host."""
    if "service" in settings or "PGSERVICE" in environment:
        return False
    named = settings.get("host") or host or environment.get("PGHOST", "")
    numbers = settings.get("hostaddr") or environment.get("PGHOSTADDR", "")
    return all(_is_local(one) for one in (*named.split(","), *numbers.split(",")) if one)


def _is_local(host: str) -> bool:
    """Return whether a host is a socket in a folder or an address of this machine."""
    return host.startswith(("/", "@")) or is_here(f"tcp://{host}")


# Types of PostgreSQL whose equal entries arrive in one form. Not numeric, with 5 and 5.0, or types that ignore case.
_UNIT_TYPES = {"smallint", "integer", "bigint", "text", "character varying", "uuid", "boolean"}
# Equal numbers are one text. A cast of another float keeps 15 digits only. The driver needs a text in every row.
_SQLITE_TEXT = (
    "ifnull(case when typeof({0}) <> 'real' then cast({0} as text) "
    "when {0} = cast({0} as integer) and abs({0}) < 9007199254740992 then cast(cast({0} as integer) as text) "
    "else printf('%!.17g', {0}) end, '')"
)
# A name is one of the database, never a variable of this process.
_DUCKDB_SETTINGS = {"python_enable_replacements": "false"}


@dataclass(frozen=True, eq=False)
class _DuckDBTable:
    """A table of DuckDB. `place` is its quoted name with database and schema, which no view can have."""

    name: str
    place: str
    columns: list[str]
    connection: Rows = field(repr=False)
    # Reading the file here would end the lock that keeps other processes from writing.
    files: tuple[Path, ...] = ()

    def require_unit(self, column: str) -> None:
        """Do nothing: `ArrowBlocks` checks types of Arrow."""

    def stream(self, columns: Sequence[str]) -> Rows:
        """Open a stream of all rows."""
        # A connection has one open result at a time, and a cursor is another connection to the same open file.
        relation = self.connection.cursor().sql(_selection(columns, self.place))
        return relation.to_arrow_reader(ROWS_AT_ONCE)


def duckdb_table(open_things: ExitStack, path: Path, table: str, parameter: str = "private") -> _DuckDBTable:
    """Open a table of a DuckDB file for reading."""
    try:
        import duckdb  # noqa: PLC0415  optional
    except ImportError:
        raise _missing("DuckDB", "duckdb", parameter) from None
    _require_file(path, "DuckDB")
    try:
        connection = open_things.enter_context(duckdb.connect(str(path), read_only=True, config=_DUCKDB_SETTINGS))
    except duckdb.Error as error:
        kind = type(error).__name__
        raise FileError(
            f"{path} cannot be opened with DuckDB ({kind}): check that it is a database of DuckDB which no other "
            "process is writing, and that the package duckdb is as new as the file."
        ) from None
    try:
        # Otherwise the day of a moment depends on the time zone of this machine. Setting it when connecting fails.
        connection.execute("set global TimeZone = 'UTC'").fetchall()
        place = _place_in_duckdb(connection, table)
        if place is None:
            # A view may read other files, whose entries DuckDB reads in the light of other rows. So may a file's name.
            raise DataError(
                f"{table} is not a table of {path.name}: name a table, or create one of the rows of a view."
            )
        columns = connection.sql(_selection(("*",), place) + " limit 0").columns
    except duckdb.Error as error:
        raise _unreadable_table(table, error) from None
    return _DuckDBTable(table, place, distinct_columns(columns, table), connection)


def _place_in_duckdb(connection: Rows, table: str) -> str | None:
    """Return the quoted name of a table with database and schema, or None without such a table."""
    named = table.split(".")
    here = connection.sql("select current_database(), current_schema()").fetchall()[0]
    # A table of another schema may have the name of a view.
    wanted = [part.lower() for part in (*here[: max(0, 3 - len(named))], *named)]
    tables = connection.sql("select database_name, schema_name, table_name from duckdb_tables()").fetchall()
    places = [one for one in tables if [part.lower() for part in one] == wanted]
    return ".".join(_quoted(part) for part in places[0]) if places else None


@dataclass(frozen=True, eq=False)
class _DatabaseTable:
    """A table or view behind a driver of ADBC. With `as_text`, entries are texts, and an empty text is missing.

    `types` are the types of columns, if equal entries of some types may arrive in several forms.
    """

    name: str
    columns: list[str]
    connection: Rows = field(repr=False)
    as_text: bool = False
    types: Mapping[str, str] | None = None
    # A server keeps its rows, and reading a file of SQLite here would end its lock.
    files: tuple[Path, ...] = ()

    def require_unit(self, column: str) -> None:
        """Raise if equal entries of a column may arrive in several forms."""
        kind = None if self.types is None else self.types.get(column, "unknown")
        if kind is not None and kind not in _UNIT_TYPES:
            raise DataError(
                f"unit={column!r} has the type {kind}, whose equal entries can be written in several ways, so that one "
                "person could count as several: name a view that casts the column to bigint, or that writes equal "
                "entries as one text."
            )

    def stream(self, columns: Sequence[str]) -> Rows:
        """Open a stream of all rows."""
        import pyarrow as pa  # noqa: PLC0415  takes long to import

        batches = self._batches(_selection(columns, _quoted_table(self.name), as_text=self.as_text))
        # The iterator has begun, so that it closes its cursor even if nobody reads on.
        return pa.RecordBatchReader.from_batches(next(batches), batches)

    def _batches(self, query: str) -> Iterator[Rows]:
        """Yield the schema of a query's result, and then its batches."""
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            reader = cursor.fetch_record_batch()
            _refuse_odd_types(reader.schema)
            yield reader.schema
            yield from map(_with_blanks, reader) if self.as_text else reader


def sqlite_table(open_things: ExitStack, path: Path, table: str, parameter: str = "private") -> _DatabaseTable:
    """Open a table or view of an SQLite file for reading."""
    try:
        from adbc_driver_manager import Error  # noqa: PLC0415  optional
        from adbc_driver_sqlite import dbapi  # noqa: PLC0415  optional
    except ImportError:
        raise _missing("SQLite", "adbc-driver-sqlite", parameter) from None
    _require_file(path, "SQLite")
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = open_things.enter_context(dbapi.connect(uri, autocommit=False))
        with connection.cursor() as cursor:
            cursor.execute("select count(*) from sqlite_master")
            cursor.fetchall()
    except Error as error:
        raise FileError(
            f"{path} cannot be opened with SQLite ({type(error).__name__}): check that it is a database of SQLite, and "
            "that no other process has locked it."
        ) from None
    try:
        columns = _column_names(connection, table)
    except Error as error:
        raise _unreadable_table(table, error) from None
    # The driver guesses a column's type from its first entries, so that one record could change how others are read.
    return _DatabaseTable(table, columns, connection, as_text=True)


def postgresql_table(open_things: ExitStack, address: PostgreSQLAddress, parameter: str = "private") -> _DatabaseTable:
    """Open a table or view of a PostgreSQL server, as of one moment."""
    try:
        from adbc_driver_manager import Error  # noqa: PLC0415  optional
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415  optional
    except ImportError:
        raise _missing("PostgreSQL", "adbc-driver-postgresql", parameter) from None
    try:
        connection = open_things.enter_context(dbapi.connect(address.uri, autocommit=False))
    except Error as error:
        # No row was read yet, and the reason names host, user and database at most.
        reason = " ".join(str(error).split())[:200].rstrip(".?")
        raise DataError(f"{parameter}={address.shown!r} cannot be opened: {reason}.") from None
    try:
        with connection.cursor() as cursor:
            # Every round sees the rows of one moment.
            cursor.execute("set transaction isolation level repeatable read read only")
            for setting in ("synchronize_seqscans = off", "max_parallel_workers_per_gather = 0"):
                # A scan then begins at the first row every time, so that counts by row agree between two scans.
                cursor.execute(f"set local {setting}")
            types = _types(cursor, address.table)
        columns = _column_names(connection, address.table)
    except Error as error:
        raise _unreadable_table(address.table, error) from None
    return _DatabaseTable(address.table, columns, connection, types=types)


def _types(cursor: Rows, table: str) -> dict[str, str]:
    """Return the type of each column of a table of PostgreSQL."""
    cursor.execute(
        "select attname::text, atttypid::regtype::text from pg_attribute "
        "where attrelid = $1::text::regclass and attnum > 0 and not attisdropped",
        (_quoted_table(table),),
    )
    return dict(cursor.fetchall())


def _refuse_odd_types(schema: Rows) -> None:
    """Raise if the driver does not return the entries of a column as they are written."""
    for column in schema:
        kind = (column.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        # Money arrives in hundredths.
        if kind == "money" or str(column.type).startswith("extension<arrow.opaque[storage_type=binary"):
            raise DataError(
                f"column {column.name!r} has the type {kind}, whose entries do not arrive as they are written: name a "
                "view that casts the column to numeric or text."
            )


def _with_blanks(batch: Rows) -> Rows:
    """Return texts with empty ones as missing entries."""
    import pyarrow as pa  # noqa: PLC0415  takes long to import
    import pyarrow.compute as pc  # noqa: PLC0415  takes long to import

    columns = [pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _column_names(connection: Rows, table: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(_selection(("*",), _quoted_table(table)) + " limit 0")
        return distinct_columns(cursor.fetch_arrow_table().schema.names, table)


def _selection(columns: Sequence[str], quoted_table: str, *, as_text: bool = False) -> str:
    names = ["*"] if columns == ("*",) else [_quoted(name) for name in columns]
    if as_text:
        names = [f"{_SQLITE_TEXT.format(name)} as {name}" for name in names]
    return f"select {', '.join(names)} from {quoted_table}"  # noqa: S608  names are quoted


def _quoted_table(table: str) -> str:
    return ".".join(_quoted(part) for part in table.split("."))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def distinct_columns(columns: Sequence[str], table: str) -> list[str]:
    """Return names of columns, or raise if one is there twice."""
    names = [str(name) for name in columns]
    if len(set(names)) < len(names):
        raise DataError(f"{table} names a column twice: rename one of them.")
    return names


def _require_file(path: Path, kind: str) -> None:
    # SQLite and DuckDB would make a new database.
    if not path.is_file():
        raise FileError(f"{path} is not a file: give a database of {kind}.")


def _missing(database: str, package: str, parameter: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"a table in {database} needs {package}, which is not installed: run pip install {package}.",
        parameter=parameter,
    )


def _unreadable_table(table: str, error: Exception) -> DataError:
    # The text of the error is not repeated, since a view may quote rows in it.
    return DataError(
        f"{table} is not a table that can be read there ({type(error).__name__}): name a table or view, with its "
        "schema if needed."
    )
