"""Tables with an Arrow stream that the command line can name: Arrow and ORC files, DuckDB, SQLite and PostgreSQL.

A source opens one connection and reads every round from it. PostgreSQL shows all rounds one snapshot, and a file that
is open for reading in DuckDB is locked. The checksums of a run notice rows that change in any case. A file in ORC, the
format of Hive and other warehouses, is read stripe by stripe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pandas as pd

from dpensemble._entries import Rows
from dpensemble.datasets.databases import (
    PostgreSQLAddress,
    distinct_columns,
    duckdb_table,
    file_and_table,
    postgresql_table,
    sqlite_table,
)
from dpensemble.datasets.frames import exact_frame
from dpensemble.errors import DataError, FileError, InvalidParameterError


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
        return _OrcFile(path.name, distinct_columns(ORCFile(str(path)).schema.names, path.name), (path,))
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
            yield duckdb_table(open_things, *file_and_table(text, _DUCKDB, parameter), parameter)
        elif text.startswith(_SQLITE):
            yield sqlite_table(open_things, *file_and_table(text, _SQLITE, parameter), parameter)
        elif text.startswith(_POSTGRESQL):
            yield postgresql_table(open_things, PostgreSQLAddress.of(text, parameter=parameter), parameter)
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
            return _ArrowFile(path.name, distinct_columns(schema.names, path.name), (path,))
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
