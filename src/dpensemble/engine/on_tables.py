"""What estimators that read tables by themselves have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dpensemble._arrays import Floats
from dpensemble._given import ScoresGivenLabels
from dpensemble.engine import inputs
from dpensemble.student import class_probabilities


class TableClassifier(ScoresGivenLabels, ClassifierMixin, BaseEstimator):
    """A classifier whose ``student_`` takes rows as they were given, and whose ``columns_`` says of which kinds."""

    #: Rows go to `fit` as tables, with texts and blanks as they are.
    takes_tables: ClassVar[bool] = True
    takes_budgets: ClassVar[bool] = False

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the student's label for each row; costs no privacy.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels among ``classes_``.
        """
        found = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[found]
        return labels

    def predict_proba(self, X: Any) -> Floats:
        """Return the student's class probabilities for each row; costs no privacy.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        # A student may have been told of some classes only.
        return class_probabilities(self.student_, inputs.new_rows(self, X, self.columns_), self.classes_)
