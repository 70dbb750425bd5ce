"""Ballots that weigh more than 1: against every ballot of tiny ensembles, and on lattices too long to list."""

from itertools import combinations, product

import numpy as np
import pytest

from dpensemble.accounting import Accounting, Change, exact_query_rdp, price
from dpensemble.accounting.neighbours import move_rdp, second_class_table
from dpensemble.accounting.published import published_cost
from dpensemble.accounting.worst_case import _block_pairs, _table_pairs, worst_case_cost
from dpensemble.cost import DEFAULT_ORDERS, DominatingPairs
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import (
    ConfidentNoisyMax,
    GaussianNoisyMax,
    LaplaceNoisyMax,
    TableLaw,
    integer_weights,
)

# Five teachers and the weights of their ballots.
WEIGHTS = (1, 1, 2, 3, 3)
ORDERS = np.array([2.0, 5.0, 17.0, 60.0])
CONFIDENT = ConfidentNoisyMax(6.0, 3.0, 4.0)


def at(cost):
    return cost.rdp[np.searchsorted(DEFAULT_ORDERS, ORDERS)]


def renyi(p, q):
    p, q = (np.array(row, dtype=np.longdouble) / np.longdouble(2**63) for row in (p, q))
    return np.array([float(np.log(np.sum(p * (p / q) ** (a - 1))) / (a - 1)) for a in ORDERS.astype(np.longdouble)])


