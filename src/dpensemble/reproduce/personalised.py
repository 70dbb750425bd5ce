"""What the tables of personalised PATE run: ensembles by group of records, counted by several accounts.

Conventions that the paper leaves open, found by trying: rows of Adult with a missing entry are dropped and categories
are numbered alphabetically; a check is charged on every query; the average baseline is the logarithm of the mean of
exp(epsilon); vanishing teachers take part in the squared, not the fourth, power of the ratio of budgets.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import MinMaxScaler, OrdinalEncoder

from dpensemble._random import SeededNoise
from dpensemble.accounting import (
    Accounting,
    DataDependentGroupMeter,
    Meter,
    published_group_rdp,
    worst_case_meter,
)
from dpensemble.allocation import Allocation, grouped_partitions, upsampled_partition
from dpensemble.budget import Budget
from dpensemble.datasets import load_adult, load_mnist
from dpensemble.design import ByGroup, Census, InfluenceRule, Personalisation
from dpensemble.electorate import Electorate
from dpensemble.errors import BudgetError
from dpensemble.labelling import Questions, label_rows
from dpensemble.laws import ConfidentNoisyMax, LawChoice, sample
from dpensemble.neural import ImageAugmentation, TorchClassifier, personalised_pate_cnn
from dpensemble.reproduce.data import Rows
from dpensemble.reproduce.declared import Cell, Figures, Settings, figure
from dpensemble.reproduce.store import Workplace
from dpensemble.student import fit_student
from dpensemble.teachers import TeacherEnsemble
from dpensemble.votes import Votes

LABELS, ACCURACY, LOW_COST, HIGH_COST = "Labels", "Accuracy in %", "Epsilon, low budget", "Epsilon, high budget"
AVERAGE = "average"
WORST, EXACT, SOLVED, DEPENDENT = "published worst case", "exact", "exact, solved", "exact data-dependent"
PRECISION, RECALL, VOTING = "Teachers' precision in %", "Teachers' recall in %", "Voting accuracy in %"
RATIO = "Ratio of the groups' epsilons"
METHODS = tuple(Personalisation)
UPSAMPLED = Personalisation.UPSAMPLING.value
HISTORY = (100, 500, 1000, 2000)
# Votings of figure 4.
VOTINGS = 4000
_DELTA, _LOW = 1e-5, 2
_ORDERS = np.arange(2.0, 51.0)


def row_of(high: int, share: int) -> str:
    """Return how a row of a budget distribution is called."""
    return f"ln {high} for {share} %"


def baseline_of(power: int) -> str:
    """Return how a row with one budget for all is called."""
    return f"ln {power} for all"


def cells(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return one cell an ensemble's budgets and method; votes are shared by way of the workplace."""
    fit = settings["seconds_an_ensemble"]
    for repeat in range(seed, seed + settings["repeats"]):
        for power in (_LOW, *settings["highs"]):
            work = partial(_uniform, settings, power, repeat)
            yield Cell(name=f"all-ln{power}-run{repeat}", seconds=fit / 4 + 5, work=work)
        for high in settings["highs"]:
            for share in settings["shares"]:
                for kind in (AVERAGE, *settings["methods"]):
                    cost = fit * (high if kind == Personalisation.UPSAMPLING else 1) / 3
                    work = partial(_cell, settings, kind, high, share, repeat)
                    yield Cell(name=f"{kind}-ln{high}-{share}-run{repeat}", seconds=cost + 5, work=work)


