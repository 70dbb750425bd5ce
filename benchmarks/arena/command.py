"""The command: run what is missing, then write the report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from arena import regions, results
from arena.contestants import CONTESTANTS
from arena.environments import RIVALS, Environment
from arena.estimate import estimated
from arena.pairs import Pairs, report, two
from arena.report import by_classes, by_region, write_report
from arena.running import DRAWS, EPSILONS, Plan, run_all
from arena.splits import described, parsed
from arena.summary import METRICS
from arena.tables import TABLES, Table

_HOME = Path(__file__).parents[1] / "results" / "arena"
#: Splits by default, and values of epsilon at which two checkouts are compared.
_EVALUATED, _DEVELOPED, _COMPARED_AT = "8-12", "0-4", (1.0, 3.0)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    # Fits of all contestants are timed on one core each.
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        splits = parsed(options.splits or [_DEVELOPED if options.development else _EVALUATED])
        listed = regions.DEVELOPMENT if options.development else regions.REPORT
        known = [*regions.tables(listed)] if options.regions else [*TABLES]
        tables = _named("--tables", known, options.tables)
        if options.against:
            _compare(options, tables, splits)
            return
    except ValueError as error:
        raise SystemExit(str(error)) from None
    cache = options.results or options.home / "results.jsonl"
    if not options.report:
        plan = Plan(
            tables,
            _named("--contestants", CONTESTANTS, options.contestants),
            options.epsilons or EPSILONS,
            splits,
            options.draws,
            options.nominal,
            options.home,
        )
        environments = {RIVALS, *(one.environment for one in plan.contestants if one.environment)}
        _run(plan, cache, options, environments)
    groups = by_region(listed) if options.regions else by_classes(TABLES, options.home)
    out = options.out or options.home
    how = {"earlier": options.earlier, "groups": groups, "pictures": not options.regions}
    write_report(results.load(cache), splits, options.home, out, **how)


def _run(
    plan: Plan | Pairs,
    cache: Path,
    options: argparse.Namespace,
    environments: Iterable[Environment] = (),
    one: Callable[[results.Task, Path], dict] | None = None,
) -> None:
    known = results.load(cache)
    wanted = list(plan.tasks())
    missing = [task for task in wanted if _is_missing(known.get(task), options.retry)]
    print(f"{described(plan.splits)} {len(wanted):,} fits, of which {len(wanted) - len(missing):,} are done.")
    print(estimated(missing, known), flush=True)
    if options.dry or not missing:
        return
    # Before there are several processes that would all make them.
    for environment in environments:
        environment.python(options.home)
    start = perf_counter()
    for number, (task, outcome) in enumerate(run_all(missing, options.home, options.jobs, known, one), start=1):
        results.append(cache, task, outcome)
        passed = perf_counter() - start
        left = passed / number * (len(missing) - number)
        progress = f"[{number:,}/{len(missing):,}, {passed / 60:.0f} min, {left / 60:.0f} left]"
        print(f"{progress} {_line(task, outcome)}", flush=True)


def _compare(options: argparse.Namespace, tables: Sequence[Table], splits: Sequence[int]) -> None:
    """Run the checkout given and this one side by side, and print what changed."""
    cache = options.results or options.home / "pairs.jsonl"
    both = two(options.against, Path(__file__).parents[2])
    pairs = Pairs(*both, tables, options.epsilons or _COMPARED_AT, splits, options.draws)
    if not options.report:
        _run(pairs, cache, options, one=pairs.run)
    if not options.dry:
        print(report(pairs, results.load(cache)))


def _is_missing(row: dict | None, retry: bool) -> bool:
    if row is None or ("error" in row and retry):
        return True
    # Results of before November 2026 lack some scores.
    return "error" not in row and not set(METRICS) <= set(row)


def _line(task: results.Task, outcome: dict) -> str:
    budget = "" if task.epsilon is None else f" at epsilon {task.epsilon:g}, {task.budget}"
    scores = "accuracy {accuracy:.4f}, log-loss {log_loss:.3f} in {seconds:.1f} s"
    result = outcome.get("error") or scores.format(**outcome)
    return f"{task.table}, split {task.split}, draw {task.draw}: {task.contestant}{budget}: {result}"


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
    parser.add_argument("--regions", action="store_true", help="the tables of regions, at their values of epsilon")
    parser.add_argument(
        "--development", action="store_true", help=f"splits {_DEVELOPED}, and other tables of the regions"
    )
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="compare the library with another checkout")
    parser.add_argument("--epsilons", nargs="+", type=float, metavar="EPSILON")
    parser.add_argument("--splits", nargs="+", metavar="SPLIT", help=f"e.g. 0 3-5 (default: {_EVALUATED})")
    parser.add_argument("--draws", type=int, default=DRAWS, help="noise seeds of each split (default: %(default)s)")
    parser.add_argument(
        "--nominal", action="store_true", help="also run add-or-remove contestants at the table's own epsilon"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (default: %(default)s)")
    parser.add_argument("--retry", action="store_true", help="run again what ended in an error")
    parser.add_argument("--dry", action="store_true", help="only print how much there is to run")
    parser.add_argument("--report", action="store_true", help="run nothing; only write the report")
    parser.add_argument("--earlier", action="store_true", help="show results of contestants' earlier versions too")
    parser.add_argument("--home", type=Path, default=_HOME, help="folder of packages, environments and results")
    parser.add_argument(
        "--results", type=Path, help="file of results (default: results.jsonl or pairs.jsonl in the home folder)"
    )
    parser.add_argument("--out", type=Path, help="folder of the report (default: the home folder)")
    return parser.parse_args(arguments)
