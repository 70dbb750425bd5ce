"""Batch normalisation of many networks at once, each over its own rows."""

from __future__ import annotations

from functools import cache
from typing import Any

from dpensemble.neural._torch import Tensor, require_torch


@cache
def normalise() -> Any:
    """Return the operation on (x, weight, bias, live, padded, epsilon); rows not live count for nothing."""
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
