"""Exact adaptive composition against every strategy, blocks in exact fractions, and figures that may not fall."""

import copy
import math
import pickle
from fractions import Fraction
from functools import cache
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.accounting import Change, price
from dpensemble.accounting.worst_case import _table_pairs
from dpensemble.cost import DominatingPairs, composition
from dpensemble.cost.composition import (
    AdaptiveComposition,
    Layout,
    ProductComposition,
    Recursion,
    _Kernel,
    _layout_number,
    _layout_size,
    _stretches,
)
from dpensemble.guarantee import Budget
from dpensemble.laws import ConfidentNoisyMax, ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax, TableLaw

from ..tiny_votes import strongest_delta

LAWS = {
    "laplace": (LaplaceNoisyMax(2.0), 3),
    "gaussian": (GaussianNoisyMax(1.5), 4),
    "confident": (ConfidentNoisyMax(2.5, 2.0, 1.5), 3),
    "table": (TableLaw(((0.9, 0.1), (0.3, 0.7), (0.6, 0.4), (0.2, 0.8))), 3),
}
every = pytest.mark.parametrize(("law", "n_teachers"), LAWS.values(), ids=LAWS)
coins = st.lists(st.tuples(st.floats(0.05, 0.95), st.floats(0.05, 0.95)), min_size=1, max_size=3)


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
        groups = pairs.few_in_order(tolerance, 3)
        assert len(groups) <= len(pairs)
        for epsilon in (0.0, 0.1, 0.5, 1.0):
            assert groups.hockey_stick(epsilon) >= pairs.hockey_stick(epsilon) - 1e-14


@settings(max_examples=15, deadline=None)
@given(coins, st.integers(40, 80), st.integers(3, 12))
def test_groups_that_are_left_out_are_never_the_largest(rows, n_answers, n_steps):
    pairs = DominatingPairs(*(np.array([[row[i], 1 - row[i]] for row in rows]) for i in (0, 1))).both_ways()
    if np.abs(pairs.losses()).max() < 1e-3:
        return
    curves = []
    for many in (1, 2**62):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(composition, "_MANY_WEIGHTS", many)
            curves.append(Recursion(Layout(pairs, n_steps), n_answers).curve(n_answers))
    some, all_ = curves
    assert some.below == all_.below
    np.testing.assert_allclose(some.excess, all_.excess, rtol=1e-12, atol=1e-99)


def test_most_groups_are_evaluated_at_few_nodes():
    chances = np.linspace(0.2, 0.5, 60)
    q = np.stack([chances, 1 - chances], axis=1)
    p = np.stack([chances + 0.1 * chances * (1 - chances), 1 - chances - 0.1 * chances * (1 - chances)], axis=1)
    pairs, seen = DominatingPairs(p, q).both_ways(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "_MANY_WEIGHTS", 1)
        patch.setattr(composition, "_stretches", lambda *nodes: seen.append(_stretches(*nodes)) or seen[-1])
        screened = Recursion(Layout(pairs, 12), 200).curve(200)
    assert any(not everything for stretches in seen for _, _, everything in stretches)
    every_group = Recursion(Layout(pairs, 12), 200).curve(200)
    np.testing.assert_allclose(screened.excess, every_group.excess, rtol=1e-12, atol=1e-99)


@given(st.integers(0, 300), st.integers(0, 900), st.integers(0, 900), st.integers(1, 150), st.integers(8, 1200))
def test_stretches_hold_every_node_and_all_groups_at_the_ends_and_around_0(low, high, centre, around, last):
    stretches = _stretches(low, high, centre, around, last)
    if not stretches:
        return
    assert stretches[0][0] == 0
    assert stretches[-1][1] >= last
    assert all(one[1] == other[0] for one, other in pairwise(stretches))
    for first, end, everything in stretches:
        if not everything:
            assert low <= first
            assert end <= high
            assert end <= centre - around or first >= centre + around


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


@settings(max_examples=30, deadline=None)
@given(coins, st.integers(1, 2), st.integers(1, 2), st.integers(3, 12))
def test_composed_blocks_are_never_below_the_supremum(rows, one, other, n_steps):
    pairs = DominatingPairs(*(np.array([[row[i], 1 - row[i]] for row in rows]) for i in (0, 1)))
    if np.abs(pairs.losses()).max() < 1e-3:
        return
    recursion = Recursion(Layout(pairs, n_steps), one + other)
    first, second = recursion.curve(one), recursion.curve(other)
    joined = first.then(_Kernel.of(second))
    in_fractions = [
        [list(map(Fraction, law)) for law in pair] for pair in zip(pairs.p.tolist(), pairs.q.tolist(), strict=True)
    ]
    for exp_epsilon in (Fraction(1), Fraction(5, 4), Fraction(3)):
        epsilon = math.log(exp_epsilon)
        truth = float(strongest_delta(in_fractions, one + other, exp_epsilon))
        for found in (joined.delta(epsilon), first.delta_with(_Kernel.of(second), epsilon)):
            assert truth * (1 - 1e-12) <= found
        assert first.delta_with(_Kernel.of(second), epsilon) == pytest.approx(joined.delta(epsilon), rel=1e-9)
        coarse = first.coarser().then(_Kernel.of(second.coarser()))
        assert coarse.delta(epsilon) >= joined.delta(epsilon) * (1 - 1e-12)
        assert joined.thinned().delta(epsilon) >= joined.delta(epsilon) * (1 - 1e-12)


