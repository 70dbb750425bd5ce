"""``dpensemble train``, and the events of its run as lines of JSON.

Events (stages, steps, budgets) are for programs. They hold nothing private but times.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from dpensemble import methods
from dpensemble._checks import split_names
from dpensemble._entries import Rows
from dpensemble._files import pipes_kept
from dpensemble._spending import Spending, kept_in, listen
from dpensemble._work import Hear, progress_bar, progress_heard_by, progress_on_stderr
from dpensemble.allocation.budget_groups import parse_budgets
from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.options import METHODS, Request, described_method, parts_of
from dpensemble.cli.output import warnings_as_lines
from dpensemble.cli.runs import print_run
from dpensemble.datasets import CSVFormat
from dpensemble.datasets.arrow_sources import ArrowSource
from dpensemble.datasets.formats import RULES, entry_rules
from dpensemble.datasets.public_facts import lines, refuse_doubts
from dpensemble.engine.run import uncounted
from dpensemble.errors import ColumnWarning, InvalidParameterError, UnlikeRowsWarning, file_errors, known_text
from dpensemble.rows.arguments import zeroes_bad
from dpensemble.workflow import ReadOptions, RunFolder, TableFiles, Tables, file_tables
from dpensemble.workflow import train as run_training
from dpensemble.workflow.disk import OWN_FILE
from dpensemble.workflow.learners import learner
from dpensemble.workflow.outputs import Outcome, RunFile, write_outcome
from dpensemble.workflow.rehearsal import rehearse
from dpensemble.workflow.run_folder import READING_RULES, claimed_folder, resumed_folder
from dpensemble.workflow.scoring import QualityRequest
from dpensemble.workflow.table_files import Workers
from dpensemble.workflow.tables import adult_tables
from dpensemble.workflow.targets import DeclaredTimes, parsed_range

_DEFAULT_LEARNER = "logistic-regression"


def estimator(request: Request) -> Any:
    """Return the unfitted estimator of a request."""
    settings = request.estimator_settings()
    for part in ("teacher", "student"):
        named = settings.pop(part, _DEFAULT_LEARNER)
        # The estimator has its own defaults for this learner.
        if named != _DEFAULT_LEARNER:
            settings[part] = learner(part, named)
    kind = getattr(methods, METHODS[request.method])
    # Some methods have one way only.
    bad = {"on_bad_record": request.own["on_bad_record"]} if "on_bad_record" in request.own else {}
    return kind(**settings).set_params(**bad)


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


_HOW = (
    "give --budgets COLUMN, a private column of epsilons, or groups and shares to deal at random, such as "
    '--budgets "0.7:50%,1.4:50%"'
)


def run(request: Request) -> None:
    """Train a private student, write its report and print the result. Log events on request.

    The order is: check the options, claim the folder, read the tables, train, and put the release in place.
    """
    own, out = request.own, request.own["out"]
    with (
        logged(own["log_json"], command="train", method=request.method) as log,
        progress_on_stderr(quiet=own["quiet"]),
    ):
        start = perf_counter()
        if "budgets" in own:
            _check_budgets(request)
        model, account = estimator(request), account_of(own["ledger"], own["data_set"])
        files = _table_files(own)
        private = tuple(own["private"] or ())
        Workers.refuse_several_sources(private)
        where = own.get("cluster"), own.get("scheduler")
        with ExitStack() as running:
            source = running.enter_context(Workers.opened_source(private[0] if private else None))
            _require_streamable(request, source)
            place = running.enter_context(_claimed_folder(request, files, source))
            claimed = ClaimedRun.of(place, model, running)
            files = None if files is None else claimed.reading(files)
            first = None if files is None else files.private
            workers = running.enter_context(Workers.opened(first, source, own.get("jobs"), *where))
            print_pipes(files)
            with pipes_kept(), progress_bar("Reading tables", None):
                tables = _read_tables(request, files, _read_options(request, model, workers))
            _print_notes(tables, strict=own["strict"])
            read = perf_counter() - start
            log("tables read", {"seconds": round(read, 3), "notes": len(tables.notes)})
            options = _options_of_training(own)
            _print_cells(tables, model, options)
            ledger = place.journaled(account, own["ledger"], INTERRUPTS.check)
            with (
                Workers.opened_cluster(own.get("backend"), *where),
                _warnings(own),
                listen(partial(noted_spending, place, log)),
            ):
                rehearsal = rehearse if request.resumed is None else None
                outcome = run_training(tables, model, ledger=ledger, rehearsal=rehearsal, **options)
            for line in outcome.warnings:
                typer.echo(f"dpensemble: for you only: {line}", err=True)
            outcome.record.seconds.update(reading=round(read, 3), total=round(perf_counter() - start, 3))
            if account is not None:
                outcome.record.data["ledger"] = account.ledger.id
            claimed.put_in_place(outcome, out, log)
        print_outcome(outcome, out, as_json=own["json"], zeroes=zeroes_bad(model))


@dataclass(frozen=True)
class ClaimedRun:
    """A claimed folder, and what an interrupted run in it decided. `began` is its delta with the rule, if any."""

    place: RunFolder
    began: tuple[float, str] | None

    @classmethod
    def of(cls, place: RunFolder, model: Any, running: ExitStack) -> ClaimedRun:
        """Store what the run draws in its folder, so that no value is drawn twice, and take the delta it began with."""
        running.enter_context(kept_in(place.drawn))
        INTERRUPTS.follow(place.standing, lambda: place.spent)
        # What an interrupted run drew was drawn for its own delta.
        began = None if place.journal is None or model.delta is not None else place.journal.delta
        if began is not None:
            model.set_params(delta=began[0])
        return cls(place, began)

    def reading(self, files: TableFiles) -> TableFiles:
        """Return files that are read by the rules of the run's start."""
        if self.place.journal is None:
            return files
        return replace(files, entries=replace(files.entries, rules=self.place.journal.reading_rules))

    def put_in_place(self, outcome: Outcome, out: Path, log: Hear) -> None:
        """Write all files of a finished run, and put its folder in place."""
        if self.began is not None:
            outcome.record.guarantee["delta_rule"] = self.began[1]
        with progress_bar("Writing the report", None):
            self.place.finish(partial(write_outcome, outcome))
            self.place.place()
        log("release placed", {"out": str(out), "for_release": outcome.record.statement().for_release})


