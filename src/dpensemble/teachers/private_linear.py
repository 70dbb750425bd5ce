"""Linear teachers that are private themselves: their common base, and a teacher with noise on its coefficients.

The base checks records, and gives the released scores and their privacy. The teacher is a logistic regression by output
perturbation: its coefficients have a known sensitivity, are rounded, and get discrete noise. A teacher with noise on
its gradients is in `dpensemble.teachers.noisy_descent`.

Why it is private
-----------------
A row is scaled by the public `clip`, shortened to length 1 and given a constant entry 1, so that its length is
at most ``sqrt(2)``. The fit minimises ``F(w) = sum_i log(1 + exp(-y_i w.x_i)) + (penalty / 2) |w|**2`` (the
intercept is penalised too). Each term's gradient is at most ``sqrt(2)`` long and ``F`` is ``penalty``-strongly
convex. So replacing a record moves the minimiser by at most ``2 sqrt(2) / penalty``, and adding or removing one
by at most half of that, for any number of records, none included. If a unit has ``k`` records, each of their losses
counts ``1 / k``, so that a unit's gradient is as short as a record's, and the same holds for units. The minimiser is
found up to a gradient of length `_GRADIENT`, and therefore within ``_GRADIENT / penalty`` of the true one. (K.
Chaudhuri, C. Monteleoni and A. Sarwate, "Differentially private empirical risk minimization", JMLR 2011, Lemma 8, argue
the same way for the mean loss.)

The coefficients are rounded to multiples of a public power of two, which moves each by at most half a step. Then whole
steps of discrete noise are added (`dpensemble.releases.sums`). If delta is 0, this is Laplace noise at an L1
sensitivity of ``sqrt(d)`` times that in L2. Otherwise it is Gaussian noise, whose zero-concentrated privacy
is ``sensitivity**2 / (2 variance)`` (Canonne, Kamath and Steinke 2020, Theorem 4), converted to (epsilon,
delta). The release is an exact function of integers drawn exactly, so floating-point noise plays no part.

Not covered: the time that a fit takes, and whether it failed to converge.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._checks import delta_of, epsilon_of, names_checked, real_between
from dpensemble._class_names import sorted_array
from dpensemble._entries import Floats, Integers, read_rows, require_labels, require_rows
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._random import noise_source
from dpensemble.allocation.partition import unit_numbers
from dpensemble.cost import DEFAULT_ORDERS
from dpensemble.cost.privacy_cost import improved_epsilon
from dpensemble.datasets.frames import ScoresGivenLabels, takes_any_frame
from dpensemble.errors import DataError, InvalidParameterError, TeacherError
from dpensemble.releases.sums import DiscreteNoise


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

    @takes_any_frame
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
        scores: Floats = _shortened(rows, self._clip) @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @takes_any_frame
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probability of each class for each row."""
        scores = self.decision_function(X)
        if scores.ndim == 2:
            chances: Floats = softmax(scores, axis=1)
            return chances
        second = 0.5 * (1 + np.tanh(scores / 2))
        return np.stack([1 - second, second], axis=1)

    @takes_any_frame
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


def _shortened(rows: Floats, clip: float) -> Floats:
    """Return rows divided by `clip` and shortened to length at most 1."""
    # Dividing by the largest entry first keeps squares from overflowing.
    top = np.maximum(np.abs(rows).max(axis=1, initial=0.0), clip)[:, None]
    lengths = np.sqrt(np.sum((rows / top) ** 2, axis=1, keepdims=True)) * top
    return rows / np.maximum(lengths, clip) * (1 - 1e-12)


# Steps of the released coefficients in one sensitivity.
_FINENESS = 2**16
_ROUND_UP = 1 + 1e-9


def _released(
    weights: NDArray[np.float64], sensitivity: float, epsilon: float, delta: float, seed: int | None
) -> tuple[NDArray[np.float64], float | None]:
    """Return coefficients with noise, by their Euclidean sensitivity, and ``rho`` if the noise is Gaussian."""
    step = 2.0 ** math.floor(math.log2(sensitivity / _FINENESS))
    n = len(weights)
    # Rounding moves each of the two vectors by at most half a step.
    moved = (sensitivity / step + math.sqrt(n)) * _ROUND_UP
    steps = [int(value) for value in np.rint(weights / step)]
    noise = DiscreteNoise(noise_source(seed))
    if delta == 0:
        scale = math.ceil(Fraction(moved * math.sqrt(n) * _ROUND_UP) / Fraction(epsilon))
        return np.array([k + noise.laplace(scale) for k in steps], dtype=np.float64) * step, None
    variance = math.ceil(moved**2 / (2 * concentrated_for(epsilon, delta)) * _ROUND_UP)
    return (
        np.array([k + noise.gaussian(variance) for k in steps], dtype=np.float64) * step,
        moved**2 / (2 * variance) * _ROUND_UP,
    )


