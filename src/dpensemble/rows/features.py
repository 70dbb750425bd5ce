"""Private records as blocks of whole features, passed over once a round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpensemble._arrays import Integers, rows_at
from dpensemble._state import fingerprint
from dpensemble.errors import DataError, DPEnsembleError
from dpensemble.moments.rounds import Transform
from dpensemble.moments.whole import WholeBlock, whole_features
from dpensemble.rows.bad_records import BAD
from dpensemble.rows.checked import Block
from dpensemble.rows.checksums import RowChecksums

#: Rows whose features are in memory at a time.
ROWS_AT_ONCE = 2048
# Most bytes of features that are kept between rounds. Whole features fit a 16-bit integer.
_KEPT_BYTES = 2**29


@dataclass(eq=False)
class Features:
    """Whole features of private records behind a public map, kept between passes if they are small enough.

    With `alone` the map transforms one row at a time. A map from outside the library may read rows together, and a
    product of matrices rounds a row differently in a larger block. With `zeroes_bad`, a row that the map cannot read is
    a bad record, and its features are zeros. Otherwise such a row raises an error. `judge` is another map, whose bad
    records are bad here too. With `keeps`, all passes are over the same records in this process.
    """

    transform: Transform
    alone: bool = False
    zeroes_bad: bool = False
    n_features: int = 0
    judge: Features | None = None
    keeps: bool = True
    _kept: list[WholeBlock] | None = field(default_factory=list, init=False)
    _complete: bool = field(default=False, init=False)

    def of(self, blocks: Iterable[Block], checksums: RowChecksums | None = None) -> Iterator[WholeBlock]:
        """Yield whole features, class ids and weights. A bad record has zeros, the class `BAD` and its own weight.

        `checksums` hash rows that may change between two passes. Blocks are not read if their features were kept.
        """
        if self._complete and self._kept is not None:
            for block in self._kept:
                yield block._replace(features=block.features.astype(np.float64))
            return
        kept_bytes = 0
        self._kept = [] if self.keeps and not self._complete else None
        state = fingerprint(self._map) if self.alone else None
        for rows, targets, weights, units in blocks:
            checksum = 0 if checksums is None else checksums.of(rows, targets, units)
            features, good = self._whole(rows, targets)
            block = WholeBlock(features, np.where(good, targets, BAD), weights, checksum)
            if self._kept is not None:
                small = features.astype(np.int16)
                kept_bytes += (small.data.nbytes + small.indices.nbytes) if sparse.issparse(small) else small.nbytes
                self._kept.append(block._replace(features=small))
                if kept_bytes > _KEPT_BYTES:
                    self._kept = None
            yield block
        if state is not None and fingerprint(self._map) != state:
            raise DataError(
                f"feature_map={type(self._map).__name__} changes its own state when it transforms rows, so that one "
                "record could change the features of others: use a map whose transform changes nothing."
            )
        self._complete = True

    def reading(self, transform: Transform) -> Features:
        """Return the features of a map of the library, for the same bad records."""
        judge = self if self.alone and self.zeroes_bad else self.judge
        return Features(transform, zeroes_bad=self.zeroes_bad, judge=judge, keeps=self.keeps)

    @property
    def _map(self) -> Any:
        return getattr(self.transform, "__self__", self.transform)

    def _whole(self, rows: Any, targets: Integers) -> tuple[Any, NDArray[np.bool_]]:
        """Return whole features of rows, zeros for bad ones, and which are good."""
        if not self.zeroes_bad:
            features = self._each(rows) if self.alone else _guarded(self.transform, rows)
            return whole_features(features), np.ones(len(targets), dtype=bool)
        good = targets >= 0
        if self.judge is not None:
            good &= self.judge.readable(rows, good)[1]
        features, readable = self.readable(rows, good)
        if not readable.all():
            readable_rows = sparse.diags_array(readable.astype(np.float64))
            features = (
                readable_rows @ features if sparse.issparse(features) else np.where(readable[:, None], features, 0.0)
            )
        return whole_features(features), readable

    def readable(self, rows: Any, good: NDArray[np.bool_]) -> tuple[Any, NDArray[np.bool_]]:
        """Return features of rows, zeros for those that are bad or cannot be read, and which could be read."""
        if not self.alone:
            # Maps of the library read every row.
            return _guarded(self.transform, rows), good
        features = [self._row(rows, place) if good[place] else None for place in range(len(good))]
        readable = np.array([one is not None for one in features], dtype=bool)
        of_sparse = any(sparse.issparse(one) for one in features)
        empty = sparse.csr_matrix((1, self.n_features)) if of_sparse else np.zeros((1, self.n_features))
        stacked = [empty if one is None else one for one in features]
        return sparse.vstack(stacked, format="csr") if of_sparse else np.vstack(stacked), readable

    def _row(self, rows: Any, place: int) -> Any:
        """Return the features of one row, None if the map cannot read the row."""
        try:
            features = self.transform(rows_at(rows, slice(place, place + 1)))
            entries = features.data if sparse.issparse(features) else np.asarray(features, dtype=np.float64)
        except Exception:
            return None
        return features if np.isfinite(entries).all() else None

    def _each(self, rows: Any) -> Any:
        features = [_guarded(self.transform, rows_at(rows, slice(place, place + 1))) for place in range(len(rows))]
        return sparse.vstack(features, format="csr") if sparse.issparse(features[0]) else np.vstack(features)


def _guarded(transform: Transform, rows: Any) -> Any:
    """Return features of private rows. An error of another library is replaced, since its text may quote a row."""
    try:
        return transform(rows)
    except DPEnsembleError:
        raise
    except Exception as error:
        kind = type(error).__name__
    # Raised outside the handler, so that the original error is not the context of this one.
    raise DataError(
        f"feature_map cannot read a private row ({kind}): use a map that accepts any value, such as a "
        "category that no public row has, or give on_bad_record='zero'."
    )
