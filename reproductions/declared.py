"""What a table of a paper printed, and what is run to print it again: declarations, and nothing that runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dpensemble.errors import InvalidParameterError
from reproductions.store import Workplace

#: Numbers by key. See `figure`.
Figures = dict[str, float]
Settings = Mapping[str, Any]

# The setting that changes how much is run rather than what. More repeats continue from fewer.
REPEATS = "repeats"
# Settings that results do not depend on: the number of runs, the largest number of runs of slow rows, and an estimate
# of time.
UNSTAMPED = (REPEATS, "most_repeats", "seconds_an_ensemble")


class Status(StrEnum):
    """How far a table or figure of a paper is reproduced."""

    DONE = "done"
    """On the paper's data."""
    STAND_IN = "stand-in"
    """On other data or by another network, because the paper's is not available."""
    NOT_APPLICABLE = "not applicable"
    """Nothing to compute."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A part of an experiment that is run in one go and kept in one file.

    Parameters
    ----------
    name : str
        File name without its end.
    seconds : float
        About how long it takes on one core.
    work : callable
        Takes a `Workplace`, and returns numbers by key.
    """

    name: str
    seconds: float
    work: Callable[[Workplace], Figures]


@dataclass(frozen=True, kw_only=True)
class Need:
    """Data or a library that not everybody has.

    Parameters
    ----------
    name : str
        What it is.
    missing : callable
        Returns None if the data exist, and otherwise a sentence that names their place, without a full stop.
    package : str, optional
        The distribution that computes results, whose version they depend on.
    """

    name: str
    missing: Callable[[], str | None]
    package: str | None = None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is run, once for all tables that it fills.

    Parameters
    ----------
    name : str
        Names the folder of its results.
    settings : mapping
        Plain values, all that results depend on. ``repeats`` is the number of runs.
    quick : mapping
        What ``--quick`` changes.
    cells : callable
        Takes settings and a seed, and returns the cells.
    needs : tuple of Need
        What has to be there.
    revision : int, default=1
        Raised when the code changes what comes out, so that older results are not used.
    """

    name: str
    settings: Settings
    quick: Settings
    cells: Callable[[Settings, int], Iterable[Cell]]
    needs: tuple[Need, ...] = ()
    revision: int = 1

    def chosen(self, *, quick: bool, repeats: int | None = None) -> dict[str, Any]:
        """Return the settings of a full or quick run, with another number of repeats if one is asked for."""
        settings = dict(self.settings) | (dict(self.quick) if quick else {})
        if repeats is not None and REPEATS in settings:
            settings[REPEATS] = repeats
        return settings

    @property
    def packages(self) -> tuple[str, ...]:
        """Distributions besides those of every experiment, whose versions results depend on."""
        return tuple(need.package for need in self.needs if need.package is not None)

    def missing(self) -> str | None:
        """Return what is missing and where to put it, or None."""
        return next((said for need in self.needs if (said := need.missing()) is not None), None)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One quantity of a table.

    Parameters
    ----------
    title : str
        The quantity.
    columns : tuple of str
        Settings at which it was printed.
    digits : int
        Decimals that the paper prints.
    mixed : bool
        Whether the paper prints some figures with fewer decimals, without zeros at the end.
    """

    title: str
    columns: tuple[str, ...]
    digits: int = 4
    mixed: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table or figure of a paper.

    Parameters
    ----------
    name : str
        Short name for the command line, such as ``dpbag-5``.
    where : str
        Paper and number.
    title : str
        What it shows.
    experiment : Experiment
        What is run.
    panels : tuple of Panel
        Quantities.
    published : mapping
        Rows in order. Each maps (panel's title, column) to the printed number, or has no entry if none was printed.
    beside : mapping of str to str
        Further figures of each entry that no paper printed: key and heading. The last one is our extension.
    ours : tuple of str
        Rows that no paper printed.
    about : str
        Conventions, in a few sentences.
    why : str
        Where and why reproduced figures differ, or that it is not known and what was tried.
    extension : str
        What this library adds at the same budget.
    few_runs : str
        Why some figures have no result, or fewer than three runs.
    status : Status, default="done"
    """

    name: str
    where: str
    title: str
    experiment: Experiment
    panels: tuple[Panel, ...]
    published: Mapping[str, Mapping[tuple[str, str], float]]
    beside: Mapping[str, str] = field(default_factory=dict)
    ours: tuple[str, ...] = ()
    about: str = ""
    why: str = ""
    extension: str = ""
    few_runs: str = ""
    status: Status = Status.DONE

    @property
    def rows(self) -> tuple[str, ...]:
        """The printed rows, and ours."""
        return (*self.published, *self.ours)


def figure(row: str, panel: str, column: str, beside: str = "") -> str:
    """Return the key of a number."""
    return " | ".join((row, panel, column, *([beside] if beside else [])))


def rows_of(panels: tuple[Panel, ...], printed: Mapping[str, str]) -> dict[str, dict[tuple[str, str], float]]:
    """Return published numbers by row.

    A row is text as printed, panel after panel: one word an entry, and ``-`` for none. An empty row has no numbers.
    """
    places = [(panel.title, column) for panel in panels for column in panel.columns]
    rows = {}
    for row, text in printed.items():
        words = text.replace(",", "").split()
        if words and len(words) != len(places):
            raise InvalidParameterError(f"published row {row!r} has {len(words)} entries and not {len(places)}.")
        rows[row] = {place: float(word) for place, word in zip(places, words, strict=False) if word != "-"}
    return rows
