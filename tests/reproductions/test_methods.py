"""What the experiments count agrees with the library's own meters, and with what can be worked out by hand."""

import numpy as np
import pytest

from dpensemble.accounting.meters.published_by_record import PublishedPerRecordMeter, memberships_of
from dpensemble.allocation import partitions
from dpensemble.design import ByGroup, Census, InfluenceRule, Personalisation
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax, LawChoice
from dpensemble.votes import Votes
from reproductions import dpbag
from reproductions.darrm import published_sigma, solved
from reproductions.data import load_table
from reproductions.personalised_counts import by_meter, by_the_paper


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
@pytest.mark.parametrize("agreement", [0.5, 0.95])
def test_personalised_labels_are_those_of_the_meter(epsilon, agreement):
    n, k = 20, 5
    allocation = partitions(range(103), n, k, entropy=3)
    ballots = (np.random.default_rng(0).random((300, n * k)) < agreement).astype(np.uint8)
    budget, law = Budget(epsilon=epsilon, delta=1e-3), LaplaceNoisyMax(n * k / 2)
    meter = PublishedPerRecordMeter(law, allocation, budget, 2, stop_when_spent=True)
    members = memberships_of(allocation)
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
