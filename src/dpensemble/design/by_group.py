"""Budgets by group: personalised PATE by upsampling, vanishing and weighting. All public.

Three ways to let a group of records with a larger budget have more influence:

- *upsampling*: several teachers learn from each record. Their number, the noise and the threshold grow with the
  number of copies.
- *weighting*: each group has teachers of its own, whose ballots weigh more or less.
- *vanishing*: each group has teachers of its own, who vote on more or fewer queries.

Weights are whole numbers. The law's noise is stated in their unit, so that counts stay whole and the analysis of plain
votes covers them. Influences are solved so that the budgets of all groups run out on the same query, under the
accounting in use.

References
----------
Mühl and Boenisch 2022 (personalised PATE), sections 3 and 5.1 and appendix B.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import member, real_between
from dpensemble._random import NoiseSource
from dpensemble.accounting import Accounting, Group, Meter
from dpensemble.accounting.schedule import Pool, Stage, VotingSchedule, too_small_for_one_label
from dpensemble.allocation import Allocation
from dpensemble.allocation.budget_groups import Census
from dpensemble.allocation.partition import teachers_of_groups
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.design.voting import Partitioned, VotingDesign
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import ReleaseLaw
from dpensemble.relations import Relation

# Weights are within this share of their ideal values, unless you request another precision.
_WEIGHT_PRECISION = 0.002
_LARGEST_WEIGHT = 2000
# Tables of weighted counts up to this length take seconds.
_LARGEST_TOTAL, _COARSEST = 800_000, 0.2
# Copies are expensive, since each takes its share of further teachers.
_COPY_PRECISION = 0.1
# The paper squares frequencies (section 5.1) or takes the fourth power (its footnote). Its tables fit squares.
_PUBLISHED_POWER = 2.0


class Personalisation(StrEnum):
    """How a larger budget becomes a larger influence."""

    UPSAMPLING = "upsampling"
    VANISHING = "vanishing"
    WEIGHTING = "weighting"


class _Rule(StrEnum):
    """Source of duplicates, weights and turns: solved for the accounting in use, or as published."""

    SOLVED = "solved"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class InfluenceRule:
    """How groups with larger budgets get more influence.

    Parameters
    ----------
    published : bool, default=False
        Use the paper's rule: in proportion to epsilon (for turns: to its square). By default influences are solved
        so that all groups run out of budget together under the accounting in use.
    precision : float, optional
        Largest relative error of copies or weights, which are whole numbers: 0.1 for copies and 0.002 for weights by
        default. Not for vanishing, whose voters are whole teachers.
    vanish_at_end : bool, default=False
        Let groups that have spent their budget drop out while the others go on, with noise in proportion to the
        remaining ballots. Weighting and vanishing in the worst case only, without a gate.

    Examples
    --------
    >>> InfluenceRule.of("published")
    InfluenceRule(published=True, precision=None, vanish_at_end=False)
    """

    published: bool = False
    precision: float | None = None
    vanish_at_end: bool = False

    @classmethod
    def of(cls, rule: InfluenceRule | str) -> InfluenceRule:
        """Return the rule named ``"solved"`` or ``"published"``, or the object itself."""
        if isinstance(rule, InfluenceRule):
            return rule
        return cls(published=member("rule", rule, _Rule) is _Rule.PUBLISHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """Who votes with what weight while every group takes part, and what a record of each group can change. Public."""

    kind: Personalisation
    stage: Stage
    groups: tuple[Group, ...]
    n_teachers: int

    @property
    def copies(self) -> tuple[int, ...]:
        """How many teachers learn from each record of a group."""
        return tuple(group.votes for group in self.groups)

    @property
    def teachers(self) -> tuple[int, ...] | None:
        """Teachers of each group, or None if all groups share them."""
        if self.kind is Personalisation.UPSAMPLING:
            return None
        return tuple(pool.n_teachers for pool in self.stage.pools)

    @property
    def weights(self) -> tuple[float, ...]:
        """Weight of a ballot of each group's teachers, in votes, with an average of 1 over teachers."""
        pools = self.stage.pools
        unit = sum(pool.n_teachers * pool.ballot for pool in pools) / sum(pool.n_teachers for pool in pools)
        return tuple(pools[group.pool].ballot / unit for group in self.groups)

    @property
    def frequencies(self) -> tuple[float, ...]:
        """Share of the queries that a teacher of each group votes on."""
        pools = self.stage.pools
        return tuple(pools[group.pool].participants / pools[group.pool].n_teachers for group in self.groups)

    @property
    def influence(self) -> tuple[float, ...]:
        """Copies, weights or frequencies from which `_seats_for` makes the same seats."""
        if self.kind is Personalisation.UPSAMPLING:
            return tuple(float(number) for number in self.copies)
        return self.weights if self.kind is Personalisation.WEIGHTING else self.frequencies


