"""What a number of answers of one kind costs: the one thing that an aggregator needs to know of its law."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from dpensemble._checks import integer_between
from dpensemble.accounting.sums import gaussian_epsilon, gaussian_mu, slack_of
from dpensemble.budget import Budget
from dpensemble.cost import DEFAULT_ORDERS, PrivacyCost
from dpensemble.cost.privacy_cost import largest_count

#: More answers than anybody asks for.
MOST = 10**9


class RepeatedCost(ABC):
    """Cost of answers that are all drawn by one law; public, and the same whatever the votes are."""

    #: Name and source of the analysis, for the guarantee.
    accounting: str

    @abstractmethod
    def epsilon(self, answers: int, delta: float) -> float:
        """Return the epsilon of so many answers at a delta, rounded up; infinite if there is none.

        Parameters
        ----------
        answers : int
            From 0.
        delta : float
            Strictly between 0 and 1.
        """

    @abstractmethod
    def most(self, budget: Budget) -> int:
        """Return how many answers fit a budget; 0 if not even one does."""

    def renyi(self, answers: int) -> PrivacyCost | None:  # noqa: ARG002
        """Return the Renyi curve of so many answers; None if it has none."""
        return None

    def fits(self, answers: int, budget: Budget) -> bool:
        """Tell whether so many answers fit a budget."""
        return self.epsilon(answers, budget.delta) <= budget.epsilon


class RepeatedAnswers(RepeatedCost):
    """Answers of a law whose price is known as a `PrivacyCost`.

    Parameters
    ----------
    one : PrivacyCost
        Most that one answer can cost.
    accounting : str
        Name and source of the analysis.

    Examples
    --------
    >>> from dpensemble.accounting import Change, price
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> cost = RepeatedAnswers(price(LaplaceNoisyMax(3.0), Change(ballots=10, classes=2)).label, "exact")
    >>> cost.most(Budget(epsilon=3, delta=1e-5)), round(cost.epsilon(6, 1e-5), 1)
    (6, 2.8)
    """

    def __init__(self, one: PrivacyCost, accounting: str) -> None:
        self.one, self.accounting = one, accounting

    def epsilon(self, answers: int, delta: float) -> float:
        """Return the epsilon of so many answers at a delta."""
        return (self.one * integer_between("answers", answers, 0)).epsilon(delta)

    def fits(self, answers: int, budget: Budget) -> bool:
        """Tell whether so many answers fit a budget."""
        return (self.one * integer_between("answers", answers, 0)).fits(budget.epsilon, budget.delta)

    def most(self, budget: Budget) -> int:
        """Return how many answers fit a budget."""
        return largest_count(self.one, budget.epsilon, budget.delta, most=MOST)

    def renyi(self, answers: int) -> PrivacyCost:
        """Return the Renyi curve of so many answers."""
        return self.one * answers


class RepeatedSums(RepeatedCost):
    """Noisy sums of vectors, each with discrete Gaussian noise of its own; see `dpensemble.accounting.sums`.

    Parameters
    ----------
    sigma : float
        Noise in sensitivities.
    entries : int
        Entries of a sum.
    variance : int
        Variance of the discrete noise in squared whole units.

    Examples
    --------
    >>> cost = RepeatedSums(sigma=20.0, entries=10, variance=2**60)
    >>> cost.most(Budget(epsilon=1, delta=1e-5)), round(cost.epsilon(28, 1e-5), 3)
    (28, 0.986)
    """

    accounting = (
        "exact trade-off of the Gaussian mechanism (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary "
        "3.3); the noise drawn is a discrete Gaussian, whose difference is charged"
    )

    def __init__(self, *, sigma: float, entries: int, variance: int) -> None:
        self._square, self._slack = 1 / sigma**2, slack_of(entries, variance)

    def epsilon(self, answers: int, delta: float) -> float:
        """Return the epsilon of so many sums at a delta."""
        slack = self._slack * integer_between("answers", answers, 0)
        mu = math.sqrt(answers * self._square) * (1 + 1e-14)
        return gaussian_epsilon(mu, delta * math.exp(-slack)) + 2 * slack if answers else 0.0

    def most(self, budget: Budget) -> int:
        """Return how many sums fit a budget."""
        # An estimate, which rounding and slack can only lower.
        found = min(MOST, int(gaussian_mu(budget.epsilon, budget.delta) ** 2 / self._square * (1 + 1e-9)) + 1)
        while found and not self.fits(found, budget):
            found = found - 1 if found < 100 else int(found * (1 - 1e-6))
        return found

    def renyi(self, answers: int) -> PrivacyCost:
        """Return the Renyi curve of so many sums."""
        # Probabilities within a factor of exp(slack) on both sides: 2 order - 1 of them in the moment.
        slack = answers * self._slack * (2 * DEFAULT_ORDERS - 1) / (DEFAULT_ORDERS - 1)
        return PrivacyCost(rdp=DEFAULT_ORDERS * answers * self._square / 2 + slack)
