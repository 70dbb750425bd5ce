"""All teachers of an allocation, fitted together and voting in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import Stream, seed_integer
from dpensemble.allocation import Allocation
from dpensemble.allocation.partition import Shards
from dpensemble.clusters.base import refuse_cluster
from dpensemble.teachers.batched_logistic import fit_batched_logistic, supports
from dpensemble.teachers.separate import fit_separately
from dpensemble.teachers.turns import RowsInBlocks, in_turns
from dpensemble.votes import Votes

# Steps of a progress bar.
_STEPS = 100


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
    allocation : Allocation or Taught
        Which records teach which teachers.
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
    allocation: Allocation | Shards
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
        constant_votes = constant_voters(y, shards, len(self.classes))
        self.n_constant = int(np.count_nonzero(constant_votes >= 0))
        self.n_failed = 0
        report = _evenly(on_done, len(shards), self.n_constant)
        self._fitted: list[_Fitted] = []
        for teachers, rows, labels, own in in_turns(X, y, shards):
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
        if supports(self.estimator):
            refuse_cluster("logistic regressions are fitted in batches on one machine, which is faster")
            return fit_batched_logistic(
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


def constant_voters(y: NDArray[np.int64], shards: tuple[NDArray[np.int64], ...], n_classes: int) -> NDArray[np.int64]:
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
