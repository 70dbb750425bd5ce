"""Random rotations and shifts of training images, drawn from a teacher's own seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import real_between
from dpensemble.neural._torch import Tensor, require_torch


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


def moved(images: Tensor, moves: NDArray[np.float32]) -> Tensor:
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
