"""Thousands of logistic-regression teachers fitted together, with the results of scikit-learn one by one.

Teachers are grouped by properties of their own records (size rounded up, classes present, share of nonzeros), and
each group is fitted in blocks. Neither grouping nor blocks can alter a teacher.

A block holds shards as arrays, with features centred and scaled by each shard's own records. One-hot columns are nearly
collinear with an intercept, and columns of different spread make the objective's curvature uneven. Centring and scaling
more than halve the iterations of a quasi-Newton method, and keep the penalised objective.

L-BFGS minimises a block of small penalised logistic regressions at once. Each array has the teacher as its first axis,
and every operation acts on each teacher separately, with its own step length, memory and stopping decision. So a
teacher's result does not depend on the teachers that share its block.

References
----------
Nocedal and Wright, Numerical Optimization, 2nd edition, sections 3.1 (sufficient decrease), 7.2 (two-loop recursion).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from dpensemble._entries import Ballots, Integers
from dpensemble._work import one_thread
from dpensemble.votes import ballot_dtype

_Array = NDArray[np.float64]

# A record's share of the curvature, p(1 - p), near a typical optimum. Its upper bound is 0.25.
_TYPICAL_CURVATURE = 0.05


@dataclass(frozen=True, eq=False)
class _Scaling:
    """What each teacher subtracts from a feature, and then multiplies it by. The intercept comes last."""

    mean: _Array
    scale: _Array  # zero holds a coefficient at zero
    inverse_c: float  # penalty as scikit-learn states it, 1 / C

    @classmethod
    def of(cls, total: _Array, mean: _Array, spread: _Array, inverse_c: float, fit_intercept: bool) -> _Scaling:
        """Scale by weighted means and sums of squared deviations: curvature about 1 along every feature."""
        scale = 1.0 / np.sqrt(_TYPICAL_CURVATURE * np.maximum(spread, 0.0) + inverse_c)
        # Constant up to rounding, or too large to square: such coefficients are held at zero.
        scale[~(spread > 1e-13 * total * np.square(mean))] = 0.0
        scale[:, -1] = 1.0 / np.sqrt(_TYPICAL_CURVATURE * total[:, 0]) if fit_intercept else 0.0
        return cls(mean, scale, inverse_c)

    @property
    def penalty(self) -> _Array:
        """Penalty on each parameter, shape (n_teachers, 1, n_features + 1)."""
        penalty: _Array = np.square(self.scale)[:, None, :] * self.inverse_c
        penalty[..., -1] = 0.0
        return penalty

    def undo(self, params: _Array) -> tuple[_Array, _Array]:
        """Return the coefficients and intercepts for the original features."""
        scaled = params * self.scale[:, None, :]
        coef, intercept = scaled[..., :-1], scaled[..., -1]
        return coef, intercept - np.einsum("tof,tf->to", coef, self.mean[:, :-1])


class _Design(Protocol):
    """Products with the scaled features of a block."""

    def scores(self, params: _Array) -> _Array:
        """Return scores of shape (n_teachers, n_outputs, n_rows)."""

    def pull_back(self, derivative: _Array) -> _Array:
        """Return a derivative with respect to parameters from one with respect to scores."""

    def take(self, keep: NDArray[np.intp]) -> _Design:
        """Return the design of some of the teachers."""


@dataclass(frozen=True, eq=False)
class _DenseDesign:
    """One array of shape (n_teachers, n_rows, n_features + 1)."""

    features: _Array

    @classmethod
    def of(
        cls, X: _Array, shards: list[Integers], weights: _Array, inverse_c: float, fit_intercept: bool
    ) -> tuple[_DenseDesign, _Scaling]:
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
        scaling = _Scaling.of(total, mean, spread, inverse_c, fit_intercept)
        features[..., -1] = 1.0
        features *= scaling.scale[:, None, :]
        return cls(features), scaling

    def scores(self, params: _Array) -> _Array:
        """Return scores of shape (n_teachers, n_outputs, n_rows)."""
        return params @ self.features.transpose(0, 2, 1)

    def pull_back(self, derivative: _Array) -> _Array:
        """Return a derivative with respect to parameters from one with respect to scores."""
        return derivative @ self.features

    def take(self, keep: NDArray[np.intp]) -> _DenseDesign:
        """Return the design of some of the teachers."""
        return _DenseDesign(self.features[keep])


@dataclass(frozen=True, eq=False)
class _SparseDesign:
    """One block-diagonal matrix, scaled but not centred, since centring would fill it. A shift centres its products."""

    matrix: sp.csr_array  # one block a teacher, with an empty column for the intercept
    shift: _Array  # (n_teachers, n_features + 1), added to every row of a teacher's block

    @classmethod
    def of(
        cls, X: sp.csr_array, shards: list[Integers], weights: _Array, inverse_c: float, fit_intercept: bool
    ) -> tuple[_SparseDesign, _Scaling]:
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
        scaling = _Scaling.of(total, mean, spread, inverse_c, fit_intercept)
        matrix.data *= scaling.scale.ravel()[matrix.indices]
        shift = -mean * scaling.scale
        shift[:, -1] = scaling.scale[:, -1]
        return cls(matrix, shift), scaling

    def scores(self, params: _Array) -> _Array:
        """Return scores of shape (n_teachers, n_outputs, n_rows)."""
        products = _outputs_first(self.matrix @ _outputs_last(params), len(params))
        products += np.einsum("tof,tf->to", params, self.shift)[..., None]
        return products

    def pull_back(self, derivative: _Array) -> _Array:
        """Return a derivative with respect to parameters from one with respect to scores."""
        products = _outputs_first(self.matrix.T @ _outputs_last(derivative), len(derivative))
        products += derivative.sum(axis=2)[..., None] * self.shift[:, None, :]
        return products

    def take(self, keep: NDArray[np.intp]) -> _SparseDesign:
        """Return the design of some of the teachers."""
        n_teachers, width = self.shift.shape
        n_rows = self.matrix.shape[0] // n_teachers
        rows = self.matrix[(keep[:, None] * n_rows + np.arange(n_rows)).ravel()]
        lengths = np.diff(rows.indptr).reshape(len(keep), n_rows)
        return _SparseDesign(_block_diagonal(rows.data, rows.indices % width, lengths, width), self.shift[keep])


def _block_diagonal(data: _Array, columns: NDArray[np.int32], lengths: NDArray[np.int32], width: int) -> sp.csr_array:
    """Return a matrix with one block of `width` columns for each row of `lengths`, which holds its rows' nonzeros."""
    n_teachers, n_rows = lengths.shape
    first_columns = np.arange(n_teachers, dtype=columns.dtype) * width
    columns = columns + np.repeat(first_columns, lengths.sum(axis=1))
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(columns.dtype)
    return sp.csr_array((data, columns, starts), shape=(n_teachers * n_rows, n_teachers * width))


