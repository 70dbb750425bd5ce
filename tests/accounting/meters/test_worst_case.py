"""Groups with budgets of their own: each is charged for its own ballots, and re-computed in plain loops.

Also meters of a plain run: one group, in any spelling, and a known number of queries.
"""

import math
from functools import partial
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.accounting import Accounting, Change, Group, price, threshold_rdp
from dpensemble.accounting.meters import data_dependent_meter, worst_case_meter
from dpensemble.accounting.meters.data_dependent import (
    FEW_ORDERS,
    DataDependentGroupMeter,
    PerRecordMeter,
    _leading_fit,
)
from dpensemble.accounting.meters.worst_case import FilterMeter, ScheduledMeter, _UnitBudget, scheduled_meter
from dpensemble.accounting.published import PublishedPerRecordMeter, gnmax_rdp, lnmax_rdp, published_group_rdp
from dpensemble.accounting.schedule import Pool, Stage, VotingSchedule
from dpensemble.allocation import partitions
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.design.by_group import _vanishing_end
from dpensemble.errors import AccountingError, BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import (
    ConfidentNoisyMax,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    OptimalVote,
)
from dpensemble.votes import Votes

BUDGET = Budget(epsilon=1, delta=1e-5)


def test_teachers_who_take_turns_last_for_more_queries():
    # Two of three vote on each query, so 33 votings of each last for 49 queries.
    stage = Stage(GaussianNoisyMax(40.0), (Pool(3, 2),))
    one = price(stage.law, Change(ballots=2, classes=2), Accounting.PUBLISHED).label
    assert one.most(Budget(epsilon=1.0, delta=1e-5), Conversion.CLASSICAL) == 33
    assert VotingSchedule((stage,)).affordable_queries([one], Group("all", BUDGET), Conversion.CLASSICAL) == 49


def test_only_records_of_teachers_who_take_turns_are_told_apart():
    schedule = VotingSchedule((Stage(GaussianNoisyMax(9.0), (Pool(4, 4), Pool(3, 2))),))
    found = schedule.payers((Group("all", BUDGET, 0), Group("turns", BUDGET, 1)))
    assert found.group.tolist() == [0, 1, 1, 1]
    assert found.teacher.tolist() == [0, 4, 5, 6]


def test_the_leading_queries_that_fit_are_as_many_as_one_by_one():
    rng, spent = np.random.default_rng(0), np.zeros((3, len(FEW_ORDERS)))
    costs = rng.random((20, 3, 1)) * 0.002 * FEW_ORDERS
    epsilons = np.array([0.5, 0.7, 0.9])
    one_by_one = [_leading_fit(spent, lambda _, n=n: costs[:n].sum(axis=0), 1, epsilons, 1e-5)[0] for n in range(1, 21)]
    fitting, after = _leading_fit(spent, lambda n: costs[:n].sum(axis=0), 20, epsilons, 1e-5)
    assert 0 < fitting < 20
    assert fitting == sum(one_by_one)
    np.testing.assert_array_equal(after, costs[:fitting].sum(axis=0))


DELTA = 1e-5
SIGMA = 9.0


def budget(epsilon):
    return Budget(epsilon=epsilon, delta=DELTA)


def trio(*rows):
    return [
        Group(name, budget(epsilon), pool, votes) for name, (epsilon, pool, votes) in zip("abc", rows, strict=False)
    ]


# Unequal shares, budgets, votes, ballots and participants, neither sorted by weight nor by budget.
VARIANTS = {
    "upsampling": (Stage(GaussianNoisyMax(SIGMA), (Pool(9, 9),)), trio((2.0, 0, 2), (1.0, 0, 1), (3.5, 0, 3))),
    "weighting": (
        Stage(GaussianNoisyMax(SIGMA), (Pool(2, 2, 2), Pool(4, 4, 1), Pool(3, 3, 3))),
        trio((2.0, 0, 1), (1.0, 1, 1), (3.5, 2, 1)),
    ),
    "vanishing": (
        Stage(GaussianNoisyMax(SIGMA), (Pool(3, 2), Pool(4, 1), Pool(2, 2))),
        trio((2.0, 0, 1), (1.0, 1, 1), (3.5, 2, 1)),
    ),
}
# Several groups are charged by their pools, for every assignment of teachers.
data_dependent = partial(data_dependent_meter, allocation=None)
each_variant = pytest.mark.parametrize("variant", VARIANTS)


