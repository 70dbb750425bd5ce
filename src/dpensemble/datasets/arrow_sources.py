"""Tables with an Arrow stream that the command line can name: Arrow and ORC files, DuckDB, SQLite and PostgreSQL.

A source opens one connection and reads every round from it. PostgreSQL shows all rounds one snapshot, and a file that
is open for reading in DuckDB is locked. The checksums of a run notice rows that change in any case. A file in ORC, the
format of Hive and other warehouses, is read stripe by stripe.

Addresses hold no passwords. The packages of databases are optional, and are imported when an address needs them.
Errors of a database while it reads rows are never repeated, since their texts may quote rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import pandas as pd

from dpensemble._entries import Rows
from dpensemble.clusters.cluster import is_here
from dpensemble.datasets.arrow import ROWS_AT_ONCE
from dpensemble.datasets.frames import exact_frame
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


def _file_and_table(text: str, scheme: str, parameter: str = "private") -> tuple[Path, str]:
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
class _PostgreSQLAddress:
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
    ) -> _PostgreSQLAddress:
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


def _duckdb_table(open_things: ExitStack, path: Path, table: str, parameter: str = "private") -> _DuckDBTable:
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
    return _DuckDBTable(table, place, _distinct_columns(columns, table), connection)


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


def _sqlite_table(open_things: ExitStack, path: Path, table: str, parameter: str = "private") -> _DatabaseTable:
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


def _postgresql_table(
    open_things: ExitStack, address: _PostgreSQLAddress, parameter: str = "private"
) -> _DatabaseTable:
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
        return _distinct_columns(cursor.fetch_arrow_table().schema.names, table)


def _selection(columns: Sequence[str], quoted_table: str, *, as_text: bool = False) -> str:
    names = ["*"] if columns == ("*",) else [_quoted(name) for name in columns]
    if as_text:
        names = [f"{_SQLITE_TEXT.format(name)} as {name}" for name in names]
    return f"select {', '.join(names)} from {quoted_table}"  # noqa: S608  names are quoted


def _quoted_table(table: str) -> str:
    return ".".join(_quoted(part) for part in table.split("."))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _distinct_columns(columns: Sequence[str], table: str) -> list[str]:
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


@dataclass(frozen=True, eq=False)
class _OrcFile:
    """A table in one ORC file, which streams its rows as record batches of Arrow."""

    name: str
    columns: list[str]
    files: tuple[Path, ...]

    def require_unit(self, column: str) -> None:
        """Do nothing: `ArrowBlocks` checks types of Arrow."""

    def stream(self, columns: Sequence[str]) -> Rows:
        """Open a stream of all rows."""
        import pyarrow as pa  # noqa: PLC0415  takes long to import
        from pyarrow.orc import ORCFile  # noqa: PLC0415  takes long to import

        names, file = list(columns), ORCFile(str(self.files[0]))
        chosen = pa.schema([file.schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(chosen, _stripes(file, names))


def _stripes(file: Rows, names: list[str]) -> Iterator[Rows]:
    for place in range(file.nstripes):
        yield file.read_stripe(place, columns=names).select(names)


def _orc_file(path: Path) -> _OrcFile:
    """Return the table in an ORC file.

    Raises
    ------
    FileError
        If the file cannot be read.
    DataError
        If two columns have one name.
    """
    from pyarrow.orc import ORCFile  # noqa: PLC0415  takes long to import

    try:
        return _OrcFile(path.name, _distinct_columns(ORCFile(str(path)).schema.names, path.name), (path,))
    except DataError:
        raise
    except (OSError, ValueError) as error:
        reason = "there is no such file" if not path.exists() else type(error).__name__
    raise FileError(f"{path} cannot be read as an ORC file ({reason}): give a file in the ORC format.")


# What DuckDB and SQLite write beside their files.
_BESIDE = (".wal", "-wal", "-shm", "-journal")
_DUCKDB, _SQLITE, _POSTGRESQL = "duckdb:", "sqlite:", ("postgresql:", "postgres:")
# What ends a stream of Arrow: a message of length 0.
_END = bytes.fromhex("ffffffff00000000")
_FORMS = ("duckdb:FILE:TABLE", "sqlite:FILE:TABLE", "postgresql://USER@HOST/DATABASE?table=TABLE")


class ArrowSource(Protocol):
    """A table whose rows can be streamed again, for every round of a release."""

    @property
    def name(self) -> str:
        """What reports call the table, without user, host and folder."""
        ...

    @property
    def columns(self) -> list[str]:
        """Names of its columns."""
        ...

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that hold all of its rows. Empty if nobody can see here whether the rows are still the same."""
        ...

    def stream(self, columns: Sequence[str]) -> Rows:
        """Open a stream of all rows, as record batches of some columns."""
        ...

    def require_unit(self, column: str) -> None:
        """Raise if equal entries of a column may arrive in several forms, so that one unit could count as several."""
        ...


