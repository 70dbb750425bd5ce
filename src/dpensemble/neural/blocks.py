"""Many networks as teachers: trained in blocks and voting in blocks, each as if in a block of its own.

Which teachers form a block depends on public settings and their numbers only. A teacher that always votes for one
class keeps its place there, so no record can move another teacher to another block. Joblib's workers take the blocks.

The shapes of a block's arrays do not depend on the teachers' records: teachers without a network keep their place,
and batches that are not full are padded. So a change of one teacher's records cannot affect another's arithmetic.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from dpensemble._work import private_workers
from dpensemble.errors import TeacherError
from dpensemble.neural._torch import Device, Module, Tensor, one_thread, require_torch
from dpensemble.neural.stacked import Network
from dpensemble.neural.training import Schedule, Training
from dpensemble.votes import ballot_dtype

# Numbers of all layers, rows and teachers at once in voting, which stores nothing for later.
_NUMBERS_IN_VOTING = 6_000_000

_Records = tuple[NDArray[np.float32], NDArray[np.int64]]


def _network_of(template: Any) -> Network | str:
    """Return how to run a template's networks at once, or why that is impossible."""
    with Device("cpu").seeded(0):
        return Network.of(template._new_module(), template.input_shape_)


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence warnings, which could reveal private records, and use one thread."""
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        yield


def _fit_block(template: Any, tables: list[_Records | None], seeds: list[int]) -> list[Any]:
    """Train one block of teachers on their own records. None for a teacher without records or after a divergence."""
    if all(records is None for records in tables):
        return [None] * len(tables)
    network = _network_of(template)
    with _quietly():
        # A stack of one, as for a large network or batch, is slower than no stack.
        if isinstance(network, str) or len(tables) == 1:
            return [_fit_alone(template, records, seed) for records, seed in zip(tables, seeds, strict=True)]
        return _fit_stacked(template, network, tables, seeds)


def _fit_stacked(template: Any, network: Network, tables: list[_Records | None], seeds: list[int]) -> list[Any]:
    training, device = Training.of(template, template.input_shape_), Device.of(template.device)
    lessons = [
        None if records is None else _lesson(template, records, Schedule(seed, len(records[0]), training), device)
        for records, seed in zip(tables, seeds, strict=True)
    ]
    stack = network.stack([None if lesson is None else _start(template, lesson[2]) for lesson in lessons], device)
    stack.train(lessons, training)
    return [None if lessons[t] is None else _single(template, seed, stack.state(t)) for t, seed in enumerate(seeds)]


def _lesson(template: Any, records: _Records, schedule: Schedule, device: Device) -> tuple[Tensor, Tensor, Schedule]:
    rows, targets = records
    return template._rows(rows, device), require_torch().as_tensor(targets, device=device.name), schedule


def _start(template: Any, schedule: Schedule) -> Any:
    with Device("cpu").seeded(schedule.torch_seed):
        return template._new_module()


def _fit_alone(template: Any, records: _Records | None, seed: int) -> Any:
    if records is None:
        return None
    training = Training.of(template, template.input_shape_)
    try:
        state, _ = template._trained(*records, seed, training)
    except Exception:  # one teacher's records must not stop the others
        return None
    return _single(template, seed, state)


def _single(template: Any, seed: int, state: dict[str, NDArray[Any]]) -> Any:
    """Return one teacher as a fitted classifier of its own, or None if its numbers are not finite."""
    if not all(np.isfinite(value).all() for value in state.values()):
        return None
    model = template.__sklearn_clone__().set_params(random_state=seed)
    model.classes_, model.input_shape_ = template.classes_, template.input_shape_
    model.n_features_in_, model.state_ = template.n_features_in_, state
    return model


def _vote_block(
    models: list[Any], fallbacks: NDArray[np.int64], X: NDArray[np.float32], n_classes: int
) -> NDArray[np.unsignedinteger]:
    """Return a block's class ids (n_queries, n_teachers), or fallbacks if a model gives no finite answer."""
    ballots = np.empty((len(X), len(models)), dtype=ballot_dtype(n_classes), order="F")
    ballots[:] = fallbacks[None, :]
    fitted = [t for t, model in enumerate(models) if model is not None]
    if fitted:
        with _quietly():
            votes, finite = _votes(models, models[fitted[0]], X, n_classes)
        for t in fitted:
            if finite[t]:
                ballots[:, t] = votes[:, t]
    return ballots


def _votes(
    models: list[Any], template: Any, X: NDArray[np.float32], n_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return class ids and which teachers' logits are finite."""
    device = Device.of(template.device)
    network = _network_of(template)
    modules = [None if model is None else model.fitted_module().to(device.name) for model in models]
    n_rows, ask = _asker(network, modules, n_classes, device)
    votes = np.zeros((len(X), len(models)), dtype=np.int64)
    finite = np.ones(len(models), dtype=np.bool_)
    for start in range(0, len(X), n_rows):
        logits = ask(template._rows(X[start : start + n_rows], device))
        finite &= logits.isfinite().flatten(1).all(dim=1).cpu().numpy()
        votes[start : start + n_rows] = logits.argmax(dim=1).T.cpu().numpy()
    return votes, finite


def _asker(
    network: Network | str, modules: list[Module | None], n_classes: int, device: Device
) -> tuple[int, Callable[[Tensor], Tensor]]:
    """Return how many rows to ask about at once, and the function that gives all teachers' logits of them."""
    torch = require_torch()
    # A stack of one is slower than no stack.
    if not isinstance(network, str) and len(modules) > 1:
        stack = network.stack(modules, device)
        size = _NUMBERS_IN_VOTING // (len(modules) * max(1, network.numbers_a_row))
        # A multiple of what vector instructions process.
        return max(1, size // 16) * 16, stack.logits

    modules = [None if module is None else device.laid_out(module) for module in modules]

    def one_by_one(rows: Tensor) -> Tensor:
        absent = torch.zeros((n_classes, len(rows)), device=device.name)
        with torch.no_grad():
            return torch.stack([absent if module is None else module(rows).T for module in modules])

    return device.rows_at_once, one_by_one


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

    @classmethod
    def fit(
        cls,
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
        """Train one clone of a `TorchClassifier` on each shard. Arguments are those of ``fit_together`` there."""
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
            return delayed(_fit_block)(template, [records(t) for t in members], [int(seeds[t]) for t in members])

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
        return cls(models, fallbacks, classes, n_failed, size, n_jobs)

    def vote(self, X: NDArray[np.float64]) -> NDArray[np.unsignedinteger]:
        """Return class ids of shape (n_queries, n_teachers)."""
        ballots = np.empty((len(X), len(self.models)), dtype=ballot_dtype(len(self.classes)), order="F")
        rows = _as_float32(X)
        blocks = _blocks(len(self.models), self.block_size)

        def job(block: slice) -> Any:
            return delayed(_vote_block)(self.models[block], self.fallback_votes[block], rows, len(self.classes))

        for block, columns in _in_parallel(job, blocks, self.n_jobs):
            ballots[:, block] = columns
        return ballots


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
    with Device("cpu").seeded(0):
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
    network = _network_of(_template(estimator, n_features, np.arange(n_classes)))
    return network if isinstance(network, str) else None


def _block_size(template: Any, n_teachers: int) -> int:
    """Return how many teachers to train at once, from public settings alone."""
    network = _network_of(template)
    if isinstance(network, str):
        return 1
    numbers = _NUMBERS_IN_FLIGHT if Device.of(template.device).is_processor else _NUMBERS_IN_FLIGHT_ON_CUDA
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
