"""Print a run in the terminal, and the commands about an earlier run: report, verify and recover."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpensemble._checks import printable, round_up
from dpensemble._files import LARGEST_JSON, UnfitJSONError, is_pipe, parse_json, pipe_bytes, read_json
from dpensemble._work import progress_on_stderr
from dpensemble.certificates import confirmed, release_stated
from dpensemble.cli.interrupts import INTERRUPTS
from dpensemble.cli.options import Unfinished
from dpensemble.cli.show_plan import plain_line
from dpensemble.errors import FileError, InvalidParameterError, VerifierError, file_errors
from dpensemble.report import RunRecord
from dpensemble.report.life_table import RISK, life_table_lines, risk_lines
from dpensemble.report.numbers import NUMBER, number_lines
from dpensemble.report.page import registry_text, render
from dpensemble.report.quality import quality_lines
from dpensemble.report.record import declared_noun
from dpensemble.report.sections import varied_setting
from dpensemble.report.wording import with_error
from dpensemble.workflow.disk import ANY_FILE, OWN_FILE, replace_file
from dpensemble.workflow.outputs import RunFile, load_run, undamaged
from dpensemble.workflow.recovery import recover, state_of, unfinished_run
from dpensemble.workflow.run_folder import checked_folder

# Entries of the data of a run whose student predicts no labels.
_WITHOUT_LABELS = {NUMBER, RISK}
# Exit code of ``verify`` where the verifier cannot run.
_NOT_CHECKED = 3


def print_run(record: RunRecord, page: Path, student: Path, *, zeroes: bool = False) -> None:
    """Print the guarantee, the labels and the scores of a run, for the owner of the data.

    With `zeroes` a line states that a bad record adds nothing. It is the same whether or not there are bad records.
    """
    console = Console(highlight=False, soft_wrap=True)
    for reason in record.experiment:
        console.print(f"Experiment, not a release: {reason}", markup=False)
    results = list(_results(record))
    for shown in results:
        console.print(shown, markup=False)
    if results:
        console.print()
    for line in record.statement().sentences():
        console.print(line, markup=False)
    if "chosen_because" in record.settings:
        console.print(f"Method: {record.settings['title']}. Why: {record.settings['chosen_because']}", markup=False)
    for line in _released(record) if record.released_sums else _answered(record):
        console.print(printable(line), markup=False)
    console.print(f"Noise: {record.noise_in_words}", markup=False)
    if zeroes and not record.data.get("data_is_public"):
        console.print(_bad_records(record), markup=False)
    if record.groups:
        console.print(_groups(record))
        console.print(plain_line(record.plain_labels, "questions" if record.gated else "labels"), markup=False)
    console.print(printable(f"Columns: {record.data['kinds_of_columns']}"), markup=False)
    console.print()
    for line in _where_files_are(record, page, student):
        console.print(line, markup=False)


def _results(record: RunRecord) -> Iterator[str | Table]:
    """Yield how good the student is, as far as is known, and reasons for caution."""
    if record.student is not None:
        yield _scores(record)
        if "auprc" in record.student and "classes" in record.data:
            yield record.areas_in_words
        if not record.scores_are_public:
            yield "Scores are exact and for you only, unless the test rows are public (--test-is-public)."
    yield from quality_lines(record)
    yield from number_lines(record)
    yield from map(printable, (*life_table_lines(record), *risk_lines(record)))
    for hint in _hints(record):
        yield f"Hint: {hint}"


def _where_files_are(record: RunRecord, page: Path, student: Path) -> Iterator[str]:
    """Yield where the files are, how to add a missing title, and how to use the student."""
    yield f"Report:  {page}"
    if "title" not in record.data:
        yield f"Title:   none; 'dpensemble report {student.parent} --title \"...\"' adds one."
    if record.life_table is not None:
        yield f"Table:   {student.parent / RunFile.LIFE_TABLE}"
    decision = record.data.get("decision")
    does = "predicts" if _WITHOUT_LABELS & record.data.keys() else "classifies"
    threshold = f" --threshold {decision['threshold']:.4g}" if decision else ""
    if record.life_table is None:
        yield f"Student: {student}; 'dpensemble predict {student.parent} FILE{threshold}' {does} the rows of a file"
    if "certificate" in record.data:
        file = student.parent / record.data["certificate"]
        yield f"Certificate: {file}; check it by 'dpensemble verify {file}'"


def _answered(record: RunRecord) -> list[str]:
    """Return lines about how many public rows were labelled by a vote, and how well."""
    inside = "" if record.labels_are_public else " (for you only: this number is not protected)"
    query_words = "" if record.asked == record.labels else f" after asking about {record.asked:,}"
    answered = f"Public rows that got a label: {record.labels:,} of {record.data['public_rows']:,} public rows"
    return [f"{answered}{query_words}{_right(record)}{inside}"]


def _released(record: RunRecord) -> list[str]:
    """Return lines about what was released without a vote."""
    unit = record.unit
    each, only = ("to it", "the noisy sum leaves") if record.n_sums == 1 else ("to each", "the noisy sums leave")
    teachers = record.settings.get("n_teachers")
    adds = f"each of {teachers:,} teachers" if teachers else f"every {unit}"
    lines = [f"Released: {record.sums_in_words}; {adds} adds one vector of bounded length {each}, and only {only}."]
    if record.described_sums:
        lines[0] += f" The report lists {'its noise' if record.n_sums == 1 else 'them and their noise'}."
    elif record.settings.get("compares_rows"):
        lines[0] += " One more sum compares public rows with the private records."
    elif record.settings.get("synthetic_rows"):
        lines[0] += (
            " Two more sums show how common entries are and which entries occur together; synthetic rows were drawn "
            "from them."
        )
    for table in record.released_tables:
        rows = [(label, *with_error(value, error)) for label, value, error in table["rows"]]
        values = ", ".join(f"{label} {value} ± {error}" for label, value, error in rows)
        lines.append(f"{table['title']}: {values}")
    if not record.data["public_rows"] or _WITHOUT_LABELS & record.data.keys():
        return lines
    return [*lines, f"Public rows that the model labelled: {record.labels:,}{_right(record)}"]


def _bad_records(record: RunRecord) -> str:
    """State what becomes of bad records, and the released estimate of their share if there is one."""
    share = record.readable_in_words
    estimate = "" if share is None else f"{share} of the records could be read. "
    what = "a blank or undeclared label"
    if NUMBER in record.data:
        what = "a target that is not a finite number"
    if RISK in record.data:
        what = "a blank or undeclared code or time"
    if record.life_table is not None:
        what = "a blank or undeclared code, stratum or time"
    return (
        f"Bad records: {estimate}A record with {what}, or an entry that cannot be read, adds "
        "nothing but counts as a record. 'dpensemble check' counts such records, for you only."
    )


def _right(record: RunRecord) -> str:
    return "" if record.label_accuracy is None else f", {record.label_accuracy:.1%} of them right"


def _scores(record: RunRecord) -> Table:
    models = {"student (protected)": record.student, "baseline (no privacy)": record.baseline}
    heads = {"accuracy": "accuracy", "auroc": "AUROC", "auprc": "AUPRC"}
    if any("brier" in measures for measures in models.values() if measures is not None):
        heads["brier"] = "Brier score\n(0 is best)"
    table = Table("", *heads.values())
    for name, measures in models.items():
        if measures is not None:
            cells = (measures.get(key) for key in heads)
            table.add_row(name, *("-" if cell is None else f"{cell:.3f}" for cell in cells))
    if record.data["most_common_label"] is not None:
        plain = {"accuracy": f"{record.data['most_common_label']:.3f}", "auroc": "0.500"}
        table.add_row("always the most common label", *(plain.get(key, "-") for key in heads))
    return table


def _groups(record: RunRecord) -> Table:
    varied = varied_setting(record.method)
    shared = all(group["teachers"] is None for group in record.groups)
    table = Table("group")
    for head in ("budget", "spent", "records", *([] if shared else ["teachers"]), varied):
        table.add_column(head, justify="right")
    for group in record.groups:
        spent = f"{round_up(group['epsilon'], 4):g}" if group["epsilon"] else "0"
        table.add_row(
            escape(group["name"]),
            f"{round_up(group['budget'], 4):g}",
            spent if record.group_spend_is_promised else f"at most {spent}",
            "-" if group["records"] is None else f"{group['records']:,}",
            *([] if shared else [f"{group['teachers']:,}"]),
            f"{group[varied]:.4g}",
        )
    return table


def _hints(record: RunRecord) -> list[str]:
    """Return reasons not to rely on the student, and settings that would use the budget better."""
    hints = [remark.text for remark in record.remarks()]
    # Noise that was not set is lowered until the queries use up the budget.
    if (
        not record.released_sums
        and record.asked == record.data["public_rows"]
        and record.settings["noise_chosen"] == "given"
    ):
        hints.append("all public rows were queried; more rows or less noise would use the rest of the budget.")
    return hints


def report(
    run: Path,
    out: Path | None,
    title: str | None,
    unit_name: str | None,
    private: bool,
    registry: Path | None,
    as_json: bool,
) -> None:
    """Show an earlier run, and write its page again, with another title or noun for units on request."""
    _require_no_site(run)
    record, private_record = load_run(run, private=private)
    record = _renamed(record, title, unit_name)
    page = out or run / (RunFile.PRIVATE_REPORT if private else RunFile.REPORT)
    with progress_on_stderr("Writing the page"), undamaged(run / RunFile.RECORD):
        text = render(record, private_record)
    _write("out", page, text, OWN_FILE if private else ANY_FILE)
    if registry is not None:
        with undamaged(run / RunFile.RECORD):
            entry, to_fill_in = registry_text(record)
        _write("registry", registry, entry, ANY_FILE)
    if as_json:
        answer = record.to_dict() | {"page": str(page)}
        if private_record is not None:
            answer["private"] = private_record.to_dict()
        typer.echo(json.dumps(answer, indent=2))
    else:
        with undamaged(run / RunFile.RECORD):
            print_run(record, page, run / RunFile.STUDENT)
    if registry is not None:
        typer.echo(f"Registry: {registry}. Fill in what it leaves open ({to_fill_in}).", err=as_json)


def _require_no_site(run: Path) -> None:
    """Raise for the own folder of a party of several sites, and name the files of the result."""
    if (run / RunFile.RECORD).exists():
        return
    # Runs of several sites are needed only here.
    from dpensemble.sites import SiteRun  # noqa: PLC0415

    files = SiteRun.files_of_result(run)
    if files is None:
        return
    result = f"its result is in {', '.join(files)}" if files else "its result is not there yet"
    raise FileError(
        f"{run} is the own folder of a party of several sites, which has no page unless a life table was released: "
        f"{result}; see 'dpensemble sites status MESSAGES {run}'."
    )


def _renamed(record: RunRecord, title: str | None, unit_name: str | None) -> RunRecord:
    """Return the record with another title and another noun for units. None leaves them as they are."""
    names = {} if title is None else {"title": title}
    if unit_name is not None:
        names["unit_name"] = declared_noun(unit_name, record.data.get("unit_column"))
    return replace(record, data=record.data | names)


def _write(parameter: str, path: Path, text: str, mode: int) -> None:
    with file_errors(lambda reason: f"{parameter}={str(path)!r} cannot be written ({reason}): choose another file."):
        replace_file(path, text, mode)


def verify(file: Path, as_json: bool) -> None:
    """Print what the verifier reports. End with exit code 1 unless the certificate is confirmed and for release.

    The exit code is 3 if the verifier cannot run here.
    """
    if file.is_dir():
        if not (file / RunFile.CERTIFICATE).is_file():
            raise FileError(
                f"{file} contains no {RunFile.CERTIFICATE}: train with label moments, which always write one, or give "
                "--certificate to a method that votes."
            )
        file = file / RunFile.CERTIFICATE
    if is_pipe(file):
        with file_errors(lambda reason: f"{file} cannot be read ({reason}): give a certificate."):
            content: bytes | None = pipe_bytes(file, LARGEST_JSON)
    elif file.is_file():
        content = None
    else:
        raise FileError(
            f"{file} must be the folder of a run, or a certificate, such as 'dpensemble plan --certificate' writes; no "
            "such file exists."
        )
    if file.name in (RunFile.RECORD, RunFile.PRIVATE_RECORD):
        raise FileError(f"{file} is the record of a run: give its folder, or the {RunFile.CERTIFICATE} in it.")
    _require_certificate(file, content)
    try:
        with progress_on_stderr("Checking the certificate"):
            yes, statement = confirmed(file, content)
    except VerifierError as error:
        typer.echo(f"dpensemble: {error}", err=True)
        raise typer.Exit(_NOT_CHECKED) from None
    release = release_stated(statement)
    answer = {"confirmed": yes, "arithmetic": yes or release is False, "for_release": release, "said": statement}
    typer.echo(json.dumps(answer, indent=2) if as_json else statement)
    if not yes:
        raise typer.Exit(1)


def _require_certificate(file: Path, content: bytes | None) -> None:
    try:
        if content is None:
            certificate = read_json(file, FileError, links=True, special_numbers=True)
        else:
            certificate = parse_json(content, special_numbers=True)
        holds_object = isinstance(certificate, dict)
    except (OSError, UnfitJSONError):
        holds_object = False
    if not holds_object:
        raise FileError(f"{file} is not a certificate: give the folder of a run, or the {RunFile.CERTIFICATE} in it.")


def recover_run(
    run: Path,
    overwrite: bool,
    give_up: bool,
    unsigned: bool,
    as_json: bool,
    *,
    run_command: Callable[[list[str], Unfinished], int],
) -> None:
    """Finish what an interrupted run left. `run_command` runs the command of the journal."""
    if give_up and unsigned:
        raise InvalidParameterError("--give-up runs nothing, so --unsigned has no meaning beside it: drop one of them.")
    folder = checked_folder(run)
    INTERRUPTS.follow(partial(state_of, folder), lambda: False)
    with progress_on_stderr("Reading the journal"):
        journal = None if give_up else unfinished_run(folder, _was_charged, unsigned=unsigned)
    if journal is not None:
        journal.require_repeatable()
        # With the noise that it has drawn, and without a second charge. The page of the run shows what the run prints.
        with contextlib.chdir(journal.working_folder), contextlib.redirect_stdout(io.StringIO()):
            run_command(journal.command, Unfinished(overwrite, folder))
    with progress_on_stderr("Putting the run in its place"):
        recovered = recover(folder, overwrite=overwrite, unsigned=unsigned, repeated=journal)
    typer.echo(json.dumps(asdict(recovered), indent=2) if as_json else recovered.what)


def _was_charged(ledger: str, data_set: str, release: str) -> bool:
    """Return whether a ledger shows the charge of an interrupted run."""
    # The extra of the ledger is needed only here.
    from dpensemble.server import Ledger  # noqa: PLC0415

    return Ledger(ledger).account(data_set).has_release(release)