@lru_cache(maxsize=1)
def _rows(data: str, repeat: int, n_public: int) -> Rows:
    """Return a split: private, public, and the rest for testing."""
    if data == "mnist":
        mnist = load_mnist()
        order = np.random.default_rng(repeat).permutation(len(mnist.X_test))
        X_test, y_test = mnist.scaled(mnist.X_test)[order], mnist.y_test[order]
        return Rows(mnist.scaled(mnist.X_train), mnist.y_train, X_test[:n_public], X_test[9000:], y_test[9000:])
    adult = load_adult()
    complete = ~(adult.X == "?").any(axis=1)
    X, y = adult.X[complete].copy(), (adult.y[complete] == adult.classes[1]).to_numpy().astype(np.int64)
    categorical = X.select_dtypes(exclude="number").columns
    X[categorical] = OrdinalEncoder().fit_transform(X[categorical])
    rows = MinMaxScaler().fit_transform(X.astype(float))
    order = np.random.default_rng(repeat).permutation(len(rows))
    private, public, test = np.split(order, [37_222, 44_222])
    return Rows(rows[private], y[private], rows[public[:n_public]], rows[test], y[test])


@dataclass(frozen=True)
class _Run:
    """One ensemble's records, and how they are taught."""

    settings: Settings
    repeat: int
    place: Workplace

    @cached_property
    def rows(self) -> Rows:
        return _rows(self.settings["data"], self.repeat, self.settings["public"])

    @property
    def n_classes(self) -> int:
        return int(self.settings["classes"])

    @property
    def law(self) -> ConfidentNoisyMax:
        threshold, gate, sigma = self.settings["law"]
        return ConfidentNoisyMax(threshold=threshold, threshold_sigma=gate, sigma=sigma)

    def census(self, high: int, share: int) -> Census:
        """Return the groups of one cell."""
        n = len(self.rows.X)
        n_high = round(n * share / 100)
        budgets = tuple(Budget(epsilon=np.log(power), delta=_DELTA) for power in (_LOW, high))
        return Census(names=("low", "high"), budgets=budgets, shares=(n - n_high, n_high))

    def design(self, kind: Personalisation, census: Census, *, published: bool) -> ByGroup:
        """Return the run of one method, with the paper's influences or with solved ones."""
        return ByGroup(
            name=f"{kind.value}-pate",
            kind=kind,
            choice=LawChoice.of(self.law),
            n_classes=self.n_classes,
            n_teachers=self.settings["teachers"],
            census=census,
            rule=InfluenceRule(published=published),
        )

    def votes(self, design: ByGroup, share: int) -> Votes:
        """Return the ensemble's votes on all public rows, taught where it was not before."""
        rows, allocation = self.rows, self._allocation(design, share)
        learner = _learner(self.settings)
        made_from = (rows.X, rows.y, rows.X_public, allocation.teachers, allocation.offsets, repr(learner), self.repeat)

        def taught() -> NDArray[np.unsignedinteger]:
            ensemble = TeacherEnsemble(
                learner, allocation, np.arange(self.n_classes), entropy=self.repeat, n_jobs=self.place.n_jobs
            )
            return ensemble.fit(rows.X, rows.y, lambda _: None).vote(rows.X_public).ballots

        return Votes(self.place.kept(made_from, taught), self.n_classes)

    def _allocation(self, design: ByGroup, share: int) -> Allocation:
        n, seats = len(self.rows.X), design.seats
        group = np.zeros(n, dtype=np.int64)
        chosen = np.random.default_rng(self.repeat + share).permutation(n)[: round(n * share / 100)]
        group[chosen] = 1
        if seats.teachers is None:
            copies = np.array(seats.copies)[group]
            return upsampled_partition(range(n), copies, seats.n_teachers, entropy=self.repeat)
        return grouped_partitions(range(n), group, seats.teachers, entropy=self.repeat)


def _learner(settings: Settings) -> Any:
    if settings["data"] == "mnist":
        return TorchClassifier(
            personalised_pate_cnn,
            input_shape=(1, 28, 28),
            epochs=settings["epochs"],
            augmentation=ImageAugmentation(),
        )
    return RandomForestClassifier(n_estimators=settings["trees"])


@contextmanager
def _high_threshold() -> Iterator[None]:
    with warnings.catch_warnings():
        # A threshold above the number of teachers is the paper's.
        warnings.filterwarnings("ignore", "threshold=.* is above the number of")
        yield


