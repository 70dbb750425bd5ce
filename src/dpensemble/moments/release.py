r"""The noisy release of label moments: what a unit can change, what is charged, and what is drawn.

A record ``(x, y)`` of a unit with ``k`` records and weight ``a`` adds ``(a / k) (phi(x) outer r)`` to a sum, where
phi is public, ``|phi| <= 1``, and ``r`` says what the label adds to what was expected. So a unit adds a vector of
length ``a |r|`` at most. There are two kinds of rounds.

*Class sums*: ``r`` is the label as a vector of zeros and a one, and features are cut at 0 from below. Vectors ``u,
v`` of two units then have no negative entry, so that ``|u - v|**2 <= |u|**2 + |v|**2 <= 2``: replacing a unit moves
the sum by at most ``sqrt(2)``, and adding or removing one by at most 1.

*Residuals*: ``r = omega (onehot(y) - c)`` (for two classes one number, ``omega (y - c)``), where the centre ``c`` is
what an already published model says of ``x`` (or an even share), and the public weight ``omega = 0.5 / max over y of
|onehot(y) - c|`` makes ``|r| <= 1/2`` whatever the label. Replacing a unit moves the sum by at most 1, adding or
removing one by at most 1/2. Nothing is clipped away, so that the expectation of the sum is known for every model.

Lengths are enforced on whole numbers (`dpensemble.moments.whole`), not trusted; every entry gets discrete Gaussian
noise from its own secret bits, and the meter is charged before any of it is drawn. Two class sums hold all that one
column of residuals with the centre 1/2 does: half their difference has exactly its noise; their sum comes for free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble._random import NoiseSource
from dpensemble.accounting.sums import SumsMeter
from dpensemble.errors import DataError
from dpensemble.moments.blocks import PrivateBlocks, scaled
from dpensemble.moments.model import probabilities
from dpensemble.moments.noisy import noisy_sum
from dpensemble.moments.whole import UNIT, WHOLE, ExactSum, whole_answers, whole_products
from dpensemble.relations import Relation

# Distance of two vectors of length 1 whose inner product is not negative.
_SQRT_2 = math.isqrt(2 * WHOLE**2) + 1
_NO_RECORDS = "there are no private records; a reader of blocks must give all of them on every call."


@dataclass(frozen=True, eq=False, kw_only=True)
class Moments:
    """What one round released; public.

    Parameters
    ----------
    values : ndarray of shape (n_features, n_columns)
        Noisy mean of ``phi (onehot(y) - c) omega`` over units; one column for two classes, for the second of them.
    spread : float
        Standard deviation of the noise on each entry.
    scale : ndarray of shape (n_features,)
        Public weights of the features in this round; `values` are of weighted features.
    centre : ndarray of shape (n_features, n_columns) or None
        Coefficients of the published model that said what to expect; None for even shares.
    even_weight : float
        The weight omega of every row where `centre` is None.
    mean : ndarray of shape (n_features,) or None
        Noisy mean of the features, where class sums were released.
    mean_spread : float
        Standard deviation of the noise on its entries.
    """

    values: Floats
    spread: float
    scale: Floats
    centre: Floats | None
    even_weight: float = 1.0
    mean: Floats | None = None
    mean_spread: float = math.nan


def expected(centre: Floats | None, features: Any, n_classes: int, even_weight: float) -> tuple[Floats, Floats]:
    """Return what a published model expects of rows, and the public weight of each row.

    Parameters
    ----------
    centre : ndarray or None
        Coefficients; None for even shares.
    features : ndarray or sparse matrix of shape (n_rows, n_features)
        In units of 1.
    n_classes : int
        Number of classes.
    even_weight : float
        Weight of every row where `centre` is None.

    Returns
    -------
    c : ndarray of shape (n_rows, n_columns)
        Probabilities; of the second class alone where there are two.
    omega : ndarray of shape (n_rows,)
        Weights.
    """
    n_rows, n_columns = features.shape[0], columns(n_classes)
    if centre is None:
        return np.full((n_rows, n_columns), 1 / n_classes), np.full(n_rows, even_weight)
    c = probabilities(features, centre)
    if n_columns == 1:
        return c, 0.5 / np.maximum(c, 1 - c)[:, 0]
    # Chances are whole numbers of 2**-24, so this sum of squares is exact in any order.
    longest = np.sqrt(1 - 2 * c.min(axis=1) + (c**2).sum(axis=1))
    return c, 0.5 / longest


def columns(n_classes: int) -> int:
    """Return the number of columns that say everything: one for two classes."""
    return 1 if n_classes == 2 else n_classes


def even_weight(n_classes: int, *, class_sums: bool) -> float:
    """Return the weight of rows in a round without a published model."""
    if class_sums or n_classes == 2:
        return 1.0
    return 0.5 / math.sqrt((n_classes - 1) / n_classes)


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentsSource:
    """Private records, and the one place where noise is charged and drawn for their moments.

    Parameters
    ----------
    blocks : PrivateBlocks
        The records; private.
    n_classes : int
        Number of declared classes.
    nonnegative : bool
        Whether the map says that no feature is below 0; its features are then cut there.
    relation : Relation
        Neighbouring relation.
    meter : SumsMeter
        What charges.
    noise : NoiseSource
        Secret bits.
    """

    blocks: PrivateBlocks
    n_classes: int
    nonnegative: bool
    relation: Relation
    meter: SumsMeter
    noise: NoiseSource

    @property
    def class_sums_first(self) -> bool:
        """Whether the first round releases class sums, which is cheaper where replacing is what counts."""
        return self.nonnegative and self.relation is Relation.REPLACE_ONE

    def count(self, share: float) -> tuple[float, float]:
        """Release the weighted number of units with noise, and return it with the noise's standard deviation."""
        total = sum(int(np.floor(weights * WHOLE).sum()) for _, _, weights in self.blocks)
        noisy, variance = self._noisy(np.array([[total]]), share, WHOLE)
        return max(float(noisy[0, 0]) / WHOLE, 1.0), math.sqrt(variance) / WHOLE

    def mean(self, share: float, total_weight: float) -> tuple[Floats, float]:
        """Release the mean of features with noise, and return it with the noise's standard deviation.

        A unit adds a vector of at most its weight, so replacing it moves the sum by at most 2, or by sqrt(2) where no
        entry is negative.
        """
        found: ExactSum | None = None
        for features, _, weights in self.blocks:
            found = found or ExactSum(features.shape[1], 1)
            found.add(_cut(features) if self.nonnegative else features, whole_answers(weights[:, None], weights))
        length = _SQRT_2 if self.nonnegative else 2 * WHOLE
        return self._mean(found, share, total_weight, length)

    def products(self, share: float, total_weight: float) -> tuple[Floats, float]:
        """Release mean products of features, shape (n_features, n_features), and the noise's standard deviation.

        A record adds ``z outer z``, ``|z| <= 1``, which is ``|z|**2`` long, and the inner product of two of them is a
        square; so replacing a unit moves the sum by at most sqrt(2), and adding or removing one by at most 1.
        """
        found: ExactSum | None = None
        for features, _, weights in self.blocks:
            pairs = whole_products(features)
            found = found or ExactSum(pairs.shape[1], 1)
            found.add(pairs, whole_answers(weights[:, None], weights))
        flat, spread = self._mean(found, share, total_weight, _SQRT_2)
        size = math.isqrt(len(flat))
        square = flat.reshape(size, size)
        # Both halves have noise of their own.
        return (square + square.T) / 2, spread * math.sqrt(0.5)

    def _mean(self, found: ExactSum | None, share: float, total_weight: float, length: int) -> tuple[Floats, float]:
        """Add noise to a sum of one column, which replacing a unit moves by `length` at most, and removing by 1."""
        if found is None:
            raise DataError(_NO_RECORDS)
        noisy, variance = self._noisy(found.total, share, length if self.relation is Relation.REPLACE_ONE else WHOLE)
        return noisy[:, 0] / WHOLE / total_weight, math.sqrt(variance) / WHOLE / total_weight

    def reading(self, transform: Any, *, nonnegative: bool) -> MomentsSource:
        """Return the same records, meter and noise behind another map of the library."""
        return replace(self, blocks=self.blocks.reading(transform), nonnegative=nonnegative)

    def first(self, share: float, total_weight: float) -> Moments:
        """Release the first round, which expects even shares of the classes."""
        if not self.class_sums_first:
            return self.residuals(share, total_weight, centre=None)
        found: ExactSum | None = None
        for features, targets, weights in self.blocks:
            labels = np.zeros((len(targets), self.n_classes))
            labels[np.arange(len(targets)), targets] = weights
            found = found or ExactSum(features.shape[1], self.n_classes)
            found.add(_cut(features), whole_answers(labels, weights))
        if found is None:
            raise DataError(_NO_RECORDS)
        noisy, variance = self._noisy(found.total, share, _SQRT_2)
        sums, spread = noisy / WHOLE / total_weight, math.sqrt(variance) / WHOLE / total_weight
        mean = sums.sum(axis=1)
        if self.n_classes == 2:
            values, share_of_noise = (sums[:, [1]] - sums[:, [0]]) / 2, math.sqrt(0.5)
        else:
            values = sums - mean[:, None] / self.n_classes
            share_of_noise = math.sqrt((self.n_classes - 1) / self.n_classes)
        return Moments(
            values=values,
            spread=spread * share_of_noise,
            scale=np.ones(len(mean)),
            centre=None,
            mean=mean,
            mean_spread=spread * math.sqrt(self.n_classes),
        )

    def residuals(
        self, share: float, total_weight: float, *, centre: Floats | None, scale: Floats | None = None
    ) -> Moments:
        """Release what labels add to what a published model expects.

        Parameters
        ----------
        share : float
            Share of the budget's ``mu**2``.
        total_weight : float
            Sum of the units' weights.
        centre : ndarray of shape (n_features, n_columns) or None
            Coefficients of a model that was published before.
        scale : ndarray of shape (n_features,), optional
            Public weights of features; weighted features longer than 1 are shortened.
        """
        found: ExactSum | None = None
        weight = even_weight(self.n_classes, class_sums=False)
        for features, targets, weights in self.blocks:
            c, omega = expected(centre, features / UNIT, self.n_classes, weight)
            answers = weights[:, None] * omega[:, None] * (self._one_hot(targets) - c)
            found = found or ExactSum(features.shape[1], answers.shape[1])
            found.add(scaled(features, scale), whole_answers(answers, weights / 2))
        if found is None:
            raise DataError(_NO_RECORDS)
        sensitivity = WHOLE if self.relation is Relation.REPLACE_ONE else WHOLE // 2
        noisy, variance = self._noisy(found.total, share, sensitivity)
        return Moments(
            values=noisy / WHOLE / total_weight,
            spread=math.sqrt(variance) / WHOLE / total_weight,
            scale=np.ones(len(noisy)) if scale is None else scale,
            centre=centre,
            even_weight=weight,
        )

    def spread(self, share: float, total_weight: float) -> float:
        """Return the standard deviation of the noise on each entry of a later round; public."""
        sensitivity = 1.0 if self.relation is Relation.REPLACE_ONE else 0.5
        return self.meter.sigma(share) * sensitivity / total_weight

    def _one_hot(self, targets: Integers) -> Floats:
        if self.n_classes == 2:
            return (targets == 1).astype(np.float64)[:, None]
        return np.eye(self.n_classes)[targets]

    def _noisy(self, total: Integers, share: float, sensitivity: int) -> tuple[Floats, int]:
        return noisy_sum(total, share, sensitivity, self.meter, self.noise)


def _cut(features: Any) -> Any:
    """Return features without negative entries, whatever the map said of itself: the sensitivity rests on it."""
    return features.maximum(0.0) if hasattr(features, "maximum") else np.maximum(features, 0.0)
