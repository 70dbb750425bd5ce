"""What other budgets would buy with the noise of a plan."""

from __future__ import annotations

from dpensemble.accounting import Accounting
from dpensemble.accounting.published import has_published
from dpensemble.design import Plan
from dpensemble.guarantee import Budget

#: Rows of epsilon, labels by the requested accounting and, for an exact plan, labels by the published accounting.
Budgets = list[tuple[float, int, int | None]]

_BELOW, _ABOVE = (0.125, 0.25, 0.5, 1.0), 2.0
# Exact composition of more than about four times this many answers takes too long for a table.
_FEW_LABELS = 2000


def other_budgets(plan: Plan) -> Budgets | None:
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