def law_of(ones, total, sigma):
    """Return the sampled chances at a number of votes for the second class, mixed with a fair coin."""
    chance = 0.5 * math.erfc(-(2 * ones - total) / (2 * sigma))
    chance = (1 - 1e-6) * chance + 0.5e-6
    return 1 - chance, chance


def renyi(p, q, order):
    return math.log(sum(a * (a / b) ** (order - 1) for a, b in zip(p, q, strict=False))) / (order - 1)


def improved(rdp):
    """Convert a dictionary from orders to divergences (Canonne, Kamath and Steinke 2020)."""
    return min(value + math.log((a - 1) / a) - (math.log(DELTA) + math.log(a)) / (a - 1) for a, value in rdp.items())


def naive_one(stage, group, orders):
    """Enumerate all ballots of all who vote on a query, and all alternatives of one record."""
    ballots = [pool.ballot for pool in stage.pools for _ in range(pool.participants)]
    start = sum(pool.participants for pool in stage.pools[: group.pool])
    mine = range(start, start + group.votes)
    worst = dict.fromkeys(orders, 0.0)
    pairs = set()
    for says in product((0, 1), repeat=len(ballots)):
        for instead in product((0, 1), repeat=group.votes):
            other = list(says)
            for teacher, label in zip(mine, instead, strict=False):
                other[teacher] = label
            pairs.add((sum(np.multiply(says, ballots)), sum(np.multiply(other, ballots))))
    for here, there in pairs:
        p, q = (law_of(int(n), sum(ballots), stage.law.sigma) for n in (here, there))
        for order in orders:
            worst[order] = max(worst[order], renyi(p, q, order))
    return worst


def turns(stage, group, n_queries):
    pool = stage.pools[group.pool]
    return math.ceil(n_queries * pool.participants / pool.n_teachers)


