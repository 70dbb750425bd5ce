"""Table 5 of C. Mühl and F. Boenisch, "Personalized PATE" (2022): labels until a budget runs out, on Adult.

250 random forests, Confident-GNMax with threshold 300 (noise 200) and noise 40, delta 1e-5, the budget ln 2
against ln 4, 8, 16 for 25, 50, 75 % of the records. For each cell it prints the published figure, ours by the
paper's own accounting (data-dependent bounds, which hold in one direction only), and what the same budgets buy
in sound accounts: the published worst case, the exact worst case with the paper's parameters and with solved
ones, and exact data-dependent accounting with solved ones.

Run ``make reproduce``; about ten minutes an ensemble on two cores. ``--quick`` takes one budget and share.

Conventions that the paper leaves open, found by trying: rows with a missing entry are dropped and categories are
numbered alphabetically; a check is charged on every query; the average baseline is the logarithm of the mean of
exp(epsilon); vanishing teachers take part in the squared, not the fourth, power of the ratio of budgets.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import MinMaxScaler, OrdinalEncoder

from dpensemble import Budget, load_adult
from dpensemble._random import SeededNoise
from dpensemble.accounting import (
    Accounting,
    DataDependentGroupMeter,
    Meter,
    published_group_rdp,
    worst_case_meter,
)
from dpensemble.allocation import grouped_partitions, upsampled_partition
from dpensemble.design import ByGroup, Census, InfluenceRule, Personalisation
from dpensemble.electorate import Electorate
from dpensemble.errors import BudgetError
from dpensemble.labelling import Questions, label_rows
from dpensemble.laws import ConfidentNoisyMax, LawChoice, sample
from dpensemble.teachers import TeacherEnsemble
from dpensemble.votes import Votes

N_PRIVATE, N_PUBLIC, N_TEACHERS, DELTA = 37_222, 7_000, 250, 1e-5
LAW = ConfidentNoisyMax(threshold=300, threshold_sigma=200, sigma=40)
ORDERS = np.arange(2.0, 51.0)
LOW, HIGHS, SHARES = 2, (4, 8, 16), (25, 50, 75)
PUBLISHED = {
    "average": {4: (158, 225, 291), 8: (291, 474, 628), 16: (528, 843, 1090)},
    "upsampling": {4: (140, 202, 272), 8: (198, 346, 541), 16: (264, 530, 868)},
    "vanishing": {4: (16, 57, 133), 8: (10, 75, 236), 16: (8, 95, 400)},
    "weighting": {4: (139, 203, 273), 8: (198, 349, 543), 16: (259, 530, 872)},
}
UNIFORM = {2: 88, 4: 354, 8: 763, 16: 1288}
COLUMNS = ("ours", "published worst case", "exact", "exact, solved", "exact data-dependent, solved")


class Run:
    """One split of Adult, a random assignment of budgets, and every ensemble's ballots on the public rows."""

    def __init__(self, seed: int, jobs: int, cache: Path | None) -> None:
        adult = load_adult()
        complete = ~(adult.X == "?").any(axis=1)
        X, y = adult.X[complete].copy(), (adult.y[complete] == adult.classes[1]).to_numpy().astype(np.int64)
        categorical = X.select_dtypes(exclude="number").columns
        X[categorical] = OrdinalEncoder().fit_transform(X[categorical])
        rows = MinMaxScaler().fit_transform(X.astype(float))
        order = np.random.default_rng(seed).permutation(len(rows))
        private, public = order[:N_PRIVATE], order[N_PRIVATE : N_PRIVATE + N_PUBLIC]
        self.X, self.y, self.X_public = rows[private], y[private], rows[public]
        self.seed, self.jobs, self.cache = seed, jobs, cache
        self._ballots: dict[tuple[int, ...], NDArray[np.int64]] = {}

    def census(self, high: int, share: int) -> Census:
        """Return the groups of one cell."""
        n_high = round(N_PRIVATE * share / 100)
        budgets = tuple(Budget(epsilon=np.log(power), delta=DELTA) for power in (LOW, high))
        return Census(names=("low", "high"), budgets=budgets, shares=(N_PRIVATE - n_high, n_high))

    def votes(self, design: ByGroup, share: int) -> Votes:
        """Return the votes of the ensemble, trained where it was not trained before."""
        copies = design.seats.copies if design.seats.teachers is None else ()
        key = (share, *copies)
        if key not in self._ballots:
            self._ballots[key] = self._load(key, self.cache) if self.cache else self._train(key)
        return Votes(self._ballots[key], 2)

    def _load(self, key: tuple[int, ...], cache: Path) -> NDArray[np.int64]:
        path = cache / f"ballots-{self.seed}-{'-'.join(map(str, key))}.npy"
        if not path.exists():
            cache.mkdir(parents=True, exist_ok=True)
            np.save(path, self._train(key).astype(np.uint8))
        return np.load(path).astype(np.int64)

    def _train(self, key: tuple[int, ...]) -> NDArray[np.int64]:
        share, *copies = key
        start = perf_counter()
        group = np.zeros(N_PRIVATE, dtype=np.int64)
        group[np.random.default_rng(self.seed + share).permutation(N_PRIVATE)[: round(N_PRIVATE * share / 100)]] = 1
        if copies:
            number = np.array(copies)[group]
            n_teachers = int(N_TEACHERS * number.mean() + 0.5)
            allocation = upsampled_partition(range(N_PRIVATE), number, n_teachers, entropy=self.seed)
        else:
            high = round(N_TEACHERS * share / 100)
            teachers = [N_TEACHERS - high, high] if high else [N_TEACHERS]
            allocation = grouped_partitions(range(N_PRIVATE), group, teachers, entropy=self.seed)
        forest = RandomForestClassifier(n_estimators=100)
        ensemble = TeacherEnsemble(forest, allocation, np.array([0, 1]), entropy=self.seed, n_jobs=self.jobs).fit(
            self.X, self.y, lambda _: None
        )
        found = ensemble.vote(self.X_public).ballots.astype(np.int64)
        note(f"  {allocation.n_teachers} forests for {key} in {perf_counter() - start:.0f} s")
        return found


