"""Networks of one architecture, run and trained on every teacher's rows at once.

Rows come last, so that every pass over memory is long and even. A tensor has the shape (n_teachers, channels, height,
width, n_rows), or (n_teachers, units, n_rows). Nothing is ever summed over teachers, so no teacher's numbers, not even
NaN, reach another's. Convolutions are matrix products with patches.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpensemble.neural._torch import Device, Module, Tensor, require_torch
from dpensemble.neural.training import Schedule, Training

# Patches are laid out for as many teachers as fit into a processor's own cache.
_PATCH_BYTES = 2**20


@cache
def _convolve() -> Any:
    """Return the operation on (images, weight, bias, stride, workspace), whose class needs PyTorch."""
    torch = require_torch()

    class Convolve(torch.autograd.Function):  # type: ignore[name-defined]
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Any, stride: Any, workspace: Any) -> Tensor:
            kernel = _Kernel.of(weight, bias, stride, x.dtype)
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


class _Workspace:
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
class _Kernel:
    """Weights of a convolution as matrices of shape (n_teachers, n_outputs, n_patch + 1). The bias is last."""

    matrix: Tensor
    shape: tuple[int, int, int]
    stride: tuple[int, int]
    has_bias: bool

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None, stride: tuple[int, int], dtype: object) -> _Kernel:
        """Return the matrices of stacked weights."""
        torch = require_torch()
        last = weight.new_zeros(weight.shape[:2]) if bias is None else bias
        matrix = torch.cat([weight.flatten(2), last[:, :, None]], dim=2).to(dtype)
        return cls(matrix, tuple(weight.shape[2:]), stride, bias is not None)


def _groups(patches: Tensor) -> list[slice]:
    """Return teachers whose patches fit into the cache together. Their number is public."""
    size = max(1, _PATCH_BYTES // (patches[0].numel() * patches.element_size()))
    return [slice(start, start + size) for start in range(0, len(patches), size)]


def _convolved(x: Tensor, kernel: _Kernel, workspace: _Workspace) -> Tensor:
    torch = require_torch()
    patches = _patches(x, kernel.shape[1:], kernel.stride)
    # A tensor of its own, so that the next layer may work in place.
    out = torch.empty((*kernel.matrix.shape[:2], *patches.shape[4:]), device=x.device)
    for group in _groups(patches):
        product = torch.bmm(kernel.matrix[group], workspace.columns(patches[group]))
        out[group] = product.view(out[group].shape)
    return out


def _convolution_gradients(
    x: Tensor, kernel: _Kernel, gradient: Tensor, workspace: _Workspace, of_images: bool
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


@dataclass(frozen=True, eq=False)
class _Step:
    """Inputs of one pass that layers need."""

    parameters: dict[str, Tensor]  # by the module's names, teachers first, like the buffers
    buffers: dict[str, Tensor]
    live: Tensor | None  # (n_teachers, n_rows): 1 for a row, 0 for padding, or None when predicting
    padded: bool  # whether any is 0. If none is, skipping the product with them changes no number
    factors: Any  # torch.dtype of the factors of matrix products


class _Layer(ABC):
    """A layer of many networks at once."""

    #: Whether the output is a new tensor with no other use, so that the next layer may overwrite it.
    makes_new: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, x: Tensor, step: _Step) -> Tensor:
        """Return the layer's output."""


@dataclass(frozen=True, eq=False)
class _Elementwise(_Layer):
    """Any layer that treats each number separately."""

    module: Module

    def __call__(self, x: Tensor, _step: _Step) -> Tensor:
        """Return the layer's output."""
        return self.module(x)


class _Flatten(_Layer):
    """One axis of units instead of channels, height and width."""

    def __call__(self, x: Tensor, _step: _Step) -> Tensor:
        """Return a tensor of shape (n_teachers, units, n_rows)."""
        return x.flatten(1, -2)