def votes(n_queries, n_teachers, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    leaning = rng.random((n_queries, 1))
    return Votes((rng.random((n_queries, n_teachers)) < leaning).astype(np.uint8) * (n_classes - 1), n_classes)


@each_variant
def test_each_group_is_charged_its_own_worst_case(variant):
    stage, groups = VARIANTS[variant]
    meter = scheduled_meter(VotingSchedule((stage,)), groups, 2)
    orders = list(range(2, 60))
    n_queries = meter.sure_queries
    assert meter.admit(votes(n_queries, 9)) == n_queries
    for group, one, spent in zip(groups, meter._ones[0], meter.group_epsilons, strict=True):
        naive = naive_one(stage, group, orders)
        assert np.allclose(one.rdp[: len(orders)], list(naive.values()), rtol=1e-5)
        count = turns(stage, group, n_queries)
        upper = improved({order: count * value for order, value in naive.items()})
        assert spent <= min(upper * (1 + 1e-6), group.budget.epsilon)
        # Exact composition saves some, but no more than half.
        assert spent >= 0.5 * min(upper, group.budget.epsilon)
    # One more does not fit for some group.
    one_more = [meter._cost(i, n_queries + 1).epsilon(DELTA) > group.budget.epsilon for i, group in enumerate(groups)]
    assert any(one_more)


@each_variant
def test_published_charges_are_the_textbook_formula(variant):
    stage, groups = VARIANTS[variant]
    meter = scheduled_meter(VotingSchedule((stage,)), groups, 2, Accounting.PUBLISHED)

    def spent(group, n_queries):
        moved = group.votes * stage.pools[group.pool].ballot / stage.law.sigma
        count = turns(stage, group, n_queries)
        return min(a * moved**2 * count + math.log(1 / DELTA) / (a - 1) for a in range(2, 258))

    naive = 0
    while all(spent(group, naive + 1) <= group.budget.epsilon for group in groups):
        naive += 1
    assert meter.sure_queries == meter.most_queries == naive
    meter.admit(votes(naive, 9))
    assert meter.group_epsilons == pytest.approx([spent(group, naive) for group in groups], rel=1e-9)
    assert meter.spent_epsilon == max(meter.group_epsilons)
    assert "Boenisch" in meter.accounting


@each_variant
@pytest.mark.parametrize(
    "make",
    [worst_case_meter, partial(data_dependent, stop_when_spent=True)],
    ids=["worst", "data"],
)
def test_the_order_of_the_groups_changes_nothing_else(variant, make):
    stage, groups = VARIANTS[variant]
    found = set()
    for order in permutations(range(3)):
        meter = make(VotingSchedule((stage,)), [groups[i] for i in order], n_classes=2)
        admitted = meter.admit(votes(meter.sure_queries, 9))
        by_name = {meter.groups[i].name: meter.group_epsilons[i] for i in range(3)}
        found.add((admitted, tuple(round(by_name[name], 12) for name in "abc")))
    assert len(found) == 1
    assert len(set(found.pop()[1])) == 3


@pytest.mark.parametrize("accounting", Accounting)
@pytest.mark.parametrize(
    "law", [LaplaceNoisyMax(9.0), GaussianNoisyMax(9.0), ConfidentNoisyMax(15.0, 9.0, 9.0)], ids=repr
)
@pytest.mark.parametrize(
    ("pools", "groups"),
    [
        ((Pool(25, 25),), trio((1.5, 0, 2), (1.5, 0, 2))),
        ((Pool(10, 10), Pool(15, 15)), trio((1.5, 0, 2), (1.5, 1, 2))),
    ],
    ids=["shared pool", "pools"],
)
def test_equal_groups_are_one_group(pools, groups, law, accounting):
    options = {"n_classes": 2, "accounting": accounting}
    meter = worst_case_meter(VotingSchedule((Stage(law, pools),)), groups, **options)
    plain = worst_case_meter(VotingSchedule.everyone(law, 25), [Group("all", budget(1.5), 0, 2)], **options)
    assert (meter.sure_queries, meter.most_queries) == (plain.sure_queries, plain.most_queries)
    assert meter.next_chunk(0) == plain.next_chunk(0)
    chunk = votes(max(1, meter.sure_queries), 25)
    assert meter.admit(chunk) == plain.admit(chunk)
    outcomes = np.where(np.arange(chunk.n_queries) % 3, 0, 2)[: meter._asked]
    meter.settle(outcomes, 2)
    plain.settle(outcomes, 2)
    assert meter.group_epsilons == plain.group_epsilons * 2 == (plain.spent_epsilon,) * 2
    assert meter.charged_epsilon == plain.charged_epsilon
    assert np.array_equal(meter.cost.rdp, plain.cost.rdp)
    assert meter.spend_curve() == [(asked, epsilons * 2) for asked, epsilons in plain.spend_curve()]
    assert meter.next_chunk(meter._asked) == plain.next_chunk(plain._asked)
    assert law.gated or not plain.next_chunk(plain._asked)


@pytest.mark.parametrize("accounting", Accounting)
@pytest.mark.parametrize("variant", ["weighting", "vanishing"])
def test_who_is_spent_drops_out_and_the_rest_goes_on(variant, accounting):
    stage, groups = VARIANTS[variant]
    law = GaussianNoisyMax(5 * stage.law.sigma)
    stage = Stage(law, stage.pools)
    stages = _vanishing_end(stage, groups, 2, accounting)
    assert len(stages) >= 2
    assert all(one.n_queries >= 1 for one in stages)
    for one in stages:
        assert one.law.sigma == pytest.approx(law.sigma * one.total / stage.total)
    for before, after in pairwise(stages):
        assert after.total < before.total
        # No group comes back.
        assert all(p.participants >= q.participants for p, q in zip(before.pools, after.pools, strict=False))
    meter = scheduled_meter(VotingSchedule(stages), groups, 2, accounting)
    assert meter.sure_queries == sum(one.n_queries for one in stages)
    assert meter.sure_queries > scheduled_meter(VotingSchedule((stage,)), groups, 2, accounting).sure_queries
    for epsilon, group in zip(meter._epsilons(meter.sure_queries), groups, strict=True):
        assert 0 < epsilon <= group.budget.epsilon
    # Each stage ends because some group in it cannot pay for one more of its queries.
    for last in range(1, len(stages) + 1):
        longer = (
            *stages[: last - 1],
            Stage(stages[last - 1].law, stages[last - 1].pools, stages[last - 1].n_queries + 1),
        )
        extended = scheduled_meter(VotingSchedule(longer), groups, 2, accounting)
        assert extended.sure_queries == sum(one.n_queries for one in stages[:last])
    # Walking through it respects the stages.
    asked = 0
    while size := meter.next_chunk(asked):
        assert size <= VotingSchedule(stages).left_in_stage(asked, size)
        assert meter.admit(votes(size, 9, asked)) == size
        asked += size
    assert asked == meter.sure_queries
    assert meter.admit(votes(1, 9)) == 0
    curve = meter.spend_curve(12)
    assert len(curve) <= 12
    assert curve[-1][0] == asked
    assert curve[-1][1] == pytest.approx(meter.group_epsilons)
    assert np.all(np.diff([epsilons for _, epsilons in curve], axis=0) >= 0)


def test_a_stage_that_cannot_be_afforded_ends_the_run_earlier():
    stage, groups = VARIANTS["weighting"]
    alone = scheduled_meter(VotingSchedule((stage,)), groups, 2).sure_queries
    for lengths, expected in (((alone + 5, 3), alone), ((alone - 1, None), alone), ((1, 1), 2)):
        stages = tuple(Stage(stage.law, stage.pools, length) for length in lengths)
        found = scheduled_meter(VotingSchedule(stages), groups, 2).sure_queries
        assert found <= expected
        assert found >= expected - max(1, expected // 6)


def test_the_spend_curve_agrees_with_the_charge():
    stage, groups = VARIANTS["upsampling"]
    meter = scheduled_meter(VotingSchedule((stage,)), groups, 2)
    assert meter.spend_curve() == []
    meter.admit(votes(meter.sure_queries, 9))
    curve = meter.spend_curve(5)
    assert [count for count, _ in curve][-1] == meter.sure_queries
    assert curve[-1][1] == pytest.approx(meter.group_epsilons, rel=1e-9)
    for count, epsilons in curve:
        assert epsilons == pytest.approx(meter._epsilons(count), rel=0.03)


GATED = ConfidentNoisyMax(6.0, 12.0, 16.0)


@each_variant
@pytest.mark.parametrize("accounting", Accounting)
@settings(max_examples=4)
@given(seed=st.integers(0, 10**6), share=st.floats(0, 1))
def test_filters_never_exceed_a_budget_and_count_turns(variant, accounting, seed, share):
    stage, groups = VARIANTS[variant]
    stage = Stage(GATED, stage.pools)
    schedule = VotingSchedule((stage,), entropy=3)
    meter = FilterMeter(schedule, groups, 2, accounting)
    rng = np.random.default_rng(seed)
    # Plain counting, teacher by teacher. A group that does not take part pays nothing.
    checks, labels = np.zeros((3, 9)), np.zeros((3, 9))
    starts = np.cumsum([0, *(pool.n_teachers for pool in stage.pools)])
    asked, guaranteed = 0, meter.sure_queries
    while (size := min(meter.next_chunk(asked), 50)) > 0:
        assert meter.admit(votes(size, 9)) == size
        outcomes = np.where(rng.random(size) < share, 2, 0)
        meter.settle(outcomes, 2)
        ballots = schedule.ballots(asked, size)
        asked += size
        for i, group in enumerate(groups):
            for t in range(starts[group.pool], starts[group.pool + 1]):
                checks[i, t] += np.count_nonzero(ballots[:, t])
                labels[i, t] += np.count_nonzero(ballots[outcomes < 2, t])
        spent = []
        for i, f in enumerate(meter._filters):
            amount = (checks[i] * f.check + labels[i] * f.label).max()
            assert amount <= f.allowed
            if isinstance(f, _UnitBudget):
                # Whole queries' units: composed, or by their curve where that is less.
                queries = -(-int(amount) // int(f.check + f.label))
                rdp = np.maximum(
                    queries * f.one.rdp, amount / f.check * price(GATED, stage.change_by(groups[i], 2)).check.rdp
                )
                exact = f.one.composition.curve(queries).epsilon(DELTA)
                spent.append(min(exact, PrivacyCost(rdp=rdp).epsilon(DELTA)))
                continue
            beyond = math.log(1 / DELTA) / (f.order - 1)
            if accounting is Accounting.EXACT:
                beyond = math.log((f.order - 1) / f.order) - (math.log(DELTA) + math.log(f.order)) / (f.order - 1)
            spent.append(amount + beyond)
        assert meter.charged_group_epsilons == pytest.approx(spent, rel=1e-9)
        assert all(s <= group.budget.epsilon for s, group in zip(spent, groups, strict=True))
    assert guaranteed <= asked <= meter.most_queries
    assert meter.admit(votes(1, 9)) == 0
    assert meter.group_epsilons == tuple(group.budget.epsilon for group in groups)
    assert meter.spent_epsilon == 3.5
    assert asked > 0
    assert meter.spend_curve()[-1] == (asked, meter.charged_group_epsilons)
    assert len(meter.spend_curve(2)) <= 2
    if share < 1e-3:
        assert asked <= guaranteed + 1


def test_a_filter_gives_back_to_those_who_took_part_only():
    stage = Stage(GATED, (Pool(4, 1), Pool(3, 3)))
    groups = trio((9.0, 0, 1), (9.0, 1, 1))
    schedule = VotingSchedule((stage,))
    meter = FilterMeter(schedule, groups, 2)
    before = meter.next_chunk(0)
    meter.admit(votes(2, 7))
    with pytest.raises(AccountingError, match="2 queries admitted last"):
        meter.settle(np.zeros(1, dtype=int), 2)
    meter.settle(np.array([2, 0]), 2)
    took_part = schedule.ballots(0, 2)[:, :4]
    assert meter._labels.tolist() == [*took_part[1].tolist(), 1]
    assert meter._checks.tolist() == [*took_part.sum(axis=0).tolist(), 2]
    assert before - 2 <= meter.next_chunk(2) <= before
    with pytest.raises(AccountingError, match="0 queries admitted last"):
        meter.settle(np.array([2]), 2)


@each_variant
def test_data_dependent_charges_are_a_plain_loop(variant):
    stage, groups = VARIANTS[variant]
    schedule = VotingSchedule((stage,), entropy=1)
    meter = DataDependentGroupMeter(
        schedule,
        [Group(g.name, budget(50 + i), g.pool, g.votes) for i, g in enumerate(groups)],
        2,
        stop_when_spent=False,
    )
    asked = votes(40, 9, seed=4)
    assert meter.admit(Votes(asked.ballots[:13], 2)) == 13
    assert meter.admit(Votes(asked.ballots[13:], 2)) == 27
    ballots = schedule.ballots(0, 40)
    starts = np.cumsum([0, *(pool.n_teachers for pool in stage.pools)])
    for group, spent in zip(groups, meter.group_epsilons, strict=True):
        moved, largest = group.votes * stage.pools[group.pool].ballot, 0.0
        for teacher in range(starts[group.pool], starts[group.pool + 1]):
            rdp = dict.fromkeys(FEW_ORDERS[:30].tolist(), 0.0)
            for query in range(40):
                if ballots[query, teacher]:
                    ones = int(ballots[query] @ asked.ballots[query])
                    reached = {max(0, ones - moved), min(stage.total, ones + moved)}
                    here = law_of(ones, stage.total, stage.law.sigma)
                    for order in rdp:
                        rdp[order] += max(
                            max(renyi(here, other, order), renyi(other, here, order))
                            for other in (law_of(n, stage.total, stage.law.sigma) for n in reached)
                        )
            largest = max(largest, improved(rdp))
        assert largest * (1 - 1e-9) <= spent <= largest * (1 + 1e-5)
    assert meter.spend_curve() is None
    assert "data-dependent" in meter.accounting


@pytest.mark.parametrize("n_classes", [2, 3])
@each_variant
def test_a_data_dependent_run_stops_before_any_budget_is_exceeded(variant, n_classes):
    stage, groups = VARIANTS[variant]
    chunk = votes(600, 9, seed=2, n_classes=n_classes)
    options = {"n_classes": n_classes}
    meter = data_dependent(VotingSchedule((stage,)), groups, **options, stop_when_spent=True)
    admitted = meter.admit(chunk)
    assert meter.sure_queries <= admitted < 600
    assert all(e <= group.budget.epsilon for e, group in zip(meter.group_epsilons, groups, strict=True))
    assert meter.admit(chunk) == 0
    # One more would not have fitted.
    free = data_dependent(
        VotingSchedule((stage,)),
        [Group(g.name, budget(500), g.pool, g.votes) for g in groups],
        **options,
        stop_when_spent=True,
    )
    free.admit(Votes(chunk.ballots[: admitted + 1], n_classes))
    assert any(e > group.budget.epsilon for e, group in zip(free.group_epsilons, groups, strict=True))
    fixed = data_dependent(VotingSchedule((stage,)), groups, **options)
    with pytest.raises(BudgetError, match="nothing was released"):
        fixed.admit(chunk)
    assert fixed.admit(chunk.__class__(chunk.ballots[:0], n_classes)) == 0


def test_who_sits_out_pays_nothing_for_a_stage():
    stage, groups = VARIANTS["weighting"]
    first = Stage(stage.law, (stage.pools[0], stage.pools[1], Pool(3, 0)), 2)
    for meter in (
        scheduled_meter(VotingSchedule((first, stage)), groups, 2),
        DataDependentGroupMeter(VotingSchedule((first, stage)), groups, 2, stop_when_spent=True),
    ):
        assert meter.next_chunk(0) == 2
        with pytest.raises(InvalidParameterError, match="present stage"):
            meter.admit(votes(3, 9))
        assert meter.admit(votes(2, 9)) == 2
        assert meter.group_epsilons[2] == 0
        assert min(meter.group_epsilons[:2]) > 0
        assert meter.admit(votes(1, 9)) == 1
        assert meter.group_epsilons[2] > 0


@settings(max_examples=25)
@given(
    st.sampled_from(sorted(VARIANTS)),
    st.lists(st.floats(0.3, 8), min_size=3, max_size=3),
    st.integers(0, 2),
    st.floats(1, 3),
    st.sampled_from(["published", "data", "gated"]),
)
def test_larger_budgets_never_admit_less(variant, epsilons, which, factor, kind):
    stage, groups = VARIANTS[variant]

    def sure(epsilons):
        own = [Group(g.name, budget(e), g.pool, g.votes) for g, e in zip(groups, epsilons, strict=False)]
        here = Stage(GATED, stage.pools) if kind == "gated" else stage
        if kind == "data":
            return data_dependent(VotingSchedule((here,)), own, n_classes=2).sure_queries
        accounting = Accounting.PUBLISHED if kind == "published" else Accounting.EXACT
        return worst_case_meter(VotingSchedule((here,)), own, n_classes=2, accounting=accounting).sure_queries

    richer = [e * factor if i == which else e for i, e in enumerate(epsilons)]
    assert sure(epsilons) <= sure(richer)


@pytest.mark.parametrize("accounting", Accounting)
def test_a_heavier_ballot_of_its_own_never_gives_a_group_more(accounting):
    def sure(own):
        # The law is fixed, as are the ballots of the rest. The first group is the poorest.
        stage = Stage(GaussianNoisyMax(30.0), (Pool(5, 5, own), Pool(20, 20, 2)))
        meter = scheduled_meter(VotingSchedule((stage,)), trio((0.8, 0, 1), (50.0, 1, 1)), 2, accounting)
        return meter.sure_queries

    found = [sure(own) for own in (1, 2, 3, 8)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def test_a_group_that_cannot_pay_is_named_with_what_it_needs():
    stage, _ = VARIANTS["weighting"]
    for law, make in (
        (GaussianNoisyMax(5.0), worst_case_meter),
        (GATED, worst_case_meter),
        (GaussianNoisyMax(5.0), data_dependent),
    ):
        schedule = VotingSchedule((Stage(law, stage.pools),))
        poor = trio((5.0, 0, 1), (6.0, 1, 1), (0.01, 2, 1))
        with pytest.raises(BudgetError, match=r"of group 'c' .* the smallest epsilon that would do is") as caught:
            make(schedule, poor, n_classes=2).require_one_query()
        enough = float(str(caught.value).split("would do is ")[1].split(",")[0])
        richer = [*poor[:2], Group("c", budget(enough), 2)]
        meter = make(schedule, richer, n_classes=2)
        meter.require_one_query()
        assert meter.admit(votes(1, 9)) == 1
    with pytest.raises(BudgetError, match="of group 'c'"):
        _vanishing_end(Stage(GaussianNoisyMax(5.0), stage.pools), poor, 2)


def test_published_bounds_at_a_groups_sensitivity():
    counts, orders = np.array([[90, 60], [140, 10]]), [2.0, 8.0]
    law = ConfidentNoisyMax(100.0, 30.0, 20.0)
    found = published_group_rdp(law, counts, orders, 3)
    assert np.array_equal(found.label, gnmax_rdp(counts, 20.0, orders, 3))
    assert np.array_equal(found.check, threshold_rdp(counts, 100.0, 30.0, orders, 3))
    assert np.all(found.label <= np.array(orders) * (3 / 20) ** 2)
    plain = published_group_rdp(LaplaceNoisyMax(20.0), counts, orders, 2)
    assert np.array_equal(plain.label, lnmax_rdp(counts, 20.0, orders, 2))
    assert not plain.check.any()
    assert not published_group_rdp(law, counts, orders, 0).label.any()
    for other in (InteractiveNoisyMax(1.0, 1.0, 1.0), "law"):
        with pytest.raises(AccountingError, match="no published data-dependent bound"):
            published_group_rdp(other, counts, orders, 1)


def test_groups_that_do_not_match_the_schedule_are_refused():
    law = GaussianNoisyMax(5.0)
    two = Stage(law, (Pool(3, 3), Pool(4, 2)))
    good = trio((1.0, 0, 1), (2.0, 1, 1))
    bad = [
        [],
        [good[0]],
        [good[0], Group("a", budget(1), 1)],
        [good[0], Group("b", budget(1), 2)],
        [good[0], Group("b", budget(1), 1, 2)],
        [Group("a", budget(1), 0, 4), good[1]],
        [good[0], Group("b", Budget(epsilon=1, delta=1e-6), 1)],
    ]
    for groups in bad:
        with pytest.raises(InvalidParameterError):
            worst_case_meter(VotingSchedule((two,)), groups, n_classes=2)
    for make in (lambda: Group("a", budget(1), -1), lambda: Group("a", budget(1), 0, 0)):
        with pytest.raises(InvalidParameterError):
            make()
    gated = Stage(GATED, two.pools)
    with pytest.raises(InvalidParameterError, match="must be one"):
        worst_case_meter(VotingSchedule((Stage(GATED, two.pools, 3), gated)), good, n_classes=2)
    with pytest.raises(InvalidParameterError, match="one direction"):
        data_dependent(VotingSchedule((two,)), good, n_classes=2, accounting=Accounting.PUBLISHED)
    with pytest.raises(AccountingError, match="student"):
        data_dependent(VotingSchedule((Stage(InteractiveNoisyMax(1.0, 1.0, 1.0), two.pools),)), good, n_classes=2)
    shared = Stage(law, (Pool(9, 9),))
    for stage, groups in (
        (shared, trio((1.0, 0, 1), (2.0, 0, 2))),
        (gated, good),
        (Stage(law, two.pools, 3), good),
    ):
        with pytest.raises(InvalidParameterError):
            _vanishing_end(stage, groups, 2)
    with pytest.raises(DataError, match="all 7 teachers"):
        worst_case_meter(VotingSchedule((two,)), good, n_classes=2).admit(votes(1, 6))


T = 20
CONFIDENT = ConfidentNoisyMax(15.0, 9.0, 9.0)


def small_budget(epsilon=1.5):
    return Budget(epsilon=epsilon, delta=1e-5)


def everyone(law, epsilon=1.5, votes=1):
    return VotingSchedule.everyone(law, T), [Group("everyone", small_budget(epsilon), pool=0, votes=votes)]


def in_two_pools(law, epsilon=1.5, votes=1):
    stage = Stage(law, (Pool(8, 8, ballot=1), Pool(T - 8, T - 8, ballot=1)))
    groups = [Group(name, small_budget(epsilon), pool=pool, votes=votes) for pool, name in enumerate("ab")]
    return VotingSchedule((stage,)), groups


def ballots(n_queries, seed=0):
    rng = np.random.default_rng(seed)
    return Votes((rng.random((n_queries, T)) < rng.random((n_queries, 1))).astype(np.uint8), 2)


@pytest.mark.parametrize("accounting", Accounting)
@pytest.mark.parametrize("votes", [1, 3])
@pytest.mark.parametrize("law", [LaplaceNoisyMax(9.0), GaussianNoisyMax(9.0), CONFIDENT], ids=repr)
def test_two_pools_of_equal_ballots_and_budgets_are_one_group(law, votes, accounting):
    one, two = (
        worst_case_meter(*spelling(law, 20.0, votes), n_classes=2, accounting=accounting)
        for spelling in (everyone, in_two_pools)
    )
    assert one.sure_queries == two.sure_queries > 0
    assert one.most_queries == two.most_queries
    chunk = ballots(one.sure_queries)
    outcomes = np.where(np.arange(chunk.n_queries) % 3, 1, 2 if law.gated else 0)
    for meter in (one, two):
        assert meter.admit(chunk) == chunk.n_queries
        meter.settle(outcomes, 2)
    assert two.group_epsilons == one.group_epsilons * 2
    assert (two.spent_epsilon, two.charged_epsilon) == (one.spent_epsilon, one.charged_epsilon)
    assert two.next_chunk(chunk.n_queries) == one.next_chunk(chunk.n_queries)
    np.testing.assert_array_equal(one.cost.rdp, two.cost.rdp)
    np.testing.assert_array_equal(one.one_query.rdp, two.one_query.rdp)


def test_votes_at_hand_are_charged_alike_by_record_and_by_group_where_a_record_has_one_teacher():
    """Replace-one with one partition: the worst record is one who could have changed any ballot that was cast."""
    law, chunk = LaplaceNoisyMax(9.0), ballots(12)
    schedule, groups = everyone(law, 50.0)
    by_record = data_dependent_meter(schedule, groups, partitions(range(60), T, 1), n_classes=2)
    by_group = DataDependentGroupMeter(schedule, groups, 2, stop_when_spent=False)
    in_pools = data_dependent_meter(*in_two_pools(law, 50.0), partitions(range(60), T, 1), n_classes=2)
    assert isinstance(by_record, PerRecordMeter)
    assert isinstance(in_pools, DataDependentGroupMeter)
    for meter in (by_record, by_group, in_pools):
        assert meter.admit(chunk) == 12
    assert in_pools.group_epsilons == by_group.group_epsilons * 2
    # Knowing which ballot a record has cannot cost more than not knowing it.
    assert by_record.spent_epsilon <= by_group.spent_epsilon * (1 + 1e-9)


@settings(max_examples=20)
@given(
    st.one_of(
        st.floats(4.0, 40.0).map(LaplaceNoisyMax),
        st.floats(4.0, 40.0).map(GaussianNoisyMax),
        st.floats(20.0, 90.0).map(OptimalVote),
    ),
    st.integers(1, 300),
)
def test_a_known_number_of_queries_caps_what_fits_and_changes_nothing_below(law, queries):
    fits = worst_case_meter(*everyone(law), n_classes=2).sure_queries
    capped = worst_case_meter(*everyone(law), n_classes=2, queries=queries)
    assert capped.sure_queries == capped.most_queries == min(queries, fits)
    assert worst_case_meter(*in_two_pools(law), n_classes=2, queries=queries).sure_queries == min(queries, fits)


@pytest.mark.parametrize("accounting", Accounting)
@pytest.mark.parametrize("queries", [1, 7, 40, 1000])
def test_a_known_number_of_queries_never_costs_a_schedule_any(queries, accounting):
    law = GaussianNoisyMax(30.0)
    groups = [Group("a", small_budget(1.0), pool=0), Group("b", small_budget(2.0), pool=1)]
    turns = Pool(9, 4), Pool(7, 7)
    for stages in (
        (Stage(law, turns),),
        (Stage(law, turns, 5), Stage(law.scaled(0.5), (Pool(9, 0), Pool(7, 7)))),
    ):
        free, capped = (
            worst_case_meter(VotingSchedule(stages), groups, n_classes=2, accounting=accounting, queries=known)
            for known in (None, queries)
        )
        assert min(queries, free.sure_queries) <= capped.sure_queries <= free.sure_queries
        chunk = min(queries, capped.next_chunk(0))
        votes = Votes(np.zeros((chunk, 16), dtype=np.uint8), 2)
        assert free.admit(votes) == capped.admit(votes) == chunk
        assert capped.group_epsilons == free.group_epsilons


def test_each_law_and_analysis_has_its_meter():
    allocation = partitions(range(60), T, 1)
    assert isinstance(worst_case_meter(*everyone(LaplaceNoisyMax(9.0)), n_classes=2), ScheduledMeter)
    for law in (CONFIDENT, InteractiveNoisyMax(15.0, 9.0, 9.0)):
        assert isinstance(worst_case_meter(*everyone(law), n_classes=2), FilterMeter)
    published = data_dependent_meter(
        *everyone(LaplaceNoisyMax(9.0)), allocation, n_classes=2, accounting=Accounting.PUBLISHED
    )
    assert isinstance(published, PublishedPerRecordMeter)
    with pytest.raises(InvalidParameterError):
        data_dependent_meter(*everyone(GaussianNoisyMax(9.0)), allocation, n_classes=2, accounting=Accounting.PUBLISHED)
    with pytest.raises(AccountingError, match="student"):
        data_dependent_meter(*everyone(InteractiveNoisyMax(15.0, 9.0, 9.0)), allocation, n_classes=2)
