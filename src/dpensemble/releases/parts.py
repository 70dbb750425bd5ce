r"""Noise of one sum that several sites draw in parts, so that nobody ever holds the sum without noise.

Each of ``n`` sites adds discrete Gaussian noise of variance ``s = ceil(v / (n - c))`` to its own exact sum, where ``v``
is the variance that the sum is charged for. The parts of any ``n - c`` sites then have the variance ``(n - c) s >= v``.
So up to ``c`` sites may show their parts to each other and to the coordinator. A site that trusts fewer others draws a
larger part of its own.

A sum of discrete Gaussians is nearly a discrete Gaussian (P. Kairouz, Z. Liu and T. Steinke, arXiv 2102.06387, 2021).
The largest logarithm of the ratio of both laws is bounded on both sides. For ``m`` parts of variance ``s >= 1/4`` the
bound is

    5 (exp(-pi**2 s) + exp(-2 pi**2 s 2 / 3) + ... + exp(-2 pi**2 s (m - 1) / m)),    at most 5 m exp(-pi**2 s),

one part after the other. ``docs/proofs/sites.md`` derives the bound of two parts. Here ``s >= 2**20``, so the bound is
below ``exp(-10**7)``.
The slack of 181 / v that `dpensemble.cost.gaussian` charges for an entry leaves 0.3 / v, which covers the bound:
``5 m exp(-pi**2 s) <= 0.3 / (m s)`` for ``m <= 1000``. A larger part of some site only adds noise that does not depend
on the records, which is a function of what was charged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpensemble._checks import integer_between, real_between
from dpensemble.accounting.base import EVERYONE, Group
from dpensemble.cost import GaussianCost, gaussian_mu
from dpensemble.cost.gaussian import gaussian_epsilon
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.releases.sums import SumsMeter

#: Sites of a run, at most.
MOST_SITES = 1000
# Smallest variance of a part, in squared whole units. The bound above holds from there on.
_SMALLEST_PART = 2**20


@dataclass(frozen=True, slots=True)
class SiteNoise:
    """How sites share the noise of each sum. Public.

    Parameters
    ----------
    n_sites : int
        Number of sites, from `colluding` + 2.
    colluding : int
        Number of sites, from 1, that may show what they know to each other and to the coordinator.
    least : tuple of float
        For each site, the least share from 0 to 1 of the charged variance that the site draws itself.

    Examples
    --------
    >>> noise = SiteNoise(5, 1, (0, 0, 0, 0, 1))
    >>> noise.drawn(2**60, 0) == 2**58, noise.drawn(2**60, 4) == 2**60, noise.charged(2**60) == 2**60
    (True, True, True)
    """

    n_sites: int
    colluding: int
    least: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        colluding = integer_between("colluding", self.colluding, 1, MOST_SITES - 2)
        n_sites = integer_between("n_sites", self.n_sites, 1, MOST_SITES)
        if n_sites < colluding + 2:
            raise InvalidParameterError(
                f"n_sites={n_sites} must be at least {colluding + 2}, two more than colluding={colluding}: a sum of "
                "fewer sites shows too much of one of them.",
                parameter="n_sites",
            )
        least = tuple(real_between("least share of a site's own noise", one, 0.0, 1.0) for one in self.least)
        if len(least) not in (0, n_sites):
            raise InvalidParameterError(f"least has {len(least)} shares, but there are {n_sites} sites: give one each.")
        object.__setattr__(self, "least", least or (0.0,) * n_sites)

    def drawn(self, variance: int, site: int) -> int:
        """Return the variance that a site draws for a sum that is charged for some variance, rounded up."""
        own = Fraction(self.least[site]) * variance
        return max(self._part(variance), -(-own.numerator // own.denominator))

    def charged(self, variance: int) -> int:
        """Return the least variance of the parts of any ``n_sites - colluding`` sites, at least `variance`."""
        return (self.n_sites - self.colluding) * self._part(variance)

    def opened(self, variance: int) -> int:
        """Return the variance of the parts of all sites."""
        return sum(self.drawn(variance, site) for site in range(self.n_sites))

    def _part(self, variance: int) -> int:
        return max(-(-variance // (self.n_sites - self.colluding)), _SMALLEST_PART)

    def factor(self, honest: int) -> float:
        """Return by what the Gaussian privacy is multiplied if `honest` sites show nothing of their noise.

        This is ``sqrt((n_sites - colluding) / honest)``: 1 for as few as the account assumes, and less for more sites.
        """
        honest = integer_between("honest", honest, 1, self.n_sites)
        return float(((self.n_sites - self.colluding) / honest) ** 0.5)


class SiteSumsMeter(SumsMeter):
    """Charges the sums of one site: those of a run, and sums that are drawn again after an attempt was lost.

    Parameters
    ----------
    budget : Budget
        Epsilon and delta of a run in which no attempt is lost.
    attempts : int
        Most attempts. Each lost attempt costs one sum more, at most.
    record : callable, optional
        Gets each charge before its noise is drawn, and may refuse it by an error. For example, it charges a ledger.

    Attributes
    ----------
    budget_of_run : Budget
        The given budget. `groups` has the larger budget of a run that needs all attempts.

    Examples
    --------
    >>> meter = SiteSumsMeter(Budget(epsilon=1, delta=1e-5), attempts=2)
    >>> round(meter.sigma(1.0), 3), round(meter.groups[0].budget.epsilon, 3)
    (3.731, 1.465)
    """

    def __init__(
        self, budget: Budget, attempts: int, record: Callable[[dict[str, Any]], None] = lambda _: None
    ) -> None:
        attempts = integer_between("attempts", attempts, 1, 100)
        mu = gaussian_mu(budget.epsilon * (1 - 1e-7), budget.delta * (1 - 1e-7))
        # As for one attempt, a small reserve pays for the noise's rounding.
        most = gaussian_epsilon(mu * attempts**0.5 * (1 + 1e-9), budget.delta * (1 - 1e-7)) * (1 + 2e-7)
        worst = Budget(epsilon=max(most, budget.epsilon), delta=budget.delta)
        super().__init__([Group(EVERYONE, worst)])
        self.mu, self.budget_of_run, self._keep = mu, budget, record

    def _record(self, charge: dict[str, Any]) -> None:
        """Record a charge where it outlives this process."""
        self._keep(charge)

    def charge_again(self, charges: Sequence[dict[str, Any]]) -> None:
        """Charge for sums that were recorded before, such as those of a process that ended."""
        keep, self._keep = self._keep, lambda _: None
        try:
            for each in charges:
                self.charge(**each)
        finally:
            self._keep = keep

    def cost(self) -> GaussianCost:
        """Return the cost of all sums charged so far."""
        return self._costs[0]


def larger_cost(teaching: GaussianCost, held: GaussianCost) -> GaussianCost:
    """Return what sums of two parts of the units cost a unit, which is in one of the parts.

    A person at ``k`` sites has records in the first part at ``a`` of them, and in the second one at ``k - a``. Their
    squares add up to at most ``a**2 s + (k - a)**2 t <= k**2 max(s, t)``. Both slacks are charged in any case.

    Examples
    --------
    >>> larger_cost(GaussianCost(0.5), GaussianCost(0.3)).squares
    0.5
    """
    return GaussianCost(max(teaching.squares, held.squares), teaching.slack + held.slack)


def epsilon_at(cost: GaussianCost, delta: float, *, factor: float = 1.0, sites: int = 1) -> float:
    """Return the epsilon of a unit with records at some sites, if `SiteNoise.factor` is as given.

    A unit at ``k`` sites moves the sum of all sites by ``k`` sensitivities at most, by the triangle inequality.

    Examples
    --------
    >>> cost = GaussianCost.of_sum(3.731, variance=2**60, entries=10)
    >>> [round(epsilon_at(cost, 1e-5, sites=sites), 2) for sites in (1, 2)]
    [1.0, 2.15]
    """
    times = real_between("factor", factor, 1e-3, 1.0) * integer_between("sites", sites, 1, MOST_SITES)
    return GaussianCost(cost.squares * times**2, cost.slack).epsilon(delta)