def note(text: str) -> None:
    """Tell on stderr what goes on."""
    print(text, file=sys.stderr, flush=True)


def by_the_paper(votes: Votes, design: ByGroup, voting: int) -> int:
    """Count labels until a group's (with turns, a teacher's) published data-dependent cost exceeds its budget."""
    electorate = Electorate((design.seats.stage,), voting)
    shuffled = Votes(votes.ballots[np.random.default_rng(voting).permutation(N_PUBLIC)], 2)
    counts, ballots = electorate.counts(shuffled, 0), electorate.ballots(0, N_PUBLIC)
    answered = sample(design.seats.stage.law, counts, SeededNoise(voting)) < 2
    first = np.cumsum([0, *(pool.n_teachers for pool in design.seats.stage.pools)])
    last = N_PUBLIC
    for group in design.groups:
        pool = design.seats.stage.pools[group.pool]
        cost = published_group_rdp(design.seats.stage.law, counts, ORDERS, group.votes * pool.ballot)
        each = cost.check + answered[:, None] * cost.label
        turns = pool.participants < pool.n_teachers
        for teacher in range(first[group.pool], first[group.pool + 1] if turns else first[group.pool] + 1):
            taken = each[:last] * (ballots[:last, teacher, None] > 0)
            epsilon = (np.cumsum(taken, axis=0) + np.log(1 / DELTA) / (ORDERS - 1)).min(axis=1)
            last = min(last, int(np.count_nonzero(epsilon <= group.budget.epsilon)))
    return int(answered[:last].sum())


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
    order = np.random.default_rng(voting).permutation(N_PUBLIC)
    rows = np.arange(N_PUBLIC, dtype=np.float64)[:, None]
    questions = Questions(lambda chunk: Votes(votes.ballots[chunk[:, 0].astype(int)], 2), rows, order, votes.n_teachers)
    meter: Meter = worst_case_meter(electorate, design.groups, n_classes=2, accounting=accounting)
    if data_dependent:
        meter = DataDependentGroupMeter(electorate, design.groups, 2, stop_when_spent=True)
    try:
        meter.require_one_query()
    except BudgetError:
        return 0
    return len(label_rows(questions, electorate, meter, SeededNoise(voting)).answered)


