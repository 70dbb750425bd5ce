"""Feature maps by nearness to landmarks: for class sums, with no negative entry, and for rounds of residuals.

Landmarks are public rows of numbers. Features are smooth functions of a row's nearness to each of them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import linalg, sparse
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted

from dpensemble._entries import Floats, dense
from dpensemble._work import one_thread
from dpensemble.datasets.columns import in_parts, is_number, numbers_of
from dpensemble.datasets.tables import (
    ColumnReading,
    LibraryTransformer,
    as_fitted_table,
    as_library_transformer,
    as_table,
)
from dpensemble.moments.maps.base import ALONG_PATH, FeatureMap, MapOnBase
from dpensemble.moments.maps.directions import DirectionsMap

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
# The same if landmarks have a small part, and what is released decides about a later one.
_FARTHEST_BESIDE = 0.6
# Mean squared distances in which nearness falls by e, and median distances in which the kernel falls by e.
_NEARNESS, _WIDTH = 0.5, 0.6
# Most directions of the kernel, the power of their public standard deviation, and their least share of the variance.
_DIRECTIONS, _WHITENING, _LEAST_SHARE = 250, 0.5, 1e-8
# Points of Gauss and Legendre at which slopes along a line are taken.
_NODES = 32


def _are_measured(public: pd.DataFrame) -> bool:
    """Return whether every public column holds numbers with many values, so that distances between rows mean much.

    A column with one value changes no distance and does not count. Numbers must be small enough for their squares.
    """
    columns = (public.iloc[:, place] for place in range(public.shape[1]))
    values = [column.nunique() if is_number(column) else 0 for column in columns]
    if max(values) < 2 or any(1 != count < _FEWEST_VALUES for count in values):
        return False
    return _is_small(public)


def _measured_columns(public: pd.DataFrame) -> list[int] | None:
    """Return places of measured columns, or None when they are fewer than half of the columns, or all of them.

    A column with one value does not count.
    """
    columns = [public.iloc[:, place] for place in range(public.shape[1])]
    values = [column.nunique() for column in columns]
    measured = [
        place
        for place, column in enumerate(columns)
        if values[place] >= _FEWEST_VALUES and is_number(column) and _is_small(column.to_frame())
    ]
    n_varying = sum(count > 1 for count in values)
    return measured if 2 <= len(measured) < n_varying <= 2 * len(measured) else None


def _is_small(numbers: pd.DataFrame) -> bool:
    return bool(np.nanmax(np.abs(_numbers(numbers))) < _LARGEST)


class WhitenedNumbers(TransformerMixin, BaseEstimator):
    """Columns of numbers, standardised and partly whitened by public rows, of total public variance 1.

    Blanks become public medians, and numbers outside the public range the ends of the range. Every row is read on its
    own, to the last digit.
    """

    def fit(self, X: pd.DataFrame, y: None = None) -> WhitenedNumbers:  # noqa: ARG002
        """Learn ranges, medians and the covariance from public rows. Never pass private rows."""
        standard, spread = self._standardised(X)
        n_rows, n_columns = standard.shape
        n_varying = np.count_nonzero(standard.any(axis=0))
        wide = n_columns > n_rows
        variances, directions = linalg.eigh((standard @ standard.T if wide else standard.T @ standard) / n_rows)
        variances = np.maximum(variances, 0.0)
        # Directions with little variance are mostly noise: the floor keeps whitening from making them large.
        floor = variances.sum() / n_varying
        if wide:
            # All directions without variance have the same factor, so that it does not matter which ones are taken.
            seen = variances > _LEAST_SHARE * floor
            along = standard.T @ directions[:, seen] / np.sqrt(n_rows * variances[seen])
            scaled = np.eye(n_columns) / np.sqrt(floor)
            scaled += (along * (1 / np.sqrt(variances[seen] + floor) - 1 / np.sqrt(floor))) @ along.T
        else:
            scaled = directions / np.sqrt(variances + floor)
        total = np.sqrt((variances / (variances + floor)).sum())
        self.matrix_ = scaled / (spread[:, None] * total)
        return self

    def _standardised(self, X: pd.DataFrame) -> tuple[Floats, Floats]:
        """Learn ranges, medians and means. Return standardised rows, and the divisors of columns."""
        numbers = _numbers(X)
        self.low_, self.high_ = np.nanmin(numbers, axis=0), np.nanmax(numbers, axis=0)
        self.median_ = np.nanmedian(numbers, axis=0)
        within = self._within(numbers)
        self.mean_ = within.mean(axis=0)
        spread = within.std(axis=0)
        spread[spread == 0] = 1.0
        return (within - self.mean_) / spread, spread

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


def _chosen_landmarks(points: Floats, rows: Floats, n_landmarks: int, farthest: float = _FARTHEST) -> Floats | None:
    """Return landmarks among public rows, which are `points` when whitened, shape (n_landmarks, n_columns).

    None when public rows are too few, or too far from landmarks that were chosen among others of them.
    """
    order = np.random.default_rng(0).permutation(len(rows))[:_MOST_ROWS]
    points, rows = points[order], rows[order]
    n_landmarks = min(n_landmarks, int(_count_distinct(rows) * _MOST_SHARE))
    if n_landmarks < 2:
        return None
    trial = _centres(points[::2], min(n_landmarks, _count_distinct(rows[::2])))
    variance = float(points.var(axis=0).sum())
    if cdist(points[1::2], trial, "sqeuclidean").min(axis=1).mean() > farthest * variance:
        return None
    return _centres(points, n_landmarks)


def _count_distinct(rows: Floats) -> int:
    return len(np.unique(rows, axis=0))


def _apart_alike(standard: Floats) -> Floats:
    """Return points as far apart as whitened rows, in as many coordinates as there are rows.

    `standard` are standardised rows, shape (n_rows, n_columns). With more columns than rows, their products decide all
    distances, and no eigenvector is needed. The mean variance of a column is 1, which whitening adds to all variances.
    """
    n_rows = len(standard)
    products = standard @ standard.T / n_rows
    floor = float(np.trace(products)) / np.count_nonzero(standard.any(axis=0))
    products[np.diag_indices(n_rows)] += floor
    root = linalg.cholesky(products, lower=True, overwrite_a=True, check_finite=False)
    inverse, _ = linalg.lapack.dpotri(root, lower=True, overwrite_c=True)
    inverse *= -floor
    inverse[np.diag_indices(n_rows)] += 1
    # The products of whitened rows have rank n_rows - 1 at most, so that a root needs a little more on the diagonal.
    inverse[np.diag_indices(n_rows)] += _LEAST_SHARE
    inverse *= n_rows / np.trace(inverse)
    return np.asarray(linalg.cholesky(inverse, lower=True, overwrite_a=True, check_finite=False))


def _centres(rows: Floats, n_landmarks: int) -> Floats:
    with one_thread(None):
        means = KMeans(n_landmarks, n_init=1, max_iter=_PASSES, random_state=0).fit(rows)
    return np.asarray(means.cluster_centers_)


def _nearness_scale(rows: Floats, landmarks: Floats) -> float:
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


def _shortened(features: Floats) -> Floats:
    """Return rows that are at most 1 long."""
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0)


# Public rows below which no landmarks are chosen.
_FEWEST_ROWS = 1000


class CurvedMap(MapOnBase):
    """Features for class sums of tables, without negative entries, and of length 1.

    Each feature of the base map becomes two: its positive part and its negative part. Their difference is the base
    map's feature, with the noise that the feature itself would have. Replacing a unit moves sums of nonnegative vectors
    of length 1 by at most ``sqrt(2)`` instead of 2. When every column is a measured number and public rows are near
    their landmarks, a `part` of the squared length goes to nearness to landmarks. Both facts are public.

    The published model reads other features of the same rows (`decoder_`): those of the base map, and smooth functions
    of the distances to the landmarks.

    Parameters
    ----------
    base : feature map
        Cloned and fitted on public rows.
    n_landmarks : int, default=400
        Most landmarks; 0 for none.
    part : float, default=0.75
        Part of the squared length that nearness to landmarks has, above 0 and below 1.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_landmarks, n_columns) or None
        Means of groups of whitened public rows. None when landmarks would not stand for the public rows.
    decoder_ : feature map
        The map whose features the published model reads.
    compared_ : feature map
        The base map, whose features have their private and public means compared.
    blocks_ : ndarray of shape (n_features_out,)
        0 for all features, 1 for the constant.
    nonnegative_ : bool
        True.

    Examples
    --------
    >>> from dpensemble.moments import DirectionsMap, TableMap
    >>> public = pd.DataFrame(np.random.default_rng(0).normal(size=(1000, 3)))
    >>> curved = CurvedMap(DirectionsMap(TableMap(), n_directions=8), n_landmarks=20).fit(public)
    >>> features = curved.transform(public)
    >>> features.shape, bool(features.min() >= 0), bool(np.allclose(np.linalg.norm(features, axis=1), 1))
    ((1000, 37), True, True)
    """

    def __init__(self, base: FeatureMap, n_landmarks: int = 400, part: float = 0.75) -> None:
        self.base = base
        self.n_landmarks = n_landmarks
        self.part = part

    def fit(self, X: pd.DataFrame | Floats, y: None = None) -> CurvedMap:  # noqa: ARG002
        """Fit the base map, and choose landmarks, on public rows. Never pass private rows."""
        table = as_table(X)
        self.base_ = clone(self.base).fit(table)
        self._take_columns()
        self.nonnegative_, self.landmarks_ = True, None
        if self.n_landmarks and len(table) >= _FEWEST_ROWS and _are_measured(table):
            self.landmarks_ = self._landmarks_of(table)
        if self.landmarks_ is None:
            self.decoder_ = self.base_
        else:
            points = self.numbers_.transform(table)
            self.scale_ = _nearness_scale(points, self.landmarks_)
            kernel = KernelDirections(self.landmarks_).fit(points)
            self.decoder_ = CurvedDecoder(self.base_, self.numbers_, kernel).fit(table)
        n_signed = len(self.base_.blocks_) - 1
        n_near = 0 if self.landmarks_ is None else len(self.landmarks_)
        # Landmarks are nearer to the public rows that they were chosen among than to other rows of the same population.
        self.compared_ = self.base_
        self.blocks_ = np.append(np.zeros(2 * n_signed + n_near, dtype=np.int64), 1)
        return self

    def _landmarks_of(self, table: pd.DataFrame) -> Floats | None:
        """Return landmarks if they stand for rows. The matrix that whitens a wide table is large, so try first."""
        if table.shape[1] > len(table):
            standard, _ = WhitenedNumbers()._standardised(table)
            if _chosen_landmarks(_apart_alike(standard), standard, self.n_landmarks) is None:
                return None
        self.numbers_ = WhitenedNumbers().fit(table)
        rows = self.numbers_.from_mean(table)
        return _chosen_landmarks(rows @ self.numbers_.matrix_, rows, self.n_landmarks)

    def transform(self, X: pd.DataFrame | Floats) -> Floats:
        """Return the features of rows, shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        table = as_fitted_table(self, X)
        features = dense(self.base_.transform(table))
        signed, constant = features[:, :-1], features[:, -1:]
        parts = [np.maximum(signed, 0.0), np.maximum(-signed, 0.0)]
        if self.landmarks_ is None:
            return np.hstack([*parts, constant])
        near = nearness(self.numbers_.transform(table), self.landmarks_, self.scale_)
        rest = np.sqrt(1 - self.part)
        return np.hstack([np.sqrt(self.part) * near, *(rest * one for one in parts), rest * constant])


