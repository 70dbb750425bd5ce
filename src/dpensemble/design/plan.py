"""Labels, epsilon and noise: any two give the third, before any record is touched.

The noise is the smallest at which a number of labels fits the budgets of all groups. If a law has further settings,
those that err least on expected votes are chosen. From how often a released label is wrong follows the number of
teachers that makes wrong labels rare.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import ShownAsSentences, delta_of, integer_between, real_between, round_up
from dpensemble.accounting import Accounting
from dpensemble.cost import Conversion
from dpensemble.design.voting import Partitioned, VotingDesign
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import LawChoice, ReleaseLaw, mixed_probabilities

_AnyDesign = TypeVar("_AnyDesign", bound=VotingDesign)

# Range of noise in votes to try. Below and above it, answers hardly change.
_LEAST, _MOST = 0.01, 1e6
# Relative precision of the noise.
_PRECISION, _NEAR = 5e-4, 2e-3
# Epsilon falls about with the first power of the noise, or faster.
_SLOPE, _FLATTEST, _STEEPEST = -1.1, -0.5, -4.0
_LONGEST_STEP = math.log(10)
# With exact composition, answers need about this share of the noise that a Renyi curve requires.
_EXACT_SHARE = 0.925


def with_least_noise(design: _AnyDesign, labels: int, start: float | None = None) -> _AnyDesign:
    """Return the run with the smallest noise at which `labels` labels fit the budgets of all groups.

    Its noise is about a share `_PRECISION` above the smallest. Its checked meter admits at least `labels`, even if a
    gate lets every query pass. The search begins at `start`.
    """
    labels = integer_between("labels", labels, 1)
    if not design.choice.noise_is_open:
        raise InvalidParameterError(
            f"labels={labels} and the noise of {design.law!r:.80} cannot both be given: leave one out, and the library "
            "finds it."
        )
    start = _rough_noise(design, labels) if start is None else start
    design = design.with_noise(start).settled()
    noise = _smallest_noise(lambda noise: _share_spent(design.with_noise(noise), labels), start, 1.0)
    # The meter may round differently from the search. Growing steps end for every difference.
    step = _PRECISION / 10
    while noise is not None and noise <= _MOST:
        candidate = design.with_noise(noise)
        if candidate.meter(labels).sure_queries >= labels:
            return candidate
        noise, step = noise * (1 + step), 2 * step
    raise _none_fits(design, labels)


def _rough_noise(design: VotingDesign, labels: int) -> float:
    """Return about the smallest noise at which `labels` labels fit, without composing them exactly."""
    best = design.conversion is Conversion.BEST
    design = _with_quick_price(design) if best else design
    conversion = Conversion.IMPROVED if best else design.conversion
    noise = _smallest_noise(lambda noise: _share_spent(design.with_noise(noise), labels, conversion), 1.0, 1.0)
    if noise is None:
        raise _none_fits(design, labels)
    return max(_LEAST, noise * _EXACT_SHARE) if best else noise


def _near_noise(design: VotingDesign, labels: int, hopeless: Callable[[float], bool]) -> float:
    """Return the smallest noise at which `labels` labels fit, to a share `_NEAR`, or less if already hopeless."""
    quick, rough = _with_quick_price(design), _rough_noise(design, labels)
    noise = _smallest_noise(lambda noise: _share_spent(quick.with_noise(noise), labels), rough, 1.0, _NEAR, hopeless)
    if noise is None:
        raise _none_fits(design, labels)
    return noise


def _with_quick_price(design: _AnyDesign) -> _AnyDesign:
    """Return the run with two classes, which cost about as much, if listing more classes could take seconds."""
    return replace(design, n_classes=2) if design.n_classes > 2 else design


def _none_fits(design: VotingDesign, labels: int) -> BudgetError:
    gate = ", a larger threshold_sigma" if design.gated else ""
    budget = design.groups[0].budget
    return BudgetError(
        f"labels={labels} do not fit epsilon={budget.epsilon:g} at delta={budget.delta:g} with any noise up to "
        f"{_MOST:,.0f} votes: ask for fewer labels{gate} or a larger epsilon."
    )


def _share_spent(design: VotingDesign, labels: int, conversion: Conversion | None = None) -> float:
    """Return the largest share of any group's budget that `labels` labels take."""
    spent = design.spent(labels, conversion)
    return max(epsilon / group.budget.epsilon for epsilon, group in zip(spent, design.groups, strict=True))


