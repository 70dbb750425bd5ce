"""Who votes on what: the dealing is fair, repeatable and public."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.accounting.schedule import Pool, Stage, VotingSchedule
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import GaussianNoisyMax
from dpensemble.votes import Votes

LAW = GaussianNoisyMax(3.0)
sizes = st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))


def dealt(size, hand, n_queries, entropy=0):
    return VotingSchedule((Stage(LAW, (Pool(size, hand),)),), entropy).ballots(0, n_queries)


@given(sizes, st.integers(1, 60), st.integers(0, 5))
def test_every_hand_is_full_and_the_dealing_is_balanced_at_all_times(size_and_hand, n_queries, entropy):
    size, hand = size_and_hand
    ballots = dealt(size, hand, n_queries, entropy)
    assert ballots.shape == (n_queries, size)
    # No teacher votes twice on a query.
    assert set(np.unique(ballots)) <= {0, 1}
    assert np.all(ballots.sum(axis=1) == hand)
    votings = np.cumsum(ballots, axis=0)
    assert np.all(np.ptp(votings, axis=1) <= 1)
    pool = Pool(size, hand)
    assert votings.max(axis=1).tolist() == [pool.turns(n) for n in range(1, n_queries + 1)]


@given(sizes, st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 9))
def test_random_access_is_sequential_access(size_and_hand, places, length):
    size, hand = size_and_hand
    whole = dealt(size, hand, 60)
    schedule = VotingSchedule((Stage(LAW, (Pool(size, hand),)),))
    for place in places:
        assert np.array_equal(schedule.ballots(place, length), whole[place : place + length])


def test_decks_are_shuffled_anew_and_by_the_seed_and_the_stage():
    stage = Stage(LAW, (Pool(40, 20), Pool(40, 20)), 20)
    schedule = VotingSchedule((stage, stage))
    first, second = (schedule.ballots(start, 20) for start in (0, 20))
    assert not np.array_equal(first[0], first[2])
    assert not np.array_equal(first[:, :40], first[:, 40:])
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, VotingSchedule((stage, stage), 1).ballots(0, 20))
    assert np.array_equal(first, VotingSchedule((stage, stage)).ballots(0, 20))
    # No clique: all pairs of teachers meet sooner or later.
    often = dealt(8, 3, 400)
    assert (often.T @ often).min() > 20


def test_stages_follow_each_other():
    pools = Pool(4, 4), Pool(2, 1, ballot=5)
    alone = pools[0], Pool(2, 0, ballot=7)
    other = GaussianNoisyMax(1.0)
    schedule = VotingSchedule((Stage(LAW, pools, 3), Stage(other, alone, 0), Stage(other, alone)))
    assert [schedule.stage_at(asked) for asked in (0, 2, 3, 50)] == [(0, 0), (0, 2), (2, 0), (2, 47)]
    assert [schedule.law(asked) for asked in (2, 3)] == [LAW, other]
    assert [schedule.left_in_stage(asked, 10) for asked in (0, 2, 3)] == [3, 1, 10]
    assert schedule.n_queries is None
    assert schedule.n_teachers == 6
    assert (schedule.stages[0].total, schedule.stages[2].total) == (9, 4)
    assert schedule.ballots(0, 3).sum(axis=1).tolist() == [9] * 3
    assert schedule.ballots(3, 2).tolist() == [[1, 1, 1, 1, 0, 0]] * 2
    ended = VotingSchedule((Stage(LAW, pools, 3), Stage(other, alone, 2)))
    assert ended.n_queries == 5
    assert [ended.left_in_stage(asked, 10) for asked in (4, 5, 9)] == [1, 0, 0]


def test_counts_are_sums_of_the_ballots_of_those_who_take_part():
    rng = np.random.default_rng(0)
    votes = Votes(rng.integers(0, 3, (11, 9)).astype(np.uint8), 3)
    schedule = VotingSchedule((Stage(LAW, (Pool(4, 4, 2), Pool(5, 2, 7))),))
    counts = schedule.counts(votes, 6)
    ballots = schedule.ballots(6, 11)
    for query in range(11):
        expected = [0, 0, 0]
        for teacher in range(9):
            expected[votes.ballots[query, teacher]] += int(ballots[query, teacher])
        assert counts[query].tolist() == expected
    assert np.all(counts.sum(axis=1) == schedule.stages[0].total)


def test_everyone_votes_as_ever():
    votes = Votes(np.random.default_rng(0).integers(0, 3, (5, 7)).astype(np.uint8), 3)
    schedule = VotingSchedule.everyone(LAW, 7)
    assert np.array_equal(schedule.counts(votes, 3), votes.counts)
    assert schedule.stages[0].total == 7
    assert schedule.n_queries is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: Pool(0, 0),
        lambda: Pool(3, 4),
        lambda: Pool(3, -1),
        lambda: Pool(3, 3, 0),
        lambda: Pool(3, 3, 1.5),
        lambda: VotingSchedule(()),
        lambda: VotingSchedule((Stage(LAW, (Pool(3, 0),)),)),
        lambda: VotingSchedule((Stage(LAW, (Pool(3, 3),)), Stage(LAW, (Pool(3, 3),)))),
        lambda: VotingSchedule((Stage(LAW, (Pool(3, 3),), 2), Stage(LAW, (Pool(4, 3),)))),
    ],
)
def test_schedules_that_make_no_sense_are_refused(make):
    with pytest.raises(InvalidParameterError):
        make()


def test_nothing_asked_is_nothing_dealt():
    schedule = VotingSchedule((Stage(GaussianNoisyMax(1.0), (Pool(4, 3),)),))
    assert schedule.ballots(0, 0).shape == (0, 4)
    assert schedule.counts(Votes(np.zeros((0, 4), dtype=int), 2), 5).shape == (0, 2)
