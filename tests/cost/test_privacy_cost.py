"""Costs add up, convert soundly, and name the conversion."""

import builtins

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from dpensemble.accounting import Change
from dpensemble.accounting.published import laplace_moments
from dpensemble.accounting.subsampling import _improved_delta
from dpensemble.accounting.worst_case import worst_case_cost
from dpensemble.cost import (
    DEFAULT_ORDERS,
    Conversion,
    DominatingPairs,
    Part,
    PrivacyCost,
    PureCost,
    optimal_composition,
    privacy_cost,
)
from dpensemble.cost.composition import AdaptiveComposition
from dpensemble.cost.privacy_cost import _classical_epsilon, improved_epsilon
from dpensemble.errors import AccountingError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import LaplaceNoisyMax


def test_conversions_of_one_order_by_hand():
    rdp, orders = np.array([0.1]), np.array([11.0])
    assert _classical_epsilon(rdp, orders, 1e-5) == pytest.approx(0.1 + np.log(1e5) / 10)
    assert improved_epsilon(rdp, orders, 1e-5) == pytest.approx(0.1 + np.log(10 / 11) + (np.log(1e5) - np.log(11)) / 10)
    assert _improved_delta(rdp, orders, improved_epsilon(rdp, orders, 1e-5)) == pytest.approx(1e-5)


def test_ten_answers_by_randomized_response_at_odds_of_eleven_to_ten():
    one = DominatingPairs([[11 / 21, 10 / 21]], [[10 / 21, 11 / 21]])
    assert AdaptiveComposition(one, 10, largest_epsilon=1.0).epsilon(10, 1e-3) == pytest.approx(0.71, abs=5e-3)


LAPLACE = worst_case_cost(LaplaceNoisyMax(20), Change(ballots=40, classes=2))
RESPONSE = PrivacyCost.of(DominatingPairs([[0.52, 0.48]], [[0.48, 0.52]]))


@given(st.integers(0, 30), st.integers(0, 30))
def test_composition_equals_listing_the_parts(a, b):
    listed = sum([LAPLACE] * a + [RESPONSE] * b, start=PrivacyCost.zero())
    counted = LAPLACE * a + RESPONSE * b
    assert np.allclose(listed.rdp, counted.rdp, rtol=1e-12)
    assert {id(p.pairs): p.count for p in listed.parts} == {id(p.pairs): p.count for p in counted.parts}
    if a + b in (0, 1, 7):
        assert listed.epsilon(1e-5) == pytest.approx(counted.epsilon(1e-5), rel=1e-9)


def test_conversions_are_ordered_and_sound():
    """All are upper bounds on the exact optimum of a binomial. The better ones are smaller."""
    n, delta = 60, 1e-4
    cost = RESPONSE * n
    k = np.arange(n + 1)
    p, q = binom.pmf(k, n, 0.52), binom.pmf(k, n, 0.48)
    found = {conversion: cost.epsilon(delta, conversion) for conversion in Conversion}
    for epsilon in found.values():
        assert np.maximum(p - np.exp(epsilon) * q, 0).sum() <= delta
    assert found[Conversion.EXACT] <= found[Conversion.PLD] * 1.001
    assert found[Conversion.PLD] < found[Conversion.IMPROVED] < found[Conversion.CLASSICAL]
    assert found[Conversion.BEST] == found[Conversion.EXACT]
    assert cost.best(delta) == (found[Conversion.EXACT], Conversion.EXACT)
    tight = found[Conversion.EXACT] * 0.99
    assert np.maximum(p - np.exp(tight) * q, 0).sum() > delta


def test_a_curve_alone_has_no_exact_composition():
    cost = laplace_moments(20.0, 5)
    assert cost.best(1e-5)[1] is Conversion.IMPROVED
    assert (cost + RESPONSE).parts is None
    for conversion in (Conversion.EXACT, Conversion.PLD):
        with pytest.raises(AccountingError, match="finite outcomes"):
            cost.epsilon(1e-5, conversion)