class CurvedDecoder(MapOnBase):
    """What a published model reads of rows: a base map's features, and smooth functions of distances to landmarks.

    `base`, `numbers` and `kernel` are fitted on public rows already. Rows are at most 1 long.
    """

    #: A product of matrices may round a row differently beside others. No private row is read by this map.
    reads_rows_alone = False

    def __init__(self, base: FeatureMap, numbers: WhitenedNumbers, kernel: KernelDirections) -> None:
        self.base = base
        self.numbers = numbers
        self.kernel = kernel

    def fit(self, X: pd.DataFrame, y: None = None) -> CurvedDecoder:  # noqa: ARG002
        """Take the fitted parts as they are."""
        self.base_ = self.base
        self._take_columns()
        self.nonnegative_ = False
        # The base map's blocks take the place of the constant that follows the kernel's directions.
        octaves = self.octaves_of(self.kernel.matrix_.shape[1])
        self.blocks_ = np.append(octaves[:-1], octaves[-1] + self.base.blocks_)
        return self

    def transform(self, X: pd.DataFrame | Floats) -> Floats:
        """Return the features of rows, shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        table = as_table(X)
        curved = _shortened(self.kernel.transform(self.numbers.transform(table)))
        return np.hstack([curved, dense(self.base_.transform(table))]) * np.sqrt(0.5)

    @property
    def table_columns(self) -> list[ColumnReading] | None:  # type: ignore[override]
        """How the base map reads each column."""
        columns: list[ColumnReading] | None = as_library_transformer(self.base_).table_columns
        return columns

    @property
    def attribution(self) -> str | None:  # type: ignore[override]
        """How a row is divided among its columns, if the base map divides rows."""
        return ALONG_PATH if as_library_transformer(self.base_).attribution is not None else None

    def reference(self, public: pd.DataFrame) -> Floats:
        """Return the features that parts start from: those of the row of public means, and the base map's."""
        middle = np.zeros((1, self.numbers.matrix_.shape[1]))
        curved = _shortened(self.kernel.transform(middle))[0]
        return np.append(curved, self.base_.reference(public)) * np.sqrt(0.5)

    def column_parts(self, X: pd.DataFrame | Floats, weights: Floats, reference: Floats) -> Floats:
        """Return what each column adds: a part of the base map's features, and a part of the curved ones.

        The curved part is an integrated gradient from the row of public means (M. Sundararajan, A. Taly and Q. Yan,
        "Axiomatic attribution for deep networks", ICML 2017). The integral is approximate.
        """
        table, n_curved = as_table(X), self.kernel.matrix_.shape[1]
        of_curved, of_base = weights[:n_curved] * np.sqrt(0.5), weights[n_curved:] * np.sqrt(0.5)
        parts = self.base_.column_parts(table, of_base, reference[n_curved:] / np.sqrt(0.5))
        from_mean = self.numbers.from_mean(table)
        slopes = self.kernel.mean_slopes(self.numbers.transform(table), of_curved)
        return parts + from_mean[:, :, None] * np.matmul(self.numbers.matrix_, slopes)

    def on_table(self, coefficients: Floats, public: pd.DataFrame) -> None:
        """Return None: a curved function of several columns has no effect of a single column."""


