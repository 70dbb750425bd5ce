"""Bagged ensembles: what a budget buys where every teacher's records are drawn by chance."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

from dpensemble._checks import delta_of, integer_between, member
from dpensemble._rounding import round_up
from dpensemble.accounting import Accounting, SubsampledCost, SubsampledMeter, subsampled_cost
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.budget import Budget
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.planning.calibrate import PRECISION, smallest_noise
from dpensemble.planning.ensemble import Ensemble, Settings
from dpensemble.planning.settings import VotingMethod
from dpensemble.relations import Relation

_DIGITS = 6
_MOST_NOISE = 1e6
# Exactly composed answers need about this share of the epsilon of a Renyi curve; only where to look first.
_EXACT_SHARE = 0.93


@dataclass(frozen=True, slots=True, kw_only=True)
class BaggedEnsemble:
    """A vote of teachers whose records are drawn by chance. All of it is public but the draws.

    Parameters
    ----------
    ensemble : Ensemble
        One partition, no gate, exact accounting.
    scheme : BootstrapScheme
        How each teacher's records are drawn.
    n_units : int
        Number of private records (or units).
    relation : Relation or str, default="replace-one"
        Neighbouring relation.

    Raises
    ------
    InvalidParameterError
        If the draws cannot be had, or no price of the vote is known.
    """

    ensemble: Ensemble
    scheme: BootstrapScheme
    n_units: int
    relation: Relation = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", member("relation", self.relation, Relation))
        # A removed record leaves one less to draw from.
        removed = self.relation is Relation.ADD_OR_REMOVE_ONE
        self.scheme.check(integer_between("n_units", self.n_units, 1 + removed) - removed)
        if self.ensemble.gated or self.ensemble.n_partitions != 1:
            raise InvalidParameterError(
                f"method={self.ensemble.method!r} is no vote of bagged teachers; use 'gnmax', 'lnmax', 'saa' or "
                "'optimal', with one partition."
            )
        if self.ensemble.accounting != Accounting.EXACT:
            raise InvalidParameterError(
                "accounting='published' has no price for bagged teachers, which no paper covers; use 'exact'."
            )

    def cost(self) -> SubsampledCost:
        """Return what any number of answers costs."""
        return subsampled_cost(
            self.ensemble.law,
            self.scheme.holders(self.n_units),
            n_teachers=self.ensemble.n_teachers,
            n_classes=self.ensemble.n_classes,
        )

    def meter(self, budget: Budget) -> SubsampledMeter:
        """Return the meter that a run with these settings uses."""
        return SubsampledMeter(self.cost(), budget)

    def with_noise(self, noise: float) -> BaggedEnsemble:
        """Return the same with other noise, in votes."""
        return replace(self, ensemble=self.ensemble.with_noise(noise))


@dataclass(frozen=True, slots=True, kw_only=True)
class BaggedPlan:
    """What a budget buys from bagged teachers, and from one partition with the same noise.

    Parameters
    ----------
    method, scheme : str
        How votes become a label, and how records are drawn.
    records, subsample, n_teachers, n_classes : int
        Private records (or units), records drawn for each teacher, teachers, declared classes.
    labels : int
        Labels that fit the budget.
    epsilon_spent, epsilon, delta : float
        What they cost, and the budget.
    scale, sigma, reach, shape : float or None
        Noise, in votes.
    held : float
        Probability that any teacher holds a given record.
    partition_labels : int
        Labels that the same budget and noise buy from one partition, whose teachers have
        ``records / n_teachers`` records each.
    """

    method: str
    scheme: str
    records: int
    subsample: int
    n_teachers: int
    n_classes: int
    labels: int
    epsilon_spent: float
    epsilon: float
    delta: float
    scale: float | None
    sigma: float | None
    reach: float | None
    shape: float | None
    held: float
    partition_labels: int

    @property
    def ensemble(self) -> Ensemble:
        """The voting settings that were planned for."""
        names = ("method", "n_teachers", "n_classes", "scale", "sigma", "reach", "shape")
        return Ensemble(**{name: getattr(self, name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, ready for JSON."""
        return asdict(self)


