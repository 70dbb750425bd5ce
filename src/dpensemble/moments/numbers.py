r"""A run of label moments for a number: the order of its sums, and the published model with its intervals.

The order: counts of the target, then rounds of clipped residuals with counts of residuals between them, then counts of
residuals by groups of the prediction. All of them are `dpensemble.moments.residuals`. If intervals are to be proven,
counts of nested intervals come last.

**Proven intervals** (`docs/proofs/intervals.md`). Let the units and a new unit be exchangeable, given the public rows.
Let ``a`` be the share of the units' own records that are outside the published intervals, in expectation over records
and noise. If replacing a unit is ``mu``-Gaussian private, a random record of the new unit is outside with probability
at most ``G(a) = Phi(Phi^-1(a) + mu)``. `most_outside` is the inverse, and states how large ``a`` may be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dpensemble._checks import real_between
from dpensemble._entries import Floats, Integers, Rows
from dpensemble._work import fewer, one_thread
from dpensemble.cost.gaussian import GaussianCost
from dpensemble.datasets.tables import as_library_transformer
from dpensemble.design.sums import NumberSums
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.fits import Fit
from dpensemble.moments.learning import FeatureMean, MomentsSource, UnitCount
from dpensemble.moments.maps.base import FeatureMap
from dpensemble.moments.maps.directions import DirectionsMap
from dpensemble.moments.maps.tables import TableMap
from dpensemble.moments.model import ExplainedModel, Information
from dpensemble.moments.public_rows import Drift, PublicRows, PublicUnits, ReadableShare
from dpensemble.moments.residuals import (
    ClippedRound,
    Counts,
    Law,
    NestedCounts,
    NumberRange,
    ResidualCounts,
    ResidualFit,
    ResidualSum,
    Scale,
    TargetCounts,
    fit_residuals,
    predicted,
    quantile_of_cells,
    residual_edges,
    target_edges,
    with_total,
)
from dpensemble.moments.whole import UNIT, RecordsQuery, bounded_features, rounded_coefficients
from dpensemble.releases.sums import Outcome, SumsMeter

# Directions as multiples of the root of records times epsilon, and the fewest and most. The same with few public rows.
_DIRECTIONS, _FEWEST, _MOST = 2.0, 60, 500
_OF_FEW_ROWS, _FEWEST_OF_FEW_ROWS, _FEW_ROWS, _MOST_EPSILON = 0.8, 10, 1000, 10.0
# Length of the constant over the root of records times mu: its noise is the error of the intercept.
_CONSTANT, _SHORTEST, _LONGEST = 5.5, 0.1, 0.3
# A target with more than this much skewness is read on a logarithm that takes away this much of it.
_SKEWED, _LESS = 0.3, 0.2
# Part of the distance from the smallest number to the median that the logarithm adds.
_SHIFT, _LEAST_SHIFT, _LEAST_SPREAD = 0.3, 1e-3, 1e-4
# Limit of the first round in multiples of the distance to the further tail, and the first law.
_FIRST_LIMIT, _FIRST_LAW = 1.3, 0.8
# First edge, last edge and ratio of residuals: between rounds, and of the last counts (in spreads of the law).
_EDGES, _LAST_EDGES = (0.12, 10.0, 1.4), (0.2, 9.0, 1.35)
# Records times mu for each group of predictions, and the most groups.
_OF_GROUP, _MOST_GROUPS = 600.0, 5
# Limits of residuals in a mean, and the most noise of the mean, both in spreads. Prior deviation of the slope.
_LIMITS_OF_MEAN, _NOISE_OF_MEAN, _SLOPE = (12.0, 9.0, 6.0, 4.5, 3.0, 2.0, 1.5), 0.06, 0.5
# Shares of what is left out that may be below an interval, and deviations of noise by which ends move outward.
_BELOW, _MARGIN = (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.98), 0.71
# Quantiles of public predictions in each group by which the length of intervals is compared.
_PUBLIC_QUANTILES = 50
# Levels of nested intervals, in multiples of the level that noise leaves, and the part of the level that pays for
# counts whose noise is larger than the bound.
_NESTED, _UNLUCKY = (1.15, 1.0, 0.85, 0.7, 0.5, 0.3), 0.02
# More than the rounding of targets and predictions on the scale.
_ROUNDING = 1e-5


def number_map(
    public: pd.DataFrame, *, n_units: float, epsilon: float, mu: float, part: float = 1.0, linear: float = 0.0
) -> FeatureMap:
    """Return the default map of a table for a number: directions, fewer and smooth ones if public rows are few.

    A `part` of the usual number of directions suits targets that show less about each record. Linear functions of
    numbers have a part of the squared length, `linear`.
    """
    root = math.sqrt(n_units * min(epsilon, _MOST_EPSILON))
    few = len(public) < _FEW_ROWS
    wanted, fewest = (_OF_FEW_ROWS, _FEWEST_OF_FEW_ROWS) if few else (_DIRECTIONS, _FEWEST)
    n_directions = int(np.clip(part * wanted * root, fewest, _MOST))
    constant = float(np.clip(_CONSTANT / math.sqrt(n_units * mu), _SHORTEST, _LONGEST))
    return DirectionsMap(TableMap(), n_directions=n_directions, constant=constant, coarse_first=few, linear=linear).fit(
        public
    )


def outside_of_new(outside: float, cost: GaussianCost) -> float:
    """Return the most likely a new unit's record is outside, given the expected share of the units' own records.

    Probabilities of what is drawn are within a factor of ``exp(slack)`` of those of a rounded Gaussian mechanism.
    """
    factor, mu = math.exp(cost.slack), math.sqrt(cost.squares)
    given = min(1.0, outside * factor)
    if given <= 0.0:
        # Beyond 38 deviations discrete noise has a mass below 1e-300.
        return 1e-12
    return min(1.0, factor * float(stats.norm.cdf(stats.norm.ppf(given) + mu)) + 1e-12)


def most_outside(coverage: float, cost: GaussianCost) -> float:
    """Return the largest share of own records outside that proves a coverage of new units' records, rounded down."""
    low, high = 0.0, 1 - coverage
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if outside_of_new(middle, cost) <= 1 - coverage else (low, middle)
    return low


