"""The trade-off of Gaussian noise, against 60 digits."""

import math

import numpy as np
import pytest

from dpensemble.cost import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpensemble.errors import InvalidParameterError

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
