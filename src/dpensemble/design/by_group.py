"""Budgets by group: personalised PATE by upsampling, vanishing and weighting."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import NoiseSource
from dpensemble.accounting import Group, Meter
from dpensemble.accounting.meters.scheduled import vanishing_end
from dpensemble.allocation import Allocation
from dpensemble.allocation.personal import grouped_partitions, upsampled_partition
from dpensemble.budget import Budget
from dpensemble.design.base import Fields, VotingDesign
from dpensemble.design.influence import Census, InfluenceRule, Personalisation, Seats, published_influence, seated
from dpensemble.design.partitioned import Partitioned
from dpensemble.design.solve_influence import queries_of_groups, solved
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.voting_schedule import VotingSchedule

# How far the curve of the plain ensemble extends beyond the last point of comparison.
_BEYOND = 1.05


@dataclass(frozen=True, kw_only=True, eq=False)
class ByGroup(VotingDesign):
    """PATE in which groups of records have budgets of their own.

    Parameters
    ----------
    name, title, choice, n_classes, accounting, noise, usual
        As for `VotingDesign`. The noise is for `n_teachers` votes of weight 1.
    kind : Personalisation
        How a larger budget becomes a larger influence.
    census : Census
        The groups, their budgets, and their shares of the records.
    n_teachers : int, default=250
        Teachers of the plain ensemble. Copies take more teachers.
    rule : InfluenceRule
        The rule for influences.
    influence : tuple of float, optional
        Copies, weights or frequencies that were already found, in any unit.
    entropy : int, default=0
        Public seed of the turns.

    Examples
    --------
    >>> from dpensemble.accounting import Accounting
    >>> from dpensemble.laws import LawChoice
    >>> census = Census(names=("high", "low"), shares=(0.5, 0.5),
    ...                 budgets=(Budget(epsilon=0.5, delta=1e-5), Budget(epsilon=1.0, delta=1e-5)))
    >>> design = ByGroup(name="weighting-pate", kind=Personalisation.WEIGHTING, census=census,
    ...                  choice=LawChoice.of("gnmax"), accounting=Accounting.PUBLISHED)
    >>> design.meter().sure_queries, design.extras(1)["baselines"]
    (18, {'minimum': 8, 'average': 18, 'maximum': 33})
    """

    has_budgets: ClassVar[bool] = True

    kind: Personalisation
    census: Census
    n_teachers: int = 250
    rule: InfluenceRule = field(default_factory=InfluenceRule)
    influence: tuple[float, ...] | None = None
    entropy: int = 0

    @property
    def ballots(self) -> int:
        """Teachers of the plain ensemble. The noise is stated for their votes."""
        return self.n_teachers

    @cached_property
    def seats(self) -> Seats:
        """Who votes with what weight, while every group takes part."""
        law, precision = self.law, self.rule.precision
        influence: Any = self.influence
        if influence is None and self.rule.published:
            influence = published_influence(self.kind, self.census)
        if influence is None:
            return self._solved(fast=False)
        return seated(self.kind, law, self.n_teachers, self.census, influence, precision)

    def _solved(self, *, fast: bool) -> Seats:
        return solved(
            self.kind,
            self.law,
            self.n_teachers,
            self.census,
            n_classes=self.n_classes,
            accounting=self.accounting,
            conversion=self.conversion,
            precision=self.rule.precision,
            fast=fast,
        )

    def settled(self) -> Self:
        """Return the same run with influences held fixed, since they hardly depend on the noise."""
        if self.influence is not None or self.rule.published:
            return self
        return replace(self, influence=self._solved(fast=True).influence)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of records, the strictest first."""
        return self.seats.groups

    @cached_property
    def schedule(self) -> VotingSchedule:
        """Whose teachers vote, with what weight. Spent groups may drop out at the end."""
        stage = self.seats.stage
        if not self.rule.vanish_at_end:
            return VotingSchedule((stage,), self.entropy)
        stages = vanishing_end(stage, self.groups, n_classes=self.n_classes, accounting=self.accounting)
        return VotingSchedule(stages, self.entropy)

    def with_budget(self, budget: Budget) -> Self:
        """Refuse, since the census gives the budgets."""
        raise InvalidParameterError(
            f"epsilon={budget.epsilon:g} is one budget for all, but method={self.name!r} has one for each group: "
            "leave it out."
        )

    def allocate(
        self,
        identities: Sequence[Hashable],
        *,
        relation: Relation,
        entropy: int,
        source: NoiseSource,  # noqa: ARG002
        group_of_record: NDArray[np.int64] | None = None,
    ) -> Allocation:
        """Return teachers of each group, or copies of each record."""
        groups = np.zeros(len(identities), dtype=np.int64) if group_of_record is None else group_of_record
        if self.seats.teachers is None:
            copies = np.array(self.seats.copies)[groups]
            return upsampled_partition(identities, copies, self.seats.n_teachers, relation=relation, entropy=entropy)
        return grouped_partitions(identities, groups, self.seats.teachers, relation=relation, entropy=entropy)

    def data_dependent_meter(self, allocation: Allocation, *, stop_when_spent: bool) -> Meter:
        """Return the meter that charges for the given votes."""
        if self.rule.vanish_at_end:
            raise InvalidParameterError(
                "vanish_at_end=True needs a schedule that is public beforehand: use analysis='worst-case'."
            )
        return super().data_dependent_meter(allocation, stop_when_spent=stop_when_spent)

    def plain(self, epsilon: float | None = None) -> Partitioned:
        """Return PATE with the same noise and one budget for all: `epsilon`, or the smallest of any group."""
        smallest = self.census.budgets[0]
        return Partitioned(
            name="pate",
            choice=self.choice,
            noise=self.noise,
            usual=self.usual,
            n_teachers=self.n_teachers,
            n_classes=self.n_classes,
            accounting=self.accounting,
            budget=smallest if epsilon is None else Budget(epsilon=epsilon, delta=smallest.delta),
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return super().settings() | {
            "n_teachers": self.n_teachers,
            "teachers_with_copies": self.seats.n_teachers,
            "rule": "published" if self.rule.published else "solved",
            "precision": self.rule.precision,
            "vanish_at_end": self.rule.vanish_at_end,
        }

    def group_settings(self, index: int) -> dict[str, Any]:
        """Return share, teachers, copies, weight and frequency of a group."""
        seats, shares = self.seats, self.census.shares
        return {
            "share": shares[index] / sum(shares),
            "teachers": None if seats.teachers is None else seats.teachers[index],
            "copies": seats.copies[index],
            "weight": seats.weights[index],
            "frequency": seats.frequencies[index],
        }

    def queries_by_group(self) -> tuple[int, ...]:
        """Return how many queries each group's budget would pay for if no other group ran out first."""
        return queries_of_groups(self.seats, self.n_classes, self.accounting, self.conversion)

    def baselines(self) -> dict[str, int]:
        """Return the labels of plain PATE if every record had one and the same budget.

        The minimum is the most that plain PATE may do. The others are for comparison (Mühl and Boenisch 2022, section
        4.3, whose average is the logarithm of the mean of ``exp(epsilon)``).
        """
        return {name: self.plain(epsilon).meter().sure_queries for name, epsilon in self.census.baselines.items()}

    def plain_fields(self, labels: int) -> Fields:
        """Return what the same noise would cost, and what one budget for all would buy, without groups."""
        # The curve reaches at least `labels`.
        labels_of = self.baselines()
        most = int(_BEYOND * max(labels, *labels_of.values())) + 1
        return {
            "plain_spend": [[count, epsilon] for count, (epsilon,) in self.plain().spend_curve(most)],
            "plain_labels": [
                {"name": name, "epsilon": epsilon, "labels": labels_of[name]}
                for name, epsilon in self.census.baselines.items()
            ],
        }

    def extras(self, labels: int) -> dict[str, Any]:
        """Return what one budget for all would buy, and who votes when."""
        stages = []
        for stage in self.schedule.stages:
            length = labels if stage.n_queries is None else min(labels, stage.n_queries)
            voting = [group.name for group in self.groups if stage.pools[group.pool].participants]
            stages.append((length, voting))
            labels -= length
        return {"baselines": self.baselines(), "stages": stages}
