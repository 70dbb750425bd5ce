"""Meters of a plain run: one group, in whichever spelling, and a known number of queries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.accounting import Accounting, Group
from dpensemble.accounting.meters import data_dependent_meter, worst_case_meter
from dpensemble.accounting.meters.data_dependent import DataDependentGroupMeter, PerRecordMeter
from dpensemble.accounting.meters.gated import FilterMeter
from dpensemble.accounting.meters.published_by_record import PublishedPerRecordMeter
from dpensemble.accounting.meters.scheduled import ScheduledMeter
from dpensemble.accounting.schedule import Pool, Stage, VotingSchedule
from dpensemble.allocation import partitions
from dpensemble.errors import AccountingError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import (
    ConfidentNoisyMax,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    OptimalVote,
)
from dpensemble.votes import Votes

T = 20
CONFIDENT = ConfidentNoisyMax(15.0, 9.0, 9.0)


def budget(epsilon=1.5):
    return Budget(epsilon=epsilon, delta=1e-5)


def everyone(law, epsilon=1.5, votes=1):
    return VotingSchedule.everyone(law, T), [Group("everyone", budget(epsilon), pool=0, votes=votes)]


def in_two_pools(law, epsilon=1.5, votes=1):
    stage = Stage(law, (Pool(8, 8, ballot=1), Pool(T - 8, T - 8, ballot=1)))
    groups = [Group(name, budget(epsilon), pool=pool, votes=votes) for pool, name in enumerate("ab")]
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
    groups = [Group("a", budget(1.0), pool=0), Group("b", budget(2.0), pool=1)]
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
