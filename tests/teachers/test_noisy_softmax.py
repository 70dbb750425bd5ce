"""Noisy gradient descent of several classes, and of units with several records: sensitivity and exact arithmetic."""

import math
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.teachers import GradientPerturbedLogisticRegression, OutputPerturbedLogisticRegression
from dpensemble.teachers import private_logistic as output
from dpensemble.teachers.noisy_descent import (
    gradient_sum,
    gradient_variance,
    noisy_descent,
    shared_by_units,
    signed_records,
)
from dpensemble.teachers.noisy_softmax import _SQUARED_LENGTH, noisy_softmax_descent, softmax_sum

UNIT = 2**26
LONGEST = math.sqrt(1.25) * UNIT


class Recorded:
    """No noise, and the variances that were asked for."""

    def __init__(self):
        self.variances = []

    def gaussian(self, variance):
        self.variances.append(variance)
        return 0


UNIVERSE = [(x, y) for x in (-50.0, 0.6, 50.0) for y in (0, 1, 2)]
WEIGHTS = [
    np.array(w).reshape(2, 3)
    for w in ([0.0] * 6, [9, -9, 0, 1, -1, 0], [-16000, 0, 16000, 50, 0, -50], [0, 0, 0, -16000, 0, 16000])
]


def softmax_of(units, weights):
    """Return the sum over units, each a tuple of records ``(row, label)``."""
    rows = np.array([[x] for unit in units for x, _ in unit]).reshape(-1, 1)
    labels = np.array([y for unit in units for _, y in unit], dtype=np.int64)
    numbers = np.array([n for n, unit in enumerate(units) for _ in unit], dtype=np.int64)
    records = signed_records(rows, np.ones(len(rows)), 1.0)
    return softmax_sum(records, labels, weights, shared_by_units(records, numbers))


def binary_of(units, weights):
    rows = np.array([[x] for unit in units for x, _ in unit])
    signs = np.array([1.0 if y else -1.0 for unit in units for _, y in unit])
    numbers = np.array([n for n, unit in enumerate(units) for _ in unit], dtype=np.int64)
    records = signed_records(rows, signs, 1.0)
    return gradient_sum(records, weights[:, 0], shared_by_units(records, numbers))


@pytest.mark.parametrize("n_records", [1, 2, 3])
@pytest.mark.parametrize(
    ("of", "longest"), [(softmax_of, math.sqrt(2) * LONGEST), (binary_of, LONGEST)], ids=["softmax", "two classes"]
)
def test_no_unit_moves_a_sum_by_more_than_it_is_charged_for(of, longest, n_records):
    """Every unit of up to three records, alone and beside others."""
    others = [((0.6, 1), (-50.0, 0)), ((0.0, 2),)]
    added, replaced = 0.0, 0.0
    for weights in WEIGHTS:
        without = of(others, weights)
        units = list(combinations_with_replacement(UNIVERSE, n_records))
        sums = np.array([(of([*others, unit], weights) - without).ravel() for unit in units])
        added = max(added, np.linalg.norm(sums, axis=1).max())
        replaced = max(replaced, *(np.linalg.norm(sums - one, axis=1).max() for one in sums))
    assert 0.85 * longest < added <= longest
    assert 0.8 * 2 * longest < replaced <= 2 * longest


def test_a_forgotten_share_is_caught():
    unit = ((-50.0, 0),) * 3
    weights = WEIGHTS[1]
    rows, labels = np.full((3, 1), -50.0), np.zeros(3, dtype=np.int64)
    records = signed_records(rows, np.ones(3), 1.0)
    assert np.linalg.norm(softmax_of([unit], weights)) <= math.sqrt(2) * LONGEST
    assert np.linalg.norm(softmax_sum(records, labels, weights, records)) > 1.2 * math.sqrt(2) * LONGEST


@pytest.mark.parametrize("n_classes", [3, 26])
def test_a_record_adds_the_same_to_the_last_digit_whoever_else_is_there(n_classes):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(301, 7)), rng.integers(0, n_classes, 301)
    weights = rng.normal(size=(8, n_classes)) * 5
    records = signed_records(rows, np.ones(301), 1.3)
    whole = softmax_sum(records, labels, weights, records)
    one_by_one = sum(
        softmax_sum(records[i : i + 1], labels[i : i + 1], weights, records[i : i + 1]) for i in range(301)
    )
    assert np.array_equal(whole, one_by_one)
    order = rng.permutation(301)
    assert np.array_equal(whole, softmax_sum(records[order], labels[order], weights, records[order]))
    assert np.array_equal(whole, np.rint(whole))


def test_chances_are_those_of_a_softmax():
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(50, 4)) / 4, rng.integers(0, 3, 50)
    weights = rng.normal(size=(5, 3))
    records = signed_records(rows, np.ones(50), 1.0)
    z = records / 2**16
    chances = np.exp(log_softmax(z @ weights, axis=1))
    expected = z.T @ (chances - np.eye(3)[labels])
    # Scores in steps of 2**-8, chances rounded down to whole numbers of 2**-10.
    assert softmax_sum(records, labels, weights, records) / UNIT == pytest.approx(expected, abs=50 * 0.006)


