"""The public settings of a run, and nothing private."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import NoiseSource
from dpensemble.accounting import EVERYONE, Accounting, Change, Group, Meter
from dpensemble.accounting.certifying import Certificate
from dpensemble.accounting.meters import data_dependent_meter, worst_case_meter
from dpensemble.accounting.meters.gated import FilterMeter
from dpensemble.accounting.meters.scheduled import change_by, cost_of, costs_of, epsilons_of, prices_of, spread
from dpensemble.accounting.published import has_published
from dpensemble.allocation import Allocation
from dpensemble.budget import Budget
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.errors import AccountingError, InvalidParameterError
from dpensemble.laws import LawChoice, ReleaseLaw
from dpensemble.relations import Relation
from dpensemble.voting_schedule import VotingSchedule

#: Plain values by name, as records and JSON hold them.
Fields = dict[str, Any]


class Design(ABC):
    """The public settings of a run. An estimator makes a design, `plan` solves it, and the report prints it.

    Attributes
    ----------
    name : str
        Short name of the method.
    groups : tuple of Group
        The groups whose records are charged, and their budgets. One group if all records are treated alike.
    accounting : Accounting
        Source of the prices.
    """

    name: str
    accounting: Accounting

    @property
    @abstractmethod
    def groups(self) -> tuple[Group, ...]:
        """The groups whose records are charged, and their budgets."""

    def with_budget(self, budget: Budget) -> Self:
        """Return the same run with another budget."""
        return replace(self, budget=budget)  # type: ignore[type-var]

    @abstractmethod
    def with_noise(self, noise: float) -> Self:
        """Return the same run with other noise, in votes."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return all settings as plain values, which reports, plans and ``--json`` print."""


