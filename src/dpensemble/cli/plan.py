"""``dpensemble plan``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from dpensemble._checks import integer_between, real_between
from dpensemble._progress import progress_bar
from dpensemble.accounting import Accounting
from dpensemble.cli import options as o
from dpensemble.cli import plan_options as p
from dpensemble.cli.options import Method
from dpensemble.cli.plan_bagged import plan_bagged_votes
from dpensemble.cli.plan_bagging import plan_bagging, refuse_foreign
from dpensemble.cli.plan_groups import plan_groups
from dpensemble.cli.plan_plot import check_plot_file, write_plot
from dpensemble.cli.show import warnings_as_lines
from dpensemble.cli.show_plan import (
    Budgets,
    label_quality,
    other_budgets,
    print_budgets,
    print_plan,
    print_quality,
    print_smallest,
)
from dpensemble.errors import InvalidParameterError
from dpensemble.planning import (
    Plan,
    Rule,
    SmallestEnsemble,
    VotingMethod,
    smallest_ensemble,
)
from dpensemble.planning import plan as find_plan
from dpensemble.relations import Basis


def plan(
    context: typer.Context,
    epsilon: p.Epsilon = None,
    delta: p.Delta = None,
    labels: p.Labels = None,
    method: p.PlannedMethod = Method.SAA,
    budgets: p.Budgets = None,
    accounting: p.PlannedAccounting = Accounting.EXACT,
    aggregator: o.AggregatorOption = None,
    rule: o.RuleOption = None,
    precision: o.Precision = None,
    vanish_at_end: o.VanishAtEnd = False,
    teachers: p.Teachers = 250,
    partitions: p.Partitions = None,
    classes: p.Classes = 2,
    scale: p.Scale = None,
    sigma: p.Sigma = None,
    reach: p.Reach = None,
    threshold: p.Threshold = None,
    threshold_sigma: p.ThresholdSigma = None,
    agreement: p.Agreement = None,
    label_accuracy: p.LabelAccuracy = None,
    records: p.Records = None,
    subsample: p.Subsample = None,
    models: p.Models = None,
    scheme: p.Scheme = None,
    plot: p.Plot = None,
    as_json: p.AsJson = False,
) -> None:
    """Tell what a budget buys, before any record is touched.

    Of epsilon, labels and noise, give two and get the third.

    For dpbag the plan is data-independent (DPBag-); the personalised analysis answers at least as many.

    Personalised methods take --budgets instead of --epsilon, and plan labels from noise, or noise from --labels.

    Bagging alone takes --records, --models and either --subsample or --delta; its epsilon is 0. Bagged PATE takes
    --records and --subsample besides what PATE takes.

    Example: dpensemble plan --method saa --teachers 250 --epsilon 1 --delta 1e-5
    """
    refuse_foreign(context, method)
    if method is Method.BAGGING:
        plan_bagging(records, subsample, models, scheme, delta=delta, as_json=as_json)
        return
    delta = 1e-5 if delta is None else delta
    integer_between("classes", classes, 2)
    asked = {"epsilon": 1.0 if epsilon is None and labels is None else epsilon, "labels": labels, "delta": delta}
    noise = {"scale": scale, "sigma": sigma, "reach": reach}
    if method is Method.BAGGED_PATE:
        drawn = {"records": records, "subsample": subsample, "scheme": scheme}
        vote = (VotingMethod.GNMAX if aggregator is None else aggregator).value
        settings = noise | {"n_teachers": teachers, "n_classes": classes, "method": vote}
        plan_bagged_votes(drawn, asked, settings, agreement=_typical(agreement), as_json=as_json)
        return
    if plot is not None:
        check_plot_file(plot)
    if method is Method.PRIVATE_MAJORITY:
        raise InvalidParameterError(
            "--method private-majority has no plan: private models pay for any number of labels; for noisy "
            "answers see 'dpensemble gamma' or compare_aggregators."
        )
    personal = {"aggregator": aggregator, "rule": rule, "precision": precision, "vanish_at_end": vanish_at_end}
    settings = {
        "n_teachers": teachers,
        "n_classes": classes,
        "threshold": threshold,
        "threshold_sigma": threshold_sigma,
        "accounting": accounting.value,
    }
    if method.personalised:
        _refuse(
            {
                "epsilon": epsilon,
                "reach": reach,
                "partitions": partitions,
                "agreement": agreement,
                "label_accuracy": label_accuracy,
            },
            f"is no option of --method {method.value}, whose plan is about --budgets; leave it out",
        )
        del noise["reach"]
        settings |= noise | {"method": VotingMethod.GNMAX.value if aggregator is None else aggregator.value}
        wanted = {"labels": labels, "rule": rule or Rule.SOLVED, "precision": precision}
        wanted["vanish_at_end"] = vanish_at_end
        plan_groups(method, budgets, settings, wanted, delta=delta, plot=plot, as_json=as_json)
        return
    _refuse(personal | {"budgets": budgets}, f"is for personalised methods only, not --method {method.value}")
    default_partitions = 10 if method is Method.DPBAG else 1
    settings["n_partitions"] = default_partitions if partitions is None else partitions
    _plan(
        settings | {"method": method.value}, asked | noise, (_typical(agreement), label_accuracy), plot, as_json
    )


def _typical(agreement: float | None) -> float:
    """Return the share of the teachers that agree on a typical row."""
    return 0.8 if agreement is None else real_between("agreement", agreement, 0.501, 1.0)


def _refuse(options: dict[str, Any], why: str) -> None:
    for name, value in options.items():
        if value not in (None, False):
            raise InvalidParameterError(f"--{name.replace('_', '-')} {why}.")


def _plan(
    settings: dict[str, Any],
    asked: dict[str, Any],
    typical: tuple[float, float | None],
    plot: Path | None,
    as_json: bool,
) -> None:
    """Plan a method that treats all records alike, and print what a budget buys."""
    agreement, label_accuracy = typical
    if label_accuracy is not None:
        real_between("label_accuracy", label_accuracy, 0.5, 0.999)
    with warnings_as_lines(), progress_bar("Pricing answers", None, shown=sys.stderr.isatty()):
        found = find_plan(**asked, **settings)
        # In this order, so that the composition laid out for the plan serves the plot and smaller budgets.
        if plot is not None:
            write_plot(found, plot)
        budgets = None if as_json else other_budgets(found)
        smallest = None if label_accuracy is None else _smallest(found, agreement, label_accuracy, settings)
        quality = label_quality(found.ensemble, agreement)
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
    print_quality(quality, found.n_classes, gated=found.most_queries is not None)
    if smallest is not None:
        print_smallest(smallest)
    if plot is not None:
        typer.echo(f"Plot: {plot}")
