"""Public rows, which stand for the private ones in a fit: their features, shares, and means over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpensemble._arrays import Floats, dense
from dpensemble.moments.model import chances_of, logits_of_whole, whole_units

#: Standard deviation of the constant's part of a logit, before any data.
CONSTANT_LOGIT = 5.0
# The same of the other features together, and the smallest mean square of a block that is assumed.
_LOGIT, _SMALLEST_SQUARE = 1.0, 1e-6
# Rows from which curvatures are estimated: limited by the number of products, but never fewer than these.
_MOST_PRODUCTS, _FEWEST_ROWS, _ROWS_PER_FEATURE = 4e9, 4000, 6


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """Some public rows: their numbers, their features, their features as released, and shares that add up to 1."""

    rows: NDArray[np.int64]
    features: NDArray[np.float32]
    released: NDArray[np.float32]
    shares: Floats

    def products(self, weights: Floats, features: NDArray[np.float32]) -> Floats:
        """Return the mean of weighted products of released features and `features`. `weights` are of all rows."""
        weighted = features * (weights[self.rows] * self.shares)[:, None].astype(np.float32)
        means: Floats = (self.released.T @ weighted).astype(np.float64)
        return means


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Features of public rows, their blocks (the last is the constant's), and how well rows stand for private ones.

    A row counts 1 / `kappa` as much as a row of a sample of the same population. By default all rows have the same
    share, and each row is a unit of its own. `units` are the number of each row's unit, when they are known. When the
    model reads other features than those that are released, `released` holds the released features of the rows.
    """

    features: Any
    blocks: NDArray[np.int64]
    n_classes: int
    kappa: float = 1.0
    shares: Floats | None = None
    units: NDArray[np.int64] | None = None
    released: Floats | None = None
    _some: RowsInMemory = field(init=False)

    def __post_init__(self) -> None:
        n_rows, n_features = self.features.shape
        most = max(_FEWEST_ROWS, _ROWS_PER_FEATURE * n_features, int(_MOST_PRODUCTS / n_features**2))
        rows = np.sort(np.random.default_rng(0).permutation(n_rows)[:most])
        features = dense(self.features[rows]).astype(np.float32)
        released = features if self.released is None else dense(self.released[rows]).astype(np.float32)
        shares = np.ones(len(rows)) if self.shares is None else self.shares[rows]
        object.__setattr__(self, "_some", RowsInMemory(rows, features, released, shares / shares.sum()))

    @property
    def in_memory(self) -> RowsInMemory:
        """Some of the rows, as dense matrices. The number of products of features limits their number."""
        return self._some

    @cached_property
    def _sparse_whole(self) -> sparse.csr_matrix:
        return whole_units(self.features)

    @cached_property
    def _across(self) -> Floats | sparse.csr_matrix:
        """Released features, one row a feature."""
        return (self.features if self.released is None else self.released).T

    def probabilities(self, coefficients: Floats) -> Floats:
        """Return the probability of each class in each row, as `dpensemble.moments.model.probabilities` does."""
        # Whole units of a dense matrix would take as much memory as the matrix.
        whole = whole_units(self.features) if isinstance(self.features, np.ndarray) else self._sparse_whole
        return chances_of(logits_of_whole(whole, coefficients))

    @property
    def constant(self) -> float:
        """The value of the last feature, the same in every row."""
        return float(self._some.features[0, -1])

    @property
    def doubt(self) -> float:
        """Variance of a mean over the rows, in that of one row: ``kappa`` over the effective number of units (Kish).

        Rows of one unit count once, since they may all be alike.
        """
        if self.shares is None:
            return self.kappa * (1 / self.features.shape[0])
        shares = self.shares if self.units is None else np.bincount(self.units, self.shares)
        return self.kappa * float(np.sum(shares**2))

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

    def curvature(self, weights: Floats) -> Floats:
        """Return the mean of ``weight phi outer phi`` over rows, phi as released, shape (n_released, n_released)."""
        return self._some.products(weights, self._some.released)

    def covariance(self, values: Floats) -> Floats:
        """Return the covariance over rows of ``value phi``, phi as released, added up over the columns of `values`.

        A mean over a sample of rows varies by the covariance. Where all rows agree, as on the constant, it is exact.
        """
        some = self._some
        means = some.released.T.astype(np.float64) @ (values[some.rows] * some.shares[:, None])
        return self.curvature((values**2).sum(axis=1)) - means @ means.T

    def typical_scales(self) -> Floats:
        """Return a typical size of the coefficients of every block. The last is the constant's.

        Features that vary little seldom matter much, so that a typical coefficient grows with the root mean square.
        """
        some = self._some.features
        squares = np.einsum("ij,ij->j", some, some, dtype=np.float64) / len(some)
        of_blocks = np.bincount(self.blocks, squares) / np.bincount(self.blocks)
        scales = np.sqrt(np.maximum(of_blocks, _SMALLEST_SQUARE))
        others = self.blocks < len(scales) - 1
        variance = float(squares[others] @ scales[self.blocks[others]] ** 2)
        scales *= _LOGIT / np.sqrt(max(variance, _SMALLEST_SQUARE**2))
        scales[-1] = CONSTANT_LOGIT / self.constant
        return scales

    def slope(self, weights: Floats) -> Floats:
        """Return how means of released features grow with coefficients, shape (n_released, n_features)."""
        return self._some.products(weights, self._some.features)
