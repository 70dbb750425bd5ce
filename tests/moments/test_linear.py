"""The closed form for several classes."""

import numpy as np
import pytest

from dpensemble.moments.linear import fit_linear
from dpensemble.moments.model import probabilities


@pytest.mark.parametrize("n_classes", [3, 4, 6, 10])
def test_without_noise_nearly_every_row_gets_its_likeliest_class(made, n_classes):
    public, p, rounds = made(n_classes, spread=1e-7)
    guess = probabilities(public.features, fit_linear(rounds, public, n_units=1e9).coefficients)
    lost = p.max(axis=1) - np.take_along_axis(p, guess.argmax(axis=1)[:, None], axis=1)[:, 0]
    # Linear chances are not the truth here, which is a softmax. Chance would lose most of the rest.
    assert lost.mean() < 0.1 * (p.max(axis=1) - 1 / n_classes).mean()


def test_more_noise_means_a_model_that_says_less(made):
    found = []
    for spread in (1e-5, 3e-2, 30.0):
        public, p, rounds = made(4, spread)
        guess = probabilities(public.features, fit_linear(rounds, public, n_units=10_000).coefficients)
        found.append(np.take_along_axis(p, guess.argmax(axis=1)[:, None], axis=1).mean())
    assert found[0] > found[1] > found[2]


def test_coefficients_of_all_classes_add_up_to_nothing(made):
    public, _, rounds = made(5, 1e-3)
    assert np.allclose(fit_linear(rounds, public, n_units=1000).coefficients.sum(axis=1), 0, atol=1e-8)


def test_fits_repeat(made):
    public, _, rounds = made(3, 1e-2)
    one, other = (fit_linear(rounds, public, n_units=1000) for _ in range(2))
    assert np.array_equal(one.coefficients, other.coefficients)
