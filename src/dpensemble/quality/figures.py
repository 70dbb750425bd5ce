"""Figures of a noisy histogram with bands: shares that hold together, areas under curves, classes and groups.

One class against the rest has both curves, calibration, and the area. Several classes have decisions.

A share of a population is ``r = s / (s + f)``, for sums ``s`` and ``f`` of disjoint cells. Only noisy sums ``S`` and
``F`` are known: the noise on each cell is Gaussian of known standard deviation, and the held-back units are a sample.
A band is the set of all ``r`` that the cells do not refute: ``D(r) = (1 - r) S - r F`` has the mean 0 at the true
share, for any denominator. So a small or negative denominator gives a wide band, and never a wrong one (E. Fieller,
"Some problems in interval estimation", JRSS B 1954). The variance of ``D(r)`` is that of the noise, which is known, and
that of sampling at the share ``r`` under test, ``T r (1 - r)`` with ``T`` units in the denominator (E. Wilson, JASA
1927). A unit with several records has a smaller variance, since its mean lies between its records (Jensen). Where a
count is small, its skewness is added (Cornish and Fisher 1938).

The limits of ``m`` figures are exceeded by none of them with probability ``level``, if each holds with probability
``level ** (1 / m)``: for normal variables of any correlation (Z. Sidak, "Rectangular confidence regions for the means
of multivariate normal distributions", JASA 1967, Theorem 1). The noise is normal. Sampling is normal by approximation.

The area under the ROC curve is the share of pairs, a case and another unit, in which the case has the higher
probability. Ties count half (J. Hanley and B. McNeil, "The meaning and use of the area under a ROC curve", Radiology
1982). Bins show the order of two units only if the units are in different bins. Within a bin all cases may be above all
others, or below. So the area lies between ``L = sum of pi_i nu_j over i > j`` and ``U = L + sum of pi_i nu_i``, for the
shares ``pi`` of cases and ``nu`` of others in the bins. Both ends are reached, so no narrower interval holds for all
distributions within the bins (C. Manski, "Partial identification of probability distributions", 2003, chapter 1).

Only noisy counts ``P`` and ``N`` of a sample are known. For the true ``L`` the statistic ``D(a) = sum of P_i N_j
(w_ij - a)``, where ``w_ij`` is 1 for ``i > j``, has the mean ``T_P T_N (L - a)``, because noise and sampling of both
classes are independent. An area ``a`` below ``L`` is refuted if ``D(a)`` exceeds its standard deviation ``z`` times
(E. Fieller, JRSS B 1954). The same holds for ``U``, with ``w_ii = 1`` and the other sign. Let both bounds be ``d``
standard deviations apart. Wherever the one area of the student lies between them, the interval holds it with
probability ``Phi(z + d) - Phi(-z)`` at least (G. Imbens and C. Manski, "Confidence intervals for partially identified
parameters", Econometrica 2004, section 4). With ``z = max(1.66, 2.5 - d / 2)`` this is 95 % for each ``d``. It is more
than needed for small ``d``, because normal laws are approximations.
The variance of ``D(a)`` holds the noise of both classes, the noise of their products, and sampling (as for
U-statistics: W. Hoeffding, Ann. Math. Stat. 1948), which is at least that of Hanley and McNeil at the tested area.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._entries import Floats

#: Values that JSON can hold, by name.
PlainValues = dict[str, Any]
# Shares to test. They stand closer near 0 and 1, where rare outcomes are.
_SHARES = np.sin(np.linspace(0, np.pi / 2, 1201)) ** 2
#: The edge at which the predicted class of two changes. A probability above one half is at this edge, or above.
ABOVE_HALF = math.nextafter(0.5, 1)
# A denominator below this many standard deviations of its noise is not known.
_LEAST = 2.0


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure and its band, for the population of which the held-back units are a sample. May be published.

    Parameters
    ----------
    value : float or None
        Best estimate, or None if noise hides the units that it is about.
    low, high : float
        Ends of the band.
    """

    value: float | None
    low: float
    high: float
    #: Probability with which a band, or bands that hold together, hold.
    LEVEL: ClassVar[float] = 0.95

    def to_dict(self) -> dict[str, float | None]:
        """Return the figure as plain values."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def times(self, factor: float) -> Figure:
        """Return the figure on another scale, such as per 1,000."""
        return Figure(None if self.value is None else self.value * factor, self.low * factor, self.high * factor)

    def mirrored(self) -> Figure:
        """Return the figure of the complement."""
        return Figure(None if self.value is None else 1 - self.value, 1 - self.high, 1 - self.low)


@dataclass(frozen=True, eq=False)
class ShareSums:
    """Noisy sums of disjoint cells, and the numbers of cells in them, for the shares ``s / (s + f)``."""

    s: Floats
    f: Floats
    n_s: Floats
    n_f: Floats

    def __len__(self) -> int:
        return len(self.s)

    @classmethod
    def of(cls, s: NDArray[np.float64], f: NDArray[np.float64], n_s: object, n_f: object) -> ShareSums:
        """Return the parts of one or several shares, each number for all of them or one for each."""
        s, f = np.atleast_1d(s), np.atleast_1d(f)
        return cls(s, f, np.broadcast_to(n_s, s.shape).astype(float), np.broadcast_to(n_f, s.shape).astype(float))  # type: ignore[call-overload]


def critical(n_figures: int) -> float:
    """Return how many standard deviations the limits of as many figures need, to hold together (Sidak 1967).

    Examples
    --------
    >>> round(critical(1), 2), round(critical(60), 2)
    (1.96, 3.33)
    """
    return NormalDist().inv_cdf(0.5 + Figure.LEVEL ** (1 / max(n_figures, 1)) / 2)


def shares(parts: ShareSums, sigma: float, z: float) -> list[Figure]:
    """Return shares with bands of `z` standard deviations. See the module."""
    lows, highs = _bands(parts, sigma, z)
    total = parts.s + parts.f
    is_precise = total > _LEAST * sigma * np.sqrt(parts.n_s + parts.n_f)
    values = np.clip(np.divide(parts.s, total, where=is_precise, out=np.zeros_like(total)), 0, 1)
    return [
        Figure(float(np.clip(value, low, high)) if has_value else None, float(low), float(high))
        for value, has_value, low, high in zip(values, is_precise, lows, highs, strict=True)
    ]


def _bands(parts: ShareSums, sigma: float, z: float) -> tuple[Floats, Floats]:
    """Return the ends of the sets of shares that are not refuted."""
    r = _SHARES
    s, f, n_s, n_f = (one[:, None] for one in (parts.s, parts.f, parts.n_s, parts.n_f))
    distance = np.abs((1 - r) * s - r * f)
    noise = sigma**2 * ((1 - r) ** 2 * n_s + r**2 * n_f)
    # One standard deviation more than its estimate, since the number of units is noisy, too.
    units = np.maximum(s + f, 0) + sigma * np.sqrt(n_s + n_f) + 1
    sampling = units * r * (1 - r)
    variance = noise + sampling
    skewness = (z**2 - 1) / 6 * np.abs(1 - 2 * r) * sampling / np.maximum(variance, 1e-300)
    possible = distance <= z * np.sqrt(variance) + np.maximum(skewness, 0)
    # A set that lies outside of 0 to 1 bounds no share. Ends move outwards to the next tested share.
    first = np.where(possible.any(axis=1), possible.argmax(axis=1), 0)
    last = np.where(possible.any(axis=1), len(r) - 1 - possible[:, ::-1].argmax(axis=1), len(r) - 1)
    return r[np.maximum(first - 1, 0)], r[np.minimum(last + 1, len(r) - 1)]


def monotone(figures: list[Figure], *, rising: bool) -> list[Figure]:
    """Return figures that cannot fall (or rise) from one threshold to the next, with bands that use this.

    Bands that hold together still do: a limit at one threshold is a limit at all thresholds beyond.
    """
    if not figures:
        return figures
    ordered = figures if rising else figures[::-1]
    low = np.maximum.accumulate([one.low for one in ordered])
    high = np.minimum.accumulate([one.high for one in ordered][::-1])[::-1]
    # Limits that cross were wrong before.
    crossed = low > high
    low = np.where(crossed, [one.low for one in ordered], low)
    high = np.where(crossed, [one.high for one in ordered], high)
    values: list[float | None] = [one.value for one in ordered]
    numbers = [value for value in values if value is not None]
    if len(numbers) == len(values):
        up, down = np.maximum.accumulate(numbers), np.minimum.accumulate(numbers[::-1])[::-1]
        values = [float(value) for value in np.clip((up + down) / 2, low, high)]
    result = [Figure(value, float(a), float(b)) for value, a, b in zip(values, low, high, strict=True)]
    return result if rising else result[::-1]


def mean(cells: Floats, values: Floats, sigma: float, z: float = critical(1)) -> Figure:
    """Return the mean of public `values` of cells over units, with a band. For example, a loss."""
    total = float(cells.sum())
    grid = np.linspace(values.min(), values.max(), 2001)
    off = values.ravel()[None] - grid[:, None]
    distance = np.abs(off @ cells.ravel())
    variance = (off**2) @ (sigma**2 + np.maximum(cells.ravel(), 0) + sigma / np.sqrt(cells.size))
    possible = np.flatnonzero(distance <= z * np.sqrt(variance))
    low, high = (grid[possible[0]], grid[possible[-1]]) if len(possible) else (grid[0], grid[-1])
    is_precise = total > _LEAST * sigma * np.sqrt(cells.size)
    value = float(np.clip((cells * values).sum() / total, low, high)) if is_precise else None
    return Figure(value, float(low), float(high))


# Areas to test.
_AREAS = np.linspace(0, 1, 1001)
# A class with fewer units than this many standard deviations of its noise is not known.

#: Standard deviations of each end from its bound, and from the middle of both bounds. The former is
# 1.645 for 95 %, and a little more for the rare miss of the other end. The latter is 98.8 % if the bounds are equal.
FROM_END, _FROM_MIDDLE = 1.66, 2.5


@dataclass(frozen=True, slots=True)
class Area:
    """The area under the ROC curve of a student on the population, as far as it is known. May be published.

    Parameters
    ----------
    value : float or None
        The area among the rows themselves. None if only bins are known.
    low, high : float
        Ends of the 95 % interval for the area of the student. From bins, it covers all distributions within them.
    if_as_public : float or None
        The area if probabilities are spread within each bin as on public rows. It is no bound. None if noise hides a
        class, or if the area was computed from rows.
    """

    value: float | None
    low: float
    high: float
    if_as_public: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return the interval as plain values."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def entries(self) -> PlainValues:
        """Return the entries of a class, with the value in between under a name of its own."""
        return {"auroc": self.to_dict(), "auroc_if_spread_as_public_rows": self.if_as_public}


def area_bounds(positive: Floats, negative: Floats, inside: Floats, sigma: float) -> Area:
    """Return the interval of the area over all distributions within bins.

    Parameters
    ----------
    positive, negative : ndarray of shape (n_bins,)
        Noisy numbers of cases and of other units.
    inside : ndarray of shape (n_bins,)
        Share of pairs within each bin in which the case is higher, on public rows.
    sigma : float
        Standard deviation of the noise on each number, in units.

    Examples
    --------
    >>> found = area_bounds(np.array([20.0, 80.0]), np.array([400.0, 100.0]), np.full(2, 0.5), 0.0)
    >>> found.low < 0.64 < 0.8 < 0.96 < found.high  # 0.64 and 0.96 are the bounds without noise and chance
    True
    """
    above, spread = _distance(positive, negative, sigma, 0.0)
    below, spread_below = _distance(positive, negative, sigma, 1.0)
    # How far apart both bounds seem to be, in standard deviations at the area between them.
    middle = np.abs(above + below).argmin()
    apart = (below - above)[middle] / max(spread[middle], 1e-300)
    z = max(FROM_END, _FROM_MIDDLE - max(float(apart), 0.0) / 2)
    low, high = _first(above <= z * spread), 1 - _first((below >= -z * spread_below)[::-1])
    low, high = min(low, high), max(low, high)
    least = _LEAST * sigma * np.sqrt(len(positive))
    value = None
    if min(positive.sum(), negative.sum()) > least:
        won = positive @ (np.cumsum(negative) - negative + inside * negative)
        value = float(np.clip(won / (positive.sum() * negative.sum()), low, high))
    return Area(None, low, high, value)


def _first(possible: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> float:
    """Return the tested area before the first possible one, or 0 if none is possible."""
    return float(_AREAS[max(int(possible.argmax()) - 1, 0)])


def _distance(positive: Floats, negative: Floats, sigma: float, tie: float) -> tuple[Floats, Floats]:
    """Return ``D(a)`` for all tested areas and its standard deviations. Cases win `tie` of the pairs in a bin."""
    a, n_bins = _AREAS, len(positive)
    cases, others = positive.sum(), negative.sum()
    lower = np.cumsum(negative) - (1 - tie) * negative
    higher = cases - np.cumsum(positive) + tie * positive
    # The effect of one more case, and of one more other unit, in each bin.
    of_case, of_other = lower - a[:, None] * others, higher - a[:, None] * cases
    n_won = n_bins * (n_bins - 1) / 2 + tie * n_bins
    products = n_won * (1 - a) ** 2 + (n_bins**2 - n_won) * a**2
    sampling = of_case**2 @ np.maximum(positive, 0) + of_other**2 @ np.maximum(negative, 0)
    m, n = max(cases, 1.0), max(others, 1.0)
    variance = (
        sigma**2 * ((of_case**2).sum(axis=1) + (of_other**2).sum(axis=1))
        + sigma**4 * products
        + np.maximum(sampling, (m * n) ** 2 * _smooth_variance(a, m, n))
    )
    return positive @ lower - a * cases * others, np.sqrt(variance)


def _smooth_variance(a: Floats, m: float, n: float) -> Floats:
    """Return the variance of the area of `m` cases and `n` others, for exponential laws (Hanley and McNeil 1982)."""
    one, two = a / (2 - a) - a**2, 2 * a**2 / (1 + a) - a**2
    return (a * (1 - a) + (m - 1) * one + (n - 1) * two) / (m * n)


def area_of_rows(cases: Floats, others: Floats) -> Area:
    """Return the area among rows whose probabilities are known, with its interval by chance.

    The variance is that of E. DeLong and others (Biometrics 1988), and at least that of Hanley and McNeil (1982) at the
    tested area.

    Examples
    --------
    >>> found = area_of_rows(np.array([0.4, 0.8, 0.9]), np.array([0.1, 0.4]))
    >>> round(found.value, 3), found.low < found.value < found.high
    (0.917, True)
    """
    m, n = len(cases), len(others)
    if not m or not n:
        return Area(None, 0.0, 1.0)
    of_case = _below(np.sort(others), cases)
    of_other = 1 - _below(np.sort(cases), others)
    value = float(of_case.mean())
    a = _AREAS
    variance = (of_case.var() + (value - a) ** 2) / m + (of_other.var() + (value - a) ** 2) / n
    variance = np.maximum(variance, _smooth_variance(a, m, n))
    possible = np.abs(value - a) <= critical(1) * np.sqrt(variance)
    return Area(value, min(_first(possible), value), max(1 - _first(possible[::-1]), value))


def _below(ordered: Floats, values: Floats) -> Floats:
    """Return the share of ordered numbers below each value. Ties count half."""
    sides = [np.searchsorted(ordered, values, side=side) for side in ("left", "right")]
    return np.asarray((sides[0] + sides[1]) / (2 * len(ordered)))


# Figures that fall as the threshold rises, and figures that rise.
_FALLING, _RISING = frozenset({"sensitivity", "alarms", "false_alarms"}), frozenset({"specificity", "missed"})
# Probabilities closer to 0 or 1 are cut in the logarithmic loss, as one unit in a thousand would be.
_LEAST_PROBABILITY = 1e-3
_OF_GROUPS = ("sensitivity", "specificity", "positive_predictive_value", "alarms")


@dataclass(frozen=True, kw_only=True)
class ClassCurves:
    """One class against the rest. All figures but the area and the loss hold together, at every threshold and bin.

    Parameters
    ----------
    name : str
        The class.
    share : Figure
        Share of units with this class.
    accuracy : Figure or None
        Share that is right at threshold one half. None with more than two classes. It holds alone.
    auroc : Area
        Area under the ROC curve of the student, over all distributions within the bins. It holds alone.
    log_loss : Figure
        Logarithmic loss if every bin states one probability, the mean of its public rows. It is not the loss of the
        student, whose probabilities differ within a bin. It holds alone.
    thresholds : tuple of float
        Inner edges of the bins, ascending.
    at : mapping of str to tuple of Figure
        A figure for each threshold. ``alarms``, ``missed`` and ``false_alarms`` are shares of all units.
    calibration : tuple of (float, float, float, Figure)
        For each bin its ends, the mean probability of its public rows, and the share of the class among its units.
    """

    name: str
    share: Figure
    accuracy: Figure | None
    auroc: Area
    log_loss: Figure
    thresholds: tuple[float, ...]
    at: Mapping[str, tuple[Figure, ...]]
    calibration: tuple[tuple[float, float, float, Figure], ...]

    @classmethod
    def of_cells(
        cls, name: str, cells: Floats, edges: Floats, middles: Floats, inside: Floats, sigma: float, *, of_two: bool
    ) -> ClassCurves:
        """Return the curves of noisy cells, shape (2, n_bins): the rest, then the class.

        Parameters
        ----------
        name : str
            The class.
        cells : ndarray of shape (2, n_bins)
            Noisy numbers of units.
        edges, middles : ndarray
            Inner edges, shape (n_bins - 1,), and the mean public probability in each bin.
        inside : ndarray of shape (n_bins,)
            Share of pairs within each bin in which the case is higher, on public rows.
        sigma : float
            Standard deviation of the noise on each cell.
        of_two : bool
            Whether there are two classes. Only then is one half the edge at which the predicted class changes, and the
            accuracy known.
        """
        negative, positive = cells
        parts = threshold_sums(positive, negative)
        n_bins = len(positive)
        z = critical(sum(map(len, parts.values())) + n_bins + 1)
        at = {which: tuple(_ordered(which, shares(one, sigma, z))) for which, one in parts.items()}
        # Two cells each: the class and the rest.
        observed = shares(ShareSums.of(positive, negative, 1, 1), sigma, z)
        (share,) = shares(ShareSums.of(positive.sum(), negative.sum(), n_bins, n_bins), sigma, z)
        ends = np.concatenate([[0.0], edges, [1.0]]).tolist()
        cut = np.clip(middles, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
        return cls(
            name=name,
            share=share,
            accuracy=_accuracy(positive, negative, edges, sigma, critical(1)) if of_two else None,
            auroc=area_bounds(positive, negative, inside, sigma),
            log_loss=mean(cells, np.stack([-np.log(1 - cut), -np.log(cut)]), sigma),
            thresholds=tuple(edges.tolist()),
            at=at,
            calibration=tuple(zip(ends[:-1], ends[1:], middles.tolist(), observed, strict=True)),
        )

    def to_dict(self) -> PlainValues:
        """Return the curves as plain values, counts per 1,000 units."""
        per_1000 = {"alarms", "missed", "false_alarms"}
        rows = [
            {"threshold": threshold}
            | {
                f"{name}_per_1000" if name in per_1000 else name: (
                    figures[place].times(1000) if name in per_1000 else figures[place]
                ).to_dict()
                for name, figures in self.at.items()
            }
            for place, threshold in enumerate(self.thresholds)
        ]
        return {
            "class": self.name,
            "share": self.share.to_dict(),
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
            **self.auroc.entries(),
            "binned_log_loss": self.log_loss.to_dict(),
            "thresholds": rows,
            "calibration": [
                {"from": low, "to": high, "predicted": predicted, "observed": observed.to_dict()}
                for low, high, predicted, observed in self.calibration
            ],
        }

    def with_area_of(self, cases: Floats, others: Floats) -> ClassCurves:
        """Return the curves with the area among rows whose probabilities are known, instead of that of bins."""
        return replace(self, auroc=area_of_rows(cases, others))

    def place_of(self, threshold: float) -> int:
        """Return the place of a threshold among those of the curves. One half is the edge just above."""
        return self.thresholds.index(ABOVE_HALF if threshold == 0.5 else threshold)


def threshold_sums(positive: Floats, negative: Floats) -> dict[str, ShareSums]:
    """Return the parts of every share, at each inner edge."""
    n_bins = len(positive)
    below, above = np.arange(1, n_bins), np.arange(n_bins - 1, 0, -1)
    p_low, n_low = np.cumsum(positive)[:-1], np.cumsum(negative)[:-1]
    p_high, n_high = positive.sum() - p_low, negative.sum() - n_low
    all_of = np.full(n_bins - 1, 2.0 * n_bins)
    return {
        "sensitivity": ShareSums.of(p_high, p_low, above, below),
        "specificity": ShareSums.of(n_low, n_high, below, above),
        "positive_predictive_value": ShareSums.of(p_high, n_high, above, above),
        "negative_predictive_value": ShareSums.of(n_low, p_low, below, below),
        "alarms": ShareSums.of(p_high + n_high, p_low + n_low, 2 * above, 2 * below),
        "missed": ShareSums.of(p_low, p_high + n_low + n_high, below, all_of - below),
        "false_alarms": ShareSums.of(n_high, n_low + p_low + p_high, above, all_of - above),
    }


def _ordered(which: str, figures: list[Figure]) -> list[Figure]:
    if which in _FALLING or which in _RISING:
        return monotone(figures, rising=which in _RISING)
    return figures


def _accuracy(positive: Floats, negative: Floats, edges: Floats, sigma: float, z: float) -> Figure:
    """Return the share that is right if bins above one half are called positive."""
    place = int(np.searchsorted(edges, ABOVE_HALF))
    right = positive[place + 1 :].sum() + negative[: place + 1].sum()
    wrong = positive[: place + 1].sum() + negative[place + 1 :].sum()
    n_bins = len(positive)
    return shares(ShareSums.of(right, wrong, n_bins, n_bins), sigma, z)[0]


@dataclass(frozen=True, kw_only=True)
class ClassDecisions:
    """What the student decides among three and more classes. All figures but the accuracy hold together.

    Parameters
    ----------
    accuracy : Figure
        Share of units that are right. It holds alone.
    shares, recall, precision : mapping of str to Figure
        For each class its share of units, the share of its units that are found, and how often its prediction is right.
    """

    accuracy: Figure
    shares: Mapping[str, Figure]
    recall: Mapping[str, Figure]
    precision: Mapping[str, Figure]

    @classmethod
    def of_cells(cls, names: tuple[str, ...], cells: Floats, sigma: float) -> ClassDecisions:
        """Return what noisy cells, true class by predicted class, show."""
        n, right = len(names), np.diag(cells)
        rows, columns = cells.sum(axis=1), cells.sum(axis=0)
        z = critical(3 * n)
        (accuracy,) = shares(ShareSums.of(right.sum(), cells.sum() - right.sum(), n, n * (n - 1)), sigma, critical(1))
        return cls(
            accuracy=accuracy,
            shares=_by_class(names, shares(ShareSums.of(rows, cells.sum() - rows, n, n * (n - 1)), sigma, z)),
            recall=_by_class(names, shares(ShareSums.of(right, rows - right, 1, n - 1), sigma, z)),
            precision=_by_class(names, shares(ShareSums.of(right, columns - right, 1, n - 1), sigma, z)),
        )

    def to_dict(self) -> list[PlainValues]:
        """Return an entry for each class, as plain values."""
        return [
            {
                "class": name,
                "share": share.to_dict(),
                "recall": self.recall[name].to_dict(),
                "precision": self.precision[name].to_dict(),
            }
            for name, share in self.shares.items()
        ]


def _by_class(names: tuple[str, ...], figures: list[Figure]) -> dict[str, Figure]:
    return dict(zip(names, figures, strict=True))


@dataclass(frozen=True, kw_only=True)
class GroupQuality:
    """Figures of one group of units. All figures of all groups of a column hold together.

    Parameters
    ----------
    name : str
        Value of the group column, or "other".
    share : Figure
        Share of units in the group.
    accuracy : Figure
        Share that is right. For two classes, at threshold one half.
    class_shares : mapping of str to Figure
        Share of the positive class, or of every class, within the group.
    recall : mapping of str to Figure
        For three and more classes, the share of each class's units that are found.
    thresholds : tuple of float
        For two classes, inner edges of the bins.
    at : mapping of str to tuple of Figure
        For two classes, figures for each threshold.
    """

    name: str
    share: Figure
    accuracy: Figure
    class_shares: Mapping[str, Figure]
    recall: Mapping[str, Figure]
    thresholds: tuple[float, ...] = ()
    at: Mapping[str, tuple[Figure, ...]]

    @classmethod
    def of_bins(
        cls, names: tuple[str, ...], positive: str, cells: Floats, edges: Floats, sigma: float
    ) -> tuple[GroupQuality, ...]:
        """Return the groups of noisy cells, shape (n_groups, 2, n_bins)."""
        n_groups, _, n_bins = cells.shape
        z = critical(n_groups * (3 + len(_OF_GROUPS) * (n_bins - 1)))
        in_groups = _group_shares(cells, sigma, z)
        groups = []
        for name, share, (rest, ill) in zip(names, in_groups, cells, strict=True):
            parts = threshold_sums(ill, rest)
            (prevalence,) = shares(ShareSums.of(ill.sum(), rest.sum(), n_bins, n_bins), sigma, z)
            groups.append(
                cls(
                    name=name,
                    share=share,
                    accuracy=_accuracy(ill, rest, edges, sigma, z),
                    class_shares={positive: prevalence},
                    recall={},
                    thresholds=tuple(edges.tolist()),
                    at={which: tuple(shares(parts[which], sigma, z)) for which in _OF_GROUPS},
                )
            )
        return tuple(groups)

    @classmethod
    def of_decisions(
        cls, names: tuple[str, ...], classes: tuple[str, ...], cells: Floats, sigma: float
    ) -> tuple[GroupQuality, ...]:
        """Return the groups of noisy cells, true class by wrong and right, shape (n_groups, n_classes, 2)."""
        n_groups, n_classes, _ = cells.shape
        z = critical(n_groups * (2 + 2 * n_classes))
        groups = []
        for name, share, one in zip(names, _group_shares(cells, sigma, z), cells, strict=True):
            wrong, right = one.T
            of_class = one.sum(axis=1)
            (accuracy,) = shares(ShareSums.of(right.sum(), wrong.sum(), n_classes, n_classes), sigma, z)
            rest = ShareSums.of(of_class, one.sum() - of_class, 2, 2 * (n_classes - 1))
            groups.append(
                cls(
                    name=name,
                    share=share,
                    accuracy=accuracy,
                    class_shares=_by_class(classes, shares(rest, sigma, z)),
                    recall=_by_class(classes, shares(ShareSums.of(right, wrong, 1, 1), sigma, z)),
                    at={},
                )
            )
        return tuple(groups)

    def to_dict(self) -> PlainValues:
        """Return the group as plain values, alarms per 1,000 units of the group."""
        return {
            "group": self.name,
            "share": self.share.to_dict(),
            "accuracy": self.accuracy.to_dict(),
            "class_shares": {name: one.to_dict() for name, one in self.class_shares.items()},
            "recall": {name: one.to_dict() for name, one in self.recall.items()},
            "thresholds": [
                {"threshold": threshold}
                | {
                    "alarms_per_1000" if name == "alarms" else name: (
                        figures[place].times(1000) if name == "alarms" else figures[place]
                    ).to_dict()
                    for name, figures in self.at.items()
                }
                for place, threshold in enumerate(self.thresholds)
            ],
        }


def _group_shares(cells: Floats, sigma: float, z: float) -> list[Figure]:
    totals, size = cells.sum(axis=(1, 2)), cells[0].size
    return shares(ShareSums.of(totals, cells.sum() - totals, size, size * (len(cells) - 1)), sigma, z)
