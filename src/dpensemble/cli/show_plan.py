"""What people see of a plan in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from dpensemble._rounding import round_up
from dpensemble.accounting import Accounting
from dpensemble.budget import Budget
from dpensemble.planning import BaggedPlan, Ensemble, Plan, SmallestEnsemble, answer_rate, wrong_label_rate

#: Rows of epsilon, labels by the accounting asked for and, beside an exact plan, by the published one.
Budgets = list[tuple[float, int, int]]

_AGREEMENTS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_BELOW, _ABOVE = (0.125, 0.25, 0.5, 1.0), 2.0
# Composing more answers exactly than about four times these takes too long for a table.
_FEW_LABELS = 2000


def other_budgets(found: Plan) -> Budgets:
    """Return what fractions of the budget, and where that is quick its double, would buy."""
    ensemble = found.ensemble
    published = replace(ensemble, accounting=Accounting.PUBLISHED) if ensemble.has_published else ensemble
    quick = found.labels <= _FEW_LABELS or found.accounting == Accounting.PUBLISHED
    rows = []
    # Ascending: the composition of the plan itself serves all smaller budgets.
    for factor in (*_BELOW, _ABOVE) if quick else _BELOW:
        budget = Budget(epsilon=factor * found.epsilon, delta=found.delta)
        rows.append((budget.epsilon, ensemble.meter(budget).sure_queries, published.meter(budget).sure_queries))
    return rows


def print_plan(found: Plan) -> None:
    """Print what the budget buys."""
    console = Console(highlight=False)
    surely = " if every query is answered" if found.most_queries is not None else ""
    console.print(
        f"{found.labels:,} {_plural('label', found.labels)} at epsilon {round_up(found.epsilon, 6):g} "
        f"and delta {found.delta:g}{surely}.",
        markup=False,
    )
    table = Table(show_header=False)
    partitions = f" x {found.n_partitions} {_plural('partition', found.n_partitions)}"
    table.add_row("method", f"{found.method}, {found.n_classes} classes")
    table.add_row("teachers", f"{found.n_teachers:,}" + (partitions if found.n_partitions > 1 else ""))
    table.add_row("noise", noise_text(found))
    if found.most_queries is not None:
        table.add_row("queries if none is answered", f"{found.most_queries:,}")
    table.add_row("epsilon spent", f"{round_up(found.epsilon_spent, 5):g}")
    table.add_row("accounting", f"{found.accounting}, worst-case, by {found.conversion}")
    console.print(table)


def noise_text(found: Plan | BaggedPlan) -> str:
    """Return the noise of a plan in words."""
    if found.scale is not None:
        return f"Laplace, scale {found.scale:.6g} votes"
    if found.reach is not None:
        return f"optimal vote, certain at a margin of {found.reach:.6g} votes, shape {found.shape:g}"
    noise = f"Gaussian, sigma {found.sigma:.6g} votes"
    if isinstance(found, BaggedPlan) or found.threshold is None:
        return noise
    return f"{noise}; threshold {found.threshold:.6g} votes, with sigma {found.threshold_sigma:.6g}"


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"


def print_budgets(found: Plan, budgets: Budgets) -> None:
    """Print what other budgets would buy with the same noise, and what the published analysis makes of them."""
    console = Console(highlight=False)
    in_paper = found.method in ("saa", "dpbag")
    exact = found.accounting == Accounting.EXACT
    table = Table("epsilon", title="Labels by budget", title_justify="left")
    # No paper covers the optimal vote.
    last = 1 + (found.reach is None)
    for name in ("exact", "published", "as the paper counts")[not exact : last + in_paper]:
        table.add_column(name, justify="right")
    for epsilon, labels, published in budgets:
        counts = [labels, published][not exact : last] + [published + 1] * in_paper
        table.add_row(f"{round_up(epsilon, 4):g}", *(f"{count:,}" for count in counts))
    console.print(table)
    if in_paper:
        console.print(
            "The DPBag paper also counts the query that breaches the budget, which is not answered here; "
            "its tables say delta 1e-5 but were computed at 1e-3.",
            markup=False,
        )


def label_quality(ensemble: Ensemble, agreement: float) -> list[dict[str, float]]:
    """Return how good labels are, one row for each share of the teachers that agrees."""
    ballots = ensemble.n_teachers * ensemble.n_partitions
    shares = sorted({*_AGREEMENTS, agreement})
    margins = [round((2 * share - 1) * ballots, 9) for share in shares]
    wrong = wrong_label_rate(ensemble.law, ballots, margins, ensemble.n_classes)
    answered = answer_rate(ensemble.law, ballots, margins, ensemble.n_classes)
    names = ("agreement", "margin", "wrong_label_rate", "answer_rate")
    rows = zip(shares, margins, wrong.tolist(), answered.tolist(), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def print_quality(quality: Sequence[dict[str, float]], n_classes: int, *, gated: bool = False) -> None:
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
        console.print("All teachers that do not agree are taken to vote for one other class.", markup=False)


def print_smallest(smallest: SmallestEnsemble) -> None:
    """Print the fewest teachers whose labels are right often enough."""
    console = Console(highlight=False)
    plan = smallest.plan
    each = " in each partition" if plan.n_partitions > 1 else ""
    console.print(
        f"Smallest ensemble: {plan.n_teachers:,} teachers{each} ({noise_text(plan)}) give {plan.labels:,} "
        f"{_plural('label', plan.labels)} that are right at {smallest.label_accuracy:.2%} where "
        f"{smallest.agreement:.0%} of the teachers agree.",
        markup=False,
    )
    if plan.most_queries is not None:
        console.print(f"Such a query is answered at {smallest.answer_rate:.1%}.", markup=False)
