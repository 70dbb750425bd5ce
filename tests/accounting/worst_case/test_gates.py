"""Threshold checks: the polygon holds every pair of chances."""

import numpy as np
import pytest
from scipy.special import ndtr

from dpensemble.accounting.worst_case import BEYOND, check_corners, gate_cost


@pytest.mark.parametrize("shift", [2e-5, 1e-3, 1 / 150, 0.1, 0.5, 1.0])
def test_every_check_lies_within_the_corners(shift):
    corners = check_corners(1 / shift, 1)
    # Both orders and both names: the upper half is the rest, mirrored.
    above = corners.p[:, 0] > corners.q[:, 0]
    q, p = np.append([0.0, 1.0], corners.q[above, 0]), np.append([0.0, 1.0], corners.p[above, 0])
    order = np.argsort(q)
    rng = np.random.default_rng(1)
    y = np.concatenate([np.linspace(-9, 9 - shift, 20_001), rng.uniform(-9, 9 - shift, 20_000)])
    moved = y + shift * np.concatenate([np.ones(20_001), rng.random(20_000)])
    here, there = ndtr(y), ndtr(moved)
    edge = np.interp(here, q[order], p[order])
    # Near 1 the chances of failing are compared, since these differ there.
    assert np.all(there <= edge + 2e-16)
    assert np.all(ndtr(-moved) >= (1 - edge) * (1 - 1e-9) - 2e-16)
    # The polygon is not loose: the worst corner is little worse than the worst check.
    assert shift > 0.1 or np.all(corners.renyi([2.0, 8.0]) <= 1.1 * gate_cost(1 / shift, 1).rdp[[0, 6]])
    assert corners.both_ways().renyi([2.0]) == corners.renyi([2.0])
    assert BEYOND < 2e-19


@pytest.mark.parametrize("shift", [1e-6, 1.01])
def test_a_check_beyond_the_polygons_has_none(shift):
    assert check_corners(1.0, shift) is None