def test_nothing_costs_nothing():
    for conversion in Conversion:
        assert PrivacyCost.zero().epsilon(1e-5, conversion) == 0


def test_pure_privacy_adds_the_largest_losses_up():
    """Laplace noisy-max of one vote is 2 / scale-private. A Renyi curve gives nothing at delta 0."""
    wide = worst_case_cost(LaplaceNoisyMax(2), Change(ballots=60, classes=2))
    assert 0.85 * 7 * 2 / 2 < (wide * 7).epsilon(0) < 7 * 2 / 2
    # Forty teachers never get so far apart that the loss comes near its limit.
    assert (LAPLACE * 7).epsilon(0) < 0.8 * 7 * 2 / 20
    assert (LAPLACE * 7 + RESPONSE).epsilon(0.0) == pytest.approx((LAPLACE * 7).epsilon(0) + np.log(52 / 48), rel=1e-6)
    assert PrivacyCost.zero().epsilon(0) == 0
    with pytest.raises(AccountingError, match="delta=0"):
        laplace_moments(20.0, 5).epsilon(0)
    with pytest.raises(AccountingError, match="delta=0"):
        LAPLACE.epsilon(0, Conversion.IMPROVED)


@pytest.mark.parametrize("delta", [True, 1, -1e-5, float("nan"), "small"])
def test_nonsense_for_a_delta_is_refused(delta):
    with pytest.raises(InvalidParameterError, match="strictly between 0 and 1"):
        LAPLACE.epsilon(delta)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_what_is_not_finite_or_negative_is_refused(bad):
    rdp = np.ones(DEFAULT_ORDERS.size)
    rdp[7] = bad
    with pytest.raises(AccountingError, match="must be finite and not negative"):
        PrivacyCost(rdp=rdp)


def test_a_curve_whose_answers_are_left_out_is_refused():
    for parts in ((), (Part(RESPONSE.parts[0].pairs, 0),), (*RESPONSE.parts, Part(RESPONSE.parts[0].pairs, -1))):
        with pytest.raises(AccountingError, match="parts must have"):
            PrivacyCost(rdp=RESPONSE.rdp, parts=parts)


@pytest.mark.parametrize("orders", [[1.0, 2.0], [np.nan, 2.0], [3.0, 2.0], [0.5, 2.0], [2.0, np.inf]])
def test_orders_must_lie_above_one(orders):
    with pytest.raises(AccountingError, match="above 1"):
        PrivacyCost(rdp=np.ones(2), orders=np.array(orders))


def test_the_largest_count_fits_and_one_more_does_not():
    for conversion in Conversion:
        count = LAPLACE.most(Budget(epsilon=1.0, delta=1e-5), conversion)
        assert (LAPLACE * count).fits(Budget(epsilon=1.0, delta=1e-5), conversion)
        assert not (LAPLACE * (count + 1)).fits(Budget(epsilon=1.0, delta=1e-5), conversion)
    assert LAPLACE.most(Budget(epsilon=1e-3, delta=1e-5)) == 0
    with pytest.raises(AccountingError, match="one answer must cost something"):
        PrivacyCost.zero().most(Budget(epsilon=1.0, delta=1e-5))


def test_without_dp_accounting_the_extra_is_named(monkeypatch):
    original = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(AccountingError, match=r'pip install "dpensemble\[pld\]"\.$'):
        LAPLACE.epsilon(1e-5, Conversion.PLD)


def hockey(epsilon, n, each):
    """Delta of n-fold randomized response, from the binomial law."""
    k = np.arange(n + 1)
    truth = 1 / (1 + np.exp(-each))
    return np.maximum(binom.pmf(k, n, truth) - np.exp(epsilon) * binom.pmf(k, n, 1 - truth), 0).sum()


