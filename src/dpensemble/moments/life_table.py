"""A private life table: one class sum over cells of stratum, end and time, and what follows from it.

Times are divided at declared points. A person adds one vector: a public column for the bin, in the block of the
stratum and of the end (event or censored). No entry is negative, and no column is longer than 1. So `ClassSums` has the
proof: replacing a person moves the sum by at most ``sqrt(2)``, adding or removing one by at most 1. Numbers at risk are
sums of later cells, and cost nothing more.

The columns are those of the square root of the triangular matrix of ones, each scaled to length 1 (H. Fichtenberger,
M. Henzinger and J. Upadhyay, "Constant matters", ICML 2023). Bins are in reverse order. The noise of a number at risk
then grows with the logarithm of the number of bins, and is least late, where few people are left.

Everything after `LifeTableSum` reads released numbers only. Counts follow from a law with smooth hazards, whose step
sizes have the largest evidence. Bands and tests rest on counts that were not smoothed, because these are linear in the
noise. At risk in a bin is who entered it, less half of those who were censored in it.

Competing events are further ends, with columns of their own in the same sum, so the proof is the same. Their cumulative
incidence is that of Aalen and Johansen (Scandinavian Journal of Statistics, 1978). It adds up the chance to be free of
all events before a bin, times the share of those at risk who have the event in the bin. Its band is linear, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg, special, stats

from dpensemble._checks import real_between
from dpensemble._entries import Floats, Integers, Rows
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.learning import ClassSums
from dpensemble.moments.whole import UNIT, RecordsQuery, bounded_features

#: The most bins, the most strata, and the most kinds of competing events.
MOST_BINS, MOST_STRATA, MOST_COMPETING = 200, 20, 5
# A curve ends where fewer are at risk, or where the noise is larger than a third of their number.
_FEWEST_AT_RISK, _DEVIATIONS = 10.0, 3.0
# Bands hold at once over times at which at least this share is at risk.
_BANDED = 0.1
_LEVEL = 0.95
# Step sizes of the random walks of logits, the prior of the first logit, and the range of logits.
_STEPS = (0.05, 0.2, 0.6)
_FIRST, _FIRST_SPREAD, _LOGITS = -3.0, 3.0, 12.0
_ITERATIONS, _TOLERANCE, _LEAST_STEP = 40, 1e-4, 1e-3
# Ranks of records after those of all events: a censoring at time 0, and a record that cannot be read.
_NOT_AN_EVENT, _BAD_ROW = np.uint64(2**64 - 2), np.uint64(2**64 - 1)
# Draws for the quantile of the largest deviation, from a fixed public seed.
_DRAWS = 4000


# The earliest end of a bin.
_LEAST_END = 1e-12


def checked_ends(bins: Sequence[float]) -> Floats:
    """Return the ends of all bins, ascending. The last one is the horizon.

    Raises
    ------
    InvalidParameterError
        If there are fewer than 2 bins or more than `MOST_BINS`, or if the ends are not finite, above 0 and ascending.

    Examples
    --------
    >>> checked_ends([30, 90, 180])
    array([ 30.,  90., 180.])
    """
    try:
        if isinstance(bins, Iterator):
            raise TypeError("an iterator can be read once only")
        ends = np.array([real_between("bins", one, -1e12, 1e12) for one in bins])
    except TypeError as error:
        raise InvalidParameterError(
            f"bins={bins!r} is not a list of times: give the end of each bin, such as [30, 90, 180, 365].",
            parameter="bins",
        ) from error
    if not 2 <= len(ends) <= MOST_BINS:
        raise InvalidParameterError(
            f"bins={list(bins)!r} has {len(ends)} entries: give the ends of 2 to {MOST_BINS} bins, such as "
            "[30, 90, 180, 365].",
            parameter="bins",
        )
    if ends[0] < _LEAST_END:
        raise InvalidParameterError(
            f"bins={list(bins)!r} begins at {ends[0]:g}: the first bin begins at 0, so give the end of each bin after "
            "0, such as [30, 90, 180, 365].",
            parameter="bins",
        )
    if not (np.diff(ends) > 0).all():
        raise InvalidParameterError(
            f"bins={list(bins)!r} must ascend: give the end of each bin once, in one unit of time.", parameter="bins"
        )
    return ends


@lru_cache(maxsize=8)
def columns_of_bins(n_bins: int) -> Floats:
    """Return what a person in each place adds, shape (n_bins + 1, n_bins + 1), one column a place. Public.

    Place 0 is beyond the horizon, and place ``k`` is the bin ``n_bins - k``. Entries are whole multiples of
    ``1 / UNIT``, as they are summed.
    """
    places = np.arange(1, n_bins + 1)
    first = np.concatenate([[1.0], np.cumprod((2 * places - 1) / (2 * places))])
    lower = np.subtract.outer(np.arange(n_bins + 1), np.arange(n_bins + 1))
    root = np.where(lower >= 0, first[np.maximum(lower, 0)], 0.0)
    columns: Floats = np.asarray(bounded_features((root / np.linalg.norm(root, axis=0)).T)).T / UNIT
    columns.flags.writeable = False
    return columns


def bins_of_times(ends: Floats, times: Floats, is_event: NDArray[np.bool_]) -> Integers:
    """Return the bin of each time, the number of bins for one beyond the horizon. Who is censored at an end is later.

    Each time is read separately.
    """
    bins = np.where(is_event, np.searchsorted(ends, times), np.searchsorted(ends, times, side="right"))
    return np.minimum(bins, len(ends))


def rows_of_times(times: Floats, is_event: Rows) -> pd.DataFrame:
    """Return the table that `PlacesOfTimes` reads."""
    return pd.DataFrame({"time": times, "event": np.asarray(is_event, dtype=np.float64)})


@dataclass(frozen=True)
class PlacesOfTimes:
    """The public map from a time to the vector of its place. A missing or negative time gives NaN: a bad record.

    An event at the end of a bin is in the bin. A person who is censored then was at risk all along, and is censored in
    the next bin. So the caller gives times of censored people in a column of zeros and ones, `is_event`.
    """

    ends: tuple[float, ...]

    def __call__(self, rows: Rows) -> Floats:
        """Return vectors of length 1 at most, shape (n_rows, n_bins + 1)."""
        rows = np.asarray(rows, dtype=np.float64)
        times, ends = rows[:, 0], np.asarray(self.ends)
        vectors = columns_of_bins(len(ends)).T[len(ends) - bins_of_times(ends, times, rows[:, 1] > 0)].copy()
        vectors[~(times >= 0)] = np.nan
        return vectors


@dataclass(frozen=True)
class LifeTableSum(RecordsQuery[tuple[Floats, float]]):
    """The class sum of a life table. Classes are strata by ends: first censored, then each kind of event.

    A person adds what `ClassSums` lets a person add, so its proof holds here.
    """

    n_classes: int
    description = "a life table: people by stratum, time bin, and event or censoring"
    never_negative = True

    def bounded_factors(self, features: Rows, targets: Integers, weights: Floats) -> tuple[Rows, Floats]:
        """Return vectors of places, and weights in the columns of their classes."""
        return ClassSums(self.n_classes).bounded_factors(features, targets, weights)

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return noisy sums, shape (n_bins + 1, n_classes), and the standard deviation of the noise on each entry."""
        return sums, spread


