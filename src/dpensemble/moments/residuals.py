r"""What a number adds to released sums: clipped residuals and counts of cells, and a fit to clipped residuals.

The target ``y`` has a declared range, and is cut to it. ``u`` is the target on a published `Scale`, and ``c(x)`` the
prediction of a model that was published before. Two kinds of sums touch private records:

- `ResidualSum`: ``phi(x) clip((u - c(x)) / tau, -1, 1) / 2``.
- `CellCounts`: a one in the cell of the record. `TargetCounts` has cells of the target, `ResidualCounts` has cells of
  the residual by group of the prediction, and `NestedCounts` has nested intervals.

Scale, model, ``tau`` and cells are public or were released before. So clip and cell of a record do not depend on
other records, to the last digit: predictions are exact sums, and every other step works entry by entry.

**The fit** (`fit_residuals`). Let ``u = f(x) + e``, where the law of ``e`` was released as a histogram (`Law`). Then a
released mean of clipped residuals around ``c`` is a normal observation of ``E phi h(f - c)``, with ``h(d) = E clip(d +
e, -tau, tau) / tau``. So clipping is a known link, as the logistic function is for classes. Its slope ``h'`` and the
variance of ``clip(d + e)`` take the place of ``p (1 - p)``. Gauss-Newton steps, and the evidence that sets prior
scales, are those of `dpensemble.moments.fits`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from dpensemble._checks import real_between
from dpensemble._entries import Floats, Integers, Rows
from dpensemble._work import fewer
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.fits import Fit, Link, most_likely_column, positive_root, solved
from dpensemble.moments.model import Information
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.whole import UNIT, RecordsQuery, bounded_answers, logits

# Steps of a declared range, and units in 1 of a target on a published scale.
_STEPS, _UNITS = 2**40, 2.0**24
# Half of a residual's vector, so that replacing a unit moves the sum by at most 1.
_HALF = 0.5


@dataclass(frozen=True)
class NumberRange:
    """The declared range of a number. Must not be read off private records.

    A number is stored as a whole multiple of a part of the range, so that it fits where class ids do. Code 0 stands for
    numbers below the range, and the largest code for numbers above.
    """

    low: float
    high: float

    @classmethod
    def of(cls, low: object, high: object) -> NumberRange:
        """Return a checked range. The largest number must be above the smallest one."""
        smallest = real_between("low", low, -1e300, 1e300)
        largest = real_between("high", high, -1e300, 1e300)
        # In a tiny range far from 0 doubles are too coarse.
        if not largest - smallest > 1e-6 * max(abs(smallest), abs(largest)):
            raise InvalidParameterError(
                f"high={high!r} must be above low={low!r}: declare the range of the target, without a look at private "
                "records.",
                parameter="high",
            )
        return cls(smallest, largest)

    @property
    def width(self) -> float:
        """Length of the range."""
        return self.high - self.low

    def codes(self, values: Floats) -> Integers:
        """Return numbers as codes. Entries that are not finite become -1, as bad records are."""
        finite = np.isfinite(values)
        inside = np.where(finite, values, self.low).clip(self.low, self.high)
        codes = 1 + np.rint((inside - self.low) / self.width * _STEPS).astype(np.int64)
        codes[values < self.low] = 0
        codes[values > self.high] = _STEPS + 2
        codes[~finite] = -1
        return codes

    def numbers(self, codes: Integers) -> Floats:
        """Return the numbers of codes, cut to the range."""
        steps = np.clip(codes - 1, 0, _STEPS).astype(np.float64)
        return np.asarray(self.low + steps * (self.width / _STEPS))


@dataclass(frozen=True)
class Scale:
    """A published scale of the target: ``(T(y) - middle) / spread``, where T is a logarithm or nothing.

    ``T(y) = log(y - low + shift)`` if there is a `shift`. The logarithm suits prices and other skewed targets.
    """

    range: NumberRange
    middle: float
    spread: float
    shift: float | None = None

    def transformed(self, numbers: Floats) -> Floats:
        """Return ``T(y)``."""
        return numbers if self.shift is None else np.log(numbers - self.range.low + self.shift)

    def of_codes(self, codes: Integers) -> Floats:
        """Return targets on the scale, rounded, so that a target depends on nothing but its code."""
        along = (self.transformed(self.range.numbers(codes)) - self.middle) / self.spread
        return np.asarray(np.rint(along * _UNITS) / _UNITS)

    @property
    def public_array(self) -> Floats:
        """Numbers that differ between two scales of one range, in parts of the range, so that none is large."""
        low, high = self.transformed(np.array([self.range.low, self.range.high])).tolist()
        parts = [(self.middle - low) / (high - low), self.spread / (high - low), float(self.shift is not None)]
        return np.array([*parts, (self.shift or 0.0) / self.range.width])

    def numbers(self, along: Floats) -> Floats:
        """Return the numbers at places on the scale, cut to the range."""
        values = self.middle + self.spread * along
        if self.shift is not None:
            values = np.exp(np.minimum(values, 700.0)) - self.shift + self.range.low
        return np.asarray(np.clip(values, self.range.low, self.range.high))


def predicted(features: Rows, coefficients: Floats | None, *, whole: bool = False) -> Floats:
    """Return the published prediction of rows on the scale, 0 without coefficients. Exact for any block of rows."""
    if coefficients is None:
        return np.zeros(features.shape[0])
    return np.asarray(logits(features, coefficients[:, None], whole=whole, rounded=not whole)[:, 0])


@dataclass(frozen=True, eq=False)
class ClippedRound:
    """The clipped residuals that one round released. Public.

    `values`, shape (n_features,), are the noisy mean of ``phi clip((u - c) / tau, -1, 1)``. `spread` is the standard
    deviation of the noise on each entry.
    """

    centre: Floats | None
    tau: float
    values: Floats
    spread: float


@dataclass(frozen=True, eq=False)
class ResidualSum(RecordsQuery[ClippedRound]):
    """The sum of features, each record's weighted by its clipped residual.

    A record adds ``phi(x) r / 2``, with ``|phi| <= 1`` and ``|r| <= 1``: a vector of length at most 1/2. So removing a
    unit moves the sum by at most 1/2. Replacing a unit moves it by at most 1, since two vectors are never further apart
    than both lengths together.
    """

    scale: Scale
    centre: Floats | None
    tau: float
    replacing = RecordsQuery.removing
    removing = RecordsQuery.removing // 2
    description = (
        "the mean of the features, with each record weighted by how far its number is from what was expected, cut to a "
        "published limit"
    )

    @property
    def public_arrays(self) -> tuple[Floats | None, ...]:
        """The scale, the centre and the limit."""
        return self.scale.public_array, self.centre, np.array([self.tau])

    def bounded_factors(self, features: Rows, targets: Integers, weights: Floats) -> tuple[Rows, Floats]:
        """Return features, and weighted residuals. Features of a bad record are zeros."""
        apart = self.scale.of_codes(targets) - predicted(features, self.centre, whole=True)
        clipped = np.clip(apart / self.tau, -1.0, 1.0)
        return features, bounded_answers((weights * clipped * _HALF)[:, None], weights * _HALF)

    def read(self, sums: Floats, spread: float) -> ClippedRound:
        """Return the released round."""
        return ClippedRound(self.centre, self.tau, sums[:, 0] / _HALF, spread / _HALF)


@dataclass(frozen=True)
class Counts:
    """Noisy shares of records by group and cell, shape (n_groups, n_cells), and of bad records. Public.

    `spread` is the standard deviation of the noise on each share.
    """

    shares: Floats
    bad: float
    spread: float


@dataclass(frozen=True, eq=False)
class CellCounts(RecordsQuery[Counts]):
    """How many records are in each of some cells, weighted.

    A record adds its weight to one cell, or to none. So a unit adds a vector without negative entries, at most 1 long.
    Two of them are at most the root of 2 apart: that is what replacing a unit changes. Removing a unit changes 1. Any
    number of cells and groups has the same sensitivity. If bad records are zeroed, they have a cell of their own.
    """

    counts_bad: bool
    never_negative = True

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of groups and of cells."""

    @abstractmethod
    def places(self, features: Rows, targets: Integers) -> Integers:
        """Return the place of each record's cell among all, -1 for none. Only this record decides."""

    def bounded_factors(self, features: Rows, targets: Integers, weights: Floats) -> tuple[Rows, Floats]:
        """Return ones, and weights in the columns of cells."""
        size = math.prod(self.shape)
        places = np.where(targets >= 0, self.places(features, targets), size if self.counts_bad else -1)
        cells, inside = np.zeros((len(targets), size + self.counts_bad)), np.flatnonzero(places >= 0)
        cells[inside, places[inside]] = weights[inside]
        return np.full((len(targets), 1), float(UNIT)), bounded_answers(cells, weights)

    def read(self, sums: Floats, spread: float) -> Counts:
        """Return the shares."""
        size = math.prod(self.shape)
        return Counts(sums[0, :size].reshape(self.shape), float(sums[0, size]) if self.counts_bad else 0.0, spread)


