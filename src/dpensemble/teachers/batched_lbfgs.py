"""L-BFGS on a block of small penalised logistic regressions at once.

Each array has the teacher as its first axis, and every operation acts on each
teacher alone, with its own step length, memory and stopping decision. So which
teachers share a block cannot alter any teacher's result.

Parameters have shape (n_teachers, n_outputs, n_features + 1), the intercept last,
and refer to features that each teacher centres and scales by its own records:
one-hot columns are nearly collinear with the intercept, and centring halves the
number of iterations.

References
----------
Nocedal and Wright, Numerical Optimization, 2nd edition, sections 7.2 (two-loop
recursion) and 3.5 (step lengths).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Past steps that model the curvature; more gain little.
_MEMORY = 8
_MAX_HALVINGS = 30
# A record's share of the curvature, p(1 - p), near a typical optimum; its upper bound is 0.25.
_TYPICAL_CURVATURE = 0.05


class Design:
    """Centred and scaled features of a block of shards.

    Parameters
    ----------
    mean, scale : ndarray of shape (n_teachers, n_features + 1)
        What each teacher subtracts from a feature, then multiplies it by.
    """

    def __init__(self, mean: Array, scale: Array) -> None:
        self.mean = mean
        self.scale = scale

    def scores(self, params: Array) -> Array:
        """Return scores of shape (n_teachers, n_outputs, n_rows)."""
        raise NotImplementedError

    def gradient(self, residual: Array) -> Array:
        """Return the loss's gradient, in the shape of the parameters."""
        raise NotImplementedError

    def unscaled(self, params: Array) -> tuple[Array, Array]:
        """Return coefficients and intercepts that apply to the features as they came."""
        params = params * self.scale[:, None, :]
        coef = params[..., :-1]
        return coef, params[..., -1] - np.einsum("trd,td->tr", coef, self.mean[:, :-1])


def _scale(total: Array, mean: Array, spread: Array, inverse_c: float, fit_intercept: bool) -> Array:
    """Return the scale that makes the objective's curvature about 1 along every feature.

    A feature that is constant in a shard, up to rounding, gets scale and hence coefficient zero.
    """
    scale = 1.0 / np.sqrt(_TYPICAL_CURVATURE * np.maximum(spread, 0.0) + inverse_c)
    scale[spread <= 1e-13 * total * np.square(mean)] = 0.0
    # Without an intercept its scale is zero too, which holds it at zero.
    scale[:, -1] = 1.0 / np.sqrt(_TYPICAL_CURVATURE * total[:, 0]) if fit_intercept else 0.0
    return scale


class DenseDesign(Design):
    """A padded array of shape (n_teachers, n_rows, n_features + 1)."""

    def __init__(
        self,
        X: Array,
        shards: list[NDArray[np.int64]],
        weights: Array,
        inverse_c: float,
        fit_intercept: bool,
    ) -> None:
        features = np.zeros((*weights.shape, X.shape[1] + 1))
        for teacher, shard in enumerate(shards):
            features[teacher, : len(shard), :-1] = X[shard]
        total = weights.sum(axis=1, keepdims=True)
        mean = np.zeros((len(shards), features.shape[2]))
        if fit_intercept:
            mean = (weights[:, None, :] @ features)[:, 0] / total
            features -= mean[:, None, :]
        spread = (weights[:, None, :] @ np.square(features))[:, 0]
        scale = _scale(total, mean, spread, inverse_c, fit_intercept)
        features[..., -1] = 1.0
        features *= scale[:, None, :]
        self._features = features
        super().__init__(mean, scale)

    def scores(self, params: Array) -> Array:
        """Return scores of shape (n_teachers, n_outputs, n_rows)."""
        return params @ self._features.transpose(0, 2, 1)

    def gradient(self, residual: Array) -> Array:
        """Return the loss's gradient, in the shape of the parameters."""
        return residual @ self._features


