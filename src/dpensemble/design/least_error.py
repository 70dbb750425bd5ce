"""Noise for a whole budget and, for laws with further settings, the settings that err least on expected votes."""

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
    """The run with the least error among several settings of its law, under one budget.

    Parameters
    ----------
    design : VotingDesign
        The run with its noise and those settings.
    expected_error : float or None
        Expected wrong-label rate under the prior, or None if the law has no settings to try.
    errors : tuple of (object, float)
        Every setting that was tried, with roughly its expected wrong-label rate. A clearly worse setting has a lower
        bound.
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
        The run with its budget, and its noise left open.
    labels : int
        Number of labels.
    prior : array-like of shape (n_ballots + 1,), optional
        Chance of each margin by which the winner leads the runner-up. By default all are equally likely. Public.
    values : tuple, optional
        Values of the law's further setting to try (of the optimal vote: shapes from 0.1 to 0.5). By default
        its `variants`, from the usual value to the first optimum.

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
    >>> best = with_least_error(design, 20, values=(0.3,)).design
    >>> round(best.law.reach, 1), best.spent(20)[0] <= 2.0
    (56.1, True)
    """
    labels, weights = integer_between("labels", labels, 1), _prior(prior, design.ballots)
    variants = design.choice.kind.variants if design.searches_variants else {}
    name = next((name for name in variants if name not in design.choice.given), None)
    if name is None or not design.choice.noise_is_open:
        return LeastError(design=with_least_noise(design, labels), expected_error=None, errors=())
    if values == ():
        raise InvalidParameterError(f"values=() leaves no {name} to try: give at least one.")
    search = _Search(design, labels, weights, name)
    for value in values or ():
        search.error(value)
    if values is None:
        search.climb(variants[name])
    best = search.best()
    return LeastError(design=best, expected_error=search.expected(best), errors=tuple(sorted(search.errors.items())))


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
        """Return the expected wrong-label rate of a value, computed once."""
        if value not in self.errors:
            design, best = self.with_value(value), min(self.errors.values(), default=1.0)
            # More noise errs more often, so a value that errs more than the best with too little noise need not be
            # fitted.
            noise = near_noise(design, self._labels, lambda noise: self.expected(design.with_noise(noise)) > best)
            self.errors[value], self._noise[value] = self.expected(design.with_noise(noise)), noise
        return self.errors[value]

    def best(self) -> VotingDesign:
        """Return the run with the value that errs least, with its noise fitted."""
        value = min(self.errors, key=self.error)
        return with_least_noise(self.with_value(value), self._labels, self._noise[value])

    def climb(self, values: tuple[Any, ...]) -> None:
        """Try neighbouring values as long as they are better."""
        place = values.index(getattr(self._design.law, self._name))
        # First, so that clearly worse values are recognised.
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
