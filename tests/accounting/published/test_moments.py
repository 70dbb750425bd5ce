import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.accounting import Accounting, Change, Group
from dpensemble.accounting.meters import worst_case_meter
from dpensemble.accounting.published import laplace_moments, published_cost
from dpensemble.budget import Budget
from dpensemble.cost import Conversion
from dpensemble.errors import AccountingError, BudgetError
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax, RandomizedResponse
from dpensemble.votes import Votes
from dpensemble.voting_schedule import VotingSchedule

# Jordon et al. 2019, table 2 and supplement table 6. They count the breaching query, at delta 1e-3.
CLASSICAL = Conversion.CLASSICAL
N = 3
PUBLISHED = {50: (11, 85, 211), 100: (43, 338, 843), 250: (264, 2108, 5269)}


def meter_of(scale, budget):
    schedule, everyone = VotingSchedule.everyone(LaplaceNoisyMax(scale), N), [Group("everyone", budget, pool=0)]
    return worst_case_meter(schedule, everyone, n_classes=2, accounting=Accounting.PUBLISHED)


@pytest.mark.parametrize("n", PUBLISHED)
def test_published_counts_at_delta_1e3_less_the_breaching_query(n):
    found = [meter_of(n / 2, Budget(epsilon=e, delta=1e-3)).sure_queries for e in (1, 3, 5)]
    assert found == [count - 1 for count in PUBLISHED[n]]


def test_counts_at_the_delta_that_the_paper_states():
    found = {n: [meter_of(n / 2, Budget(epsilon=e, delta=1e-5)).sure_queries for e in (1, 3, 5)] for n in PUBLISHED}
    assert found == {50: [6, 54, 140], 100: [26, 216, 561], 250: [162, 1354, 3512]}


def test_the_formula_of_the_paper():
    """epsilon = min over l of (Q 2 lambda^2 l (l + 1) + log(1 / delta)) / l."""
    lam, queries, delta = 2 / 100, 42, 1e-3
    moments = range(1, 200)
    by_hand = min((queries * 2 * lam**2 * m * (m + 1) + np.log(1 / delta)) / m for m in moments)
    assert laplace_moments(1 / lam, queries).epsilon(delta, CLASSICAL) == pytest.approx(by_hand, rel=1e-12)


def test_partitions_and_scale_grow_together_at_no_cost():
    one = laplace_moments(125.0, 300)
    ten = laplace_moments(1250.0, 300 * 10**2)
    assert np.allclose(one.rdp, ten.rdp)


@given(st.floats(0.2, 50), st.floats(1e-9, 0.4), st.floats(1.0, 300))
def test_the_largest_affordable_amount_fits_and_one_more_does_not(epsilon, delta, scale):
    amount = laplace_moments(scale, 1).most(Budget(epsilon=epsilon, delta=delta), CLASSICAL)
    assert laplace_moments(scale, amount).epsilon(delta, CLASSICAL) <= epsilon
    assert laplace_moments(scale, amount + 1).epsilon(delta, CLASSICAL) > epsilon


def test_a_meter_admits_across_chunks_and_then_no_more():
    meter = meter_of(25, Budget(epsilon=1, delta=1e-3))
    chunk = Votes(np.zeros((4, 3), dtype=np.uint8), 2)
    assert [meter.admit(chunk) for _ in range(5)] == [4, 4, 2, 0, 0]
    assert meter.spent_epsilon <= 1 < laplace_moments(25, 11).epsilon(1e-3, CLASSICAL)


def test_a_budget_below_one_label_names_one_that_works():
    meter = meter_of(5, Budget(epsilon=0.01, delta=1e-5))
    with pytest.raises(BudgetError, match="the smallest epsilon that would do is"):
        meter.require_one_query()
    enough = Budget(epsilon=meter.smallest_epsilon(), delta=1e-5)
    assert meter_of(5, enough).sure_queries == 1
    barely = Budget(epsilon=meter.smallest_epsilon() * 0.999, delta=1e-5)
    assert meter_of(5, barely).sure_queries == 0


def test_published_costs_of_other_laws():
    laplace = published_cost(LaplaceNoisyMax(20), Change(ballots=9, classes=2, votes=3))
    assert np.allclose(laplace.rdp, laplace_moments(20, 9).rdp)
    gaussian = published_cost(GaussianNoisyMax(40), Change(ballots=9, classes=2, votes=2))
    assert np.allclose(gaussian.rdp, gaussian.orders * 4 / 40**2)
    with pytest.raises(AccountingError, match="use accounting='exact'"):
        published_cost(RandomizedResponse(1.0), Change(ballots=9, classes=2))
