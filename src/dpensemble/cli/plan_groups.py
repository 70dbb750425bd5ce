"""``dpensemble plan`` where groups of records have budgets of their own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpensemble._progress import progress_bar
from dpensemble._rounding import round_up
from dpensemble.cli.options import Method
from dpensemble.cli.plan_plot import write_charts
from dpensemble.cli.show import plain_line, warnings_as_lines
from dpensemble.errors import InvalidParameterError
from dpensemble.planning import (
    Ensemble,
    Personalisation,
    PersonalPlan,
    VotingMethod,
    plan_personalised,
)
from dpensemble.relations import Basis
from dpensemble.report.groups import History, history_chart, varied_setting
from dpensemble.workflow import parse_budgets
from dpensemble.workflow.personal import plain_fields

_NOISE = ("scale", "sigma", "reach", "shape", "threshold", "threshold_sigma")


def plan_groups(
    method: Method,
    budgets: str | None,
    settings: dict[str, Any],
    wanted: dict[str, Any],
    *,
    delta: float,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Plan a personalised method, and print what its budgets buy.

    Parameters
    ----------
    method : Method
        A personalised one.
    budgets : str or None
        Groups with shares.
    settings : dict
        Of the plain `Ensemble`.
    wanted : dict
        ``labels``, ``rule``, ``precision`` and ``vanish_at_end``.
    delta : float
        Delta of every budget.
    plot : Path or None
        Where to draw the spend of each group.
    as_json : bool
        Whether to print JSON.

    Raises
    ------
    InvalidParameterError, BudgetError
        In one sentence.
    """
    request = parse_budgets(budgets)
    if request is None:
        raise InvalidParameterError(
            f"--method {method.value} is planned from budgets; give them with the share of the records that has "
            'each, such as --budgets "high=0.7:50%,low=1.4:50%".'
        )
    census = request.census(delta)
    kind = Personalisation(method.value.removesuffix("-pate"))
    ensemble = Ensemble(**settings)
    with warnings_as_lines(), progress_bar("Pricing answers", None, shown=sys.stderr.isatty()):
        found = plan_personalised(kind, ensemble, census, **wanted)
        plain = Ensemble(**(settings | {name: found.noise.get(name) for name in _NOISE}))
        fields = plain_fields(plain, census, found.labels)
        if plot is not None:
            _write(found, fields, method, plot)
    if as_json:
        typer.echo(json.dumps(_as_dict(found, fields, method), indent=2))
        return
    _show(found, fields, method)
    if plot is not None:
        typer.echo(f"Plot: {plot}")


def _as_dict(found: PersonalPlan, fields: dict[str, Any], method: Method) -> dict[str, Any]:
    """Return the plan with the method under its name on the command line, and what the baselines stand for."""
    answer = {"method": method.value, "basis": Basis.WORST_CASE.value, "aggregator": found.method}
    rest = {name: value for name, value in found.to_dict().items() if name not in ("kind", "method")}
    return answer | rest | {"baselines": fields["plain_labels"]}


def _write(found: PersonalPlan, fields: dict[str, Any], method: Method, plot: Path) -> None:
    history = History(
        groups=[(group.name, group.budget) for group in found.groups],
        spend=found.spend,
        plain=fields["plain_spend"],
        marks=[(entry["name"], entry["epsilon"], entry["labels"]) for entry in fields["plain_labels"]],
    )
    setting = f"{method.value}, {found.method}, {found.n_teachers:,} teachers, delta {found.delta:g}"
    write_charts(setting, [("What labels cost each group", history_chart(history, "labels"))], plot)


def _show(found: PersonalPlan, fields: dict[str, Any], method: Method) -> None:
    console = Console(highlight=False)
    gated = VotingMethod(found.method).gated
    console.print(
        f"{found.labels:,} label{'' if found.labels == 1 else 's'} within everybody's budget at delta "
        f"{found.delta:g}{' if every query is answered' if gated else ''}.",
        markup=False,
    )
    console.print(_settings(found))
    console.print(_groups(found, method))
    if len(found.stages) > 1:
        for queries, voting in found.stages:
            console.print(
                f"{queries:,} quer{'y' if queries == 1 else 'ies'} answered by {', '.join(voting)}", markup=False
            )
    console.print(
        plain_line(fields["plain_labels"], "queries" if gated else "labels"), markup=False, soft_wrap=True
    )
    if found.labels < found.baselines["minimum"]:
        console.print(
            f"Hint: one budget for all, the strictest, would buy more than {found.kind} does; "
            "compare --method weighting-pate, or take more noise.",
            soft_wrap=True,
        )


def _settings(found: PersonalPlan) -> Table:
    table = Table(show_header=False)
    table.add_row("method", f"{found.kind}, {found.method}, {found.n_classes} classes")
    copies = "" if found.n_teachers == found.plain_teachers else f" ({found.plain_teachers:,} without copies)"
    table.add_row("teachers", f"{found.n_teachers:,}{copies}")
    given = {name: found.noise[name] for name in _NOISE if found.noise.get(name) is not None}
    noise = ", ".join(f"{name.replace('_', ' ')} {value:.6g}" for name, value in given.items())
    table.add_row(f"noise for {found.plain_teachers:,} votes", noise)
    table.add_row("accounting", f"{found.accounting}, worst-case; {found.rule} parameters")
    return table


def _groups(found: PersonalPlan, method: Method) -> Table:
    varied = varied_setting(method.value)
    shared = all(group.teachers is None for group in found.groups)
    table = Table("group", title="Groups by budget", title_justify="left")
    for head in ("share", "budget", "spent", "labels alone", *([] if shared else ["teachers"]), varied):
        table.add_column(head, justify="right")
    for group in found.groups:
        table.add_row(
            escape(group.name),
            f"{group.share:.3%}".replace(".000%", "%"),
            f"{round_up(group.budget, 4):g}",
            f"{round_up(group.epsilon, 4):g}" if group.epsilon else "0",
            f"{group.queries:,}",
            *([] if shared else [f"{group.teachers:,}"]),
            f"{getattr(group, varied):.4g}",
        )
    return table
