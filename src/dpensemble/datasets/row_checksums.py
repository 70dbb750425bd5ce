"""Keyed checksums of private rows, to notice rows that change between two passes.

A row's hash is BLAKE2b, with a secret key, of a canonical form of the row: its columns, class and unit. The checksum of
many rows is the sum of their hashes modulo ``2**128``, so that order does not matter and a repeated row does. The key
is drawn for each run. Two different collections of rows have the same checksum with a probability near ``2**-128``
(M. Bellare and D. Micciancio, "A new paradigm for collision-free hashing", EUROCRYPT 1997, the randomize-then-combine
paradigm, whose combination is addition here).
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dpensemble._arrays import Integers, Rows
from dpensemble.datasets.columns import as_text, distinct_entries, number_columns

SIZE = 16
# Bytes of a number.
_NUMBER = 8


class RowChecksums:
    """Checksums of rows under one secret key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def of_new_key(cls) -> RowChecksums:
        """Return checksums under a key that was never used before."""
        return cls(secrets.token_bytes(32))

    def of(self, rows: Rows, targets: Integers, units: ArrayLike | None = None) -> int:
        """Return the checksum of rows, their class ids and, if they have any, their units or hashes of units."""
        n_rows = len(targets)
        table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(np.asarray(rows).reshape(n_rows, -1))
        numeric = number_columns(table)
        hashed = [self.texts(table.iloc[:, place]) for place in np.flatnonzero(~numeric).tolist()]
        if units is not None:
            # Two dimensions: the units were hashed before.
            hashed.append(np.asarray(units, dtype=np.uint8) if np.ndim(units) == 2 else self.texts(units))
        n_numbers = 1 + int(numeric.sum())
        packed = np.empty((n_rows, n_numbers + len(hashed) * SIZE // _NUMBER), dtype="<f8")
        packed[:, 0] = targets
        if n_numbers > 1:
            packed[:, 1:n_numbers] = table.iloc[:, np.flatnonzero(numeric)].to_numpy(dtype=np.float64, na_value=np.nan)
        _use_one_form(packed[:, :n_numbers])
        if hashed:
            packed.view(np.uint8)[:, n_numbers * _NUMBER :] = np.hstack(hashed)
        content, size = memoryview(packed.tobytes()), packed.shape[1] * _NUMBER
        digests = b"".join([self._hash(content[start : start + size]) for start in range(0, len(content), size)])
        words = np.frombuffer(digests, dtype="<u4").reshape(n_rows, SIZE // 4).sum(axis=0, dtype=np.uint64).tolist()
        return sum(word << 32 * place for place, word in enumerate(words)) % 2 ** (8 * SIZE)

    def texts(self, entries: ArrayLike | pd.Series) -> NDArray[np.uint8]:
        """Return a hash of each entry as it is written, shape (n_rows, 16). 5 and 5.0 have one hash."""
        places, distinct = distinct_entries(pd.Series(entries))
        written = as_text(pd.Series(distinct, dtype=object)).tolist()
        # A missing entry has place -1, the last one.
        hashes = [self._hash(text.encode("utf-8", "surrogatepass")) for text in written] + [bytes(SIZE)]
        return np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(-1, SIZE)[places]

    def _hash(self, content: bytes | memoryview) -> bytes:
        return hashlib.blake2b(content, key=self._key, digest_size=SIZE).digest()


def _use_one_form(numbers: NDArray[np.float64]) -> None:
    """Write one form of NaN and of zero in place of all forms."""
    numbers += 0.0
    missing = np.isnan(numbers)
    if missing.any():
        numbers[missing] = np.nan
