"""Layers of many networks at once. Rows come last, so that every pass over memory is long and even.

A tensor has the shape (n_teachers, channels, height, width, n_rows), or (n_teachers, units, n_rows). Nothing is
ever summed over teachers, so no teacher's numbers, not even NaN, reach another's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from dpensemble.neural._torch import Module, Tensor, require_torch
from dpensemble.neural.stacked_convolution import Workspace, convolve


@dataclass(frozen=True, eq=False)
class Step:
    """Inputs of one pass that layers need."""

    parameters: dict[str, Tensor]  # by the module's names, teachers first, like the buffers
    buffers: dict[str, Tensor]
    live: Tensor | None  # (n_teachers, n_rows): 1 for a row, 0 for padding, or None when predicting
    padded: bool  # whether any is 0. If none is, skipping the product with them changes no number
    factors: Any  # torch.dtype of the factors of matrix products


class Layer(ABC):
    """A layer of many networks at once."""

    #: Whether the output is a new tensor with no other use, so that the next layer may overwrite it.
    makes_new: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return the layer's output."""


@dataclass(frozen=True, eq=False)
class Elementwise(Layer):
    """Any layer that treats each number separately."""

    module: Module

    def __call__(self, x: Tensor, _step: Step) -> Tensor:
        """Return the layer's output."""
        return self.module(x)


class Flatten(Layer):
    """One axis of units instead of channels, height and width."""

    def __call__(self, x: Tensor, _step: Step) -> Tensor:
        """Return a tensor of shape (n_teachers, units, n_rows)."""
        return x.flatten(1, -2)


@dataclass(frozen=True, eq=False)
class Pooling(Layer):
    """Any layer that treats each channel of an image separately. Rows act as channels that come last in memory."""

    module: Module

    def __call__(self, x: Tensor, _step: Step) -> Tensor:
        """Return the pooled images."""
        pooled = self.module(x.flatten(0, 1).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return pooled.reshape(*x.shape[:2], *pooled.shape[1:])


@dataclass(frozen=True, eq=False)
class Linear(Layer):
    """A linear layer."""

    makes_new: ClassVar[bool] = True
    name: str

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return a tensor of shape (n_teachers, n_outputs, n_rows)."""
        torch = require_torch()
        weight, bias = step.parameters[f"{self.name}weight"], step.parameters.get(f"{self.name}bias")
        if bias is not None and step.factors is torch.float32:
            return torch.baddbmm(bias[:, :, None], weight, x)
        out = torch.bmm(weight.to(step.factors), x.to(step.factors)).float()
        return out if bias is None else out + bias[:, :, None]


@dataclass(frozen=True, eq=False)
class Convolution(Layer):
    """A two-dimensional convolution, as matrix products with patches. For one thread at a time."""

    makes_new: ClassVar[bool] = True
    name: str
    stride: tuple[int, int]
    padding: tuple[int, int]
    workspace: Workspace = field(default_factory=Workspace)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return a tensor of shape (n_teachers, n_outputs, height, width, n_rows)."""
        weight, bias = step.parameters[f"{self.name}weight"], step.parameters.get(f"{self.name}bias")
        down, across = self.padding
        if down or across:
            x = require_torch().nn.functional.pad(x, (0, 0, across, across, down, down))
        return convolve()(x.to(step.factors), weight, bias, self.stride, self.workspace)


@dataclass(frozen=True, eq=False)
class Normalisation(Layer):
    """Batch normalisation over each teacher's own rows. Padding does not count."""

    name: str
    epsilon: float
    momentum: float

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return normalised values of the same shape, and move a teacher's averages if it has rows."""
        mean, variance = (step.buffers[f"{self.name}running_{which}"] for which in ("mean", "var"))
        weight, bias = (step.parameters.get(f"{self.name}{which}") for which in ("weight", "bias"))
        spread = x.reshape(*x.shape[:2], -1, x.shape[-1])
        if step.live is None:
            scale = (variance + self.epsilon).rsqrt()
            scale = scale if weight is None else scale * weight
            shift = -mean * scale if bias is None else bias - mean * scale
            out = require_torch().addcmul(shift[:, :, None, None], spread, scale[:, :, None, None])
        else:
            settings = (step.live, step.padded, self.epsilon)
            out, own_mean, own_variance, count = _normalise()(spread, weight, bias, *settings)
            self._move(mean, variance, own_mean, own_variance, count)
        return out.view(x.shape)

    def _move(self, mean: Tensor, variance: Tensor, own_mean: Tensor, own_variance: Tensor, count: Tensor) -> None:
        share = self.momentum * (count > 0)
        mean.lerp_(own_mean, share.expand_as(mean))
        variance.lerp_(own_variance * count / (count - 1).clamp(min=1), share.expand_as(variance))


@cache
def _normalise() -> Any:
    """Return the operation on (x, weight, bias, live, padded, epsilon). Rows that are not live do not count."""
    torch = require_torch()

    class Normalise(torch.autograd.Function):  # type: ignore[name-defined]
        @staticmethod
        def forward(
            ctx: Any, x: Tensor, weight: Any, bias: Any, live: Tensor, padded: bool, epsilon: float
        ) -> tuple[Tensor, ...]:
            count = live.sum(1, keepdim=True) * x.shape[2]
            at_least_one = count.clamp(min=1)
            mean = _over_rows(x, live) / at_least_one
            centred = x - mean[:, :, None, None]
            if padded:
                centred *= live[:, None, None]
            variance = torch.linalg.vector_norm(centred.flatten(2), dim=2).square() / at_least_one
            scale = (variance + epsilon).rsqrt()
            ctx.save_for_backward(centred, scale, weight, live, at_least_one)
            ctx.padded, ctx.has_bias = padded, bias is not None
            ctx.mark_non_differentiable(mean, variance, count)
            shift = torch.zeros_like(mean) if bias is None else bias
            slope = scale if weight is None else scale * weight
            out = torch.addcmul(shift[:, :, None, None], centred, slope[:, :, None, None])
            return out, mean, variance, count

        @staticmethod
        def backward(ctx: Any, gradient: Tensor, *_unused: Any) -> tuple[Any, ...]:
            centred, scale, weight, live, at_least_one = ctx.saved_tensors
            along = (gradient * centred).flatten(2).sum(2) * scale
            total = gradient.flatten(2).sum(2)
            slope = scale if weight is None else scale * weight
            constant = -total / at_least_one * slope
            back = torch.addcmul(constant[:, :, None, None], gradient, slope[:, :, None, None])
            back.addcmul_(centred, (-along / at_least_one * slope * scale)[:, :, None, None])
            if ctx.padded:
                back *= live[:, None, None]
            of_weight = None if weight is None else along
            return back, of_weight, total if ctx.has_bias else None, None, None, None

    return Normalise.apply


def _over_rows(x: Tensor, live: Tensor) -> Tensor:
    """Return each channel's sum over rows that count."""
    torch = require_torch()
    return torch.bmm(x.flatten(1, 2), live[:, :, None]).view(x.shape[:3]).sum(2)
