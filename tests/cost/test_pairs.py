"""Dominating pairs: divergences, hulls and inflation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.cost import DominatingPairs
from dpensemble.errors import AccountingError

masses = st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3)


def table(rows):
    rows = np.array(rows)
    return rows / rows.sum(axis=1, keepdims=True)


@given(st.lists(st.tuples(masses, masses), min_size=1, max_size=4))
def test_divergences_are_their_definitions(rows):
    p, q = (table([row[i] for row in rows]) for i in (0, 1))
    pairs = DominatingPairs(p, q)
    for order in (1.3, 2.0, 7.0, 60.0):
        direct = np.log((p**order * q ** (1 - order)).sum(axis=1)) / (order - 1)
        assert pairs.renyi([order])[0] == pytest.approx(max(direct.max(), 0), rel=1e-8, abs=1e-13)
        assert np.allclose(pairs.renyi_of_each([order])[:, 0], direct, rtol=1e-8, atol=1e-13)
    assert pairs.hockey_stick(0.3) == pytest.approx(np.maximum(p - np.exp(0.3) * q, 0).sum(axis=1).max())


@given(st.lists(st.tuples(masses, masses), min_size=1, max_size=5), st.sampled_from([None, 2, 3]))
def test_a_single_pair_dominates_the_set(rows, n_outcomes):
    pairs = DominatingPairs(*(table([row[i] for row in rows]) for i in (0, 1)))
    single = pairs.single(n_outcomes)
    assert len(single) == 1
    assert n_outcomes is None or single.p.shape[1] <= n_outcomes
    for epsilon in (-1.0, -0.2, 0.0, 0.1, 0.5, 2.0):
        assert single.hockey_stick(epsilon) >= pairs.hockey_stick(epsilon) - 1e-14
    orders = [1.5, 4.0, 30.0]
    assert np.all(single.renyi(orders) >= pairs.renyi(orders) * (1 - 1e-9) - 1e-13)
    if len(rows) == 1 and n_outcomes is None:
        assert single.hockey_stick(0.1) == pytest.approx(pairs.hockey_stick(0.1), abs=1e-12)


@given(masses, masses, st.lists(st.floats(-1, 1), min_size=4, max_size=4))
def test_inflation_covers_every_law_within_the_error(p, q, shifts):
    p, q = table([p]), table([q])
    error = 1e-4
    moved_p = p + error * np.array([shifts[0], shifts[1], -shifts[0] - shifts[1]]) / 2
    moved_q = q + error * np.array([shifts[2], shifts[3], -shifts[2] - shifts[3]]) / 2
    inflated = DominatingPairs(p, q).inflated(error)
    for epsilon in (-0.5, 0.0, 0.2, 1.0):
        assert inflated.hockey_stick(epsilon) >= DominatingPairs(moved_p, moved_q).hockey_stick(epsilon) - 1e-14


def test_tiny_divergences_keep_their_digits():
    """Second order in the difference: 1e-9 squared must not drown in rounding."""
    step = 1e-7
    pairs = DominatingPairs([[0.5 + step, 0.5 - step]], [[0.5, 0.5]])
    assert pairs.renyi([2.0])[0] == pytest.approx(4 * step**2, rel=0.05)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([[0.5, 0.6]], [[0.5, 0.5]]),
        ([[np.nan, 0.5]], [[0.5, 0.5]]),
        ([[1.5, -0.5]], [[0.5, 0.5]]),
        ([[0.5, 0.5]], [[1.0, 0.0]]),
        ([0.5, 0.5], [0.5, 0.5]),
        ([[]], [[]]),
    ],
)
def test_what_is_no_pair_of_laws_is_refused(p, q):
    with pytest.raises(AccountingError):
        DominatingPairs(p, q)


def test_a_set_is_filled_up_and_turned_round():
    two, three = (
        DominatingPairs([[0.6, 0.4]], [[0.5, 0.5]]),
        DominatingPairs([[0.2, 0.3, 0.5]], [[0.3, 0.3, 0.4]]),
    )
    both = DominatingPairs.union([two, three])
    assert both.p.shape == (2, 3)
    assert both.hockey_stick(0.0) == max(two.hockey_stick(0.0), three.hockey_stick(0.0))
    reverse = both.both_ways().renyi([5.0])
    assert reverse >= DominatingPairs(both.q, both.p).renyi([5.0])


def test_domination_of_randomized_response():
    truth = 1 / (1 + np.exp(-0.3))
    pairs = DominatingPairs([[truth, 1 - truth]], [[1 - truth, truth]])
    assert pairs.dominate_randomized_response(0.299)
    assert not pairs.dominate_randomized_response(0.301)


def test_an_outcome_that_only_one_law_can_produce_is_refused_whichever_it_is():
    for p, q in (([[1.0, 0.0]], [[0.5, 0.5]]), ([[0.5, 0.5]], [[1.0, 0.0]])):
        with pytest.raises(AccountingError, match="possible under both p and q"):
            DominatingPairs(p, q)
