import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from dpensemble.darrm import AlikeTeachers, IndependentTeachers, optimise_gamma
from dpensemble.errors import InvalidParameterError


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
