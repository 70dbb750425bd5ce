"""The one labelling loop: vote, charge, release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import NoiseSource
from dpensemble.accounting import Meter
from dpensemble.laws import ReleaseLaw, sample
from dpensemble.votes import Votes

# Ballots held at once.
_CHUNK_BYTES = 100_000_000
_DIAGNOSTIC_CHUNKS = 40


@dataclass(frozen=True, eq=False, repr=False)
class PrivateDiagnostics:
    """Statistics of the private votes on the answered queries; never publish them.

    Parameters
    ----------
    margins : list of float
        Winner's share of votes minus the runner-up's, one an answered query.
    spend : list of (int, float)
        Number of labels and the epsilon charged for them.
    n_constant, n_failed : int
        Teachers that vote a constant, and teachers whose fit raised.
    """

    margins: list[float] = field(default_factory=list)
    spend: list[tuple[int, float]] = field(default_factory=list)
    n_constant: int = 0
    n_failed: int = 0


def label_rows(
    vote: Callable[[NDArray[np.float64]], Votes],
    rows: NDArray[np.float64],
    order: NDArray[np.int64],
    *,
    n_teachers: int,
    law: ReleaseLaw,
    meter: Meter,
    noise: NoiseSource,
    diagnostics: PrivateDiagnostics | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Answer public rows in a public order for as long as the meter admits them.

    The meter charges a chunk before anything is drawn for it.

    Parameters
    ----------
    vote : callable
        Maps a chunk of rows to `Votes`.
    rows : ndarray of shape (n_public, n_features)
        Public rows.
    order : ndarray
        Indices of the rows to ask about, in turn; its length caps the number of queries.
    n_teachers : int
        Number of ballots a query.
    law : ReleaseLaw
        What is released.
    meter : Meter
        What it costs, and when to stop.
    noise : NoiseSource
        Where the random bits come from.
    diagnostics : PrivateDiagnostics or None
        Filled where given.

    Returns
    -------
    indices : ndarray of shape (n_labels,)
        Public rows that were answered, in the order of asking.
    outcomes : ndarray of shape (n_labels,)
        Released class ids.
    """
    largest = max(1, _CHUNK_BYTES // n_teachers)
    if diagnostics is not None:
        largest = min(largest, max(1, meter.sure_queries // _DIAGNOSTIC_CHUNKS))
    outcomes: list[NDArray[np.int64]] = []
    answered = 0
    order = order[: meter.most_queries]
    while answered < len(order):
        # The first chunk surely fits; later ones are small, since votes beyond the budget are wasted.
        size = meter.sure_queries - answered if answered < meter.sure_queries else meter.sure_queries // 4
        chunk = order[answered : answered + min(largest, max(size, 1))]
        votes = vote(rows[chunk])
        admitted = meter.admit(votes)
        counts = votes.counts[:admitted]
        outcomes.append(sample(law, counts, noise))
        answered += admitted
        if diagnostics is not None:
            _note(diagnostics, counts, answered, meter)
        if admitted < len(chunk):
            break
    return order[:answered], np.concatenate(outcomes) if outcomes else np.empty(0, dtype=np.int64)


def _note(diagnostics: PrivateDiagnostics, counts: NDArray[np.int64], answered: int, meter: Meter) -> None:
    top = np.sort(counts, axis=1)[:, -2:]
    diagnostics.margins.extend(((top[:, 1] - top[:, 0]) / counts.sum(axis=1)).tolist())
    diagnostics.spend.append((answered, meter.cost.epsilon(meter.budget.delta)))
