import numpy as np
import pytest

from dpensemble.accounting.published import _laplace_rdp, _pure_rdp, gaussian_rdp


def test_bounds_of_a_split_and_of_a_clear_vote():
    orders = np.array([4.0])
    np.testing.assert_allclose(
        gaussian_rdp(np.array([-0.5, -5.0]), 10.0, orders), [[0.04], [0.010173]], rtol=0, atol=1e-6
    )
    np.testing.assert_allclose(
        _laplace_rdp(np.array([-0.7, -5.0]), 0.1, orders), [[0.019596], [0.001492]], rtol=0, atol=1e-6
    )


def test_the_pure_bound_is_that_of_randomized_response():
    epsilon, order = 0.1, 32
    truth = 1 / (1 + np.exp(-epsilon))
    moment = truth**order * (1 - truth) ** (1 - order) + (1 - truth) ** order * truth ** (1 - order)
    assert _pure_rdp(epsilon, [order])[0] == pytest.approx(np.log(moment) / (order - 1))
