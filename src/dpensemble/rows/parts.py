"""Sums of label moments over parts of the private records, in other processes or on a cluster.

A part is read where it is, and returns a `PartReport`: its exact sum, its number of rows and their checksum, and no
row. Charge and noise stay in the process that calls `fit_blocks`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Floats, Rows
from dpensemble._guard import guard_private_rows
from dpensemble._identity import is_id_type
from dpensemble._threads import one_thread
from dpensemble.clusters.parts import TableInParts
from dpensemble.clusters.vetting import versions
from dpensemble.datasets.frames import as_given
from dpensemble.errors import DataError, DPEnsembleError
from dpensemble.moments.queries import AnyQuery, partial_sums
from dpensemble.moments.rounds import Transform
from dpensemble.releases.partial_sums import CHECKSUMS, PartialSums, SameRecords
from dpensemble.rows.arguments import block, table_targets
from dpensemble.rows.bad_records import zeroes_bad
from dpensemble.rows.checksums import SIZE, RowChecksums
from dpensemble.rows.features import Block, PrivateBlocks, blocks_of

#: Keyed hashes of units. numpy compares them as bytes of one length.
UnitHashes = NDArray[np.bytes_]
_KIND = f"S{SIZE}"

#: Problems of a part by code. A worker returns a code and raises nothing, since engines write errors into their logs.
PROBLEMS = {
    "record": (
        "a private record cannot be used: an undeclared label, an infinite entry, a missing unit, or a row that the "
        "map cannot read; run dpensemble check, or give on_bad_record='zero'."
    ),
    "unit": (
        "a part of the private records has a column of units of a type in which one id may have several forms, such as "
        "floats: give whole numbers or texts in every part, of the type that the table declares."
    ),
    "versions": (
        "a worker has other versions of Python, numpy, scipy or scikit-learn, or another copy of dpensemble, so that "
        "sums could differ; "
        "install the same versions there, and start the workers again."
    ),
    "file": "a file of the private table was changed or removed while it was read; give files that stay as they are.",
    "report": (
        "a worker returned a sum or a number of records that no rows could give, so nothing more was released, and "
        "what was charged stays charged: check the memory and the libraries of the workers."
    ),
    "error": "a part of the private records could not be read or summed; look at the part on your own machine.",
}


class _UnitTypeError(DataError):
    """A part has a column of units whose entries are no ids."""


@dataclass(frozen=True)
class RowRules:
    """How private rows are read: the settings of an estimator that `block` reads."""

    on_bad_record: str
    declared_columns: Mapping[str, Sequence[object]] | None


@dataclass(frozen=True, eq=False)
class UnitCounts:
    """Number of records of each unit that has several, by the sorted keyed hashes of units. Private."""

    hashes: UnitHashes
    counts: NDArray[np.int64]

    def weights(self, hashes: UnitHashes) -> Floats:
        """Return each record's share of its unit."""
        if not len(self.hashes):
            return np.ones(len(hashes))
        places = np.searchsorted(self.hashes, hashes).clip(max=len(self.hashes) - 1)
        return 1 / np.where(self.hashes[places] == hashes, self.counts[places], 1)

    def are_of(self, rows: int) -> bool:
        """Return whether these can be the units of a number of records: sorted, each with a record, none missing."""
        hashes, counts = self.hashes, self.counts
        alike = hashes.dtype == np.dtype(_KIND) and counts.dtype == np.int64 and hashes.shape == counts.shape
        if not alike or counts.ndim != 1 or not ((counts >= 1) & (counts <= rows)).all():
            return False
        return bool((hashes[1:] > hashes[:-1]).all()) and sum(counts.tolist()) == rows


@dataclass(frozen=True, eq=False, repr=False)
class PartReport:
    """What a part returns: its sums, and in the checking pass its units. Or the code of a problem. Private."""

    sums: PartialSums
    units: UnitCounts | None = None
    problem: str = ""

    def is_possible(self, task: PartTask, weights: PartWeights) -> bool:
        """Return whether some rows could have this report of a task. A wrong sum within the bound goes unnoticed."""
        sums, units = self.sums, self.units
        try:
            if not sums.is_sound or sums.round != task.number:
                return False
            if task.query is None:
                owned = task.unit is not None and sums.rows > 0
                return sums.total is None and (units is not None and units.are_of(sums.rows) if owned else not units)
            summed = (sums.total is None) == (sums.rows == 0)
            return summed and units is None and task.query.allows(sums, weights.of(sums.records))
        except (AttributeError, TypeError, ValueError):
            # Only a faulty worker sends entries of other types.
            return False


