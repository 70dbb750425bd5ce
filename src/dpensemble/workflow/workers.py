"""Private records that processes or a cluster sum up where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dpensemble._arrays import Rows
from dpensemble._checks import number_of_workers
from dpensemble.datasets.arrow import ArrowPart
from dpensemble.datasets.arrow_sources import ArrowSource
from dpensemble.datasets.parquet import is_parquet
from dpensemble.datasets.partitions import ParquetOnSpark, ParquetParts, SparkParts
from dpensemble.errors import InvalidParameterError
from dpensemble.rows.source import RowSource

_TABLE = "spark:"


@dataclass(frozen=True, eq=False)
class Workers:
    """Who sums private records: `jobs` processes of this machine or, if one is named, a cluster.

    `session` is a session of Spark, for a cluster of Spark. `source` streams the private table to this process.
    """

    jobs: int = 1
    cluster: str | None = None
    session: Rows | None = None
    source: ArrowSource | None = None

    def require_possible(self, private: Path) -> None:
        """Raise if the private table cannot be read by these workers."""
        number_of_workers("jobs", self.jobs)
        self.require_session(private)
        if self.source is not None:
            return
        if self.cluster is not None and self.jobs != 1:
            raise InvalidParameterError(
                f"jobs={self.jobs} are processes of this machine, and the cluster has workers of its own: leave jobs "
                "out.",
                parameter="jobs",
            )
        if not (self.is_table(private) or is_parquet(private)):
            what = f"jobs={self.jobs}" if self.cluster is None else f"cluster={self.cluster!r}"
            raise InvalidParameterError(
                f"{what} requires a private table in Parquet, but got {private.name}: write it as .parquet.",
                parameter="jobs" if self.cluster is None else "cluster",
            )

    def require_session(self, private: Path) -> None:
        """Raise if the private table is one of Spark, but there is no session of Spark."""
        if self.is_table(private) and self.session is None:
            raise InvalidParameterError(
                f"private={str(private)!r} is a table of Spark: give --cluster spark.", parameter="private"
            )

    @staticmethod
    def is_table(private: Path) -> bool:
        """Return whether ``spark:NAME`` names a table of Spark."""
        return str(private).startswith(_TABLE)

    def frame(self, private: Path) -> Rows:
        """Return the DataFrame of a table of Spark."""
        if self.session is None:
            raise InvalidParameterError("cluster must be 'spark' to read a table of Spark.", parameter="cluster")
        name = str(private).removeprefix(_TABLE)
        try:
            return self.session.table(name)
        except Exception as error:
            kind = type(error).__name__
        raise InvalidParameterError(
            f"private={str(private)!r} is not a table of Spark ({kind}): name one of its tables or views.",
            parameter="private",
        )

    def parts(self, private: Path, target: str, unit: str | None, columns: Sequence[str]) -> RowSource:
        """Return the private table in parts."""
        if self.source is not None:
            named = (*columns, target, *(() if unit is None else (unit,)))
            fixed = bool(self.source.files)
            return ArrowPart(partial(self.source.stream, named), target, unit=unit, fixed_places=fixed)
        if self.session is not None:
            if self.is_table(private):
                return SparkParts(self.frame(private), target, unit=unit, columns=tuple(columns))
            return ParquetOnSpark(self.session, private, target, unit=unit, columns=tuple(columns))
        return ParquetParts(private, target, unit=unit, columns=tuple(columns), n_jobs=self.jobs)