def plan_bagged(
    *,
    records: int,
    subsample: int,
    scheme: str = Bootstrap.DISTINCT,
    relation: str = Relation.REPLACE_ONE,
    delta: float,
    epsilon: float | None = None,
    labels: int | None = None,
    **settings: Unpack[Settings],
) -> BaggedPlan:
    """Find the third of epsilon, number of labels and noise from the other two, for bagged teachers.

    Parameters
    ----------
    records : int
        Number of private records (or units). Public.
    subsample : int
        Records drawn for each teacher.
    scheme : {"distinct", "with-replacement", "subsets"}, default="distinct"
        How they are drawn: see `dpensemble.allocation.Bootstrap`.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation.
    delta : float
        Delta of the budget.
    epsilon : float, optional
        Epsilon of the budget.
    labels : int, optional
        Labels wanted.
    **settings
        As for `Ensemble`: `method` is ``"gnmax"``, ``"lnmax"``, ``"saa"`` or ``"optimal"``. With both `epsilon`
        and `labels` the noise is found, else it is as given or the method's default.

    Returns
    -------
    BaggedPlan

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, all three are given, or neither epsilon nor labels.
    BudgetError
        If delta is not below 1 / records, the budget does not cover one label, or no noise is enough.

    Examples
    --------
    Half of the records, each with one teacher at most, for more than twice the labels:

    >>> found = plan_bagged(records=16_000, subsample=32, epsilon=1, delta=1e-5, method="gnmax")
    >>> found.labels, found.partition_labels
    (199, 88)
    """
    bagged = BaggedEnsemble(
        ensemble=Ensemble(**settings),
        scheme=BootstrapScheme(member("scheme", scheme, Bootstrap), settings.get("n_teachers", 250), subsample),
        n_units=records,
        relation=member("relation", relation, Relation),
    )
    delta = delta_of(delta)
    Budget(epsilon=1.0, delta=delta).check_delta_for(records)
    if labels is not None:
        labels = integer_between("labels", labels, 1)
    if epsilon is not None and labels is not None:
        name = VotingMethod(bagged.ensemble.method).noise_name
        if bagged.ensemble.noise is not None:
            raise InvalidParameterError(
                f"epsilon={epsilon!r}, labels={labels} and {name}={bagged.ensemble.noise!r} cannot all be given; "
                "leave one out to have it found."
            )
        return _plan_of(*calibrated_bag(bagged, labels, Budget(epsilon=epsilon, delta=delta)), labels)
    if epsilon is None and labels is None:
        raise InvalidParameterError(
            "epsilon=None and labels=None leave nothing to plan for; give at least one of them."
        )
    if epsilon is None:
        assert labels is not None  # noqa: S101
        return _plan_of(bagged, _enough(bagged, labels, delta), labels)
    meter = bagged.meter(Budget(epsilon=epsilon, delta=delta))
    meter.require_one_query()
    return _plan_of(bagged, meter, meter.sure_queries)


def calibrated_bag(bagged: BaggedEnsemble, labels: int, budget: Budget) -> tuple[BaggedEnsemble, SubsampledMeter]:
    """Return the ensemble with the smallest noise at which the labels fit, and its meter.

    Parameters
    ----------
    bagged : BaggedEnsemble
        Its own noise plays no part.
    labels : int
        Labels wanted.
    budget : Budget
        What may be spent.

    Raises
    ------
    BudgetError
        If no noise up to a million votes is enough.
    """

    def rough(noise: float) -> float:
        return bagged.with_noise(noise).cost().epsilon(labels, budget.delta)

    def composed(noise: float) -> float:
        cost = bagged.with_noise(noise).cost()
        cost.refine(labels, budget.epsilon, budget.delta)
        return cost.epsilon(labels, budget.delta)

    start = bagged.ensemble.n_teachers / 4
    noise = smallest_noise(rough, start, budget.epsilon / _EXACT_SHARE)
    noise = None if noise is None else smallest_noise(composed, noise, budget.epsilon)
    while noise is not None and noise <= _MOST_NOISE:
        found = bagged.with_noise(noise)
        meter = found.meter(budget)
        if meter.sure_queries >= labels:
            return found, meter
        noise *= 1 + PRECISION
    raise BudgetError(
        f"labels={labels} do not fit epsilon={budget.epsilon:g} at delta={budget.delta:g} with any noise up to "
        f"{_MOST_NOISE:,.0f} votes; ask for fewer labels, a smaller subsample or a larger epsilon."
    )


def _enough(bagged: BaggedEnsemble, labels: int, delta: float) -> SubsampledMeter:
    """Return the meter of the smallest budget, of six digits, that pays for the labels."""
    cost = bagged.cost()
    cost.refine(labels, cost.epsilon(labels, delta), delta)
    needed, growth = max(1e-9, cost.epsilon(labels, delta)), 1e-6
    while True:
        meter = bagged.meter(Budget(epsilon=round_up(needed, _DIGITS), delta=delta))
        if meter.sure_queries >= labels:
            return meter
        needed, growth = needed * (1 + growth), 2 * growth


def _plan_of(bagged: BaggedEnsemble, meter: SubsampledMeter, labels: int) -> BaggedPlan:
    ensemble, budget = bagged.ensemble, meter.budget
    noise = ensemble.law.settings()
    return BaggedPlan(
        method=VotingMethod(ensemble.method).value,
        scheme=bagged.scheme.scheme.value,
        records=bagged.n_units,
        subsample=bagged.scheme.subsample,
        n_teachers=ensemble.n_teachers,
        n_classes=ensemble.n_classes,
        labels=labels,
        epsilon_spent=min(budget.epsilon, meter.subsampled.epsilon(labels, budget.delta)),
        epsilon=budget.epsilon,
        delta=budget.delta,
        **{name: noise.get(name) for name in ("scale", "sigma", "reach", "shape")},
        held=bagged.scheme.inclusion_probability(bagged.n_units),
        partition_labels=ensemble.meter(budget).sure_queries,
    )
