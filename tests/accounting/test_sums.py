"""Noisy sums: random sequences of charges, against 60 digits."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.accounting.sums import Group, SumsMeter
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget

from ..tiny_votes import gaussian_delta_in_digits

VARIANCE = 2**70


def everyone(epsilon=1.0, delta=1e-5):
    return SumsMeter([Group("everyone", Budget(epsilon=epsilon, delta=delta))])


@settings(max_examples=10)
@given(
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12),
    st.floats(0.01, 20.0),
    st.sampled_from([1e-12, 1e-5, 1e-2]),
)
def test_what_is_admitted_never_exceeds_the_budget(parts, epsilon, delta):
    meter = everyone(epsilon, delta)
    mus = []
    for part in parts:
        sigma, before = meter.sigma(part), meter.spent_epsilon
        try:
            meter.charge(sigma, variance=VARIANCE, entries=100)
        except BudgetError:
            assert meter.spent_epsilon == before
        else:
            mus.append(1 / sigma)
    mu = math.sqrt(math.fsum(one**2 for one in mus))
    assert gaussian_delta_in_digits(mu, epsilon) <= delta
    assert gaussian_delta_in_digits(mu, meter.spent_epsilon) <= delta
    assert meter.spent_epsilon <= epsilon
    # What fits is admitted: nothing is refused for as long as all shares add up to 1.
    if math.fsum(parts) <= 1:
        assert len(mus) == len(parts)


def test_shares_that_add_up_to_one_spend_all():
    for parts in ((1.0,), (0.3, 0.3, 0.4), (0.1,) * 10, (1 / 3,) * 3, (0.01,) * 100):
        meter = everyone()
        for part in parts:
            meter.charge(meter.sigma(part), variance=VARIANCE, entries=3000)
        assert 1 - 1e-6 < meter.spent_epsilon <= 1
        assert meter.spend_curve() == [(len(parts), (meter.spent_epsilon,))]
        with pytest.raises(BudgetError, match="does not fit"):
            meter.charge(meter.sigma(0.01), variance=VARIANCE, entries=1)


@settings(max_examples=12)
@given(
    st.lists(st.tuples(st.floats(0.05, 10.0), st.floats(0.0, 1.0)), min_size=1, max_size=4),
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=4),
)
def test_every_group_is_charged_by_its_weight(members, parts):
    groups = [
        Group(str(i), Budget(epsilon=epsilon, delta=1e-5), weight=weight) for i, (epsilon, weight) in enumerate(members)
    ]
    meter = SumsMeter(groups)
    if not 1e-3 < meter.mu < 1e3:
        return
    square = 0.0
    for part in parts:
        try:
            meter.charge(meter.sigma(part), variance=VARIANCE, entries=10)
        except BudgetError:
            continue
        square += 1 / meter.sigma(part) ** 2
    for group, spent in zip(groups, meter.group_epsilons, strict=True):
        assert spent <= group.budget.epsilon
        mu = group.weight * math.sqrt(square)
        assert not mu or gaussian_delta_in_digits(mu, spent) <= 1e-5
    assert meter.spent_epsilon == max(meter.group_epsilons)
    assert meter.budget.epsilon == max(epsilon for epsilon, _ in members)


def test_slack_is_charged():
    exact, coarse = everyone(), everyone()
    exact.charge(exact.sigma(0.5), variance=2**80, entries=1)
    coarse.charge(coarse.sigma(0.5), variance=2**40, entries=10**6)
    eta = 181 * 10**6 / 2**40
    assert coarse.spent_epsilon > exact.spent_epsilon + 2 * eta * 0.99
    # Entries without end do not fit however small their share is.
    with pytest.raises(BudgetError):
        coarse.charge(1e9, variance=2**40, entries=2**36)


@pytest.mark.parametrize("sigma", [math.nan, math.inf, -1.0, 0.0, 1e-9, None, "1"])
def test_noise_that_is_none_is_refused(sigma):
    meter = everyone()
    with pytest.raises(InvalidParameterError):
        meter.charge(sigma, variance=VARIANCE, entries=1)
    assert meter.spent_epsilon == 0.0


@pytest.mark.parametrize("share", [math.nan, math.inf, -0.1, 0.0, 1.0001])
def test_shares_outside_are_refused(share):
    with pytest.raises(InvalidParameterError):
        everyone().sigma(share)


@pytest.mark.parametrize("change", [{"variance": 2**39}, {"variance": 2.0**50}, {"entries": 0}, {"entries": 1.5}])
def test_sums_that_are_none_are_refused(change):
    meter = everyone()
    with pytest.raises(InvalidParameterError):
        meter.charge(meter.sigma(0.5), **{"variance": VARIANCE, "entries": 1, **change})
    assert meter.spent_epsilon == 0.0


def test_groups_have_one_delta_and_weights_up_to_one():
    with pytest.raises(InvalidParameterError, match="at least one"):
        SumsMeter([])
    one, other = Budget(epsilon=1, delta=1e-5), Budget(epsilon=1, delta=1e-6)
    with pytest.raises(InvalidParameterError, match="one delta"):
        SumsMeter([Group("a", one), Group("b", other)])
    for weight in (math.nan, -0.1, 1.1):
        with pytest.raises(InvalidParameterError):
            Group("a", one, weight=weight)


def test_accounting_names_its_sources():
    meter = everyone()
    meter.charge(meter.sigma(0.5), variance=VARIANCE, entries=1)
    assert "1 noisy sum " in meter.accounting
    meter.charge(meter.sigma(0.5), variance=VARIANCE, entries=1)
    assert "2 noisy sums" in meter.accounting
