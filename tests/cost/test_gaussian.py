"""Costs of noisy sums add and charge for discrete noise, and the trade-off of Gaussian noise is right to 60 digits."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.cost import (
    DEFAULT_ORDERS,
    Conversion,
    GaussianCost,
    PrivacyCost,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    noise_variance,
)
from dpensemble.errors import AccountingError, InvalidParameterError
from dpensemble.guarantee import Budget

from ..tiny_votes import gaussian_delta_in_digits


@pytest.mark.parametrize("mu", np.geomspace(1e-9, 1e3, 25).tolist())
def test_delta_is_never_below_the_truth_and_close_to_it(mu):
    for part in (0.0, 1e-9, 1e-4, 0.1, 0.5, 1.0, 2.0, 5.0, 12.0, 25.0):
        for epsilon in (mu * part, mu * part + mu**2 / 2, part):
            if epsilon / mu > 30 + mu / 2:
                continue
            found, truth = gaussian_delta(mu, epsilon), gaussian_delta_in_digits(mu, epsilon)
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
    assert gaussian_delta_in_digits(mu, epsilon) <= delta
    assert gaussian_delta_in_digits(mu * (1 + 1e-4), epsilon) > delta
    back = gaussian_epsilon(mu, delta)
    assert gaussian_delta_in_digits(mu, back) <= delta
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


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.5, 1.0), (3.0, 1.0), (20.0, 1.0), (5.0, 8.0), (300.0, 0.5)])
def test_the_most_sums_fit_and_one_more_does_not(sigma, epsilon):
    cost, budget = GaussianCost.of_sum(sigma, entries=10, variance=2**70), Budget(epsilon=epsilon, delta=1e-6)
    most = cost.most(budget)
    assert most == 0 or (cost * most).epsilon(1e-6) <= epsilon
    assert not (cost * max(1, int(most * 1.0001) + 1)).fits(budget)
    assert cost.most(budget, limit=1) == min(1, most)
    assert cost.most(budget, Conversion.IMPROVED) <= most


def test_sums_add_up_as_squares_and_the_discrete_noise_is_charged():
    one = GaussianCost.of_sum(10.0, entries=4096, variance=2**40)
    four = one * 4
    assert four.epsilon(1e-5) > gaussian_epsilon(0.2, 1e-5)
    assert four.epsilon(1e-5) == pytest.approx(gaussian_epsilon(0.2, 1e-5), rel=1e-4)
    assert np.all(four.rdp >= four.orders * 0.04 / 2)
    assert four.epsilon(1e-5, Conversion.IMPROVED) > four.epsilon(1e-5)
    assert (one * 0).epsilon(1e-5) == 0
    assert four.best(1e-5) == (four.epsilon(1e-5), Conversion.EXACT)
    assert (one + one + 2 * one).epsilon(1e-5) == pytest.approx(four.epsilon(1e-5), rel=1e-14)


def test_a_weight_scales_what_a_unit_can_move():
    light, heavy = (GaussianCost.of_sum(3.0, entries=5, variance=2**60, weight=weight) for weight in (0.5, 1.0))
    assert light.squares == heavy.squares / 4
    assert GaussianCost.of_sum(3.0, entries=5, variance=2**60, weight=0.0).epsilon(1e-5) == 0


def test_beside_other_costs_only_the_curve_is_left():
    one, other = GaussianCost.of_sum(5.0, entries=5, variance=2**60), PrivacyCost(rdp=0.01 * DEFAULT_ORDERS)
    for both in (one + other, other + one):
        assert not isinstance(both, GaussianCost)
        assert np.array_equal(both.rdp, one.rdp + other.rdp)
        assert both.mu is None
    assert one + PrivacyCost.zero() is one
    assert PrivacyCost.zero() + one is one


def test_gaussian_privacy_is_stated_only_if_the_slack_is_as_small_as_promised():
    assert GaussianCost(0.04, 1e-6).mu == pytest.approx(0.2)
    assert GaussianCost(0.04, 1.1e-6).mu is None
    assert (GaussianCost(0.04, 1e-6) * 2).mu is None


@pytest.mark.parametrize("squares", [math.nan, math.inf, -1.0])
def test_no_accident_makes_a_sum_free(squares):
    with pytest.raises(AccountingError):
        GaussianCost(squares)
    with pytest.raises(AccountingError):
        GaussianCost(1.0, squares)


@pytest.mark.parametrize("change", [{"variance": 2**39}, {"entries": 0}, {"weight": 1.1}, {"weight": math.nan}])
def test_sums_that_are_none_are_refused(change):
    with pytest.raises(InvalidParameterError):
        GaussianCost.of_sum(3.0, **{"variance": 2**60, "entries": 1, **change})


@given(st.floats(1e-3, 1e9), st.integers(1, 2**36))
def test_the_variance_is_whole_and_rounded_up(sigma, sensitivity):
    variance = noise_variance(sigma, sensitivity)
    assert isinstance(variance, int)
    with mpmath.workdps(60):
        wanted = (mpmath.mpf(sigma) * sensitivity) ** 2
        assert variance >= max(wanted, 2**40)
        assert variance == 2**40 or variance <= wanted * (1 + mpmath.mpf(1e-11)) + 1


def test_slightly_negative_squares_lower_no_other_sum():
    with pytest.raises(AccountingError, match="at least 0"):
        GaussianCost(-1e-9, slack=1.0)
