"""What happens in which order: settings of a training, and a teacher's own mini-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, member, real_between
from dpensemble.errors import InvalidParameterError
from dpensemble.neural._torch import Tensor, require_torch
from dpensemble.neural.augmentation import ImageAugmentation


class Optimizer(StrEnum):
    """How parameters follow their gradients."""

    ADAM = "adam"
    SGD = "sgd"


class Precision(StrEnum):
    """Of the factors of matrix products; sums and parameters are always float32."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


@dataclass(frozen=True)
class Training:
    """Checked, public settings of a training.

    Parameters
    ----------
    epochs, batch_size : int
        Passes, and most rows a step.
    learning_rate, momentum, weight_decay : float
        As in PyTorch; momentum is of SGD only.
    optimizer : Optimizer
        Adam or SGD.
    precision : Precision
        Of factors.
    augmentation : ImageAugmentation or None
        Of images.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    optimizer: Optimizer
    momentum: float
    weight_decay: float
    precision: Precision
    augmentation: ImageAugmentation | None

    @classmethod
    def of(cls, estimator: Any, input_shape: Sequence[int]) -> Training:
        """Check an estimator's settings."""
        augmentation = estimator.augmentation
        if augmentation is not None and not isinstance(augmentation, ImageAugmentation):
            raise InvalidParameterError(
                f"augmentation={augmentation!r} is not known; use an ImageAugmentation or None."
            )
        if augmentation is not None and len(input_shape) != 3:
            raise InvalidParameterError(
                f"augmentation={augmentation!r} needs images; set input_shape=(channels, height, width)."
            )
        return cls(
            epochs=integer_between("epochs", estimator.epochs, 1),
            batch_size=integer_between("batch_size", estimator.batch_size, 1),
            learning_rate=real_between("learning_rate", estimator.learning_rate, 1e-12, 1e6),
            optimizer=member("optimizer", estimator.optimizer, Optimizer),
            momentum=real_between("momentum", estimator.momentum, 0.0, 1.0),
            weight_decay=real_between("weight_decay", estimator.weight_decay, 0.0, 1e6),
            precision=member("precision", estimator.precision, Precision),
            augmentation=augmentation,
        )

    def make_optimizer(self, parameters: list[Tensor]) -> Any:
        """Return PyTorch's optimizer of these parameters, in its fused form."""
        optim = require_torch().optim
        common = {"lr": self.learning_rate, "weight_decay": self.weight_decay, "fused": True}
        if self.optimizer is Optimizer.ADAM:
            return optim.Adam(parameters, **common)
        return optim.SGD(parameters, momentum=self.momentum, **common)


class Schedule:
    """One training's own random choices, which depend on its seed and its number of rows only.

    Rows are dealt into batches as even as can be, so that none is of one row where others are full.

    Parameters
    ----------
    entropy : int
        Public seed.
    n_rows : int
        Rows to train on.
    training : Training
        Settings.

    Attributes
    ----------
    torch_seed : int
        Seed of the start values.
    n_batches : int
        Steps of an epoch.
    """

    def __init__(self, entropy: int, n_rows: int, training: Training) -> None:
        start, order = np.random.SeedSequence(entropy).spawn(2)
        self.torch_seed = int(start.generate_state(1)[0])
        self.n_batches = -(-n_rows // training.batch_size)
        self._n_rows = n_rows
        self._augmentation = training.augmentation
        self._generator = np.random.default_rng(order)

    def epoch(self) -> tuple[list[NDArray[np.int64]], NDArray[np.float32] | None]:
        """Return the row indices of each batch and the moves of all images in the order of rows."""
        batches = np.array_split(self._generator.permutation(self._n_rows), self.n_batches)
        if self._augmentation is None:
            return batches, None
        return batches, self._augmentation.draw(self._n_rows, self._generator)