def test_blocks_lose_little_against_following_every_answer():
    """Two classes, 250 teachers: answers one by one, and as blocks of 64."""
    pairs = price(LaplaceNoisyMax(125), Change(ballots=250, classes=2)).label.parts[0].pairs
    whole = AdaptiveComposition(pairs, 300, 0.5)
    assert whole.largest(0.45, 1e-5) == 261
    blocks = AdaptiveComposition(pairs, 300, 0.5)
    blocks._followed, blocks._block = 128, 64
    found = blocks.largest(0.45, 1e-5)
    assert 258 <= found <= 261
    assert blocks.delta(found, 0.45) <= 1e-5 < blocks.delta(found + 1, 0.45)
    for n in (129, 191, 192, 257):
        assert whole.delta(n, 0.4) * (1 - 1e-9) <= blocks.delta(n, 0.4) == pytest.approx(blocks.curve(n).delta(0.4))


def test_masses_of_a_curve_give_it_back():
    pairs = DominatingPairs([[0.6, 0.4], [0.5, 0.5]], [[0.5, 0.5], [0.6, 0.4]])
    curve = Recursion(Layout(pairs, 8), 5).curve(5)
    kernel = _Kernel.of(curve)
    assert kernel.q.sum() == pytest.approx(1, abs=1e-9)
    assert (kernel.q * np.exp(-curve.y)).sum() == pytest.approx(1, abs=1e-9)
    assert 0 <= kernel.slack < 1e-9
    ratio = np.exp(curve.y)
    values = [(kernel.q * np.maximum(r / ratio - 1, 0)).sum() + curve.excess[0] for r in ratio]
    np.testing.assert_allclose(values, curve.excess + np.maximum(ratio - 1, 0), rtol=1e-9)


# What was found before compositions were sped up, never to be undercut: law, ballots, classes, epsilon, labels.
BEFORE = [
    (LaplaceNoisyMax(25), 50, 2, 0.5, 13),
    (LaplaceNoisyMax(25), 50, 2, 1.0, 46),
    (LaplaceNoisyMax(25), 50, 2, 3.0, 324),
    (LaplaceNoisyMax(20), 250, 2, 1.0, 29),
    (GaussianNoisyMax(40), 250, 2, 1.0, 88),
    (ExponentialVote(50), 250, 2, 1.0, 179),
]
BEFORE_SLOW = [
    (LaplaceNoisyMax(25), 50, 2, 10.0, 2502),
    (LaplaceNoisyMax(125), 250, 2, 1.0, 1122),
    (LaplaceNoisyMax(125), 250, 2, 3.0, 8006),
    (LaplaceNoisyMax(125), 250, 2, 10.0, 54153),
    (LaplaceNoisyMax(500), 1000, 2, 1.0, 17441),
    (LaplaceNoisyMax(125), 250, 3, 3.0, 8334),
]


@pytest.mark.parametrize(("law", "ballots", "classes", "epsilon", "labels"), [*BEFORE, *BEFORE_SLOW])
def test_no_fewer_labels_than_before(law, ballots, classes, epsilon, labels):
    one = price(law, Change(ballots=ballots, classes=classes)).label
    found = one.most(Budget(epsilon=epsilon, delta=1e-5))
    assert labels <= found <= 1.16 * labels + 1
    assert (one * found).fits(Budget(epsilon=epsilon, delta=1e-5))
    assert (one * found).epsilon(1e-5) <= epsilon * (1 + 1e-9)
    assert not (one * (found + 1)).fits(Budget(epsilon=epsilon, delta=1e-5))


def test_layouts_cover_all_numbers_in_order():
    sizes = [_layout_size(number) for number in range(40)]
    assert sizes == sorted(sizes)
    for n in range(1, 500):
        number = _layout_number(n)
        assert _layout_size(number - 1) < n <= _layout_size(number)


def test_several_kinds_are_composed_like_their_own_sequences():
    """Three answers of a mixed kind and two of another, whichever order: all strategies, in fractions."""
    one = DominatingPairs([[0.6, 0.4], [0.55, 0.45]], [[0.5, 0.5], [0.35, 0.65]])
    other = DominatingPairs([[0.7, 0.3]], [[0.55, 0.45]])
    bound = ProductComposition([(one, 2), (other, 2)], largest_epsilon=2.0)
    tables = [
        [[(Fraction(p), Fraction(q)) for p, q in zip(*row, strict=True)] for row in zip(kind.p, kind.q, strict=True)]
        for kind in (one, other)
    ]
    for exp_epsilon in (Fraction(1), Fraction(3, 2)):

        @cache
        def best(p, q, left, bound_at=exp_epsilon):
            if not any(left):
                return max(p - bound_at * q, Fraction(0))
            choices = [
                sum(best(p * a, q * b, (left[0] - (kind == 0), left[1] - (kind == 1))) for a, b in row)
                for kind in (0, 1)
                if left[kind]
                for row in tables[kind]
            ]
            return max(choices)

        truth = float(best(Fraction(1), Fraction(1), (2, 2)))
        assert truth * (1 - 1e-12) <= bound.delta(math.log(exp_epsilon)) <= 1.15 * truth + 5e-3


def test_compositions_can_be_copied_to_other_processes():
    pairs = DominatingPairs([[0.6, 0.4]], [[0.4, 0.6]])
    bound = AdaptiveComposition(pairs, 20, 3.0)
    wanted = bound.delta(20, 2.0)
    copied = pickle.loads(pickle.dumps(bound))  # noqa: S301
    assert copied.delta(20, 2.0) == wanted
    assert copy.deepcopy(bound).largest(2.0, wanted) == 20