@dataclass(frozen=True, eq=False)
class _Law:
    """Smooth expected counts of one stratum: events and censorings by bin, and those beyond the horizon."""

    counts: Floats
    evidence: float
    logits: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Incidence:
    """The cumulative incidence of one kind of event beside others, and its band. Arrays of shape (n_bins,). Public.

    The band holds for the population, at 95 % for all times at once at which a tenth is at risk. NaN at others.
    """

    kind: str
    chance: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Curve:
    """The curve of one stratum. All arrays have shape (n_bins,), and all numbers may be published.

    Attributes
    ----------
    stratum : str
        Name of the stratum, empty if there are no strata.
    times : ndarray
        End of each bin at which the curve is released.
    at_risk, events, censored : ndarray
        Released numbers of each bin: people who enter it, and those with an event or censored in it. Not whole.
    at_risk_noise : ndarray
        Standard deviation of the noise on the number at risk, before counts were smoothed.
    survival, cumulative_hazard : ndarray
        Kaplan-Meier and Nelson-Aalen curves at the ends of bins, of any event if events compete.
    low, high : ndarray
        Band that holds for the population, at 95 % for all times at once at which a tenth is at risk. NaN at others.
    sample_low, sample_high : ndarray
        The same for the curve of the table's own people, without privacy.
    median : tuple of float
        Time at which half have had the event, and its interval by the band. Infinite if the curve ends before.
    restricted_mean : tuple of float
        Mean time up to the last time of the curve, and its interval by the band.
    incidence : tuple of Incidence
        Cumulative incidence of each kind of event, if events compete. Together they are one less the survival.
    """

    stratum: str
    times: Floats
    at_risk: Floats
    at_risk_noise: Floats
    events: Floats
    censored: Floats
    survival: Floats
    cumulative_hazard: Floats
    low: Floats
    high: Floats
    sample_low: Floats
    sample_high: Floats
    incidence: tuple[Incidence, ...] = ()

    @property
    def median(self) -> tuple[float, float, float]:
        """The median time, and its interval. Infinite where the curve ends above one half."""
        return _crossing(self.times, self.survival), _crossing(self.times, self.low), _crossing(self.times, self.high)

    @property
    def restricted_mean(self) -> tuple[float, float, float]:
        """The mean time up to the last time with a band, and its interval. NaN without a band."""
        banded = ~np.isnan(self.low)
        times = self.times[banded]
        areas = [_area(times, curve[banded]) for curve in (self.survival, self.low, self.high)]
        return areas[0], areas[1], areas[2]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with None for what is not known."""
        summaries = {"median": self.median, "restricted_mean": self.restricted_mean}
        plain = _plain_arrays(self) | {name: [*map(_plain, value)] for name, value in summaries.items()}
        kinds = [{"kind": one.kind, **_plain_arrays(one)} for one in self.incidence]
        return {"stratum": self.stratum, **plain, "incidence": kinds}


def _plain_arrays(one: Curve | Incidence) -> dict[str, list[float | None]]:
    arrays = {name: value for name, value in vars(one).items() if isinstance(value, np.ndarray)}
    return {name: [_plain(entry) for entry in value.tolist()] for name, value in arrays.items()}


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _crossing(times: Floats, curve: Floats) -> float:
    """Return the first time at which a curve is at most one half."""
    below = np.flatnonzero(curve <= 0.5)
    return float(times[below[0]]) if len(below) else math.inf


def _area(times: Floats, curve: Floats) -> float:
    """Return the area below a curve that begins with 1 at time 0 and is linear between times."""
    if not len(times):
        return math.nan
    return float(np.trapezoid(np.concatenate([[1.0], curve]), np.concatenate([[0.0], times])))


@dataclass(frozen=True)
class LogRank:
    """A log-rank test that all strata have the same hazards. May be published.

    The variance holds the sampling of people and the noise of the release. If events compete, the test is about the
    first kind, and who has another event counts as censored then.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class LifeTableEstimate:
    """Curves and tests from one released sum. Public.

    Parameters
    ----------
    ends : ndarray of shape (n_bins,)
        End of each bin.
    strata : tuple of str
        Names of strata, in the order of the sum. One empty name if there are none.
    noisy : ndarray of shape (n_bins + 1, (1 + n_kinds) * n_strata)
        The released sum.
    spread : float
        Standard deviation of the noise on each of its entries.
    kinds : tuple of str
        Names of the kinds of events. The first one is of interest, and the others compete with it.
    """

    ends: Floats
    strata: tuple[str, ...]
    noisy: Floats
    spread: float
    kinds: tuple[str, ...] = ("event",)

    @cached_property
    def curves(self) -> tuple[Curve, ...]:
        """The curve of each stratum."""
        curves = []
        for name, block, together, own in zip(self.strata, self._blocks, self._together, self._by_kind, strict=True):
            curve = _curve(name, self.ends, together)
            if len(self.kinds) > 1:
                kinds = _incidences(self.kinds, block, together, own, self.spread)
                curve = replace(curve, incidence=tuple(kinds))
            curves.append(curve)
        return tuple(curves)

    @cached_property
    def log_rank(self) -> LogRank | None:
        """The test between all strata, or None with one stratum or without a time with enough people at risk."""
        if len(self.strata) < 2:
            return None
        return _log_rank([own[0] for own in self._by_kind])

    @cached_property
    def total(self) -> tuple[float, float]:
        """The released number of people in the table, and the standard deviation of its noise."""
        people = sum(float(one.entering[0] @ one.counts) for one in self._together)
        return people, math.sqrt(sum(float(one.at_risk_noise[0]) ** 2 for one in self._together))

    @property
    def _blocks(self) -> list[Floats]:
        """Noisy sums of each stratum: censored, and each kind of event."""
        return np.split(self.noisy, len(self.strata), axis=1)

    @cached_property
    def _together(self) -> list[_Observed]:
        """Each stratum's part, with all kinds of events together."""
        return [_Observed.of(block, self.spread, range(len(self.kinds))) for block in self._blocks]

    @cached_property
    def _by_kind(self) -> list[list[_Observed]]:
        """Each stratum's part by kind of event, in which other events count as censorings."""
        if len(self.kinds) == 1:
            return [[one] for one in self._together]
        n_kinds = len(self.kinds)
        return [[_Observed.of(block, self.spread, [kind]) for kind in range(n_kinds)] for block in self._blocks]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        test = None if self.log_rank is None else vars(self.log_rank)
        curves = [one.to_dict() for one in self.curves]
        return {"bins": self.ends.tolist(), "curves": curves, "log_rank": test, "noise": self.spread}


