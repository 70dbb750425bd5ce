"""The public design of a run that releases the average of the teachers' answers, each of which is one vector."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, member
from dpensemble.allocation import Allocation, partitions
from dpensemble.allocation.partition import grouped_partitions, teachers_of_groups
from dpensemble.design.noisy_sums import NoisySums
from dpensemble.errors import InvalidParameterError


class Answers(StrEnum):
    """The kind of answer that a teacher gives."""

    PROBABILITIES = "probabilities"
    PARAMETERS = "parameters"


@dataclass(frozen=True, kw_only=True, eq=False)
class TeacherAverages(NoisySums):
    """One noisy sum, of a vector that every teacher of a partition adds. Public.

    Parameters
    ----------
    name, title, everyone, n_classes, relation
        As for `NoisySums`.
    answers : Answers
        The kind of answer that a teacher gives.
    n_teachers : int
        Number of teachers.
    clip : float
        Longest answer: a share of the longest possible answer for probabilities, a length for parameters.
    """

    answers: Answers
    n_teachers: int
    clip: float

    def __post_init__(self) -> None:
        integer_between("n_teachers", self.n_teachers, 1, 2**20)

    @property
    def count_share(self) -> float:
        """Zero, since the number of teachers is public under both relations."""
        return 0.0

    @property
    def ordinary(self) -> bool:
        """Whether the teachers are ordinary models."""
        return True

    def teachers_of(self, group_of_unit: NDArray[np.int64] | None) -> tuple[int, ...]:
        """Return how many teachers each group has, by public numbers of units."""
        if group_of_unit is None or len(self.groups) == 1:
            return (self.n_teachers,)
        shares = np.bincount(group_of_unit, minlength=len(self.groups))
        return teachers_of_groups(self.n_teachers, shares, [group.name for group in self.groups])

    def allocate(
        self,
        identities: Sequence[Hashable],
        *,
        entropy: int,
        group_of_record: NDArray[np.int64] | None = None,
        group_of_unit: NDArray[np.int64] | None = None,
    ) -> tuple[Allocation, NDArray[np.float64]]:
        """Return one partition, within each group separately, and every teacher's weight."""
        teachers = self.teachers_of(group_of_unit)
        weights = np.repeat([group.weight for group in self.groups], teachers)
        if group_of_record is None or len(teachers) == 1:
            allocation = partitions(identities, self.n_teachers, relation=self.relation, entropy=entropy)
        else:
            allocation = grouped_partitions(
                identities, group_of_record, teachers, relation=self.relation, entropy=entropy
            )
        if allocation.votes_per_unit > 1:
            raise InvalidParameterError("a unit must teach one teacher only, since the sum is charged for one teacher.")
        return allocation, weights

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        settings = super().settings()
        for name in ("compares_rows", "synthetic_rows"):
            del settings[name]
        return settings | {"answers": self.answers.value, "clip": self.clip, "n_teachers": self.n_teachers}


def answers_of(value: Any) -> Answers:
    """Return the kind of the teachers' answers, by name."""
    return member("answers", value, Answers)
