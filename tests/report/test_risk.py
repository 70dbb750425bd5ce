"""What an attacker gains is what the guarantee allows, and no less than what an attack achieves."""

from statistics import NormalDist

import numpy as np
import pytest

from dpensemble.accounting import gaussian_delta
from dpensemble.report.risk import advantage, hits

ALARMS = np.linspace(1e-4, 1 - 1e-4, 400)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-5), (3.0, 1e-3), (20.0, 1e-9)])
def test_randomised_response_reaches_the_bound_and_nothing_exceeds_it(epsilon, delta):
    """With probability delta the secret is revealed. Otherwise a bit is right with odds exp(epsilon)."""
    right = 1 / (1 + np.exp(-epsilon))
    told = delta + (1 - delta) * right
    wrong = (1 - delta) * (1 - right)
    assert hits(wrong, epsilon, delta) == pytest.approx(told)
    assert advantage(epsilon, delta) == pytest.approx(told - wrong)
    assert max(hits(alarm, epsilon, delta) - alarm for alarm in ALARMS) <= advantage(epsilon, delta) + 1e-12


@pytest.mark.parametrize("mu", [0.05, 0.268, 2.0])
def test_the_gaussian_curve_is_that_of_the_best_test_between_two_normals(mu):
    normal, epsilon = NormalDist(), 1.0
    delta = gaussian_delta(mu, epsilon)
    for threshold in np.linspace(-2, 3, 30):
        alarm, hit = 1 - normal.cdf(threshold), 1 - normal.cdf(threshold - mu)
        assert hits(alarm, epsilon, delta, mu) == pytest.approx(hit)
        assert hit <= hits(alarm, epsilon, delta) + 1e-12
    assert max(hits(alarm, epsilon, delta, mu) - alarm for alarm in ALARMS) <= advantage(epsilon, delta, mu) + 1e-12
