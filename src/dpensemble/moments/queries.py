r"""The sums of label moments: what each record adds, how far one unit can move the sum, and how to read it.

A record ``(x, y)`` of a unit with ``k`` records and weight ``a`` adds ``(a / k) (phi(x) outer r)`` to a sum, where
phi is public, ``|phi| <= 1``, and ``r`` depends on the query. So a unit adds a vector of length ``a |r|`` at most.
`dpensemble.moments.whole` enforces the lengths on whole numbers. A sensitivity is proved beside its query.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from dpensemble._entries import BigIntegers, Floats, Integers
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments.model import columns, even_weight, expected
from dpensemble.moments.whole import UNIT, WHOLE, ExactSum, WholeBlock, scaled, whole_answers, whole_products
from dpensemble.releases import ReleasedTable, SumQuery
from dpensemble.releases.sums import CHECKSUMS, Outcome, PartialSums

# Distance of two vectors of length 1 whose inner product is not negative.
_SQRT_2 = math.isqrt(2 * WHOLE**2) + 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Moments:
    """The moments that one round released. Public.

    Parameters
    ----------
    values : ndarray of shape (n_features, n_columns)
        Noisy mean of ``phi (onehot(y) - c) omega`` over units. Two classes have one column, for the second class.
    spread : float
        Standard deviation of the noise on each entry. With several classes it is that of the noise along any contrast
        of classes (a vector of length 1 whose entries sum to 0).
    scale : ndarray of shape (n_features,)
        Public weights of the features in this round. `values` are of weighted features.
    centre : ndarray of shape (n_features, n_columns) or None
        Coefficients of the published model whose probabilities are the centre, or None for even shares.
    even_weight : float
        The weight omega of every row if `centre` is None.
    mean : ndarray of shape (n_features,) or None
        Noisy mean of the features, if class sums were released.
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


class RecordsQuery(SumQuery[Outcome]):
    """A sum over records, each of which adds the outer product of two short vectors of whole numbers."""

    unit = WHOLE
    replacing = _SQRT_2
    removing = WHOLE
    #: Whether no record adds a negative entry.
    never_negative = False

    def allows(self, sums: PartialSums, weight: float) -> bool:
        """Return whether records with a total weight can have a sum. Private.

        A unit adds a vector of at most its weight times `removing`, which is what removing the unit changes. By the
        triangle inequality the sum of several units is at most their total weight times `removing` long.
        """
        # The margin covers the rounding of weights that are fractions.
        longest = math.ceil(weight * (1 + 1e-9) * self.removing)
        return sums.fits(longest, never_negative=self.never_negative)

    @abstractmethod
    def factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:
        """Return both factors of a block's records, shapes (n_records, n_rows) and (n_records, n_columns). Private."""


#: A query for which only its exact sum matters, and not how the noisy sum is read.
AnyQuery = RecordsQuery[Any]


def partial_sums(query: AnyQuery, blocks: Iterable[WholeBlock], *, number: int = 0) -> PartialSums:
    """Return the exact sum of blocks of records for the release with a number. Private.

    Every sum of records is computed here: of all records on this machine, or of a part of them in another process or on
    a cluster.
    """
    total, rows, checksum = ExactSum(), 0, 0
    for features, targets, weights, hashes in blocks:
        total.add(*query.factors(features, targets, weights))
        rows, checksum = rows + len(targets), (checksum + hashes) % CHECKSUMS
    return PartialSums(total.total, rows, checksum, number)


def total_of(sums: PartialSums) -> BigIntegers:
    """Return the exact sum of all records, or raise if there are none."""
    if sums.total is None:
        raise DataError("there are no private records; a reader of blocks must give all records on every call.")
    return sums.total


@dataclass(frozen=True)
class UnitCount(RecordsQuery[tuple[float, float]]):
    """The weighted number of units. Every unit adds its weight."""

    description = "the number of units"
    replacing = WHOLE
    never_negative = True

    def factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:  # noqa: ARG002
        """Return ones, and weights that are cut to whole numbers."""
        return np.ones((len(weights), 1)), np.floor(weights * WHOLE)[:, None]

    def read(self, sums: Floats, spread: float) -> tuple[float, float]:
        """Return the number, at least 1, and the standard deviation of its noise."""
        return max(float(sums[0, 0]), 1.0), spread

    def table(self, outcome: tuple[float, float]) -> ReleasedTable:
        """Return a table of the number."""
        return ReleasedTable("Number of units", (("units", *outcome),))