def _outputs_last(values: _Array) -> _Array:
    return values.transpose(0, 2, 1).reshape(-1, values.shape[1])


def _outputs_first(products: _Array, n_teachers: int) -> _Array:
    return np.ascontiguousarray(products.reshape(n_teachers, -1, products.shape[1]).transpose(0, 2, 1))


def _labels_and_weights(y: Integers, shards: list[Integers], counts: Integers, n_rows: int) -> tuple[Integers, _Array]:
    """Return labels, numbered among a shard's own classes, and weights as if balanced, zero for padding."""
    sizes = counts.sum(axis=1)
    real = np.arange(n_rows) < sizes[:, None]
    owners, classes = np.nonzero(real)[0], y[np.concatenate(shards)]
    labels, weights = np.zeros(real.shape, dtype=np.int64), np.zeros(real.shape)
    labels[real] = (np.cumsum(counts > 0, axis=1) - 1)[owners, classes]
    n_present = np.count_nonzero(counts, axis=1)
    weights[real] = (sizes / n_present)[owners] / counts[owners, classes]
    return labels, weights


Teachers = NDArray[np.intp]

# Number of past steps that model the curvature. More gain little.
_MEMORY = 8
_MAX_ITER = 1000
_MAX_HALVINGS = 30


class _Loss(Protocol):
    """Weighted log loss of a block. Padding rows have weight zero."""

    def at(self, scores: _Array) -> tuple[_Array, _Array, _Array]:
        """Return each teacher's loss, its derivative with respect to the scores, and probabilities."""

    def curvature(self, probabilities: _Array, direction: _Array) -> _Array:
        """Return each teacher's second derivative along a direction of its scores."""

    def take(self, keep: Teachers) -> _Loss:
        """Return the loss of some of the teachers."""