# Added to counts, so that shares of no people are equal.
_TINY = 1e-9


class Counts(NamedTuple):
    """Counts of a life table without strata. Not whole, from 0. Public.

    `events` of each kind and bin, shape (n_kinds, n_bins), `censored` of each bin, who is `entering` it, and the
    standard deviation of the noise on the number of all people. `levels`, shape (n_kinds + 1,), are those of the noise
    on the logarithm of the hazards' level: how many events, and how many censorings, there are beside the expected.
    """

    events: Floats
    censored: Floats
    entering: Floats
    noise: float
    levels: Floats

    @classmethod
    def of(cls, noisy: Floats, spread: float) -> Counts:
        """Return smoothed counts by a noisy sum of one stratum: a column of censorings, then one of each kind."""
        kinds = range(noisy.shape[1] - 1)
        one = _Observed.of(noisy, spread, kinds)
        counts, n_bins = one.smoothed, one.n_bins
        events, censored = counts[None, :n_bins], counts[n_bins : 2 * n_bins]
        by_kind = [_Observed.of(noisy, spread, [kind]) for kind in kinds] if len(kinds) > 1 else [one]
        if len(kinds) > 1:
            own = np.array([each.smoothed[:n_bins] for each in by_kind])
            # All kinds together are smoother, and have one number of people at risk.
            events = events * (own + _TINY) / (own + _TINY).sum(axis=0)
        exposed = np.maximum(one.exposed @ counts, _TINY)
        levels = [each.level_noise(each.events, own / exposed) for each, own in zip(by_kind, events, strict=True)]
        levels.append(one.level_noise(np.roll(one.events, n_bins, axis=1), censored / exposed))
        return cls(events, censored, one.entering @ counts, float(one.at_risk_noise[0]), np.array(levels))


