"""Logistic regression from tables of pairs of columns, without rows.

Ferrando and Sheldon 2025, "Private Regression via Data-Dependent Sufficient Statistic Perturbation" (arXiv
2405.15002): a polynomial of degree two takes the place of the logistic log-likelihood (Huggins et al. 2017,
"PASS-GLM"), so that ``X'X`` and ``X'y`` suffice, and both are read off noisy tables of two columns. No package offers
the method, so this is the arena's own code. The paper has two classes; several are the arena's extension,
one against the rest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit

#: The interval of the polynomial, as in the papers, and the weight of half the squared coefficients.
REACH, RIDGE = 6.0, 1.0

Tables = Callable[[int, int], np.ndarray]


def polynomial() -> np.ndarray:
    """Return constant, slope and curvature of the polynomial for ``-log(1 + exp(-margin))``, by Chebyshev nodes."""
    fitted = np.polynomial.Chebyshev.interpolate(lambda margin: -np.logaddexp(0.0, -margin), 2, [-REACH, REACH])
    return fitted.convert(kind=np.polynomial.Polynomial).coef


def designs(sizes: np.ndarray, ordered: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
    """Return what each code of a column adds to a row's features: a bin its value, a category its own indicator."""
    return [
        row[:size, None] if number else np.eye(size) for size, number, row in zip(sizes, ordered, values, strict=True)
    ]


def coefficients(tables: Tables, columns: list[np.ndarray], total: float) -> np.ndarray:
    """Return coefficients of each class against the rest, shape (n_features + 1, n_classes), the constant last.

    Parameters
    ----------
    tables : callable
        The counts of two columns by their numbers; the number after the last column is the target.
    columns : list of numpy.ndarray
        The design of each column, shape (size, n_features of the column).
    total : float
        The number of rows.
    """
    target = len(columns)
    starts = np.cumsum([0, *(design.shape[1] for design in columns)])
    constant = starts[-1]
    gram, cross = np.zeros((constant + 1, constant + 1)), []
    for a, left in enumerate(columns):
        rows = slice(starts[a], starts[a + 1])
        counts = tables(a, target)
        cross.append(left.T @ (2 * counts - counts.sum(axis=1, keepdims=True)))
        gram[rows, rows] = left.T @ (counts.sum(axis=1)[:, None] * left)
        gram[rows, constant] = left.T @ counts.sum(axis=1)
        for b in range(a + 1, target):
            gram[rows, starts[b] : starts[b + 1]] = left.T @ tables(a, b) @ columns[b]
    gram = np.triu(gram) + np.triu(gram, 1).T
    gram[constant, constant] = total
    cross.append(2 * tables(0, target).sum(axis=0)[None] - total)
    _, slope, curvature = polynomial()
    penalty = RIDGE * np.eye(constant + 1)
    penalty[constant, constant] = 0.0
    return np.linalg.solve(-2 * curvature * gram + penalty, slope * np.concatenate(cross))


def probabilities(codes: np.ndarray, columns: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Return class probabilities of rows in codes: logistic scores of the classes, divided by their sum."""
    features = np.column_stack([design[codes[:, place]] for place, design in enumerate(columns)])
    # Far on the wrong side of every class, scores round to 0 together.
    scores = np.maximum(expit(features @ weights[:-1] + weights[-1]), 1e-12)
    return scores / scores.sum(axis=1, keepdims=True)
