"""Runs whose teachers hold a record by chance: known special cases, rounding, and the meter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from dpensemble.accounting import Change, Group
from dpensemble.accounting.meters import worst_case_meter
from dpensemble.accounting.meters.scheduled import subsampled_meter
from dpensemble.accounting.subsampling import _ENDLESS, SubsampledCost, subsampled_cost
from dpensemble.accounting.worst_case import worst_case_cost
from dpensemble.budget import Budget
from dpensemble.cost import DEFAULT_ORDERS, PrivacyCost
from dpensemble.errors import AccountingError, BudgetError, InvalidParameterError
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax, OptimalVote
from dpensemble.votes import Votes
from dpensemble.voting_schedule import VotingSchedule

T = 20
BUDGET = Budget(epsilon=1.0, delta=1e-5)
LAWS = [LaplaceNoisyMax(10.0), GaussianNoisyMax(8.0), OptimalVote(30.0)]


def one_holder(chance):
    return np.array([1 - chance, chance] + [0.0] * (T - 1))


def meter(law, holders, budget=BUDGET):
    cost = subsampled_cost(law, holders, n_teachers=T, n_classes=2)
    return subsampled_meter(VotingSchedule.everyone(law, T), Group("everyone", budget), cost)


def ballots(n_queries):
    return Votes(np.zeros((n_queries, T), dtype=np.uint8), 2)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_record_that_surely_has_one_teacher_is_a_partition(law):
    everyone = [Group("everyone", BUDGET, pool=0)]
    plain = worst_case_meter(VotingSchedule.everyone(law, T), everyone, n_classes=2)
    assert meter(law, one_holder(1.0)).sure_queries == plain.sure_queries > 0


@pytest.mark.parametrize("chance", [0.5, 0.1, 1e-3])
def test_one_holder_by_chance_is_amplification_by_subsampling_of_the_whole_run(chance):
    # Inner figures by the plain cost, with exp(epsilon') = 1 + q (exp(epsilon) - 1) and delta' = q delta.
    law, n = LAWS[1], 12
    cost = subsampled_cost(law, one_holder(chance), n_teachers=T, n_classes=2) * n
    plain = worst_case_cost(law, Change(ballots=T, classes=2)) * n
    for delta in (1e-4, 1e-6):
        inner = plain.epsilon(delta / chance)
        outer = np.log1p(chance * np.expm1(inner))
        cost.refine(outer, delta)
        assert cost.epsilon(delta) == pytest.approx(outer, rel=0.02)


@given(st.floats(1e-6, 1.0), st.floats(0.0, 300.0))
def test_inner_epsilon_solves_its_equation_from_below(held, epsilon):
    cost = SubsampledCost(lambda ballots: PrivacyCost.zero(), one_holder(held))
    inner = cost.inner_epsilon(epsilon)
    assert inner >= epsilon * (1 - 1e-9)
    back = np.log1p(cost.held * np.expm1(inner)) if inner < 300 else inner + np.log(cost.held)
    assert back <= epsilon * (1 + 1e-12) + 1e-15
    assert back == pytest.approx(epsilon, rel=1e-9, abs=1e-12)


def test_more_teachers_a_record_cost_more_and_fewer_draws_less():
    law, n = LAWS[1], 1000
    sure = [
        meter(law, binom.pmf(np.arange(T + 1), T, 1 - (1 - 1 / n) ** k), Budget(epsilon=2.0, delta=1e-5)).sure_queries
        for k in (1, 2, 5, 10, 20)
    ]
    assert sure == sorted(sure, reverse=True)
    assert sure[0] > sure[-1] > 0


def gaussian_delta(mean, epsilon):
    return norm.cdf(mean / 2 - epsilon / mean) - np.exp(epsilon) * norm.cdf(-mean / 2 - epsilon / mean)


def test_agrees_with_gaussian_noise_in_closed_form():
    # A curve only, of a Gaussian mechanism of mean 1 / 10 an answer and holder, with delta by its closed form.
    cost = SubsampledCost(
        lambda b: PrivacyCost(rdp=DEFAULT_ORDERS * (0.1 * b) ** 2 / 2), binom.pmf(np.arange(6), 5, 0.3)
    )
    for epsilon in (0.2, 1.0, 3.0):
        inner = cost.inner_epsilon(epsilon)
        exact = sum(binom.pmf(b, 5, 0.3) * gaussian_delta(0.1 * b * 5, inner) for b in range(1, 6))
        assert exact <= (cost * 25).delta(epsilon) <= 12 * exact


def test_exact_composition_only_improves_on_the_renyi_curve():
    holders = binom.pmf(np.arange(T + 1), T, 0.05)
    for law in LAWS:
        cost = subsampled_cost(law, holders, n_teachers=T, n_classes=2) * 10
        before = cost.epsilon(1e-5)
        cost.refine(before, 1e-5)
        assert 0.5 * before < cost.epsilon(1e-5) < before


def test_unlikely_numbers_of_holders_are_charged_in_full():
    priced = []

    def one(b):
        priced.append(b)
        return worst_case_cost(LAWS[0], Change(ballots=T, classes=2, votes=b))

    holders = binom.pmf(np.arange(T + 1), T, 0.01)
    cost = SubsampledCost(one, holders) * 5
    rough = cost.delta(50.0, negligible=1e-6)
    assert max(priced) < 6
    assert rough >= holders[max(priced) + 1 :].sum()
    assert rough >= cost.delta(50.0)


def test_epsilon_and_delta_are_inverse_and_monotone():
    cost = subsampled_cost(LAWS[1], binom.pmf(np.arange(T + 1), T, 0.05), n_teachers=T, n_classes=2) * 20
    cost.refine(1.0, 1e-5)
    for delta in (1e-3, 1e-5, 1e-8):
        epsilon = cost.epsilon(delta)
        assert cost.delta(epsilon, delta * 1e-4) <= delta < cost.delta(epsilon * (1 - 1e-6))
    one = subsampled_cost(LAWS[1], binom.pmf(np.arange(T + 1), T, 0.05), n_teachers=T, n_classes=2)
    deltas = [(one * n).delta(0.5) for n in (0, 1, 5, 20, 50)]
    assert deltas == sorted(deltas)
    assert deltas[0] == 0.0


def test_a_delta_that_allows_publishing_the_teachers_allows_any_number_of_answers():
    assert meter(LAWS[0], one_holder(1e-6)).sure_queries == _ENDLESS
    cost = subsampled_cost(LAWS[0], one_holder(1e-6), n_teachers=T, n_classes=2)
    assert (cost * 10**9).delta(0.0) == pytest.approx(1e-6, rel=1e-6)


def test_the_curve_of_a_run_is_above_what_is_stated_and_is_one_of_whole_runs():
    found = meter(LAWS[1], one_holder(0.3))
    assert found.cost.renyi.rdp.max() == 0
    assert found.admit(ballots(5)) == 5
    assert found.cost.renyi.epsilon(1e-5) >= found.spent_epsilon > 0
    # Amplifying each query and composing would claim less than the truth.
    assert np.all(found.cost.renyi.rdp > 5 * found.one_query.renyi.rdp)


@pytest.mark.parametrize("chunks", [[], [3, 0, 4], [40, 40, 40], [1, 200]])
@pytest.mark.parametrize(("epsilon", "chance"), [(0.3, 0.05), (1.0, 0.5), (2.0, 1.0)])
def test_the_meter_stays_within_its_budget(chunks, epsilon, chance):
    budget = Budget(epsilon=epsilon, delta=1e-5)
    found = meter(LAWS[1], one_holder(chance), budget)
    total, spent = 0, 0.0
    for size in chunks:
        admitted = found.admit(ballots(size))
        total += admitted
        assert admitted == min(size, found.sure_queries - total + admitted)
        assert spent <= found.spent_epsilon <= epsilon
        spent = found.spent_epsilon
    assert total <= found.sure_queries == found.most_queries
    assert [n for n, _ in found.spend_curve()][-1:] == ([total] if total else [])
    assert all(value <= epsilon for _, (value,) in found.spend_curve())


def test_too_small_a_budget_names_the_smallest_that_would_do():
    found = meter(LaplaceNoisyMax(1.0), one_holder(0.5), Budget(epsilon=0.1, delta=1e-6))
    with pytest.raises(BudgetError, match="smallest epsilon that would do is") as error:
        found.require_one_query()
    enough = float(str(error.value).split("would do is ")[1].split(",")[0])
    assert meter(LaplaceNoisyMax(1.0), one_holder(0.5), Budget(epsilon=enough, delta=1e-6)).sure_queries >= 1


@pytest.mark.parametrize("holders", [[0.5, 0.4], [1.5, -0.5], [np.nan, 1.0]])
def test_chances_that_are_none_are_refused(holders):
    with pytest.raises(AccountingError, match=r"holders must be the chances that .* sum to 1"):
        SubsampledCost(lambda ballots: PrivacyCost.zero(), np.array(holders))


@pytest.mark.parametrize("delta", [0, 1, 40, -1e-5, np.nan])
def test_a_delta_that_is_none_is_refused(delta):
    with pytest.raises(InvalidParameterError, match="delta"):
        subsampled_cost(LAWS[0], one_holder(0.5), n_teachers=T, n_classes=2).epsilon(delta)


def test_the_chance_of_a_holder_cannot_be_changed():
    cost = subsampled_cost(LAWS[1], one_holder(0.1), n_teachers=T, n_classes=2)
    with pytest.raises(AttributeError):
        cost.held = 0.0
