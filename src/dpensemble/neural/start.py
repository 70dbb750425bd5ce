"""Start values from a network that was trained on public data."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from dpensemble._checks import member
from dpensemble.errors import InvalidParameterError
from dpensemble.neural._torch import Module, require_torch


class LastLayer(StrEnum):
    """How to treat the start's last layer."""

    AUTO = "auto"
    KEEP = "keep"
    NEW = "new"


def checked_start(start: object, last_layer: str) -> None:
    """Refuse a start that is not a fitted TorchClassifier, and unknown settings."""
    member("last_layer", last_layer, LastLayer)
    if start is not None and not (hasattr(start, "state_") and hasattr(start, "fitted_module")):
        raise InvalidParameterError(
            f"start={type(start).__name__} must be a fitted TorchClassifier: fit it on public data first."
        )


def begin_from(module: Module, start: Any, n_classes: int, last_layer: LastLayer) -> None:
    """Copy a fitted network's numbers into a new one where names and shapes agree, and refuse if none do."""
    torch = require_torch()
    same_classes = n_classes == len(start.classes_)
    if last_layer is LastLayer.KEEP and not same_classes:
        raise InvalidParameterError(
            f"last_layer='keep' needs a start of {n_classes} classes, not {len(start.classes_)}: use 'auto'."
        )
    target = module.state_dict()
    # Names are in order of layers, and the names within a layer share all but their last part.
    last = list(target)[-1].rpartition(".")[0]
    keep_last = same_classes and last_layer is not LastLayer.NEW
    copied = [
        name
        for name, value in target.items()
        if (keep_last or name.rpartition(".")[0] != last)
        and name in start.state_
        and tuple(start.state_[name].shape) == tuple(value.shape)
    ]
    if not copied:
        raise InvalidParameterError(
            "start shares no layer with module: give a start of the same module and input_shape."
        )
    with torch.no_grad():
        for name in copied:
            target[name].copy_(torch.as_tensor(start.state_[name]))
