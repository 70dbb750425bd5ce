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
from dpensemble.neural._torch import (
    Module,
    Tensor,
    for_processor,
    one_thread,
    own_generator,
    require_torch,
    resolve_device,
    rows_at_once,
)
from dpensemble.neural.stacked import Network, Step, stacked_network
from dpensemble.neural.training import Precision, Schedule, Training, augmented_images, train
from dpensemble.votes import ballot_dtype

_State = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class _Table:
    """One teacher's own rows (n_rows, *input_shape) and class ids, both private, and its schedule."""

    rows: Tensor
    targets: Tensor
    schedule: Schedule


class _Stack:
    """Parameters of a block of networks: one row of numbers a teacher, zeros for None, accessible by name."""

    def __init__(self, modules: Sequence[Module | None], like: Module, device: str) -> None:
        torch = require_torch()
        self.shapes = {name: value.shape for name, value in like.named_parameters()}
        sizes = [shape.numel() for shape in self.shapes.values()]
        self.flat = torch.zeros((len(modules), sum(sizes)), device=device)
        self.gradient = torch.zeros_like(self.flat)
        self.parameters = self._by_name(self.flat, sizes)
        self.gradients = list(self._by_name(self.gradient, sizes).values())
        self.buffers = {
            name: torch.zeros((len(modules), *value.shape), dtype=value.dtype, device=device)
            for name, value in like.named_buffers()
        }
        for t, module in enumerate(modules):
            if module is not None:
                for name, value in [*module.named_parameters(), *module.named_buffers()]:
                    (self.parameters if name in self.shapes else self.buffers)[name][t] = value.detach()

    def _by_name(self, flat: Tensor, sizes: list[int]) -> dict[str, Tensor]:
        parts = zip(self.shapes.items(), flat.split(sizes, dim=1), strict=True)
        return {name: part.view(len(flat), *shape) for (name, shape), part in parts}

    def state(self, t: int) -> _State:
        """Return a copy of one teacher's parameters and buffers."""
        return {
            name: values[t].detach().cpu().numpy().copy()
            for name, values in {**self.parameters, **self.buffers}.items()
        }


# Vector instructions process this many numbers at once. Rows are padded to a multiple.
_EVEN = 16


