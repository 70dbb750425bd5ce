"""Thousands of logistic-regression teachers fitted together, as scikit-learn would one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from dpensemble.teachers.batched_design import Array, DenseDesign, Design, SparseDesign
from dpensemble.teachers.batched_lbfgs import BinaryLoss, Loss, SoftmaxLoss, minimise
from dpensemble.votes import ballot_dtype

# Share of its objective that a teacher may still hope to lose, for each unit of scikit-learn's tolerance.
_TOLERANCE = 1e-3
_DEFAULT_TOL = 1e-4
# Below this share of nonzeros the sparse form of a shard is faster.
_SPARSE_DENSITY = 0.2
_BLOCK_BYTES = 16 * 2**20
_VOTE_BYTES = 16 * 2**20


def supports(estimator: object) -> bool:
    """Return whether this module gives the votes that an estimator would give.

    Parameters
    ----------
    estimator : object
        Any scikit-learn estimator.

    Returns
    -------
    bool
        True for an exact `LogisticRegression` with a finite L2 penalty whose
        solver runs to the optimum; not for liblinear, which penalises the intercept.
    """
    if type(estimator) is not LogisticRegression:
        return False
    given = estimator.get_params(deep=False)

    def one_of(name: str, *allowed: object) -> bool:
        # Identity or equal strings: settings may be arrays, which do not compare to a truth value.
        value = given.get(name, allowed[0])
        return any(value is a or (isinstance(value, str) and value == a) for a in allowed)

    def between(name: str, low: float, high: float) -> bool:
        value = given.get(name)
        return isinstance(value, Real) and low <= value <= high

    return (
        one_of("penalty", "l2", "deprecated")
        and (one_of("l1_ratio", None) or between("l1_ratio", 0.0, 0.0))
        # 'multinomial' gives two classes two rows of coefficients.
        and one_of("multi_class", "deprecated", "auto")
        and one_of("class_weight", None, "balanced")
        and one_of("solver", "lbfgs", "newton-cg", "newton-cholesky")
        and one_of("fit_intercept", True, False)
        and one_of("dual", False)
        and one_of("warm_start", False)
        and between("C", np.finfo(np.float64).tiny, np.finfo(np.float64).max)
        and between("tol", 0.0, 1e-3)
        and between("max_iter", 100, np.inf)
    )


@dataclass(frozen=True, eq=False, repr=False)
class BatchedLogistic:
    """Coefficients of all teachers. Private.

    Parameters
    ----------
    coef : ndarray of shape (n_teachers, n_outputs, n_features)
        With one output for two declared classes, else one for each class.
    intercept : ndarray of shape (n_teachers, n_outputs)
        ``-inf`` for a class that the teacher never votes for.
    """

    coef: Array
    intercept: Array

    def vote(self, X: Array) -> NDArray[np.unsignedinteger]:
        """Return class ids of shape (n_queries, n_teachers), column-major.

        Parameters
        ----------
        X : ndarray of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        ndarray of the smallest unsigned integer type
        """
        n_teachers, n_outputs, _ = self.coef.shape
        ballots = np.zeros((n_teachers, len(X)), dtype=ballot_dtype(max(n_outputs, 2)))
        chunk = max(1, _VOTE_BYTES // (8 * max(1, len(X))))
        for start in range(0, n_teachers, chunk):
            part = slice(start, start + chunk)
            best = self._scores(part, 0, X)
            if n_outputs == 1:
                np.greater(best, 0.0, out=ballots[part].view(np.bool_))
            for label in range(1, n_outputs):
                scores = self._scores(part, label, X)
                # Strictly better: a tie goes to the lowest class id.
                np.copyto(ballots[part], label, where=scores > best)
                np.maximum(best, scores, out=best)
        return ballots.T

    def _scores(self, part: slice, output: int, X: Array) -> Array:
        scores: Array = self.coef[part, output] @ X.T
        scores += self.intercept[part, output, None]
        return scores


def fit_batched_logistic(
    estimator: LogisticRegression,
    X: Array,
    y: NDArray[np.int64],
    shards: Sequence[NDArray[np.int64]],
    *,
    n_classes: int,
    constant_votes: NDArray[np.int64],
    n_jobs: int | None = None,
    on_done: Callable[[int], None] | None = None,
) -> BatchedLogistic:
    """Fit one logistic regression on each shard.

    A teacher's coefficients depend on its own records and on the settings only,
    and are the same whatever the other shards, their order and `n_jobs`. Nothing
    in the data makes it raise: a teacher that does not converge keeps its last
    iterate, and one without finite coefficients votes for its majority class.

    Parameters
    ----------
    estimator : LogisticRegression
        One that `supports` accepts.
    X : ndarray of shape (n_records, n_features)
        Private records.
    y : ndarray of shape (n_records,)
        Their class ids.
    shards : sequence of ndarray
        Record indices of each teacher.
    n_classes : int
        Declared classes.
    constant_votes : ndarray of shape (n_teachers,)
        -1 for a teacher to fit, else the class id it always votes for.
    n_jobs : int or None
        Threads, as in joblib; ``None`` obeys ``joblib.parallel_config``.
    on_done : callable, optional
        Called with the number of teachers that were just finished.

    Returns
    -------
    BatchedLogistic
    """
    counts, nonzeros = _count(X, y, shards, n_classes)
    constants = np.where(constant_votes < 0, counts.argmax(axis=1), constant_votes)
    model = _constant_model(constants, n_classes, X.shape[1])
    n_present = np.count_nonzero(counts, axis=1)
    sizes = counts.sum(axis=1)
    sparse = nonzeros < _SPARSE_DENSITY * sizes * X.shape[1]
    teachers = np.flatnonzero((constant_votes < 0) & (n_present > 1))
    report = on_done or (lambda _: None)
    report(len(shards) - len(teachers))
    kinds = np.stack([n_present, _padded(sizes), sparse], axis=1)[teachers]
    records = _Records(X, sp.csr_array(X) if sparse[teachers].any() else None, y)
    settings = _Settings.of(estimator)

    def tasks() -> Iterator[Any]:
        for block, (_, n_rows, is_sparse) in _blocks(teachers, kinds, X.shape[1], joblib.effective_n_jobs(n_jobs)):
            mine = [shards[teacher] for teacher in block]
            yield joblib.delayed(_fit_block)(
                records, settings, block, mine, counts[block], int(n_rows), bool(is_sparse)
            )

    # Threads: shards are slices of one array, and the work is in calls that release the interpreter.
    with threadpool_limits(1, user_api="blas"):
        run = joblib.Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")
        for block, coef, intercept in run(tasks()):
            _store(model, block, counts[block] > 0, coef, intercept)
            report(len(block))
    return model


@dataclass(frozen=True, eq=False)
class _Records:
    X: Array
    sparse: sp.csr_array | None
    y: NDArray[np.int64]


@dataclass(frozen=True)
class _Settings:
    inverse_c: float
    fit_intercept: bool
    balanced: bool
    tolerance: float

    @classmethod
    def of(cls, estimator: LogisticRegression) -> _Settings:
        tolerance = max(_TOLERANCE * min(estimator.tol, _DEFAULT_TOL), 1e-13)
        balanced = estimator.class_weight is not None
        return cls(1.0 / estimator.C, bool(estimator.fit_intercept), balanced, tolerance)


def _count(
    X: Array, y: NDArray[np.int64], shards: Sequence[NDArray[np.int64]], n_classes: int
) -> tuple[NDArray[np.int64], Array]:
    """Return how often each class, shape (n_teachers, n_classes), and nonzeros occur in each shard."""
    owners = np.repeat(np.arange(len(shards)), [len(shard) for shard in shards])
    rows = np.concatenate([np.empty(0, dtype=np.int64), *shards])
    counts = np.bincount(owners * n_classes + y[rows], minlength=len(shards) * n_classes)
    nonzeros = np.bincount(owners, weights=np.count_nonzero(X, axis=1)[rows], minlength=len(shards))
    return counts.reshape(len(shards), n_classes), nonzeros


def _constant_model(votes: NDArray[np.int64], n_classes: int, n_features: int) -> BatchedLogistic:
    n_outputs = 1 if n_classes == 2 else n_classes
    wins = votes[:, None] == np.arange(n_classes)[-n_outputs:]
    coef = np.zeros((len(votes), n_outputs, n_features))
    return BatchedLogistic(coef, np.where(wins, 1.0, -np.inf))


def _padded(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round sizes up by an eighth at most, so that a teacher's padding is a matter of its own size."""
    step = np.maximum(1, np.exp2(np.frexp(sizes)[1] - 4).astype(np.int64))
    return -(-sizes // step) * step


def _blocks(
    teachers: NDArray[np.int64], kinds: NDArray[np.int64], n_features: int, n_workers: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield teachers of one kind (classes present, padded size, sparse) that fit in the cache together."""
    distinct, groups = np.unique(kinds, axis=0, return_inverse=True)
    for number, kind in enumerate(distinct):
        n_present, n_rows, is_sparse = kind
        n_outputs = 1 if n_present == 2 else n_present
        features = n_rows * n_features * (1.5 * _SPARSE_DENSITY if is_sparse else 1.0)
        work = n_outputs * (6 * n_rows + 20 * n_features)
        members = teachers[groups.ravel() == number]
        n_blocks = max(-(-8 * len(members) * (features + work) // _BLOCK_BYTES), min(n_workers, len(members) // 16), 1)
        # As many blocks a worker, so that none waits for another.
        n_blocks += -n_blocks % n_workers if n_blocks > 1 else 0
        for block in np.array_split(members, min(int(n_blocks), len(members))):
            yield block, kind


def _fit_block(
    records: _Records,
    settings: _Settings,
    block: NDArray[np.int64],
    shards: list[NDArray[np.int64]],
    counts: NDArray[np.int64],
    n_rows: int,
    is_sparse: bool,
) -> tuple[NDArray[np.int64], Array, Array]:
    """Fit teachers of one kind; return them with coefficients for the classes present in their shards."""
    n_present = np.count_nonzero(counts[0])
    n_outputs = 1 if n_present == 2 else n_present
    labels, weights = _labels_and_weights(records.y, shards, counts, n_rows, settings.balanced)
    loss: Loss
    if n_outputs == 1:
        loss = BinaryLoss(np.where(weights > 0.0, 2.0 * labels - 1.0, 0.0), weights)
    else:
        one_hot = labels[:, None, :] == np.arange(n_outputs)[:, None]
        loss = SoftmaxLoss(one_hot.astype(np.float64), weights)
    # Overflow and the like end in values that are not finite, which are dealt with where they arise.
    with np.errstate(all="ignore"):
        design: Design
        if is_sparse:
            design, scaling = SparseDesign.of(records.sparse, shards, weights, settings.inverse_c, settings.fit_intercept)
        else:
            design, scaling = DenseDesign.of(records.X, shards, weights, settings.inverse_c, settings.fit_intercept)
        params = minimise(design, loss, scaling.penalty, n_outputs, settings.tolerance)
        coef, intercept = scaling.undo(params)
    return block, coef, intercept


def _labels_and_weights(
    y: NDArray[np.int64], shards: list[NDArray[np.int64]], counts: NDArray[np.int64], n_rows: int, balanced: bool
) -> tuple[NDArray[np.int64], Array]:
    """Return labels numbered among the classes present, and weights, zero for padding."""
    sizes = counts.sum(axis=1, keepdims=True)
    real = np.arange(n_rows) < sizes
    owners = np.repeat(np.arange(len(shards)), sizes[:, 0])
    given = y[np.concatenate(shards)]
    labels, weights = np.zeros(real.shape, dtype=np.int64), np.zeros(real.shape)
    labels[real] = (np.cumsum(counts > 0, axis=1) - 1)[owners, given]
    n_present = np.count_nonzero(counts, axis=1, keepdims=True)
    weights[real] = (sizes / (n_present * np.maximum(counts, 1)))[owners, given] if balanced else 1.0
    return labels, weights


def _store(
    model: BatchedLogistic, block: NDArray[np.int64], present: NDArray[np.bool_], coef: Array, intercept: Array
) -> None:
    """Write coefficients where they belong, leaving teachers that have none finite at their constant vote."""
    finite = np.isfinite(coef).all(axis=(1, 2)) & np.isfinite(intercept).all(axis=1)
    block, coef, intercept = block[finite], coef[finite], intercept[finite]
    if model.coef.shape[1] == 1:
        model.coef[block], model.intercept[block] = coef, intercept
        return
    if coef.shape[1] == 1:
        # Two classes present: the first has score zero, as scikit-learn's binary model implies.
        coef = np.concatenate([np.zeros_like(coef), coef], axis=1)
        intercept = np.concatenate([np.zeros_like(intercept), intercept], axis=1)
    classes = np.nonzero(present[finite])[1].reshape(len(block), -1)
    model.intercept[block] = -np.inf
    model.coef[block[:, None], classes] = coef
    model.intercept[block[:, None], classes] = intercept
