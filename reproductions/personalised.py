"""What the tables of personalised PATE run: ensembles by group of records, counted by several accounts.

Conventions that the paper leaves open, found by trying: rows of Adult with a missing entry are dropped and categories
are numbered alphabetically. A check is charged on every query. The average baseline is the logarithm of the mean of
exp(epsilon). Vanishing teachers take part in the squared, not the fourth, power of the ratio of budgets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import MinMaxScaler, OrdinalEncoder

from dpensemble.accounting import Accounting
from dpensemble.allocation import Allocation
from dpensemble.datasets import load_adult, load_mnist
from dpensemble.design import ByGroup, Census, InfluenceRule, Personalisation
from dpensemble.guarantee import Budget
from dpensemble.laws import ConfidentNoisyMax, LawChoice
from dpensemble.neural import ImageAugmentation, TorchClassifier, personalised_pate_cnn
from dpensemble.student import fit_student
from dpensemble.teachers import TeacherEnsemble
from dpensemble.votes import Votes
from reproductions.data import Rows
from reproductions.declared import Cell, Figures, Settings, figure
from reproductions.personalised_counts import DELTA, Counted, by_meter, by_the_paper, high_threshold
from reproductions.store import Workplace

LABELS, ACCURACY, LOW_COST, HIGH_COST = "Labels", "Accuracy in %", "Epsilon, low budget", "Epsilon, high budget"
AVERAGE = "average"
WORST, EXACT, SOLVED, DEPENDENT = "published worst case", "exact", "exact, solved", "exact data-dependent"
RATIO = "Ratio of the groups' epsilons"
METHODS = tuple(Personalisation)
UPSAMPLED = Personalisation.UPSAMPLING.value
LOW = 2


def row_of(high: int, share: int) -> str:
    """Return how a row of a budget distribution is called."""
    return f"ln {high} for {share} %"


def baseline_of(power: int) -> str:
    """Return how a row with one budget for all is called."""
    return f"ln {power} for all"


def cells(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return one cell for each ensemble's budgets and method. Methods share votes through the workplace."""
    fit = settings["seconds_an_ensemble"]
    for repeat in range(seed, seed + settings["repeats"]):
        for power in (LOW, *settings["highs"]):
            work = partial(_uniform, settings, power, repeat)
            yield Cell(name=f"all-ln{power}-run{repeat}", seconds=fit / 4 + 5, work=work)
        for high in settings["highs"]:
            for share in settings["shares"]:
                for kind in (AVERAGE, *settings["methods"]):
                    # Upsampled records need as many more teachers. Both other ways share theirs, for every budget.
                    more = share / 100 * (np.log(high) / np.log(LOW) - 1)
                    cost = fit * (1 + more) if kind == UPSAMPLED else fit / 6 * (kind != AVERAGE)
                    work = partial(_cell, settings, kind, high, share, repeat)
                    yield Cell(name=f"{kind}-ln{high}-{share}-run{repeat}", seconds=cost + 5, work=work)


@lru_cache(maxsize=1)
def _rows(data: str, repeat: int, n_public: int) -> Rows:
    """Return a split: private, public, and the rest for testing."""
    if data == "mnist":
        mnist = load_mnist()
        order = np.random.default_rng(repeat).permutation(len(mnist.X_test))
        images, digits = mnist.scaled(mnist.X_test)[order], mnist.y_test[order]
        known = images[:n_public], digits[:n_public]
        return Rows(mnist.scaled(mnist.X_train), mnist.y_train, *known, images[9000:], digits[9000:])
    adult = load_adult()
    complete = ~(adult.X == "?").any(axis=1)
    X, y = adult.X[complete].copy(), (adult.y[complete] == adult.classes[1]).to_numpy().astype(np.int64)
    categorical = X.select_dtypes(exclude="number").columns
    X[categorical] = OrdinalEncoder().fit_transform(X[categorical])
    rows = MinMaxScaler().fit_transform(X.astype(float))
    order = np.random.default_rng(repeat).permutation(len(rows))
    private, public, test = np.split(order, [37_222, 44_222])
    public = public[:n_public]
    return Rows(rows[private], y[private], rows[public], y[public], rows[test], y[test])


@dataclass(frozen=True)
class Run:
    """One ensemble's records, and how they are taught."""

    settings: Settings
    repeat: int
    place: Workplace

    @cached_property
    def rows(self) -> Rows:
        """The split of records."""
        return _rows(self.settings["data"], self.repeat, self.settings["public"])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.settings["classes"])

    @property
    def law(self) -> ConfidentNoisyMax:
        """The paper's law of answers."""
        threshold, gate, sigma = self.settings["law"]
        return ConfidentNoisyMax(threshold=threshold, threshold_sigma=gate, sigma=sigma)

    def census(self, high: int, share: int) -> Census:
        """Return the groups of one cell."""
        n = len(self.rows.X)
        n_high = round(n * share / 100)
        budgets = tuple(Budget(epsilon=np.log(power), delta=DELTA) for power in (LOW, high))
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
        """Return the ensemble's votes on all public rows."""
        n = len(self.rows.X)
        group = np.zeros(n, dtype=np.int64)
        group[np.random.default_rng(self.repeat + share).permutation(n)[: round(n * share / 100)]] = 1
        return Votes(self.ballots(design, group, self.rows.X_public), self.n_classes)

    def ballots(
        self, design: ByGroup, group: NDArray[np.int64], asked: NDArray[np.float64]
    ) -> NDArray[np.unsignedinteger]:
        """Return the ballots of an ensemble on rows, after training it if necessary. `group` is that of each record."""
        rows, allocation = self.rows, self._allocation(design, group)
        learner = _learner(self.settings)
        learned = (type(learner), learner.get_params())
        made_from = (rows.X, rows.y, asked, allocation.teachers, allocation.offsets, learned, self.repeat)

        def taught() -> NDArray[np.unsignedinteger]:
            ensemble = TeacherEnsemble(
                learner, allocation, np.arange(self.n_classes), entropy=self.repeat, n_jobs=self.place.n_jobs
            )
            return ensemble.fit(rows.X, rows.y, lambda _: None).vote(asked).ballots

        return self.place.kept(made_from, taught)

    def _allocation(self, design: ByGroup, group: NDArray[np.int64]) -> Allocation:
        seats = design.seats
        if seats.teachers is None:
            copies = np.array(seats.copies)[group]
            return Allocation.upsampled(range(len(group)), copies, seats.n_teachers, entropy=self.repeat)
        return Allocation.by_group(range(len(group)), group, seats.teachers, entropy=self.repeat)