def bounds_of_prefixes(n_cells: int, spread: float, unlucky: float) -> Floats:
    """Return bounds on the noise of each sum of the first cells, all of which hold except with probability `unlucky`.

    A discrete Gaussian is as concentrated as a Gaussian of the same parameter: ``E exp(t X) <= exp(t**2 sigma**2 / 2)``
    (C. Canonne, G. Kamath and T. Steinke, NeurIPS 2020). So a sum of ``j`` exceeds ``sigma sqrt(2 j log(K / b))`` with
    probability at most ``b / K``. The union of ``K`` such events has at most ``b``.
    """
    return np.asarray(spread * np.sqrt(2 * np.arange(1, n_cells + 1) * math.log(n_cells / unlucky)))


@dataclass(eq=False)
class _Releases:
    """Releases the sums of a run. For a proof, adds up what replacing a unit costs, under either relation."""

    source: MomentsSource
    meter: SumsMeter
    proves: bool = False
    total_weight: float = 1.0
    replacing: GaussianCost = field(default_factory=lambda: GaussianCost(0.0))

    def of(self, query: RecordsQuery[Outcome], share: float, title: str) -> Outcome:
        """Release a sum for a share of the budget."""
        charged = len(self.source.sums.released)
        outcome = self.source.noisy_sum(query, share, self.total_weight, title=title)
        if self.proves:
            self.replacing = self.replacing + self._cost(query, charged)
        return outcome

    def _cost(self, query: RecordsQuery[Outcome], number: int) -> GaussianCost:
        # Under add-or-remove-one the noise is that of removing a unit, and replacing it moves the sum further.
        charge = self.meter.charges[number]
        further = query.replacing / query.sensitivity(self.source.sums.relation)
        return GaussianCost.of_sum(
            charge["sigma"] / max(further, 1.0), variance=charge["variance"], entries=charge["entries"]
        )


@dataclass(frozen=True, eq=False)
class LearnedNumber:
    """The published model of a number, and what was released beside it. Public."""

    model: NumberModel
    rounds: tuple[ClippedRound, ...]
    drift: Drift | None
    readable: ReadableShare | None
    beyond: tuple[float, float, float]


