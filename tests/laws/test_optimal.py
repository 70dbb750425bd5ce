"""The optimal vote: its definition, its accuracy, and its price against enumeration."""

from itertools import permutations, product

import mpmath
import numpy as np
import pytest

from dpensemble.accounting import Change
from dpensemble.accounting.worst_case import sorted_histograms, worst_case_cost
from dpensemble.errors import AccountingError
from dpensemble.laws import OptimalVote, integer_weights, mixed_probabilities


def test_half_is_the_squared_sine_and_certainty_comes_at_the_reach():
    margins = np.arange(-12, 13)
    counts = np.stack([(20 - margins) / 2, (20 + margins) / 2], axis=1)
    second = OptimalVote(10.0, 0.5).probabilities(counts)[:, 1]
    expected = np.sin(np.pi / 4 * (1 + np.clip(margins / 10, -1, 1))) ** 2
    assert np.allclose(second, expected, atol=1e-15)
    for shape in (0.1, 0.3, 0.5):
        found = OptimalVote(10.0, shape).probabilities(counts)[:, 1]
        assert np.array_equal(found[margins <= -10], np.zeros(3))
        assert np.array_equal(found[margins >= 10], np.ones(3))
        assert np.all(np.diff(found[2:-2]) > 0)


@pytest.mark.parametrize("shape", [0.1, 0.3, 0.4, 0.5])
def test_probabilities_are_as_accurate_as_a_law_must_be(shape):
    """Undo the quantile in 40 digits: the distribution at the answer is where it was asked."""
    with mpmath.workdps(40):
        for margin in np.random.default_rng(0).uniform(0, 10, 40):
            counts = np.array([[10 + margin, 10.0]])
            trailing = float(OptimalVote(10.0, shape).probabilities(counts)[0, 1])
            place = mpmath.mpf(1) / 2 - (mpmath.mpf(counts[0, 0]) - 10) / 20
            found = mpmath.betainc(shape, shape, 0, trailing, regularized=True)
            density = (mpmath.mpf(trailing) * (1 - mpmath.mpf(trailing))) ** (shape - 1) / mpmath.beta(shape, shape)
            assert abs((found - place) / density) < 1e-14


def test_classes_are_alike_and_absent_ones_change_nothing_far_behind():
    law = OptimalVote(6.0, 0.4)
    counts = np.array([[9, 7, 4, 1]])
    p = law.probabilities(counts)[0]
    for order in permutations(range(4)):
        assert np.allclose(law.probabilities(counts[:, order])[0], p[list(order)], atol=1e-15)
    # A class beyond the reach of the others takes no part.
    assert np.allclose(law.probabilities(np.array([[9, 7, 1]]))[0, :2], law.probabilities(np.array([[9, 7]])))


def test_a_tournament_is_repeated_until_one_class_wins_all():
    law, counts = OptimalVote(10.0, 0.3), np.array([[7, 5, 4]])
    beats = {(a, b): law.probabilities(counts[:, [a, b]])[0, 0] for a, b in permutations(range(3), 2)}
    wins = np.zeros(3)
    # All outcomes of the three matches.
    for winners in product((0, 1), (0, 2), (1, 2)):
        chance = np.prod([beats[w, a + b - w] for w, (a, b) in zip(winners, ((0, 1), (0, 2), (1, 2)), strict=True)])
        for one in range(3):
            if winners.count(one) == 2:
                wins[one] += chance
    assert np.allclose(law.probabilities(counts)[0], wins / wins.sum())


def neighbours(n_teachers, n_classes, votes, weight=1):
    ballots = [np.bincount(b, minlength=n_classes) for b in product(range(n_classes), repeat=n_teachers)]
    rows = np.unique(ballots, axis=0)
    return [
        (a, b)
        for a in rows
        for b in rows
        if 0 < np.abs(a - b).sum() <= 2 * votes * weight and not np.any((a - b) % weight)
    ]


@pytest.mark.parametrize(
    ("n_teachers", "n_classes", "votes", "weight"),
    [
        (5, 2, 1, 1),
        (6, 2, 3, 1),
        (4, 3, 1, 1),
        (5, 3, 2, 1),
        (3, 4, 1, 1),
        (4, 4, 2, 1),
        (6, 3, 1, 2),
        (6, 3, 2, 2),
    ],
)
@pytest.mark.parametrize("law", [OptimalVote(3.0, 0.3), OptimalVote(12.0, 0.5)], ids=repr)
def test_the_price_is_that_of_the_worst_neighbours(law, n_teachers, n_classes, votes, weight):
    """Every pair of histograms, on the sampled integers, at many orders."""
    cost = worst_case_cost(law, Change(ballots=n_teachers, classes=n_classes, votes=votes, weight=weight))
    pairs = neighbours(n_teachers, n_classes, votes, weight)
    p, q = (integer_weights(law, np.array(side)) / 2.0**63 for side in zip(*pairs, strict=True))
    for order in (2, 3, 8, 32, 128):
        at = int(np.searchsorted(cost.orders, order))
        losses = (order - 1) * np.log(p / q) + np.log(p)
        top = losses.max(axis=1)
        true = ((np.log(np.exp(losses - top[:, None]).sum(axis=1)) + top) / (order - 1)).max()
        assert true <= cost.rdp[at] * (1 + 1e-9) + 1e-13
        assert cost.rdp[at] <= true * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize(("n_teachers", "n_classes"), [(4, 2), (3, 3)])
def test_two_and_three_answers_compose_as_enumerated(n_teachers, n_classes):
    """Every adaptive strategy of two answers, by its definition."""
    law = OptimalVote(20.0, 0.4)
    one = worst_case_cost(law, Change(ballots=n_teachers, classes=n_classes))
    pairs = neighbours(n_teachers, n_classes, 1)
    p, q = (mixed_probabilities(law, np.array(side)) for side in zip(*pairs, strict=True))
    for delta in (0.02, 0.1):
        epsilon = (one * 2).epsilon(delta, "exact adaptive composition")
        ratios = (p / q).ravel()
        # After a first answer of each likelihood ratio, the worst second query.
        after = np.array([np.maximum(r * p - np.exp(epsilon) * q, 0).sum(axis=1).max() for r in ratios])
        true = (q * after.reshape(q.shape)).sum(axis=1).max()
        assert true <= delta
        assert true > 0.9 * delta


def test_what_cannot_be_listed_is_refused():
    with pytest.raises(AccountingError, match="n_classes=10 and 250 teachers: use law='gnmax'"):
        worst_case_cost(OptimalVote(100.0), Change(ballots=250, classes=10))


@pytest.mark.parametrize(("total", "n_classes"), [(1, 2), (5, 3), (7, 4), (6, 6)])
def test_histograms_are_listed_once_each(total, n_classes):
    expected = {
        tuple(sorted(row, reverse=True)) for row in product(range(total + 1), repeat=n_classes) if sum(row) == total
    }
    found = sorted_histograms(total, n_classes)
    assert {tuple(row) for row in found.tolist()} == expected
    assert len(found) == len(expected)
