"""Many networks as teachers: trained in blocks and voting in blocks, each with the same result as alone.

Which teachers form a block depends on public settings and their numbers only. A teacher that always votes for one
class keeps its place there, so no record can move another teacher to another block. Joblib's workers take the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from dpensemble._workers import private_workers
from dpensemble.errors import TeacherError
from dpensemble.neural._torch import own_generator, resolve_device
from dpensemble.neural.block_jobs import fit_block, network_of, vote_block
from dpensemble.neural.schedule import Training
from dpensemble.votes import ballot_dtype

# Numbers in all layers, rows and teachers of a block: enough to hide the cost of a call, few enough for caches.
_NUMBERS_IN_FLIGHT = 1_500_000
_NUMBERS_IN_FLIGHT_ON_CUDA = 500_000_000
_LARGEST_BLOCK = 64
_FEWEST_BLOCKS = 4
_BLOCKS_A_WAVE = 4


@dataclass(frozen=True, eq=False, repr=False)
class StackedTeachers:
    """Teachers as fitted classifiers, with ``None`` for those that vote a constant. All but the classes is private.

    `fallback_votes` are the class ids that teachers vote for when they have no model or their model fails, and
    `n_failed` counts teachers whose training diverged.
    """

    models: list[Any]
    fallback_votes: NDArray[np.int64]
    classes: NDArray[Any]
    n_failed: int
    block_size: int
    n_jobs: int | None

    def vote(self, X: NDArray[np.float64]) -> NDArray[np.unsignedinteger]:
        """Return class ids of shape (n_queries, n_teachers)."""
        ballots = np.empty((len(X), len(self.models)), dtype=ballot_dtype(len(self.classes)), order="F")
        rows = _as_float32(X)
        blocks = _blocks(len(self.models), self.block_size)

        def job(block: slice) -> Any:
            return delayed(vote_block)(self.models[block], self.fallback_votes[block], rows, len(self.classes))

        for block, columns in _in_parallel(job, blocks, self.n_jobs):
            ballots[:, block] = columns
        return ballots


def fit_together(
    estimator: object,
    X: NDArray[np.float64],
    y: NDArray[np.int64],
    shards: Sequence[NDArray[np.int64]],
    *,
    classes: NDArray[Any],
    constant_votes: NDArray[np.int64],
    seeds: Sequence[int],
    n_jobs: int | None,
    on_done: Callable[[int], None],
) -> StackedTeachers:
    """Train one clone of a `TorchClassifier` on each shard; arguments are those of ``fit_together`` there."""
    template = _template(estimator, X.shape[1], classes)
    to_fit = np.flatnonzero(constant_votes < 0)
    fallbacks = constant_votes.copy()
    fallbacks[to_fit] = [np.bincount(y[shards[t]]).argmax() for t in to_fit.tolist()]
    size = _block_size(template, len(shards))
    models: list[Any] = []

    def records(t: int) -> Any:
        return (_as_float32(X[shards[t]]), y[shards[t]]) if constant_votes[t] < 0 else None

    def job(block: slice) -> Any:
        members = range(*block.indices(len(shards)))
        return delayed(fit_block)(template, [records(t) for t in members], [int(seeds[t]) for t in members])

    for block, fitted in _in_parallel(job, _blocks(len(shards), size), n_jobs):
        models += fitted
        on_done(len(range(*block.indices(len(shards)))))
    n_failed = sum(models[t] is None for t in to_fit.tolist())
    if n_failed and n_failed == len(to_fit):
        # The cause is more likely the settings than the data.
        rate = Training.of(template, template.input_shape_).optimizer.learning_rate
        raise TeacherError(
            f"no teacher could be fitted: all trainings with learning_rate={rate!r} diverged; "
            "lower it or scale the columns."
        )
    return StackedTeachers(models, fallbacks, classes, n_failed, size, n_jobs)


def _as_float32(X: NDArray[Any]) -> NDArray[np.float32]:
    """Return rows in single precision. An overflow makes its own teacher diverge, without a warning."""
    with np.errstate(over="ignore"):
        return np.asarray(X, dtype=np.float32)


def _template(estimator: Any, n_features: int, classes: NDArray[Any]) -> Any:
    """Return a clone that knows classes and shapes, after all checks that need no record."""
    template = estimator.__sklearn_clone__().set_params(classes=classes.tolist())
    template.classes_ = classes
    template._prepare(n_features)
    template.n_features_in_ = n_features
    Training.of(template, template.input_shape_)
    with own_generator(0, "cpu"):
        template._new_module()
    return template


def stacking_obstacle(estimator: Any, n_features: int, n_classes: int) -> str | None:
    """Return why teachers like a `TorchClassifier` are trained one by one, or None if they are trained together.

    For example "a row's logits depend on other rows of its batch".

    Examples
    --------
    >>> from dpensemble.neural import TorchClassifier
    >>> stacking_obstacle(TorchClassifier(), n_features=4, n_classes=2)  # doctest: +SKIP
    """
    network = network_of(_template(estimator, n_features, np.arange(n_classes)))
    return network if isinstance(network, str) else None


def _block_size(template: Any, n_teachers: int) -> int:
    """Return how many teachers to train at once, from public settings alone."""
    network = network_of(template)
    if isinstance(network, str):
        return 1
    numbers = _NUMBERS_IN_FLIGHT if resolve_device(template.device) == "cpu" else _NUMBERS_IN_FLIGHT_ON_CUDA
    fitting = numbers // (template.batch_size * max(1, network.numbers_a_row))
    return int(min(max(1, fitting), _LARGEST_BLOCK, -(-n_teachers // _FEWEST_BLOCKS)))


def _blocks(n_teachers: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, n_teachers, size)]


def _in_parallel(job: Callable[[slice], Any], blocks: list[slice], n_jobs: int | None) -> Iterator[tuple[slice, Any]]:
    """Yield each block with its result, in waves, since not every joblib backend returns results early."""
    wave = _BLOCKS_A_WAVE * effective_n_jobs(n_jobs)
    with Parallel(n_jobs=n_jobs, **private_workers()) as parallel:
        for start in range(0, len(blocks), wave):
            chunk = blocks[start : start + wave]
            yield from zip(chunk, parallel(job(block) for block in chunk), strict=True)
