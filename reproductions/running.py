"""Running the experiments that tables need, and going on where an earlier run was stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

from joblib import effective_n_jobs

from dpensemble._work import progress_bar
from dpensemble.errors import FileError
from reproductions.declared import UNSTAMPED, Cell, Experiment, Table
from reproductions.store import CellStore, Stored, Workplace, versions
from reproductions.summary import TableResult, duration, number_and_word, summary

#: Folder of finished parts in that of a run, and its folder of full settings.
CELLS, FULL = "cells", "full"

Tell = Callable[[str], None]
# Seconds of finished cells that count as much as the declared estimate.
_PRIOR = 30.0


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How tables are run.

    Parameters
    ----------
    out : Path
        Folder of cells, arrays and results.
    quick : bool, default=False
        Smaller settings, minutes for all.
    seed : int, default=0
        Seed of the first repeat. Later repeats count on from it.
    repeats : int, optional
        Independent runs, instead of the declared number.
    n_jobs : int, optional
        Workers, as in joblib.
    progress : bool, default=False
        Show a bar with the time remaining.
    """

    out: Path
    quick: bool = False
    seed: int = 0
    repeats: int | None = None
    n_jobs: int | None = None
    progress: bool = False


@dataclass(frozen=True)
class _Part:
    """An experiment with its cells, and those that are there already."""

    experiment: Experiment
    store: CellStore
    cells: tuple[Cell, ...]
    found: dict[str, Stored]

    @property
    def to_do(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.name not in self.found]

    @property
    def seconds(self) -> float:
        """The time ahead: what is declared, corrected by how long the finished cells took."""
        declared = sum(cell.seconds for cell in self.cells if cell.name in self.found)
        measured = sum(self.found[cell.name].work for cell in self.cells if cell.name in self.found)
        # A short cell measures the speed of a machine badly.
        pace = (measured + _PRIOR) / (declared + _PRIOR)
        return pace * sum(cell.seconds for cell in self.to_do)


def reproduce(tables: Sequence[Table], settings: RunSettings, tell: Tell, *, strict: bool = True) -> list[TableResult]:
    """Run what tables need and is not there yet, and return their results.

    Parameters
    ----------
    tables : sequence of Table
        What to reproduce.
    settings : RunSettings
        How.
    tell : callable
        Takes a line of progress for people.
    strict : bool, default=True
        Whether to raise if data are missing. Otherwise those tables are left out, with a message.

    Returns
    -------
    list of TableResult
        One a table that could be run.

    Raises
    ------
    FileError
        If data are missing, or a result cannot be written. Results that were finished before are kept.
    """
    parts: dict[str, _Part] = {}
    wanted = []
    for table in tables:
        missing = table.experiment.missing()
        if missing is not None:
            if strict:
                raise FileError(f"{table.name} needs {missing}.")
            tell(f"{table.name} is left out: it needs {missing}.")
            continue
        wanted.append(table)
        if table.experiment.name not in parts:
            parts[table.experiment.name] = _part(table.experiment, settings)
    for part in parts.values():
        if part.store.stale:
            stale = number_and_word(len(part.store.stale), "earlier result is", "earlier results are")
            tell(f"{part.experiment.name}: {stale} not used, and run again: {_few(part.store.stale)}.")
    tell(_estimate(list(parts.values())))
    _run(list(parts.values()), settings)
    return [summary(table, parts[table.experiment.name].found, settings.quick, settings.seed) for table in wanted]


def _part(experiment: Experiment, settings: RunSettings) -> _Part:
    chosen = experiment.chosen(quick=settings.quick, repeats=settings.repeats)
    stamp = {
        "experiment": experiment.name,
        "revision": experiment.revision,
        "settings": {name: value for name, value in chosen.items() if name not in UNSTAMPED},
        "seed": settings.seed,
        "versions": versions(experiment.packages),
    }
    kind = "quick" if settings.quick else FULL
    store = CellStore(settings.out / CELLS / kind / experiment.name, stamp)
    cells = tuple(experiment.cells(chosen, settings.seed))
    found = {cell.name: stored for cell in cells if (stored := store.load(cell.name)) is not None}
    return _Part(experiment, store, cells, found)


def _run(parts: Sequence[_Part], settings: RunSettings) -> None:
    total = sum(cell.seconds for part in parts for cell in part.to_do)
    alone = effective_n_jobs(settings.n_jobs) == 1
    with progress_bar("Reproducing", total, shown=settings.progress) as advance:
        for part in parts:
            place = Workplace(settings.out / "arrays", settings.n_jobs, versions(part.experiment.packages))
            for cell in part.to_do:
                start, cpu_start = perf_counter(), process_time()
                figures = cell.work(place)
                stored = Stored(figures, perf_counter() - start, process_time() - cpu_start if alone else None)
                part.store.save(cell.name, stored)
                part.found[cell.name] = stored
                advance(cell.seconds)


def _estimate(parts: Sequence[_Part]) -> str:
    """Report the work ahead, and about how long it takes on one core."""
    cells = [cell for part in parts for cell in part.to_do]
    there = sum(len(part.found) for part in parts)
    kept = f"; {number_and_word(there, 'is', 'are')} there already" if there else ""
    if not cells:
        return f"Nothing is left to run{kept}."
    ahead = duration(sum(part.seconds for part in parts))
    return f"{number_and_word(len(cells), 'part', 'parts')} to run, about {ahead} on one core{kept}."


def _few(names: Sequence[str]) -> str:
    """Return the first of some names."""
    return names[0] + (" and others" if len(names) > 1 else "")