@dataclass(frozen=True, eq=False, repr=False)
class PartWeights:
    """Total weight of the units of each part, and of all parts, from the checking pass. Private.

    A record has the weight 1, or its share of its unit. Parts are known by their records. Spark may cut a table into
    other parts in a later pass: these have a weight of at most 1 for each row.
    """

    of_parts: Mapping[tuple[int, int], float] = field(default_factory=dict)
    total: float = 0.0

    def of(self, records: tuple[int, int]) -> float:
        """Return the largest possible weight of a part with these records."""
        return self.of_parts.get(records, float(records[0]))


@dataclass(frozen=True, eq=False)
class MapBefore:
    """A map, and the map before it which judges whether rows are readable."""

    transform: Transform
    alone: bool
    n_features: int
    judge: MapBefore | None = None


@dataclass(frozen=True, eq=False, repr=False)
class PartTask:
    """The work on a part: the checking pass, or the exact sum of a query."""

    rules: RowRules
    public: Rows
    classes: NDArray[np.generic]
    target: str
    unit: str | None
    key: bytes
    wanted: dict[str, str]
    units: UnitCounts | None = None
    query: AnyQuery | None = None
    map: MapBefore | None = None
    number: int = 0

    def __call__(self, tables: Iterator[Rows]) -> PartReport:
        """Return the report of the part. An error becomes the code of a problem."""
        nothing = PartialSums(None, round=self.number)
        if versions() != self.wanted:
            return PartReport(nothing, problem="versions")
        # Many small products: threads that wait for each other take many times as long on a busy machine.
        with guard_private_rows(), one_thread():
            # Within the guard, which would make an error of any kind one of this library.
            try:
                return self._check(tables) if self.query is None else PartReport(self._sums(self.query, tables))
            except OSError:
                return PartReport(nothing, problem="file")
            except _UnitTypeError:
                return PartReport(nothing, problem="unit")
            except DPEnsembleError:
                return PartReport(nothing, problem="record")
            except Exception:
                return PartReport(nothing, problem="error")

    def _check(self, tables: Iterator[Rows]) -> PartReport:
        checksums, rows, checksum, hashes = RowChecksums(self.key), 0, 0, []
        for part in self._read(tables):
            rows += len(part.targets)
            checksum += checksums.of(part.rows, part.targets, part.units)
            if part.units is not None:
                hashes.append(_as_hashes(np.asarray(part.units)))
        sums = PartialSums(None, rows, checksum % CHECKSUMS)
        return PartReport(sums, UnitCounts(*np.unique(np.concatenate(hashes), return_counts=True)) if hashes else None)

    def _sums(self, query: AnyQuery, tables: Iterator[Rows]) -> PartialSums:
        return partial_sums(query, self._behind(self.map, tables), number=self.number)

    def _behind(self, map_: MapBefore | None, tables: Iterator[Rows]) -> PrivateBlocks:
        assert map_ is not None  # noqa: S101  a query has a map
        return PrivateBlocks(
            lambda: self._read(tables),
            map_.transform,
            alone=map_.alone,
            zeroes_bad=zeroes_bad(self.rules),
            n_features=map_.n_features,
            judge=None if map_.judge is None else self._behind(map_.judge, iter(())),
            checksums=RowChecksums(self.key),
            keeps=False,
        )

    def _read(self, tables: Iterator[Rows]) -> Iterator[Block]:
        """Yield checked blocks. The units of a block are their keyed hashes."""
        zeroes = zeroes_bad(self.rules)
        for table in tables:
            if not len(table):
                continue
            if self.unit is not None and not is_id_type(table[self.unit].dtype):
                raise _UnitTypeError
            features = table[[name for name in table.columns if name not in (self.target, self.unit)]]
            rows, labels = block(self.rules, features, self.public), as_given("y", table[self.target])
            rows, targets = table_targets(self.classes, rows, labels, zeroes=zeroes)
            weights, units = np.ones(len(targets)), None
            if self.unit is not None:
                units, present = RowChecksums(self.key).ids(table[self.unit])
                if not (present.all() or zeroes):
                    raise DataError("a private record has no unit: fill the column of units in.")
                # A record without a unit is left out of every sum.
                rows, targets, units = rows[present], targets[present], units[present]
                weights = np.ones(len(targets)) if self.units is None else self.units.weights(_as_hashes(units))
            yield from blocks_of(rows, targets, weights, units)()