@dataclass(frozen=True, eq=False)
class TargetCounts(CellCounts):
    """How many numbers are below the range, in each cell of the range, and above the range."""

    range: NumberRange
    edges: Floats
    description = "how many records have a number in each part of the declared range"

    @property
    def shape(self) -> tuple[int, int]:
        """One group: the cells between edges, and one more on either side of the range."""
        return 1, len(self.edges) + 3

    @property
    def public_arrays(self) -> tuple[Floats | None, ...]:
        """Edges in parts of the range."""
        return ((self.edges - self.range.low) / self.range.width,)

    def places(self, features: Rows, targets: Integers) -> Integers:  # noqa: ARG002
        """Return the cells of numbers."""
        inside = 1 + np.searchsorted(self.edges, self.range.numbers(targets), side="right")
        return np.where(targets == 0, 0, np.where(targets > _STEPS + 1, len(self.edges) + 2, inside))


@dataclass(frozen=True, eq=False)
class ResidualCounts(CellCounts):
    """How many residuals are in each cell, by groups of the prediction. `cuts` are between groups, on the scale."""

    scale: Scale
    coefficients: Floats | None
    edges: Floats
    cuts: Floats
    description = "how far numbers are from the published prediction, by groups of the prediction"

    @property
    def shape(self) -> tuple[int, int]:
        """Groups and cells."""
        return len(self.cuts) + 1, len(self.edges) + 1

    @property
    def public_arrays(self) -> tuple[Floats | None, ...]:
        """The scale, the coefficients, and the edges of cells and of groups."""
        return self.scale.public_array, self.coefficients, self.edges, self.cuts

    def places(self, features: Rows, targets: Integers) -> Integers:
        """Return the cells of residuals."""
        prediction = predicted(features, self.coefficients, whole=True)
        cells = np.searchsorted(self.edges, self.scale.of_codes(targets) - prediction, side="right")
        return np.asarray(np.searchsorted(self.cuts, prediction, side="right") * self.shape[1] + cells)


