"""Exact adaptive composition against enumeration of every adaptive strategy."""

from functools import cache
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.accounting import Change
from dpensemble.accounting.worst_case import _table_pairs
from dpensemble.cost import DominatingPairs
from dpensemble.cost.composition import AdaptiveComposition, ProductComposition
from dpensemble.cost.merging import grouped
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, LaplaceNoisyMax, TableLaw

LAWS = {
    "laplace": (LaplaceNoisyMax(2.0), 3),
    "gaussian": (GaussianNoisyMax(1.5), 4),
    "confident": (ConfidentNoisyMax(2.5, 2.0, 1.5), 3),
    "table": (TableLaw(((0.9, 0.1), (0.3, 0.7), (0.6, 0.4), (0.2, 0.8))), 3),
}
every = pytest.mark.parametrize(("law", "n_teachers"), LAWS.values(), ids=LAWS)


def adaptive_delta(pairs, n_answers, epsilon):
    """The supremum over all strategies that pick each pair from everything seen before, without any grid."""

    @cache
    def best(p, q, left):
        if left == 0:
            return max(p - np.exp(epsilon) * q, 0.0)
        return max(
            sum(best(p * a, q * b, left - 1) for a, b in zip(one, other, strict=True) if a or b)
            for one, other in zip(pairs.p.tolist(), pairs.q.tolist(), strict=True)
        )

    return best(1.0, 1.0, n_answers)


@every
@pytest.mark.parametrize("n_answers", [1, 2, 3])
def test_never_below_every_listed_strategy(law, n_answers, n_teachers):
    """Write every strategy out: a choice of pair for each history of outcomes."""
    pairs = _table_pairs(law, Change(ballots=n_teachers, classes=2))
    n_outcomes = pairs.p.shape[1]
    if n_answers == 3:
        # As many pairs as there is time to list strategies for.
        pairs = pairs.rows(0, 4 if n_outcomes == 2 else 2)
    bound = AdaptiveComposition(pairs, n_answers, largest_epsilon=3.0)
    histories = [h for length in range(n_answers) for h in product(range(n_outcomes), repeat=length)]
    worst = dict.fromkeys((0.0, 0.5, 1.5), 0.0)
    for strategy in product(range(len(pairs)), repeat=len(histories)):
        choice = dict(zip(histories, strategy, strict=True))
        p = q = np.ones(1)
        seen = [()]
        for _ in range(n_answers):
            p = np.concatenate([a * pairs.p[choice[h]] for a, h in zip(p, seen, strict=True)])
            q = np.concatenate([a * pairs.q[choice[h]] for a, h in zip(q, seen, strict=True)])
            seen = [(*h, o) for h in seen for o in range(n_outcomes)]
        for epsilon in worst:
            worst[epsilon] = max(worst[epsilon], np.maximum(p - np.exp(epsilon) * q, 0).sum())
    for epsilon, delta in worst.items():
        assert adaptive_delta(pairs, n_answers, epsilon) == pytest.approx(delta, abs=1e-13)
        assert delta <= bound.delta(n_answers, epsilon) <= 1.05 * delta + 1e-3


@every
def test_up_to_six_answers_against_the_recursion_without_a_grid(law, n_teachers):
    pairs = _table_pairs(law, Change(ballots=n_teachers, classes=2))
    if pairs.p.shape[1] > 2:
        pairs = DominatingPairs(pairs.p[:3], pairs.q[:3])
    bound = AdaptiveComposition(pairs, 6, largest_epsilon=4.0)
    for n_answers, epsilon in product((4, 6), (0.3, 1.0, 2.0)):
        exact = adaptive_delta(pairs, n_answers, epsilon)
        assert exact <= bound.delta(n_answers, epsilon) <= 1.03 * exact + 1e-3


def test_no_further_from_all_ties_than_a_few_labels():
    """SAA at 250 teachers: what all ties cost is a limit that no sound bound can pass."""
    law = LaplaceNoisyMax(125)
    bound = AdaptiveComposition(_table_pairs(law, Change(ballots=250, classes=2)), 1200, largest_epsilon=1.1)
    assert bound.delta(1090, 1.0) <= 1e-5
    p, q = (mpmath.mpf(float(law.probabilities(np.array([row]))[0, 0])) for row in ([125, 125], [124, 126]))
    p, q = 1 - p, 1 - q

    def all_ties(n):
        tail = (
            mpmath.binomial(n, k) * (p**k * (1 - p) ** (n - k) - mpmath.e * q**k * (1 - q) ** (n - k))
            for k in range(n + 1)
        )
        return max(sum(max(term, 0) for term in tail), 0)

    assert all_ties(1124) < 1e-5 < all_ties(1126)
    assert bound.delta(1106, 1.0) >= all_ties(1106) * (1 - 1e-9)
    assert bound.delta(1126, 1.0) > 1e-5
    # Multiplications: a few seconds of one core.
    assert bound.layout.work(1200) < 1e10


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0.02, 0.98), st.floats(0.02, 0.98)), min_size=1, max_size=5), st.integers(1, 4))
def test_bounds_hold_for_any_pairs(rows, n_answers):
    p, q = (np.array([[row[i], 1 - row[i]] for row in rows]) for i in (0, 1))
    pairs = DominatingPairs(p, q)
    if np.abs(pairs.losses()).max() < 1e-3:
        return
    bound = AdaptiveComposition(pairs, n_answers, largest_epsilon=5.0)
    for epsilon in (0.0, 0.4, 2.0):
        assert bound.delta(n_answers, epsilon) >= adaptive_delta(pairs, n_answers, epsilon) - 1e-12
    # Fewer answers cost no more, larger epsilons need no more delta.
    deltas = [bound.delta(n, 0.4) for n in range(n_answers + 1)]
    assert deltas == sorted(deltas)
    assert bound.delta(n_answers, 2.0) <= bound.delta(n_answers, 0.4) + 1e-290


@every
def test_groups_dominate_their_members(law, n_teachers):
    pairs = _table_pairs(law, Change(ballots=n_teachers, classes=2))
    for tolerance in (0.001, 0.1, 10.0):
        groups = grouped(pairs, tolerance, 3)
        assert len(groups) <= len(pairs)
        for epsilon in (0.0, 0.1, 0.5, 1.0):
            assert groups.hockey_stick(epsilon) >= pairs.hockey_stick(epsilon) - 1e-14


def test_several_kinds_cost_at_least_their_exact_product():
    one = DominatingPairs([[0.6, 0.4]], [[0.4, 0.6]])
    other = DominatingPairs([[0.55, 0.45], [0.5, 0.5]], [[0.45, 0.55], [0.52, 0.48]]).both_ways()
    bound = ProductComposition([(one, 2), (other, 1)], largest_epsilon=2.0)
    for epsilon in (0.1, 0.5, 1.0):
        p, q = np.ones(1), np.ones(1)
        for pairs in (one, one, other):
            p, q = np.outer(p, pairs.p[0]).ravel(), np.outer(q, pairs.q[0]).ravel()
        exact = np.maximum(p - np.exp(epsilon) * q, 0).sum()
        assert exact <= bound.delta(epsilon) <= 1.1 * exact + 5e-3
        assert bound.epsilon(bound.delta(epsilon)) <= epsilon * (1 + 1e-6) + 1e-9