def _uniform(settings: Settings, power: int, repeat: int, place: Workplace) -> Figures:
    run = _Run(settings, repeat, place)
    return _one_budget(run, float(np.log(power)), baseline_of(power), 1000 * repeat)


def _cell(settings: Settings, kind: str, high: int, share: int, repeat: int, place: Workplace) -> Figures:
    run, row = _Run(settings, repeat, place), row_of(high, share)
    if kind == AVERAGE:
        return _one_budget(run, float(np.log(_LOW + (high - _LOW) * share / 100)), row, 1000 * repeat)
    method, census = Personalisation(kind), run.census(high, share)
    ruled, solved = (run.design(method, census, published=published) for published in (True, False))
    return _counted(run, (ruled, solved if settings["solved"] else None), share, (row, kind), 1000 * repeat)


def _one_budget(run: _Run, epsilon: float, row: str, first: int) -> Figures:
    census = Census(names=("all",), budgets=(Budget(epsilon=epsilon, delta=_DELTA),), shares=(len(run.rows.X),))
    design = run.design(Personalisation.WEIGHTING, census, published=True)
    return _counted(run, (design, None), 0, (row, AVERAGE), first)


def _counted(
    run: _Run, designs: tuple[ByGroup, ByGroup | None], share: int, place: tuple[str, str], first: int
) -> Figures:
    """Count labels by each account, the mean of several votings; score students of the paper's own count."""
    (ruled, solved), (row, column) = designs, place
    values: dict[str, list[float]] = {}

    def note(panel: str, beside: str, value: float) -> None:
        values.setdefault(figure(row, panel, column, beside), []).append(value)

    with _high_threshold():
        votes = run.votes(ruled, share)
        for voting in range(first, first + run.settings["votings"]):
            counted = by_the_paper(votes, ruled, voting)
            note(LABELS, "", len(counted.asked))
            note(ACCURACY, "", 100 * _accuracy(run, counted, voting))
            for panel, costs in zip((LOW_COST, HIGH_COST), counted.history, strict=False):
                for labels, epsilon in costs.items():
                    note(panel, f"{labels} labels", epsilon)
            if run.n_classes > 2:
                continue
            note(LABELS, WORST, by_meter(votes, ruled, voting, Accounting.PUBLISHED))
            note(LABELS, EXACT, by_meter(votes, ruled, voting))
            best = ruled if solved is None else solved
            of_best = votes if solved is None else run.votes(solved, share)
            if solved is not None:
                note(LABELS, SOLVED, by_meter(of_best, solved, voting))
            note(LABELS, DEPENDENT, by_meter(of_best, best, voting, data_dependent=True))
    return {key: float(np.mean(found)) for key, found in values.items()}


def _accuracy(run: _Run, counted: Counted, voting: int) -> float:
    if not len(counted.asked):
        return 0.0
    student = fit_student(_learner(run.settings), run.rows.X_public[counted.asked], counted.labels, voting)
    return float(np.mean(student.predict(run.rows.X_test) == run.rows.y_test))


@dataclass(frozen=True)
class Counted:
    """Rows that got a label within the budget, their labels, and what some labels, and all votings, cost each group."""

    asked: NDArray[np.int64]
    labels: NDArray[np.int64]
    history: list[dict[int, float]]
    at_end: list[float]