@dataclass(frozen=True, eq=False)
class NestedCounts(CellCounts):
    """How many numbers are inside the narrowest of nested intervals, inside the next one only, and so on.

    `ends` are the ends of intervals around the prediction on the scale, shape (n_intervals, n_groups, 2), the narrowest
    first. A number outside the widest interval is in no cell, and neither is a bad record.
    """

    scale: Scale
    coefficients: Floats
    cuts: Floats
    ends: Floats
    description = "how many numbers are inside published intervals"

    @property
    def shape(self) -> tuple[int, int]:
        """One group of as many cells as intervals."""
        return 1, len(self.ends)

    @property
    def public_arrays(self) -> tuple[Floats | None, ...]:
        """The scale, the coefficients, and the ends of groups and of intervals."""
        return self.scale.public_array, self.coefficients, self.cuts, self.ends

    def places(self, features: Rows, targets: Integers) -> Integers:
        """Return the narrowest interval that has the number inside."""
        prediction = predicted(features, self.coefficients, whole=True)
        group = np.searchsorted(self.cuts, prediction, side="right")
        apart = self.scale.of_codes(targets) - prediction
        inside = (self.ends[:, group, 0] <= apart) & (apart <= self.ends[:, group, 1])
        return np.where(inside.any(axis=0), inside.argmax(axis=0), -1)


def target_edges(declared: NumberRange, *, even: int = 16, octaves: int = 9) -> Floats:
    """Return edges inside a declared range: even ones, and ever closer ones around 0 or the end nearest to 0.

    So a range that is a thousand times too wide still has several cells where the numbers are.
    """
    low, high = declared.low, declared.high
    origin = min(max(low, 0.0), high)
    parts = 2.0 ** -np.arange(1, octaves + 1)
    edges = np.concatenate(
        [np.linspace(low, high, even + 1), [origin], origin + (high - origin) * parts, origin + (low - origin) * parts]
    )
    edges = np.unique(edges)
    return np.asarray(edges[(edges > low) & (edges < high)])


def residual_edges(first: float, last: float, ratio: float) -> Floats:
    """Return edges of residuals: 0, and geometric ones on both sides."""
    n_steps = math.ceil(math.log(last / first) / math.log(ratio))
    side = first * ratio ** np.arange(n_steps + 1)
    return np.concatenate([-side[::-1], [0.0], side])


def with_total(counts: Floats, total: float) -> Floats:
    """Return noisy counts, changed as little as possible so that they have a known total."""
    return np.asarray(counts + (total - counts.sum()) / counts.size)


