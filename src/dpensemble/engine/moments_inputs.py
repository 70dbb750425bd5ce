"""The input of a run of label moments: private records in memory or in blocks, and their weights."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import integer_between, member
from dpensemble._progress import ShownPasses
from dpensemble.accounting import Group
from dpensemble.allocation.units import unit_numbers
from dpensemble.budget import Budget
from dpensemble.clusters.parts import TableInParts
from dpensemble.datasets.frames import as_given
from dpensemble.engine.moments_steps import MomentsSteps
from dpensemble.engine.records import groups_by_epsilon, require_small_delta
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments.public_units import PublicUnits
from dpensemble.relations import Relation
from dpensemble.releases.partial_sums import CHECKSUMS
from dpensemble.rows.arguments import block, public_table, public_unit_numbers, required, table_targets, tables
from dpensemble.rows.bad_records import zeroes_bad
from dpensemble.rows.checked import AsTables, RowCheck, UnitsByPlace
from dpensemble.rows.checked import RowRules as Rules
from dpensemble.rows.checksums import RowChecksums
from dpensemble.rows.features import Block, RecordsHere, blocks_of
from dpensemble.rows.labels_and_units import Owners, sorted_classes
from dpensemble.rows.parts import RecordsInParts, RowRules
from dpensemble.rows.passes import CheckedRecords
from dpensemble.rows.source import RowSource

Read = Callable[[], Iterator[tuple[Any, Any]]]


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
    table, y, public = tables(method, X, required(y), X_public)
    numbers = public_unit_numbers(public_units, len(public))
    classes, zeroes = sorted_classes(method.classes), zeroes_bad(method)
    table, targets = table_targets(classes, table, y, zeroes=zeroes)
    owners = Owners.of(units, len(targets), zeroes=zeroes)
    table, targets = owners.kept(table, targets)
    units_of = _numbered(owners.units, len(targets))
    weights, groups, total = _weights(method, units_of, owners.kept_values("personal_epsilons", epsilons))
    _check_delta(method, int(units_of.max()) + 1, units, fewest_units)
    records = RecordsHere(blocks_of(table, targets, weights))
    whose = PublicUnits(numbers, private=units is not None)
    return MomentsSteps(method, records, public, classes, groups, total, whose)


def of_blocks(
    method: Any,
    read: Read | TableInParts,
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
    classes = sorted_classes(method.classes)
    if not callable(read):
        if n_records is not None or units is not None:
            raise InvalidParameterError(
                "n_records and units are counted in a table in parts: name the column of units there.",
                parameter="units",
            )
        rules = RowRules(method.on_bad_record, method.declared_columns)
        parts = RecordsInParts.of(read, rules, public.iloc[:0], classes, secrets.token_bytes(32))
        n = integer_between("n_records", parts.n_units, 1, 2**40)
        _check_delta(method, n, read.unit, fewest_units)
        in_parts = PublicUnits(numbers, private=read.unit is not None)
        return MomentsSteps(method, parts, public, classes, None, float(n), in_parts)
    owners = Owners.in_blocks(read, units, None, zeroes=zeroes_bad(method))
    units = owners.units
    units_of = None if units is None else _numbered(units, int(owners.present.sum()))
    shares = None if units_of is None else _shares_of_records(units_of, owners.present)
    # The key is secret and new, so that nobody can make rows whose change would not be noticed.
    blocks = partial(_blocks, method, read, public, classes, owners, shares, ShownPasses())
    records = RecordsHere(blocks, RowChecksums.of_new_key())
    n = _counted(records)
    if n_records is not None and member("relation", method.relation, Relation) is Relation.REPLACE_ONE:
        _require_number(n_records, n)
    n = integer_between("n_records", n if units_of is None else int(units_of.max(initial=-1)) + 1, 1, 2**40)
    _check_delta(method, n, units, fewest_units)
    whose = PublicUnits(numbers, private=units is not None)
    return MomentsSteps(method, records, public, classes, None, float(n), whose)


def of_source(
    method: Any,
    source: RowSource,
    X_public: Any,
    units: ArrayLike | None = None,
    epsilons: ArrayLike | None = None,
    fewest_units: int | None = None,
    public_units: ArrayLike | None = None,
) -> MomentsSteps:
    """Return the steps of a run on the rows of a source, by the one loop over rows."""
    public = public_table(method, X_public)
    numbers = public_unit_numbers(public_units, len(public))
    validate_data(method, public, skip_check_array=True)
    classes, zeroes = sorted_classes(method.classes), zeroes_bad(method)
    form = AsTables(Rules(method.on_bad_record, method.declared_columns), public.iloc[:0])
    check, groups, total = RowCheck(form, classes, zeroes), None, None
    if units is not None or epsilons is not None:
        n_rows = len(units if epsilons is None else epsilons)
        owners = Owners.of(units, n_rows, zeroes=zeroes)
        units_of = _numbered(owners.units, int(owners.present.sum()))
        weights, groups, total = _weights(method, units_of, owners.kept_values("personal_epsilons", epsilons))
        check = replace(check, units=_by_place(owners.present, units_of, weights))
    records = CheckedRecords.of(source, check, total)
    n_units = records.n_units if total is None else 1 + int(units_of.max())
    _check_delta(method, n_units, source.unit if units is None else units, fewest_units)
    has_units = units is not None or source.unit is not None
    weight = float(n_units) if total is None else total
    return MomentsSteps(method, records, public, classes, groups, weight, PublicUnits(numbers, private=has_units))


def _by_place(present: NDArray[np.bool_], units_of: Integers, weights: Floats) -> UnitsByPlace:
    """Return the units of all records. Those without a unit, which are left out of every sum, have 0 and -1."""
    of_all, numbers = np.zeros(len(present)), np.full(len(present), -1, dtype=np.int64)
    of_all[present], numbers[present] = weights, units_of
    return UnitsByPlace(numbers, of_all)


def _counted(records: RecordsHere) -> int:
    """Return the number of records, and remember their checksum."""
    n_records = checksum = 0
    for part in records.read():
        n_records += len(part.targets)
        if records.checksums is not None:
            checksum += records.checksums.of(part.rows, part.targets, part.units)
    records.same.require((n_records, checksum % CHECKSUMS))
    return n_records


def _require_number(n_records: int, counted: int) -> None:
    """Raise if a declared number of records is not their number, which is public when a unit is replaced."""
    if integer_between("n_records", n_records, 1, 2**40) != counted:
        raise InvalidParameterError(
            f"n_records={n_records} must be the number of records that read returns: correct n_records, or leave it "
            "out.",
            parameter="n_records",
        )


def _blocks(
    method: Any,
    read: Read,
    public: Any,
    classes: NDArray[Any],
    owners: Owners,
    shares: tuple[Floats, Integers] | None,
    passes: ShownPasses,
) -> Iterator[Block]:
    """Yield checked blocks of rows, class ids, weights and units."""
    start, zeroes = 0, zeroes_bad(method)
    for rows, labels in passes.over(read()):
        X, y = as_given("X", rows), as_given("y", labels)
        if len(X) != len(y):
            raise DataError(f"a block has {len(X)} rows but {len(y)} labels: give one for each.")
        if not len(X):
            continue
        table, targets = table_targets(classes, block(method, X, public, first=start), y, zeroes=zeroes, first=start)
        n = len(targets)
        own: Floats = np.ones(n)
        whose: Integers | None = None
        if shares is not None:
            own, whose = shares[0][start : start + n], shares[1][start : start + n]
            if len(own) != n:
                raise DataError("units has fewer entries than blocks have records: give one for each.")
            table, targets, own, whose = owners.part(start, n).kept(table, targets, own, whose)
        start += n
        yield from blocks_of(table, targets, own, whose)()
    if shares is not None and start != len(shares[0]):
        raise DataError("units has more entries than blocks have records: give one for each.")


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


def _shares_of_records(units_of: Integers, present: NDArray[np.bool_]) -> tuple[Floats, Integers]:
    """Return each record's share of its unit, and its unit's number.

    Records without a unit, which are left out of every sum, have 0 and -1.
    """
    weights, numbers = np.zeros(len(present)), np.full(len(present), -1, dtype=np.int64)
    weights[present], numbers[present] = 1 / np.bincount(units_of)[units_of], units_of
    return weights, numbers


def _numbered(units: ArrayLike | None, n_records: int) -> Integers:
    return np.arange(n_records) if units is None else unit_numbers(units, n_records)