def by_the_paper(votes: Votes, design: ByGroup, voting: int) -> Counted:
    """Answer until a group's (with turns, a teacher's) published data-dependent cost exceeds its budget."""
    stage, n_queries = design.seats.stage, votes.n_queries
    electorate = Electorate((stage,), voting)
    order = np.random.default_rng(voting).permutation(n_queries)
    shuffled = Votes(votes.ballots[order], votes.n_classes)
    counts, ballots = electorate.counts(shuffled, 0), electorate.ballots(0, n_queries)
    outcomes = sample(stage.law, counts, SeededNoise(voting))
    answered = outcomes < votes.n_classes
    ends = np.searchsorted(np.cumsum(answered), HISTORY)
    first = np.cumsum([0, *(pool.n_teachers for pool in stage.pools)])
    last, history, at_end = n_queries, [], []
    for group in design.groups:
        pool = stage.pools[group.pool]
        cost = published_group_rdp(stage.law, counts, _ORDERS, group.votes * pool.ballot)
        each = cost.check + answered[:, None] * cost.label
        turns = pool.participants < pool.n_teachers
        spent = np.zeros(n_queries)
        for teacher in range(first[group.pool], first[group.pool + 1] if turns else first[group.pool] + 1):
            epsilon = _running(each * (ballots[:, teacher, None] > 0))
            np.maximum(spent, epsilon, out=spent)
        last = min(last, int(np.count_nonzero(spent <= group.budget.epsilon)))
        at_end.append(float(spent[min(VOTINGS, n_queries) - 1]))
        history.append({n: float(spent[end]) for n, end in zip(HISTORY, ends, strict=True) if end < n_queries})
    kept = answered[:last]
    return Counted(order[:last][kept], outcomes[:last][kept], history, at_end)


