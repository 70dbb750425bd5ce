"""The fit, from moments whose expectation and noise are known."""

import numpy as np

from dpensemble.moments.evidence import fit_moments, starting_fit
from dpensemble.moments.model import probabilities


def test_without_noise_the_truth_is_found(made):
    public, p, rounds = made(2, spread=1e-7)
    found = fit_moments(rounds, public, starting_fit(public), n_units=1e9)
    assert np.abs(probabilities(public.features, found.coefficients) - p).mean() < 0.01


def test_more_noise_means_a_model_that_says_less(made):
    errors, sizes = [], []
    for spread in (1e-5, 3e-2, 30.0):
        public, p, rounds = made(2, spread)
        found = fit_moments(rounds, public, starting_fit(public), n_units=10_000)
        guess = probabilities(public.features, found.coefficients)
        errors.append(np.abs(guess - p).mean())
        sizes.append(np.abs(guess - 0.5).mean())
    assert errors[0] < 0.02
    assert errors[0] < errors[1]
    assert np.isfinite(sizes).all()


def test_fits_repeat(made):
    public, _, rounds = made(2, 1e-2)
    one, other = (fit_moments(rounds, public, starting_fit(public), n_units=1000) for _ in range(2))
    assert np.array_equal(one.coefficients, other.coefficients)
    assert np.array_equal(one.scales, other.scales)