@pytest.mark.parametrize(("rho", "n_steps"), [(0.1, 3), (2.0, 50)])
def test_what_is_charged_is_what_the_noise_pays_for(rho, n_steps):
    noise = Recorded()
    noisy_softmax_descent(
        np.zeros((6, 2)), np.zeros(6, dtype=np.int64), 3, clip=1.0, rho=rho, n_steps=n_steps, noise=noise
    )
    count, *steps = noise.variances
    assert len(steps) == n_steps * 3 * 3
    assert set(steps) == {gradient_variance(rho, n_steps, _SQUARED_LENGTH)}
    # Replaced: twice the length. Added or removed: once, and the number of units.
    moved = 2 * math.sqrt(2) * LONGEST
    assert n_steps * moved**2 / (2 * steps[0]) <= rho * (1 + 1e-12)
    assert n_steps * (moved / 2) ** 2 / (2 * steps[0]) + 1 / (2 * count) <= rho * (1 + 1e-12)


def test_units_are_counted_in_place_of_records():
    rows, units = np.zeros((60, 1)), np.arange(60) // 20
    one = noisy_descent(rows, np.ones(60), clip=1.0, rho=1e9, n_steps=4, noise=Recorded(), units=units)
    few = noisy_descent(rows[:3], np.ones(3), clip=1.0, rho=1e9, n_steps=4, noise=Recorded())
    assert one == pytest.approx(few, abs=1e-2)


def test_without_noise_it_is_softmax_regression():
    rng = np.random.default_rng(2)
    rows = rng.uniform(-0.5, 0.5, size=(400, 2))
    labels = np.array([rng.choice(3, p=p) for p in np.exp(log_softmax(rows @ rng.normal(size=(2, 3)) * 4, axis=1))])
    weights = noisy_softmax_descent(rows, labels, 3, clip=1.0, rho=1.0, n_steps=400, noise=Recorded())
    z = np.hstack([rows, np.full((400, 1), 0.5)])

    def loss(w):
        return -log_softmax(z @ w.reshape(3, 3), axis=1)[np.arange(400), labels].mean()

    assert loss(weights.ravel()) < minimize(loss, np.zeros(9)).fun + 2e-3


def test_it_learns_several_classes_and_units():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6000, 2))
    y = np.array(["a", "b", "c"])[(X @ np.array([[2.0, 0], [-1, 1.7], [-1, -1.7]]).T).argmax(axis=1)]
    model = GradientPerturbedLogisticRegression(classes=["a", "b", "c"], epsilon=2.0, delta=1e-5)
    model.fit(X, y, units=np.arange(6000) // 2)
    assert model.score(X, y) > 0.85
    assert model.coef_.shape == (3, 2)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1)
    assert model.decision_function(X).shape == (6000, 3)
    assert model.privacy_spent_(1e-5) <= 2.0


@pytest.mark.parametrize("y", [[], ["a"], ["c", "c"]])
def test_it_takes_any_records_of_declared_labels(y):
    model = GradientPerturbedLogisticRegression(classes=["a", "b", "c"])
    model.fit(np.zeros((len(y), 2)), np.array(y, dtype=object))
    assert model.predict([[1.0, 2.0]])[0] in {"a", "b", "c"}


def test_units_need_one_entry_a_record():
    for teacher in (GradientPerturbedLogisticRegression, OutputPerturbedLogisticRegression):
        with pytest.raises(DataError, match="units must have one entry for each of"):
            teacher(classes=[0, 1]).fit(np.zeros((3, 1)), [0, 1, 0], units=[1, 2])
    with pytest.raises(InvalidParameterError, match="two labels"):
        OutputPerturbedLogisticRegression(classes=[0, 1, 2]).fit(np.zeros((3, 1)), [0, 1, 2])


@pytest.mark.parametrize("penalty", [0.5, 20.0])
def test_no_unit_moves_a_minimiser_by_more_than_the_noise_pays_for(penalty):
    """Output perturbation: every unit of two records, replaced, added, removed."""
    others = [((0.6, 1), (-50.0, 0)), ((0.0, 1),)]
    kinds = [(x, y) for x, y in product((-50.0, 0.0, 0.6), (0, 1))]
    units = list(combinations_with_replacement(kinds, 2))

    def weights(world):
        rows = np.array([[x] for unit in world for x, _ in unit])
        signs = np.array([1.0 if y else -1.0 for unit in world for _, y in unit])
        shares = np.array([1 / len(unit) for unit in world for _ in unit])
        z = np.hstack([output.shortened(rows, 1.0), np.ones((len(rows), 1))])
        return output._minimiser(z, signs, penalty, shares)

    found = np.array([weights([*others, unit]) for unit in units])
    sensitivity = 2 * (math.sqrt(2) + 1e-5) / penalty
    assert np.linalg.norm(found - weights(others), axis=1).max() <= sensitivity / 2
    assert max(np.linalg.norm(found - one, axis=1).max() for one in found) <= sensitivity