class _Observed:
    """One stratum's part of the sum. Counts are in the order: events by bin, censorings by bin, beyond the horizon.

    `n_added` states how many released columns were added for events, and for censorings. Their noise adds up.
    """

    def __init__(self, noisy: Floats, spread: float, n_added: tuple[int, int] = (1, 1)) -> None:
        n_bins = len(noisy) - 1
        self.n_bins = n_bins
        #: Standard deviation of the noise on each sum.
        self.spreads: Floats = spread * np.sqrt(np.repeat(n_added, (n_bins, n_bins + 1)))
        columns = columns_of_bins(n_bins)
        reverse = n_bins - np.arange(n_bins)
        # Nobody has an event beyond the horizon, so its place is left out.
        events = np.zeros((2 * n_bins + 1, n_bins))
        events[:n_bins] = columns[1:, reverse]
        censored = np.zeros((2 * n_bins + 1, n_bins + 1))
        censored[n_bins:] = columns[:, np.append(reverse, 0)]
        self.matrix: Floats = np.hstack([events, censored])
        self.sums: Floats = np.concatenate([noisy[1:, 1], noisy[:, 0]])
        self.inverse: Floats = np.asarray(np.linalg.inv(self.matrix), dtype=np.float64)
        #: Counts without smoothing, whose noise is `inverse` times that of the sums.
        self.counts: Floats = self.inverse @ self.sums
        entering: Floats = np.zeros((n_bins, 2 * n_bins + 1))
        later = np.triu(np.ones((n_bins, n_bins)))
        entering[:, :n_bins], entering[:, n_bins : 2 * n_bins], entering[:, -1] = later, later, 1.0
        #: Linear maps from counts: who enters each bin, and who is at risk in it.
        self.entering: Floats = entering
        self.exposed: Floats = entering.copy()
        self.exposed[:, n_bins : 2 * n_bins] -= np.eye(n_bins) / 2
        self.events: Floats = np.eye(n_bins, 2 * n_bins + 1)

    @classmethod
    def of(cls, block: Floats, spread: float, kinds: Sequence[int]) -> _Observed:
        """Return sums of some kinds of events together. Other events count as censorings."""
        own = [1 + kind for kind in kinds]
        others = [place for place in range(block.shape[1]) if place not in own]
        sums = np.column_stack([block[:, others].sum(axis=1), block[:, own].sum(axis=1)])
        return cls(sums, spread, (len(own), len(others)))

    def noise_of(self, linear: Floats) -> Floats:
        """Return the covariance of the noise on linear functions of counts without smoothing."""
        moved = linear @ self.inverse * self.spreads
        return np.asarray(moved @ moved.T)

    @cached_property
    def law(self) -> _Law:
        """The smooth law whose step size has the largest evidence."""
        laws, start = [], None
        for step in _STEPS:
            laws.append(_fitted(self, step, start))
            start = laws[-1].logits
        return max(laws, key=lambda one: one.evidence)

    @cached_property
    def smoothed(self) -> Floats:
        """Counts between the noisy ones and the law: with little noise the former, with much noise the latter."""
        expected = self.law.counts
        moved = expected[:, None] * self.matrix.T
        covariance = self.matrix @ moved + np.diag(self.spreads**2)
        posterior = expected + moved @ np.linalg.solve(covariance, self.sums - self.matrix @ expected)
        return np.asarray(np.maximum(posterior, 0.0))

    @cached_property
    def at_risk_noise(self) -> Floats:
        """Standard deviation of the noise on the number that enters each bin."""
        return np.asarray(np.linalg.norm(self.entering @ self.inverse * self.spreads, axis=1))

    def level_noise(self, ends: Floats, hazards: Floats) -> float:
        """Return the deviation of the noise on the number of some ends, less the expected, in multiples of the latter.

        `ends`, shape (n_bins, n_counts), picks the counts of these ends.
        """
        hazards = np.clip(hazards, 0.0, 1.0)
        apart = (ends - hazards[:, None] * self.exposed).sum(axis=0)
        expected = max(float(hazards @ (self.exposed @ self.smoothed)), 1.0)
        return float(np.sqrt(self.noise_of(apart[None])[0, 0])) / expected

    def n_released(self) -> int:
        """Return the number of bins before the first one with too few at risk."""
        least = np.maximum(_FEWEST_AT_RISK, _DEVIATIONS * self.at_risk_noise)
        few = np.flatnonzero(self.entering @ self.smoothed < least)
        return int(few[0]) if len(few) else self.n_bins


