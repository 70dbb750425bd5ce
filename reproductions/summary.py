"""What a table shows after its experiment was run: published, reproduced, difference, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

    def agrees(self, digits: int) -> bool | None:
        """Return whether the difference is within twice the spread and the rounding, or None if runs are too few."""
        difference, rounding = self.difference, 0.5 * 10.0**-digits + 1e-12
        if difference is None:
            return None
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
    digits : dict of str to int
        Decimals by panel.
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
    digits: dict[str, int]
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
        parts = []
        if counts["agree"]:
            parts.append(f"{counts['agree']} agree within twice the spread from run to run")
        if counts["differ"]:
            parts.append(f"{counts['differ']} differ by more")
        if counts["unknown"]:
            parts.append(f"{counts['unknown']} were run too few times (below {_RUNS}) to judge")
        if counts["missing"]:
            parts.append(f"{counts['missing']} were not run")
        return f"Of {counts['published']} published figures {', '.join(parts)}."

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
        digits={panel.title: panel.digits for panel in table.panels},
    )


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