def _smallest_noise(
    epsilon_at: Callable[[float], float],
    start: float,
    epsilon: float,
    precision: float = _PRECISION,
    hopeless: Callable[[float], bool] = lambda _: False,
) -> float | None:
    """Return the smallest noise, to a share `precision`, whose epsilon is within a budget, or None above 1e6 votes.

    A noise that is too small and `hopeless` nevertheless is returned at once.
    """
    # The last two points, on logarithmic axes, give the next one. The answer stays between the largest noise that was
    # too small and the smallest that was enough.
    low, high, guess, slope = _LEAST, math.inf, start, _SLOPE
    last: tuple[float, float] | None = None
    while True:
        log_ratio = math.log(max(epsilon_at(guess), 1e-12) / epsilon)
        if log_ratio <= 0:
            high = guess
        elif hopeless(guess):
            return guess
        else:
            low = guess
        if -precision * abs(slope) / 2 <= log_ratio <= 0 or high <= low * (1 + precision / 2):
            return high
        if low >= _MOST:
            return None
        here = math.log(guess)
        if last is not None and here != last[0]:
            slope = min(_FLATTEST, max(_STEEPEST, (log_ratio - last[1]) / (here - last[0])))
        last = (here, log_ratio)
        # Aim slightly inside the budget, so that a good guess is a safe one.
        step = -log_ratio / slope + precision / 4
        guess = math.exp(here + max(-_LONGEST_STEP, min(_LONGEST_STEP, step)))
        guess = min(max(guess, _LEAST), _MOST)
        if not low < guess < high:
            guess = math.sqrt(low * min(high, _MOST))


