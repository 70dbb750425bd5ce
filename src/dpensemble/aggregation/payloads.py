"""Votes as they are passed, checked as a whole before anything is charged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpensemble._arrays import Integers, is_table
from dpensemble._refusals import require_readable
from dpensemble.design.given_votes import GivenVotes
from dpensemble.errors import DataError
from dpensemble.releases import NamedVotes

_NO_VOTES = np.zeros((1, 0), dtype=np.int64)


class Payloads:
    """Converts votes into whole counts of the classes named by `labels`."""

    def __init__(self, design: GivenVotes, labels: Sequence[Any] | range) -> None:
        self._design, self._labels = design, labels
        self._place = None if isinstance(labels, range) else {label: i for i, label in enumerate(labels)}

    def ballots(self, ballots: Any) -> list[NamedVotes]:
        """Check one label a voter, shape (n_voters,) or (n_queries, n_voters)."""
        require_readable("ballots", ballots)
        rows = self._rows("ballots", ballots, self._design.n_voters, "one a voter")
        ids = self._ids(rows)
        return [NamedVotes(*np.unique(row, return_counts=True)) for row in ids]

    def _ids(self, rows: Any) -> Integers:
        if self._place is None:
            if rows.dtype.kind not in "iu" or (rows.size and (rows.min() < 0 or rows.max() >= len(self._labels))):
                raise DataError(f"ballots must be whole numbers from 0 to {len(self._labels) - 1}, the classes.")
            return rows.astype(np.int64)
        try:
            places = [self._place[label] for label in rows.ravel().tolist()]
        except (KeyError, TypeError):
            raise DataError("ballots must hold declared classes only; one label is not among them.") from None
        return np.array(places, dtype=np.int64).reshape(rows.shape)

    def counts(self, counts: Any) -> list[NamedVotes]:
        """Check votes by class: a mapping from labels, or shape (n_classes,) or (n_queries, n_classes)."""
        require_readable("counts", list(counts.values()) if isinstance(counts, Mapping) else counts)
        if is_table(counts):
            queries = (dict(zip(counts.columns, row, strict=True)) for row in counts.to_numpy().tolist())
            return [one for query in queries for one in self.counts(query)]
        if hasattr(counts, "to_dict"):
            counts = counts.to_dict()
        if isinstance(counts, Mapping):
            ids = self._ids(np.array(list(counts), dtype=None if self._place is None else object))
            votes = self._rows("counts", list(counts.values()), len(counts), "one a class") if counts else _NO_VOTES
            rows, ids = self._whole(votes), ids[None]
        else:
            rows = self._whole(self._rows("counts", counts, self._design.n_classes, "one a class"))
            ids = np.broadcast_to(np.arange(self._design.n_classes), rows.shape)
        if np.any(rows.sum(axis=1) != self._design.n_voters):
            raise DataError(
                f"counts must add up to n_voters={self._design.n_voters} in every query, one ballot a voter: declare a "
                "class for abstaining if voters may abstain."
            )
        votes_by_query = []
        for row, names in zip(rows, ids, strict=True):
            columns = np.flatnonzero(row)
            order = np.argsort(names[columns])
            votes_by_query.append(NamedVotes(names[columns][order], row[columns][order]))
        return votes_by_query

    def _whole(self, rows: Any) -> Integers:
        if rows.dtype.kind == "f" and np.all(np.isfinite(rows)) and np.all(rows == np.floor(rows)):
            rows = rows.astype(np.int64) if np.all(np.abs(rows) < 2**53) else rows
        if rows.dtype.kind not in "iu" or np.any(rows < 0) or np.any(rows > self._design.n_voters):
            raise DataError(f"counts must be whole numbers from 0 to n_voters={self._design.n_voters}.")
        return rows.astype(np.int64)

    def soft(self, log_probs: Any) -> Integers:
        """Check log-probabilities, shape (n_voters, n_classes) or with queries first, and return their whole sums."""
        if is_table(log_probs):
            if set(log_probs.columns) != set(self._labels):
                raise DataError("log_probs must have the declared classes as columns: rename its columns.")
            log_probs = log_probs[list(self._labels)]
        require_readable("log_probs", log_probs)
        try:
            values = np.asarray(log_probs, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError("log_probs must be an array of numbers.") from None
        shape = (self._design.n_voters, self._design.n_classes)
        if values.ndim not in (2, 3) or values.shape[-2:] != shape or not values.size:
            raise DataError(f"log_probs must have the shape {shape}, or (n_queries, n_voters, n_classes).")
        # In the positive form, so that NaN fails too.
        if not np.all(values <= 1e-6) or np.any(np.isneginf(values).all(axis=-1)):
            raise DataError("log_probs must be logarithms of probabilities: no NaN, none above 0, one finite a voter.")
        values = values.reshape(-1, *shape)
        return self._design.release.whole(values).sum(axis=1)

    def _rows(self, name: str, given: Any, width: int, what: str) -> Any:
        try:
            rows = np.asarray(given, dtype=object if self._place is not None and name == "ballots" else None)
        except ValueError:
            rows = np.empty(0)
        if rows.ndim == 1:
            rows = rows[None]
        if rows.ndim != 2 or rows.shape[1] != width or not rows.size:
            raise DataError(f"{name} must be {width:,} values, {what}, or a table with that many columns.")
        return rows
