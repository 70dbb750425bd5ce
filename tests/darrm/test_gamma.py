"""Oracles: corners by intersecting the region's borders, placements by itertools, one linear program over all.

The linear program over gamma.
"""

from itertools import combinations, combinations_with_replacement

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import linprog
from scipy.stats import binom

from dpensemble.darrm import AlikeTeachers, IndependentTeachers, expected_error, optimise_gamma
from dpensemble.darrm.allowance import check_gamma
from dpensemble.darrm.gamma import _GammaProgram
from dpensemble.design.private_answers import general_composition
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import RandomizedResponseMajority

PRIORS = (0.75, 0.85, AlikeTeachers())


def borders(epsilon, slack):
    """Return the half-planes ``a p + b p' <= c`` of a private teacher's region."""
    e = np.exp(epsilon)
    private = [(1, -e, slack), (-e, 1, slack), (-1, e, e + slack - 1), (e, -1, e + slack - 1)]
    return [*private, (1, 0, 1), (-1, 0, 0), (0, 1, 1), (0, -1, 0)]


def corners_of(epsilon, slack):
    lines, found = borders(epsilon, slack), []
    for first, second in combinations(lines, 2):
        sides = np.array([first[:2], second[:2]], dtype=float)
        if abs(np.linalg.det(sides)) > 1e-9:
            point = np.linalg.solve(sides, [first[2], second[2]])
            inside = all(a * point[0] + b * point[1] <= c + 1e-12 for a, b, c in lines)
            if inside and all(np.abs(point - other).max() > 1e-9 for other in found):
                found.append(point)
    return found


def votes(chances):
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    return law


