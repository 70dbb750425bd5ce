"""The noisy mean of the voters' probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import integer_between
from dpensemble._random import NoiseSource
from dpensemble.accounting import GaussianSum
from dpensemble.cost import GaussianCost, noise_variance
from dpensemble.releases.base import Outcomes, Release, Voters, require_one_fixed_ballot
from dpensemble.releases.queries import SumQuery
from dpensemble.releases.sums import PaidSums, SumReleaser

_UNIT = 2**34
_MOST_ENTRIES = 4096


@dataclass(frozen=True)
class ProbabilitiesSum(SumQuery[Floats]):
    """The sum of the voters' probabilities.

    A voter's probabilities are not negative and have a length of at most 1, so those of two voters differ by ``|u -
    v|**2 <= |u|**2 + |v|**2 <= 2``. Under both relations a unit changes the answer of one voter.
    """

    description = "the mean of the voters' probabilities"
    unit = _UNIT
    replacing = math.isqrt(2 * _UNIT**2) + 1
    removing = replacing

    def read(self, sums: Floats, spread: float) -> Floats:  # noqa: ARG002
        """Return the means."""
        return sums


@dataclass(frozen=True)
class NoisyMean(Release):
    """The noisy mean of the voters' probabilities, and its largest class."""

    takes: ClassVar[tuple[str, ...]] = ("log_probs",)

    law: GaussianSum

    @property
    def variance(self) -> int:
        """Variance of the noise on a sum, in squared whole units."""
        return noise_variance(self.law.sigma, ProbabilitiesSum.replacing)

    def check(self, voters: Voters) -> None:
        """Refuse fresh sampling, units with several ballots, and very many classes."""
        require_one_fixed_ballot(self, voters)
        integer_between("n_classes", voters.n_classes, 2, _MOST_ENTRIES)

    def cost(self, voters: Voters) -> GaussianCost:
        """Return the cost of one answer."""
        return GaussianCost.of_sum(self.law.sigma, variance=self.variance, entries=voters.n_classes)

    def analysis(self, voters: Voters) -> str:  # noqa: ARG002
        """Return the name and source of the analysis."""
        return (
            "exact trade-off of the Gaussian mechanism (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, "
            "Corollary 3.3); the noise drawn is a discrete Gaussian, whose difference is charged"
        )

    def whole(self, log_probs: Any) -> Integers:
        """Return probabilities in whole units, each voter's at most one unit long as a vector."""
        whole = np.floor(np.exp(np.minimum(log_probs, 0.0)) * _UNIT)
        # Lengths are enforced. A margin of 1e-9 pays for the rounding of root and product.
        lengths = np.sqrt(np.einsum("qvc,qvc->qv", whole, whole))
        factors = np.where(lengths <= _UNIT * (1 - 1e-9), 1.0, _UNIT * (1 - 2e-9) / np.maximum(lengths, 1.0))
        return np.floor(whole * factors[:, :, None]).astype(np.int64)

    def draw(self, votes: Integers, voters: Voters, noise: NoiseSource) -> Outcomes:
        """Draw the noise of sums that were already charged, one for each query."""
        payer = PaidSums(self.law.sigma, self.variance, votes.size)
        sums = SumReleaser(relation=voters.relation, meter=payer, noise=noise)
        means = sums.release(ProbabilitiesSum(), votes, 1.0, weight=voters.n_voters)
        return Outcomes(means.argmax(axis=1).tolist(), means.tolist())

    def with_noise(self, noise: float) -> Self:
        """Return the same release with other noise, in sensitivities."""
        return replace(self, law=GaussianSum(noise))
