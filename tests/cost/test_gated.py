"""The purse against every adaptive strategy of tiny runs, on the integers that are sampled and in exact fractions."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpensemble.accounting import Change, price
from dpensemble.cost import DominatingPairs, GatedComposition, GatedCost, PrivacyCost, gated
from dpensemble.cost.gated import _few_labels
from dpensemble.cost.pairs import _vertices
from dpensemble.errors import AccountingError
from dpensemble.guarantee import Budget
from dpensemble.laws import ConfidentNoisyMax, InteractiveNoisyMax

from ..tiny_votes import sampled_pairs, strongest_gated_delta

TOTAL = 2**63


CASES = {
    "confident": (ConfidentNoisyMax(2.0, 3.0, 2.0), 3, 2, 1, (None,)),
    "two votes": (ConfidentNoisyMax(2.0, 4.0, 3.0), 3, 2, 2, (None,)),
    "dear checks": (ConfidentNoisyMax(2.0, 2.0, 8.0), 3, 2, 1, (None,)),
    "low threshold": (ConfidentNoisyMax(-4.0, 3.0, 2.0), 3, 2, 1, (None,)),
    "interactive": (InteractiveNoisyMax(0.5, 3.0, 2.0), 2, 2, 1, ([0.9, 0.1],)),
    "three classes": (ConfidentNoisyMax(1.5, 3.0, 3.0), 2, 3, 1, (None,)),
    "interactive, three classes": (InteractiveNoisyMax(0.5, 3.0, 3.0), 2, 3, 1, ([0.6, 0.3, 0.1],)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_strategy_of_tiny_ensembles_exceeds_the_purse(case):
    law, n, classes, votes, predictions = case
    one = price(law, Change(ballots=n, classes=classes, votes=votes)).answered
    assert isinstance(one, GatedCost)
    composition, pairs = one.composition, sampled_pairs(law, n, classes, votes, predictions)
    prices = composition.check_units, composition.label_units
    for queries in (1, 2):
        for factor in (Fraction(1), Fraction(3, 2), Fraction(3)):
            exact = float(strongest_gated_delta(pairs, prices, queries * composition.query_units, factor))
            claimed = (one * queries).composed(1e-5).delta(math.log(factor))
            assert exact <= claimed * (1 + 1e-12)
            # All of the gap is that a check and its label may be worst at different counts.
            assert exact >= 0.3 * claimed or exact < 0.02


def test_the_recursion_is_that_of_fractions():
    # Checks and labels of their own, so that nothing but the grid is between the two.
    checks = [(Fraction(3, 5), Fraction(1, 2)), (Fraction(1, 2), Fraction(3, 5))]
    labels = [(Fraction(2, 3), Fraction(1, 2)), (Fraction(1, 2), Fraction(2, 3))]
    # Checks that always pass or fail are allowed for as well.
    both = product([*checks, (Fraction(1), Fraction(1)), (Fraction(0), Fraction(0))], labels)
    pairs = [([a * p, a * (1 - p), 1 - a], [b * q, b * (1 - q), 1 - b]) for (a, b), (p, q) in both]
    table = [[[float(pair[i]), 1 - float(pair[i])] for pair in kind] for kind in (checks, labels) for i in (0, 1)]
    composition = GatedComposition(DominatingPairs(*table[:2]), DominatingPairs(*table[2:]), 0.0)
    prices = composition.check_units, composition.label_units
    for queries in (1, 2):
        for factor in (Fraction(1), Fraction(5, 4), Fraction(2)):
            exact = float(strongest_gated_delta(pairs, prices, queries * composition.query_units, factor))
            claimed = composition.delta(queries, math.log(factor))
            assert exact <= claimed * (1 + 1e-12)
            assert claimed <= 1.02 * exact + 1e-4


def test_a_purse_that_gives_labels_away_would_be_too_small():
    # By the oracle, a purse for one query, if labels were free, buys more than the claim allows.
    law = CASES["confident"][0]
    composition = price(law, Change(ballots=3, classes=2)).answered.composition
    units = composition.query_units
    assert units < 5 * composition.check_units
    found = strongest_gated_delta(sampled_pairs(law, 3, 2), (composition.check_units, 0), units, Fraction(3, 2))
    assert float(found) > composition.delta(1, math.log(1.5))


def test_blocks_are_no_better_than_single_queries_and_lose_little():
    composition = price(ConfidentNoisyMax(200, 150, 40), Change(ballots=250, classes=2)).answered.composition
    followed = composition._followed
    for more in (1, 40):
        alone = composition._few(followed + more)
        joined = composition.curve(followed + more)
        for epsilon in (0.5, 1.0, 2.0, 3.0):
            assert alone.delta(epsilon) * (1 - 1e-9) <= joined.delta(epsilon)
        # About a label and a half of some two hundred.
        assert joined.epsilon(1e-5) <= 1.012 * alone.epsilon(1e-5)


def test_several_votes_of_more_classes_are_left_to_the_renyi_curve():
    change = Change(ballots=9, classes=3, votes=2)
    assert type(price(CASES["confident"][0], change).answered) is PrivacyCost


@pytest.mark.parametrize(
    ("law", "change"),
    [
        (ConfidentNoisyMax(200, 150, 40), Change(ballots=250, classes=3)),
        # A long lattice is covered by blocks, whose pairs have more outcomes.
        (ConfidentNoisyMax(20_000, 15_000, 4000), Change(ballots=50_000, classes=2, votes=100)),
    ],
)
def test_few_labels_of_more_outcomes_dominate_all_and_cost_little_more(law, change):
    pairs = price(law, change).label.parts[0].pairs
    assert pairs.p.shape[1] > 2
    few, orders = _few_labels(pairs), np.array([1.1, 2.0, 10.0, 50.0])
    assert len(few) < len(pairs) / 5
    assert np.all(few.renyi(orders) <= pairs.renyi(orders) * 1.0201)
    curves = [_vertices(few.p[[i]], few.q[[i]])[0] for i in range(len(few))]
    for row in np.linspace(0, len(pairs) - 1, 200).astype(int):
        below = _vertices(pairs.p[[row]], pairs.q[[row]])[0]
        # A concave curve is above a polygon if it is above its corners.
        assert any(np.all(np.interp(below[:, 0], *curve.T) >= below[:, 1] - 1e-15) for curve in curves)


def test_a_product_of_matrices_gives_what_slices_give(monkeypatch):
    found = price(ConfidentNoisyMax(200, 150, 40), Change(ballots=250, classes=3))
    pairs = found.label.parts[0].pairs
    deltas = []
    for tap in (0, 10**9):
        monkeypatch.setattr(gated, "_TAP", tap)
        deltas.append(GatedComposition(found.corners, pairs, 0.0).delta(10, 0.3))
    assert 1e-6 < deltas[0] == pytest.approx(deltas[1], rel=1e-9)


def test_costs_of_gated_queries_add_and_convert():
    one = price(ConfidentNoisyMax(200, 150, 40), Change(ballots=250, classes=2)).answered
    assert (one * 20).epsilon(1e-5) < PrivacyCost(rdp=(one * 20).rdp).epsilon(1e-5)
    assert (one * 20).fits(Budget(epsilon=(one * 20).epsilon(1e-5), delta=1e-5))
    assert not (one * 20).fits(Budget(epsilon=0.99 * (one * 20).epsilon(1e-5), delta=1e-5))
    assert (one * 0).epsilon(1e-5) == 0
    assert (PrivacyCost.zero() + one * 3).epsilon(1e-5) == (one * 3 + PrivacyCost.zero()).epsilon(1e-5)
    assert (one + one).epsilon(1e-5) == PrivacyCost(rdp=2 * one.rdp).epsilon(1e-5)
    with pytest.raises(AccountingError, match="finite outcomes"):
        one.epsilon(1e-5, "privacy loss distribution")
    with pytest.raises(AccountingError, match="delta"):
        one.epsilon(0.0)
    at = (one * 20).composition.largest(1.0, 1e-5)
    assert (one * at).fits(Budget(epsilon=1.0, delta=1e-5))
    assert not (one * (at + 1)).fits(Budget(epsilon=1.0, delta=1e-5))


def test_what_a_shared_composition_follows_cannot_be_changed():
    composition = price(ConfidentNoisyMax(2.0, 3.0, 2.0), Change(ballots=3, classes=2)).answered.composition
    with pytest.raises(AttributeError):
        composition.followed = 1
