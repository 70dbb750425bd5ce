"""How much CPU time a run will take, from the seconds of earlier fits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from arena.results import Results, Task, load

_MEASURED = Path(__file__).parent / "measured"


def estimated(missing: Sequence[Task], known: Results) -> str:
    """Return a sentence on the CPU time of missing fits.

    A fit is expected to take the mean seconds of its contestant on its table, or on all tables where there are none.
    The files in `measured` count where the run itself has nothing yet.
    """
    shipped = [row for path in sorted(_MEASURED.glob("*.jsonl")) for row in load(path).values()]
    by_table, by_contestant = _means(shipped)
    own_by_table, own_by_contestant = _means(list(known.values()))
    by_table |= own_by_table
    by_contestant |= own_by_contestant
    seconds, unknown = 0.0, set()
    for task in missing:
        expected = by_table.get((task.table, task.contestant), by_contestant.get(task.contestant))
        if expected is None:
            unknown.add(task.contestant)
        else:
            seconds += expected
    without = f", and unknown time for {', '.join(sorted(unknown))}" if unknown else ""
    return f"{len(missing):,} fits to run: about {seconds / 3600:.1f} CPU hours{without}."


def _means(rows: Sequence[dict]) -> tuple[dict[tuple[str, str], float], dict[str, float]]:
    by_table, by_contestant = defaultdict(list), defaultdict(list)
    for row in rows:
        if "seconds" in row:
            by_table[row["table"], row["contestant"]].append(row["seconds"])
    for (_, contestant), seconds in by_table.items():
        by_contestant[contestant].append(mean(seconds))
    return (
        {key: mean(seconds) for key, seconds in by_table.items()},
        {key: mean(seconds) for key, seconds in by_contestant.items()},
    )
