"""Private tables of DuckDB, SQLite and PostgreSQL, as streams of Arrow batches.

The packages are optional, and are imported when an address needs them. Errors of a database while it reads rows are
never repeated, since their texts may quote rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dpensemble._arrays import Rows
from dpensemble.datasets.database_addresses import PostgreSQLAddress
from dpensemble.datasets.parquet import ROWS_AT_ONCE
from dpensemble.errors import DataError, FileError, InvalidParameterError

# A name is one of the database, never a variable of this process.
_DUCKDB_SETTINGS = {"python_enable_replacements": "false"}


@dataclass(frozen=True, eq=False)
class DuckDBTable:
    """A table or view of DuckDB."""

    name: str
    columns: list[str]
    files: tuple[Path, ...]
    connection: Rows = field(repr=False)

    def stream(self, columns: Sequence[str]) -> Rows:
        """Open a stream of all rows."""
        # A connection has one open result at a time, and a cursor is another connection to the same open file.
        relation = self.connection.cursor().sql(_selection(columns, self.name))
        return relation.to_arrow_reader(ROWS_AT_ONCE)


def duckdb_table(open_things: ExitStack, path: Path, table: str) -> DuckDBTable:
    """Open a table or view of a DuckDB file for reading."""
    try:
        import duckdb  # noqa: PLC0415  optional
    except ImportError:
        raise _missing("DuckDB", "duckdb") from None
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
        columns = connection.sql(_selection(("*",), table) + " limit 0").columns
        # The rows of a view may come from other files.
        views = connection.sql("select database_name, schema_name, view_name from duckdb_views()").fetchall()
    except duckdb.Error as error:
        raise _unreadable_table(table, error) from None
    wanted = table.lower().split(".")
    is_view = any([part.lower() for part in view[-len(wanted) :]] == wanted for view in views)
    files = () if is_view else (path, path.with_name(path.name + ".wal"))
    return DuckDBTable(table, distinct_columns(columns, table), files, connection)


@dataclass(frozen=True, eq=False)
class DatabaseTable:
    """A table or view behind a driver of ADBC. With `as_text`, entries are texts."""

    name: str
    columns: list[str]
    files: tuple[Path, ...]
    connection: Rows = field(repr=False)
    as_text: bool = False

    def stream(self, columns: Sequence[str]) -> Rows:
        """Open a stream of all rows."""
        import pyarrow as pa  # noqa: PLC0415  takes long to import

        batches = self._batches(_selection(columns, self.name, as_text=self.as_text))
        # The iterator has begun, so that it closes its cursor even if nobody reads on.
        return pa.RecordBatchReader.from_batches(next(batches), batches)

    def _batches(self, query: str) -> Iterator[Rows]:
        """Yield the schema of a query's result, and then its batches."""
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            reader = cursor.fetch_record_batch()
            yield reader.schema
            yield from reader


def sqlite_table(open_things: ExitStack, path: Path, table: str) -> DatabaseTable:
    """Open a table or view of an SQLite file for reading."""
    try:
        from adbc_driver_manager import Error  # noqa: PLC0415  optional
        from adbc_driver_sqlite import dbapi  # noqa: PLC0415  optional
    except ImportError:
        raise _missing("SQLite", "adbc-driver-sqlite") from None
    _require_file(path, "SQLite")
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = open_things.enter_context(dbapi.connect(uri, autocommit=False))
        columns = _column_names(connection, table)
    except Error as error:
        raise _unreadable_table(table, error) from None
    # The driver guesses a column's type from its first entries, so that one record could change how others are read.
    files = (path, path.with_name(path.name + "-wal"))
    return DatabaseTable(table, columns, files, connection, as_text=True)


def postgresql_table(open_things: ExitStack, address: PostgreSQLAddress) -> DatabaseTable:
    """Open a table or view of a PostgreSQL server, as of one moment."""
    try:
        from adbc_driver_manager import Error  # noqa: PLC0415  optional
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415  optional
    except ImportError:
        raise _missing("PostgreSQL", "adbc-driver-postgresql") from None
    try:
        connection = open_things.enter_context(dbapi.connect(address.uri, autocommit=False))
    except Error as error:
        # No row was read yet, and the reason names host, user and database at most.
        reason = " ".join(str(error).split())[:200].rstrip(".?")
        raise DataError(f"private={address.shown!r} cannot be opened: {reason}.") from None
    try:
        with connection.cursor() as cursor:
            # Every round sees the rows of one moment.
            cursor.execute("set transaction isolation level repeatable read read only")
            for setting in ("synchronize_seqscans = off", "max_parallel_workers_per_gather = 0"):
                # A scan then begins at the first row every time, so that counts by row agree between two scans.
                cursor.execute(f"set local {setting}")
        columns = _column_names(connection, address.table)
    except Error as error:
        raise _unreadable_table(address.table, error) from None
    return DatabaseTable(address.table, columns, (), connection)


def _column_names(connection: Rows, table: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(_selection(("*",), table) + " limit 0")
        return distinct_columns(cursor.fetch_arrow_table().schema.names, table)


def _selection(columns: Sequence[str], table: str, *, as_text: bool = False) -> str:
    names = ["*"] if columns == ("*",) else [_quoted(name) for name in columns]
    if as_text:
        # All digits of a float: a cast to text keeps 15 only.
        names = [
            f"case typeof({name}) when 'real' then printf('%!.17g', {name}) else cast({name} as text) end as {name}"
            for name in names
        ]
    return f"select {', '.join(names)} from {_quoted_table(table)}"  # noqa: S608  names are quoted


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


def _missing(database: str, package: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"a private table in {database} needs {package}, which is not installed: run pip install {package}.",
        parameter="private",
    )


def _unreadable_table(table: str, error: Exception) -> DataError:
    # The text of the error is not repeated, since a view may quote rows in it.
    return DataError(
        f"{table} is not a table that can be read there ({type(error).__name__}): name a table or view, with its "
        "schema if needed."
    )
