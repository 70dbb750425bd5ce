"""Several votes of three and more classes against all histograms and all moves, and against random moves of reals."""

import numpy as np
import pytest

from dpensemble.accounting import Change, price
from dpensemble.accounting.worst_case import _listed_cost, _several_votes_rdp
from dpensemble.budget import Budget
from dpensemble.cost import DEFAULT_ORDERS, DominatingPairs
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax

ORDERS = DEFAULT_ORDERS[[0, 1, 3, 8, 18, 38]]


@pytest.mark.parametrize(
    ("law", "n_classes", "votes", "n_teachers"),
    [
        (LaplaceNoisyMax(6.0), 3, 2, 30),
        (LaplaceNoisyMax(9.0), 4, 3, 16),
        (GaussianNoisyMax(5.0), 3, 2, 24),
        (GaussianNoisyMax(8.0), 3, 3, 24),
    ],
)
def test_no_move_of_any_histogram_costs_more(law, n_classes, votes, n_teachers):
    change = Change(ballots=n_teachers, classes=n_classes, votes=votes)
    listed, priced = _listed_cost(law, change).rdp, price(law, change).label.rdp
    places = np.searchsorted(DEFAULT_ORDERS, ORDERS)
    # The listed ones are rounded up for the sampler's error.
    assert np.all(listed[places] <= priced[places] * (1 + 1e-6))
    # The price is for all reals, of which so few votes reach only some.
    assert np.all(priced[places][:3] <= 1.5 * listed[places][:3])


def test_moves_to_several_classes_are_no_worse_than_one():
    """Five real counts, moves of any shape with a given sum, by quadrature over the largest noisy count."""
    shift, rng = 0.5, np.random.default_rng(0)
    x = np.linspace(-30, 40, 14_001)

    def wins(counts):
        z = x[:, None] - counts
        density = np.exp(-np.abs(z)) / 2
        below = np.where(z < 0, density, 1 - density)
        others = [np.prod(np.delete(below, o, axis=1), axis=1) for o in range(len(counts))]
        return np.array([np.trapezoid(density[:, o] * others[o], x) for o in range(len(counts))])

    bound = _several_votes_rdp("laplace", shift, 5, 1e-9)[np.searchsorted(DEFAULT_ORDERS, ORDERS)]
    most = np.zeros(len(ORDERS))
    for _ in range(40):
        counts, away = rng.normal(size=5), rng.normal(size=5)
        away -= away.mean()
        p, q = wins(counts), wins(counts + 2 * shift * away / np.abs(away).sum())
        pairs = DominatingPairs([p / p.sum()], [q / q.sum()])
        most = np.maximum(most, pairs.renyi(ORDERS))
    assert np.all(most <= bound)
    assert np.all(most >= 0.2 * bound)


def test_more_classes_than_two_buy_more_labels_with_several_partitions():
    change = Change(ballots=500, classes=3, votes=2)
    one = price(LaplaceNoisyMax(125.0), change).label
    # Charged by pure privacy alone the same budget buys 72.
    assert one.most(Budget(epsilon=1.0, delta=1e-5)) == 182
    assert one.parts is not None
    assert price(LaplaceNoisyMax(0.1), change).label.rdp[0] <= 40.0 * (1 + 1e-8)
