"""Products of features and directions that are exact, so that a row's products do not depend on the rows beside it.

A product of matrices adds its terms in an order that depends on the size of the matrices, the number of threads and the
processor. In floating point another order gives other last digits. Here every term is a whole number of one public
unit. Features are at most 1 long and are whole numbers of ``2**-26``. Each direction is at most ``2**26`` of its own
units long. By the inequality of Cauchy and Schwarz the absolute values of all terms of a product add up to at most the
product of both lengths, about ``2**52`` units. So every partial sum is a whole number below ``2**53``. Doubles hold
such numbers exactly, and any order gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from dpensemble._arrays import Floats, Rows, dense

# Bits of the lengths of features, of a direction and of a row of products, in whole units.
_HALF_BITS = 26
_UNITS = 2.0**_HALF_BITS
# Rows of a product, which should stay in the cache of a processor, and entries of their features at most.
_ROWS_AT_ONCE, _ENTRIES_AT_ONCE, _ENTRIES_OF_LENGTHS = 256, 2**24, 2**16
#: Features in multiples of those that differ from 0, up to which products of arrays are faster than sparse ones.
DENSE = 5


def whole_directions(directions: Floats) -> Floats:
    """Return directions, one a column, rounded to whole numbers of units that are a power of two for each column."""
    _, exponents = np.frexp(np.linalg.norm(directions, axis=0))
    units = np.ldexp(1.0, exponents - _HALF_BITS)
    rounded: Floats = np.rint(directions / units) * units
    return rounded


def whole_features(features: Rows) -> Rows:
    """Return features, an array or a sparse matrix, rounded to whole units. Exact products need such features."""
    if sparse.issparse(features):
        return (features * _UNITS).rint() / _UNITS
    rounded = features * _UNITS
    np.rint(rounded, out=rounded)
    rounded *= 1 / _UNITS
    return rounded


def exact_products(features: Rows, directions: Floats) -> Floats:
    """Return features, rounded to whole units, times whole directions, shape (n_rows, n_directions)."""
    n_rows, n_features = features.shape
    few = sparse.issparse(features) and features.nnz * DENSE < n_rows * n_features
    products = np.empty((n_rows, directions.shape[1]))
    for rows in _in_chunks(n_rows, n_features):
        part = whole_features(features[rows])
        products[rows] = part @ directions if few else dense(part) @ directions
    return products


def exact_lengths(products: Floats) -> Floats:
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
