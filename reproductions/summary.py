"""What a table shows after its experiment was run: published, reproduced, difference, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from reproductions.declared import Table, figure
from reproductions.store import Stored, versions

# A difference of more standard deviations of one run than this counts as more than chance, given enough runs.
_SPREADS, _RUNS = 2.0, 3
_MINUTE, _HOUR = 60.0, 3600.0


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One number of a table.

    Parameters
    ----------
    row, panel, column : str
        Where it stands.
    published : float or None
        As printed.
    reproduced : float or None
        Mean over runs.
    spread : float or None
        Standard deviation from run to run, or None for a single run.
    runs : int
        Number of runs.
    beside : dict of str to float
        Further means, by key.
    """

    row: str
    panel: str
    column: str
    published: float | None
    reproduced: float | None
    spread: float | None
    runs: int
    beside: dict[str, float]

    @property
    def difference(self) -> float | None:
        """Reproduced less published."""
        if self.published is None or self.reproduced is None:
            return None
        return self.reproduced - self.published

    def agrees(self, digits: int | None) -> bool | None:
        """Return whether the difference is within twice the spread and the rounding, or None if runs are too few.

        `digits` are the decimals that were printed, or None for those of the figure itself.
        """
        difference = self.difference
        if difference is None:
            return None
        decimals = _decimals(self.published) if digits is None else digits
        rounding = 0.5 * 10.0**-decimals + 1e-12
        if abs(difference) <= rounding:
            return True
        if self.spread is None or self.runs < _RUNS:
            return None
        return abs(difference) <= _SPREADS * self.spread + rounding


@dataclass(frozen=True, kw_only=True)
class TableResult:
    """A table with what was found.

    Parameters
    ----------
    table : str
        Its short name.
    quick : bool
        Whether the settings were the small ones.
    seed : int
        Of the first run.
    seconds : float
        Time that all its runs took together.
    versions : dict of str to str
        What it was computed with.
    entries : tuple of Entry
        Row by row.
    digits : dict of str to int or None
        Printed decimals by panel, None where figures have different numbers of them.
    note : str
        What else is to be known about where it comes from.
    cpu_seconds : float or None
        CPU time of all its runs, or None if it is not known.
    """

    table: str
    quick: bool
    seed: int
    seconds: float
    versions: dict[str, str]
    entries: tuple[Entry, ...]
    digits: dict[str, int | None]
    note: str = ""
    cpu_seconds: float | None = None

    def counts(self) -> dict[str, int]:
        """Return how many printed figures were reproduced, how many agree, differ, or lack a spread."""
        found = {"published": 0, "agree": 0, "differ": 0, "unknown": 0, "missing": 0}
        for entry in self.entries:
            if entry.published is None:
                continue
            found["published"] += 1
            if entry.reproduced is None:
                found["missing"] += 1
                continue
            agrees = entry.agrees(self.digits[entry.panel])
            found["unknown" if agrees is None else "agree" if agrees else "differ"] += 1
        return found

    @property
    def runs(self) -> int:
        """The largest number of runs of any entry."""
        return max((entry.runs for entry in self.entries), default=0)

    @property
    def judged(self) -> bool:
        """Whether every figure has a result and enough runs."""
        counts = self.counts()
        return self.runs >= _RUNS and not counts["unknown"] and not counts["missing"]

    @property
    def time(self) -> str:
        """How long all runs took, in words, as CPU time if it is known."""
        return duration(self.seconds) if self.cpu_seconds is None else f"{duration(self.cpu_seconds)} of CPU time"

    def verdict(self) -> str:
        """Return in a sentence how many figures agree."""
        counts = self.counts()
        if not counts["published"]:
            return "The paper prints no numbers here, only a picture, so there is nothing to subtract."
        spread = "twice the spread from run to run"
        more = "by more" if counts["agree"] else f"by more than {spread}"
        said = (
            ("agree", "agrees", "agree", f"within {spread}"),
            ("differ", "differs", "differ", more),
            ("unknown", "was", "were", f"run too few times (below {_RUNS}) to judge"),
            ("missing", "was", "were", "not run"),
        )
        parts = [f"{number_and_word(counts[key], *words)} {rest}" for key, *words, rest in said if counts[key]]
        printed = number_and_word(counts["published"], "published figure", "published figures")
        return f"Of {printed} {', '.join(parts)}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "table": self.table,
            "quick": self.quick,
            "seed": self.seed,
            "runs": self.runs,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "versions": self.versions,
            "verdict": self.verdict(),
            "note": self.note,
            "digits": self.digits,
            "entries": [
                {
                    "row": entry.row,
                    "panel": entry.panel,
                    "column": entry.column,
                    "published": entry.published,
                    "reproduced": entry.reproduced,
                    "difference": None if entry.difference is None else _rounded(entry.difference),
                    "spread": entry.spread,
                    "runs": entry.runs,
                    "beside": entry.beside,
                }
                for entry in self.entries
            ],
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> TableResult:
        """Return what `to_dict` wrote."""
        entries = tuple(
            Entry(**{name: value for name, value in entry.items() if name != "difference"})
            for entry in found["entries"]
        )
        names = ("table", "quick", "seed", "seconds", "versions", "digits")
        more = {"note": found.get("note", ""), "cpu_seconds": found.get("cpu_seconds")}
        return cls(**{name: found[name] for name in names}, entries=entries, **more)