class Nearness(LibraryTransformer, TransformerMixin, BaseEstimator):
    """How near the measured numbers of rows are to landmarks: entries of at least 0, and rows of length 1.

    `numbers`, `landmarks` and `scale` follow from the columns at `places` of public rows already.
    """

    reads_rows_alone = True
    takes_blanks = True

    def __init__(self, places: list[int], numbers: WhitenedNumbers, landmarks: Floats, scale: float) -> None:
        self.places = places
        self.numbers = numbers
        self.landmarks = landmarks
        self.scale = scale

    def __sklearn_clone__(self) -> Nearness:
        """Return the same object, which is not fitted again."""
        return self

    def fit(self, X: pd.DataFrame, y: None = None) -> Nearness:  # noqa: ARG002
        """Take the parts as they are."""
        self.n_features_in_ = as_table(X).shape[1]
        return self

    def transform(self, X: pd.DataFrame | Floats) -> Floats:
        """Return the features of rows, shape (n_rows, n_landmarks)."""
        return nearness(self.points(as_table(X)), self.landmarks, self.scale)

    def points(self, table: pd.DataFrame) -> Floats:
        """Return the whitened numbers of rows."""
        return self.numbers.transform(table.iloc[:, self.places])

    def mean_slopes(self, points: Floats, directions: DirectionsMap, weights: Floats) -> Floats:
        """Return mean slopes of ``directions @ weights`` on the line from 0 to each of `points`.

        Shape (n_rows, n_outputs, n_columns). `directions` are fitted on these features and have no constant.
        """
        matrix, outputs = directions.directions_, directions.directions_ @ weights
        slopes = np.zeros((len(points), weights.shape[1], points.shape[1]))
        # The slopes of each landmark's nearness, times outputs, as one product.
        towards = (outputs[:, :, None] * self.landmarks[:, None, :]).reshape(len(outputs), -1)
        places, shares = np.polynomial.legendre.leggauss(_NODES)
        for place, share in zip((places + 1) / 2, shares / 2, strict=True):
            near = nearness(place * points, self.landmarks, self.scale)
            middle = near**2 @ self.landmarks
            along = (near - directions.mean_) @ matrix
            lengths = np.maximum(np.linalg.norm(along, axis=1), 1e-12)[:, None]
            unit = along / lengths
            of_along = (near @ towards).reshape(slopes.shape) - (near @ outputs)[:, :, None] * middle[:, None, :]
            # Rows are made equally long, so that growing in length adds nothing.
            lengthening = near * (unit @ matrix.T)
            of_length = lengthening @ self.landmarks - lengthening.sum(axis=1, keepdims=True) * middle
            of_along -= (unit @ weights)[:, :, None] * of_length[:, None, :]
            slopes += share / self.scale * of_along / lengths[:, None, :]
        return slopes


