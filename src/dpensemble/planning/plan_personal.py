"""What personal budgets buy, before any record is touched."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpensemble._checks import integer_between
from dpensemble.accounting import Accounting, Group, grouped_meter, vanishing_end
from dpensemble.budget import Budget
from dpensemble.cost import PrivacyCost
from dpensemble.electorate import Electorate, Stage
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.planning.ensemble import Ensemble
from dpensemble.planning.personal import Census, Personalisation, Personalised, Rule
from dpensemble.planning.settings import VotingMethod
from dpensemble.planning.solve_personal import conversion_of, group_cost, personalise, queries_of_groups

_MOST_NOISE = 1e6
_MOST_TRIES = 12
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
    epsilon : float
        Its budget.
    share : float
        Its share of the records.
    epsilon_spent : float
        Epsilon at the end of the run, if every query is answered.
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
    epsilon: float
    share: float
    epsilon_spent: float
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
    n_teachers, n_classes : int
        Teachers in all, with those that copies take; declared classes.
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
    if ensemble.method == VotingMethod.OPTIMAL:
        raise InvalidParameterError(
            "aggregator='optimal' is not for personal budgets, whose ballots weigh differently; use 'gnmax'."
        )
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
    """Return the plan with about the smallest noise at which the labels fit."""
    noise = float(next(iter(v for k, v in ensemble.law.settings().items() if k in ("scale", "sigma"))))
    best, too_little = None, 0.0
    for _ in range(_MOST_TRIES):
        try:
            found = _plan(kind, ensemble.with_noise(noise), census, **settings)
            answered = found.labels
        except BudgetError:
            found, answered = None, 0
        if found is not None and answered >= labels:
            best, enough = found, noise
            if enough <= too_little * (1 + _CLOSE):
                break
        else:
            too_little = noise
        # Labels grow about with the square of the noise.
        guess = noise * np.sqrt((labels + 0.5) / max(answered, 0.5))
        if best is not None and not too_little < guess < enough:
            guess = np.sqrt(max(too_little, enough / 2) * enough)
        noise = float(min(guess, _MOST_NOISE))
    if best is None:
        raise BudgetError(
            f"labels={labels} do not fit the budgets with any noise up to {_MOST_NOISE:,.0f} votes; ask for "
            "fewer."
        )
    return best


def _plan(
    kind: Personalisation,
    ensemble: Ensemble,
    census: Census,
    *,
    rule: Rule,
    precision: float | None,
    vanish_at_end: bool,
) -> PersonalPlan:
    accounting = Accounting(ensemble.accounting)
    public: dict[str, Any] = {"n_classes": ensemble.n_classes, "accounting": accounting}
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
            epsilon=group.budget.epsilon,
            share=census.shares[index] / sum(census.shares),
            epsilon_spent=spent[index],
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
        ``minimum`` (all that plain PATE may do), ``average`` over records, and ``maximum`` of the budgets: for
        comparison, as in Mühl and Boenisch 2022, section 4.3.
    """
    epsilons = {
        "minimum": census.epsilons.min(),
        "average": np.average(census.epsilons, weights=census.shares),
        "maximum": census.epsilons.max(),
    }
    delta = census.budgets[0].delta
    return {
        name: ensemble.meter(Budget(epsilon=float(epsilon), delta=delta)).sure_queries
        for name, epsilon in epsilons.items()
    }
