"""Votes of few teachers for three and more classes: what is listed and gathered, against every strategy."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from dpensemble.accounting import Change, price
from dpensemble.accounting.two_gaps import two_gap_pairs
from dpensemble.accounting.worst_case import _gathered_cost, _is_listed_soon, _listed_cost, worst_case_cost
from dpensemble.budget import Budget
from dpensemble.cost import DEFAULT_ORDERS
from dpensemble.cost.roc import vertices
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax
from dpensemble.laws.sampling import integer_weights

CASES = [
    (LaplaceNoisyMax(10.0), Change(ballots=20, classes=3)),
    (LaplaceNoisyMax(4.0), Change(ballots=8, classes=4, weight=2)),
    (LaplaceNoisyMax(6.0), Change(ballots=12, classes=3, votes=3)),
    (GaussianNoisyMax(8.0), Change(ballots=16, classes=3)),
    (GaussianNoisyMax(5.0), Change(ballots=10, classes=5)),
]


@pytest.mark.parametrize(("law", "change"), CASES, ids=str)
def test_groups_dominate_all_neighbours_and_lose_little(law, change):
    few, all_ = _gathered_cost(law, change), _listed_cost(law, change)
    curves, pairs = vertices(few.parts[0].pairs.p, few.parts[0].pairs.q), all_.parts[0].pairs
    inner = vertices(pairs.p, pairs.q)[:, 1:-1]
    above = [(np.interp(inner[..., 0], c[:, 0], c[:, 1]) - inner[..., 1]).min(axis=1) for c in curves]
    assert np.max(above, axis=0).min() > -1e-12
    assert len(curves) < len(pairs)
    # By 0.3 % where it is looked at, and between these orders by a little more.
    assert np.all(few.rdp <= 1.03 * all_.rdp)
    assert np.all(few.parts[0].pairs.renyi([2.0, 10.0, 100.0]) <= 1.0031 * pairs.renyi([2.0, 10.0, 100.0]))


@pytest.mark.parametrize(("law", "change"), [case for case in CASES if case[1].votes == 1], ids=str)
def test_it_is_never_dearer_than_an_analysis_of_all_gaps(law, change):
    noise = "laplace" if isinstance(law, LaplaceNoisyMax) else "gaussian"
    gaps = two_gap_pairs(noise, change.weight / law.noise, change.classes, law.mixing_weight(change.classes) / 2)
    assert np.all(worst_case_cost(law, change).rdp <= gaps.renyi(DEFAULT_ORDERS))


def test_it_is_for_counts_that_are_near():
    near, far = Change(ballots=30, classes=3), Change(ballots=130, classes=3)
    law = LaplaceNoisyMax(10.0)
    assert _is_listed_soon(law, near, 12.0)
    assert not _is_listed_soon(law, far, 12.0)
    # Half the noise in votes buys more than a third more labels than counts at any distance would.
    assert price(LaplaceNoisyMax(50.0), Change(ballots=100, classes=3)).label.most(Budget(epsilon=1, delta=1e-5)) >= 185


def true_delta(law, change, answers, factor):
    """The most that any strategy reaches on the weights that are sampled, in fractions."""
    rows = np.array(
        [row for row in product(range(change.ballots + 1), repeat=change.classes) if sum(row) == change.ballots]
    )
    table = [[Fraction(int(w), 2**63) for w in row] for row in integer_weights(law, rows)]
    moved = np.abs(rows[:, None] - rows).sum(axis=2)
    pairs = [(table[i], table[j]) for i, j in zip(*np.nonzero((moved > 0) & (moved <= 2 * change.votes)), strict=True)]

    def value(left, p, q):
        if not left:
            return max(p - factor * q, 0)
        return max(sum(value(left - 1, p * a, q * b) for a, b in zip(one, other, strict=True)) for one, other in pairs)

    return float(value(answers, Fraction(1), Fraction(1)))


@pytest.mark.parametrize(
    ("law", "change"),
    [
        (LaplaceNoisyMax(2.0), Change(ballots=2, classes=3)),
        (GaussianNoisyMax(2.0), Change(ballots=2, classes=3)),
        (LaplaceNoisyMax(4.0), Change(ballots=2, classes=3, votes=2)),
        (GaussianNoisyMax(3.0), Change(ballots=2, classes=4)),
    ],
    ids=str,
)
def test_composition_is_exact_for_every_strategy(law, change):
    """Before, several votes of many classes had a Renyi curve only."""
    found = price(law, change).label
    for factor in (Fraction(5, 4), Fraction(2)):
        truth = true_delta(law, change, 2, factor)
        delta = found.layout(2, 1e-3).delta(2, float(np.log(float(factor))))
        assert truth <= delta <= 1.03 * truth + 1e-9