def concentrated_for(epsilon: float, delta: float) -> float:
    """Return the largest zero-concentrated privacy loss that converts to (epsilon, delta), rounded down."""
    epsilon, delta = epsilon_of(epsilon), delta_of(delta)
    low, high = 1e-18, epsilon
    if improved_epsilon(low * DEFAULT_ORDERS, DEFAULT_ORDERS, delta) > epsilon:
        raise InvalidParameterError(
            f"epsilon={epsilon:g} is too small for delta={delta:g}: use a larger epsilon, or delta=0."
        )
    for _ in range(100):
        middle = math.sqrt(low * high)
        fits = improved_epsilon(middle * DEFAULT_ORDERS, DEFAULT_ORDERS, delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


_LENGTH = math.sqrt(2.0)
# Far above the rounding of a gradient, and far below the change that a record can make.
_GRADIENT = 1e-5
_MOST_STEPS = 200


@dataclass(repr=False, eq=False, kw_only=True)
class OutputPerturbedLogisticRegression(PrivateLinearClassifier):
    """Logistic regression of two classes with noise on its coefficients, so that you may publish the model.

    Every fit is (epsilon, delta)-private for one record, replaced, added or removed. Settings are public.

    Parameters
    ----------
    classes : sequence of two labels
        All possible labels. You must declare them, because taking them from private labels would leak.
    epsilon : float, default=1.0
        From 1e-6 to 100.
    delta : float, default=0.0
        0 adds Laplace noise. A delta above 0 adds Gaussian noise, which is smaller when there are many columns.
    clip : float, default=1.0
        Longer rows are shortened to this length. Choose it from public rows.
    penalty : float, default=10.0
        Weight of ``|w|**2 / 2`` against the sum of losses. The noise is inversely proportional to it.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment. The model is then not private.

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

    classes: Sequence[Any] | None = None
    epsilon: float = 1.0
    delta: float = 0.0
    clip: float = 1.0
    penalty: float = 10.0
    insecure_release_seed: int | None = None

    def announced_privacy(self) -> tuple[float, float]:
        """Return the epsilon and delta of every fit, known before it."""
        epsilon = real_between("epsilon", self.epsilon, 1e-6, 100)
        return epsilon, 0.0 if self.delta == 0 else delta_of(self.delta)

    def announced_zcdp(self) -> float | None:
        """Return the zero-concentrated privacy of every fit, or None with a delta of 0."""
        epsilon, delta = self.announced_privacy()
        return concentrated_for(epsilon, delta) if delta else None

    def _release(
        self,
        rows: Floats,
        ids: Integers,
        n_classes: int,  # noqa: ARG002
        clip: float,
        units: Integers | None,
    ) -> tuple[Floats, Floats, float | None]:
        penalty = real_between("penalty", self.penalty, 1e-6, 1e9)
        rows = np.hstack([_shortened(rows, clip), np.ones((len(rows), 1))])
        sensitivity = 2 * (_LENGTH + _GRADIENT) / penalty
        shares = np.ones(len(rows)) if units is None else 1 / np.bincount(units)[units]
        weights = _minimiser(rows, np.where(ids == 1, 1.0, -1.0), penalty, shares)
        noisy, rho = _released(weights, sensitivity, *self.announced_privacy(), self.insecure_release_seed)
        return noisy[None, :-1], noisy[-1:], rho


def _minimiser(rows: Floats, signs: Floats, penalty: float, shares: Floats) -> Floats:
    """Return a point where the objective's gradient is shorter than half of `_GRADIENT`, by Newton's method."""
    signed = rows * signs[:, None]
    weights = np.zeros(rows.shape[1])

    def objective(w: Floats) -> float:
        return float(shares @ np.logaddexp(0, -(signed @ w)) + penalty / 2 * w @ w)

    for _ in range(_MOST_STEPS):
        # The chance of being wrong about each record.
        wrong = 0.5 * (1 - np.tanh(signed @ weights / 2))
        gradient = penalty * weights - signed.T @ (shares * wrong)
        if np.linalg.norm(gradient) <= _GRADIENT / 2:
            return weights
        curvature = (signed * (shares * wrong * (1 - wrong))[:, None]).T @ signed + penalty * np.eye(len(weights))
        step, before, share = np.linalg.solve(curvature, gradient), objective(weights), 1.0
        while objective(weights - share * step) > before - 0.1 * share * (gradient @ step) and share > 1e-6:
            share /= 2
        weights = weights - share * step
    raise TeacherError("the fit of a private teacher must converge: use a larger penalty.")
