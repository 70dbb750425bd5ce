"""``dpensemble train``, and the events of its run as lines of JSON.

Events (stages, steps, budgets) are for programs. They hold nothing private but times.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from dpensemble import methods
from dpensemble._class_names import split_names
from dpensemble._progress import Hear, progress_heard_by, show_progress
from dpensemble._spending import Spending, kept_in, listen
from dpensemble.cli.again import ARGUMENTS, Unfinished, unfinished
from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.manifest import METHODS, method_of
from dpensemble.cli.method_commands import Request
from dpensemble.cli.options import parts_of
from dpensemble.cli.settings import settings_of
from dpensemble.cli.show import print_run
from dpensemble.cli.warning_lines import warnings_as_lines
from dpensemble.cli.where import cluster_of, opened_private, opened_workers
from dpensemble.datasets import CSVFormat
from dpensemble.datasets.arrow_sources import ArrowSource
from dpensemble.datasets.public_facts import lines, refuse_doubts
from dpensemble.design.by_group import parse_budgets
from dpensemble.engine.run import uncounted
from dpensemble.errors import (
    ColumnWarning,
    FileError,
    InvalidParameterError,
    UnlikeRowsWarning,
    file_errors,
    known_text,
)
from dpensemble.quality.result import Costs
from dpensemble.report.record import declared_noun, unit_noun
from dpensemble.rows.arguments import zeroes_bad
from dpensemble.workflow import ReadOptions, RunFolder, TableFiles, Tables, file_tables
from dpensemble.workflow import train as run_training
from dpensemble.workflow.column_kinds import declared_groups, parse_groups
from dpensemble.workflow.disk import CHARGE, OWN_FILE
from dpensemble.workflow.holdout import choose
from dpensemble.workflow.learners import LEARNERS, STUDENTS, learner
from dpensemble.workflow.outputs import REPORT, STUDENT, write_outcome
from dpensemble.workflow.rehearsal import rehearse
from dpensemble.workflow.run_folder import JournaledAccount, about_run, checked_folder, claimed_folder, resumed_folder
from dpensemble.workflow.table_files import Workers
from dpensemble.workflow.tables import adult_tables

_DEFAULT_LEARNER = "logistic-regression"


def estimator(request: Request) -> Any:
    """Return the unfitted estimator of a request."""
    settings = settings_of(request)
    for part, learners in (("teacher", LEARNERS), ("student", STUDENTS)):
        named = settings.pop(part, _DEFAULT_LEARNER)
        # The estimator has its own defaults for this learner.
        if named != _DEFAULT_LEARNER:
            settings[part] = learner(part, named, learners)
    return getattr(methods, METHODS[request.method])(**settings)


@contextmanager
def logged(path: Path | None, **facts: Any) -> Iterator[Hear]:
    """Append events to a file during the block, and yield the writing function. Times are not protected: owner only."""
    if path is None:
        yield _silent
        return
    with file_errors(lambda reason: f"log_json={str(path)!r} cannot be written ({reason}): choose another file."):
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, OWN_FILE), "a", encoding="utf-8")
    with file:

        def write(event: str, about: dict[str, Any]) -> None:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            try:
                file.write(json.dumps({"time": now, "event": event, **about}) + "\n")
                file.flush()
            except OSError:
                # A full disk must not lose a release because of a log.
                return

        write("run begins", facts)
        try:
            with progress_heard_by(write):
                yield write
        except BaseException as error:
            # Errors about tables may name columns, and errors of other libraries may quote records.
            is_safe = known_text(error) is not None or not isinstance(error, Exception)
            write("run failed", {"error": type(error).__name__ if is_safe else "unexpected"})
            raise
        write("run ends", {})


def _silent(_event: str, _about: dict[str, Any]) -> None:
    return


_FILES = ("private", "public", "target", "classes")
_ABOUT_FILES = (
    *("test", "unit", "drop", "test_is_public", "sep", "decimal", "multiline_text", "skip_lines"),
    *("declared_columns", "in_blocks", "cluster", "jobs"),
)
_HOW = (
    "give --budgets COLUMN, a private column of epsilons, or groups and shares to deal at random, such as "
    '--budgets "0.7:50%,1.4:50%"'
)


def run(request: Request) -> None:
    """Train a private student, write its report and print the result. Log events on request."""
    with logged(request.own["log_json"], command="train", method=request.method) as log:
        _run(request, log)


def _run(request: Request, log: Hear) -> None:
    start = perf_counter()
    own, out = request.own, request.own["out"]
    if "budgets" in own:
        _check_budgets(request)
    model, ledger = (
        estimator(request).set_params(on_bad_record=str(own["on_bad_record"])),
        _account(own["ledger"], own["data_set"]),
    )
    resumes = unfinished()
    with ExitStack() as running:
        source = running.enter_context(opened_private(own["private"]))
        _require_streamable(request, source)
        place = running.enter_context(_folder(request, source, resumes))
        running.enter_context(kept_in(place.drawn))
        INTERRUPTS.follow(place.standing, lambda: place.spent)
        where = own.get("cluster"), own.get("scheduler")
        private = None if own["private"] is None else Path(own["private"])
        workers = running.enter_context(opened_workers(private, source, own.get("jobs"), *where))
        tables = _checked_tables(request, model, workers)
        read = perf_counter() - start
        log("tables read", {"seconds": round(read, 3), "notes": len(tables.notes)})
        shown, votes = show_progress(not own["quiet"] and sys.stderr.isatty()), own.get("private_report", False)
        # Hints report some warnings after the run, and notes about columns were printed above.
        hinted = (ColumnWarning, *(() if own["json"] else (UnlikeRowsWarning,)))
        options = {
            name: own[name] for name in ("baseline", "fewest_units", "fill", "holdout_score", "title", "unit_name")
        }
        options |= {"certificate": own.get("certificate", False), "private_report": votes}
        options |= {"costs": _costs(own), "positive_class": own.get("positive_class")}
        if own["holdout_score"] is not None:
            _print_cells(tables, model, own["holdout_score"], options)
        if resumes is None:
            rehearse(tables, model, **options)
        ledger = _journaled(ledger, own["ledger"], place)
        with (
            cluster_of(own.get("backend"), *where),
            warnings_as_lines(told_otherwise=hinted),
            shown,
            listen(partial(_spend, place, log)),
            # One command is one fit. Only a ledger counts several.
            uncounted(),
        ):
            outcome = run_training(tables, model, ledger=ledger, **options)
        for line in outcome.warnings:
            typer.echo(f"dpensemble: for you only: {line}", err=True)
        outcome.record.seconds["reading"] = round(read, 3)
        outcome.record.seconds["total"] = round(perf_counter() - start, 3)
        place.finish(partial(write_outcome, outcome))
        place.place()
        log("release placed", {"out": str(out), "for_release": outcome.record.statement().for_release})
    if own["json"]:
        typer.echo(json.dumps(outcome.record.to_dict() | {"out": str(out)}, indent=2))
    else:
        print_run(outcome.record, out / REPORT, out / STUDENT, zeroes=zeroes_bad(model))


def _require_streamable(request: Request, source: ArrowSource | None) -> None:
    """Raise if the private table is streamed, and the method does not sum."""
    if source is not None and "jobs" not in request.own:
        raise InvalidParameterError(
            f"private is streamed, and {request.method} cannot read a stream: train label-moments, or write the table "
            "as .parquet.",
            parameter="private",
        )


def _folder(
    request: Request, source: ArrowSource | None, resumes: Unfinished | None
) -> AbstractContextManager[RunFolder]:
    """Claim the folder of a new run, or of a run that is being finished."""
    own = request.own
    named = ("public", "test", "declared_columns", *(() if source is not None else ("private",)))
    inputs = [Path(own[name]) for name in named if own.get(name) is not None]
    inputs += () if source is None else source.files
    if resumes is not None:
        if checked_folder(own["out"]) != resumes.folder:
            raise FileError(
                f"out={str(own['out'])!r} of the interrupted run is not {resumes.folder}: move the folder back to "
                "where the run began, or give --give-up to keep the account of what was spent."
            )
        return resumed_folder(own["out"], overwrite=resumes.overwrite)
    facts: dict[str, Any] = {"method": request.method, "private": str(own["private"] or own["dataset"])}
    if request.settings.get("insecure_release_seed") is not None:
        facts["for_release"] = False
    # Nobody can see here whether a table of Spark or of a server is the same, so such a run cannot be finished later.
    repeatable = own["private"] is None or not Workers.is_table(Path(own["private"]))
    repeatable &= source is None or bool(source.files)
    about = about_run(ARGUMENTS.get() if repeatable else (), inputs, **facts)
    return claimed_folder(own["out"], overwrite=own["overwrite"], inputs=inputs, about=about)


def _checked_tables(request: Request, model: Any, workers: Workers | None) -> Tables:
    """Read the tables as the method needs them, and print the notes about their columns."""
    own = request.own
    options = ReadOptions(
        blanks=own["fill"] or (model.takes_tables and model.student is None),
        takes_blocks=_takes_blocks(request, model),
        in_blocks=own.get("in_blocks", False),
        on_bad_record=str(own["on_bad_record"]),
        workers=workers,
    )
    tables = _tables(own, request.settings.get("random_state"), options)
    if own["strict"]:
        refuse_doubts(tables.notes)
    for line in lines(tables.notes):
        typer.echo(f"dpensemble: note: {line}", err=True)
    return tables


def _takes_blocks(request: Request, model: Any) -> bool:
    """Return whether private records may be read in blocks: for votes, unless an option needs all records."""
    own = request.own
    if not method_of(request.method).in_blocks:
        return False
    if model.takes_tables or own["in_blocks"]:
        return True
    return model.relation == "replace-one" and not own["baseline"]


def _print_cells(tables: Tables, model: Any, share: float, options: dict[str, Any]) -> None:
    """State which cells the released quality has, before anything is charged."""
    choice = choose(tables, model, share, costs=Costs.of(options["costs"]), positive_class=options["positive_class"])
    declared = options["unit_name"]
    noun = None if declared is None else declared_noun(declared, tables.unit_column)
    unit = unit_noun("unit" if choice.by_unit else "record", tables.unit_column, noun)
    typer.echo(f"dpensemble: note: {choice.layout.sentence(unit)}", err=True)


def _costs(own: Mapping[str, float | None]) -> dict[str, float] | None:
    """Return the costs of wrong decisions, or None if none are given."""
    names = ("false_negative", "false_positive")
    given = {name: cost for name in names if (cost := own.get(f"cost_{name}")) is not None}
    if not given:
        return None
    missing = [name for name in names if name not in given]
    if missing:
        raise InvalidParameterError(
            f"cost_{missing[0]} must be given with the other cost; their ratio makes the threshold.",
            parameter=f"cost_{missing[0]}",
        )
    return given


def _account(ledger: str | None, data_set: str | None) -> Any:
    """Return the account that must allow the run, or None if no ledger is named."""
    if (ledger is None) is not (data_set is None):
        raise InvalidParameterError("--ledger and --data-set go together: give both, or neither.")
    if ledger is None:
        return None
    # The extra of the ledger is needed only here.
    from dpensemble.server import Ledger  # noqa: PLC0415

    return Ledger(ledger).account(str(data_set))


def _journaled(account: Any, ledger: str, place: RunFolder) -> Any:
    """Return the account with a journal entry for its charge, or None if nothing is left to charge."""
    if account is None or (place.journal is not None and CHARGE not in place.journal.about):
        # An earlier version began the run and charged the account.
        return None
    return JournaledAccount(
        account, ledger if "://" in ledger else str(Path(ledger).absolute()), place, INTERRUPTS.check
    )


def _spend(place: RunFolder, log: Hear, spendings: Sequence[Spending]) -> None:
    """Write down the budget before it is spent, unless a signal has arrived."""
    INTERRUPTS.check()
    budgets = [one.to_dict() for one in spendings]
    place.spend(budgets)
    log("budget spent", {"budgets": budgets})


def _check_budgets(request: Request) -> None:
    """Raise if a method by groups could not use the budgets, before any table is read."""
    budgets = parse_budgets(request.own["budgets"], request.own["levels"])
    if budgets is None:
        raise InvalidParameterError(f"--method {request.method} without budgets would be plain PATE: {_HOW}.")
    if request.settings.get("relation") != "add-or-remove-one":
        return
    if budgets.column is None:
        raise InvalidParameterError(
            f"budgets={request.own['budgets']!r} are dealt by position, so a missing record would move the "
            "other records to other groups: use --relation replace-one, or name a column."
        )
    if budgets.shares is None:
        raise InvalidParameterError(
            "--relation add-or-remove-one needs the public share of the records with each budget, because their "
            'number is private: give --levels with shares, such as "high=0.5:20%,low=2:80%".'
        )


def _tables(own: dict[str, Any], seed: int | None, options: ReadOptions) -> Tables:
    """Return the packaged tables, or the user's tables."""
    if own["dataset"] is not None:
        named = [f"--{name.replace('_', '-')}" for name in (*_FILES, *_ABOUT_FILES) if own.get(name)]
        if named:
            raise InvalidParameterError(f"dataset={own['dataset']!r} brings its own tables: drop {', '.join(named)}.")
        tables = adult_tables(seed, budgets=own.get("budgets"), levels=own.get("levels"))
        return replace(tables, groups=declared_groups(parse_groups(own.get("groups")), tables.X_public) or None)
    _require_files(own)
    files = TableFiles(
        private=Path(own["private"]),
        public=own["public"],
        target=own["target"],
        classes=None if own["classes"] is None else split_names(own["classes"]),
        declared_columns=own.get("declared_columns"),
        test=own["test"],
        unit=own["unit"],
        drop=parts_of(own["drop"]) or (),
        test_is_public=own["test_is_public"],
        form=CSVFormat(own["sep"], own["decimal"], own["multiline_text"], own["skip_lines"]),
        groups=parse_groups(own.get("groups")),
    )
    return file_tables(files, options, budgets=parse_budgets(own.get("budgets"), own.get("levels")), seed=seed)


def _require_files(own: dict[str, Any]) -> None:
    """Raise if the options that name the user's tables are incomplete. Missing classes raise later."""
    if all(own[name] is None for name in _FILES):
        raise InvalidParameterError(
            "no data are given: give --dataset adult, or --private FILE --public FILE --target COLUMN --classes A,B."
        )
    declared = own.get("declared_columns") is not None
    missing = [f"--{name}" for name in _FILES if own[name] is None and not (declared and name == "public")]
    if missing == ["--public"] and "declared_columns" in own:
        raise InvalidParameterError(
            "--public must be given to train on your own tables: if no rows are public, give --declared-columns FILE "
            "with a description of the columns."
        )
    if missing and missing != ["--classes"]:
        raise InvalidParameterError(f"{' and '.join(missing)} must be given to train on your own tables.")
