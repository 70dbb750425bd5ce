r"""The chance of an event by a time, given a row: two noisy sums, a fit of two hazards, and the published model.

A person ends in one cell: the event in a bin, censored in a bin, or beyond the horizon. The mean of features is
released as by other methods, and so is the number of units if it is private. Two more kinds of sums touch private
records:

- `TableOfCells`: a life table of all people, without their rows. A person adds one public vector of its cell.
- `CellResiduals`: ``phi(x) outer r``, where ``r`` are two numbers of the person's cell by a published model, or three
  with competing events. So a person adds ``phi(x)`` once, and never once for each bin at risk.

**The residuals** are those of a published model (T. Therneau, P. Grambsch and T. Fleming, "Martingale-based residuals
for survival models", Biometrika 1990). The first is 1 for an event, less the cumulative hazard up to the end of the
person's time. The second is that of censoring. In the first round the model is the released life table, and the sum is
one of classes of cells, times a public table before the noise is added. So noise falls on two numbers for each feature
and not on two for each bin. In the second round the model is the fit to the first one. Its residuals are small in every
row, so the fit depends less on how well public rows stand for private ones, and on the hazard of censoring.

**The fit** (`fit_hazards`). In a bin a person has the hazard ``a_j exp(phi b)`` of the event, and ``c_j exp(phi g)`` of
censoring. Both are constant within the bin (R. Prentice and L. Gloeckler, "Regression analysis of grouped survival
data", Biometrics 1978). Chances of all cells follow, and so do mean, slope and variance of each residual in a public
row. The second hazard is there since residuals around another model also depend on who is censored when. Steps and
prior scales are those of `dpensemble.moments.residuals`. The hazards ``a_j`` and ``c_j`` are such that the mean over
public rows has the released life table, but for one factor each: the constant's. The table knows the number of events
beside the expected up to its noise, and so do both rounds, about as well. So the deviation of the table's noise on the
logarithm of this factor is the prior scale of the constant's part. All of this reads released numbers and public rows
only.

**Competing events** have cells, a residual and hazards of their own, all kinds of them together. A risk is then the
chance that the event comes before any of them. It is summed over bins, by cause-specific hazards (R. Prentice et al.,
"The analysis of failure times in the presence of competing risks", Biometrics 1978).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpensemble._checks import real_between
from dpensemble._entries import Floats, Integers, Rows
from dpensemble._work import fewer, one_thread
from dpensemble.datasets.tables import as_library_transformer
from dpensemble.design.sums import SurvivalSums
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.fits import Fit, Link
from dpensemble.moments.learning import FeatureMean, MomentsSource, UnitCount
from dpensemble.moments.life_table import Counts, LifeTableEstimate, bins_of_times, columns_of_bins
from dpensemble.moments.maps.base import FeatureMap
from dpensemble.moments.model import ExplainedModel, Information
from dpensemble.moments.public_rows import Drift, PublicRows, PublicUnits, ReadableShare
from dpensemble.moments.residuals import Seen, Step
from dpensemble.moments.whole import (
    UNIT,
    WHOLE,
    RecordsQuery,
    bounded_answers,
    bounded_features,
    logits,
    rounded_coefficients,
)

# Weights of the residuals of the event, of other events if there are any, and of censoring.
_PARTS = {2: (1.0, 0.25), 3: (1.0, 0.5, 0.25)}
# All residuals at their limits together are 1/2 long.
_SCALES = {number: np.array(parts) / (2 * np.linalg.norm(parts)) for number, parts in _PARTS.items()}
# Limits of residuals and of hazards of a bin, and the least share of people.
_LIMIT, _MOST_HAZARD, _LEAST = 1.0, 10.0, 1e-6
# Turns of the fit, and of the hazards of bins in each of them. Step of a logarithm by which slopes are found.
_TURNS, _MATCHES, _SMALL = 8, 4, 0.05
# Least deviation of the noise on the level of hazards.
_LEAST_LEVEL = 0.002
# Least share of records that is assumed to be read.
_LEAST_READ = 0.05
# Deviations of noise by which a share is clearly below 1.
_CLEARLY = 3.0
# Entries of the chances of some rows in memory at a time.
_ENTRIES = 2**19
# Range of logarithms of relative hazards, and units in 1 of relative hazards.
_RANGE, _UNITS = 15.0, 2.0**24


def cells_of_times(ends: Floats, times: Floats, kinds: Integers, *, n_events: int = 1) -> Integers:
    """Return the cell of each time: each kind of event in a bin, then censored in a bin, then beyond the horizon.

    A kind is 0 for a censoring, and up to `n_events` for an event. Each time is read separately. An event beyond the
    horizon is not seen.
    """
    kinds = np.where(times <= ends[-1], kinds, 0)
    bins, block = bins_of_times(ends, times, kinds > 0), np.where(kinds > 0, kinds - 1, n_events)
    return np.asarray(len(ends) * block + bins)


@dataclass(frozen=True)
class TableOfCells(RecordsQuery[tuple[Floats, float]]):
    """The life table of all people. A person adds the public vector of its bin, in the block of its kind of end.

    No entry is negative, and no vector is longer than 1. So replacing a unit moves the sum by at most the root of 2,
    and adding or removing a unit by at most 1, as in `dpensemble.moments.life_table`.
    """

    n_bins: int
    n_events: int = 1
    description = "a life table: people by time bin, and event or censoring"
    never_negative = True

    def bounded_factors(self, features: Rows, targets: Integers, weights: Floats) -> tuple[Rows, Floats]:  # noqa: ARG002
        """Return ones, and the weighted vectors of cells. A bad record has zeros."""
        n_bins, columns = self.n_bins, columns_of_bins(self.n_bins).T
        vectors, good = np.zeros((len(targets), 1 + self.n_events, n_bins + 1)), np.flatnonzero(targets >= 0)
        # Beyond the horizon is the last place among censorings.
        kinds = np.minimum(targets[good] // n_bins, self.n_events)
        bins = targets[good] - n_bins * kinds
        vectors[good, (kinds + 1) % (1 + self.n_events)] = columns[n_bins - bins]
        answers = vectors.reshape(len(targets), -1) * weights[:, None]
        return np.full((len(targets), 1), float(UNIT)), bounded_answers(answers, weights)

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return the sums, shape (n_bins + 1, 1 + n_events), first of censorings, and the deviation of their noise."""
        return sums.reshape(1 + self.n_events, self.n_bins + 1).T, spread