class BesideMap(MapOnBase):
    """Directions of nearness to landmarks beside the directions of a table, for rounds of residuals.

    The landmarks lie among the measured columns. The base map also reads all other columns. Nearness has a small
    `part` of the squared length in the first round. In a later round the part follows from what was released
    (`groups_`): a table without interactions gives most of the length back to the base map.

    Parameters
    ----------
    base : DirectionsMap
        Fitted on public rows already.
    near : Nearness
        Made from the same rows.
    n_directions : int
        Largest number of directions of nearness.
    part : float, default=0.2
        Part of the squared length, apart from the constant, that nearness has in the first round.

    Attributes
    ----------
    near_ : DirectionsMap
        The directions of nearness.
    compared_ : feature map
        The base map, whose features have their private and public means compared.
    groups_ : ndarray of shape (n_features_out,)
        0 for nearness, 1 for the base map's directions, 2 for the constant.
    squares_ : ndarray of shape (3,)
        Squared length of each group, the same for all rows. The sum is 1.
    """

    attribution = ALONG_PATH
    #: No group is the column of an entry that may be missing.
    missing_ = ()

    is_recent = True

    def __init__(self, base: DirectionsMap, near: Nearness, n_directions: int, part: float = 0.2) -> None:
        self.base = base
        self.near = near
        self.n_directions = n_directions
        self.part = part

    def fit(self, X: pd.DataFrame | Floats, y: None = None) -> BesideMap:  # noqa: ARG002
        """Take the fitted parts as they are, and find the directions of nearness among public rows."""
        self.base_ = self.base
        self._take_columns()
        self.near_ = DirectionsMap(self.near, n_directions=self.n_directions, constant=0.0).fit(as_table(X))
        self.nonnegative_ = False
        # Landmarks are nearer to the public rows that they were chosen among than to others of the same population.
        self.compared_ = self.base_
        of_near, of_base = self.near_.blocks_[:-1], self.base_.blocks_
        self.blocks_ = np.append(of_near, of_near.max() + 1 + of_base)
        self.groups_ = np.repeat([0, 1, 2], [len(of_near), len(of_base) - 1, 1])
        constant = self.base_.constant**2
        self.squares_ = np.array([(1 - constant) * self.part, (1 - constant) * (1 - self.part), constant])
        self.columns_of_blocks_ = np.array([0, 1, -1])
        return self

    def transform(self, X: pd.DataFrame | Floats) -> Floats:
        """Return the features of rows, shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        table = as_fitted_table(self, X)
        features = np.hstack([self.near_.transform(table)[:, :-1], self.base_.transform(table)])
        features *= self._factors
        return features

    @property
    def _factors(self) -> Floats:
        """The factor of each feature of either map."""
        of_near = np.sqrt(self.part * (1 - self.base_.constant**2))
        return np.asarray(np.array([of_near, np.sqrt(1 - self.part), 1.0])[self.groups_])

    @property
    def table_columns(self) -> list[ColumnReading] | None:  # type: ignore[override]
        """How the base map reads each column."""
        return self.base_.table_columns

    def reference(self, public: pd.DataFrame) -> Floats:
        """Return the features that parts start from: those of the row of public means, and the base map's."""
        middle = np.zeros((1, self.near.landmarks.shape[1]))
        along = (nearness(middle, self.near.landmarks, self.near.scale)[0] - self.near_.mean_) @ self.near_.directions_
        along /= max(float(np.linalg.norm(along)), 1e-12)
        return np.append(along, self.base_.reference(public)) * self._factors

    def column_parts(self, X: pd.DataFrame | Floats, weights: Floats, reference: Floats) -> Floats:
        """Return what each column adds: a part of the base map's features, and a part of nearness.

        The part of nearness is an integrated gradient from the row of public means, as in `CurvedDecoder`. The integral
        is approximate.
        """
        table, n_near = as_table(X), np.count_nonzero(self.groups_ == 0)
        factors = self._factors
        weights = weights * factors[:, None]
        parts = self.base_.column_parts(table, weights[n_near:], reference[n_near:] / factors[n_near:])
        slopes = self.near.mean_slopes(self.near.points(table), self.near_, weights[:n_near])
        from_mean = self.near.numbers.from_mean(table.iloc[:, self.near.places])
        parts[:, self.near.places] += from_mean[:, :, None] * (slopes @ self.near.numbers.matrix_.T).transpose(0, 2, 1)
        return parts

    def on_table(self, coefficients: Floats, public: pd.DataFrame) -> None:
        """Return None: nearness is a function of several columns, and has no effect of a single column."""


def beside(base: DirectionsMap, public: pd.DataFrame, n_landmarks: int, n_directions: int) -> FeatureMap:
    """Return a fitted base map with nearness to landmarks beside its directions, if public facts allow this.

    At least half of the public columns must be measured, and not all. Public rows must lie near landmarks among these
    columns.
    """
    places = _measured_columns(public)
    if len(public) < _FEWEST_ROWS or places is None or len(places) > len(public):
        return base
    measured = public.iloc[:, places]
    numbers = WhitenedNumbers().fit(measured)
    points = numbers.transform(measured)
    landmarks = _chosen_landmarks(points, numbers.from_mean(measured), n_landmarks, _FARTHEST_BESIDE)
    if landmarks is None:
        return base
    near = Nearness(places, numbers, landmarks, _nearness_scale(points, landmarks))
    return BesideMap(base, near, n_directions).fit(public)
