"""Passes over private rows: one that checks and counts all of them, and then one for each sum of their features.

A part of the rows is read where it is, and returns a `PartReport`: its exact sum, its number of rows and their
checksum, and no row. Charge and noise stay in the process that calls `fit`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from dpensemble._entries import Floats, Integers, Rows, rows_at
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._same_code import versions
from dpensemble._units import is_id_type
from dpensemble._work import one_thread
from dpensemble.datasets.tables import fingerprint
from dpensemble.errors import DataError, DPEnsembleError
from dpensemble.moments.learning import Transform
from dpensemble.moments.whole import AnyQuery, WholeBlock, bounded_features, partial_sums
from dpensemble.releases.sums import CHECKSUMS, PartialSums, SameRecords
from dpensemble.rows.arguments import BAD
from dpensemble.rows.checked import CheckedBlock, RowCheck
from dpensemble.rows.checksums import SIZE, RowChecksums
from dpensemble.rows.source import Facts, RowSource, rows_here

# Keyed hashes of units. numpy compares them as bytes of one length.
_UnitHashes = NDArray[np.bytes_]
# Type of `_UnitHashes`.
_HASH = f"S{SIZE}"


@dataclass(frozen=True, eq=False)
class UnitCounts:
    """Number of records of each unit, by the sorted keyed hashes of units. Private.

    All records of a unit share its weight. If records have ranks, only those of the least rank do: `ranks` is the least
    rank of each unit, and `sharing` the number of records that have it. So the order of records never matters.
    """

    hashes: _UnitHashes
    counts: NDArray[np.int64]
    ranks: _UnitHashes | None = None
    sharing: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, units: ArrayLike, ranks: NDArray[np.uint8] | None = None) -> Self:
        """Return the units of records, by their keyed hashes or their numbers."""
        hashes = as_hashes(units)
        if ranks is None:
            return cls(*np.unique(hashes, return_counts=True))
        ones = np.ones(len(hashes), dtype=np.int64)
        return cls.merged([cls(hashes, ones, as_hashes(ranks), ones)])

    @classmethod
    def merged(cls, parts: Sequence[UnitCounts]) -> Self:
        """Return the units of all parts together."""
        hashes, counts = np.concatenate([one.hashes for one in parts]), np.concatenate([one.counts for one in parts])
        ranked = [(one.ranks, one.sharing) for one in parts if one.ranks is not None and one.sharing is not None]
        if not ranked:
            distinct, places = np.unique(hashes, return_inverse=True)
            return cls(distinct, _added_up(counts, places, len(distinct)))
        ranks = np.concatenate([one for one, _ in ranked])
        # By unit, and within a unit by rank.
        order = np.lexsort((ranks, hashes))
        hashes, counts, ranks = hashes[order], counts[order], ranks[order]
        is_first = np.append(True, hashes[1:] != hashes[:-1])
        places, n_units = np.cumsum(is_first) - 1, int(is_first.sum())
        least = ranks[is_first]
        shared = np.where(ranks == least[places], np.concatenate([one for _, one in ranked])[order], 0)
        return cls(hashes[is_first], _added_up(counts, places, n_units), least, _added_up(shared, places, n_units))

    @property
    def of_several(self) -> UnitCounts:
        """The units that have several records. All others have the weight 1."""
        several = self.counts > 1
        if self.ranks is None or self.sharing is None:
            return UnitCounts(self.hashes[several], self.counts[several])
        return UnitCounts(self.hashes[several], self.counts[several], self.ranks[several], self.sharing[several])

    def weights(self, units: ArrayLike, ranks: NDArray[np.uint8] | None = None) -> Floats:
        """Return each record's share of its unit. `ranks` are those of the records, if units have any."""
        hashes = as_hashes(units)
        if not len(self.hashes):
            return np.ones(len(hashes))
        places = np.searchsorted(self.hashes, hashes).clip(max=len(self.hashes) - 1)
        several = self.hashes[places] == hashes
        if self.ranks is None or self.sharing is None or ranks is None:
            return 1 / np.where(several, self.counts[places], 1)
        counts = ~several | (as_hashes(ranks) == self.ranks[places])
        return counts / np.where(several, self.sharing[places], 1)

    def shares_of(self, part: UnitCounts) -> Floats:
        """Return the share of each unit that its records in a part have together. These are units of all parts."""
        places = np.searchsorted(self.hashes, part.hashes)
        if self.ranks is None or self.sharing is None or part.ranks is None or part.sharing is None:
            return part.counts / self.counts[places]
        return np.where(part.ranks == self.ranks[places], part.sharing / self.sharing[places], 0.0)

    def are_of(self, rows: int, *, ranked: bool = False) -> bool:
        """Return whether these can be the units of a number of records: sorted, each with a record, none missing."""
        hashes, counts = self.hashes, self.counts
        alike = hashes.dtype == np.dtype(_HASH) and counts.dtype == np.int64 and hashes.shape == counts.shape
        if not alike or counts.ndim != 1 or not ((counts >= 1) & (counts <= rows)).all():
            return False
        if not ((hashes[1:] > hashes[:-1]).all() and sum(counts.tolist()) == rows):
            return False
        ranks, sharing = self.ranks, self.sharing
        if ranks is None or sharing is None or not ranked:
            return ranks is None and sharing is None and not ranked
        alike = ranks.dtype == np.dtype(_HASH) and sharing.dtype == np.int64
        alike = alike and ranks.shape == sharing.shape == counts.shape
        return alike and bool(((sharing >= 1) & (sharing <= counts)).all())


