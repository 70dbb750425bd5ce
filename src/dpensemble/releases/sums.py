"""The one place where a sum of whole numbers is charged and gets its noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble._drawn import drawn_once
from dpensemble._random import NoiseSource
from dpensemble.cost import noise_variance
from dpensemble.errors import BudgetError
from dpensemble.relations import Relation
from dpensemble.releases.noise import DiscreteNoise
from dpensemble.releases.queries import Outcome, ReleasedSum, SumQuery


class SumPayer(Protocol):
    """Who pays for noisy sums."""

    def sigma(self, share: float) -> float:
        """Return the noise, in sensitivities, of a sum that takes a share of the budget's ``mu**2``."""

    def charge(self, sigma: float, *, variance: int, entries: int) -> None:
        """Charge for a sum before its noise is drawn, or refuse."""


@dataclass(frozen=True)
class PaidSums:
    """Pays for sums that were charged before, for example in the book of an `Aggregator`, and for no others.

    Parameters
    ----------
    noise : float
        Noise that was charged for, in sensitivities.
    variance : int
        Least variance of the discrete noise, in squared whole units.
    entries : int
        Entries of all sums together.
    """

    noise: float
    variance: int
    entries: int

    def sigma(self, share: float) -> float:  # noqa: ARG002
        """Return the noise that was charged for."""
        return self.noise

    def charge(self, sigma: float, *, variance: int, entries: int) -> None:
        """Refuse sums with less noise, or with more entries, than were charged."""
        if not (sigma >= self.noise and variance >= self.variance and entries <= self.entries):
            raise BudgetError(
                f"sums of {entries:,} entries with noise sigma={sigma:.6g} are not those that were charged before: "
                f"{self.entries:,} entries with noise sigma={self.noise:.6g}."
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class SumReleaser:
    """Releases noisy sums: charges for each, draws its noise, and keeps a description of it.

    Parameters
    ----------
    relation : Relation
        Neighbouring relation.
    meter : SumPayer
        Who pays, usually a `dpensemble.accounting.SumsMeter`.
    noise : NoiseSource
        Secret bits.

    Attributes
    ----------
    released : list of ReleasedSum
        What was released so far, in order; public.
    """

    relation: Relation
    meter: SumPayer
    noise: NoiseSource
    released: list[ReleasedSum] = field(default_factory=list, init=False)

    def release(self, query: SumQuery[Outcome], total: Integers, share: float, *, weight: float = 1.0) -> Outcome:
        """Charge for a sum, then draw the noise of each entry, and return what the query reads from both.

        Parameters
        ----------
        query : SumQuery
            What the sum holds, and how far one unit can move the sum.
        total : ndarray of int
            The exact sum in whole units; private. May be the total of sums that were computed elsewhere.
        share : float
            Share of the budget's ``mu**2``.
        weight : float, default=1.0
            Sum of the units' weights, by which the noisy sum is divided; public.

        Raises
        ------
        BudgetError
            If the budget does not cover the sum. No noise is drawn then.
        """
        sigma = self.meter.sigma(share)
        variance = noise_variance(sigma, query.sensitivity(self.relation))
        self.meter.charge(sigma, variance=variance, entries=total.size)

        def draw() -> Floats:
            draws = DiscreteNoise(self.noise)
            noisy = [float(entry + draws.gaussian(variance)) for entry in total.ravel().tolist()]
            return np.array(noisy).reshape(total.shape)

        noisy: Any = drawn_once("a noisy sum", draw, seeded=not self.noise.for_release)
        outcome = query.read(noisy / query.unit / weight, math.sqrt(variance) / query.unit / weight)
        self.released.append(ReleasedSum(query.description, query.table(outcome)))
        return outcome

    def spread(self, query: SumQuery[Outcome], share: float, *, weight: float = 1.0) -> float:
        """Return the standard deviation of the noise on each entry of a coming sum per unit of weight; public."""
        return self.meter.sigma(share) * query.sensitivity(self.relation) / query.unit / weight
