"""Results as JSON lines, by key: a stopped run goes on where it was."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

Key = tuple[str, str, int, float | None, int]


@dataclass(frozen=True)
class Task:
    """One fit: epsilon is None for what has no privacy."""

    table: str
    contestant: str
    version: int
    epsilon: float | None
    split: int

    @property
    def key(self) -> Key:
        """What a result is found by."""
        return (self.table, self.contestant, self.version, self.epsilon, self.split)


def load(path: Path) -> dict[Key, dict]:
    """Return all results of a file; a later line replaces an earlier one, and a torn last line is left out."""
    found = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[Task(**{name: row[name] for name in Task.__dataclass_fields__}).key] = row
    return found


def append(path: Path, row: dict) -> None:
    """Write one result at the end of a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def scores(probabilities: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return accuracy, AUROC and Brier score of class probabilities.

    With many classes AUROC is the mean of one class against the rest, over classes that test rows have; the Brier score
    is half the sum of squared differences over classes, which is the usual one for two.

    Raises
    ------
    ValueError
        If there are entries that are no probabilities.
    """
    if not np.isfinite(probabilities).all() or probabilities.min() < 0:
        raise ValueError("the probabilities of test rows have entries that are not finite or below 0")
    if np.abs(probabilities.sum(axis=1) - 1).max() > 1e-3:
        raise ValueError("the probabilities of a test row do not sum to 1")
    hot = np.eye(probabilities.shape[1])[y]
    held = [c for c in range(1 if hot.shape[1] == 2 else 0, hot.shape[1]) if 0 < hot[:, c].sum() < len(y)]
    return {
        "accuracy": float(np.mean(probabilities.argmax(axis=1) == y)),
        "auroc": float(np.mean([roc_auc_score(hot[:, c], probabilities[:, c]) for c in held])),
        "brier": float(((probabilities - hot) ** 2).sum(axis=1).mean() / 2),
    }
