"""``dpensemble plan``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import typer

from dpensemble._checks import integer_between, real_between
from dpensemble._work import progress_bar
from dpensemble.certificates import certificate_of
from dpensemble.cli.manifest import method_of
from dpensemble.cli.method_commands import Request
from dpensemble.cli.other_budgets import other_budgets
from dpensemble.cli.plan_output import check_folder, check_plot_file, print_certificate, write_certificate, write_plot
from dpensemble.cli.settings import settings_of
from dpensemble.cli.warning_lines import warnings_as_lines
from dpensemble.design import Plan, VotingDesign, smallest_ensemble
from dpensemble.design import plan as find_plan
from dpensemble.design.by_group import parse_budgets
from dpensemble.design.plan import SmallestEnsemble, quality_table
from dpensemble.errors import InvalidParameterError
from dpensemble.methods.designs import PLANNED
from dpensemble.relations import Basis

_AGREEMENTS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def run(request: Request) -> None:
    """Print what a budget buys."""
    own, settings = request.own, request.settings
    plot, certificate = own.get("plot"), own.get("certificate")
    if request.method == "bagging":
        from dpensemble.cli.plan_bagging import plan_bagging  # noqa: PLC0415  tables take long to import

        plan_bagging(own["records"], settings, as_json=own["json"], certificate=certificate)
        return
    check_folder("certificate", certificate)
    check_plot_file(plot)
    agreement, label_accuracy = own.get("agreement"), own.get("label_accuracy")
    agreement = 0.8 if agreement is None else real_between("agreement", agreement, 0.501, 1.0)
    if label_accuracy is not None:
        real_between("label_accuracy", label_accuracy, 0.5, 0.999)
    with warnings_as_lines(), progress_bar("Pricing answers", None, shown=sys.stderr.isatty()):
        best = _plan(request)
        # A refusal should come before what takes long.
        proof = None if certificate is None else certificate_of(best.design, best.labels)
        plain = best.design.plain_fields(best.labels)
        # In this order, so that the plan's composition serves the plot and smaller budgets.
        if plot is not None:
            write_plot(best, plain, plot)
        budgets = None if own["json"] else other_budgets(best)
        smallest = None if label_accuracy is None else _smallest(best, agreement, label_accuracy)
        agreements = sorted({*_AGREEMENTS, agreement})
        quality = quality_table(best.design.law, best.design.ballots, best.design.n_classes, agreements)
        if certificate is not None and proof is not None:
            write_certificate(certificate, proof)
    if own["json"]:
        typer.echo(json.dumps(_as_dict(best, quality, smallest, plain), indent=2))
        return
    # Takes long to import, and JSON needs no tables.
    from dpensemble.cli.show_plan import print_plan, print_quality, print_smallest  # noqa: PLC0415

    print_plan(best, budgets, plain)
    print_quality(quality, best.design.n_classes, gated=best.design.gated)
    if smallest is not None:
        print_smallest(smallest)
    if plot is not None:
        typer.echo(f"Plot: {plot}")
    print_certificate(certificate)


def _plan(request: Request) -> Plan:
    """Return the plan of a method that votes."""
    own, settings = request.own, settings_of(request)
    n_classes = integer_between("classes", own["classes"], 2)
    delta, epsilon, labels = settings.pop("delta", 1e-5), settings.pop("epsilon", None), own["labels"]
    usual = {name: parameter.default for name, parameter in method_of(request.method).parameters.items()}
    design_of: Callable[..., VotingDesign] = PLANNED[request.method].of(usual | settings).design
    if "budgets" in own:
        budgets = parse_budgets(own["budgets"])
        if budgets is None:
            raise InvalidParameterError(
                f"method {request.method} requires budgets with the share of the records that has each: give for "
                'example --budgets "high=0.7:50%,low=1.4:50%".'
            )
        return find_plan(design_of(n_classes=n_classes, census=budgets.census(delta)), labels=labels)
    records = own.get("records")
    if "records" in own and records is None:
        raise InvalidParameterError(f"method {request.method} requires --records, the number of private records.")
    design = design_of(n_classes=n_classes, n_records=records)
    if epsilon is None and labels is None:
        epsilon = 1.0
    best = find_plan(design, epsilon=epsilon, labels=labels, delta=delta)
    if records is not None:
        best.design.groups[0].budget.check_delta_for(records)
    return best


def _smallest(plan: Plan, agreement: float, label_accuracy: float) -> SmallestEnsemble:
    open_noise: Any = replace(plan.design, noise=None)
    return smallest_ensemble(open_noise, labels=plan.labels, agreement=agreement, label_accuracy=label_accuracy)


def _as_dict(
    plan: Plan, quality: list[dict[str, float]], smallest: SmallestEnsemble | None, plain: dict[str, Any] | None
) -> dict[str, Any]:
    answer = plan.to_dict() | {"basis": Basis.WORST_CASE.value, "quality": quality}
    if plain is not None:
        answer["baselines"] = plain["plain_labels"]
    if smallest is not None:
        answer["smallest_ensemble"] = smallest.plan.to_dict() | {
            "agreement": smallest.agreement,
            "label_accuracy": smallest.label_accuracy,
            "answer_rate": smallest.answer_rate,
        }
    return answer