def _seats_for(
    kind: Personalisation,
    law: ReleaseLaw,
    n_teachers: int,
    census: Census,
    influence: ArrayLike,
    precision: float | None = None,
) -> Seats:
    """Return the seats at which groups have influences in given ratios."""
    # `law` and `n_teachers`: the plain ensemble's. Raises if a group is too small for a teacher, or copies too many.
    if kind is Personalisation.UPSAMPLING:
        return _upsampled(law, n_teachers, census, influence, _COPY_PRECISION if precision is None else precision)
    teachers = teachers_of_groups(n_teachers, census.shares, census.names)
    if kind is Personalisation.WEIGHTING:
        ballots = _weights(influence, teachers, precision)
        pools = tuple(Pool(size, size, ballot) for size, ballot in zip(teachers, ballots, strict=True))
        factor = sum(pool.n_teachers * pool.ballot for pool in pools) / n_teachers
    else:
        if precision is not None:
            raise InvalidParameterError(f"precision={precision!r} is not a setting of vanishing: leave it out.")
        frequencies = np.asarray(influence, dtype=np.float64) / np.max(influence)
        hands = [max(1, int(size * share + 0.5)) for size, share in zip(teachers, frequencies, strict=True)]
        pools = tuple(Pool(size, hand) for size, hand in zip(teachers, hands, strict=True))
        factor = sum(hands) / n_teachers
    groups = tuple(
        Group(name=name, budget=budget, pool=index)
        for index, (name, budget) in enumerate(zip(census.names, census.budgets, strict=True))
    )
    return Seats(kind=kind, stage=Stage(_scaled(law, factor), pools), groups=groups, n_teachers=n_teachers)


def _weights(influence: ArrayLike, teachers: tuple[int, ...], precision: float | None) -> tuple[int, ...]:
    """Return whole weights at the requested precision, or at one whose sum stays cheap to account for."""
    tolerance = _WEIGHT_PRECISION if precision is None else precision
    while True:
        weights = _whole_number_ratios(influence, tolerance, _LARGEST_WEIGHT)
        total = int(np.dot(weights, teachers))
        if total <= _LARGEST_TOTAL:
            return weights
        if precision is not None or tolerance > _COARSEST:
            raise InvalidParameterError(
                f"precision={tolerance:g} needs weights that add up to {total:,} over all teachers, more than "
                f"{_LARGEST_TOTAL:,}: use a coarser precision such as {2 * tolerance:g}, or fewer teachers."
            )
        tolerance *= 2


def _published_influence(kind: Personalisation, census: Census) -> NDArray[np.float64]:
    """Return the paper's rule: proportional to budgets, or to their squares for frequencies (section 5.1, app. B)."""
    power = _PUBLISHED_POWER if kind is Personalisation.VANISHING else 1.0
    relative: NDArray[np.float64] = (census.epsilons / census.epsilons.max()) ** power
    return relative


def _upsampled(law: ReleaseLaw, n_teachers: int, census: Census, influence: ArrayLike, precision: float) -> Seats:
    copies = _whole_number_ratios(influence, precision, n_teachers)
    factor = float(np.dot(copies, census.shares) / sum(census.shares))
    size = int(n_teachers * factor + 0.5)
    groups = tuple(
        Group(name=name, budget=budget, pool=0, votes=number)
        for name, budget, number in zip(census.names, census.budgets, copies, strict=True)
    )
    stage = Stage(_scaled(law, factor), (Pool(size, size),))
    return Seats(kind=Personalisation.UPSAMPLING, stage=stage, groups=groups, n_teachers=size)