@dataclass(frozen=True, eq=False)
class _Pooling(_Layer):
    """Any layer that treats each channel of an image separately. Rows act as channels that come last in memory."""

    module: Module

    def __call__(self, x: Tensor, _step: _Step) -> Tensor:
        """Return the pooled images."""
        pooled = self.module(x.flatten(0, 1).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return pooled.reshape(*x.shape[:2], *pooled.shape[1:])


@dataclass(frozen=True, eq=False)
class _Linear(_Layer):
    """A linear layer."""

    makes_new: ClassVar[bool] = True
    name: str

    def __call__(self, x: Tensor, step: _Step) -> Tensor:
        """Return a tensor of shape (n_teachers, n_outputs, n_rows)."""
        torch = require_torch()
        weight, bias = step.parameters[f"{self.name}weight"], step.parameters.get(f"{self.name}bias")
        if bias is not None and step.factors is torch.float32:
            return torch.baddbmm(bias[:, :, None], weight, x)
        out = torch.bmm(weight.to(step.factors), x.to(step.factors)).float()
        return out if bias is None else out + bias[:, :, None]


@dataclass(frozen=True, eq=False)
class _Convolution(_Layer):
    """A two-dimensional convolution, as matrix products with patches. For one thread at a time."""

    makes_new: ClassVar[bool] = True
    name: str
    stride: tuple[int, int]
    padding: tuple[int, int]
    workspace: _Workspace = field(default_factory=_Workspace)

    def __call__(self, x: Tensor, step: _Step) -> Tensor:
        """Return a tensor of shape (n_teachers, n_outputs, height, width, n_rows)."""
        weight, bias = step.parameters[f"{self.name}weight"], step.parameters.get(f"{self.name}bias")
        down, across = self.padding
        if down or across:
            x = require_torch().nn.functional.pad(x, (0, 0, across, across, down, down))
        return _convolve()(x.to(step.factors), weight, bias, self.stride, self.workspace)


@dataclass(frozen=True, eq=False)
class _Normalisation(_Layer):
    """Batch normalisation over each teacher's own rows. Padding does not count."""

    name: str
    epsilon: float
    momentum: float

    def __call__(self, x: Tensor, step: _Step) -> Tensor:
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


class Network(ABC):
    """Many networks of one architecture."""

    #: How many numbers a row takes in all layers.
    numbers_a_row: int

    @classmethod
    def of(cls, module: Module, input_shape: Sequence[int]) -> Network | str:
        """Return how to run many networks like this one at once, or why that is impossible."""
        if not all(parameter.requires_grad for parameter in module.parameters()):
            return "some of its parameters are frozen"
        # Known layers of a Sequential run fastest. vmap runs other networks whose rows do not interact.
        return _chained(module, input_shape) or _mapped(module, input_shape)

    @abstractmethod
    def __call__(self, x: Tensor, step: _Step) -> Tensor:
        """Return logits (n_teachers, n_classes, n_rows) of rows (n_teachers, *input_shape, n_rows)."""

    def stack(self, modules: Sequence[Module | None], device: Device) -> _Stack:
        """Return the parameters of a block of such networks, at least one of which is not None."""
        return _Stack(self, modules, device)


_ELEMENTWISE = ("Identity", "ReLU", "LeakyReLU", "ELU", "GELU", "SiLU", "Sigmoid", "Tanh", "Softplus")
_POOLING = ("MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d")


@dataclass(frozen=True, eq=False)
class _Chain(Network):
    layers: list[_Layer]
    numbers_a_row: int

    def __call__(self, x: Tensor, step: _Step) -> Tensor:
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
    layers: list[_Layer] = []
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


def _layer(name: str, layer: Any, n_axes: int, *, inplace: bool) -> _Layer | None:  # noqa: PLR0911
    """Return one layer's stacked form, or None if it is unknown. Subclasses count as unknown."""
    nn = require_torch().nn
    kind = type(layer)
    if kind.__module__.startswith("torch.nn.modules") and not layer._forward_hooks:
        if kind.__name__ in _ELEMENTWISE:
            module = copy.deepcopy(layer)
            module.inplace = inplace
            return _Elementwise(module)
        if kind.__name__ in _POOLING and n_axes == 4 and not getattr(layer, "return_indices", False):
            return _Pooling(layer)
        if kind is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1):
            return _Flatten()
        if kind is nn.Linear and n_axes == 2:
            return _Linear(name)
        if kind is nn.Conv2d and _plain_convolution(layer):
            return _Convolution(name, layer.stride, layer.padding)
        if kind in (nn.BatchNorm1d, nn.BatchNorm2d) and layer.track_running_stats and layer.momentum is not None:
            return _Normalisation(name, layer.eps, layer.momentum)
    return None