def design_of(kind: Personalisation, census: Census, *, published: bool = False) -> ByGroup:
    """Return the run of one method, with the paper's influences or with solved ones."""
    return ByGroup(
        name=f"{kind.value}-pate",
        kind=kind,
        choice=LawChoice.of(LAW),
        n_teachers=N_TEACHERS,
        census=census,
        rule=InfluenceRule(published=published),
    )


def cell(run: Run, kind: Personalisation, high: int, share: int, votings: list[int]) -> list[float]:
    """Return the mean labels of one cell, one figure a column."""
    census = run.census(high, share)
    ruled, solved = (design_of(kind, census, published=published) for published in (True, False))
    of_rule, of_solved = run.votes(ruled, share), run.votes(solved, share)
    found = [
        (
            by_the_paper(of_rule, ruled, voting),
            by_meter(of_rule, ruled, voting, Accounting.PUBLISHED),
            by_meter(of_rule, ruled, voting),
            by_meter(of_solved, solved, voting),
            by_meter(of_solved, solved, voting, data_dependent=True),
        )
        for voting in votings
    ]
    return np.mean(found, axis=0).tolist()


def baseline(run: Run, epsilon: float, votings: list[int]) -> list[float]:
    """Return the labels of plain PATE with one budget for all."""
    budget = Budget(epsilon=epsilon, delta=DELTA)
    census = Census(names=("all",), budgets=(budget,), shares=(N_PRIVATE,))
    plain = design_of(Personalisation.WEIGHTING, census)
    votes = run.votes(plain, 0)
    found = [
        (
            by_the_paper(votes, plain, voting),
            by_meter(votes, plain, voting, Accounting.PUBLISHED),
            by_meter(votes, plain, voting),
            np.nan,
            by_meter(votes, plain, voting, data_dependent=True),
        )
        for voting in votings
    ]
    return np.mean(found, axis=0).tolist()


def cells(quick: bool) -> list[tuple[str, int, int, int]]:
    """Return method, high budget, share in per cent and published figure of each cell."""
    highs, shares = ((8,), (50,)) if quick else (HIGHS, SHARES)
    uniform = [("one budget", power, 0, labels) for power, labels in UNIFORM.items()]
    return uniform + [
        (method, high, share, PUBLISHED[method][high][SHARES.index(share)])
        for method in PUBLISHED
        for high in highs
        for share in shares
    ]


def main() -> None:
    """Read the command line, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ensembles", type=int, default=1, help="independent splits and ensembles")
    parser.add_argument("--votings", type=int, default=5, help="voting runs of each ensemble")
    parser.add_argument("--jobs", type=int, default=-1, help="workers that train forests")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first ensemble")
    parser.add_argument("--cache", type=Path, help="folder that keeps ballots, so that a second run need not train")
    parser.add_argument("--quick", action="store_true", help="one high budget and share only")
    options = parser.parse_args()
    # A threshold above the number of teachers is the paper's.
    warnings.filterwarnings("ignore", "threshold=.* is above the number of")
    chosen = cells(options.quick)
    figures = np.full((options.ensembles, len(chosen), len(COLUMNS)), np.nan)
    for number in range(options.ensembles):
        run = Run(options.seed + number, options.jobs, options.cache)
        votings = [1000 * (options.seed + number) + voting for voting in range(options.votings)]
        for place, (method, high, share, _) in enumerate(chosen):
            if method == "one budget":
                found = baseline(run, np.log(high), votings)
            elif method == "average":
                found = baseline(run, np.log(LOW + (high - LOW) * share / 100), votings)
            else:
                found = cell(run, Personalisation(method), high, share, votings)
            figures[number, place] = found
            note(f"ensemble {number}: {method} ln {high} {share} %")
    print(f"{'method':<12}{'budget':>7}{'share':>7}{'paper':>7}" + "".join(f"{c:>{len(c) + 3}}" for c in COLUMNS))
    for (method, high, share, published), means in zip(chosen, figures.mean(axis=0), strict=True):
        ours = "".join(
            f"{'-' if np.isnan(mean) else f'{mean:.1f}':>{len(column) + 3}}"
            for column, mean in zip(COLUMNS, means, strict=True)
        )
        print(f"{method:<12}{f'ln {high}':>7}{f'{share} %' if share else '':>7}{published:>7}{ours}")


if __name__ == "__main__":
    main()