@given(st.floats(0.01, 1.5), st.integers(1, 60), st.floats(1e-9, 0.2))
def test_optimal_composition_of_equal_parts_is_the_binomial_one(each, n, delta):
    epsilon = optimal_composition([(each, 0.0)] * n, delta)
    assert 0 <= epsilon <= n * each * (1 + 1e-9)
    assert hockey(epsilon, n, each) <= delta * (1 + 1e-6)
    if epsilon > 1e-6:
        assert hockey(epsilon * (1 - 1e-6) - 1e-9, n, each) > delta * (1 - 1e-3)


def test_optimal_composition_of_unequal_parts():
    assert optimal_composition([], 1e-5) == 0
    same = optimal_composition([(0.1, 0.0)] * 50, 1e-6)
    nearly = optimal_composition([(0.1, 0.0)] * 49 + [(0.1000001, 0.0)], 1e-6)
    assert same <= nearly * (1 + 1e-9) <= same * 1.01
    # With deltas: what all parts may reveal is taken off first.
    assert optimal_composition([(0.1, 1e-8)] * 50, 1e-6) > same
    with pytest.raises(AccountingError, match="must exceed the parts' own deltas"):
        optimal_composition([(0.1, 1e-6)] * 50, 1e-6)
    with pytest.raises(InvalidParameterError):
        optimal_composition([(float("nan"), 0.0)], 1e-6)
    assert optimal_composition([(0.1, 0.0)] * 10, 1e-15) == pytest.approx(1.0, rel=1e-3)
    assert optimal_composition([(50.0, 0.0), (60.0, 0.0)], 1e-5) == pytest.approx(110, rel=1e-3)


def test_losses_beyond_the_grid_are_refused_in_one_sentence():
    def response(loss):
        table = np.array([[1.0, np.exp(-loss)]]) / (1 + np.exp(-loss))
        return PrivacyCost.of(DominatingPairs(table, table[:, ::-1]))

    many = response(20.0) * 50 + response(15.0) * 50
    with pytest.raises(AccountingError, match="exact composition needs an epsilon up to"):
        many.epsilon(1e-5, Conversion.EXACT)
    assert many.epsilon(1e-5) < 50 * 20 + 50 * 15 + 1
    # A rare outcome of huge loss: the best conversion that is left, not an error.
    rare = PrivacyCost.of(DominatingPairs([[0.5, 0.5 - 1e-26, 1e-26]], [[0.5, 0.5 - 1e-55, 1e-55]]).both_ways())
    assert rare.best(1e-5)[1] is Conversion.IMPROVED


def test_the_same_question_has_the_same_answer_whatever_was_asked_before():
    cost = worst_case_cost(LaplaceNoisyMax(25), Change(ballots=50, classes=2))
    before = (cost * 40).epsilon(1e-5), cost.most(Budget(epsilon=1.0, delta=1e-5))
    (cost * 3000).epsilon(1e-5)
    (cost * 40).epsilon(1e-200)
    privacy_cost._most.cache_clear()
    assert ((cost * 40).epsilon(1e-5), cost.most(Budget(epsilon=1.0, delta=1e-5))) == before
    assert repr(cost * 40).startswith("PrivacyCost(")
    assert len(repr(cost)) < 120


def test_answers_of_one_epsilon_each_compose_optimally():
    one, budget = PureCost(0.01), Budget(epsilon=1.0, delta=1e-5)
    most = one.most(budget)
    assert most == one.most(budget, limit=10**6) > 10 == one.most(budget, limit=10)
    assert (one * most).epsilon(1e-5) == optimal_composition([(0.01, 0.0)] * most, 1e-5) <= 1.0
    assert not (one * (most + 1)).fits(budget)
    assert (one * 0).epsilon(1e-5) == 0.0
    assert one.renyi is None
    assert one.parts is None
    with pytest.raises(TypeError):
        one + one
    for count in (-1, 1.5, None):
        with pytest.raises(InvalidParameterError):
            one * count


@pytest.mark.parametrize(("each", "count"), [(1.0, -5), (float("nan"), 5), (-0.1, 5), (1.0, 2.5)])
def test_impossible_pure_costs_are_refused(each, count):
    with pytest.raises(InvalidParameterError):
        PureCost(each, count)
