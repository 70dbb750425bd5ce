import numpy as np
import pytest

from dpensemble.accounting import RepeatedSums, gaussian_epsilon
from dpensemble.budget import Budget


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.5, 1.0), (3.0, 1.0), (20.0, 1.0), (5.0, 8.0), (300.0, 0.5)])
def test_the_most_sums_fit_and_one_more_does_not(sigma, epsilon):
    cost, budget = RepeatedSums(sigma=sigma, entries=10, variance=2**70), Budget(epsilon=epsilon, delta=1e-6)
    most = cost.most(budget)
    assert most == 0 or cost.epsilon(most, 1e-6) <= epsilon
    assert not cost.fits(max(1, int(most * 1.0001) + 1), budget)


def test_sums_add_up_as_squares_and_the_discrete_noise_is_charged():
    cost = RepeatedSums(sigma=10.0, entries=4096, variance=2**40)
    assert cost.epsilon(4, 1e-5) > gaussian_epsilon(0.2, 1e-5)
    assert cost.epsilon(4, 1e-5) == pytest.approx(gaussian_epsilon(0.2, 1e-5), rel=1e-4)
    curve = cost.renyi(4)
    assert np.all(curve.rdp >= curve.orders * 0.04 / 2)
    assert curve.epsilon(1e-5) > cost.epsilon(4, 1e-5)
    assert cost.epsilon(0, 1e-5) == 0
