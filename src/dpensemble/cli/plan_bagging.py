"""``dpensemble plan --method bagging``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from dpensemble._checks import round_up
from dpensemble.accounting import bagging_delta, largest_subsample, published_bagging
from dpensemble.accounting.subsampling import bagging_delta_below_one
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.certificates import certificate_of_draws
from dpensemble.cli.plan_output import check_folder, print_certificate, write_certificate
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.relations import Basis, Relation

_OTHER_SIZES = (0.1, 0.5, 1, 2, 10)


def plan_bagging(
    records: int | None, settings: dict[str, Any], *, as_json: bool, certificate: Path | None = None
) -> None:
    """Print the guarantee of bagging itself, or the largest subsample within a delta."""
    check_folder("certificate", certificate)
    subsample, delta = settings.get("subsample"), settings.get("delta")
    if records is None:
        raise InvalidParameterError("method bagging requires --records, the number of private records.")
    if subsample is None and delta is None:
        raise InvalidParameterError(
            "method bagging requires either --subsample, to find delta, or --delta, to find the largest subsample."
        )
    if subsample is not None and delta is not None:
        raise InvalidParameterError(
            f"--subsample {subsample} and --delta {delta:g} are both given, but each determines the other: give "
            "only one of them."
        )
    models = settings.get("n_teachers", 1)
    scheme = Bootstrap(settings.get("scheme", Bootstrap.WITH_REPLACEMENT))
    if delta is not None:
        subsample = largest_subsample(delta, records, models, scheme)
    draws = BootstrapScheme(scheme, models, subsample)  # type: ignore[arg-type]
    answer = _answer(draws, records)
    if certificate is not None:
        write_certificate(certificate, certificate_of_draws(draws, records))
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
    else:
        _show(draws, records, answer)
        print_certificate(certificate)


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
        "method": "bagging",
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
        "exposed; the others are protected for all possible models.",
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
    """Return delta for display, or a dash if a draw of this size is impossible."""
    try:
        return _figure(bagging_delta(scheme, records))
    except InvalidParameterError:
        return "-"


def _figure(value: float) -> str:
    return f"{round_up(value, 4):g}"