def _running(rdp: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the epsilon after each query by the classical conversion."""
    found: NDArray[np.float64] = (np.cumsum(rdp, axis=0) + np.log(1 / _DELTA) / (_ORDERS - 1)).min(axis=1)
    return found


def by_meter(
    votes: Votes,
    design: ByGroup,
    voting: int,
    accounting: Accounting = Accounting.EXACT,
    *,
    data_dependent: bool = False,
) -> int:
    """Count the labels that the library's own loop releases."""
    electorate = Electorate((design.seats.stage,), voting)
    order = np.random.default_rng(voting).permutation(votes.n_queries)
    rows = np.arange(votes.n_queries, dtype=np.float64)[:, None]

    def vote(chunk: NDArray[np.float64]) -> Votes:
        return Votes(votes.ballots[chunk[:, 0].astype(int)], votes.n_classes)

    meter: Meter = worst_case_meter(electorate, design.groups, n_classes=votes.n_classes, accounting=accounting)
    if data_dependent:
        meter = DataDependentGroupMeter(electorate, design.groups, votes.n_classes, stop_when_spent=True)
    try:
        meter.require_one_query()
    except BudgetError:
        return 0
    questions = Questions(vote, rows, order, votes.n_teachers)
    return len(label_rows(questions, electorate, meter, SeededNoise(voting)).answered)


def ratio_row(c: int) -> str:
    """Return how a row of a ratio of sensitivities is called."""
    return f"sensitivities {c} to 1"


def ratios(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return the cells of figure 4: two groups of one size, one of which counts several times as much."""
    for repeat in range(seed, seed + settings["repeats"]):
        for c in settings["ratios"]:
            for kind in settings["methods"]:
                cost = settings["seconds_an_ensemble"] * ((c + 1) / 2 if kind == UPSAMPLED else 0.2) + 5
                yield Cell(
                    name=f"{kind}-{c}-run{repeat}", seconds=cost, work=partial(_ratio, settings, kind, c, repeat)
                )


def _ratio(settings: Settings, kind: str, c: int, repeat: int, place: Workplace) -> Figures:
    run, method = _Run(settings, repeat, place), Personalisation(kind)
    # Turns are in proportion to the square of budgets.
    epsilon = np.sqrt(c) if method is Personalisation.VANISHING else float(c)
    census = replace(
        run.census(4, 50), budgets=tuple(Budget(epsilon=value, delta=_DELTA) for value in (0.1, 0.1 * epsilon))
    )
    with _high_threshold():
        design = run.design(method, census, published=True)
        votes = run.votes(design, 50)
        found = []
        for voting in range(1000 * repeat, 1000 * repeat + settings["votings"]):
            low, high = by_the_paper(votes, design, voting).at_end
            found.append(high / low)
    return {figure(ratio_row(c), RATIO, kind): float(np.mean(found))}


def skewed(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return one cell a higher budget and share of the rarer class that has it; upsampling only."""
    for repeat in range(seed, seed + settings["repeats"]):
        yield Cell(
            name=f"plain-run{repeat}",
            seconds=settings["seconds_an_ensemble"],
            work=partial(_skewed, settings, None, 0, repeat),
        )
        for high in settings["highs"]:
            for share in settings["shares"]:
                work = partial(_skewed, settings, high, share, repeat)
                cost = settings["seconds_an_ensemble"] * (1 + share * high / 1000)
                yield Cell(name=f"ln{high}-{share}-run{repeat}", seconds=cost, work=work)


def skewed_row(high: int, share: int) -> str:
    """Return how a row of a skewed budget is called."""
    return f"ln {high} for {share} % of the rarer class"


def _skewed(settings: Settings, high: int | None, share: int, repeat: int, place: Workplace) -> Figures:
    """Give the higher budget to a share of the records of the rarer class."""
    run = _Run(settings, repeat, place)
    rows, n = run.rows, len(run.rows.X)
    rare = np.flatnonzero(rows.y == 1)
    chosen = np.random.default_rng(repeat + share).permutation(rare)[: round(len(rare) * share / 100)]
    group = np.zeros(n, dtype=np.int64)
    group[chosen] = 1
    budgets = [Budget(epsilon=np.log(power), delta=_DELTA) for power in (_LOW, high or _LOW)]
    names, shares = (("low", "high"), (n - len(chosen), len(chosen))) if len(chosen) else (("all",), (n,))
    census = Census(names=names, budgets=tuple(budgets[: len(names)]), shares=shares)
    with _high_threshold():
        design = run.design(Personalisation.UPSAMPLING, census, published=True)
        copies = np.array(design.seats.copies)[group]
        allocation = upsampled_partition(range(n), copies, design.seats.n_teachers, entropy=repeat)
        made_from = (rows.X, rows.y, rows.X_public, allocation.teachers, allocation.offsets, settings["trees"], repeat)

        def taught() -> NDArray[np.unsignedinteger]:
            ensemble = TeacherEnsemble(
                _learner(settings), allocation, np.array([0, 1]), entropy=repeat, n_jobs=place.n_jobs
            )
            fitted = ensemble.fit(rows.X, rows.y, lambda _: None)
            return np.vstack([fitted.vote(rows.X_public).ballots, fitted.vote(rows.X_test).ballots])

        ballots = place.kept(made_from, taught)
        votes = Votes(ballots[: len(rows.X_public)], 2)
        row = baseline_of(_LOW) if high is None else skewed_row(high, share)
        return _of_skewed(run, votes, ballots[len(rows.X_public) :], design, (row, 1000 * repeat))


def _of_skewed(
    run: _Run, votes: Votes, on_test: NDArray[np.unsignedinteger], design: ByGroup, named: tuple[str, int]
) -> Figures:
    row, first = named
    truth = run.rows.y_test
    said = on_test == 1
    hits = (said & (truth[:, None] == 1)).sum(axis=0)
    found: dict[str, list[float]] = {}
    scores: Sequence[tuple[str, float]] = (
        (VOTING, 100 * float(np.mean((said.mean(axis=1) > 0.5) == truth))),
        (PRECISION, 100 * float(np.mean(hits / np.maximum(said.sum(axis=0), 1)))),
        (RECALL, 100 * float(np.mean(hits / truth.sum()))),
    )
    for voting in range(first, first + run.settings["votings"]):
        counted = by_the_paper(votes, design, voting)
        for panel, value in ((LABELS, len(counted.asked)), (ACCURACY, 100 * _accuracy(run, counted, voting)), *scores):
            found.setdefault(figure(row, panel, UPSAMPLED), []).append(value)
        for beside, accounting in ((WORST, Accounting.PUBLISHED), (EXACT, Accounting.EXACT)):
            counted_by = by_meter(votes, design, voting, accounting)
            found.setdefault(figure(row, LABELS, UPSAMPLED, beside), []).append(counted_by)
    return {key: float(np.mean(values)) for key, values in found.items()}
