"""The one labelling loop: vote, charge, release.

In the interactive loop, teachers are asked where they seem to contradict the student, which learns meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpensemble._draw_once import drawn_once
from dpensemble._random import NoiseSource
from dpensemble.accounting import Meter
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.laws import sample
from dpensemble.student.fitting import Learner
from dpensemble.votes import Votes

# Number of ballots in memory at once.
_CHUNK_BYTES = 100_000_000
_DIAGNOSTIC_CHUNKS = 40


@dataclass(eq=False, repr=False)
class PrivateDiagnostics:
    """Statistics of the secret votes on the answered queries. Never publish them.

    A margin is the winner's share of votes minus the runner-up's. `spend` contains numbers of queries, and the epsilon
    charged for them. `group_spent` is the epsilon of each group of records. Constant teachers always vote for one
    class, and the fit of failed teachers raised. Without `votes` only teachers are counted, since margins and spend
    take time.
    """

    margins: list[float] = field(default_factory=list)
    spend: list[tuple[int, float]] = field(default_factory=list)
    n_constant: int = 0
    n_failed: int = 0
    group_spent: list[float] = field(default_factory=list)
    votes: bool = True

    def clear(self, n_constant: int, n_failed: int) -> None:
        """Clear the statistics, for other teachers."""
        self.margins, self.spend, self.group_spent = [], [], []
        self.n_constant, self.n_failed = n_constant, n_failed


@dataclass(frozen=True, eq=False, repr=False)
class Questions:
    """Public rows to query, in order, and the teachers that answer."""

    vote: Callable[[NDArray[np.float64]], Votes]
    rows: NDArray[np.float64]
    # Indices. Their number limits the number of queries.
    order: NDArray[np.int64]
    n_teachers: int


@dataclass(frozen=True, eq=False)
class Released:
    """The released answers of the teachers."""

    # Public rows in order, and the class id of each, or -1 for no answer.
    asked: NDArray[np.int64]
    outcomes: NDArray[np.int64]
    # Public rows that the student labelled itself, and their class ids.
    reinforced: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    own_labels: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def answered(self) -> NDArray[np.int64]:
        """Public rows with a label."""
        return self.asked[self.outcomes >= 0]

    @property
    def labels(self) -> NDArray[np.int64]:
        """Released class ids of the rows with a label."""
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
    schedule: VotingSchedule,
    meter: Meter,
    noise: NoiseSource,
    diagnostics: PrivateDiagnostics | None = None,
) -> Released:
    """Answer public rows in a public order for as long as the meter admits them. Each draw is charged beforehand."""
    largest = _largest_chunk(questions, meter, diagnostics)
    order = questions.order[: meter.most_queries]
    outcomes: list[NDArray[np.int64]] = []
    n_asked = 0
    while n_asked < len(order):
        size = schedule.left_in_stage(n_asked, min(largest, max(meter.next_chunk(n_asked), 1)))
        if not size:
            break
        chunk = order[n_asked : n_asked + size]
        answers = ask(questions, chunk, schedule, meter, noise, diagnostics, n_asked)
        outcomes.append(answers)
        n_asked += len(answers)
        if len(answers) < len(chunk):
            break
    return Released(order[:n_asked], np.concatenate(outcomes) if outcomes else np.empty(0, dtype=np.int64))


def ask(
    questions: Questions,
    chunk: NDArray[np.int64],
    schedule: VotingSchedule,
    meter: Meter,
    noise: NoiseSource,
    diagnostics: PrivateDiagnostics | None,
    n_asked: int,
    expected: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Charge for and answer the leading queries of a chunk that fit. Return class ids, or -1 for no answer."""
    votes = questions.vote(questions.rows[chunk])
    admitted = meter.admit(votes)
    counts = schedule.counts(votes, n_asked)[:admitted]
    law = schedule.law(n_asked)
    # The student's expectations are public.
    if law.needs_student and expected is not None:
        law = law.against(expected[:admitted])  # type: ignore[attr-defined]
    outcomes = drawn_once("answers", lambda: sample(law, counts, noise), seeded=not noise.for_release)
    meter.settle(outcomes, votes.n_classes)
    if diagnostics is not None and diagnostics.votes:
        _note(diagnostics, counts, n_asked + admitted, meter)
    return np.where(outcomes < votes.n_classes, outcomes, -1)


def _largest_chunk(questions: Questions, meter: Meter, diagnostics: PrivateDiagnostics | None) -> int:
    largest = max(1, _CHUNK_BYTES // questions.n_teachers)
    if diagnostics is not None and diagnostics.votes:
        largest = min(largest, max(1, meter.sure_queries // _DIAGNOSTIC_CHUNKS))
    return largest


def _note(diagnostics: PrivateDiagnostics, counts: NDArray[np.int64], n_asked: int, meter: Meter) -> None:
    top = np.sort(counts, axis=1)[:, -2:]
    diagnostics.margins.extend(((top[:, 1] - top[:, 0]) / counts.sum(axis=1)).tolist())
    diagnostics.spend.append((n_asked, meter.charged_epsilon))
    diagnostics.group_spent[:] = meter.group_epsilons


def label_interactively(
    questions: Questions,
    schedule: VotingSchedule,
    meter: Meter,
    noise: NoiseSource,
    diagnostics: PrivateDiagnostics | None,
    learner: Learner,
    *,
    n_classes: int,
    batch_size: int,
    confidence: float,
) -> Released:
    """Query in batches, each with a student of all labels so far (Papernot et al. 2018, Algorithm 2)."""
    order = questions.order
    released = Released(order[:0], np.empty(0, dtype=np.int64))
    while len(released.asked) < len(order):
        n_asked = len(released.asked)
        size = schedule.left_in_stage(n_asked, min(batch_size, max(meter.next_chunk(n_asked), 1)))
        if not size:
            break
        batch = order[n_asked : n_asked + size]
        student = learner.fit(released.lesson_rows, released.lesson_labels) if released.answered.size else None
        # Without a student nothing is expected, and the threshold is on the highest count.
        expected = np.zeros((len(batch), n_classes)) if student is None else learner.probabilities(student, batch)
        outcomes = ask(questions, batch, schedule, meter, noise, diagnostics, n_asked, expected)
        admitted = batch[: len(outcomes)]
        # If the threshold is not passed, the student's confident predictions become lessons, which cost nothing.
        sure = (outcomes < 0) & (expected[: len(outcomes)].max(axis=1, initial=0) >= confidence)
        released = Released(
            order[: n_asked + len(outcomes)],
            np.concatenate([released.outcomes, outcomes]),
            np.concatenate([released.reinforced, admitted[sure]]),
            np.concatenate([released.own_labels, expected[: len(outcomes)][sure].argmax(axis=1)]),
        )
        if len(outcomes) < len(batch):
            break
    return released
