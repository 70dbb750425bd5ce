"""Released outcomes follow the law: fixed seed, false-alarm rate 1e-4 a test, and a planted error must alarm."""

import numpy as np
import pytest
from scipy.stats import chisquare

from dpensemble._random import SeededNoise, SystemNoise
from dpensemble.laws import (
    ConfidentNoisyMax,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    OptimalVote,
    RandomizedResponse,
    TableLaw,
    integer_weights,
    sample,
)

FALSE_ALARM = 1e-4
DRAWS = 200_000
COUNTS = [[5, 3], [3, 5, 5], [9, 1, 4, 4], [0, 0]]


# Each with one whose noise is five to ten per cent off, or None.
LAWS = [
    (LaplaceNoisyMax(2.0), LaplaceNoisyMax(2.1)),
    (GaussianNoisyMax(3.0), GaussianNoisyMax(3.2)),
    (ConfidentNoisyMax(4.0, 3.0, 2.0), ConfidentNoisyMax(4.0, 3.3, 2.0)),
    (InteractiveNoisyMax(5.0, 3.0, 2.0), InteractiveNoisyMax(5.4, 3.0, 2.0)),
    (RandomizedResponse(1.0), RandomizedResponse(1.1)),
    (OptimalVote(12.0, 0.4), OptimalVote(13.0, 0.4)),
]
TABLE = TableLaw(((0.9, 0.1), (0.3, 0.7), (0.6, 0.4)))


def p_value(counts, law, claimed_law):
    outcomes = sample(law, np.tile(counts, (DRAWS, 1)), SeededNoise(11))
    claimed = integer_weights(claimed_law, np.array([counts]))[0] / 2.0**63
    observed = np.bincount(outcomes, minlength=len(claimed))
    # Outcomes that are hardly ever drawn are counted with the likeliest.
    rare = claimed * DRAWS < 10
    likeliest = np.argmax(claimed)
    for table in (observed, claimed):
        table[likeliest] += table[rare].sum()
    return chisquare(observed[~rare], claimed[~rare] * DRAWS).pvalue


@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("law", [law for law, _ in LAWS], ids=repr)
def test_frequencies_match_the_law(law, counts):
    assert p_value(counts, law, law) > FALSE_ALARM


@pytest.mark.parametrize("counts", COUNTS[:3], ids=str)
@pytest.mark.parametrize(("law", "other"), LAWS, ids=repr)
def test_noise_a_little_off_is_noticed(law, other, counts):
    assert p_value(counts, law, other) < FALSE_ALARM


def test_frequencies_match_a_table_and_a_law_against_a_student():
    assert p_value([1, 1], TABLE, TABLE) > FALSE_ALARM
    assert p_value([1, 1], TABLE, TableLaw(((0.9, 0.1), (0.31, 0.69), (0.6, 0.4)))) < FALSE_ALARM
    law = InteractiveNoisyMax(2.0, 3.0, 2.0)
    counts = np.tile([9, 1, 4], (DRAWS, 1))
    one = law.against([[0.5, 0.2, 0.3]])
    outcomes = sample(law.against(np.tile([0.5, 0.2, 0.3], (DRAWS, 1))), counts, SeededNoise(11))
    expected = integer_weights(one, counts[:1])[0] / 2.0**63 * DRAWS
    assert chisquare(np.bincount(outcomes, minlength=4), expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_the_law_is_gaussian_noisy_max(n_classes):
    """Against the definition itself: add Gaussian noise, take the largest. With a gate, check it first."""
    rng = np.random.default_rng(5)
    counts = np.array([9, 7, 4, 8, 1, 8])[:n_classes]
    winners = np.argmax(counts + rng.normal(scale=3.0, size=(DRAWS, n_classes)), axis=1)
    expected = GaussianNoisyMax(3.0).probabilities(counts[None])[0] * DRAWS
    assert chisquare(np.bincount(winners, minlength=n_classes), expected).pvalue > FALSE_ALARM
    passes = counts.max() + rng.normal(scale=2.0, size=DRAWS) >= 10
    gated = np.where(passes, winners, n_classes)
    expected = ConfidentNoisyMax(10.0, 2.0, 3.0).probabilities(counts[None])[0] * DRAWS
    assert chisquare(np.bincount(gated, minlength=n_classes + 1), expected).pvalue > FALSE_ALARM


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