def quantile_of_cells(q: float, counts: Floats, edges: Floats, declared: NumberRange) -> float:
    """Return a quantile of the target by noisy counts of cells whose total is known."""
    points = np.concatenate([[declared.low], edges, [declared.high]])
    below = np.maximum.accumulate(np.clip(np.cumsum(counts) / counts.sum(), 0.0, 1.0))
    below[-1] = 1.0
    # Strictly increasing, so that each share has one place.
    return float(np.interp(q, np.append(0.0, below) + 1e-12 * np.arange(len(points)), points))


# Points of a cell, of a table of the link and of its ends. A tail is noise until its count exceeds some deviations.
_POINTS_OF_CELL, _POINTS_OF_TABLE, _POINTS_OF_TAIL, _CLEAR = 5, 401, 40, 3.5


@dataclass(frozen=True, eq=False)
class Law:
    """A published law of residuals, by points and their chances."""

    points: Floats
    chances: Floats

    @classmethod
    def normal(cls, spread: float) -> Law:
        """Return a normal law, before anything is known."""
        shares = (np.arange(200) + 0.5) / 200
        return cls(stats.norm.ppf(shares) * spread, np.full(200, 1 / 200))

    @classmethod
    def of(cls, counts: Floats, edges: Floats, noise: float) -> Law:
        """Return the law by noisy counts of cells whose total is known, with the deviation of their noise.

        Cells of a tail that noise hides give what they count together to the next cell. Dropping it would shift the
        mean.
        """
        ends = np.concatenate([[1.5 * edges[0]], edges, [1.5 * edges[-1]]])
        clear = _CLEAR * noise * np.sqrt(np.arange(1, len(counts) + 1))
        first = int(np.argmax(np.cumsum(counts) > clear))
        end = max(len(counts) - int(np.argmax(np.cumsum(counts[::-1]) > clear)), first + 1)
        kept = np.maximum(counts, 0.0)
        kept[:first] = 0.0
        kept[end:] = 0.0
        if not kept.sum():
            kept[:] = 1.0
        if first:
            kept[first - 1] += max(float(counts[:first].sum()), 0.0)
        if end < len(counts):
            kept[end] += max(float(counts[end:].sum()), 0.0)
        inside = (np.arange(_POINTS_OF_CELL) + 0.5) / _POINTS_OF_CELL
        points = (ends[:-1, None] + np.diff(ends)[:, None] * inside).ravel()
        return cls(points, np.repeat(kept / kept.sum() / _POINTS_OF_CELL, _POINTS_OF_CELL))

    def quantile_of_size(self, q: float) -> float:
        """Return a quantile of the absolute residual."""
        sizes = np.abs(self.points)
        order = np.argsort(sizes)
        place = int(np.searchsorted(np.cumsum(self.chances[order]), q))
        return float(sizes[order][min(place, len(order) - 1)])

    @property
    def spread(self) -> float:
        """The standard deviation of a normal law with the same median size."""
        return self.quantile_of_size(0.5) / 0.67

    def link(self, tau: float) -> _LinkTable:
        """Return what a clipped residual is expected to be, given how far the prediction is off."""
        reach = 6 * tau + 2 * math.sqrt(float(self.chances @ self.points**2))
        # Further out the mean changes slowly, until every residual is cut.
        outer = np.geomspace(reach, reach + tau + float(np.abs(self.points).max()), _POINTS_OF_TAIL)[1:]
        apart = np.concatenate([-outer[::-1], np.linspace(-reach, reach, _POINTS_OF_TABLE), outer])
        clipped = np.clip((apart[:, None] + self.points) / tau, -1.0, 1.0)
        means = clipped @ self.chances
        variances = (clipped**2) @ self.chances - means**2
        return _LinkTable(apart, means, np.maximum(np.gradient(means, apart), 0.0), np.maximum(variances, 1e-6))

    def limit(self, noise: float, n_features: int, n_effective: float, n_units: float) -> float:
        """Return the limit ``tau`` of the next round at which its clipped residuals show most.

        `noise` is that on each entry of a round, in multiples of ``tau``. A small limit has little noise, and a large
        one depends less on the law. `n_effective` is the number of coefficients that the data determine.
        """
        sizes, best, least = np.abs(self.points), 0.0, math.inf
        for q in _LIMITS:
            tau = max(self.quantile_of_size(q), 1e-3)
            inside = max(float(self.chances[sizes < tau].sum()), 1e-3)
            sampling = float(self.chances @ np.minimum(sizes, tau) ** 2) / n_units
            variance = n_effective * (sampling + n_features * (tau * noise) ** 2) / inside**2
            loss = variance + _TRUST * float(self.chances @ np.maximum(sizes - tau, 0.0)) ** 2
            if loss < least:
                best, least = tau, loss
        return best


