"""Several methods on the same rows with the same budget: their estimators, results, and what the budget bought."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import mean, stdev
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble import methods
from dpensemble._checks import integer_between, member
from dpensemble._random import Stream, public_entropy, seed_integer
from dpensemble._work import progress_bar
from dpensemble.accounting import largest_subsample
from dpensemble.design import plan
from dpensemble.design.private_answers import fitted_answer
from dpensemble.engine.run import uncounted
from dpensemble.errors import DPEnsembleError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import LawChoice
from dpensemble.methods import (
    BaggedPATEClassifier,
    BaggingPrivacyClassifier,
    LabelMomentsClassifier,
    PrivateMajorityClassifier,
    SoftVotesClassifier,
)
from dpensemble.moments import ImageMap
from dpensemble.relations import Relation
from dpensemble.rows.arguments import AS_GIVEN
from dpensemble.student import class_probabilities, fit_student
from dpensemble.workflow.comparison_data import ComparisonData, Trial, TrialResult
from dpensemble.workflow.learners import scores

# Default of `PrivateMajorityClassifier`.
_PRIVATE_TEACHERS = 11
# Each answer of a private majority gets an even share of the budget, so there are few answers.
_ANSWERS = 50
# Just below one, so that delta stays below one over the records in spite of rounding.
_BELOW = 0.999
#: What a budget bought: by name, as text for people, and what is published.
_Bought = tuple[dict[str, Any], str, str]


@dataclass(frozen=True, kw_only=True)
class _ComparedEstimator:
    """A method in a comparison, with the whole budget of a trial."""

    make: Callable[[Trial], Any]
    bought: Callable[[Any], _Bought]
    reads_tables: bool = False
    reads_public: bool = True
    replaces: bool = True
    more: Mapping[str, str] = field(default_factory=dict)

    def run(self, trial: Trial) -> TrialResult:
        """Fit the estimator once, and return its measured result."""
        rows, model = trial.rows, self.make(trial)
        arrays: tuple[Any, Any, Any] = (rows.X_private, rows.X_public, rows.X_test)
        X_private, X_public, X_test = (rows.tables or arrays) if self.reads_tables else arrays
        model.fit(X_private, rows.y_private, **({"X_public": X_public} if self.reads_public else {}))
        accuracy, further = _measured(model, trial, X_test)
        bought, text, released = self.bought(model)
        result = TrialResult(
            accuracy=accuracy,
            measures=further,
            epsilon=model.guarantee_.epsilon,
            delta=model.guarantee_.delta,
            bought=bought | {name: model.get_params()[setting] for name, setting in self.more.items()},
            text=text,
            released=released,
        )
        return result if self.replaces else _replacing(result, trial)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A reference for methods: one run without any privacy, which needs no public rows."""

    run: Callable[[Trial], TrialResult]
    reads_public: bool = False


def _labels(model: Any) -> _Bought:
    labels, law = len(model.result_.labels), model.result_.law.settings()
    bought = {"labels": labels, "teachers": model.n_teachers, "law": law["law"], "sigma": law.get("sigma")}
    return bought, f"{labels:,} label{'' if labels == 1 else 's'}", "labels, student"


def _sums(model: Any) -> _Bought:
    sums = len(model.result_.charges)
    return {"sums": sums, "sigma": model.result_.law.sigma}, f"{sums} noisy sums", "model"


def _averages(model: Any) -> _Bought:
    averages = len(model.averages_)
    bought = {"averages": averages, "teachers": model.n_teachers, "spread": model.spread_}
    return bought, f"{averages:,} averages", "averages, student"


def _models(model: Any) -> _Bought:
    scheme = model.result_.design.scheme
    bought = {"subsample": scheme.subsample, "models": scheme.n_models}
    return bought, f"subsample of {scheme.subsample:,}", "1 model"


def _gradients(model: Any) -> _Bought:
    bought = {"noise_multiplier": model.noise_multiplier_, "epochs": model.epochs, "clip": model.clip}
    return bought, f"noise {model.noise_multiplier_:.3g} x clip", "1 model"


