"""The closed form for several classes."""

import numpy as np
import pytest

from dpensemble.moments.model import expected, probabilities
from dpensemble.moments.softmax import fit_linear


def linear(rounds, public, n_units):
    about = [expected(m.centre, public.features, public.n_classes, m.even_weight) for m in rounds]
    return 10 * fit_linear(rounds, about, public, n_units=n_units).coefficients


@pytest.mark.parametrize("n_classes", [3, 4, 6, 10])
def test_without_noise_nearly_every_row_gets_its_likeliest_class(made, n_classes):
    public, p, rounds = made(n_classes, spread=1e-7)
    guess = probabilities(public.features, linear(rounds, public, 1e9))
    lost = p.max(axis=1) - np.take_along_axis(p, guess.argmax(axis=1)[:, None], axis=1)[:, 0]
    # Linear chances are not the truth here, which is a softmax. Chance would lose most of the rest.
    assert lost.mean() < 0.1 * (p.max(axis=1) - 1 / n_classes).mean()


def test_more_noise_means_a_linear_model_that_says_less(made):
    found = []
    for spread in (1e-5, 3e-2, 30.0):
        public, p, rounds = made(4, spread)
        guess = probabilities(public.features, linear(rounds, public, 10_000))
        found.append(np.take_along_axis(p, guess.argmax(axis=1)[:, None], axis=1).mean())
    assert found[0] > found[1] > found[2]


def test_coefficients_of_all_classes_add_up_to_nothing(made):
    public, _, rounds = made(5, 1e-3)
    assert np.allclose(linear(rounds, public, 1000).sum(axis=1), 0, atol=1e-8)


def test_linear_fits_repeat(made):
    public, _, rounds = made(3, 1e-2)
    one, other = (linear(rounds, public, 1000) for _ in range(2))
    assert np.array_equal(one, other)
