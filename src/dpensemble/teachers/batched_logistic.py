"""Thousands of logistic-regression teachers fitted together, with the results of scikit-learn one by one.

Teachers are grouped by properties of their own records (size rounded up, classes present, share of nonzeros), and
each group is fitted in blocks. Neither grouping nor blocks can alter a teacher. See
`dpensemble.teachers.batched_lbfgs`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from dpensemble._arrays import Ballots, Integers
from dpensemble._threads import one_thread
from dpensemble.teachers.batched_design import Array, DenseDesign, Design, SparseDesign, labels_and_weights
from dpensemble.teachers.batched_lbfgs import BinaryLoss, Loss, SoftmaxLoss, minimise
from dpensemble.votes import ballot_dtype

# Share of its objective that a teacher may still lose, for each unit of scikit-learn's tolerance.
_TOLERANCE = 1e-3
# Below this share of nonzeros the sparse form of a shard is faster.
_SPARSE_DENSITY = 0.15
_BLOCK_BYTES = 32 * 2**20
_VOTE_BYTES = 16 * 2**20


def supports(estimator: object) -> bool:
    """Return whether this module gives the votes that an estimator would give."""
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


@dataclass(frozen=True, eq=False, repr=False)
class BatchedLogistic:
    """Coefficients of all teachers. Private."""

    coef: Array  # (n_teachers, n_outputs, n_features): one output for two declared classes, otherwise one a class
    intercept: Array  # -inf for a class that the teacher never votes for

    @classmethod
    def constant(cls, votes: Integers, n_classes: int, n_features: int) -> BatchedLogistic:
        """Return teachers that always vote for the given class ids."""
        outputs = np.arange(n_classes) if n_classes > 2 else np.array([1])
        intercept = np.where(votes[:, None] == outputs, 1.0, -np.inf)
        return cls(np.zeros((*intercept.shape, n_features)), intercept)

    def vote(self, X: Array) -> Ballots:
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

    def probabilities(self, part: slice, X: Array) -> Array:
        """Return some teachers' probabilities, shape (n_teachers, n_queries, n_classes), NaN if never fitted."""
        n_outputs = self.intercept.shape[1]
        chances: Array
        with np.errstate(all="ignore"):
            scores = np.stack([self._scores(part, output, X) for output in range(n_outputs)], axis=2)
            if n_outputs > 1:
                chances = softmax(scores, axis=2)
            else:
                chances = np.concatenate([expit(-scores), expit(scores)], axis=2)
        # Teachers that were never fitted know one class only.
        chances[~self.coef[part].any(axis=(1, 2))] = np.nan
        return chances

    def coefficients(self, t: int, _n_features: int) -> tuple[Integers, Array, Array]:
        """Return the class ids, coefficients and intercepts of one teacher."""
        coef, intercept = self.coef[t], self.intercept[t]
        voted_for = np.isfinite(intercept)
        columns = np.flatnonzero(voted_for) if len(coef) > 1 else np.arange(2)
        return columns, coef[voted_for], intercept[voted_for]

    def _scores(self, part: slice, output: int, X: Array) -> Array:
        scores: Array = self.coef[part, output] @ X.T
        scores += self.intercept[part, output, None]
        return scores

    def _store(self, teachers: NDArray[np.intp], counts: Integers, coef: Array, intercept: Array) -> None:
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


def fit_batched_logistic(
    estimator: LogisticRegression,
    X: Array,
    y: Integers,
    shards: Sequence[Integers],
    *,
    n_classes: int,
    constant_votes: Integers,
    n_jobs: int | None = None,
    on_done: Callable[[int], None] | None = None,
) -> BatchedLogistic:
    """Fit one logistic regression on each shard."""
    # A teacher depends only on its own records and on the settings. It is the same, bit for bit, for all other
    # shards and values of `n_jobs`. The data cannot make this raise: a teacher that does not converge keeps its last
    # iterate, and one without finite coefficients votes for its majority class.
    counts, sparse = _summaries(X, y, shards, n_classes)
    constants = np.where(constant_votes < 0, counts.argmax(axis=1), constant_votes)
    model = BatchedLogistic.constant(constants, n_classes, X.shape[1])
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


@dataclass(frozen=True, eq=False)
class _Problem:
    estimator: LogisticRegression
    X: Array
    X_sparse: sp.csr_array | None
    y: Integers


@dataclass(frozen=True, eq=False)
class _Block:
    """Teachers with the same shape of arrays."""

    teachers: NDArray[np.intp]
    n_rows: int
    n_outputs: int
    is_sparse: bool


def _summaries(X: Array, y: Integers, shards: Sequence[Integers], n_classes: int) -> tuple[Integers, NDArray[np.bool_]]:
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


def _fit_block(problem: _Problem, block: _Block, shards: list[Integers], counts: Integers) -> tuple[Array, Array]:
    """Return coefficients and intercepts for the classes present in each shard."""
    estimator = problem.estimator
    labels, weights = labels_and_weights(problem.y, shards, counts, block.n_rows)
    if estimator.class_weight is None:
        weights = (weights > 0.0).astype(np.float64)
    loss: Loss
    design: Design
    if block.n_outputs == 1:
        loss = BinaryLoss(np.where(weights > 0.0, 2.0 * labels - 1.0, 0.0), weights)
    else:
        one_hot = labels[:, None, :] == np.arange(block.n_outputs)[:, None]
        loss = SoftmaxLoss(one_hot.astype(np.float64), weights)
    settings = (shards, weights, 1.0 / float(estimator.C), bool(estimator.fit_intercept))
    tolerance = max(_TOLERANCE * float(estimator.tol), 1e-13)
    # Values that overflow become infinite or NaN, which is handled where it matters.
    with np.errstate(all="ignore"):
        if block.is_sparse:
            design, scaling = SparseDesign.of(problem.X_sparse, *settings)
        else:
            design, scaling = DenseDesign.of(problem.X, *settings)
        return scaling.undo(minimise(design, loss, scaling.penalty, block.n_outputs, tolerance))
