"""The price of a sparse noisy maximum, against every pair of neighbours of tiny worlds."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dpensemble.accounting import sparse_cost
from dpensemble.audit import exact_epsilon
from dpensemble.budget import Budget
from dpensemble.cost import PrivacyCost
from dpensemble.errors import AccountingError, InvalidParameterError
from dpensemble.laws import SparseNoisyMax
from dpensemble.laws.sampling import whole_weights

CLASSES = 4


def sampled(law, counts):
    """Return the exact law that is drawn from, over all classes and no answer."""
    named = np.flatnonzero(counts)
    row = np.zeros(len(counts) + 1)
    row[[*named, len(counts)]] = whole_weights(law.mixed_probabilities(np.array(counts)[named])[None])[0] / 2.0**63
    return row


def neighbours(voters):
    for counts in product(range(voters + 1), repeat=CLASSES):
        if sum(counts) == voters:
            for a, b in product(range(CLASSES), repeat=2):
                if a != b and counts[a]:
                    moved = np.array(counts)
                    moved[a] -= 1
                    moved[b] += 1
                    yield counts, tuple(moved)


@pytest.mark.parametrize(
    ("sigma", "threshold", "delta", "voters"), [(1.0, 2.5, 0.1, 3), (1.0, 4.0, 2e-3, 3), (0.5, 3.0, 1e-3, 1)]
)
def test_no_neighbours_reveal_more_than_is_charged(sigma, threshold, delta, voters):
    law = SparseNoisyMax(sigma, threshold)
    cost = sparse_cost(law, voters)
    pairs = [(sampled(law, here), sampled(law, there)) for here, there in neighbours(voters)]
    p, q = (np.array(side) for side in zip(*pairs, strict=True))
    worst = float(exact_epsilon(p, q, delta).max())
    assert worst <= cost.epsilon(delta) < np.inf
    # A class of one vote shows itself: without its share of delta the promise would be false.
    assert cost.lost > 1e-5
    assert float(exact_epsilon(p, q, cost.lost / 10).max()) > 3
    # Two answers on the same neighbours, for the first and the worst of them.
    place = int(np.argmax(exact_epsilon(p, q, delta)))
    for at in (0, place):
        joint = [np.multiply.outer(side[at], side[at]).ravel() for side in (p, q)]
        assert float(exact_epsilon(*joint, delta=2 * delta)) <= (cost * 2).epsilon(2 * delta)


def test_a_threshold_that_is_too_low_leaves_no_delta():
    cost = sparse_cost(SparseNoisyMax(20.0, 60.0), 100)
    assert cost.epsilon(1e-5) == np.inf
    assert cost.most(Budget(epsilon=1, delta=1e-5)) == 0
    assert not cost.fits(Budget(epsilon=10, delta=1e-5))


def test_what_fits_is_what_the_epsilon_says():
    cost, budget = sparse_cost(SparseNoisyMax(20.0, 114.0), 100), Budget(epsilon=0.5, delta=1e-5)
    most = cost.most(budget)
    assert most >= 4
    assert (cost * most).epsilon(budget.delta) <= budget.epsilon < (cost * (most + 1)).epsilon(budget.delta)
    assert (cost * 0).epsilon(1e-5) == 0


def test_costs_of_different_laws_add_up():
    one, other = sparse_cost(SparseNoisyMax(20.0, 114.0), 100), sparse_cost(SparseNoisyMax(25.0, 140.0), 50)
    both = one + other
    assert both.epsilon(1e-5) > max(one.epsilon(1e-5), other.epsilon(1e-5))
    assert (one + one).epsilon(1e-5) == pytest.approx((one * 2).epsilon(1e-5), rel=1e-12)
    assert both.renyi is None
    with pytest.raises(TypeError):
        one + PrivacyCost.zero()


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e-9])
def test_no_accident_makes_an_answer_free(value):
    for name in ("eta", "lost", "rounding"):
        with pytest.raises(AccountingError, match="every number of a privacy cost must be finite and not negative"):
            replace(sparse_cost(SparseNoisyMax(20.0, 114.0), 100), **{name: value})


@pytest.mark.parametrize("voters", [0, 9001, 2.0])
def test_bad_numbers_of_voters_are_refused(voters):
    with pytest.raises(InvalidParameterError, match="n_voters"):
        sparse_cost(SparseNoisyMax(2.0, 20.0), voters)


def test_answers_that_only_take_from_delta_are_not_free():
    from dpensemble.accounting.price import SparseCost

    cost = SparseCost(PrivacyCost.zero(), eta=0.1, lost=0.5, rounding=0.0)
    assert cost.epsilon(1e-5) == np.inf
    assert not cost.fits(Budget(epsilon=1.0, delta=1e-5))
    assert (cost * 0).epsilon(1e-5) == 0.0
