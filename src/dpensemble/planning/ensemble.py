"""A voting ensemble by its public settings: which law answers, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import numpy as np

from dpensemble._checks import integer_between, member
from dpensemble.accounting import (
    Accounting,
    Meter,
    gated_cost,
    published_cost,
    published_gated_cost,
    worst_case_cost,
    worst_case_meter,
)
from dpensemble.budget import Budget
from dpensemble.cost import Conversion, PrivacyCost
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ConfidentNoisyMax, InteractiveNoisyMax, ReleaseLaw
from dpensemble.planning.settings import THRESHOLD_NOISE_RATIO, VotingMethod, law_of


class Settings(TypedDict, total=False):
    """Keyword arguments of `Ensemble`."""

    n_teachers: int
    method: str
    n_partitions: int
    n_classes: int
    scale: float | None
    sigma: float | None
    reach: float | None
    shape: float | None
    threshold: float | None
    threshold_sigma: float | None
    accounting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """Everything public that decides what an answer costs and how often it is right.

    Parameters
    ----------
    n_teachers : int, default=250
        Teachers in each partition.
    method : VotingMethod or str, default="saa"
        Short name of the method.
    n_partitions : int, default=1
        Partitions; more than one for ``"dpbag"`` and ``"optimal"`` only.
    n_classes : int, default=2
        Declared classes.
    scale, sigma : float, optional
        Noise on the answer in votes: `scale` for Laplace noise (saa, dpbag,
        lnmax), `sigma` for Gaussian. Defaults as for `law_of`.
    reach, shape : float, optional
        Optimal vote only; see `dpensemble.laws.OptimalVote`.
    threshold, threshold_sigma : float, optional
        Gated methods only, in votes.
    accounting : {"exact", "published"}, default="exact"
        What the label alone reveals, or the published bound.

    Attributes
    ----------
    law : ReleaseLaw
        The law that answers.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range or no setting of the method.

    Examples
    --------
    >>> Ensemble(n_teachers=250, accounting="published").law
    LaplaceNoisyMax(scale=125.0)
    """

    n_teachers: int = 250
    method: str = VotingMethod.SAA
    n_partitions: int = 1
    n_classes: int = 2
    scale: float | None = None
    sigma: float | None = None
    reach: float | None = None
    shape: float | None = None
    threshold: float | None = None
    threshold_sigma: float | None = None
    accounting: str = Accounting.EXACT
    law: ReleaseLaw = field(init=False)

    def __post_init__(self) -> None:
        method = member("method", self.method, VotingMethod)
        member("accounting", self.accounting, Accounting)
        integer_between("n_classes", self.n_classes, 2)
        for foreign in ("scale", "sigma", "reach"):
            if foreign != method.noise_name and getattr(self, foreign) is not None:
                raise InvalidParameterError(
                    f"{foreign}={getattr(self, foreign)!r} is no setting of method {method.value!r}; "
                    f"give {method.noise_name} instead."
                )
        if method is VotingMethod.OPTIMAL and self.accounting == Accounting.PUBLISHED:
            raise InvalidParameterError(
                "accounting='published' has no price for method 'optimal', which no paper covers; use 'exact'."
            )
        gate = {"threshold": self.threshold, "threshold_sigma": self.threshold_sigma}
        gate["shape"] = self.shape
        law = law_of(
            method, self.n_teachers, self.n_partitions, noise=self.noise, n_classes=self.n_classes, **gate
        )
        object.__setattr__(self, "law", law)

    @property
    def noise(self) -> float | None:
        """The noise on the answer that was asked for, in votes; None for the default."""
        return next((noise for noise in (self.scale, self.sigma, self.reach) if noise is not None), None)

    @property
    def has_published(self) -> bool:
        """Whether there is a published price to compare with."""
        return VotingMethod(self.method) is not VotingMethod.OPTIMAL

    @property
    def gated(self) -> bool:
        """Whether a query is answered only where it passes a noisy threshold."""
        return VotingMethod(self.method).gated

    @property
    def conversion(self) -> Conversion:
        """How the cost of a number of answers becomes an epsilon."""
        accounting = Accounting(self.accounting)
        # A filter, needed where the number of answers is random, works on a Renyi curve.
        return Conversion.IMPROVED if self.gated and accounting is Accounting.EXACT else accounting.conversion

    def with_noise(self, noise: float) -> Ensemble:
        """Return the ensemble with other noise on its answers.

        Noise on the threshold that was not asked for changes in proportion.

        Parameters
        ----------
        noise : float
            Laplace scale, Gaussian standard deviation or reach of the optimal vote, in votes.
        """
        changes: dict[str, Any] = {VotingMethod(self.method).noise_name: noise}
        if self.gated and self.threshold_sigma is None:
            changes["threshold_sigma"] = noise * THRESHOLD_NOISE_RATIO
        return replace(self, **changes)

    def one_query(self) -> PrivacyCost:
        """Return the most that one answered query can cost; it is what `meter` charges."""
        reach = {"n_classes": self.n_classes, "n_teachers": self.n_teachers * self.n_partitions}
        votes = self.n_partitions
        exact = Accounting(self.accounting) is Accounting.EXACT
        if isinstance(self.law, ConfidentNoisyMax | InteractiveNoisyMax):
            gated = (
                gated_cost(self.law, votes_per_unit=votes, **reach)
                if exact
                else published_gated_cost(self.law, votes_per_unit=votes)
            )
            return gated.check + gated.label
        return (
            worst_case_cost(self.law, votes_per_unit=votes, **reach) if exact else published_cost(self.law, votes)
        )

    def meter(self, budget: Budget) -> Meter:
        """Return the meter that a run with these settings uses."""
        return worst_case_meter(
            self.law,
            n_teachers=self.n_teachers * self.n_partitions,
            n_classes=self.n_classes,
            votes_per_unit=self.n_partitions,
            budget=budget,
            accounting=Accounting(self.accounting),
        )


def spend_curve(
    one: PrivacyCost,
    most: int,
    delta: float,
    conversion: str = Conversion.BEST,
    n_points: int = 40,
) -> list[tuple[int, float]]:
    """Return the epsilon of numbers of answers up to the most, evenly spread.

    Parameters
    ----------
    one : PrivacyCost
        Cost of one answer.
    most : int
        Largest number of answers.
    delta : float
        Delta of the guarantee.
    conversion : Conversion or str, default="best"
        As for `PrivacyCost.epsilon`.
    n_points : int, default=40
        Largest number of points.

    Returns
    -------
    list of (int, float)
        Ascending; the last is `most`.

    Examples
    --------
    >>> one = Ensemble(n_teachers=50, accounting="published").one_query()
    >>> [(n, round(spent, 3)) for n, spent in spend_curve(one, 10, 1e-3, "classical Renyi conversion", 2)]
    [(1, 0.301), (10, 0.973)]
    """
    counts = np.unique(np.linspace(1, most, min(n_points, most)).astype(int)).tolist()
    # The largest first, so that one composition is laid out for all of them.
    last = (one * most).epsilon(delta, conversion)
    return [(count, (one * count).epsilon(delta, conversion)) for count in counts[:-1]] + [(most, last)]