@dataclass(frozen=True)
class FeatureMean(RecordsQuery[tuple[Floats, float]]):
    """The mean of features, without labels.

    A unit adds a vector that is at most as long as the unit's weight. So replacing a unit moves the sum by at most 2,
    and by at most sqrt(2) if no entry is negative. Adding or removing a unit moves the sum by at most 1.
    """

    nonnegative: bool
    description: str = "the mean of the features, without labels"

    @property
    def replacing(self) -> int:  # type: ignore[override]
        """Whole units by which replacing a unit moves the sum."""
        return _SQRT_2 if self.nonnegative else 2 * WHOLE

    @property
    def never_negative(self) -> bool:  # type: ignore[override]
        """Whether no record adds a negative entry."""
        return self.nonnegative

    def factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:  # noqa: ARG002
        """Return features and weights."""
        return cut(features) if self.nonnegative else features, whole_answers(weights[:, None], weights)

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return the mean, shape (n_features,), and the standard deviation of its noise."""
        return sums[:, 0], spread


@dataclass(frozen=True)
class FeatureProducts(RecordsQuery[tuple[Floats, float]]):
    """Mean products of two features.

    A record adds ``z outer z``, ``|z| <= 1``, which is ``|z|**2`` long. The inner product of two such products is a
    square. So replacing a unit moves the sum by at most sqrt(2), and adding or removing a unit by at most 1.
    """

    description = "which values go together"

    def factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:  # noqa: ARG002
        """Return products and weights."""
        return whole_products(features), whole_answers(weights[:, None], weights)

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return the products, shape (n_features, n_features), and the standard deviation of their noise."""
        size = math.isqrt(len(sums))
        square = sums[:, 0].reshape(size, size)
        # Both halves have noise of their own.
        return (square + square.T) / 2, spread * math.sqrt(0.5)


@dataclass(frozen=True)
class ClassSums(RecordsQuery[Moments]):
    """The sum of features of each class.

    ``r`` is the label as a vector of zeros and a one, and features are cut at 0 from below. Vectors ``u, v`` of two
    units then have no negative entry, so that ``|u - v|**2 <= |u|**2 + |v|**2 <= 2``. So replacing a unit moves the
    sum by at most ``sqrt(2)``, and adding or removing a unit by at most 1.

    Two class sums hold the same information as one column of residuals with the centre 1/2. If units are replaced,
    half their difference has exactly the noise of that column. Their sum, the mean of features, costs nothing more.
    """

    n_classes: int
    description = "the mean of the features of each class"
    never_negative = True

    def factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:
        """Return features without negative entries, and weights in the columns of their classes."""
        return cut(features), whole_answers(_by_class(targets, weights, self.n_classes), weights)

    def read(self, sums: Floats, spread: float) -> Moments:
        """Return the moments of a round that expects even shares of the classes."""
        mean = sums.sum(axis=1)
        if self.n_classes == 2:
            values, share_of_noise = (sums[:, [1]] - sums[:, [0]]) / 2, math.sqrt(0.5)
        else:
            values, share_of_noise = sums - mean[:, None] / self.n_classes, 1.0
        return Moments(
            values=values,
            spread=spread * share_of_noise,
            scale=np.ones(len(mean)),
            centre=None,
            mean=mean,
            mean_spread=spread * math.sqrt(self.n_classes),
        )


