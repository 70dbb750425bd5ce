"""Labels, epsilon and noise: any two give the third, before any record is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpensemble._checks import delta_of, integer_between
from dpensemble._rounding import round_up
from dpensemble.accounting import Accounting
from dpensemble.budget import Budget
from dpensemble.design.base import VotingDesign
from dpensemble.design.least_error import with_least_error
from dpensemble.errors import InvalidParameterError

_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The plan for the records of one group.

    Parameters
    ----------
    name : str
        Name of the group.
    budget, epsilon : float
        Allowed epsilon, and the epsilon of the labels. A gated run always spends all of its budget.
    settings : dict
        What distinguishes the group, if budgets differ.
    """

    name: str
    budget: float
    epsilon: float
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many labels a budget buys, for every possible content of the private records.

    Parameters
    ----------
    design : VotingDesign
        The run, with its budget and noise.
    labels : int
        Number of labels that fit the budgets of all groups. For gated laws, if every query is answered.
    most_queries : int or None
        For gated laws only: number of queries that fit if none is answered.
    conversion : str
        Name of the conversion that gave `epsilon_spent`.
    groups : tuple of GroupPlan
        One group if all records are treated alike. Otherwise the strictest group comes first.
    extras : dict
        Further fields of the method.
    """

    design: VotingDesign
    labels: int
    most_queries: int | None
    conversion: str
    groups: tuple[GroupPlan, ...]
    extras: dict[str, Any]

    def __str__(self) -> str:
        """Return the plan in one line."""
        title, law = self.design.title or self.design.name, self.design.law
        return f"{title}: {self.labels:,} labels at epsilon {self.epsilon_spent:.6g}, delta {self.delta:g}, of {law!r}"

    @property
    def epsilon(self) -> float:
        """Epsilon of the budget: the largest of any group."""
        return max(group.budget for group in self.groups)

    @property
    def delta(self) -> float:
        """Delta of the budget."""
        return self.design.groups[0].budget.delta

    @property
    def epsilon_spent(self) -> float:
        """Epsilon of that many labels: the largest of any group."""
        return max(group.epsilon for group in self.groups)

    @property
    def labels_in_paper_convention(self) -> int | None:
        """The count including the query that breaches the budget, as in the DPBag paper. None for other papers."""
        published = self.design.accounting is Accounting.PUBLISHED
        return self.labels + 1 if published and self.design.counts_the_breach else None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, ready for JSON."""
        values: dict[str, Any] = {
            "labels": self.labels,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "epsilon_spent": self.epsilon_spent,
            "most_queries": self.most_queries,
            "labels_in_paper_convention": self.labels_in_paper_convention,
            "conversion": self.conversion,
        }
        values = {"method": self.design.name} | values | self.design.settings() | self.extras
        if len(self.groups) > 1:
            values["groups"] = [
                {"name": group.name, "budget": group.budget, "epsilon": group.epsilon} | group.settings
                for group in self.groups
            ]
        return values


def plan(design: VotingDesign, *, epsilon: float | None = None, labels: int | None = None, delta: float = 1e-5) -> Plan:
    """Find the third of epsilon, number of labels and noise from the other two.

    Parameters
    ----------
    design : VotingDesign
        The run. For example, ``PATEClassifier(n_teachers=250).design(n_classes=2)``. If groups have budgets of their
        own, labels follow from those, or the noise from those and `labels`.
    epsilon : float, optional
        Epsilon of the budget.
    labels : int, optional
        Number of labels. For gated laws, if every query is answered. With a budget, the open noise is found.
    delta : float, default=1e-5
        Delta of the budget.

    Returns
    -------
    Plan
        A run with its budget and noise answers at least `labels` queries, which is checked. A noise that was found is
        at most 0.05 % above the smallest that would do. An epsilon that was found has six digits.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, all three are given, or neither epsilon nor labels.
    BudgetError
        If the budget does not cover one label (the message names the smallest that would), or no noise is enough.

    Examples
    --------
    >>> from dpensemble import SubsampleAggregateClassifier
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> published = SubsampleAggregateClassifier(accounting="published").design()
    >>> plan(published, epsilon=1).labels, plan(published, labels=162).epsilon
    (162, 0.998...)
    >>> round(plan(published, epsilon=1, labels=162).design.law.scale)
    125
    """
    labels = None if labels is None else integer_between("labels", labels, 1)
    by_group = design.has_budgets
    if by_group and epsilon is not None:
        design.with_budget(Budget(epsilon=epsilon, delta=delta))
    if epsilon is None and labels is None and not by_group:
        raise InvalidParameterError(
            "epsilon=None and labels=None leave nothing to plan for: give at least one of them."
        )
    if epsilon is not None:
        design = design.with_budget(Budget(epsilon=epsilon, delta=delta))
    if labels is None:
        meter = design.meter()
        meter.require_one_query()
        return plan_of(design, meter.sure_queries)
    if epsilon is None and not by_group:
        return plan_of(_with_least_epsilon(design, labels, delta_of(delta)), labels)
    if not design.choice.noise_is_open:
        name = (*design.choice.kind.in_votes, "law")[0]
        settings = f"labels={labels} and {name}={getattr(design.law, name, design.law)!r:.80} cannot"
        settings = f"{settings} both" if by_group else f"epsilon={epsilon!r}, {settings} all"
        raise InvalidParameterError(f"{settings} be given: leave one out, and the library finds it.")
    best = with_least_error(design, labels).design
    return plan_of(best, best.meter().sure_queries if by_group else labels)


def plan_of(design: VotingDesign, labels: int) -> Plan:
    """Return the plan of a run with its budget and noise, for a number of labels that fits."""
    spent = design.spent_at_end(labels)
    groups = tuple(
        GroupPlan(
            name=group.name,
            budget=group.budget.epsilon,
            # A filter's guarantee is for all that it would have allowed.
            epsilon=group.budget.epsilon if design.gated else min(group.budget.epsilon, epsilon),
            settings=design.group_settings(index),
        )
        for index, (group, epsilon) in enumerate(zip(design.groups, spent, strict=True))
    )
    return Plan(
        design=design,
        labels=labels,
        most_queries=design.meter().most_queries if design.gated else None,
        conversion=design.how_converted(labels).value,
        groups=groups,
        extras=design.extras(labels),
    )


def _with_least_epsilon(design: VotingDesign, labels: int, delta: float) -> VotingDesign:
    """Return the run with the smallest budget, of six digits, that pays for the labels."""
    start = design.with_budget(Budget(epsilon=1.0, delta=delta))
    epsilon, growth = max(1e-9, *start.spent(labels)), 1e-6
    while True:
        candidate = design.with_budget(Budget(epsilon=round_up(epsilon, _DIGITS), delta=delta))
        if candidate.meter(labels).sure_queries >= labels:
            return candidate
        epsilon, growth = epsilon * (1 + growth), 2 * growth
