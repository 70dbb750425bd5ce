"""PyTorch, imported when it is first needed, since it is an optional extra."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dpensemble.errors import InvalidParameterError

# Tensors and modules, of a library that may not be installed.
Tensor = Any
Module = Any

# PyTorch draws from one generator per process, so threads take turns.
_ONE_AT_A_TIME = threading.RLock()


def require_torch() -> Any:
    """Return the module torch, or raise an error that names the extra that installs it."""
    try:
        return import_module("torch")
    except ImportError:
        raise InvalidParameterError(
            'TorchClassifier needs PyTorch, which is not installed: run pip install "dpensemble[torch]".'
        ) from None


def resolve_device(device: object) -> str:
    """Return the name of a device that exists. "auto" is CUDA if present, otherwise the CPU."""
    torch = require_torch()
    if isinstance(device, str):
        if device == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cpu" or (device.split(":")[0] == "cuda" and torch.cuda.is_available()):
            return device
    raise InvalidParameterError(f"device={device!r} must be available here: use 'auto' or 'cpu'.")


def for_processor(module: Module, device: str) -> Module:
    """Lay out the weights of convolutions as a processor reads them fastest. Results change by rounding only."""
    return module.to(memory_format=require_torch().channels_last) if device == "cpu" else module


def rows_at_once(device: str) -> int:
    """Return how many rows to predict at once. On a processor few, so that the images of a layer fit its cache."""
    return 64 if device == "cpu" else 512


@contextmanager
def own_generator(seed: int, device: str) -> Iterator[None]:
    """Seed PyTorch's generators for the block, and restore them afterwards."""
    torch = require_torch()
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices=[device] if device != "cpu" else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread. Blocks of teachers run side by side, and sums must not depend on their number."""
    torch = require_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
