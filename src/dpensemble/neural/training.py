"""Training of one network, in plain PyTorch."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble.neural._torch import Module, Tensor, require_torch
from dpensemble.neural.augmentation import moved
from dpensemble.neural.schedule import Precision, Schedule, Training


def train(
    module: Module, rows: Tensor, targets: NDArray[np.int64], schedule: Schedule, training: Training
) -> bool:
    """Train a network in place, and return whether its numbers are still finite.

    Parameters
    ----------
    module : torch.nn.Module
        On the device of the rows.
    rows : tensor of shape (n_rows, *input_shape)
        Private.
    targets : ndarray of shape (n_rows,)
        Class ids. Private.
    schedule : Schedule
        Order of rows, and moves of images.
    training : Training
        Settings.

    Returns
    -------
    bool
        False after a divergence.
    """
    torch = require_torch()
    ids = torch.as_tensor(targets, device=rows.device)
    optimizer = training.make_optimizer(list(module.parameters()))
    module.train()
    for _ in range(training.epochs):
        batches, moves = schedule.epoch()
        seen = rows if moves is None else moved(rows, moves)
        for batch in batches:
            chosen = torch.as_tensor(batch, device=rows.device)
            optimizer.zero_grad()
            with autocast(rows.device.type, training.precision):
                logits = module(seen[chosen])
            torch.nn.functional.cross_entropy(logits.float(), ids[chosen]).backward()
            optimizer.step()
    return all(bool(value.isfinite().all()) for value in module.state_dict().values())


def autocast(device_type: str, precision: Precision) -> Any:
    """Return the context in which matrix products have factors of a precision."""
    if precision is Precision.FLOAT32:
        return nullcontext()
    torch = require_torch()
    return torch.autocast(device_type, dtype=torch.bfloat16)
