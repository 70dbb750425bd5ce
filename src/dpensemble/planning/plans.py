"""What a plan says: public numbers only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dpensemble.accounting import Accounting, Meter
from dpensemble.cost import Conversion
from dpensemble.planning.ensemble import Ensemble
from dpensemble.planning.settings import VotingMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many labels a budget buys whatever the private records are.

    Parameters
    ----------
    method : str
        Short name of the method.
    labels : int
        Labels that fit the budget; for gated methods, if every query is answered.
    most_queries : int or None
        Gated methods only: queries that fit if none is answered.
    epsilon_spent : float
        Epsilon of that many labels; at most `epsilon`. A gated run always spends all of it.
    labels_in_paper_convention : int or None
        SAA and DPBag- by the published accounting: the count with the query that breaches the
        budget, as the DPBag paper prints it.
    epsilon, delta : float
        The budget.
    n_teachers, n_partitions, n_classes : int
        Teachers a partition, partitions, and declared classes.
    scale : float or None
        Laplace scale in votes.
    sigma, threshold, threshold_sigma : float or None
        Gaussian noise on the answer, threshold and noise on the threshold, in votes.
    reach, shape : float or None
        Of the optimal vote.
    accounting : str
        Name of the analysis.
    conversion : str
        Name of the conversion that gave `epsilon_spent`.
    """

    method: str
    labels: int
    most_queries: int | None
    epsilon_spent: float
    labels_in_paper_convention: int | None
    epsilon: float
    delta: float
    n_teachers: int
    n_partitions: int
    n_classes: int
    scale: float | None
    sigma: float | None
    threshold: float | None
    threshold_sigma: float | None
    reach: float | None
    shape: float | None
    accounting: str
    conversion: str

    @property
    def ensemble(self) -> Ensemble:
        """The ensemble that was planned for."""
        names = ("method", "n_teachers", "n_partitions", "n_classes", "scale", "sigma", "reach", "shape")
        gate = ("threshold", "threshold_sigma", "accounting")
        return Ensemble(**{name: getattr(self, name) for name in names + gate})

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, ready for JSON."""
        return asdict(self)


def plan_of(ensemble: Ensemble, meter: Meter, labels: int) -> Plan:
    """Return the plan for an ensemble, the meter of its budget, and a number of labels that fits."""
    budget, conversion = meter.budget, ensemble.conversion
    # A filter's guarantee is for all that it would have allowed.
    spent = budget.epsilon
    if not ensemble.gated:
        cost = meter.one_query * labels
        if conversion is Conversion.BEST:
            spent, conversion = cost.best(budget.delta)
        else:
            spent = cost.epsilon(budget.delta, conversion)
    in_paper = ensemble.method in ("saa", "dpbag") and Accounting(ensemble.accounting) is Accounting.PUBLISHED
    noise = ensemble.law.settings()
    return Plan(
        method=VotingMethod(ensemble.method).value,
        labels=labels,
        most_queries=meter.most_queries if ensemble.gated else None,
        epsilon_spent=spent,
        labels_in_paper_convention=meter.sure_queries + 1 if in_paper else None,
        epsilon=budget.epsilon,
        delta=budget.delta,
        n_teachers=ensemble.n_teachers,
        n_partitions=ensemble.n_partitions,
        n_classes=ensemble.n_classes,
        scale=noise.get("scale"),
        sigma=noise.get("sigma"),
        threshold=noise.get("threshold"),
        threshold_sigma=noise.get("threshold_sigma"),
        reach=noise.get("reach"),
        shape=noise.get("shape"),
        accounting=Accounting(ensemble.accounting).value,
        conversion=conversion.value,
    )
