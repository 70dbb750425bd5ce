"""Label moments at their defaults, of the checkout of the library that is first on the path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def fitted(
    private: pd.DataFrame,
    y: np.ndarray,
    public: pd.DataFrame,
    test: pd.DataFrame,
    *,
    classes: tuple[str, ...],
    epsilon: float,
    delta: float,
    seed: int,
    **settings: Any,
) -> np.ndarray:
    """Return class probabilities of test rows, in the order of the classes. Tables are taken as they are.

    `settings` are further ones of label moments, whose defaults are taken otherwise.
    """
    # Not in every version of the library, and without it the arena records an error.
    from dpensemble import LabelMomentsClassifier  # noqa: PLC0415

    model = LabelMomentsClassifier(
        classes=list(classes), epsilon=epsilon, delta=delta, random_state=seed, insecure_release_seed=seed, **settings
    )
    model.fit(private, np.asarray(classes)[y], X_public=public)
    return in_order(model, test, np.asarray(classes))


def in_order(model: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return probabilities with a column for every class, in the order of the table's classes."""
    place = {label: position for position, label in enumerate(classes.tolist())}
    found = np.zeros((len(X), len(classes)))
    found[:, [place[label] for label in np.asarray(model.classes_).tolist()]] = model.predict_proba(X)
    return found
