"""What a budget buys, before any record is touched: public numbers only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from dpensemble._checks import integer_between, member
from dpensemble.accounting import WorstCaseMeter, laplace_moments
from dpensemble.budget import Budget
from dpensemble.laws import LaplaceNoisyMax


class Accounting(StrEnum):
    """Which analysis prices an answer."""

    PUBLISHED = "published"


def default_scale(n_teachers: int, n_partitions: int) -> float:
    """Return the published Laplace scale in votes: ``k / lambda`` with ``lambda = 2 / n``.

    Parameters
    ----------
    n_teachers : int
        Disjoint subsets ``n`` in each partition.
    n_partitions : int
        Partitions ``k``.

    Returns
    -------
    float
        ``n_teachers * n_partitions / 2`` (Jordon et al. 2019, section 5).
    """
    n_teachers = integer_between("n_teachers", n_teachers, 1)
    return n_teachers * integer_between("n_partitions", n_partitions, 1) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many labels a budget buys whatever the private records are.

    Parameters
    ----------
    labels : int
        Labels that fit the budget.
    epsilon_spent : float
        Epsilon of that many labels; at most `epsilon`.
    labels_in_paper_convention : int
        The same count with the query that breaches the budget, as the DPBag paper prints it.
    epsilon, delta : float
        The budget.
    n_teachers, n_partitions : int
        Teachers a partition, and partitions.
    scale : float
        Laplace scale in votes.
    accounting : str
        Name of the analysis.
    """

    labels: int
    epsilon_spent: float
    labels_in_paper_convention: int
    epsilon: float
    delta: float
    n_teachers: int
    n_partitions: int
    scale: float
    accounting: str

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, ready for JSON."""
        return asdict(self)


def plan_labels(
    *,
    epsilon: float,
    delta: float,
    n_teachers: int,
    n_partitions: int = 1,
    scale: float | None = None,
    accounting: str = "published",
) -> Plan:
    """Count the labels that subsample-and-aggregate (one partition) or DPBag- may release.

    DPBag's personalised analysis answers at least as many; how many depends on
    the private votes, so no plan can know.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    n_teachers : int
        Teachers in each partition.
    n_partitions : int, default=1
        Partitions.
    scale : float, optional
        Laplace scale in votes; `default_scale` if not given.
    accounting : {"published"}, default="published"
        Analysis.

    Returns
    -------
    Plan

    Raises
    ------
    InvalidParameterError
        If a setting is out of range.
    BudgetError
        If the budget does not cover one label; the message names the smallest that would.

    Examples
    --------
    >>> plan_labels(epsilon=1, delta=1e-3, n_teachers=50).labels
    10
    """
    member("accounting", accounting, Accounting)
    fallback = default_scale(n_teachers, n_partitions)
    law = LaplaceNoisyMax(fallback if scale is None else scale)
    meter = WorstCaseMeter(law, n_partitions, Budget(epsilon=epsilon, delta=delta))
    meter.require_one_query()
    return Plan(
        labels=meter.sure_queries,
        epsilon_spent=epsilon_after(meter.sure_queries, delta, law.scale, n_partitions),
        labels_in_paper_convention=meter.sure_queries + 1,
        epsilon=meter.budget.epsilon,
        delta=meter.budget.delta,
        n_teachers=n_teachers,
        n_partitions=n_partitions,
        scale=law.scale,
        accounting=accounting,
    )


def epsilon_after(labels: int, delta: float, scale: float, n_partitions: int = 1) -> float:
    """Return the data-independent epsilon of a number of labels.

    Parameters
    ----------
    labels : int
        Labels released.
    delta : float
        Delta of the guarantee.
    scale : float
        Laplace scale in votes.
    n_partitions : int, default=1
        Votes that one record can change.

    Returns
    -------
    float
        Epsilon by the published moments accountant.
    """
    return laplace_moments(scale, labels * n_partitions**2).epsilon(delta)
