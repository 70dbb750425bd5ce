"""``dpensemble plan``: what a budget buys, the charts of a plan, and the guarantee of bagging."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import typer
from markupsafe import Markup

from dpensemble._checks import integer_between, real_between
from dpensemble._work import progress_on_stderr
from dpensemble.accounting import Accounting, largest_subsample, published_bagging
from dpensemble.accounting.published import has_published
from dpensemble.accounting.subsampling import bagging_delta_below_one
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.allocation.budget_groups import parse_budgets
from dpensemble.certificates import certificate_of, certificate_of_draws
from dpensemble.cli.options import Request, described_method
from dpensemble.cli.output import PlanFiles, warnings_as_lines, write_charts
from dpensemble.design import Plan, VotingDesign, smallest_ensemble
from dpensemble.design import plan as find_plan
from dpensemble.design.plan import SmallestEnsemble, answer_rate, wrong_label_rate
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget, Guarantee
from dpensemble.laws import ReleaseLaw
from dpensemble.methods.designs import PLANNED
from dpensemble.relations import Basis, Relation
from dpensemble.report.charts import Limit, Series, Words, line_chart
from dpensemble.report.sections import History

_AGREEMENTS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_MARGINS = 81
# Fractions of the budget, and its double.
_BELOW, _ABOVE = (0.125, 0.25, 0.5, 1.0), 2.0
# Exact composition of more than about four times this many answers takes too long for a table.
_FEW_LABELS = 2000


def run(request: Request) -> None:
    """Print what a budget buys."""
    own = request.own
    out = PlanFiles(own.get("certificate"), own.get("plot"))
    if request.method == "bagging":
        _plan_bagging(own["records"], request.settings, out, as_json=own["json"])
        return
    out.check()
    agreement, label_accuracy = own.get("agreement"), own.get("label_accuracy")
    agreement = 0.8 if agreement is None else real_between("agreement", agreement, 0.501, 1.0)
    if label_accuracy is not None:
        real_between("label_accuracy", label_accuracy, 0.5, 0.999)
    with warnings_as_lines(), progress_on_stderr("Pricing answers"):
        best = _plan(request)
        # A refusal should come before what takes long.
        proof = None if out.certificate is None else certificate_of(best.design, best.labels)
        plain = best.design.plain_fields(best.labels)
        # In this order, so that the plan's composition serves the plot and smaller budgets.
        if out.plot is not None:
            _write_plot(best, plain, out.plot)
        budgets = None if own["json"] else _other_budgets(best)
        smallest = None if label_accuracy is None else _smallest(best, agreement, label_accuracy)
        agreements = sorted({*_AGREEMENTS, agreement})
        quality = _quality_table(best.design.law, best.design.ballots, best.design.n_classes, agreements)
        if proof is not None:
            out.write_certificate(proof)
    if own["json"]:
        typer.echo(json.dumps(_as_dict(best, quality, smallest, plain), indent=2))
        return
    # Takes long to import, and JSON needs no tables.
    from dpensemble.cli.show_plan import print_plan  # noqa: PLC0415

    print_plan(best, plain, budgets, quality, smallest)
    if out.plot is not None:
        typer.echo(f"Plot: {out.plot}")
    out.print_certificate()


def _plan(request: Request) -> Plan:
    """Return the plan of a method that votes."""
    own, settings = request.own, request.estimator_settings()
    n_classes = integer_between("classes", own["classes"], 2)
    epsilon, labels = settings.pop("epsilon", None), own["labels"]
    usual = {name: parameter.default for name, parameter in described_method(request.method).parameters.items()}
    design_of: Callable[..., VotingDesign] = PLANNED[request.method].of(usual | settings).design
    if "budgets" in own:
        budgets = parse_budgets(own["budgets"])
        if budgets is None:
            raise InvalidParameterError(
                f"method {request.method} requires budgets with the share of the records that has each: give for "
                'example --budgets "high=0.7:50%,low=1.4:50%".'
            )
        census = budgets.census(Budget.of(1.0, settings.get("delta")).delta)
        return find_plan(design_of(n_classes=n_classes, census=census), labels=labels)
    records = own.get("records")
    if "records" in own and records is None:
        raise InvalidParameterError(f"method {request.method} requires --records, the number of private records.")
    design = design_of(n_classes=n_classes, n_records=records)
    if epsilon is None and labels is None:
        epsilon = 1.0
    best = find_plan(design, epsilon=epsilon, labels=labels)
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


def _other_budgets(plan: Plan) -> list[tuple[float, int, int | None]] | None:
    """Return what fractions of the budget would buy, and its double where the computation is quick."""
    design = plan.design
    if design.has_budgets or not design.searches_variants:
        return None
    exact, quick = design.accounting is Accounting.EXACT, plan.labels <= _FEW_LABELS
    published = design.with_accounting(Accounting.PUBLISHED) if exact and has_published(design.law) else None
    rows = []
    # In ascending order: the composition of the plan itself serves all smaller budgets.
    for factor in (*_BELOW, _ABOVE) if quick or not exact else _BELOW:
        budget = Budget(epsilon=factor * plan.epsilon, delta=plan.delta)
        others = None if published is None else published.with_budget(budget).meter().sure_queries
        rows.append((budget.epsilon, design.with_budget(budget).meter().sure_queries, others))
    return rows


def _write_plot(plan: Plan, plain: dict[str, Any] | None, path: Path) -> None:
    """Draw the plan's charts, and write them as one SVG."""
    design = plan.design
    if plain is not None:
        history = History(
            groups=[(group.name, group.budget) for group in plan.groups],
            spend=design.spend_curve(plan.labels),
            plain=plain["plain_spend"],
            marks=[(entry["name"], entry["epsilon"], entry["labels"]) for entry in plain["plain_labels"]],
        )
        charts = [("What labels cost each group", history.chart("labels"))]
    else:
        charts = [("What labels cost", _epsilon_chart(plan)), ("How often a label is wrong", _quality_chart(plan))]
    teachers = design.settings()["n_teachers"]
    setting = (
        f"{design.name}, {design.law.title}, {teachers:,} teachers, {design.n_classes} classes, delta {plan.delta:g}"
    )
    write_charts(setting, charts, path)