@dataclass(frozen=True, eq=False)
class _BinaryLoss:
    """Log loss of two classes, from one score a row."""

    signs: _Array  # -1 or 1, but 0 for padding, whose margin is then 0 for every score
    weights: _Array  # (n_teachers, n_rows), zero for padding

    def at(self, scores: _Array) -> tuple[_Array, _Array, _Array]:
        """Return each teacher's loss, its derivative, and the probability of each row's own label."""
        own = self.signs * scores[:, 0]
        np.negative(own, out=own)
        np.exp(own, out=own)
        own += 1.0
        np.reciprocal(own, out=own)
        derivative = (own - 1.0) * self.signs
        derivative *= self.weights
        return -_dot(self.weights, np.log(own)), derivative[:, None, :], own

    def curvature(self, probabilities: _Array, direction: _Array) -> _Array:
        """Return each teacher's second derivative along a direction of its scores."""
        variance = probabilities * (1.0 - probabilities)
        variance *= self.weights
        variance *= direction[:, 0]
        return _dot(variance, direction[:, 0])

    def take(self, keep: Teachers) -> _BinaryLoss:
        """Return the loss of some of the teachers."""
        return _BinaryLoss(self.signs[keep], self.weights[keep])


@dataclass(frozen=True, eq=False)
class _SoftmaxLoss:
    """Multinomial log loss, from one score a row and class."""

    one_hot: _Array  # (n_teachers, n_classes, n_rows), 1 for each row's label
    weights: _Array  # (n_teachers, n_rows), zero for padding

    def at(self, scores: _Array) -> tuple[_Array, _Array, _Array]:
        """Return each teacher's loss, its derivative, and the probability of each row and class."""
        scores = scores - scores.max(axis=1, keepdims=True)
        own = np.einsum("tcr,tcr->tr", self.one_hot, scores)
        probabilities = np.exp(scores)
        total = probabilities.sum(axis=1)
        probabilities /= total[:, None, :]
        derivative = probabilities - self.one_hot
        derivative *= self.weights[:, None, :]
        return _dot(self.weights, np.log(total) - own), derivative, probabilities

    def curvature(self, probabilities: _Array, direction: _Array) -> _Array:
        """Return each teacher's second derivative along a direction of its scores."""
        deviation = direction - np.einsum("tcr,tcr->tr", probabilities, direction)[:, None, :]
        variance = np.einsum("tcr,tcr,tcr->tr", probabilities, deviation, deviation)
        return _dot(self.weights, variance)

    def take(self, keep: Teachers) -> _SoftmaxLoss:
        """Return the loss of some of the teachers."""
        return _SoftmaxLoss(self.one_hot[keep], self.weights[keep])


def _dot(a: _Array, b: _Array) -> _Array:
    """Return each teacher's inner product of two arrays."""
    product: _Array = np.einsum("ti,ti->t", a.reshape(len(a), -1), b.reshape(len(b), -1))
    return product


def _column(values: _Array) -> _Array:
    return values[:, None, None]


@dataclass(frozen=True, eq=False)
class _Point:
    """The parameters of teachers, with their objectives and gradients."""

    params: _Array
    scores: _Array
    value: _Array
    derivative: _Array
    probabilities: _Array

    def take(self, keep: Teachers) -> _Point:
        return _Point(*(part[keep] for part in vars(self).values()))