def _added_up(counts: Integers, places: Integers, n_units: int) -> Integers:
    total = np.zeros(n_units, dtype=np.int64)
    np.add.at(total, places, counts)
    return total


#: Rows whose features are in memory at a time.
ROWS_AT_ONCE = 2048
# Least number of records before their units are merged with those of earlier records.
_RECORDS_WAITING = 2**17
# Most bytes of features that are kept between rounds. Whole features fit a 16-bit integer.
_KEPT_BYTES = 2**29


@dataclass(eq=False)
class Features:
    """Whole features of private records behind a public map, kept between passes if they are small enough.

    With `alone` the map transforms one row at a time. A map from outside the library may read rows together, and a
    product of matrices rounds a row differently in a larger block. With `zeroes_bad`, a row that the map cannot read is
    a bad record, and its features are zeros. Otherwise such a row raises an error. `judge` is another map, whose bad
    records are bad here too. With `keeps`, all passes are over the same records in this process.
    """

    transform: Transform
    alone: bool = False
    zeroes_bad: bool = False
    n_features: int = 0
    judge: Features | None = None
    keeps: bool = True
    _kept: list[WholeBlock] | None = field(default_factory=list, init=False)
    _complete: bool = field(default=False, init=False)

    def whole_blocks(
        self, blocks: Iterable[CheckedBlock], checksums: RowChecksums | None = None
    ) -> Iterator[WholeBlock]:
        """Yield whole features, class ids and weights. A bad record has zeros, the class `BAD` and its own weight.

        `checksums` hash rows that may change between two passes. Blocks are not read if their features were kept.
        """
        if self._complete and self._kept is not None:
            for block in self._kept:
                yield block._replace(features=block.features.astype(np.float64))
            return
        kept_bytes = 0
        self._kept = [] if self.keeps and not self._complete else None
        state = fingerprint(self._map) if self.alone else None
        for rows, targets, weights, units, ranks in blocks:
            checksum = 0 if checksums is None else checksums.of(rows, targets, units, ranks)
            features, good = self._bounded(rows, targets)
            block = WholeBlock(features, np.where(good, targets, BAD), weights, checksum)
            if self._kept is not None:
                small = features.astype(np.int16)
                kept_bytes += (small.data.nbytes + small.indices.nbytes) if sparse.issparse(small) else small.nbytes
                self._kept.append(block._replace(features=small))
                if kept_bytes > _KEPT_BYTES:
                    self._kept = None
            yield block
        if state is not None and fingerprint(self._map) != state:
            raise DataError(
                f"feature_map={type(self._map).__name__} changes its own state when it transforms rows, so that one "
                "record could change the features of others: use a map whose transform changes nothing."
            )
        self._complete = True

    def reading(self, transform: Transform) -> Features:
        """Return the features of a map of the library, for the same bad records."""
        judge = self if self.alone and self.zeroes_bad else self.judge
        return Features(transform, zeroes_bad=self.zeroes_bad, judge=judge, keeps=self.keeps)

    @property
    def _map(self) -> Any:
        return getattr(self.transform, "__self__", self.transform)

    def _bounded(self, rows: Any, targets: Integers) -> tuple[Any, NDArray[np.bool_]]:
        """Return whole features of rows, zeros for bad ones, and which are good."""
        if not self.zeroes_bad:
            features = self._each(rows) if self.alone else _transformed(self.transform, rows)
            return bounded_features(features), np.ones(len(targets), dtype=bool)
        good = targets >= 0
        if self.judge is not None:
            good &= self.judge.readable(rows, good)[1]
        features, readable = self.readable(rows, good)
        if not readable.all():
            readable_rows = sparse.diags_array(readable.astype(np.float64))
            features = (
                readable_rows @ features if sparse.issparse(features) else np.where(readable[:, None], features, 0.0)
            )
        return bounded_features(features), readable

    def readable(self, rows: Any, good: NDArray[np.bool_]) -> tuple[Any, NDArray[np.bool_]]:
        """Return features of rows, zeros for those that are bad or cannot be read, and which could be read."""
        if not self.alone:
            # Maps of the library read every row.
            return _transformed(self.transform, rows), good
        features = [self._row(rows, place) if good[place] else None for place in range(len(good))]
        readable = np.array([one is not None for one in features], dtype=bool)
        of_sparse = any(sparse.issparse(one) for one in features)
        empty = sparse.csr_matrix((1, self.n_features)) if of_sparse else np.zeros((1, self.n_features))
        stacked = [empty if one is None else one for one in features]
        return sparse.vstack(stacked, format="csr") if of_sparse else np.vstack(stacked), readable

    def _row(self, rows: Any, place: int) -> Any:
        """Return the features of one row, None if the map cannot read the row."""
        try:
            features = self.transform(rows_at(rows, slice(place, place + 1)))
            entries = features.data if sparse.issparse(features) else np.asarray(features, dtype=np.float64)
        except Exception:
            return None
        return features if np.isfinite(entries).all() else None

    def _each(self, rows: Any) -> Any:
        features = [_transformed(self.transform, rows_at(rows, slice(place, place + 1))) for place in range(len(rows))]
        return sparse.vstack(features, format="csr") if sparse.issparse(features[0]) else np.vstack(features)


