r"""A score of a released student on private units that taught it nothing, with noise.

Every held-back unit adds one vector to a sum. The vector holds the share of its records that the student gets right.
For two classes it also holds the shares of its records in cells of a histogram. The cells are by true class and by
public bins of the student's probability. The first share lies in [0, 1]. The histogram has no negative entry and a sum
of 1 at most, so that the histograms of two units differ by ``|u - v|**2 <= |u|**2 + |v|**2 <= 2``. Replacing one unit
by another therefore moves the sum by at most ``sqrt(1 + 2)``, and by at most 1 if there is no histogram. Shares are
whole numbers, rounded down. Each entry gets discrete Gaussian noise, and `SumsMeter` charges exactly for the noise
before it is drawn.

Held-back units teach nothing. Their places and a public seed decide which units are held back. Let neighbouring data
differ in one unit. If this unit teaches, the held-back units are the same, and the score is computed from the released
student and data that do not differ. If this unit is held back, training is the same, and only the score differs. So
both releases together are as private as the less private of the two (parallel composition: F. McSherry, "Privacy
integrated queries", SIGMOD 2009, Theorem 4).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Floats, Integers
from dpensemble._random import NoiseSource
from dpensemble.accounting import Group, SumsMeter
from dpensemble.budget import Budget
from dpensemble.cost import PrivacyCost
from dpensemble.relations import Relation
from dpensemble.releases import SumQuery, SumReleaser

BINS = 10
_WHOLE = 2**40
_NORMAL_95 = 1.959964
_DRAWS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedScore:
    """A noisy score of a student. May be published.

    Each held-back unit counts once and pays epsilon and delta. No other unit pays. In about 95 % of runs an interval
    holds the accuracy, or the area, on the population. The area is None with more than two classes, or too few records
    of one class.
    """

    units: int
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    auroc: float | None
    auroc_low: float | None
    auroc_high: float | None
    epsilon: float
    delta: float
    sigma: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)


def bin_edges(public: Floats) -> Floats:
    """Return inner edges of bins, from the student's probabilities of public rows, shape (n_public,)."""
    return np.quantile(public, np.linspace(0, 1, BINS + 1)[1:-1])


def unit_vectors(
    right: Integers, cells: Integers | None, unit_of: Integers, n_units: int, usable: NDArray[np.bool_] | None = None
) -> Integers:
    """Return each unit's vector in whole numbers of ``2**-40``, shape (n_units, n_entries). Private."""
    # Rounded down, so that the records of a unit weigh 1 at most together.
    weight = _WHOLE // np.bincount(unit_of, minlength=n_units)[unit_of]
    if usable is not None:
        weight = np.where(usable, weight, 0)
    vectors = np.zeros((n_units, 1 if cells is None else 1 + 2 * BINS), dtype=np.int64)
    np.add.at(vectors[:, 0], unit_of, weight * right)
    if cells is not None:
        np.add.at(vectors, (unit_of, 1 + cells), weight)
    return vectors


@dataclass(frozen=True)
class ScoreSum(SumQuery[tuple[Floats, float]]):
    """The sum of the held-back units' vectors. The module proves its sensitivity."""

    with_histogram: bool
    description = "the score of the student on held-back units"
    unit = _WHOLE

    @property
    def replacing(self) -> int:
        """Whole units by which another vector of one unit moves the sum."""
        return math.ceil(_WHOLE * math.sqrt(3 if self.with_histogram else 1))

    removing = replacing

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return the noisy sums, and the standard deviation of their noise."""
        return sums, spread


def _meter(epsilon: float, delta: float) -> SumsMeter:
    return SumsMeter([Group("held back", Budget(epsilon=epsilon, delta=delta))])


def score_cost(epsilon: float, delta: float) -> PrivacyCost | None:
    """Return the most that a score costs at epsilon and delta, as a Renyi curve.

    Examples
    --------
    >>> round(score_cost(1.0, 1e-5).mu, 3)
    0.268
    """
    return _meter(epsilon, delta).renyi_costs()[0]


def release_score(vectors: Integers, epsilon: float, delta: float, noise: NoiseSource) -> ReleasedScore:
    """Charge for the sum of the units' vectors, draw its noise, and return the score."""
    n_units, n_entries = vectors.shape
    meter = _meter(epsilon, delta)
    # Holds the noise to the cost that `score_cost` returns.
    meter.renyi_costs()
    sums = SumReleaser(relation=Relation.REPLACE_ONE, meter=meter, noise=noise)
    noisy, spread = sums.release(ScoreSum(with_histogram=n_entries > 1), vectors.sum(axis=0), 1.0)
    accuracy = float(np.clip(noisy[0] / n_units, 0.0, 1.0))
    half = _NORMAL_95 * math.hypot(math.sqrt(max(accuracy * (1 - accuracy), 1 / n_units) / n_units), spread / n_units)
    area = (None, None, None) if n_entries == 1 else _area(noisy[1:].reshape(2, BINS), spread)
    return ReleasedScore(
        units=n_units,
        accuracy=accuracy,
        accuracy_low=max(0.0, accuracy - half),
        accuracy_high=min(1.0, accuracy + half),
        auroc=area[0],
        auroc_low=area[1],
        auroc_high=area[2],
        epsilon=meter.spent_epsilon,
        delta=delta,
        sigma=spread,
    )


def _area(histogram: Floats, spread: float) -> tuple[float | None, float | None, float | None]:
    """Return the area under the ROC curve of a noisy histogram, and an interval from repeated draws with its noise."""
    # The sums of both classes must stand out from their noise.
    if histogram.sum(axis=1).min() < 3 * spread * math.sqrt(BINS):
        return None, None, None
    area = area_under(histogram)
    rng = np.random.default_rng(0)
    total = np.maximum(histogram, 0)
    n = round(total.sum())
    again = rng.multinomial(n, (total / total.sum()).ravel(), size=_DRAWS).reshape(_DRAWS, 2, BINS)
    areas = [area_under(one) for one in again + rng.normal(0, spread, size=again.shape)]
    half = _NORMAL_95 * float(np.std(areas))
    return area, max(0.0, area - half), min(1.0, area + half)


def area_under(histogram: Floats) -> float:
    """Return the area under the ROC curve of counts by class and bin, shape (2, n_bins). Ties count half."""
    negative, positive = histogram
    below = np.cumsum(negative) - negative
    both = negative.sum() * positive.sum()
    return float(np.clip((positive * (below + negative / 2)).sum() / both, 0.0, 1.0)) if both > 0 else 0.5
