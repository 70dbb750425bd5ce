r"""Whole numbers: bounded vectors of records and their exact sum, and the chances that a published model gives rows.

A record answers with ``phi(x) outer r``: features of a public map, times a short vector ``r`` of its label. The length
of ``r`` is at most the record's public weight ``w``. Both factors are cut towards zero to whole numbers of ``1 / UNIT``
and ``1 / _ANSWER_UNIT``, which makes no entry longer. Lengths are then compared as whole numbers. For every map and
every label, features are at most ``UNIT`` long and `r` is at most ``w _ANSWER_UNIT`` long. A unit's records share a
weight of at most 1. So by the triangle inequality the unit's sum is at most ``WHOLE`` times the unit's weight long.
Sums of whole numbers below ``2**53`` are exact in doubles, in any order.

Chances are sums of that kind as well. So a row's chances depend only on that row and on the coefficients, not on the
rows that are read together with it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dpensemble._entries import Floats, Integers, Rows
from dpensemble.errors import DataError
from dpensemble.releases import SumQuery
from dpensemble.releases.sums import CHECKSUMS, Outcome, PartialSums

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


def bounded_features(features: Any, factors: Floats | None = None) -> Any:
    """Return the rows of a public map in whole units, none longer than `UNIT`.

    Public `factors` of the columns, if there are any, come before rows are bounded.
    """
    if sparse.issparse(features):
        rows = features.tocsr().astype(np.float64)
        if factors is not None:
            rows.data *= factors[rows.indices]
        _require_finite(rows.data)
        rows.sum_duplicates()
        rows.data = np.trunc(np.clip(rows.data, -2.0, 2.0) * UNIT)
        squares = np.add.reduceat(np.append(rows.data**2, 0.0), rows.indptr[:-1])
        # For a row without entries it returns an entry of the next row.
        squares[np.diff(rows.indptr) == 0] = 0.0
        if (squares > UNIT**2).any():
            rows.data = np.trunc(rows.data * np.repeat(_shortening(squares, UNIT), np.diff(rows.indptr)))
        return rows
    return _bounded(np.asarray(features, dtype=np.float64), UNIT, UNIT, factors)


def bounded_answers(answers: Floats, bounds: Floats) -> Floats:
    """Return vectors in whole units, row `i` at most ``bounds[i] * _ANSWER_UNIT`` long."""
    return _bounded(answers, _ANSWER_UNIT, np.floor(bounds * _ANSWER_UNIT))


def bounded_products(features: Any) -> Floats:
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


def _bounded(vectors: Floats, unit: int, longest: Floats | int, factors: Floats | None = None) -> Floats:
    """Return vectors, cut towards zero to whole units. Row `i` is at most ``longest[i]`` long.

    Factors of the columns, if there are any, come first. Small pieces stay in the cache of a processor. Squares of
    whole numbers have the same sum in any order, unless they are longer than allowed.
    """
    whole, squares = np.empty_like(vectors), np.zeros(len(vectors))
    with np.errstate(over="ignore", invalid="ignore"):
        for rows, columns in _pieces(vectors):
            part, own = vectors[rows, columns], whole[rows, columns]
            if factors is not None:
                part = np.multiply(part, factors[columns], out=own)
            np.multiply(part, unit, out=own)
            np.trunc(own, out=own)
            squares[rows] += np.square(own) @ np.ones(own.shape[1])
    # False for NaN. Below this limit all entries are finite and between -2 and 2.
    if not (squares <= (2.0 * unit) ** 2).all():
        given = vectors if factors is None else vectors * factors
        _require_finite(given)
        if np.abs(given).max() > 2.0:
            # Clipping keeps squares of hostile entries finite.
            return _bounded(np.clip(given, -2.0, 2.0), unit, longest)
    # Most maps return no rows that are too long.
    if (squares > longest**2).any():
        shortening = _shortening(squares, longest)[:, None]
        for rows, columns in _pieces(whole):
            own = whole[rows, columns]
            own *= shortening[rows]
            np.trunc(own, out=own)
    return whole


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


def _shortening(squares: Floats, longest: Floats | int) -> Floats:
    """Return factors that make rows of these squared lengths at most `longest` long, in whole units."""
    # Truncation after the product only shortens. A margin of 1e-9 covers the rounding of root and product.
    return np.where(squares <= longest**2, 1.0, longest / np.sqrt(np.maximum(squares, 1.0)) * (1 - 1e-9))


class WholeBlock(NamedTuple):
    """Records as whole features, class ids and weights, with the checksum of their rows. Private."""

    features: Rows
    targets: Integers
    weights: Floats
    checksum: int = 0

    def split(self, n_rows: int) -> Iterator[WholeBlock]:
        """Yield parts with that many records at most. The first part has the checksum of all of them."""
        if len(self.targets) <= n_rows:
            yield self
            return
        for start in range(0, len(self.targets), n_rows):
            part = slice(start, start + n_rows)
            own = self.features[part], self.targets[part], self.weights[part]
            yield WholeBlock(*own, 0 if start else self.checksum)


# Distance of two vectors of length 1 whose inner product is not negative.
_SQRT_2 = math.isqrt(2 * WHOLE**2) + 1


class RecordsQuery(SumQuery[Outcome]):
    """A sum over records, each of which adds the outer product of two short vectors of whole numbers."""

    unit = WHOLE
    replacing = _SQRT_2
    removing = WHOLE
    #: Whether no record adds a negative entry.
    never_negative = False

    def rows_at_once(self, n_features: int) -> int:  # noqa: ARG002
        """Return how many records' factors should be in memory at a time. Exact sums do not depend on that."""
        return _MOST_ROWS

    def allows(self, sums: PartialSums, weight: float) -> bool:
        """Return whether records with a total weight can have a sum. Private.

        A unit adds a vector of at most its weight times `removing`, which is what removing the unit changes. By the
        triangle inequality the sum of several units is at most their total weight times `removing` long.
        """
        # The margin covers the rounding of weights that are fractions.
        longest = math.ceil(weight * (1 + 1e-9) * self.removing)
        return sums.fits(longest, never_negative=self.never_negative)

    @abstractmethod
    def bounded_factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:
        """Return both factors of a block's records, shapes (n_records, n_rows) and (n_records, n_columns). Private."""


