"""A complete run of label moments, from the choice of a map and the first release to a published model.

A round puts private records behind a map, releases their moments and fits a model to them. Features have public weights
before a later round, so that sensitivity is spent where signal is. A released mean of features also estimates how many
private records could be read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import lsqr
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from dpensemble._entries import Floats, Rows
from dpensemble._hide_private_rows import on_public_rows
from dpensemble._processes import one_thread
from dpensemble._progress import pass_named
from dpensemble.datasets import fit_encoder
from dpensemble.datasets.columns import as_text
from dpensemble.datasets.preparation import ColumnReading, statements_of
from dpensemble.design.sums import NoisySums
from dpensemble.errors import DataError
from dpensemble.moments.drift import Drift, drift
from dpensemble.moments.explanation import Uncertainty, column_effects
from dpensemble.moments.fits import Fit, fit_moments, fit_softmax, starting_fit
from dpensemble.moments.maps.base import BoundedMap, FeatureMap
from dpensemble.moments.maps.curved import CurvedMap
from dpensemble.moments.maps.directions import DirectionsMap
from dpensemble.moments.maps.grid import Grid, SnappedMap, observed_grid
from dpensemble.moments.maps.tables import TableMap, feature_values
from dpensemble.moments.model import MomentsModel
from dpensemble.moments.public_rows import PublicRows, PublicUnits, Scores, Shares
from dpensemble.moments.queries import (
    STATISTICS,
    AnyQuery,
    ClassSums,
    FeatureMean,
    FeatureProducts,
    Moments,
    RecordsQuery,
    Residuals,
    UnitCount,
    total_of,
)
from dpensemble.moments.whole import UNIT, whole_features
from dpensemble.relations import Relation
from dpensemble.releases import ReleasedSum, SumReleaser
from dpensemble.releases.sums import Outcome, PartialSums, SameRecords

# Rows that decide which combination of features is always 1, and how far from 1 the combination may be. Features are
# rounded to whole numbers of 2**-14, and rounding averages out over rows.
_ROWS, _CLOSE = 2000, 5e-3
# A number and a category beyond those of public rows.
_FAR, _NEW = 1e12, "a category that no public row has"


@dataclass(frozen=True)
class ReadableShare:
    """An estimate of the share of private records that could be read, and the deviation of its noise. Public."""

    share: float
    error: float


def readable_share(
    mean: Floats, spread: float, weights: Floats | None, *, relative_error: float = 0.0
) -> ReadableShare | None:
    """Estimate the share of records that could be read. This costs no privacy.

    A bad record adds zeros to the mean. So if a combination of features is 1 for every row, the same combination
    of their mean is the share of records that are not bad.
    """
    if weights is None:
        return None
    share = float(weights @ mean)
    error = math.hypot(float(np.linalg.norm(weights)) * spread, share * relative_error)
    return ReadableShare(round(share, 6), error)


def _always_one(features: Any) -> Floats | None:
    """Return the shortest weights with which features of every row add up to 1, or None if there are none."""
    rows = features[:_ROWS]
    # Half of the rows find the weights, and the other half show that they do not fit by chance.
    fitted, held = rows[::2], rows[1::2]
    if not held.shape[0]:
        return None
    weights: Floats = lsqr(fitted, np.ones(fitted.shape[0]), atol=1e-12, btol=1e-12, iter_lim=1000)[0]
    return weights if np.abs(np.asarray(held @ weights) - 1).max() < _CLOSE else None


def _unusual_rows(table: pd.DataFrame, columns: Sequence[ColumnReading]) -> pd.DataFrame:
    """Return the rows that `_always_one` takes, half of them with entries that public rows may lack.

    These are new categories, missing entries and very large or small numbers. `columns` states how a map reads them.
    """
    draw, table = np.random.default_rng(0), table.iloc[:_ROWS]
    parts = {}
    for place, column in enumerate(columns):
        entries = table.iloc[:, place]
        replaced = (np.arange(len(table)) % 4 > 1) & (draw.random(len(table)) < 0.5)
        if column["kind"] == "number":
            values = entries.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
            values[replaced] = draw.choice([np.nan, -_FAR, _FAR], replaced.sum())
        else:
            values = as_text(entries).to_numpy(dtype=object, copy=True)
            values[replaced] = draw.choice(np.array([None, _NEW], dtype=object), replaced.sum())
        parts[table.columns[place]] = values
    return pd.DataFrame(parts)


def _always_one_of_cells(sizes: Sequence[int]) -> Floats:
    """Return these weights for one-hot cells of columns of these sizes. Each cell is ``1 / sqrt(n_columns)``."""
    # The shortest weights are in inverse proportion to the number of a column's cells.
    parts = 1 / np.asarray(sizes, dtype=np.float64)
    weights: Floats = np.repeat(math.sqrt(len(parts)) * parts / parts.sum(), sizes)
    return weights


# Directions of a table's features, in multiples of the root of records times epsilon: two classes, more classes.
_DIRECTIONS, _FEWEST_DIRECTIONS, _MOST_DIRECTIONS, _MOST_EPSILON = (2.0, 1.2), 60, 500, 10.0
# Length of the constant of two classes, over records times epsilon. Its noise is the error of the base rate, which
# matters most if one class is rare.
_CONSTANT, _SHORTEST_CONSTANT, _LONGEST_CONSTANT = 1400.0, 0.1, 0.2
# Landmarks among public rows, as multiples of the same root, and their part of the squared length.
_LANDMARKS, _FEWEST_LANDMARKS, _MOST_LANDMARKS, _PARTS = (5.0, 3.0), 100, 800, (0.5, 0.75)
#: Public rows below which directions are those of chance, so that a table's features are taken as they are.
_FEW_ROWS = 1000
#: Columns above which directions are always taken, since a fit cannot use that many features.
MANY_COLUMNS = 2000
#: Public rows below which the shares of entries are released with noise, since public rows do not show them well.
VERY_FEW_ROWS = 200


def fitted_map(feature_map: Any, public: Any, *, n_rows: int, n_classes: int, epsilon: float) -> Any:
    """Return a map of rows to features, fitted on public rows: the default map of tables, or the given map, bounded."""
    if feature_map is not None:
        bounded = clone(feature_map) if hasattr(feature_map, "is_bounded") else BoundedMap(feature_map)
        return bounded.fit(public)
    n_public, n_columns = public.shape
    if n_public < _FEW_ROWS and n_columns <= MANY_COLUMNS:
        return TableMap().fit(public)
    # Noise falls with the number of records and the budget, and more classes leave less of the budget to each.
    root = np.sqrt(n_rows * min(epsilon, _MOST_EPSILON))
    n_directions = int(np.clip(_DIRECTIONS[n_classes > 2] * root, _FEWEST_DIRECTIONS, _MOST_DIRECTIONS))
    n_landmarks = int(np.clip(_LANDMARKS[n_classes > 2] * root, _FEWEST_LANDMARKS, _MOST_LANDMARKS))
    longest = _LONGEST_CONSTANT if n_classes == 2 else _SHORTEST_CONSTANT
    constant = float(np.clip(_CONSTANT / root**2, _SHORTEST_CONSTANT, longest))
    directions = DirectionsMap(TableMap(), n_directions=n_directions, constant=constant)
    curved = CurvedMap(directions, n_landmarks=n_landmarks, part=_PARTS[n_classes > 2]).fit(public)
    # Without landmarks, rounds of residuals serve two classes better than one round of class sums.
    return curved.base_ if n_classes == 2 and curved.landmarks_ is None else curved


def require_no_blanks(student: Any, rows: Any) -> None:
    """Refuse public rows that a student could not be trained on, before anything is released."""
    if student is not None and rows.isna().to_numpy().any():
        raise DataError(f"student={type(student).__name__} cannot learn from blanks (NaN): leave student out.")


@on_public_rows()
def distilled(student: Any, model: Any, rows: Any, seed: int) -> Any:
    """Return a student fitted to a published model's predictions for public (or synthetic) rows without blanks.

    If the student takes weights, every row teaches each class, with the probability of the class as weight.
    """
    encoder = fit_encoder(rows)
    fresh, encoded = clone(student), encoder.transform(rows)
    unseeded = [name for name, value in fresh.get_params().items() if name.endswith("random_state") and value is None]
    fresh.set_params(**dict.fromkeys(unseeded, seed))
    probable, n_classes = model.predict_proba(rows), len(model.classes_)
    if has_fit_parameter(fresh, "sample_weight"):
        every = np.repeat(np.arange(len(probable)), n_classes)
        fresh.fit(encoded[every], np.tile(model.classes_, len(probable)), sample_weight=probable.ravel())
    else:
        fresh.fit(encoded, model.classes_[probable.argmax(axis=1)])
    return Pipeline([("encoder", encoder), ("student", fresh)])


# Share of its present part that every block keeps.
_FLOOR = 0.2


def _weights_of_features(fitted: Fit, public: PublicRows, feature_map: Any, spread: float) -> Floats:
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
    gains = h**2 * fitted.scales[blocks] ** 2 / spread**2
    squares = _divided(h * fitted.scales[blocks] ** 2, gains / now[blocks], blocks, now)
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

    def release(
        self, query: RecordsQuery[Outcome], share: float, total_weight: float = 1.0, *, title: str = "Statistics"
    ) -> Outcome:
        """Sum the records exactly, and release the sum for a share of the budget, per unit of weight.

        The order is: pass over the records, compare them with those of the first pass, charge, draw. Bars show the
        `title` of the pass.
        """
        with pass_named(title):
            sums = self.blocks.sums(query, len(self.sums.released))
        total = total_of(sums)
        self.same.require(sums.records)
        return self.sums.release(query, total, share, weight=total_weight)

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
        self.fitted: Fit = starting_fit(rows)

    def run(
        self, shares: tuple[float, ...], after_first: Callable[[Moments], None], on_done: Callable[[int], None]
    ) -> None:
        """Release a round for each share of the budget. `after_first` gets the first round before it is fitted."""
        for number, share in enumerate(shares):
            query = self._query(share, first=not number)
            title = f"Round {number + 1} of {len(shares)}"
            self.released.append(self.source.release(query, share, self.total_weight, title=title))
            if not number:
                after_first(self.released[0])
            self.fit()
            on_done(1)

    def _query(self, share: float, *, first: bool) -> RecordsQuery[Moments]:
        """Return the query of the next round: class sums, or residuals around the model that is fitted so far."""
        if self.class_sums_only:
            return ClassSums(self.rows.n_classes)
        if first:
            return self.source.first_query(self.rows.n_classes)
        return Residuals(self.rows.n_classes, self.fitted.coefficients, self._weights(share))

    def _weights(self, share: float) -> Floats | None:
        if getattr(self.feature_map, "squares_", None) is None:
            return None
        spread = self.source.sums.spread(Residuals(self.rows.n_classes), share, weight=self.total_weight)
        return _weights_of_features(self.fitted, self.rows, self.feature_map, spread)

    def fit(self) -> None:
        """Fit the coefficients to all that was released."""
        if self.rows.n_classes == 2 and not self.class_sums_only:
            self.fitted = fit_moments(self.released, self.rows, self.fitted, n_units=self.total_weight)
        else:
            residuals = not self.class_sums_only
            self.fitted = fit_softmax(self.released, self.rows, n_units=self.total_weight, with_linear=residuals)


# Synthetic rows, their knots, how much worse than a sample they count, and public rows that count as half.
_SYNTHETIC_ROWS, _KNOTS, _KAPPA, _HALF = 16_000, (2, 3, 5, 9), 3.0, 300
# Rows with columns drawn apart beside public ones that are few, and their share.
_ROWS_APART, _SHARE_APART = 2000, 0.3
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
    on_done: Callable[[int], None] = lambda _: None,
) -> Learned:
    """Release all rounds and fit a model to them, by public rows.

    The number of units is released with noise if it is private, and then takes the place of `total_weight`. If a mean
    that is released first shows public rows to be unlike the private ones, the run goes on with synthetic rows by the
    design `after_alarm`. Without `after_alarm` public rows are trusted less. They are also trusted less when the
    comparison cannot decide.
    """
    features = whole_features(feature_map.transform(public)) / UNIT
    rows = _public_rows(features, feature_map, public, len(classes), units)
    compared_source, compared = source, features
    # The compared map takes private rows in blocks, which a map that reads rows together must not get.
    compared_map = None if source.blocks.alone else statements_of(feature_map).compared_
    if compared_map is not None:
        compared_source = source.reading(compared_map.transform, nonnegative=bool(compared_map.nonnegative_))
        compared = whole_features(compared_map.transform(public)) / UNIT
    difference: Drift | None = None
    mean: tuple[Floats, float] | None = None
    # Many small products: threads that wait for each other take many times as long on a busy machine.
    with one_thread():
        total_weight, count_error = _units(source, design, total_weight)
        _release_statistics(source, design, classes, total_weight)
        if design.mean_share:
            query = FeatureMean(compared_source.nonnegative)
            mean = compared_source.release(query, design.mean_share, total_weight)
            difference = drift(*mean, compared, total_weight, units)
            if difference.alarm and after_alarm is not None:
                grid = observed_grid(public)
                learned = _by_synthetic_rows(source, grid, None, classes, after_alarm, total_weight, on_done)
                return replace(learned, drift=difference)
        rounds = _Rounds(source, feature_map, _trusted(rows, difference), total_weight)

        def compare(first: Moments) -> None:
            nonlocal mean, difference
            if first.mean is not None and compared_map is None:
                mean = first.mean, first.mean_spread
                difference = drift(*mean, compared, total_weight, units)
                rounds.rows = _trusted(rows, difference)

        rounds.run(design.shares, compare, on_done)
    readable = None
    if source.blocks.zeroes_bad and mean is not None:
        measured = feature_map if compared_map is None else compared_map
        every_kind = _every_kind_of_row(measured, public, units)
        made_up = compared if every_kind is None else whole_features(measured.transform(every_kind)) / UNIT
        readable = readable_share(*mean, _always_one(made_up), relative_error=count_error / total_weight)
    return _learned(rounds, classes, public, difference, synthetic=False, readable=readable)


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
    return source.release(UnitCount(), design.count_share) if design.count_share else (total_weight, 0.0)


def _release_statistics(source: MomentsSource, design: NoisySums, classes: NDArray[Any], total_weight: float) -> None:
    """Release the requested statistics. Reports show their tables."""
    for name in design.statistics:
        source.release(STATISTICS[name](tuple(map(str, classes))), design.statistic_share, total_weight)


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
    released = source.reading(grid.one_hot, nonnegative=True).release(cells, design.cells_share, total_weight)
    shares = Shares.of(grid, *released)
    table = shares.grid.rows(shares.draw(_SYNTHETIC_ROWS))
    snapped = SnappedMap(TableMap(knots=_KNOTS, fewest=1), shares.grid.columns).fit(table)
    source = source.reading(snapped.transform, nonnegative=snapped.nonnegative_)
    rounds = _Rounds(source, snapped, _rows(snapped, table, public, len(classes), units), total_weight)

    def draw_again(_: Moments) -> None:
        """Draw rows again, with the correlations of their columns' scores in the first round."""
        nonlocal table
        rounds.fit()
        scores = Scores.of(shares, _effects_of_cells(snapped, shares.grid, rounds.fitted.coefficients))
        scored = source.reading(scores.of_rows, nonnegative=False)
        products = scored.release(FeatureProducts(), design.products_share, total_weight)
        table = shares.grid.rows(scores.draw(scores.correlation(*products), _SYNTHETIC_ROWS))
        rounds.rows = _rows(snapped, table, public, len(classes), units)

    rounds.run(design.shares, draw_again, on_done)
    readable = None
    if source.blocks.zeroes_bad:
        readable = readable_share(*released, _always_one_of_cells(grid.sizes.tolist()))
    return _learned(rounds, classes, table, None, synthetic=True, readable=readable)