def _transformed(transform: Transform, rows: Any) -> Any:
    """Return features of private rows. An error of another library is replaced, since its text may quote a row."""
    try:
        return transform(rows)
    except DPEnsembleError:
        raise
    except Exception as error:
        kind = type(error).__name__
    # Raised outside the handler, so that the original error is not the context of this one.
    raise DataError(
        f"feature_map cannot read a private row ({kind}): use a map that accepts any value, such as a "
        "category that no public row has, or give on_bad_record='zero'."
    )


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
                owned, ranked = task.check.unit is not None and sums.rows > 0, task.check.times is not None
                vetted = units is not None and units.are_of(sums.rows, ranked=ranked)
                return sums.total is None and (vetted if owned else not units)
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


@dataclass(frozen=True, eq=False, repr=False)
class PartTask:
    """The work on a part: the checking pass, or the exact sum of a query.

    `key` is that of hashes, and `wanted` are the versions of libraries that a worker must have. Rows that may change
    have `checksums`. If `here`, the part is read in this process, and an error may name a row.
    """

    check: RowCheck
    key: bytes
    wanted: dict[str, str]
    checksums: bool = True
    here: bool = False
    query: AnyQuery | None = None
    features: Features | None = None
    number: int = 0

    def __call__(self, tables: Iterator[Rows]) -> PartReport:
        """Return the report of the part. On a worker, an error becomes the code of a problem."""
        return self._sum_or_count(tables) if self.here else self._on_worker(tables)

    def _on_worker(self, tables: Iterator[Rows]) -> PartReport:
        nothing = PartialSums(None, round=self.number)
        if versions() != self.wanted:
            return PartReport(nothing, problem="versions")
        # Many small products: threads that wait for each other take many times as long on a busy machine.
        with guard_private_rows(), one_thread():
            # Within the guard, which would make an error of any kind one of this library.
            try:
                return self._sum_or_count(tables)
            except OSError:
                return PartReport(nothing, problem="file")
            except UnitTypeError:
                return PartReport(nothing, problem="unit")
            except DPEnsembleError:
                return PartReport(nothing, problem="record")
            except Exception:
                return PartReport(nothing, problem="error")

    def _sum_or_count(self, tables: Iterator[Rows]) -> PartReport:
        blocks = (part for block in self.check.checked_blocks(tables) for part in block.split(ROWS_AT_ONCE))
        checksums = RowChecksums(self.key) if self.checksums else None
        if self.query is None or self.features is None:
            return self._count(blocks, checksums)
        return PartReport(partial_sums(self.query, self.features.whole_blocks(blocks, checksums), number=self.number))

    def _count(self, blocks: Iterator[CheckedBlock], checksums: RowChecksums | None) -> PartReport:
        rows, checksum, waiting = 0, 0, 0
        units: list[UnitCounts] = []
        for part in blocks:
            rows += len(part.targets)
            checksum += 0 if checksums is None else checksums.of(part.rows, part.targets, part.units, part.ranks)
            # Units that were named before are known, but not which of their records count.
            if part.units is not None and (self.check.unit is not None or part.ranks is not None):
                units.append(UnitCounts.of(part.units, part.ranks))
                waiting += len(part.targets)
                # Memory grows with the units, and not with their records.
                if waiting > max(_RECORDS_WAITING, len(units[0].hashes)):
                    units, waiting = [UnitCounts.merged(units)], 0
        sums = PartialSums(None, rows, checksum % CHECKSUMS)
        return PartReport(sums, UnitCounts.merged(units) if units else None)


