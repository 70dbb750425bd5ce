"""Disjoint subsets of the records, one teacher each, once or several times: SAA, DPBag and PATE."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble._random import NoiseSource
from dpensemble.accounting import Group
from dpensemble.allocation import Allocation, everyone, partitions
from dpensemble.budget import Budget
from dpensemble.design.base import VotingDesign, one_group
from dpensemble.relations import Relation


@dataclass(frozen=True, kw_only=True, eq=False)
class Partitioned(VotingDesign):
    """One or several partitions of the records into disjoint subsets. Every teacher votes on every query.

    Parameters
    ----------
    name, title, choice, n_classes, accounting, noise, usual
        As for `VotingDesign`.
    n_teachers : int, default=250
        Teachers in each partition.
    n_partitions : int, default=1
        Number of partitions. In each, one teacher learns from a record.
    touched : int, optional
        How many teachers learn from each record, if not one of each partition. All teachers, if it equals their number.
    budget : Budget, optional
        The budget.
    counts_the_breach : bool, default=False
        Whether the paper also counts the query that breaches the budget.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range.

    Examples
    --------
    >>> from dpensemble.laws import LawChoice
    >>> design = Partitioned(name="pate", choice=LawChoice.of("gnmax"), n_teachers=100)
    >>> design.law, design.with_budget(Budget(epsilon=1, delta=1e-5)).meter().sure_queries
    (GaussianNoisyMax(sigma=16.0), 13)
    """

    searches_variants: ClassVar[bool] = True

    n_teachers: int = 250
    n_partitions: int = 1
    touched: int | None = None
    budget: Budget | None = None
    counts_the_breach: bool = False  # type: ignore[misc]

    def __post_init__(self) -> None:
        integer_between("n_teachers", self.n_teachers, 1)
        integer_between("n_partitions", self.n_partitions, 1)
        if self.touched is not None:
            integer_between("touched", self.touched, 1, self.ballots)

    @property
    def ballots(self) -> int:
        """Number of teachers in all partitions."""
        return self.n_teachers * self.n_partitions

    @property
    def groups(self) -> tuple[Group, ...]:
        """All records, each of which can change one vote of each partition."""
        return one_group(self.budget, self.n_partitions if self.touched is None else self.touched)

    def allocate(
        self,
        identities: Sequence[Hashable],
        *,
        relation: Relation,
        entropy: int,
        source: NoiseSource,  # noqa: ARG002
        group_of_record: NDArray[np.int64] | None = None,  # noqa: ARG002
    ) -> Allocation:
        """Return the partitions that match the relation."""
        if self.touched not in (None, self.n_partitions):
            return everyone(identities, self.n_teachers, relation=relation)
        return partitions(identities, self.n_teachers, self.n_partitions, relation=relation, entropy=entropy)

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return super().settings() | {"n_teachers": self.n_teachers, "n_partitions": self.n_partitions}
