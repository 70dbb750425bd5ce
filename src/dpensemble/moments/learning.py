"""A complete run of label moments, from the first release to a published model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from dpensemble._arrays import Floats
from dpensemble._processes import one_thread
from dpensemble.datasets.preparation import statements_of
from dpensemble.design.sums import NoisySums
from dpensemble.moments.choice import FEW_ROWS
from dpensemble.moments.drift import Drift, drift
from dpensemble.moments.effects import column_effects
from dpensemble.moments.evidence import Fit
from dpensemble.moments.grid import Grid, observed_grid
from dpensemble.moments.maps.base import FeatureMap
from dpensemble.moments.maps.snapped import SnappedMap
from dpensemble.moments.maps.tables import TableMap, feature_values
from dpensemble.moments.model import MomentsModel
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.public_units import PublicUnits
from dpensemble.moments.queries import STATISTICS, FeatureMean, FeatureProducts, Moments, UnitCount
from dpensemble.moments.readable import ReadableShare, always_one, always_one_of_cells, readable_share, unusual
from dpensemble.moments.rounds import MomentsSource, Rounds
from dpensemble.moments.synthetic import Scores, Shares
from dpensemble.moments.uncertainty import Uncertainty
from dpensemble.moments.whole import UNIT, whole_features
from dpensemble.releases import ReleasedSum

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


def learn(
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
        rounds = Rounds(source, feature_map, _trusted(rows, difference), total_weight)

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
        readable = readable_share(*mean, always_one(made_up), relative_error=count_error / total_weight)
    return _learned(rounds, classes, public, difference, synthetic=False, readable=readable)


def learn_by_synthetic_rows(
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
    rounds = Rounds(source, snapped, _rows(snapped, table, public, len(classes), units), total_weight)

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
        readable = readable_share(*released, always_one_of_cells(grid.sizes.tolist()))
    return _learned(rounds, classes, table, None, synthetic=True, readable=readable)


def _learned(
    rounds: Rounds,
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
    if not statements_of(feature_map).reads_columns_apart or len(public) >= FEW_ROWS:
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
    return unusual(_apart(public, units) if about.reads_columns_apart else public, about.table_columns)


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