class SparseDesign(Design):
    """One block-diagonal sparse matrix; the intercept's column is empty and added apart.

    Rows are scaled but not centred, which would fill them; centring is applied to the products.
    """

    def __init__(
        self,
        X: sp.csr_array,
        shards: list[NDArray[np.int64]],
        weights: Array,
        inverse_c: float,
        fit_intercept: bool,
    ) -> None:
        n_teachers, n_rows = weights.shape
        width = X.shape[1] + 1
        sizes = np.array([len(shard) for shard in shards])
        rows = X[np.concatenate(shards)]
        bounds = rows.indptr[np.concatenate(([0], np.cumsum(sizes)))]
        first_column = np.arange(n_teachers, dtype=rows.indices.dtype) * width
        columns = rows.indices + np.repeat(first_column, np.diff(bounds))
        starts = np.zeros(n_teachers * n_rows + 1, dtype=columns.dtype)
        starts[1:][(np.arange(n_rows) < sizes[:, None]).ravel()] = np.diff(rows.indptr)
        np.cumsum(starts, out=starts)
        shape = (n_teachers * n_rows, n_teachers * width)
        matrix = sp.csr_array((np.square(rows.data), columns, starts), shape=shape)
        spread = (matrix.T @ weights.ravel()).reshape(n_teachers, width)
        matrix.data = rows.data
        total = weights.sum(axis=1, keepdims=True)
        mean = np.zeros((n_teachers, width))
        if fit_intercept:
            mean = (matrix.T @ weights.ravel()).reshape(n_teachers, width) / total
            spread -= total * np.square(mean)
        scale = _scale(total, mean, spread, inverse_c, fit_intercept)
        matrix.data *= scale.ravel()[columns]
        self._matrix, self._transposed = matrix, matrix.T
        self._shift = -mean * scale
        self._shift[:, -1] = scale[:, -1]
        self._shape = (n_teachers, n_rows, width)
        super().__init__(mean, scale)

    def scores(self, params: Array) -> Array:
        """Return scores of shape (n_teachers, n_outputs, n_rows)."""
        n_teachers, n_rows, _ = self._shape
        products = self._matrix @ _outputs_last(params)
        shift = np.einsum("trd,td->tr", params, self._shift)
        return _outputs_first(products, n_teachers, n_rows) + shift[..., None]

    def gradient(self, residual: Array) -> Array:
        """Return the loss's gradient, in the shape of the parameters."""
        n_teachers, _, width = self._shape
        products = self._transposed @ _outputs_last(residual)
        return _outputs_first(products, n_teachers, width) + (
            residual.sum(axis=2)[..., None] * self._shift[:, None, :]
        )


def _outputs_last(values: Array) -> Array:
    return values.transpose(0, 2, 1).reshape(-1, values.shape[1])


def _outputs_first(products: Array, n_teachers: int, length: int) -> Array:
    return np.ascontiguousarray(products.reshape(n_teachers, length, -1).transpose(0, 2, 1))


class Loss(Protocol):
    """Weighted log loss of a block; padding rows have weight zero."""

    def __call__(self, scores: Array) -> tuple[Array, Array]:
        """Return each teacher's loss and its derivative with respect to the scores."""

    def curvature(self, direction: Array) -> Array:
        """Return each teacher's second derivative along `direction`, at the last scores evaluated."""


class BinaryLoss:
    """Log loss of two classes, from one score a row."""

    def __init__(self, labels: NDArray[np.int64], weights: Array) -> None:
        # Padding has sign 0, so its margin is 0 whatever its score.
        signs = np.where(weights > 0.0, 2.0 * labels - 1.0, 0.0)[:, None, :]
        self._negative_signs = -signs
        self._slopes = -weights[:, None, :] * signs
        self._weights = weights[:, None, :]
        self._correct = np.empty(0)

    def __call__(self, scores: Array) -> tuple[Array, Array]:
        """Return each teacher's loss and its derivative with respect to the scores."""
        correct = self._negative_signs * scores
        np.exp(correct, out=correct)
        correct += 1.0
        np.reciprocal(correct, out=correct)
        self._correct = correct
        return -_dot(self._weights, np.log(correct)), self._slopes * (1.0 - correct)

    def curvature(self, direction: Array) -> Array:
        """Return each teacher's second derivative along `direction`, at the last scores evaluated."""
        spread = self._correct * (1.0 - self._correct)
        spread *= self._weights
        spread *= direction
        return _dot(spread, direction)


class SoftmaxLoss:
    """Multinomial log loss, from one score a row and class."""

    def __init__(self, labels: NDArray[np.int64], weights: Array, n_outputs: int) -> None:
        self._one_hot = (labels[:, None, :] == np.arange(n_outputs)[None, :, None]).astype(np.float64)
        self._weights = weights[:, None, :]
        self._probabilities = np.empty(0)

    def __call__(self, scores: Array) -> tuple[Array, Array]:
        """Return each teacher's loss and its derivative with respect to the scores."""
        shifted = scores - scores.max(axis=1, keepdims=True)
        own = np.einsum("tcn,tcn->tn", self._one_hot, shifted)
        np.exp(shifted, out=shifted)
        total = shifted.sum(axis=1, keepdims=True)
        shifted /= total
        self._probabilities = shifted
        value = _dot(self._weights, np.log(total) - own[:, None, :])
        return value, self._weights * (shifted - self._one_hot)

    def curvature(self, direction: Array) -> Array:
        """Return each teacher's second derivative along `direction`, at the last scores evaluated."""
        first = self._probabilities * direction
        spread = np.einsum("tcn,tcn->tn", first, direction) - np.square(first.sum(axis=1))
        return _dot(self._weights, spread[:, None, :])


def _dot(a: Array, b: Array) -> Array:
    """Return each teacher's inner product of two arrays."""
    return np.einsum("ti,ti->t", a.reshape(len(a), -1), b.reshape(len(b), -1))