@dataclass(frozen=True, eq=False)
class _Objective:
    """Each teacher's loss plus its L2 penalty."""

    design: _Design
    loss: _Loss
    penalty: _Array

    def at(self, params: _Array, scores: _Array) -> _Point:
        value, derivative, probabilities = self.loss.at(scores)
        value += 0.5 * _dot(self.penalty * params, params)
        return _Point(params, scores, value, derivative, probabilities)

    def gradient(self, point: _Point) -> _Array:
        return self.design.pull_back(point.derivative) + self.penalty * point.params

    def curvature(self, point: _Point, direction: _Array, along: _Array) -> _Array:
        """Return the second derivative along a direction, whose scores are `along`."""
        return self.loss.curvature(point.probabilities, along) + _dot(self.penalty * direction, direction)

    def take(self, keep: Teachers) -> _Objective:
        return _Objective(self.design.take(keep), self.loss.take(keep), self.penalty[keep])


class _Memory:
    """Each teacher's last steps and changes of gradient, as an inverse Hessian."""

    def __init__(self, n_teachers: int) -> None:
        self._pairs: list[tuple[_Array, _Array, _Array]] = []
        self._initial = np.ones(n_teachers)

    def add(self, step: _Array, change: _Array) -> None:
        product, length = _dot(step, change), _dot(change, change)
        # A teacher without positive curvature, such as one that no longer moves, keeps a pair without effect.
        useful = product > 1e-10 * length
        inverse = np.divide(1.0, product, out=np.zeros_like(product), where=useful)
        np.divide(product, length, out=self._initial, where=useful)
        self._pairs = [*self._pairs[1 - _MEMORY :], (step, change, inverse)]

    def descend(self, gradient: _Array) -> _Array:
        """Return minus the inverse Hessian's product with the gradient."""
        direction, scratch = -gradient, np.empty_like(gradient)
        weights: list[_Array] = []
        for step, change, inverse in reversed(self._pairs):
            weights.append(inverse * _dot(step, direction))
            direction -= np.multiply(_column(weights[-1]), change, out=scratch)
        direction *= _column(self._initial)
        for (step, change, inverse), weight in zip(self._pairs, reversed(weights), strict=True):
            correction = weight - inverse * _dot(change, direction)
            direction += np.multiply(_column(correction), step, out=scratch)
        return direction

    def take(self, keep: Teachers) -> _Memory:
        memory = _Memory(len(keep))
        memory._initial = self._initial[keep]
        memory._pairs = [(step[keep], change[keep], inverse[keep]) for step, change, inverse in self._pairs]
        return memory


def _minimise(design: _Design, loss: _Loss, penalty: _Array, n_outputs: int, tolerance: float) -> _Array:
    """Minimise each teacher's loss plus its L2 penalty, from zero, to a tolerance relative to the objective."""
    # A teacher never moves again once its quadratic model promises to lower its objective by less than a share of
    # `tolerance`, or once no step lowers it. A step to a value that is not finite is not taken.
    params = np.zeros((len(penalty), n_outputs, penalty.shape[2]))
    objective, memory = _Objective(design, loss, penalty), _Memory(len(params))
    point = objective.at(params.copy(), design.scores(params))
    gradient = objective.gradient(point)
    teachers = np.arange(len(params))
    active = np.ones(len(params), dtype=np.bool_)
    for _ in range(_MAX_ITER):
        direction = memory.descend(gradient)
        slope = _dot(gradient, direction)
        active &= -slope > tolerance * point.value
        if 2 * np.count_nonzero(active) <= len(active):
            # The finished teachers would only cost time.
            params[teachers] = point.params
            keep = np.flatnonzero(active)
            if not keep.size:
                break
            objective, memory, point = objective.take(keep), memory.take(keep), point.take(keep)
            teachers, gradient, direction, slope = teachers[keep], gradient[keep], direction[keep], slope[keep]
            active = np.ones(len(keep), dtype=np.bool_)
        direction[~active] = 0.0
        new, active = _search(objective, point, direction, slope, active)
        new_gradient = objective.gradient(new)
        memory.add(new.params - point.params, new_gradient - gradient)
        point, gradient = new, new_gradient
    params[teachers] = point.params
    return params


