"""Entries of a run record about groups with their own budgets."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpensemble.allocation.budget_groups import PersonalBudgets, personal_budgets
from dpensemble.engine.result import Result
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.workflow.tables import Tables


def require_budgets(model: Any, tables: Tables) -> PersonalBudgets | None:
    """Return the records' budgets for a model that uses them. Raise if they are missing, or not used."""
    if model.takes_budgets != (tables.budgets is not None):
        wrong = (
            "budgets are missing, and without them a personalised method is plain PATE: give each record one"
            if model.takes_budgets
            else "budgets of records are only for the personalised methods: use upsampling-pate, vanishing-pate or "
            "weighting-pate"
        )
        raise InvalidParameterError(f"{wrong}.")
    if tables.budgets is None:
        return None
    if tables.budgets_at_random and model.relation != Relation.REPLACE_ONE.value:
        raise InvalidParameterError(
            f"budgets were dealt by position, but relation={model.relation!r} does not allow that: use 'replace-one'."
        )
    return personal_budgets(tables.budgets, delta=model.delta, levels=tables.levels, declared=tables.group_shares)


def personal_fields(result: Result, personal: PersonalBudgets | None) -> dict[str, Any]:
    """Return the fields of a run's record about groups, or no fields if there is only one group."""
    if personal is None or not result.guarantee.groups:
        return {}
    records = np.bincount(personal.group_of_record, minlength=personal.n_groups).tolist()
    groups = []
    for index, stated in enumerate(result.guarantee.groups):
        settings = result.design.group_settings(index)
        del settings["share"]
        groups.append(
            {"name": stated.name, "budget": stated.budget, "epsilon": stated.epsilon, "records": records[index]}
            | settings
        )
    spend = [[count, list(epsilons)] for count, epsilons in result.spend or ()]
    # The length of a curve must not reveal a secret number of labels.
    most = result.labels.n_asked if result.guarantee.fixed_number else 1
    return {"groups": groups, "group_spend": spend} | result.design.plain_fields(most)
