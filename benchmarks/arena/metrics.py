"""Scores of class probabilities: accuracy, order of rows, and how far the probabilities can be believed."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

#: Smaller probabilities of the true class count as this in the log-loss, so that one 0 costs 13.8 and not everything.
LEAST_PROBABILITY = 1e-6
#: Equal-mass bins of the calibration error, and the draws of labels from which its expected value is computed.
BINS, DRAWS, SEED = 15, 200, 0


def scores(probabilities: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return all scores of class probabilities.

    Parameters
    ----------
    probabilities : numpy.ndarray
        Shape (n_rows, n_classes); each row sums to 1, up to 0.001.
    y : numpy.ndarray
        True classes as positions, shape (n_rows,).

    Returns
    -------
    dict
        `accuracy`, `auroc`, `log_loss`, `zeros`, `brier` and `ece`. `zeros` counts rows whose true class has
        probability 0. The Brier score is half the sum of squared differences over classes, which is the usual score
        for two classes.

    Raises
    ------
    ValueError
        If entries are not probabilities.
    """
    if not np.isfinite(probabilities).all() or probabilities.min() < 0:
        raise ValueError("the probabilities of test rows have entries that are not finite or below 0")
    if np.abs(probabilities.sum(axis=1) - 1).max() > 1e-3:
        raise ValueError("the probabilities of a test row do not sum to 1")
    of_truth = probabilities[np.arange(len(y)), y]
    hot = np.eye(probabilities.shape[1])[y]
    return {
        "accuracy": float(np.mean(probabilities.argmax(axis=1) == y)),
        "auroc": auroc(probabilities, y),
        "log_loss": float(-np.log(np.maximum(of_truth, LEAST_PROBABILITY)).mean()),
        "zeros": int((of_truth == 0).sum()),
        "brier": float(((probabilities - hot) ** 2).sum(axis=1).mean() / 2),
        "ece": calibration_error(probabilities, y),
    }


def auroc(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Return the AUROC; with several classes the mean of one class against the rest, over classes that rows have."""
    classes = range(1, 2) if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    held = [c for c in classes if 0 < np.count_nonzero(y == c) < len(y)]
    return float(np.mean([roc_auc_score(y == c, probabilities[:, c]) for c in held]))


def merit(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Return accuracy plus AUROC less log-loss, by which settings are chosen."""
    of_truth = np.maximum(probabilities[np.arange(len(y)), y], LEAST_PROBABILITY)
    return float(np.mean(probabilities.argmax(axis=1) == y) + auroc(probabilities, y) + np.log(of_truth).mean())


def calibration_error(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Return the expected calibration error of the most probable class, less its value under perfect calibration.

    Rows are binned by confidence into equal masses; equal confidences share a bin. Finite bins have an error even if
    every label is drawn from the probabilities, so the mean of that error over draws with a fixed seed is subtracted.
    The result is at least 0. Source: Roelofs et al. 2022, "Mitigating bias in calibration error estimation", for
    equal-mass bins and for the bias.
    """
    confidence = np.minimum(probabilities.max(axis=1), 1.0)
    right = probabilities.argmax(axis=1) == y
    edges = np.unique(np.quantile(confidence, np.arange(1, BINS) / BINS, method="inverted_cdf"))
    places = np.searchsorted(edges, confidence, side="left")
    # Bins are runs of the sorted rows, so that a bin's sum is a difference of cumulative sums.
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(np.diff(places[order], prepend=-1))
    generator = np.random.default_rng(SEED)
    sorted_confidence = confidence[order]
    simulated = [
        _error(generator.random(len(order)) < sorted_confidence, sorted_confidence, starts) for _ in range(DRAWS)
    ]
    return max(0.0, _error(right[order], sorted_confidence, starts) - float(np.mean(simulated)))


def _error(right: np.ndarray, confidence: np.ndarray, starts: np.ndarray) -> float:
    return float(np.abs(np.add.reduceat(right - confidence, starts)).sum() / len(right))
