"""Classifiers of diffprivlib and interpret, with settings from public facts only."""

from __future__ import annotations

import numpy as np
import pandas as pd

from arena.rival_side.split import Split, aligned

#: DP-EBM has 300 rounds with so many private rows, and 100 with fewer.
MANY = 5_000


def naive_bayes(split: Split, classes: int, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Fit diffprivlib's Gaussian naive Bayes on number columns; bounds hold 98 of 100 public rows."""
    from diffprivlib.models import GaussianNB  # noqa: PLC0415

    del delta  # pure epsilon
    private, public, test = split.matrices("numbers")
    model = GaussianNB(epsilon=epsilon, bounds=bounds(public, 0.01), random_state=seed)
    return aligned(model.fit(private, split.y), test, classes)


def logistic_regression(split: Split, classes: int, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Fit diffprivlib's logistic regression; the norm of the data is the median norm of public rows."""
    from diffprivlib.models import LogisticRegression  # noqa: PLC0415

    del delta
    private, public, test = split.matrices("matrices")
    norm = float(np.median(np.linalg.norm(public, axis=1)))
    # With its default C of 1 the noise swamps the model.
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, C=0.003 * epsilon, max_iter=1000, random_state=seed)
    return aligned(model.fit(private, split.y), test, classes)


def random_forest(split: Split, classes: int, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Fit diffprivlib's random forest, with public bounds and classes."""
    from diffprivlib.models import RandomForestClassifier  # noqa: PLC0415

    del delta
    private, public, test = split.matrices("matrices")
    model = RandomForestClassifier(
        30,
        max_depth=8,
        epsilon=epsilon,
        bounds=bounds(public),
        classes=np.arange(classes),
        shuffle=True,
        random_state=seed,
    )
    return aligned(model.fit(private, split.y), test, classes)


def dp_ebm(split: Split, classes: int, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Fit interpret's DP-EBM, ten times as fast a learner as by default; kinds and ranges are of public rows."""
    from interpret.privacy import DPExplainableBoostingClassifier  # noqa: PLC0415

    private, public, test = split.frames()
    kept, kinds, ranges = described(public)
    model = DPExplainableBoostingClassifier(
        feature_names=kept,
        feature_types=kinds,
        privacy_bounds=ranges,
        learning_rate=0.1,
        max_rounds=300 if len(private) >= MANY else 100,
        epsilon=epsilon,
        delta=delta,
        n_jobs=1,
        random_state=seed,
    )
    return aligned(model.fit(private[kept], split.y), test[kept], classes)


def described(public: pd.DataFrame) -> tuple[list[str], list[str], dict[str, tuple[float, float]]]:
    """Return the columns that DP-EBM gets, their kinds, and ranges of those that hold numbers, by public rows."""
    # A column without a range says nothing, and cannot be binned.
    kept = [name for name in public if public[name].nunique() > 1]
    kinds = ["continuous" if pd.api.types.is_numeric_dtype(public[name]) else "nominal" for name in kept]
    ranges = {
        name: (float(public[name].min()), float(public[name].max()))
        for name, kind in zip(kept, kinds, strict=True)
        if kind == "continuous"
    }
    return kept, kinds, ranges


def bounds(public: np.ndarray, beyond: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of public rows, `beyond` of them outside at either end, and a little of it at least."""
    low, high = np.quantile(public, beyond, axis=0), np.quantile(public, 1 - beyond, axis=0)
    return low, np.maximum(high, low + 1e-3)
