"""What changes over time do to a student, for docs/drift.md: ``python benchmarks/drift.py``, ten seconds.

A student of January, and two students of July, with public rows of January and of July. All are tested on July.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from dpensemble import LabelMomentsClassifier


def clinic(n: int, seed: int, older: float = 0.0, dose_matters: float = 1.0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return patients and whether they are ill."""
    rng = np.random.default_rng(seed)
    age, dose = rng.normal(60 + older, 10, n), rng.normal(size=n)
    odds = -2 + (age - 60) / 10 + dose_matters * dose
    sick = rng.random(n) < 1 / (1 + np.exp(-odds))
    return pd.DataFrame({"age": age, "dose": dose}), np.where(sick, "ill", "healthy")


def student(rows: pd.DataFrame, labels: np.ndarray, public: pd.DataFrame) -> LabelMomentsClassifier:
    """Return a student at epsilon 1."""
    model = LabelMomentsClassifier(classes=["healthy", "ill"], epsilon=1.0, insecure_release_seed=0)
    return model.fit(rows, labels, X_public=public)


CHANGES: dict[str, dict[str, float]] = {
    "nothing": {},
    "older patients": {"older": 10.0},
    "the dose works the other way": {"dose_matters": -1.0},
}


def main() -> None:
    """Print a row of the table for each change."""
    public, _ = clinic(800, 1)
    january = student(*clinic(4000, 2), public)
    print("change | public rows of January unlike July | area of January, July, July with new public rows | mean | ill")
    for change, how in CHANGES.items():
        fresh, _ = clinic(800, 5, **how)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            july, renewed = (student(*clinic(4000, 3, **how), rows) for rows in (public, fresh))
        test, truth = clinic(4000, 4, **how)
        probabilities = [model.predict_proba(test)[:, 1] for model in (january, july, renewed)]
        areas = [f"{roc_auc_score(truth == 'ill', one):.2f}" for one in probabilities]
        means = [f"{one.mean():.2f}" for one in probabilities]
        print(change, july.result_.drift.outcome, *areas, *means, f"{(truth == 'ill').mean():.2f}", sep=" | ")


if __name__ == "__main__":
    main()
