"""A released score: what a unit can change, what that costs, and how far off it is."""

from itertools import product

import numpy as np
import pytest

from dpensemble._random import SeededNoise
from dpensemble.accounting import gaussian_delta
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.score import BINS, area_under, bin_edges, release_score, unit_vectors

WHOLE = 2**40


def test_no_unit_moves_the_sum_by_more_than_it_is_charged_for():
    """All units of up to three records, each right or wrong and in any of four cells, against each other."""
    places = [0, BINS - 1, BINS, 2 * BINS - 1]
    vectors = set()
    for n in (1, 2, 3):
        for records in product(product([0, 1], places), repeat=n):
            right, cells = np.array(records).T
            (vector,) = unit_vectors(right, cells, np.zeros(n, dtype=int), 1)
            assert vector.min() >= 0
            assert vector[0] <= WHOLE
            assert vector[1:].sum() <= WHOLE
            vectors.add(tuple(vector[[0, *(1 + np.array(places))]].tolist()))
    found = np.array(sorted(vectors), dtype=float) / WHOLE
    distance = np.sqrt(((found[:, None] - found[None]) ** 2).sum(axis=2)).max()
    assert distance == pytest.approx(np.sqrt(3))
    assert distance <= np.sqrt(3)
    plain = np.array([unit_vectors(np.array([r]), None, np.zeros(1, dtype=int), 1)[0] for r in (0, 1)])
    assert abs(plain[1] - plain[0]).tolist() == [WHOLE]


@pytest.mark.parametrize(("n_entries", "sensitivity"), [(1, 1.0), (1 + 2 * BINS, np.sqrt(3))])
def test_all_of_the_budget_is_used_and_no_more(n_entries, sensitivity):
    score = release_score(np.zeros((50, n_entries), dtype=np.int64), 0.7, 1e-6, SeededNoise(0))
    assert 0.6999 < score.epsilon <= 0.7
    assert gaussian_delta(sensitivity / score.sigma, 0.7) <= 1e-6
    assert gaussian_delta(1.001 * sensitivity / score.sigma, 0.7) > 1e-6
    with pytest.raises(InvalidParameterError, match="epsilon=0"):
        release_score(np.zeros((50, n_entries), dtype=np.int64), 0.0, 1e-6, SeededNoise(0))


def test_the_area_is_that_of_pairs():
    rng = np.random.default_rng(0)
    for _ in range(20):
        histogram = rng.integers(0, 6, size=(2, 4)).astype(float)
        low, high = (np.repeat(np.arange(4), row.astype(int)) for row in histogram)
        if len(low) and len(high):
            pairs = (high[:, None] > low[None]) + (high[:, None] == low[None]) / 2
            assert area_under(histogram) == pytest.approx(pairs.mean())
    assert area_under(np.zeros((2, 4))) == 0.5


def test_intervals_hold_the_truth_as_often_as_they_say():
    """300 populations of 400 units: false alarm below 1e-4 if both intervals hold the truth in 95 % of runs."""
    rng, held = np.random.default_rng(1), {"accuracy": 0, "auroc": 0}
    edges = bin_edges(rng.random(1000))
    truth_of = rng.random(200_000)
    exact = area_under(
        np.array(
            [
                np.bincount(np.searchsorted(edges, truth_of[pick]), minlength=BINS)
                for pick in (rng.random(200_000) > truth_of, rng.random(200_000) < truth_of)
            ]
        ).astype(float)
    )
    for seed in range(300):
        probable = rng.random(400)
        truth = (rng.random(400) < probable).astype(int)
        right = ((probable > 0.5) == truth).astype(int)
        vectors = unit_vectors(right, np.searchsorted(edges, probable) + BINS * truth, np.arange(400), 400)
        score = release_score(vectors, 2.0, 1e-5, SeededNoise(seed))
        held["accuracy"] += score.accuracy_low <= 0.75 <= score.accuracy_high
        held["auroc"] += score.auroc_low <= exact <= score.auroc_high
    assert min(held.values()) >= 270  # Binomial(300, 0.95) is below 270 with probability 1e-4
    assert held["accuracy"] < 300


def test_of_one_class_alone_there_is_no_area():
    n = 300
    vectors = unit_vectors(np.ones(n, dtype=int), np.full(n, 3), np.arange(n), n)
    score = release_score(vectors, 1.0, 1e-5, SeededNoise(0))
    assert score.auroc is None
    assert score.accuracy > 0.9
    many = unit_vectors(np.ones(n, dtype=int), None, np.arange(n) // 3, n // 3)
    assert release_score(many, 1.0, 1e-5, SeededNoise(0)).auroc is None
