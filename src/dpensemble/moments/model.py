"""The published model of label moments: a softmax of a public map's features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dpensemble._arrays import Floats
from dpensemble.errors import InvalidParameterError

# Units in 1 of features (as in `dpensemble.moments.whole`), of coefficients and of probabilities and odds.
_FEATURE, _COEFFICIENT, _CHANCE = 2.0**14, 2.0**16, 2.0**24
_LARGEST_COEFFICIENT = 2.0**12


def probabilities(features: Any, coefficients: Floats) -> Floats:
    """Return the probability of each class, shape (n_rows, n_columns); with one column, of the second class of two.

    Sums are over whole numbers below ``2**53``, so they are exact in any order: what a row gets depends on that row
    and on the coefficients alone, whichever rows are read together with it. A private row's centre rests on that.
    """
    # Products stay below 2**14 * 2**28 in length, since rows are at most 1 long.
    whole = np.rint(features * _FEATURE) if isinstance(features, np.ndarray) else (features * _FEATURE).rint()
    rounded = np.rint(np.clip(coefficients, -_LARGEST_COEFFICIENT, _LARGEST_COEFFICIENT) * _COEFFICIENT)
    scores = np.asarray(whole @ rounded) / (_FEATURE * _COEFFICIENT)
    if scores.shape[1] == 1:
        # The logistic function, without overflow on either side.
        return np.rint(0.5 * (1 + np.tanh(scores / 2)) * _CHANCE) / _CHANCE
    odds = np.rint(np.exp(scores - scores.max(axis=1, keepdims=True)) * _CHANCE)
    found: Floats = np.rint(odds / odds.sum(axis=1, keepdims=True) * _CHANCE) / _CHANCE
    return found


class MomentsModel(ClassifierMixin, BaseEstimator):
    """A softmax of features, with coefficients that were found from released moments; may be published.

    Attributes
    ----------
    coefficients_ : ndarray of shape (n_features, n_columns)
        One column for two classes (of the second one), else one a class.
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
        raise InvalidParameterError("a MomentsModel is made of released moments; fit a LabelMomentsClassifier.")

    def predict_proba(self, features: Any) -> Floats:
        """Return the probability of each class, shape (n_rows, n_classes)."""
        check_is_fitted(self, "coefficients_")
        found = probabilities(features, self.coefficients_)
        return np.hstack([1 - found, found]) if found.shape[1] == 1 else found

    def predict(self, features: Any) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_rows,)."""
        found = self.predict_proba(features).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[found]
        return labels
