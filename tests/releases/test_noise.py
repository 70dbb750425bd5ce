"""Discrete noise: its law, its spread, and what it refuses."""

import numpy as np
import pytest
from scipy.stats import chisquare

from dpensemble._random import SeededNoise
from dpensemble.errors import InvalidParameterError
from dpensemble.releases import DiscreteNoise


def discrete_law(kind, size):
    values = np.arange(-400, 401)
    masses = np.exp(-np.abs(values) / size) if kind == "laplace" else np.exp(-(values**2) / (2 * size))
    return values, masses / masses.sum()


@pytest.mark.parametrize(("kind", "size"), [("laplace", 1), ("laplace", 5), ("gaussian", 1), ("gaussian", 30)])
def test_noise_has_the_discrete_law_and_no_other(kind, size):
    draw = getattr(DiscreteNoise(SeededNoise(5)), kind)
    found = np.array([draw(size) for _ in range(6000)])

    def p_value(size):
        values, masses = discrete_law(kind, size)
        edges = np.flatnonzero(masses * len(found) > 8)
        inner, outer = values[edges], np.setdiff1d(values, values[edges])
        observed = [np.sum(found == v) for v in inner] + [np.sum(~np.isin(found, inner))]
        expected = np.append(masses[edges], masses[np.isin(values, outer)].sum()) * len(found)
        return chisquare(observed, expected).pvalue

    assert p_value(size) > 1e-3
    assert p_value(size * 1.25) < 1e-4


def test_large_noise_spreads_as_it_should():
    noise = DiscreteNoise(SeededNoise(1))
    assert np.std([noise.gaussian(10**24) for _ in range(1500)]) == pytest.approx(1e12, rel=0.06)
    assert np.mean([abs(noise.laplace(10**20)) for _ in range(1500)]) == pytest.approx(1e20, rel=0.08)
    for draw in (noise.gaussian, noise.laplace):
        with pytest.raises(InvalidParameterError, match="an integer from 1"):
            draw(0)