@dataclass(frozen=True, eq=False)
class Baseline:
    """Hazards of each kind of event and of censoring, shape (n_kinds, n_bins), for a row of relative hazard 1. Public.

    The event of interest is first, and censoring last.
    """

    hazards: Floats

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return int(self.hazards.shape[1])

    @classmethod
    def of(cls, table: Counts) -> Baseline:
        """Return the baseline by a released life table."""
        return cls(_hazards(_conditional(table)))

    def chances(self, along: Floats) -> tuple[Floats, Floats]:
        """Return the chance of each cell, shape (n_rows, n_kinds * n_bins + 1), and that of entering each bin.

        `along`, shape (n_rows, n_kinds), are logarithms of relative hazards.
        """
        hazards = self.hazards * _relative(along)[:, :, None]
        both = hazards.sum(axis=1)
        sums = np.cumsum(both, axis=1)
        entering = np.exp(both - sums)
        left = entering * -np.expm1(-both) / np.maximum(both, 1e-300)
        cells = (left[:, None] * hazards).reshape(len(along), -1)
        return np.hstack([cells, np.exp(-sums[:, -1:])]), entering

    def matched(self, along: Floats, shares: Floats, wanted: Floats) -> Baseline:
        """Return hazards by which the mean over rows has the wanted chances, given entry, of leaving in each bin."""
        hazards = self.hazards
        for _ in range(fewer(_MATCHES)):
            now = Baseline(hazards)
            cells, entering = np.zeros(hazards.size + 1), np.zeros(self.n_bins)
            for rows in _blocks(along, self.n_bins):
                own, before = now.chances(along[rows])
                cells += shares[rows] @ own
                entering += shares[rows] @ before
            found = _hazards(_given_entry(cells[:-1].reshape(hazards.shape), entering))
            moved = hazards * _hazards(wanted) / np.maximum(found, 1e-9)
            hazards = np.clip(moved, 1e-9, 10 * _MOST_HAZARD)
        return Baseline(hazards)


def _conditional(table: Counts) -> Floats:
    """Return the chances of each kind of event and of a censoring in each bin, given that a person enters it."""
    return _given_entry(np.vstack([table.events, table.censored]), table.entering)


def _given_entry(leaving: Floats, entering: Floats) -> Floats:
    """Return chances to leave in each bin, given that a person enters it."""
    left = np.maximum(np.maximum(entering, leaving.sum(axis=0)), _LEAST)
    return np.maximum(leaving / left, _LEAST)


