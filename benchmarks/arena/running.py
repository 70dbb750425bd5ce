"""Which fits are wanted, and running those whose results are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, islice
from pathlib import Path

import numpy as np

from arena import regions
from arena.contestants import CONTESTANTS, Contestant
from arena.encoding import Encoded
from arena.environments import table_packages
from arena.limits import CPU_SECONDS, TooSlowError, cpu_limit
from arena.metrics import scores
from arena.relations import budgets, spent
from arena.results import Results, Task
from arena.sources import read, rows_of
from arena.tables import TABLES, Table

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 3.0, 5.0)
DRAWS = 3
#: After so many fits of a contestant on a table that took too long, the others are not tried.
_SLOW_FITS = 2

#: Every table by its name.
TABLE = {
    table.name: table for table in (*TABLES, *regions.tables(regions.REPORT), *regions.tables(regions.DEVELOPMENT))
}
_CONTESTANT = {contestant.name: contestant for contestant in CONTESTANTS}


@dataclass(frozen=True)
class Plan:
    """What to run: every combination, with the second table at nominal budgets if `nominal`.

    A table that has values of epsilon of its own is run at these.
    """

    tables: Sequence[Table]
    contestants: Sequence[Contestant]
    epsilons: Sequence[float]
    splits: Sequence[int]
    draws: int
    nominal: bool
    home: Path

    def tasks(self) -> Iterator[Task]:
        """Return all fits, split by split, so that the first split of every table comes before the second of any."""
        packages = table_packages(self.home)
        for split in self.splits:
            for table in self.tables:
                classes = len(read(table, packages)[2])
                for draw in range(self.draws):
                    for epsilon in (None, *(table.epsilons or self.epsilons)):
                        yield from self._at(table.name, classes, epsilon, split, draw)

    def _at(self, table: str, classes: int, epsilon: float | None, split: int, draw: int) -> Iterator[Task]:
        for budget in budgets_in_order(self.nominal):
            for one in self.contestants:
                wanted = (one.relation is None) == (epsilon is None) and budget in budgets(one.relation, self.nominal)
                # What has no privacy has no noise, so one draw is enough.
                if wanted and one.takes(classes) and (one.relation is not None or draw == 0):
                    yield Task(table, one.name, one.version, epsilon, split, draw, budget)


def budgets_in_order(nominal: bool) -> tuple[str, ...]:
    """Return the budgets of all contestants, so that fits with the same budget stand together."""
    return tuple(dict.fromkeys(budget for one in CONTESTANTS for budget in budgets(one.relation, nominal)))


@lru_cache(maxsize=2)
def _encoded(table: str, split: int, home: Path) -> Encoded:
    return Encoded(rows_of(TABLE[table], split, table_packages(home)))


def run(task: Task, home: Path) -> dict:
    """Return the outcome of one fit: its scores and CPU seconds, or its error."""
    return outcome_of(
        task, home, lambda encoded, **settings: _CONTESTANT[task.contestant].fit(encoded, home, **settings)
    )


def outcome_of(task: Task, home: Path, fit: Callable[..., tuple[np.ndarray, float]]) -> dict:
    """Return the scores and seconds of a fit, which takes the encoded split, epsilon, delta and seed, or its error."""
    settings: dict[str, float | None] = {"epsilon": None, "delta": None, "seed": task.seed}
    if task.epsilon is not None:
        settings["epsilon"], settings["delta"] = spent(task.epsilon, DELTA, task.budget)
    try:
        encoded = _encoded(task.table, task.split, home)
        with cpu_limit(CPU_SECONDS):
            probabilities, seconds = fit(encoded, **settings)
        return scores(probabilities, encoded.rows.y_test) | {"seconds": round(seconds, 3)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def run_all(
    wanted: Iterable[Task], home: Path, jobs: int, known: Results, one: Callable[[Task, Path], dict] | None = None
) -> Iterator[tuple[Task, dict]]:
    """Run fits, by the function `one` or else by `run`, and return each outcome as soon as it is there.

    Fits of the same split, draw and budget run one after the other in one process, since some share a private model.
    """
    slow = Counter(_place(task) for task, row in known.items() if _is_slow(row))
    batches = (list(batch) for _, batch in groupby(wanted, key=_batch))
    if jobs == 1:
        for batch in batches:
            yield from _counted(_run_batch(batch, home, frozenset(_hopeless(slow)), one), slow)
        return
    with ProcessPoolExecutor(jobs) as pool:
        running = {
            pool.submit(_listed, batch, home, frozenset(_hopeless(slow)), one) for batch in islice(batches, 2 * jobs)
        }
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield from _counted(future.result(), slow)
            hopeless = frozenset(_hopeless(slow))
            running |= {pool.submit(_listed, batch, home, hopeless, one) for batch in islice(batches, len(done))}


def _batch(task: Task) -> tuple:
    return (task.table, task.split, task.draw, task.epsilon, task.budget)


def _place(task: Task) -> tuple[str, str, int]:
    return (task.table, task.contestant, task.version)


def _is_slow(row: dict) -> bool:
    return TooSlowError.__name__ in row.get("error", "")


def _hopeless(slow: Counter) -> Iterator[tuple[str, str, int]]:
    return (place for place, times in slow.items() if times >= _SLOW_FITS)


def _run_batch(
    batch: list[Task], home: Path, hopeless: frozenset, one: Callable[[Task, Path], dict] | None
) -> Iterator[tuple[Task, dict]]:
    for task in batch:
        if _place(task) in hopeless:
            reason = f"{_SLOW_FITS} fits of this table took longer than {CPU_SECONDS:g} CPU seconds"
            yield task, {"error": f"not tried: {reason}"}
        else:
            yield task, (one or run)(task, home)


def _listed(
    batch: list[Task], home: Path, hopeless: frozenset, one: Callable[[Task, Path], dict] | None
) -> list[tuple[Task, dict]]:
    return list(_run_batch(batch, home, hopeless, one))


def _counted(outcomes: Iterable[tuple[Task, dict]], slow: Counter) -> Iterator[tuple[Task, dict]]:
    for task, outcome in outcomes:
        slow[_place(task)] += _is_slow(outcome)
        yield task, outcome
