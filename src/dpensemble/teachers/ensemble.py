"""All teachers of an allocation: fitted together or one by one in parallel workers, and voting in chunks.

Any classifier of scikit-learn can be a teacher. Teachers are fitted in turns if the records of all of them would not
fit into memory together.

Teachers may answer with more than a label: with probabilities, or with all their learned parameters. Like a ballot, an
answer depends on the teacher's own records, on its number and on public settings only. So one unit changes the answers
of its own teachers and no others. A teacher may be unable to answer: for an empty shard, a shard of a single class, a
failed fit, or a probability that is not a number. Such a teacher answers with the shares of its labels, where each
class counts once more than it occurs, or an even share without labels.
"""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from joblib import effective_n_jobs, parallel_config
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from dpensemble._entries import Ballots, Floats, Integers
from dpensemble._random import Stream, seed_integer
from dpensemble._work import one_thread, private_workers
from dpensemble.clusters.cluster import active_cluster, refuse_cluster
from dpensemble.errors import InvalidParameterError, TeacherError
from dpensemble.teachers.logistic import BatchedLogistic
from dpensemble.votes import Votes, ballot_dtype

#: Private rows that are in memory at a time, in bytes.
_BYTES_AT_ONCE = 2**29


@dataclass(frozen=True, eq=False, repr=False)
class RowsInBlocks:
    """Private rows that come in blocks, always the same in the same order. Used in place of an array of rows.

    `read` returns an iterator over blocks of rows, arrays of shape (n, n_features). The iterator raises at its end if
    the rows of the pass are not those of the first pass.
    """

    read: Callable[[], Iterator[Floats]]
    n_records: int
    n_features: int

    def __len__(self) -> int:
        return self.n_records

    @property
    def shape(self) -> tuple[int, int]:
        """Number of records and of features, as for an array."""
        return self.n_records, self.n_features

    def take(self, wanted: Integers) -> Floats:
        """Return the rows at these ascending positions, in one pass over all blocks."""
        rows = np.empty((len(wanted), self.n_features))
        start = filled = 0
        for block in self.read():
            inside = wanted[filled : np.searchsorted(wanted, start + len(block))] - start
            rows[filled : filled + len(inside)] = block[inside]
            start, filled = start + len(block), filled + len(inside)
        return rows


def _in_turns(
    X: Floats | RowsInBlocks, y: Integers, shards: Sequence[Integers]
) -> Iterator[tuple[slice, Floats, Integers, Sequence[Integers]]]:
    """Yield teachers that are fitted together, the rows that they need, their labels, and positions among the rows.

    Rows in memory have one turn. Other rows have as few turns as memory allows. A teacher whose own shard takes more
    than `_BYTES_AT_ONCE` has a turn of its own.
    """
    if not isinstance(X, RowsInBlocks):
        yield slice(0, len(shards)), X, y, shards
        return
    for teachers in _turns(X.n_features, shards):
        own = shards[teachers]
        positions = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *own]))
        yield teachers, X.take(positions), y[positions], [np.searchsorted(positions, shard) for shard in own]


