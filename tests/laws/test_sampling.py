"""Exactly as many of the 2**63 whole numbers draw an outcome as its weight requires."""

import numpy as np
import pytest

from dpensemble.laws.sampling import _sample_weights

TOTAL = 2**63


class Bits:
    """Random bits that are known."""

    def __init__(self, *bits):
        self.bits = np.array(bits, dtype=np.uint64)

    def uniform_bits(self, size):
        assert size == len(self.bits)
        return self.bits


@pytest.mark.parametrize(
    "weights", [(1, TOTAL - 1), (TOTAL - 1, 1), (3, 5, TOTAL - 8), (0, 7, TOTAL - 7), (7, 0, TOTAL - 7)]
)
def test_the_numbers_at_both_ends_of_each_share_draw_its_outcome(weights):
    begin = 0
    for outcome, weight in enumerate(weights):
        for number in () if weight == 0 else (begin, begin + weight - 1):
            drawn = _sample_weights(np.array([weights], dtype=np.uint64), Bits(number))
            assert drawn.tolist() == [outcome]
        begin += weight
    assert begin == TOTAL


def test_each_row_has_its_own_number():
    weights = np.array([(1, 2, TOTAL - 3)] * 4, dtype=np.uint64)
    assert _sample_weights(weights, Bits(0, 1, 2, 3)).tolist() == [0, 1, 1, 2]
