import numpy as np
import pytest

from dpensemble.cost import DominatingPairs
from dpensemble.cost.composition import AdaptiveComposition
from dpensemble.cost.conversion import classical_epsilon, improved_delta, improved_epsilon


def test_conversions_of_one_order_by_hand():
    rdp, orders = np.array([0.1]), np.array([11.0])
    assert classical_epsilon(rdp, orders, 1e-5) == pytest.approx(0.1 + np.log(1e5) / 10)
    assert improved_epsilon(rdp, orders, 1e-5) == pytest.approx(0.1 + np.log(10 / 11) + (np.log(1e5) - np.log(11)) / 10)
    assert improved_delta(rdp, orders, improved_epsilon(rdp, orders, 1e-5)) == pytest.approx(1e-5)


def test_ten_answers_by_randomized_response_at_odds_of_eleven_to_ten():
    one = DominatingPairs([[11 / 21, 10 / 21]], [[10 / 21, 11 / 21]])
    assert AdaptiveComposition(one, 10, largest_epsilon=1.0).epsilon(10, 1e-3) == pytest.approx(0.71, abs=5e-3)
