"""Personalised PATE: what the three variants have in common."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import member, real_between
from dpensemble.accounting import Accounting, GroupMeter, Meter, grouped_meter, vanishing_end
from dpensemble.allocation import Allocation, grouped_partitions, upsampled_partition
from dpensemble.allocation.partition import number_units
from dpensemble.budget import Budget
from dpensemble.consent import PersonalBudgets, personal_budgets
from dpensemble.electorate import Electorate
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import GroupGuarantee, Guarantee
from dpensemble.laws import ReleaseLaw
from dpensemble.methods import inputs
from dpensemble.methods.base import PrivateRecords, VotingEnsembleClassifier, all_or_nothing
from dpensemble.methods.pate import Aggregator, PATEAnalysis, PATEClassifier, refuse_data_dependent
from dpensemble.planning import Census, Personalisation, Personalised, Rule, personalise, spend_curve
from dpensemble.relations import Basis, Relation


class PersonalisedPATEClassifier(PATEClassifier):
    """Template of the personalised variants; a subclass names its kind.

    See `WeightingPATEClassifier` for the parameters.
    """

    _kind: ClassVar[Personalisation]

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        levels: Mapping[Any, float] | None = None,
        group_shares: Mapping[Any, float] | None = None,
        rule: str = "solved",
        precision: float | None = None,
        vanish_at_end: bool = False,
        n_teachers: int = 250,
        aggregator: str = "gnmax",
        sigma: float | None = None,
        scale: float | None = None,
        reach: float | None = None,
        threshold: float | None = None,
        threshold_sigma: float | None = None,
        batch_size: int = 100,
        student_confidence: float = 0.9,
        analysis: str = "worst-case",
        stop_when_spent: bool = False,
        accounting: str = "exact",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "replace-one",
        max_labels: int | None = None,
        random_state: Any = None,
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
        progress: bool = False,
        private_diagnostics: bool = False,
    ) -> None:
        super().__init__(
            teacher,
            student,
            classes=classes,
            n_teachers=n_teachers,
            aggregator=aggregator,
            sigma=sigma,
            scale=scale,
            reach=reach,
            threshold=threshold,
            threshold_sigma=threshold_sigma,
            batch_size=batch_size,
            student_confidence=student_confidence,
            analysis=analysis,
            stop_when_spent=stop_when_spent,
            accounting=accounting,
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            max_labels=max_labels,
            random_state=random_state,
            insecure_release_seed=insecure_release_seed,
            n_jobs=n_jobs,
            progress=progress,
            private_diagnostics=private_diagnostics,
        )
        self.levels = levels
        self.group_shares = group_shares
        self.rule = rule
        self.precision = precision
        self.vanish_at_end = vanish_at_end

    def _law(self) -> ReleaseLaw:
        if self.aggregator == Aggregator.OPTIMAL and self.reach is None:
            raise InvalidParameterError(
                "reach=None: with personal budgets the optimal vote is not fitted to one budget, so its reach "
                "must be given; plan_personalised finds the one for a number of labels."
            )
        return super()._law()

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        budgets: ArrayLike | None = None,
    ) -> VotingEnsembleClassifier:
        """Fit teachers on private records, label public rows within everybody's budget, and fit the student.

        Parameters
        ----------
        X, y, X_public, units
            As for `PATEClassifier.fit`.
        budgets : array-like of shape (n_records,), optional
            Epsilon of each record, or the name of its consent level where `levels` is set; the same for all
            records of a unit. Taken to be public. By default every record has `epsilon`.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            If a setting is out of range, or a group is too small for a teacher.
        DataError
            If rows or labels cannot be used, or there are no public rows.
        BudgetError
            If a record's budget is missing, zero, negative or infinite, delta is not below 1 / n_units, or the
            budget of a group does not cover one label.
        TeacherError
            If no teacher could be fitted.
        """
        with all_or_nothing(self):
            return self._fit(X, y, X_public, units, budgets)

    def _prepare(
        self, records: PrivateRecords, n_classes: int, entropy: int
    ) -> tuple[Electorate, Allocation, Meter]:
        relation, law = self._relation(), self._law()
        law.mixing_weight(n_classes)
        personal = self._personal_budgets(records, relation)
        identities = _identities(records, personal, relation)
        accounting = member("accounting", self.accounting, Accounting)
        design = personalise(
            self._kind,
            law,
            self.n_teachers,
            self._census(personal, identities),
            n_classes=n_classes,
            accounting=accounting,
            rule=member("rule", self.rule, Rule),
            precision=self.precision,
        )
        self.personalised_, self._has_budgets = design, records.budgets is not None
        electorate = self._electorate(design, n_classes, accounting, entropy)
        if personal.n_groups == 1:
            return self._one_budget(records, personal.budgets[0], n_classes, entropy)
        allocation = _allocate(design, identities, personal, relation, entropy)
        records.check_delta(personal.budgets[0], allocation)
        data_dependent = member("analysis", self.analysis, PATEAnalysis) is PATEAnalysis.DATA_DEPENDENT
        if data_dependent:
            refuse_data_dependent(accounting, law)
            inputs.require_fixed_number(self.max_labels, self.stop_when_spent)
        meter = grouped_meter(
            electorate,
            design.groups,
            n_classes=n_classes,
            accounting=accounting,
            data_dependent=data_dependent,
            stop_when_spent=self.stop_when_spent,
        )
        meter.require_one_query()
        return electorate, allocation, meter

    def _electorate(
        self, design: Personalised, n_classes: int, accounting: Accounting, entropy: int
    ) -> Electorate:
        if not self.vanish_at_end:
            return Electorate((design.stage,), entropy)
        if self.analysis != PATEAnalysis.WORST_CASE.value:
            raise InvalidParameterError(
                "vanish_at_end=True needs a schedule that is public beforehand; use analysis='worst-case'."
            )
        stages = vanishing_end(design.stage, design.groups, n_classes=n_classes, accounting=accounting)
        return Electorate(stages, entropy)

    def _personal_budgets(self, records: PrivateRecords, relation: Relation) -> PersonalBudgets:
        budget = Budget(epsilon=self.epsilon, delta=self.delta)
        if records.budgets is None:
            if self.levels is not None or self.group_shares is not None:
                raise InvalidParameterError(
                    "levels and group_shares say what budgets mean, and fit was given none; pass budgets=, one "
                    "entry a record."
                )
            values = np.full(len(records.X), budget.epsilon)
            return personal_budgets(values, delta=budget.delta)
        values = np.asarray(records.budgets, dtype=object)
        inputs.require_one_a_record("budgets", values, len(records.X))
        if self.group_shares is not None and not (isinstance(self.group_shares, Mapping) and self.group_shares):
            raise InvalidParameterError(
                f"group_shares={self.group_shares!r:.60} is no mapping from budgets to shares; give one such as "
                "{'low': 0.8, 'high': 0.2}."
            )
        if self.group_shares is None and relation is Relation.ADD_OR_REMOVE_ONE:
            raise InvalidParameterError(
                "relation='add-or-remove-one' needs group_shares, the public share of each budget among records: "
                "read off the records, it would change when one is added."
            )
        return personal_budgets(values, delta=budget.delta, levels=self.levels, declared=self.group_shares)

    def _census(self, personal: PersonalBudgets, identities: Sequence[Hashable]) -> Census:
        if self.group_shares is None:
            _, unit_of_record = number_units(identities)
            groups = personal.group_of_unit(unit_of_record)
            shares = np.bincount(groups, minlength=personal.n_groups).astype(np.float64)
        else:
            shares = _declared_shares(self.group_shares, personal, self.levels)
        return Census(names=personal.names, budgets=personal.budgets, shares=tuple(shares.tolist()))

    def _state(self, meter: Any, allocation: Allocation, for_release: bool, has_units: bool) -> Guarantee:
        stated = super()._state(meter, allocation, for_release, has_units)
        worst_case = meter.basis is Basis.WORST_CASE
        self.group_spend_ = self._group_spend(meter) if worst_case and self._has_budgets else None
        if not self._has_budgets:
            return stated
        # Where all have one budget, the neighbours are of that one group too.
        spent = meter.group_epsilons if isinstance(meter, GroupMeter) else (stated.epsilon,)
        groups = tuple(
            GroupGuarantee(
                name=group.name,
                epsilon=epsilon if worst_case else group.budget.epsilon,
                budget=group.budget.epsilon,
            )
            for group, epsilon in zip(self.personalised_.groups, spent, strict=True)
        )
        return replace(stated, groups=groups, assumptions=(*stated.assumptions, _MEMBERSHIP[allocation.relation]))

    def _group_spend(self, meter: Meter) -> list[tuple[int, tuple[float, ...]]]:
        """Return numbers of questions and what each group was charged for them; public."""
        if isinstance(meter, GroupMeter):
            return meter.spend_curve() or []
        asked, delta = self.labels_.n_asked, meter.budget.delta
        curve = meter.public_spend or spend_curve(meter.one_query, asked, delta, meter.conversion)
        return [(count, (epsilon,)) for count, epsilon in curve]

    def _votes_per_unit(self, allocation: Allocation) -> int:  # noqa: ARG002
        # Whether a group has any record may be private, so all declared ones count.
        return max(self.personalised_.copies)


def _identities(records: PrivateRecords, personal: PersonalBudgets, relation: Relation) -> Sequence[Hashable]:
    """Return the unit of each record; equal records of different groups are different units."""
    identities = records.identities(relation)
    if records.units is not None or relation is Relation.REPLACE_ONE or personal.n_groups == 1:
        return identities
    groups = personal.group_of_record.tolist()
    return [repr((identity, group)) for identity, group in zip(identities, groups, strict=True)]


def _allocate(
    design: Personalised,
    identities: Sequence[Hashable],
    personal: PersonalBudgets,
    relation: Relation,
    entropy: int,
) -> Allocation:
    if design.teachers is None:
        copies = np.array(design.copies)[personal.group_of_record]
        return upsampled_partition(identities, copies, design.n_teachers, relation=relation, entropy=entropy)
    return grouped_partitions(
        identities, personal.group_of_record, design.teachers, relation=relation, entropy=entropy
    )


def _declared_shares(
    shares: Mapping[Any, float], personal: PersonalBudgets, levels: Mapping[Any, float] | None
) -> NDArray[np.float64]:
    """Return the declared share of each group; levels of one epsilon count together."""
    found = np.zeros(personal.n_groups)
    for key, share in shares.items():
        epsilon = float(key if levels is None else levels[key])
        found[int(np.searchsorted(personal.epsilons, epsilon))] += real_between(
            f"group_shares[{key!r}]", share, 1e-9, 1e12
        )
    return found


_MEMBERSHIP = {
    Relation.REPLACE_ONE: "Which group a record (or unit) is in, so also how many each group has, is public; "
    "neighbouring data sets differ within one group.",
    Relation.ADD_OR_REMOVE_ONE: "The groups and their declared shares are public, and so is which group a record "
    "(or unit) would be in.",
}
