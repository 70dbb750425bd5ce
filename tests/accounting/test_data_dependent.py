from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.accounting import Change, exact_query_rdp
from dpensemble.accounting.data_dependent import at_orders, largest_cost
from dpensemble.accounting.neighbours import FEW_ORDERS, move_rdp, reachable_offsets
from dpensemble.accounting.published import gnmax_rdp, lnmax_rdp
from dpensemble.accounting.worst_case import worst_case_cost
from dpensemble.cost import DEFAULT_ORDERS, DominatingPairs, PrivacyCost
from dpensemble.errors import AccountingError, DataError, InvalidParameterError
from dpensemble.laws import (
    ConfidentNoisyMax,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    RandomizedResponse,
    TableLaw,
    integer_weights,
)

ORDERS = np.array([1.5, 2.0, 7.0, 40.0, 257.0])
LAWS = {
    "laplace": LaplaceNoisyMax(1.3),
    "gaussian": GaussianNoisyMax(2.0),
    "confident": ConfidentNoisyMax(threshold=3.0, threshold_sigma=1.0, sigma=1.5),
    "response": RandomizedResponse(0.7),
}
every_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def renyi(p, q, orders):
    """Return the divergence of two rows of integer weights, without help from the library."""
    p, q = (np.array(row, dtype=np.longdouble) / np.longdouble(2**63) for row in (p, q))
    return np.array([np.log(np.sum(p * (p / q) ** (a - 1))) / (a - 1) for a in orders.astype(np.longdouble)])


def both_ways(law, n, m, orders=ORDERS):
    p, q = sampled(law, n), sampled(law, m)
    return np.maximum(renyi(p, q, orders), renyi(q, p, orders))


@cache
def sampled(law, counts):
    return tuple(integer_weights(law, np.array([counts]))[0].tolist())


def histogram(ballots, n_classes):
    return tuple(np.bincount(ballots, minlength=n_classes).tolist())


def neighbours(ballots, n_classes, votes):
    """Yield the counts after every change of up to `votes` ballots, ballot by ballot."""
    for places in combinations(range(len(ballots)), min(votes, len(ballots))):
        for others in product(range(n_classes), repeat=len(places)):
            changed = list(ballots)
            for place, other in zip(places, others, strict=True):
                changed[place] = other
            yield histogram(changed, n_classes)


def by_brute_force(law, counts, votes):
    ballots = [c for c, n in enumerate(counts) for _ in range(n)]
    reached = set(neighbours(ballots, len(counts), votes))
    return np.max([both_ways(law, counts, other) for other in reached], axis=0).astype(float)


def all_counts(n_teachers, n_classes):
    return [c for c in product(range(n_teachers + 1), repeat=n_classes) if sum(c) == n_teachers]


def agrees(found, truth):
    """Never below the truth, and above it by no more than the rounding that is charged for."""
    assert np.all(found >= truth)
    assert np.all(found <= truth * (1 + 1e-5) + 1e-12)


@every_law
@pytest.mark.parametrize(
    ("n_teachers", "n_classes", "votes"), [(1, 2, 3), (6, 2, 1), (6, 2, 3), (4, 3, 1), (4, 3, 2), (3, 4, 1)]
)
def test_it_is_the_worst_over_all_ballots(law, n_teachers, n_classes, votes):
    rows = all_counts(n_teachers, n_classes)
    found = exact_query_rdp(law, rows, ORDERS, votes)
    agrees(found, np.array([by_brute_force(law, row, votes) for row in rows]))


def test_a_law_that_does_not_rise_may_be_worst_at_a_small_change():
    law = TableLaw(((0.9, 0.1), (0.2, 0.8), (0.7, 0.3), (0.9, 0.1), (0.5, 0.5)))
    rows = all_counts(4, 2)
    found = exact_query_rdp(law, rows, ORDERS, votes_per_unit=3)
    agrees(found, np.array([by_brute_force(law, row, 3) for row in rows]))


@every_law
@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_rows_are_priced_one_by_one_and_classes_alike(law, n_classes):
    rng = np.random.default_rng(0)
    counts = np.concatenate([rng.multinomial(n, np.full(n_classes, 1 / n_classes), 8) for n in (3, 9)])
    together = exact_query_rdp(law, counts, ORDERS)
    alone = np.concatenate([exact_query_rdp(law, row[None], ORDERS) for row in counts])
    assert np.allclose(together, alone, rtol=1e-9, atol=1e-14)
    shuffled = exact_query_rdp(law, counts[:, rng.permutation(n_classes)], ORDERS)
    assert np.allclose(together, shuffled, rtol=1e-7, atol=1e-13)


