"""Training of one network, in plain PyTorch: settings, the order of mini-batches, optimizers, and changes of images.

Random rotations and shifts of training images are drawn from a teacher's own seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from dpensemble._checks import integer_between, member, of_type, real_between
from dpensemble.errors import InvalidParameterError
from dpensemble.neural._torch import Device, Module, Tensor, require_torch


@dataclass(frozen=True)
class ImageAugmentation:
    """Rotate and shift every training image, differently in every epoch.

    The draws depend on the seed and the number of images only, so they cost no privacy.

    Parameters
    ----------
    rotation : float
        Largest rotation in degrees either way, 0 to 180.
    shift : float
        Largest shift either way, as a share of width and height, 0 to 1.

    References
    ----------
    Mühl and Boenisch, "Personalized PATE", 2022, section 4.2: 7.5 degrees and 7 %, the defaults.

    Examples
    --------
    >>> ImageAugmentation(shift=0.1)
    ImageAugmentation(rotation=7.5, shift=0.1)
    """

    rotation: float = 7.5
    shift: float = 0.07

    def __post_init__(self) -> None:
        real_between("rotation", self.rotation, 0.0, 180.0)
        real_between("shift", self.shift, 0.0, 1.0)

    def draw(self, n_images: int, generator: np.random.Generator) -> NDArray[np.float32]:
        """Return angles in radians, and shifts across and down as shares, of shape (n_images, 3)."""
        largest = np.array([np.deg2rad(self.rotation), self.shift, self.shift])
        return (generator.uniform(-1.0, 1.0, size=(n_images, 3)) * largest).astype(np.float32)


class Optimizer(BaseEstimator):
    """Settings of one of PyTorch's optimizers, named like the subclass."""

    learning_rate: float
    weight_decay: float

    def checked(self) -> dict[str, float]:
        """Return the settings by PyTorch's names, or raise InvalidParameterError if one is out of range."""
        return {
            "lr": real_between("learning_rate", self.learning_rate, 1e-12, 1e6),
            "weight_decay": real_between("weight_decay", self.weight_decay, 0.0, 1e6),
        }

    def of(self, parameters: list[Tensor]) -> Any:
        """Return PyTorch's optimizer of these parameters, in its fused form."""
        return getattr(require_torch().optim, type(self).__name__)(parameters, **self.checked(), fused=True)


@dataclass(repr=False)
class Adam(Optimizer):
    """Adam, as in PyTorch.

    Parameters
    ----------
    learning_rate : float
        Above 0.
    weight_decay : float
        L2 penalty, from 0.

    Examples
    --------
    >>> from dpensemble.neural import TorchClassifier
    >>> TorchClassifier(optimizer=Adam(0.01)).set_params(optimizer__weight_decay=0.1).optimizer
    Adam(learning_rate=0.01, weight_decay=0.1)
    """

    learning_rate: float = 1e-3
    weight_decay: float = 0.0


@dataclass(repr=False)
class SGD(Optimizer):
    """Stochastic gradient descent, as in PyTorch.

    Parameters
    ----------
    learning_rate : float
        Above 0.
    momentum : float
        0 to 1.
    weight_decay : float
        L2 penalty, from 0.

    Examples
    --------
    >>> SGD(0.1, momentum=0.9)
    SGD(learning_rate=0.1, momentum=0.9)
    """

    learning_rate: float = 1e-3
    momentum: float = 0.0
    weight_decay: float = 0.0

    def checked(self) -> dict[str, float]:
        """Return the settings by PyTorch's names, or raise InvalidParameterError if one is out of range."""
        return super().checked() | {"momentum": real_between("momentum", self.momentum, 0.0, 1.0)}


