"""What personal budgets buy, before any record is touched."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpensemble._checks import integer_between
from dpensemble.accounting import Accounting, Group, grouped_meter, vanishing_end
from dpensemble.budget import Budget
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.electorate import Electorate, Stage
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.planning.ensemble import Ensemble
from dpensemble.planning.personal import Census, Personalisation, Personalised, Rule, personalised
from dpensemble.planning.solve_personal import conversion_of, group_cost, personalise, queries_of_groups

_MOST_NOISE = 1e6
_MOST_TRIES = 12
# Composed exactly, answers need about this share of the noise that a Renyi curve asks for.
_EXACT_SHARE = 0.925
# Relative precision of a noise that was found.
_CLOSE = 0.005
_POINTS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What is planned for the records of one group.

    Parameters
    ----------
    name : str
        Name of the group.
    budget : float
        Epsilon that is allowed.
    share : float
        Its share of the records.
    epsilon : float
        Epsilon spent at the end of the run, if every query is answered.
    queries : int
        Queries that its budget would pay for if no other group ran out first.
    teachers : int or None
        Teachers that learn from it alone; None where groups share them.
    copies : int
        Teachers that each of its records is taught to.
    weight : float
        Weight of its teachers' ballots, in votes.
    frequency : float
        Share of the queries that each of its teachers votes on.
    """

    name: str
    budget: float
    share: float
    epsilon: float
    queries: int
    teachers: int | None
    copies: int
    weight: float
    frequency: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalPlan:
    """How many labels personal budgets buy, whatever the private records are.

    Parameters
    ----------
    kind : str
        ``"upsampling"``, ``"vanishing"`` or ``"weighting"``.
    method : str
        Aggregator.
    labels : int
        Labels that fit everybody's budget; for gated aggregators, if every query is answered.
    groups : tuple of GroupPlan
        The strictest first.
    baselines : dict
        Labels of the plain ensemble if all had the ``minimum``, ``average`` or ``maximum`` budget.
    stages : tuple of (int, tuple of str)
        Queries in turn, and which groups vote on them; more than one only where spent groups drop out.
    delta : float
        Delta of every budget.
    n_teachers, plain_teachers, n_classes : int
        Teachers in all, with those that copies take; teachers of the plain ensemble, for whose votes the noise is
        stated; declared classes.
    noise : dict
        Settings of the plain ensemble's law, in votes.
    accounting, rule : str
        As asked for.
    spend : tuple of (int, tuple of float)
        Numbers of labels and the epsilon that each group was charged for them.
    """

    kind: str
    method: str
    labels: int
    groups: tuple[GroupPlan, ...]
    baselines: dict[str, int]
    stages: tuple[tuple[int, tuple[str, ...]], ...]
    delta: float
    n_teachers: int
    plain_teachers: int
    n_classes: int
    noise: dict[str, Any]
    accounting: str
    rule: str
    spend: tuple[tuple[int, tuple[float, ...]], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, ready for JSON."""
        return asdict(self)


def plan_personalised(
    kind: Personalisation,
    ensemble: Ensemble,
    census: Census,
    *,
    labels: int | None = None,
    rule: Rule = Rule.SOLVED,
    precision: float | None = None,
    vanish_at_end: bool = False,
) -> PersonalPlan:
    """Plan personalised PATE: labels from budgets and noise, or the noise at which a number of labels fits.

    Parameters
    ----------
    kind : Personalisation
        Which variant.
    ensemble : Ensemble
        The plain PATE ensemble: aggregator, teachers, classes, noise, accounting.
    census : Census
        Groups of records by budget.
    labels : int, optional
        Labels wanted; the noise, which `ensemble` must then leave open, is found. By default the labels are.
    rule, precision
        As for the estimators.
    vanish_at_end : bool, default=False
        Let spent groups drop out while the others go on.

    Returns
    -------
    PersonalPlan

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, or a group too small for a teacher.
    BudgetError
        If a group's budget does not cover one label, or no noise up to a million votes is enough.

    Examples
    --------
    >>> census = Census(names=("high", "low"), shares=(0.5, 0.5),
    ...                 budgets=(Budget(epsilon=0.5, delta=1e-5), Budget(epsilon=1.0, delta=1e-5)))
    >>> ensemble = Ensemble(method="gnmax", accounting="published")
    >>> found = plan_personalised(Personalisation.WEIGHTING, ensemble, census)
    >>> found.labels, found.baselines
    (18, {'minimum': 8, 'average': 18, 'maximum': 33})
    """
    settings: dict[str, Any] = {"rule": rule, "precision": precision, "vanish_at_end": vanish_at_end}
    if labels is None:
        return _plan(kind, ensemble, census, **settings)
    labels = integer_between("labels", labels, 1)
    if ensemble.noise is not None:
        raise InvalidParameterError(
            f"labels={labels} and the noise {ensemble.noise:g} cannot both be given; leave one out to have it "
            "found."
        )
    return _noise_for(labels, kind, ensemble, census, settings)


def _noise_for(
    labels: int, kind: Personalisation, ensemble: Ensemble, census: Census, settings: dict[str, Any]
) -> PersonalPlan:
    """Return the plan with about the smallest noise at which the labels fit.

    Influences are solved on Renyi curves, and kept while the noise is fitted under exact composition, which is
    much slower; they hardly depend on the noise.
    """
    accounting, n_classes = Accounting(ensemble.accounting), ensemble.n_classes
    how = {"rule": settings["rule"], "precision": settings["precision"]}

    def design_at(noise: float) -> Personalised:
        law = ensemble.with_noise(noise).law
        return personalise(
            kind, law, ensemble.n_teachers, census, n_classes=n_classes, accounting=accounting, fast=True, **how
        )

    def cheaply(noise: float) -> int:
        design = design_at(noise)
        conversion = conversion_of(design.stage, accounting)
        fast = Conversion.IMPROVED if conversion is Conversion.BEST else conversion
        return min(queries_of_groups(design, n_classes, accounting, fast))

    start = float(
        next(value for name, value in ensemble.law.settings().items() if name in ("scale", "sigma", "reach"))
    )
    noise = _least_noise(cheaply, labels, start)
    influence = design_at(noise).influence

    def kept_at(noise: float) -> Personalised:
        law = ensemble.with_noise(noise).law
        return personalised(kind, law, ensemble.n_teachers, census, influence, settings["precision"])

    if conversion_of(kept_at(noise).stage, accounting) is Conversion.BEST:
        noise = _least_noise(
            lambda noise: min(queries_of_groups(kept_at(noise), n_classes, accounting)),
            labels,
            noise * _EXACT_SHARE,
        )
    return _plan(kind, ensemble.with_noise(noise), census, design=kept_at(noise), **settings)


def _least_noise(labels_at: Callable[[float], int], labels: int, start: float) -> float:
    """Return about the smallest noise at which so many labels fit; they grow about with its square."""
    too_little, enough, guess = 0.0, math.inf, start
    for _ in range(_MOST_TRIES):
        found = labels_at(guess)
        if found >= labels:
            enough = guess
            if found <= max(labels, labels * (1 + 2 * _CLOSE)):
                break
        else:
            too_little = guess
        if enough <= too_little * (1 + _CLOSE):
            break
        here, guess = guess, guess * math.sqrt((labels * (1 + _CLOSE) + 0.5) / max(found, 0.5))
        if not too_little < guess < enough:
            guess = math.sqrt(max(too_little, here / 2) * min(enough, 2 * here))
        if guess > _MOST_NOISE:
            break
    if not math.isfinite(enough):
        raise BudgetError(
            f"labels={labels} do not fit the budgets with any noise up to {_MOST_NOISE:,.0f} votes; ask for "
            "fewer."
        )
    return enough


def _plan(
    kind: Personalisation,
    ensemble: Ensemble,
    census: Census,
    *,
    rule: Rule,
    precision: float | None,
    vanish_at_end: bool,
    design: Personalised | None = None,
) -> PersonalPlan:
    accounting = Accounting(ensemble.accounting)
    public: dict[str, Any] = {"n_classes": ensemble.n_classes, "accounting": accounting}
    if design is None:
        design = personalise(
            kind, ensemble.law, ensemble.n_teachers, census, rule=rule, precision=precision, **public
        )
    stages: tuple[Stage, ...] = (design.stage,)
    if vanish_at_end:
        stages = vanishing_end(design.stage, design.groups, **public)
    meter = grouped_meter(Electorate(stages), design.groups, **public)
    meter.require_one_query()
    labels = meter.sure_queries
    spend = _spend(stages, design.groups, labels, ensemble.n_classes, accounting)
    return PersonalPlan(
        kind=kind.value,
        method=ensemble.method,
        labels=labels,
        groups=_groups(design, census, spend[-1][1], ensemble, accounting),
        baselines=baselines(ensemble, census),
        stages=_in_turn(stages, design.groups, labels),
        delta=census.budgets[0].delta,
        n_teachers=design.n_teachers,
        plain_teachers=ensemble.n_teachers,
        n_classes=ensemble.n_classes,
        noise=ensemble.law.settings(),
        accounting=accounting.value,
        rule=rule.value,
        spend=spend,
    )


def _in_turn(
    stages: tuple[Stage, ...], groups: tuple[Group, ...], labels: int
) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the length of each stage and the groups that vote in it."""
    found = []
    for stage in stages:
        length = labels if stage.n_queries is None else min(labels, stage.n_queries)
        found.append((length, tuple(group.name for group in groups if stage.pools[group.pool].participants)))
        labels -= length
    return tuple(found)


def _spend(
    stages: tuple[Stage, ...], groups: tuple[Group, ...], labels: int, n_classes: int, accounting: Accounting
) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """Return numbers of answered queries, evenly spread, and what each group is charged for them."""
    conversion = conversion_of(stages[0], accounting)

    def charged(group: Group, queries: int) -> float:
        spent = PrivacyCost.zero()
        for stage in stages:
            here = queries if stage.n_queries is None else min(queries, stage.n_queries)
            if stage.pools[group.pool].participants and here:
                one = group_cost(stage, group, n_classes, accounting)
                spent += one * stage.pools[group.pool].turns(here)
            queries -= here
        return min(group.budget.epsilon, spent.epsilon(group.budget.delta, conversion))

    counts = np.unique(np.linspace(1, labels, min(_POINTS, labels)).astype(int)).tolist()
    return tuple((count, tuple(charged(group, count) for group in groups)) for count in counts)


def _groups(
    design: Personalised,
    census: Census,
    spent: tuple[float, ...],
    ensemble: Ensemble,
    accounting: Accounting,
) -> tuple[GroupPlan, ...]:
    queries = queries_of_groups(design, ensemble.n_classes, accounting)
    teachers = design.teachers or (None,) * len(design.groups)
    return tuple(
        GroupPlan(
            name=group.name,
            budget=group.budget.epsilon,
            share=census.shares[index] / sum(census.shares),
            epsilon=spent[index],
            queries=queries[index],
            teachers=teachers[index],
            copies=design.copies[index],
            weight=design.weights[index],
            frequency=design.frequencies[index],
        )
        for index, group in enumerate(design.groups)
    )


def baselines(ensemble: Ensemble, census: Census) -> dict[str, int]:
    """Return the labels of the plain ensemble if every record had one and the same budget.

    Parameters
    ----------
    ensemble : Ensemble
        The plain ensemble.
    census : Census
        Groups of records by budget.

    Returns
    -------
    dict
        Of `Census.baselines`; the minimum is all that plain PATE may do, the others are for comparison (Mühl and
        Boenisch 2022, section 4.3, whose average is the logarithm of the mean of ``exp(epsilon)``).
    """
    delta = census.budgets[0].delta
    return {
        name: ensemble.meter(Budget(epsilon=epsilon, delta=delta)).sure_queries
        for name, epsilon in census.baselines.items()
    }