def _expected(logits: Floats) -> tuple[Floats, Floats]:
    """Return expected counts of one stratum, and the derivatives of their logarithms.

    `logits` are the logarithm of the number of people, and the logits of both hazards in each bin.
    """
    n_bins = (len(logits) - 1) // 2
    event, censoring = special.expit(logits[1 : n_bins + 1]), special.expit(logits[n_bins + 1 :])
    alive = np.concatenate([[1.0], np.cumprod((1 - event) * (1 - censoring))])
    shares = np.concatenate([alive[:-1] * event, alive[:-1] * (1 - event) * censoring, alive[-1:]])
    before, eye = np.tril(np.ones((n_bins, n_bins)), -1), np.eye(n_bins)
    slopes = np.ones((2 * n_bins + 1, 2 * n_bins + 1))
    slopes[:n_bins, 1 : n_bins + 1] = eye * (1 - event) - before * event
    slopes[:n_bins, n_bins + 1 :] = -before * censoring
    slopes[n_bins:-1, 1 : n_bins + 1] = -(before + eye) * event
    slopes[n_bins:-1, n_bins + 1 :] = eye * (1 - censoring) - before * censoring
    slopes[-1, 1:] = -np.concatenate([event, censoring])
    return np.maximum(math.exp(logits[0]) * shares, 1e-9), slopes


