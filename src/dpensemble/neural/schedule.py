"""Settings of a training, and the order of a teacher's own mini-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, member
from dpensemble.errors import InvalidParameterError
from dpensemble.neural.augmentation import ImageAugmentation
from dpensemble.neural.optimizers import Optimizer


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
        if augmentation is not None and not isinstance(augmentation, ImageAugmentation):
            raise InvalidParameterError(f"augmentation={augmentation!r} must be an ImageAugmentation or None.")
        if augmentation is not None and len(input_shape) != 3:
            raise InvalidParameterError(
                f"augmentation={augmentation!r} needs images: set input_shape=(channels, height, width)."
            )
        optimizer = estimator.default_optimizer if estimator.optimizer is None else estimator.optimizer
        if not isinstance(optimizer, Optimizer):
            raise InvalidParameterError(
                f"optimizer={optimizer!r} must be Adam(learning_rate=...) or SGD(learning_rate=...)."
            )
        optimizer.checked()
        return cls(
            epochs=integer_between("epochs", estimator.epochs, 1),
            batch_size=integer_between("batch_size", estimator.batch_size, 1),
            optimizer=optimizer,
            precision=member("precision", estimator.precision, Precision),
            augmentation=augmentation,
        )


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

    def epoch(self) -> tuple[list[NDArray[np.int64]], NDArray[np.float32] | None]:
        """Return the row indices of each batch and the moves of all images in the order of rows."""
        batches = np.array_split(self._generator.permutation(self._n_rows), self.n_batches)
        if self._augmentation is None:
            return batches, None
        return batches, self._augmentation.draw(self._n_rows, self._generator)
