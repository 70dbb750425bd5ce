"""How often a released label is wrong, and how many teachers make that rare."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import integer_between, real_between
from dpensemble.accounting import Meter
from dpensemble.budget import Budget
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import ConfidentNoisyMax, InteractiveNoisyMax, ReleaseLaw, mixed_probabilities
from dpensemble.planning.calibrate import calibrated, rough_noise
from dpensemble.planning.ensemble import Ensemble, Settings
from dpensemble.planning.plans import Plan, plan_of
from dpensemble.planning.settings import VotingMethod

_MOST_TEACHERS = 10_000_000


def wrong_label_rate(
    law: ReleaseLaw, n_teachers: int, margins: ArrayLike, n_classes: int = 2
) -> NDArray[np.float64]:
    """Return the probability that a released label is not the plurality's.

    With three or more classes the runner-up has all votes that the winner
    has not: the other classes have none, but their noise takes part.

    Parameters
    ----------
    law : ReleaseLaw
        The law that answers. For a gated law the rate is among answered queries.
    n_teachers : int
        Number of ballots. Public.
    margins : array-like of shape (n_margins,)
        Votes by which the winner leads the runner-up, from 0 to `n_teachers`; need not be whole.
    n_classes : int, default=2
        Declared classes.

    Returns
    -------
    ndarray of shape (n_margins,)
        At margin 0 one of the two counts as the winner.

    Raises
    ------
    InvalidParameterError
        If a margin is out of range.

    Examples
    --------
    Subsample-and-aggregate at its published scale, where 125, 200 and all of 250 teachers agree:

    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> wrong_label_rate(LaplaceNoisyMax(125), 250, [0, 150, 250]).round(3)
    array([0.5  , 0.241, 0.135])
    """
    answer = law.answer if isinstance(law, ConfidentNoisyMax | InteractiveNoisyMax) else law
    # The check's noise is independent of the label's, so among answered queries the label has its own law.
    right: NDArray[np.float64] = mixed_probabilities(answer, _counts(n_teachers, margins, n_classes))[:, 0]
    return 1 - right


def answer_rate(law: ReleaseLaw, n_teachers: int, margins: ArrayLike, n_classes: int = 2) -> NDArray[np.float64]:
    """Return the probability that a query is answered.

    Parameters
    ----------
    law, n_teachers, margins, n_classes
        As for `wrong_label_rate`.

    Returns
    -------
    ndarray of shape (n_margins,)
        1 for laws that always answer. For the interactive one, that of a student who knows nothing yet.

    Examples
    --------
    >>> law = ConfidentNoisyMax(threshold=200, threshold_sigma=50, sigma=40)
    >>> answer_rate(law, 250, [50, 150, 250]).round(3)
    array([0.159, 0.5  , 0.841])
    """
    counts = _counts(n_teachers, margins, n_classes)
    if isinstance(law, ConfidentNoisyMax | InteractiveNoisyMax):
        return law.gate.passing(counts[:, 0])
    return np.ones(len(counts))


def _counts(n_teachers: int, margins: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    n_teachers, n_classes = (
        integer_between("n_teachers", n_teachers, 1),
        integer_between("n_classes", n_classes, 2),
    )
    found = np.atleast_1d(np.asarray(margins, dtype=np.float64))
    if not np.all((found >= 0) & (found <= n_teachers)):
        raise InvalidParameterError(f"margins must be votes from 0 to n_teachers={n_teachers}.")
    counts = np.zeros((len(found), n_classes))
    counts[:, 0], counts[:, 1] = (n_teachers + found) / 2, (n_teachers - found) / 2
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallestEnsemble:
    """The fewest teachers whose labels are right often enough.

    Parameters
    ----------
    plan : Plan
        With the noise that they need.
    agreement : float
        Share of the teachers that vote for the winner; the rest vote for the runner-up.
    label_accuracy : float
        Probability that a label released for such a query is the winner.
    answer_rate : float
        Probability that such a query is answered.
    """

    plan: Plan
    agreement: float
    label_accuracy: float
    answer_rate: float


def smallest_ensemble(
    *,
    epsilon: float,
    delta: float,
    labels: int,
    agreement: float,
    label_accuracy: float,
    **settings: Unpack[Settings],
) -> SmallestEnsemble:
    """Find the fewest teachers whose labels are right often enough under a budget.

    The noise, in votes, is calibrated to the budget and hardly depends on the
    number of teachers; the votes by which a winner leads grow with it.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    labels : int
        Labels wanted.
    agreement : float
        Share of the teachers that vote for the winner, above 0.5; the rest vote for the runner-up.
    label_accuracy : float
        Wanted probability that a released label is the winner, from 0.5 to 0.999.
    **settings
        As for `Ensemble`, without noise. A `threshold` is read as a share of `n_teachers`.

    Returns
    -------
    SmallestEnsemble
        Satisfies the accuracy with its own calibrated noise; one teacher fewer (in
        each partition) would not, with theirs. Both were checked.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range.
    BudgetError
        If no noise or no ensemble is large enough.

    Examples
    --------
    >>> found = smallest_ensemble(epsilon=1, delta=1e-5, labels=100, agreement=0.8, label_accuracy=0.9,
    ...                           method="gnmax", accounting="published")
    >>> found.plan.n_teachers, round(found.plan.sigma, 1)
    (210, 69.3)
    """
    agreement = real_between("agreement", agreement, 0.501, 1.0)
    wanted = real_between("label_accuracy", label_accuracy, 0.5, 0.999)
    search = _Search(Ensemble(**settings), labels, Budget(epsilon=epsilon, delta=delta), agreement, wanted)
    return search.smallest()


class _Search:
    """Calibrates ensembles of different sizes, each once."""

    def __init__(
        self, ensemble: Ensemble, labels: int, budget: Budget, agreement: float, label_accuracy: float
    ) -> None:
        if ensemble.noise is not None:
            raise InvalidParameterError(
                f"{VotingMethod(ensemble.method).noise_name}={ensemble.noise!r} cannot be given; "
                "the smallest ensemble has the noise that its budget needs."
            )
        self._ensemble, self._budget = ensemble, budget
        self._labels = integer_between("labels", labels, 1)
        self._agreement, self._wanted = agreement, label_accuracy
        self._calibrated: dict[int, tuple[Ensemble, Meter]] = {}
        self._noise: float | None = None

    def smallest(self) -> SmallestEnsemble:
        """Return the fewest teachers that are enough with their own calibrated noise."""
        self._noise = rough_noise(self._ensemble, self._labels, self._budget)
        enough = self._needed_with(self._ensemble.with_noise(self._noise))
        while (needed := self._needed(enough)) > enough:
            enough = needed
        too_few = 0
        while enough - too_few > 1:
            guess = min(max(needed, too_few + 1), enough - 1)
            needed = self._needed(guess)
            too_few, enough = (too_few, guess) if needed <= guess else (guess, enough)
        ensemble, meter = self._calibrate(enough)
        margin, ballots = self._margin(enough), enough * ensemble.n_partitions
        return SmallestEnsemble(
            plan=plan_of(ensemble, meter, self._labels),
            agreement=self._agreement,
            label_accuracy=self._accuracy(ensemble, enough),
            answer_rate=float(answer_rate(ensemble.law, ballots, [margin], ensemble.n_classes)[0]),
        )

    def _needed(self, n_teachers: int) -> int:
        """Return how many teachers would be enough with the noise that so many need."""
        return self._needed_with(self._calibrate(n_teachers)[0])

    def _needed_with(self, ensemble: Ensemble) -> int:
        too_few, enough = 0, 1
        while self._accuracy(ensemble, enough) < self._wanted:
            too_few, enough = enough, 2 * enough
            if enough > _MOST_TEACHERS:
                raise BudgetError(
                    f"no ensemble of up to {_MOST_TEACHERS:,} teachers gives label_accuracy={self._wanted:g} for "
                    f"labels={self._labels} at epsilon={self._budget.epsilon:g}; ask for fewer labels or a "
                    "larger epsilon."
                )
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            right = self._accuracy(ensemble, middle) >= self._wanted
            too_few, enough = (too_few, middle) if right else (middle, enough)
        return enough

    def _calibrate(self, n_teachers: int) -> tuple[Ensemble, Meter]:
        if n_teachers not in self._calibrated:
            share = self._ensemble.threshold
            votes = None if share is None else share / self._ensemble.n_teachers * n_teachers
            ensemble = replace(self._ensemble, n_teachers=n_teachers, threshold=votes)
            found = calibrated(ensemble, self._labels, self._budget, self._noise)
            self._calibrated[n_teachers], self._noise = found, found[0].noise
        return self._calibrated[n_teachers]

    def _margin(self, n_teachers: int) -> float:
        """Return the votes by which the winner leads."""
        return (2 * self._agreement - 1) * n_teachers * self._ensemble.n_partitions

    def _accuracy(self, ensemble: Ensemble, n_teachers: int) -> float:
        ballots = n_teachers * ensemble.n_partitions
        return 1 - float(
            wrong_label_rate(ensemble.law, ballots, [self._margin(n_teachers)], ensemble.n_classes)[0]
        )