@dataclass(frozen=True, eq=False, repr=False)
class CheckedRecords:
    """Private records that were all checked once. `n_units` is public under replace-one only.

    Those in memory are `blocks`, which nothing changes. Those of a `source` are read again for each sum, by a `task`.
    If `keeps`, features of all records may be kept between passes, which are over one part in this process.
    """

    n_records: int
    n_units: int
    same: SameRecords
    blocks: tuple[CheckedBlock, ...] | None = None
    source: RowSource | None = None
    task: PartTask | None = None
    weights: PartWeights = field(default_factory=PartWeights)
    keeps: bool = False

    @classmethod
    def in_memory(cls, X: Rows, y: Rows, check: RowCheck) -> Self:
        """Convert and weigh records in memory, whose entries were checked. They need no checksums."""
        block = check.checked_block(X, y)
        n_records = len(block.targets)
        named = None if check.units is None else check.units.named
        n_units, _ = named or (n_records, 0.0)
        blocks = tuple(block.split(ROWS_AT_ONCE))
        return cls(n_records, n_units, SameRecords((n_records, 0)), blocks, keeps=True)

    @classmethod
    def of_source(cls, source: RowSource, check: RowCheck) -> Self:
        """Pass over the records of a source once, check every record, and count records and units."""
        facts, check = Facts.of(source), replace(check, target=source.target, unit=source.unit)
        # The key is secret and new, so that nobody can make rows whose change would not be noticed.
        key = secrets.token_bytes(32)
        if source.unit is not None:
            check = replace(check, units=UnitsByEntry(key))
        here = facts.names_rows
        task = PartTask(check, key, {} if here else versions(), checksums=facts.may_change, here=here)
        merged, parts, n_parts = PartialSums(None), [], 0
        for report in vetted_reports(source, task):
            merged, n_parts = merged + report.sums, n_parts + 1
            if report.units is not None:
                parts.append((report.units, report.sums.records))
        named = None if check.units is None else check.units.named
        n_units, total = named or (merged.rows, float(merged.rows))
        # Features of one part must not stand for those of another.
        keeps = facts.keeps_features and n_parts == 1
        weights, same = PartWeights(total=total), SameRecords(merged.records)
        records = cls(merged.rows, n_units, same, None, source, task, weights, keeps)
        return records._with_units(task, parts) if parts else records

    def _with_units(self, task: PartTask, parts: list[tuple[UnitCounts, tuple[int, int]]]) -> Self:
        """Return the records with the weights of units that each part counted."""
        units = UnitCounts.merged([one for one, _ in parts])
        of_parts = {part: math.fsum(units.shares_of(one).tolist()) for one, part in parts}
        weights = PartWeights(of_parts, float(len(units.hashes)))
        check = replace(task.check, shares=units.of_several)
        return replace(self, task=replace(task, check=check), n_units=len(units.hashes), weights=weights)


