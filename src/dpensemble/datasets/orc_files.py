"""Tables in the ORC format, which Hive and other warehouses write, read stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpensemble._arrays import Rows
from dpensemble.datasets.database_tables import distinct_columns
from dpensemble.errors import DataError, FileError


@dataclass(frozen=True, eq=False)
class OrcFile:
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


def orc_file(path: Path) -> OrcFile:
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
        return OrcFile(path.name, distinct_columns(ORCFile(str(path)).schema.names, path.name), (path,))
    except DataError:
        raise
    except (OSError, ValueError) as error:
        reason = "there is no such file" if not path.exists() else type(error).__name__
    raise FileError(f"{path} cannot be read as an ORC file ({reason}): give a file in the ORC format.")
