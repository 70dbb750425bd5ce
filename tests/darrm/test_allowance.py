"""The reduction to three corners, on gammas that nothing has optimised."""

from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest

from dpensemble.darrm.allowance import Allowance, FullPlacements, ReducedPlacements, _compositions

ALLOWANCES = [
    Allowance(n_teachers=k, epsilon=epsilon, m=m, Delta=slack, delta=delta)
    for k in (1, 2, 3, 4, 5, 6)
    for epsilon, m, slack, delta in (
        (0.1, 1, 0.0, 0.0),
        (1.0, 0.7, 0.0, 0.01),
        (0.1, 0.5, 1e-5, 1e-5),
        (1.0, 1, 0.1, 0.05),
        (3.0, 0.3, 0.4, 0.0),
    )
]


def every_load(allowance, upper, corners):
    """Return the largest load over placements, from laws of votes convolved teacher by teacher."""
    w = allowance.signed(upper)

    def mean(chances):
        law = np.ones(1)
        for chance in chances:
            law = np.convolve(law, [1 - chance, chance])
        return law @ w

    return max(
        (allowance.damping * mean([p for p, _ in placed]) - mean([q for _, q in placed])) / allowance.room
        for placed in combinations_with_replacement(corners, allowance.n_teachers)
    )


@pytest.mark.parametrize("allowance", ALLOWANCES, ids=str)
def test_three_corners_suffice_for_rising_gammas(allowance):
    rng = np.random.default_rng(allowance.n_teachers)
    for _ in range(3):
        upper = np.sort(rng.random((allowance.n_teachers + 1) // 2))
        truth = every_load(allowance, upper, allowance.corners)
        assert ReducedPlacements(allowance).worst(upper)[0].load == pytest.approx(truth, abs=1e-12)
        assert FullPlacements(allowance).worst(upper)[0].load == pytest.approx(truth, abs=1e-12)
        # The law of the other answer is read the same way, so neighbours need not be swapped.
        swapped = [(1 - p, 1 - q) for p, q in allowance.corners]
        assert every_load(allowance, upper, swapped) == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("allowance", ALLOWANCES, ids=str)
def test_all_corners_are_right_for_any_gamma(allowance):
    rng = np.random.default_rng(allowance.n_teachers)
    for _ in range(3):
        upper = rng.random((allowance.n_teachers + 1) // 2)
        truth = every_load(allowance, upper, allowance.corners)
        assert FullPlacements(allowance).worst(upper)[0].load == pytest.approx(truth, abs=1e-12)


def test_three_corners_do_not_suffice_for_falling_gammas():
    allowance = Allowance(n_teachers=9, epsilon=1.0, m=2)
    upper = np.array([0.0, 0.9, 0.9, 0.8, 0.2])
    truth = every_load(allowance, upper, allowance.corners)
    assert ReducedPlacements(allowance).worst(upper)[0].load < truth - 0.01
    assert FullPlacements(allowance).worst(upper)[0].load == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("kind", [ReducedPlacements, FullPlacements])
@pytest.mark.parametrize("slack", [0.0, 0.02])
def test_rows_give_the_loads_of_their_placements(kind, slack):
    allowance = Allowance(n_teachers=9, epsilon=0.5, m=2, Delta=slack, delta=0.01)
    placements, rng = kind(allowance), np.random.default_rng(0)
    upper = np.sort(rng.random(5))
    found = placements.worst(upper, 5)
    assert all(first.load >= second.load for first, second in pairwise(found))
    for place in found:
        assert sum(place.counts) == 9
        assert placements.row(place.counts) @ upper == pytest.approx(place.load, abs=1e-12)


def test_no_point_inside_the_region_is_worse_than_its_corners():
    allowance, rng = Allowance(n_teachers=4, epsilon=0.7, m=1, Delta=0.1, delta=0.0), np.random.default_rng(1)
    upper = np.array([0.9, 0.3])
    most = FullPlacements(allowance).worst(upper)[0].load
    points = rng.random((20_000, 2))
    p, q = points.T
    grown = np.exp(0.7)
    inside = (p <= grown * q + 0.1) & (q <= grown * p + 0.1)
    inside &= (1 - p <= grown * (1 - q) + 0.1) & (1 - q <= grown * (1 - p) + 0.1)
    points = points[inside]
    assert len(points) > 1000
    for _ in range(300):
        chosen = points[rng.integers(0, len(points), 4)]
        assert every_load(allowance, upper, [tuple(chosen[0])]) <= most
        assert one_load(allowance, upper, chosen) <= most


def one_load(allowance, upper, chosen):
    w, laws = allowance.signed(upper), [np.ones(1), np.ones(1)]
    for pair in chosen:
        laws = [np.convolve(law, [1 - chance, chance]) for law, chance in zip(laws, pair, strict=True)]
    return (allowance.damping * (laws[0] @ w) - laws[1] @ w) / allowance.room


def test_compositions_are_all_ways_to_add_up():
    rows = _compositions(5, 3)
    assert len(rows) == 21
    assert len({tuple(row) for row in rows.tolist()}) == 21
    assert np.all(rows.sum(axis=1) == 5)
    assert np.array_equal(_compositions(4, 1), [[4]])