def _search(
    objective: _Objective, point: _Point, direction: _Array, slope: _Array, active: NDArray[np.bool_]
) -> tuple[_Point, NDArray[np.bool_]]:
    """Step along a direction, halving until the objective decreases. Return which teachers have moved."""
    along = objective.design.scores(direction)
    # Newton's step along the direction, which is nearly always accepted.
    curvature = objective.curvature(point, direction, along)
    length = np.divide(-slope, curvature, out=np.zeros_like(slope), where=active)

    def step() -> _Point:
        return objective.at(point.params + _column(length) * direction, point.scores + _column(length) * along)

    for _ in range(_MAX_HALVINGS):
        new = step()
        bound = point.value + 1e-4 * length * slope + 1e-14 * np.abs(point.value)
        # Not written with >, so that a value that is not finite fails.
        failed = active & ~(new.value <= bound)
        if not failed.any():
            return new, active
        length[failed] *= 0.5
    length[failed], direction[failed], along[failed] = 0.0, 0.0, 0.0
    return step(), active & ~failed


# Share of its objective that a teacher may still lose, for each unit of scikit-learn's tolerance.
_TOLERANCE = 1e-3
# Below this share of nonzeros the sparse form of a shard is faster.
_SPARSE_DENSITY = 0.15
_BLOCK_BYTES = 32 * 2**20
_VOTE_BYTES = 16 * 2**20


