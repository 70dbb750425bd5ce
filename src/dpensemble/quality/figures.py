r"""Figures of a noisy histogram, with bands that hold together.

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
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._entries import Floats

LEVEL = 0.95
#: Values that JSON can hold, by name.
PlainValues = dict[str, Any]
# Shares to test. They stand closer near 0 and 1, where rare outcomes are.
_SHARES = np.sin(np.linspace(0, np.pi / 2, 1201)) ** 2
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


def critical(n_figures: int, level: float = LEVEL) -> float:
    """Return how many standard deviations the limits of as many figures need, to hold together (Sidak 1967).

    Examples
    --------
    >>> round(critical(1), 2), round(critical(60), 2)
    (1.96, 3.33)
    """
    return NormalDist().inv_cdf(0.5 + level ** (1 / max(n_figures, 1)) / 2)


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
