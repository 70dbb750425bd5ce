"""Methods that only experiments use.

What the experiments count agrees with the library's own meters, and with what can be worked out by hand. Counts with
the conjecture of DPBag are never fewer than those by theorems. Trees in blocks are those of a plain implementation.
"""

import numpy as np
import pytest

from dpensemble.accounting.published import PublishedPerRecordMeter
from dpensemble.allocation import partitions
from dpensemble.design import ByGroup, Census, InfluenceRule, Personalisation
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax, LawChoice
from dpensemble.votes import Votes
from reproductions import dpbag
from reproductions.darrm import published_sigma, solved
from reproductions.data import load_table
from reproductions.dpbag import PUBLISHED_DELTA
from reproductions.dpbag_conjecture import labels, moments
from reproductions.personalised_counts import by_meter, by_the_paper
from reproductions.small_trees import BoostedTrees, thresholds_of


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("agreement", [0.5, 0.95])
def test_personalised_labels_are_those_of_the_meter(epsilon, agreement):
    n, k = 20, 5
    allocation = partitions(range(103), n, k, entropy=3)
    ballots = (np.random.default_rng(0).random((300, n * k)) < agreement).astype(np.uint8)
    budget, law = Budget(epsilon=epsilon, delta=1e-3), LaplaceNoisyMax(n * k / 2)
    meter = PublishedPerRecordMeter(law, allocation, budget, 2, stop_when_spent=True)
    members = allocation.memberships
    sums = np.zeros(len(members), dtype=np.int64)
    # In two chunks, as the experiment asks.
    spent = np.concatenate([dpbag.charged(part, members, sums) for part in (ballots[:40], ballots[40:])])
    counted = dpbag._fitting(spent, law.scale, epsilon, 1e-3)
    assert counted == meter.admit(Votes(ballots, 2))
    assert 0 < counted < 300


@pytest.mark.parametrize(
    ("n", "printed"), [(50, (11, 85, 211)), (100, (43, 338, 843)), (150, (95, 759, 1897)), (250, (264, 2108, 5269))]
)
def test_the_data_independent_counts_of_the_paper_belong_to_delta_1e_3(n, printed):
    found = tuple(dpbag.published_labels(n / 2, 1, epsilon, 1e-3) + 1 for epsilon in (1, 3, 5))
    assert found == printed


def test_the_printed_noise_of_gnmax_follows_from_the_privacy_of_an_answer():
    assert published_sigma(3 * 0.0892, 3e-4) == pytest.approx(21.46, abs=0.005)
    assert published_sigma(3 * 0.0852, 3e-4) == pytest.approx(22.46, abs=0.005)


def test_a_gamma_of_all_errs_no_more_than_a_monotone_one():
    settings = {"teachers": 11, "epsilon": 0.1, "Delta": 1e-5, "slack": 0.0, "prior": 0.75}
    assert solved(settings, 3, "all").error <= solved(settings, 3).error + 1e-9


def group_design(epsilon):
    budget = Budget(epsilon=epsilon, delta=1e-5)
    return ByGroup(
        name="weighting-pate",
        kind=Personalisation.WEIGHTING,
        choice=LawChoice.of(GaussianNoisyMax(10.0)),
        n_teachers=50,
        census=Census(names=("all",), budgets=(budget,), shares=(500,)),
        rule=InfluenceRule(published=True),
    )


def test_unanimous_votes_last_longer_than_split_ones_and_a_budget_longer_than_its_half():
    split = Votes(np.tile([0, 1], (400, 25)), 2)
    agreed = Votes(np.zeros((400, 50), dtype=int), 2)
    few, many = (len(by_the_paper(votes, group_design(1.0), 0).asked) for votes in (split, agreed))
    assert 0 < few < many
    assert few < len(by_the_paper(split, group_design(2.0), 0).asked)
    # Votes do not matter to the worst case.
    assert by_meter(split, group_design(1.0), 0) == by_meter(agreed, group_design(1.0), 0)
    history = by_the_paper(split, group_design(1.0), 0).history[0]
    assert history[100] < by_the_paper(split, group_design(1.0), 0).at_end[0]


def test_a_budget_that_buys_nothing_gives_no_label():
    votes = Votes(np.zeros((5, 50), dtype=int), 2)
    assert by_meter(votes, group_design(0.001), 0) == 0


def test_tables_of_the_reproductions_have_two_kinds_of_rows():
    adult = load_table("adult")
    assert adult.X.shape == (48_842, 14)
    assert adult.positive.sum() == 11_687
    with pytest.raises(InvalidParameterError, match="data='heart' is unknown: use one of adult, rand-health"):
        load_table("heart")


def test_the_stand_in_for_heart_failure_is_of_its_size_and_rate():
    pytest.importorskip("statsmodels")
    health = load_table("rand-health")
    assert health.X.shape == (20_190, 9)
    assert 0.35 < health.positive.mean() < 0.45


RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(300, 2)), RNG.integers(0, 2, (300, 3))])
Y = (X[:, 0] + X[:, 2] * X[:, 1] + 0.5 * RNG.normal(size=300) > 0).astype(np.int64)
SPLITS = thresholds_of(X, 6)


