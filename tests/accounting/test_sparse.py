"""The price of a sparse noisy maximum, against every pair of neighbours of tiny worlds."""

from itertools import product

import numpy as np
import pytest

from dpensemble.accounting import SparseCost
from dpensemble.audit import exact_epsilon
from dpensemble.budget import Budget
from dpensemble.errors import InvalidParameterError
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
    cost = SparseCost(law, voters)
    pairs = [(sampled(law, here), sampled(law, there)) for here, there in neighbours(voters)]
    p, q = (np.array(side) for side in zip(*pairs, strict=True))
    worst = float(exact_epsilon(p, q, delta).max())
    assert worst <= cost.epsilon(1, delta) < np.inf
    # A class of one vote shows itself: without its share of delta the promise would be false.
    assert cost.lost_each > 1e-5
    assert float(exact_epsilon(p, q, cost.lost_each / 10).max()) > 3
    # Two answers on the same neighbours, for the first and the worst of them.
    place = int(np.argmax(exact_epsilon(p, q, delta)))
    for at in (0, place):
        joint = [np.multiply.outer(side[at], side[at]).ravel() for side in (p, q)]
        assert float(exact_epsilon(*joint, delta=2 * delta)) <= cost.epsilon(2, 2 * delta)


def test_a_threshold_that_is_too_low_leaves_no_delta():
    cost = SparseCost(SparseNoisyMax(20.0, 60.0), 100)
    assert cost.epsilon(1, 1e-5) == np.inf
    assert cost.most(Budget(epsilon=1, delta=1e-5)) == 0
    assert not cost.fits(1, Budget(epsilon=10, delta=1e-5))


def test_what_fits_is_what_the_epsilon_says():
    cost, budget = SparseCost(SparseNoisyMax(20.0, 114.0), 100), Budget(epsilon=0.5, delta=1e-5)
    most = cost.most(budget)
    assert most >= 4
    assert cost.epsilon(most, budget.delta) <= budget.epsilon < cost.epsilon(most + 1, budget.delta)
    assert cost.epsilon(0, 1e-5) == 0


@pytest.mark.parametrize("voters", [0, 9001, 2.0])
def test_bad_numbers_of_voters_are_refused(voters):
    with pytest.raises(InvalidParameterError, match="n_voters"):
        SparseCost(SparseNoisyMax(2.0, 20.0), voters)
