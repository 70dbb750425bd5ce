"""The common base of linear private teachers: checks of records, the released scores, and their privacy."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import delta_of, names_checked, real_between
from dpensemble._class_names import sorted_array
from dpensemble._guard import guard_private_rows
from dpensemble._refusals import read_rows, require_labels, require_rows
from dpensemble.allocation.units import unit_numbers
from dpensemble.cost import DEFAULT_ORDERS
from dpensemble.cost.conversion import improved_epsilon
from dpensemble.datasets.frames import ScoresGivenLabels, reads_frames
from dpensemble.errors import DataError, InvalidParameterError


class PrivateLinearClassifier(ScoresGivenLabels, ClassifierMixin, BaseEstimator):
    """Template: a subclass fits ``coef_`` and ``intercept_`` for rows of length at most 1."""

    #: Whether the subclass supports more than two classes.
    many_classes: ClassVar[bool] = False

    classes: Any
    clip: float
    insecure_release_seed: int | None
    classes_: NDArray[Any]
    coef_: Floats
    intercept_: Floats
    _clip: float
    # Pure epsilon, and zero-concentrated privacy if the noise is Gaussian.
    _epsilon: float
    _rho: float | None

    @abstractmethod
    def _release(
        self, rows: Floats, ids: Integers, n_classes: int, clip: float, units: Integers | None
    ) -> tuple[Floats, Floats, float | None]:
        """Return coefficients and intercepts, which may be published, and ``rho`` if the noise is Gaussian.

        Two classes have one output, the log-odds of the second. More classes have one each. `units` is the number of
        each record's unit, or None if every record is a unit.
        """

    @abstractmethod
    def announced_privacy(self) -> tuple[float, float]:
        """Return the epsilon and delta of every fit, known before it."""

    @abstractmethod
    def announced_zcdp(self) -> float | None:
        """Return ``rho`` if every fit's Renyi divergence of order ``a`` is at most ``rho a``. Otherwise None."""

    @reads_frames
    @guard_private_rows()
    def fit(self, X: ArrayLike, y: ArrayLike, units: ArrayLike | None = None) -> Self:
        """Fit on private records. There may be none, or records of one class only.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private rows, finite.
        y : array-like of shape (n_records,)
            Private labels, all among ``classes``.
        units : array-like of shape (n_records,), optional
            The unit of each record. The privacy then covers all records of one unit together, and each record of a unit
            counts less the more records the unit has. By default every record is a unit.

        Raises
        ------
        InvalidParameterError
            If a setting is out of range, or there are more than two `classes` and the teacher supports two.
        DataError
            If a label was not declared, or there are more records than the fit takes.
        TeacherError
            If the fit did not converge. No data set is known to cause this.
        """
        epsilon, _ = self.announced_privacy()
        clip = real_between("clip", self.clip, 1e-9, 1e9)
        rows, ids, classes = self._records(X, y)
        numbers = None
        if units is not None:
            numbers = unit_numbers(units, len(rows))
        coef, intercept, self._rho = self._release(rows, ids, len(classes), clip, numbers)
        self.classes_, self._clip, self._epsilon = classes, clip, epsilon
        self.coef_, self.intercept_ = coef, intercept
        return self

    def _records(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Integers, NDArray[Any]]:
        """Return rows, class ids, and the sorted classes."""
        require_rows("X", X)
        require_labels(y)
        rows, labels = read_rows("X", lambda: validate_data(self, X, y, dtype=np.float64, ensure_min_samples=0))
        classes = sorted_array(self.classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            check_classification_targets(classes)
        if len(classes) != 2 and not (self.many_classes and len(classes) > 2):
            raise InvalidParameterError(
                f"Only binary classification is supported: classes must be two labels, not {len(classes)}."
            )
        ids = np.zeros(len(labels), dtype=np.int64)
        is_declared = np.zeros(len(labels), dtype=bool)
        for number, label in enumerate(classes):
            of_class = labels == label
            ids[of_class], is_declared = number, is_declared | of_class
        if not is_declared.all():
            raise DataError(f"Unknown label type: y holds a label that is not among classes={classes.tolist()!r}.")
        return rows, ids, classes

    def privacy_spent_(self, delta: float) -> float:
        """Return the epsilon of this fit at a delta.

        Parameters
        ----------
        delta : float
            Above 0 and below 1. May be 0 if the noise is not Gaussian.
        """
        check_is_fitted(self)
        if self._rho is None:
            return self._epsilon
        return improved_epsilon(self._rho * DEFAULT_ORDERS, DEFAULT_ORDERS, delta_of(delta))

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return the log-odds of the second class for each row, or for more classes the logit of each."""
        check_is_fitted(self)
        require_rows("X", X)
        with names_checked():
            rows = read_rows("X", lambda: validate_data(self, X, dtype=np.float64, reset=False))
        scores: Floats = shortened(rows, self._clip) @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @reads_frames
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probability of each class for each row."""
        scores = self.decision_function(X)
        if scores.ndim == 2:
            chances: Floats = softmax(scores, axis=1)
            return chances
        second = 0.5 * (1 + np.tanh(scores / 2))
        return np.stack([1 - second, second], axis=1)

    @reads_frames
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each row."""
        scores = self.decision_function(X)
        ids = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
        labels: NDArray[Any] = self.classes_[ids]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.many_classes
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = self.insecure_release_seed is None
        return tags


def shortened(rows: Floats, clip: float) -> Floats:
    """Return rows divided by `clip` and shortened to length at most 1."""
    # Dividing by the largest entry first keeps squares from overflowing.
    top = np.maximum(np.abs(rows).max(axis=1, initial=0.0), clip)[:, None]
    lengths = np.sqrt(np.sum((rows / top) ** 2, axis=1, keepdims=True)) * top
    return rows / np.maximum(lengths, clip) * (1 - 1e-12)