class _Memory:
    """Each teacher's last steps and gradient changes, applied as an inverse Hessian."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._pairs: list[tuple[Array, Array, Array]] = []
        self._initial = np.ones(shape[0])
        self._scratch = np.empty(shape)

    def add(self, step: Array, change: Array) -> None:
        product, length = _dot(step, change), _dot(change, change)
        # A teacher without positive curvature, such as one that stands still, keeps a pair of no effect.
        useful = product > 1e-10 * length
        inverse = np.divide(1.0, product, out=np.zeros_like(product), where=useful)
        np.divide(product, length, out=self._initial, where=useful)
        self._pairs = [*self._pairs[1 - _MEMORY :], (step, change, inverse)]

    def descend(self, gradient: Array) -> Array:
        """Return minus the inverse Hessian's product with the gradient."""
        direction, weights = -gradient, []
        for step, change, inverse in reversed(self._pairs):
            weights.append(inverse * _dot(step, direction))
            direction -= np.multiply(_column(weights[-1]), change, out=self._scratch)
        direction *= _column(self._initial)
        for (step, change, inverse), weight in zip(self._pairs, reversed(weights), strict=True):
            correction = weight - inverse * _dot(change, direction)
            direction += np.multiply(_column(correction), step, out=self._scratch)
        return direction


def _column(values: Array) -> Array:
    return values[:, None, None]


@dataclass(frozen=True, eq=False)
class _Point:
    """Where the teachers of a block are, and their objectives there."""

    params: Array
    scores: Array
    value: Array
    residual: Array


class _Objective:
    """Each teacher's loss plus its L2 penalty."""

    def __init__(self, design: Design, loss: Loss, inverse_c: float) -> None:
        self.design = design
        self._loss = loss
        self._penalty = np.square(design.scale)[:, None, :] * inverse_c
        self._penalty[..., -1] = 0.0

    def at(self, params: Array, scores: Array) -> _Point:
        value, residual = self._loss(scores)
        return _Point(params, scores, value + 0.5 * _dot(self._penalty * params, params), residual)

    def gradient(self, point: _Point) -> Array:
        return self.design.gradient(point.residual) + self._penalty * point.params

    def curvature(self, direction: Array, along: Array) -> Array:
        """Return the second derivative at the last point, for a direction and its scores."""
        return self._loss.curvature(along) + _dot(self._penalty * direction, direction)


def minimise(
    design: Design, loss: Loss, inverse_c: float, start: Array, tolerance: float, max_iter: int
) -> tuple[Array, NDArray[np.bool_]]:
    """Minimise each teacher's loss plus its L2 penalty.

    A teacher is finished, and never moves again, once the norm of its gradient
    is below `tolerance` (relative to its coefficients if these are small), or no
    step improves its objective. A step to a value that is not finite is not taken.

    Parameters
    ----------
    design, loss : Design, Loss
        The block's features and labels.
    inverse_c : float
        Strength of the penalty.
    start : ndarray of shape (n_teachers, n_outputs, n_features + 1)
        Where each teacher starts.
    tolerance : float
        On the gradient with respect to the parameters.
    max_iter : int
        Iterations.

    Returns
    -------
    params : ndarray, in the shape of `start`
        Where each teacher stopped.
    finished : ndarray of bool of shape (n_teachers,)
        False for those that `max_iter` stopped.
    """
    objective, memory = _Objective(design, loss, inverse_c), _Memory(start.shape)
    point = objective.at(start, design.scores(start))
    gradient = objective.gradient(point)
    active = np.ones(len(start), dtype=np.bool_)
    for _ in range(max_iter):
        coef = point.params[..., :-1]
        goal = tolerance * np.clip(np.sqrt(_dot(coef, coef)), 1e-3, 1.0)
        active &= np.sqrt(_dot(gradient, gradient)) > goal
        if not active.any():
            break
        direction = memory.descend(gradient)
        direction[~active] = 0.0
        new, active = _search(objective, point, direction, _dot(gradient, direction), active)
        new_gradient = objective.gradient(new)
        memory.add(new.params - point.params, new_gradient - gradient)
        point, gradient = new, new_gradient
    return point.params, ~active


def _search(
    objective: _Objective, point: _Point, direction: Array, slope: Array, active: NDArray[np.bool_]
) -> tuple[_Point, NDArray[np.bool_]]:
    """Step along a direction, halving until the objective decreases; return who has moved."""
    along = objective.design.scores(direction)
    # Newton's step along the direction, which is nearly always accepted.
    curvature = objective.curvature(direction, along)
    length = np.divide(-slope, curvature, out=np.zeros_like(slope), where=active)
    for _ in range(_MAX_HALVINGS):
        new = objective.at(point.params + _column(length) * direction, point.scores + _column(length) * along)
        bound = point.value + 1e-4 * length * slope + 1e-14 * np.abs(point.value)
        # Not written with >, so that a value that is not finite fails.
        failed = active & ~(new.value <= bound)
        if not failed.any():
            return new, active
        length[failed] *= 0.5
    direction[failed], along[failed], length[failed] = 0.0, 0.0, 0.0
    new = objective.at(point.params + _column(length) * direction, point.scores + _column(length) * along)
    return new, active & ~failed
