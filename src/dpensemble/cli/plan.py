"""``dpensemble plan``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dpensemble._checks import integer_between, real_between
from dpensemble._progress import progress_bar
from dpensemble.accounting import Accounting
from dpensemble.cli.plan_plot import check_plot_file, write_plot
from dpensemble.cli.show import warnings_as_lines
from dpensemble.cli.show_plan import (
    Budgets,
    other_budgets,
    print_budgets,
    print_plan,
    print_quality,
    print_smallest,
)
from dpensemble.planning import (
    Plan,
    SmallestEnsemble,
    VotingMethod,
    answer_rate,
    smallest_ensemble,
    wrong_label_rate,
)
from dpensemble.planning import plan as find_plan
from dpensemble.relations import Basis

_NOISE, _QUALITY, _OUTPUT = "Votes and noise", "Label quality", "Output"
_AGREEMENTS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def plan(
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget (1 unless --labels is given; left out: found).")
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of the budget.")] = 1e-5,
    labels: Annotated[int | None, typer.Option(help="Labels wanted (left out: found).")] = None,
    method: Annotated[VotingMethod, typer.Option(help="Method.")] = VotingMethod.SAA,
    accounting: Annotated[
        Accounting, typer.Option(help="Charge for what a label alone reveals, or as the papers do.")
    ] = Accounting.EXACT,
    teachers: Annotated[int, typer.Option(help="Teachers in each partition.", rich_help_panel=_NOISE)] = 250,
    partitions: Annotated[
        int | None, typer.Option(help="dpbag only: partitions (default 10).", rich_help_panel=_NOISE)
    ] = None,
    classes: Annotated[int, typer.Option(help="Number of classes.", rich_help_panel=_NOISE)] = 2,
    scale: Annotated[
        float | None,
        typer.Option(
            help="saa, dpbag, lnmax: Laplace scale in votes (found if --epsilon and --labels are given).",
            rich_help_panel=_NOISE,
        ),
    ] = None,
    sigma: Annotated[
        float | None,
        typer.Option(
            help="gnmax and its kin: standard deviation of the noise in votes (found likewise).",
            rich_help_panel=_NOISE,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="confident and interactive: votes needed for an answer.", rich_help_panel=_NOISE),
    ] = None,
    threshold_sigma: Annotated[
        float | None,
        typer.Option(
            help="confident and interactive: standard deviation of the noise on the threshold.",
            rich_help_panel=_NOISE,
        ),
    ] = None,
    agreement: Annotated[
        float, typer.Option(help="Share of the teachers that agree on a typical row.", rich_help_panel=_QUALITY)
    ] = 0.8,
    label_accuracy: Annotated[
        float | None,
        typer.Option(
            help="Also find the smallest ensemble whose labels of such a row are right this often.",
            rich_help_panel=_QUALITY,
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw epsilon and wrong labels as SVG.", rich_help_panel=_OUTPUT)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the plan as JSON.", rich_help_panel=_OUTPUT)
    ] = False,
) -> None:
    """Tell what a budget buys, before any record is touched.

    Of epsilon, labels and noise, give two and get the third.

    For dpbag the plan is data-independent (DPBag-); the personalised analysis answers at least as many.

    Example: dpensemble plan --method saa --teachers 250 --epsilon 1 --delta 1e-5
    """
    default_partitions = 10 if method is VotingMethod.DPBAG else 1
    settings: dict[str, Any] = {
        "method": method.value,
        "n_teachers": teachers,
        "n_partitions": default_partitions if partitions is None else partitions,
        "n_classes": classes,
        "threshold": threshold,
        "threshold_sigma": threshold_sigma,
        "accounting": accounting.value,
    }
    integer_between("classes", classes, 2)
    real_between("agreement", agreement, 0.501, 1.0)
    if label_accuracy is not None:
        real_between("label_accuracy", label_accuracy, 0.5, 0.999)
    if plot is not None:
        check_plot_file(plot)
    if epsilon is None and labels is None:
        epsilon = 1.0
    with warnings_as_lines(), progress_bar("Pricing answers", None, shown=sys.stderr.isatty()):
        found = find_plan(delta=delta, epsilon=epsilon, labels=labels, scale=scale, sigma=sigma, **settings)
        # In this order, so that the composition laid out for the plan serves the plot and smaller budgets.
        if plot is not None:
            write_plot(found, plot)
        budgets = None if as_json else other_budgets(found)
        smallest = None if label_accuracy is None else _smallest(found, agreement, label_accuracy, settings)
        quality = _quality(found, agreement)
    if as_json:
        typer.echo(json.dumps(_as_dict(found, quality, smallest), indent=2))
    else:
        _show(found, budgets, quality, smallest, plot)


def _smallest(found: Plan, agreement: float, label_accuracy: float, settings: dict[str, Any]) -> SmallestEnsemble:
    return smallest_ensemble(
        epsilon=found.epsilon,
        delta=found.delta,
        labels=found.labels,
        agreement=agreement,
        label_accuracy=label_accuracy,
        **settings,
    )


def _quality(found: Plan, agreement: float) -> list[dict[str, float]]:
    """Return how good labels are, one row for each share of the teachers that agrees."""
    ensemble, ballots = found.ensemble, found.n_teachers * found.n_partitions
    shares = sorted({*_AGREEMENTS, agreement})
    margins = [round((2 * share - 1) * ballots, 9) for share in shares]
    wrong = wrong_label_rate(ensemble.law, ballots, margins, found.n_classes)
    answered = answer_rate(ensemble.law, ballots, margins, found.n_classes)
    names = ("agreement", "margin", "wrong_label_rate", "answer_rate")
    rows = zip(shares, margins, wrong.tolist(), answered.tolist(), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _as_dict(found: Plan, quality: list[dict[str, float]], smallest: SmallestEnsemble | None) -> dict[str, Any]:
    answer = {"method": found.method, "basis": Basis.WORST_CASE.value} | found.to_dict() | {"quality": quality}
    if smallest is not None:
        answer["smallest_ensemble"] = smallest.plan.to_dict() | {
            "agreement": smallest.agreement,
            "label_accuracy": smallest.label_accuracy,
            "answer_rate": smallest.answer_rate,
        }
    return answer


def _show(
    found: Plan,
    budgets: Budgets | None,
    quality: list[dict[str, float]],
    smallest: SmallestEnsemble | None,
    plot: Path | None,
) -> None:
    print_plan(found)
    if budgets is not None:
        print_budgets(found, budgets)
    print_quality(found, quality)
    if smallest is not None:
        print_smallest(smallest)
    if plot is not None:
        typer.echo(f"Plot: {plot}")
