"""The one place that charges sums of whole numbers and adds their noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dpensemble._arrays import BigIntegers, Floats, Integers
from dpensemble._checks import integer_between, member
from dpensemble._drawn import drawn_once
from dpensemble._original import Original
from dpensemble._random import NoiseSource
from dpensemble.cost import noise_variance
from dpensemble.errors import BudgetError, DataError
from dpensemble.relations import Relation
from dpensemble.releases.noise import DiscreteNoise
from dpensemble.releases.partial_sums import whole_numbers
from dpensemble.releases.queries import Outcome, ReleasedSum, SumQuery


class SumPayer(Protocol):
    """Pays for noisy sums."""

    def sigma(self, share: float) -> float:
        """Return the noise, in sensitivities, of a sum that takes a share of the budget's ``mu**2``."""

    def charge(self, sigma: float, *, variance: int, entries: int) -> None:
        """Charge for a sum before its noise is drawn, or refuse."""


class PaidSums(Original, spends=("charge",)):
    """Pays once for sums that the book of an `Aggregator` charged before. Counts entries of all sums together."""

    def __init__(self, noise: float, variance: int, entries: int) -> None:
        self._noise, self._variance, self._left = noise, variance, integer_between("entries", entries, 1)

    def sigma(self, share: float) -> float:  # noqa: ARG002
        """Return the noise that was charged for."""
        return self._noise

    def charge(self, sigma: float, *, variance: int, entries: int) -> None:
        """Refuse sums with less noise than was charged, or with more entries than were charged and not yet drawn."""
        if not (sigma >= self._noise and variance >= self._variance and 1 <= entries <= self._left):
            raise BudgetError(
                f"sums of {entries:,} entries with noise sigma={sigma:.6g} must match those that were charged before: "
                f"{self._left:,} entries with noise sigma={self._noise:.6g}."
            )
        self._left -= entries


@dataclass(frozen=True, eq=False, kw_only=True)
class SumReleaser:
    """Releases noisy sums: charges for each, draws its noise, and stores a description of it.

    Parameters
    ----------
    relation : Relation
        Neighbouring relation.
    meter : SumPayer
        Pays for the sums, usually a `dpensemble.accounting.SumsMeter`.
    noise : NoiseSource
        Secret bits.

    Attributes
    ----------
    released : list of ReleasedSum
        Descriptions of all released sums, in order. Public.
    """

    relation: Relation
    meter: SumPayer
    noise: NoiseSource
    released: list[ReleasedSum] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", member("relation", self.relation, Relation))

    def release(
        self, query: SumQuery[Outcome], total: Integers | BigIntegers, share: float, *, weight: float = 1.0
    ) -> Outcome:
        """Charge for a sum, then draw the noise of each entry, and return the query's result.

        Parameters
        ----------
        query : SumQuery
            What the sum holds, and how far one unit can move the sum.
        total : ndarray of int, or of Python integers
            The exact sum in whole units, which may be the total of sums that were computed elsewhere. Private.
        share : float
            Share of the budget's ``mu**2``.
        weight : float, default=1.0
            Sum of the units' weights, by which the noisy sum is divided. Public.

        Raises
        ------
        DataError
            If the total is not of whole numbers, since noise would not hide fractions.
        BudgetError
            If the budget does not cover the sum. Then no noise is drawn.
        """
        if not whole_numbers(total):
            raise DataError(f"total must be a sum of whole numbers; got the type {total.dtype}.")
        sigma = self.meter.sigma(share)
        variance = noise_variance(sigma, query.sensitivity(self.relation))
        self.meter.charge(sigma, variance=variance, entries=total.size)

        def draw() -> Floats:
            draws = DiscreteNoise(self.noise)
            noisy = [float(entry + draws.gaussian(variance)) for entry in total.ravel().tolist()]
            return np.array(noisy).reshape(total.shape)

        noisy: Any = drawn_once("a noisy sum", draw, seeded=not self.noise.for_release)
        outcome = query.read(noisy / query.unit / weight, math.sqrt(variance) / query.unit / weight)
        self.released.append(ReleasedSum(query.description, query.table(outcome), sigma))
        return outcome

    def spread(self, query: SumQuery[Outcome], share: float, *, weight: float = 1.0) -> float:
        """Return the standard deviation of the noise on each entry of a coming sum per unit of weight. Public."""
        return self.meter.sigma(share) * query.sensitivity(self.relation) / query.unit / weight
