"""Meters that charge each unit, or each group, for what it could have changed of the labels that were released."""

import tracemalloc
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.accounting import Change, exact_query_rdp, price
from dpensemble.accounting.meters.data_dependent import FEW_ORDERS, PerRecordMeter, _at_orders, _largest_cost, _move_rdp
from dpensemble.accounting.published import (
    PublishedPerRecordMeter,
    changeable_votes,
    gnmax_rdp,
    laplace_moments,
    lnmax_rdp,
)
from dpensemble.accounting.worst_case import reachable_offsets, worst_case_cost
from dpensemble.allocation import Allocation, partitions
from dpensemble.cost import DEFAULT_ORDERS, DominatingPairs, PrivacyCost
from dpensemble.cost.privacy_cost import improved_epsilon
from dpensemble.errors import AccountingError, BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import (
    ConfidentNoisyMax,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    RandomizedResponse,
    TableLaw,
    integer_weights,
)
from dpensemble.relations import Basis, Relation
from dpensemble.votes import Votes

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
    found = _move_rdp(law, rows, ORDERS)
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
    worst = _largest_cost(law, Change(ballots=50, classes=n_classes))
    assert np.all(found <= _at_orders(worst, FEW_ORDERS))


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
    found = _at_orders(PrivacyCost.of(pairs), orders)
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


DELTA = 1e-3
HUGE = Budget(epsilon=1e9, delta=DELTA)
AT = np.isin(DEFAULT_ORDERS, FEW_ORDERS)
CHARGED_LAWS = {
    "laplace": LaplaceNoisyMax(2.5),
    "gaussian": GaussianNoisyMax(2.0),
    "confident": ConfidentNoisyMax(threshold=4.0, threshold_sigma=0.7, sigma=1.5),
    "response": RandomizedResponse(0.3),
}
every_charged_law = pytest.mark.parametrize("law", CHARGED_LAWS.values(), ids=CHARGED_LAWS)


def meter_of(law, allocation, n_classes=2, budget=HUGE, *, stop_when_spent=True):
    return PerRecordMeter(law, allocation, budget, n_classes, stop_when_spent=stop_when_spent)


def some_ballots(rng, n_queries, n_teachers, n_classes=2):
    shares = rng.dirichlet(np.full(n_classes, 0.4), size=n_queries)
    return np.stack([rng.choice(n_classes, size=n_teachers, p=p) for p in shares]).astype(np.uint8)


@cache
def divergence(law, here, there):
    """Return the larger Renyi divergence of two sampled laws, either way, without help from the library."""
    p, q = (np.array(integer_weights(law, np.array([n]))[0], dtype=np.longdouble) for n in (here, there))
    p, q, orders = p / np.longdouble(2**63), q / np.longdouble(2**63), FEW_ORDERS.astype(np.longdouble) - 1
    both = []
    for one, other in ((p, q), (q, p)):
        powers = np.log(one / other)[:, None] * orders + np.log(one)[:, None]
        top = powers.max(axis=0)
        both.append((top + np.log(np.exp(powers - top).sum(axis=0))) / orders)
    return np.maximum(*both).astype(float)


def worst_alternative(law, row, teachers, n_classes):
    """Return the largest divergence over all ballots that these teachers could have cast."""
    here = tuple(np.bincount(row, minlength=n_classes).tolist())
    largest = np.zeros(len(FEW_ORDERS))
    for others in product(range(n_classes), repeat=len(teachers)):
        changed = row.copy()
        changed[teachers] = others
        there = tuple(np.bincount(changed, minlength=n_classes).tolist())
        np.maximum(largest, divergence(law, here, there), out=largest)
    return largest


def total_agrees(found, truth):
    """Never below the truth, and above it by no more than the rounding that is charged for."""
    assert np.all(found >= truth)
    assert np.all(found <= truth * (1 + 1e-5) + 1e-10)


CASES = [(2, 1, 5), (2, 2, 4), (2, 3, 3), (3, 1, 4), (4, 1, 5)]  # classes, partitions, subsets


