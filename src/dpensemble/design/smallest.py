"""The number of teachers that makes wrong labels rare."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpensemble._checks import integer_between, real_between
from dpensemble.design.noise import rough_noise, with_least_noise
from dpensemble.design.partitioned import Partitioned
from dpensemble.design.plan import Plan, plan_of
from dpensemble.design.quality import answer_rate, wrong_label_rate
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import LawChoice

_MOST_TEACHERS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallestEnsemble:
    """The fewest teachers whose labels are right often enough.

    Parameters
    ----------
    plan : Plan
        The plan with the noise that these teachers need.
    agreement : float
        Share of the teachers that vote for the winner. The rest vote for the runner-up.
    label_accuracy : float
        Probability that a label released for such a query is the winner.
    answer_rate : float
        Probability that such a query is answered.
    """

    plan: Plan
    agreement: float
    label_accuracy: float
    answer_rate: float


def smallest_ensemble(design: Partitioned, *, labels: int, agreement: float, label_accuracy: float) -> SmallestEnsemble:
    """Find the fewest teachers whose labels are right often enough under a budget.

    The noise, in votes, is calibrated to the budget and hardly depends on the number of teachers. The lead of a winner
    in votes grows with their number.

    Parameters
    ----------
    design : Partitioned
        The run with its budget, and its noise left open. A given `threshold` is a share of its `n_teachers`.
    labels : int
        Number of labels.
    agreement : float
        Share of the teachers that vote for the winner, above 0.5. The rest vote for the runner-up.
    label_accuracy : float
        Required probability that a released label is the winner, from 0.5 to 0.999.

    Returns
    -------
    SmallestEnsemble
        Satisfies the accuracy with its own calibrated noise. One teacher fewer (in each partition) would not, with its
        noise. Both are checked.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range.
    BudgetError
        If no noise or no ensemble is large enough.

    Examples
    --------
    >>> from dpensemble import Budget, PATEClassifier
    >>> design = PATEClassifier(accounting="published", epsilon=1, delta=1e-5).design()
    >>> plan = smallest_ensemble(design, labels=100, agreement=0.8, label_accuracy=0.9).plan
    >>> plan.design.n_teachers, round(plan.design.law.sigma, 1)
    (210, 69.3)
    """
    agreement = real_between("agreement", agreement, 0.501, 1.0)
    accuracy = real_between("label_accuracy", label_accuracy, 0.5, 0.999)
    return _Search(design, integer_between("labels", labels, 1), agreement, accuracy).smallest()


class _Search:
    """Calibrates ensembles of different sizes, each once."""

    def __init__(self, design: Partitioned, labels: int, agreement: float, label_accuracy: float) -> None:
        if not design.choice.noise_is_open:
            raise InvalidParameterError(
                f"the noise of {design.law!r:.80} must be left open; the smallest ensemble has the noise that its "
                "budget needs."
            )
        self._design, self._labels = design, labels
        self._agreement, self._wanted = agreement, label_accuracy
        self._calibrated: dict[int, Partitioned] = {}
        self._noise: float | None = None

    def smallest(self) -> SmallestEnsemble:
        """Return the fewest teachers that are enough with their own calibrated noise."""
        self._noise = rough_noise(self._design, self._labels)
        enough = self._needed_with(self._design.with_noise(self._noise))
        while (needed := self._needed(enough)) > enough:
            enough = needed
        too_few = 0
        while enough - too_few > 1:
            guess = min(max(needed, too_few + 1), enough - 1)
            needed = self._needed(guess)
            too_few, enough = (too_few, guess) if needed <= guess else (guess, enough)
        design = self._calibrate(enough)
        answered = answer_rate(design.law, design.ballots, [self._margin(enough)], design.n_classes)
        return SmallestEnsemble(
            plan=plan_of(design, self._labels),
            agreement=self._agreement,
            label_accuracy=self._accuracy(design, enough),
            answer_rate=float(answered[0]),
        )

    def _needed(self, n_teachers: int) -> int:
        """Return how many teachers would be enough with the noise that `n_teachers` teachers need."""
        return self._needed_with(self._calibrate(n_teachers))

    def _needed_with(self, design: Partitioned) -> int:
        too_few, enough = 0, 1
        while self._accuracy(design, enough) < self._wanted:
            too_few, enough = enough, 2 * enough
            if enough > _MOST_TEACHERS:
                epsilon = self._design.groups[0].budget.epsilon
                raise BudgetError(
                    f"no ensemble of up to {_MOST_TEACHERS:,} teachers gives label_accuracy={self._wanted:g} for "
                    f"labels={self._labels} at epsilon={epsilon:g}: ask for fewer labels or a "
                    "larger epsilon."
                )
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            right = self._accuracy(design, middle) >= self._wanted
            too_few, enough = (too_few, middle) if right else (middle, enough)
        return enough

    def _calibrate(self, n_teachers: int) -> Partitioned:
        if n_teachers not in self._calibrated:
            choice = self._design.choice
            if "threshold" in choice.given:
                votes = choice.given["threshold"] / self._design.n_teachers * n_teachers
                choice = LawChoice.of(choice, threshold=votes)
            design = replace(self._design, n_teachers=n_teachers, choice=choice)
            calibrated = with_least_noise(design, self._labels, self._noise)
            self._calibrated[n_teachers], self._noise = calibrated, calibrated.noise
        return self._calibrated[n_teachers]

    def _margin(self, n_teachers: int) -> float:
        """Return the votes by which the winner leads."""
        return (2 * self._agreement - 1) * n_teachers * self._design.n_partitions

    def _accuracy(self, design: Partitioned, n_teachers: int) -> float:
        ballots = n_teachers * design.n_partitions
        return 1 - float(wrong_label_rate(design.law, ballots, [self._margin(n_teachers)], design.n_classes)[0])