def _learned(
    rounds: _Rounds,
    classes: NDArray[Any],
    table: pd.DataFrame,
    difference: Drift | None,
    *,
    synthetic: bool,
    readable: ReadableShare | None,
) -> Learned:
    model = MomentsModel.of(rounds.fitted.coefficients, classes)
    releases = tuple(rounds.source.sums.released)
    read_by = statements_of(rounds.feature_map).decoder_ or rounds.feature_map
    _explain(model, read_by, rounds.fitted, table, synthetic=synthetic)
    return Learned(model, read_by, tuple(rounds.released), difference, table, synthetic, releases, readable)


def _explain(model: MomentsModel, read_by: FeatureMap, fitted: Fit, table: pd.DataFrame, *, synthetic: bool) -> None:
    """Store in a model what explanations need: released quantities, and means of public or synthetic rows."""
    uncertainty = None if fitted.information is None else Uncertainty.of(fitted.information)
    model.effects_text_ = json.dumps(column_effects(read_by, model.coefficients_, table, uncertainty))
    if statements_of(read_by).attribution is None:
        return
    model.reference_ = read_by.reference(table)
    model.uncertainty_ = None if uncertainty is None else vars(uncertainty).copy()
    if synthetic:
        model.reference_rows_ = "synthetic rows, which were drawn from released sums"