def wrong_label_rate(law: ReleaseLaw, n_teachers: int, margins: ArrayLike, n_classes: int = 2) -> NDArray[np.float64]:
    """Return the probability that a released label is not the plurality's.

    With three or more classes the runner-up has all votes that the winner does not have. The other classes have no
    votes, but their noise takes part.

    Parameters
    ----------
    law : ReleaseLaw
        The law that answers. For a gated law the rate is among answered queries.
    n_teachers : int
        Number of ballots. Public.
    margins : array-like of shape (n_margins,)
        Votes by which the winner leads the runner-up, from 0 to `n_teachers`. Need not be whole.
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
    Subsample-and-aggregate at its published scale, when 125, 200 and all of 250 teachers agree:

    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> wrong_label_rate(LaplaceNoisyMax(125), 250, [0, 150, 250]).round(3)
    array([0.5  , 0.241, 0.135])
    """
    answer = law.answer if law.gated else law  # type: ignore[attr-defined]
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
        1 for laws that always answer. For the interactive law, the rate with a student that knows nothing yet.

    Examples
    --------
    >>> from dpensemble.laws import ConfidentNoisyMax
    >>> law = ConfidentNoisyMax(threshold=200, threshold_sigma=50, sigma=40)
    >>> answer_rate(law, 250, [50, 150, 250]).round(3)
    array([0.159, 0.5  , 0.841])
    """
    counts = _counts(n_teachers, margins, n_classes)
    if law.gated:
        passing: NDArray[np.float64] = law.gate.passing(counts[:, 0])  # type: ignore[attr-defined]
        return passing
    return np.ones(len(counts))


def _counts(n_teachers: int, margins: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    n_teachers, n_classes = integer_between("n_teachers", n_teachers, 1), integer_between("n_classes", n_classes, 2)
    leads = np.atleast_1d(np.asarray(margins, dtype=np.float64))
    if not np.all((leads >= 0) & (leads <= n_teachers)):
        raise InvalidParameterError(f"margins must be votes from 0 to n_teachers={n_teachers}.")
    counts = np.zeros((len(leads), n_classes))
    counts[:, 0], counts[:, 1] = (n_teachers + leads) / 2, (n_teachers - leads) / 2
    return counts


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
    >>> from dpensemble.guarantee import Budget
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
    search = _LeastErrorSearch(design, labels, weights, name)
    for value in values or ():
        search.error(value)
    if values is None:
        search.climb(variants[name])
    best = search.best()
    return LeastError(design=best, expected_error=search.expected(best), errors=tuple(sorted(search.errors.items())))


class _LeastErrorSearch:
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
            noise = _near_noise(design, self._labels, lambda noise: self.expected(design.with_noise(noise)) > best)
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


_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The plan for the records of one group.

    Parameters
    ----------
    name : str
        Name of the group.
    budget, epsilon : float
        Allowed epsilon, and the epsilon of the labels. A gated run always spends all of its budget.
    settings : dict
        What distinguishes the group, if budgets differ.
    """

    name: str
    budget: float
    epsilon: float
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(ShownAsSentences):
    """How many labels a budget buys, for every possible content of the private records.

    Parameters
    ----------
    design : VotingDesign
        The run, with its budget and noise.
    labels : int
        Number of labels that fit the budgets of all groups. For gated laws, if every query is answered.
    most_queries : int or None
        For gated laws only: number of queries that fit if none is answered.
    conversion : str
        Name of the conversion that gave `epsilon_spent`.
    groups : tuple of GroupPlan
        One group if all records are treated alike. Otherwise the strictest group comes first.
    extras : dict
        Further fields of the method.
    """

    design: VotingDesign
    labels: int
    most_queries: int | None
    conversion: str
    groups: tuple[GroupPlan, ...]
    extras: dict[str, Any]

    def __str__(self) -> str:
        """Return the plan in one line."""
        title, law = self.design.title or self.design.name, self.design.law
        return f"{title}: {self.labels:,} labels at epsilon {self.epsilon_spent:.6g}, delta {self.delta:g}, of {law!r}"

    @property
    def epsilon(self) -> float:
        """Epsilon of the budget: the largest of any group."""
        return max(group.budget for group in self.groups)

    @property
    def delta(self) -> float:
        """Delta of the budget."""
        return self.design.groups[0].budget.delta

    @property
    def epsilon_spent(self) -> float:
        """Epsilon of that many labels: the largest of any group."""
        return max(group.epsilon for group in self.groups)

    @property
    def labels_in_paper_convention(self) -> int | None:
        """The count including the query that breaches the budget, as in the DPBag paper. None for other papers."""
        published = self.design.accounting is Accounting.PUBLISHED
        return self.labels + 1 if published and self.design.counts_the_breach else None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, ready for JSON."""
        values: dict[str, Any] = {
            "labels": self.labels,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "epsilon_spent": self.epsilon_spent,
            "most_queries": self.most_queries,
            "labels_in_paper_convention": self.labels_in_paper_convention,
            "conversion": self.conversion,
        }
        values = {"method": self.design.name} | values | self.design.settings() | self.extras
        if len(self.groups) > 1:
            values["groups"] = [
                {"name": group.name, "budget": group.budget, "epsilon": group.epsilon} | group.settings
                for group in self.groups
            ]
        return values


def plan(
    design: VotingDesign, *, epsilon: float | None = None, labels: int | None = None, delta: float | None = None
) -> Plan:
    """Find the third of epsilon, number of labels and noise from the other two.

    Parameters
    ----------
    design : VotingDesign
        The run. For example, ``PATEClassifier(n_teachers=250).design(n_classes=2)``. If groups have budgets of their
        own, labels follow from those, or the noise from those and `labels`.
    epsilon : float, optional
        Epsilon of the budget.
    labels : int, optional
        Number of labels. For gated laws, if every query is answered. With a budget, the open noise is found.
    delta : float, optional
        Delta of the budget. By default that of the design: 1e-5, unless its method was given a delta or a number of
        records.

    Returns
    -------
    Plan
        A run with its budget and noise answers at least `labels` queries, which is checked. A noise that was found is
        at most 0.05 % above the smallest that would do. An epsilon that was found has six digits.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, all three are given, or neither epsilon nor labels.
    BudgetError
        If the budget does not cover one label (the message names the smallest that would), or no noise is enough.

    Examples
    --------
    >>> from dpensemble import SubsampleAggregateClassifier
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> published = SubsampleAggregateClassifier(accounting="published").design()
    >>> plan(published, epsilon=1).labels, plan(published, labels=162).epsilon
    (162, 0.998...)
    >>> round(plan(published, epsilon=1, labels=162).design.law.scale)
    125
    """
    labels = None if labels is None else integer_between("labels", labels, 1)
    by_group = design.has_budgets
    delta = _delta_of(design) if delta is None else delta
    if by_group and epsilon is not None:
        design.with_budget(Budget(epsilon=epsilon, delta=delta))
    if epsilon is None and labels is None and not by_group:
        raise InvalidParameterError(
            "epsilon=None and labels=None leave nothing to plan for: give at least one of them."
        )
    if epsilon is not None:
        design = design.with_budget(Budget(epsilon=epsilon, delta=delta))
    if labels is None:
        meter = design.meter()
        meter.require_one_query()
        return _plan_of(design, meter.sure_queries)
    if epsilon is None and not by_group:
        return _plan_of(_with_least_epsilon(design, labels, delta_of(delta)), labels)
    if not design.choice.noise_is_open:
        name = (*design.choice.kind.in_votes, "law")[0]
        settings = f"labels={labels} and {name}={getattr(design.law, name, design.law)!r:.80} cannot"
        settings = f"{settings} both" if by_group else f"epsilon={epsilon!r}, {settings} all"
        raise InvalidParameterError(f"{settings} be given: leave one out, and the library finds it.")
    best = with_least_error(design, labels).design
    return _plan_of(best, best.meter().sure_queries if by_group else labels)


def _delta_of(design: VotingDesign) -> float:
    """Return the delta of a design, or the usual one if its budget is open or its groups have budgets of their own."""
    own = vars(design).get("budget")
    return Budget.of(1.0).delta if own is None else float(own.delta)


def _plan_of(design: VotingDesign, labels: int) -> Plan:
    """Return the plan of a run with its budget and noise, for a number of labels that fits."""
    spent = design.spent_at_end(labels)
    groups = tuple(
        GroupPlan(
            name=group.name,
            budget=group.budget.epsilon,
            # A filter's guarantee is for all that it would have allowed.
            epsilon=group.budget.epsilon if design.gated else min(group.budget.epsilon, epsilon),
            settings=design.group_settings(index),
        )
        for index, (group, epsilon) in enumerate(zip(design.groups, spent, strict=True))
    )
    return Plan(
        design=design,
        labels=labels,
        most_queries=design.meter().most_queries if design.gated else None,
        conversion=design.how_converted(labels).value,
        groups=groups,
        extras=design.extras(labels),
    )


def _with_least_epsilon(design: VotingDesign, labels: int, delta: float) -> VotingDesign:
    """Return the run with the smallest budget, of six digits, that pays for the labels."""
    start = design.with_budget(Budget(epsilon=1.0, delta=delta))
    epsilon, growth = max(1e-9, *start.spent(labels)), 1e-6
    while True:
        candidate = design.with_budget(Budget(epsilon=round_up(epsilon, _DIGITS), delta=delta))
        if candidate.meter(labels).sure_queries >= labels:
            return candidate
        epsilon, growth = epsilon * (1 + growth), 2 * growth


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
    return _EnsembleSearch(design, integer_between("labels", labels, 1), agreement, accuracy).smallest()


class _EnsembleSearch:
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
        self._noise = _rough_noise(self._design, self._labels)
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
            plan=_plan_of(design, self._labels),
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