@every_charged_law
@pytest.mark.parametrize(("n_classes", "k", "n_subsets"), CASES)
def test_each_record_is_charged_its_worst_alternative(law, n_classes, k, n_subsets):
    """Replace-one: every record's every alternative ballots, and those of the record that would come next."""
    allocation = partitions(range(9), n_subsets, k, entropy=4)
    ballots = some_ballots(np.random.default_rng(k), 6, allocation.n_teachers, n_classes)
    meter = meter_of(law, allocation, n_classes)
    assert meter.admit(Votes(ballots, n_classes)) == 6
    curves = [
        sum(worst_alternative(law, row, teachers, n_classes) for row in ballots)
        for teachers in [allocation.teachers_of(u) for u in range(9)] + [allocation.next_slot]
    ]
    epsilons = np.array([improved_epsilon(curve, FEW_ORDERS, DELTA) for curve in curves])
    total_agrees(meter.unit_epsilons(), epsilons[:-1])
    total_agrees(np.array([meter.spent_epsilon]), epsilons.max())
    total_agrees(meter.cost.rdp, np.max(curves, axis=0))
    assert meter.basis is Basis.DATA_DEPENDENT
    assert meter.accounting == "exact accounting for each record of the released labels, data-dependent"


@every_charged_law
@pytest.mark.parametrize(("n_classes", "k", "n_subsets"), CASES)
def test_under_keyed_draws_an_added_record_may_join_any_teachers(law, n_classes, k, n_subsets):
    allocation = partitions(range(9), n_subsets, k, relation=Relation.ADD_OR_REMOVE_ONE, entropy=4)
    ballots = some_ballots(np.random.default_rng(k), 6, allocation.n_teachers, n_classes)
    meter = meter_of(law, allocation, n_classes)
    meter.admit(Votes(ballots, n_classes))
    places = [[p * n_subsets + s for p, s in enumerate(subsets)] for subsets in product(range(n_subsets), repeat=k)]
    added = np.sum(
        [np.max([worst_alternative(law, row, p, n_classes) for p in places], axis=0) for row in ballots], axis=0
    )
    # Anywhere includes where the present records are.
    total_agrees(meter.cost.rdp, added)
    present = [
        sum(worst_alternative(law, row, allocation.teachers_of(u), n_classes) for row in ballots) for u in range(9)
    ]
    total_agrees(meter.unit_epsilons(), np.array([improved_epsilon(c, FEW_ORDERS, DELTA) for c in present]))


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 3), st.floats(3.0, 60.0))
def test_it_is_at_most_the_worst_case_and_the_published_charge(seed, k, n_classes, scale):
    rng = np.random.default_rng(seed)
    # With one partition of three classes the charge is compared in the tests of single queries.
    k = max(k, n_classes - 1)
    relation = list(Relation)[seed % 2]
    allocation = partitions(range(40), 8, k, relation=relation, entropy=seed)
    ballots = some_ballots(rng, 12, 8 * k, n_classes)
    law = LaplaceNoisyMax(scale)
    exact = meter_of(law, allocation, n_classes)
    published = PublishedPerRecordMeter(law, allocation, HUGE, n_classes, stop_when_spent=True)
    assert exact.admit(Votes(ballots, n_classes)) == published.admit(Votes(ballots, n_classes)) == 12
    assert np.all(exact.cost.rdp <= published.cost.rdp[AT] * (1 + 1e-9))
    worst = worst_case_cost(law, Change(ballots=8 * k, classes=n_classes, votes=k)) * 12
    assert np.all(exact.cost.rdp <= worst.rdp[AT] * (1 + 1e-12))
    assert np.all(exact.cost.rdp <= 12 * exact.one_query.rdp)
    assert np.all(exact.unit_epsilons() <= exact.spent_epsilon)
    assert exact.spent_epsilon <= exact.cost.epsilon(DELTA) * (1 + 1e-9)


def test_with_one_partition_the_most_exposed_record_pays_for_the_worst_ballot():
    allocation = partitions(range(50), 10, 1)
    votes = Votes(some_ballots(np.random.default_rng(1), 1, 10), 2)
    meter = meter_of(LaplaceNoisyMax(3.0), allocation)
    meter.admit(votes)
    assert np.allclose(meter.cost.rdp, exact_query_rdp(LaplaceNoisyMax(3.0), votes.counts)[0], rtol=1e-12)


