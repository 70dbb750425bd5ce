"""Released outcomes follow the law; fixed seed, false-alarm rate 1e-4 a test, and a planted error must alarm."""

import numpy as np
import pytest
from scipy.stats import chisquare

from dpensemble._random import SeededNoise, SystemNoise
from dpensemble.laws import LaplaceNoisyMax, integer_weights, sample

FALSE_ALARM = 1e-4
DRAWS = 200_000
COUNTS = [[5, 3], [3, 5, 5], [9, 1, 4, 4], [0, 0]]


def p_value(counts, scale, claimed_scale):
    outcomes = sample(LaplaceNoisyMax(scale), np.tile(counts, (DRAWS, 1)), SeededNoise(11))
    observed = np.bincount(outcomes, minlength=len(counts))
    claimed = integer_weights(LaplaceNoisyMax(claimed_scale), np.array([counts]))[0] / 2.0**63
    return chisquare(observed, claimed * DRAWS).pvalue


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_frequencies_match_the_law(counts):
    assert p_value(counts, 2.0, 2.0) > FALSE_ALARM


@pytest.mark.parametrize("counts", COUNTS[:3], ids=str)
def test_a_scale_five_per_cent_off_is_noticed(counts):
    assert p_value(counts, 2.0, 2.1) < FALSE_ALARM


def test_the_law_is_laplace_noisy_max():
    """Against the definition itself: add Laplace noise, take the largest."""
    rng = np.random.default_rng(5)
    counts = np.array([9, 1, 4, 7])
    winners = np.argmax(counts + rng.laplace(scale=3.0, size=(DRAWS, 4)), axis=1)
    expected = LaplaceNoisyMax(3.0).probabilities(counts[None])[0] * DRAWS
    assert chisquare(np.bincount(winners, minlength=4), expected).pvalue > FALSE_ALARM


def test_system_noise_is_uniform_and_never_repeats():
    bits = SystemNoise().uniform_bits(DRAWS)
    assert bits.max() < 2**63
    assert np.unique(bits).size == DRAWS
    observed = np.bincount((bits >> np.uint64(59)).astype(int), minlength=16)
    assert chisquare(observed).pvalue > 1e-9  # unseeded: an alarm once in a billion runs
