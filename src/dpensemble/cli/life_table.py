"""``dpensemble lifetable``: read private records, release a life table, and write its report."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from dpensemble._checks import split_names
from dpensemble._files import pipes_kept
from dpensemble._spending import listen
from dpensemble._work import progress_bar, progress_on_stderr
from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.options import Invocation
from dpensemble.cli.output import warnings_as_lines
from dpensemble.cli.train import ClaimedRun, account_of, logged, noted_spending, print_outcome, print_pipes
from dpensemble.datasets import CSVFormat
from dpensemble.datasets.arrow_sources import ArrowSource
from dpensemble.datasets.formats import RULES, entry_rules
from dpensemble.engine.run import uncounted
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.workflow import RunFolder, TableFiles
from dpensemble.workflow.life_tables import DeclaredLifeTable, life_table_rows_of, release_life_table
from dpensemble.workflow.run_folder import READING_RULES, claimed_folder, resumed_folder
from dpensemble.workflow.table_files import Workers
from dpensemble.workflow.targets import parsed_codes, parsed_times

_Options = dict[str, Any]


def run(invocation: Invocation, own: _Options) -> None:
    """Release a life table, write its report and print the result. Log events on request.

    The order is that of ``train``: check the options, claim the folder, read the tables, release, and put the release
    in place.
    """
    out: Path = own["out"]
    with logged(own["log_json"], command="lifetable") as log, progress_on_stderr(quiet=own["quiet"]):
        start = perf_counter()
        declared = _declared(own)
        model, account = declared.model(), account_of(own["ledger"], own["data_set"])
        engine = None if own["cluster"] is None else own["cluster"].value
        files, where = _table_files(own, declared), (engine, own["scheduler"])
        with ExitStack() as running:
            source = running.enter_context(Workers.opened_source(own["private"][0]))
            place = running.enter_context(_claimed_folder(invocation, own, files, source))
            claimed = ClaimedRun.of(place, model, running)
            files = claimed.reading(files)
            workers = running.enter_context(Workers.opened(files.private, source, own["jobs"], *where))
            print_pipes(files)
            with pipes_kept(), progress_bar("Reading tables", None):
                tables = life_table_rows_of(files, declared, workers)
            for note in tables.notes:
                typer.echo(f"dpensemble: note: {note.text}", err=True)
            read = perf_counter() - start
            log("tables read", {"seconds": round(read, 3)})
            ledger = place.journaled(account, own["ledger"], INTERRUPTS.check)
            options = {name: own[name] for name in ("fewest_units", "title", "unit_name")}
            with (
                Workers.opened_cluster(None, *where),
                warnings_as_lines(),
                uncounted(),
                listen(partial(noted_spending, place, log)),
            ):
                rehearsed = invocation.resumed is None
                outcome = release_life_table(tables, model, declared, ledger=ledger, rehearsed=rehearsed, **options)
            outcome.record.seconds.update(reading=round(read, 3), total=round(perf_counter() - start, 3))
            if account is not None:
                outcome.record.data["ledger"] = account.ledger.id
            claimed.put_in_place(outcome, out, log)
        print_outcome(outcome, out, as_json=own["as_json"], zeroes=True)


def _declared(own: _Options) -> DeclaredLifeTable:
    """Return what options declare. Raise before any table is read if they cannot be used."""
    if own["entry"] is not None or len(own["time"]) > 1:
        given = "--entry" if own["entry"] is not None else f"--time {' --time '.join(own['time'])}"
        raise InvalidParameterError(
            f"{given} would let people enter late (left truncation), which a life table cannot do here: everybody is "
            "at risk from time 0, so give one --time, counted from each person's own start.",
            parameter="time",
        )
    event, events = parsed_codes("event", own["event"], "died=1")
    budget = {name: own[name] for name in ("epsilon", "delta", "insecure_release_seed")}
    return DeclaredLifeTable(
        time=own["time"][0],
        event=event,
        events=events,
        censored=split_names(own["censored"]),
        competing=() if own["competing"] is None else split_names(own["competing"]),
        bins=parsed_times("bins", own["bins"]),
        strata=DeclaredLifeTable.strata_of(own["strata"] or ()),
        at=None if own["at"] is None else parsed_times("at", own["at"]),
        time_unit=own["time_unit"],
        budget=budget | {"relation": Relation(own["relation"]).value},
    )


def _table_files(own: _Options, declared: DeclaredLifeTable) -> TableFiles:
    private: list[str] = own["private"]
    Workers.refuse_several_sources(private)
    return TableFiles(
        private=Path(private[0]),
        more_private=[Path(one) for one in private[1:]],
        public=None,
        target=declared.event,
        classes=declared.codes,
        times=declared,
        unit=own["unit"],
        form=CSVFormat(own["sep"], own["decimal"], own["multiline_text"], own["skip_lines"], own["sheet"]),
        entries=entry_rules(own["column"], own["blank"], None),
    )


def _claimed_folder(
    invocation: Invocation, own: _Options, files: TableFiles, source: ArrowSource | None
) -> AbstractContextManager[RunFolder]:
    """Claim the folder of a new run, or of a run that is being finished."""
    resumed = invocation.resumed
    if resumed is not None:
        return resumed_folder(own["out"], overwrite=resumed.overwrite, began_in=resumed.folder)
    facts: _Options = {"method": "life-table", "private": ", ".join(own["private"]), READING_RULES: RULES}
    if own["insecure_release_seed"] is not None:
        facts["for_release"] = False
    command = invocation.arguments if Workers.repeatable(files, source) else ()
    inputs = files.all_private if source is None else source.files
    return claimed_folder(own["out"], overwrite=own["overwrite"], inputs=inputs, command=command, about=facts)
