"""Landmarks among public rows of numbers: which rows are near which landmark, and smooth functions of nearness."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import linalg, sparse
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans

from dpensemble._arrays import Floats
from dpensemble._processes import one_thread
from dpensemble.datasets.columns import in_parts, is_number, numbers_of

# Distinct public values from which a column counts as measured.
_FEWEST_VALUES = 10
# Numbers from which squares and their sums are not safe.
_LARGEST = 1e100
# Public rows that landmarks are chosen from, at most, and passes over them.
_MOST_ROWS, _PASSES = 10_000, 20
# Landmarks are at most this share of the distinct public rows they are chosen from.
_MOST_SHARE = 1 / 3
# Mean squared distance to the nearest landmark, in the variance of all rows, up to which landmarks stand for rows.
_FARTHEST = 0.35
# Mean squared distances in which nearness falls by e, and median distances in which the kernel falls by e.
_NEARNESS, _WIDTH = 0.5, 0.6
# Most directions of the kernel, the power of their public standard deviation, and their least share of the variance.
_DIRECTIONS, _WHITENING, _LEAST_SHARE = 250, 0.5, 1e-8
# Points of Gauss and Legendre at which slopes along a line are taken.
_NODES = 32


def are_measured(public: pd.DataFrame) -> bool:
    """Return whether every public column holds numbers with many values, so that distances between rows mean much.

    A column with one value changes no distance and does not count. Numbers must be small enough for their squares.
    """
    columns = (public.iloc[:, place] for place in range(public.shape[1]))
    values = [column.nunique() if is_number(column) else 0 for column in columns]
    if max(values) < 2 or any(1 != count < _FEWEST_VALUES for count in values):
        return False
    return bool(np.nanmax(np.abs(_numbers(public))) < _LARGEST)


class WhitenedNumbers(TransformerMixin, BaseEstimator):
    """Columns of numbers, standardised and partly whitened by public rows, of total public variance 1.

    Blanks become public medians, and numbers outside the public range the ends of the range. Every row is read on its
    own, to the last digit.
    """

    def fit(self, X: pd.DataFrame, y: None = None) -> WhitenedNumbers:  # noqa: ARG002
        """Learn ranges, medians and the covariance from public rows. Never pass private rows."""
        numbers = _numbers(X)
        self.low_, self.high_ = np.nanmin(numbers, axis=0), np.nanmax(numbers, axis=0)
        self.median_ = np.nanmedian(numbers, axis=0)
        within = self._within(numbers)
        self.mean_ = within.mean(axis=0)
        spread = within.std(axis=0)
        n_varying = np.count_nonzero(spread)
        spread[spread == 0] = 1.0
        standard = (within - self.mean_) / spread
        variances, directions = linalg.eigh(standard.T @ standard / len(standard))
        variances = np.maximum(variances, 0.0)
        # Directions with little variance are mostly noise: the floor keeps whitening from making them large.
        floor = variances.sum() / n_varying
        scaled = directions / np.sqrt(variances + floor)
        total = np.sqrt((variances / (variances + floor)).sum())
        self.matrix_ = scaled / (spread[:, None] * total)
        return self

    def transform(self, X: pd.DataFrame) -> Floats:
        """Return the whitened numbers of rows, shape (n_rows, n_columns)."""
        # A sparse product goes row by row, where a dense one may round a row differently beside others.
        return np.asarray(sparse.csr_matrix(self.from_mean(X)) @ self.matrix_)

    def from_mean(self, X: pd.DataFrame) -> Floats:
        """Return how far the numbers of rows are from their public means, shape (n_rows, n_columns)."""
        return np.asarray(self._within(_numbers(X)) - self.mean_)

    def _within(self, numbers: Floats) -> Floats:
        return np.where(np.isnan(numbers), self.median_, numbers).clip(self.low_, self.high_)


def _numbers(table: pd.DataFrame) -> Floats:
    parts = in_parts(table, np.arange(table.shape[1]), numbers_of)
    return np.hstack([numbers for _, (numbers, _) in parts])


def chosen_landmarks(rows: Floats, n_landmarks: int) -> Floats | None:
    """Return landmarks among whitened public rows, shape (n_landmarks, n_columns).

    None when public rows are too few, or too far from landmarks that were chosen among others of them.
    """
    draws = np.random.default_rng(0)
    rows = rows[draws.permutation(len(rows))[:_MOST_ROWS]]
    distinct = len(np.unique(rows, axis=0))
    n_landmarks = min(n_landmarks, int(distinct * _MOST_SHARE))
    if n_landmarks < 2:
        return None
    half = rows[::2]
    trial = _centres(half, min(n_landmarks, len(np.unique(half, axis=0))))
    variance = float(rows.var(axis=0).sum())
    if cdist(rows[1::2], trial, "sqeuclidean").min(axis=1).mean() > _FARTHEST * variance:
        return None
    return _centres(rows, n_landmarks)


def _centres(rows: Floats, n_landmarks: int) -> Floats:
    with one_thread(None):
        means = KMeans(n_landmarks, n_init=1, max_iter=_PASSES, random_state=0).fit(rows)
    return np.asarray(means.cluster_centers_)


def nearness_scale(rows: Floats, landmarks: Floats) -> float:
    """Return the squared distance in which nearness falls by e."""
    return max(_NEARNESS * float(cdist(rows, landmarks, "sqeuclidean").min(axis=1).mean()), 1e-12)


def nearness(rows: Floats, landmarks: Floats, scale: float) -> Floats:
    """Return how near rows are to landmarks: roots of shares that add up to 1, shape (n_rows, n_landmarks)."""
    return np.sqrt(softmax(-cdist(rows, landmarks, "sqeuclidean") / scale, axis=1))


class KernelDirections(TransformerMixin, BaseEstimator):
    """Principal directions of a Laplace kernel between rows and landmarks, partly whitened by public rows."""

    def __init__(self, landmarks: Floats) -> None:
        self.landmarks = landmarks

    def fit(self, X: Floats, y: None = None) -> KernelDirections:  # noqa: ARG002
        """Learn the width and the directions from whitened public rows."""
        self.landmarks_ = np.asarray(self.landmarks)
        apart = cdist(self.landmarks_, self.landmarks_)
        self.width_ = max(_WIDTH * float(np.median(apart[np.triu_indices_from(apart, 1)])), 1e-12)
        # The features of C. Williams and M. Seeger, "Using the Nystroem method to speed up kernel machines", 2000.
        own, vectors = linalg.eigh(np.exp(-apart / self.width_))
        large = own > 1e-6 * own[-1]
        root = vectors[:, large] / np.sqrt(own[large])
        features = self._kernel(X) @ root
        mean = features.mean(axis=0)
        variances, directions = linalg.eigh((features - mean).T @ (features - mean) / len(features))
        order = np.argsort(variances)[::-1][:_DIRECTIONS]
        order = order[variances[order] > _LEAST_SHARE * variances[order[0]]]
        scaled = directions[:, order] * variances[order] ** (-_WHITENING / 2)
        # Rows have a mean squared length of 1.
        length = np.sqrt((variances[order] ** (1 - _WHITENING)).sum())
        self.matrix_ = root @ scaled / length
        self.mean_ = mean @ scaled / length
        return self

    def transform(self, X: Floats) -> Floats:
        """Return the features of whitened rows, shape (n_rows, n_directions)."""
        return np.asarray(self._kernel(X) @ self.matrix_ - self.mean_)

    def mean_slopes(self, X: Floats, weights: Floats) -> Floats:
        """Return mean slopes of ``shortened(features) @ weights`` on the line from 0 to each whitened row.

        Shape (n_rows, n_columns, n_outputs). A slope times the row's entry, summed over columns, is the difference
        between the row and 0 up to the error of the integral.
        """
        outputs = self.matrix_ @ weights
        slopes = np.zeros((*X.shape, weights.shape[1]))
        places, shares = np.polynomial.legendre.leggauss(_NODES)
        for place, share in zip((places + 1) / 2, shares / 2, strict=True):
            rows = place * X
            distances = cdist(rows, self.landmarks_)
            kernel = np.exp(-distances / self.width_)
            features = kernel @ self.matrix_ - self.mean_
            lengths = np.linalg.norm(features, axis=1)
            # Towards each landmark the kernel grows by its own value over the width.
            towards = (self.landmarks_.T - rows[:, :, None]) * (kernel / (self.width_ * np.maximum(distances, 1e-12)))[
                :, None, :
            ]
            of_features = (towards.reshape(-1, kernel.shape[1]) @ outputs).reshape(slopes.shape)
            # A row that is longer than 1 is shortened, so that growing in length adds nothing.
            unit = np.where(lengths > 1, 1 / np.maximum(lengths, 1.0), 0.0)[:, None] * features
            of_length = np.einsum("idl,il->id", towards, unit @ self.matrix_.T)
            of_features -= of_length[:, :, None] * (unit @ weights)[:, None, :]
            slopes += (share / np.maximum(lengths, 1.0))[:, None, None] * of_features
        return slopes

    def _kernel(self, X: Floats) -> Floats:
        return np.exp(-cdist(X, self.landmarks_) / self.width_)


def shortened(features: Floats) -> Floats:
    """Return rows that are at most 1 long."""
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0)
