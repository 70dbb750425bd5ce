"""A published recipe for private survival curves, and what it costs: noise on points of Kaplan-Meier, and smoothing.

The recipe is that of N. Veeraragavan and J. Nygard, "Federated survival analysis with node-level differential privacy:
private Kaplan-Meier curves" (arXiv 2509.00615, 2025), for one site. It adds Laplace noise to the curve at points of a
grid, or to its cosine or Haar coefficients, and smooths. We read the abstract and the authors' code, and not the text.

**Sensitivity.** If all others are censored before the first point, the curve is 1 until the last person has the event,
and then 0. So one person can move the curve from any such step to any other. Curves that fall from 1 are mixtures of
steps, so by convexity no two of them are further apart than two steps. `recipe_sensitivity` is that distance. For
points it is their number, which the abstract scales the noise by. More people do not make it smaller. The authors' code
takes the largest change of one point when one of the table's own people is left out (`left_out`), which bounds nothing
for other tables. Noise of that scale has no guarantee.
"""

import math

import numpy as np
from scipy import fft, optimize
from sklearn.isotonic import IsotonicRegression


def kaplan_meier(times, is_event):
    """Return distinct times, and the curve without bins after each."""
    order = np.unique(times)
    at_risk = len(times) - np.searchsorted(np.sort(times), order)
    events = np.bincount(np.searchsorted(order, times), is_event)
    return order, np.cumprod(1 - events / at_risk)


def kaplan_meier_at(times, is_event, ends):
    """Return Kaplan-Meier just after some times."""
    order, plain = kaplan_meier(times, is_event)
    return np.append(1.0, plain)[np.searchsorted(order, ends, side="right")]


def haar(size):
    """Return the orthonormal Haar matrix for a power of 2."""
    if size == 1:
        return np.ones((1, 1))
    half, pairs = haar(size // 2), np.eye(size // 2)
    return np.concatenate([np.kron(half, [1.0, 1.0]), np.kron(pairs, [1.0, -1.0])]) / math.sqrt(2)


def recipe_bases(n_points):
    """Return matrices from a curve to what the recipe adds noise to. Haar reads the last value up to a power of 2."""
    size = 2 ** math.ceil(math.log2(n_points))
    longer = np.eye(n_points)[np.minimum(np.arange(size), n_points - 1)]
    return {
        "points": np.eye(n_points),
        "cosine": fft.dct(np.eye(n_points), axis=0, norm="ortho"),
        "Haar": haar(size) @ longer,
    }


def recipe_sensitivity(basis):
    """Return how far, in the sum of absolute values, one person can move a curve that is read by a basis."""
    n_points = basis.shape[1]
    steps = basis @ (np.arange(n_points)[:, None] < np.arange(n_points + 1))
    return max(np.abs(steps - steps[:, [place]]).sum(axis=0).max() for place in range(steps.shape[1]))


def recipe_smoothings(noisy):
    """Yield the curve after each smoothing: by order only, by total variation as the authors weigh it, and Weibull."""
    n_points = len(noisy)
    places = np.arange(1.0, n_points + 1)
    yield IsotonicRegression(y_min=0, y_max=1, increasing=False).fit_transform(places, noisy)
    weight = 0.12 * (n_points / 50) ** 0.25 * math.sqrt(math.log(n_points + 1))
    # The dual of total variation: differences with limits.
    dual = optimize.lsq_linear(np.diff(np.eye(n_points), axis=0).T, noisy, bounds=(-weight, weight)).x
    yield np.minimum.accumulate(np.clip(noisy - np.diff(np.eye(n_points), axis=0).T @ dual, 0.0, 1.0))
    start = np.log([n_points, 1.0])

    def apart(logarithms):
        scale, shape = np.exp(np.clip(logarithms, -5.0, 8.0))
        return np.exp(-np.exp(np.clip(shape * np.log(places / scale), -50.0, 6.0))) - np.clip(noisy, -1.0, 2.0)

    yield apart(optimize.least_squares(apart, start).x) + np.clip(noisy, -1.0, 2.0)


def left_out(times, is_event, ends):
    """Return the largest change of a point of Kaplan-Meier when one person is left out, as the authors' code has it."""
    whole, most = kaplan_meier_at(times, is_event, ends), 0.0
    for out in np.unique(np.column_stack([times, is_event]), axis=0, return_index=True)[1]:
        without = kaplan_meier_at(np.delete(times, out), np.delete(is_event, out), ends)
        most = max(most, np.abs(without - whole).max())
    return most
