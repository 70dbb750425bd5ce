"""``dpensemble plan label-moments``: how well a student would do, by number of records and epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from dpensemble._checks import split_names
from dpensemble._work import progress_on_stderr
from dpensemble.cli.options import Request, parts_of
from dpensemble.datasets import CSVFormat
from dpensemble.datasets.formats import as_options, entry_rules
from dpensemble.errors import InvalidParameterError
from dpensemble.workflow.difficulty import Range
from dpensemble.workflow.table_files import TableFiles
from dpensemble.workflow.table_size import USUAL_RECORDS, TableSizePlan, plan_label_moments

#: Options about columns of public rows, and about their file.
_OF_PUBLIC = ("target", "drop", "unit", "column", "blank", "below_limit", "sep", "decimal", "skip_lines", "sheet")


def run(request: Request) -> None:
    """Estimate accuracy and AUROC, and print them."""
    own = request.own
    settings: dict[str, Any] = {
        "epsilon": _epsilons(own["epsilon"]),
        "records": USUAL_RECORDS if own["records"] is None else _whole_numbers(own["records"]),
        "classes": ["no", "yes"] if own["classes"] is None else split_names(own["classes"]),
        "n_public": own["public_rows"],
        "n_columns": own["columns"],
        "share": own["share"],
        "unit_size": 1 if own["unit_size"] is None else own["unit_size"],
        "auroc": own["auroc"],
        "seed": 0 if own["seed"] is None else own["seed"],
        "delta": request.settings.get("delta"),
    }
    settings |= _tables(own, settings["classes"])
    with as_options(), progress_on_stderr(quiet=own["quiet"] or own["json"]):
        plan = plan_label_moments(**settings)
    if own["json"]:
        typer.echo(plan.to_json())
    else:
        _print(plan)


def _numbers(name: str, text: str, kind: type, what: str) -> list[Any]:
    try:
        return [kind(part) for part in parts_of(text) or ()]
    except ValueError:
        raise InvalidParameterError(
            f"{name}={text!r} is not {what}, or several with commas between them.", parameter=name
        ) from None


def _epsilons(text: str | None) -> float | list[float]:
    """Return one epsilon, which is shown beside others, or a list."""
    if text is None:
        return 1.0
    epsilons = _numbers("epsilon", text, float, "a number")
    return epsilons[0] if len(epsilons) == 1 else epsilons


def _whole_numbers(text: str) -> list[int]:
    return _numbers("records", text, int, "a whole number")


def _tables(own: dict[str, Any], classes: list[str]) -> dict[str, Any]:
    """Return public rows without the target, their labels if there are any, and declared columns."""
    path, declared, target, dropped = own["public"], own["declared_columns"], own["target"], parts_of(own["drop"]) or []
    entries = entry_rules(own["column"], own["blank"], own["below_limit"], declared=declared is not None)
    if declared is not None:
        # The record of a run names its files. No private file is opened here.
        files = TableFiles(
            private=Path("-"),
            public=path,
            target=target or "",
            classes=None,
            declared_columns=declared,
            drop=dropped,
        )
        return {"declared_columns": files.declared_features()}
    if path is None:
        for name in _OF_PUBLIC:
            if own[name] is not None:
                raise InvalidParameterError(
                    f"{name}={own[name]!r} is about columns of public rows: give --public FILE, too.", parameter=name
                )
        return {}
    files = TableFiles(
        private=path,
        public=path,
        target=target or "",
        classes=classes,
        unit=own["unit"],
        drop=dropped,
        form=CSVFormat(
            **{name: own[name] for name in ("sep", "decimal", "skip_lines", "sheet") if own[name] is not None}
        ),
        entries=entries,
    )
    public = files.read(path, guess=True)
    left_out = {
        "drop": [*dropped, *entries.dropped],
        "target": [] if target is None else [target],
        "unit": [] if own["unit"] not in public else [own["unit"]],
    }
    for name, columns in left_out.items():
        for column in columns:
            if column not in public:
                raise InvalidParameterError(
                    f"{name}={column!r} is not a column of {path.name}: leave {name} out, or correct the name.",
                    parameter=name,
                )
    rules = files.entries.settings()
    del rules["rules"]
    features = public.drop(columns=[name for names in left_out.values() for name in names])
    labels = {} if target is None else {"y_public": public[target]}
    return {"X_public": features, **labels, **rules}


def _print(plan: TableSizePlan) -> None:
    console = Console(highlight=False)
    table = Table("records", title="Estimates, with intervals of 90 %", title_justify="left")
    for name in ("epsilon", "AUROC", "interval", "accuracy", "interval"):
        table.add_column(name, justify="right")
    for size in plan.sizes:
        table.add_row(f"{size.records:,}", f"{size.epsilon:g}", *_cells(size.auroc), *_cells(size.accuracy))
    console.print(table)
    facts = f"{plan.n_columns:,} columns, {plan.n_public:,} public rows"
    share = "" if plan.share is None else f", share of the second class {plan.share:g}"
    console.print(f"{facts}{share}.", markup=False)
    for line in plan.remarks():
        console.print(line, markup=False, soft_wrap=True)


def _cells(one: Range) -> tuple[str, str]:
    return f"{one.estimate:.2f}", f"{one.low:.2f} to {one.high:.2f}"