def _plain_convolution(layer: Any) -> bool:
    return (
        layer.groups == 1
        and layer.dilation == (1, 1)
        and layer.padding_mode == "zeros"
        and isinstance(layer.padding, tuple)
    )


@dataclass(frozen=True, eq=False)
class _Mapped(Network):
    module: Module
    numbers_a_row: int

    def __call__(self, x: Tensor, step: _Step) -> Tensor:
        torch = require_torch()
        with Device(x.device.type).products_of(step.factors):
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
            step = _Step(stacked, {}, None, False, torch.float32)
            together = network(rows.movedim(0, -1).expand(2, *input_shape, 3), step)
    except Exception as error:
        return f"torch.func.vmap cannot run it, perhaps because it draws at random ({type(error).__name__})"
    if not torch.allclose(together, alone.T.expand_as(together), rtol=1e-3, atol=1e-5):
        return "a row's logits depend on other rows of its batch"
    return network


_State = dict[str, NDArray[np.float32]]
# One teacher's own rows (n_rows, *input_shape) and class ids, both private, and its schedule.
_Lesson = tuple[Tensor, Tensor, Schedule]

# Vector instructions process this many numbers at once. Rows are padded to a multiple.
_EVEN = 16


class _Stack:
    """Parameters of a block of networks: one row of numbers a teacher, zeros for None, accessible by name."""

    def __init__(self, network: Network, modules: Sequence[Module | None], device: Device) -> None:
        torch = require_torch()
        like = next(module for module in modules if module is not None)
        self.network = network
        self.shapes = {name: value.shape for name, value in like.named_parameters()}
        sizes = [shape.numel() for shape in self.shapes.values()]
        self.flat = torch.zeros((len(modules), sum(sizes)), device=device.name)
        self.gradient = torch.zeros_like(self.flat)
        self.parameters = self._by_name(self.flat, sizes)
        self.gradients = list(self._by_name(self.gradient, sizes).values())
        self.buffers = {
            name: torch.zeros((len(modules), *value.shape), dtype=value.dtype, device=device.name)
            for name, value in like.named_buffers()
        }
        for t, module in enumerate(modules):
            if module is not None:
                for name, value in [*module.named_parameters(), *module.named_buffers()]:
                    (self.parameters if name in self.shapes else self.buffers)[name][t] = value.detach()

    def _by_name(self, flat: Tensor, sizes: list[int]) -> dict[str, Tensor]:
        parts = zip(self.shapes.items(), flat.split(sizes, dim=1), strict=True)
        return {name: part.view(len(flat), *shape) for (name, shape), part in parts}

    def state(self, t: int) -> _State:
        """Return a copy of one teacher's parameters and buffers."""
        return {
            name: values[t].detach().cpu().numpy().copy()
            for name, values in {**self.parameters, **self.buffers}.items()
        }

    def train(self, lessons: Sequence[_Lesson | None], training: Training) -> None:
        """Train the networks in place, each on its own lesson. A teacher without a lesson only keeps its place."""
        step = self._stepper(training)
        n_batches = [0 if lesson is None else lesson[2].n_batches for lesson in lessons]
        longest = max(n_batches)
        for name, counts in self.buffers.items():
            if name.endswith("num_batches_tracked"):
                counts.add_(training.epochs * counts.new_tensor(n_batches))
        for _ in range(training.epochs if longest else 0):
            epochs = [None if lesson is None else _Epoch(lesson) for lesson in lessons]
            for number in range(longest):
                step(_batch(epochs, number, -(-training.batch_size // _EVEN) * _EVEN, self.flat.device))

    def _stepper(self, training: Training) -> Callable[[_Batch], None]:
        """Return the function that takes one step with every teacher that has a batch left."""
        torch = require_torch()
        parameters = {name: value.detach().requires_grad_() for name, value in self.parameters.items()}
        each = [row.detach().requires_grad_() for row in self.flat]
        optimizer, factors = training.optimizer.of(each), training.factors

        def step(batch: _Batch) -> None:
            logits = self.network(batch.rows, _Step(parameters, self.buffers, batch.live, batch.padded, factors))
            log_chances = torch.log_softmax(logits, dim=1).gather(1, batch.targets[:, None]).squeeze(1)
            losses = (log_chances * batch.live).sum(1) / batch.live.sum(1).clamp(min=1)
            gradients = torch.autograd.grad(-losses.sum(), list(parameters.values()))
            for target, gradient in zip(self.gradients, gradients, strict=True):
                target.copy_(gradient)
            for t, present in enumerate(batch.present):
                # A network without a gradient is not touched, and neither are its moments and its count of steps.
                each[t].grad = self.gradient[t] if present else None
            optimizer.step()

        return step

    def logits(self, rows: Tensor) -> Tensor:
        """Return every network's logits of the same rows, shape (n_teachers, n_classes, n_rows)."""
        torch = require_torch()
        x = rows.movedim(0, -1).expand(len(self.flat), *rows.shape[1:], len(rows))
        with torch.no_grad():
            return self.network(x, _Step(self.parameters, self.buffers, None, False, torch.float32))


class _Epoch:
    """One teacher's rows of an epoch, after augmentation and in the order of its batches."""

    def __init__(self, lesson: _Lesson) -> None:
        rows, targets, schedule = lesson
        batches, rows = schedule.epoch(rows)
        order = require_torch().as_tensor(np.concatenate(batches), device=rows.device)
        self._rows, self._targets = rows[order], targets[order]
        self._ends = np.cumsum([0, *(len(batch) for batch in batches)]).tolist()
        self.shape = rows.shape[1:]

    def batch(self, number: int) -> tuple[Tensor, Tensor] | None:
        """Return the rows and targets of a batch, or None after the last."""
        if number >= len(self._ends) - 1:
            return None
        part = slice(self._ends[number], self._ends[number + 1])
        return self._rows[part], self._targets[part]


@dataclass(frozen=True, eq=False)
class _Batch:
    """One batch a teacher, padded: rows of shape (n_teachers, *input_shape, batch_size)."""

    rows: Tensor
    targets: Tensor
    live: Tensor
    present: list[bool]
    padded: bool


def _batch(epochs: Sequence[_Epoch | None], number: int, width: int, device: object) -> _Batch:
    torch = require_torch()
    shape = next(epoch.shape for epoch in epochs if epoch is not None)
    rows = torch.zeros((len(epochs), *shape, width), device=device)
    targets = torch.zeros((len(epochs), width), dtype=torch.int64, device=device)
    live = torch.zeros((len(epochs), width), device=device)
    present = [False] * len(epochs)
    padded = False
    for t, epoch in enumerate(epochs):
        own = None if epoch is None else epoch.batch(number)
        n_rows = 0 if own is None else len(own[0])
        padded = padded or n_rows < width
        if own is not None:
            rows[t, ..., :n_rows] = own[0].movedim(0, -1)
            targets[t, :n_rows], live[t, :n_rows], present[t] = own[1], 1.0, True
    return _Batch(rows, targets, live, present, padded)
