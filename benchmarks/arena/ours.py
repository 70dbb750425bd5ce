"""The library's methods at their defaults, and what no privacy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from arena.encoding import Encoded
from arena.label_moments import fitted, in_order
from dpensemble import PATEClassifier, PrivateMajorityClassifier

# As `dpensemble compare` has it: one teacher for 25 records, and at most 250.
_RECORDS_A_TEACHER, _MOST_TEACHERS = 25, 250


def label_moments(encoded: Encoded, *, epsilon: float, delta: float, seed: int, **settings: Any) -> np.ndarray:
    """Fit label moments on tables as they are."""
    rows = encoded.rows
    budget = {"epsilon": epsilon, "delta": delta, "seed": seed, **settings}
    return fitted(rows.X_private, rows.y_private, rows.X_public, rows.X_test, classes=rows.classes, **budget)


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
    return in_order(model.fit(private, rows.y_private, X_public=public), test, order)


def logistic_regression(encoded: Encoded, *, seed: int, **_: float) -> np.ndarray:
    """Fit without privacy on the private third."""
    private, _public, test = encoded.matrices
    model = LogisticRegression(max_iter=1000, random_state=seed).fit(private, encoded.rows.y_private)
    return in_order(model, test, np.arange(len(encoded.rows.classes)))


def gradient_boosting(encoded: Encoded, *, seed: int, **_: float) -> np.ndarray:
    """Fit without privacy on the private third."""
    private, _public, test = encoded.matrices
    model = HistGradientBoostingClassifier(random_state=seed).fit(private, encoded.rows.y_private)
    return in_order(model, test, np.arange(len(encoded.rows.classes)))


def commonest(encoded: Encoded, **_: float) -> np.ndarray:
    """Give every row the shares of classes among private rows, without privacy."""
    shares = np.bincount(encoded.rows.y_private, minlength=len(encoded.rows.classes)) / len(encoded.rows.y_private)
    return np.tile(shares, (len(encoded.rows.X_test), 1))