def _scaled(law: ReleaseLaw, factor: float) -> ReleaseLaw:
    return law if factor == 1 else law.scaled(factor)


_MOST_ROUNDS = 12
# Rounds with exact composition, which takes seconds while a Renyi curve takes milliseconds.
_EXACT_ROUNDS = 2
# Groups whose numbers of queries differ by less run out together.
_CLOSE = 0.002


def _queries_of_groups(seats: Seats, n_classes: int, accounting: Accounting, conversion: Conversion) -> tuple[int, ...]:
    """Return how many queries each group's budget pays for, if all of them are answered."""
    costs, schedule = seats.stage.costs(seats.groups, n_classes, accounting), VotingSchedule((seats.stage,))
    return tuple(
        schedule.affordable_queries([one], group, conversion) for group, one in zip(seats.groups, costs, strict=True)
    )


@dataclass
class _InfluenceSearch:
    """Adjusts influences until all groups run out together, and keeps the best seats seen."""

    kind: Personalisation
    law: ReleaseLaw
    n_teachers: int
    census: Census
    n_classes: int
    accounting: Accounting
    precision: float | None
    influence: NDArray[np.float64]
    best: Seats | None = None
    best_queries: int = -1
    seen: set[Seats] = field(default_factory=set)

    def rounds(self, most: int, conversion: Conversion) -> None:
        """Adjust and build in turn, at most `most` times."""
        self.best_queries, self.seen = -1, set()
        for _ in range(most):
            try:
                design = _seats_for(self.kind, self.law, self.n_teachers, self.census, self.influence, self.precision)
            except InvalidParameterError:
                # Without a requested precision, an adjustment that cannot be built ends the search.
                if self.best is None or self.precision is not None:
                    raise
                return
            queries = np.array(_queries_of_groups(design, self.n_classes, self.accounting, conversion))
            if queries.min() > self.best_queries:
                self.best, self.best_queries = design, int(queries.min())
                best_influence = self.influence
            if queries.max() <= queries.min() * (1 + _CLOSE) or design in self.seen:
                break
            self.seen.add(design)
            power = 1.0 if self.kind is Personalisation.VANISHING else 0.5
            self.influence = self.influence * np.maximum(queries, 0.5) ** power
            self.influence /= self.influence.max()
        self.influence = best_influence