@pytest.mark.parametrize("relation", list(Relation))
def test_records_of_one_teacher_share_one_row(relation):
    allocation = partitions(range(5000), 20, 1, relation=relation)
    meter = meter_of(LaplaceNoisyMax(4.0), allocation)
    assert meter._spent.shape == (20 + (relation is Relation.ADD_OR_REMOVE_ONE), len(FEW_ORDERS))
    meter.admit(Votes(some_ballots(np.random.default_rng(0), 30, 20), 2))
    by_teacher = dict(zip(allocation.teachers.tolist(), meter.unit_epsilons().tolist(), strict=True))
    assert np.array_equal(meter.unit_epsilons(), [by_teacher[t] for t in allocation.teachers.tolist()])
    assert len(set(by_teacher.values())) > 1


@pytest.mark.parametrize(("law", "k"), [(LaplaceNoisyMax(6.0), 4), (GaussianNoisyMax(6.0), 3)])
def test_several_teachers_and_classes_are_charged_the_worst_case_of_their_changeable_votes(law, k):
    allocation = partitions(range(30), 5, k, entropy=3)
    ballots = some_ballots(np.random.default_rng(0), 7, 5 * k, 3)
    meter = meter_of(law, allocation, 3)
    meter.admit(Votes(ballots, 3))
    members = np.vstack([allocation.teachers.reshape(30, k), allocation.next_slot])
    changeable = changeable_votes(np.ascontiguousarray(ballots.T), members, 3)
    curves = [
        sum(worst_case_cost(law, Change(ballots=5 * k, classes=3, votes=int(v))).rdp[AT] for v in row)
        for row in changeable
    ]
    assert np.allclose(meter.cost.rdp, np.max(curves, axis=0), rtol=1e-9)
    assert "exact" not in meter.accounting
    assert "data-dependent" in meter.accounting


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_chunks_do_not_change_what_is_admitted(seed, chunk):
    rng = np.random.default_rng(seed)
    allocation = partitions(range(80), 5, 4, entropy=seed)
    ballots = some_ballots(rng, 200, 20)
    budget = Budget(epsilon=3.0, delta=DELTA)

    def admitted(size):
        meter = meter_of(LaplaceNoisyMax(15.0), allocation, budget=budget)
        counts = [meter.admit(Votes(ballots[i : i + size], 2)) for i in range(0, 200, size)]
        return sum(counts), meter

    total, meter = admitted(200)
    in_parts, other = admitted(chunk)
    assert in_parts == total
    assert np.allclose(other.unit_epsilons(), meter.unit_epsilons(), rtol=1e-9)
    assert meter.spent_epsilon <= 3.0
    assert meter.sure_queries <= total <= meter.most_queries
    # The query after the last one would not have fitted.
    if total < 200:
        free = meter_of(LaplaceNoisyMax(15.0), allocation)
        free.admit(Votes(ballots[: total + 1], 2))
        assert free.spent_epsilon > 3.0


def test_with_a_fixed_number_of_queries_it_answers_all_or_refuses():
    allocation = partitions(range(40), 5, 2)
    ballots = some_ballots(np.random.default_rng(2), 200, 10)
    budget = Budget(epsilon=2.0, delta=1e-5)
    stopping = meter_of(LaplaceNoisyMax(4.0), allocation, budget=budget)
    fits = stopping.admit(Votes(ballots, 2))
    assert 0 < fits < 200
    assert stopping.admit(Votes(ballots[fits + 1 :], 2)) == 0

    fixed = meter_of(LaplaceNoisyMax(4.0), allocation, budget=budget, stop_when_spent=False)
    assert fixed.admit(Votes(ballots[:fits], 2)) == fits
    assert fixed.spent_epsilon == pytest.approx(stopping.spent_epsilon)
    for _ in range(2):
        with pytest.raises(BudgetError, match=r"epsilon=2 .* nothing was released: ask for fewer .*max_labels"):
            fixed.admit(Votes(ballots[fits:], 2))


def test_worst_case_votes_use_up_exactly_the_sure_queries():
    """Even votes, and a record whose teachers all vote the same."""
    allocation = partitions(range(20), 10, 2, entropy=0)
    teachers = allocation.teachers_of(0)
    row = np.array([1] * 20, dtype=np.uint8)
    row[[t for t in range(20) if t not in teachers][:10]] = 0
    budget = Budget(epsilon=4.0, delta=DELTA)
    meter = meter_of(LaplaceNoisyMax(10.0), allocation, budget=budget)
    # The worst row of this law is the even one or one close to it, so hardly more than the sure queries fit.
    admitted = meter.admit(Votes(np.tile(row, (500, 1)), 2))
    assert meter.sure_queries <= admitted <= 1.15 * meter.sure_queries
    assert meter.one_query.epsilon(DELTA) <= budget.epsilon


