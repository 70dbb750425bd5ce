"""The certified supremum over two gaps, against the laws of labels at random gaps."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

from dpensemble.accounting.two_gaps import _Cover, _GaussianGaps, _LaplaceGaps, two_gap_pairs
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import LaplaceNoisyMax

WEIGHT = 1e-6
ORDERS = np.array([1.1, 2.0, 5.0, 20.0, 50.0, 200.0])
NOISES = ["gaussian", "laplace"]
LAWS = {"gaussian": _GaussianGaps, "laplace": _LaplaceGaps}


def gaussian_labels(counts):
    """The trapezoidal rule on all of the real line, exact to rounding for analytic integrands."""
    z = np.arange(-12, 12.05, 0.1)
    labels = np.empty(counts.shape)
    for c in range(counts.shape[1]):
        others = np.delete(counts, c, axis=1)
        below = ndtr(z + (counts[:, c, None] - others)[:, :, None]).prod(axis=1)
        labels[:, c] = 0.1 * (np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * below).sum(axis=1)
    return labels / labels.sum(axis=1, keepdims=True)


def laplace_labels(counts):
    return LaplaceNoisyMax(scale=1.0).probabilities(counts)


LABELS = {"gaussian": gaussian_labels, "laplace": laplace_labels}


def mixed(p, weight=WEIGHT):
    return (1 - weight) * p + weight / p.shape[1]


def exceeds(pairs, p, q, rng):
    """Worst share by which actual pairs exceed the set: Renyi, hockey-stick, and a backward step's functions."""
    worst = -np.inf
    renyi = pairs.renyi(ORDERS)
    for a, b in ((p, q), (q, p)):
        loss = np.log(a) - np.log(b)
        for order, limit in zip(ORDERS, renyi, strict=True):
            top = ((order - 1) * loss).max(axis=1, keepdims=True)
            moment = np.log1p((a * np.expm1((order - 1) * loss - top)).sum(axis=1)) + top[:, 0]
            worst = max(worst, moment.max() / (order - 1) - limit * (1 + 1e-9) - 1e-14)
        typical = np.abs(loss).max() * rng.random(8)
        for epsilon in (0.0, *typical):
            excess = np.maximum(a - np.exp(epsilon) * b, 0).sum(axis=1).max()
            worst = max(worst, excess - pairs.hockey_stick(epsilon) * (1 + 1e-12) - 1e-15)
        for _ in range(5):
            kinks = np.exp(typical[rng.integers(0, 8, 3)] * rng.choice([-1, 1], 3))
            weights = rng.random(3)

            def functional(p, q, kinks=kinks, weights=weights):
                return (np.maximum(p[..., None] - kinks * q[..., None], 0) @ weights).sum(axis=-1)

            limit = functional(pairs.p, pairs.q).max()
            worst = max(worst, functional(a, b).max() - limit * (1 + 1e-12) - 1e-15)
    return worst


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("shift", [1e-4, 1 / 400, 0.07, 0.5, 2.0, 4.0])
def test_no_two_gaps_exceed_the_set(noise, shift):
    rng = np.random.default_rng(1)
    n_classes, size = 4, 3000
    spread = rng.choice([0.3, 2.0, 6.0, 15.0], (size, 1))
    gaps = spread * rng.standard_normal((size, 2))
    gaps[:40, 1] = -gaps[:40, 0] * rng.choice([0.0, 1.0], 40)
    gaps[40:60] = rng.choice([-38.0, -9.0, 0.0, shift, 9.0, 38.0], (20, 2))
    moved = gaps + shift * np.array([-1.0, 1.0])
    law = LAWS[noise](shift)
    share = WEIGHT * np.array([1, 1, n_classes - 2]) / n_classes
    p, q = ((1 - WEIGHT) * law.probabilities(*g.T) + share for g in (gaps, moved))
    assert exceeds(two_gap_pairs(noise, shift, n_classes, WEIGHT), p, q, rng) <= 0


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("n_classes", [3, 4, 10])
@pytest.mark.parametrize("scale", [2.0, 40.0])
def test_no_histograms_exceed_the_set(noise, n_classes, scale):
    rng = np.random.default_rng(2)
    counts = np.floor(rng.choice([1, 4, 20], (300, 1)) * scale * rng.random((300, n_classes)) / 2)
    counts[:20] = counts[:20, :1]
    counts[20:40, 1:] = 0
    neighbour = counts.copy()
    neighbour[:, 0] -= 1
    neighbour[:, 1] += 1
    p, q = (mixed(LABELS[noise](c / scale)) for c in (counts, neighbour))
    assert exceeds(two_gap_pairs(noise, 1 / scale, n_classes, WEIGHT), p, q, rng) <= 0