def test_a_moved_ballot_is_priced_by_the_class_that_it_leaves():
    law, rows = GaussianNoisyMax(1.7), np.array([[0, 3, 3], [5, 1, 0], [2, 2, 2]])
    found = move_rdp(law, rows, ORDERS)
    for query, source in product(range(3), range(3)):
        row = rows[query]
        moved = [row - np.eye(3, dtype=int)[source] + np.eye(3, dtype=int)[b] for b in range(3) if b != source]
        if row[source] == 0:
            assert not found[query, source].any()
        else:
            here = tuple(row.tolist())
            truth = np.max([both_ways(law, here, tuple(m.tolist())) for m in moved], axis=0)
            agrees(found[query, source], truth.astype(float))


@given(st.integers(1, 60), st.floats(0.8, 30.0), st.integers(1, 4))
def test_it_is_at_most_the_worst_case_and_the_worst_row_attains_it(n_teachers, scale, votes):
    counts = np.array(all_counts(n_teachers, 2))
    for law in (LaplaceNoisyMax(scale), GaussianNoisyMax(scale), ConfidentNoisyMax(n_teachers / 2, scale, scale)):
        found = exact_query_rdp(law, counts, votes_per_unit=votes)
        worst = worst_case_cost(law, Change(ballots=n_teachers, classes=2, votes=votes))
        public = worst.rdp[np.isin(DEFAULT_ORDERS, FEW_ORDERS)]
        assert np.all(found <= public * (1 + 1e-12))
        assert np.allclose(found.max(axis=0), public, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [3, 6])
@pytest.mark.parametrize("law", [LaplaceNoisyMax(9.0), GaussianNoisyMax(9.0), ConfidentNoisyMax(30, 9.0, 9.0)])
def test_more_classes_cost_at_most_the_public_worst_case_and_the_published_bound(law, n_classes):
    rng = np.random.default_rng(n_classes)
    counts = np.stack([rng.multinomial(50, rng.dirichlet(np.full(n_classes, 0.5))) for _ in range(40)])
    found = exact_query_rdp(law, counts)
    published = 2 * FEW_ORDERS / 81 if isinstance(law, LaplaceNoisyMax) else FEW_ORDERS * (1.5 / 81)
    if not isinstance(law, ConfidentNoisyMax):
        published = np.minimum(published, 2 * FEW_ORDERS / 81)
    assert np.all(found <= published)
    worst = largest_cost(law, Change(ballots=50, classes=n_classes))
    assert np.all(found <= at_orders(worst, FEW_ORDERS))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize(
    ("law", "published"), [(GaussianNoisyMax(40.0), gnmax_rdp), (LaplaceNoisyMax(20.0), lnmax_rdp)]
)
def test_it_is_at_most_the_published_data_dependent_bound(law, published, n_classes):
    """Papernot et al. bound one order of the pair only. Both together still cost less."""
    rng = np.random.default_rng(0)
    leaning = np.r_[4.0, np.full(n_classes - 1, 0.6)]
    counts = np.stack([rng.multinomial(250, rng.dirichlet(leaning)) for _ in range(60)])
    orders = np.arange(2.0, 51.0)
    noise = law.sigma if isinstance(law, GaussianNoisyMax) else law.scale
    assert np.all(exact_query_rdp(law, counts, orders) <= 0.75 * published(counts, noise, orders))


def test_unanimous_votes_cost_next_to_nothing():
    rdp = exact_query_rdp(LaplaceNoisyMax(5.0), [[250, 0], [0, 250], [125, 125]])
    assert np.all(rdp[:2, :10] < 1e-12)
    assert np.all(rdp[2] > 1e-3)


