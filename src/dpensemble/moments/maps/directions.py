"""Principal directions of another map's features: fewer, and closer to equally important.

Products of features and directions are exact, so that a row's products do not depend on the rows beside it.

A product of matrices adds its terms in an order that depends on the size of the matrices, the number of threads and the
processor. In floating point another order gives other last digits. Here every term is a whole number of one public
unit. Features are at most 1 long and are whole numbers of ``2**-26``. Each direction is at most ``2**26`` of its own
units long. By the inequality of Cauchy and Schwarz the absolute values of all terms of a product add up to at most the
product of both lengths, about ``2**52`` units. So every partial sum is a whole number below ``2**53``. Doubles hold
such numbers exactly, and any order gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dpensemble._checks import real_between
from dpensemble._entries import Floats, Rows, dense, row_count, rows_at
from dpensemble.datasets.tables import ColumnReading, as_library_transformer
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.maps.base import ADDITIVE, FeatureMap, MapOnBase

# How a map divides a row: each column adds a part, times a factor that depends on the length of the row.
_SCALED = "exact sum, scaled by the length of the row"
# Bits of the lengths of features, of a direction and of a row of products, in whole units.
_HALF_BITS = 26
_UNITS = 2.0**_HALF_BITS
# Rows of a product, which should stay in the cache of a processor, and entries of their features at most.
_ROWS_AT_ONCE, _ENTRIES_AT_ONCE, _ENTRIES_OF_LENGTHS = 256, 2**24, 2**16
#: Features in multiples of those that differ from 0, up to which products of arrays are faster than sparse ones.
DENSE = 5


def _whole_directions(directions: Floats) -> Floats:
    """Return directions, one a column, rounded to whole numbers of units that are a power of two for each column."""
    _, exponents = np.frexp(np.linalg.norm(directions, axis=0))
    units = np.ldexp(1.0, exponents - _HALF_BITS)
    rounded: Floats = np.rint(directions / units) * units
    return rounded


def exact_features(features: Rows) -> Rows:
    """Return features, an array or a sparse matrix, rounded to whole units. Exact products need such features."""
    if sparse.issparse(features):
        return (features * _UNITS).rint() / _UNITS
    rounded = features * _UNITS
    np.rint(rounded, out=rounded)
    rounded *= 1 / _UNITS
    return rounded


def _exact_products(features: Rows, directions: Floats) -> Floats:
    """Return features, rounded to whole units, times whole directions, shape (n_rows, n_directions)."""
    n_rows, n_features = features.shape
    few = sparse.issparse(features) and features.nnz * DENSE < n_rows * n_features
    products = np.empty((n_rows, directions.shape[1]))
    for rows in _in_chunks(n_rows, n_features):
        part = exact_features(features[rows])
        products[rows] = part @ directions if few else dense(part) @ directions
    return products


def _exact_lengths(products: Floats) -> Floats:
    """Return the length of each row of products, from sums of whole numbers below ``2**53``.

    Entries are split into a coarse and a fine whole number. The square of the fine ones is too small to matter. The
    unit of a row is a power of two that depends only on the largest entry of the row.
    """
    # A power of two that is at least the root of the number of entries.
    n_rows, n_columns = products.shape
    root = ((n_columns - 1).bit_length() + 1) // 2
    # Fine parts are up to half of a coarse unit each, so coarse times fine stays below 2**52.
    fine_units, lengths = 2.0 ** (_HALF_BITS + 1 - root), np.empty(n_rows)
    for rows in _in_chunks(n_rows, n_columns, _ENTRIES_OF_LENGTHS):
        part = products[rows]
        _, exponents = np.frexp(np.maximum(part.max(axis=1, initial=0.0), -part.min(axis=1, initial=0.0)))
        exponents += root - _HALF_BITS
        fine = part * np.ldexp(1.0, -exponents)[:, None]
        coarse = np.rint(fine)
        fine -= coarse
        fine *= fine_units
        np.rint(fine, out=fine)
        squares = np.einsum("ij,ij->i", coarse, coarse) + np.einsum("ij,ij->i", coarse, fine) * (2 / fine_units)
        lengths[rows] = np.ldexp(np.sqrt(squares), exponents)
    return lengths


def _in_chunks(n_rows: int, n_columns: int, most: int = _ENTRIES_AT_ONCE) -> Iterator[slice]:
    size = max(1, min(_ROWS_AT_ONCE, most // max(n_columns, 1)))
    for start in range(0, n_rows, size):
        yield slice(start, start + size)


# Directions with less than this share of the largest public variance are noise of arithmetic.
_LEAST_SHARE = 1e-6
# The same share of the largest variance of a column, below which a direction costs length and shows little.
_LEAST_OF_COLUMN = 0.1
# Rows by which the number of effective directions is estimated.
_ROWS_OF_EFFECTIVE = 1000
# A sparse product of a matrix with itself is faster if fewer than one entry in this many differs from 0.
_SPARSE = 16
# Features of all rows together may need far more memory than the rows.
_FEATURES_AT_ONCE = 2**25


class DirectionsMap(MapOnBase):
    """The leading principal directions of public rows' features, partly whitened, as features of constant length 1.

    Noise is the same on every feature, so a signal that many columns share should be one feature. A direction in which
    rows differ little should not be drowned by a direction in which they differ much. Each direction is divided by its
    public standard deviation to the power `whitening`. Then every row is made equally long.

    If the base map has ``reads_rows_alone``, its features and the directions are rounded to whole numbers of public
    units, so that products are exact, as the top of this module states. A row then has the same features, to
    the last digit, beside any other rows.

    Parameters
    ----------
    base : feature map
        Cloned and fitted on public rows.
    n_directions : int, default=100
        Largest number of directions.
    whitening : float, default=0.5
        From 0 (as they are) to 1 (all of equal variance).
    constant : float, default=0.1
        Length of the constant.
    coarse_first : bool, default=False
        Whether coarse scales of numbers count more than fine ones when directions are chosen, by the base map's
        ``coarseness``. Directions are then smooth functions of numbers first.
    linear : float, default=0.0
        Part of the squared length, apart from the constant, that linear functions of numbers have beside the
        directions, on average over public rows. From 0 to 0.9. The base map states them (``linear_weights``), as
        `TableMap` does.

    Attributes
    ----------
    blocks_ : ndarray of shape (n_features_out,)
        Octaves of directions, a block of linear functions if there are any, and the constant's block last.
    nonnegative_ : bool
        False.

    Examples
    --------
    >>> from dpensemble.moments import TableMap
    >>> public = np.random.default_rng(0).normal(size=(200, 3))
    >>> features = DirectionsMap(TableMap(), n_directions=8).fit_transform(public)
    >>> features.shape, bool(np.allclose(np.linalg.norm(features, axis=1), 1))
    ((200, 9), True)
    """

    #: Maps that were saved by earlier versions have no settings of these names.
    coarse_first = False
    linear = 0.0

    def __init__(
        self,
        base: Any = None,
        n_directions: int = 100,
        whitening: float = 0.5,
        constant: float = 0.1,
        coarse_first: bool = False,
        linear: float = 0.0,
    ) -> None:
        self.base = base
        self.n_directions = n_directions
        self.whitening = whitening
        self.constant = constant
        self.coarse_first = coarse_first
        self.linear = linear

    def fit(self, X: Any, y: Any = None) -> DirectionsMap:  # noqa: ARG002
        """Fit the base map and the directions on public rows. Never pass private rows."""
        real_between("linear", self.linear, 0.0, 0.9)
        self.base_ = clone(self.base).fit(X)
        features = self.base_.transform(X)
        self.mean_ = np.asarray(features.mean(axis=0)).ravel()
        lengths: Floats = np.sqrt(self.base_.coarseness) if self.coarse_first else np.ones(len(self.mean_))
        if self.coarse_first:
            features = features @ sparse.diags_array(lengths)
        # The smaller of two square matrices has the same directions.
        wide = features.shape[1] > features.shape[0]
        variances, vectors = (_of_rows if wide else _of_features)(features, lengths * self.mean_, self.n_directions)
        n_kept = min(self.n_directions, int(np.sum(variances > _LEAST_SHARE * max(variances[0], _LEAST_SHARE))))
        self.directions_ = lengths[:, None] * vectors[:, :n_kept] * variances[:n_kept] ** (-self.whitening / 2)
        self.blocks_ = self.octaves_of(n_kept)
        if self.linear:
            self._add_linear(X, float(np.sum(variances[:n_kept] ** (1 - self.whitening))))
        if self.reads_rows_alone:
            self.mean_, self.directions_ = exact_features(self.mean_), _whole_directions(self.directions_)
        self.n_features_out_ = len(self.blocks_)
        self.nonnegative_ = False
        self._take_columns()
        return self

    def _add_linear(self, X: Rows, square: float) -> None:
        """Add the linear functions of numbers as one more block, by the mean squared length along the directions."""
        linear_weights = as_library_transformer(self.base_).linear_weights
        if linear_weights is None:
            raise InvalidParameterError(
                f"linear={self.linear!r} needs a base map that states linear functions of numbers: use TableMap, or "
                "leave linear out.",
                parameter="linear",
            )
        weights = linear_weights(X)
        n_numbers = weights.shape[1]
        if not n_numbers:
            return
        # Each function has the variance 1.
        length = np.sqrt(self.linear / (1 - self.linear) * square / n_numbers)
        self.directions_ = np.hstack([self.directions_, length * weights])
        own = self.blocks_[-1]
        self.blocks_ = np.concatenate([self.blocks_[:-1], np.full(n_numbers, own), [own + 1]])

    def transform(self, X: Any) -> Floats:
        """Return the features of rows, shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        features = np.empty((row_count(X), self.directions_.shape[1] + 1))
        for rows, along, factors in self._along_directions(X):
            np.multiply(along, factors[:, None], out=features[rows, :-1])
        features[:, -1] = self.constant
        return features

    def _along_directions(self, X: Rows) -> Iterator[tuple[slice, Floats, Floats]]:
        """Yield some rows along the directions, and factors that make them equally long.

        Rows come in blocks if there are very many features.
        """
        mean, n_rows, size = self.mean_ @ self.directions_, row_count(X), row_count(X)
        if self.reads_rows_alone:
            size = _FEATURES_AT_ONCE // self.directions_.shape[0]
        for start in range(0, n_rows, max(size, 1)):
            block = rows_at(X, slice(start, start + max(size, 1)))
            for rows, products in self._products(block):
                along = np.subtract(products, mean, out=products)
                lengths = _exact_lengths(along) if self.reads_rows_alone else np.linalg.norm(along, axis=1)
                factors = np.sqrt(1 - self.constant**2) / np.maximum(lengths, 1e-12)
                yield slice(start + rows.start, start + rows.start + len(along)), along, factors

    def _products(self, block: Rows) -> Iterator[tuple[slice, Floats]]:
        """Yield the products of some rows and the directions, which may be written to."""
        base = as_library_transformer(self.base_)
        if not self.reads_rows_alone:
            yield slice(0, row_count(block)), np.asarray(self.base_.transform(block) @ self.directions_)
            return
        if base.for_shared_products is None:
            columns, own, features = [], slice(None), (base.for_products or self.base_.transform)(block)
        else:
            columns, own, features = base.for_shared_products(block)
        # Products of small matrices are fast in this layout only.
        directions = np.ascontiguousarray(self.directions_)
        # Sums over columns are exact in any order, too.
        shared = [(one.places, _exact_products(one.features, directions[one.span])) for one in columns]
        products = _exact_products(features, directions[own])
        for rows in _in_chunks(*products.shape):
            part = products[rows]
            for places, of_entries in shared:
                part += of_entries[places[rows]]
            yield rows, part

    def _factors(self, X: Rows) -> Floats:
        return np.concatenate([np.zeros(0), *(factors for _, _, factors in self._along_directions(X))])

    @property
    def is_recent(self) -> bool:  # type: ignore[override]
        """Whether coarse scales come first or linear functions are added, which earlier versions never did."""
        return self.coarse_first or self.linear > 0

    @property
    def table_columns(self) -> list[ColumnReading] | None:  # type: ignore[override]
        """How the base map reads each column."""
        columns: list[ColumnReading] | None = as_library_transformer(self.base_).table_columns
        return columns

    @property
    def attribution(self) -> str | None:  # type: ignore[override]
        """How a row is divided among its columns, if the base map reads columns apart."""
        return _SCALED if as_library_transformer(self.base_).attribution == ADDITIVE else None

    def reference(self, public: pd.DataFrame) -> Floats:  # noqa: ARG002
        """Return the features of the public mean, which lies in the middle of all directions: only the constant."""
        return np.append(np.zeros(len(self.blocks_) - 1), self.constant)

    def column_parts(self, X: pd.DataFrame | Floats, weights: Floats, reference: Floats) -> Floats:  # noqa: ARG002
        """Return what each column adds along the directions, in units of the length of the row."""
        parts = self.base_.column_parts(X, self.directions_ @ weights[:-1], self.mean_)
        return parts * self._factors(X)[:, None, None]

    def coefficients_of_base(self, coefficients: Floats, X: Any) -> Floats:
        """Return coefficients of the base map's features from those of these features, for rows of average length."""
        of_base: Floats = float(np.mean(self._factors(X))) * (self.directions_ @ coefficients[:-1])
        return of_base

    def on_table(self, coefficients: Floats, public: pd.DataFrame) -> tuple[FeatureMap, Floats] | None:
        """Return the base map, if it reads columns apart, and coefficients of its features."""
        if not as_library_transformer(self.base_).reads_columns_apart:
            return None
        return self.base_, self.coefficients_of_base(coefficients, public)


