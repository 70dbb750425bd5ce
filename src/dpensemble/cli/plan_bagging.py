"""``dpensemble plan --method bagging``."""

from __future__ import annotations

import json
import math
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from dpensemble._rounding import round_up
from dpensemble.accounting import bagging_delta, largest_subsample, published_bagging
from dpensemble.accounting.bagging import bagging_delta_below_one
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.cli.options import Method
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.relations import Basis, Relation

_SHARED = {"method", "delta", "as_json"}
_DRAWS = {"records", "subsample", "models", "scheme"}
_VOTES = {"epsilon", "labels", "aggregator", "teachers", "classes", "scale", "sigma", "reach", "agreement"}
#: Options of the methods that draw records by chance; no other method has any of `_DRAWS`.
_OPTIONS = {Method.BAGGING: _SHARED | _DRAWS, Method.BAGGED_PATE: _SHARED | _VOTES | _DRAWS - {"models"}}
_OTHER_SIZES = (0.1, 0.5, 1, 2, 10)


def refuse_foreign(context: typer.Context, method: Method) -> None:
    """Refuse options of other methods with those that draw records by chance, and the other way round.

    Parameters
    ----------
    context : typer.Context
        Tells which options were given, rather than left at their defaults.
    method : Method
        The one to plan.

    Raises
    ------
    InvalidParameterError
        In one sentence.
    """
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        if method not in _OPTIONS and name in _DRAWS:
            owners = " and ".join(owner.value for owner, options in _OPTIONS.items() if name in options)
            raise InvalidParameterError(
                f"{parameter.opts[0]} is for --method {owners} only, not --method {method.value}."
            )
        if method in _OPTIONS and name not in _OPTIONS[method]:
            own = ", ".join(f"--{other}" for other in sorted(_OPTIONS[method] - {"as_json", "method"}))
            raise InvalidParameterError(
                f"{parameter.opts[0]} is no option of --method {method.value}, which has {own}; leave it out."
            )


def plan_bagging(
    records: int | None,
    subsample: int | None,
    models: int | None,
    scheme: Bootstrap | None,
    *,
    delta: float | None,
    as_json: bool,
) -> None:
    """Print what bagging alone promises, or the largest subsample within a delta.

    Parameters
    ----------
    records : int or None
        Number of private records; must be given.
    subsample, delta : int or None, float or None
        Exactly one of them.
    models : int or None
        Number of models; 1 by default.
    scheme : Bootstrap or None
        How records are drawn; with replacement by default.
    as_json : bool
        Whether to print JSON.

    Raises
    ------
    InvalidParameterError, BudgetError
        In one sentence.
    """
    if records is None:
        raise InvalidParameterError("--method bagging needs --records, the number of private records.")
    if subsample is None and delta is None:
        raise InvalidParameterError(
            "--method bagging needs either --subsample, to find delta, or --delta, to find the largest subsample."
        )
    if subsample is not None and delta is not None:
        raise InvalidParameterError(
            f"--subsample {subsample} and --delta {delta:g} are both given, and one follows from the other; give "
            "only one of them."
        )
    models, scheme = 1 if models is None else models, scheme or Bootstrap.WITH_REPLACEMENT
    if delta is not None:
        subsample = largest_subsample(delta, records, models, scheme)
    found = BootstrapScheme(scheme, models, subsample)  # type: ignore[arg-type]
    answer = _answer(found, records)
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
    else:
        _show(found, records, answer)


def _answer(scheme: BootstrapScheme, records: int) -> dict[str, Any]:
    delta, published = bagging_delta_below_one(scheme, records), published_bagging(scheme, records)
    guarantee = Guarantee(
        epsilon=0.0,
        delta=delta,
        basis=Basis.WORST_CASE,
        relation=Relation.REPLACE_ONE,
        unit="record",
        accounting="probability that a record is drawn",
        n_units=records,
    )
    return {
        "method": Method.BAGGING.value,
        "basis": guarantee.basis.value,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "published": None if published is None else dict(zip(("epsilon", "delta"), published, strict=True)),
        "records": records,
        "subsample": scheme.subsample,
        "models": scheme.n_models,
        "scheme": scheme.scheme.value,
        "warning": guarantee.warning,
    }


def _show(scheme: BootstrapScheme, records: int, answer: dict[str, Any]) -> None:
    console = Console(highlight=False)
    exposed = math.floor(round(answer["delta"] * records, 6))
    console.print(
        f"Delta {_figure(answer['delta'])} at epsilon 0: about {exposed:,} of {records:,} records may be "
        "exposed, the others are protected, whatever the models learn.",
        markup=False,
    )
    table = Table(show_header=False)
    table.add_row("method", f"bagging, {scheme.scheme.value}")
    table.add_row("models", f"{scheme.n_models:,}")
    table.add_row("each draws", f"{scheme.subsample:,} of {records:,} records")
    if answer["published"] is not None:
        epsilon, delta = (_figure(value) for value in answer["published"].values())
        table.add_row("the paper's pair", f"epsilon {epsilon} and delta {delta}")
    console.print(table)
    sizes = Table("each draws", title="Delta by size of the subsamples", title_justify="left")
    for other in Bootstrap:
        sizes.add_column(other.value, justify="right")
    for size in sorted({max(1, round(factor * scheme.subsample)) for factor in _OTHER_SIZES}):
        schemes = (BootstrapScheme(other, scheme.n_models, size) for other in Bootstrap)
        sizes.add_row(f"{size:,}", *(_delta(other, records) for other in schemes))
    console.print(sizes)
    console.print(answer["warning"], markup=False, soft_wrap=True)


def _delta(scheme: BootstrapScheme, records: int) -> str:
    """Return delta as people read it, or a dash where so many cannot be drawn."""
    try:
        return _figure(bagging_delta(scheme, records))
    except InvalidParameterError:
        return "-"


def _figure(value: float) -> str:
    return f"{round_up(value, 4):g}"