def _turns(n_features: int, shards: Sequence[Integers]) -> list[slice]:
    most = max(1, _BYTES_AT_ONCE // (8 * max(1, n_features)))
    ready, first, rows = [], 0, 0
    for teacher, shard in enumerate(shards):
        if rows + len(shard) > most and teacher > first:
            ready.append(slice(first, teacher))
            first, rows = teacher, 0
        rows += len(shard)
    return [*ready, slice(first, len(shards))]


# Enough waves for a smooth progress bar, and enough teachers in a task to hide its overhead when there are many.
_WAVES = 100
_TASKS_A_WORKER = 4
_TASKS_IN_ALL = 20
_LARGEST_TASK = 16
# Every task of a vote carries the rows, which may be larger than the teachers.
_VOTES_A_WORKER = 2
_MADE_UP_ROWS = 200


@dataclass(frozen=True, eq=False, repr=False)
class SeparateTeachers:
    """Teachers as fitted estimators, with ``None`` for those that vote a constant. Private."""

    models: list[Any]
    fallback_votes: Integers  # if a teacher has no model or its model fails
    seeds: Integers
    classes: NDArray[Any]
    n_failed: int  # fits that raised
    n_jobs: int | None
    seen: list[Integers | None]  # class ids that each model knows as 0, 1, ..., or None if it knows the labels

    def vote(self, X: Floats) -> Ballots:
        """Return class ids of shape (n_queries, n_teachers)."""
        ballots = np.empty((len(X), len(self.models)), dtype=ballot_dtype(len(self.classes)), order="F")
        ballots[:] = self.fallback_votes[None, :]
        fitted = np.array([t for t, model in enumerate(self.models) if model is not None], dtype=np.int64)

        def call(task: Integers) -> tuple[Any, ...]:
            models = [self.models[t] for t in task]
            fallbacks = self.fallback_votes[task].tolist()
            class_ids = [self.seen[t] for t in task]
            return models, fallbacks, self.seeds[task].tolist(), X, self.classes, class_ids

        size = -(-len(fitted) // (_VOTES_A_WORKER * _n_workers(self.n_jobs)))
        for task, columns in _in_parallel(_predict, call, _tasks(fitted, max(1, size)), self.n_jobs, waves=1):
            ballots[:, task] = columns
        return ballots


def fit_separately(
    estimator: Any,
    X: Floats,
    y: Integers,
    shards: Sequence[Integers],
    *,
    classes: NDArray[Any],
    constant_votes: Integers | None = None,
    seeds: Sequence[int],
    n_jobs: int | None,
    on_done: Callable[[int], None],
    as_labels: bool = False,
) -> SeparateTeachers:
    """Fit one clone of an estimator on each shard. Each worker gets only its own shards.

    The classes of a shard are 0, 1, ... to its teacher, as some libraries require. A teacher that knows all classes
    gets labels instead, and so does every teacher if `as_labels` is true. Constant votes are `_constant_voters` of the
    shards unless given.
    """
    if constant_votes is None:
        constant_votes = _constant_voters(y, shards, len(classes))
    as_labels = as_labels or estimator.get_params().get("classes") is not None
    models: list[Any] = [None] * len(shards)
    fallbacks = constant_votes.copy()
    to_fit = np.flatnonzero(constant_votes < 0)
    fallbacks[to_fit] = [np.bincount(y[shards[t]]).argmax() for t in to_fit.tolist()]
    on_done(len(shards) - len(to_fit))
    errors: list[str] = []

    class_ids: list[Integers | None] = [None] * len(shards)

    def lesson(t: int) -> tuple[Any, Any, int]:
        if as_labels:
            return X[shards[t]], classes[y[shards[t]]], seeds[t]
        class_ids[t], own = np.unique(y[shards[t]], return_inverse=True)
        return X[shards[t]], own, seeds[t]

    def call(task: Integers) -> tuple[Any, ...]:
        return estimator, [lesson(t) for t in task.tolist()]

    size = min(_LARGEST_TASK, 1 + len(to_fit) // (_TASKS_IN_ALL * _TASKS_A_WORKER * _n_workers(n_jobs)))
    for task, results in _in_parallel(_fit, call, _tasks(to_fit, size), n_jobs, waves=_WAVES):
        for t, (model, error) in zip(task, results, strict=True):
            models[t] = model
            if model is None:
                errors.append(error)
        on_done(len(task))
    if errors and len(errors) == len(to_fit):
        raise TeacherError(
            f"no teacher could be fitted: {type(estimator).__name__}.fit raised {errors[0]}; "
            f"{_rehearsed(estimator, X.shape[1], len(classes))}"
        )
    return SeparateTeachers(models, fallbacks, np.asarray(seeds), classes, len(errors), n_jobs, class_ids)


def _tasks(teachers: Integers, size: int) -> list[Integers]:
    return [teachers[start : start + size] for start in range(0, len(teachers), size)]


def _n_workers(n_jobs: int | None) -> int:
    cluster = active_cluster()
    return int(effective_n_jobs(n_jobs)) if cluster is None else max(1, cluster.n_workers)


def _in_parallel(
    work: Callable[..., Any],
    call: Callable[[Integers], tuple[Any, ...]],
    tasks: list[Integers],
    n_jobs: int | None,
    *,
    waves: int,
) -> Iterator[tuple[Integers, Any]]:
    """Yield each task's teachers with its result, in waves, as not every joblib backend streams results."""
    cluster = active_cluster()
    if cluster is not None:
        yield from zip(tasks, cluster.results(work, map(call, tasks)), strict=True)
        return
    with Parallel(n_jobs=n_jobs, **private_workers()) as parallel:
        workers = effective_n_jobs(n_jobs)
        # A single worker need not wait for others at the end of a wave.
        wave = max(1 if workers == 1 else _TASKS_A_WORKER * workers, len(tasks) // waves)
        for start in range(0, len(tasks), wave):
            chunk = tasks[start : start + wave]
            yield from zip(chunk, parallel(delayed(work)(*call(task)) for task in chunk), strict=True)


def _fit(estimator: Any, shards: list[tuple[Any, Any, int]]) -> list[tuple[Any, str]]:
    """Fit one task's teachers. An exception becomes its type's name, since its text may quote records."""
    results: list[tuple[Any, str]] = []
    with _quietly():
        for X, y, seed in shards:
            model = _seeded(clone(estimator), seed)
            try:
                with _own_global_randomness(seed):
                    results.append((model.fit(X, y), ""))
            except Exception as error:
                results.append((None, type(error).__name__))
    return results


def _seeded(model: Any, seed: int) -> Any:
    """Seed a clone's own parameters and, if they have no seed, its splitters. Make the clone quiet."""
    for name, value in model.get_params().items():
        setting = name.split("__")[-1]
        if setting == "random_state":
            model.set_params(**{name: seed})
        elif setting == "verbose" and isinstance(value, (bool, int)):
            model.set_params(**{name: type(value)(0)})
        elif getattr(value, "random_state", seed) is None and not hasattr(value, "get_params"):
            value.random_state = seed
    return model


@contextmanager
def _own_global_randomness(seed: int) -> Iterator[None]:
    """Seed the global generators for one teacher, so that no teacher depends on another's draws."""
    # Other threads share the generators at unpredictable moments.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence warnings, which could reveal private records, and BLAS threads, which only slow small shards.

    A teacher with workers of its own must not write records to files for them either.
    """
    with warnings.catch_warnings(), one_thread(None), parallel_config(max_nbytes=None):
        warnings.simplefilter("ignore")
        yield


def _rehearsed(estimator: object, n_features: int, n_classes: int) -> str:
    """Fit an estimator once on made-up rows, whose error may be quoted in full, and return the outcome in words."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(_MADE_UP_ROWS, n_features)), np.arange(_MADE_UP_ROWS) % n_classes
    try:
        with _quietly():
            _seeded(clone(estimator), 0).fit(X, y).predict(X)
    except Exception as error:
        return f"on {_MADE_UP_ROWS} made-up rows it says: {' '.join(str(error).split()) or type(error).__name__}"
    return f"{_MADE_UP_ROWS} made-up rows it can learn from, so it may need more records each: use fewer teachers."


def _ids(labels: NDArray[Any], classes: NDArray[Any]) -> Integers:
    ids = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    if np.any(classes[ids] != labels):
        raise ValueError
    return ids


def _predict(
    models: list[Any],
    fallbacks: list[int],
    seeds: list[int],
    X: Any,
    classes: NDArray[Any],
    seen: list[Integers | None],
) -> Ballots:
    ballots = np.empty((len(X), len(models)), dtype=ballot_dtype(len(classes)), order="F")
    with _quietly():
        for column, (model, fallback, seed, own) in enumerate(zip(models, fallbacks, seeds, seen, strict=True)):
            try:
                with _own_global_randomness(seed):
                    # A copy for each, since a model that transforms rows in place must not affect the next ones.
                    labels = model.predict(X.copy())
                    ballots[:, column] = (
                        _ids(labels, classes) if own is None else own[_ids(labels, np.arange(len(own)))]
                    )
            except Exception:  # a teacher that cannot answer votes like one that could not be fitted
                ballots[:, column] = fallback
    return ballots


# Steps of a progress bar.
_STEPS = 100


class _Allocated(Protocol):
    @property
    def shards(self) -> Sequence[NDArray[np.int64]]: ...


class _Fitted(Protocol):
    def vote(self, X: NDArray[np.float64]) -> NDArray[np.unsignedinteger]: ...


@dataclass(eq=False, repr=False)
class TeacherEnsemble:
    """Teachers fitted on the shards of an allocation.

    Each teacher depends on its own records, its own public seed and public settings only. So a change of one unit can
    alter only the votes of that unit's teachers. A shard whose records all carry one label gives a teacher that always
    votes for it. Teacher ``t`` of an empty shard always votes for class ``t % n_classes``. A teacher whose fit raises
    votes for its own majority class.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Cloned for each teacher. Plain logistic regression is fitted in batches. An estimator with a method
        ``fit_together``, such as `TorchClassifier`, fits all teachers itself.
    allocation : Allocation, or an object with ``shards``
        Which records teach which teachers. ``shards`` are the record indices of each teacher.
    classes : ndarray of shape (n_classes,)
        Declared labels, sorted.
    entropy : int
        Public seed of the teachers.
    n_jobs : int or None
        Workers, as in joblib. ``None`` obeys ``joblib.parallel_config``.

    Notes
    -----
    Secret. Never publish an ensemble or its votes.
    """

    estimator: Any
    allocation: _Allocated
    classes: NDArray[Any]
    _: KW_ONLY
    entropy: int
    n_jobs: int | None = None

    def fit(
        self, X: NDArray[np.float64] | RowsInBlocks, y: NDArray[np.int64], on_done: Callable[[float], None]
    ) -> TeacherEnsemble:
        """Fit every teacher to private rows, shape (n_records, n_features), and class ids.

        If rows come in blocks, only the rows of one turn are in memory. `on_done` is called with the number of teachers
        that were just finished. These add up to the number of all teachers. The steps are even, because uneven steps
        would reveal how many teachers vote a constant, which is secret.
        """
        shards = self.allocation.shards
        constant_votes = _constant_voters(y, shards, len(self.classes))
        self.n_constant = int(np.count_nonzero(constant_votes >= 0))
        self.n_failed = 0
        report = _evenly(on_done, len(shards), self.n_constant)
        self._fitted: list[_Fitted] = []
        for teachers, rows, labels, own in _in_turns(X, y, shards):
            self._fitted.append(self._fit_turn(rows, labels, own, teachers, constant_votes, report, on_done))
        return self

    def _fit_turn(
        self,
        X: NDArray[np.float64],
        y: NDArray[np.int64],
        shards: Sequence[NDArray[np.int64]],
        teachers: slice,
        constant_votes: NDArray[np.int64],
        report: Callable[[int], None],
        on_done: Callable[[float], None],
    ) -> _Fitted:
        """Fit some teachers, on rows that are in memory."""
        constants = constant_votes[teachers]
        if BatchedLogistic.supports(self.estimator):
            refuse_cluster("logistic regressions are fitted in batches on one machine, which is faster")
            return BatchedLogistic.fit(
                self.estimator,
                X,
                y,
                shards,
                n_classes=len(self.classes),
                constant_votes=constants,
                n_jobs=self.n_jobs,
                on_done=report,
            )
        together = _fits_together(self.estimator)
        if together:
            refuse_cluster(f"{type(self.estimator).__name__} fits all teachers itself")
        fit = self.estimator.fit_together if together else partial(fit_separately, self.estimator)
        seeded: Any = fit(
            X,
            y,
            shards,
            classes=self.classes,
            constant_votes=constants,
            seeds=[seed_integer(self.entropy, Stream.TEACHERS, t) for t in range(teachers.start, teachers.stop)],
            n_jobs=self.n_jobs,
            # Blocks include all teachers, also constant ones, and so are already even.
            on_done=on_done if together else report,
        )
        self.n_failed += seeded.n_failed
        fitted: _Fitted = seeded
        return fitted

    def vote(self, X: NDArray[np.float64]) -> Votes:
        """Return every teacher's vote on a chunk of public rows, shape (n_queries, n_features)."""
        ballots = [fitted.vote(X) for fitted in self._fitted]
        return Votes(ballots[0] if len(ballots) == 1 else np.hstack(ballots), n_classes=len(self.classes))


def _fits_together(estimator: object) -> bool:
    """Return whether an estimator can fit all teachers itself, as its own `fit` would fit each."""
    # A subclass with another `fit`, such as one that adds noise, inherits `fit_together` but must not use it.
    for kind in type(estimator).__mro__:
        if "fit_together" in vars(kind):
            return True
        if "fit" in vars(kind):
            return False
    return False


def _evenly(on_done: Callable[[float], None], n_teachers: int, n_constant: int) -> Callable[[int], None]:
    """Report the progress of all teachers in the same steps for every number of constant voters, which is secret."""
    n_steps = min(_STEPS, n_teachers)
    n_finished = step = 0

    def report(just_finished: int) -> None:
        nonlocal n_finished, step
        n_finished += just_finished
        n_to_fit = n_teachers - n_constant
        is_last = n_finished == n_teachers
        reached = n_steps if is_last else n_steps * max(0, n_finished - n_constant) // max(1, n_to_fit)
        while step < reached:
            before = n_teachers * step // n_steps
            step += 1
            on_done(n_teachers * step // n_steps - before)

    return report


def _constant_voters(y: Integers, shards: Sequence[Integers], n_classes: int) -> Integers:
    """Return the class that a teacher always votes for, or -1 if its shard holds two classes or more."""
    sizes = np.array([shard.size for shard in shards])
    constants = np.arange(len(shards)) % n_classes
    filled = np.flatnonzero(sizes)
    if filled.size:
        labels = y[np.concatenate(shards)]
        starts = (np.cumsum(sizes) - sizes)[filled]
        lowest = np.minimum.reduceat(labels, starts)
        highest = np.maximum.reduceat(labels, starts)
        constants[filled] = np.where(lowest == highest, lowest, -1)
    return constants


# Numbers in a chunk of answers.
_NUMBERS = 4_000_000
_LARGEST = 1e150
_MADE_UP_ANSWERS = 120


class SoftTeacherEnsemble(TeacherEnsemble):
    """Teachers fitted on the shards of an allocation, which also answer with probabilities or parameters.

    Parameters: see `TeacherEnsemble`. The answers are as secret as votes.
    """

    def fit(self, X: Floats | RowsInBlocks, y: Integers, on_done: Callable[[float], None]) -> SoftTeacherEnsemble:
        """Fit every teacher as `TeacherEnsemble.fit` does. All records are in memory together."""
        super().fit(X, y, on_done)
        # Rows of an array have a single turn.
        (fitted,) = self._fitted
        self._teachers: Any = fitted if BatchedLogistic.supports(self.estimator) else _Models(fitted, self.classes)
        shards, n_classes = self.allocation.shards, len(self.classes)
        counts = np.stack([np.bincount(y[shard], minlength=n_classes) for shard in shards])
        self._shares: Floats = (counts + 1) / (counts.sum(axis=1, keepdims=True) + n_classes)
        self._n_features = X.shape[1]
        return self

    @staticmethod
    def require_linear(estimator: object, n_features: int, n_classes: int) -> None:
        """Refuse an estimator whose scores on made-up rows are not linear in the features."""
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(_MADE_UP_ANSWERS, n_features)), np.arange(_MADE_UP_ANSWERS) % n_classes
        with _quietly():
            try:
                model = clone(estimator).fit(X, y)
                scores = np.asarray(model.decision_function(X)).reshape(len(X), -1)
                linear = np.allclose(X @ np.asarray(model.coef_).T + model.intercept_, scores, atol=1e-6)
            except Exception:
                linear = False
        if not linear:
            raise InvalidParameterError(
                f"teacher={type(estimator).__name__} must have a coef_ and intercept_ that give its scores, since "
                "answers='parameters' averages these: use logistic regression, or answers='probabilities'."
            )

    def probabilities(self, X: Floats) -> Iterator[Floats]:
        """Yield the teachers' probabilities, a few teachers at a time, in order.

        Parameters
        ----------
        X : ndarray of shape (n_queries, n_features)
            Public rows.

        Yields
        ------
        ndarray of shape (n_teachers, n_queries, n_classes)
            Finite numbers from 0 to 1.
        """
        n_teachers, n_classes = self._shares.shape
        size = max(1, _NUMBERS // max(1, len(X) * n_classes))
        for start in range(0, n_teachers, size):
            part = slice(start, min(start + size, n_teachers))
            chances = self._teachers.probabilities(part, X)
            unusable = ~np.isfinite(chances).all(axis=(1, 2))
            chances[unusable] = self._shares[part][unusable, None, :]
            yield chances.clip(0.0, 1.0)

    def parameters(self) -> Floats:
        """Return the learned parameters of every linear teacher: coefficients and, last, intercepts.

        Returns
        -------
        ndarray of shape (n_teachers, n_outputs, n_features + 1)
            Finite. One output for two classes, the log-odds of the second. Otherwise one a class, which sum to 0.
        """
        n_teachers, n_classes = self._shares.shape
        parameters = np.zeros((n_teachers, n_classes, self._n_features + 1))
        parameters[:, :, -1] = np.log(self._shares)
        for t in range(n_teachers):
            own = self._coefficients_of(t)
            # Numbers that are not finite, or whose differences would not be, do not count as an answer.
            if own is not None and np.isfinite(own).all() and np.abs(own).max() < _LARGEST:
                parameters[t] = own
        if n_classes == 2:
            return parameters[:, 1:] - parameters[:, :1]
        return parameters - parameters.mean(axis=1, keepdims=True)

    def _coefficients_of(self, t: int) -> Floats | None:
        """Return the logit of every class from one fitted teacher, or None if it has none."""
        coefficients = self._teachers.coefficients(t, self._n_features)
        if coefficients is None:
            return None
        columns, coef, intercept = coefficients
        if not coef.any():
            return None
        rows = np.hstack([coef, intercept[:, None]])
        if len(rows) == 1:
            rows = np.concatenate([-rows / 2, rows / 2])
        logits = np.zeros((len(self.classes), rows.shape[1]))
        logits[columns] = rows
        absent = np.setdiff1d(np.arange(len(logits)), columns)
        # A class that no record of the shard has gets less than the rarest class present.
        logs = np.log(self._shares[t])
        logits[absent, -1] = rows[:, -1].min() + logs[absent] - logs[columns].min()
        return logits


class _Models:
    """Teachers as fitted models, one each, of this library or of an estimator that fits all teachers itself."""

    def __init__(self, fitted: Any, classes: NDArray[Any]) -> None:
        self._models, self._classes = fitted.models, classes
        # An estimator's own teachers know the labels, and draw nothing.
        self._seeds, self._seen = getattr(fitted, "seeds", None), getattr(fitted, "seen", None)

    def probabilities(self, part: slice, X: Floats) -> Floats:
        """Return the probabilities of some teachers, NaN for a teacher that has none."""
        return np.stack([self._probabilities_of(t, X) for t in range(part.start, part.stop)])

    def _probabilities_of(self, t: int, X: Floats) -> Floats:
        unknown = np.full((len(X), len(self._classes)), np.nan)
        model = self._models[t]
        if model is None:
            return unknown
        with _quietly():
            try:
                with _own_global_randomness(0 if self._seeds is None else int(self._seeds[t])):
                    columns = self._classes_of(t)
                    chances = np.zeros_like(unknown)
                    # A copy for each, since a model that transforms rows in place must not affect the next ones.
                    chances[:, columns] = model.predict_proba(X.copy())
                    unknown = chances
            except Exception:  # noqa: S110 - the text may quote records; the shares of its classes stand for this teacher
                pass
        return unknown

    def _classes_of(self, t: int) -> Integers:
        """Return the class ids of a model's columns."""
        labels = self._models[t].classes_
        if self._seen is not None and self._seen[t] is not None:
            own: Integers = self._seen[t][np.asarray(labels, dtype=np.int64)]
            return own
        return np.searchsorted(self._classes, labels)

    def coefficients(self, t: int, n_features: int) -> tuple[Integers, Floats, Floats] | None:
        """Return a teacher's class ids, coefficients and intercepts, or None if it has none."""
        model = self._models[t]
        if model is None:
            return None
        columns = self._classes_of(t)
        try:
            coef = np.asarray(model.coef_, dtype=np.float64)
            intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), len(coef))
        except Exception:  # The text may quote records. The shares of its classes stand for this teacher.
            return None
        return (columns, coef, intercept) if coef.shape in ((len(columns), n_features), (1, n_features)) else None