def brute_force(law, n_classes, weight, votes):
    """Return the largest divergence, either way, over all ballots and all changes of `votes` of a weight."""
    owned = [t for t, w in enumerate(WEIGHTS) if w == weight]
    laws, found = {}, np.zeros(len(ORDERS))

    def counts(ballots):
        return tuple(sum(w for w, b in zip(WEIGHTS, ballots, strict=True) if b == c) for c in range(n_classes))

    for ballots in product(range(n_classes), repeat=len(WEIGHTS)):
        for changed in combinations(owned, votes):
            for says in product(range(n_classes), repeat=votes):
                other = list(ballots)
                for teacher, label in zip(changed, says, strict=True):
                    other[teacher] = label
                here, there = counts(ballots), counts(other)
                if (here, there) not in laws:
                    p, q = integer_weights(law, np.array([here, there]))
                    laws[here, there] = renyi(p.tolist(), q.tolist())
                found = np.maximum(found, laws[here, there])
    return found


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("weight", "votes"), [(1, 1), (2, 1), (3, 1), (1, 2), (3, 2)])
@pytest.mark.parametrize("law", [LaplaceNoisyMax(4.0), GaussianNoisyMax(5.0), CONFIDENT], ids=repr)
def test_no_change_of_ballots_reveals_more_than_is_charged(law, weight, votes, n_classes):
    truth = brute_force(law, n_classes, weight, votes)
    reach = {"ballots": 10, "classes": n_classes, "votes": votes, "weight": weight}
    if isinstance(law, ConfidentNoisyMax):
        gated = price(law, Change(**reach))
        charged = at(gated.check) + at(gated.label)
    else:
        charged = at(worst_case_cost(law, Change(**reach)))
    assert np.all(truth <= charged)
    if n_classes == 2 and not isinstance(law, ConfidentNoisyMax):
        # Every count is a sum of these weights, and the worst one is attained.
        assert np.all(charged <= truth * 1.02)
    # One weight less would not cover it.
    if weight > 1 and n_classes == 2 and not isinstance(law, ConfidentNoisyMax):
        less = at(worst_case_cost(law, Change(**(reach | {"weight": weight - 1}))))
        assert np.all(truth > less * 1.05)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("weight", "votes"), [(2, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize("law", [LaplaceNoisyMax(4.0), GaussianNoisyMax(5.0), CONFIDENT], ids=repr)
def test_data_dependent_costs_cover_all_changes_at_the_counts_at_hand(law, weight, votes, n_classes):
    rng = np.random.default_rng(weight)
    owned = [t for t, w in enumerate(WEIGHTS) if w == weight]
    for _ in range(6):
        ballots = rng.integers(0, n_classes, 5)
        here = np.bincount(ballots, WEIGHTS, n_classes).astype(int)
        found = exact_query_rdp(law, here[None], ORDERS, votes, weight)[0]
        truth = np.zeros(len(ORDERS))
        for changed in combinations(owned, votes):
            for says in product(range(n_classes), repeat=votes):
                other = ballots.copy()
                other[list(changed)] = says
                there = np.bincount(other, WEIGHTS, n_classes).astype(int)
                p, q = (row.tolist() for row in integer_weights(law, np.stack([here, there])))
                truth = np.maximum(truth, np.maximum(renyi(p, q), renyi(q, p)))
        assert np.all(truth <= found)
        worst = brute_force(law, n_classes, weight, votes)
        assert np.all(found <= worst * 1.001) or n_classes == 3


def test_a_ballot_leaves_only_classes_that_hold_its_weight():
    law, row = GaussianNoisyMax(3.0), np.array([[5, 2, 3]])
    found = move_rdp(law, row, ORDERS, 3)
    assert not found[0, 1].any()
    assert found[0, [0, 2]].all()
    neighbours = [[2, 5, 3], [2, 2, 6], [8, 2, 0], [5, 5, 0]]
    truth = []
    for other in neighbours:
        p, q = (line.tolist() for line in integer_weights(law, np.array([row[0], other])))
        truth.append(np.maximum(renyi(p, q), renyi(q, p)))
    assert np.allclose(exact_query_rdp(law, row, ORDERS, 1, 3)[0], np.max(truth, axis=0), rtol=1e-5)


@pytest.mark.parametrize("weight", [1, 3])
@pytest.mark.parametrize("law", [LaplaceNoisyMax(700.0), GaussianNoisyMax(900.0), GaussianNoisyMax(4.0)], ids=repr)
def test_a_long_lattice_is_covered_and_tightly(law, weight):
    n_teachers = 6_000
    every = _table_pairs(law, Change(ballots=n_teachers, classes=2, votes=2, weight=weight))
    few = _block_pairs(second_class_table(law, n_teachers)[:, 1], 2 * weight).inflated(1e-14)
    orders = DEFAULT_ORDERS[::7]
    truth, charged = every.renyi(orders), few.renyi(orders)
    assert np.all(truth <= charged * (1 + 1e-12))
    useful = orders < 900
    assert np.all(charged[useful] <= truth[useful] * 1.01)
    for epsilon in (0.0, 1e-4, 1e-3, 0.01):
        assert every.hockey_stick(epsilon) <= few.hockey_stick(epsilon) + 1e-15


def test_a_block_that_is_left_out_would_be_noticed():
    table = second_class_table(GaussianNoisyMax(900.0), 6_000)[:, 1]
    every = _table_pairs(GaussianNoisyMax(900.0), Change(ballots=6_000, classes=2))
    few = _block_pairs(table, 1)
    middle = np.abs(few.q[:, 0] - 0.5) > 0.2
    left = DominatingPairs(few.p[middle], few.q[middle])
    assert left.renyi([2.0])[0] < every.renyi([2.0])[0] * 0.99


@pytest.mark.parametrize("law", [LaplaceNoisyMax(20.0), GaussianNoisyMax(40.0)], ids=repr)
def test_weights_in_fine_units_cost_what_they_cost_in_votes(law):
    coarse = worst_case_cost(law, Change(ballots=250, classes=2)).rdp[:300]
    fine = worst_case_cost(law.scaled(1000.0), Change(ballots=250_000, classes=2, weight=1000)).rdp[:300]
    # Counts between whole votes are covered too, so it may be a little more.
    assert np.all(fine >= coarse * (1 - 1e-7))
    assert np.all(fine <= coarse * 1.01)


@pytest.mark.parametrize("law", [LaplaceNoisyMax(12.0), GaussianNoisyMax(12.0)], ids=repr)
def test_published_costs_see_only_the_sum_of_weights(law):
    two, six = Change(ballots=60, classes=2, votes=2, weight=3), Change(ballots=60, classes=2, votes=6)
    assert np.array_equal(published_cost(law, two).rdp, published_cost(law, six).rdp)
    sigma = 12.0
    factor = 2.0 if isinstance(law, LaplaceNoisyMax) else 1.0
    assert np.allclose(published_cost(law, two).rdp, factor * DEFAULT_ORDERS * 36 / sigma**2)
    for n_classes in (2, 3):
        change = Change(ballots=60, classes=n_classes, votes=2, weight=3)
        assert np.all(worst_case_cost(law, change).rdp <= published_cost(law, change).rdp * (1 + 1e-8))


def test_published_gated_costs_see_only_the_sum_of_weights():
    found, same = (
        price(CONFIDENT, Change(ballots=60, classes=2, votes=v, weight=w), Accounting.PUBLISHED)
        for v, w in ((2, 3), (6, 1))
    )
    assert np.array_equal(found.check.rdp, same.check.rdp)
    assert np.array_equal(found.label.rdp, same.label.rdp)
    assert np.allclose(found.check.rdp, DEFAULT_ORDERS * 36 / (2 * 3.0**2))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_heavier_ballots_cost_more(n_classes):
    reach = {"ballots": 40, "classes": n_classes}
    for law in (LaplaceNoisyMax(9.0), GaussianNoisyMax(9.0)):
        costs = [at(worst_case_cost(law, Change(**reach, weight=w))) for w in (1, 2, 5, 40)]
        assert np.all(np.diff(costs, axis=0) > 0)
    # Beyond the sum of all there is nothing to move.
    assert np.allclose(
        at(worst_case_cost(law, Change(ballots=4, classes=2, weight=9))),
        at(worst_case_cost(law, Change(ballots=4, classes=2, weight=4))),
    )


def test_a_law_that_does_not_rise_is_listed_at_every_multiple_of_the_weight():
    wiggly = TableLaw(((0.9, 0.1), (0.5, 0.5), (0.2, 0.8), (0.4, 0.6), (0.7, 0.3), (0.6, 0.4), (0.9, 0.1)))
    pairs = _table_pairs(wiggly, Change(ballots=6, classes=2, votes=2, weight=2))
    listed = {(round(p, 9), round(q, 9)) for p, q in zip(pairs.p[:, 0], pairs.q[:, 0], strict=True)}
    rows = [row[0] for row in wiggly.table]
    for here, step in product(range(7), (-4, -2, 2, 4)):
        if 0 <= here + step <= 6 and rows[here] != rows[here + step]:
            pair = np.array([rows[here + step], rows[here]])
            assert any(np.allclose(pair, one, atol=1e-5) or np.allclose(1 - pair, one, atol=1e-5) for one in listed)


@pytest.mark.parametrize("bad", [0, -1, 1.5, None, np.nan])
def test_a_weight_is_a_whole_number(bad):
    law = GaussianNoisyMax(3.0)
    with pytest.raises(InvalidParameterError, match="ballot_weight"):
        exact_query_rdp(law, [[1, 2]], ORDERS, 1, bad)
    with pytest.raises(InvalidParameterError, match="weight="):
        Change(ballots=9, classes=2, weight=bad)