def test_beyond_the_enumeration_the_worst_case_is_charged():
    law = LaplaceNoisyMax(40.0)
    counts = np.array([[30, 20, 10, 5], [65, 0, 0, 0]])
    found = exact_query_rdp(law, counts, votes_per_unit=20)
    worst = worst_case_cost(law, Change(ballots=65, classes=4, votes=20))
    assert np.array_equal(found, np.tile(worst.rdp[np.isin(DEFAULT_ORDERS, FEW_ORDERS)], (2, 1)))
    # Each query by its own number of ballots.
    fewer = exact_query_rdp(law, [[30, 20, 10, 5], [15, 10, 5, 0]], votes_per_unit=20)
    worst = worst_case_cost(law, Change(ballots=30, classes=4, votes=20))
    assert np.array_equal(fewer[0], found[0])
    assert np.array_equal(fewer[1], worst.rdp[np.isin(DEFAULT_ORDERS, FEW_ORDERS)])
    # Within it, listing histograms is cheaper for the clear vote.
    listed = exact_query_rdp(law, counts, votes_per_unit=2)
    assert listed[1, 0] < 0.6 * worst_case_cost(law, Change(ballots=65, classes=4, votes=2)).rdp[0]


@pytest.mark.parametrize(("n_classes", "votes"), [(3, 1), (3, 4), (4, 2)])
def test_offsets_are_all_changes(n_classes, votes):
    start = (votes,) * n_classes
    ballots = [c for c in range(n_classes) for _ in range(votes)]
    expected = {tuple(np.subtract(n, start).tolist()) for n in neighbours(ballots, n_classes, votes)}
    offsets = reachable_offsets(n_classes, votes, 10_000)
    assert len(offsets) == len(set(map(tuple, offsets.tolist())))
    assert set(map(tuple, offsets.tolist())) | {(0,) * n_classes} == expected
    assert reachable_offsets(n_classes, votes, len(offsets)) is not None
    assert reachable_offsets(n_classes, votes, len(offsets) - 1) is None


def test_curves_are_read_between_the_default_orders_from_above():
    pairs = DominatingPairs([[0.6, 0.4], [0.1, 0.9]], [[0.4, 0.6], [0.3, 0.7]]).both_ways()
    orders = np.array([1.01, 1.5, 2.0, 2.5, 17.3, 270.0, 2000.5, DEFAULT_ORDERS[-1]])
    found = at_orders(PrivacyCost.of(pairs), orders)
    assert np.all(found >= pairs.renyi(orders))
    assert np.allclose(found[3:], pairs.renyi(orders)[3:], rtol=0.06)
    assert found[2] == pairs.renyi([2.0])[0]


@given(st.integers(0, 10**6))
def test_costs_rise_with_the_order_and_with_the_votes(seed):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(20, rng.dirichlet(np.ones(3)), 3)
    one, two = (exact_query_rdp(LaplaceNoisyMax(4.0), counts, votes_per_unit=v) for v in (1, 2))
    assert np.all(np.diff(one, axis=1) >= -1e-9 * one[:, 1:])
    assert np.all(one <= two * (1 + 1e-9))


def test_no_queries_and_no_ballots_cost_nothing():
    law = LaplaceNoisyMax(2.0)
    for n_classes in (2, 3):
        assert exact_query_rdp(law, np.zeros((0, n_classes), dtype=int), ORDERS).shape == (0, len(ORDERS))
        assert not exact_query_rdp(law, np.zeros((1, n_classes)), ORDERS).any()
        assert not exact_query_rdp(law, np.zeros((1, n_classes)), ORDERS, votes_per_unit=2).any()


@pytest.mark.parametrize(
    "counts", [[[1.5, 2]], [[-1, 2]], [[np.nan, 1]], [[np.inf, 1]], [1, 2], [[3]], [["a", "b"]], [[1e12, 0]]]
)
def test_counts_that_are_no_votes_are_refused(counts):
    with pytest.raises(DataError, match="counts must be"):
        exact_query_rdp(LaplaceNoisyMax(2.0), counts)


@pytest.mark.parametrize("orders", [[1.0], [np.nan], [], [[2.0]], [1e9], [0.5]])
def test_orders_without_a_bound_are_refused(orders):
    with pytest.raises(InvalidParameterError, match="orders must be numbers above 1"):
        exact_query_rdp(LaplaceNoisyMax(2.0), [[1, 2]], orders)


def test_other_settings_without_an_analysis_are_refused():
    interactive = InteractiveNoisyMax(2.0, 1.0, 1.0)
    for law in (interactive, interactive.against([[0.5, 0.5]])):
        with pytest.raises(AccountingError, match="depends on a student too"):
            exact_query_rdp(law, [[1, 2]])
    with pytest.raises(InvalidParameterError, match="votes_per_unit"):
        exact_query_rdp(LaplaceNoisyMax(2.0), [[1, 2]], votes_per_unit=0)
