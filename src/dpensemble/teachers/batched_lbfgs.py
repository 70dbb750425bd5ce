"""L-BFGS on a block of small penalised logistic regressions at once.

Each array has the teacher as its first axis, and every operation acts on each teacher separately, with its own step
length, memory and stopping decision. So a teacher's result does not depend on the teachers that share its block.

References
----------
Nocedal and Wright, Numerical Optimization, 2nd edition, sections 3.1 (sufficient decrease), 7.2 (two-loop recursion).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpensemble.teachers.batched_design import Array, Design

Teachers = NDArray[np.intp]

# Number of past steps that model the curvature. More gain little.
_MEMORY = 8
_MAX_ITER = 1000
_MAX_HALVINGS = 30


class Loss(Protocol):
    """Weighted log loss of a block. Padding rows have weight zero."""

    def at(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return each teacher's loss, its derivative with respect to the scores, and probabilities."""

    def curvature(self, probabilities: Array, direction: Array) -> Array:
        """Return each teacher's second derivative along a direction of its scores."""

    def take(self, keep: Teachers) -> Loss:
        """Return the loss of some of the teachers."""


@dataclass(frozen=True, eq=False)
class BinaryLoss:
    """Log loss of two classes, from one score a row."""

    signs: Array  # -1 or 1, but 0 for padding, whose margin is then 0 for every score
    weights: Array  # (n_teachers, n_rows), zero for padding

    def at(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return each teacher's loss, its derivative, and the probability of each row's own label."""
        own = self.signs * scores[:, 0]
        np.negative(own, out=own)
        np.exp(own, out=own)
        own += 1.0
        np.reciprocal(own, out=own)
        derivative = (own - 1.0) * self.signs
        derivative *= self.weights
        return -_dot(self.weights, np.log(own)), derivative[:, None, :], own

    def curvature(self, probabilities: Array, direction: Array) -> Array:
        """Return each teacher's second derivative along a direction of its scores."""
        variance = probabilities * (1.0 - probabilities)
        variance *= self.weights
        variance *= direction[:, 0]
        return _dot(variance, direction[:, 0])

    def take(self, keep: Teachers) -> BinaryLoss:
        """Return the loss of some of the teachers."""
        return BinaryLoss(self.signs[keep], self.weights[keep])


@dataclass(frozen=True, eq=False)
class SoftmaxLoss:
    """Multinomial log loss, from one score a row and class."""

    one_hot: Array  # (n_teachers, n_classes, n_rows), 1 for each row's label
    weights: Array  # (n_teachers, n_rows), zero for padding

    def at(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return each teacher's loss, its derivative, and the probability of each row and class."""
        scores = scores - scores.max(axis=1, keepdims=True)
        own = np.einsum("tcr,tcr->tr", self.one_hot, scores)
        probabilities = np.exp(scores)
        total = probabilities.sum(axis=1)
        probabilities /= total[:, None, :]
        derivative = probabilities - self.one_hot
        derivative *= self.weights[:, None, :]
        return _dot(self.weights, np.log(total) - own), derivative, probabilities

    def curvature(self, probabilities: Array, direction: Array) -> Array:
        """Return each teacher's second derivative along a direction of its scores."""
        deviation = direction - np.einsum("tcr,tcr->tr", probabilities, direction)[:, None, :]
        variance = np.einsum("tcr,tcr,tcr->tr", probabilities, deviation, deviation)
        return _dot(self.weights, variance)

    def take(self, keep: Teachers) -> SoftmaxLoss:
        """Return the loss of some of the teachers."""
        return SoftmaxLoss(self.one_hot[keep], self.weights[keep])


def _dot(a: Array, b: Array) -> Array:
    """Return each teacher's inner product of two arrays."""
    product: Array = np.einsum("ti,ti->t", a.reshape(len(a), -1), b.reshape(len(b), -1))
    return product


def _column(values: Array) -> Array:
    return values[:, None, None]


@dataclass(frozen=True, eq=False)
class _Point:
    """The parameters of teachers, with their objectives and gradients."""

    params: Array
    scores: Array
    value: Array
    derivative: Array
    probabilities: Array

    def take(self, keep: Teachers) -> _Point:
        return _Point(*(part[keep] for part in vars(self).values()))


@dataclass(frozen=True, eq=False)
class _Objective:
    """Each teacher's loss plus its L2 penalty."""

    design: Design
    loss: Loss
    penalty: Array

    def at(self, params: Array, scores: Array) -> _Point:
        value, derivative, probabilities = self.loss.at(scores)
        value += 0.5 * _dot(self.penalty * params, params)
        return _Point(params, scores, value, derivative, probabilities)

    def gradient(self, point: _Point) -> Array:
        return self.design.pull_back(point.derivative) + self.penalty * point.params

    def curvature(self, point: _Point, direction: Array, along: Array) -> Array:
        """Return the second derivative along a direction, whose scores are `along`."""
        return self.loss.curvature(point.probabilities, along) + _dot(self.penalty * direction, direction)

    def take(self, keep: Teachers) -> _Objective:
        return _Objective(self.design.take(keep), self.loss.take(keep), self.penalty[keep])


class _Memory:
    """Each teacher's last steps and changes of gradient, as an inverse Hessian."""

    def __init__(self, n_teachers: int) -> None:
        self._pairs: list[tuple[Array, Array, Array]] = []
        self._initial = np.ones(n_teachers)

    def add(self, step: Array, change: Array) -> None:
        product, length = _dot(step, change), _dot(change, change)
        # A teacher without positive curvature, such as one that no longer moves, keeps a pair without effect.
        useful = product > 1e-10 * length
        inverse = np.divide(1.0, product, out=np.zeros_like(product), where=useful)
        np.divide(product, length, out=self._initial, where=useful)
        self._pairs = [*self._pairs[1 - _MEMORY :], (step, change, inverse)]

    def descend(self, gradient: Array) -> Array:
        """Return minus the inverse Hessian's product with the gradient."""
        direction, scratch = -gradient, np.empty_like(gradient)
        weights: list[Array] = []
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


def minimise(design: Design, loss: Loss, penalty: Array, n_outputs: int, tolerance: float) -> Array:
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
    objective: _Objective, point: _Point, direction: Array, slope: Array, active: NDArray[np.bool_]
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
