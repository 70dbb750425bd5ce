"""Gradient descent with noise on every gradient, in whole numbers: the default teacher of private majorities.

Why it is private
-----------------
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

Several classes
---------------
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy.special import logit

from dpensemble._checks import delta_of, integer_between, real_between
from dpensemble._entries import Floats, Integers
from dpensemble._random import noise_source
from dpensemble.errors import DataError
from dpensemble.releases.sums import DiscreteNoise
from dpensemble.teachers.private_linear import PrivateLinearClassifier, concentrated_for

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
class GradientPerturbedLogisticRegression(PrivateLinearClassifier):
    """Logistic regression of any number of classes by gradient descent with noise on every gradient.

    Every fit is (epsilon, delta)-private for one record, or all records of one unit, replaced, added or removed. So you
    may publish the model. `dpensemble.teachers.noisy_descent` holds the proof. Settings are public.

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
        return concentrated_for(*self.announced_privacy())

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