@dataclass(frozen=True, kw_only=True, eq=False)
class VotingDesign(Design):
    """A run in which teachers vote on public rows.

    A method is a subclass. It defines who votes (`schedule`), who learns from what (`allocate`), and what a record
    moves (`groups`).

    Parameters
    ----------
    name, title : str
        Short name of the method, and its common name.
    choice : LawChoice
        The requested law.
    n_classes : int
        Number of declared classes.
    accounting : Accounting, default="exact"
        Charge for what the label alone reveals, or by the published bound.
    noise : float, optional
        The noise on the answer that was found, in votes, if the choice leaves the noise open.
    usual : dict
        The method's own usual noise by short name of a law, as a share of the ballots.
    """

    #: Whether the paper also counts the query that breaches the budget.
    counts_the_breach: ClassVar[bool] = False
    #: Whether groups have budgets of their own, which no other budget may replace.
    has_budgets: ClassVar[bool] = False
    #: Whether further settings of a law are searched together with its noise.
    searches_variants: ClassVar[bool] = False

    name: str
    title: str = ""
    choice: LawChoice
    n_classes: int = 2
    accounting: Accounting = Accounting.EXACT
    noise: float | None = None
    usual: dict[str, float] = field(default_factory=dict)

    @property
    @abstractmethod
    def ballots(self) -> int:
        """Number of ballots for which the law's noise is stated."""

    @property
    def schedule(self) -> VotingSchedule:
        """Who votes on which query, with what weight, by which law. By default all teachers vote on all queries."""
        return VotingSchedule.everyone(self.law, self.ballots)

    @abstractmethod
    def allocate(
        self,
        identities: Sequence[Hashable],
        *,
        relation: Relation,
        entropy: int,
        source: NoiseSource,
        group_of_record: NDArray[np.int64] | None = None,
    ) -> Allocation:
        """Return which records teach which teachers.

        Parameters
        ----------
        identities : sequence of length n_records
            The unit of each record.
        relation : Relation
            Neighbouring relation.
        entropy : int
            Public seed.
        source : NoiseSource
            Source of draws that stay secret.
        group_of_record : ndarray of shape (n_records,), optional
            Number of each record's group.
        """

    @cached_property
    def law(self) -> ReleaseLaw:
        """The law that answers, with the noise in use."""
        noise, share = self.noise, self.usual.get(self.choice.kind.name)
        if noise is None and share is not None:
            noise = share * self.ballots
        law = self.choice.law(self.ballots, self.n_classes, noise)
        if self.accounting is Accounting.PUBLISHED and not has_published(law):
            raise InvalidParameterError(
                f"accounting='published' has no price for law={law.name or type(law).__name__!r}, which no paper "
                "covers: use 'exact'."
            )
        return law

    @property
    def gated(self) -> bool:
        """Whether a query is answered only if it passes a noisy threshold."""
        return self.choice.kind.gated

    @property
    def ordinary(self) -> bool:
        """Whether the teachers are ordinary models, which are not private themselves."""
        return True

    @property
    def conversion(self) -> Conversion:
        """How the cost of a number of answers becomes an epsilon."""
        return self.accounting.conversion

    def with_noise(self, noise: float) -> Self:
        """Return the same run with other noise, in votes. Noise on a gate changes in proportion unless given."""
        if self.choice.noise_is_open:
            return replace(self, noise=noise)
        return replace(self, choice=LawChoice.of(self.law.with_noise(noise)), noise=None)

    def settled(self) -> Self:
        """Return the same run with slowly changing settings held fixed, for a search of the noise."""
        return self

    def with_accounting(self, accounting: Accounting) -> Self:
        """Return the same run under another accounting."""
        return replace(self, accounting=accounting)

    def meter(self, queries: int | None = None) -> Meter:
        """Return the worst-case meter of a run of at most `queries` queries."""
        return worst_case_meter(
            self.schedule, self.groups, n_classes=self.n_classes, accounting=self.accounting, queries=queries
        )

    def data_dependent_meter(self, allocation: Allocation, *, stop_when_spent: bool) -> Meter:
        """Return the meter that charges for the given votes."""
        return data_dependent_meter(
            self.schedule,
            self.groups,
            allocation,
            n_classes=self.n_classes,
            accounting=self.accounting,
            stop_when_spent=stop_when_spent,
        )

    @cached_property
    def _costs_by_group(self) -> tuple[tuple[Group, tuple[PrivacyCost | None, ...]], ...]:
        """Each group, with the cost of one answered query in every stage."""
        stages = [
            costs_of(prices_of(stage, self.groups, self.n_classes, self.accounting)) for stage in self.schedule.stages
        ]
        return tuple(zip(self.groups, zip(*stages, strict=True), strict=True))

    @cached_property
    def costs(self) -> tuple[PrivacyCost | None, ...]:
        """Cost of one answered query to each group, while all of them take part."""
        return costs_of(prices_of(self.schedule.stages[0], self.groups, self.n_classes, self.accounting))

    def spent(self, labels: int, conversion: Conversion | None = None) -> tuple[float, ...]:
        """Return the epsilon of `labels` answers, all of them answered, for each group."""
        how = self.conversion if conversion is None else conversion
        stage = self.schedule.stages[0]
        return tuple(
            0.0 if one is None else (one * stage.pools[group.pool].turns(labels)).epsilon(group.budget.delta, how)
            for group, one in zip(self.groups, self.costs, strict=True)
        )

    def spent_at_end(self, labels: int) -> tuple[float, ...]:
        """Return the epsilon of `labels` answers for each group. Some groups may drop out on the way."""
        return tuple(
            cost_of(self.schedule.stages, costs, group, labels).epsilon(group.budget.delta, self.conversion)
            for group, costs in self._costs_by_group
        )

    def how_converted(self, labels: int) -> Conversion:
        """Return the conversion that gives the epsilon of `labels` answers."""
        if self.conversion is not Conversion.BEST:
            return self.conversion
        one, group = next((c, g) for c, g in zip(self.costs, self.groups, strict=True) if c is not None)
        turns = self.schedule.stages[0].pools[group.pool].turns(labels)
        return (one * turns).best(group.budget.delta)[1]

    def spend_curve(self, most: int, points: int = 40) -> list[tuple[int, tuple[float, ...]]]:
        """Return the epsilons of numbers of answers up to `most`, for any budget.

        Parameters
        ----------
        most : int
            Largest number of answers.
        points : int, default=40
            Largest number of points.

        Returns
        -------
        list of (int, tuple of float)
            Ascending. The last is `most`.
        """
        counts, stages = spread(most, points), self.schedule.stages
        curves = [
            epsilons_of([cost_of(stages, costs, group, count) for count in counts], group.budget.delta, self.conversion)
            for group, costs in self._costs_by_group
        ]
        return list(zip(counts, zip(*curves, strict=True), strict=True))

    def certify(self, certificate: Certificate, labels: int) -> None:
        """State that `labels` answers keep the budget of every group. See `dpensemble.certificates`.

        Raises
        ------
        AccountingError
            If the accounting is not exact composition of one law, or a verifier could not check it.
        """
        first, *others = self.schedule.stages
        if self.accounting is not Accounting.EXACT or others:
            raise not_certified()
        if self.gated:
            FilterMeter(self.schedule, self.groups, self.n_classes, self.accounting).certify(certificate, labels)
            return
        for group, one in zip(self.groups, self.costs, strict=True):
            turns = first.pools[group.pool].turns(labels)
            if one is not None and turns:
                certificate.add_votes(group.budget, first.law, self.change(group), one, turns)

    def change(self, group: Group) -> Change:
        """Return what a record of a group can do to the votes on a query."""
        return change_by(self.schedule.stages[0], group, self.n_classes)

    def assumptions(self, relation: Relation, has_units: bool) -> tuple[str, ...]:  # noqa: ARG002
        """Return the method's own assumptions of the guarantee, one sentence each."""
        return ()

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values, those of the law among them."""
        return {
            "method": self.name,
            "title": self.title or self.name,
            **self.law.settings(),
            "law_name": self.choice.kind.name,
            "noise_chosen": self._noise_chosen(),
            "noise_in_words": self.law.words(),
            "gated": self.gated,
            "n_classes": self.n_classes,
            "accounting": self.accounting.value,
            "votes_per_record": max(group.votes for group in self.groups),
        }

    def _noise_chosen(self) -> str:
        """Return one word: given, usual, fitted (to the number of labels), or none."""
        if not self.choice.noise_is_open:
            return "given"
        return "usual" if self.noise is None else "fitted"

    def group_settings(self, index: int) -> dict[str, Any]:  # noqa: ARG002
        """Return what distinguishes a group, by its number. Empty if all records are treated alike."""
        return {}

    def plain_fields(self, labels: int) -> Fields | None:  # noqa: ARG002
        """Return what the same noise would cost without groups, or None if there are no groups."""
        return None

    def extras(self, labels: int) -> dict[str, Any]:  # noqa: ARG002
        """Return further fields of a plan of `labels` labels."""
        return {}


def not_certified() -> AccountingError:
    """Return the error of a run that cannot be certified."""
    return AccountingError(
        "certificates need exact accounting of votes under one law: use accounting='exact', and ordinary teachers."
    )


def one_group(budget: Budget | None, votes: int = 1) -> tuple[Group, ...]:
    """Return the one group of a run that treats all records alike."""
    if budget is None:
        raise InvalidParameterError("budget=None leaves nothing to charge: give epsilon and delta.")
    return (Group(EVERYONE, budget, pool=0, votes=votes),)
