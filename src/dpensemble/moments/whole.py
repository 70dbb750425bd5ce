r"""Bounded vectors as whole numbers, and their exact sum.

A record answers with ``phi(x) outer r``: features of a public map, times a short vector ``r`` of its label. The length
of ``r`` is at most the record's public weight ``w``. Both factors are cut towards zero to whole numbers of ``1 / UNIT``
and ``1 / _ANSWER_UNIT``, which makes no entry longer. Lengths are then compared as whole numbers. For every map and
every label, features are at most ``UNIT`` long and `r` is at most ``w _ANSWER_UNIT`` long. A unit's records share a
weight of at most 1. So by the triangle inequality the unit's sum is at most ``WHOLE`` times the unit's weight long.
Sums of whole numbers below ``2**53`` are exact in doubles, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dpensemble._entries import BigIntegers, Floats, Integers, Rows
from dpensemble.errors import DataError
from dpensemble.releases.sums import python_integers

#: Whole units in 1, of features (which then fit 16 bits) and of answers.
UNIT = 2**14
_ANSWER_UNIT = 2**20
#: Length of one whole unit of their products.
WHOLE = UNIT * _ANSWER_UNIT
# Root of `UNIT`.
_ROOT = 2**7
# A block's sum of products stays below 2**53, and the sum of recent blocks, in 64 bits, below 2**62.
_MOST_ROWS_AT_ONCE = 2**18
_MOST_ROWS = 2**28
# Answers up to which a product with one after the other is faster.
_FEW_ANSWERS = 4
# Entries of a piece, which should stay in the cache of a processor.
_ENTRIES_AT_ONCE = 2**14


def whole_features(features: Any) -> Any:
    """Return the rows of a public map in whole units, none longer than `UNIT`."""
    if sparse.issparse(features):
        rows = features.tocsr().astype(np.float64)
        _require_finite(rows.data)
        rows.sum_duplicates()
        rows.data = np.trunc(np.clip(rows.data, -2.0, 2.0) * UNIT)
        squares = np.add.reduceat(np.append(rows.data**2, 0.0), rows.indptr[:-1])
        # For a row without entries it returns an entry of the next row.
        squares[np.diff(rows.indptr) == 0] = 0.0
        if (squares > UNIT**2).any():
            rows.data = np.trunc(rows.data * np.repeat(_shorter(squares, UNIT), np.diff(rows.indptr)))
        return rows
    return _whole(np.asarray(features, dtype=np.float64), UNIT, UNIT)


def whole_answers(answers: Floats, bounds: Floats) -> Floats:
    """Return vectors in whole units, row `i` at most ``bounds[i] * _ANSWER_UNIT`` long."""
    return _whole(answers, _ANSWER_UNIT, np.floor(bounds * _ANSWER_UNIT))


def whole_products(features: Any) -> Floats:
    """Return all products of two features of a row, both orders, shape (n_rows, n_features**2), in whole units.

    Features are first rounded to whole numbers of ``1 / sqrt(UNIT)``, so that products are exactly those of one vector
    of length at most 1 with itself: ``z outer z``.
    """
    rounded = np.rint(features / _ROOT)
    squares = np.einsum("ij,ij->i", rounded, rounded)
    # Rounding may have made a row longer than 1. Zeros for the last digits do not.
    z = np.where((squares <= _ROOT**2)[:, None], rounded, np.trunc(features / _ROOT))
    products: Floats = np.einsum("ij,ik->ijk", z, z).reshape(len(z), z.shape[1] ** 2)
    return products


def _whole(vectors: Floats, unit: int, longest: Floats | int, scale: Floats | None = None) -> Floats:
    """Return vectors, times the scale if there is one, in whole units. Row `i` is at most ``longest[i]`` long."""
    whole, squares = _cut(vectors, unit, scale)
    # False for NaN. Below this limit all entries are finite and between -2 and 2.
    if not (squares <= (2.0 * unit) ** 2).all():
        given = vectors if scale is None else vectors * scale
        _require_finite(given)
        # Clipping keeps squares of hostile entries finite.
        whole, squares = _cut(np.clip(given, -2.0, 2.0), unit, None)
    # Most maps return no rows that are too long.
    if (squares > longest**2).any():
        factors = _shorter(squares, longest)[:, None]
        for rows, columns in _pieces(whole):
            own = whole[rows, columns]
            own *= factors[rows]
            np.trunc(own, out=own)
    return whole


def _cut(vectors: Floats, unit: int, scale: Floats | None) -> tuple[Floats, Floats]:
    """Return vectors, cut towards zero to whole units, and their squared lengths.

    Small pieces stay in the cache of a processor. Squares of whole numbers have the same sum in any order, unless they
    are longer than allowed.
    """
    whole, squares = np.empty_like(vectors), np.zeros(len(vectors))
    with np.errstate(over="ignore", invalid="ignore"):
        for rows, columns in _pieces(vectors):
            part, own = vectors[rows, columns], whole[rows, columns]
            if scale is not None:
                part = np.multiply(part, scale[columns], out=own)
            np.multiply(part, unit, out=own)
            np.trunc(own, out=own)
            squares[rows] += np.square(own) @ np.ones(own.shape[1])
    return whole, squares


def _pieces(vectors: Floats) -> Iterator[tuple[slice, slice]]:
    """Yield rows and columns of pieces that lie together in memory."""
    n_rows, n_columns = vectors.shape
    if vectors.strides[0] >= vectors.strides[1]:
        size = max(1, _ENTRIES_AT_ONCE // max(n_columns, 1))
        yield from ((slice(start, start + size), slice(None)) for start in range(0, n_rows, size))
    else:
        size = max(1, _ENTRIES_AT_ONCE // max(n_rows, 1))
        yield from ((slice(None), slice(start, start + size)) for start in range(0, n_columns, size))


def _require_finite(entries: Floats) -> None:
    if not np.isfinite(entries).all():
        raise DataError("a feature map gave NaN or infinity: give it rows that it can take, or another map.")


def _shorter(squares: Floats, longest: Floats | int) -> Floats:
    """Return factors that make rows of these squared lengths at most `longest` long, in whole units."""
    # Truncation after the product only shortens. A margin of 1e-9 covers the rounding of root and product.
    return np.where(squares <= longest**2, 1.0, longest / np.sqrt(np.maximum(squares, 1.0)) * (1 - 1e-9))


def scaled(features: Rows, scale: Floats | None) -> Rows:
    """Return whole features with weighted coordinates. Rows have the same largest length as before."""
    if scale is None:
        return features
    if not sparse.issparse(features):
        return _whole(features, UNIT, UNIT, scale / UNIT)
    weighted = features.tocsr(copy=True)
    weighted.data *= (scale / UNIT)[weighted.indices]
    return whole_features(weighted)


class WholeBlock(NamedTuple):
    """Records as whole features, class ids and weights, with the checksum of their rows. Private."""

    features: Rows
    targets: Integers
    weights: Floats
    checksum: int = 0


class ExactSum:
    """The sum of ``features.T @ answers`` over blocks of rows, in whole units of ``1 / WHOLE``."""

    def __init__(self) -> None:
        self._total: BigIntegers | None = None
        self._recent: Integers | None = None
        self._recent_rows = 0

    def add(self, features: Rows, answers: Floats) -> None:
        """Add a block of rows, both factors from `whole_features` and `whole_answers`."""
        n_rows = len(answers)
        if n_rows > _MOST_ROWS_AT_ONCE:
            raise DataError(f"{n_rows:,} records are more than can be summed exactly at once: give smaller blocks.")
        if self._recent_rows + n_rows > _MOST_ROWS:
            self._total, self._recent, self._recent_rows = self.total, None, 0
        if sparse.issparse(features) or answers.shape[1] > _FEW_ANSWERS:
            products = features.T @ answers
        else:
            products = np.stack([features.T @ answers[:, column] for column in range(answers.shape[1])], axis=1)
        block = np.rint(products).astype(np.int64)
        self._recent = block if self._recent is None else self._recent + block
        self._recent_rows += n_rows

    @property
    def total(self) -> BigIntegers | None:
        """The sum as Python integers, shape (n_features, n_answers). None without rows."""
        recent = None if self._recent is None else python_integers(self._recent)
        if self._total is None or recent is None:
            return recent if self._total is None else self._total
        return self._total + recent
