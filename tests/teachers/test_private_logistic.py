"""The private logistic regression by gradient perturbation: sensitivity, exact arithmetic, the noise, the fit.

Noisy gradient descent of several classes, and of units with several records: sensitivity and exact arithmetic.
"""

import math
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.optimize import differential_evolution, minimize
from scipy.special import log_softmax
from scipy.stats import kstest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpensemble._random import SeededNoise
from dpensemble.cost import DEFAULT_ORDERS
from dpensemble.cost.privacy_cost import improved_epsilon
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.releases.sums import DiscreteNoise
from dpensemble.teachers import GradientPerturbedLogisticRegression, OutputPerturbedLogisticRegression
from dpensemble.teachers import private_logistic as descent
from dpensemble.teachers import private_logistic as output
from dpensemble.teachers.private import _announced_privacy, _announced_zcdp
from dpensemble.teachers.private_logistic import (
    _SQUARED_LENGTH_OF_CLASSES,
    _binary_descent,
    _gradient_sum,
    _gradient_variance,
    _shared_by_units,
    _signed_records,
    _softmax_descent,
    _softmax_sum,
)

UNIT = 2**26
LONGEST = math.sqrt(1.25) * UNIT


class Recorded:
    """No noise, and the requested variances, or the numbers of a given stream."""

    def __init__(self, numbers=None):
        self.variances, self.numbers = [], numbers

    def gaussian(self, variance):
        self.variances.append(variance)
        return 0 if self.numbers is None else next(self.numbers)


def gradient_of(rows, signs, weights, clip=1.0):
    records = _signed_records(np.atleast_2d(np.asarray(rows, float)), np.atleast_1d(np.asarray(signs, float)), clip)
    return _gradient_sum(records, np.asarray(weights, float))


# Sensitivity


def test_no_neighbour_moves_a_sum_by_more_than_it_is_charged_for():
    """All data sets of up to three records, some far beyond the clip, at weights near and far."""
    universe = [(np.array(x), y) for x in product((-50.0, 0.0, 0.6), repeat=2) for y in (-1.0, 1.0)]
    largest = {"replaced": 0.0, "added": 0.0}
    for weights in product((-16000.0, -3.0, 0.0, 2.0, 11000.0), repeat=3):
        single = np.array([gradient_of(x, y, weights) for x, y in universe])
        sums = {
            chosen: single[list(chosen)].sum(axis=0)
            for size in range(3)
            for chosen in combinations_with_replacement(range(len(universe)), size)
        }
        # Adding one record to any data set, and replacing one in any, by every other.
        added = np.linalg.norm(single, axis=1).max()
        pairs = np.linalg.norm(single[:, None] - single[None], axis=2).max()
        for chosen, total in sums.items():
            records = [universe[i] for i in chosen]
            if records:
                found = gradient_of(np.array([x for x, _ in records]), [y for _, y in records], weights)
                assert np.array_equal(found, total)
        largest["added"] = max(largest["added"], added)
        largest["replaced"] = max(largest["replaced"], pairs)
    assert 0.95 * LONGEST < largest["added"] <= LONGEST
    assert 0.95 * 2 * LONGEST < largest["replaced"] <= 2 * LONGEST


@pytest.mark.parametrize("signs", [(1, 1), (1, -1)])
def test_a_search_for_worse_neighbours_ends_below_the_bound(signs):
    """Maximise the change over two records of three columns, and weights. Opposite labels come near the bound."""

    def change(v):
        weights = np.sinh(v[6:])
        moved = gradient_of(v[:3], signs[0], weights) - gradient_of(v[3:6], signs[1], weights)
        return -np.linalg.norm(moved) / (2 * LONGEST)

    bounds = [(-3, 3)] * 6 + [(-9, 9)] * 4
    found = -differential_evolution(change, bounds, maxiter=150, popsize=8, seed=0, polish=False).fun
    # Records of one label cannot differ in the constant and be opposite in the rest.
    assert (0.88 if signs == (1, 1) else 0.97) < found <= 1


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1e-3, 1.0, 1e3, 1e300])
def test_no_record_is_longer_than_its_bound(scale):
    rng = np.random.default_rng(0)
    for n_columns in (0, 1, 2, 700):
        rows = rng.normal(size=(300, n_columns)) * scale
        for clip in (1e-9, 0.3, 1e9):
            records = _signed_records(rows, rng.choice([-1.0, 1.0], 300), clip)
            assert np.array_equal(records, np.rint(records))
            squares = (records.astype(int) ** 2).sum(axis=1)
            assert np.all(squares * 4 <= 5 * 2**32)


