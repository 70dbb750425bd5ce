"""The recipe for private curves: its sensitivity by brute force, and what bases and smoothings do."""

from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest

from noisy_curves import haar, kaplan_meier_at, left_out, recipe_bases, recipe_sensitivity, recipe_smoothings

ENDS = np.array([1.0, 2.0, 3.0])
PEOPLE = [(time, is_event) for time in (0.5, 1.0, 1.5, 2.5, 9.0) for is_event in (True, False)]


def _curve(people):
    times, is_event = map(np.array, zip(*people, strict=True))
    return kaplan_meier_at(times, is_event, ENDS)


@pytest.mark.parametrize("name", ["points", "cosine", "Haar"])
def test_the_sensitivity_is_the_largest_distance_of_neighbours(name):
    """All tables of three people, and everybody who can take the place of one of them."""
    basis, furthest = recipe_bases(len(ENDS))[name], 0.0
    for others in combinations_with_replacement(PEOPLE, 2):
        curves = [basis @ _curve([*others, one]) for one in PEOPLE]
        furthest = max(furthest, *(np.abs(one - other).sum() for one, other in combinations(curves, 2)))
    assert furthest == pytest.approx(recipe_sensitivity(basis))


def test_points_have_a_sensitivity_of_their_number():
    assert recipe_sensitivity(np.eye(20)) == 20


def test_leaving_one_out_shows_a_hundredth_of_what_a_neighbour_changes():
    """Why the authors' noise has no guarantee: the second table is as possible as the first one."""
    times = np.arange(1, 101) / 25
    assert 0.005 < left_out(times, np.ones(100, dtype=bool), ENDS) < 0.0102
    censored = [(0.5, False)] * 99
    assert _curve([*censored, (0.9, True)]).tolist() == [0, 0, 0]
    assert _curve([*censored, (9.0, True)]).tolist() == [1, 1, 1]


def test_kaplan_meier_by_hand():
    people = [(0.5, True), (1.0, False), (1.5, True), (2.5, False)]
    assert _curve(people) == pytest.approx([3 / 4, 3 / 8, 3 / 8])


@pytest.mark.parametrize("n_points", [2, 5, 20])
def test_bases_are_read_back(n_points):
    curve = np.linspace(1, 0.2, n_points)
    for basis in recipe_bases(n_points).values():
        assert np.linalg.pinv(basis) @ (basis @ curve) == pytest.approx(curve)
    assert haar(8) @ haar(8).T == pytest.approx(np.eye(8))


def test_smoothings_return_falling_curves_that_come_closer():
    places = np.arange(1, 21)
    exact = np.exp(-((places / 15) ** 1.2))
    noisy = exact + np.random.default_rng(0).normal(scale=0.3, size=20)
    for line in recipe_smoothings(noisy):
        assert (np.diff(line) <= 1e-9).all()
        assert ((line >= 0) & (line <= 1)).all()
        assert np.abs(line - exact).mean() < np.abs(noisy - exact).mean()
