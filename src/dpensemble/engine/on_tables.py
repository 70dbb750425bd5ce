"""What estimators that read tables by themselves have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpensemble._arrays import Floats
from dpensemble.engine import table_inputs
from dpensemble.engine.classifier import PrivateClassifier
from dpensemble.student import class_probabilities


class TableClassifier(PrivateClassifier):
    """A classifier whose ``student_`` takes rows as they were given, and whose ``columns_`` says of which kinds."""

    takes_tables: ClassVar[bool] = True
    #: A table without rows, with the kinds of its columns.
    columns_: Any

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
        return class_probabilities(self.student_, table_inputs.new_rows(self, X, self.columns_), self.classes_)