def _solved_seats(
    kind: Personalisation,
    law: ReleaseLaw,
    n_teachers: int,
    census: Census,
    *,
    n_classes: int,
    accounting: Accounting,
    conversion: Conversion,
    precision: float | None = None,
    fast: bool = False,
) -> Seats:
    """Return the seats at which all groups run out of budget on the same query, as nearly as whole numbers allow.

    The cost of a query grows about with the square of a weight or number of copies, and in proportion to a frequency.
    Each round multiplies influences by the number of queries that each group could still afford, to the matching power,
    until these numbers agree. Of all rounds, the seats are returned at which the first group to run out lasts longest.
    With `fast` only Renyi curves are used, which moves the solution by a few per cent.
    """
    search = _InfluenceSearch(
        kind, law, n_teachers, census, n_classes, accounting, precision, _published_influence(kind, census)
    )
    search.rounds(_MOST_ROUNDS, Conversion.IMPROVED if conversion is Conversion.BEST else conversion)
    if conversion is Conversion.BEST and len(census.budgets) > 1 and not fast:
        search.rounds(_EXACT_ROUNDS, conversion)
    assert search.best is not None  # noqa: S101
    return search.best


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
            influence = _published_influence(self.kind, self.census)
        if influence is None:
            return self._solved(fast=False)
        return _seats_for(self.kind, law, self.n_teachers, self.census, influence, precision)

    def _solved(self, *, fast: bool) -> Seats:
        return _solved_seats(
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
        stages = _vanishing_end(stage, self.groups, n_classes=self.n_classes, accounting=self.accounting)
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
            return Allocation.upsampled(identities, copies, self.seats.n_teachers, relation=relation, entropy=entropy)
        return Allocation.by_group(identities, groups, self.seats.teachers, relation=relation, entropy=entropy)

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
        return _queries_of_groups(self.seats, self.n_classes, self.accounting, self.conversion)

    def baselines(self) -> dict[str, int]:
        """Return the labels of plain PATE if every record had one and the same budget.

        The minimum is the most that plain PATE may do. The others are for comparison (Mühl and Boenisch 2022, section
        4.3, whose average is the logarithm of the mean of ``exp(epsilon)``).
        """
        return {name: self.plain(epsilon).meter().sure_queries for name, epsilon in self.census.baselines.items()}

    def plain_fields(self, labels: int) -> dict[str, list[object]]:
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


def _whole_number_ratios(ratios: ArrayLike, precision: float, largest: int) -> tuple[int, ...]:
    """Return the smallest whole numbers, at most `largest`, that are proportional to `ratios` to a precision."""
    precision = real_between("precision", precision, 1e-6, 0.5)
    relative = np.asarray(ratios, dtype=np.float64)
    relative = relative / relative.min()
    best, best_error = None, np.inf
    for least in range(1, max(1, int(largest / relative.max() + 0.5)) + 1):
        numbers = np.maximum(np.floor(relative * least + 0.5), 1)
        error = float(np.abs(numbers / (relative * least) - 1).max())
        if numbers.max() > largest:
            break
        if error < best_error:
            best, best_error = numbers, error
        if error <= precision * (1 + 1e-9):
            return tuple(int(number) for number in numbers)
    needed = int(np.ceil(relative.max()))
    if best is None:
        raise InvalidParameterError(
            f"budgets whose parameters are {relative.max():.4g} to 1 need {needed} copies of a record, more than "
            f"{largest}: use n_teachers={needed} or more, or bring the budgets closer together."
        )
    raise InvalidParameterError(
        f"precision={precision:g} needs more copies of a record than n_teachers={largest}; "
        f"precision={_up(best_error):g} would do with {int(best.max())}."
    )


def _up(error: float) -> float:
    """Return an error rounded up to three digits."""
    scale = 10.0 ** (np.floor(np.log10(max(error, 1e-6))) - 2)
    return float(np.ceil(error / scale) * scale)


def _vanishing_end(
    stage: Stage, groups: Sequence[Group], n_classes: int, accounting: Accounting = Accounting.EXACT
) -> tuple[Stage, ...]:
    """Return stages in which groups drop out once their budget is spent. The noise falls with the remaining ballots."""
    groups = VotingSchedule((stage,)).checked_groups(groups)
    _require_vanishing(stage, groups)
    stages: tuple[Stage, ...] = ()
    ones: tuple[tuple[PrivacyCost | None, ...], ...] = ()
    before, active = 0, {group.pool for group in groups if stage.pools[group.pool].participants}
    while active:
        remaining = Stage(
            stage.law,
            tuple(pool if i in active else replace(pool, participants=0) for i, pool in enumerate(stage.pools)),
        )
        if remaining.total < stage.total:
            remaining = replace(remaining, law=stage.law.scaled(remaining.total / stage.total))
        here, schedule = remaining.costs(groups, n_classes, accounting), VotingSchedule((*stages, remaining))
        lengths = {
            group.pool: schedule.affordable_queries([costs[i] for costs in (*ones, here)], group, accounting.conversion)
            - before
            for i, group in enumerate(groups)
            if group.pool in active
        }
        length = min(lengths.values())
        for group, one in zip(groups, here, strict=True):
            if not stages and one is not None and lengths[group.pool] < 1:
                raise too_small_for_one_label(group, one, accounting.conversion)
        if length > 0:
            stages, ones, before = (*stages, replace(remaining, n_queries=length)), (*ones, here), before + length
        active -= {pool for pool, fitting in lengths.items() if fitting <= length}
    return stages


def _require_vanishing(stage: Stage, groups: tuple[Group, ...]) -> None:
    if len({group.pool for group in groups}) < len(groups):
        raise InvalidParameterError(
            "groups must have a pool each to drop out, and under upsampling every teacher learns from every group: "
            "use weighting or vanishing."
        )
    if stage.law.gated:
        raise InvalidParameterError(
            f"law={type(stage.law).__name__} answers an unknown number of queries, so the end of a group cannot "
            "be scheduled: use a law without a gate."
        )
    if stage.n_queries is not None:
        raise InvalidParameterError(f"n_queries={stage.n_queries} of the stage must be None.")