def grown(rows, slopes, curvatures, depth, fewest):
    """Return a function of a row: greedy splits, and Newton's step in each leaf."""
    best, found = -1.0, None
    for column, threshold in SPLITS if depth else ():
        high = X[rows, column] > threshold
        gain = 0.0
        for side in (rows[high], rows[~high]):
            if len(side) < fewest or curvatures[side].sum() <= 1e-3:
                break
            gain += slopes[side].sum() ** 2 / curvatures[side].sum()
        else:
            if gain > best + 1e-9:
                best, found = gain, (column, threshold, high)
    if found is None:
        step = slopes[rows].sum() / max(curvatures[rows].sum(), 1e-3)
        return lambda row: step
    column, threshold, high = found
    low_side, high_side = (grown(part, slopes, curvatures, depth - 1, fewest) for part in (rows[~high], rows[high]))
    return lambda row: (high_side if row[column] > threshold else low_side)(row)


def boosted(shard, asked, depth, rounds, rate, fewest):
    share = Y[shard].mean()
    scores, answers = np.full(len(X), np.log(share / (1 - share))), np.full(len(asked), np.log(share / (1 - share)))
    for _ in range(rounds):
        chance = 1 / (1 + np.exp(-scores))
        tree = grown(shard, Y - chance, chance * (1 - chance), depth, fewest)
        scores += rate * np.array([tree(row) for row in X])
        answers += rate * np.array([tree(row) for row in asked])
    return answers > 0


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_trees_are_those_of_a_plain_implementation(depth):
    shards = [np.arange(0, 60), np.arange(60, 103), np.arange(103, 200), np.arange(200, 215)]
    asked = X[200:]
    learner = BoostedTrees(SPLITS, depth=depth, rounds=4, rate=0.3, fewest=4)
    constants = np.full(4, -1)
    fitted = learner.fit_together(
        X, Y, shards, classes=np.array([0, 1]), constant_votes=constants, seeds=[0] * 4, on_done=lambda n: None
    )
    for t, votes in enumerate(fitted.vote(asked).T):
        np.testing.assert_array_equal(votes, boosted(shards[t], asked, depth, 4, 0.3, 4))


def test_constant_teachers_vote_their_constant_and_progress_counts_all():
    done = []
    shards = [np.arange(40), np.arange(0), np.flatnonzero(Y == 1)[:9]]
    fitted = BoostedTrees(SPLITS, rounds=2).fit_together(
        X,
        Y,
        shards,
        classes=np.array([0, 1]),
        constant_votes=np.array([-1, 0, 1]),
        seeds=[0] * 3,
        on_done=done.append,
    )
    votes = fitted.vote(X)
    assert not votes[:, 1].any()
    assert votes[:, 2].all()
    assert 0 < votes[:, 0].mean() < 1
    assert done == [3]


def test_shards_without_a_split_vote_for_their_majority():
    shard = np.concatenate([np.flatnonzero(Y == 1)[:3], np.flatnonzero(Y == 0)[:2]])
    fitted = BoostedTrees(SPLITS, rounds=3, fewest=5).fit_together(
        X, Y, [shard], classes=np.array([0, 1]), constant_votes=np.array([-1]), seeds=[0]
    )
    assert fitted.vote(X).all()


def test_thresholds_lie_between_values():
    assert thresholds_of(np.array([[0.0, 7.0], [1.0, 7.0], [0.0, 7.0]]), 3) == ((0, 0.5),)
    many = thresholds_of(np.arange(1000.0)[:, None], 8)
    assert len(many) == 8
    assert all(0 < threshold < 999 for _, threshold in many)


N, K = 50, 4
ALLOCATION = partitions(range(103), N, K, entropy=3)
MEMBERS = ALLOCATION.memberships


def ballots(agreement, n_queries=60):
    return (np.random.default_rng(0).random((n_queries, N * K)) < agreement).astype(np.uint8)


@pytest.mark.parametrize("agreement", [0.6, 0.97])
def test_counts_by_the_theorems_are_those_of_the_meter_and_the_one_that_breaches(agreement):
    budget = Budget(epsilon=1.0, delta=PUBLISHED_DELTA)
    meter = PublishedPerRecordMeter(LaplaceNoisyMax(N * K / 2), ALLOCATION, budget, 2, stop_when_spent=True)
    admitted = meter.admit(Votes(ballots(agreement), 2))
    # The meter also has orders between whole numbers.
    assert labels(ballots(agreement), MEMBERS, 1.0, conjecture=False) in {admitted, admitted + 1}


def test_unanimous_teachers_get_about_twice_the_labels_by_the_conjecture_as_printed():
    proved, conjectured = (labels(ballots(1.0), MEMBERS, 1.0, conjecture=flag) for flag in (False, True))
    assert (proved, conjectured) == (11, 23)


@pytest.mark.parametrize("gap", [0.0, 20.0, 50.0])
def test_the_conjecture_never_charges_more(gap):
    shares = np.linspace(0, 1, 6)
    assert np.all(moments(gap, N, shares, conjecture=True) <= moments(gap, N, shares, conjecture=False))
    assert np.all(moments(gap, N, shares, conjecture=True)[1:] > 0)
