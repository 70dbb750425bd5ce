from itertools import pairwise

import numpy as np
import pytest

from dpensemble.accounting import Change, fresh_cost, price
from dpensemble.budget import Budget
from dpensemble.errors import AccountingError, InvalidParameterError
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, LaplaceNoisyMax
from dpensemble.relations import Relation

LAW = LaplaceNoisyMax(3.0)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_rate_of_one_is_fixed_sampling(classes):
    change = Change(ballots=10, classes=classes)
    fixed, fresh = price(LAW, change).label, fresh_cost(LAW, change, 1.0, Relation.ADD_OR_REMOVE_ONE)
    assert np.allclose(fixed.rdp, fresh.rdp, rtol=1e-12)


def test_a_smaller_rate_costs_less_and_replacing_no_less_than_adding():
    for classes in (2, 5):
        change = Change(ballots=10, classes=classes)
        costs = [fresh_cost(LAW, change, rate, Relation.ADD_OR_REMOVE_ONE).rdp for rate in (0.01, 0.1, 0.5, 1.0)]
        assert all(np.all(low < high) for low, high in pairwise(costs))
        replaced = fresh_cost(LAW, change, 0.1, Relation.REPLACE_ONE).rdp
        assert np.all(replaced >= costs[1] * (1 - 1e-9))


def test_one_answer_has_exactly_the_amplified_curve():
    change, rate, epsilon = Change(ballots=10, classes=2), 0.02, 0.3
    fixed = price(LAW, change).label.parts[0].pairs
    for relation in Relation:
        fresh = fresh_cost(LAW, change, rate, relation).parts[0].pairs
        # Balle, Barthe and Gaboardi 2018, Theorem 2, where it is tight.
        assert fresh.hockey_stick(np.log1p(rate * np.expm1(epsilon))) == pytest.approx(
            rate * fixed.hockey_stick(epsilon)
        )


def test_ten_voters_have_ten_thousand_answers_in_place_of_six():
    budget, change = Budget(epsilon=3, delta=1e-5), Change(ballots=10, classes=2)
    assert price(LAW, change).label.most(budget) == 6
    fresh = fresh_cost(LAW, change, 0.02, Relation.ADD_OR_REMOVE_ONE)
    assert (fresh * 10_000).fits(budget)


@pytest.mark.parametrize(
    ("law", "change", "match"),
    [
        (ConfidentNoisyMax(8, 4, 4), Change(ballots=10, classes=2), "gate"),
        (GaussianNoisyMax(2.0), Change(ballots=10, classes=4, votes=2), "finite outcomes"),
    ],
)
def test_laws_that_cannot_be_sampled_freshly_are_refused(law, change, match):
    with pytest.raises(AccountingError, match=match):
        fresh_cost(law, change, 0.1, Relation.REPLACE_ONE)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, np.nan, "0.1", True])
def test_bad_rates_are_refused(rate):
    with pytest.raises(InvalidParameterError, match="rate="):
        fresh_cost(LAW, Change(ballots=10, classes=2), rate, Relation.REPLACE_ONE)
