"""Several methods on the same rows with the same budget."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from time import perf_counter

from dpensemble._checks import integer_between, member
from dpensemble._progress import progress_bar
from dpensemble._random import Stream, public_entropy, seed_integer
from dpensemble.budget import Budget
from dpensemble.engine.run import uncounted
from dpensemble.errors import DPEnsembleError, InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.workflow.comparison_data import ComparedRows, ComparisonData
from dpensemble.workflow.comparison_learners import Trial, TrialResult, compared_learner
from dpensemble.workflow.comparison_methods import (
    METHODS,
    REFERENCES,
    ComparedEstimator,
    Reference,
    compared,
    fitting_trial,
)
from dpensemble.workflow.comparison_results import ComparedMethod, Comparison

_MOST_REPEATS = 1000
_MOST_TEACHERS, _FEWEST_TEACHERS, _RECORDS_A_TEACHER = 250, 2, 25


def compare(
    data: ComparisonData,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
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
    epsilon, delta : float
        Budget of each method. If delta is not below one over the records, methods that release labels run just
        below one over the records.
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
    chosen, budget = _checked_methods(methods), Budget(epsilon=epsilon, delta=delta)
    base, related = compared_learner(learner, data), member("relation", relation, Relation)
    repeats, entropy = integer_between("repeats", repeats, 1, _MOST_REPEATS), public_entropy(random_state)
    if insecure_release_seed is not None:
        integer_between("insecure_release_seed", insecure_release_seed, 0, 2**128)
    runs = chosen | REFERENCES
    tallies = {name: _Tally(name) for name in runs}
    with progress_bar("Comparing", repeats * len(runs), shown=progress) as advance:
        for repeat in range(repeats):
            rows = data.split(seed_integer(entropy, Stream.SPLIT, repeat))
            trial = Trial(
                rows=rows,
                classes=list(data.classes),
                learner=base,
                budget=budget,
                relation=related,
                n_teachers=_teachers(n_teachers, rows),
                seed=seed_integer(entropy, Stream.TEACHERS, repeat),
                insecure_release_seed=_noise_seed(insecure_release_seed, repeat),
                n_jobs=n_jobs,
            )
            for name, method in runs.items():
                with uncounted():
                    tallies[name].run(method, trial)
                advance(1)
    return Comparison(
        dataset=data.name,
        how=data.how,
        rows={"private": trial.n_records, "public": len(rows.X_public), "test": len(rows.X_test)},
        classes=tuple(data.classes),
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=related.value,
        learner=base.name,
        n_teachers=trial.n_teachers,
        repeats=repeats,
        methods=tuple(tallies[name].row() for name in chosen),
        references=tuple(tallies[name].row() for name in REFERENCES),
        for_release=insecure_release_seed is None,
    )


def _checked_methods(methods: Sequence[str]) -> dict[str, ComparedEstimator | Reference]:
    runs: dict[str, ComparedEstimator | Reference] = {name: compared(name) for name in methods}
    if not runs or len(runs) < len(methods):
        raise InvalidParameterError(f"methods={','.join(methods)!r} must name each method once: remove repeated names.")
    return runs


def _teachers(n_teachers: int | None, rows: ComparedRows) -> int:
    """Return the number of teachers of voting methods."""
    n_records = len(rows.X_private)
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

    def run(self, method: ComparedEstimator | Reference, trial: Trial) -> None:
        """Run the method once more, unless an earlier run raised an error."""
        if self._error:
            return
        trial, self._note = fitting_trial(method, trial)
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
