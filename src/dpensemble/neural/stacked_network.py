"""Networks of one architecture, run on every teacher's rows at once."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dpensemble.neural._torch import Module, Tensor, require_torch
from dpensemble.neural.schedule import Precision
from dpensemble.neural.stacked_layers import (
    Convolution,
    Elementwise,
    Flatten,
    Layer,
    Linear,
    Normalisation,
    Pooling,
    Step,
)
from dpensemble.neural.training import autocast


class Network(Protocol):
    """Many networks of one architecture."""

    @property
    def numbers_a_row(self) -> int:
        """Return how many numbers a row takes in all layers."""

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return logits (n_teachers, n_classes, n_rows) of rows (n_teachers, *input_shape, n_rows)."""


_ELEMENTWISE = ("Identity", "ReLU", "LeakyReLU", "ELU", "GELU", "SiLU", "Sigmoid", "Tanh", "Softplus")
_POOLING = ("MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d")


def stacked_network(module: Module, input_shape: Sequence[int]) -> Network | str:
    """Return how to run many networks like this one at once, or why that is impossible."""
    if not all(parameter.requires_grad for parameter in module.parameters()):
        return "some of its parameters are frozen"
    # Known layers of a Sequential run fastest. vmap runs other networks whose rows do not interact.
    return _chained(module, input_shape) or _mapped(module, input_shape)


@dataclass(frozen=True, eq=False)
class _Chain:
    layers: list[Layer]
    numbers_a_row: int

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        for layer in self.layers:
            x = layer(x, step)
        return x


def _chained(module: Module, input_shape: Sequence[int]) -> Network | None:
    """Return the stacked form of a sequence of known layers, or None."""
    torch = require_torch()
    if type(module) is not torch.nn.Sequential:
        return None
    # This device computes shapes only.
    probe = copy.deepcopy(module).to("meta").eval()
    x = torch.empty((2, *input_shape), device="meta")
    layers: list[Layer] = []
    numbers = 0
    for name, layer in _leaves(probe, ""):
        stacked = _layer(name, layer, x.dim(), inplace=bool(layers) and layers[-1].makes_new)
        if stacked is None:
            return None
        layers.append(stacked)
        with torch.no_grad():
            x = layer(x)
        numbers += x[0].numel()
    return _Chain(layers, numbers) if x.dim() == 2 else None


def _leaves(module: Module, prefix: str) -> Iterator[tuple[str, Module]]:
    sequence = require_torch().nn.Sequential
    for name, child in module.named_children():
        if type(child) is sequence:
            yield from _leaves(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}.", child


def _layer(name: str, layer: Any, n_axes: int, *, inplace: bool) -> Layer | None:  # noqa: PLR0911
    """Return one layer's stacked form, or None if it is unknown. Subclasses count as unknown."""
    nn = require_torch().nn
    kind = type(layer)
    if kind.__module__.startswith("torch.nn.modules") and not layer._forward_hooks:
        if kind.__name__ in _ELEMENTWISE:
            module = copy.deepcopy(layer)
            module.inplace = inplace
            return Elementwise(module)
        if kind.__name__ in _POOLING and n_axes == 4 and not getattr(layer, "return_indices", False):
            return Pooling(layer)
        if kind is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1):
            return Flatten()
        if kind is nn.Linear and n_axes == 2:
            return Linear(name)
        if kind is nn.Conv2d and _plain_convolution(layer):
            return Convolution(name, layer.stride, layer.padding)
        if kind in (nn.BatchNorm1d, nn.BatchNorm2d) and layer.track_running_stats and layer.momentum is not None:
            return Normalisation(name, layer.eps, layer.momentum)
    return None


def _plain_convolution(layer: Any) -> bool:
    return (
        layer.groups == 1
        and layer.dilation == (1, 1)
        and layer.padding_mode == "zeros"
        and isinstance(layer.padding, tuple)
    )


@dataclass(frozen=True, eq=False)
class _Mapped:
    module: Module
    numbers_a_row: int

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        torch = require_torch()
        precision = Precision.FLOAT32 if step.factors is torch.float32 else Precision.BFLOAT16
        with autocast(x.device.type, precision):
            logits = torch.func.vmap(self._one)(step.parameters, x.movedim(-1, 1))
        return logits.transpose(1, 2).float()

    def _one(self, parameters: dict[str, Tensor], rows: Tensor) -> Tensor:
        return require_torch().func.functional_call(self.module, parameters, (rows,))


def _mapped(module: Module, input_shape: Sequence[int]) -> Network | str:
    """Return any module under vmap, or the reason why its teachers cannot be trained together."""
    torch = require_torch()
    if any(True for _ in module.buffers()):
        return "it keeps buffers, which may differ between training and prediction, outside a plain Sequential"
    probe = copy.deepcopy(module).cpu().train()
    rows = torch.linspace(-1.0, 1.0, 3 * torch.Size(input_shape).numel()).view(3, *input_shape)
    stacked = {name: value.detach().expand(2, *value.shape) for name, value in probe.named_parameters()}
    numbers = sum(value[0].numel() for value in stacked.values())
    network = _Mapped(probe, numbers)
    try:
        with torch.no_grad():
            alone = torch.cat([probe(rows[i : i + 1]) for i in range(3)])
            step = Step(stacked, {}, None, False, torch.float32)
            together = network(rows.movedim(0, -1).expand(2, *input_shape, 3), step)
    except Exception as error:
        return f"torch.func.vmap cannot run it, perhaps because it draws at random ({type(error).__name__})"
    if not torch.allclose(together, alone.T.expand_as(together), rtol=1e-3, atol=1e-5):
        return "a row's logits depend on other rows of its batch"
    return network