# Quantiles of the absolute residual that may be limits, and the weight of what a limit leaves to the law.
_LIMITS, _TRUST = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.995), 0.1


@dataclass(frozen=True, eq=False)
class _LinkTable:
    """The mean of a clipped residual in multiples of ``tau``, its slope and its variance, on a grid."""

    apart: Floats
    means: Floats
    slopes: Floats
    variances: Floats

    def at(self, apart: Floats) -> Link:
        """Return the link of rows whose predictions are some way off."""
        return Link(*(np.interp(apart, self.apart, table) for table in (self.means, self.slopes, self.variances)))


# Steps of the fit, the largest change of a prediction in a step, and the mean one at which steps end.
_MOST_STEPS, _LONGEST_STEP, _SHORT_STEP = 8, 3.0, 0.01
_UPDATES = 3


class Seen(NamedTuple):
    """A released mean of ``phi r`` with the deviation of its noise, and what is expected of each record. Public."""

    values: Floats
    spread: float
    link: Link


@dataclass(frozen=True, eq=False)
class Step:
    """A step of Gauss and Newton to coefficients that all rounds make likelier, and how it changes predictions."""

    coefficients: Floats
    scales: Floats
    change: Floats
    precision: Floats

    @classmethod
    def of(
        cls,
        seen: Sequence[Seen],
        coefficients: Floats,
        scales: Floats,
        public: PublicRows,
        typical: Floats,
        *,
        n_units: float,
    ) -> Step:
        """Return the step from coefficients of shape (n_features, 1). Prior scales move to the largest evidence."""
        precision, evidence = np.zeros((len(coefficients),) * 2), np.zeros((len(coefficients), 1))
        for one in seen:
            root, grown = one.link.seen(public.sample, public, one.spread, n_units=n_units)
            surprise = solved(root, one.values[:, None] - public.average(one.link.mean[:, None]))
            precision += grown.T @ grown
            evidence += grown.T @ (grown @ coefficients + surprise)
        best, scales = most_likely_column(precision, evidence, public.blocks, scales, typical, _UPDATES)
        change = best - coefficients
        along = np.asarray(public.features @ change)[:, 0]
        part = min(1.0, _LONGEST_STEP / max(float(np.abs(along).max(initial=0.0)), 1e-300))
        return cls(coefficients + part * change, scales, part * along, precision)

    @property
    def is_short(self) -> bool:
        """Whether predictions hardly change."""
        return math.sqrt(float(np.mean(self.change**2))) < _SHORT_STEP


@dataclass(frozen=True, eq=False)
class ResidualFit:
    """A fit to all rounds, and how many coefficients the data determine. Public."""

    fit: Fit
    n_effective: float

    @property
    def coefficients(self) -> Floats:
        """Coefficients of the published prediction, shape (n_features,)."""
        return self.fit.coefficients[:, 0]


def fit_residuals(
    rounds: Sequence[ClippedRound], public: PublicRows, law: Law, start: Fit, *, n_units: float
) -> ResidualFit:
    """Fit coefficients to the clipped residuals of all rounds together, by public rows and a published law."""
    coefficients, scales, typical = start.coefficients, start.scales, public.typical_scales()
    centres = [predicted(public.features, one.centre) for one in rounds]
    links = [law.link(one.tau) for one in rounds]
    prediction = np.asarray(public.features @ coefficients)[:, 0]
    n_effective = 0.0
    for _ in range(fewer(_MOST_STEPS)):
        seen = [
            Seen(one.values, one.spread, link.at(prediction - centre))
            for one, centre, link in zip(rounds, centres, links, strict=True)
        ]
        step = Step.of(seen, coefficients, scales, public, typical, n_units=n_units)
        coefficients, scales, prediction = step.coefficients, step.scales, prediction + step.change
        n_effective = _effective(step.precision, scales[public.blocks])
        if step.is_short:
            break
    information = Information(step.precision, scales[public.blocks], np.ones(1), 1.0)
    return ResidualFit(Fit(coefficients, scales, information), n_effective)


def _effective(precision: Floats, deviations: Floats) -> float:
    """Return how many coefficients the data determine, rather than the prior."""
    scaled = deviations[:, None] * precision * deviations
    root = positive_root(scaled + np.eye(len(scaled)))
    return len(root) - float(np.sum(solved(root, np.eye(len(root))) ** 2))