def test_a_fixed_number_of_queries_is_asked_at_once_and_else_chunks_grow():
    allocation = partitions(range(40), 5, 2)
    budget = Budget(epsilon=2.0, delta=1e-5)
    fixed = meter_of(LaplaceNoisyMax(4.0), allocation, budget=budget, stop_when_spent=False)
    assert fixed.next_chunk(0) == fixed.most_queries
    stopping = meter_of(LaplaceNoisyMax(4.0), allocation, budget=budget)
    assert stopping.next_chunk(0) == stopping.sure_queries
    assert stopping.next_chunk(400) == 100


def test_many_votes_of_a_gated_law_are_bounded_by_its_parts():
    law = ConfidentNoisyMax(threshold=600.0, threshold_sigma=90.0, sigma=60.0)
    meter = meter_of(law, partitions(range(60), 50, 40))
    meter.admit(Votes(some_ballots(np.random.default_rng(0), 3, 2000), 2))
    assert np.all(meter.cost.rdp <= 3 * meter.one_query.rdp)
    # The parts bound the whole answer from above.
    small = Change(ballots=60, classes=2, votes=2)
    assert np.all(worst_case_cost(law, small).rdp <= price(law, small).answered.rdp)


def test_nothing_asked_costs_nothing():
    meter = meter_of(LaplaceNoisyMax(3.0), partitions(range(10), 5, 2))
    assert meter.admit(Votes(np.empty((0, 10), dtype=np.uint8), 2)) == 0
    assert meter.spent_epsilon == 0
    assert not meter.unit_epsilons().any()
    assert np.array_equal(meter.cost.rdp, np.zeros(len(FEW_ORDERS)))


def test_its_costs_add_to_one_another_and_convert_like_the_librarys():
    meter = meter_of(GaussianNoisyMax(3.0), partitions(range(10), 5, 2))
    meter.admit(Votes(some_ballots(np.random.default_rng(0), 4, 10), 2))
    both = meter.cost + meter.one_query
    assert isinstance(both, PrivacyCost)
    assert both.epsilon(DELTA) > meter.cost.epsilon(DELTA)


def test_other_allocations_and_laws_are_refused():
    uneven = Allocation(
        n_teachers=3,
        offsets=np.array([0, 1, 3]),
        teachers=np.array([0, 1, 2]),
        unit_of_record=np.arange(2),
        relation=Relation.REPLACE_ONE,
        next_slot=np.array([0, 1]),
    )
    with pytest.raises(InvalidParameterError, match="the same number of teachers"):
        meter_of(LaplaceNoisyMax(2.0), uneven)
    scattered = Allocation(
        n_teachers=4,
        offsets=np.array([0, 2, 4]),
        teachers=np.array([0, 1, 2, 3]),
        unit_of_record=np.arange(2),
        relation=Relation.ADD_OR_REMOVE_ONE,
    )
    with pytest.raises(InvalidParameterError, match="where an added unit goes"):
        meter_of(LaplaceNoisyMax(2.0), scattered)
    interactive = InteractiveNoisyMax(2.0, 1.0, 1.0)
    for law in (interactive, interactive.against([[0.5, 0.5]])):
        with pytest.raises(AccountingError, match="depends on a student too"):
            meter_of(law, partitions(range(6), 3, 1))


def test_it_streams():
    """As floats, 20,000 records, 1,000 queries and 69 orders would be 11 GB."""
    allocation = partitions(range(20_000), 50, 4)
    votes = Votes(np.random.default_rng(0).integers(0, 2, (1000, 200)), 2)
    assert votes.counts.size
    meter = meter_of(LaplaceNoisyMax(100.0), allocation)
    tracemalloc.start()
    meter.admit(votes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000


def test_more_than_255_partitions_do_not_overflow():
    allocation = partitions(range(6), 2, 300)
    meter = meter_of(LaplaceNoisyMax(300.0), allocation)
    meter.admit(Votes(np.ones((5, 600), dtype=np.uint8), 2))
    assert np.all(meter.cost.rdp <= laplace_moments(300.0, 5 * 300**2).rdp[AT])
    assert np.all(meter.cost.rdp > 0.01 * laplace_moments(300.0, 5 * 300**2).rdp[AT][0])
