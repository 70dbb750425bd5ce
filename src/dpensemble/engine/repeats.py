"""The joint cost of private fits on the same records in this process, which no single guarantee states.

Records are identified by hashes of their contents, in memory only. Losses add up by basic composition: epsilons and
deltas of all fits that used a record (C. Dwork and A. Roth, "The Algorithmic Foundations of Differential Privacy",
2014, Theorem 3.16). This holds for methods of any kind. Fits with seeded noise are not releases, and are not counted.

Rows are compared exactly, so the sums and the warning can depend on a single row, and no guarantee covers them. They
are for the owner of the records only.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._announce import Spending, listen
from dpensemble._arrays import Floats, Rows
from dpensemble.budget import Budget
from dpensemble.datasets.columns import row_hashes
from dpensemble.datasets.equal_rows import Blocks, ComparedOnce, EqualRows, equal_rows, share_memory
from dpensemble.errors import EqualRowsWarning, RepeatedReleaseWarning

# Below this share of known records, equal ones may be chance.
_ALIKE = 0.25
# At most this many records are remembered.
_MOST_RECORDS = 20_000_000
_INSIDE: ContextVar[bool] = ContextVar("inside a fit that is counted", default=False)


class _Seen:
    """For each known record, the number of fits that used it, and their cost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        self._hashes: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        # Of each record: fits, epsilon, delta, and the number of fits in the last warning.
        self._sums: Floats = np.empty((0, 4))

    def add(self, hashes: NDArray[np.uint64], epsilon: float, delta: float) -> tuple[int, Budget] | None:
        """Count one more fit. Return fits and cost of the most used record if a warning is due."""
        with self._lock:
            if len(self._hashes) > _MOST_RECORDS:
                self.forget()
            own = np.unique(hashes)
            places = np.searchsorted(self._hashes, own)
            repeated = np.zeros(len(own), dtype=bool)
            inside = places < len(self._hashes)
            repeated[inside] = self._hashes[places[inside]] == own[inside]
            self._sums[places[repeated]] += (1, epsilon, delta, 0)
            most = self._sums[places[repeated]].max(axis=0, initial=0)
            # Only at every doubling, because a search makes hundreds of fits.
            telling = bool(repeated.mean() >= _ALIKE and most[0] >= 2 * most[3])
            if telling:
                self._sums[places[repeated], 3] = most[0]
            new = own[~repeated]
            merged = np.concatenate([self._hashes, new])
            order = np.argsort(merged, kind="stable")
            first = (1.0, epsilon, delta, most[0] if telling else 1.0)
            sums = np.concatenate([self._sums, np.tile(first, (len(new), 1))])
            self._hashes, self._sums = merged[order], sums[order]
        cost = _budget(most)
        return (int(most[0]), cost) if telling and cost is not None else None

    def total(self) -> Budget | None:
        """Return the loss of the record that was in the costliest fits."""
        with self._lock:
            return _budget(self._sums.max(axis=0, initial=0)) if len(self._sums) else None


def _budget(sums: Floats) -> Budget | None:
    return Budget(epsilon=float(sums[1]), delta=min(float(sums[2]), 1 - 1e-9)) if sums[1] > 0 else None


_SEEN = _Seen()


def total_spent() -> Budget | None:
    """Return the joint cost of all private fits of this process, for the record that was in the costliest fits.

    Searches and cross-validation in one process are counted, but not in separate worker processes. Fits with seeded
    noise, `fit_blocks` and other processes are not counted. A `Ledger` keeps account of all of them.

    For the owner of the records only: the sums depend exactly on which private rows fits shared, and no guarantee
    covers them.

    Returns
    -------
    Budget or None
        The sum of epsilons and of deltas, or None if nothing was spent.

    Examples
    --------
    >>> from dpensemble import total_spent
    >>> total_spent() is None or total_spent().epsilon > 0
    True
    """
    return _SEEN.total()


@contextmanager
def counted(estimator: Any, X: Any, y: Any, X_public: Any = None) -> Iterator[None]:
    """Count a fit on these records, even if it fails after its budget was spent, and warn about the joint cost.

    Before anything is spent, also warn if public rows are private records.
    """
    if _INSIDE.get():
        yield
        return
    if X_public is not None and not share_memory(X, X_public):
        warn_of_equal_rows(equal_rows(_dense(X), _dense(X_public)))
    # Hashed before anything is spent, so that counting a failed fit cannot fail.
    seeded = getattr(estimator, "insecure_release_seed", None) is not None
    token, announced, failed = _INSIDE.set(True), _Announced(), True
    try:
        with listen(announced.hear):
            yield
        failed = False
    finally:
        _INSIDE.reset(token)
        if announced.spent:
            _count_if_released(estimator, X, y, announced, seeded=seeded, failed=failed)


def _dense(rows: Rows) -> Rows:
    return rows.toarray() if hasattr(rows, "tocsr") else rows


def warn_of_equal_rows(equal: EqualRows | None) -> None:
    """Warn the owner if more public rows equal private records than chance explains."""
    if equal is None or not equal.beyond_chance:
        return
    warnings.warn(
        f"{equal.n_equal:,} of {equal.n_rows:,} public rows equal a private record in every column, which is more than "
        "chance. Public rows are published with the student and are not protected, so give rows of other people. "
        "This is for the owner of the records only, because it depends on them exactly.",
        EqualRowsWarning,
        stacklevel=8,
    )


def compared_once(read: Blocks, public: Rows) -> Blocks:
    """Return a reader of private blocks whose first pass compares them with public rows, and then warns the owner."""
    if public is None or _INSIDE.get():
        return read
    return ComparedOnce(read, public, warn_of_equal_rows, getattr(read, "units", None))


@contextmanager
def uncounted() -> Iterator[None]:
    """Count no fits in the block, for example fits on public data."""
    token = _INSIDE.set(True)
    try:
        yield
    finally:
        _INSIDE.reset(token)


def _count_if_released(estimator: Any, X: Any, y: Any, announced: _Announced, *, seeded: bool, failed: bool) -> None:
    if failed:
        # A fit that failed after its announcement counts as having spent its whole budget.
        epsilon = announced.epsilon
    else:
        seeded, epsilon = not estimator.guarantee_.for_release, estimator.guarantee_.epsilon
    if not seeded:
        _count(X, y, epsilon, announced.delta)


class _Announced:
    """The largest announced budget."""

    def __init__(self) -> None:
        self.spent, self.epsilon, self.delta = False, 0.0, 0.0

    def hear(self, spendings: Sequence[Spending]) -> None:
        self.spent = True
        self.epsilon = max([self.epsilon, *(one.epsilon for one in spendings)])
        self.delta = max([self.delta, *(one.delta for one in spendings)])


def _count(X: Any, y: Any, epsilon: float, delta: float) -> None:
    hashes = row_hashes(X, y)
    if hashes is None:
        return
    repeats = _SEEN.add(hashes, epsilon, delta)
    if repeats is not None:
        fits, cost = repeats
        warnings.warn(
            f"{fits} private fits in this process used the same records. Together they cost epsilon {cost.epsilon:.4g} "
            f"and delta {cost.delta:.4g} (the sums), not the figures of a single guarantee. Choose settings on public "
            "data instead; dpensemble.total_spent() returns the cost of all fits so far. This is for the owner of the "
            "records only, because it depends on them exactly.",
            RepeatedReleaseWarning,
            stacklevel=8,
        )
