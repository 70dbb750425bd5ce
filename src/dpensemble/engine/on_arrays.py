"""What estimators that take rows of numbers have in common."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._checks import names_checked
from dpensemble._given import read_rows, require_rows
from dpensemble.engine import inputs
from dpensemble.engine.classifier import PrivateClassifier
from dpensemble.student import class_probabilities


class ArrayClassifier(PrivateClassifier, metaclass=ABCMeta):
    """A classifier of rows of numbers, whose ``student_`` predicts."""

    teacher: Any
    student: Any

    def _takes_nan(self) -> bool:
        return inputs.take_nan(self.teacher, self.student)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_nan()
        return tags

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the student's label for each row; costs no privacy.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels among ``classes_``.
        """
        check_is_fitted(self)
        labels: NDArray[Any] = self.student_.predict(self._new_rows(X))
        return labels

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the student's class probabilities for each row; costs no privacy.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        return class_probabilities(self.student_, self._new_rows(X), self.classes_)

    def _new_rows(self, X: ArrayLike) -> NDArray[np.float64]:
        finite: Any = "allow-nan" if self._takes_nan() else True
        require_rows("X", X)
        with names_checked():
            return read_rows(
                "X", lambda: validate_data(self, X, dtype=np.float64, ensure_all_finite=finite, reset=False)
            )