@dataclass(frozen=True, eq=False)
class Residuals(RecordsQuery[Moments]):
    """The differences between labels and the expectation of a published model.

    ``r = omega (onehot(y) - c)`` (for two classes one number, ``omega (y - c)``). The centre ``c`` is the expectation
    of an already published model for ``x``, or an even share. The public weight is ``omega = 0.5 / max over y of
    |onehot(y) - c|``, which makes ``|r| <= 1/2`` for every label. Replacing a unit moves the sum by at most 1. Adding
    or removing a unit moves the sum by at most 1/2. Nothing is clipped, so that the expectation of the sum is known for
    every model. Features weighted by a public `scale` are shortened if they are longer than 1.
    """

    n_classes: int
    centre: Floats | None = None
    scale: Floats | None = None
    replacing = WHOLE
    removing = WHOLE // 2

    @property
    def description(self) -> str:
        """The released sum in words."""
        expected_label = "equal chances for all classes" if self.centre is None else "what the model so far predicts"
        return (
            f"the mean of the features, with each record weighted by how much its label differs from {expected_label}"
        )

    def factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:
        """Return weighted features, and weighted residuals."""
        c, omega = expected(self.centre, features, self.n_classes, even_weight(self.n_classes), whole=True)
        # Features of a bad record are zeros, which make its residual count nothing.
        labels = _by_class(targets, np.ones(len(targets)), self.n_classes)[:, -columns(self.n_classes) :]
        return scaled(features, self.scale), whole_answers(
            weights[:, None] * omega[:, None] * (labels - c), weights / 2
        )

    def read(self, sums: Floats, spread: float) -> Moments:
        """Return the moments of the round."""
        scale = np.ones(len(sums)) if self.scale is None else self.scale
        return Moments(
            values=sums, spread=spread, scale=scale, centre=self.centre, even_weight=even_weight(self.n_classes)
        )


@dataclass(frozen=True)
class _ClassShares(RecordsQuery[tuple[Floats, float]]):
    """The share of each class among units. A unit with several classes has a part of each.

    A bad record adds nothing to any class, but counts in its unit, so shares of all classes add up to the share of
    records that could be read.

    A unit adds the weight of each class, numbers from 0 that add up to its weight at most. Vectors of two units have no
    negative entry and are at most 1 long. So replacing a unit moves the sum by at most sqrt(2), and adding or removing
    a unit by at most 1.
    """

    classes: tuple[str, ...]
    description = "the share of each class"
    never_negative = True

    def factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:  # noqa: ARG002
        """Return ones, and weights in the columns of their classes."""
        labels = _by_class(targets, weights, len(self.classes))
        return np.full((len(targets), 1), float(UNIT)), whole_answers(labels, weights)

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return the shares, shape (n_classes,), and the standard deviation of their noise."""
        return sums[0], spread

    def table(self, outcome: tuple[Floats, float]) -> ReleasedTable:
        """Return the share of each class. Noise may drive the share of a rare class below 0."""
        shares, spread = outcome
        rows = tuple((name, float(share), spread) for name, share in zip(self.classes, shares, strict=True))
        return ReleasedTable("Share of each class", rows)


#: Statistics that a run may release besides its model, by name: each takes the names of the declared classes.
STATISTICS: dict[str, Callable[[tuple[str, ...]], RecordsQuery[Any]]] = {"class-shares": _ClassShares}


def statistics_of(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of requested statistics, from a list or from a text with commas."""
    given = names.split(",") if isinstance(names, str) else names
    if given is not None and not (isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)):
        raise InvalidParameterError(
            f"statistics={names!r} is not a list of names: use some of {', '.join(STATISTICS)}.", parameter="statistics"
        )
    asked = tuple(name.strip() for name in given) if names and given else ()
    for name in asked:
        if name not in STATISTICS:
            raise InvalidParameterError(
                f"statistics={names!r} names {name!r}, which is unknown: use {', '.join(STATISTICS)}.",
                parameter="statistics",
            )
    if len(set(asked)) < len(asked):
        raise InvalidParameterError(
            f"statistics={names!r} names a statistic twice: name each once.", parameter="statistics"
        )
    return asked


def _by_class(targets: Integers, weights: Floats, n_classes: int) -> Floats:
    """Return weights in the columns of classes, zeros for bad records, shape (n_records, n_classes)."""
    labels = np.zeros((len(targets), n_classes))
    good = np.flatnonzero(targets >= 0)
    labels[good, targets[good]] = weights[good]
    return labels


def cut(features: Any) -> Any:
    """Return features without negative entries, even if the map falsely states so. Sensitivities rest on this."""
    if (features.data if sparse.issparse(features) else features).min(initial=0.0) >= 0:
        return features
    return features.maximum(0.0) if sparse.issparse(features) else np.maximum(features, 0.0)
