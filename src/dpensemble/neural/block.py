"""Training of a block of teachers at once, with the same result for each as when trained alone.

The shapes of a block's arrays do not depend on the teachers' records: teachers without a network keep their place,
and batches that are not full are padded. So a change of one teacher's records cannot affect another's arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpensemble.neural._torch import Module, Tensor, require_torch
from dpensemble.neural.augmentation import moved
from dpensemble.neural.schedule import Precision, Schedule, Training
from dpensemble.neural.stacked_layers import Step
from dpensemble.neural.stacked_network import Network

State = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Table:
    """One teacher's own rows (n_rows, *input_shape) and class ids, both private, and its schedule."""

    rows: Tensor
    targets: Tensor
    schedule: Schedule


class Stack:
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

    def state(self, t: int) -> State:
        """Return a copy of one teacher's parameters and buffers."""
        return {
            name: values[t].detach().cpu().numpy().copy()
            for name, values in {**self.parameters, **self.buffers}.items()
        }


# Vector instructions process this many numbers at once. Rows are padded to a multiple.
_EVEN = 16


def train_block(stack: Stack, network: Network, tables: Sequence[Table | None], training: Training) -> None:
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

    def __init__(self, table: Table) -> None:
        torch = require_torch()
        batches, moves = table.schedule.epoch()
        rows = table.rows if moves is None else moved(table.rows, moves)
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


def _stepper(stack: Stack, network: Network, training: Training) -> Callable[[_Batch], None]:
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


def logits_of(stack: Stack, network: Network, rows: Tensor) -> Tensor:
    """Return every network's logits of the same rows, shape (n_teachers, n_classes, n_rows)."""
    torch = require_torch()
    x = rows.movedim(0, -1).expand(len(stack.flat), *rows.shape[1:], len(rows))
    with torch.no_grad():
        return network(x, Step(stack.parameters, stack.buffers, None, False, torch.float32))
