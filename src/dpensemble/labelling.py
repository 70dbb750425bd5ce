"""The one labelling loop: vote, charge, release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import NoiseSource
from dpensemble.accounting import GroupMeter, Meter
from dpensemble.electorate import Electorate
from dpensemble.laws import InteractiveNoisyMax, sample
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
        Number of queries and the epsilon charged for them.
    n_constant, n_failed : int
        Teachers that vote a constant, and teachers whose fit raised.
    group_spent : list of float
        Epsilon charged to each group, where groups of records have budgets of their own.
    """

    margins: list[float] = field(default_factory=list)
    spend: list[tuple[int, float]] = field(default_factory=list)
    n_constant: int = 0
    n_failed: int = 0
    group_spent: list[float] = field(default_factory=list)


@dataclass(frozen=True, eq=False, repr=False)
class Questions:
    """Public rows to ask about, and the teachers to ask.

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
    """

    vote: Callable[[NDArray[np.float64]], Votes]
    rows: NDArray[np.float64]
    order: NDArray[np.int64]
    n_teachers: int


@dataclass(frozen=True, eq=False)
class Released:
    """What left the teachers.

    Parameters
    ----------
    asked : ndarray of shape (n_queries,)
        Public rows that were asked about, in turn.
    outcomes : ndarray of shape (n_queries,)
        Released class id of each, or -1 for no answer.
    reinforced, own_labels : ndarray of shape (n_reinforced,)
        Public rows that the student taught itself, and the class ids it gave them.
    """

    asked: NDArray[np.int64]
    outcomes: NDArray[np.int64]
    reinforced: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    own_labels: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def answered(self) -> NDArray[np.int64]:
        """Public rows that got a label."""
        return self.asked[self.outcomes >= 0]

    @property
    def labels(self) -> NDArray[np.int64]:
        """Released class ids of the rows that got one."""
        return self.outcomes[self.outcomes >= 0]

    @property
    def lesson_rows(self) -> NDArray[np.int64]:
        """Public rows that the student learns from."""
        return np.concatenate([self.answered, self.reinforced])

    @property
    def lesson_labels(self) -> NDArray[np.int64]:
        """Class ids that the student learns."""
        return np.concatenate([self.labels, self.own_labels])


def label_rows(
    questions: Questions,
    electorate: Electorate,
    meter: Meter,
    noise: NoiseSource,
    diagnostics: PrivateDiagnostics | None = None,
) -> Released:
    """Answer public rows in a public order for as long as the meter admits them.

    The meter charges a chunk before anything is drawn for it.

    Parameters
    ----------
    questions : Questions
        Whom to ask about what.
    electorate : Electorate
        Whose votes count, and by which law they are answered.
    meter : Meter
        What it costs, and when to stop.
    noise : NoiseSource
        Where the random bits come from.
    diagnostics : PrivateDiagnostics or None
        Filled where given.

    Returns
    -------
    Released
    """
    largest = _largest_chunk(questions, meter, diagnostics)
    order = questions.order[: meter.most_queries]
    outcomes: list[NDArray[np.int64]] = []
    asked = 0
    while asked < len(order):
        size = electorate.left_in_stage(asked, min(largest, max(meter.next_chunk(asked), 1)))
        if not size:
            break
        chunk = order[asked : asked + size]
        found = ask(questions, chunk, electorate, meter, noise, diagnostics, asked)
        outcomes.append(found)
        asked += len(found)
        if len(found) < len(chunk):
            break
    return Released(order[:asked], np.concatenate(outcomes) if outcomes else np.empty(0, dtype=np.int64))


def ask(
    questions: Questions,
    chunk: NDArray[np.int64],
    electorate: Electorate,
    meter: Meter,
    noise: NoiseSource,
    diagnostics: PrivateDiagnostics | None,
    asked: int,
    expected: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Charge for and answer the leading queries of a chunk that fit.

    Parameters
    ----------
    questions, electorate, meter, noise, diagnostics
        As for `label_rows`.
    chunk : ndarray
        Public rows to ask about, all in one stage of the electorate.
    asked : int
        Queries asked before.
    expected : ndarray of shape (n_chunk, n_classes), optional
        The student's class probabilities, for an interactive law. Public.

    Returns
    -------
    ndarray of shape (n_admitted,)
        Released class ids, or -1 for no answer.
    """
    votes = questions.vote(questions.rows[chunk])
    admitted = meter.admit(votes)
    counts = electorate.counts(votes, asked)[:admitted]
    law = electorate.law(asked)
    if isinstance(law, InteractiveNoisyMax) and expected is not None:
        law = law.against(expected[:admitted])
    outcomes = sample(law, counts, noise)
    meter.settle(outcomes, votes.n_classes)
    if diagnostics is not None:
        _note(diagnostics, counts, asked + admitted, meter)
    return np.where(outcomes < votes.n_classes, outcomes, -1)


def _largest_chunk(questions: Questions, meter: Meter, diagnostics: PrivateDiagnostics | None) -> int:
    largest = max(1, _CHUNK_BYTES // questions.n_teachers)
    if diagnostics is not None:
        largest = min(largest, max(1, meter.sure_queries // _DIAGNOSTIC_CHUNKS))
    return largest


def _note(diagnostics: PrivateDiagnostics, counts: NDArray[np.int64], asked: int, meter: Meter) -> None:
    top = np.sort(counts, axis=1)[:, -2:]
    diagnostics.margins.extend(((top[:, 1] - top[:, 0]) / counts.sum(axis=1)).tolist())
    diagnostics.spend.append((asked, meter.charged_epsilon))
    if isinstance(meter, GroupMeter):
        diagnostics.group_spent[:] = meter.group_epsilons
