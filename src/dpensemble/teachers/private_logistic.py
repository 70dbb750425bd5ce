"""Logistic regressions that are private themselves: by noise on their coefficients, or on their gradients.

Their common base checks records, and gives the released scores and their privacy.

Noise on the coefficients: why it is private
--------------------------------------------
The coefficients have a known sensitivity, are rounded, and get discrete noise.

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

Noise on every gradient: why it is private
------------------------------------------
This is the default teacher of private majorities: gradient descent in whole numbers.

A record is a row ``z``, of length at most ``L = sqrt(1 + 1/4)``. The public `clip` scales the row, the row is
shortened to length 1, and 1/2 is appended for the intercept. The loss ``log(1 + exp(-y w.z))`` has the gradient
``-p y z`` where ``p``, the chance of being wrong, is at most 1. So a record's gradient is at most ``L`` long for all
weights. The sum of all gradients moves by at most ``2 L`` if a record is replaced and by at most ``L`` if one is
added or removed. Each of `n_steps` sums gets discrete Gaussian noise of variance ``v = 2 n_steps L**2 / rho``.
Weights are computed from noisy sums only, so the steps compose adaptively. For replacing, the cost is

    n_steps (2 L)**2 / (2 v) = rho,

and for adding or removing it is a quarter of that. The other three quarters pay for the number of records, which is
the same when a record is replaced. With noise of variance ``v' = 2 / (3 rho)`` that number costs
``1 / (2 v') = 3 rho / 4``. Either way the fit is ``rho``-zero-concentrated differentially private.

If a unit has ``k`` records, each record's gradient is divided by ``k`` (towards zero, so that no entry grows). By the
triangle inequality the unit's gradients together are at most ``L`` long, and units are counted in place of records. So
all of the above holds for units. Which records belong to a unit depends on that unit only, and is public when units
are replaced.

Rows, chances and weights are whole numbers of public units, and every sum stays below ``2**53``. So sums are
exact in doubles in every order, and what a record adds depends on that record and on released weights only.
The bound above therefore holds for what the machine computes. A table gives the chances. (Other
operations on private entries are single divisions, products, square roots and truncations, each of them
determined by the standard for floating-point numbers.) The noise is drawn exactly.

Noise on every gradient, several classes
----------------------------------------
The proof holds except for the gradient. A record with the row ``z``, of length at most ``L = sqrt(5 / 4)``, and the
class ``y`` has the gradient ``z outer (p - e_y)`` of ``-log p_y``. Here ``p`` are chances: not negative, and together
at most 1. So with ``q = 1 - p_y``, and the other chances together at most ``q``,

    |p - e_y|**2 = q**2 + sum of the others' squares <= 2 q**2 <= 2,

and a record's gradient is at most ``sqrt(2) L`` long, for all weights. Nothing else changes: replacing a unit
moves a sum by at most ``2 sqrt(2) L``, adding or removing one by at most half of that.

Scores are exact whole numbers. A table gives the odds by how far a class is behind the best, in whole steps of
``2**-8``. Chances are odds over their sum, rounded down to whole numbers of ``1 / CHANCE`` in whole arithmetic. So
what a record adds depends on that record and on released weights only, to the last digit.

Sources: R. Bassily, A. Smith and A. Thakurta, "Private empirical risk minimization: efficient algorithms and
tight error bounds", FOCS 2014 (noisy gradient descent). C. Canonne, G. Kamath and T. Steinke, "The discrete
Gaussian for differential privacy", NeurIPS 2020, Theorem 4 (the noise). I. Mironov, "Renyi differential
privacy", CSF 2017, Proposition 1 (adaptive composition, at every order). M. Bun and T. Steinke, "Concentrated
differential privacy: simplifications, extensions, and lower bounds", TCC 2016, Definition 1.1.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._checks import delta_of, epsilon_of, integer_between, names_checked, real_between, sorted_array
from dpensemble._entries import Floats, Integers, read_rows, require_labels, require_rows
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._random import noise_source
from dpensemble._units import unit_numbers
from dpensemble.cost import DEFAULT_ORDERS
from dpensemble.cost.privacy_cost import improved_epsilon
from dpensemble.datasets.frames import ScoresGivenLabels, takes_any_frame
from dpensemble.errors import DataError, InvalidParameterError, TeacherError
from dpensemble.guarantee import Budget
from dpensemble.releases.sums import DiscreteNoise


class _PrivateLinearClassifier(ScoresGivenLabels, ClassifierMixin, BaseEstimator):
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


def _with_noise(
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
    variance = math.ceil(moved**2 / (2 * _concentrated_for(epsilon, delta)) * _ROUND_UP)
    return (
        np.array([k + noise.gaussian(variance) for k in steps], dtype=np.float64) * step,
        moved**2 / (2 * variance) * _ROUND_UP,
    )


def _concentrated_for(epsilon: float, delta: float) -> float:
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
class OutputPerturbedLogisticRegression(_PrivateLinearClassifier):
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
        return _concentrated_for(epsilon, delta) if delta else None

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
        noisy, rho = _with_noise(weights, sensitivity, *self.announced_privacy(), self.insecure_release_seed)
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


#: Entry appended to every row.
_CONSTANT = 0.5
# Squared length of a record: a row of length 1 and the constant.
_SQUARED_LENGTH = Fraction(5, 4)
# Units in 1 of rows, chances and weights. A product of a row and weights is below 2**51 of them, and a sum of
# 2**26 gradients is at most 2**52.
_ROW, _CHANCE, _WEIGHT = 2**16, 2**10, 2**20
_LONGEST_WEIGHTS = 2.0**14
_MOST_RECORDS = 2**26
# The mean loss has curvature at most L**2 / 4 = 0.3125, so that steps up to 2 (1 + 0.9) / 0.3125 are stable.
_STEP, _MOMENTUM = 4.0, 0.9
# Number of records whose gradients are added up together.
_BLOCK = 1024
# Scores, in units of rows times weights, at which the chance of being wrong rises to the next unit.
_RISES: Floats = -_ROW * _WEIGHT * logit((np.arange(_CHANCE)[::-1] + 0.5) / _CHANCE)


def _binary_descent(
    rows: Floats,
    signs: Floats,
    *,
    clip: float,
    rho: float,
    n_steps: int,
    noise: DiscreteNoise,
    units: Integers | None = None,
) -> Floats:
    """Return the mean weights of the later half of the steps, with the intercept last. They may be published.

    `units` is the number of each record's unit. By default every record is a unit.
    """
    _require_few(rows)
    records = _signed_records(rows, signs, clip)
    shared = _shared_by_units(records, units)
    return _descend(
        lambda weights: _gradient_sum(records, weights, shared),
        (rows.shape[1] + 1,),
        n_units=_number_of_units(rows, units),
        squared_length=_SQUARED_LENGTH,
        rho=rho,
        n_steps=n_steps,
        noise=noise,
    )


def _descend(
    gradient: Callable[[Floats], Floats],
    shape: tuple[int, ...],
    *,
    n_units: int,
    squared_length: Fraction,
    rho: float,
    n_steps: int,
    noise: DiscreteNoise,
) -> Floats:
    """Return the mean weights of the later half of the steps of any loss whose gradients are sums of bounded vectors.

    `gradient` returns the exact sum of all units' gradients at some weights, in whole units. No unit's gradient may be
    longer than the root of `squared_length` times the whole units in 1. The number of units is private unless units are
    replaced. `rho` is the zero-concentrated privacy of all steps together.
    """
    variance = _gradient_variance(rho, n_steps, squared_length)
    # No smaller than the noise on a gradient, so that weights of few records stay moderate.
    smallest = math.sqrt(variance) / (_ROW * _CHANCE)
    count = max(n_units + noise.gaussian(math.ceil(Fraction(2, 3) / Fraction(rho))), smallest)
    weights, velocity, total = np.zeros((3, *shape))
    for step in range(n_steps):
        exact = gradient(weights)
        drawn = [float(int(entry) + noise.gaussian(variance)) for entry in exact.ravel()]
        velocity = _MOMENTUM * velocity + np.reshape(drawn, shape) / (_ROW * _CHANCE * count)
        weights = weights - _STEP * velocity
        weights *= min(1.0, _LONGEST_WEIGHTS / max(float(np.linalg.norm(weights)), 1.0))
        if 2 * step >= n_steps - 1:
            total += weights
    return total / (n_steps // 2 + n_steps % 2)


def _require_few(rows: Floats) -> None:
    """Refuse more records than sums hold exactly."""
    if len(rows) > _MOST_RECORDS:
        raise DataError(f"X must have at most {_MOST_RECORDS:,} records for a private teacher; got {len(rows):,}.")


def _number_of_units(rows: Floats, units: Integers | None) -> int:
    """Return how many units the records belong to."""
    return len(rows) if units is None else len(np.unique(units))


def _shared_by_units(records: Floats, units: Integers | None) -> Floats:
    """Return whole records divided by the number of records of their unit, towards zero."""
    if units is None:
        return records
    shared: Floats = np.trunc(records / np.bincount(units)[units][:, None])
    return shared


def _gradient_variance(rho: float, n_steps: int, squared_length: Fraction = _SQUARED_LENGTH) -> int:
    """Return the variance of the noise on a sum of gradients, in squared units, rounded up."""
    return math.ceil(2 * n_steps * squared_length * (_ROW * _CHANCE) ** 2 / Fraction(rho))


def _signed_records(rows: Floats, signs: Floats, clip: float) -> Floats:
    """Return each private record, computed from that record alone, times its sign.

    The result is in whole units, and each row is no longer than ``sqrt(1.25)`` times the units in 1.
    """
    largest = np.maximum(np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0)), clip)[:, None]
    # In place, since records are the largest array, and at most two copies of them are needed.
    whole = rows / largest
    whole *= _ROW
    np.trunc(whole, out=whole)
    # Squares are whole numbers too, so that lengths do not depend on the order of columns.
    lengths = np.sqrt(np.einsum("ij,ij->i", whole, whole))[:, None]
    # A unit less than 1, and truncated, so that rounding cannot make a row longer than 1.
    factors = (_ROW - 1) / np.maximum(lengths, clip / largest * _ROW)
    signed = np.empty((len(rows), rows.shape[1] + 1))
    np.multiply(whole, factors, out=signed[:, :-1])
    np.trunc(signed[:, :-1], out=signed[:, :-1])
    signed[:, -1] = _CONSTANT * _ROW
    signed *= signs[:, None]
    return signed


def _gradient_sum(records: Floats, weights: Floats, shared: Floats | None = None) -> Floats:
    """Return the exact sum of the gradients of `_signed_records` in whole units. `shared` is what each record adds."""
    contributions, whole = records if shared is None else shared, np.rint(weights * _WEIGHT)
    total = np.zeros(records.shape[1])
    # In blocks that fit into the processor's cache. Sums are of whole numbers, and so the same in any order.
    for start in range(0, len(records), _BLOCK):
        block = slice(start, start + _BLOCK)
        wrong = _CHANCE - np.searchsorted(_RISES, records[block] @ whole, side="left").astype(np.float64)
        total -= wrong @ contributions[block]
    return total


# Squared length of a gradient: twice that of a record.
_SQUARED_LENGTH_OF_CLASSES = Fraction(5, 2)
# Steps of scores in 1, and odds at a number of steps behind the best class, in whole numbers.
_STEPS = 2**8
_ODDS: Integers = np.rint(2.0**20 * np.exp(-np.arange(_STEPS * 20) / _STEPS)).astype(np.int64)


def _softmax_descent(
    rows: Floats,
    classes: Integers,
    n_classes: int,
    *,
    clip: float,
    rho: float,
    n_steps: int,
    noise: DiscreteNoise,
    units: Integers | None = None,
) -> Floats:
    """Return the mean weights of the later half of the steps, which may be published.

    The shape is (n_features + 1, n_classes).

    Rows and class ids are private. The other parameters are those of `_binary_descent`.
    """
    _require_few(rows)
    records = _signed_records(rows, np.ones(len(rows)), clip)
    shared = _shared_by_units(records, units)
    return _descend(
        lambda weights: _softmax_sum(records, classes, weights, shared),
        (rows.shape[1] + 1, n_classes),
        n_units=_number_of_units(rows, units),
        squared_length=_SQUARED_LENGTH_OF_CLASSES,
        rho=rho,
        n_steps=n_steps,
        noise=noise,
    )


def _softmax_sum(records: Floats, classes: Integers, weights: Floats, shared: Floats) -> Floats:
    """Return the exact sum of the gradients in whole units. `shared` is what each record adds."""
    scores = (records @ np.rint(weights * _WEIGHT)).astype(np.int64)
    behind = (scores.max(axis=1, keepdims=True) - scores) // (_ROW * _WEIGHT // _STEPS)
    odds = np.where(behind < len(_ODDS), _ODDS[np.minimum(behind, len(_ODDS) - 1)], 0)
    chances = odds * _CHANCE // odds.sum(axis=1, keepdims=True)
    chances[np.arange(len(classes)), classes] -= _CHANCE
    total: Floats = shared.T @ chances.astype(np.float64)
    return total


@dataclass(repr=False, eq=False, kw_only=True)
class GradientPerturbedLogisticRegression(_PrivateLinearClassifier):
    """Logistic regression of any number of classes by gradient descent with noise on every gradient.

    Every fit is (epsilon, delta)-private for one record, or all records of one unit, replaced, added or removed. So you
    may publish the model. The top of this module holds the proof. Settings are public.

    Parameters
    ----------
    classes : sequence of labels
        All possible labels. You must declare them, because taking them from private labels would leak.
    epsilon : float, default=1.0
        From 1e-6 to 100.
    delta : float, default=1e-5
        Above 0, since the noise is Gaussian.
    clip : float, default=1.0
        Longer rows are shortened to this length, which then counts as 1. Choose it from public rows, at or below the
        usual length, since the noise suits rows of length 1.
    n_steps : int, default=50
        Number of gradients, from 1 to 10,000. The noise on each grows with the root of this number.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment. The model is then not private.

    Attributes
    ----------
    coef_ : ndarray of shape (n_outputs, n_features)
        Released coefficients of the clipped rows. One output for two classes, otherwise one for each class.
    intercept_ : ndarray of shape (n_outputs,)
        Released intercepts.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    R. Bassily, A. Smith and A. Thakurta, "Private empirical risk minimization: efficient algorithms and tight
    error bounds", FOCS 2014. Here with all records in every step, momentum, and discrete noise.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = GradientPerturbedLogisticRegression(classes=[0, 1], epsilon=1.0, delta=1e-5)
    >>> bool(model.fit(X, y).score(X, y) > 0.9), model.privacy_spent_(1e-5) <= 1.0
    (True, True)
    """

    many_classes: ClassVar[bool] = True

    classes: Sequence[Any] | None = None
    epsilon: float = 1.0
    delta: float = 1e-5
    clip: float = 1.0
    n_steps: int = 50
    insecure_release_seed: int | None = None

    def announced_privacy(self) -> tuple[float, float]:
        """Return the epsilon and delta of every fit, known before it."""
        return real_between("epsilon", self.epsilon, 1e-6, 100), delta_of(self.delta)

    def announced_zcdp(self) -> float:
        """Return the zero-concentrated privacy of every fit."""
        return _concentrated_for(*self.announced_privacy())

    def _release(
        self, rows: Floats, ids: Integers, n_classes: int, clip: float, units: Integers | None
    ) -> tuple[Floats, Floats, float]:
        rho, n_steps = self.announced_zcdp(), integer_between("n_steps", self.n_steps, 1, 10_000)
        noise = DiscreteNoise(noise_source(self.insecure_release_seed))
        settings: dict[str, Any] = {"clip": clip, "rho": rho, "n_steps": n_steps, "noise": noise, "units": units}
        if n_classes == 2:
            weights = _binary_descent(rows, np.where(ids == 1, 1.0, -1.0), **settings)[:, None]
        else:
            weights = _softmax_descent(rows, ids, n_classes, **settings)
        return weights[:-1].T, _CONSTANT * weights[-1], rho


_MOST_EPSILON = 100.0
# For the rounding of conversions in both directions.
_SLACK = 1 - 1e-12


def default_teacher(
    budget: Budget, touched: int, declared: tuple[Any, Any], *, trained_once: bool
) -> GradientPerturbedLogisticRegression | OutputPerturbedLogisticRegression:
    """Return the default private teacher, with Gaussian noise if its delta is above 0, otherwise with Laplace noise.

    `touched` is the number of teachers that learn from a unit, and `declared` their epsilon and delta, or None.
    """
    # It is as private as declared. By default, models that are trained once share the budget evenly: its
    # zero-concentrated privacy is divided by their number. Fresh teachers are pure, because answers then are.
    epsilon, delta = declared
    if np.ndim(epsilon) or np.ndim(delta):
        raise InvalidParameterError(
            "teacher=None cannot have one teacher_privacy for each teacher: give one value, or your own teacher."
        )
    if epsilon is None and trained_once:
        return GradientPerturbedLogisticRegression(epsilon=_shared_epsilon(budget, touched), delta=budget.delta)
    if epsilon is None:
        return OutputPerturbedLogisticRegression(epsilon=min(budget.epsilon / touched, _MOST_EPSILON))
    if delta:
        return GradientPerturbedLogisticRegression(epsilon=epsilon, delta=delta)
    return OutputPerturbedLogisticRegression(epsilon=epsilon)


def _shared_epsilon(budget: Budget, touched: int) -> float:
    """Return the epsilon, at the budget's delta, of each of several models that compose to the budget."""
    if touched == 1:
        return min(budget.epsilon, _MOST_EPSILON)
    rho = _concentrated_for(budget.epsilon, budget.delta) / touched * _SLACK
    return min(improved_epsilon(rho * DEFAULT_ORDERS, DEFAULT_ORDERS, budget.delta), _MOST_EPSILON)