def _as_hashes(units: NDArray[np.uint8]) -> UnitHashes:
    return np.ascontiguousarray(units).view(_KIND).ravel()


@dataclass(frozen=True, eq=False)
class RecordsInParts:
    """Private records in parts, after the checking pass. `n_units` is public under replace-one only."""

    table: TableInParts
    task: PartTask
    same: SameRecords
    n_units: int
    weights: PartWeights

    @classmethod
    def of(
        cls, table: TableInParts, rules: RowRules, public: Rows, classes: NDArray[np.generic], key: bytes
    ) -> RecordsInParts:
        """Pass over all records once, check every record, and count units."""
        task = PartTask(rules, public, classes, table.target, table.unit, key, versions())
        merged, hashes, counts, records = PartialSums(None), [], [], []
        for report in reports(table, task):
            merged += report.sums
            if report.units is not None:
                hashes.append(report.units.hashes)
                counts.append(report.units.counts)
                records.append(report.sums.records)
        same = SameRecords(merged.records)
        if table.unit is None or not hashes:
            return cls(table, task, same, merged.rows, PartWeights(total=float(merged.rows)))
        distinct, places = np.unique(np.concatenate(hashes), return_inverse=True)
        total = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(total, places, np.concatenate(counts))
        several = total > 1
        units = UnitCounts(distinct[several], total[several])
        shares = np.split(np.concatenate(counts) / total[places], np.cumsum([len(one) for one in counts])[:-1])
        of_parts = {part: math.fsum(share.tolist()) for part, share in zip(records, shares, strict=True)}
        return cls(table, replace(task, units=units), same, len(distinct), PartWeights(of_parts, float(len(distinct))))

    def behind(self, transform: Transform, *, alone: bool, zeroes_bad: bool, n_features: int) -> SumsInParts:
        """Return the records behind a public map."""
        before = MapBefore(transform, alone, n_features)
        return SumsInParts(self.table, self.task, before, self.weights, alone, zeroes_bad)


@dataclass(frozen=True, eq=False)
class SumsInParts:
    """Private records in parts behind a public map."""

    table: TableInParts
    task: PartTask
    map: MapBefore
    weights: PartWeights
    alone: bool = False
    zeroes_bad: bool = False

    def sums(self, query: AnyQuery, number: int) -> PartialSums:
        """Return the exact sum of all records for the release with a number. Private."""
        merged = PartialSums(None, round=number)
        task = replace(self.task, query=query, map=self.map, number=number)
        for report in reports(self.table, task, self.weights):
            merged += report.sums
        # Parts that the checking pass did not see have larger bounds than their units.
        if not query.allows(merged, self.weights.total):
            raise DataError(PROBLEMS["report"])
        return merged

    def reading(self, transform: Transform) -> Self:
        """Return the same records behind a map of the library, with the same bad ones."""
        judge = self.map if self.alone and self.zeroes_bad else self.map.judge
        return replace(self, map=MapBefore(transform, False, 0, judge), alone=False)


def reports(table: TableInParts, task: PartTask, weights: PartWeights | None = None) -> Iterator[PartReport]:
    """Yield the report of each part, or raise if one has a problem, or if no rows could have the report."""
    weights = PartWeights() if weights is None else weights
    for report in table.results(task):
        # Neither ids nor counts are named: a refusal is not covered by the guarantee.
        problem = _problem_of(report)
        if problem or not report.is_possible(task, weights):
            raise DataError(PROBLEMS[problem or "report"])
        yield report


def _problem_of(report: PartReport) -> str:
    """Return the code of a report's problem, empty without one. What a faulty worker sends may be no report at all."""
    try:
        return report.problem if report.problem in ("", *PROBLEMS) else "report"
    except AttributeError:
        return "report"