@lru_cache(maxsize=32)
def _prior(n_bins: int, step: float) -> tuple[Floats, Floats, float]:
    """Return the mean, the precision and its log-determinant of the logits: random walks for both hazards."""
    difference = np.eye(n_bins) - np.eye(n_bins, k=-1)
    weights = np.full(n_bins, 1 / step)
    weights[0] = 1 / _FIRST_SPREAD
    one = (weights[:, None] * difference).T @ (weights[:, None] * difference)
    precision = np.zeros((2 * n_bins + 1, 2 * n_bins + 1))
    precision[1 : n_bins + 1, 1 : n_bins + 1] = precision[n_bins + 1 :, n_bins + 1 :] = one
    mean = np.full(2 * n_bins + 1, _FIRST)
    mean[0] = 0.0
    return mean, precision, 4 * float(np.log(weights).sum())


def _fitted(observed: _Observed, step: float, start: Floats | None) -> _Law:
    """Return the law with the largest posterior, by scoring. Counts follow a Poisson law, so their sum is free."""
    n_bins, matrix, sums = observed.n_bins, observed.matrix, observed.sums
    mean, precision, log_determinant = _prior(n_bins, step)
    if start is None:
        total = max(float(observed.counts.sum()), 1.0)
        start = np.concatenate([[math.log(total)], np.full(2 * n_bins, _FIRST)])

    def misfit(logits: Floats, factor: Rows) -> float:
        residual = sums - matrix @ _expected(logits)[0]
        away = logits - mean
        return float(residual @ linalg.cho_solve(factor, residual) + away @ precision @ away)

    logits, factor, information = start, linalg.cho_factor(np.eye(len(sums))), precision
    for _ in range(_ITERATIONS):
        counts, slopes = _expected(logits)
        factor = linalg.cho_factor((matrix * counts) @ matrix.T + np.diag(observed.spreads**2))
        jacobian = matrix @ (counts[:, None] * slopes)
        weighted = linalg.cho_solve(factor, np.column_stack([jacobian, sums - matrix @ counts]))
        information = jacobian.T @ weighted[:, :-1] + precision
        gradient = jacobian.T @ weighted[:, -1] - precision @ (logits - mean)
        move = np.clip(np.linalg.solve(information + 1e-9 * np.eye(len(logits)), gradient), -2.0, 2.0)
        now, size = misfit(logits, factor), 1.0
        while size > _LEAST_STEP and misfit(_limited(logits + size * move), factor) > now:
            size /= 2
        if size <= _LEAST_STEP:
            # No step of this direction is an improvement.
            break
        logits = _limited(logits + size * move)
        if np.abs(size * move).max() < _TOLERANCE:
            break
    evidence = -misfit(logits, factor) - 2 * np.log(np.diag(factor[0])).sum()
    evidence += log_determinant - np.linalg.slogdet(information)[1]
    return _Law(_expected(logits)[0], float(evidence), logits)


def _limited(logits: Floats) -> Floats:
    limited = np.clip(logits, -_LOGITS, _LOGITS)
    limited[0] = np.clip(logits[0], 0.0, 40.0)
    return limited


def _curve(name: str, ends: Floats, observed: _Observed) -> Curve:
    """Return the curve of one stratum, up to the time at which too few are at risk."""
    n = observed.n_released()
    smoothed, expected = observed.smoothed, observed.law.counts
    exposed, events = observed.exposed @ smoothed, smoothed[: observed.n_bins]
    hazards = np.minimum(events / np.maximum(exposed, 1e-9), 1.0)
    survival = np.cumprod(1 - hazards)
    # The estimate that is linear in counts which were not smoothed, around the law.
    of_law = np.clip(expected[: observed.n_bins] / (observed.exposed @ expected), 1e-9, 1 - 1e-6)
    left = np.maximum(observed.exposed @ expected, 1e-3)
    scores = (observed.events - of_law[:, None] * observed.exposed) / (left * (1 - of_law))[:, None]
    sums = np.tril(np.ones((n, n)))
    linear = sums @ scores[:n]
    centre = sums @ -np.log1p(-of_law[:n]) + linear @ observed.counts
    noise = observed.noise_of(linear)
    steps = (of_law / (left * (1 - of_law)))[:n]
    sampling = np.minimum.outer(np.arange(n), np.arange(n))
    sampling = np.cumsum(steps)[sampling] if n else np.zeros((0, 0))
    banded = (observed.entering @ smoothed)[:n] >= _BANDED * smoothed.sum()
    low, high = _band(centre, noise + sampling, banded)
    sample_low, sample_high = _band(centre, noise, banded)
    return Curve(
        stratum=name,
        times=ends[:n],
        at_risk=(observed.entering @ smoothed)[:n],
        at_risk_noise=observed.at_risk_noise[:n],
        events=events[:n],
        censored=smoothed[observed.n_bins : 2 * observed.n_bins][:n],
        # The curve of smoothed counts, moved to the band where it lies outside.
        survival=np.clip(survival[:n], np.where(banded, low, 0.0), np.where(banded, high, 1.0)),
        cumulative_hazard=np.cumsum(hazards)[:n],
        low=low,
        high=high,
        sample_low=sample_low,
        sample_high=sample_high,
    )


