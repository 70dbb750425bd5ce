"""Sums of clipped gradients in closed form, for logistic regression and a network with one hidden layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Parameters = list[np.ndarray]


@dataclass(frozen=True)
class Model:
    """Logistic regression, or with `hidden` units a network with one hidden layer of tanh.

    Two classes have one output, and more have one each. `columns` counts the constant, which is the last column.
    """

    columns: int
    classes: int
    hidden: int = 0

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return 1 if self.classes == 2 else self.classes

    def start(self, seed: int) -> Parameters:
        """Return the first parameters. The output layer is 0, so that all classes have the same probability."""
        if not self.hidden:
            return [np.zeros((self.columns, self.outputs))]
        inner = np.random.default_rng(seed).normal(size=(self.columns, self.hidden))
        return [inner, np.zeros((self.hidden + 1, self.outputs))]

    def clipped_sum(self, parameters: Parameters, X: np.ndarray, y: np.ndarray, clip: float) -> Parameters:
        """Return the sum of gradients of the log-loss, each scaled down to length `clip` where it is longer.

        `X` has shape (n_rows, columns), `y` the positions of classes.
        """
        inner = self._inner(parameters, X)
        off = self.probabilities(parameters, X)
        off[np.arange(len(y)), y] -= 1.0
        off = off[:, 1:] if self.outputs == 1 else off
        lengths = _squared(off) * _squared(inner)
        if self.hidden:
            below = (off @ parameters[-1][:-1].T) * (1.0 - inner[:, :-1] ** 2)
            lengths += _squared(below) * _squared(X)
        scale = np.minimum(1.0, clip / np.sqrt(np.maximum(lengths, 1e-300)))[:, None]
        outer = inner.T @ (off * scale)
        return [X.T @ (below * scale), outer] if self.hidden else [outer]

    def probabilities(self, parameters: Parameters, X: np.ndarray) -> np.ndarray:
        """Return class probabilities, shape (n_rows, n_classes)."""
        margins = self._inner(parameters, X) @ parameters[-1]
        if self.outputs == 1:
            margins = np.column_stack([np.zeros(len(X)), margins])
        margins -= margins.max(axis=1, keepdims=True)
        odds = np.exp(margins)
        return odds / odds.sum(axis=1, keepdims=True)

    def _inner(self, parameters: Parameters, X: np.ndarray) -> np.ndarray:
        """Return what the output layer gets: the columns, or the hidden units and a constant."""
        if not self.hidden:
            return X
        return np.column_stack([np.tanh(X @ parameters[0]), np.ones(len(X))])


def scaled(public: np.ndarray, *others: np.ndarray) -> list[np.ndarray]:
    """Return rows divided by the median length of public rows, with a constant as the last column."""
    length = max(float(np.median(np.sqrt(_squared(public)))), 1e-12)
    return [np.column_stack([X / length, np.ones(len(X))]) for X in others]


def _squared(rows: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", rows, rows)
