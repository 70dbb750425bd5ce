"""``dpensemble train``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Any

import typer

from dpensemble._progress import show_progress
from dpensemble._spending import spending_told_to
from dpensemble.cli.commands import Request
from dpensemble.cli.ending import ENDING
from dpensemble.cli.estimators import estimator
from dpensemble.cli.show import print_run, warnings_as_lines
from dpensemble.errors import InvalidParameterError
from dpensemble.workflow import (
    RunFolder,
    Tables,
    adult_tables,
    claimed_folder,
    file_tables,
    parse_budgets,
    write_outcome,
)
from dpensemble.workflow import train as run_training
from dpensemble.workflow.outputs import REPORT, STUDENT

_FILES = ("private", "public", "target", "classes")
_HOW = (
    "give --budgets COLUMN, a private column of epsilons, or groups and shares to deal at random, such as "
    '--budgets "0.7:50%,1.4:50%"'
)


def run(request: Request) -> None:
    """Train a private student, write its report and print what came out."""
    start = perf_counter()
    own, out = request.own, request.own["out"]
    if "budgets" in own:
        _check_budgets(request)
    model = estimator(request)
    inputs = [own[name] for name in ("private", "public", "test") if own[name] is not None]
    about = {"method": request.method, "private": str(own["private"] or own["dataset"])}
    with claimed_folder(out, overwrite=own["overwrite"], inputs=inputs, about=about) as place:
        ENDING.follow(place.standing, lambda: place.spent)
        blanks = getattr(model, "takes_tables", False) and getattr(model, "student", None) is None
        tables = _tables(own, request.settings.get("random_state"), blanks)
        read = perf_counter() - start
        shown, votes = show_progress(not own["quiet"] and sys.stderr.isatty()), own.get("private_report", False)
        with warnings_as_lines(), shown, spending_told_to(partial(_spend, place)):
            outcome = run_training(tables, model, baseline=own["baseline"], private_report=votes)
        outcome.record.seconds["reading"] = round(read, 3)
        outcome.record.seconds["total"] = round(perf_counter() - start, 3)
        place.finish(partial(write_outcome, outcome))
        place.place()
    if own["json"]:
        typer.echo(json.dumps(outcome.record.to_dict() | {"out": str(out)}, indent=2))
    else:
        print_run(outcome.record, out / REPORT, out / STUDENT)


def _spend(place: RunFolder, budgets: Sequence[dict[str, Any]]) -> None:
    """Put down what is about to be spent, unless somebody has said stop."""
    ENDING.check()
    place.spend(budgets)


def _check_budgets(request: Request) -> None:
    """Refuse budgets that a method by groups could not use, before anything is read."""
    asked = parse_budgets(request.own["budgets"], request.own["levels"])
    if asked is None:
        raise InvalidParameterError(f"--method {request.method} without budgets would be plain PATE; {_HOW}.")
    if request.settings.get("relation") != "add-or-remove-one":
        return
    if asked.column is None:
        raise InvalidParameterError(
            f"budgets={request.own['budgets']!r} are dealt by position, so a missing record would move the "
            "others to other groups; use --relation replace-one, or name a column."
        )
    if asked.shares is None:
        raise InvalidParameterError(
            "--relation add-or-remove-one needs the public share of the records with each budget, because their "
            'number is private; give --levels with shares, such as "high=0.5:20%,low=2:80%".'
        )


def _tables(own: dict[str, Any], seed: int | None, blanks: bool) -> Tables:
    """Return the packaged tables or one's own."""
    dealt: dict[str, Any] = {"budgets": own.get("budgets"), "levels": own.get("levels"), "seed": seed}
    given: dict[str, Any] = {name: own[name] for name in _FILES}
    drop = [] if own["drop"] is None else [name.strip() for name in own["drop"].split(",")]
    optional: dict[str, Any] = {
        "test": own["test"],
        "unit": own["unit"],
        "drop": drop,
        "test_is_public": own["test_is_public"],
    }
    if own["dataset"] is not None:
        named = [f"--{name.replace('_', '-')}" for name, value in (given | optional).items() if value]
        if named:
            raise InvalidParameterError(f"dataset={own['dataset']!r} brings its own tables; drop {', '.join(named)}.")
        return adult_tables(**dealt)
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if len(missing) == len(given):
        raise InvalidParameterError(
            "no data: give --dataset adult, or --private FILE --public FILE --target COLUMN --classes A,B."
        )
    if missing and missing != ["--classes"]:
        raise InvalidParameterError(f"{' and '.join(missing)} must be given to train on your own tables.")
    return file_tables(**given, **optional, **dealt, blanks=blanks)