def _public_rows(
    features: Any, feature_map: Any, public: pd.DataFrame, n_classes: int, units: PublicUnits
) -> PublicRows:
    """Return features of public rows. If these are few, add features of rows with columns drawn independently."""
    if not statements_of(feature_map).reads_columns_apart or len(public) >= _FEW_ROWS:
        return _read_by(feature_map, features, public, n_classes, units)
    # In few rows, entries go together by chance. Made-up rows keep the fit from relying on that.
    more = whole_features(feature_map.transform(_apart(public, units))) / UNIT
    return _beside(features, more, 1 - _SHARE_APART, feature_map, n_classes, units)


def _read_by(
    feature_map: Any, released: Floats, public: pd.DataFrame, n_classes: int, units: PublicUnits
) -> PublicRows:
    """Return public rows with the features that the model reads, and the released features if these differ."""
    decoder = statements_of(feature_map).decoder_
    read, others = (feature_map, None) if decoder is None else (decoder, released)
    features = released if decoder is None else decoder.transform(public)
    return PublicRows(features, read.blocks_, n_classes, shares=units.shares, units=units.numbers, released=others)


def _every_kind_of_row(measured: FeatureMap, public: pd.DataFrame, units: PublicUnits) -> pd.DataFrame | None:
    """Return rows with all entries that private rows may have, or None if the map does not state how it reads them."""
    about = statements_of(measured)
    if about.table_columns is None:
        return None
    return _unusual_rows(_apart(public, units) if about.reads_columns_apart else public, about.table_columns)


