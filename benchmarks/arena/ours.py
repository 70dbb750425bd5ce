"""The library's methods at their defaults, and what no privacy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from arena.encoding import Encoded
from dpensemble import PATEClassifier, PrivateMajorityClassifier

# As `dpensemble compare` has it: one teacher for 25 records, and at most 250.
_RECORDS_A_TEACHER, _MOST_TEACHERS = 25, 250


def label_moments(encoded: Encoded, *, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Fit label moments on tables as they are."""
    # Not in every version of the library; without it the arena records an error.
    from dpensemble import LabelMomentsClassifier  # noqa: PLC0415

    rows = encoded.rows
    model = LabelMomentsClassifier(
        classes=list(rows.classes), epsilon=epsilon, delta=delta, random_state=seed, insecure_release_seed=seed
    )
    model.fit(rows.X_private, np.asarray(rows.classes)[rows.y_private], X_public=rows.X_public)
    return _in_order(model, rows.X_test, np.asarray(rows.classes))


def private_majority(encoded: Encoded, *, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Fit a majority of private teachers."""
    return _voting(PrivateMajorityClassifier, encoded, epsilon=epsilon, delta=delta, seed=seed)


def pate(encoded: Encoded, *, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """Fit PATE; its number of teachers follows the number of records."""
    n_teachers = int(np.clip(len(encoded.rows.X_private) // _RECORDS_A_TEACHER, 2, _MOST_TEACHERS))
    return _voting(PATEClassifier, encoded, epsilon=epsilon, delta=delta, seed=seed, n_teachers=n_teachers)


def _voting(kind: Any, encoded: Encoded, *, seed: int, **settings: Any) -> np.ndarray:
    rows, (private, public, test) = encoded.rows, encoded.matrices
    order = np.arange(len(rows.classes))
    model = kind(classes=order.tolist(), random_state=seed, insecure_release_seed=seed, **settings)
    return _in_order(model.fit(private, rows.y_private, X_public=public), test, order)


def logistic_regression(encoded: Encoded, *, seed: int, **_: float) -> np.ndarray:
    """Fit without privacy on the private third."""
    private, _public, test = encoded.matrices
    model = LogisticRegression(max_iter=1000, random_state=seed).fit(private, encoded.rows.y_private)
    return _in_order(model, test, np.arange(len(encoded.rows.classes)))


def gradient_boosting(encoded: Encoded, *, seed: int, **_: float) -> np.ndarray:
    """Fit without privacy on the private third."""
    private, _public, test = encoded.matrices
    model = HistGradientBoostingClassifier(random_state=seed).fit(private, encoded.rows.y_private)
    return _in_order(model, test, np.arange(len(encoded.rows.classes)))


def commonest(encoded: Encoded, **_: float) -> np.ndarray:
    """Give every row the shares of classes among private rows, without privacy."""
    shares = np.bincount(encoded.rows.y_private, minlength=len(encoded.rows.classes)) / len(encoded.rows.y_private)
    return np.tile(shares, (len(encoded.rows.X_test), 1))


def _in_order(model: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return probabilities with a column for every class, in the order of the table's classes."""
    place = {label: position for position, label in enumerate(classes.tolist())}
    found = np.zeros((len(X), len(classes)))
    found[:, [place[label] for label in np.asarray(model.classes_).tolist()]] = model.predict_proba(X)
    return found
