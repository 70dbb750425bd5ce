"""Training of one network, in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
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
    if rows.device.type == "cpu":
        _keep_layout_after_pooling(module)
    optimizer = training.optimizer.of(list(module.parameters()))
    module.train()
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


def _keep_layout_after_pooling(module: Module) -> None:
    """Lay out gradients of pooled images like the images.

    Otherwise PyTorch differentiates pooling before a flat layer several times slower. No number changes.
    """
    torch = require_torch()

    def lay_out(_layer: Module, _inputs: object, pooled: Tensor) -> None:
        if pooled.requires_grad:
            pooled.register_hook(lambda gradient: gradient.contiguous(memory_format=torch.channels_last))

    for layer in module.modules():
        if isinstance(layer, torch.nn.MaxPool2d):
            layer.register_forward_hook(lay_out)


def autocast(device_type: str, precision: Precision) -> Any:
    """Return the context in which matrix products have factors of a precision."""
    if precision is Precision.FLOAT32:
        return nullcontext()
    torch = require_torch()
    return torch.autocast(device_type, dtype=torch.bfloat16)
