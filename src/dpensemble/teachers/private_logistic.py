r"""A simple teacher that is itself private: logistic regression with noise on its coefficients.

Why it is private
-----------------
A row is scaled by the public `clip`, shortened to length 1 and given a constant entry 1, so that its length is
at most ``sqrt(2)``. The fit minimises ``F(w) = sum_i log(1 + exp(-y_i w.x_i)) + (penalty / 2) |w|**2`` (the
intercept is penalised too). Each term's gradient is at most ``sqrt(2)`` long and ``F`` is ``penalty``-strongly
convex, so replacing a record moves the minimiser by at most ``2 sqrt(2) / penalty``, and adding or removing one
by half of that, for any number of records, none included. The minimiser is found up to a gradient of length
`_GRADIENT`, hence within ``_GRADIENT / penalty`` of the true one. (K. Chaudhuri, C. Monteleoni and A. Sarwate,
"Differentially private empirical risk minimization", JMLR 2011, Lemma 8, argue the same way for the mean loss.)

The coefficients are rounded to multiples of a public power of two, which moves each by at most half a step, and
whole steps of discrete noise are added (`dpensemble.teachers.discrete_noise`): Laplace noise at an L1
sensitivity of ``sqrt(d)`` times that in L2 if delta is 0, else Gaussian noise, whose zero-concentrated privacy
is ``sensitivity**2 / (2 variance)`` (Canonne, Kamath and Steinke 2020, Theorem 4), converted to (epsilon,
delta). What is released is an exact function of integers drawn exactly, so floating-point noise plays no part.

Not covered: the time that a fit takes, and whether it failed to converge.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._checks import declared_classes, delta_of, real_between
from dpensemble.cost import DEFAULT_ORDERS
from dpensemble.cost.conversion import improved_epsilon
from dpensemble.errors import DataError, InvalidParameterError, TeacherError
from dpensemble.teachers.perturbation import released

_LENGTH = math.sqrt(2.0)
# Far above the rounding of a gradient, far below what a record can change.
_GRADIENT = 1e-5
_MOST_STEPS = 200


class OutputPerturbedLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression of two classes whose coefficients carry noise, so that the model may be published.

    Every fit is (epsilon, delta)-private for one record, replaced, added or removed. Settings are public.

    Parameters
    ----------
    classes : sequence of two labels
        All possible labels. Declared, because reading them off private labels would leak.
    epsilon : float, default=1.0
        From 1e-6 to 100.
    delta : float, default=0.0
        0 adds Laplace noise; above 0 adds Gaussian noise, which is smaller where there are many columns.
    clip : float, default=1.0
        Length to which longer rows are shortened. Choose it from public rows.
    penalty : float, default=10.0
        Weight of ``|w|**2 / 2`` against the sum of losses; noise falls in proportion to it.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment; the model is then not private.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Released coefficients of the clipped rows.
    intercept_ : ndarray of shape (1,)
        Released intercept.
    classes_ : ndarray of shape (2,)
        Declared labels, sorted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = OutputPerturbedLogisticRegression(classes=[0, 1], epsilon=1.0, delta=1e-5, penalty=100)
    >>> bool(model.fit(X, y).score(X, y) > 0.8), model.privacy_spent_(1e-5) <= 1.0
    (True, True)
    """

    def __init__(
        self,
        *,
        classes: Sequence[Any] | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        clip: float = 1.0,
        penalty: float = 10.0,
        insecure_release_seed: int | None = None,
    ) -> None:
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.penalty = penalty
        self.insecure_release_seed = insecure_release_seed

    def announced_privacy(self) -> tuple[float, float]:
        """Return the epsilon and delta that every fit will have, known before it."""
        epsilon = real_between("epsilon", self.epsilon, 1e-6, 100)
        return epsilon, 0.0 if self.delta == 0 else delta_of(self.delta)

    def fit(self, X: ArrayLike, y: ArrayLike) -> OutputPerturbedLogisticRegression:
        """Fit on private records; they may be none, or of one class only.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private rows, finite.
        y : array-like of shape (n_records,)
            Private labels, all among ``classes``.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            If a setting is out of range or `classes` are not two.
        DataError
            If a label was not declared.
        TeacherError
            If the fit did not converge, which no data is known to cause.
        """
        epsilon, delta = self.announced_privacy()
        penalty = real_between("penalty", self.penalty, 1e-6, 1e9)
        clip = real_between("clip", self.clip, 1e-9, 1e9)
        rows, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=0)
        classes = np.unique(np.asarray(declared_classes(self.classes)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            check_classification_targets(classes)
        if len(classes) != 2:
            raise InvalidParameterError(
                f"Only binary classification is supported: classes must be two labels, not {len(classes)}."
            )
        second = labels == classes[1]
        if not np.all(second | (labels == classes[0])):
            raise DataError(
                f"Unknown label type: y holds a label that is not among classes={classes.tolist()!r}."
            )
        weights = _minimiser(_shortened(rows, clip), np.where(second, 1.0, -1.0), penalty)
        noisy, self._rho = released(
            weights, 2 * (_LENGTH + _GRADIENT) / penalty, epsilon, delta, self.insecure_release_seed
        )
        self.classes_, self._clip, self._epsilon = classes, clip, epsilon
        self.coef_, self.intercept_ = noisy[None, :-1], noisy[-1:]
        return self

    def privacy_spent_(self, delta: float) -> float:
        """Return the epsilon of this fit at a delta.

        Parameters
        ----------
        delta : float
            From 0, if it was fitted with a delta of 0, to below 1.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        if self._rho is None:
            return self._epsilon
        return improved_epsilon(self._rho * DEFAULT_ORDERS, DEFAULT_ORDERS, delta_of(delta))

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the log-odds of the second class for each row."""
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return _shortened(rows, self._clip)[:, :-1] @ self.coef_[0] + self.intercept_[0]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class for each row."""
        second = 0.5 * (1 + np.tanh(self.decision_function(X) / 2))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each row."""
        second = self.decision_function(X) > 0
        labels: NDArray[Any] = self.classes_[second.astype(int)]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = self.insecure_release_seed is None
        return tags


def _shortened(rows: NDArray[np.float64], clip: float) -> NDArray[np.float64]:
    """Return rows of length at most 1, with a constant entry 1."""
    # Dividing by the largest entry first keeps squares from overflowing.
    top = np.maximum(np.abs(rows).max(axis=1, initial=0.0), clip)[:, None]
    lengths = np.sqrt(np.sum((rows / top) ** 2, axis=1, keepdims=True)) * top
    return np.hstack([rows / np.maximum(lengths, clip) * (1 - 1e-12), np.ones((len(rows), 1))])


def _minimiser(rows: NDArray[np.float64], signs: NDArray[np.float64], penalty: float) -> NDArray[np.float64]:
    """Return a point where the objective's gradient is shorter than half of `_GRADIENT`, by Newton's method."""
    signed = rows * signs[:, None]
    weights = np.zeros(rows.shape[1])

    def objective(w: NDArray[np.float64]) -> float:
        return float(np.logaddexp(0, -(signed @ w)).sum() + penalty / 2 * w @ w)

    for _ in range(_MOST_STEPS):
        # The chance of being wrong about each record.
        wrong = 0.5 * (1 - np.tanh(signed @ weights / 2))
        gradient = penalty * weights - signed.T @ wrong
        if np.linalg.norm(gradient) <= _GRADIENT / 2:
            return weights
        curvature = (signed * (wrong * (1 - wrong))[:, None]).T @ signed + penalty * np.eye(len(weights))
        step, before, share = np.linalg.solve(curvature, gradient), objective(weights), 1.0
        while objective(weights - share * step) > before - 0.1 * share * (gradient @ step) and share > 1e-6:
            share /= 2
        weights = weights - share * step
    raise TeacherError("the fit of a private teacher did not converge; use a larger penalty.")
