"""The tables of personalised PATE in which the records of one class have higher budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpensemble.accounting import Accounting
from dpensemble.design import ByGroup, Census, Personalisation
from dpensemble.guarantee import Budget
from dpensemble.votes import Votes
from reproductions.declared import Cell, Figures, Settings, figure
from reproductions.personalised import (
    ACCURACY,
    EXACT,
    LABELS,
    LOW,
    UPSAMPLED,
    WORST,
    Run,
    accuracy,
    baseline_of,
)
from reproductions.personalised_counts import DELTA, by_meter, by_the_paper, high_threshold
from reproductions.store import Workplace

PRECISION, RECALL, VOTING = "Teachers' precision in %", "Teachers' recall in %", "Voting accuracy in %"


def skewed(settings: Settings, seed: int) -> Iterator[Cell]:
    """Return one cell for each higher budget and share of the rarer class that has it. Upsampling only."""
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
    run = Run(settings, repeat, place)
    rows, n = run.rows, len(run.rows.X)
    rare = np.flatnonzero(rows.y == 1)
    chosen = np.random.default_rng(repeat + share).permutation(rare)[: round(len(rare) * share / 100)]
    group = np.zeros(n, dtype=np.int64)
    group[chosen] = 1
    budgets = [Budget(epsilon=np.log(power), delta=DELTA) for power in (LOW, high or LOW)]
    names, shares = (("low", "high"), (n - len(chosen), len(chosen))) if len(chosen) else (("all",), (n,))
    census = Census(names=names, budgets=tuple(budgets[: len(names)]), shares=shares)
    with high_threshold():
        design = run.design(Personalisation.UPSAMPLING, census, published=True)
        asked = np.vstack([rows.X_public, rows.X_test])
        ballots = run.ballots(design, group, asked)
        votes = Votes(ballots[: len(rows.X_public)], 2)
        row = baseline_of(LOW) if high is None else skewed_row(high, share)
        return _of_skewed(run, votes, ballots[len(rows.X_public) :], design, (row, 1000 * repeat))


def _of_skewed(
    run: Run, votes: Votes, on_test: NDArray[np.unsignedinteger], design: ByGroup, named: tuple[str, int]
) -> Figures:
    row, first = named
    truth = run.rows.y_test
    said = on_test == 1
    hits = (said & (truth[:, None] == 1)).sum(axis=0)
    figures: dict[str, list[float]] = {}
    scores: Sequence[tuple[str, float]] = (
        (PRECISION, 100 * float(np.mean(hits / np.maximum(said.sum(axis=0), 1)))),
        (RECALL, 100 * float(np.mean(hits / truth.sum()))),
    )
    for voting in range(first, first + run.settings["votings"]):
        counted = by_the_paper(votes, design, voting)
        right = float(np.mean(counted.labels == run.rows.y_public[counted.asked])) if len(counted.asked) else 0.0
        student = accuracy(run, counted, voting)
        for panel, value in ((LABELS, len(counted.asked)), (VOTING, 100 * right), (ACCURACY, 100 * student), *scores):
            figures.setdefault(figure(row, panel, UPSAMPLED), []).append(value)
        for beside, accounting in ((WORST, Accounting.PUBLISHED), (EXACT, Accounting.EXACT)):
            counted_by = by_meter(votes, design, voting, accounting)
            figures.setdefault(figure(row, LABELS, UPSAMPLED, beside), []).append(counted_by)
    return {key: float(np.mean(values)) for key, values in figures.items()}
