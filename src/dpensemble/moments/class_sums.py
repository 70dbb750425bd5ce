"""The three sums of `DiscriminantClassifier`, what a record adds to each, and what is read from the noisy sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble.moments.queries import RecordsQuery
from dpensemble.moments.whole import UNIT, WHOLE, whole_answers, whole_products

# Whole units of the constant in `ClassMeans`, and the factor of the point beside it.
_CONSTANT, _POINT = 11_586, 0.707


class _OfClasses(RecordsQuery[Any]):
    """A sum of a vector of each record, by class."""

    n_classes: int

    def _by_class(self, targets: Integers, weights: Floats) -> Floats:
        labels = np.zeros((len(targets), self.n_classes))
        labels[np.arange(len(targets)), targets] = weights
        return whole_answers(labels, weights)


@dataclass(frozen=True, eq=False, kw_only=True)
class Means:
    """Released size and mean of each class. Public.

    Parameters
    ----------
    sizes : ndarray of shape (n_classes,)
        Weighted number of units, at least the smallest number that the noise lets one distinguish from 0.
    means : ndarray of shape (n_classes, n_directions)
        Means in units of the radius, shrunk towards 0 by their noise.
    """

    sizes: Floats
    means: Floats


@dataclass(frozen=True)
class ClassMeans(_OfClasses):
    """Size and mean of each class.

    A record adds ``(a, b u)`` in the column of its class, with ``a = .70715``, ``b = .707`` and ``|u| <= 1``. Its
    length is at most ``sqrt(a**2 + b**2) <= 1``. Two such vectors of one class have the inner product ``a**2 + b**2 u.v
    >= a**2 - b**2 >= 0``. Vectors of different classes are orthogonal. The same holds for weighted means of vectors. So
    replacing a unit moves the sum by at most ``sqrt(2)``, and adding or removing one by at most 1.
    """

    n_classes: int
    description = "the size and the mean of each class"

    def factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:
        """Return a constant beside the point, and weights in the columns of classes."""
        left = np.hstack([np.full((len(targets), 1), float(_CONSTANT)), np.trunc(features * _POINT)])
        return left, self._by_class(targets, weights)

    def read(self, sums: Floats, spread: float) -> Means:
        """Return sizes and shrunk means."""
        noise = spread * UNIT / _CONSTANT
        sizes = np.maximum(sums[0] * UNIT / _CONSTANT, 1.0 + noise)
        means = sums[1:].T / _POINT / sizes[:, None]
        variances = (spread / _POINT / sizes) ** 2
        signal = max(float((means**2).mean() - variances.mean()), 1e-12)
        return Means(sizes=sizes, means=means * (signal / (signal + variances))[:, None])


@dataclass(frozen=True, eq=False, kw_only=True)
class Spreads:
    """Released second moments of each class around its mean. Public.

    Parameters
    ----------
    moments : ndarray of shape (n_classes, n_directions, n_directions)
        Sums over units, in units of the squared radius of the second sum.
    noise : float
        Standard deviation of the noise on an entry off the diagonal, after both halves are averaged.
    """

    moments: Floats
    noise: float


@dataclass(frozen=True)
class ClassProducts(_OfClasses):
    """Second moments of each class.

    A record adds ``v outer v``, ``|v| <= 1``, in the column of its class. This product is at most 1 long. The inner
    product of two such products is a square or, for different classes, 0. So replacing a unit moves the sum by at most
    ``sqrt(2)``, and adding or removing one by at most 1.
    """

    n_classes: int
    description = "the spread of each class around its mean, and which columns go together there"

    def factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:
        """Return all products, and weights in the columns of classes."""
        return whole_products(features), self._by_class(targets, weights)

    def read(self, sums: Floats, spread: float) -> Spreads:
        """Return symmetric sums of each class."""
        size = math.isqrt(len(sums))
        moments = sums.T.reshape(self.n_classes, size, size)
        return Spreads(moments=(moments + moments.transpose(0, 2, 1)) / 2, noise=spread * math.sqrt(0.5))


@dataclass(frozen=True)
class OwnScore(RecordsQuery[float]):
    """How far the own class scores below the best class. A record adds a number from 0 (far below) to 1 (the best)."""

    description = "how far a record's class scores below the best class, on average, to calibrate probabilities"
    replacing = WHOLE

    def factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:  # noqa: ARG002
        """Return numbers from 0 to 1, given as features of shape (n_records, 1), in whole units, and weights."""
        return np.trunc(np.clip(features, 0.0, 1.0) * UNIT), whole_answers(weights[:, None], weights)

    def read(self, sums: Floats, spread: float) -> float:  # noqa: ARG002
        """Return the sum over units."""
        return float(sums[0, 0])