def release_and_fit_number(
    source: MomentsSource,
    feature_map: FeatureMap,
    public: pd.DataFrame,
    declared: NumberRange,
    design: NumberSums,
    total_weight: float,
    *,
    meter: SumsMeter,
    units: PublicUnits,
    on_done: Callable[[int], None] = lambda _: None,
) -> LearnedNumber:
    """Release all sums of a run in their order, and fit the published model to them, by public rows.

    The number of units is released with noise if it is private, and then takes the place of `total_weight`. What is
    charged depends on the design only. Released values decide what is computed.
    """
    features = bounded_features(feature_map.transform(public)) / UNIT
    rows = PublicRows.behind(feature_map, features, public, 2, units)
    fresh = as_library_transformer(feature_map).as_fresh(public, units.numbers)
    compared = features if fresh is public else bounded_features(feature_map.transform(fresh)) / UNIT
    with one_thread():
        sums = _Releases(source, meter, proves=design.proven_coverage is not None)
        error = 0.0
        if design.count_share:
            total_weight, error = sums.of(UnitCount(), design.count_share, "Statistics")
        sums.total_weight = total_weight
        mean = sums.of(FeatureMean(source.nonnegative), design.mean_share, "Statistics")
        drift = Drift.of(*mean, compared, total_weight, units)
        run = _Run(sums, rows.trusted_by(drift), declared, design, total_weight)
        model, information = run.model(on_done)
        model.describe(feature_map, information, public, synthetic=False)
        if design.proven_coverage is not None:
            run.prove(model, error)
    readable = None
    if source.blocks.zeroes_bad:
        readable = ReadableShare.of_rows(
            *mean, feature_map, public, features, units, relative_error=error / total_weight
        )
    return LearnedNumber(model, tuple(run.rounds), drift, readable, run.beyond)


