"""What a record says of groups with budgets of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpensemble.budget import Budget
from dpensemble.consent import PersonalBudgets, personal_budgets
from dpensemble.errors import InvalidParameterError
from dpensemble.methods import (
    PATEClassifier,
    UpsamplingPATEClassifier,
    VanishingPATEClassifier,
    WeightingPATEClassifier,
)
from dpensemble.methods.base import VotingEnsembleClassifier
from dpensemble.methods.personalised import PersonalisedPATEClassifier
from dpensemble.planning import Census, Ensemble, baselines, spend_curve
from dpensemble.relations import Relation
from dpensemble.workflow.budgets import declared_census
from dpensemble.workflow.tables import Tables

#: Personalised methods by name.
PERSONALISED: dict[str, type[PersonalisedPATEClassifier]] = {
    "upsampling-pate": UpsamplingPATEClassifier,
    "vanishing-pate": VanishingPATEClassifier,
    "weighting-pate": WeightingPATEClassifier,
}

# How far the curve of the plain ensemble is drawn beyond the last thing it is compared with.
_BEYOND = 1.05


def method_name(model: VotingEnsembleClassifier) -> str | None:
    """Return the name of a personalised method, None for others."""
    return next((name for name, kind in PERSONALISED.items() if isinstance(model, kind)), None)


def require_budgets(model: VotingEnsembleClassifier, tables: Tables) -> PersonalBudgets | None:
    """Return the records' budgets, for a model that heeds them.

    Parameters
    ----------
    model : VotingEnsembleClassifier
        Unfitted.
    tables : Tables
        With budgets exactly where the model is personalised.

    Returns
    -------
    PersonalBudgets or None

    Raises
    ------
    InvalidParameterError
        If budgets are given to a method that would treat all records alike, or not given to one that needs them.
    BudgetError
        If a record's budget is missing or out of range.
    """
    personal = isinstance(model, PersonalisedPATEClassifier)
    if personal != (tables.budgets is not None):
        wrong = (
            "budgets are missing, without which a personalised method is plain PATE; give each record one"
            if personal
            else "budgets of records are for the personalised methods only; use " + ", ".join(PERSONALISED)
        )
        raise InvalidParameterError(f"{wrong}.")
    if tables.budgets is None:
        return None
    if tables.budgets_at_random and model.relation != Relation.REPLACE_ONE.value:
        raise InvalidParameterError(
            f"budgets were dealt by position, which relation={model.relation!r} does not allow; use "
            "'replace-one'."
        )
    return personal_budgets(tables.budgets, delta=model.delta, levels=tables.levels, declared=tables.group_shares)


def personal_fields(
    model: VotingEnsembleClassifier, tables: Tables, personal: PersonalBudgets | None
) -> dict[str, Any]:
    """Return the fields of a run's record that are about groups; none where there is one group.

    Parameters
    ----------
    model : VotingEnsembleClassifier
        Fitted.
    tables : Tables
        Its tables.
    personal : PersonalBudgets or None
        As `require_budgets` returned it.

    Returns
    -------
    dict
        ``groups``, ``group_spend``, ``plain_spend`` and ``plain_labels``.
    """
    if personal is None or not model.guarantee_.groups:
        return {}
    design = model.personalised_
    records = np.bincount(personal.group_of_record, minlength=personal.n_groups).tolist()
    groups = [
        {
            "name": stated.name,
            "budget": stated.budget,
            "epsilon": stated.epsilon,
            "records": records[index],
            "teachers": None if design.teachers is None else design.teachers[index],
            "copies": design.copies[index],
            "weight": design.weights[index],
            "frequency": design.frequencies[index],
        }
        for index, stated in enumerate(model.guarantee_.groups)
    ]
    spend = [[count, list(epsilons)] for count, epsilons in model.group_spend_ or ()]
    return {"groups": groups, "group_spend": spend} | _plain_fields(model, _census(tables, personal))


def _census(tables: Tables, personal: PersonalBudgets) -> Census:
    """Return the groups by their public shares: as declared, or of units."""
    if tables.group_shares is not None:
        return declared_census(tables.group_shares, tables.levels, personal.budgets[0].delta)
    owners = (
        np.arange(len(personal.group_of_record))
        if tables.units is None
        else np.unique(tables.units, return_inverse=True)[1]
    )
    shares = np.bincount(personal.group_of_unit(owners), minlength=personal.n_groups).astype(np.float64)
    return Census(names=personal.names, budgets=personal.budgets, shares=tuple(shares.tolist()))


def _plain_fields(model: PATEClassifier, census: Census) -> dict[str, Any]:
    ensemble = Ensemble(
        n_teachers=int(model.n_teachers),
        method=str(model.aggregator),
        n_classes=len(model.classes_),
        accounting=str(model.accounting),
        **{name: getattr(model, name) for name in ("scale", "sigma", "threshold", "threshold_sigma")},
    )
    # A number of labels that is private must not show in how far a curve goes.
    return plain_fields(ensemble, census, model.labels_.n_asked if model.guarantee_.fixed_number else 1)


def plain_fields(ensemble: Ensemble, census: Census, most: int) -> dict[str, Any]:
    """Return what the same noise would cost, and one budget for all would buy, without groups.

    Parameters
    ----------
    ensemble : Ensemble
        The plain ensemble.
    census : Census
        Groups of records by budget.
    most : int
        Number of labels that the curve has to reach.

    Returns
    -------
    dict
        ``plain_spend`` and ``plain_labels``, as in `RunRecord`.
    """
    found = baselines(ensemble, census)
    most = int(_BEYOND * max(most, *found.values())) + 1
    curve = spend_curve(ensemble.one_query(), most, census.budgets[0].delta, ensemble.conversion)
    return {
        "plain_spend": [list(point) for point in curve],
        "plain_labels": [
            {"name": name, "epsilon": epsilon, "labels": found[name]}
            for name, epsilon in census.baselines.items()
        ],
    }


def stated_budget(model: VotingEnsembleClassifier, personal: PersonalBudgets | None) -> Budget:
    """Return the budget of the run: the largest of any record."""
    epsilon = model.epsilon if personal is None else personal.epsilons.max()
    return Budget(epsilon=float(epsilon), delta=float(model.delta))