@dataclass(frozen=True, eq=False, repr=False)
class RecordsInOrder:
    """Checked records of a source in this process, with the same rows in the same order in every pass.

    Teachers that vote get their records by place. A record that moves between two passes may teach two teachers, so
    the checksum of a pass covers the place of each row. Rows that cannot change are only counted.
    """

    source: RowSource
    check: RowCheck
    same: SameRecords = field(default_factory=SameRecords)
    # The key is secret and new, so that nobody can make rows whose change would not be noticed.
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def blocks(self) -> Iterator[CheckedBlock]:
        """Yield the records of one pass. At its end, raise if the pass differs from the first one."""
        checksums = RowChecksums(self.key) if Facts.of(self.source).may_change else None
        n_rows, checksum = 0, 0
        for block in self.check.checked_blocks(rows_here(self.source)):
            for part in block.split(ROWS_AT_ONCE):
                checksum += 0 if checksums is None else checksums.in_order(part.rows, part.targets, n_rows)
                n_rows += len(part.targets)
            yield block
        self.same.require((n_rows, checksum % CHECKSUMS))

    def rows(self, wanted: NDArray[np.bool_]) -> Iterator[Rows]:
        """Yield the rows at some places in one pass, block by block. `wanted` has an entry for each place."""
        places, start = np.flatnonzero(wanted), 0
        for block in self.blocks():
            end = start + len(block.targets)
            # By place, because a pass with more rows than the first one must reach its end, and be refused there.
            inside = places[np.searchsorted(places, start) : np.searchsorted(places, end)] - start
            yield block.rows if len(inside) == end - start else block.rows[inside]
            start = end


@dataclass(frozen=True, eq=False)
class SumsOfRecords:
    """Private records behind a public map."""

    records: CheckedRecords
    features: Features

    @property
    def alone(self) -> bool:
        """Whether the map transforms one row at a time."""
        return self.features.alone

    @property
    def zeroes_bad(self) -> bool:
        """Whether a bad record adds zeros. Otherwise it raises an error."""
        return self.features.zeroes_bad

    def sums(self, query: AnyQuery, number: int) -> PartialSums:
        """Return the exact sum of all records for the release with a number. Private."""
        records, merged = self.records, PartialSums(None, round=number)
        if records.source is None or records.task is None:
            return partial_sums(query, self.features.whole_blocks(records.blocks or ()), number=number)
        task = replace(records.task, query=query, features=self.features, number=number)
        for report in vetted_reports(records.source, task, records.weights):
            merged += report.sums
        # Parts that the checking pass did not see have larger bounds than their units.
        if not (task.here or query.allows(merged, records.weights.total)):
            raise DataError(PROBLEMS["report"])
        return merged

    def reading(self, transform: Transform) -> Self:
        """Return the same records behind a map of the library, with the same bad ones."""
        return replace(self, features=self.features.reading(transform))


def vetted_reports(source: RowSource, task: PartTask, weights: PartWeights | None = None) -> Iterator[PartReport]:
    """Yield the report of each part, or raise if one has a problem, or if no rows could have the report.

    What this process computed itself is not vetted.
    """
    weights = PartWeights() if weights is None else weights
    for report in source.results(task):
        # Neither ids nor counts are named: a refusal is not covered by the guarantee.
        problem = _problem_of(report)
        if problem or not (task.here or report.is_possible(task, weights)):
            raise DataError(PROBLEMS[problem or "report"])
        yield report


def _problem_of(report: PartReport) -> str:
    """Return the code of a report's problem, empty without one. What a faulty worker sends may be no report at all."""
    try:
        return report.problem if report.problem in ("", *PROBLEMS) else "report"
    except AttributeError:
        return "report"


class UnitTypeError(DataError):
    """Some rows have a column of units of a type that does not hold ids."""


@dataclass(frozen=True, eq=False, repr=False)
class UnitsByEntry:
    """Units that are recognised by the entries of a column, under a secret key."""

    key: bytes

    @property
    def named(self) -> None:
        """None, since units are counted in the first pass."""

    def require_type(self, ids: Rows | None) -> None:
        """Raise if the type of the column does not hold ids."""
        if ids is None or not is_id_type(ids.dtype):
            raise UnitTypeError

    def weights_of(self, ids: Rows | None, start: int, n_rows: int) -> tuple[NDArray[np.bool_], Floats, ArrayLike]:  # noqa: ARG002
        """Return which rows have a unit, no weights before all of them are counted, and the keyed hashes of units."""
        hashes, present = RowChecksums(self.key).ids(cast("Rows", ids))
        return present, np.ones(n_rows), hashes

    def require_all(self, n_rows: int) -> None:
        """Do nothing: every row has an entry."""


def as_hashes(units: ArrayLike) -> _UnitHashes:
    """Return keyed hashes or ranks, shape (n_rows, 16), as one entry each, and so numbers of units."""
    entries = np.asarray(units)
    if entries.ndim == 1:
        written = np.zeros((len(entries), SIZE), dtype=np.uint8)
        written[:, :8] = entries.astype(">i8").view(np.uint8).reshape(len(entries), 8)
        entries = written
    return np.ascontiguousarray(entries, dtype=np.uint8).view(_HASH).ravel()