def brute_force(k, epsilon, m, slack, delta, lead, rising):
    grown = np.exp(m * epsilon)
    signs = np.sign(2 * np.arange(k + 1) - k)
    rows = []
    for placed in combinations_with_replacement(corners_of(epsilon, slack), k):
        change = signs * (votes([p for p, _ in placed]) - grown * votes([q for _, q in placed]))
        rows.append((change + change[::-1])[k // 2 + 1 :])
    limits = [grown - 1 + 2 * delta] * len(rows)
    n = len(lead)
    if rising:
        rows += [np.eye(n)[i] - np.eye(n)[i + 1] for i in range(n - 1)]
        limits += [0.0] * (n - 1)
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return -linprog(-lead, A_ub=np.array(rows), b_ub=limits, bounds=(0, 1), method="highs", options=tight).fun


SMALL = [
    (1, 0.5, 1, 0.0, 0.0),
    (3, 0.1, 2, 0.0, 0.0),
    (3, 2.0, 1, 0.0, 0.0),
    (3, 1.0, 1.5, 0.05, 0.02),
    (4, 1.0, 2, 0.0, 0.0),
    (4, 0.3, 1, 0.01, 0.0),
    (5, 0.1, 2, 1e-5, 2e-5),
    (5, 2.0, 2, 0.0, 0.0),
    (5, 0.5, 0.5, 0.2, 0.1),
    (6, 0.5, 3, 0.01, 0.02),
    (7, 0.1, 3, 0.0, 0.0),
    (7, 1.0, 2, 0.001, 0.002),
    (9, 0.1, 3, 1e-5, 3e-5),
    (9, 1.0, 2, 0.0, 0.0),
]


@pytest.mark.parametrize("setting", SMALL, ids=str)
@pytest.mark.parametrize("constraints", ["monotone", "all"])
def test_small_cases_match_one_linear_program_over_all_corners(setting, constraints):
    k, epsilon, m, slack, delta = setting
    for prior in (IndependentTeachers(0.75), AlikeTeachers()):
        found = optimise_gamma(k, epsilon=epsilon, m=m, Delta=slack, delta=delta, prior=prior, constraints=constraints)
        best = brute_force(k, epsilon, m, slack, delta, prior.lead(k), constraints == "monotone")
        assert found.objective == pytest.approx(best, abs=1e-8)
        assert found.upper_bound == pytest.approx(best, abs=1e-8)
        if k > 7:
            break


@pytest.mark.parametrize("constraints", ["monotone", "all"])
@pytest.mark.parametrize("setting", [s for s in SMALL if s[0] <= 5], ids=str)
def test_what_is_returned_is_private_in_forty_digits(setting, constraints):
    k, epsilon, m, slack, delta = setting
    found = optimise_gamma(k, epsilon=epsilon, m=m, Delta=slack, delta=delta, constraints=constraints)
    with mpmath.workdps(40):
        e, slack, grown = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(slack), mpmath.exp(mpmath.mpf(m * epsilon))
        high, low = (e + slack) / (1 + e), (1 - slack) / (1 + e)
        corners = {(0, 0), (1, 1), (high, low), (low, high)}
        corners |= {(slack, 0), (0, slack), (1, 1 - slack), (1 - slack, 1)}
        wins = [(1 + int(np.sign(2 * at - k)) * mpmath.mpf(g)) / 2 for at, g in enumerate(found.gamma)]

        def chance(chances):
            law = [mpmath.mpf(1)]
            for p in chances:
                law = [a * (1 - p) + b * p for a, b in zip([*law, 0], [0, *law], strict=True)]
            return mpmath.fdot(law, wins)

        spare = min(
            grown * chance([q for _, q in placed]) + mpmath.mpf(delta) - chance([p for p, _ in placed])
            for placed in combinations_with_replacement(corners, k)
        )
        assert spare >= 0
        load = 1 - spare / ((grown - 1) / 2 + mpmath.mpf(delta))
        # The certificate's load is the exact one, within the rounding that it states.
        assert abs(load - found.certificate.load) <= found.certificate.rounding
    assert found.certificate.load + found.certificate.rounding <= 1


@pytest.mark.parametrize("constraints", ["monotone", "all"])
@pytest.mark.parametrize(
    ("k", "epsilon", "m", "slack", "delta"),
    [
        (11, 0.1, 3, 1e-5, 3e-5),
        (15, 1.0, 2, 0.0, 0.0),
        (16, 0.5, 5, 0.0, 0.0),
        (21, 0.3, 4, 1e-3, 1e-3),
        (101, 0.1, 10, 0.0, 0.0),
    ],
)
def test_what_is_returned_passes_the_independent_check(k, epsilon, m, slack, delta, constraints):
    privacy = {"epsilon": epsilon, "m": m, "Delta": slack, "delta": delta}
    found = optimise_gamma(k, constraints=constraints, **privacy)
    checked = check_gamma(found.law, **privacy)
    assert checked.exhaustive
    assert checked.load == pytest.approx(found.certificate.load, abs=1e-12)
    assert checked.load <= 1


@pytest.mark.parametrize("k", [*range(1, 16), 31, 64, 101, 301])
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_one_teachers_allowance_gives_back_subsampling(k, prior):
    least = expected_error(RandomizedResponseMajority.subsampling(k, 1), prior)
    for constraints in ("monotone", "all") if k < 40 else ("monotone",):
        found = optimise_gamma(k, epsilon=0.1, m=1, prior=prior, constraints=constraints)
        assert found.error == pytest.approx(least, abs=1e-8)


@pytest.mark.parametrize("k", [1, 2, 3, 8, 11, 31, 101])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_subsampling_one_is_best_for_chances_that_a_chain_of_neighbours_reaches(k, epsilon):
    # From 1 - high to high, and on by factors exp(-epsilon): data sets that the proof of Lemma 3.2 walks along.
    high = 1 / (1 + np.exp(-epsilon))
    for step in (0, 1, 3):
        prior = 1 - (1 - high) * np.exp(-step * epsilon)
        least = expected_error(RandomizedResponseMajority.subsampling(k, 1), prior)
        assert optimise_gamma(k, epsilon=epsilon, m=1, prior=prior).error == pytest.approx(least, abs=1e-8)


@pytest.mark.parametrize(("k", "epsilon", "gain"), [(3, 2.0, 0.03), (11, 1.0, 8e-4), (101, 0.5, 6e-3)])
def test_between_links_of_the_chain_subsampling_one_is_beaten(k, epsilon, gain):
    # So Lemma 3.2, read for every probability of the teachers, does not hold.
    found = optimise_gamma(k, epsilon=epsilon, m=1, prior=0.75)
    assert check_gamma(found.law, epsilon=epsilon, m=1).load <= 1
    assert found.error < expected_error(RandomizedResponseMajority.subsampling(k, 1), 0.75) - gain


def paper_settings():
    for m in (1, 3, 5, 7):
        yield 11, m, m, 1e-5, m * 1e-5
        yield 11, m, m, 0.0, 0.0
    for m in (10, 13, 15, 20):
        total, delta = general_composition(0.1, 1e-5, m, 0.1)
        yield 35, m, total / 0.1, 1e-5, delta
    for m in range(10, 81, 10):
        yield 101, m, m, 0.0, 0.0


@pytest.mark.parametrize("setting", list(paper_settings()), ids=str)
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_no_baseline_errs_less_in_the_papers_settings(setting, prior):
    k, drawn, m, slack, delta = setting
    found = optimise_gamma(k, epsilon=0.1, m=m, Delta=slack, delta=delta, prior=prior)
    ballots = general_composition(0.1, slack, k, 0.1 if k == 35 else 0)
    baselines = [
        RandomizedResponseMajority.subsampling(k, drawn),
        RandomizedResponseMajority.constant(
            k, ballots_epsilon=ballots[0], ballots_delta=ballots[1], epsilon=0.1 * m, delta=delta
        ),
    ]
    if slack == 0:
        baselines.append(RandomizedResponseMajority.double_subsampling(k, drawn))
    assert found.error <= min(expected_error(law, prior) for law in baselines) + 1e-9
    assert found.error == pytest.approx(expected_error(found.law, prior), abs=1e-15)


def test_the_papers_allowances_for_35_teachers():
    totals = [general_composition(0.1, 1e-5, m, 0.1) for m in (10, 13, 15, 20)]
    assert [round(epsilon, 4) for epsilon, _ in totals] == [0.6452, 0.7574, 0.8271, 0.9882]
    assert [round(delta, 4) for _, delta in totals] == [0.1001, 0.1001, 0.1001, 0.1002]


@pytest.mark.parametrize("slack", [0.0, 1e-5])
@pytest.mark.parametrize(("k", "rounds", "constraints"), [(101, 20, 80), (1001, 60, 400)])
def test_hundreds_of_teachers_take_few_rounds(k, rounds, constraints, slack):
    """About ten rounds and forty constraints for 101 teachers, where all constraints are a million."""
    found = optimise_gamma(k, epsilon=0.1, m=10, Delta=slack, delta=10 * slack)
    assert found.rounds < rounds
    assert found.n_constraints < constraints
    assert found.upper_bound - found.objective < 1e-8
    assert found.certificate.load <= 1 - found.certificate.rounding
    assert np.all(np.diff(found.gamma[k // 2 + 1 :]) >= 0)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    k=st.integers(1, 11),
    epsilon=st.floats(0.005, 8),
    share=st.floats(0.02, 1),
    slack=st.sampled_from([0.0, 0.0, 1e-6, 1e-3, 0.05, 0.4]),
    delta=st.sampled_from([0.0, 1e-4, 0.02, 0.5]),
    prior=st.sampled_from([0.6, 0.75, 0.95, AlikeTeachers(), AlikeTeachers(0.5, 0.7)]),
    constraints=st.sampled_from(["monotone", "all"]),
)
def test_whatever_is_asked_the_answer_is_private_and_within_its_bound(
    k, epsilon, share, slack, delta, prior, constraints
):
    privacy = {"epsilon": epsilon, "m": share * k, "Delta": slack, "delta": delta}
    found = optimise_gamma(k, prior=prior, constraints=constraints, **privacy)
    checked = check_gamma(found.law, **privacy)
    assert checked.exhaustive
    assert checked.load <= 1
    assert checked.load == pytest.approx(found.certificate.load, abs=found.certificate.rounding)
    assert 0 <= found.upper_bound - found.objective + 1e-9 < 1e-7
    assert found.error == pytest.approx(expected_error(found.law, prior), abs=1e-15)


def test_stopping_early_is_private_too():
    privacy = {"epsilon": 0.3, "m": 3}
    for most_rounds in (1, 2, 3):
        found = optimise_gamma(21, most_rounds=most_rounds, **privacy)
        assert found.rounds <= most_rounds
        assert check_gamma(found.law, **privacy).load <= 1
    assert found.upper_bound > found.objective


def test_a_looser_allowance_or_more_constraints_act_as_they_should():
    by_m = [optimise_gamma(15, epsilon=0.5, m=m).objective for m in (0.5, 1, 2, 3, 8)]
    assert np.all(np.diff(by_m) > 0)
    assert by_m[-1] == pytest.approx(float(AlikeTeachers().lead(15).sum()), abs=1e-9)
    every, rising = (optimise_gamma(15, epsilon=1, m=2, constraints=c) for c in ("all", "monotone"))
    assert rising.objective < every.objective < 1.02 * rising.objective
    assert np.any(np.diff(every.gamma[8:]) < 0)


def test_a_smaller_delta_than_composition_asks_for_is_feasible():
    privacy = {"epsilon": 0.5, "m": 2, "Delta": 0.3, "delta": 0.0}
    found = optimise_gamma(7, **privacy)
    assert 0 < found.objective < optimise_gamma(7, **(privacy | {"Delta": 0.0})).objective
    assert check_gamma(found.law, **privacy).load <= 1


@pytest.mark.parametrize("m", [1e-3, 300])
def test_tiny_and_huge_allowances_do_not_break_the_arithmetic(m):
    found = optimise_gamma(301, epsilon=0.01 if m < 1 else 2.0, m=m)
    assert found.certificate.load <= 1
    assert (found.error < 1e-10) == (m > 1)


def test_the_certificate_says_what_binds():
    found = optimise_gamma(11, epsilon=0.1, m=3)
    text = str(found.certificate)
    assert "78 placements" in text
    assert "shrunk by" in text
    assert sum(count for _, count in found.certificate.corners) == 11


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"m": 12}, "m=12 is not a number above 0 and up to n_teachers=11"),
        ({"m": 0}, "m=0 "),
        ({"m": float("nan")}, "m=nan"),
        ({"m": "3"}, "m='3'"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": float("nan")}, "epsilon=nan"),
        ({"Delta": 1}, "Delta=1 is not a number from 0 to below 1"),
        ({"Delta": float("nan")}, "Delta=nan"),
        ({"delta": -1e-9}, "delta=-1e-09"),
        ({"n_teachers": 11.0}, "n_teachers=11.0"),
        ({"n_teachers": 0}, "n_teachers=0"),
        ({"prior": 1.5}, "prior mean=1.5"),
        ({"prior": 0.5}, "prior makes both classes equally likely"),
        ({"prior": None}, "prior mean=None"),
        ({"constraints": "some"}, "constraints='some'"),
        (
            {"constraints": "all", "n_teachers": 41, "Delta": 1e-5},
            "73,629,072 constraints.*use constraints='monotone'",
        ),
        ({"tolerance": float("nan")}, "tolerance=nan"),
        ({"most_rounds": 0}, "most_rounds=0"),
        ({"epsilon": 1e-6, "m": 0.01}, "larger m or epsilon"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changed, words):
    asked = {"n_teachers": 11, "epsilon": 0.1, "m": 3} | changed
    with pytest.raises(InvalidParameterError, match=words):
        optimise_gamma(asked.pop("n_teachers"), **asked)


class _Prior:
    def __init__(self, lead):
        self._lead = lead

    def lead(self, n_teachers):
        return self._lead


@pytest.mark.parametrize("lead", [[0.1], np.full(3, np.nan), np.array([0.1, -0.1, 0.2]), np.zeros((3, 1)), None])
def test_a_prior_of_your_own_must_give_chances(lead):
    with pytest.raises((InvalidParameterError, TypeError)):
        optimise_gamma(5, epsilon=0.1, m=2, prior=_Prior(lead))


@pytest.mark.parametrize("name", ["m", "Delta", "delta"])
def test_numbers_beyond_doubles_are_refused(name):
    with pytest.raises(InvalidParameterError, match=name):
        optimise_gamma(5, **{"epsilon": 0.1, "m": 2, name: 10**400})


def test_the_upper_bound_is_one():
    found = optimise_gamma(12, epsilon=2, m=7.564103606736984, Delta=0.1, prior=0.999)
    assert found.upper_bound >= found.objective


def error_of_always_guessing(lead):
    return float(lead.sum()) / 2


@pytest.mark.parametrize("k", [1, 2, 7, 10])
@pytest.mark.parametrize("span", [(0.0, 1.0), (0.5, 1.0), (0.2, 0.9), (0.0, 0.3)])
def test_uniform_leads_match_quadrature(k, span):
    votes = np.arange(k // 2 + 1, k + 1)
    expected = [
        quad(
            lambda p, at=at: abs(binom.pmf(at, k, p) - binom.pmf(k - at, k, p)) / (span[1] - span[0]),
            *span,
            points=[0.5] if span[0] < 0.5 < span[1] else None,
        )[0]
        for at in votes
    ]
    assert np.allclose(AlikeTeachers(*span).lead(k), expected, atol=1e-10)


@pytest.mark.parametrize("k", [1, 11, 400, 2001])
@pytest.mark.parametrize("middle", [0.1, 0.3, 0.7, 0.93])
@pytest.mark.parametrize("width", [1e-4, 1e-6, 1e-9, 1e-12])
def test_narrow_intervals_keep_their_digits(k, middle, width):
    """A narrow interval is its middle, up to the second derivative there."""
    narrow = AlikeTeachers(middle - width / 2, middle + width / 2).lead(k)
    expected = IndependentTeachers(middle).lead(k)
    assert np.allclose(narrow, expected, rtol=1e-9 * k + 200 * (k * width) ** 2, atol=1e-12 + (k * width) ** 2)


def test_quadrature_takes_over_without_a_step():
    for k in (5, 60, 900):
        wide = 1 / (k + 1)
        leads = [AlikeTeachers(0.6, 0.6 + wide * share).lead(k) for share in (0.999999, 1.000001)]
        assert np.allclose(*leads, rtol=1e-4, atol=1e-12)
        votes = np.arange(k // 2 + 1, k + 1)
        nodes, weights = np.polynomial.legendre.leggauss(k)
        chances = 0.6 + wide / 2 * (1 + nodes)
        exact = weights @ (binom.pmf(votes, k, chances[:, None]) - binom.pmf(k - votes, k, chances[:, None])) / 2
        assert np.allclose(AlikeTeachers(0.6, 0.6 + wide * 0.999999).lead(k), exact, rtol=1e-4, atol=1e-12)
        assert np.allclose(AlikeTeachers(0.6, 0.6 + wide).lead(k), exact, rtol=1e-10, atol=1e-15)


def test_independent_teachers_match_drawn_ones():
    rng = np.random.default_rng(0)
    chances = rng.uniform(0.5, 1, (200_000, 5))
    counts = np.bincount((rng.random(chances.shape) < chances).sum(axis=1), minlength=6) / len(chances)
    # Standard error of each entry is at most 0.0016.
    assert np.allclose(IndependentTeachers(0.75).lead(5), (counts - counts[::-1])[3:], atol=0.008)


def test_both_sides_of_a_half_are_alike():
    assert np.allclose(IndependentTeachers(0.2).lead(9), IndependentTeachers(0.8).lead(9))
    histogram = AlikeTeachers(probabilities=(0.1, 0.7), weights=(0.25, 0.75))
    assert np.allclose(
        histogram.lead(9), 0.25 * IndependentTeachers(0.9).lead(9) + 0.75 * IndependentTeachers(0.7).lead(9)
    )


def test_a_guess_errs_by_the_lead_of_the_likelier_class():
    assert error_of_always_guessing(IndependentTeachers(1.0).lead(7)) == pytest.approx(0.5)


def test_the_prior_decides_where_the_noise_goes():
    sure = optimise_gamma(35, epsilon=0.1, m=5, prior=0.95)
    unsure = optimise_gamma(35, epsilon=0.1, m=5, prior=AlikeTeachers(0.4, 0.6))
    assert sure.gamma[-2] > unsure.gamma[-2]
    assert sure.gamma[18] < unsure.gamma[18]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: AlikeTeachers(probabilities=(0.1, 0.9), weights=(0.5, 0.4)), "must sum to 1; got 0.9"),
        (lambda: AlikeTeachers(probabilities=(0.1,), weights=(0.5, 0.5)), "one length"),
        (lambda: AlikeTeachers(probabilities=(1.1,), weights=(1.0,)), "probability=1.1"),
        (lambda: AlikeTeachers(probabilities=(0.1,), weights=(float("nan"),)), "weight=nan"),
        (lambda: AlikeTeachers(0.7, 0.2), "below high"),
        (lambda: IndependentTeachers(float("nan")), "mean=nan"),
        (lambda: IndependentTeachers("0.7"), "mean='0.7'"),
    ],
)
def test_bad_priors_are_refused(build, words):
    with pytest.raises(InvalidParameterError, match=words):
        build()


def test_the_solver_prints_nothing(capfd):
    """Of HiGHS 1.16 callbacks print a banner, which would stand before the JSON of the command line."""
    program = _GammaProgram(np.array([1.0, 2.0]), rising=True)
    program.add(np.array([1.0, 1.0]))
    gamma, objective = program.solve()
    np.testing.assert_allclose([*gamma, objective], [0.0, 1.0, 2.0], atol=1e-9)
    assert capfd.readouterr() == ("", "")
