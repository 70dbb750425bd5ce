"""Composed blocks against the true supremum over strategies, in exact fractions, and figures that may not fall."""

import copy
import math
import pickle
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.accounting import Change, price
from dpensemble.budget import Budget
from dpensemble.cost import DominatingPairs
from dpensemble.cost.composition import AdaptiveComposition, ProductComposition, layout_number, layout_size
from dpensemble.cost.loss_curve import Kernel
from dpensemble.cost.recursion import Layout, Recursion
from dpensemble.laws import ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax

from ..tiny_votes import strongest_delta

coins = st.lists(st.tuples(st.floats(0.05, 0.95), st.floats(0.05, 0.95)), min_size=1, max_size=3)


@settings(max_examples=30, deadline=None)
@given(coins, st.integers(1, 2), st.integers(1, 2), st.integers(3, 12))
def test_composed_blocks_are_never_below_the_supremum(rows, one, other, n_steps):
    pairs = DominatingPairs(*(np.array([[row[i], 1 - row[i]] for row in rows]) for i in (0, 1)))
    if np.abs(pairs.losses()).max() < 1e-3:
        return
    recursion = Recursion(Layout(pairs, n_steps), one + other)
    first, second = recursion.curve(one), recursion.curve(other)
    joined = first.then(Kernel.of(second))
    in_fractions = [
        [list(map(Fraction, law)) for law in pair] for pair in zip(pairs.p.tolist(), pairs.q.tolist(), strict=True)
    ]
    for exp_epsilon in (Fraction(1), Fraction(5, 4), Fraction(3)):
        epsilon = math.log(exp_epsilon)
        truth = float(strongest_delta(in_fractions, one + other, exp_epsilon))
        for found in (joined.delta(epsilon), first.delta_with(Kernel.of(second), epsilon)):
            assert truth * (1 - 1e-12) <= found
        assert first.delta_with(Kernel.of(second), epsilon) == pytest.approx(joined.delta(epsilon), rel=1e-9)
        coarse = first.coarser().then(Kernel.of(second.coarser()))
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
    kernel = Kernel.of(curve)
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
    sizes = [layout_size(number) for number in range(40)]
    assert sizes == sorted(sizes)
    for n in range(1, 500):
        number = layout_number(n)
        assert layout_size(number - 1) < n <= layout_size(number)


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
