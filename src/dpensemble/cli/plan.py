"""``dpensemble plan``."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated

import typer

from dpensemble.cli.show import print_plans
from dpensemble.cli.train import Method
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.planning import Accounting, Plan, plan_labels
from dpensemble.relations import Basis

_OTHER_BUDGETS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0)


def plan(
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Delta of the budget.")] = 1e-5,
    method: Annotated[Method, typer.Option(help="Method.")] = Method.SAA,
    teachers: Annotated[int, typer.Option(help="Teachers in each partition.")] = 250,
    partitions: Annotated[int | None, typer.Option(help="dpbag only: partitions (default 10).")] = None,
    scale: Annotated[
        float | None, typer.Option(help="Laplace scale in votes (default teachers x partitions / 2).")
    ] = None,
    accounting: Annotated[Accounting, typer.Option(help="Analysis.")] = Accounting.PUBLISHED,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Tell how many labels a budget buys, before any record is touched.

    For dpbag this is the data-independent count (DPBag-); the personalised analysis answers at least as many.

    Example: dpensemble plan --method saa --teachers 250 --epsilon 1 --delta 1e-5
    """
    if method is Method.SAA and partitions not in (None, 1):
        raise InvalidParameterError(
            f"partitions={partitions} is a setting of --method dpbag; saa has one partition."
        )
    default_partitions = 10 if method is Method.DPBAG else 1
    n_partitions = default_partitions if partitions is None else partitions

    def plan_at(budget: float) -> Plan:
        return plan_labels(
            epsilon=budget,
            delta=delta,
            n_teachers=teachers,
            n_partitions=n_partitions,
            scale=scale,
            accounting=accounting,
        )

    asked = plan_at(epsilon)
    if as_json:
        answer = {"method": method.value, "basis": Basis.WORST_CASE.value} | asked.to_dict()
        typer.echo(json.dumps(answer, indent=2))
        return
    others = []
    for budget in _OTHER_BUDGETS:
        with suppress(BudgetError):
            others.append(plan_at(budget))
    print_plans(asked, others)
