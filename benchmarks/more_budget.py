"""Whether more budget makes label moments worse: python benchmarks/more_budget.py [--jobs 2] [--report].

Ten tables, ten seeds of noise on one split of evaluation, and six values of epsilon from 0.5 to 100. A pair of values
is flagged when the larger epsilon has the larger mean log-loss. Differences up to 0.005, or up to two standard errors
of paired differences, are not flagged. The last column compares epsilon 100 with sums that have next to no
noise (epsilon 100,000) and may be 0.01 worse. Results are lines of JSON, and a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

_HERE = Path(__file__).resolve().parent
sys.path[0] = str(_HERE)

from arena import regions, results, running  # noqa: E402
from arena.contestants import CONTESTANTS  # noqa: E402
from arena.markdown import markdown  # noqa: E402
from arena.relations import NOMINAL  # noqa: E402
from arena.tables import TABLES  # noqa: E402

EPSILONS = (0.5, 1.0, 3.0, 8.0, 30.0, 100.0)
#: Stands for sums without noise.
NOISELESS = 100_000.0
#: Four tables of two classes, three of several, and the three of unequal classes.
_NAMES = ("churn", "credit", "affairs", "retirement", "satimage", "diamonds", "happiness")
_SPLIT, _SEEDS, _LOSS, _NOISELESS_LOSS = 8, 10, 0.005, 0.01


def tables() -> list:
    """Return the ten tables, all at the same values of epsilon."""
    listed = [table for table in TABLES if table.name in _NAMES] + list(regions.REPORT["unequal"])
    return [replace(table, epsilons=()) for table in listed]


def report(known: results.Results) -> str:
    """Return a line for each table: mean log-loss by epsilon, flagged pairs, and what is lost to noise at 100."""
    version = next(one.version for one in CONTESTANTS if one.name == "label-moments")
    lines, flagged = [], 0
    for table in tables():
        losses = {}
        for epsilon in (*EPSILONS, NOISELESS):
            tasks = [
                results.Task(table.name, "label-moments", version, epsilon, _SPLIT, draw, NOMINAL)
                for draw in range(_SEEDS)
            ]
            rows = [known.get(task) for task in tasks]
            if any(row is None or "error" in row for row in rows):
                break
            losses[epsilon] = np.array([row["log_loss"] for row in rows])
        else:
            worse = [pair for pair in combinations(EPSILONS, 2) if _is_worse(*(losses[epsilon] for epsilon in pair))]
            excess = losses[100.0].mean() - losses[NOISELESS].mean()
            flagged += len(worse) + (excess > _NOISELESS_LOSS)
            pairs = ", ".join(f"{small:g} to {large:g}" for small, large in worse) or "-"
            means = [f"{losses[epsilon].mean():.4f}" for epsilon in (*EPSILONS, NOISELESS)]
            lines.append([table.name, *means, pairs, f"{excess:+.4f}"])
    head = ["table", *(f"{epsilon:g}" for epsilon in (*EPSILONS, NOISELESS)), "worse with more", "noise at 100"]
    return markdown(head, lines) + f"\n{len(lines)} of {len(tables())} tables are complete; {flagged} flags.\n"


def _is_worse(small: np.ndarray, large: np.ndarray) -> bool:
    differences = large - small
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    return bool(differences.mean() > max(_LOSS, 2 * error))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (default: %(default)s)")
    parser.add_argument("--report", action="store_true", help="run nothing; only print the table")
    parser.add_argument("--home", type=Path, default=_HERE / "results" / "arena", help="folder of packages")
    arguments = parser.parse_args()
    cache = arguments.home / "more-budget.jsonl"
    known = results.load(cache)
    if not arguments.report:
        ours = [one for one in CONTESTANTS if one.name == "label-moments"]
        plan = running.Plan(tables(), ours, (*EPSILONS, NOISELESS), [_SPLIT], _SEEDS, False, arguments.home)
        missing = [task for task in plan.tasks() if task not in known]
        for number, (task, outcome) in enumerate(running.run_all(missing, arguments.home, arguments.jobs, known), 1):
            results.append(cache, task, outcome)
            shown = outcome.get("error") or f"log-loss {outcome['log_loss']:.4f}"
            print(f"[{number}/{len(missing)}] {task.table} at epsilon {task.epsilon:g}: {shown}", file=sys.stderr)
    print(report(results.load(cache)))


if __name__ == "__main__":
    main()