def names_source(text: str) -> bool:
    """Return whether a text is the address of a database or the path of a file of `opened_source`."""
    known = text.startswith((_DUCKDB, _SQLITE, *_POSTGRESQL)) or text.lower().endswith(tuple(_FILES))
    return known or _may_hold_a_password(text)


def _may_hold_a_password(text: str) -> bool:
    """Return whether a text looks like the address of another database, which no error may repeat."""
    return "://" in text or (("@" in text or "password=" in text.lower()) and not os.path.exists(text))


def holds_rows_of(text: str, path: Path) -> bool:
    """Return whether a path is the file or in the folder that holds a table, or a file that its database writes."""
    if _may_hold_a_password(text):
        return False
    database = text.startswith((_DUCKDB, _SQLITE))
    source = os.path.realpath(text.partition(":")[2].rpartition(":")[0] if database else text)
    given = os.path.realpath(path)
    beside = [source + ending for ending in _BESIDE] if database else []
    return given in (source, *beside) or Path(source) in Path(given).parents or _is_same_file(given, source)


def _is_same_file(one: str, other: str) -> bool:
    """Return whether two paths are one file, which may have several names."""
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


@contextmanager
def opened_source(text: str, parameter: str = "private") -> Iterator[ArrowSource]:
    """Yield the table with an address, and close its connection after the block.

    Parameters
    ----------
    text : str
        A file in Arrow's IPC format (``.arrow``, ``.feather`` or ``.ipc``), an ``.orc`` file, ``duckdb:FILE:TABLE``,
        ``sqlite:FILE:TABLE``, or ``postgresql://USER@HOST/DATABASE?table=TABLE``. SQLite and PostgreSQL may have
        views, which must make each row from records of one unit alone. Without any password: PostgreSQL takes it from
        ``PGPASSWORD`` or ``~/.pgpass``.
    parameter : str
        What errors call the address.

    Raises
    ------
    InvalidParameterError
        If the address is unknown or holds a password, or if a package is missing.
    FileError, DataError
        If the file, the database or the table cannot be read.
    """
    with ExitStack() as open_things:
        if text.startswith(_DUCKDB):
            yield _duckdb_table(open_things, *_file_and_table(text, _DUCKDB, parameter), parameter)
        elif text.startswith(_SQLITE):
            yield _sqlite_table(open_things, *_file_and_table(text, _SQLITE, parameter), parameter)
        elif text.startswith(_POSTGRESQL):
            yield _postgresql_table(open_things, _PostgreSQLAddress.of(text, parameter=parameter), parameter)
        elif _may_hold_a_password(text):
            # The text may hold a password, so it is not repeated.
            private = parameter == "private"
            forms = ", ".join((*_FORMS, "spark:TABLE") if private else _FORMS)
            other = (
                "call fit_blocks in Python" if private else "read its rows and call predict of the student in Python"
            )
            raise InvalidParameterError(
                f"{parameter} must be a file or one of {forms}: for another database, {other}.",
                parameter=parameter,
            )
        else:
            yield _FILES.get(Path(text).suffix.lower(), _arrow_file)(Path(text))


