"""A run of label moments: what each record adds to each released sum, and the order from the first sum to the model.

A record ``(x, y)`` of a unit with ``k`` records and weight ``a`` adds ``(a / k) (phi(x) outer r)`` to a sum, where
phi is public, ``|phi| <= 1``, and ``r`` depends on the query. So a unit adds a vector of length ``a |r|`` at most.
`dpensemble.moments.whole` enforces the lengths on whole numbers. A sensitivity is proved beside its query.

A round puts private records behind a map, releases their moments and fits a model to them. Features have public weights
before a later round, so that sensitivity is spent where signal is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dpensemble._entries import Floats, Integers, Rows
from dpensemble._work import Way, fewer, goes, one_thread, pass_named
from dpensemble.datasets.tables import as_library_transformer
from dpensemble.design.sums import NoisySums
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.fits import MOST_TOGETHER, Fit, Moments
from dpensemble.moments.maps.base import FeatureMap
from dpensemble.moments.maps.grid import Grid, SnappedMap, observed_grid
from dpensemble.moments.maps.tables import MOST_FEATURES, TableMap
from dpensemble.moments.model import MomentsModel
from dpensemble.moments.public_rows import (
    Drift,
    PublicRows,
    PublicUnits,
    ReadableShare,
    rows_in_memory,
)
from dpensemble.moments.softmax import fit_rounds
from dpensemble.moments.whole import (
    UNIT,
    WHOLE,
    AnyQuery,
    RecordsQuery,
    bounded_answers,
    bounded_features,
    bounded_products,
    centres_and_weights,
)
from dpensemble.relations import Relation
from dpensemble.releases import ReleasedSum, ReleasedTable, SumReleaser
from dpensemble.releases.sums import Outcome, PartialSums, SameRecords


@dataclass(frozen=True)
class UnitCount(RecordsQuery[tuple[float, float]]):
    """The weighted number of units. Every unit adds its weight."""

    description = "the number of units"
    replacing = WHOLE
    never_negative = True

    def bounded_factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:  # noqa: ARG002
        """Return ones, and weights that are cut to whole numbers."""
        return np.ones((len(weights), 1)), np.floor(weights * WHOLE)[:, None]

    def read(self, sums: Floats, spread: float) -> tuple[float, float]:
        """Return the number, at least 1, and the standard deviation of its noise."""
        return max(float(sums[0, 0]), 1.0), spread

    def table(self, outcome: tuple[float, float]) -> ReleasedTable:
        """Return a table of the number."""
        return ReleasedTable("Number of units", (("units", *outcome),))


@dataclass(frozen=True)
class FeatureMean(RecordsQuery[tuple[Floats, float]]):
    """The mean of features, without labels.

    A unit adds a vector that is at most as long as the unit's weight. So replacing a unit moves the sum by at most 2,
    and by at most sqrt(2) if no entry is negative. Adding or removing a unit moves the sum by at most 1.
    """

    nonnegative: bool
    description: str = "the mean of the features, without labels"

    @property
    def replacing(self) -> int:  # type: ignore[override]
        """Whole units by which replacing a unit moves the sum."""
        return RecordsQuery.replacing if self.nonnegative else 2 * WHOLE

    @property
    def never_negative(self) -> bool:  # type: ignore[override]
        """Whether no record adds a negative entry."""
        return self.nonnegative

    def bounded_factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:  # noqa: ARG002
        """Return features and weights."""
        return cut(features) if self.nonnegative else features, bounded_answers(weights[:, None], weights)

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return the mean, shape (n_features,), and the standard deviation of its noise."""
        return sums[:, 0], spread


# Products of features of records that are in memory at a time.
_PRODUCTS_AT_ONCE = 2**22


