"""The published model of label moments: a softmax of a public map's features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dpensemble._arrays import Floats
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.whole import UNIT

# Units in 1 of coefficients, and of probabilities and odds.
_COEFFICIENT, _CHANCE = 2.0**16, 2.0**24
_LARGEST_COEFFICIENT = 2.0**12


def probabilities(features: Any, coefficients: Floats) -> Floats:
    """Return the probability of each class, shape (n_rows, n_columns). One column is the second class of two.

    Sums are over whole numbers below ``2**53``, so they are exact in any order. A row's probabilities depend only on
    that row and on the coefficients, not on the rows read together with it. A private row's centre rests on that.
    """
    # Products stay below 2**14 * 2**28 in length, since rows are at most 1 long.
    whole = np.rint(features * UNIT) if isinstance(features, np.ndarray) else (features * UNIT).rint()
    rounded = np.rint(np.clip(coefficients, -_LARGEST_COEFFICIENT, _LARGEST_COEFFICIENT) * _COEFFICIENT)
    scores = np.asarray(whole @ rounded) / (UNIT * _COEFFICIENT)
    if scores.shape[1] == 1:
        # The logistic function, without overflow on either side.
        return np.rint(0.5 * (1 + np.tanh(scores / 2)) * _CHANCE) / _CHANCE
    odds = np.rint(np.exp(scores - scores.max(axis=1, keepdims=True)) * _CHANCE)
    # No release can show that a probability is 0.
    chances: Floats = np.maximum(np.rint(odds / odds.sum(axis=1, keepdims=True) * _CHANCE), 1.0) / _CHANCE
    return chances


def expected(centre: Floats | None, features: Any, n_classes: int, even_weight: float) -> tuple[Floats, Floats]:
    """Return what a published model expects of rows, and the public weight of each row."""
    n_rows, n_columns = features.shape[0], columns(n_classes)
    if centre is None:
        return np.full((n_rows, n_columns), 1 / n_classes), np.full(n_rows, even_weight)
    c = probabilities(features, centre)
    if n_columns == 1:
        return c, 0.5 / np.maximum(c, 1 - c)[:, 0]
    # Chances are whole numbers of 2**-24, so this sum of squares is exact in any order.
    longest = np.sqrt(1 - 2 * c.min(axis=1) + (c**2).sum(axis=1))
    return c, 0.5 / longest


def columns(n_classes: int) -> int:
    """Return the number of columns of coefficients: one for two classes, otherwise one a class."""
    return 1 if n_classes == 2 else n_classes


def even_weight(n_classes: int) -> float:
    """Return the weight of rows where residuals are taken from even shares of the classes."""
    return 1.0 if n_classes == 2 else 0.5 / math.sqrt((n_classes - 1) / n_classes)


class MomentsModel(ClassifierMixin, BaseEstimator):
    """A softmax of features, with coefficients fitted to released moments. May be published.

    Attributes
    ----------
    coefficients_ : ndarray of shape (n_features, n_columns)
        One column for two classes (for the second class), otherwise one column a class.
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.

    Examples
    --------
    >>> model = MomentsModel.of(np.array([[2.0]]), np.array(["no", "yes"]))
    >>> model.predict(np.array([[1.0], [-1.0]])).tolist()
    ['yes', 'no']
    """

    @classmethod
    def of(cls, coefficients: Floats, classes: NDArray[Any]) -> MomentsModel:
        """Return the model with these coefficients."""
        model = cls()
        model.coefficients_, model.classes_ = coefficients, classes
        return model

    def fit(self, X: Any, y: Any = None) -> MomentsModel:  # noqa: ARG002
        """Refuse: labels are for `LabelMomentsClassifier`, which releases their moments."""
        raise InvalidParameterError("a MomentsModel is made of released moments: fit a LabelMomentsClassifier.")

    def predict_proba(self, features: Any) -> Floats:
        """Return the probability of each class, shape (n_rows, n_classes)."""
        check_is_fitted(self, "coefficients_")
        chances = probabilities(features, self.coefficients_)
        return np.hstack([1 - chances, chances]) if chances.shape[1] == 1 else chances

    def predict(self, features: Any) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_rows,)."""
        most_probable = self.predict_proba(features).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[most_probable]
        return labels