class Precision(StrEnum):
    """Precision of the factors of matrix products. Sums and parameters are always float32."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


@dataclass(frozen=True)
class Training:
    """Checked, public settings of a training."""

    epochs: int
    batch_size: int
    optimizer: Optimizer
    precision: Precision
    augmentation: ImageAugmentation | None

    @classmethod
    def of(cls, estimator: Any, input_shape: Sequence[int]) -> Training:
        """Check an estimator's settings."""
        augmentation = estimator.augmentation
        if augmentation is not None:
            augmentation = of_type("augmentation", augmentation, ImageAugmentation, "an ImageAugmentation or None")
        if augmentation is not None and len(input_shape) != 3:
            raise InvalidParameterError(
                f"augmentation={augmentation!r} needs images: set input_shape=(channels, height, width)."
            )
        optimizer = estimator.default_optimizer if estimator.optimizer is None else estimator.optimizer
        optimizer = of_type("optimizer", optimizer, Optimizer, "Adam(learning_rate=...) or SGD(learning_rate=...)")
        optimizer.checked()
        return cls(
            epochs=integer_between("epochs", estimator.epochs, 1),
            batch_size=integer_between("batch_size", estimator.batch_size, 1),
            optimizer=optimizer,
            precision=member("precision", estimator.precision, Precision),
            augmentation=augmentation,
        )

    @property
    def factors(self) -> Any:
        """PyTorch's type of the factors of matrix products."""
        torch = require_torch()
        return torch.float32 if self.precision is Precision.FLOAT32 else torch.bfloat16

    def train(self, module: Module, rows: Tensor, targets: NDArray[np.int64], schedule: Schedule) -> bool:
        """Train a network in place on rows and class ids, and return whether its numbers are still finite."""
        torch, device = require_torch(), Device(rows.device.type)
        ids = torch.as_tensor(targets, device=rows.device)
        device.laid_out(module)
        optimizer = self.optimizer.of(list(module.parameters()))
        module.train()
        with _layout_kept_after_pooling(module):
            for _ in range(self.epochs):
                batches, inputs = schedule.epoch(rows)
                for batch in batches:
                    places = torch.as_tensor(batch, device=rows.device)
                    optimizer.zero_grad()
                    with device.products_of(self.factors):
                        logits = module(inputs[places])
                    torch.nn.functional.cross_entropy(logits.float(), ids[places]).backward()
                    optimizer.step()
        return all(bool(value.isfinite().all()) for value in module.state_dict().values())


class Schedule:
    """One training's own random choices, which depend on its public seed and its number of rows only."""

    def __init__(self, entropy: int, n_rows: int, training: Training) -> None:
        start, order = np.random.SeedSequence(entropy).spawn(2)
        # Seed of the start values.
        self.torch_seed = int(start.generate_state(1)[0])
        # Divided as evenly as possible, so that no batch has one row while others are full.
        self.n_batches = -(-n_rows // training.batch_size)
        self._n_rows = n_rows
        self._augmentation = training.augmentation
        self._generator = np.random.default_rng(order)

    def epoch(self, rows: Tensor) -> tuple[list[NDArray[np.int64]], Tensor]:
        """Return the row indices of each batch, and all rows, moved if they are images that move."""
        batches = np.array_split(self._generator.permutation(self._n_rows), self.n_batches)
        if self._augmentation is None:
            return batches, rows
        return batches, _moved(rows, self._augmentation.draw(self._n_rows, self._generator))


def _moved(images: Tensor, moves: NDArray[np.float32]) -> Tensor:
    """Return moved images of shape (n_images, channels, height, width). Pixels from outside are zero."""
    torch: Any = require_torch()
    height, width = images.shape[2:]
    angle, across, down = np.moveaxis(moves, 1, 0)
    cosine, sine = np.cos(angle), np.sin(angle)
    # Coordinates run from -1 to 1 in both directions, for every shape.
    rows = [
        [cosine, -sine * np.float32(height / width), 2 * across],
        [sine * np.float32(width / height), cosine, 2 * down],
    ]
    theta = torch.from_numpy(np.moveaxis(np.array(rows, dtype=np.float32), 2, 0).copy()).to(images.device)
    grid = torch.nn.functional.affine_grid(theta, list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(images, grid, align_corners=False)


@contextmanager
def _layout_kept_after_pooling(module: Module) -> Iterator[None]:
    """Lay out gradients of pooled images like the images, within the block.

    Otherwise PyTorch differentiates pooling before a flat layer several times slower. No number changes.
    """
    torch = require_torch()
    by_channels = torch.channels_last

    def lay_out(_layer: Module, _inputs: object, output: Tensor) -> None:
        # With return_indices the output is a pair.
        pooled = output[0] if isinstance(output, tuple) else output
        if pooled.requires_grad and pooled.dim() == 4 and pooled.is_contiguous(memory_format=by_channels):
            pooled.register_hook(lambda gradient: gradient.contiguous(memory_format=by_channels))

    layers = [layer for layer in module.modules() if isinstance(layer, torch.nn.MaxPool2d)]
    handles = [layer.register_forward_hook(lay_out) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