@dataclass(frozen=True)
class FeatureProducts(RecordsQuery[tuple[Floats, float]]):
    """Mean products of two features.

    A record adds ``z outer z``, ``|z| <= 1``, which is ``|z|**2`` long. The inner product of two such products is a
    square. So replacing a unit moves the sum by at most sqrt(2), and adding or removing a unit by at most 1.
    """

    description = "which values go together"

    def rows_at_once(self, n_features: int) -> int:
        """Return fewer records for more features."""
        return max(1, _PRODUCTS_AT_ONCE // n_features**2)

    def bounded_factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:  # noqa: ARG002
        """Return products and weights."""
        return bounded_products(features), bounded_answers(weights[:, None], weights)

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return the products, shape (n_features, n_features), and the standard deviation of their noise."""
        size = math.isqrt(len(sums))
        square = sums[:, 0].reshape(size, size)
        # Both halves have noise of their own.
        return (square + square.T) / 2, spread * math.sqrt(0.5)


@dataclass(frozen=True)
class ClassSums(RecordsQuery[Moments]):
    """The sum of features of each class.

    ``r`` is the label as a vector of zeros and a one, and features are cut at 0 from below. Vectors ``u, v`` of two
    units then have no negative entry, so that ``|u - v|**2 <= |u|**2 + |v|**2 <= 2``. So replacing a unit moves the
    sum by at most ``sqrt(2)``, and adding or removing a unit by at most 1.

    Two class sums hold the same information as one column of residuals with the centre 1/2. If units are replaced,
    half their difference has exactly the noise of that column. Their sum, the mean of features, costs nothing more.
    """

    n_classes: int
    description = "the mean of the features of each class"
    never_negative = True

    def bounded_factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:
        """Return features without negative entries, and weights in the columns of their classes."""
        return cut(features), bounded_answers(_by_class(targets, weights, self.n_classes), weights)

    def read(self, sums: Floats, spread: float) -> Moments:
        """Return the moments of a round that expects even shares of the classes."""
        mean = sums.sum(axis=1)
        if self.n_classes == 2:
            values, share_of_noise = (sums[:, [1]] - sums[:, [0]]) / 2, math.sqrt(0.5)
        else:
            values, share_of_noise = sums - mean[:, None] / self.n_classes, 1.0
        return Moments(
            values=values,
            spread=spread * share_of_noise,
            scale=np.ones(len(mean)),
            centre=None,
            mean=mean,
            mean_spread=spread * math.sqrt(self.n_classes),
        )


@dataclass(frozen=True, eq=False)
class Residuals(RecordsQuery[Moments]):
    """The differences between labels and the expectation of a published model.

    ``r = omega (onehot(y) - c)`` (for two classes one number, ``omega (y - c)``). The centre ``c`` is the expectation
    of an already published model for ``x``, or an even share. The public weight is ``omega = 0.5 / max over y of
    |onehot(y) - c|``, which makes ``|r| <= 1/2`` for every label. Replacing a unit moves the sum by at most 1. Adding
    or removing a unit moves the sum by at most 1/2. Nothing is clipped, so that the expectation of the sum is known for
    every model. Features weighted by a public `scale` are shortened if they are longer than 1.
    """

    n_classes: int
    centre: Floats | None = None
    scale: Floats | None = None
    replacing = WHOLE
    removing = WHOLE // 2

    @property
    def public_arrays(self) -> tuple[Floats | None, ...]:
        """The centre and the scale."""
        return self.centre, self.scale

    @property
    def description(self) -> str:
        """The released sum in words."""
        expected_label = "equal chances for all classes" if self.centre is None else "what the model so far predicts"
        return (
            f"the mean of the features, with each record weighted by how much its label differs from {expected_label}"
        )

    def bounded_factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:
        """Return weighted features, and weighted residuals."""
        c, omega = centres_and_weights(self.centre, features, self.n_classes, _even_weight(self.n_classes), whole=True)
        # Features of a bad record are zeros, which make its residual count nothing.
        labels = _by_class(targets, np.ones(len(targets)), self.n_classes)[:, -c.shape[1] :]
        weighted = features if self.scale is None else bounded_features(features, self.scale / UNIT)
        return weighted, bounded_answers(weights[:, None] * omega[:, None] * (labels - c), weights / 2)

    def read(self, sums: Floats, spread: float) -> Moments:
        """Return the moments of the round."""
        scale = np.ones(len(sums)) if self.scale is None else self.scale
        return Moments(
            values=sums, spread=spread, scale=scale, centre=self.centre, even_weight=_even_weight(self.n_classes)
        )


@dataclass(frozen=True)
class _ClassShares(RecordsQuery[tuple[Floats, float]]):
    """The share of each class among units. A unit with several classes has a part of each.

    A bad record adds nothing to any class, but counts in its unit, so shares of all classes add up to the share of
    records that could be read.

    A unit adds the weight of each class, numbers from 0 that add up to its weight at most. Vectors of two units have no
    negative entry and are at most 1 long. So replacing a unit moves the sum by at most sqrt(2), and adding or removing
    a unit by at most 1.
    """

    classes: tuple[str, ...]
    description = "the share of each class"
    never_negative = True

    def bounded_factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:  # noqa: ARG002
        """Return ones, and weights in the columns of their classes."""
        labels = _by_class(targets, weights, len(self.classes))
        return np.full((len(targets), 1), float(UNIT)), bounded_answers(labels, weights)

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return the shares, shape (n_classes,), and the standard deviation of their noise."""
        return sums[0], spread

    def table(self, outcome: tuple[Floats, float]) -> ReleasedTable:
        """Return the share of each class. Noise may drive the share of a rare class below 0."""
        shares, spread = outcome
        rows = tuple((name, float(share), spread) for name, share in zip(self.classes, shares, strict=True))
        return ReleasedTable("Share of each class", rows)


_SHARES = "class-shares"
#: Statistics that a run may release besides its model, by name: each takes the names of the declared classes.
STATISTICS: dict[str, Callable[[tuple[str, ...]], RecordsQuery[Any]]] = {_SHARES: _ClassShares}


def statistics_of(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of requested statistics, from a list or from a text with commas."""
    given = names.split(",") if isinstance(names, str) else names
    if given is not None and not (isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)):
        raise InvalidParameterError(
            f"statistics={names!r} is not a list of names: use some of {', '.join(STATISTICS)}.", parameter="statistics"
        )
    asked = tuple(name.strip() for name in given) if names and given else ()
    for name in asked:
        if name not in STATISTICS:
            raise InvalidParameterError(
                f"statistics={names!r} names {name!r}, which is unknown: use {', '.join(STATISTICS)}.",
                parameter="statistics",
            )
    if len(set(asked)) < len(asked):
        raise InvalidParameterError(
            f"statistics={names!r} names a statistic twice: name each once.", parameter="statistics"
        )
    return asked


def _even_weight(n_classes: int) -> float:
    """Return the weight of rows where residuals are taken from even shares of the classes."""
    return 1.0 if n_classes == 2 else 0.5 / math.sqrt((n_classes - 1) / n_classes)


def _by_class(targets: Integers, weights: Floats, n_classes: int) -> Floats:
    """Return weights in the columns of classes, zeros for bad records, shape (n_records, n_classes)."""
    labels = np.zeros((len(targets), n_classes))
    good = np.flatnonzero(targets >= 0)
    labels[good, targets[good]] = weights[good]
    return labels


def cut(features: Any) -> Any:
    """Return features without negative entries, even if the map falsely states so. Sensitivities rest on this."""
    if (features.data if sparse.issparse(features) else features).min(initial=0.0) >= 0:
        return features
    return features.maximum(0.0) if sparse.issparse(features) else np.maximum(features, 0.0)


# Share of its present part that every block keeps.
_FLOOR = 0.2


def _scale_of_features(fitted: Fit, public: PublicRows, feature_map: Any, spread: float) -> Floats:
    """Return factors for the features of the next round, from the model published so far.

    A block with squared length ``a`` of prior scale ``tau`` leaves an uncertainty of about ``sum of h tau**2 / (1 + a
    h**2 tau**2 / spread**2)`` over its features, where ``h`` is a feature's curvature. The squared lengths that make
    the sum over blocks least, and sum to what they do now, are found by bisection. A row that has no entry in a
    column has that column's whole length, as before, so that no row becomes longer than 1.
    """
    p = public.probabilities(fitted.coefficients)
    curvature = (p * (1 - p)).mean(axis=1)
    squared = public.features.power(2) if sparse.issparse(public.features) else public.features**2
    h = np.asarray(squared.T @ curvature).ravel() / len(p)
    now, blocks = feature_map.squares_, feature_map.blocks_
    scales = fitted.scales[blocks]
    # Blocks of directions differ in length from row to row. Groups of blocks do not.
    if feature_map.groups_ is not None:
        blocks = feature_map.groups_
    gains = h**2 * scales**2 / spread**2
    squares = _divided(h * scales**2, gains / now[blocks], blocks, now)
    factors: Floats = np.sqrt(squares / now)[blocks]
    owners = feature_map.columns_of_blocks_
    for column, feature in enumerate(feature_map.missing_):
        factors[feature] = np.sqrt(squares[owners == column].sum() / now[owners == column].sum())
    return factors


def _divided(losses: Floats, gains: Floats, blocks: Any, now: Floats) -> Floats:
    """Return squared lengths of blocks, the last as it is, that minimise ``sum of losses / (1 + a gains)``."""
    total, least = 1 - now[-1], _FLOOR * now[:-1]

    def lengths(price: float) -> Floats:
        low, high = least.copy(), np.full(len(least), total)
        for _ in range(40):
            middle = np.sqrt(low * high)
            a = np.append(middle, now[-1])[blocks]
            worth = np.bincount(blocks, losses * gains / (1 + a * gains) ** 2)[:-1]
            low, high = np.where(worth > price, middle, low), np.where(worth > price, high, middle)
        return np.sqrt(low * high)

    cheap, dear = 1e-30, 1e30
    for _ in range(80):
        price = np.sqrt(cheap * dear)
        cheap, dear = (price, dear) if lengths(price).sum() > total else (cheap, price)
    best = lengths(dear)
    return np.append(best * total / best.sum(), now[-1])


# Synthetic rows, those of a rehearsal, and their knots.
_SYNTHETIC_ROWS, _REHEARSED_ROWS, _KNOTS = 16_000, 250, (2, 3, 5, 9)
# How often the features of all public rows are in memory at once, and square matrices of features.
_COPIES, _SQUARES = 4.5, 12
# Rows of a block of records, how often its features are in memory, and the most bytes that are kept between passes.
_BLOCK, _BLOCK_COPIES, _MOST_KEPT = 2048, 5, 2**29
# Rows that may stand beside public ones, and most entries of a base map's features at once.
_APART, _BASE_ENTRIES, _WIDE_COPIES = 2000, 2**25, 3
# Bytes of one entry of a released sum while its noise is drawn, mostly of Python integers.
_ENTRY_BYTES = 120


def bytes_needed(feature_map: FeatureMap, public: pd.DataFrame, n_classes: int, n_records: int) -> int:
    """Return about how many bytes `release_and_fit` needs without an alarm. `n_records` is 0 if it is private.

    Raise if the map gives some public rows features that are not finite.
    """
    some, decoder = public.iloc[:_SAMPLE], as_library_transformer(feature_map).decoder_
    features_of_some, n_rows = feature_map.transform(some), len(public)
    # After the charge, features that are not finite would end the run.
    bounded_features(features_of_some)
    released = _RowSize.of(features_of_some)
    read = released if decoder is None else _RowSize.of(decoder.transform(some))
    if as_library_transformer(feature_map).reads_columns_apart:
        n_rows += _APART
    features = _COPIES * n_rows * (released.n_bytes + (0 if decoder is None else read.n_bytes))
    if not released.is_sparse:
        # Directions are found among the base map's features, which are in memory for some rows.
        features += 8 * min(n_rows * max(MOST_FEATURES, 3 * public.shape[1]), _BASE_ENTRIES)
        # Very many columns have features of their own, and blocks of records are read with copies of these.
        features += 8 * min(max(n_rows, _BLOCK) * _WIDE_COPIES * 3 * public.shape[1], _WIDE_COPIES * _BASE_ENTRIES)
    kept = min(n_records * released.n_bytes / 4, _MOST_KEPT)
    sizes = read.n_features, (0 if decoder is None else released.n_features)
    of_fit = _bytes_of_fit(n_rows, n_classes, *sizes)
    if as_library_transformer(feature_map).screens_features:
        # Most features are left out before any square matrix. Only the test compares all of them.
        of_fit = _bytes_of_fit(n_rows, n_classes, min(MOST_TOGETHER, sizes[0]), 0)
        of_fit += 3 * 8 * min(n_rows, sizes[0]) ** 2 + (6 * 8 * n_rows + _ENTRY_BYTES) * sizes[0]
    return int(features + kept + _BLOCK_COPIES * _BLOCK * released.n_bytes + of_fit)


def bytes_needed_by_synthetic_rows(n_columns: int, n_classes: int, n_public: int) -> int:
    """Return about how many bytes a run with synthetic rows needs."""
    scales = 1
    while scales < len(_KNOTS) and n_columns * (sum(_KNOTS[: scales + 1]) + 1) < MOST_FEATURES:
        scales += 1
    n_features, n_rows = n_columns * (sum(_KNOTS[:scales]) + 1) + 1, _SYNTHETIC_ROWS + n_public
    entries = n_rows * (2 * scales * n_columns + 1)
    products = 3 * 8 * _PRODUCTS_AT_ONCE + _ENTRY_BYTES * n_columns**2
    table = 3 * 8 * n_rows * n_columns
    return int(_COPIES * 12 * entries + table + products + _bytes_of_fit(n_rows, n_classes, n_features, 0))


def _bytes_of_fit(n_rows: int, n_classes: int, n_read: int, n_released: int) -> int:
    """Return about how many bytes a fit needs beside the features of all rows."""
    columns, size = n_classes if n_classes > 2 else 1, max(n_read, n_released)
    dense_rows = 4 * rows_in_memory(n_rows, n_read) * (2 * n_read + 2 * n_released)
    return int(dense_rows + 8 * _SQUARES * size**2 + 8 * 8 * n_rows * columns + _ENTRY_BYTES * size * columns)


# Public rows by which the size of a row's features is found.
_SAMPLE = 50


@dataclass(frozen=True)
class _RowSize:
    """Bytes of a row's features, their number, and whether they come in a sparse matrix."""

    n_bytes: float
    n_features: int
    is_sparse: bool

    @classmethod
    def of(cls, features: Any) -> _RowSize:
        """Return the size of the mean row."""
        n_rows, n_features = features.shape
        is_sparse = sparse.issparse(features)
        return cls(12 * features.nnz / n_rows if is_sparse else 8.0 * n_features, n_features, is_sparse)


#: A public map from rows to features.
Transform = Callable[[Rows], Rows]


class _RecordSums(Protocol):
    """Private records behind a public map, in one place or in parts, whose exact sums can be computed."""

    @property
    def alone(self) -> bool:
        """Whether the map transforms one row at a time."""
        ...

    @property
    def zeroes_bad(self) -> bool:
        """Whether a bad record adds zeros. Otherwise it raises an error."""
        ...

    def sums(self, query: AnyQuery, number: int) -> PartialSums:
        """Return the exact sum of all records for the release with a number. Private."""
        ...

    def reading(self, transform: Transform) -> Self:
        """Return the same records behind a map of the library, with the same bad ones."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentsSource:
    """Private records behind a public map, and the releaser of their sums. `nonnegative` features are cut at 0."""

    blocks: _RecordSums
    nonnegative: bool
    sums: SumReleaser
    same: SameRecords = field(default_factory=SameRecords)

    def noisy_sum(
        self, query: RecordsQuery[Outcome], share: float, total_weight: float = 1.0, *, title: str = "Statistics"
    ) -> Outcome:
        """Sum the records exactly, and let `SumReleaser.charge_and_draw` release the sum for a share of the budget.

        The order is: pass over the records, compare them with those of the first pass, charge, draw. Bars show the
        `title` of the pass. The noisy sum is per unit of weight.
        """
        with pass_named(title):
            sums = self.blocks.sums(query, len(self.sums.released))
        if sums.total is not None:
            self.same.require(sums.records)
        return self.sums.charge_and_draw(query, sums.total, share, weight=total_weight)

    def reading(self, transform: Any, *, nonnegative: bool) -> MomentsSource:
        """Return the same records behind another map of the library."""
        return replace(self, blocks=self.blocks.reading(transform), nonnegative=nonnegative)

    def first_query(self, n_classes: int) -> RecordsQuery[Moments]:
        """Return the query of the first round: class sums if they are cheaper, as they are for replacing a unit."""
        cheaper = self.nonnegative and self.sums.relation is Relation.REPLACE_ONE
        return ClassSums(n_classes) if cheaper else Residuals(n_classes)


class _Rounds:
    """Releases round after round, and fits the model to all of them after each."""

    def __init__(self, source: MomentsSource, feature_map: Any, rows: PublicRows, total_weight: float) -> None:
        self.source, self.feature_map, self.rows, self.total_weight = source, feature_map, rows, total_weight
        # A model that reads other features than the released ones cannot be the centre of residuals.
        self.class_sums_only = rows.released is not None
        self.released: list[Moments] = []
        self.fitted = Fit.start(rows)

    def run(
        self, shares: tuple[float, ...], after_first: Callable[[Moments], None], on_done: Callable[[int], None]
    ) -> None:
        """Release a round for each share of the budget. `after_first` gets the first round before it is fitted.

        Later rounds are of residuals around the model that is fitted so far, if the first one may be.
        """
        n_classes, weighs = self.rows.n_classes, getattr(self.feature_map, "squares_", None) is not None
        shares = shares[: fewer(len(shares), 2)]
        for number, share in enumerate(shares):
            if self.class_sums_only:
                query: RecordsQuery[Moments] = ClassSums(n_classes)
            elif not number:
                query = self.source.first_query(n_classes)
            else:
                query = Residuals(n_classes, self.fitted.coefficients)
                if weighs:
                    spread = self.source.sums.spread(query, share, weight=self.total_weight)
                    scale = _scale_of_features(self.fitted, self.rows, self.feature_map, spread)
                    query = Residuals(n_classes, self.fitted.coefficients, scale)
            title = f"Round {number + 1} of {len(shares)}"
            self.released.append(self.source.noisy_sum(query, share, self.total_weight, title=title))
            if not number:
                after_first(self.released[0])
            self.fit()
            on_done(1)

    def fit(self) -> None:
        """Fit the coefficients to all that was released."""
        self.fitted = fit_rounds(
            self.fitted,
            self.released,
            self.rows,
            n_units=self.total_weight,
            class_sums=self.class_sums_only,
            screened=as_library_transformer(self.feature_map).screens_features,
        )


_EACH_ROW = PublicUnits()


@dataclass(frozen=True, eq=False)
class Learned:
    """A published model, its map and rounds, and rows (public or drawn) that stand for the private ones. Public."""

    model: MomentsModel
    feature_map: FeatureMap
    rounds: tuple[Moments, ...]
    drift: Drift | None
    table: pd.DataFrame
    synthetic: bool
    releases: tuple[ReleasedSum, ...]
    readable: ReadableShare | None = None

    @classmethod
    def of(
        cls,
        rounds: _Rounds,
        classes: NDArray[np.generic],
        table: pd.DataFrame,
        difference: Drift | None,
        *,
        synthetic: bool,
        readable: ReadableShare | None,
    ) -> Learned:
        """Return what follows from all rounds: the model with its explanations, and the map that reads rows for it."""
        read_by = as_library_transformer(rounds.feature_map).decoder_ or rounds.feature_map
        model = MomentsModel.of(rounds.fitted.coefficients, classes)
        model.describe(read_by, rounds.fitted.information, table, synthetic=synthetic)
        releases = tuple(rounds.source.sums.released)
        return cls(model, read_by, tuple(rounds.released), difference, table, synthetic, releases, readable)


@dataclass(frozen=True, eq=False, kw_only=True)
class RareCases:
    """How a run of two classes goes on if its released shares show that one of them has few cases. Public.

    Noise is the same on every feature, so few cases can only pay for few features. `few_cases` is the weighted number
    of cases below which the `feature_map` replaces the usual one. The `design` charges as much as the usual one.
    """

    feature_map: FeatureMap
    design: NoisySums
    few_cases: float

    def shown_by(self, shares: Floats, total_weight: float) -> bool:
        """Return whether released shares of the classes show few cases."""
        return goes(Way.RARE_CASES, bool(shares.min() * total_weight < self.few_cases))


def release_and_fit(
    source: MomentsSource,
    feature_map: FeatureMap,
    public: pd.DataFrame,
    classes: NDArray[Any],
    design: NoisySums,
    total_weight: float,
    *,
    units: PublicUnits = _EACH_ROW,
    after_alarm: NoisySums | None = None,
    if_rare: RareCases | None = None,
    on_done: Callable[[int], None] = lambda _: None,
) -> Learned:
    """Release all rounds and fit a model to them, by public rows.

    The number of units is released with noise if it is private, and then takes the place of `total_weight`. If a mean
    that is released first shows public rows to be unlike the private ones, the run goes on with synthetic rows by the
    design `after_alarm`. Without `after_alarm` public rows are trusted less. They are also trusted less when the
    comparison cannot decide. If released shares of two classes show few cases of one, the run goes on as `if_rare`
    states.
    """
    features = bounded_features(feature_map.transform(public)) / UNIT
    planned_map, compared_source, compared = feature_map, source, features
    # The compared map takes private rows in blocks, which a map that reads rows together must not get.
    compared_map = None if source.blocks.alone else as_library_transformer(feature_map).compared_
    if compared_map is not None:
        compared_source = source.reading(compared_map.transform, nonnegative=bool(compared_map.nonnegative_))
        compared = bounded_features(compared_map.transform(public)) / UNIT
    fresh = _fresh(compared, feature_map if compared_map is None else compared_map, public, units)
    difference: Drift | None = None
    mean: tuple[Floats, float] | None = None
    # Many small products: threads that wait for each other take many times as long on a busy machine.
    with one_thread():
        total_weight, count_error = _units(source, design, total_weight)
        statistics = _release_statistics(source, design, classes, total_weight)
        if design.mean_share:
            query = FeatureMean(compared_source.nonnegative)
            mean = compared_source.noisy_sum(query, design.mean_share, total_weight)
            difference = Drift.of(*mean, fresh, total_weight, units)
            if after_alarm is not None and goes(Way.UNLIKE_ROWS, difference.alarm):
                grid = observed_grid(public)
                learned = _by_synthetic_rows(source, grid, None, classes, after_alarm, total_weight, on_done)
                return replace(learned, drift=difference)
        if if_rare is not None:
            counted = _ClassShares(tuple(map(str, classes)))
            shares, _ = statistics.get(_SHARES) or source.noisy_sum(counted, design.rarity_share, total_weight)
            if if_rare.shown_by(shares, total_weight):
                feature_map, design = if_rare.feature_map, if_rare.design
                source = source.reading(feature_map.transform, nonnegative=bool(feature_map.nonnegative_))
                features = bounded_features(feature_map.transform(public)) / UNIT
        rows = PublicRows.behind(feature_map, features, public, len(classes), units)
        rounds = _Rounds(source, feature_map, rows.trusted_by(difference), total_weight)

        def compare(first: Moments) -> None:
            nonlocal mean, difference
            if first.mean is not None and compared_map is None:
                mean = first.mean, first.mean_spread
                difference = Drift.of(*mean, fresh, total_weight, units)
                rounds.rows = rows.trusted_by(difference)

        rounds.run(design.shares, compare, on_done)
    readable = None
    if source.blocks.zeroes_bad and mean is not None:
        measured = planned_map if compared_map is None else compared_map
        error = count_error / total_weight
        readable = ReadableShare.of_rows(*mean, measured, public, compared, units, relative_error=error)
    return Learned.of(rounds, classes, public, difference, synthetic=False, readable=readable)


def _fresh(features: Rows, feature_map: FeatureMap, public: pd.DataFrame, units: PublicUnits) -> Rows:
    """Return features whose means are those of rows that the map was not fitted on, from those of public rows."""
    fresh = as_library_transformer(feature_map).as_fresh(public, units.numbers)
    return features if fresh is public else bounded_features(feature_map.transform(fresh)) / UNIT


def release_and_fit_synthetic_rows(
    source: MomentsSource,
    grid: Grid,
    public: pd.DataFrame | None,
    classes: NDArray[Any],
    design: NoisySums,
    total_weight: float,
    *,
    units: PublicUnits = _EACH_ROW,
    on_done: Callable[[int], None] = lambda _: None,
) -> Learned:
    """Release cells' shares and all rounds, and fit a model to them, by rows drawn from the released sums.

    A few `public` rows count beside the synthetic ones. Which map reads the source is decided here.
    """
    with one_thread():
        counted = source.reading(grid.one_hot, nonnegative=True)
        total_weight, count_error = _units(counted, design, total_weight)
        _release_statistics(counted, design, classes, total_weight)
        learned = _by_synthetic_rows(counted, grid, public, classes, design, total_weight, on_done, units)
        if learned.readable is None:
            return learned
        error = math.hypot(learned.readable.error, learned.readable.share * count_error / total_weight)
        return replace(learned, readable=replace(learned.readable, error=error))


def _units(source: MomentsSource, design: NoisySums, total_weight: float) -> tuple[float, float]:
    """Return the number of units and its error: the public number, or a noisy number if the number is private."""
    return source.noisy_sum(UnitCount(), design.count_share) if design.count_share else (total_weight, 0.0)


def _release_statistics(
    source: MomentsSource, design: NoisySums, classes: NDArray[Any], total_weight: float
) -> dict[str, tuple[Floats, float]]:
    """Release the requested statistics, by name. Reports show their tables."""
    queries = {name: STATISTICS[name](tuple(map(str, classes))) for name in design.statistics}
    return {name: source.noisy_sum(query, design.statistic_share, total_weight) for name, query in queries.items()}


def _by_synthetic_rows(
    source: MomentsSource,
    grid: Grid,
    public: pd.DataFrame | None,
    classes: NDArray[Any],
    design: NoisySums,
    total_weight: float,
    on_done: Callable[[int], None],
    units: PublicUnits = _EACH_ROW,
) -> Learned:
    cells = FeatureMean(nonnegative=True, description="how common each value of a column is")
    released = source.reading(grid.one_hot, nonnegative=True).noisy_sum(cells, design.cells_share, total_weight)
    shares = grid.shares(*released)
    table = shares.grid.rows(shares.draw(fewer(_SYNTHETIC_ROWS, _REHEARSED_ROWS)))
    snapped = SnappedMap(TableMap(knots=_KNOTS, fewest=1), shares.grid.columns).fit(table)
    source = source.reading(snapped.transform, nonnegative=snapped.nonnegative_)
    rounds = _Rounds(source, snapped, PublicRows.synthetic(snapped, table, public, len(classes), units), total_weight)

    def draw_again(_: Moments) -> None:
        """Draw rows again, with the correlations of their columns' scores in the first round."""
        nonlocal table
        rounds.fit()
        scores = shares.scores(snapped.effects_of_cells(rounds.fitted.coefficients))
        scored = source.reading(scores.of_rows, nonnegative=False)
        products = scored.noisy_sum(FeatureProducts(), design.products_share, total_weight)
        table = shares.grid.rows(scores.draw(scores.correlation(*products), fewer(_SYNTHETIC_ROWS, _REHEARSED_ROWS)))
        rounds.rows = PublicRows.synthetic(snapped, table, public, len(classes), units)

    rounds.run(design.shares, draw_again, on_done)
    readable = None
    if source.blocks.zeroes_bad:
        readable = ReadableShare.of_cells(*released, grid.sizes.tolist())
    return Learned.of(rounds, classes, table, None, synthetic=True, readable=readable)
