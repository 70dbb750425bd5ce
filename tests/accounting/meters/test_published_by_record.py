import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.accounting import Accounting, Group
from dpensemble.accounting.meters import worst_case_meter
from dpensemble.accounting.meters.published_by_record import PublishedPerRecordMeter
from dpensemble.accounting.published import laplace_moments
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.allocation import partitions
from dpensemble.guarantee import Budget
from dpensemble.laws import LaplaceNoisyMax
from dpensemble.relations import Basis, Relation
from dpensemble.votes import Votes


def by_hand(ballots, allocation, n_classes, k):
    """Jordon et al. 2019, Algorithm 1, with loops: the sum of m squared of the worst record or ``*``."""
    groups = [allocation.teachers_of(u) for u in range(allocation.n_units)] + [allocation.next_slot]
    totals = []
    for teachers in groups:
        total = 0.0
        for row in ballots:
            shares = [np.mean(row[teachers] == c) for c in range(n_classes)]
            total += max(1 - share for share in shares) ** 2
        totals.append(total)
    return max(totals) * k**2


@given(st.integers(2, 4), st.integers(1, 5), st.integers(2, 5), st.integers(0, 10**6), st.integers(5, 40))
def test_the_streamed_sum_equals_the_loops_of_the_paper(n_classes, k, n_subsets, seed, n):
    rng = np.random.default_rng(seed)
    allocation = partitions(range(n), n_subsets, k, entropy=seed)
    bias = rng.dirichlet(np.full(n_classes, 0.5), size=9)
    ballots = np.stack([rng.choice(n_classes, size=allocation.n_teachers, p=p) for p in bias]).astype(np.uint8)
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(7.0), allocation, Budget(epsilon=1e9, delta=1e-5), n_classes, stop_when_spent=True
    )
    for start in (0, 4):
        assert meter.admit(Votes(ballots[start : start + 4 + start], n_classes)) == 4 + start // 4
    expected = laplace_moments(7.0, round(by_hand(ballots, allocation, n_classes, k)))
    assert np.allclose(meter.cost.rdp, expected.rdp, rtol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 60))
def test_chunks_do_not_change_what_is_admitted(seed, chunk):
    rng = np.random.default_rng(seed)
    allocation = partitions(range(80), 5, 4, entropy=seed)
    ballots = (rng.random((300, 20)) < rng.random((300, 1))).astype(np.uint8)
    budget = Budget(epsilon=3.0, delta=1e-3)

    def admitted(size):
        meter = PublishedPerRecordMeter(LaplaceNoisyMax(30.0), allocation, budget, 2, stop_when_spent=True)
        total = sum(meter.admit(Votes(ballots[i : i + size], 2)) for i in range(0, 300, size))
        return total, meter.spent_epsilon

    whole = admitted(300)
    assert admitted(chunk) == whole
    assert whole[1] <= 3.0
    # The query after the last one would not have fitted.
    if whole[0] < 300:
        free = PublishedPerRecordMeter(
            LaplaceNoisyMax(30.0), allocation, Budget(epsilon=1e9, delta=1e-3), 2, stop_when_spent=True
        )
        free.admit(Votes(ballots[: whole[0] + 1], 2))
        assert free.spent_epsilon > 3.0


def test_it_never_admits_fewer_than_the_worst_case_nor_more_than_the_public_limit():
    rng = np.random.default_rng(0)
    allocation = partitions(range(200), 10, 5)
    budget, law = Budget(epsilon=5, delta=1e-3), LaplaceNoisyMax(25.0)
    everyone = [Group("everyone", budget, pool=0, votes=5)]
    worst = worst_case_meter(VotingSchedule.everyone(law, 50), everyone, n_classes=2, accounting=Accounting.PUBLISHED)
    for share in (0.0, 0.5):
        meter = PublishedPerRecordMeter(law, allocation, budget, 2, stop_when_spent=True)
        ballots = (rng.random((400, 50)) < share).astype(np.uint8)
        admitted = meter.admit(Votes(ballots, 2))
        assert worst.sure_queries == meter.sure_queries <= admitted <= meter.most_queries
        if share == 0:
            assert admitted == worst.sure_queries
        else:
            assert admitted > worst.sure_queries


def test_with_one_partition_it_is_the_data_independent_cost():
    allocation = partitions(range(50), 10, 1)
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(5.0), allocation, Budget(epsilon=1e9, delta=1e-5), 2, stop_when_spent=True
    )
    ballots = np.random.default_rng(1).integers(0, 2, (20, 10))
    meter.admit(Votes(ballots, 2))
    assert np.allclose(meter.cost.rdp, laplace_moments(5.0, 20).rdp)


def test_an_added_record_is_charged():
    """All present records sit with divided teachers. Only the next free slot is unanimous."""
    allocation = partitions(range(4), 4, 2, entropy=0)
    free = set(range(8)) - set(allocation.next_slot.tolist())
    ballots = np.zeros((1, 8), dtype=np.uint8)
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(5.0), allocation, Budget(epsilon=1e9, delta=1e-5), 2, stop_when_spent=True
    )
    split = {t: i % 2 for i, t in enumerate(sorted(free))}
    for t, vote in split.items():
        ballots[0, t] = vote
    meter.admit(Votes(ballots, 2))
    assert meter.cost.rdp[0] == pytest.approx(laplace_moments(5.0, 4).rdp[0])


def test_under_keyed_draws_an_added_record_may_join_any_teachers():
    allocation = partitions(range(40), 4, 3, relation=Relation.ADD_OR_REMOVE_ONE, entropy=2)
    rng = np.random.default_rng(3)
    ballots = rng.integers(0, 2, (30, 12))
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(5.0), allocation, Budget(epsilon=1e9, delta=1e-5), 2, stop_when_spent=True
    )
    meter.admit(Votes(ballots, 2))
    expected = 0
    for row in ballots.reshape(30, 3, 4):
        expected += max(sum(bool((row[p] != c).any()) for p in range(3)) for c in (0, 1)) ** 2
    assert meter.cost.rdp[0] == pytest.approx(laplace_moments(5.0, expected).rdp[0])
    assert meter.basis is Basis.DATA_DEPENDENT


def test_it_streams():
    """20,000 records and 2,000 queries would be 320 MB as floats. The meter stays below a tenth of that."""
    allocation = partitions(range(20_000), 50, 4)
    votes = Votes(np.random.default_rng(0).integers(0, 2, (2000, 200)), 2)
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(100.0), allocation, Budget(epsilon=1e9, delta=1e-5), 2, stop_when_spent=True
    )
    tracemalloc.start()
    meter.admit(votes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32_000_000


def test_more_than_255_partitions_do_not_overflow():
    allocation = partitions(range(6), 2, 300)
    meter = PublishedPerRecordMeter(
        LaplaceNoisyMax(300.0), allocation, Budget(epsilon=1e9, delta=1e-5), 2, stop_when_spent=True
    )
    meter.admit(Votes(np.zeros((5, 600), dtype=np.uint8), 2))
    assert np.allclose(meter.cost.rdp, laplace_moments(300.0, 5 * 300**2).rdp)