def summary(table: Table, cells: Mapping[str, Stored], quick: bool, seed: int) -> TableResult:
    """Return what a table shows, from the results of its experiment's cells."""
    values: dict[str, list[float]] = {}
    for stored in cells.values():
        for key, value in stored.figures.items():
            values.setdefault(key, []).append(value)
    entries = []
    for row in table.rows:
        for panel in table.panels:
            for column in panel.columns:
                found = values.get(figure(row, panel.title, column), [])
                others = {name: values.get(figure(row, panel.title, column, name), []) for name in table.beside}
                beside = {name: _rounded(float(np.mean(each))) for name, each in others.items() if each}
                published = table.published.get(row, {}).get((panel.title, column))
                if found or beside or published is not None:
                    entries.append(
                        Entry(
                            row=row,
                            panel=panel.title,
                            column=column,
                            published=published,
                            reproduced=_rounded(float(np.mean(found))) if found else None,
                            spread=_rounded(float(np.std(found, ddof=1))) if len(found) > 1 else None,
                            runs=max(len(found), *(len(each) for each in others.values()), 0),
                            beside=beside,
                        )
                    )
    cpu = [stored.cpu_seconds for stored in cells.values() if stored.cpu_seconds is not None]
    return TableResult(
        table=table.name,
        quick=quick,
        seed=seed,
        seconds=round(sum(stored.seconds for stored in cells.values()), 1),
        cpu_seconds=round(sum(cpu), 1) if len(cpu) == len(cells) else None,
        versions=versions(table.experiment.packages),
        entries=tuple(entries),
        digits={panel.title: None if panel.mixed else panel.digits for panel in table.panels},
    )


def number_and_word(number: int, one: str, several: str) -> str:
    """Return a number with the word for one or for several."""
    return f"{number} {one if number == 1 else several}"


def _decimals(figure: float | None) -> int:
    """Return the decimals of a figure as people write it."""
    exponent = Decimal(str(figure)).as_tuple().exponent
    return max(0, -int(exponent))


def duration(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < _MINUTE:
        return f"{max(1, round(seconds))} s"
    if seconds < _HOUR:
        return f"{round(seconds / _MINUTE)} min"
    return f"{seconds / _HOUR:.1f} h"


def _rounded(value: float) -> float:
    """Return as many digits as anybody reads."""
    return float(f"{value:.6g}")