def _arrow_file(path: Path) -> _ArrowFile:
    try:
        with _batches(path) as (schema, _):
            return _ArrowFile(path.name, _distinct_columns(schema.names, path.name), (path,))
    except DataError:
        raise
    except (OSError, ValueError) as error:
        reason = "there is no such file" if not path.exists() else type(error).__name__
    raise FileError(f"{path} cannot be read as an Arrow file ({reason}): give a file in Arrow's IPC format.")


def source_frames(source: ArrowSource, columns: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
    """Yield some columns of a table in frames of `rows` rows. The last may have fewer.

    Raises
    ------
    DataError
        If the table cannot be read to its end. The text of the error is not repeated, since it may quote a row.
    """
    import pyarrow as pa  # noqa: PLC0415  takes long to import

    waiting: list[Rows] = []
    n_waiting = 0
    try:
        for batch in source.stream(columns):
            waiting.append(batch)
            n_waiting += len(batch)
            if n_waiting >= rows:
                table = pa.Table.from_batches(waiting)
                n_whole = n_waiting - n_waiting % rows
                for start in range(0, n_whole, rows):
                    yield exact_frame(table.slice(start, rows))
                waiting, n_waiting = table.slice(n_whole).to_batches(), n_waiting - n_whole
        if n_waiting:
            yield exact_frame(pa.Table.from_batches(waiting))
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{source.name} cannot be read to its end ({type(error).__name__}): read all of it once with your own "
            "program."
        ) from None


@dataclass(frozen=True, eq=False)
class _ArrowFile:
    """A file in Arrow's IPC format, with or without an index of its batches."""

    name: str
    columns: list[str]
    files: tuple[Path, ...]

    def require_unit(self, column: str) -> None:
        """Do nothing: `ArrowBlocks` checks types of Arrow."""

    def stream(self, columns: Sequence[str]) -> Rows:
        """Open a stream of all rows."""
        import pyarrow as pa  # noqa: PLC0415  takes long to import

        names = list(columns)
        with _batches(self.files[0]) as (schema, _):
            chosen = pa.schema([schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(chosen, self._chosen(names))

    def _chosen(self, names: list[str]) -> Iterator[Rows]:
        with _batches(self.files[0]) as (_, batches):
            for batch in batches:
                yield batch.select(names)


@contextmanager
def _batches(path: Path) -> Iterator[tuple[Rows, Iterator[Rows]]]:
    """Yield the schema of an Arrow file and its batches, which are read one at a time."""
    import pyarrow as pa  # noqa: PLC0415  takes long to import

    # Not mapped into memory: a file that becomes shorter would end the process.
    with pa.OSFile(str(path)) as file:
        try:
            reader = pa.ipc.open_file(file)
        except pa.ArrowInvalid:
            file.seek(0)
            stream = pa.ipc.open_stream(file)
            _require_end(path)
            yield stream.schema, iter(stream)
        else:
            yield reader.schema, (reader.get_batch(number) for number in range(reader.num_record_batches))


def _require_end(path: Path) -> None:
    """Raise if a stream has no mark of its end, without which nobody can see whether batches are missing."""
    with path.open("rb") as file:
        # Writers before 2019 mark neither the beginning of a message nor its end in this way.
        mark = _END if file.read(4) == _END[:4] else _END[4:]
        file.seek(-len(mark), os.SEEK_END)
        is_complete = file.read() == mark
    if not is_complete:
        raise DataError(
            f"{path.name} is not complete: a stream of Arrow ends with a mark, which is missing. Write the file again "
            "to its end."
        )


# Readers of files by their endings.
_FILES: dict[str, Callable[[Path], ArrowSource]] = {
    **dict.fromkeys((".arrow", ".feather", ".ipc"), _arrow_file),
    ".orc": _orc_file,
}
