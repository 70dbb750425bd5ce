"""Training of one network, in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble.neural._torch import Module, Tensor, for_processor, require_torch
from dpensemble.neural.augmentation import moved
from dpensemble.neural.schedule import Precision, Schedule, Training

# Trains a network in place on its rows and class ids, and returns whether its numbers are still finite.
Trainer = Callable[[Module, Tensor, NDArray[np.int64], Schedule, Training], bool]


def train(module: Module, rows: Tensor, targets: NDArray[np.int64], schedule: Schedule, training: Training) -> bool:
    """Train a network in place, and return whether its numbers are still finite."""
    torch = require_torch()
    ids = torch.as_tensor(targets, device=rows.device)
    for_processor(module, rows.device.type)
    optimizer = training.optimizer.of(list(module.parameters()))
    module.train()
    with _layout_kept_after_pooling(module):
        for _ in range(training.epochs):
            batches, moves = schedule.epoch()
            inputs = rows if moves is None else moved(rows, moves)
            for batch in batches:
                places = torch.as_tensor(batch, device=rows.device)
                optimizer.zero_grad()
                with autocast(rows.device.type, training.precision):
                    logits = module(inputs[places])
                torch.nn.functional.cross_entropy(logits.float(), ids[places]).backward()
                optimizer.step()
    return all(bool(value.isfinite().all()) for value in module.state_dict().values())


@contextmanager
def _layout_kept_after_pooling(module: Module) -> Iterator[None]:
    """Lay out gradients of pooled images like the images, within the block.

    Otherwise PyTorch differentiates pooling before a flat layer several times slower. No number changes.
    """
    torch = require_torch()
    by_channels = torch.channels_last

    def lay_out(_layer: Module, _inputs: object, output: Tensor) -> None:
        # With return_indices the output is a pair.
        pooled = output[0] if isinstance(output, tuple) else output
        if pooled.requires_grad and pooled.dim() == 4 and pooled.is_contiguous(memory_format=by_channels):
            pooled.register_hook(lambda gradient: gradient.contiguous(memory_format=by_channels))

    layers = [layer for layer in module.modules() if isinstance(layer, torch.nn.MaxPool2d)]
    handles = [layer.register_forward_hook(lay_out) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def autocast(device_type: str, precision: Precision) -> Any:
    """Return the context in which matrix products have factors of a precision."""
    if precision is Precision.FLOAT32:
        return nullcontext()
    torch = require_torch()
    return torch.autocast(device_type, dtype=torch.bfloat16)
