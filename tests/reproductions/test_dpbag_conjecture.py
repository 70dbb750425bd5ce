"""The counts by the theorems are the meter's, and those with the conjecture are never fewer."""

import numpy as np
import pytest

from dpensemble.accounting.meters.published_by_record import PublishedPerRecordMeter, memberships_of
from dpensemble.allocation import partitions
from dpensemble.guarantee import Budget
from dpensemble.laws import LaplaceNoisyMax
from dpensemble.votes import Votes
from reproductions.dpbag import PUBLISHED_DELTA
from reproductions.dpbag_conjecture import labels, moments

N, K = 50, 4
ALLOCATION = partitions(range(103), N, K, entropy=3)
MEMBERS = memberships_of(ALLOCATION)


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