def _apart(public: pd.DataFrame, units: PublicUnits) -> pd.DataFrame:
    """Return rows whose entries were drawn from public rows, independently for each column."""
    draw, shares = np.random.default_rng(0), units.shares

    def places() -> NDArray[np.int64]:
        if shares is None:
            return draw.integers(len(public), size=_ROWS_APART)
        return draw.choice(len(public), size=_ROWS_APART, p=shares)

    apart = {name: public[name].to_numpy()[places()] for name in public.columns}
    return pd.DataFrame(apart).astype(public.dtypes)


def _beside(features: Any, more: Any, part: float, feature_map: Any, n_classes: int, units: PublicUnits) -> PublicRows:
    """Return features of real rows with a part in every mean, and of made-up rows with the rest."""
    n_real, n_more = features.shape[0], more.shape[0]
    both = sparse.vstack([features, more], format="csr")
    shares = np.repeat([part / n_real, (1 - part) / n_more], [n_real, n_more])
    owners = None
    if units.numbers is not None and units.shares is not None:
        shares[:n_real] = part * units.shares
        # Each made-up row is a unit of its own.
        owners = np.append(units.numbers, units.count(n_real) + np.arange(n_more))
    return PublicRows(both, feature_map.blocks_, n_classes, shares=shares, units=owners)


