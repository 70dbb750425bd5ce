"""The interactive loop. Teachers are asked where they seem to contradict the student, which learns meanwhile."""

from __future__ import annotations

import numpy as np

from dpensemble._random import NoiseSource
from dpensemble.accounting import Meter
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.engine.labelling import PrivateDiagnostics, Questions, Released, ask
from dpensemble.student.fitting import Learner


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
