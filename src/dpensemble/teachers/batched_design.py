"""A block of shards as arrays, with features centred and scaled by each shard's own records.

One-hot columns are nearly collinear with an intercept, and columns of different spread make the objective's curvature
uneven. Centring and scaling more than halve the iterations of a quasi-Newton method, and keep the penalised objective.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpensemble._arrays import Integers

Array = NDArray[np.float64]

# A record's share of the curvature, p(1 - p), near a typical optimum. Its upper bound is 0.25.
_TYPICAL_CURVATURE = 0.05


@dataclass(frozen=True, eq=False)
class Scaling:
    """What each teacher subtracts from a feature, and then multiplies it by. The intercept comes last."""

    mean: Array
    scale: Array  # zero holds a coefficient at zero
    inverse_c: float  # penalty as scikit-learn states it, 1 / C

    @classmethod
    def of(cls, total: Array, mean: Array, spread: Array, inverse_c: float, fit_intercept: bool) -> Scaling:
        """Scale by weighted means and sums of squared deviations: curvature about 1 along every feature."""
        scale = 1.0 / np.sqrt(_TYPICAL_CURVATURE * np.maximum(spread, 0.0) + inverse_c)
        # Constant up to rounding, or too large to square: such coefficients are held at zero.
        scale[~(spread > 1e-13 * total * np.square(mean))] = 0.0
        scale[:, -1] = 1.0 / np.sqrt(_TYPICAL_CURVATURE * total[:, 0]) if fit_intercept else 0.0
        return cls(mean, scale, inverse_c)

    @property
    def penalty(self) -> Array:
        """Penalty on each parameter, shape (n_teachers, 1, n_features + 1)."""
        penalty: Array = np.square(self.scale)[:, None, :] * self.inverse_c
        penalty[..., -1] = 0.0
        return penalty

    def undo(self, params: Array) -> tuple[Array, Array]:
        """Return the coefficients and intercepts for the original features."""
        scaled = params * self.scale[:, None, :]
        coef, intercept = scaled[..., :-1], scaled[..., -1]
        return coef, intercept - np.einsum("tof,tf->to", coef, self.mean[:, :-1])


class Design(Protocol):
    """Products with the scaled features of a block."""

    def scores(self, params: Array) -> Array:
        """Return scores of shape (n_teachers, n_outputs, n_rows)."""

    def pull_back(self, derivative: Array) -> Array:
        """Return a derivative with respect to parameters from one with respect to scores."""

    def take(self, keep: NDArray[np.intp]) -> Design:
        """Return the design of some of the teachers."""


@dataclass(frozen=True, eq=False)
class DenseDesign:
    """One array of shape (n_teachers, n_rows, n_features + 1)."""

    features: Array

    @classmethod
    def of(
        cls, X: Array, shards: list[Integers], weights: Array, inverse_c: float, fit_intercept: bool
    ) -> tuple[DenseDesign, Scaling]:
        """Gather and scale shards. Weights of shape (n_teachers, n_rows) are zero for padding."""
        features = np.zeros((*weights.shape, X.shape[1] + 1))
        for teacher, shard in enumerate(shards):
            features[teacher, : len(shard), :-1] = X[shard]
        total = weights.sum(axis=1, keepdims=True)
        mean = np.zeros((len(shards), features.shape[2]))
        if fit_intercept:
            mean = (weights[:, None, :] @ features)[:, 0] / total
            features -= mean[:, None, :]
        spread = (weights[:, None, :] @ np.square(features))[:, 0]
        scaling = Scaling.of(total, mean, spread, inverse_c, fit_intercept)
        features[..., -1] = 1.0
        features *= scaling.scale[:, None, :]
        return cls(features), scaling

    def scores(self, params: Array) -> Array:
        """Return scores of shape (n_teachers, n_outputs, n_rows)."""
        return params @ self.features.transpose(0, 2, 1)

    def pull_back(self, derivative: Array) -> Array:
        """Return a derivative with respect to parameters from one with respect to scores."""
        return derivative @ self.features

    def take(self, keep: NDArray[np.intp]) -> DenseDesign:
        """Return the design of some of the teachers."""
        return DenseDesign(self.features[keep])


@dataclass(frozen=True, eq=False)
class SparseDesign:
    """One block-diagonal matrix, scaled but not centred, since centring would fill it. A shift centres its products."""

    matrix: sp.csr_array  # one block a teacher, with an empty column for the intercept
    shift: Array  # (n_teachers, n_features + 1), added to every row of a teacher's block

    @classmethod
    def of(
        cls, X: sp.csr_array, shards: list[Integers], weights: Array, inverse_c: float, fit_intercept: bool
    ) -> tuple[SparseDesign, Scaling]:
        """Gather and scale shards. Weights of shape (n_teachers, n_rows) are zero for padding."""
        n_teachers, n_rows = weights.shape
        width = X.shape[1] + 1
        sizes = np.array([len(shard) for shard in shards])
        rows = X[np.concatenate(shards)]
        lengths = np.zeros((n_teachers, n_rows), dtype=rows.indptr.dtype)
        lengths[np.arange(n_rows) < sizes[:, None]] = np.diff(rows.indptr)
        matrix = _block_diagonal(np.square(rows.data), rows.indices, lengths, width)
        total = weights.sum(axis=1, keepdims=True)
        mean = np.zeros((n_teachers, width))
        spread = (matrix.T @ weights.ravel()).reshape(n_teachers, width)
        matrix.data = rows.data
        if fit_intercept:
            mean = (matrix.T @ weights.ravel()).reshape(n_teachers, width) / total
            spread -= total * np.square(mean)
        scaling = Scaling.of(total, mean, spread, inverse_c, fit_intercept)
        matrix.data *= scaling.scale.ravel()[matrix.indices]
        shift = -mean * scaling.scale
        shift[:, -1] = scaling.scale[:, -1]
        return cls(matrix, shift), scaling

    def scores(self, params: Array) -> Array:
        """Return scores of shape (n_teachers, n_outputs, n_rows)."""
        products = _outputs_first(self.matrix @ _outputs_last(params), len(params))
        products += np.einsum("tof,tf->to", params, self.shift)[..., None]
        return products

    def pull_back(self, derivative: Array) -> Array:
        """Return a derivative with respect to parameters from one with respect to scores."""
        products = _outputs_first(self.matrix.T @ _outputs_last(derivative), len(derivative))
        products += derivative.sum(axis=2)[..., None] * self.shift[:, None, :]
        return products

    def take(self, keep: NDArray[np.intp]) -> SparseDesign:
        """Return the design of some of the teachers."""
        n_teachers, width = self.shift.shape
        n_rows = self.matrix.shape[0] // n_teachers
        rows = self.matrix[(keep[:, None] * n_rows + np.arange(n_rows)).ravel()]
        lengths = np.diff(rows.indptr).reshape(len(keep), n_rows)
        return SparseDesign(_block_diagonal(rows.data, rows.indices % width, lengths, width), self.shift[keep])


def _block_diagonal(data: Array, columns: NDArray[np.int32], lengths: NDArray[np.int32], width: int) -> sp.csr_array:
    """Return a matrix with one block of `width` columns for each row of `lengths`, which holds its rows' nonzeros."""
    n_teachers, n_rows = lengths.shape
    first_columns = np.arange(n_teachers, dtype=columns.dtype) * width
    columns = columns + np.repeat(first_columns, lengths.sum(axis=1))
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(columns.dtype)
    return sp.csr_array((data, columns, starts), shape=(n_teachers * n_rows, n_teachers * width))


def _outputs_last(values: Array) -> Array:
    return values.transpose(0, 2, 1).reshape(-1, values.shape[1])


def _outputs_first(products: Array, n_teachers: int) -> Array:
    return np.ascontiguousarray(products.reshape(n_teachers, -1, products.shape[1]).transpose(0, 2, 1))


def labels_and_weights(y: Integers, shards: list[Integers], counts: Integers, n_rows: int) -> tuple[Integers, Array]:
    """Return labels, numbered among a shard's own classes, and weights as if balanced, zero for padding."""
    sizes = counts.sum(axis=1)
    real = np.arange(n_rows) < sizes[:, None]
    owners, classes = np.nonzero(real)[0], y[np.concatenate(shards)]
    labels, weights = np.zeros(real.shape, dtype=np.int64), np.zeros(real.shape)
    labels[real] = (np.cumsum(counts > 0, axis=1) - 1)[owners, classes]
    n_present = np.count_nonzero(counts, axis=1)
    weights[real] = (sizes / n_present)[owners] / counts[owners, classes]
    return labels, weights