class _Run:
    """The sums of one run in their order. Everything here reads released values and public rows only."""

    def __init__(
        self,
        sums: _Releases,
        rows: PublicRows,
        declared: NumberRange,
        design: NumberSums,
        total_weight: float,
    ) -> None:
        self.sums, self.rows, self.declared, self.design = sums, rows, declared, design
        self.total, self.mu = total_weight, sums.meter.mu
        self.counts_bad = sums.source.blocks.zeroes_bad
        self.rounds: list[ClippedRound] = []
        self.readable = 1.0
        self.beyond = (0.0, 0.0, 0.0)

    def model(self, on_done: Callable[[int], None]) -> tuple[NumberModel, Information | None]:
        """Release everything but the proof, and return the model and what is known of its coefficients."""
        scale, first_limit = self._scale()
        law, shares = Law.normal(_FIRST_LAW), self.design.shares
        found = ResidualFit(Fit.start(self.rows), 0.0)
        for number, share in enumerate(shares):
            centre, tau = None, first_limit
            if number:
                law = self._law(scale, found.coefficients, self.design.residuals_share)
                found = self._fitted(law, found)
                centre, tau = found.coefficients, self._limit(law, found, scale, share)
            released = self.sums.of(ResidualSum(scale, centre, tau), share, f"Round {number + 1} of {len(shares)}")
            # A bad record adds zeros, so the mean over records that can be read is larger.
            values, spread = released.values / self.readable, released.spread / self.readable
            self.rounds.append(replace(released, values=values, spread=spread))
            found = self._fitted(law, found)
            on_done(1)
        return self._published(scale, law, found), found.fit.information

    def _fitted(self, law: Law, start: ResidualFit) -> ResidualFit:
        return fit_residuals(self.rounds, self.rows, law, start.fit, n_units=self.n_read)

    @property
    def n_read(self) -> float:
        """Number of units whose records can be read, as far as it is known."""
        return max(self.total * self.readable, 1.0)

    def _counted(self, counts: Counts) -> tuple[Floats, float]:
        """Return counts of records that can be read, with their known total, and the deviation of their noise."""
        return with_total(counts.shares * self.total, self.n_read), counts.spread * self.total

    def _scale(self) -> tuple[Scale, float]:
        """Release counts of the target, and return the scale that they suggest, and the first limit."""
        declared, edges = self.declared, target_edges(self.declared)
        released = self.sums.of(TargetCounts(self.counts_bad, declared, edges), self.design.target_share, "Statistics")
        self.readable = float(np.clip(1 - released.bad, 0.05, 1.0))
        shares = released.shares[0]
        self.beyond = (float(shares[0]), float(shares[-1]), released.spread)
        counts, _ = self._counted(replace(released, shares=np.array([_ends_joined(shares)])))

        def quantiles(scale: Scale) -> dict[float, float]:
            numbers = np.array([quantile_of_cells(q, counts[0], edges, declared) for q in _QUANTILES])
            return dict(zip(_QUANTILES, scale.transformed(numbers).tolist(), strict=True))

        plain = Scale(declared, 0.0, 1.0)
        at = quantiles(plain)
        shift = max(_SHIFT * (at[0.5] - declared.low), _LEAST_SHIFT * declared.width)
        logarithmic = replace(plain, shift=shift)
        skewed = _skewness(at)
        chosen = plain
        if skewed > _SKEWED and abs(_skewness(quantiles(logarithmic))) < skewed - _LESS:
            chosen, at = logarithmic, quantiles(logarithmic)
        low, high = chosen.transformed(np.array([declared.low, declared.high])).tolist()
        wide = max((at[0.9] - at[0.1]) / 2.56, (at[0.75] - at[0.25]) / 1.35, (high - low) * _LEAST_SPREAD)
        middle = at[0.5]
        furthest = max(high - middle, middle - low) / wide
        tail = max(at[0.95] - middle, middle - at[0.05]) / wide
        return replace(chosen, middle=middle, spread=wide), max(min(furthest, _FIRST_LIMIT * tail), 1e-3)

    def _law(self, scale: Scale, coefficients: Floats, share: float) -> Law:
        edges = residual_edges(*_EDGES)
        query = ResidualCounts(self.counts_bad, scale, coefficients, edges, np.zeros(0))
        counts, noise = self._counted(self.sums.of(query, share, "Statistics"))
        return Law.of(counts[0], edges, noise)

    def _limit(self, law: Law, found: ResidualFit, scale: Scale, share: float) -> float:
        query = ResidualSum(scale, found.coefficients, 1.0)
        noise = 2 * self.sums.source.sums.spread(query, share, weight=self.total) / self.readable
        return law.limit(noise, len(found.coefficients), max(found.n_effective, 1.0), self.n_read)

    def _published(self, scale: Scale, law: Law, found: ResidualFit) -> NumberModel:
        """Release the counts by groups, and return the model with all that its predictions need."""
        coefficients = found.coefficients
        prediction = predicted(self.rows.features, coefficients)
        n_groups = int(np.clip(self.total * self.mu / _OF_GROUP, 1, _MOST_GROUPS))
        cuts = np.unique(_weighted_quantiles(prediction, self.rows.share_of_rows, np.arange(1, n_groups) / n_groups))
        size = max(law.spread, 0.02)
        edges = size * residual_edges(*_LAST_EDGES)
        query = ResidualCounts(self.counts_bad, scale, coefficients, edges, cuts)
        released = self.sums.of(query, self.design.last_share, "Statistics")
        counts, noise = self._counted(released)
        group = np.searchsorted(cuts, prediction, side="right")
        shares = np.bincount(group, self.rows.share_of_rows, minlength=len(cuts) + 1)
        totals = np.maximum(counts.sum(axis=1), 0.3 * self.n_read * shares)
        totals = np.maximum(totals, 1.0)
        places = (np.arange(fewer(_PUBLIC_QUANTILES)) + 0.5) / fewer(_PUBLIC_QUANTILES)
        middle = float(self.rows.share_of_rows @ prediction)
        typical = np.full((len(totals), len(places)), middle)
        for number in range(len(totals)):
            own = group == number
            if own.any():
                typical[number] = _weighted_quantiles(prediction[own], self.rows.share_of_rows[own], places)
        model = NumberModel(scale.range.low, scale.range.high)
        model.take(scale, coefficients, cuts, edges, counts, totals, noise, typical)
        model.offset_, model.slope_ = _line(model, typical, middle, size)
        model.centre_ = middle
        return model

    def prove(self, model: NumberModel, count_error: float) -> None:
        """Release counts of nested intervals, and let the model state what they prove."""
        coverage, cost = float(self.design.proven_coverage or 0.0), self._cost_of_all()
        allowed = most_outside(coverage, cost)
        query_spread = self.sums.source.sums.spread(_NESTED_QUERY, self.design.proof_share, weight=self.total)
        bounds = bounds_of_prefixes(len(_NESTED), query_spread, _UNLUCKY * max(allowed, 1e-9))
        levels = np.maximum(allowed * (1 - _UNLUCKY) - bounds, 0.02 * allowed) * np.array(_NESTED)
        ends = np.stack([model.ends(float(level)) for level in np.minimum.accumulate(np.maximum(levels, 1e-9))])
        ends[..., 0], ends[..., 1] = np.minimum.accumulate(ends[..., 0]), np.maximum.accumulate(ends[..., 1])
        query = NestedCounts(False, model.scale, model.coefficients_, model.cuts_, ends)
        released = self.sums.of(query, self.design.proof_share, "Statistics")
        model.nested_, model.inside_ = ends, np.cumsum(released.shares[0])
        model.proof_ = {
            "squares": self.sums.replacing.squares,
            "slack": self.sums.replacing.slack,
            "spread": released.spread,
            "n_units": self.total,
            "count_error": count_error,
        }

    def _cost_of_all(self) -> GaussianCost:
        """Return what replacing a unit costs in the whole run, with the sum that is still to come."""
        sums = self.sums.source.sums
        further = max(_NESTED_QUERY.replacing / _NESTED_QUERY.sensitivity(sums.relation), 1.0)
        sigma = self.sums.meter.sigma(self.design.proof_share) / further
        return self.sums.replacing + GaussianCost.of_sum(sigma, variance=2**60, entries=len(_NESTED))


_QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
# For sensitivities, which are the same for all intervals.
_NESTED_QUERY = NestedCounts(
    False, Scale(NumberRange(0.0, 1.0), 0.0, 1.0), np.zeros(1), np.zeros(0), np.zeros((0, 1, 2))
)


def provable(coverage: float, n_units: float, mu: float, share: float) -> bool:
    """Return whether noise leaves any share of own records outside, by public settings, when a unit is replaced."""
    allowed = most_outside(coverage, GaussianCost(mu**2))
    noise = math.sqrt(2) / (mu * math.sqrt(share)) / n_units
    bounds = bounds_of_prefixes(len(_NESTED), noise, _UNLUCKY * max(allowed, 1e-9))
    return bool(allowed * (1 - _UNLUCKY) > bounds[0])


def _ends_joined(shares: Floats) -> Floats:
    """Return shares of cells inside the range, with those beyond an end in the cell at that end."""
    joined = shares[1:-1].copy()
    joined[0] += shares[0]
    joined[-1] += shares[-1]
    return joined


def _skewness(at: dict[float, float]) -> float:
    """Return Kelly's measure of skewness by quantiles, from -1 to 1."""
    return (at[0.95] + at[0.05] - 2 * at[0.5]) / max(at[0.95] - at[0.05], 1e-12)


def _weighted_quantiles(values: Floats, weights: Floats, shares: Floats) -> Floats:
    """Return quantiles of values of public rows, which weigh as they do in means."""
    order = np.argsort(values, kind="stable")
    below = (np.cumsum(weights[order]) - weights[order] / 2) / max(float(weights.sum()), 1e-300)
    return np.asarray(np.interp(shares, below, values[order]))


def _line(model: NumberModel, typical: Floats, middle: float, size: float) -> tuple[float, float]:
    """Return offset and slope of the mean residual along the prediction, by the noisy counts of all groups.

    Residuals are cut at the largest limit whose noise is small. A target on a logarithm needs no line, since its mean
    follows from the law of each group.
    """
    centres, totals = model.middles_, model.totals_

    def noise_of(limit: float) -> float:
        return model.noise_ * math.sqrt(float((np.clip(centres / size, -limit, limit) ** 2).sum()))

    everybody = float(totals.sum())
    limits = [limit for limit in _LIMITS_OF_MEAN if noise_of(limit) / everybody < _NOISE_OF_MEAN]
    limit = limits[0] if limits else _LIMITS_OF_MEAN[-1]
    cut = np.clip(centres / size, -limit, limit)
    if len(totals) == 1:
        return float(model.counts_.sum(axis=0) @ cut / everybody) * size, 0.0
    means = model.counts_ @ cut / totals
    precisions = 1 / ((noise_of(limit) / totals) ** 2 + 1 / totals)
    along = (typical.mean(axis=1) - middle) / size
    columns = np.column_stack([np.ones(len(totals)), along])
    prior = np.diag([1e-3, 1 / _SLOPE**2])
    offset, slope = np.linalg.solve(
        columns.T @ (precisions[:, None] * columns) + prior, columns.T @ (precisions * means)
    )
    return float(offset) * size, float(slope)


