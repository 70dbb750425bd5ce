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

from dataclasses import dataclass

import numpy as np

from dpensemble._arrays import Floats
from dpensemble.quality.figures import PlainValues, critical

# Areas to test.
_AREAS = np.linspace(0, 1, 1001)
# A class with fewer units than this many standard deviations of its noise is not known.
_LEAST = 2.0
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
