"""Private records as blocks of whole features, passed over once a round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from dpensemble._arrays import Floats, Integers
from dpensemble.errors import DataError, DPEnsembleError
from dpensemble.moments.whole import UNIT, whole_features

#: Rows whose features are in memory at a time.
ROWS_AT_ONCE = 8192
# Whole features fit a 16-bit integer; what all blocks take may be kept between rounds up to this.
_KEPT_BYTES = 2**29

#: A block of private records: rows as the map takes them, class ids, and weights that add up to at most 1 a unit.
Block = tuple[Any, Integers, Floats]


@dataclass(eq=False)
class PrivateBlocks:
    """All private records, read anew every round unless their features are small enough to keep.

    Parameters
    ----------
    read : callable
        Returns an iterator over blocks; called once a round, and gives every record once, in any order.
    transform : callable
        The public feature map.
    alone : bool, default=False
        Whether to give the map every row by itself. A product of matrices rounds a row differently in a larger block or
        at another place in it, which must not happen where a unit can move the rows of others.
    """

    read: Callable[[], Iterator[Block]]
    transform: Callable[[Any], Any]
    alone: bool = False
    _kept: list[tuple[Any, Integers, Floats]] | None = field(default_factory=list, init=False)
    _complete: bool = field(default=False, init=False)

    def __iter__(self) -> Iterator[tuple[Any, Integers, Floats]]:
        """Yield whole features, class ids and weights."""
        if self._complete and self._kept is not None:
            for small, targets, weights in self._kept:
                yield small.astype(np.float64), targets, weights
            return
        kept_bytes = 0
        self._kept = None if self._complete else []
        for rows, targets, weights in self.read():
            features = whole_features(self._features(rows))
            if self._kept is not None:
                small = features.astype(np.int16)
                kept_bytes += (small.data.nbytes + small.indices.nbytes) if sparse.issparse(small) else small.nbytes
                self._kept.append((small, targets, weights))
                if kept_bytes > _KEPT_BYTES:
                    self._kept = None
            yield features, targets, weights
        self._complete = True

    def _features(self, rows: Any) -> Any:
        try:
            if not self.alone:
                return self.transform(rows)
            parts = rows.iloc if hasattr(rows, "iloc") else rows
            found = [self.transform(parts[i : i + 1]) for i in range(len(rows))]
            return sparse.vstack(found, format="csr") if sparse.issparse(found[0]) else np.vstack(found)
        except DPEnsembleError:
            raise
        except Exception as error:
            # Its own text may quote the row.
            raise DataError(
                f"feature_map cannot read a private row ({type(error).__name__}); use one that takes whatever a row "
                "may hold, such as categories that no public row has."
            ) from None


def blocks_of(X: Any, targets: Integers, weights: Floats) -> Callable[[], Iterator[Block]]:
    """Return a reader of records that are in memory, as a table or an array."""
    rows = X.iloc if hasattr(X, "iloc") else X

    def read() -> Iterator[Block]:
        for start in range(0, len(targets), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            yield rows[part], targets[part], weights[part]

    return read


def scaled(features: Any, scale: Floats | None) -> Any:
    """Return whole features whose coordinates are weighted, none longer than before they were allowed to be."""
    if scale is None:
        return features
    weighted = features.multiply(scale / UNIT) if sparse.issparse(features) else features * (scale / UNIT)
    return whole_features(weighted)
