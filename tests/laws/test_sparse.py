import mpmath as mp
import numpy as np
import pytest

from dpensemble._random import SeededNoise
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import SparseNoisyMax


def in_30_digits(counts, sigma, threshold):
    mp.mp.dps = 30
    top = max(counts) + 14 * sigma
    points = [threshold + (top - threshold) * k / 20 for k in range(21)]

    def wins(i):
        def density(y):
            others = mp.fprod(mp.ncdf((y - c) / sigma) for j, c in enumerate(counts) if j != i)
            return mp.npdf((y - counts[i]) / sigma) / sigma * others

        return mp.quad(density, points)

    return [*map(wins, range(len(counts))), mp.fprod(mp.ncdf((threshold - c) / sigma) for c in counts)]


@pytest.mark.parametrize(
    ("counts", "sigma", "threshold"), [([6, 3], 1.5, 2.5), ([5, 4, 3], 1.0, 2.5), ([30, 28, 1], 3.0, 12.0)]
)
def test_probabilities_are_those_of_the_noisy_maximum(counts, sigma, threshold):
    found = SparseNoisyMax(sigma, threshold).probabilities(np.array(counts))
    wanted = in_30_digits(counts, sigma, threshold)
    assert max(abs(float(mp.mpf(float(a)) - b)) for a, b in zip(found, wanted, strict=True)) < SparseNoisyMax.ERROR / 5


@pytest.mark.parametrize("counts", [[], [1], [3] * 200, list(range(1, 80)), [9000], [500] * 3])
@pytest.mark.parametrize(("sigma", "threshold"), [(0.25, 4.0), (10.0, 60.0), (1e4, 5e4)])
def test_rows_are_probabilities(counts, sigma, threshold):
    law = SparseNoisyMax(sigma, threshold)
    for row in (law.probabilities(np.array(counts)), law.mixed_probabilities(np.array(counts))):
        assert row.shape == (len(counts) + 1,)
        assert np.all(row >= 0)
        assert abs(row.sum() - 1) < 1e-12


def test_draws_follow_the_probabilities():
    law, counts, noise = SparseNoisyMax(2.0, 5.0), np.array([6, 4, 1]), SeededNoise(0)
    found = np.bincount([law.sample(counts, noise) for _ in range(4000)], minlength=4) / 4000
    # Five standard deviations: a false alarm in a million.
    assert np.abs(found - law.probabilities(counts)).max() < 5 * 0.5 / np.sqrt(4000)


def test_a_class_of_one_vote_reaches_the_threshold_as_seldom_as_asked():
    threshold = SparseNoisyMax.threshold_for(4.0, 1e-6)
    shown = SparseNoisyMax(4.0, threshold).probabilities(np.array([1]))[0]
    assert 0.99e-6 < shown <= 1e-6


@pytest.mark.parametrize(("sigma", "threshold"), [(0.1, 5), (2, 0.5), (np.nan, 5), (2, np.inf), (2e4, 5)])
def test_bad_settings_are_refused(sigma, threshold):
    with pytest.raises(InvalidParameterError, match="is not a number from"):
        SparseNoisyMax(sigma, threshold)
