"""The reduction to three corners, on gammas that nothing has optimised."""

from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

from dpensemble.darrm import Allowance, IndependentTeachers, optimise_gamma
from dpensemble.darrm.allowance import (
    FullPlacements,
    ReducedPlacements,
    _compositions,
    check_gamma,
    votes_law,
)
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import RandomizedResponseMajority

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


LISTED = {"n_teachers": 15, "epsilon": 1.0, "m": 2, "Delta": 0.001, "delta": 0.002}
SEARCHED = {"n_teachers": 45, "epsilon": 0.3, "m": 4, "Delta": 1e-3, "delta": 2e-3}


@pytest.mark.parametrize("setting", [LISTED, SEARCHED, SEARCHED | {"n_teachers": 300, "Delta": 0.0}])
def test_gammas_are_told_apart_on_both_sides_of_the_limit(setting):
    privacy = dict(setting)
    gamma = np.array(optimise_gamma(privacy.pop("n_teachers"), **privacy).gamma)
    passed = check_gamma(gamma * 0.999, **privacy)
    assert passed.private
    # A tenth of a percent too much is found, for every place of the worst case.
    broken = check_gamma(np.minimum(gamma * 1.002, 1), **privacy)
    assert not broken.private
    assert broken.load > passed.load
    # A gamma that falls somewhere is proved only where all placements can be listed.
    uneven = np.array(gamma)
    uneven[[0, -1]] *= 0.9
    assert check_gamma(uneven, **privacy).exhaustive == (setting is LISTED)
    assert sum(count for _, count in broken.worst) == len(gamma) - 1


def test_the_place_of_the_worst_case_has_the_load_that_is_claimed():
    broken = check_gamma((1.0,) * 8, epsilon=0.5, m=1, Delta=0.01)
    laws = [np.ones(1), np.ones(1)]
    for (here, there), count in broken.worst:
        for _ in range(count):
            laws = [np.convolve(law, [1 - p, p]) for law, p in zip(laws, (here, there), strict=True)]
    chances = [law[4:].sum() for law in laws]
    load = 1 + (chances[0] - np.exp(0.5) * chances[1]) / ((np.exp(0.5) - 1) / 2)
    assert broken.load == pytest.approx(load, abs=1e-12)
    assert load > 1


@pytest.mark.parametrize("k", [3, 8, 21])
def test_subsampling_is_private_and_uses_all_of_its_allowance_for_one(k):
    found = check_gamma(RandomizedResponseMajority.subsampling(k, 1), epsilon=0.4, m=1, Delta=0.01, delta=0.01)
    assert found.private
    assert found.load == pytest.approx(1, abs=1e-14)


def test_a_gamma_that_passes_at_three_corners_only_is_refuted():
    upper = np.array([0.0, 0.9, 0.9, 0.8, 0.2])
    allowance = Allowance(n_teachers=9, epsilon=1.0, m=2)
    upper /= ReducedPlacements(allowance).worst(upper)[0].load
    assert not check_gamma(np.concatenate([upper[::-1], upper]), epsilon=1.0, m=2).private


def test_without_the_corner_low_high_the_best_gamma_breaks_privacy():
    # Only three of the four corners in the linear program: a slip seen in published code.
    allowance = Allowance(n_teachers=15, epsilon=1.0, m=2)
    corners, counts = allowance.corners[:3], _compositions(15, 3)
    rows = [allowance.row(corners, tuple(row)) for row in counts.tolist()]
    lead = IndependentTeachers(0.75).lead(15)
    upper = linprog(-lead, A_ub=np.array(rows), b_ub=np.ones(len(rows)), bounds=(0, 1)).x
    found = check_gamma(np.concatenate([upper[::-1], upper]), epsilon=1.0, m=2)
    assert not found.private
    wins = (1 + allowance.signed(upper)) / 2
    (low, high), turned = allowance.corners[3], dict(found.worst)[allowance.corners[3]]
    here, there = (wins @ votes_law([p, 0.0], (turned, 15 - turned)) for p in (low, high))
    assert np.log(here / there) > 2.03


@pytest.mark.parametrize("gamma", ["text", 0.5, None, (1.0, 2.0)])
def test_bad_gammas_are_refused(gamma):
    with pytest.raises(InvalidParameterError, match="gamma must"):
        check_gamma(gamma, epsilon=1.0, m=1)


@pytest.mark.parametrize(("n_teachers", "m", "excess"), [(35, 10, 1e-4), (35, 10, 1e-3), (101, 10, 1e-4)])
def test_a_rising_gamma_that_is_a_little_too_large_is_caught_at_any_size(n_teachers, m, excess):
    settings = {"epsilon": 0.1, "m": m, "Delta": 1e-5, "delta": 1e-4}
    gamma = optimise_gamma(n_teachers, **settings).gamma
    assert check_gamma(gamma, **settings, draws=1).private
    assert check_gamma(gamma, **settings, draws=1).exhaustive
    too_large = tuple(min(1.0, value * (1 + excess)) for value in gamma)
    assert not check_gamma(too_large, **settings, draws=1).private
