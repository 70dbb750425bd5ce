r"""Public rows, which stand for the private ones in a fit, and what a released mean shows about both.

Means over public rows weigh their units equally. Where few public rows are known, made-up rows stand beside them.

**The test** (`Drift.of`) whether public rows look like the private ones. The released mean of private features weighs
units equally. It is compared with the public mean that does the same: the mean ``b`` of unit means ``u_1, ..., u_m``.
Units are independent, and rows of one unit are not. So the difference of both means has the covariance
``B (1/n + 1/m) + spread**2 I``, where ``B`` is the covariance of unit means, estimated from public units, and ``n`` the
number of private units. When each row is a unit, ``B`` is the covariance of rows.

``B`` has an error of its own when units are few. The statistic ``t = gap . V**-1 gap`` is then larger than its number
of features, ``p``. Leaving each unit out in turn shows by how much. Let ``q = (u - b) . V**-1 (u - b)``, and let ``h``
be the unit's leverage. A unit mean that took no part in ``V`` has the expected length ``q / (1 - h)``. That gives the
expected value ``e`` of the statistic. ``t / e`` is compared with an F distribution of ``p`` and ``f`` degrees of
freedom. Here ``f`` is the number of units less the sum of leverages, divided by a square: that of the part of ``e``
which comes from the estimated covariance. Without noise this is Hotelling's test (H. Hotelling, "The generalization of
Student's ratio", Annals of Mathematical Statistics 1931). With much noise it is the chi-square test.

**The share of records that could be read** (`ReadableShare`) is estimated from the same mean, since a bad record adds
zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg, sparse, stats
from scipy.sparse.linalg import lsqr

from dpensemble._entries import Floats, Integers, dense
from dpensemble._work import fewer, is_rehearsal
from dpensemble.datasets.columns import as_text
from dpensemble.datasets.tables import ColumnReading, as_library_transformer
from dpensemble.moments.maps.base import FeatureMap
from dpensemble.moments.maps.grid import SnappedMap
from dpensemble.moments.whole import UNIT, bounded_features, probabilities


@dataclass(frozen=True, eq=False)
class PublicUnits:
    """The unit of each public row, if it is known, and whether private records have units. Public.

    Parameters
    ----------
    numbers : ndarray of shape (n_public,) or None
        The number of each row's unit, counted from 0. None when it is unknown which rows belong to one unit.
    private : bool
        Whether units of private records were given, so that several records may belong to one unit.
    """

    numbers: Integers | None = None
    private: bool = False

    @property
    def known(self) -> bool:
        """Whether the unit of each public row is known."""
        return self.numbers is not None

    @property
    def shares(self) -> Floats | None:
        """Share of each row in a mean that weighs units equally, as private sums do. None when units are unknown."""
        if self.numbers is None:
            return None
        sizes = np.bincount(self.numbers)
        shares: Floats = 1 / (len(sizes) * sizes[self.numbers])
        return shares

    def count(self, n_rows: int) -> int:
        """Return the number of units, or of rows when units are unknown."""
        return n_rows if self.numbers is None else int(self.numbers.max()) + 1

    def apart(self, features: Floats) -> Floats:
        """Return rows whose products add up to the covariance of one row of a unit, when units are equally likely."""
        shares = np.full(len(features), 1 / len(features)) if self.shares is None else self.shares
        rows: Floats = (features - shares @ features) * np.sqrt(shares)[:, None]
        return rows

    def means(self, features: Floats) -> Floats:
        """Return the mean of the rows of each unit, shape (n_units, n_features)."""
        if self.numbers is None:
            return features
        sizes, rows = np.bincount(self.numbers), np.arange(len(self.numbers))
        average = sparse.csr_matrix((1 / sizes[self.numbers], (self.numbers, rows)))
        return np.asarray(average @ features)


# Standard deviation of the constant's part of a logit, before any data.
_CONSTANT_LOGIT = 5.0
# The same of the other features together, and the smallest mean square of a block that is assumed.
_LOGIT, _SMALLEST_SQUARE = 1.0, 1e-6
# Rows that a softmax holds in memory: limited by the number of products, but never fewer than those for curvatures.
_MOST_PRODUCTS = 4e9
# Rows from which curvatures are estimated. All are where products are few, because then a sample would save nothing.
_ROWS_OF_CURVATURE, _ROWS_PER_FEATURE, _FEW_PRODUCTS = 4000, 6, 2.5e8


def _rows_of_curvature(n_features: int) -> int:
    """Return from how many rows curvatures of that many features are estimated."""
    return max(_ROWS_OF_CURVATURE, _ROWS_PER_FEATURE * n_features, int(_FEW_PRODUCTS / n_features**2))


def rows_in_memory(n_rows: int, n_features: int) -> int:
    """Return how many of some rows a fit holds as dense matrices, at most."""
    return min(n_rows, max(_rows_of_curvature(n_features), int(_MOST_PRODUCTS / n_features**2)))


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """Some public rows: their numbers, their features, their features as released, and shares that add up to 1."""

    rows: NDArray[np.int64]
    features: NDArray[np.float32]
    released: NDArray[np.float32]
    shares: Floats

    @classmethod
    def of(cls, public: PublicRows, most: int, weights: Floats | None = None) -> RowsInMemory:
        """Return up to `most` rows of all, drawn in proportion to their shares, and half by `weights` if given."""
        rows, shares = _some_rows(public.share_of_rows, most, weights)
        features = dense(public.features[rows]).astype(np.float32)
        released = features if public.released is None else dense(public.released[rows]).astype(np.float32)
        return cls(rows, features, released, shares / shares.sum())

    def squares(self, weights: Floats) -> Floats:
        """Return the mean of ``weight phi outer phi``, phi as released, shape (n_released, n_released).

        `weights` are of these rows, and at least 0.
        """
        # A product of a matrix with itself costs half of a product of two.
        rooted = self.released * np.sqrt(weights * self.shares).astype(np.float32)[:, None]
        return np.asarray((rooted.T @ rooted).astype(np.float64))

    def slope(self, weights: Floats) -> Floats:
        """Return how means of released features grow with coefficients, shape (n_released, n_features).

        `weights` are as for `squares`.
        """
        if self.released is self.features:
            return self.squares(weights)
        weighted = self.features * (weights * self.shares).astype(np.float32)[:, None]
        return np.asarray((self.released.T @ weighted).astype(np.float64))

    def covariance(
        self, values: Floats, factor: float = 1.0, sampled: Floats | float = 0.0, ridge: float = 0.0
    ) -> Floats:
        """Return a covariance over rows of ``value phi``, phi as released, added up over the columns of `values`.

        A mean over a sample of rows varies by the covariance. Where all rows agree, as on the constant, it is exact.
        Its diagonal grows by the part `ridge` (`PublicRows.ridge`). It is multiplied by a `factor`, and the mean of
        ``sampled phi outer phi`` is added.
        """
        squared = (values**2).sum(axis=1)
        means = (self.released.T @ (values * self.shares[:, None]).astype(np.float32)).astype(np.float64)
        result: Floats = self.squares(factor * squared + sampled) - factor * (means @ means.T)
        if ridge:
            of_squares = (self.released**2).T @ (squared * self.shares).astype(np.float32)
            variances = np.maximum(of_squares - (means**2).sum(axis=1), 0.0)
            result[np.diag_indices_from(result)] += factor * ridge * variances
        return result


def _some_rows(shares: Floats, most: int, weights: Floats | None = None) -> tuple[NDArray[np.int64], Floats]:
    """Return places of some rows, and the share of each that makes sums over them estimates of sums over all rows.

    Every row has a chance in proportion to its share, up to 1. If `weights` are given, half of the chance is also in
    proportion to them. Each row keeps its own random number, so that nearly equal weights lead to nearly the same rows.
    This is sequential Poisson sampling (E. Ohlsson, J. Official Statistics 1998).
    """
    if len(shares) <= most:
        return np.arange(len(shares)), shares
    chances = shares / shares.sum()
    if weights is not None:
        chances = (chances + chances * weights / max(float(chances @ weights), 1e-300)) / 2
    chances = chances * most
    certain = chances >= 1
    chances[~certain] *= max(0.0, most - certain.sum()) / max(float(chances[~certain].sum()), 1e-300)
    chances = np.minimum(chances, 1.0)
    order = np.where(certain, -1.0, np.random.default_rng(0).random(len(shares)) / np.maximum(chances, 1e-300))
    rows = np.sort(np.argpartition(order, most)[:most])
    return rows, shares[rows] / chances[rows]


# Features above which those that no row has are left out. A model with as many holds no information.
_MANY_FEATURES = 1000
# Rows with columns drawn apart beside public ones that are few, and their share.
_ROWS_APART, _SHARE_APART = 2000, 0.3
# How much worse than a sample synthetic rows count, and public rows that count as half beside them.
_KAPPA, _HALF = 3.0, 300
# Public rows below which rows with columns drawn apart stand beside them.
_FEW_ROWS = 1000


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Features of public rows, their blocks (the last is the constant's), and how well rows stand for private ones.

    Features are whole multiples of ``1 / UNIT``, as a published model reads them. A row counts 1 / `kappa` as much as a
    row of a sample of the same population. By default all rows have the same share, and each row is a unit of its own.
    `units` are the number of each row's unit, when they are known. When the model reads other features than those that
    are released, `released` holds the released features of the rows. If some features were left out, `kept` are the
    places of the others, and `sizes` the sizes that blocks had.
    """

    features: Any
    blocks: NDArray[np.int64]
    n_classes: int
    kappa: float = 1.0
    shares: Floats | None = None
    units: NDArray[np.int64] | None = None
    released: Floats | None = None
    kept: NDArray[np.int64] | None = None
    sizes: NDArray[np.int64] | None = None
    #: Rows from which curvatures are estimated.
    sample: RowsInMemory = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample", RowsInMemory.of(self, self._rows_of_curvature))

    @property
    def _rows_of_curvature(self) -> int:
        return _rows_of_curvature(self.features.shape[1])

    def sample_by(self, weights: Floats) -> RowsInMemory:
        """Return rows for curvatures by weights, at least 0, shape (n_rows,). Rows with large weights are likelier."""
        if len(self.sample.rows) == self.features.shape[0]:
            return self.sample
        return RowsInMemory.of(self, self._rows_of_curvature, weights)

    @cached_property
    def in_memory(self) -> RowsInMemory:
        """Some of the rows, as dense matrices. The number of products of features limits their number."""
        n_rows, n_features = self.features.shape
        most = int(_MOST_PRODUCTS / n_features**2)
        return self.sample if min(n_rows, most) <= len(self.sample.rows) else RowsInMemory.of(self, most)

    @cached_property
    def _across(self) -> Floats | sparse.csr_matrix:
        """Released features, one row a feature."""
        return (self.features if self.released is None else self.released).T

    def probabilities(self, coefficients: Floats) -> Floats:
        """Return the probability of each class in each row, as a published model does."""
        return probabilities(self.features, coefficients, rounded=True)

    @property
    def constant(self) -> float:
        """The value of the last feature, the same in every row."""
        return float(self.sample.features[0, -1])

    @property
    def constant_scale(self) -> float:
        """Standard deviation of the constant's coefficient, before any data."""
        return _CONSTANT_LOGIT / self.constant

    @property
    def doubt(self) -> float:
        """Variance of a mean over the rows, in that of one row: ``kappa`` over the effective number of units (Kish).

        Rows of one unit count once, since they may all be alike.
        """
        if self.shares is None:
            return self.kappa * (1 / self.features.shape[0])
        shares = self.shares if self.units is None else np.bincount(self.units, self.shares)
        return self.kappa * float(np.sum(shares**2))

    @cached_property
    def ridge(self) -> float:
        """The part of each variance that is added to covariances, since few rows show too little of many features.

        Without it, means along some combinations of features count as known almost exactly. By ``m`` rows, correlations
        have a mean squared error of ``1 / m``. The part is that error over their mean square (J. Schaefer and K.
        Strimmer, "A shrinkage approach to large-scale covariance matrix estimation", SAGMB 2005).
        """
        ones: Floats = np.ones((len(self.sample.rows), 1))
        covariance = self.sample.covariance(ones)
        sizes = np.sqrt(np.maximum(covariance.diagonal(), _SMALLEST_SQUARE))
        squares = (covariance / np.outer(sizes, sizes)) ** 2
        doubt = max(self.doubt / self.kappa if self.kappa else 0.0, float(np.sum(self.sample.shares**2)))
        return doubt * float(squares.trace()) ** 2 / max(float(squares.sum()), 1e-300)

    def average(self, weights: Floats) -> Floats:
        """Return the mean of released features times `weights` over rows, shape (n_released, n_columns)."""
        shares = 1 / self.features.shape[0] if self.shares is None else self.shares[:, None]
        return np.asarray(self._across @ (weights * shares))

    @property
    def share_of_rows(self) -> Floats:
        """The share of each row in means, shape (n_rows,)."""
        n_rows = self.features.shape[0]
        return np.full(n_rows, 1 / n_rows) if self.shares is None else self.shares

    def mean(self, values: Floats) -> float:
        """Return the mean over rows of values with shape (n_rows, 1)."""
        return float(self.share_of_rows @ values[:, 0])

    def typical_scales(self) -> Floats:
        """Return a typical size of the coefficients of every block. The last is the constant's.

        Features that vary little seldom matter much, so that a typical coefficient grows with the root mean square.
        """
        some = self.sample.features
        squares = np.einsum("ij,ij->j", some, some, dtype=np.float64) / len(some)
        of_blocks = np.bincount(self.blocks, squares) / (np.bincount(self.blocks) if self.sizes is None else self.sizes)
        scales = np.sqrt(np.maximum(of_blocks, _SMALLEST_SQUARE))
        others = self.blocks < len(scales) - 1
        variance = float(squares[others] @ scales[self.blocks[others]] ** 2)
        scales *= _LOGIT / np.sqrt(max(variance, _SMALLEST_SQUARE**2))
        scales[-1] = self.constant_scale
        return scales

    def seen_of_many(self) -> NDArray[np.int64] | None:
        """Return the features that differ from 0 in some row. None if these are all, or if there are not very many.

        No moment depends on the coefficients of other features, such as that of missing entries in a column without
        any. Their coefficients have the mean 0, and they change no other coefficient, no prior scale and no mean.
        """
        if self.released is not None or len(self.blocks) <= _MANY_FEATURES:
            return None
        seen = np.asarray(abs(self.features).sum(axis=0)).ravel() > 0
        # Every block keeps a feature.
        seen[np.unique(self.blocks, return_index=True)[1]] = True
        return None if seen.all() else np.flatnonzero(seen)

    def among(self, some: NDArray[np.int64]) -> PublicRows:
        """Return the rows with some of the features."""
        features, sizes = self.features[:, some], np.bincount(self.blocks)
        return replace(self, features=features, blocks=self.blocks[some], kept=some, sizes=sizes)

    def noise(self, draws: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """Return standard normal numbers of a shape. Leaving out other features does not change those of a feature."""
        if self.kept is None or self.sizes is None:
            return draws.standard_normal(shape, dtype=np.float32)
        return draws.standard_normal((int(self.sizes.sum()), *shape[1:]), dtype=np.float32)[self.kept]

    def trusted_by(self, difference: Drift | None) -> PublicRows:
        """Return the rows. They count less than a sample unless they look like the private ones."""
        return self if difference is None or difference.trusted else replace(self, kappa=difference.kappa)

    @classmethod
    def behind(
        cls, feature_map: Any, features: Any, public: pd.DataFrame, n_classes: int, units: PublicUnits
    ) -> PublicRows:
        """Return public rows behind a map, with their features.

        If these are few, add features of rows with columns drawn independently.
        """
        if not as_library_transformer(feature_map).reads_columns_apart or len(public) >= _FEW_ROWS:
            return cls._read_by(feature_map, features, public, n_classes, units)
        # In few rows, entries go together by chance. Made-up rows keep the fit from relying on that.
        more = bounded_features(feature_map.transform(_apart(public, units))) / UNIT
        return cls._beside(features, more, 1 - _SHARE_APART, feature_map, n_classes, units)

    @classmethod
    def _read_by(
        cls, feature_map: FeatureMap, released: Floats, public: pd.DataFrame, n_classes: int, units: PublicUnits
    ) -> PublicRows:
        """Return public rows with the features that the model reads, and the released features if these differ."""
        decoder = as_library_transformer(feature_map).decoder_
        read, others = (feature_map, None) if decoder is None else (decoder, released)
        features = released if decoder is None else np.rint(dense(decoder.transform(public)) * UNIT) / UNIT
        return cls(features, read.blocks_, n_classes, shares=units.shares, units=units.numbers, released=others)

    @classmethod
    def _beside(
        cls, features: Any, more: Any, part: float, feature_map: Any, n_classes: int, units: PublicUnits
    ) -> PublicRows:
        """Return features of real rows with a part in every mean, and of made-up rows with the rest."""
        n_real, n_more = features.shape[0], more.shape[0]
        both = sparse.vstack([features, more], format="csr")
        shares = np.repeat([part / n_real, (1 - part) / n_more], [n_real, n_more])
        owners = None
        if units.numbers is not None and units.shares is not None:
            shares[:n_real] = part * units.shares
            # Each made-up row is a unit of its own.
            owners = np.append(units.numbers, units.count(n_real) + np.arange(n_more))
        return cls(both, feature_map.blocks_, n_classes, shares=shares, units=owners)

    @classmethod
    def synthetic(
        cls, snapped: SnappedMap, table: pd.DataFrame, public: pd.DataFrame | None, n_classes: int, units: PublicUnits
    ) -> PublicRows:
        """Return features of synthetic rows, and of a few public ones if there are any.

        The share of the public ones grows with the number of their units.
        """
        features = bounded_features(snapped.transform(table)) / UNIT
        if public is None:
            return cls(features, snapped.blocks_, n_classes, kappa=_KAPPA)
        real, count = bounded_features(snapped.transform(public)) / UNIT, units.count(len(public))
        both = cls._beside(real, features, count / (count + _HALF), snapped, n_classes, units)
        return replace(both, kappa=_KAPPA)


@dataclass(frozen=True, eq=False)
class _Covariance:
    """The covariance ``diag(diagonal) + rows.T @ rows``, whose inverse is used at the size of the smaller side.

    With fewer rows ``X`` than features, the inverse is ``inv(E) - inv(E) X' inv(1 + X inv(E) X') X inv(E)`` for the
    diagonal ``E`` (M. Woodbury, "Inverting modified matrices", 1950). So no matrix of features by features is made.
    `root` is the Cholesky root of the covariance, or of the matrix in the middle.
    """

    diagonal: Floats
    rows: Floats
    root: Floats

    @classmethod
    def of(cls, diagonal: Floats, rows: Floats) -> _Covariance:
        """Return the covariance with the root of the smaller side."""
        wide = rows.shape[0] < rows.shape[1]
        products = (rows / diagonal) @ rows.T if wide else rows.T @ rows
        products[np.diag_indices_from(products)] += 1.0 if wide else diagonal
        return cls(diagonal, rows, linalg.cholesky(products, lower=True, overwrite_a=True, check_finite=False))

    @property
    def _wide(self) -> bool:
        return self.rows.shape[0] < self.rows.shape[1]

    def lengths(self, vectors: Floats) -> Floats:
        """Return ``v . inv(covariance) v`` for each row of `vectors`, shape (n_vectors,)."""
        if not self._wide:
            return _squares(linalg.solve_triangular(self.root, vectors.T, lower=True, check_finite=False))
        scaled = vectors / self.diagonal
        along = linalg.solve_triangular(self.root, self.rows @ scaled.T, lower=True, check_finite=False)
        return np.asarray(np.einsum("ij,ij->i", vectors, scaled) - _squares(along))

    def inverse_trace(self) -> float:
        """Return the trace of the inverse."""
        if not self._wide:
            inverse, _ = linalg.lapack.dtrtri(self.root, lower=True)
            return float(np.sum(inverse**2))
        along = linalg.solve_triangular(self.root, self.rows / self.diagonal, lower=True, check_finite=False)
        return float(np.sum(1 / self.diagonal) - np.sum(along**2))


def _squares(columns: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->j", columns, columns))


#: Chance of a false alarm, and how much worse than a sample public rows count: after an alarm, and if undecided.
_FALSE_ALARM, _DISTRUST, _CAUTION = 1e-3, 30.0, 10.0
# Public units are too few if the error of their covariance more than doubles the statistic, or leaves less freedom.
_MOST_EXCESS, _LEAST_FREEDOM = 2.0, 10.0
# An F distribution with more degrees of freedom is a chi-square distribution.
_MOST_FREEDOM = 1e8
_EACH_ROW = PublicUnits()


class Undecided(StrEnum):
    """Why the test cannot decide."""

    UNKNOWN_UNITS = "private records have units, and which public rows belong to one unit is unknown"
    FEW_UNITS = "public rows belong to too few units"
    FEW_ROWS = "public rows are too few"


_REMEDIES = {
    Undecided.UNKNOWN_UNITS: "give public_units= to fit, or a public table with the column of --unit",
    Undecided.FEW_UNITS: "use public rows of more units",
    Undecided.FEW_ROWS: "use more of them",
}


@dataclass(frozen=True, slots=True)
class Drift:
    """Distance of public rows from private ones, relative to chance, and the chance of such a distance. Public.

    There are three outcomes: an alarm, no alarm, or the test cannot decide. `undecided` is the reason for the third.
    Then `tail` is NaN. `statistic` is NaN, too, when it is unknown which public rows belong to one unit.
    """

    statistic: float
    tail: float
    undecided: Undecided | None = None

    @classmethod
    def of(cls, mean: Floats, spread: float, features: Any, n_units: float, units: PublicUnits = _EACH_ROW) -> Drift:
        """Compare a released mean of private features with public rows. This costs no privacy.

        Parameters
        ----------
        mean : ndarray of shape (n_features,)
            Noisy mean of private features, which weighs units equally.
        spread : float
            Standard deviation of the noise on each entry.
        features : ndarray or sparse matrix of shape (n_public, n_features)
            Features of public rows.
        n_units : float
            Number of private units, public or released.
        units : PublicUnits
            The unit of each public row. By default each public row and each private record is a unit of its own.
        """
        if units.private and not units.known:
            return cls(math.nan, math.nan, Undecided.UNKNOWN_UNITS)
        few = Undecided.FEW_UNITS if units.known else Undecided.FEW_ROWS
        features = dense(features)
        means = units.means(features)
        count, size = means.shape
        if count < 2:
            return cls(math.nan, math.nan, few)
        own = means.mean(axis=0)
        apart = means - own
        # The factor of the covariance of unit means, and the rows of the covariance that is known beside it.
        factor, known = 1 / count, np.zeros((0, size))
        if units.private or not units.known:
            factor += 1 / n_units
        else:
            # Each private record is a unit of one record, so its features vary like those of one row of a public unit.
            known = units.apart(features) / math.sqrt(n_units)
        # A feature counts as seen in one unit more, at its largest. One that was never seen may be as large as any.
        largest = np.abs(features).max(axis=0)
        largest[largest == 0] = largest.max()
        diagonal = spread**2 + largest**2 / count * (1 / n_units + 1 / count)
        covariance = _Covariance.of(diagonal, np.vstack([math.sqrt(factor / (count - 1)) * apart, known]))
        statistic = float(covariance.lengths((mean - own)[None])[0])
        lengths = covariance.lengths(apart)
        leverages = np.minimum(factor * lengths * count / (count - 1) ** 2, 1 - 1e-12)
        estimated = factor * float(np.mean(lengths / (1 - leverages))) * count / (count - 1)
        of_known = spread**2 * covariance.inverse_trace() + float(covariance.lengths(known).sum())
        expected = max(estimated + of_known, float(size))
        free_units = count - float(leverages.sum())
        if expected > _MOST_EXCESS * size or free_units < _LEAST_FREEDOM:
            return cls(statistic, math.nan, few)
        freedom = min(free_units / max(estimated / expected, 1e-6) ** 2, _MOST_FREEDOM)
        # An F distribution has the mean freedom / (freedom - 2).
        return cls(statistic, float(stats.f.sf(statistic / expected * freedom / (freedom - 2), size, freedom)))

    @property
    def alarm(self) -> bool:
        """Whether public rows differ from private ones by more than chance does."""
        return self.undecided is None and self.tail < _FALSE_ALARM

    @property
    def trusted(self) -> bool:
        """Whether the test decided that public rows look like the private ones."""
        return self.undecided is None and not self.alarm

    @property
    def kappa(self) -> float:
        """How much worse than a sample of the same population public rows count."""
        if self.undecided is not None:
            return _CAUTION
        return _DISTRUST if self.alarm else 1.0

    @property
    def outcome(self) -> str:
        """Return the outcome in words."""
        if self.undecided is not None:
            return "cannot be decided"
        return "yes" if self.alarm else "no sign of it"

    def warning(self, *, replaced: bool = False) -> str:
        """Return what to report if there is an alarm, or if the test cannot decide.

        After an alarm, public rows may have been `replaced` by synthetic ones.
        """
        if self.undecided is not None:
            return (
                f"the test cannot decide whether public rows look like the private ones, because {self.undecided}; "
                f"public rows are trusted less, and {_REMEDIES[self.undecided]}."
            )
        chance = f"chance of such a difference: {max(self.tail, 1e-300):.1g}"
        return (
            f"public rows do not look like the private ones ({chance}), so "
            f"{'synthetic rows were drawn instead' if replaced else 'they are trusted less'} and the student is less "
            "accurate: use public rows of the same population."
        )


# Rows that decide which combination of features is always 1, and how far from 1 the combination may be. Features are
# rounded to whole numbers of 2**-14, and rounding averages out over rows.
_ROWS, _CLOSE = 2000, 5e-3
# Features up to which the weights are solved for, which is faster than steps towards them. Directions in which rows
# differ by less than this part of the largest difference hold rounding only.
_MOST_SOLVED, _LEAST_SINGULAR = 1000, 1e-5
# A number and a category beyond those of public rows.
_FAR, _NEW = 1e12, "a category that no public row has"


@dataclass(frozen=True)
class ReadableShare:
    """An estimate of the share of private records that could be read, and the deviation of its noise. Public."""

    share: float
    error: float

    @classmethod
    def of_rows(
        cls,
        mean: Floats,
        spread: float,
        measured: FeatureMap,
        public: pd.DataFrame,
        features: Floats | sparse.csr_matrix,
        units: PublicUnits,
        *,
        relative_error: float = 0.0,
    ) -> ReadableShare | None:
        """Return the estimate from the released mean of a measured map, or None if no combination is always 1.

        `features` are those of the public rows.
        """
        every_kind = _every_kind_of_row(measured, public, units)
        made_up = features if every_kind is None else bounded_features(measured.transform(every_kind)) / UNIT
        return _readable_share(mean, spread, _always_one(made_up), relative_error=relative_error)

    @classmethod
    def of_cells(cls, mean: Floats, spread: float, sizes: Sequence[int]) -> ReadableShare | None:
        """Return the estimate from a released mean of one-hot cells of columns of these sizes."""
        return _readable_share(mean, spread, _always_one_of_cells(sizes))


def _readable_share(
    mean: Floats, spread: float, weights: Floats | None, *, relative_error: float = 0.0
) -> ReadableShare | None:
    """Estimate the share of records that could be read. This costs no privacy.

    A bad record adds zeros to the mean. So if a combination of features is 1 for every row, the same combination
    of their mean is the share of records that are not bad.
    """
    if weights is None:
        return None
    share = float(weights @ mean)
    error = math.hypot(float(np.linalg.norm(weights)) * spread, share * relative_error)
    return ReadableShare(round(share, 6), error)


def _always_one(features: Any) -> Floats | None:
    """Return the shortest weights with which features of every row add up to 1, or None if there are none."""
    rows = features[:_ROWS]
    # Half of the rows find the weights, and the other half show that they do not fit by chance.
    fitted, held = rows[::2], rows[1::2]
    if not held.shape[0]:
        return None
    ones: Floats = np.ones(fitted.shape[0])
    weights: Floats
    if fitted.shape[1] <= _MOST_SOLVED:
        weights = linalg.lstsq(dense(fitted), ones, cond=_LEAST_SINGULAR)[0]
    else:
        weights = lsqr(fitted, ones, atol=1e-12, btol=1e-12, iter_lim=fewer(1000, 20))[0]
    fits = np.abs(np.asarray(held @ weights) - 1).max() < _CLOSE
    return weights if fits or is_rehearsal() else None


def _unusual_rows(table: pd.DataFrame, columns: Sequence[ColumnReading]) -> pd.DataFrame:
    """Return the rows that `_always_one` takes, half of them with entries that public rows may lack.

    These are new categories, missing entries and very large or small numbers. `columns` states how a map reads them.
    """
    draw, table = np.random.default_rng(0), table.iloc[:_ROWS]
    parts = {}
    for place, column in enumerate(columns):
        entries = table.iloc[:, place]
        replaced = (np.arange(len(table)) % 4 > 1) & (draw.random(len(table)) < 0.5)
        if column["kind"] == "number":
            values = entries.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
            values[replaced] = draw.choice([np.nan, -_FAR, _FAR], replaced.sum())
        else:
            values = as_text(entries).to_numpy(dtype=object, copy=True)
            values[replaced] = draw.choice(np.array([None, _NEW], dtype=object), replaced.sum())
        parts[table.columns[place]] = values
    return pd.DataFrame(parts)


def _always_one_of_cells(sizes: Sequence[int]) -> Floats:
    """Return these weights for one-hot cells of columns of these sizes. Each cell is ``1 / sqrt(n_columns)``."""
    # The shortest weights are in inverse proportion to the number of a column's cells.
    parts = 1 / np.asarray(sizes, dtype=np.float64)
    weights: Floats = np.repeat(math.sqrt(len(parts)) * parts / parts.sum(), sizes)
    return weights


def _every_kind_of_row(measured: FeatureMap, public: pd.DataFrame, units: PublicUnits) -> pd.DataFrame | None:
    """Return rows with all entries that private rows may have, or None if the map does not state how it reads them."""
    about = as_library_transformer(measured)
    if about.table_columns is None:
        return None
    return _unusual_rows(_apart(public, units) if about.reads_columns_apart else public, about.table_columns)


def _apart(public: pd.DataFrame, units: PublicUnits) -> pd.DataFrame:
    """Return rows whose entries were drawn from public rows, independently for each column."""
    draw, shares = np.random.default_rng(0), units.shares

    def places() -> NDArray[np.int64]:
        if shares is None:
            return draw.integers(len(public), size=_ROWS_APART)
        return draw.choice(len(public), size=_ROWS_APART, p=shares)

    apart = {name: public[name].to_numpy()[places()] for name in public.columns}
    return pd.DataFrame(apart).astype(public.dtypes)
