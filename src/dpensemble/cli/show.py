"""What people see in the terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from dpensemble._rounding import round_up
from dpensemble.planning import Plan
from dpensemble.report import RunRecord


def print_run(record: RunRecord, folder: Path) -> None:
    """Print the guarantee, the labels and the scores of a run."""
    console = Console(highlight=False, soft_wrap=True)
    for line in record.statement().sentences():
        console.print(line, markup=False)
    for reason in record.experiment:
        console.print(f"Experiment, not a release: {reason}", markup=False)
    console.print()
    right = "" if record.label_accuracy is None else f", {record.label_accuracy:.1%} of them right"
    rows = record.data["public_rows"]
    console.print(f"Labels answered: {record.labels:,} of {rows:,} public rows{right}", markup=False)
    if record.student is not None:
        table = Table("", "accuracy", "AUROC", "AUPRC")
        for name, found in (
            ("student (private)", record.student),
            ("baseline (no privacy)", record.baseline),
        ):
            if found is not None:
                cells = (found.get(key) for key in ("accuracy", "auroc", "auprc"))
                table.add_row(name, *("-" if cell is None else f"{cell:.3f}" for cell in cells))
        console.print(table)
    console.print(f"Report:  {folder / 'report.html'}", markup=False)
    console.print(f"Student: {folder / 'student.skops'}", markup=False)


def print_plans(asked: Plan, others: list[Plan]) -> None:
    """Print what the budget buys, and what other budgets would."""
    console = Console(highlight=False)
    console.print(
        f"{asked.labels:,} labels at epsilon {asked.epsilon:g} and delta {asked.delta:g} "
        f"({asked.n_teachers:,} teachers x {asked.n_partitions} partitions, scale {asked.scale:g} votes), "
        f"spending epsilon {round_up(asked.epsilon_spent, 4):g}.",
        markup=False,
    )
    table = Table("epsilon", "labels", "paper counts", title="Other budgets")
    for plan in others:
        table.add_row(f"{plan.epsilon:g}", f"{plan.labels:,}", f"{plan.labels_in_paper_convention:,}")
    console.print(table)
    console.print(
        "The DPBag paper also counts the query that breaches the budget, which is not answered here; "
        "its tables say delta 1e-5 but were computed at 1e-3.",
        markup=False,
    )
