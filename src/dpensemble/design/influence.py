"""Personalised PATE: duplicates, weights or turns of each group, and what an answer costs the group. All public.

Three ways to let a group of records with a larger budget have more influence:

- *upsampling*: several teachers learn from each record. Their number, the noise and the threshold grow with the
  number of copies.
- *weighting*: each group has teachers of its own, whose ballots weigh more or less.
- *vanishing*: each group has teachers of its own, who vote on more or fewer queries.

Weights are whole numbers. The law's noise is stated in their unit, so that counts stay whole and the analysis of plain
votes covers them.

References
----------
Mühl and Boenisch 2022 (personalised PATE), sections 3 and 5.1 and appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import member
from dpensemble.accounting import Group
from dpensemble.allocation.budget_groups import whole_number_ratios
from dpensemble.allocation.partition import teachers_of_groups
from dpensemble.budget import Budget
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ReleaseLaw
from dpensemble.voting_schedule import Pool, Stage

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


class Rule(StrEnum):
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
        return cls(published=member("rule", rule, Rule) is Rule.PUBLISHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Groups of records by budget, the strictest first. Public.

    Parameters
    ----------
    names : tuple of str
        Names of the groups.
    budgets : tuple of Budget
        Their budgets, epsilons ascending.
    shares : tuple of float
        Numbers of records, or any positive shares.
    """

    names: tuple[str, ...]
    budgets: tuple[Budget, ...]
    shares: tuple[float, ...]

    @property
    def epsilons(self) -> NDArray[np.float64]:
        """Epsilon of each group."""
        return np.array([budget.epsilon for budget in self.budgets])

    @property
    def baselines(self) -> dict[str, float]:
        """Epsilons of one budget for all: the ``minimum``, the ``average`` over records and the ``maximum``."""
        return {
            "minimum": float(self.epsilons.min()),
            "average": float(np.average(self.epsilons, weights=self.shares)),
            "maximum": float(self.epsilons.max()),
        }


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
        """Copies, weights or frequencies from which `seated` makes the same seats."""
        if self.kind is Personalisation.UPSAMPLING:
            return tuple(float(number) for number in self.copies)
        return self.weights if self.kind is Personalisation.WEIGHTING else self.frequencies


def seated(
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
        weights = whole_number_ratios(influence, tolerance, _LARGEST_WEIGHT)
        total = int(np.dot(weights, teachers))
        if total <= _LARGEST_TOTAL:
            return weights
        if precision is not None or tolerance > _COARSEST:
            raise InvalidParameterError(
                f"precision={tolerance:g} needs weights that add up to {total:,} over all teachers, more than "
                f"{_LARGEST_TOTAL:,}: use a coarser precision such as {2 * tolerance:g}, or fewer teachers."
            )
        tolerance *= 2


def published_influence(kind: Personalisation, census: Census) -> NDArray[np.float64]:
    """Return the paper's rule: proportional to budgets, or to their squares for frequencies (section 5.1, app. B)."""
    power = _PUBLISHED_POWER if kind is Personalisation.VANISHING else 1.0
    relative: NDArray[np.float64] = (census.epsilons / census.epsilons.max()) ** power
    return relative


def _upsampled(law: ReleaseLaw, n_teachers: int, census: Census, influence: ArrayLike, precision: float) -> Seats:
    copies = whole_number_ratios(influence, precision, n_teachers)
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