def _voting_estimator(kind: type[Any], law: LawChoice | None = None) -> _ComparedEstimator:
    """Return an estimator that votes, with its defaults and the settings that all voting methods share."""

    def make(trial: Trial) -> Any:
        settings = _voting(trial) | ({} if law is None else {"law": law})
        if kind is PrivateMajorityClassifier:
            # As in `train`: private logistic regressions that learn from all records, for every learner.
            settings |= {"teacher": None, "n_teachers": _PRIVATE_TEACHERS}
        if kind is BaggedPATEClassifier:
            subsample = max(1, trial.n_records // (2 * trial.n_teachers))
            settings |= _planned(kind(**settings | {"subsample": subsample}), trial)
        return kind(**settings)

    more = {"subsample": "subsample"} if kind is BaggedPATEClassifier else {}
    return _ComparedEstimator(make=make, bought=_labels, more=more)


def _planned(model: Any, trial: Trial) -> dict[str, Any]:
    """Return settings that add-or-remove-one forbids to compute from the number of records."""
    design = model.design(n_classes=len(trial.classes), n_records=trial.n_records)
    best = plan(design, epsilon=trial.budget.epsilon, delta=trial.budget.delta)
    labels = min(best.labels, len(trial.rows.X_public))
    return {"subsample": model.subsample, "law": best.design.law, "max_labels": labels}


def _darrm(trial: Trial) -> PrivateMajorityClassifier:
    answers = min(_ANSWERS, len(trial.rows.X_public))
    epsilon = _answer_epsilon(trial, answers) if len(trial.classes) == 2 else 1.0
    return PrivateMajorityClassifier(
        private="ballots",
        teacher_privacy=epsilon,
        sharing="partition",
        law="darrm",
        max_labels=answers,
        **_voting(trial),
    )


def _answer_epsilon(trial: Trial, answers: int) -> float:
    """Return what each answer may cost. Ballots may cost as much, since a record has one ballot in each query."""
    return fitted_answer(
        "darrm", trial.n_teachers, touched=1, teacher=(trial.budget.epsilon, 0.0), queries=answers, budget=trial.budget
    ).epsilon


def _label_moments(trial: Trial) -> LabelMomentsClassifier:
    shape = trial.learner.image_shape
    return LabelMomentsClassifier(
        ImageMap(shape[1:]) if shape is not None and shape[0] == 1 else None,
        classes=trial.classes,
        columns=AS_GIVEN,
        epsilon=trial.budget.epsilon,
        delta=trial.budget.delta,
        relation=trial.relation.value,
        **trial.seeds(),
    )


def _bagging(trial: Trial) -> BaggingPrivacyClassifier:
    size = largest_subsample(trial.budget.delta, trial.n_records)
    return BaggingPrivacyClassifier(
        trial.learner.alone(size),
        classes=trial.classes,
        subsample=size,
        relation=trial.relation,
        n_jobs=trial.n_jobs,
        **trial.seeds(),
    )


def _dp_sgd(trial: Trial) -> Any:
    if trial.learner.dp_sgd is None:
        raise InvalidParameterError(
            f"learner={trial.learner.name!r} is not trained by gradients, which DP-SGD requires: use "
            "'logistic-regression' or 'cnn'."
        )
    one = trial.budget if trial.relation is Relation.ADD_OR_REMOVE_ONE else _of_one_step(trial.budget)
    return trial.learner.dp_sgd(trial.n_records).set_params(
        classes=trial.classes, epsilon=one.epsilon, delta=one.delta, **trial.seeds()
    )


def _replacing(result: TrialResult, trial: Trial) -> TrialResult:
    """Charge a replaced record as one removed record and one added record."""
    if trial.relation is Relation.ADD_OR_REMOVE_ONE or result.epsilon is None or result.delta is None:
        return result
    return replace(
        result,
        epsilon=2 * result.epsilon,
        delta=min(trial.budget.delta, (1 + math.exp(result.epsilon)) * result.delta),
        note="Opacus accounts for adding or removing a record; replacing one is both, so it is charged for both",
    )


def _of_one_step(budget: Budget) -> Budget:
    """Return a budget for adding or removing a record at which replacing one keeps within `budget`."""
    half = budget.epsilon / 2
    return Budget(epsilon=half, delta=budget.delta / (1 + math.exp(min(half, 600.0))))


# Estimators that vote with one budget, by name.
_VOTING: dict[str, type[Any]] = {
    kind.name: kind
    for kind in (getattr(methods, name) for name in methods.__all__)
    if kind.votes and not kind.takes_budgets
}
#: Every method that can be compared, by name.
COMPARED: Mapping[str, _ComparedEstimator] = MappingProxyType(
    {name: _voting_estimator(kind) for name, kind in _VOTING.items()}
    | {
        "label-moments": _ComparedEstimator(make=_label_moments, bought=_sums, reads_tables=True),
        "soft-votes": _ComparedEstimator(make=lambda trial: SoftVotesClassifier(**_voting(trial)), bought=_averages),
        "bagging": _ComparedEstimator(make=_bagging, bought=_models, reads_public=False),
        "darrm": _ComparedEstimator(make=_darrm, bought=_labels, more={"answer_epsilon": "teacher_privacy"}),
        "dp-sgd": _ComparedEstimator(make=_dp_sgd, bought=_gradients, reads_public=False, replaces=False),
    }
)
#: The compared methods unless methods are named: the default, one of each line of research, and DP-SGD.
METHODS = ("label-moments", "bagging", "pate", "bagged-pate", "private-majority", "darrm", "dp-sgd")


def compared(name: str) -> _ComparedEstimator:
    """Return a method by name, or a voting method with a law: ``"pate"``, ``"pate:optimal"``."""
    method, _, law = name.partition(":")
    if not law and method in COMPARED:
        return COMPARED[method]
    if law and method in _VOTING:
        return _voting_estimator(_VOTING[method], LawChoice.of(law))
    raise InvalidParameterError(
        f"methods={name!r} cannot be compared: use {', '.join(COMPARED)}, or a method that votes with a law, "
        "such as 'pate:optimal'."
    )


def _fitting_trial(method: _ComparedEstimator | Reference, trial: Trial) -> tuple[Trial, str | None]:
    """Return the trial with a delta that the method accepts, and a note if that is not the requested delta."""
    if not method.reads_public or trial.budget.delta < 1 / trial.n_records:
        return trial, None
    delta = _BELOW / trial.n_records
    note = f"ran at delta={delta:.4g}, just below one over the records, which methods that release labels require"
    return replace(trial, budget=Budget(epsilon=trial.budget.epsilon, delta=delta)), note


def _voting(trial: Trial) -> dict[str, Any]:
    """Return the settings that all voting methods share."""
    return {
        **trial.learner.teacher_and_student(trial.n_records, trial.n_teachers),
        "classes": trial.classes,
        "n_teachers": trial.n_teachers,
        "epsilon": trial.budget.epsilon,
        "delta": trial.budget.delta,
        "relation": trial.relation.value,
        "n_jobs": trial.n_jobs,
        **trial.seeds(),
    }


def _measured(model: Any, trial: Trial, X_test: Any) -> tuple[float, dict[str, float]]:
    """Return the accuracy of a model on the test rows, and other measures."""
    truth, classes = trial.rows.y_test, np.asarray(sorted(trial.classes))
    predicted = model.predict(X_test)
    probabilities = class_probabilities(model, X_test, classes) if hasattr(model, "predict_proba") else None
    return float(np.mean(predicted == truth)), _further_measures(predicted, probabilities, truth, classes)


def _further_measures(
    predicted: NDArray[Any], probabilities: NDArray[np.float64] | None, truth: NDArray[Any], classes: NDArray[Any]
) -> dict[str, float]:
    """Return AUROC for two classes, balanced accuracy for more, and the Brier score, if they are defined."""
    metrics: dict[str, float] = {}
    of_probabilities = {} if probabilities is None else scores(probabilities, truth, classes)
    if len(classes) == 2:
        # A constant answer does not distinguish rows.
        area = 0.5 if probabilities is None and len(set(predicted.tolist())) == 1 else of_probabilities.get("auroc")
        metrics |= {} if area is None else {"auroc": area}
    else:
        shares = [np.mean(predicted[truth == one] == one) for one in classes if np.any(truth == one)]
        metrics["balanced_accuracy"] = float(np.mean(shares))
    return metrics | ({"brier": of_probabilities["brier"]} if "brier" in of_probabilities else {})


def _without_privacy(trial: Trial) -> TrialResult:
    # Fitted in the way of a student, so that labels of a single class are accepted.
    rows, estimator = trial.rows, trial.learner.alone(trial.n_records)
    model = fit_student(estimator, rows.X_private, rows.y_private, trial.seed)
    accuracy, measures = _measured(model, trial, rows.X_test)
    return TrialResult(accuracy=accuracy, measures=measures, text=f"all {trial.n_records:,} records")


def _commonest(trial: Trial) -> TrialResult:
    rows = trial.rows
    labels, counts = np.unique(rows.y_private, return_counts=True)
    always = np.full(len(rows.y_test), labels[counts.argmax()])
    return TrialResult(
        accuracy=float(np.mean(always == rows.y_test)),
        measures=_further_measures(always, None, rows.y_test, np.asarray(sorted(trial.classes))),
        text="always the same label",
    )


#: References without any privacy.
_REFERENCES = {"no privacy": Reference(run=_without_privacy), "commonest class": Reference(run=_commonest)}

_WARNING = (
    "Every method had the whole budget. On real private records, the losses of all methods and repeats would add "
    "up, and the rows without privacy would void every guarantee. Compare on public data, then "
    "run one method."
)


@dataclass(frozen=True, kw_only=True)
class ComparedMethod:
    """The result of one method, or the reason why it could not run (`error`).

    Measures are means over repeats: ``auroc`` for two classes, ``balanced_accuracy`` for more, and ``brier``. Epsilon
    and delta are those of one repeat. `bought` is what the budget bought, and `text` is the same for people. `note`
    reports a budget that differs from the requested one.
    """

    method: str
    accuracies: tuple[float, ...] = ()
    measures: dict[str, float] = field(default_factory=dict)
    epsilon: float | None = None
    delta: float | None = None
    bought: dict[str, Any]
    text: str
    released: str | None = None
    seconds: float
    note: str | None = None
    error: str | None = None

    @property
    def accuracy(self) -> float | None:
        """Mean over repeats."""
        return mean(self.accuracies) if self.accuracies else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over two or more repeats."""
        return stdev(self.accuracies) if len(self.accuracies) > 1 else None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Rows of methods, and of two references without any privacy.

    Parameters
    ----------
    dataset, how : str
        Data, and the source of public and test rows.
    rows : dict
        Numbers of private, public and test rows.
    classes : tuple
        Declared labels.
    epsilon, delta : float
        Whole budget of each method.
    relation, learner : str
        Neighbouring relation, and base learner.
    n_teachers, repeats : int
        Number of teachers of voting methods, and number of repeats.
    methods, references : tuple of ComparedMethod
        In the requested order.
    for_release : bool
        False if noise came from a seed.
    warning : str
        What comparing would cost on private records.
    """

    dataset: str
    how: str
    rows: dict[str, int]
    classes: tuple[Any, ...]
    epsilon: float
    delta: float
    relation: str
    learner: str
    n_teachers: int
    repeats: int
    methods: tuple[ComparedMethod, ...]
    references: tuple[ComparedMethod, ...]
    for_release: bool
    warning: str = _WARNING

    @property
    def together(self) -> dict[str, float]:
        """Epsilon and delta of all methods and repeats together on private records: the sums."""
        repeats = [(row.epsilon or 0.0, row.delta or 0.0, len(row.accuracies)) for row in self.methods]
        return {
            "epsilon": sum(epsilon * times for epsilon, _, times in repeats),
            "delta": sum(delta * times for _, delta, times in repeats),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, ready for JSON."""
        content = {"schema": 1} | asdict(self)
        for name, rows in (("methods", self.methods), ("references", self.references)):
            content[name] = [asdict(row) | {"accuracy": row.accuracy, "spread": row.spread} for row in rows]
        return content | {"together": self.together}


_MOST_REPEATS = 1000
_MOST_TEACHERS, _FEWEST_TEACHERS, _RECORDS_A_TEACHER = 250, 2, 25


def compare(
    data: ComparisonData,
    *,
    epsilon: float = 1.0,
    delta: float | None = None,
    methods: Sequence[str] = METHODS,
    learner: str = "logistic-regression",
    n_teachers: int | None = None,
    relation: str = Relation.ADD_OR_REMOVE_ONE,
    repeats: int = 3,
    random_state: int | None = None,
    insecure_release_seed: int | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Comparison:
    """Run several methods on the same rows, each with the whole budget.

    Parameters
    ----------
    data : ComparisonData
        Public. See `comparison_data`.
    epsilon : float, default=1.0
        Epsilon of each method.
    delta : float, optional
        Delta of each method. By default 1e-5 or, under replace-one, the smaller of 1e-5 and 0.2 divided by the private
        records, rounded down to one digit. If delta is not below one over the records, methods that release labels run
        just below one over the records.
    methods : sequence of str
        Names of estimators with one budget, ``"darrm"`` (a private majority's noisy answers) and ``"dp-sgd"``. A method
        that votes may name a law: ``"pate:optimal"``.
    learner : str, default="logistic-regression"
        Base learner by name. ``"cnn"`` is for images.
    n_teachers : int, optional
        Number of teachers of methods that vote. By default one for 25 records, and at most 250.
    relation : {"add-or-remove-one", "replace-one"}, default="add-or-remove-one"
        Neighbouring relation. Opacus, which runs DP-SGD, accounts for ``"add-or-remove-one"``.
    repeats : int, default=3
        Number of runs of each method.
    random_state : int, optional
        Public seed of splits, learners and allocations.
    insecure_release_seed : int, optional
        Seed of all noise, for a repeatable experiment.
    n_jobs : int, optional
        Number of workers, as in joblib.
    progress : bool, default=False
        Show a progress bar on stderr.

    Returns
    -------
    Comparison

    Raises
    ------
    InvalidParameterError
        If a setting is out of range. If a method itself raises, its row contains the error.

    Examples
    --------
    >>> from dpensemble.workflow.comparison_data import ComparedDataset, comparison_data
    >>> data = comparison_data(ComparedDataset.DIGITS, classes=(3, 8))
    >>> comparison = compare(data, methods=["bagging"], delta=0.2, repeats=1, random_state=0)
    >>> comparison.methods[0].bought["subsample"], comparison.methods[0].epsilon
    (26, 0.0)
    """
    chosen, budget = _checked_methods(methods), Budget.of(epsilon, delta)
    base, related = data.learner(learner), member("relation", relation, Relation)
    repeats, entropy = integer_between("repeats", repeats, 1, _MOST_REPEATS), public_entropy(random_state)
    if insecure_release_seed is not None:
        integer_between("insecure_release_seed", insecure_release_seed, 0, 2**128)
    runs = chosen | _REFERENCES
    tallies = {name: _Tally(name) for name in runs}
    same = {"learner": base, "budget": budget, "relation": related, "n_jobs": n_jobs}
    with progress_bar("Comparing", repeats * len(runs), shown=progress) as advance:
        for repeat in range(repeats):
            trial = _trial(data, repeat, entropy, n_teachers, insecure_release_seed, **same)
            if delta is None and related is Relation.REPLACE_ONE:
                trial = replace(trial, budget=Budget.of(epsilon, n_units=trial.n_records))
            for name, method in runs.items():
                with uncounted():
                    tallies[name].run(method, trial)
                advance(1)
    rows = {name: tally.row() for name, tally in tallies.items()}
    return _comparison(data, trial, repeats, [rows[name] for name in chosen], [rows[name] for name in _REFERENCES])


def _trial(
    data: ComparisonData, repeat: int, entropy: int, n_teachers: int | None, noise_seed: int | None, **same: Any
) -> Trial:
    """Return one repeat. `same` are settings of all repeats."""
    rows = data.split(seed_integer(entropy, Stream.SPLIT, repeat))
    return Trial(
        rows=rows,
        classes=list(data.classes),
        n_teachers=_teachers(n_teachers, len(rows.X_private)),
        seed=seed_integer(entropy, Stream.TEACHERS, repeat),
        insecure_release_seed=_noise_seed(noise_seed, repeat),
        **same,
    )


def _comparison(
    data: ComparisonData,
    last: Trial,
    repeats: int,
    methods: Sequence[ComparedMethod],
    references: Sequence[ComparedMethod],
) -> Comparison:
    """Return the comparison of methods in several repeats. `last` is the last repeat."""
    rows = last.rows
    return Comparison(
        dataset=data.name,
        how=data.how,
        rows={"private": last.n_records, "public": len(rows.X_public), "test": len(rows.X_test)},
        classes=tuple(data.classes),
        epsilon=last.budget.epsilon,
        delta=last.budget.delta,
        relation=last.relation.value,
        learner=last.learner.name,
        n_teachers=last.n_teachers,
        repeats=repeats,
        methods=tuple(methods),
        references=tuple(references),
        for_release=last.insecure_release_seed is None,
    )


def _checked_methods(methods: Sequence[str]) -> dict[str, _ComparedEstimator | Reference]:
    runs: dict[str, _ComparedEstimator | Reference] = {name: compared(name) for name in methods}
    if not runs or len(runs) < len(methods):
        raise InvalidParameterError(f"methods={','.join(methods)!r} must name each method once: remove repeated names.")
    return runs


def _teachers(n_teachers: int | None, n_records: int) -> int:
    """Return the number of teachers of voting methods."""
    if n_teachers is None:
        return min(_MOST_TEACHERS, max(_FEWEST_TEACHERS, n_records // _RECORDS_A_TEACHER))
    return integer_between("n_teachers", n_teachers, 1, n_records)


def _noise_seed(seed: int | None, repeat: int) -> int | None:
    return None if seed is None else seed_integer(seed, Stream.PARTICIPATION, repeat)


class _Tally:
    """The repeats of one method."""

    def __init__(self, name: str) -> None:
        self._name, self._error, self._seconds = name, "", 0.0
        self._note: str | None = None
        self._results: list[TrialResult] = []

    def run(self, method: _ComparedEstimator | Reference, trial: Trial) -> None:
        """Run the method once more, unless an earlier run raised an error."""
        if self._error:
            return
        trial, self._note = _fitting_trial(method, trial)
        start = perf_counter()
        try:
            self._results.append(method.run(trial))
        except DPEnsembleError as error:
            self._error = str(error)
        self._seconds += perf_counter() - start

    def row(self) -> ComparedMethod:
        seconds = round(self._seconds, 3)
        if self._error:
            return ComparedMethod(
                method=self._name, bought={}, text="cannot run", seconds=seconds, note=self._note, error=self._error
            )
        first = self._results[0]
        epsilons = [result.epsilon for result in self._results if result.epsilon is not None]
        deltas = [result.delta for result in self._results if result.delta is not None]
        return ComparedMethod(
            method=self._name,
            accuracies=tuple(result.accuracy for result in self._results),
            measures={
                name: mean(result.measures[name] for result in self._results)
                for name in first.measures
                if all(name in result.measures for result in self._results)
            },
            epsilon=max(epsilons, default=None),
            delta=max(deltas, default=None),
            bought=first.bought,
            text=first.text,
            released=first.released,
            seconds=seconds,
            note=first.note or self._note,
        )