def _incidences(
    kinds: Sequence[str], block: Floats, together: _Observed, own: Sequence[_Observed], spread: float
) -> Iterator[Incidence]:
    """Yield the cumulative incidence of each kind of event, up to the end of the curve of all events."""
    n_bins, n = together.n_bins, together.n_released()
    smoothed, expected = (
        np.maximum([one[:n_bins] for one in counts], 1e-9)
        for counts in ([one.smoothed for one in own], [one.law.counts for one in own])
    )
    left = np.maximum(together.exposed @ together.law.counts, 1e-3)
    hazards, of_law = (
        np.clip(counts[:n_bins] / np.maximum(together.exposed @ counts, 1e-9), 1e-9, 1 - 1e-6)
        for counts in (together.smoothed, together.law.counts)
    )
    banded = (together.entering @ together.smoothed)[:n] >= _BANDED * together.smoothed.sum()
    for kind, name in enumerate(kinds):
        shares = smoothed[kind] / smoothed.sum(axis=0)
        chance = np.cumsum(_before(hazards) * hazards * shares)[:n]
        own_law = of_law * expected[kind] / expected.sum(axis=0)
        centre, linear, sampling = _linear_incidence(kind, len(kinds), of_law, own_law, left)
        # Every column of the sum has its own noise, and its own counts.
        counts, noise = _by_columns(block, together, linear, spread)
        free = 1 - np.minimum(centre, 1 - 1e-6)
        covariance = ((noise + sampling) / np.outer(free, free))[:n, :n]
        low, high = _band((linear @ counts / free - np.log(free))[:n], covariance, banded)
        low, high = 1 - high, 1 - low
        yield Incidence(name, np.clip(chance, np.where(banded, low, 0.0), np.where(banded, high, 1.0)), low, high)


def _before(hazards: Floats) -> Floats:
    """Return the chance to be free of events before each bin."""
    return np.concatenate([[1.0], np.cumprod(1 - hazards)[:-1]])


