r"""The area under the ROC curve of a student: what released bins show about the area, and bins that show much.

The area is the share of pairs, a case and another unit, in which the case has the higher probability. Ties count half
(J. Hanley and B. McNeil, "The meaning and use of the area under a ROC curve", Radiology 1982). Bins show the order of
two units only if the units are in different bins. Within a bin all cases may be above all others, or below. So the
area lies between ``L = sum of pi_i nu_j over i > j`` and ``U = L + sum of pi_i nu_i``, for the shares ``pi`` of cases
and ``nu`` of others in the bins. Both ends are reached, so no narrower interval holds for all distributions within the
bins (C. Manski, "Partial identification of probability distributions", 2003, chapter 1).

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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpensemble._entries import Floats
from dpensemble.quality.figures import PlainValues, critical

#: With fewer bins an area may be unknown.
FEWEST_BINS = 4
# Areas to test.
_AREAS = np.linspace(0, 1, 1001)
# A class with fewer units than this many standard deviations of its noise is not known.
_LEAST = 2.0
# Places at which bins may end, and how much wider than the narrowest an interval may be to save bins.
_PLACES, _SAVED = 64, 1.1
# Share of the other class that is mixed into each expected class, in case the probabilities are too sure.
_DOUBT = 0.15
_ROUNDS = 3
# Standard deviations of each end from its bound, and from the middle of both bounds. The former is
# 1.645 for 95 %, and a little more for the rare miss of the other end. The latter is 98.8 % if the bounds are equal.
_FROM_END, _FROM_MIDDLE = 1.66, 2.5


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
    z = max(_FROM_END, _FROM_MIDDLE - max(float(apart), 0.0) / 2)
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


def pairs_inside(public: Floats, edges: Floats) -> Floats:
    """Return the share of pairs within each bin in which the case is higher, if public rows stand for all.

    A public row counts as a case by its probability. A bin without public rows gets one half.
    """
    order = np.sort(public)
    places = np.searchsorted(edges, order, side="right")
    inside = np.full(len(edges) + 1, 0.5)
    for place in np.unique(places):
        p = order[places == place]
        values, groups = np.unique(p, return_inverse=True)
        cases, others = np.bincount(groups, p), np.bincount(groups, 1 - p)
        pairs = cases.sum() * others.sum()
        if len(values) > 1 and pairs > 0:
            inside[place] = cases @ (np.cumsum(others) - others / 2) / pairs
    return inside


def area_edges(public: Floats, n_units: int, sigma: float, most: int, fixed: Sequence[float]) -> Floats:
    """Return inner edges of at most `most` bins, for which the interval of the area is expected to be narrow.

    Noise counts where the rank of a bin differs from the area, and the order within bins where both classes are common.
    For each number of bins, dynamic programming finds the edges of the narrowest expected interval. Of the numbers from
    four on, the smallest is taken whose interval is at most a tenth wider than the narrowest, because all other figures
    have less noise with fewer bins.

    Parameters
    ----------
    public : ndarray of shape (n_rows,)
        The student's probabilities of public rows.
    n_units : int
        Number of held-back units.
    sigma : float
        Standard deviation of the noise on each cell, in units.
    most : int
        Most bins. The `fixed` edges are there in any case.
    fixed : sequence of float
        Edges that are required.
    """
    ends = _places(public, fixed)
    cases, others = _expected(public, ends)
    m, n = (max(n_units * share, 1.0) for share in (float(public.mean()), float(1 - public.mean())))
    required = np.searchsorted(ends, sorted(fixed)) + 1
    allowed = _without(len(ends) + 1, required)
    below, above = np.cumsum(others) - others, 1 - np.cumsum(cases)
    area = float(cases @ (below + others / 2))
    starts = [np.concatenate([[0.0], np.cumsum(one)]) for one in (cases, others)]
    # Entry (i, j): the bin from place i to place j.
    pi, nu = (one[None, :] - one[:, None] for one in starts)
    rank, rank_of_other = starts[1][:, None] + nu / 2, 1 - starts[0][:, None] - pi / 2
    noise = sigma**2 * (((rank - area) / m) ** 2 + ((rank_of_other - area) / n) ** 2)
    chance = float(cases @ (below + others / 2 - area) ** 2 / m + others @ (above + cases / 2 - area) ** 2 / n)
    variance = chance + sigma**2 * FEWEST_BINS / (6 * m**2)
    best: list[tuple[float, list[int]]] = []
    for _ in range(_ROUNDS):
        # The width is concave in the variance, so it is minimised by repeated linear approximation.
        cost = np.where(allowed, pi * nu + _FROM_END / np.sqrt(variance) * noise, np.inf)
        best = []
        for chosen in _cheapest(cost, max(most, len(fixed) + 1)):
            bins = (np.array(chosen[:-1]), np.array(chosen[1:]))
            spread = chance + noise[bins].sum()
            best.append((float((pi * nu)[bins].sum() + 2 * _FROM_END * np.sqrt(spread)), chosen))
        narrowest = min(best)
        bins = (np.array(narrowest[1][:-1]), np.array(narrowest[1][1:]))
        variance = chance + float(noise[bins].sum())
    enough = [chosen for width, chosen in best if width <= _SAVED * min(best)[0]]
    enough = [chosen for chosen in enough if len(chosen) > FEWEST_BINS] or [best[-1][1]]
    chosen = min(enough, key=len)
    return ends[np.array(chosen[1:-1], dtype=np.int64) - 1]


def _places(public: Floats, fixed: Sequence[float]) -> Floats:
    """Return where bins may end: quantiles of both classes, and the fixed edges."""
    order = np.sort(public)
    mass = order / max(order.sum(), 1e-300) + (1 - order) / max((1 - order).sum(), 1e-300)
    at = np.searchsorted(np.cumsum(mass) / mass.sum(), np.linspace(0, 1, _PLACES + 1)[1:-1])
    inner = np.unique(np.concatenate([order[np.minimum(at, len(order) - 1)], np.asarray(fixed, dtype=float)]))
    return inner[(inner > 0) & (inner < 1)]


def _expected(public: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Return the expected shares of cases and of others between all places."""
    at = np.searchsorted(ends, public, side="right")
    cases, others = (np.bincount(at, one, minlength=len(ends) + 1) for one in (public, 1 - public))
    cases, others = cases / max(cases.sum(), 1e-300), others / max(others.sum(), 1e-300)
    return (1 - _DOUBT) * cases + _DOUBT * others, (1 - _DOUBT) * others + _DOUBT * cases


def _without(n_places: int, required: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> np.ndarray:
    """Return which bins, from place i to place j, contain no required edge in their inside."""
    i, j = np.arange(n_places + 1)[:, None], np.arange(n_places + 1)[None]
    crossed = np.zeros((n_places + 1, n_places + 1), dtype=bool)
    for one in required:
        crossed |= (i < one) & (one < j)
    return np.asarray((i < j) & ~crossed)


def _cheapest(cost: Floats, most: int) -> list[list[int]]:
    """Return the cheapest places for each possible number of bins, from the first place to the last."""
    last = len(cost) - 1
    totals, before, found = cost[0], [], []
    for n_bins in range(1, min(most, last) + 1):
        if n_bins > 1:
            through = totals[:, None] + cost
            before.append(through.argmin(axis=0))
            totals = through.min(axis=0)
        if np.isfinite(totals[last]):
            chosen = [last]
            for step in reversed(before):
                chosen.append(int(step[chosen[-1]]))
            found.append([0, *chosen[::-1]])
    return found