class ColumnDirectionsMap(DirectionsMap):
    """The principal directions of each column's own features, partly whitened, as features of constant length 1.

    Columns that have little to do with each other have no few directions in which rows differ most. Leading directions
    are then those of chance, and leave out most of what the columns show. Here every column keeps its own directions: a
    number has one, and a category one less than it has usual values. So a class may depend on few of many columns.

    Products are exact, as those of `DirectionsMap`. A direction reads the features of one column only.

    Parameters
    ----------
    base : feature map
        A `TableMap`. Cloned and fitted on public rows.
    whitening : float, default=0.5
        From 0 (as they are) to 1 (all of equal variance).
    constant : float, default=0.1
        Length of the constant.

    Attributes
    ----------
    blocks_ : ndarray of shape (n_features_out,)
        One block a column, the constant's block last.
    nonnegative_ : bool
        False.

    Examples
    --------
    >>> from dpensemble.moments import TableMap
    >>> public = np.random.default_rng(0).normal(size=(200, 30))
    >>> features = ColumnDirectionsMap(TableMap(knots=(2,))).fit_transform(public)
    >>> features.shape, bool(np.allclose(np.linalg.norm(features, axis=1), 1))
    ((200, 31), True)
    """

    screens_features = True
    is_recent = True

    def __init__(self, base: FeatureMap | None = None, whitening: float = 0.5, constant: float = 0.1) -> None:
        self.base = base
        self.whitening = whitening
        self.constant = constant

    def fit(self, X: Rows, y: None = None) -> ColumnDirectionsMap:  # noqa: ARG002
        """Fit the base map and the directions on public rows. Never pass private rows."""
        self.base_ = clone(self.base).fit(X)
        features = self.base_.transform(X).tocsc()
        self.mean_ = np.asarray(features.mean(axis=0)).ravel()
        starts = np.array([one["start"] for one in self.base_.columns_])
        sizes = np.diff(np.append(starts, len(self.mean_) - 1))
        found = dict(_of_spans(features, self.mean_, starts, sizes))
        least = _LEAST_SHARE * max(_LEAST_SHARE, *(float(variances[-1]) for variances, _ in found.values()))
        entries, owners = [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
        for number in range(len(starts)):
            variances, vectors = found[number]
            varying = variances > max(least, _LEAST_OF_COLUMN * float(variances[-1]))
            directions = vectors[:, varying] * variances[varying] ** (-self.whitening / 2)
            entries.append(_whole_directions(directions).T.ravel())
            owners.append(np.full(directions.shape[1], number))
        of_column = np.concatenate(owners)
        self.entries_, self.starts_ = np.concatenate(entries), np.append(0, np.cumsum(sizes[of_column]))
        self.places_ = np.arange(self.starts_[-1]) + np.repeat(starts[of_column] - self.starts_[:-1], sizes[of_column])
        self.mean_ = exact_features(self.mean_)
        self.n_features_out_ = len(of_column) + 1
        # Columns that do not vary have no block.
        blocks = np.unique(of_column, return_inverse=True)[1].ravel().astype(np.int64)
        self.blocks_ = np.append(blocks, blocks.max(initial=-1) + 1)
        self.nonnegative_ = False
        self._take_columns()
        return self

    @property
    def directions_(self) -> sparse.csc_array:  # type: ignore[override]
        """The directions, one a column, shape (n_features_of_base, n_directions)."""
        shape = len(self.mean_), len(self.starts_) - 1
        return sparse.csc_array((self.entries_, self.places_, self.starts_), shape=shape)

    def _products(self, block: Rows) -> Iterator[tuple[slice, Floats]]:
        base = as_library_transformer(self.base_)
        features = exact_features((base.for_products or self.base_.transform)(block))
        yield slice(0, row_count(block)), np.ascontiguousarray(dense(features @ self.directions_))


def _of_spans(
    features: sparse.csc_matrix, mean: Floats, starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> Iterator[tuple[int, tuple[Floats, Floats]]]:
    """Yield the number of each span of features, the variances in it, the smallest first, and its directions."""
    n_rows = features.shape[0]
    for size in np.unique(sizes).tolist():
        alike = np.flatnonzero(sizes == size)
        at_once = max(1, _FEATURES_AT_ONCE // 8 // (n_rows * size))
        for numbers in (alike[start : start + at_once] for start in range(0, len(alike), at_once)):
            places = (starts[numbers][:, None] + np.arange(size)).ravel()
            apart = features[:, places].toarray() - mean[places]
            spans = np.ascontiguousarray(apart.T).reshape(len(numbers), size, n_rows)
            variances, vectors = np.linalg.eigh(spans @ spans.transpose(0, 2, 1) / n_rows)
            yield from zip(numbers.tolist(), zip(variances, vectors, strict=True), strict=True)


def effective_directions(feature_map: FeatureMap, public: Rows) -> float:
    """Return in how many directions rows differ, as if they differed by the same in each.

    This is the square of the trace of the covariance, over the trace of its square. Products of different rows estimate
    the latter almost without bias, also if rows are few (Z. Bai and H. Saranadasa, "Effect of
    high dimension", Statistica Sinica 1996). Some of the public rows are taken.
    """
    order = np.random.default_rng(0).permutation(row_count(public))
    some = feature_map.transform(rows_at(public, np.sort(order[:_ROWS_OF_EFFECTIVE])))
    mean = np.asarray(some.mean(axis=0)).ravel()
    along, products = np.asarray(some @ mean).ravel(), _products(some)
    products = products - along[:, None] - along + mean @ mean
    own = products.diagonal()
    pairs = max(1, len(own) * (len(own) - 1))
    of_square = (float((products**2).sum()) - float((own**2).sum())) / pairs
    # Rows that are all the same, or a single one, differ in no direction.
    return float(own.mean()) ** 2 / of_square if of_square > 0 else 0.0


def seen_beside_noise(width: Floats, n_records: float, spread: float) -> Floats:
    """Return which part of what columns show without noise they show beside noise.

    A logit of variance 1 is spread evenly over `width` directions of rows of length 1. So the coefficient of a
    direction is 1, in units of the noise ``16 width**2 spread**2`` and of the sampling error ``4 width / n_records``,
    both squared. A fit keeps ``1 / (1 + error)`` of its variance.
    """
    sampling = 4 * width / n_records
    return (1 + sampling) / (1 + sampling + 16 * width**2 * spread**2)


def _of_features(features: Any, mean: Floats, most: int) -> tuple[Floats, Floats]:
    """Return variances, the largest first, and up to `most` directions as columns, from the covariance of features."""
    return _leading(_products(features.T) / features.shape[0] - np.outer(mean, mean), most)


def _of_rows(features: Any, mean: Floats, most: int) -> tuple[Floats, Floats]:
    """Return the same from products of rows, which is far less work for many features."""
    n_rows = features.shape[0]
    products = _products(features)
    along = np.asarray(features @ mean).ravel()
    centred = (products - along[:, None] - along[None, :] + mean @ mean) / n_rows
    variances, vectors = _leading(centred, most)
    lengths = np.sqrt(np.maximum(variances, _LEAST_SHARE * max(float(variances[0]), _LEAST_SHARE)) * n_rows)
    directions = np.asarray(features.T @ vectors) - np.outer(mean, vectors.sum(axis=0))
    return variances, directions / lengths


def _leading(matrix: Floats, most: int) -> tuple[Floats, Floats]:
    """Return up to `most` eigenvalues of a covariance, the largest first, and their eigenvectors."""
    size = len(matrix)
    some = None if most >= size else (size - most, size - 1)
    values, vectors = linalg.eigh(matrix, subset_by_index=some)
    return values[::-1], vectors[:, ::-1]


def _products(features: Any) -> Floats:
    """Return the products of all pairs of rows, from dense blocks of columns unless most entries are 0."""
    if not sparse.issparse(features):
        return np.asarray(features @ features.T)
    n_rows, n_columns = features.shape
    if features.nnz * _SPARSE < n_rows * n_columns:
        return np.asarray((features @ features.T).toarray())
    by_columns, products = features.tocsc(), np.zeros((n_rows, n_rows))
    size = max(1, _FEATURES_AT_ONCE // 8 // n_rows)
    for start in range(0, n_columns, size):
        block = by_columns[:, start : start + size].toarray()
        products += block @ block.T
    return products
