"""The work on a block of teachers: fit them, or let them vote."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from dpensemble.neural.block import Stack, Table, logits_of, train_block
from dpensemble.neural.schedule import Schedule, Training
from dpensemble.neural.stacked_network import Network, stacked_network
from dpensemble.neural.training import train
from dpensemble.votes import ballot_dtype

# Numbers of all layers, rows and teachers at once in voting, which stores nothing for later.
_NUMBERS_IN_VOTING = 6_000_000

Records = tuple[NDArray[np.float32], NDArray[np.int64]]


def network_of(template: Any) -> Network | str:
    """Return how to run a template's networks at once, or why that is impossible."""
    with own_generator(0, "cpu"):
        return stacked_network(template._new_module(), template.input_shape_)


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence warnings, which could reveal private records, and use one thread."""
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        yield


def fit_block(template: Any, tables: list[Records | None], seeds: list[int]) -> list[Any]:
    """Train one block of teachers on their own records. None for a teacher without records or after a divergence."""
    if all(records is None for records in tables):
        return [None] * len(tables)
    network = network_of(template)
    with _quietly():
        # A stack of one, as for a large network or batch, is slower than no stack.
        if isinstance(network, str) or len(tables) == 1:
            return [_fit_alone(template, records, seed) for records, seed in zip(tables, seeds, strict=True)]
        return _fit_stacked(template, network, tables, seeds)


def _fit_stacked(template: Any, network: Network, tables: list[Records | None], seeds: list[int]) -> list[Any]:
    training = Training.of(template, template.input_shape_)
    own = [
        None if records is None else _table(template, records, Schedule(seed, len(records[0]), training))
        for records, seed in zip(tables, seeds, strict=True)
    ]
    modules = [None if table is None else _start(template, table.schedule) for table in own]
    like = next(module for module in modules if module is not None)
    stack = Stack(modules, like, resolve_device(template.device))
    train_block(stack, network, own, training)
    return [None if own[t] is None else _single(template, seed, stack.state(t)) for t, seed in enumerate(seeds)]


def _table(template: Any, records: Records, schedule: Schedule) -> Table:
    device = resolve_device(template.device)
    rows, targets = records
    return Table(template._rows(rows, device), require_torch().as_tensor(targets, device=device), schedule)


def _start(template: Any, schedule: Schedule) -> Any:
    with own_generator(schedule.torch_seed, "cpu"):
        return template._new_module()


def _fit_alone(template: Any, records: Records | None, seed: int) -> Any:
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


def vote_block(
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
    network = network_of(template)
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
        stack = Stack(modules, next(module for module in modules if module is not None), device)
        size = _NUMBERS_IN_VOTING // (len(modules) * max(1, network.numbers_a_row))
        # A multiple of what vector instructions process.
        return max(1, size // 16) * 16, lambda rows: logits_of(stack, network, rows)

    modules = [None if module is None else for_processor(module, device) for module in modules]

    def one_by_one(rows: Tensor) -> Tensor:
        absent = torch.zeros((n_classes, len(rows)), device=device)
        with torch.no_grad():
            return torch.stack([absent if module is None else module(rows).T for module in modules])

    return rows_at_once(device), one_by_one
