"""Private records that processes or a cluster sum up where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

from dpensemble._arrays import Rows
from dpensemble._checks import number_of_workers
from dpensemble.clusters.parts import Report, TableInParts
from dpensemble.datasets.arrow import ArrowPart
from dpensemble.datasets.arrow_sources import ArrowSource
from dpensemble.datasets.columns import labels_of
from dpensemble.datasets.parquet import is_parquet
from dpensemble.datasets.parts import ParquetParts
from dpensemble.datasets.spark_parts import ParquetOnSpark, SparkParts
from dpensemble.errors import InvalidParameterError

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

    def parts(self, private: Path, target: str, unit: str | None, columns: Sequence[str]) -> TableInParts:
        """Return the private table in parts."""
        if self.source is not None:
            named = (*columns, target, *(() if unit is None else (unit,)))
            return ArrowPart(partial(self.source.stream, named), target, unit=unit)
        if self.session is not None:
            if self.is_table(private):
                return SparkParts(self.frame(private), target, unit=unit, columns=tuple(columns))
            return ParquetOnSpark(self.session, private, target, unit=unit, columns=tuple(columns))
        return ParquetParts(private, target, unit=unit, columns=tuple(columns), n_jobs=self.jobs)


@dataclass(frozen=True, eq=False)
class Conversion:
    """Converts the rows of a private table for a method, on the machine that reads them."""

    target: str
    unit: str | None
    #: Converts features and labels.
    convert: Callable[[Rows, pd.Series], tuple[Rows, Rows]]
    #: Converts features for the method.
    prepare: Callable[[Rows], Rows] | None = None

    def __call__(self, rows: Rows) -> Rows:
        """Return a table with converted features, labels and the units as they are."""
        others = [self.target] if self.unit is None else [self.target, self.unit]
        entries = labels_of(rows[self.target])
        features, labels = self.convert(rows.drop(columns=others), pd.Series(entries, dtype=entries.dtype))
        if self.prepare is not None:
            features = self.prepare(features)
        more = {self.target: labels} if self.unit is None else {self.target: labels, self.unit: rows[self.unit]}
        return pd.concat([features, pd.DataFrame(more, index=features.index)], axis=1)


class ConvertedParts:
    """A table in parts whose rows are converted where they are read."""

    def __init__(self, table: TableInParts, conversion: Conversion) -> None:
        self.table, self.conversion = table, conversion
        self.target, self.unit = table.target, table.unit

    def prepared_by(self, prepare: Callable[[Rows], Rows]) -> ConvertedParts:
        """Return the same parts whose features are also converted for a method."""
        return ConvertedParts(self.table, replace(self.conversion, prepare=prepare))

    def results(self, work: Callable[[Iterator[Rows]], Report]) -> Iterator[Report]:
        """Yield what `work` returns for the converted tables of each part, once a part."""
        return self.table.results(partial(_on_converted, work, self.conversion))


def _on_converted(work: Callable[[Iterator[Rows]], Report], conversion: Conversion, tables: Iterator[Rows]) -> Report:
    # Rows are converted when the work asks for them, so that the work handles errors of the conversion.
    return work(conversion(table) for table in tables)