def _linear_incidence(
    kind: int, n_kinds: int, hazards: Floats, own: Floats, left: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the incidence of a law, its slopes by counts, and the covariance by which people vary, by a linear step.

    Counts are in the order: each kind of event by bin, censorings by bin, and beyond the horizon.
    """
    n_bins = len(hazards)
    later, eye = np.triu(np.ones((n_bins, n_bins))), np.eye(n_bins)
    exposed = np.hstack([later] * n_kinds + [later - eye / 2, np.ones((n_bins, 1))])
    some = np.hstack([eye] * n_kinds + [np.zeros((n_bins, n_bins + 1))])
    this = np.zeros_like(some)
    this[:, kind * n_bins : (kind + 1) * n_bins] = eye
    before, lower = _before(hazards), np.tril(np.ones((n_bins, n_bins)))
    centre = np.cumsum(before * own)
    # How an error in one bin moves the incidence at all later ends: by events, and by who remains.
    by_events = lower * before
    by_others = lower * np.subtract.outer(centre, centre) / (1 - hazards)
    linear = by_events @ ((this - own[:, None] * exposed) / left[:, None])
    linear -= by_others @ ((some - hazards[:, None] * exposed) / left[:, None])
    both = (by_events * own * (1 - hazards) / left) @ by_others.T
    sampling = (by_events * own * (1 - own) / left) @ by_events.T - both - both.T
    sampling += (by_others * hazards * (1 - hazards) / left) @ by_others.T
    return centre, linear, sampling


def _by_columns(block: Floats, observed: _Observed, linear: Floats, spread: float) -> tuple[Floats, Floats]:
    """Return counts without smoothing by kind of event, and the covariance of the noise on linear functions of them."""
    n_bins, n_kinds = observed.n_bins, block.shape[1] - 1
    of_events = observed.inverse[:n_bins, :n_bins]
    of_censored = observed.inverse[n_bins:, n_bins:]
    inverse = linalg.block_diag(*[of_events] * n_kinds, of_censored)
    sums = np.concatenate([*block[1:, 1:].T, block[:, 0]])
    moved = spread * linear @ inverse
    return inverse @ sums, moved @ moved.T


def _band(centre: Floats, covariance: Floats, banded: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the simultaneous band of a curve whose negative logarithm is normal. NaN where nothing is banded."""
    low, high = np.full(len(centre), np.nan), np.full(len(centre), np.nan)
    if not banded.any():
        return low, high
    own = covariance[np.ix_(banded, banded)]
    spreads = np.sqrt(np.diag(own))
    values, vectors = np.linalg.eigh(own / np.outer(spreads, spreads))
    draws = np.random.default_rng(0).normal(size=(_DRAWS, len(spreads)))
    largest = np.abs(draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T).max(axis=1)
    width = float(np.quantile(largest, _LEVEL)) * spreads
    # No curve rises, so a bound at one time holds for others.
    high[banded] = np.minimum.accumulate(np.clip(np.exp(width - centre[banded]), 0.0, 1.0))
    low[banded] = np.maximum.accumulate(np.clip(np.exp(-width - centre[banded]), 0.0, 1.0)[::-1])[::-1]
    # A band of noise that missed its own times is empty: the nearest point remains.
    low[banded] = np.minimum(low[banded], high[banded])
    return low, high


def _log_rank(strata: Sequence[_Observed]) -> LogRank | None:
    """Return the test that is linear in counts which were not smoothed."""
    exposed = np.array([one.exposed @ one.law.counts for one in strata])
    events = np.array([one.law.counts[: one.n_bins] for one in strata])
    together = np.maximum(exposed.sum(axis=0), 1e-3)
    noise = np.sqrt(sum(one.at_risk_noise**2 for one in strata))
    few = np.flatnonzero(together < np.maximum(_FEWEST_AT_RISK, _DEVIATIONS * noise))
    n = int(few[0]) if len(few) else len(together)
    if not n:
        return None
    hazards = np.clip(events.sum(axis=0) / together, 1e-9, 1 - 1e-6)[:n]
    shares, together = (exposed / exposed.sum(axis=0))[:, :n], together[:n]
    differences = [
        (one.events - np.append(hazards, np.zeros(one.n_bins - n))[:, None] * one.exposed)[:n] for one in strata
    ]
    size = len(strata) - 1
    statistic, covariance = np.zeros(size), np.zeros((size, size))
    for number, (one, difference) in enumerate(zip(strata, differences, strict=True)):
        weights = (np.arange(size)[:, None] == number) - shares[:size]
        linear = weights @ difference
        statistic += linear @ one.counts
        covariance += one.noise_of(linear)
    variance = together * hazards * (1 - hazards)
    covariance += np.diag((shares[:size] * variance).sum(axis=1)) - (shares[:size] * variance) @ shares[:size].T
    value = float(statistic @ np.linalg.solve(covariance, statistic))
    return LogRank(value, size, float(stats.chi2.sf(value, size)))


def ranks_of_times(times: Floats, kinds: Integers, good: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return bytes of each row, shape (n_rows, 16), the least for a unit's first event, or else its last time. Private.

    `kinds` is 0 for a censoring. A row is read separately. At one time the event of interest comes first, and rows with
    the same rank share the weight of their unit. Bad rows come last, since a unit that has no other counts as a unit.
    """
    # Bits of numbers from 0 have the order of the numbers, and leave the first bit free.
    bits = (np.where(good, times, 0.0) + 0.0).view(np.uint64)
    words = np.where(kinds > 0, bits, _NOT_AN_EVENT - bits)
    ranks = np.zeros((len(bits), 16), dtype=np.uint8)
    ranks[:, :8] = np.where(good, words, _BAD_ROW).astype(">u8").view(np.uint8).reshape(-1, 8)
    ranks[:, 8] = np.where(good, kinds, 0)
    return ranks
