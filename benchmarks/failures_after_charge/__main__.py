"""See the package."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter

# A fork has but one thread.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

from checks import Problem, Scene


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500, help="runs that are not refused")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=3, help="random failures of each run")
    parser.add_argument("--every", type=int, default=0, metavar="N", help="every N-th run also fails at each disk step")
    parser.add_argument("--seconds", type=float, default=3.0, help="a run that takes more processor time is left out")
    parser.add_argument("--only", type=int, help="number of one run")
    parser.add_argument("--stop", action="store_true", help="end at the first problem")
    parser.add_argument("--show-refusals", action="store_true", help="also print why runs are refused")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    _warm_up(min(12, options.runs))
    number, start = options.only or 0, perf_counter()
    while counts["runs"] < (1 if options.only is not None else options.runs):
        # Runs that are refused, slow or broken do not count, so without an end none of them would ever end the loop.
        if number - (options.only or 0) >= 20 + 10 * options.runs:
            print("too few of the runs can be tried; look at the problems, or give --seconds")
            return 1
        every = bool(options.every) and counts["runs"] % options.every == 0
        made = _one_run(options, number, counts, methods, every=every)
        number += 1
        if options.only is not None or (made and counts["runs"] % 10 == 0):
            print(f"{_line(counts)}; {perf_counter() - start:.0f} s", flush=True)
        if options.only is not None or (options.stop and counts["problems"]):
            break
    print(f"methods: {', '.join(f'{name} {n}' for name, n in sorted(methods.items()))}")
    print(f"{_line(counts)}; {perf_counter() - start:.0f} s")
    if not counts["reached"] and not counts["problems"]:
        print("no failure was reached, so nothing was tried; choose other runs")
        return 2
    return 1 if counts["problems"] else 0


def _warm_up(n: int) -> None:
    """Make a few runs here, so that children find what they need imported."""
    for number in range(n):
        parent = Path(tempfile.mkdtemp())
        try:
            Scene(parent, (2**31, number)).here(20.0)
        finally:
            shutil.rmtree(parent, ignore_errors=True)


def _line(counts: Counter[str]) -> str:
    names = ("runs", "refused runs", "slow runs", "steps", "failures", "reached", "problems")
    return ", ".join(f"{counts[name]:,} {name}" for name in names)


def _one_run(
    given: argparse.Namespace, number: int, counts: Counter[str], methods: Counter[str], *, every: bool
) -> bool:
    parent = Path(tempfile.mkdtemp())
    try:
        scene = Scene(parent, (given.seed, number))
        if not scene.here(given.seconds):
            counts["slow runs"] += 1
            return False
        try:
            made = scene.undisturbed(calls=number % 2 == 0)
        except Problem as problem:
            _tell(counts, number, "undisturbed", problem, scene)
            return False
        if not made:
            counts["refused runs"] += 1
            if given.show_refusals:
                print(f"run {number} is refused: {scene.refusal}")
            return False
        counts["runs"] += 1
        methods[scene.run.method] += 1
        counts["steps"] += len(scene.steps)
        for fault in scene.faults(given.faults, every=every):
            counts["failures"] += 1
            try:
                counts["reached"] += scene.check(fault)
            except Problem as problem:
                _tell(counts, number, str(fault), problem, scene)
                if given.stop:
                    break
        return True
    finally:
        shutil.rmtree(parent, ignore_errors=True)


def _tell(counts: Counter[str], number: int, fault: str, problem: Problem, scene: Scene) -> None:
    counts["problems"] += 1
    print(f"run {number}, {fault}: {problem}\n    {scene.command()}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
