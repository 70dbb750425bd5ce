"""The input of a run of label moments: private records in memory or in blocks, and their weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import integer_between, member
from dpensemble._progress import ShownPasses
from dpensemble.accounting import Group
from dpensemble.allocation.units import unit_numbers
from dpensemble.budget import Budget
from dpensemble.engine.moments_steps import MomentsSteps
from dpensemble.engine.records import groups_by_epsilon, require_small_delta
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.public_units import PublicUnits
from dpensemble.relations import Relation
from dpensemble.rows.arguments import public_table, public_unit_numbers, required, tables
from dpensemble.rows.bad_records import zeroes_bad
from dpensemble.rows.checked import EACH_ALONE, AsTables, RowCheck, RowRules, Units, UnitsByPlace
from dpensemble.rows.labels_and_units import Owners, sorted_classes
from dpensemble.rows.passes import CheckedRecords
from dpensemble.rows.source import Blocks, InMemory, Read, RowSource


def of_tables(
    method: Any,
    X: Any,
    y: Any,
    X_public: Any,
    units: ArrayLike | None,
    epsilons: ArrayLike | None,
    fewest_units: int | None,
    public_units: ArrayLike | None,
) -> MomentsSteps:
    """Check the arguments of `LabelMomentsClassifier.fit`, and return the steps of the run."""
    X, y, public = tables(method, X, required(y), X_public)
    whose = PublicUnits(public_unit_numbers(public_units, len(public)), private=units is not None)
    owners = Owners.of(units, len(X), zeroes=zeroes_bad(method))
    units_of = _numbered(owners.units, int(owners.present.sum()))
    weights, groups, total = _weights(method, units_of, owners.kept_values("personal_epsilons", epsilons))
    check = _row_check(method, public, UnitsByPlace.of_present(owners.present, units_of, weights))
    records = CheckedRecords.of(InMemory(X, y), check)
    _check_delta(method, records.n_units, units, fewest_units)
    return MomentsSteps(method, records, public, check.classes, groups, total, whose)


def of_blocks(
    method: Any,
    read: Read | RowSource,
    X_public: Any,
    n_records: int | None,
    units: ArrayLike | None,
    fewest_units: int | None,
    public_units: ArrayLike | None,
) -> MomentsSteps:
    """Check the arguments of `LabelMomentsClassifier.fit_blocks`, and return the steps of the run."""
    public = public_table(method, X_public)
    numbers = public_unit_numbers(public_units, len(public))
    validate_data(method, public, skip_check_array=True)
    check = _row_check(method, public)
    if callable(read):
        source: RowSource = Blocks(read, ShownPasses())
        owners = Owners.in_blocks(read, units, None, zeroes=zeroes_bad(method))
        units = owners.units
        if units is not None:
            units_of = _numbered(units, int(owners.present.sum()))
            shares = 1 / np.bincount(units_of)[units_of]
            check = replace(check, units=UnitsByPlace.of_present(owners.present, units_of, shares))
    elif n_records is not None or units is not None:
        raise InvalidParameterError(
            "n_records and units are counted in a table in parts: name the column of units there.",
            parameter="units",
        )
    else:
        source, units = read, read.unit
    records = CheckedRecords.of(source, check)
    if n_records is not None and member("relation", method.relation, Relation) is Relation.REPLACE_ONE:
        _require_number(n_records, records.n_records)
    n_units = integer_between("n_records", records.n_units, 1, 2**40)
    _check_delta(method, n_units, units, fewest_units)
    whose = PublicUnits(numbers, private=units is not None)
    return MomentsSteps(method, records, public, check.classes, None, float(n_units), whose)


def _row_check(method: Any, public: Any, units: Units = EACH_ALONE) -> RowCheck:
    """Return the loop over private rows of a method that takes tables."""
    form = AsTables(RowRules(method.on_bad_record, method.declared_columns), public.iloc[:0])
    return RowCheck(form, sorted_classes(method.classes), zeroes_bad(method), units)


def _require_number(n_records: int, counted: int) -> None:
    """Raise if a declared number of records is not their number, which is public when a unit is replaced."""
    if integer_between("n_records", n_records, 1, 2**40) != counted:
        raise InvalidParameterError(
            f"n_records={n_records} must be the number of records that read returns: correct n_records, or leave it "
            "out.",
            parameter="n_records",
        )


def _check_delta(method: Any, n_units: int, units: ArrayLike | None, fewest_units: int | None) -> None:
    budget, relation = Budget(epsilon=method.epsilon, delta=method.delta), member("relation", method.relation, Relation)
    require_small_delta(budget, relation, n_units, "records" if units is None else "units", fewest_units)


def _weights(
    method: Any, units_of: Integers, epsilons: ArrayLike | None
) -> tuple[Floats, tuple[Group, ...] | None, float]:
    """Return records' weights, groups if budgets differ, and the sum of units' weights from public counts."""
    weights = 1 / np.bincount(units_of)[units_of]
    if epsilons is None:
        return weights, None, float(int(units_of.max()) + 1)
    relation = member("relation", method.relation, Relation)
    personal, groups = groups_by_epsilon(epsilons, len(units_of), relation=relation, delta=method.delta)
    units = np.bincount(personal.group_of_unit(units_of), minlength=personal.n_groups)
    parts = np.asarray([group.weight for group in groups])
    return weights * parts[personal.group_of_record], groups, float(units @ parts)


def _numbered(units: ArrayLike | None, n_records: int) -> Integers:
    return np.arange(n_records) if units is None else unit_numbers(units, n_records)
