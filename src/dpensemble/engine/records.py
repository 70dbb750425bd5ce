"""Private records that teachers learn from, and released labels as output."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dpensemble._entries import (
    Floats,
    Integers,
    blanked,
    plain_array,
    read_rows,
    require_labels,
    require_rows,
    row_array,
)
from dpensemble._units import number_units
from dpensemble.accounting import Group
from dpensemble.allocation.budget_groups import PersonalBudgets, personal_budgets
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget, budget_of_run
from dpensemble.relations import Relation
from dpensemble.releases import weighted_groups
from dpensemble.rows.arguments import (
    BAD,
    Owners,
    as_numbers,
    identities,
    one_per_record,
    require_as_many,
    require_dense,
    require_workers,
    required,
    sorted_classes,
    zeroes_bad,
)
from dpensemble.rows.checked import NumberForm, RowCheck


@dataclass(frozen=True, eq=False)
class ReleasedLabels:
    """The released labels, and the places of their rows in ``X_public``, in the order of the queries.

    `n_asked` is the number of public rows queried. Under a gate, it may exceed the number of answers.
    """

    indices: NDArray[np.int64]
    labels: NDArray[Any]
    n_asked: int

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class DeclaredBudgets:
    """The arguments of `fit` about personal budgets: one for each record, epsilons of levels, shares of groups."""

    values: ArrayLike
    levels: Mapping[Any, float] | None
    group_shares: Mapping[Any, float] | None


@dataclass(frozen=True, eq=False, repr=False)
class TeacherRecords:
    """Checked private records, and their owners.

    `X` (an array, or `RowsInBlocks`), `targets` (class ids) and `identities` (unit of each record: declared, by
    position, or by content) are private. `units`, if declared, and `group_of_record`, if budgets differ, are
    public.
    """

    X: Any
    targets: NDArray[np.int64]
    units: ArrayLike | None
    identities: Sequence[Hashable]
    group_of_record: NDArray[np.int64] | None = None

    @property
    def counted(self) -> int:
        """Number of units with which delta is compared."""
        # By content, equal records are one unit, but delta is still compared with the number of records.
        return len(self.X) if self.units is None else len(number_units(self.identities)[0])

    def public_number(self, relation: Relation) -> int:
        """Return the number of records where it is public, and 0 elsewhere. A unit may have any number of records."""
        return len(self.targets) if relation is Relation.REPLACE_ONE and self.units is None else 0

    def check_delta(self, budget: Budget, relation: Relation) -> None:
        """Raise for a delta that would allow publishing one record or unit outright."""
        budget_of_run(budget.epsilon, budget.delta, relation, self.counted, has_units=self.units is not None)


def groups_by_epsilon(
    epsilons: ArrayLike, n_records: int, *, relation: Relation, delta: float
) -> tuple[PersonalBudgets, tuple[Group, ...]]:
    """Return the groups of records by epsilon, and their weights in a sum."""
    if relation is not Relation.REPLACE_ONE:
        raise InvalidParameterError(
            f"personal_epsilons require relation='replace-one', because under {relation.value!r} the number of "
            "records in each group would be private: use 'replace-one'."
        )
    values = one_per_record("personal_epsilons", epsilons, n_records)
    personal = personal_budgets(values, delta=delta)
    return personal, weighted_groups(personal.names, personal.budgets)


def teacher_records(
    estimator: Any, X: Any, y: Any, units: ArrayLike | None, *, nan: bool, relation: Relation, public: Any = None
) -> tuple[TeacherRecords, NDArray[Any], Owners]:
    """Return records (bad records raise, or become zeros of the class `BAD`), declared classes, and the owners.

    A row of a list is bad if it has another width than the `public` rows.
    """
    require_dense("X", X)
    zeroes, width = zeroes_bad(estimator), _width_of(public)
    X = X if width is None or not zeroes else row_array(X, width)
    require_rows("X", X, keep_bad=zeroes)
    require_labels(y, keep_bad=zeroes)
    X, y = (_numbers if zeroes else _numbers_and_labels)(estimator, X, y)
    classes = sorted_classes(estimator.classes)
    block = RowCheck(NumberForm(nan, estimator), classes, zeroes).checked_block(X, y)
    require_workers(estimator.n_jobs)
    rows = np.where((block.targets == BAD)[:, None], 0.0, block.rows) if zeroes else block.rows
    records, owners = records_by_owner(rows, block.targets, units, relation, zeroes=zeroes)
    return records, classes, owners


def records_by_owner(
    X: Floats, targets: Integers, units: ArrayLike | None, relation: Relation, *, zeroes: bool
) -> tuple[TeacherRecords, Owners]:
    """Return checked rows and class ids as private records, and their owners."""
    owners = Owners.of(units, len(targets), zeroes=zeroes)
    X, targets = owners.kept(X, targets)
    return TeacherRecords(X, targets, owners.units, identities(X, targets, owners.units, relation)), owners


def _numbers_and_labels(estimator: Any, X: Any, y: Any) -> tuple[Floats, Any]:
    checked: tuple[Floats, Any] = read_rows(
        "X",
        lambda: validate_data(estimator, X, y, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=2),
    )
    return checked


def _numbers(estimator: Any, X: Any, y: Any) -> tuple[Floats, Any]:
    numbers = as_numbers(blanked(X))
    rows: Floats = validate_data(estimator, numbers, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=2)
    require_as_many(rows, required(y))
    return rows, y


def _width_of(X_public: object) -> int | None:
    """Return the number of columns of public rows, or None if they are no table."""
    shape = getattr(X_public, "shape", None)
    shape = plain_array(X_public).shape if shape is None else shape
    return int(shape[1]) if len(shape) == 2 else None