@dataclass(frozen=True, eq=False, repr=False)
class BatchedLogistic:
    """Coefficients of all teachers. Private."""

    coef: _Array  # (n_teachers, n_outputs, n_features): one output for two declared classes, otherwise one a class
    intercept: _Array  # -inf for a class that the teacher never votes for

    @staticmethod
    def supports(estimator: object) -> bool:
        """Return whether these teachers vote as an estimator's clones would, fitted one by one."""
        candidate: Any = estimator
        if type(candidate) is not LogisticRegression:
            return False
        settings = candidate.get_params(deep=False)

        def one_of(name: str, *allowed: object) -> bool:
            # Of any type, even arrays, so only strings are compared by value.
            value = settings.get(name, allowed[0])
            return any(value is a or (isinstance(value, str) and value == a) for a in allowed)

        def between(name: str, low: float, high: float) -> bool:
            value = settings.get(name)
            return isinstance(value, Real) and low <= float(value) <= high

        return (
            one_of("penalty", "l2", "deprecated")
            and (one_of("l1_ratio", None) or between("l1_ratio", 0.0, 0.0))
            # Before scikit-learn 1.8, 'multinomial' penalises two classes differently.
            and one_of("multi_class", "deprecated", "auto")
            and one_of("class_weight", None, "balanced")
            # Solvers that run to the optimum. liblinear also penalises the intercept.
            and one_of("solver", "lbfgs", "newton-cg", "newton-cholesky")
            and one_of("fit_intercept", True, False)
            and one_of("dual", False)
            and one_of("warm_start", False)
            and between("C", sys.float_info.min, sys.float_info.max)
            and between("tol", 0.0, 1e-4)
            and between("max_iter", 100, math.inf)
        )

    @classmethod
    def fit(
        cls,
        estimator: LogisticRegression,
        X: _Array,
        y: Integers,
        shards: Sequence[Integers],
        *,
        n_classes: int,
        constant_votes: Integers,
        n_jobs: int | None = None,
        on_done: Callable[[int], None] | None = None,
    ) -> BatchedLogistic:
        """Fit a supported logistic regression on each shard."""
        # A teacher depends only on its own records and on the settings. It is the same, bit for bit, for all other
        # shards and values of `n_jobs`. The data cannot make this raise: a teacher that does not converge keeps its
        # last iterate, and one without finite coefficients votes for its majority class.
        counts, sparse = _summaries(X, y, shards, n_classes)
        constants = np.where(constant_votes < 0, counts.argmax(axis=1), constant_votes)
        model = cls.constant(constants, n_classes, X.shape[1])
        to_fit = np.flatnonzero((constant_votes < 0) & (np.count_nonzero(counts, axis=1) > 1))
        report = on_done or (lambda _: None)
        report(len(shards) - len(to_fit))
        problem = _Problem(estimator, X, sp.csr_array(X) if sparse[to_fit].any() else None, y)
        blocks = list(_blocks(to_fit, counts, sparse, X.shape[1], joblib.effective_n_jobs(n_jobs)))
        tasks = (
            joblib.delayed(_fit_block)(problem, block, [shards[t] for t in block.teachers], counts[block.teachers])
            for block in blocks
        )
        # Threads, each with one of BLAS's, share the records and spend their time outside the interpreter.
        with one_thread():
            fitted = joblib.Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")(tasks)
            for block, (coef, intercept) in zip(blocks, fitted, strict=True):
                model._store(block.teachers, counts, coef, intercept)
                report(len(block.teachers))
        return model

    @classmethod
    def constant(cls, votes: Integers, n_classes: int, n_features: int) -> BatchedLogistic:
        """Return teachers that always vote for the given class ids."""
        outputs = np.arange(n_classes) if n_classes > 2 else np.array([1])
        intercept = np.where(votes[:, None] == outputs, 1.0, -np.inf)
        return cls(np.zeros((*intercept.shape, n_features)), intercept)

    def vote(self, X: _Array) -> Ballots:
        """Return class ids of shape (n_queries, n_teachers), column-major, of the smallest unsigned type."""
        n_teachers, n_outputs = self.intercept.shape
        ballots = np.zeros((n_teachers, len(X)), dtype=ballot_dtype(max(n_outputs, 2)))
        chunk = max(1, _VOTE_BYTES // (8 * max(1, len(X))))
        for start in range(0, n_teachers, chunk):
            part = slice(start, start + chunk)
            best = self._scores(part, 0, X)
            if n_outputs == 1:
                np.greater(best, 0.0, out=ballots[part].view(np.bool_))
            for output in range(1, n_outputs):
                scores = self._scores(part, output, X)
                # Strictly greater: a tie goes to the lowest class id, as in scikit-learn.
                np.copyto(ballots[part], output, where=scores > best)
                np.maximum(best, scores, out=best)
        return ballots.T

    def probabilities(self, part: slice, X: _Array) -> _Array:
        """Return some teachers' probabilities, shape (n_teachers, n_queries, n_classes), NaN if never fitted."""
        n_outputs = self.intercept.shape[1]
        chances: _Array
        with np.errstate(all="ignore"):
            scores = np.stack([self._scores(part, output, X) for output in range(n_outputs)], axis=2)
            if n_outputs > 1:
                chances = softmax(scores, axis=2)
            else:
                chances = np.concatenate([expit(-scores), expit(scores)], axis=2)
        # Teachers that were never fitted know one class only.
        chances[~self.coef[part].any(axis=(1, 2))] = np.nan
        return chances

    def coefficients(self, t: int, _n_features: int) -> tuple[Integers, _Array, _Array]:
        """Return the class ids, coefficients and intercepts of one teacher."""
        coef, intercept = self.coef[t], self.intercept[t]
        voted_for = np.isfinite(intercept)
        columns = np.flatnonzero(voted_for) if len(coef) > 1 else np.arange(2)
        return columns, coef[voted_for], intercept[voted_for]

    def _scores(self, part: slice, output: int, X: _Array) -> _Array:
        scores: _Array = self.coef[part, output] @ X.T
        scores += self.intercept[part, output, None]
        return scores

    def _store(self, teachers: NDArray[np.intp], counts: Integers, coef: _Array, intercept: _Array) -> None:
        """Write coefficients of the classes present, except for teachers without finite coefficients."""
        finite = np.isfinite(coef).all(axis=(1, 2)) & np.isfinite(intercept).all(axis=1)
        teachers, coef, intercept = teachers[finite], coef[finite], intercept[finite]
        present = counts[teachers] > 0
        if present.shape[1] == 2:
            self.coef[teachers], self.intercept[teachers] = coef, intercept
            return
        if coef.shape[1] == 1:
            # In a binary model the first class has score zero.
            coef = np.concatenate([np.zeros_like(coef), coef], axis=1)
            intercept = np.concatenate([np.zeros_like(intercept), intercept], axis=1)
        classes = np.nonzero(present)[1].reshape(intercept.shape)
        self.intercept[teachers] = -np.inf
        self.coef[teachers[:, None], classes] = coef
        self.intercept[teachers[:, None], classes] = intercept


@dataclass(frozen=True, eq=False)
class _Problem:
    estimator: LogisticRegression
    X: _Array
    X_sparse: sp.csr_array | None
    y: Integers


@dataclass(frozen=True, eq=False)
class _Block:
    """Teachers with the same shape of arrays."""

    teachers: NDArray[np.intp]
    n_rows: int
    n_outputs: int
    is_sparse: bool


def _summaries(
    X: _Array, y: Integers, shards: Sequence[Integers], n_classes: int
) -> tuple[Integers, NDArray[np.bool_]]:
    """Return how often each class occurs in each shard, and whether the shard is sparse."""
    sizes = np.array([len(shard) for shard in shards], dtype=np.int64)
    owners = np.repeat(np.arange(len(shards)), sizes)
    rows = np.concatenate([np.empty(0, dtype=np.int64), *shards])
    counts = np.bincount(owners * n_classes + y[rows], minlength=len(shards) * n_classes)
    nonzeros = np.bincount(owners, weights=np.count_nonzero(X, axis=1)[rows], minlength=len(shards))
    return counts.reshape(-1, n_classes), nonzeros < _SPARSE_DENSITY * sizes * X.shape[1]


def _blocks(
    teachers: NDArray[np.intp], counts: Integers, sparse: NDArray[np.bool_], n_features: int, n_workers: int
) -> Iterator[_Block]:
    """Yield blocks of teachers of one kind that fit into the memory of a block."""
    sizes = counts.sum(axis=1)
    # Rounded up by at most an eighth, and by its own size alone, since padding may change the rounding of sums.
    step = np.maximum(1, np.exp2(np.frexp(sizes)[1] - 4).astype(np.int64))
    n_present = np.count_nonzero(counts, axis=1)
    n_outputs = np.where(n_present == 2, 1, n_present)
    kinds = np.stack([-(-sizes // step) * step, n_outputs, sparse], axis=1)[teachers]
    for kind in np.unique(kinds, axis=0):
        members = teachers[(kinds == kind).all(axis=1)]
        rows, outputs, is_sparse = kind.tolist()
        features = rows * n_features * (1.5 * _SPARSE_DENSITY if is_sparse else 1.0)
        work = outputs * (6 * rows + 24 * n_features)
        n_blocks = math.ceil(8 * len(members) * (features + work) / _BLOCK_BYTES)
        if len(members) >= 16 * n_workers:
            # An equal number for each worker.
            n_blocks += -n_blocks % n_workers
        for part in np.array_split(members, min(n_blocks, len(members))):
            yield _Block(part, rows, outputs, bool(is_sparse))


def _fit_block(problem: _Problem, block: _Block, shards: list[Integers], counts: Integers) -> tuple[_Array, _Array]:
    """Return coefficients and intercepts for the classes present in each shard."""
    estimator = problem.estimator
    labels, weights = _labels_and_weights(problem.y, shards, counts, block.n_rows)
    if estimator.class_weight is None:
        weights = (weights > 0.0).astype(np.float64)
    loss: _Loss
    design: _Design
    if block.n_outputs == 1:
        loss = _BinaryLoss(np.where(weights > 0.0, 2.0 * labels - 1.0, 0.0), weights)
    else:
        one_hot = labels[:, None, :] == np.arange(block.n_outputs)[:, None]
        loss = _SoftmaxLoss(one_hot.astype(np.float64), weights)
    settings = (shards, weights, 1.0 / float(estimator.C), bool(estimator.fit_intercept))
    tolerance = max(_TOLERANCE * float(estimator.tol), 1e-13)
    # Values that overflow become infinite or NaN, which is handled where it matters.
    with np.errstate(all="ignore"):
        if block.is_sparse:
            design, scaling = _SparseDesign.of(problem.X_sparse, *settings)
        else:
            design, scaling = _DenseDesign.of(problem.X, *settings)
        return scaling.undo(_minimise(design, loss, scaling.penalty, block.n_outputs, tolerance))
