"""Print a run in the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpensemble._checks import printable, round_up
from dpensemble.report import RunRecord
from dpensemble.report.groups import SHARED_BUDGETS, varied_setting
from dpensemble.report.quality import quality_lines
from dpensemble.report.usefulness import remarks
from dpensemble.report.wording import noise, number, positive_class, readable, sums, with_error


def print_run(record: RunRecord, page: Path, student: Path, *, zeroes: bool = False) -> None:
    """Print the guarantee, the labels and the scores of a run, for the owner of the data.

    With `zeroes` a line states that a bad record adds nothing. It is the same whether or not there are bad records.
    """
    console = Console(highlight=False, soft_wrap=True)
    for line in record.statement().sentences():
        console.print(line, markup=False)
    for reason in record.experiment:
        console.print(f"Experiment, not a release: {reason}", markup=False)
    console.print()
    if "chosen_because" in record.settings:
        console.print(f"Method: {record.settings['title']}. Why: {record.settings['chosen_because']}", markup=False)
    for line in _released(record) if record.released_sums else _answered(record):
        console.print(line, markup=False)
    console.print(f"Noise: {noise(record)}", markup=False)
    if zeroes and not record.data.get("data_is_public"):
        console.print(_bad_records(record), markup=False)
    if record.groups:
        console.print(_groups(record))
        console.print(plain_line(record.plain_labels, "questions" if record.gated else "labels"), markup=False)
    for line in quality_lines(record):
        console.print(line, markup=False)
    if record.student is not None:
        console.print(_scores(record))
        if "auprc" in record.student and "classes" in record.data:
            area_words = positive_class(record.data["classes"], record.data.get("positive_class"))
            console.print(area_words, markup=False)
        if not record.scores_are_public:
            console.print("Scores are exact and for you only, unless the test rows are public (--test-is-public).")
    for hint in _hints(record):
        console.print(f"Hint: {hint}", markup=False)
    console.print(printable(f"Columns: {record.data['kinds_of_columns']}"), markup=False)
    for line in _files(record, page, student):
        console.print(line, markup=False)


def _files(record: RunRecord, page: Path, student: Path) -> Iterator[str]:
    """Yield where the files are, how to add a missing title, and how to use the student."""
    yield f"Report:  {page}"
    if "title" not in record.data:
        yield f"Title:   none; 'dpensemble report {student.parent} --title \"...\"' adds one."
    decision = record.data.get("decision")
    threshold = f" --threshold {decision['threshold']:.4g}" if decision else ""
    yield f"Student: {student}; 'dpensemble predict {student.parent} FILE{threshold}' classifies the rows of a file"
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
    lines = [f"Released: {sums(record.n_sums)}; {adds} adds one vector of bounded length {each}, and only {only}."]
    if record.described_sums:
        described = [f"{what} ({number(sigma, 4)})" for what, sigma in record.described_sums]
        lines.append(
            f"The sums in order, each with the standard deviation of its noise as a multiple of the most that one "
            f"{unit} can change the sum: {'; '.join(described)}."
        )
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
    if not record.data["public_rows"]:
        return lines
    return [*lines, f"Public rows that the model labelled: {record.labels:,}{_right(record)}"]


def _bad_records(record: RunRecord) -> str:
    """State what becomes of bad records, and the released estimate of their share if there is one."""
    share, error = record.data.get("readable_share"), record.data.get("readable_share_error")
    estimate = "" if share is None or error is None else f"{readable(share, error)} of the records could be read. "
    return (
        f"Bad records: {estimate}A record with a blank or undeclared label, or an entry that cannot be read, adds "
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


def plain_line(entries: Sequence[dict[str, Any]], noun: str) -> str:
    """Return what one budget for all would buy (`entries`: `RunRecord.plain_labels`; `noun`: what is counted)."""
    counts = ", ".join(
        f"{entry['labels']:,} if all had the {SHARED_BUDGETS[entry['name']]} budget ({round_up(entry['epsilon'], 4):g})"
        for entry in entries
    )
    return (
        f"One budget for all, with the same noise, would buy these numbers of {noun}: {counts}. Only the smallest "
        "number keeps within everybody's budget."
    )


def _hints(record: RunRecord) -> list[str]:
    """Return reasons not to rely on the student, and settings that would use the budget better."""
    hints = [remark.text for remark in remarks(record)]
    # Noise that was not set is lowered until the queries use up the budget.
    if (
        not record.released_sums
        and record.asked == record.data["public_rows"]
        and record.settings["noise_chosen"] == "given"
    ):
        hints.append("all public rows were queried; more rows or less noise would use the rest of the budget.")
    return hints