def _trusted(rows: PublicRows, difference: Drift | None) -> PublicRows:
    """Return public rows. They count less than a sample unless they look like the private ones."""
    return rows if difference is None or difference.trusted else replace(rows, kappa=difference.kappa)


def _rows(
    snapped: SnappedMap, table: pd.DataFrame, public: pd.DataFrame | None, n_classes: int, units: PublicUnits
) -> PublicRows:
    """Return features of synthetic rows and, with a share that grows with the number of units, of a few public ones."""
    features = whole_features(snapped.transform(table)) / UNIT
    if public is None:
        return PublicRows(features, snapped.blocks_, n_classes, kappa=_KAPPA)
    real, count = whole_features(snapped.transform(public)) / UNIT, units.count(len(public))
    both = _beside(real, features, count / (count + _HALF), snapped, n_classes, units)
    return replace(both, kappa=_KAPPA)


def _effects_of_cells(snapped: SnappedMap, grid: Grid, coefficients: Floats) -> list[Floats]:
    """Return a model's effect of each cell of each column, shape (n_cells, n_model_columns) each."""
    effects = []
    for number, column in enumerate(snapped.base_.columns_):
        cells = np.zeros((grid.sizes[number], len(grid.columns)), dtype=np.int64)
        cells[:, number] = np.arange(len(cells))
        part = slice(column["start"], column["start"] + sum(column["sizes"]) + 1)
        values = grid.rows(cells).iloc[:, number]
        effects.append(feature_values(snapped.base_, column, values) @ coefficients[part])
    return effects
