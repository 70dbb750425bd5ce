"""Bagged PATE, whose teachers learn from records drawn by chance, in secret."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble._random import NoiseSource
from dpensemble.accounting import Accounting, Group, Meter
from dpensemble.accounting.certifying import Certificate
from dpensemble.accounting.meters.scheduled import subsampled_meter
from dpensemble.accounting.subsampling import SubsampledCost, subsampled_cost
from dpensemble.allocation import Allocation, Bootstrap, BootstrapScheme
from dpensemble.budget import Budget
from dpensemble.cost import Conversion
from dpensemble.design.base import VotingDesign, one_group
from dpensemble.design.partitioned import Partitioned
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn(VotingDesign):
    """A vote of teachers whose records are drawn by chance. All of it is public except the draws.

    Parameters
    ----------
    name, title, choice, n_classes, accounting, noise, usual
        As for `VotingDesign`, with exact accounting and a law without a gate.
    scheme : BootstrapScheme
        How each teacher's records are drawn.
    n_units : int
        Number of private records (or units). Public.
    relation : Relation, default="replace-one"
        Neighbouring relation.
    budget : Budget, optional
        The budget.

    Raises
    ------
    InvalidParameterError
        If the draws are impossible, or the vote has no price.
    """

    scheme: BootstrapScheme
    n_units: int
    relation: Relation = Relation.REPLACE_ONE
    budget: Budget | None = None

    def __post_init__(self) -> None:
        # Removing a record leaves one less to draw from.
        removed = self.relation is Relation.ADD_OR_REMOVE_ONE
        self.scheme.check(integer_between("n_units", self.n_units, 1 + removed) - removed)
        if self.gated:
            raise InvalidParameterError(
                f"law={self.choice.kind.name!r} may leave queries of bagged teachers unanswered, and all must be "
                "answered: use a law without a gate, such as 'gnmax'."
            )
        if self.accounting is not Accounting.EXACT:
            raise InvalidParameterError(
                "accounting='published' has no price for bagged teachers, which no paper covers: use 'exact'."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cached cost, which holds functions and is computed again."""
        return {name: value for name, value in vars(self).items() if name != "cost"}

    @property
    def ballots(self) -> int:
        """Number of teachers."""
        return self.scheme.n_models

    @property
    def groups(self) -> tuple[Group, ...]:
        """All records. How many votes one record can change is as secret as the draws."""
        return one_group(self.budget, 1 if self.scheme.scheme is Bootstrap.DISTINCT else self.ballots)

    def allocate(
        self,
        identities: Sequence[Hashable],
        *,
        relation: Relation,
        entropy: int,  # noqa: ARG002
        source: NoiseSource,
        group_of_record: NDArray[np.int64] | None = None,  # noqa: ARG002
    ) -> Allocation:
        """Draw the records of every teacher. The draws must stay secret for ever."""
        return self.scheme.draw(identities, relation=relation, noise=source)

    @cached_property
    def cost(self) -> SubsampledCost:
        """Cost of one answer."""
        return subsampled_cost(
            self.law, self.scheme.holders(self.n_units), n_teachers=self.ballots, n_classes=self.n_classes
        )

    def meter(self, queries: int | None = None) -> Meter:
        """Return the meter of a run of at most `queries` queries."""
        (group,) = self.groups
        group.budget.check_delta_for(self.n_units)
        meter = subsampled_meter(self.schedule, group, self.cost, queries)
        if queries is not None and meter.sure_queries >= queries:
            # Answers are composed exactly below the budget, too.
            delta = group.budget.delta
            run = self.cost * queries
            run.refine(run.epsilon(delta), delta)
        return meter

    def spent(self, labels: int, conversion: Conversion | None = None) -> tuple[float, ...]:
        """Return the epsilon of `labels` answers. If you request another conversion, Renyi curves alone give it."""
        (group,), run = self.groups, self.cost * labels
        if conversion is None:
            # As in the meter, so that a search by this function agrees with it.
            run.refine(group.budget.epsilon, group.budget.delta)
        return (run.epsilon(group.budget.delta),)

    def spent_at_end(self, labels: int) -> tuple[float, ...]:
        """Return the epsilon of `labels` answers."""
        return self.spent(labels)

    def certify(self, certificate: Certificate, labels: int) -> None:
        """State that `labels` answers keep the budget."""
        (group,), run = self.groups, self.cost * labels
        certificate.add_drawn(group.budget, self.law, run, self.scheme, self.n_units, self.n_classes)

    def how_converted(self, labels: int) -> Conversion:  # noqa: ARG002
        """Return the conversion, which composes whole runs."""
        return Conversion.EXACT

    def spend_curve(self, most: int, points: int = 12) -> list[tuple[int, tuple[float, ...]]]:
        """Return the epsilons of numbers of answers up to `most`."""
        counts = np.unique(np.linspace(1, most, min(points, most)).astype(int)).tolist()
        return [(count, ((self.cost * count).epsilon(self.groups[0].budget.delta),)) for count in counts]

    def assumptions(self, relation: Relation, has_units: bool) -> tuple[str, ...]:
        """Return the assumptions that the draws stay secret, and what is public."""
        noun = "unit" if has_units else "record"
        public = f"The number of private {noun}s is public"
        if relation is Relation.ADD_OR_REMOVE_ONE:
            public += ", although a neighbouring data set has one more or fewer"
        return (
            f"Which {noun}s were drawn for which teacher stays secret, and is drawn again for every run.",
            f"{public}.",
            "Neighbouring data sets list their other records in the same order.",
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return super().settings() | {
            "n_teachers": self.ballots,
            "scheme": self.scheme.scheme.value,
            "subsample": self.scheme.subsample,
        }

    def extras(self, labels: int) -> dict[str, Any]:  # noqa: ARG002
        """Return the chance that a record is drawn, and the labels of one partition with the same noise."""
        partition = Partitioned(
            name="pate",
            choice=self.choice,
            noise=self.noise,
            n_teachers=self.ballots,
            n_classes=self.n_classes,
            budget=self.groups[0].budget,
        )
        return {
            "records": self.n_units,
            "held": self.scheme.inclusion_probability(self.n_units),
            "partition_labels": partition.meter().sure_queries,
        }
