"""The command: run what is missing, then write the report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from arena import results
from arena.contestants import CONTESTANTS
from arena.environments import rival_python
from arena.report import write_report
from arena.running import EPSILONS, SPLITS, run_all, tasks
from arena.tables import TABLES

_HOME = Path(__file__).parents[1] / "results" / "arena"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    # Fits of all contestants are timed on one core each.
    os.environ["OMP_NUM_THREADS"] = "1"
    cache = options.results or options.home / "results.jsonl"
    known = results.load(cache)
    if not options.report:
        wanted = list(
            tasks(
                _named("--tables", TABLES, options.tables),
                _named("--contestants", CONTESTANTS, options.contestants),
                options.epsilons,
                options.splits,
                options.home,
            )
        )
        missing = [t for t in wanted if t.key not in known or (options.retry and "error" in known[t.key])]
        print(f"{len(wanted):,} fits, of which {len(wanted) - len(missing):,} are done", flush=True)
        _run(missing, cache, options)
    write_report(results.load(cache), options.home, options.out or options.home)


def _run(missing: list[results.Task], cache: Path, options: argparse.Namespace) -> None:
    # Before there are several processes that would all make it.
    rival_python(options.home)
    start = perf_counter()
    for number, row in enumerate(run_all(missing, options.home, options.jobs), start=1):
        results.append(cache, row)
        passed = perf_counter() - start
        left = passed / number * (len(missing) - number)
        told = row.get("error") or f"accuracy {row['accuracy']:.4f} in {row['seconds']:.1f} s"
        budget = "" if row["epsilon"] is None else f" at epsilon {row['epsilon']:g}"
        print(
            f"[{number:,}/{len(missing):,}, {passed / 60:.0f} min, {left / 60:.0f} left] "
            f"{row['table']}, split {row['split']}: {row['contestant']}{budget}: {told}",
            flush=True,
        )


def _named(option: str, known: Sequence[Any], wanted: list[str] | None) -> list[Any]:
    by_name = {one.name: one for one in known}
    unknown = [name for name in wanted or () if name not in by_name]
    if unknown:
        raise SystemExit(f"{option} {unknown[0]} is unknown; use some of {', '.join(by_name)}.")
    return [by_name[name] for name in wanted] if wanted else list(known)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python benchmarks/arena", description=__doc__)
    parser.add_argument("--tables", nargs="+", metavar="NAME", help="only these tables")
    parser.add_argument("--contestants", nargs="+", metavar="NAME", help="only these contestants")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS, metavar="EPSILON")
    parser.add_argument("--splits", type=int, default=SPLITS, help="the first so many splits (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (default: %(default)s)")
    parser.add_argument("--retry", action="store_true", help="run again what ended in an error")
    parser.add_argument("--report", action="store_true", help="run nothing; only write the report")
    parser.add_argument("--home", type=Path, default=_HOME, help="folder of packages, environments and results")
    parser.add_argument("--results", type=Path, help="file of results (default: results.jsonl in the home folder)")
    parser.add_argument("--out", type=Path, help="folder of the report (default: the home folder)")
    return parser.parse_args(arguments)
