"""Noise for a whole budget and, for laws with further settings, those that err least on the votes to expect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import integer_between
from dpensemble.design.base import VotingDesign
from dpensemble.design.noise import near_noise, with_least_noise
from dpensemble.design.quality import wrong_label_rate
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import LawChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastError:
    """The run that errs least, among several settings of its law, under one budget.

    Parameters
    ----------
    design : VotingDesign
        With its noise and those settings.
    expected_error : float or None
        Expected wrong-label rate under the prior; None where the law has no settings to try.
    errors : tuple of (object, float)
        Setting and about the expected wrong-label rate of all that were tried; at least that of what is clearly worse.
    """

    design: VotingDesign
    expected_error: float | None
    errors: tuple[tuple[Any, float], ...]


def with_least_error(
    design: VotingDesign, labels: int, *, prior: ArrayLike | None = None, values: tuple[Any, ...] | None = None
) -> LeastError:
    """Find the noise at which labels fit a budget, composed exactly, and the settings that then err least.

    Parameters
    ----------
    design : VotingDesign
        With its budget, and its noise left open.
    labels : int
        Labels wanted.
    prior : array-like of shape (n_ballots + 1,), optional
        Public. Chance of each margin by which the winner leads the runner-up; by default all are equally likely.
    values : tuple, optional
        Values of the law's further setting to try (of the optimal vote: shapes from 0.1 to 0.5); by default
        its `variants`, from the usual one to the first optimum.

    Returns
    -------
    LeastError

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, or the prior does not sum to 1.
    BudgetError
        If no noise up to a million votes is enough.
    AccountingError
        If three or more classes have too many histograms to list.

    Examples
    --------
    >>> from dpensemble.budget import Budget
    >>> from dpensemble.design import Partitioned
    >>> design = Partitioned(name="pate", choice=LawChoice.of("optimal"), n_teachers=50,
    ...                      budget=Budget(epsilon=2.0, delta=1e-5))
    >>> found = with_least_error(design, 20, values=(0.3,)).design
    >>> round(found.law.reach, 1), found.spent(20)[0] <= 2.0
    (56.1, True)
    """
    labels, weights = integer_between("labels", labels, 1), _prior(prior, design.ballots)
    variants = design.choice.kind.variants if design.searches_variants else {}
    name = next((name for name in variants if name not in design.choice.given), None)
    if name is None or not design.choice.noise_is_open:
        return LeastError(design=with_least_noise(design, labels), expected_error=None, errors=())
    if values == ():
        raise InvalidParameterError(f"values=() leaves no {name} to try; give at least one.")
    search = _Search(design, labels, weights, name)
    for value in values or ():
        search.error(value)
    if values is None:
        search.climb(variants[name])
    found = search.best()
    return LeastError(design=found, expected_error=search.expected(found), errors=tuple(sorted(search.errors.items())))


class _Search:
    """Compares values at about the noise that fits the labels."""

    def __init__(self, design: VotingDesign, labels: int, weights: NDArray[np.float64], name: str) -> None:
        self._design, self._labels, self._weights, self._name = design, labels, weights, name
        self.errors: dict[Any, float] = {}
        self._noise: dict[Any, float] = {}

    def with_value(self, value: object) -> VotingDesign:
        """Return the run with a value, its noise open."""
        choice = LawChoice.of(self._design.choice, **{self._name: value})
        return replace(self._design, choice=choice, noise=None)

    def expected(self, design: VotingDesign) -> float:
        """Return the expected wrong-label rate of a run."""
        ballots = len(self._weights) - 1
        wrong = wrong_label_rate(design.law, ballots, np.arange(ballots + 1), design.n_classes)
        return float(self._weights @ wrong)

    def error(self, value: object) -> float:
        """Return the expected wrong-label rate of a value, worked out once."""
        if value not in self.errors:
            design, best = self.with_value(value), min(self.errors.values(), default=1.0)
            # More noise errs more often, so what is worse than the best with too little noise need not be fitted.
            noise = near_noise(design, self._labels, lambda noise: self.expected(design.with_noise(noise)) > best)
            self.errors[value], self._noise[value] = self.expected(design.with_noise(noise)), noise
        return self.errors[value]

    def best(self) -> VotingDesign:
        """Return the run with the value that errs least, its noise fitted."""
        value = min(self.errors, key=self.error)
        return with_least_noise(self.with_value(value), self._labels, self._noise[value])

    def climb(self, values: tuple[Any, ...]) -> None:
        """Try neighbouring values for as long as they are better."""
        place = values.index(getattr(self._design.law, self._name))
        # First, so that what is clearly worse is seen to be.
        self.error(values[place])
        for step in (1, -1):
            while 0 <= place + step < len(values) and self.error(values[place + step]) < self.error(values[place]):
                place += step


def _prior(prior: ArrayLike | None, ballots: int) -> NDArray[np.float64]:
    if prior is None:
        return np.full(ballots + 1, 1 / (ballots + 1))
    weights = np.asarray(prior, dtype=np.float64)
    if weights.shape != (ballots + 1,) or not (np.all(weights >= 0) and abs(weights.sum() - 1) < 1e-9):
        raise InvalidParameterError(
            f"prior must be {ballots + 1} probabilities, of margins from 0 to {ballots} votes, that sum to 1."
        )
    return weights