def _hazards(chances: Floats) -> Floats:
    """Return hazards that are constant within bins, from chances to leave in each bin."""
    together = chances.sum(axis=0)
    both = np.minimum(together, -np.expm1(-_MOST_HAZARD))
    return np.asarray(chances * (-np.log1p(-both) / together))


def _blocks(along: Floats, n_bins: int) -> list[slice]:
    """Return slices of rows whose chances fit into memory."""
    size = max(1, _ENTRIES // (3 * n_bins + 1))
    return [slice(start, start + size) for start in range(0, len(along), size)]


def _relative(along: Floats) -> Floats:
    """Return relative hazards, in whole units, so that no row depends on the rows beside it."""
    return np.asarray(np.rint(np.exp(np.clip(along, -_RANGE, _RANGE)) * _UNITS) / _UNITS)


@dataclass(frozen=True, eq=False)
class Centre:
    """A published model, around which residuals are taken: hazards of bins, and coefficients if rows differ. Public.

    `information` is about the coefficients of the first kind of event.
    """

    baseline: Baseline
    coefficients: Floats | None = None
    information: Information | None = None

    def relative(self, features: Rows, *, whole: bool) -> Floats:
        """Return relative hazards of each row, shape (n_rows, n_kinds). Exact for any block of rows.

        Features are whole numbers of ``1 / UNIT`` if `whole`, and whole multiples of it otherwise.
        """
        if self.coefficients is None:
            return np.ones((features.shape[0], self.n_kinds))
        return _relative(logits(features, self.coefficients, whole=whole, rounded=not whole))

    @property
    def n_kinds(self) -> int:
        """Number of kinds of events, and one more for censoring."""
        return len(self.baseline.hazards)

    @cached_property
    def _ends(self) -> Floats:
        """Whether each cell is each kind of event, and a censoring, shape (n_cells, n_kinds)."""
        ends = np.repeat(np.eye(self.n_kinds), self.baseline.n_bins, axis=0)
        return np.vstack([ends, np.zeros((1, self.n_kinds))])

    @cached_property
    def _exposed(self) -> Floats:
        """Cumulative hazards up to each cell, shape (n_cells, n_kinds): half of the bin of the end."""
        hazards = self.baseline.hazards.T
        until = np.cumsum(hazards, axis=0) - hazards / 2
        return np.concatenate([*[until] * self.n_kinds, hazards.sum(axis=0)[None]])

    def of_cells(self, relative: Floats, cells: Integers) -> Floats:
        """Return residuals of people by relative hazards and cells, shape (n_people, n_kinds), at most 1/2 long."""
        apart = self._ends[cells] - relative * self._exposed[cells]
        return np.asarray(np.clip(apart, -_LIMIT, _LIMIT) * _SCALES[self.n_kinds])

    def of_all_cells(self, relative: Floats, number: int) -> Floats:
        """Return one residual of every cell, shape (n_rows, n_cells)."""
        apart = self._ends[:, number] - relative[:, [number]] * self._exposed[:, number]
        return np.asarray(np.clip(apart, -_LIMIT, _LIMIT) * _SCALES[self.n_kinds][number])


@dataclass(frozen=True, eq=False)
class CellResiduals(RecordsQuery[tuple[Floats, float]]):
    """The features of each record, times the residuals of its cell around a published model.

    Each residual is cut to a limit, and all are divided by a number that makes them at most 1/2 long together, for
    every row and cell. So is the vector of a unit. Replacing a unit moves the sum by at most 1, and adding or removing
    a unit by at most 1/2. The fit knows the limit.
    """

    centre: Centre
    description = "the mean of the features, weighted by how far each event or censoring is from what is expected"
    replacing = WHOLE
    removing = WHOLE // 2

    @property
    def public_arrays(self) -> tuple[Floats | None, ...]:
        """Hazards and coefficients of the published model."""
        return self.centre.baseline.hazards, self.centre.coefficients

    def bounded_factors(self, features: Rows, targets: Integers, weights: Floats) -> tuple[Rows, Floats]:
        """Return features, and weighted residuals. A bad record has zeros."""
        residuals = self.centre.of_cells(self.centre.relative(features, whole=True), np.maximum(targets, 0))
        residuals[targets < 0] = 0.0
        return features, bounded_answers(residuals * weights[:, None], weights / 2)

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return the sums, shape (n_features, n_kinds), and the standard deviation of the noise on each entry."""
        return sums, spread


@dataclass(frozen=True, eq=False)
class Round:
    """The residuals that one round released around a centre, of units that can be read. Public.

    `values`, shape (n_features, n_kinds), are the noisy mean of ``phi outer r``, and `spread` is the standard deviation
    of the noise on each entry.
    """

    centre: Centre
    values: Floats
    spread: float

    def seen(self, number: int, baseline: Baseline, along: Floats, around: Floats) -> Seen:
        """Return one residual with its mean, slope and variance in each public row.

        `along` are logarithms of relative hazards by the present fit, and `around` relative hazards of the centre. The
        slope is by the logarithm of the same number.
        """
        parts = []
        for rows in _blocks(along, baseline.n_bins):
            own, residual = along[rows], self.centre.of_all_cells(around[rows], number)
            chances = baseline.chances(own)[0]
            mean = (chances * residual).sum(axis=1)
            means = []
            for step in (_SMALL, -_SMALL):
                moved = own.copy()
                moved[:, number] += step
                means.append((baseline.chances(moved)[0] * residual).sum(axis=1))
            variance = (chances * residual**2).sum(axis=1) - mean**2
            parts.append((mean, (means[0] - means[1]) / (2 * _SMALL), variance))
        mean, slope, variance = (np.concatenate(one) for one in zip(*parts, strict=True))
        link = Link(mean, np.maximum(slope, 0.0), np.maximum(variance, 1e-9))
        return Seen(self.values[:, number], self.spread, link)


def fit_hazards(rounds: Sequence[Round], table: Counts, public: PublicRows, *, n_units: float) -> Centre:
    """Fit the hazards of events and of censoring to all rounds together, by public rows.

    Parameters
    ----------
    rounds : sequence of Round
        Released residuals.
    table : Counts
        The released life table.
    public : PublicRows
        Public rows.
    n_units : float
        Number of units that can be read.

    Returns
    -------
    Centre
        Hazards of bins, and coefficients of shape (n_features, n_kinds).
    """
    baseline, wanted = Baseline.of(table), _conditional(table)
    n_kinds = len(baseline.hazards)
    start, typical = Fit.start(public), [public.typical_scales() for _ in range(n_kinds)]
    for of_kind, level in zip(typical, table.levels.tolist(), strict=True):
        of_kind[-1] = max(level, _LEAST_LEVEL) / public.constant
    coefficients: Floats = np.zeros((len(start.coefficients), n_kinds))
    scales = [np.append(start.scales[:-1], one[-1]) for one in typical]
    along = np.zeros((public.features.shape[0], n_kinds))
    around = [one.centre.relative(public.features, whole=False) for one in rounds]
    information = None
    for _ in range(fewer(_TURNS)):
        short = True
        for number in range(n_kinds):
            seen = [one.seen(number, baseline, along, centre) for one, centre in zip(rounds, around, strict=True)]
            now = coefficients[:, number : number + 1]
            step = Step.of(seen, now, scales[number], public, typical[number], n_units=n_units)
            scales[number] = step.scales
            coefficients[:, number] = step.coefficients[:, 0]
            along[:, number] += step.change
            short = short and step.is_short
            if number == 0:
                information = Information(step.precision, step.scales[public.blocks], np.ones(1), 1.0)
        baseline = baseline.matched(along - public.constant * coefficients[-1], public.share_of_rows, wanted)
        if short:
            break
    return Centre(baseline, coefficients, information)


@dataclass(frozen=True, eq=False)
class LearnedSurvival:
    """The published model of times until an event, and what was released beside it. Public."""

    model: SurvivalModel
    drift: Drift
    readable: ReadableShare
    life_table: LifeTableEstimate


def release_and_fit_survival(
    source: MomentsSource,
    feature_map: FeatureMap,
    public: pd.DataFrame,
    ends: Floats,
    design: SurvivalSums,
    total_weight: float,
    *,
    units: PublicUnits,
    kinds: tuple[str, ...] = ("event",),
    on_done: Callable[[int], None] = lambda _: None,
) -> LearnedSurvival:
    """Release all sums of a run in their order, and fit the published model to them, by public rows.

    The number of units is released with noise if it is private, and then takes the place of `total_weight`. What is
    charged depends on the design only. `kinds` are names of the kinds of events, that of interest first.
    """
    features = bounded_features(feature_map.transform(public)) / UNIT
    rows = PublicRows.behind(feature_map, features, public, 2, units)
    fresh = as_library_transformer(feature_map).as_fresh(public, units.numbers)
    compared = features if fresh is public else bounded_features(feature_map.transform(fresh)) / UNIT
    with one_thread():
        error = 0.0
        if design.count_share:
            total_weight, error = source.noisy_sum(UnitCount(), design.count_share)
        mean = source.noisy_sum(FeatureMean(source.nonnegative), design.mean_share, total_weight)
        noisy, noise = source.noisy_sum(
            TableOfCells(len(ends), len(kinds)), design.table_share, total_weight, title="Life table"
        )
        everybody = LifeTableEstimate(ends, ("",), noisy * total_weight, noise * total_weight, kinds)
        table = Counts.of(everybody.noisy, everybody.spread)
        # A bad record adds zeros, so the mean over records that can be read is larger.
        share = float(table.entering[0]) / total_weight
        readable = min(max(share, _LEAST_READ), 1.0)
        drift = Drift.of(*_of_readable(mean, share, table.noise / total_weight), compared, total_weight, units)
        n_units, trusted = max(total_weight * readable, 1.0), rows.trusted_by(drift)
        centre, rounds = Centre(Baseline.of(table)), []
        for number, part in enumerate(design.shares):
            title = f"Round {number + 1} of {len(design.shares)}"
            values, spread = source.noisy_sum(CellResiduals(centre), part, total_weight, title=title)
            rounds.append(Round(centre, values / readable, spread / readable))
            centre = fit_hazards(rounds, table, trusted, n_units=n_units)
            on_done(1)
    read = ReadableShare(share, math.hypot(table.noise, share * error) / total_weight)
    model = SurvivalModel().take(ends, centre)
    model.describe(feature_map, centre.information, public, synthetic=False)
    return LearnedSurvival(model, drift, read, everybody)


def _of_readable(mean: tuple[Floats, float], share: float, error: float) -> tuple[Floats, float]:
    """Return a noisy mean over readable records, if clearly not all records are, and the deviation of its noise."""
    values, spread = mean
    if share + _CLEARLY * error >= 1:
        return mean
    part = max(share, _LEAST_READ)
    # An error of the share moves the mean along itself, whose length is at most 1.
    return values / part, math.hypot(spread, error) / part


class SurvivalModel(ExplainedModel):
    """The published model of times until an event, which reads a public map's features. May be published.

    Hazards are constant within bins. Explanations are about the logarithm of the event's hazard, relative to the
    hazards that all rows share.
    """

    _kind = "log hazard"

    def take(self, ends: Floats, centre: Centre) -> SurvivalModel:
        """Take what was fitted to released sums."""
        *events, self.censoring_ = centre.baseline.hazards
        self.ends_, self.hazards_, self.others_ = ends, events[0], np.vstack([*events[1:], np.zeros((0, len(ends)))])
        n_kinds = len(events) + 1
        coefficients = np.zeros((0, n_kinds)) if centre.coefficients is None else centre.coefficients
        self.coefficients_ = coefficients
        self.n_features_in_ = len(coefficients)
        return self

    def fit(self, X: Rows, y: Rows = None) -> SurvivalModel:  # noqa: ARG002
        """Refuse: times are for `LabelMomentsSurvival`, which releases their sums."""
        raise InvalidParameterError("a SurvivalModel is made of released sums: fit a LabelMomentsSurvival.")

    @property
    def _outputs(self) -> NDArray[np.str_]:
        return np.array(["event"])

    @property
    def _weights(self) -> Floats:
        return rounded_coefficients(self.coefficients_[:, :1])

    def _sums(self, features: Rows) -> Floats:
        return logits(bounded_features(features), self.coefficients_[:, :1], whole=True)

    def predict(self, X: Rows) -> Floats:
        """Return the logarithm of the cumulative hazard up to the horizon, shape (n_rows,)."""
        return np.asarray(np.log(np.maximum(self.predict_cumulative_hazard(X)[:, -1], 1e-300)))

    def predict_cumulative_hazard(self, X: Rows, times: Rows = None, *, every: bool = False) -> Floats:
        """Return the cumulative hazard of the event at times, by default the ends of bins. Of any event if `every`."""
        hazards = self._hazards_of(X)
        return self._at(np.cumsum(hazards.sum(axis=1) if every else hazards[:, 0], axis=1), times)

    def predict_risk(self, X: Rows, times: Rows = None) -> Floats:
        """Return the chance that the event happens by times, by default the ends of bins, and no other event before."""
        if not len(self.others_):
            return np.asarray(-np.expm1(-self.predict_cumulative_hazard(X, times)))
        hazards = self._hazards_of(X)
        together = hazards.sum(axis=1)
        share = hazards[:, 0] / np.maximum(together, 1e-300)
        free = np.exp(-np.cumsum(together, axis=1))
        before = np.hstack([np.ones((len(free), 1)), free[:, :-1]])
        risks = np.cumsum(share * (before - free), axis=1)
        if times is None:
            return np.asarray(risks)
        wanted, points = self._checked(times), np.append(0.0, self.ends_)
        after = np.clip(np.searchsorted(points, wanted) - 1, 0, len(self.ends_) - 1)
        # Hazards are constant within a bin.
        part = (wanted - points[after]) / np.diff(points)[after]
        earlier = np.hstack([np.zeros((len(risks), 1)), risks])[:, after]
        return np.asarray(earlier + share[:, after] * before[:, after] * -np.expm1(-together[:, after] * part))

    def predict_cells(self, X: Rows, ends: Sequence[float]) -> Floats:
        """Return chances of each kind of event, then of a censoring, up to each of some ends of bins, then of neither.

        Shape (n_rows, n_kinds * n_ends + 1). They add up to 1.
        """
        check_is_fitted(self, "coefficients_")
        baseline = Baseline(np.vstack([self.hazards_[None], self.others_, self.censoring_[None]]))
        relative = Centre(baseline, self.coefficients_).relative(bounded_features(X), whole=True)
        fine, _ = baseline.chances(np.log(relative))
        places = np.searchsorted(ends, self.ends_)[:, None] == np.arange(len(ends) + 1)
        coarse = fine[:, :-1].reshape(len(fine), *baseline.hazards.shape) @ places
        beyond = fine[:, -1] + coarse[:, :, -1].sum(axis=1)
        return np.column_stack([coarse[:, :, :-1].reshape(len(fine), -1), beyond])

    def _hazards_of(self, X: Rows) -> Floats:
        """Return hazards of rows of each kind of event in each bin, shape (n_rows, n_events, n_bins)."""
        check_is_fitted(self, "coefficients_")
        events = np.vstack([self.hazards_[None], self.others_])
        centre = Centre(Baseline(np.vstack([events, self.censoring_[None]])), self.coefficients_)
        relative = centre.relative(bounded_features(X), whole=True)[:, : len(events)]
        return np.asarray(events * relative[:, :, None])

    def _checked(self, times: Rows) -> Floats:
        return np.array([real_between("times", one, 0.0, float(self.ends_[-1])) for one in np.ravel(times).tolist()])

    def _at(self, at_ends: Floats, times: Rows) -> Floats:
        """Return cumulative hazards at times, by lines between the ends of bins."""
        if times is None:
            return at_ends
        points, values = np.append(0.0, self.ends_), np.hstack([np.zeros((len(at_ends), 1)), at_ends])
        return _between(points, values, self._checked(times))


def _between(points: Floats, values: Floats, times: Floats) -> Floats:
    """Return values of rows at times, by lines between points. Shape (n_rows, n_times)."""
    after = np.clip(np.searchsorted(points, times), 1, len(points) - 1)
    part = (times - points[after - 1]) / np.diff(points)[after - 1]
    return np.asarray(values[..., after - 1] * (1 - part) + values[..., after] * part)


class SurvivalFunction:
    """A curve of one row along time, with the attributes of a step function of scikit-survival. Public.

    Between ends of bins it follows from the hazards, which are constant there.

    Parameters
    ----------
    x, y : ndarray of shape (n_bins,)
        Ends of bins, and values at them.
    start : float
        Value at time 0: 1 for a chance to be free, 0 for a cumulative hazard.
    """

    def __init__(self, x: Floats, y: Floats, start: float) -> None:
        self.x, self.y, self.start = x, y, start

    @property
    def domain(self) -> tuple[float, float]:
        """First and last time that the function takes."""
        return 0.0, float(self.x[-1])

    def __call__(self, times: Rows) -> Rows:
        """Return the values at times, of the same shape. Raise beyond the horizon."""
        flat = [real_between("times", one, *self.domain) for one in np.ravel(times).tolist()]
        points, values = np.append(0.0, self.x), np.append(self.start, self.y)
        # Logarithms of chances are straight within a bin, and so are cumulative hazards.
        if self.start:
            found = np.exp(_between(points, np.log(np.maximum(values, 1e-300)), np.array(flat)))
        else:
            found = _between(points, values, np.array(flat))
        return found.reshape(np.shape(times))