class NumberModel(RegressorMixin, ExplainedModel):
    """The published model of a number, which reads a public map's features. May be published.

    Every output follows from released sums. The mean is the prediction, moved by the mean residual of its group, or on
    a logarithm the mean over the released law of the group. Medians, quantiles and intervals follow from the released
    counts of residuals of the group.

    Parameters
    ----------
    low, high : float
        The declared range.
    """

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self.low = low
        self.high = high

    def take(
        self,
        scale: Scale,
        coefficients: Floats,
        cuts: Floats,
        edges: Floats,
        counts: Floats,
        totals: Floats,
        noise: float,
        typical: Floats,
    ) -> None:
        """Take what was released."""
        self.middle_, self.spread_ = scale.middle, scale.spread
        self.shift_ = math.nan if scale.shift is None else scale.shift
        self.coefficients_, self.cuts_, self.typical_ = coefficients, cuts, typical
        self.points_ = np.concatenate([[1.25 * edges[0]], edges, [1.25 * edges[-1]]])
        self.middles_ = (self.points_[1:] + self.points_[:-1]) / 2
        self.counts_, self.totals_, self.noise_ = counts, totals, noise
        self.below_ = np.array(
            [np.append(0.0, np.cumsum(with_total(own, total))) for own, total in zip(counts, totals, strict=True)]
        )
        laws = [Law.of(with_total(own, total), edges, noise) for own, total in zip(counts, totals, strict=True)]
        self.law_points_ = laws[0].points
        self.law_chances_ = np.array([law.chances for law in laws])
        self.offset_, self.slope_, self.centre_ = 0.0, 0.0, 0.0
        self.nested_, self.inside_ = np.zeros((0, len(totals), 2)), np.zeros(0)
        self.proof_: dict[str, float] = {}
        self.n_features_in_ = len(coefficients)

    @property
    def scale(self) -> Scale:
        """The published scale of the target."""
        shift = None if math.isnan(self.shift_) else self.shift_
        return Scale(NumberRange(self.low, self.high), self.middle_, self.spread_, shift)

    def fit(self, X: Rows, y: Rows = None) -> NumberModel:  # noqa: ARG002
        """Refuse: targets are for `LabelMomentsRegressor`, which releases their moments."""
        raise InvalidParameterError("a NumberModel is made of released moments: fit a LabelMomentsRegressor.")

    def describe(
        self, read_by: FeatureMap, information: Information | None, table: pd.DataFrame, *, synthetic: bool
    ) -> None:
        """Store what explanations need, in units of outputs."""
        in_units = None if information is None else replace(information, factor=self._factor**2)
        super().describe(read_by, in_units, table, synthetic=synthetic)

    @property
    def _kind(self) -> str:  # type: ignore[override]
        return "mean" if self.scale.shift is None else "logarithm"

    @property
    def _outputs(self) -> NDArray[np.str_]:
        return np.array(["number"])

    @property
    def _factor(self) -> float:
        """How far an output moves with the prediction."""
        return self.spread_ * (1 + self.slope_ if self.scale.shift is None else 1.0)

    @property
    def _start(self) -> float:  # type: ignore[override]
        corrected = self.scale.shift is None
        return self.middle_ + self.spread_ * (self.offset_ - self.slope_ * self.centre_ if corrected else 0.0)

    @property
    def _weights(self) -> Floats:
        return np.asarray(self._factor * rounded_coefficients(self.coefficients_)[:, None])

    def _sums(self, features: Rows) -> Floats:
        return np.asarray(self._factor * self._read(features)[0][:, None])

    def predict(self, X: Rows) -> Floats:
        """Return the mean that is expected of each row of features, shape (n_rows,)."""
        prediction, group = self._read(X)
        if self.scale.shift is None:
            # Only the intercept and one slope are corrected, by many records each.
            return self.scale.numbers(prediction + self.offset_ + self.slope_ * (prediction - self.centre_))
        means = np.empty(len(prediction))
        for number in np.unique(group):
            own = group == number
            values = self.scale.numbers(prediction[own][:, None] + self.law_points_)
            means[own] = values @ self.law_chances_[number]
        return means

    def predict_median(self, X: Rows) -> Floats:
        """Return the median of each row of features, shape (n_rows,)."""
        return self.predict_quantile(X, 0.5)

    def predict_quantile(self, X: Rows, q: float) -> Floats:
        """Return a quantile of each row of features, shape (n_rows,)."""
        share = real_between("q", q, 0.001, 0.999)
        prediction, group = self._read(X)
        places = [_place(self.points_, own, share * own[-1]) for own in self.below_]
        return self.scale.numbers(prediction + np.array(places)[group])

    def predict_interval(self, X: Rows, coverage: float = 0.9, *, guaranteed: bool = False) -> Floats:
        """Return an interval for each row of features, shape (n_rows, 2)."""
        level = real_between("coverage", coverage, 0.01, 0.999)
        prediction, group = self._read(X)
        ends = self._proven(level) if guaranteed else self.ends(1 - level)
        if guaranteed:
            # Outward by more than rounding, so that no number which was counted as inside is outside.
            ends = ends + np.array([-_ROUNDING, _ROUNDING])
        intervals = self.scale.numbers(prediction[:, None] + ends[group])
        if guaranteed:
            # Numbers beyond the range count as the end of the range.
            intervals[:, 0][intervals[:, 0] <= self.low] = -np.inf
            intervals[:, 1][intervals[:, 1] >= self.high] = np.inf
        return intervals

    def _read(self, X: Rows) -> tuple[Floats, Integers]:
        """Return predictions of rows on the scale, and their groups."""
        check_is_fitted(self, "coefficients_")
        prediction = predicted(bounded_features(X) / UNIT, self.coefficients_)
        return prediction, np.searchsorted(self.cuts_, prediction, side="right")

    def ends(self, outside: float) -> Floats:
        """Return ends of measured intervals around predictions of each group, on the scale, shape (n_groups, 2).

        Counts from either side are moved by some of the deviation of their noise, which makes intervals longer. Of some
        ways to divide what is outside between both sides, the shortest is taken, by public rows.
        """
        n_cells = len(self.middles_)
        cells, scale, ends = np.arange(n_cells + 1), self.scale, np.empty((len(self.totals_), 2))
        noise = _MARGIN * self.noise_ * np.sqrt(cells * (n_cells - cells) / n_cells)
        for number, (own, total) in enumerate(zip(self.below_, self.totals_.tolist(), strict=True)):
            more = np.maximum.accumulate(own + noise)
            fewer_ = np.minimum.accumulate((own - noise)[::-1])[::-1]
            best = math.inf
            for part in _BELOW:
                low = _place(self.points_, more, part * outside * total - 0.5)
                high = _place(self.points_, fewer_, (1 - outside + part * outside) * total + 0.5)
                typical = self.typical_[number]
                length = float(np.mean(scale.numbers(typical + high) - scale.numbers(typical + low)))
                # Of intervals of nearly the same length, the more even one.
                length *= 1 + 0.02 * abs(part - 0.5)
                if length < best:
                    best, ends[number] = length, (low, max(low, high))
        return ends

    def _proven(self, coverage: float) -> Floats:
        """Return ends of the narrowest intervals that prove a coverage."""
        if not self.proof_:
            raise InvalidParameterError(
                "guaranteed=True needs counts of the run: set proven_coverage, such as 0.9, before you fit.",
                parameter="guaranteed",
            )
        proof = self.proof_
        cost = GaussianCost(proof["squares"], proof["slack"])
        allowed = most_outside(coverage, cost)
        unlucky = _UNLUCKY * max(allowed, 1e-9)
        n_units = proof["n_units"]
        if proof["count_error"]:
            # Half of the chance of bad luck is for the number of units, and one unit for the rounding of weights.
            n_units += 1 + proof["count_error"] * math.sqrt(2 * math.log(2 / unlucky))
            unlucky_of_cells = unlucky / 2
        else:
            unlucky_of_cells = unlucky
        bounds = bounds_of_prefixes(len(self.inside_), proof["spread"], unlucky_of_cells)
        outside = 1 - (self.inside_ - bounds) * (proof["n_units"] / n_units)
        proven = np.flatnonzero(outside <= allowed - unlucky)
        if not proven.size:
            raise InvalidParameterError(
                f"coverage={coverage!r} cannot be proven for an interval inside the range by what this run released: "
                "ask for less, use more records or a larger epsilon, or take measured intervals (guaranteed=False).",
                parameter="coverage",
            )
        return np.asarray(self.nested_[proven[0]])


def _place(points: Floats, below: Floats, count: float) -> float:
    """Return where a count of records lies below, by counts below each point that never fall."""
    rising = np.maximum.accumulate(below)
    return float(np.interp(count, rising + 1e-9 * np.arange(len(rising)), points))
