"""Keyed checksums of private rows, to notice rows that change between two passes.

A row has a canonical form: its columns, class and unit, where a text is its BLAKE2b hash under a secret key. The
checksum of many rows is the sum of their hashes modulo ``2**128``. Order does not matter, and a repeated row does. This
is the randomize-then-combine paradigm of M. Bellare and D. Micciancio, "A new paradigm for collision-free hashing",
EUROCRYPT 1997. The key is secret and drawn for each run.

The hash of a row has two steps: universal hashing, and a pseudo-random function of the result. M. Wegman and L. Carter
introduced both together in "New hash functions and their use in authentication and set equality", 1981.

1. The row's pieces ``p`` of 16 bits become 6 sums of ``c p`` over pieces. The secret coefficients ``c`` are whole
   numbers below ``2**28``. Fix two different rows, a piece in which they differ, and all other coefficients. Two values
   of that piece's coefficient give two differences between the rows' sums. These are less than ``2**44`` apart, and not
   equal, also modulo ``2**64``. So a sum is the same for both rows for at most one of ``2**28`` values. All 6 sums are
   the same with a probability of at most ``2**-168``.
2. The hash is SipHash of these sums, which counts as a random function. Fix two different collections with ``n``
   different rows in all, and a row that one of them has ``m`` times more often. If the sums of step 1 are different for
   all rows, ``m`` times the hash of this row must be one certain number modulo ``2**128``. At most ``m`` of ``2**128``
   hashes do this.

So two different collections have the same checksum with a probability of at most ``n**2 / 2**169 + m / 2**128``. This
is below ``2**-87`` for up to ``2**40`` rows of numbers. Hashes of two different texts are equal with a probability of
``2**-128``, which adds ``n**2 / 2**129`` for rows with texts or units. All this holds for collections that do not
depend on the key, and rests on the keyed functions being pseudo-random. Nobody sees the key or a checksum.

SipHash looks like a random function without the key: J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input
PRF", INDOCRYPT 2012. This is SipHash-2-4 with 128 bits of output, of many messages at a time.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dpensemble._entries import Floats, Integers, Rows
from dpensemble.datasets.columns import distinct_ids, distinct_texts, number_columns

#: Words of 64 bits.
Words = NDArray[np.uint64]
#: Bytes of a key.
KEY_SIZE = 16
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_ROUNDS, _LAST_ROUNDS = 2, 4


def siphash(words: Words, key: bytes) -> tuple[Words, Words]:
    """Return both words of the hash of each message.

    Parameters
    ----------
    words : ndarray of shape (n_words, n_messages)
        Columns are messages.
    key : bytes
        16 secret bytes.
    """
    n_words, n_messages = words.shape
    halves = np.frombuffer(key, dtype="<u8", count=2)
    state = [np.full(n_messages, start, dtype=np.uint64) ^ halves[i % 2] for i, start in enumerate(_START)]
    state[1] ^= np.uint64(0xEE)
    # The last word holds the number of bytes, since messages consist of whole words.
    length = np.full(n_messages, (8 * n_words % 256) << 56, dtype=np.uint64)
    for word in (*words, length):
        state[3] ^= word
        _mix(state, _ROUNDS)
        state[0] ^= word
    state[2] ^= np.uint64(0xEE)
    _mix(state, _LAST_ROUNDS)
    low = state[0] ^ state[1] ^ state[2] ^ state[3]
    state[1] ^= np.uint64(0xDD)
    _mix(state, _LAST_ROUNDS)
    return low, state[0] ^ state[1] ^ state[2] ^ state[3]


def _mix(state: list[Words], rounds: int) -> None:
    """Change the state in place. Additions are modulo ``2**64``."""
    a, b, c, d = state
    for _ in range(rounds):
        a += b
        _rotate(b, 13)
        b ^= a
        _rotate(a, 32)
        c += d
        _rotate(d, 16)
        d ^= c
        a += d
        _rotate(d, 21)
        d ^= a
        c += b
        _rotate(b, 17)
        b ^= c
        _rotate(c, 32)


def _rotate(words: Words, bits: int) -> None:
    right = words >> np.uint64(64 - bits)
    words <<= np.uint64(bits)
    words |= right


SIZE = 16
# Bytes of a number. Pieces of a number, and their type.
_NUMBER, _PIECES, _PIECE = 8, 4, "<u2"
# Sums of a row, and bits of their coefficients. A product of a piece and a coefficient is below 2**44.
_SUMS, _COEFFICIENT_BITS = 6, 28
# Numbers of a row whose products are summed in doubles: 512 pieces, so that sums stay below 2**53.
_NUMBERS_AT_ONCE = 128
# Rows whose pieces stay in the cache of a processor.
_ROWS_AT_ONCE = 256


class RowChecksums:
    """Checksums of rows under one secret key."""

    def __init__(self, key: bytes) -> None:
        self._key, self._coefficients = key, np.zeros((0, _SUMS))
        self._siphash_key = hashlib.shake_256(b"siphash" + key).digest(KEY_SIZE)
        # The categories of the last rows and their hashes, by place of the column.
        self._hashed: dict[int, tuple[pd.Index, NDArray[np.uint8]]] = {}

    @classmethod
    def of_new_key(cls) -> RowChecksums:
        """Return checksums under a key that was never used before."""
        return cls(secrets.token_bytes(32))

    def of(
        self,
        rows: Rows,
        targets: Integers,
        units: ArrayLike | None = None,
        ranks: NDArray[np.uint8] | None = None,
    ) -> int:
        """Return the checksum of rows, their class ids and, if they have any, their units or hashes of units.

        `ranks` of records decide which of a unit count, so they are a part of a row. Order does not matter.
        """
        n_rows = len(targets)
        table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(np.asarray(rows).reshape(n_rows, -1))
        numeric = number_columns(table)
        hashed = [self._texts_of(place, table.iloc[:, place]) for place in np.flatnonzero(~numeric).tolist()]
        if units is not None:
            # Two dimensions: bytes of units that were hashed before, or of places.
            hashed.append(np.asarray(units, dtype=np.uint8) if np.ndim(units) == 2 else self.texts(units))
        if ranks is not None:
            hashed.append(ranks)
        n_numbers = 1 + int(numeric.sum())
        packed = np.empty((n_rows, n_numbers + len(hashed) * SIZE // _NUMBER), dtype="<f8")
        packed[:, 0] = targets
        if n_numbers > 1:
            packed[:, 1:n_numbers] = table.iloc[:, np.flatnonzero(numeric)].to_numpy(dtype=np.float64, na_value=np.nan)
        _use_one_form(packed[:, :n_numbers])
        if hashed:
            packed.view(np.uint8)[:, n_numbers * _NUMBER :] = np.hstack(hashed)
        low, high = siphash(self._sums(packed), self._siphash_key)
        return (_total(low) + (_total(high) << 64)) % 2 ** (8 * SIZE)

    def in_order(self, rows: Rows, targets: Integers, first: int) -> int:
        """Return the checksum of rows and class ids with their places. `first` is the place of the first row.

        A row's place is two words of the row, so the same rows in another order are another collection.
        """
        places = np.zeros((len(targets), SIZE // _NUMBER), dtype="<u8")
        places[:, 0] = np.arange(first, first + len(targets))
        return self.of(rows, targets, places.view(np.uint8))

    def _texts_of(self, place: int, column: pd.Series) -> NDArray[np.uint8]:
        """Return the hashes of a column. Parts of one block share categories, which are hashed once."""
        if not isinstance(column.dtype, pd.CategoricalDtype):
            return self.texts(column)
        categories = column.dtype.categories
        if place not in self._hashed or self._hashed[place][0] is not categories:
            # The last hash is that of a missing entry, whose code is -1.
            self._hashed[place] = categories, self.texts(pd.Series([*categories, None], dtype=object))
        return self._hashed[place][1][column.cat.codes.to_numpy()]

    def texts(self, entries: ArrayLike | pd.Series) -> NDArray[np.uint8]:
        """Return a hash of each entry as it is written, shape (n_rows, 16). 5 and 5.0 have one hash."""
        # As objects, unless a table has the column: the texts of pandas hold no half characters.
        places, distinct = distinct_texts(pd.Series(entries, dtype=getattr(entries, "dtype", object)))
        return self._hashes(places, [text.encode("utf-8", "surrogatepass") for text in distinct])

    def ids(self, column: pd.Series) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Return a hash of each id, shape (n_rows, 16), and which entries are ids. Equal ids have equal hashes."""
        places, distinct = distinct_ids(column)
        return self._hashes(places, distinct), places >= 0

    def _hashes(self, places: NDArray[np.intp], distinct: list[bytes]) -> NDArray[np.uint8]:
        # A missing entry has place -1, the last one.
        hashes = [*map(self._hash, distinct), bytes(SIZE)]
        return np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(-1, SIZE)[places]

    def _hash(self, content: bytes) -> bytes:
        return hashlib.blake2b(content, key=self._key, digest_size=SIZE).digest()

    def _sums(self, packed: Floats) -> Words:
        """Return the sums of step 1, and the number of words of a row, shape (7, n_rows)."""
        n_rows, n_words = packed.shape
        coefficients = self._coefficients_of(n_words)
        sums = np.zeros((n_rows, _SUMS), dtype=np.uint64)
        for start in range(0, n_rows, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            pieces = packed[rows].view(_PIECE)
            for first in range(0, pieces.shape[1], _PIECES * _NUMBERS_AT_ONCE):
                some = slice(first, first + _PIECES * _NUMBERS_AT_ONCE)
                # Whole numbers below 2**53 have the same sum in any order.
                sums[rows] += (pieces[:, some].astype(np.float64) @ coefficients[some]).astype(np.uint64)
        return np.vstack([sums.T, np.full(n_rows, n_words, dtype=np.uint64)])

    def _coefficients_of(self, n_words: int) -> Floats:
        """Return the secret coefficients of the pieces of a row, shape (4 * n_words, 6)."""
        if len(self._coefficients) < _PIECES * n_words:
            n_bytes = 4 * _SUMS * _PIECES * n_words
            stream = hashlib.shake_256(b"coefficients" + self._key).digest(n_bytes)
            numbers = np.frombuffer(stream, dtype="<u4") >> np.uint32(32 - _COEFFICIENT_BITS)
            self._coefficients = numbers.astype(np.float64).reshape(-1, _SUMS)
        return self._coefficients[: _PIECES * n_words]


def _use_one_form(numbers: NDArray[np.float64]) -> None:
    """Write one form of NaN and of zero in place of all forms."""
    numbers += 0.0
    missing = np.isnan(numbers)
    if missing.any():
        numbers[missing] = np.nan


def _total(words: Words) -> int:
    """Return the sum of words, which may need more than 64 bits."""
    halves = words[:, None] >> np.array([0, 32], dtype=np.uint64) & np.uint64(0xFFFFFFFF)
    low, high = halves.sum(axis=0, dtype=np.uint64).tolist()
    return int(low + (high << 32))
