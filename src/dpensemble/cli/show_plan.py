"""Print a plan in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpensemble._checks import round_up
from dpensemble.accounting import bagging_delta
from dpensemble.accounting.published import has_published
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.design import Plan
from dpensemble.design.plan import SmallestEnsemble
from dpensemble.errors import InvalidParameterError
from dpensemble.report.sections import SHARED_BUDGETS, varied_setting

# Rows of epsilon, labels by the requested accounting and, for an exact plan, labels by the published accounting.
_Budgets = list[tuple[float, int, int | None]]
_OTHER_SIZES = (0.1, 0.5, 1, 2, 10)


def print_plan(
    plan: Plan,
    plain: dict[str, Any] | None,
    budgets: _Budgets | None,
    quality: Sequence[dict[str, float]],
    smallest: SmallestEnsemble | None,
) -> None:
    """Print what the budget buys, what other budgets would buy, how often labels are wrong, and a smaller ensemble."""
    _print_labels(plan, budgets, plain)
    _print_quality(quality, plan.design.n_classes, gated=plan.design.gated)
    if smallest is not None:
        _print_smallest(smallest)


def _print_labels(plan: Plan, budgets: _Budgets | None, plain: dict[str, Any] | None) -> None:
    console, design = Console(highlight=False), plan.design
    surely = " if every query is answered" if design.gated else ""
    at = "within everybody's budget" if plain else f"at epsilon {round_up(plan.epsilon, 6):g}"
    joined = "at" if plain else "and"
    console.print(
        f"{plan.labels:,} {_plural('label', plan.labels)} {at} {joined} delta {plan.delta:g}{surely}.", markup=False
    )
    console.print(_settings(plan))
    if plain:
        console.print(_groups(plan))
        stages = plan.extras["stages"]
        for queries, voting in stages if len(stages) > 1 else ():
            console.print(f"{queries:,} {_plural('label', queries)} answered by {', '.join(voting)}", markup=False)
        noun = "queries" if design.gated else "labels"
        console.print(plain_line(plain["plain_labels"], noun), markup=False, soft_wrap=True)
        if plan.labels < plan.extras["baselines"]["minimum"]:
            console.print(
                "Hint: one budget for all, the strictest, would buy more than this method does. Compare "
                "weighting-pate, or set more noise.",
                soft_wrap=True,
            )
    if budgets is not None:
        _print_budgets(console, plan, budgets)


def _settings(plan: Plan) -> Table:
    settings, design = plan.design.settings(), plan.design
    table = Table(show_header=False)
    law = f" with {settings['law_name']}" if settings["law_name"] else ""
    table.add_row("method", f"{design.name}{law}, {design.n_classes} {_plural('class', design.n_classes)}")
    partitions = settings.get("n_partitions", 1)
    copies = settings.get("teachers_with_copies", settings["n_teachers"])
    teachers = f"{settings['n_teachers']:,}"
    teachers += f" x {partitions} partitions" if partitions > 1 else ""
    teachers += f", with copies {copies:,}" if copies != settings["n_teachers"] else ""
    if "subsample" in settings:
        teachers += f", each with {settings['subsample']:,} of {plan.extras['records']:,} records"
    table.add_row("teachers", teachers)
    chosen = settings["noise_chosen"].replace("fitted", "found")
    table.add_row("noise", f"{settings['noise_in_words']} ({chosen})")
    if plan.most_queries is not None:
        table.add_row("queries if none is answered", f"{plan.most_queries:,}")
    if "rule" in settings:
        table.add_row(*_weights(design.name, settings["rule"]))
    if "scheme" in settings:
        table.add_row("draws", f"{settings['scheme']}; a record is drawn with probability {plan.extras['held']:.4g}")
        table.add_row("one partition, same noise", f"{plan.extras['partition_labels']:,} labels")
    if len(plan.groups) == 1:
        table.add_row("epsilon spent", f"{round_up(plan.epsilon_spent, 5):g}")
    table.add_row("accounting", f"{design.accounting.value}, worst-case, by {plan.conversion}")
    return table


def _weights(method: str, rule: str) -> tuple[str, str]:
    """Return what distinguishes groups, and how that was computed."""
    varied = {"weight": "weights", "frequency": "turns"}
    how = {"solved": "solved so that all groups run out together", "published": "as in the paper"}
    name = varied_setting(method)
    return varied.get(name, name), how[rule]


def _groups(plan: Plan) -> Table:
    varied = varied_setting(plan.design.name)
    shared = all(group.settings["teachers"] is None for group in plan.groups)
    table = Table("group", title="Groups by budget", title_justify="left")
    for head in ("share", "budget", "spent", *([] if shared else ["teachers"]), varied):
        table.add_column(head, justify="right")
    for group in plan.groups:
        table.add_row(
            escape(group.name),
            f"{group.settings['share']:.3%}".replace(".000%", "%"),
            f"{round_up(group.budget, 4):g}",
            f"{round_up(group.epsilon, 4):g}" if group.epsilon else "0",
            *([] if shared else [f"{group.settings['teachers']:,}"]),
            f"{group.settings[varied]:.4g}",
        )
    return table


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"


def _print_budgets(console: Console, plan: Plan, budgets: _Budgets) -> None:
    """Print what other budgets would buy with the same noise, also by the published analysis."""
    design = plan.design
    beside, in_paper = budgets[0][2] is not None, design.counts_the_breach and has_published(design.law)
    table = Table("epsilon", title="Labels by budget", title_justify="left")
    for name in (design.accounting.value, *["published"] * beside, *["as the paper counts"] * in_paper):
        table.add_column(name, justify="right")
    for epsilon, labels, others in budgets:
        published = labels if others is None else others
        counts = [labels, *[published] * beside, *[published + 1] * in_paper]
        table.add_row(f"{round_up(epsilon, 4):g}", *(f"{count:,}" for count in counts))
    console.print(table)
    if in_paper:
        console.print(
            "The DPBag paper also counts the query that breaches the budget, which is not answered here; "
            "its tables state delta 1e-5 but were computed at 1e-3.",
            markup=False,
        )


def _print_quality(quality: Sequence[dict[str, float]], n_classes: int, *, gated: bool = False) -> None:
    """Print how often a label is wrong, by the share of the teachers that agree."""
    console = Console(highlight=False)
    table = Table("teachers that agree", title="Wrong labels by vote margin", title_justify="left")
    for name in ("margin in votes", "label wrong", "query answered")[: 2 + gated]:
        table.add_column(name, justify="right")
    for row in quality:
        cells = [f"{row['agreement']:.0%}", f"{row['margin']:,.4g}", f"{row['wrong_label_rate']:.2%}"]
        table.add_row(*cells, *([f"{row['answer_rate']:.1%}"] if gated else []))
    console.print(table)
    if n_classes > 2:
        console.print("Assumes that all other teachers vote for one other class.", markup=False)


def _print_smallest(smallest: SmallestEnsemble) -> None:
    """Print the smallest number of teachers whose labels are right often enough."""
    console, plan = Console(highlight=False), smallest.plan
    settings = plan.design.settings()
    each = " in each partition" if settings["n_partitions"] > 1 else ""
    console.print(
        f"Smallest ensemble: {settings['n_teachers']:,} teachers{each} ({plan.design.law.words()}) give "
        f"{plan.labels:,} {_plural('label', plan.labels)} that are right at {smallest.label_accuracy:.2%} where "
        f"{smallest.agreement:.0%} of the teachers agree.",
        markup=False,
    )
    if plan.design.gated:
        console.print(f"Such a query is answered at {smallest.answer_rate:.1%}.", markup=False)


def print_bagging(scheme: BootstrapScheme, records: int, answer: dict[str, Any]) -> None:
    """Print the guarantee of bagging itself, and of other sizes of subsamples."""
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


def plain_line(entries: Sequence[dict[str, Any]], noun: str) -> str:
    """Return what one budget for all would buy (`entries`: `RunRecord.plain_labels`). `noun` is what is counted."""
    counts = ", ".join(
        f"{entry['labels']:,} if all had the {SHARED_BUDGETS[entry['name']]} budget ({round_up(entry['epsilon'], 4):g})"
        for entry in entries
    )
    return (
        f"One budget for all, with the same noise, would buy these numbers of {noun}: {counts}. Only the smallest "
        "number keeps within everybody's budget."
    )
