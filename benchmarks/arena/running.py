"""Which fits are wanted, and running those whose results are not there yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict
from functools import lru_cache
from itertools import islice
from pathlib import Path

from arena.contestants import CONTESTANTS, Contestant
from arena.encoding import Encoded
from arena.environments import table_packages
from arena.results import Task, scores
from arena.sources import read, rows_of
from arena.tables import TABLES, Table

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 3.0, 5.0)
SPLITS = 5

_TABLE = {table.name: table for table in TABLES}
_CONTESTANT = {contestant.name: contestant for contestant in CONTESTANTS}


def tasks(
    tables: Sequence[Table],
    contestants: Sequence[Contestant],
    epsilons: Sequence[float],
    splits: int,
    home: Path,
) -> Iterator[Task]:
    """Return all fits, split by split, so that the first split of every table comes before the second of any."""
    packages = table_packages(home)
    for split in range(splits):
        for table in tables:
            classes = len(read(table, packages)[2])
            for epsilon in (None, *epsilons):
                for one in contestants:
                    if one.takes(classes) and (one.relation is None) == (epsilon is None):
                        yield Task(table.name, one.name, one.version, epsilon, split)


@lru_cache(maxsize=2)
def _encoded(table: str, split: int, home: Path) -> Encoded:
    return Encoded(rows_of(_TABLE[table], split, table_packages(home)))


def run(task: Task, home: Path) -> dict:
    """Return one result as it is kept; an error is a result."""
    settings = {"epsilon": task.epsilon, "delta": DELTA, "seed": task.split}
    try:
        encoded = _encoded(task.table, task.split, home)
        probabilities, seconds = _CONTESTANT[task.contestant].fit(encoded, home, **settings)
        found = scores(probabilities, encoded.rows.y_test) | {"seconds": round(seconds, 3)}
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"[:500]}
    return asdict(task) | found


def run_all(wanted: Iterable[Task], home: Path, jobs: int) -> Iterator[dict]:
    """Run fits, and return each result as soon as it is there."""
    if jobs == 1:
        yield from (run(task, home) for task in wanted)
        return
    remaining = iter(wanted)
    with ProcessPoolExecutor(jobs) as pool:
        # Few at a time, so that a process finds the split of its last task still encoded.
        running = {pool.submit(run, task, home) for task in islice(remaining, 2 * jobs)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
            running |= {pool.submit(run, task, home) for task in islice(remaining, len(done))}
