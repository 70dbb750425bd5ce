"""PyTorch, imported when it is first needed, since it is an optional extra."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Device:
    """A processor or a graphics card, by PyTorch's name."""

    name: str

    @classmethod
    def of(cls, setting: object) -> Device:
        """Return a device that exists. "auto" is CUDA if present, otherwise the CPU."""
        torch = require_torch()
        if isinstance(setting, str):
            if setting == "auto":
                return cls("cuda" if torch.cuda.is_available() else "cpu")
            if setting == "cpu" or (setting.split(":")[0] == "cuda" and torch.cuda.is_available()):
                return cls(setting)
        raise InvalidParameterError(f"device={setting!r} must be available here: use 'auto' or 'cpu'.")

    @property
    def is_processor(self) -> bool:
        """Whether this is the CPU."""
        return self.name == "cpu"

    @property
    def rows_at_once(self) -> int:
        """How many rows to predict at once. On a processor few, so that the images of a layer fit its cache."""
        return 64 if self.is_processor else 512

    def laid_out(self, module: Module) -> Module:
        """Lay out the weights of convolutions as a processor reads them fastest. Results change by rounding only."""
        return module.to(memory_format=require_torch().channels_last) if self.is_processor else module

    @contextmanager
    def seeded(self, seed: int) -> Iterator[None]:
        """Seed PyTorch's generators for the block, and restore them afterwards."""
        torch = require_torch()
        with _ONE_AT_A_TIME, torch.random.fork_rng(devices=[] if self.is_processor else [self.name]):
            torch.manual_seed(seed)
            yield

    def products_of(self, factors: Any) -> Any:
        """Return the context in which the factors of matrix products have a type of PyTorch."""
        torch = require_torch()
        return nullcontext() if factors is torch.float32 else torch.autocast(self.name, dtype=factors)


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