def _learner(settings: Settings) -> Any:
    if settings["data"] == "mnist":
        return TorchClassifier(
            personalised_pate_cnn,
            input_shape=(1, 28, 28),
            epochs=settings["epochs"],
            augmentation=ImageAugmentation(),
        )
    return RandomForestClassifier(n_estimators=settings["trees"])


def _uniform(settings: Settings, power: int, repeat: int, place: Workplace) -> Figures:
    run = Run(settings, repeat, place)
    return _one_budget(run, float(np.log(power)), baseline_of(power), 1000 * repeat)


def _cell(settings: Settings, kind: str, high: int, share: int, repeat: int, place: Workplace) -> Figures:
    run, row = Run(settings, repeat, place), row_of(high, share)
    if kind == AVERAGE:
        return _one_budget(run, float(np.log(LOW + (high - LOW) * share / 100)), row, 1000 * repeat)
    method, census = Personalisation(kind), run.census(high, share)
    ruled, solved = (run.design(method, census, published=published) for published in (True, False))
    return _counted(run, (ruled, solved if settings["solved"] else None), share, (row, kind), 1000 * repeat)


def _one_budget(run: Run, epsilon: float, row: str, first: int) -> Figures:
    census = Census(names=("all",), budgets=(Budget(epsilon=epsilon, delta=DELTA),), shares=(len(run.rows.X),))
    design = run.design(Personalisation.WEIGHTING, census, published=True)
    return _counted(run, (design, None), 0, (row, AVERAGE), first)


def _counted(
    run: Run, designs: tuple[ByGroup, ByGroup | None], share: int, place: tuple[str, str], first: int
) -> Figures:
    """Count labels by each account, as the mean of several votings. Score students of the paper's own count."""
    (ruled, solved), (row, column) = designs, place
    values: dict[str, list[float]] = {}

    def note(panel: str, beside: str, value: float) -> None:
        values.setdefault(figure(row, panel, column, beside), []).append(value)

    with high_threshold():
        votes = run.votes(ruled, share)
        for voting in range(first, first + run.settings["votings"]):
            counted = by_the_paper(votes, ruled, voting)
            note(LABELS, "", len(counted.asked))
            note(ACCURACY, "", 100 * accuracy(run, counted, voting))
            for panel, costs in zip((LOW_COST, HIGH_COST), counted.history, strict=False):
                for labels, epsilon in costs.items():
                    note(panel, f"{labels} labels", epsilon)
            note(LABELS, WORST, by_meter(votes, ruled, voting, Accounting.PUBLISHED))
            note(LABELS, EXACT, by_meter(votes, ruled, voting))
            best = ruled if solved is None else solved
            of_best = votes if solved is None else run.votes(solved, share)
            if solved is not None:
                note(LABELS, SOLVED, by_meter(of_best, solved, voting))
            note(LABELS, DEPENDENT, by_meter(of_best, best, voting, data_dependent=True))
    return {key: float(np.mean(found)) for key, found in values.items()}


def accuracy(run: Run, counted: Counted, voting: int) -> float:
    """Return the share of test rows that a student of the counted labels gets right."""
    if not len(counted.asked):
        return 0.0
    student = fit_student(_learner(run.settings), run.rows.X_public[counted.asked], counted.labels, voting)
    return float(np.mean(student.predict(run.rows.X_test) == run.rows.y_test))


def ratio_row(c: int) -> str:
    """Return how a row of a ratio of sensitivities is called."""
    return f"sensitivities {c} to 1"


def ratios(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return the cells of figure 4: two groups of equal size, one of which counts several times as much."""
    for repeat in range(seed, seed + settings["repeats"]):
        for c in settings["ratios"]:
            for kind in settings["methods"]:
                if kind == UPSAMPLED and c > settings["most_copies"]:
                    continue
                cost = settings["seconds_an_ensemble"] * ((c + 1) / 2 if kind == UPSAMPLED else 0.2) + 5
                yield Cell(
                    name=f"{kind}-{c}-run{repeat}", seconds=cost, work=partial(_ratio, settings, kind, c, repeat)
                )


def _ratio(settings: Settings, kind: str, c: int, repeat: int, place: Workplace) -> Figures:
    run, method = Run(settings, repeat, place), Personalisation(kind)
    # Turns are in proportion to the square of budgets.
    epsilon = np.sqrt(c) if method is Personalisation.VANISHING else float(c)
    census = replace(
        run.census(4, 50), budgets=tuple(Budget(epsilon=value, delta=DELTA) for value in (0.1, 0.1 * epsilon))
    )
    with high_threshold():
        design = run.design(method, census, published=True)
        votes = run.votes(design, 50)
        ratios = []
        for voting in range(1000 * repeat, 1000 * repeat + settings["votings"]):
            low, high = by_the_paper(votes, design, voting).at_end
            ratios.append(high / low)
    return {figure(ratio_row(c), RATIO, kind): float(np.mean(ratios))}
