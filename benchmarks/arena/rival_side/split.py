"""The split that a worker was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


class Split:
    """The split in a folder, in the forms that rivals take; read when asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.y = np.load(folder / "labels.npy")
        #: CPU seconds of earlier work that this fit uses, e.g. a private model that two contestants share.
        self.shared_seconds = 0.0

    def matrices(self, kind: str) -> list[np.ndarray]:
        """Private, public and test rows as numbers."""
        with np.load(self.folder / f"{kind}.npz") as held:
            return [held[part] for part in ("private", "public", "test")]

    def frames(self) -> list[pd.DataFrame]:
        """Private, public and test rows, not encoded."""
        return [pd.read_parquet(self.folder / f"{part}.parquet") for part in ("private", "public", "test")]

    def codes(self) -> dict[str, np.ndarray]:
        """Private and test rows as small whole numbers, and what the codes stand for (`arena.discrete.Codes`)."""
        with np.load(self.folder / "codes.npz") as held:
            return dict(held)


def aligned(model: Any, X: Any, classes: int) -> np.ndarray:
    """Return class probabilities with a column for every class, also those that no private row had."""
    probabilities = np.zeros((len(X), classes))
    probabilities[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(X)
    return probabilities