def _epsilon_chart(plan: Plan) -> Markup:
    lines, accountings = [], [(Accounting.EXACT, "main")]
    if has_published(plan.design.law):
        accountings.append((Accounting.PUBLISHED, "other"))
    for accounting, css in accountings:
        curve = plan.design.with_accounting(accounting).spend_curve(plan.labels)
        lines.append(Series(accounting.value, [(count, epsilon) for count, (epsilon,) in curve], css))
    words = Words("epsilon", "Epsilon by number of labels", "labels", "epsilon")
    return line_chart(lines, [Limit(f"budget {plan.epsilon:.3g}", plan.epsilon)], words)


def _quality_chart(plan: Plan) -> Markup:
    law, ballots, n_classes = plan.design.law, plan.design.ballots, plan.design.n_classes
    margins = np.linspace(0, ballots, _MARGINS)
    wrong = wrong_label_rate(law, ballots, margins, n_classes)
    lines = [Series("label wrong", np.stack([margins, wrong], axis=1).tolist(), "main")]
    if plan.design.gated:
        unanswered = 1 - answer_rate(law, ballots, margins, n_classes)
        lines.append(Series("not answered", np.stack([margins, unanswered], axis=1).tolist(), "other"))
    words = Words("quality", "Wrong labels by vote margin", "votes ahead of the runner-up", "probability")
    return line_chart(lines, [Limit("a guess", 1 - 1 / n_classes)], words)


def _plan_bagging(records: int | None, settings: dict[str, Any], out: PlanFiles, *, as_json: bool) -> None:
    """Print the guarantee of bagging itself, or the largest subsample within a delta."""
    out.check()
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
    answer = _answer_of_bagging(draws, records)
    if out.certificate is not None:
        out.write_certificate(certificate_of_draws(draws, records))
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
        return
    # Takes long to import, and JSON needs no tables.
    from dpensemble.cli.show_plan import print_bagging  # noqa: PLC0415

    print_bagging(draws, records, answer)
    out.print_certificate()


def _answer_of_bagging(scheme: BootstrapScheme, records: int) -> dict[str, Any]:
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


def _quality_table(
    law: ReleaseLaw, ballots: int, n_classes: int, agreements: Sequence[float]
) -> list[dict[str, float]]:
    """Return the quality of labels, one row for each share of agreeing teachers.

    Each row has ``agreement``, ``margin`` in votes, ``wrong_label_rate`` and ``answer_rate``. Public.
    """
    margins = [round((2 * share - 1) * ballots, 9) for share in agreements]
    wrong = wrong_label_rate(law, ballots, margins, n_classes).tolist()
    answered = answer_rate(law, ballots, margins, n_classes).tolist()
    names = ("agreement", "margin", "wrong_label_rate", "answer_rate")
    return [dict(zip(names, row, strict=True)) for row in zip(agreements, margins, wrong, answered, strict=True)]