def print_outcome(outcome: Outcome, out: Path, *, as_json: bool, zeroes: bool) -> None:
    """Print a run whose folder is in place."""
    if as_json:
        typer.echo(json.dumps(outcome.record.to_dict() | {"out": str(out)}, indent=2))
    else:
        print_run(outcome.record, out / RunFile.REPORT, out / RunFile.STUDENT, zeroes=zeroes)


def _options_of_training(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `dpensemble.workflow.train`."""
    names = ("baseline", "fewest_units", "fill", "holdout_score", "title", "unit_name")
    options = {name: own.get(name) for name in names} | {"baseline": bool(own.get("baseline"))}
    options |= {"certificate": own.get("certificate", False), "private_report": own.get("private_report", False)}
    return options | {"costs": _costs(own), "positive_class": own.get("positive_class")}


@contextmanager
def _warnings(own: Mapping[str, Any]) -> Iterator[None]:
    """Show warnings of a training."""
    # Hints report some warnings after the run, and notes about columns were printed above.
    hinted = (ColumnWarning, *(() if own["json"] else (UnlikeRowsWarning,)))
    with (
        warnings_as_lines(told_otherwise=hinted),
        # One command is one fit. Only a ledger counts several.
        uncounted(),
    ):
        yield


def _require_streamable(request: Request, source: ArrowSource | None) -> None:
    """Raise if the private table is streamed, and the method does not sum."""
    if source is not None and "jobs" not in request.own:
        raise InvalidParameterError(
            f"private is streamed, and {request.method} cannot read a stream: train label-moments, or write the table "
            "as .parquet.",
            parameter="private",
        )


def _claimed_folder(
    request: Request, files: TableFiles | None, source: ArrowSource | None
) -> AbstractContextManager[RunFolder]:
    """Claim the folder of a new run, or of a run that is being finished."""
    own, resumed = request.own, request.resumed
    if resumed is not None:
        return resumed_folder(own["out"], overwrite=resumed.overwrite, began_in=resumed.folder)
    private = () if files is None else files.all_private
    inputs = [Path(own[name]) for name in ("public", "test", "declared_columns") if own.get(name) is not None]
    inputs += private if source is None else source.files
    named = ", ".join(own["private"] or [str(own.get("dataset"))])
    facts: dict[str, Any] = {"method": request.method, "private": named}
    facts[READING_RULES] = RULES
    if request.settings.get("insecure_release_seed") is not None:
        facts["for_release"] = False
    command = request.arguments if files is None or Workers.repeatable(files, source) else ()
    return claimed_folder(own["out"], overwrite=own["overwrite"], inputs=inputs, command=command, about=facts)


def _read_options(request: Request, model: Any, workers: Workers | None) -> ReadOptions:
    """Return what the method can read: in blocks only for votes, unless an option needs all records."""
    own = request.own
    takes_blocks = described_method(request.method).in_blocks and (
        model.takes_tables or own["in_blocks"] or (model.relation == "replace-one" and not own.get("baseline"))
    )
    return ReadOptions(
        blanks=own["fill"] or (model.takes_tables and model.student is None),
        takes_blocks=takes_blocks,
        in_blocks=own.get("in_blocks", False),
        on_bad_record=model.on_bad_record,
        workers=workers,
    )


def _read_tables(request: Request, files: TableFiles | None, options: ReadOptions) -> Tables:
    """Return the packaged tables, or the user's tables."""
    own, seed = request.own, request.settings.get("random_state")
    if files is None:
        groups = _parse_groups(own.get("groups"))
        return adult_tables(seed, budgets=own.get("budgets"), levels=own.get("levels"), groups=groups)
    budgets, levels = own.get("budgets"), own.get("levels")
    request_of_budgets = None if budgets is None and levels is None else parse_budgets(budgets, levels)
    return file_tables(files, options, budgets=request_of_budgets, seed=seed)


def print_pipes(files: TableFiles | None) -> None:
    """State before anything is charged that a run from a pipe cannot be finished later."""
    if files is not None and files.pipes:
        typer.echo(
            f"dpensemble: note: {files.pipes[0]} is a pipe, which can be read only once, so 'dpensemble recover' "
            "cannot finish this run if it is interrupted.",
            err=True,
        )


def _print_notes(tables: Tables, *, strict: bool) -> None:
    """Print what is suspicious about public columns, or raise if that is asked for."""
    if strict:
        refuse_doubts(tables.notes)
    for line in lines(tables.notes):
        typer.echo(f"dpensemble: note: {line}", err=True)


def _print_cells(tables: Tables, model: Any, options: Mapping[str, Any]) -> None:
    """State which cells the released quality has, before anything is charged."""
    asked = QualityRequest.of(options["holdout_score"], options["costs"], options["positive_class"])
    sentence = asked.sentence_of_cells(tables, model, options["unit_name"])
    if sentence is not None:
        typer.echo(f"dpensemble: note: {sentence}", err=True)


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


def account_of(ledger: str | None, data_set: str | None) -> Any:
    """Return the account that must allow the run, or None if no ledger is named."""
    if (ledger is None) is not (data_set is None):
        raise InvalidParameterError("--ledger and --data-set go together: give both, or neither.")
    if ledger is None:
        return None
    # The extra of the ledger is needed only here.
    from dpensemble.server import Ledger  # noqa: PLC0415

    return Ledger(ledger).account(str(data_set))


def noted_spending(place: RunFolder, log: Hear, spendings: Sequence[Spending]) -> None:
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


def _table_files(own: dict[str, Any]) -> TableFiles | None:
    """Return the user's tables, or None for packaged ones. Raise if the options that name them are incomplete."""
    if own.get("dataset") is not None:
        named = [f"--{name.replace('_', '-')}" for name in (*_FILES, *_ABOUT_FILES) if own.get(name)]
        if named:
            raise InvalidParameterError(f"dataset={own['dataset']!r} brings its own tables: drop {', '.join(named)}.")
        return None
    if "time" in own:
        return _files_of_times(own)
    if all(own.get(name) is None for name in (*_FILES, "range")):
        raise InvalidParameterError(
            "no data are given: give --dataset adult, or --private FILE --public FILE --target COLUMN --classes A,B "
            "(for a number: --range LOW,HIGH)."
        )
    declared = own.get("declared_columns") is not None
    missing = [f"--{name}" for name in _FILES if own.get(name) is None and not (declared and name == "public")]
    if "range" in own:
        missing = [*(name for name in missing if name != "--classes"), *(["--range"] if own["range"] is None else [])]
    if missing == ["--public"] and "declared_columns" in own:
        raise InvalidParameterError(
            "--public must be given to train on your own tables: if no rows are public, give --declared-columns FILE "
            "with a description of the columns."
        )
    # If only classes are missing, `labels` has a sentence about them.
    if missing not in ([], ["--classes"]):
        raise InvalidParameterError(f"{' and '.join(missing)} must be given to train on your own tables.")
    return _checked_files(
        own,
        declared=declared,
        target=own["target"],
        classes=None if own.get("classes") is None else split_names(own["classes"]),
        number=None if own.get("range") is None else parsed_range(own["range"]),
        declared_columns=own.get("declared_columns"),
        test=own["test"],
        test_is_public=own["test_is_public"],
        groups=_parse_groups(own.get("groups")),
    )


def _files_of_times(own: Mapping[str, Rows]) -> TableFiles:
    """Return the user's tables with times until an event. Raise if options that declare them are incomplete."""
    missing = [f"--{name}" for name in ("private", "public", "time", "event", "bins") if own.get(name) is None]
    if missing:
        raise InvalidParameterError(
            f"{' and '.join(missing)} must be given to train on times until an event, such as --time days --event "
            "status=1 --bins 30,90,365."
        )
    named = {name: own[name] for name in ("time", "event", "bins", "censored", "competing", "at", "time_unit")}
    times = DeclaredTimes.of_options(**named)
    return _checked_files(own, target=times.event, classes=times.codes, times=times)


def _checked_files(own: Mapping[str, Rows], *, declared: bool = False, **target: Rows) -> TableFiles:
    """Return the user's tables, with what options state about the target."""
    entries = entry_rules(own["column"], own["blank"], own["below_limit"], declared=declared)
    files = TableFiles(
        private=Path(own["private"][0]),
        more_private=[Path(one) for one in own["private"][1:]],
        public=own["public"],
        unit=own["unit"],
        drop=(*(parts_of(own["drop"]) or ()), *entries.dropped),
        form=CSVFormat(own["sep"], own["decimal"], own["multiline_text"], own["skip_lines"], own["sheet"]),
        entries=entries,
        **target,
    )
    # Missing or wrong classes, ranges and codes are refused before the folder is claimed.
    files.predicted  # noqa: B018
    return files


_FILES = ("private", "public", "target", "classes")
_ABOUT_FILES = (
    *(
        "test",
        "unit",
        "drop",
        "column",
        "blank",
        "below_limit",
        "test_is_public",
        "sep",
        "decimal",
        "multiline_text",
        "skip_lines",
        "sheet",
    ),
    *("declared_columns", "in_blocks", "cluster", "jobs"),
)


def _parse_groups(text: str | None) -> dict[str, tuple[str, ...] | None]:
    """Return the values of each group column, None to take those of the public rows.

    For example, ``sex=f|m, ward`` is ``{"sex": ("f", "m"), "ward": None}``.
    """
    groups: dict[str, tuple[str, ...] | None] = {}
    for part in [] if text is None else text.split(","):
        column, equals, values = (one.strip() for one in part.partition("="))
        if not column or column in groups or (equals and not values):
            raise InvalidParameterError(
                f"groups={text!r} is not a list of columns: write each once, such as sex=f|m,ward.", parameter="groups"
            )
        groups[column] = tuple(one.strip() for one in values.split("|")) if equals else None
    return groups
