"""The public settings of a run, and of runs in which teachers vote. Nothing here is private.

Teachers learn from disjoint subsets of the records, once or several times (SAA, DPBag and PATE), or from records that
are drawn by chance, in secret (bagged PATE).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, round_up
from dpensemble._entries import Floats
from dpensemble._random import NoiseSource
from dpensemble.accounting import EVERYONE, Accounting, Change, Group, Meter
from dpensemble.accounting.meters import data_dependent_meter, worst_case_meter
from dpensemble.accounting.meters.worst_case import Certificate, FilterMeter, ScheduledMeter
from dpensemble.accounting.price import price
from dpensemble.accounting.published import has_published
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.accounting.subsampling import SubsampledCost
from dpensemble.allocation import Allocation, Bootstrap, BootstrapScheme, everyone, partitions
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.errors import AccountingError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import LawChoice, ReleaseLaw
from dpensemble.relations import Relation


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

    @staticmethod
    def one_group(budget: Budget | None, votes: int = 1) -> tuple[Group, ...]:
        """Return the one group of a run that treats all records alike."""
        if budget is None:
            raise InvalidParameterError("budget=None leaves nothing to charge: give epsilon and delta.")
        return (Group(EVERYONE, budget, pool=0, votes=votes),)

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
    #: Whether a verifier can check what protects the records.
    certifies: ClassVar[bool] = True

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
        stages = [stage.costs(self.groups, self.n_classes, self.accounting) for stage in self.schedule.stages]
        return tuple(zip(self.groups, zip(*stages, strict=True), strict=True))

    @cached_property
    def costs(self) -> tuple[PrivacyCost | None, ...]:
        """Cost of one answered query to each group, while all of them take part."""
        return self.schedule.stages[0].costs(self.groups, self.n_classes, self.accounting)

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
            self.schedule.cost(costs, group, labels).epsilon(group.budget.delta, self.conversion)
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
        return self.schedule.spend_curve(self._costs_by_group, self.conversion, most, points)

    def certify(self, certificate: Certificate, labels: int) -> None:
        """State that `labels` answers keep the budget of every group. See `dpensemble.certificates`.

        Raises
        ------
        AccountingError
            If the accounting is not exact composition of one law, or a verifier could not check it.
        """
        stages = self.schedule.stages if self.certifies else ()
        if self.accounting is not Accounting.EXACT or len(stages) != 1:
            raise AccountingError(
                "certificates need exact accounting of votes under one law: use accounting='exact', and ordinary "
                "teachers."
            )
        if self.gated:
            FilterMeter(self.schedule, self.groups, self.n_classes, self.accounting).certify(certificate, labels)
            return
        for group, one in zip(self.groups, self.costs, strict=True):
            turns = stages[0].pools[group.pool].turns(labels)
            if one is not None and turns:
                certificate.add_votes(group.budget, stages[0].law, self.change(group), one, turns)

    def change(self, group: Group) -> Change:
        """Return what a record of a group can do to the votes on a query."""
        return self.schedule.stages[0].change_by(group, self.n_classes)

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

    def plain_fields(self, labels: int) -> dict[str, Any] | None:  # noqa: ARG002
        """Return what the same noise would cost without groups, or None if there are no groups."""
        return None

    def extras(self, labels: int) -> dict[str, Any]:  # noqa: ARG002
        """Return further fields of a plan of `labels` labels."""
        return {}


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
        return self.one_group(self.budget, self.n_partitions if self.touched is None else self.touched)

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
        return self.one_group(self.budget, 1 if self.scheme.scheme is Bootstrap.DISTINCT else self.ballots)

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
        return _subsampled_cost(
            self.law, self.scheme.holders(self.n_units), n_teachers=self.ballots, n_classes=self.n_classes
        )

    def meter(self, queries: int | None = None) -> Meter:
        """Return the meter of a run of at most `queries` queries."""
        (group,) = self.groups
        group.budget.check_delta_for(self.n_units)
        meter = _subsampled_meter(self.schedule, group, self.cost, queries)
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


def _subsampled_meter(
    schedule: VotingSchedule, group: Group, cost: SubsampledCost, queries: int | None = None
) -> ScheduledMeter:
    """Return the meter of runs whose teachers hold a record by chance. `queries` is the total number of queries."""
    analysis = (
        "worst case of the released labels, averaged over how many teachers hold a record, which any does with "
        f"probability {round_up(cost.held, 4):g} (advanced joint convexity: Balle, Barthe and Gaboardi 2018, Theorem 2)"
    )
    sure = (cost.most(group.budget, limit=queries),)
    return ScheduledMeter(schedule, (group,), ((cost,),), sure, analysis, points=12)


def _subsampled_cost(law: ReleaseLaw, holders: Floats, *, n_teachers: int, n_classes: int) -> SubsampledCost:
    """Return the cost of one answer of a law without a gate, all ballots weighing alike."""

    def one(ballots: int) -> PrivacyCost:
        return price(law, Change(ballots=n_teachers, classes=n_classes, votes=ballots)).label

    return SubsampledCost(one, holders)