def test_records_do_not_depend_on_each_other_nor_on_their_places():
    rng = np.random.default_rng(1)
    rows, signs = rng.normal(size=(999, 37)) * 3, rng.choice([-1.0, 1.0], 999)
    whole = _signed_records(rows, signs, 1.3)
    for chosen in (rng.permutation(999), np.arange(3, 700, 7), np.array([5])):
        for order in ("C", "F"):
            part = np.asarray(rows[chosen], order=order)
            assert np.array_equal(_signed_records(part, signs[chosen], 1.3), whole[chosen])


def test_sums_are_exact_at_the_largest_that_may_occur():
    """Against Python's integers, and in any order, unlike rounded sums."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(500, 9))
    rows[:200] = np.ones(9)
    records = _signed_records(rows, rng.choice([-1.0, 1.0], 500), 0.01)
    for length in (1e-3, 1.0, 2.0**14):
        weights = rng.normal(size=10)
        weights *= length / np.linalg.norm(weights)
        whole = [int(w) for w in np.rint(weights * 2**20)]
        expected = [0] * 10
        for record in records.astype(int).tolist():
            score = sum(a * b for a, b in zip(record, whole, strict=True))
            wrong = 1024 - int(np.searchsorted(descent._RISES, float(score)))
            expected = [e - wrong * a for e, a in zip(expected, record, strict=True)]
        for order in (np.arange(500), rng.permutation(500)):
            assert [int(x) for x in _gradient_sum(records[order], weights)] == expected
    # The bounds of the text: a score, and a sum over all records that are let in.
    assert math.sqrt(1.25) * 2**16 * (2**14 * 2**20 + 2**10) < 2**53
    assert descent._MOST_RECORDS * UNIT <= 2**52


def test_the_chance_of_being_wrong_is_that_of_logistic_regression():
    scores = np.linspace(-9, 9, 4001)
    records = np.array([[2.0**16]])
    for score in scores:
        found = -_gradient_sum(records, np.array([score]))[0] / 2**26
        assert 0 <= found <= 1
        assert abs(found - 1 / (1 + math.exp(score))) <= 1 / 2048 + 1e-6
    for score, wrong in ((-1e4, 1.0), (1e4, 0.0)):
        assert -_gradient_sum(records, np.array([score]))[0] / 2**26 == wrong


# Noise


@pytest.mark.parametrize(("rho", "n_steps"), [(0.03, 50), (1e-9, 7), (3.7, 1)])
def test_what_is_charged_is_what_the_noise_pays_for(rho, n_steps):
    noise = Recorded()
    rows = np.random.default_rng(0).normal(size=(40, 3))
    _binary_descent(rows, np.ones(40), clip=1.0, rho=rho, n_steps=n_steps, noise=noise)
    count, *gradients = noise.variances
    assert len(gradients) == n_steps * 4
    assert set(gradients) == {_gradient_variance(rho, n_steps)}
    squared = Fraction(5, 4) * UNIT**2
    replaced = n_steps * 4 * squared / (2 * gradients[0])
    added = n_steps * squared / (2 * gradients[0]) + Fraction(1, 2 * count)
    for spent in (replaced, added):
        assert spent <= Fraction(rho)
    assert replaced > Fraction(rho) * (1 - Fraction(1, 10**6))


def test_noise_is_added_to_every_sum_and_only_noisy_sums_are_used():
    """A step computed by hand from the exact sum and the noise that was drawn."""
    rng = np.random.default_rng(3)
    rows, signs = rng.normal(size=(30, 2)), rng.choice([-1.0, 1.0], 30)
    drawn = [7, 10**8, -(10**8), 5 * 10**7]
    found = _binary_descent(rows, signs, clip=1.0, rho=1e6, n_steps=1, noise=Recorded(iter(drawn)))
    exact = gradient_of(rows, signs, np.zeros(3))
    assert found == pytest.approx(-4.0 * (exact + drawn[1:]) / (UNIT * 37), rel=1e-12)
    law = [
        _binary_descent(rows, signs, clip=1.0, rho=2.0, n_steps=1, noise=DiscreteNoise(SeededNoise(seed)))
        for seed in range(300)
    ]
    # With about 30 records the count's own noise plays no part in the sign. That of the sums is Gaussian.
    spread = math.sqrt(_gradient_variance(2.0, 1)) / UNIT
    scores = (np.array(law) * -30 / 4 - exact / UNIT) / spread
    assert kstest(scores.ravel(), "norm").pvalue > 1e-3


def test_the_noisy_count_and_the_weights_stay_within_reason():
    rng = np.random.default_rng(4)
    noise = DiscreteNoise(SeededNoise(0))
    for n in (0, 1, 50):
        rows = rng.normal(size=(n, 5))
        for rho in (1e-12, 1e-3, 1e3):
            weights = _binary_descent(rows, np.ones(n), clip=1.0, rho=rho, n_steps=30, noise=noise)
            assert np.all(np.isfinite(weights))
            assert np.linalg.norm(weights) <= 2.0**14


def test_without_noise_it_is_logistic_regression():
    rng = np.random.default_rng(5)
    angles = rng.uniform(0, 2 * np.pi, 5000)
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    chances = 1 / (1 + np.exp(-(rows @ [3.0, -2.0] + 1)))
    signs = np.where(rng.random(5000) < chances, 1.0, -1.0)
    weights = _binary_descent(rows, signs, clip=1.0, rho=1.0, n_steps=400, noise=Recorded())

    def loss(w):
        return np.logaddexp(0, -signs * (rows @ w[:2] + 0.5 * w[2])).mean()

    best = minimize(loss, np.zeros(3), tol=1e-9).x
    assert weights == pytest.approx(best, abs=0.01)


def test_more_records_than_sums_hold_are_refused(monkeypatch):
    monkeypatch.setattr(descent, "_MOST_RECORDS", 10)
    with pytest.raises(DataError, match="at most 10 records for a private teacher; got 11"):
        _binary_descent(np.zeros((11, 1)), np.ones(11), clip=1.0, rho=1.0, n_steps=1, noise=Recorded())


# The estimator


def test_it_learns_and_states_its_privacy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 20))
    y = np.where(X[:, 0] - X[:, 1] > 0.1, "yes", "no")
    model = GradientPerturbedLogisticRegression(
        classes=["yes", "no"], epsilon=1.0, delta=1e-6, insecure_release_seed=0
    ).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.announced_privacy() == _announced_privacy(model, Relation.REPLACE_ONE) == (1.0, 1e-6)
    assert 0.999 < model.privacy_spent_(1e-6) <= 1.0
    assert model.privacy_spent_(1e-3) < 0.8
    assert improved_epsilon(model.announced_zcdp() * DEFAULT_ORDERS, DEFAULT_ORDERS, 1e-6) <= 1.0
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(len(X)))
    assert model.coef_.shape == (1, 20)
    assert model.intercept_.shape == (1,)


def test_a_promise_for_added_records_counts_four_times_where_they_are_replaced():
    model = GradientPerturbedLogisticRegression(epsilon=1.0)
    assert _announced_zcdp(model, Relation.REPLACE_ONE) == model.announced_zcdp()
    model.relation = "add-or-remove-one"
    assert _announced_zcdp(model, Relation.ADD_OR_REMOVE_ONE) == model.announced_zcdp()
    assert _announced_zcdp(model, Relation.REPLACE_ONE) == 4 * model.announced_zcdp()
    assert _announced_zcdp(object(), Relation.REPLACE_ONE) is None


def test_fits_differ_unless_seeded():
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    one, other = (GradientPerturbedLogisticRegression(classes=[0, 1]).fit(X, y).coef_ for _ in range(2))
    assert one != other
    one, other = (
        GradientPerturbedLogisticRegression(classes=[0, 1], insecure_release_seed=3).fit(X, y).coef_ for _ in range(2)
    )
    assert one == other


@pytest.mark.parametrize("y", [[], [0], [1, 1]])
def test_it_takes_any_records_of_declared_labels(y):
    model = GradientPerturbedLogisticRegression(classes=[0, 1]).fit(np.zeros((len(y), 2)), np.array(y, dtype=int))
    assert model.predict([[1.0, 2.0]]).shape == (1,)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"classes": None}, InvalidParameterError, "must be declared"),
        ({"classes": [0]}, InvalidParameterError, "classes"),
        ({"epsilon": 0.0}, InvalidParameterError, "epsilon=0.0"),
        ({"epsilon": float("nan")}, InvalidParameterError, "epsilon=nan"),
        ({"epsilon": 1e-6, "delta": 1e-12}, InvalidParameterError, "too small for delta"),
        ({"delta": 0.0}, InvalidParameterError, "delta=0.0"),
        ({"clip": 0.0}, InvalidParameterError, "clip=0.0"),
        ({"n_steps": 0}, InvalidParameterError, "n_steps=0"),
        ({"n_steps": 1.5}, InvalidParameterError, "n_steps=1.5"),
        ({"classes": [0, 2]}, DataError, "not among classes"),
    ],
)
def test_bad_settings_of_it(settings, error, message):
    with pytest.raises(error, match=message):
        GradientPerturbedLogisticRegression(**{"classes": [0, 1]} | settings).fit([[0.0], [1.0]], [0, 1])


class Declared(GradientPerturbedLogisticRegression):
    __init__ = GradientPerturbedLogisticRegression.__init__

    def fit(self, X, y):
        if self.classes is not None or y is None:
            return super().fit(X, y)
        try:
            self.classes = list(np.unique(np.asarray(y)))
            return super().fit(X, y)
        finally:
            self.classes = None


# The suite gives one record of one class and expects a refusal. Classes are declared, and one record is enough.
EXPECTED = {"check_fit2d_1sample": "two classes are declared, never read off the records"}


@parametrize_with_checks(
    [Declared(epsilon=100.0, insecure_release_seed=0, clip=10.0)], expected_failed_checks=lambda _: EXPECTED
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_check(estimator, check):
    check(estimator)


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
    records = _signed_records(rows, np.ones(len(rows)), 1.0)
    return _softmax_sum(records, labels, weights, _shared_by_units(records, numbers))


def binary_of(units, weights):
    rows = np.array([[x] for unit in units for x, _ in unit])
    signs = np.array([1.0 if y else -1.0 for unit in units for _, y in unit])
    numbers = np.array([n for n, unit in enumerate(units) for _ in unit], dtype=np.int64)
    records = _signed_records(rows, signs, 1.0)
    return _gradient_sum(records, weights[:, 0], _shared_by_units(records, numbers))


@pytest.mark.parametrize("n_records", [1, 2, 3])
@pytest.mark.parametrize(
    ("of", "longest"), [(softmax_of, math.sqrt(2) * LONGEST), (binary_of, LONGEST)], ids=["softmax", "two classes"]
)
def test_no_unit_moves_a_sum_by_more_than_it_is_charged_for(of, longest, n_records):
    """Every unit of up to three records, without others and beside others."""
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
    records = _signed_records(rows, np.ones(3), 1.0)
    assert np.linalg.norm(softmax_of([unit], weights)) <= math.sqrt(2) * LONGEST
    assert np.linalg.norm(_softmax_sum(records, labels, weights, records)) > 1.2 * math.sqrt(2) * LONGEST


@pytest.mark.parametrize("n_classes", [3, 26])
def test_a_record_adds_the_same_to_the_last_digit_whoever_else_is_there(n_classes):
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(301, 7)), rng.integers(0, n_classes, 301)
    weights = rng.normal(size=(8, n_classes)) * 5
    records = _signed_records(rows, np.ones(301), 1.3)
    whole = _softmax_sum(records, labels, weights, records)
    one_by_one = sum(
        _softmax_sum(records[i : i + 1], labels[i : i + 1], weights, records[i : i + 1]) for i in range(301)
    )
    assert np.array_equal(whole, one_by_one)
    order = rng.permutation(301)
    assert np.array_equal(whole, _softmax_sum(records[order], labels[order], weights, records[order]))
    assert np.array_equal(whole, np.rint(whole))


def test_chances_are_those_of_a_softmax():
    rng = np.random.default_rng(1)
    rows, labels = rng.normal(size=(50, 4)) / 4, rng.integers(0, 3, 50)
    weights = rng.normal(size=(5, 3))
    records = _signed_records(rows, np.ones(50), 1.0)
    z = records / 2**16
    chances = np.exp(log_softmax(z @ weights, axis=1))
    expected = z.T @ (chances - np.eye(3)[labels])
    # Scores in steps of 2**-8, chances rounded down to whole numbers of 2**-10.
    assert _softmax_sum(records, labels, weights, records) / UNIT == pytest.approx(expected, abs=50 * 0.006)


@pytest.mark.parametrize(("rho", "n_steps"), [(0.1, 3), (2.0, 50)])
def test_what_several_classes_are_charged_is_what_the_noise_pays_for(rho, n_steps):
    noise = Recorded()
    _softmax_descent(np.zeros((6, 2)), np.zeros(6, dtype=np.int64), 3, clip=1.0, rho=rho, n_steps=n_steps, noise=noise)
    count, *steps = noise.variances
    assert len(steps) == n_steps * 3 * 3
    assert set(steps) == {_gradient_variance(rho, n_steps, _SQUARED_LENGTH_OF_CLASSES)}
    # Replaced: twice the length. Added or removed: once, and the number of units.
    moved = 2 * math.sqrt(2) * LONGEST
    assert n_steps * moved**2 / (2 * steps[0]) <= rho * (1 + 1e-12)
    assert n_steps * (moved / 2) ** 2 / (2 * steps[0]) + 1 / (2 * count) <= rho * (1 + 1e-12)


def test_units_are_counted_in_place_of_records():
    rows, units = np.zeros((60, 1)), np.arange(60) // 20
    one = _binary_descent(rows, np.ones(60), clip=1.0, rho=1e9, n_steps=4, noise=Recorded(), units=units)
    few = _binary_descent(rows[:3], np.ones(3), clip=1.0, rho=1e9, n_steps=4, noise=Recorded())
    assert one == pytest.approx(few, abs=1e-2)


def test_without_noise_it_is_softmax_regression():
    rng = np.random.default_rng(2)
    rows = rng.uniform(-0.5, 0.5, size=(400, 2))
    labels = np.array([rng.choice(3, p=p) for p in np.exp(log_softmax(rows @ rng.normal(size=(2, 3)) * 4, axis=1))])
    weights = _softmax_descent(rows, labels, 3, clip=1.0, rho=1.0, n_steps=400, noise=Recorded())
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
def test_it_takes_any_records_of_several_declared_labels(y):
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
        z = np.hstack([output._shortened(rows, 1.0), np.ones((len(rows), 1))])
        return output._minimiser(z, signs, penalty, shares)

    found = np.array([weights([*others, unit]) for unit in units])
    sensitivity = 2 * (math.sqrt(2) + 1e-5) / penalty
    assert np.linalg.norm(found - weights(others), axis=1).max() <= sensitivity / 2
    assert max(np.linalg.norm(found - one, axis=1).max() for one in found) <= sensitivity
