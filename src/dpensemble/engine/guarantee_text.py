"""The assumptions of guarantees, one sentence each."""

from __future__ import annotations

from dpensemble.accounting import Meter, SumsMeter
from dpensemble.guarantee import GroupGuarantee, Guarantee
from dpensemble.relations import Relation

UNITS_TOGETHER = (
    "A unit is all records that share a value of the unit column, for example those of one person; "
    "they are protected together."
)
_UNIT_ORDER = "Neighbouring data sets list their units in the same order, each by its first record."
_RELEASE = (
    "Only the released labels and what is computed from them (the student) are published; teachers and votes stay "
    "secret."
)
_RELEASE_TELLS_NUMBER = (
    "The number of labels is not protected: anybody who sees the released labels, or a student that reveals their "
    "number, sees it; teachers and votes stay secret."
)
_COMMON = (
    "Public rows, declared classes, settings and seeds do not depend on the private records.",
    "The guarantee covers what a run publishes. It does not cover whether the run finished or was refused.",
    "This covers one training run. The losses of further runs on the same records add to it.",
)
#: The public membership of groups.
MEMBERSHIP = {
    Relation.REPLACE_ONE: "Which group a record (or unit) belongs to is public, and so is the size of each group; "
    "neighbouring data sets differ within one group.",
    Relation.ADD_OR_REMOVE_ONE: "The groups and their declared shares are public, and so is which group a record "
    "(or unit) would belong to.",
}


def of_voting(relation: Relation, has_units: bool, meter: Meter) -> tuple[str, ...]:
    """Return the assumptions of the guarantee of any method that votes, one sentence each."""
    assumptions = []
    if has_units:
        assumptions.append(UNITS_TOGETHER)
        if relation is Relation.REPLACE_ONE:
            assumptions.append(_UNIT_ORDER)
    return (*assumptions, _RELEASE if meter.fixed_number else _RELEASE_TELLS_NUMBER, *_COMMON)


def of_moments(relation: Relation, has_units: bool, by_group: bool) -> tuple[str, ...]:
    """Return the assumptions of the guarantee of label moments, one sentence each."""
    assumptions = [UNITS_TOGETHER] if has_units else []
    if by_group:
        assumptions.append(MEMBERSHIP[relation])
    return (
        *assumptions,
        "Only the noisy moments and what is computed from them (the model, its student and labels) are published.",
        "The feature map was made from public rows, declarations and earlier releases, and transforms each row "
        "independently of the others.",
        *_COMMON,
    )


def of_answers(relation: Relation, has_units: bool, by_group: bool) -> tuple[str, ...]:
    """Return the assumptions of the guarantee of averages of teachers' answers, one sentence each."""
    assumptions = []
    if has_units:
        assumptions.append(UNITS_TOGETHER)
    if has_units and relation is Relation.REPLACE_ONE:
        assumptions.append(_UNIT_ORDER)
    if by_group:
        assumptions.append(MEMBERSHIP[relation])
    return (
        *assumptions,
        "Only the noisy average of the teachers' answers and what is computed from it (the student, its labels) are "
        "published; teachers and their own answers stay secret.",
        *_COMMON,
    )


def of_sums(
    meter: SumsMeter, relation: Relation, assumptions: tuple[str, ...], *, has_units: bool, for_release: bool
) -> Guarantee:
    """Return the guarantee of noisy sums that a meter has charged."""
    groups = [
        GroupGuarantee(name=group.name, epsilon=epsilon, budget=group.budget.epsilon)
        for group, epsilon in zip(meter.groups, meter.group_epsilons, strict=True)
    ]
    return Guarantee(
        epsilon=meter.spent_epsilon,
        delta=meter.budget.delta,
        basis=meter.basis,
        relation=relation,
        unit="unit" if has_units else "record",
        accounting=meter.accounting,
        assumptions=assumptions,
        for_release=for_release,
        groups=tuple(groups) if len(groups) > 1 else (),
    )