@pytest.mark.parametrize("noise", NOISES)
def test_probabilities_of_three_outcomes(noise):
    rng = np.random.default_rng(3)
    gaps = rng.uniform(-6, 6, (200, 2))
    gaps[:10] = 0
    gaps[10:20, 0] = 0
    gaps[20:30, 1] = gaps[20:30, 0]
    # The third class stands still: its own noise is what the first two must beat, so condition on it.
    ours = LAWS[noise](1.0).probabilities(*gaps.T)
    np.testing.assert_allclose(ours.sum(axis=-1), 1, atol=1e-15)
    t = np.linspace(0, 45, 90_001)
    density = {
        "gaussian": lambda z: np.exp(-z * z / 2) / np.sqrt(2 * np.pi),
        "laplace": lambda z: np.exp(-np.abs(z)) / 2,
    }[noise]
    below = {
        "gaussian": ndtr,
        "laplace": lambda z: np.where(z < 0, np.exp(-np.abs(z)), 2 - np.exp(-np.abs(z))) / 2,
    }
    for (u, v), three in list(zip(gaps, ours, strict=True))[::10]:
        values = density(t - v) * below[noise](t - u)
        assert abs(np.trapezoid(values, t) - three[1]) < 1e-6


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("shift", [1 / 400, 0.3])
def test_bends_and_scores_hold(noise, shift):
    rng = np.random.default_rng(4)
    law = LAWS[noise](shift)
    region = law.regions()[-1]
    corner = region[[0, 2]] + rng.random((60, 2)) * (np.minimum(region[[1, 3]], 5) - region[[0, 2]])
    width = np.minimum(rng.random((60, 2)) * 0.4, region[[1, 3]] - corner)
    cells = np.stack([corner[:, 0], corner[:, 0] + width[:, 0], corner[:, 1], corner[:, 1] + width[:, 1]], axis=1)
    lower_bend, gain_bend = law.bends(cells)
    scores = law.largest_scores(cells)
    cover = _Cover(law, WEIGHT, WEIGHT / 3)
    share = np.linspace(0, 1, 21)
    for i, (v0, v1, y0, y1) in enumerate(cells):
        v, y = np.meshgrid(v0 + (v1 - v0) * share, y0 + (y1 - y0) * share, indexing="ij")
        lower, gain = cover.pairs_at(v, y)
        ratio = np.where(lower > 1e-11, np.log1p(gain / np.maximum(lower, 1e-11)), 0)
        assert np.all(ratio <= scores[i] * shift * (1 + 1e-9) + 1e-4 * shift)
        for axis, step in ((0, v[1, 0] - v[0, 0]), (1, y[0, 1] - y[0, 0])):
            noise_level = 2e-15 / step**2
            assert np.all(np.diff(lower, 2, axis=axis) / step**2 <= lower_bend[i, axis] + noise_level)
            bend = -np.diff(gain[..., 1:], 2, axis=axis) / step**2
            assert np.all(bend <= gain_bend[i, axis] + noise_level)


def largest(noise, shift, order):
    """The supremum of the two orders' Renyi divergences by search, a lower bound of the set's."""
    law = LAWS[noise](shift)
    share = WEIGHT * np.array([1, 1, 8]) / 10

    def divergence(v, y):
        u = v + 2 * y
        p = (1 - WEIGHT) * law.probabilities(u + shift / 2, v - shift / 2) + share
        q = (1 - WEIGHT) * law.probabilities(u - shift / 2, v + shift / 2) + share
        loss = np.log(p / q)
        forth = np.log1p((p * np.expm1((order - 1) * loss)).sum(axis=-1))
        return np.maximum(forth, np.log1p((q * np.expm1((1 - order) * loss)).sum(axis=-1))) / (order - 1)

    v, y = np.meshgrid(np.linspace(-3, 5, 161), np.linspace(0, 5, 201))
    if noise == "laplace":
        v = shift * (v - 1) / 8
    values = divergence(v, y)
    best = np.unravel_index(values.argmax(), values.shape)
    found = minimize(
        lambda z: -divergence(np.array(z[0]), np.array(abs(z[1]))) / values.max(),
        (v[best], y[best]),
        method="Nelder-Mead",
        options={"xatol": 1e-5 * min(1, shift), "fatol": 1e-9},
    )
    return max(-found.fun, 1.0) * values.max()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(
    ("scale", "order"), [(400, 2), (400, 50), (100, 20), (40, 5), (40, 20), (20, 2), (5, 2), (2, 1.5), (2, 2)]
)
def test_set_is_within_a_tenth_of_a_percent(noise, scale, order):
    certified = two_gap_pairs(noise, 1 / scale, 10, WEIGHT).renyi([order])[0]
    ratio = certified / largest(noise, 1 / scale, order)
    assert 1 - 1e-7 <= ratio <= 1.001


@pytest.mark.parametrize(("noise", "constant"), [("gaussian", 0.639971285), ("laplace", 2 / 3)])
def test_limit_of_small_shifts(noise, constant):
    shift = 1 / 400
    assert two_gap_pairs(noise, shift, 3, WEIGHT).renyi([2.0])[0] / (2 * shift**2) == pytest.approx(constant, rel=1e-3)


def test_gaussian_wins_agree_with_two_classes_far_out():
    law = _GaussianGaps(0.1)
    np.testing.assert_allclose(law.probabilities(9.0, 8.0)[1], ndtr(-np.sqrt(0.5)), rtol=1e-14)


def test_same_object_for_the_same_arguments():
    assert two_gap_pairs("laplace", 0.25, 3, 1e-6) is two_gap_pairs("laplace", 0.25, n_classes=3, mixing_weight=1e-6)


@pytest.mark.parametrize("noise", NOISES)
def test_heavier_mixing_is_cheaper(noise):
    light, heavy = (two_gap_pairs(noise, 0.5, 5, weight).renyi([10.0])[0] for weight in (1e-6, 1e-2))
    assert heavy < light


@pytest.mark.parametrize(
    "arguments",
    [
        ("cauchy", 0.1, 3, 1e-6),
        ("gaussian", 0.0, 3, 1e-6),
        ("gaussian", 4.1, 3, 1e-6),
        ("gaussian", float("nan"), 3, 1e-6),
        ("laplace", 0.1, 2, 1e-6),
        ("laplace", 0.1, 3.0, 1e-6),
        ("laplace", 0.1, 3, 0.0),
        ("laplace", 0.1, 3, 0.02),
    ],
)
def test_bad_arguments(arguments):
    with pytest.raises(InvalidParameterError):
        two_gap_pairs(*arguments)
