"""``dpensemble plan --method bagged-pate``."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from dpensemble._progress import progress_bar
from dpensemble._rounding import round_up
from dpensemble.allocation import Bootstrap
from dpensemble.cli.show import warnings_as_lines
from dpensemble.cli.show_plan import label_quality, noise_text, print_quality
from dpensemble.errors import InvalidParameterError
from dpensemble.planning import BaggedPlan, VotingMethod, plan_bagged
from dpensemble.relations import Basis


def plan_bagged_votes(
    drawn: dict[str, Any],
    asked: dict[str, Any],
    settings: dict[str, Any],
    *,
    agreement: float,
    as_json: bool,
) -> None:
    """Print what a budget buys from teachers whose records are drawn by chance.

    Parameters
    ----------
    drawn : dict
        ``records``, ``subsample`` and ``scheme``, None where not given.
    asked : dict
        ``epsilon``, ``delta`` and ``labels``, None where to be found.
    settings : dict
        As for `Ensemble`.
    agreement : float
        Share of the teachers that agree on a typical row.
    as_json : bool
        Whether to print JSON.

    Raises
    ------
    InvalidParameterError, BudgetError
        In one sentence.
    """
    records, subsample = drawn["records"], drawn["subsample"]
    if records is None:
        raise InvalidParameterError("--method bagged-pate needs --records, the number of private records.")
    if subsample is None:
        # Half of what a partition would give, as the estimator has it.
        subsample = max(1, records // (2 * settings["n_teachers"]))
    scheme = drawn["scheme"] or Bootstrap.DISTINCT
    with warnings_as_lines(), progress_bar("Pricing answers", None, shown=sys.stderr.isatty()):
        found = plan_bagged(records=records, subsample=subsample, scheme=scheme.value, **asked, **settings)
        quality = label_quality(found.ensemble, agreement)
    if as_json:
        answer = found.to_dict() | {"method": "bagged-pate", "aggregator": found.method}
        typer.echo(json.dumps(answer | {"basis": Basis.WORST_CASE.value, "quality": quality}, indent=2))
        return
    _show(found)
    print_quality(quality, found.n_classes)


def _show(found: BaggedPlan) -> None:
    console = Console(highlight=False)
    noun = "label" if found.labels == 1 else "labels"
    console.print(
        f"{found.labels:,} {noun} at epsilon {round_up(found.epsilon, 6):g} and delta {found.delta:g}.",
        markup=False,
    )
    table = Table(show_header=False)
    table.add_row("method", f"bagged-pate by {VotingMethod(found.method).value}, {found.n_classes} classes")
    table.add_row("teachers", f"{found.n_teachers:,}, each with {found.subsample:,} of {found.records:,} records")
    table.add_row("draws", f"{found.scheme}; a record is drawn at all with probability {found.held:.4g}")
    table.add_row("noise", noise_text(found))
    table.add_row("epsilon spent", f"{round_up(found.epsilon_spent, 5):g}")
    table.add_row("accounting", "worst-case, averaged over the draws")
    table.add_row(
        "one partition of all records",
        f"{found.partition_labels:,} labels with the same noise, {found.records // found.n_teachers:,} or more "
        "records a teacher",
    )
    console.print(table)
