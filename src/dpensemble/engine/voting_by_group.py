"""Personalised PATE: the common part of the three variants."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import real_between, shown
from dpensemble.allocation.budget_groups import PersonalBudgets, personal_budgets
from dpensemble.allocation.partition import number_units
from dpensemble.design import Census, InfluenceRule
from dpensemble.engine import guarantee_text
from dpensemble.engine.classifier import store_params
from dpensemble.engine.facts import Facts
from dpensemble.engine.labelling import PrivateDiagnostics
from dpensemble.engine.records import DeclaredBudgets, PrivateRecords
from dpensemble.engine.run import run
from dpensemble.engine.voting import VotingEnsembleClassifier
from dpensemble.engine.voting_steps import VotingSteps
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import GroupGuarantee, Guarantee
from dpensemble.laws import ReleaseLaw
from dpensemble.relations import Basis, Relation
from dpensemble.rows import arguments as inputs
from dpensemble.rows.labels_and_units import one_per_record


class GroupSteps(VotingSteps):
    """A vote in which groups of records have their own budgets. Without budgets, it is an ordinary vote."""

    def facts(self) -> Facts:
        """Return public facts, with the groups by their public shares."""
        if self.budgets is None:
            return super().facts()
        personal = self._personal_budgets(self.budgets)
        identities = _identities(self.records, personal, self.relation)
        self.records = replace(self.records, identities=identities, group_of_record=personal.group_of_record)
        census = _census(personal, identities, self.budgets)
        return replace(super().facts(), n_units=None, census=census)

    def _personal_budgets(self, budgets: DeclaredBudgets) -> PersonalBudgets:
        values, shares = one_per_record("budgets", budgets.values, len(self.records.X)), budgets.group_shares
        if shares is not None and not (isinstance(shares, Mapping) and shares):
            raise InvalidParameterError(
                f"group_shares must map budgets to shares, e.g. {{'low': 0.8, 'high': 0.2}}; got {shown(shares)}."
            )
        if shares is None and self.relation is Relation.ADD_OR_REMOVE_ONE:
            raise InvalidParameterError(
                "relation='add-or-remove-one' requires group_shares, the public share of each budget among records, "
                "because shares that are read from the records would change when one is added: give group_shares."
            )
        return personal_budgets(values, delta=self.method._budget().delta, levels=budgets.levels, declared=shares)

    def guarantee(self) -> Guarantee:
        """Return the guarantee, with a separate one for each group."""
        stated = super().guarantee()
        if self.budgets is None:
            return stated
        worst_case = self.meter.basis is Basis.WORST_CASE
        groups = tuple(
            GroupGuarantee(
                name=group.name, epsilon=epsilon if worst_case else group.budget.epsilon, budget=group.budget.epsilon
            )
            for group, epsilon in zip(self.design.groups, self.meter.group_epsilons, strict=True)
        )
        membership = guarantee_text.MEMBERSHIP[self.allocation.relation]
        return replace(stated, groups=groups, assumptions=(*stated.assumptions, membership))


class PersonalisedPATEClassifier(VotingEnsembleClassifier):
    """Template of the personalised variants. A subclass names its kind. Parameters: see `WeightingPATEClassifier`."""

    takes_budgets: ClassVar[bool] = True
    steps: ClassVar[type[VotingSteps]] = GroupSteps

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        law: ReleaseLaw | str = "gnmax",
        rule: InfluenceRule | str = "solved",
        analysis: str = "worst-case",
        accounting: str = "exact",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "replace-one",
        max_labels: int | None = None,
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        store_params(self, locals())

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        budgets: ArrayLike | None = None,
        levels: Mapping[Any, float] | None = None,
        group_shares: Mapping[Any, float] | None = None,
        diagnostics: PrivateDiagnostics | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
        **others: Any,
    ) -> VotingEnsembleClassifier:
        """Fit teachers on private records, label public rows within everybody's budget, and fit the student.

        Parameters
        ----------
        X, y, X_public, units, diagnostics, ledger, fewest_units, **others
            As for `PATEClassifier.fit`.
        budgets : array-like of shape (n_records,), optional
            Epsilon of each record, or the name of its consent level if `levels` is given. All records of a unit have
            the same one. Assumed to be public. By default every record has `epsilon`.
        levels : mapping, optional
            Epsilon of each consent level, such as ``{"low": 2.0, "medium": 1.0, "high": 0.5}``.
        group_shares : mapping, optional
            Public share of the records with each epsilon (or level). By default read from the records. Replacing
            a record by another of its group does not change it, but under add-or-remove-one it must be given.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError, DataError, BudgetError, TeacherError
            As for `PATEClassifier.fit`, and if a group is too small for a teacher, or a record's budget is missing.
        """
        inputs.refuse_others(others)
        declared = None
        if budgets is not None:
            declared = DeclaredBudgets(budgets, levels, group_shares)
        elif levels is not None or group_shares is not None:
            raise InvalidParameterError(
                "levels and group_shares define what budgets mean, but fit got no budgets: pass budgets=, one for each "
                "record."
            )
        arguments = (X, y, X_public, units, fewest_units, diagnostics, declared)
        return run(self, lambda: self._checked(*arguments), ledger=ledger, records=(X, y, X_public))


def _identities(records: PrivateRecords, personal: PersonalBudgets, relation: Relation) -> Sequence[Hashable]:
    """Return the unit of each record. Equal records of different groups are different units."""
    if records.units is not None or relation is Relation.REPLACE_ONE or personal.n_groups == 1:
        return records.identities
    groups = personal.group_of_record.tolist()
    return [repr((identity, group)) for identity, group in zip(records.identities, groups, strict=True)]


def _census(personal: PersonalBudgets, identities: Sequence[Hashable], budgets: DeclaredBudgets) -> Census:
    """Return the groups by their public shares: declared shares, or shares of units."""
    if budgets.group_shares is None:
        groups = personal.group_of_unit(number_units(identities)[1])
        shares = np.bincount(groups, minlength=personal.n_groups).astype(np.float64)
    else:
        shares = _declared_shares(budgets.group_shares, personal, budgets.levels)
    return Census(names=personal.names, budgets=personal.budgets, shares=tuple(shares.tolist()))


def _declared_shares(
    shares: Mapping[Any, float], personal: PersonalBudgets, levels: Mapping[Any, float] | None
) -> NDArray[np.float64]:
    """Return the declared share of each group. Levels with the same epsilon are added up."""
    totals = np.zeros(personal.n_groups)
    for key, share in shares.items():
        epsilon = float(key if levels is None else levels[key])
        totals[int(np.searchsorted(personal.epsilons, epsilon))] += real_between(
            f"group_shares[{key!r}]", share, 1e-9, 1e12
        )
    return totals