#: A query for which only its exact sum matters, and not how the noisy sum is read.
AnyQuery = RecordsQuery[Any]


def partial_sums(query: AnyQuery, blocks: Iterable[WholeBlock], *, number: int = 0) -> PartialSums:
    """Return the exact sum of blocks of records for the release with a number. Private.

    Every sum of records is computed here: of all records on this machine, or of a part of them in another process or on
    a cluster.
    """
    merged, recent, rows, checksum = PartialSums(None, round=number), None, 0, 0
    for block in (part for whole in blocks for part in whole.split(query.rows_at_once(whole.features.shape[1]))):
        features, answers = query.bounded_factors(block.features, block.targets, block.weights)
        n_rows = len(answers)
        if n_rows > _MOST_ROWS_AT_ONCE:
            raise DataError(f"{n_rows:,} records are more than can be summed exactly at once: give smaller blocks.")
        if recent is not None and rows + n_rows > _MOST_ROWS:
            # Integers of Python never overflow.
            merged += PartialSums(recent.astype(object), rows, checksum, number)
            recent, rows, checksum = None, 0, 0
        if sparse.issparse(features) or answers.shape[1] > _FEW_ANSWERS:
            products = features.T @ answers
        else:
            products = np.stack([features.T @ answers[:, column] for column in range(answers.shape[1])], axis=1)
        exact = np.rint(products).astype(np.int64)
        recent = exact if recent is None else recent + exact
        rows, checksum = rows + n_rows, (checksum + block.checksum) % CHECKSUMS
    return merged if recent is None else merged + PartialSums(recent.astype(object), rows, checksum, number)


# Units in 1 of coefficients, and of probabilities and odds.
_COEFFICIENT, _CHANCE = 2.0**16, 2.0**24
_LARGEST_COEFFICIENT = 2.0**12


def probabilities(features: Any, coefficients: Floats, *, whole: bool = False, rounded: bool = False) -> Floats:
    """Return the probability of each class, shape (n_rows, n_columns). One column is the second class of two.

    Sums are over whole numbers below ``2**53``, so they are exact in any order. A row's probabilities depend only on
    that row and on the coefficients, not on the rows read together with it. A private row's centre rests on that.
    """
    scores = logits(features, coefficients, whole=whole, rounded=rounded)
    if scores.shape[1] == 1:
        # The logistic function, without overflow on either side.
        return np.rint(0.5 * (1 + np.tanh(scores / 2)) * _CHANCE) / _CHANCE
    odds = np.rint(np.exp(scores - scores.max(axis=1, keepdims=True)) * _CHANCE)
    # No release can show that a probability is 0.
    chances: Floats = np.maximum(np.rint(odds / odds.sum(axis=1, keepdims=True) * _CHANCE), 1.0) / _CHANCE
    return chances


def logits(
    features: Floats | sparse.csr_matrix, coefficients: Floats, *, whole: bool = False, rounded: bool = False
) -> Floats:
    """Return the logit of each column of coefficients, shape (n_rows, n_columns).

    Features are numbers up to 1, `rounded` if these are whole multiples of ``1 / UNIT`` already, or `whole` numbers of
    ``1 / UNIT``.
    """
    if rounded:
        return np.asarray(features @ rounded_coefficients(coefficients))
    units = features if whole else whole_units(features)
    # Products stay below 2**14 * 2**28 in length, since rows are at most 1 long.
    return np.asarray(units @ (rounded_coefficients(coefficients) * _COEFFICIENT)) / (UNIT * _COEFFICIENT)


def whole_units(features: Floats | sparse.csr_matrix) -> Floats | sparse.csr_matrix:
    """Return features as whole numbers of ``1 / UNIT``."""
    return np.rint(features * UNIT) if isinstance(features, np.ndarray) else (features * UNIT).rint()


def rounded_coefficients(coefficients: Floats) -> Floats:
    """Return the coefficients that a model reads: whole multiples of ``2**-16`` in a wide range."""
    limited = np.clip(coefficients, -_LARGEST_COEFFICIENT, _LARGEST_COEFFICIENT)
    return np.asarray(np.rint(limited * _COEFFICIENT) / _COEFFICIENT)


def centres_and_weights(
    centre: Floats | None,
    features: Any,
    n_classes: int,
    even_weight: float,
    *,
    whole: bool = False,
    rounded: bool = False,
) -> tuple[Floats, Floats]:
    """Return what a published model expects of rows, and the public weight of each row.

    Features are as for `logits`.
    """
    n_rows = features.shape[0]
    if centre is None:
        n_columns = 1 if n_classes == 2 else n_classes
        return np.full((n_rows, n_columns), 1 / n_classes), np.full(n_rows, even_weight)
    c = probabilities(features, centre, whole=whole, rounded=rounded)
    if c.shape[1] == 1:
        return c, 0.5 / np.maximum(c, 1 - c)[:, 0]
    # Chances are whole numbers of 2**-24, so this sum of squares is exact in any order.
    longest = np.sqrt(1 - 2 * c.min(axis=1) + (c**2).sum(axis=1))
    return c, 0.5 / longest
