"""Noisy sums: against 60 digits, exact sums over whole noise, and random sequences of charges."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.accounting.sums import (
    SumsMeter,
    WeightedGroup,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    noise_variance,
)
from dpensemble.budget import Budget
from dpensemble.errors import BudgetError, InvalidParameterError

VARIANCE = 2**70


def true_delta(mu, epsilon):
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        if epsilon / mu > 1e6 + mu:
            return mpmath.exp(-(mpmath.mpf(10) ** 11))  # An upper bound; ncdf itself overflows so far out.
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def everyone(epsilon=1.0, delta=1e-5):
    return SumsMeter([WeightedGroup("everyone", Budget(epsilon=epsilon, delta=delta))])


@pytest.mark.parametrize("mu", np.geomspace(1e-9, 1e3, 25).tolist())
def test_delta_is_never_below_the_truth_and_close_to_it(mu):
    for part in (0.0, 1e-9, 1e-4, 0.1, 0.5, 1.0, 2.0, 5.0, 12.0, 25.0):
        for epsilon in (mu * part, mu * part + mu**2 / 2, part):
            if epsilon / mu > 30 + mu / 2:
                continue
            found, truth = gaussian_delta(mu, epsilon), true_delta(mu, epsilon)
            assert found >= truth or found == 1.0
            assert found <= truth * (1 + 1e-9 * max(1.0, mu**2) + 2e-9 / mu) or truth < 1e-40


def test_delta_at_the_ends():
    assert gaussian_delta(0.0, 0.0) == gaussian_delta(0.0, 1.0) == 0.0
    assert gaussian_delta(1e6, 0.0) == 1.0
    assert gaussian_delta(1e-3, 1e6) == 0.0


@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-12, 1e-5, 1e-2, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("epsilon", np.geomspace(1e-4, 1e5, 5).tolist())
def test_inverses_err_on_the_safe_side_only(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert true_delta(mu, epsilon) <= delta
    assert true_delta(mu * (1 + 1e-4), epsilon) > delta
    back = gaussian_epsilon(mu, delta)
    assert true_delta(mu, back) <= delta
    assert back == pytest.approx(epsilon, rel=1e-5)


def test_little_noise_needs_no_epsilon_at_a_large_delta():
    assert gaussian_epsilon(0.0, 1e-5) == 0.0
    assert gaussian_epsilon(0.1, 0.1) == 0.0
    assert gaussian_epsilon(0.1, 1e-3) > 0


@pytest.mark.parametrize("mu", [math.nan, math.inf, -1.0, "1", None, True])
def test_what_is_no_number_is_refused(mu):
    with pytest.raises(InvalidParameterError):
        gaussian_delta(mu, 1.0)
    with pytest.raises(InvalidParameterError):
        gaussian_delta(1.0, mu)


@pytest.mark.parametrize("variance", [100, 173, 1000])
def test_the_slack_bounds_the_ratio_of_rounded_and_discrete_noise(variance):
    """By exact summation, at every whole number within 38 standard deviations."""
    reach = int(38 * math.sqrt(variance))
    with mpmath.workdps(40):
        v = mpmath.mpf(variance)
        unscaled = [mpmath.exp(-(k**2) / (2 * v)) for k in range(reach + 200)]
        total = unscaled[0] + 2 * mpmath.fsum(unscaled[1:])
        tails = [mpmath.erfc((k - mpmath.mpf("0.5")) / mpmath.sqrt(2 * v)) / 2 for k in range(reach + 2)]
        logs = [mpmath.log((tails[k] - tails[k + 1]) / (unscaled[k] / total)) for k in range(reach + 1)]
    largest = max(abs(one) for one in logs)
    assert largest <= 181 / v
    # Nearly a third of the bound is met: it takes every place within a unit for the worst one.
    assert largest > 0.29 * 181 / v


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
    assert true_delta(mu, epsilon) <= delta
    assert true_delta(mu, meter.spent_epsilon) <= delta
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
        WeightedGroup(str(i), Budget(epsilon=epsilon, delta=1e-5), weight)
        for i, (epsilon, weight) in enumerate(members)
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
        assert not mu or true_delta(mu, spent) <= 1e-5
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
        SumsMeter([WeightedGroup("a", one), WeightedGroup("b", other)])
    for weight in (math.nan, -0.1, 1.1):
        with pytest.raises(InvalidParameterError):
            WeightedGroup("a", one, weight)


def test_accounting_names_its_sources():
    meter = everyone()
    meter.charge(meter.sigma(0.5), variance=VARIANCE, entries=1)
    assert "1 noisy sum " in meter.accounting
    meter.charge(meter.sigma(0.5), variance=VARIANCE, entries=1)
    assert "2 noisy sums" in meter.accounting


@given(st.floats(1e-3, 1e9), st.integers(1, 2**36))
def test_the_variance_is_whole_and_rounded_up(sigma, sensitivity):
    variance = noise_variance(sigma, sensitivity)
    assert isinstance(variance, int)
    with mpmath.workdps(60):
        wanted = (mpmath.mpf(sigma) * sensitivity) ** 2
        assert variance >= max(wanted, 2**40)
        assert variance == 2**40 or variance <= wanted * (1 + mpmath.mpf(1e-11)) + 1
