"""Convolutions of many networks at once, as matrix products with patches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from dpensemble.neural._torch import Tensor, require_torch

# Patches are laid out for as many teachers as fit into a processor's own cache.
_PATCH_BYTES = 2**20


@cache
def convolve() -> Any:
    """Return the operation on (images, weight, bias, stride, workspace), whose class needs PyTorch."""
    torch = require_torch()

    class Convolve(torch.autograd.Function):  # type: ignore[name-defined]
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Any, stride: Any, workspace: Any) -> Tensor:
            kernel = Kernel.of(weight, bias, stride, x.dtype)
            ctx.save_for_backward(x)
            ctx.kernel, ctx.workspace = kernel, workspace
            return _convolved(x, kernel, workspace)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
            (x,) = ctx.saved_tensors
            of_x, of_matrix = _convolution_gradients(
                x, ctx.kernel, gradient.flatten(2), ctx.workspace, ctx.needs_input_grad[0]
            )
            of_weight, of_bias = of_matrix[:, :, :-1], of_matrix[:, :, -1]
            return (
                of_x,
                of_weight.unflatten(2, ctx.kernel.shape),
                of_bias if ctx.kernel.has_bias else None,
                None,
                None,
            )

    return Convolve.apply


def _patches(x: Tensor, kernel: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    """Return a view of shape (n_teachers, channels, *kernel, height, width, n_rows)."""
    height, width = ((x.shape[2 + i] - kernel[i]) // stride[i] + 1 for i in range(2))
    teacher, channel, down, across, row = x.stride()
    shape = (*x.shape[:2], *kernel, height, width, x.shape[4])
    strides = (teacher, channel, down, across, down * stride[0], across * stride[1], row)
    return x.as_strided(shape, strides, x.storage_offset())


class Workspace:
    """Memory for patches, laid out one below the other. A row of ones at the end adds the bias."""

    def __init__(self) -> None:
        self._columns: Tensor = None

    def columns(self, patches: Tensor) -> Tensor:
        """Return patches as a matrix of shape (n_teachers, n_patch + 1, n_places), valid until the next call."""
        n_teachers, n_patch = len(patches), patches[0, :, :, :, 0, 0, 0].numel()
        shape = (n_teachers, n_patch + 1, patches[0, 0, 0, 0].numel())
        columns = self._columns
        if columns is None or columns.shape != shape or columns.dtype is not patches.dtype:
            self._columns = require_torch().ones(shape, dtype=patches.dtype, device=patches.device)
        self._columns[:, :-1].view(patches.shape).copy_(patches)
        return self._columns


@dataclass(frozen=True, eq=False)
class Kernel:
    """Weights of a convolution as matrices of shape (n_teachers, n_outputs, n_patch + 1). The bias is last."""

    matrix: Tensor
    shape: tuple[int, int, int]
    stride: tuple[int, int]
    has_bias: bool

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None, stride: tuple[int, int], dtype: object) -> Kernel:
        """Return the matrices of stacked weights."""
        torch = require_torch()
        last = weight.new_zeros(weight.shape[:2]) if bias is None else bias
        matrix = torch.cat([weight.flatten(2), last[:, :, None]], dim=2).to(dtype)
        return cls(matrix, tuple(weight.shape[2:]), stride, bias is not None)


def _groups(patches: Tensor) -> list[slice]:
    """Return teachers whose patches fit into the cache together. Their number is public."""
    size = max(1, _PATCH_BYTES // (patches[0].numel() * patches.element_size()))
    return [slice(start, start + size) for start in range(0, len(patches), size)]


def _convolved(x: Tensor, kernel: Kernel, workspace: Workspace) -> Tensor:
    torch = require_torch()
    patches = _patches(x, kernel.shape[1:], kernel.stride)
    # A tensor of its own, so that the next layer may work in place.
    out = torch.empty((*kernel.matrix.shape[:2], *patches.shape[4:]), device=x.device)
    for group in _groups(patches):
        product = torch.bmm(kernel.matrix[group], workspace.columns(patches[group]))
        out[group] = product.view(out[group].shape)
    return out


def _convolution_gradients(
    x: Tensor, kernel: Kernel, gradient: Tensor, workspace: Workspace, of_images: bool
) -> tuple[Tensor | None, Tensor]:
    """Return the loss's gradients with respect to images and matrices."""
    torch = require_torch()
    patches = _patches(x, kernel.shape[1:], kernel.stride)
    gradient = gradient.to(x.dtype)
    of_matrix = torch.empty_like(kernel.matrix, dtype=torch.float32)
    of_x = torch.zeros_like(x) if of_images else None
    for group in _groups(patches):
        columns = workspace.columns(patches[group])
        # The product with fewer columns than rows is faster.
        if columns.shape[1] > gradient.shape[1]:
            of_matrix[group] = torch.bmm(columns, gradient[group].transpose(1, 2)).transpose(1, 2)
        else:
            of_matrix[group] = torch.bmm(gradient[group], columns.transpose(1, 2))
        if of_x is not None:
            back = torch.bmm(kernel.matrix[group, :, :-1].transpose(1, 2), gradient[group])
            _add_patches(of_x[group], back.view(patches[group].shape), kernel.stride)
    return of_x, of_matrix


def _add_patches(images: Tensor, patches: Tensor, stride: tuple[int, int]) -> None:
    """Add every patch at its original place."""
    height, width = patches.shape[4:6]
    for i in range(patches.shape[2]):
        for j in range(patches.shape[3]):
            rows = slice(i, i + stride[0] * height, stride[0])
            columns = slice(j, j + stride[1] * width, stride[1])
            images[:, :, rows, columns] += patches[:, :, i, j]