def _train_block(stack: _Stack, network: Network, tables: Sequence[_Table | None], training: Training) -> None:
    """Train the networks of a stack in place, each on its own table. A teacher without a table only keeps its place."""
    step = _stepper(stack, network, training)
    n_batches = [0 if table is None else table.schedule.n_batches for table in tables]
    longest = max(n_batches)
    for name, counts in stack.buffers.items():
        if name.endswith("num_batches_tracked"):
            counts.add_(training.epochs * counts.new_tensor(n_batches))
    for _ in range(training.epochs if longest else 0):
        epochs = [None if table is None else _Epoch(table) for table in tables]
        for number in range(longest):
            step(_batch(epochs, number, -(-training.batch_size // _EVEN) * _EVEN, stack.flat.device))


class _Epoch:
    """One teacher's rows of an epoch, after augmentation and in the order of its batches."""

    def __init__(self, table: _Table) -> None:
        torch = require_torch()
        batches, moves = table.schedule.epoch()
        rows = table.rows if moves is None else augmented_images(table.rows, moves)
        order = torch.as_tensor(np.concatenate(batches), device=rows.device)
        self._rows, self._targets = rows[order], table.targets[order]
        self._ends = np.cumsum([0, *(len(batch) for batch in batches)]).tolist()
        self.shape = rows.shape[1:]

    def batch(self, number: int) -> tuple[Tensor, Tensor] | None:
        """Return the rows and targets of a batch, or None after the last."""
        if number >= len(self._ends) - 1:
            return None
        part = slice(self._ends[number], self._ends[number + 1])
        return self._rows[part], self._targets[part]


@dataclass(frozen=True, eq=False)
class _Batch:
    """One batch a teacher, padded: rows of shape (n_teachers, *input_shape, batch_size)."""

    rows: Tensor
    targets: Tensor
    live: Tensor
    present: list[bool]
    padded: bool


def _batch(epochs: Sequence[_Epoch | None], number: int, width: int, device: object) -> _Batch:
    torch = require_torch()
    shape = next(epoch.shape for epoch in epochs if epoch is not None)
    rows = torch.zeros((len(epochs), *shape, width), device=device)
    targets = torch.zeros((len(epochs), width), dtype=torch.int64, device=device)
    live = torch.zeros((len(epochs), width), device=device)
    present = [False] * len(epochs)
    padded = False
    for t, epoch in enumerate(epochs):
        own = None if epoch is None else epoch.batch(number)
        n_rows = 0 if own is None else len(own[0])
        padded = padded or n_rows < width
        if own is not None:
            rows[t, ..., :n_rows] = own[0].movedim(0, -1)
            targets[t, :n_rows], live[t, :n_rows], present[t] = own[1], 1.0, True
    return _Batch(rows, targets, live, present, padded)


def _stepper(stack: _Stack, network: Network, training: Training) -> Callable[[_Batch], None]:
    """Return the function that takes one step with every teacher that has a batch left."""
    torch = require_torch()
    parameters = {name: value.detach().requires_grad_() for name, value in stack.parameters.items()}
    each = [row.detach().requires_grad_() for row in stack.flat]
    optimizer = training.optimizer.of(each)
    factors = torch.float32 if training.precision is Precision.FLOAT32 else torch.bfloat16

    def step(batch: _Batch) -> None:
        logits = network(batch.rows, Step(parameters, stack.buffers, batch.live, batch.padded, factors))
        log_chances = torch.log_softmax(logits, dim=1).gather(1, batch.targets[:, None]).squeeze(1)
        losses = (log_chances * batch.live).sum(1) / batch.live.sum(1).clamp(min=1)
        gradients = torch.autograd.grad(-losses.sum(), list(parameters.values()))
        for target, gradient in zip(stack.gradients, gradients, strict=True):
            target.copy_(gradient)
        for t, present in enumerate(batch.present):
            # A network without a gradient is not touched, and neither are its moments and its count of steps.
            each[t].grad = stack.gradient[t] if present else None
        optimizer.step()

    return step


def _logits_of(stack: _Stack, network: Network, rows: Tensor) -> Tensor:
    """Return every network's logits of the same rows, shape (n_teachers, n_classes, n_rows)."""
    torch = require_torch()
    x = rows.movedim(0, -1).expand(len(stack.flat), *rows.shape[1:], len(rows))
    with torch.no_grad():
        return network(x, Step(stack.parameters, stack.buffers, None, False, torch.float32))


# Numbers of all layers, rows and teachers at once in voting, which stores nothing for later.
_NUMBERS_IN_VOTING = 6_000_000

_Records = tuple[NDArray[np.float32], NDArray[np.int64]]


def _network_of(template: Any) -> Network | str:
    """Return how to run a template's networks at once, or why that is impossible."""
    with own_generator(0, "cpu"):
        return stacked_network(template._new_module(), template.input_shape_)


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
    training = Training.of(template, template.input_shape_)
    own = [
        None if records is None else _table(template, records, Schedule(seed, len(records[0]), training))
        for records, seed in zip(tables, seeds, strict=True)
    ]
    modules = [None if table is None else _start(template, table.schedule) for table in own]
    like = next(module for module in modules if module is not None)
    stack = _Stack(modules, like, resolve_device(template.device))
    _train_block(stack, network, own, training)
    return [None if own[t] is None else _single(template, seed, stack.state(t)) for t, seed in enumerate(seeds)]


def _table(template: Any, records: _Records, schedule: Schedule) -> _Table:
    device = resolve_device(template.device)
    rows, targets = records
    return _Table(template._rows(rows, device), require_torch().as_tensor(targets, device=device), schedule)


def _start(template: Any, schedule: Schedule) -> Any:
    with own_generator(schedule.torch_seed, "cpu"):
        return template._new_module()


def _fit_alone(template: Any, records: _Records | None, seed: int) -> Any:
    if records is None:
        return None
    training = Training.of(template, template.input_shape_)
    try:
        state, _ = template._trained(*records, seed, training, train)
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
    device = resolve_device(template.device)
    network = _network_of(template)
    modules = [None if model is None else model.fitted_module().to(device) for model in models]
    n_rows, ask = _asker(network, modules, n_classes, device)
    votes = np.zeros((len(X), len(models)), dtype=np.int64)
    finite = np.ones(len(models), dtype=np.bool_)
    for start in range(0, len(X), n_rows):
        logits = ask(template._rows(X[start : start + n_rows], device))
        finite &= logits.isfinite().flatten(1).all(dim=1).cpu().numpy()
        votes[start : start + n_rows] = logits.argmax(dim=1).T.cpu().numpy()
    return votes, finite


def _asker(
    network: Network | str, modules: list[Module | None], n_classes: int, device: str
) -> tuple[int, Callable[[Tensor], Tensor]]:
    """Return how many rows to ask about at once, and the function that gives all teachers' logits of them."""
    torch = require_torch()
    # A stack of one is slower than no stack.
    if not isinstance(network, str) and len(modules) > 1:
        stack = _Stack(modules, next(module for module in modules if module is not None), device)
        size = _NUMBERS_IN_VOTING // (len(modules) * max(1, network.numbers_a_row))
        # A multiple of what vector instructions process.
        return max(1, size // 16) * 16, lambda rows: _logits_of(stack, network, rows)

    modules = [None if module is None else for_processor(module, device) for module in modules]

    def one_by_one(rows: Tensor) -> Tensor:
        absent = torch.zeros((n_classes, len(rows)), device=device)
        with torch.no_grad():
            return torch.stack([absent if module is None else module(rows).T for module in modules])

    return rows_at_once(device), one_by_one


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
            return delayed(_vote_block)(self.models[block], self.fallback_votes[block], rows, len(self.classes))

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
    network = _network_of(_template(estimator, n_features, np.arange(n_classes)))
    return network if isinstance(network, str) else None


def _block_size(template: Any, n_teachers: int) -> int:
    """Return how many teachers to train at once, from public settings alone."""
    network = _network_of(template)
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
