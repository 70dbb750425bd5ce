"""Labels as class ids, and the owners of private records. Messages never quote a private value."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import shown
from dpensemble._class_names import sorted_array
from dpensemble._refusals import kinds_of, label_array, require_one_per_record, require_readable
from dpensemble.allocation.partition import declared_units, present_numbers, unit_numbers, units_or_none
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.rows.bad_records import BAD, class_ids_or_bad

_RANGES = ". Cut a number to predict into ranges, because regression is not supported"


def sorted_classes(classes: Any) -> NDArray[Any]:
    """Return the declared classes, sorted."""
    distinct = sorted_array(classes)
    with warnings.catch_warnings():
        # Many classes are not a mistake if they are declared.
        warnings.simplefilter("ignore", UserWarning)
        try:
            check_classification_targets(distinct)
        except ValueError:
            raise InvalidParameterError(
                f"Unknown label type: classes={shown(classes)} are not names or whole numbers; predicting a number "
                "(regression) is not supported, so cut the number into ranges and declare them as classes.",
                parameter="classes",
            ) from None
    return distinct


def class_ids(classes: NDArray[Any], y: Any, *, keep_bad: bool = False, first: int = 0) -> Integers:
    """Return each label's position among the sorted classes. `first` is the row of the first label.

    An undeclared label raises an error, or is `BAD` with `keep_bad`.
    """
    labels = label_array(y)
    _require_types(classes, y)
    ids = class_ids_or_bad(classes, labels)
    undeclared = np.flatnonzero(ids == BAD)
    if undeclared.size and not keep_bad:
        ranges = _RANGES if labels.dtype.kind == "f" else ""
        raise DataError(
            f"the private labels (y) contain one that is not among classes={classes.tolist()!r} (the first in "
            f"row {first + undeclared[0]}, counting from 0). Declare every possible label, or let such records add "
            f"nothing (on_bad_record='zero'){ranges}."
        )
    return ids


def _require_types(classes: NDArray[np.generic], y: ArrayLike) -> None:
    """Raise for numbers where classes are texts, by the declared types. Otherwise every record would be bad."""
    # Not by the type of an array of all labels, which a missing label may change.
    if classes.dtype.kind in "OUS" and any(kind.kind in "biufc" for kind in kinds_of(y)):
        raise DataError(f"Unknown label type: classes={classes.tolist()!r} and the labels in y are of different types.")


@dataclass(frozen=True, eq=False, repr=False)
class Owners:
    """Owners of private records: `units` of the records that are `present`, or None if each record is its own unit."""

    units: ArrayLike | None
    present: NDArray[np.bool_]

    @classmethod
    def of(cls, units: ArrayLike | None, n_records: int, *, zeroes: bool) -> Owners:
        """Return the owner of each record. If bad records are zeroed, a record without a unit is left out."""
        # Such a record is left out before units are numbered, so that it does not change the number of another unit.
        if units is None:
            return cls(None, np.ones(n_records, dtype=bool))
        if not zeroes:
            return cls(declared_units(units, n_records), np.ones(n_records, dtype=bool))
        if hasattr(units, "dtype"):
            # Entries of a list are judged one by one.
            require_readable("units", units, keep_bad=True)
        names, present = units_or_none(units)
        require_one_per_record("units", names, n_records)
        return cls(names[present], present)

    @classmethod
    def in_blocks(cls, read: Any, units: ArrayLike | None, n_records: int | None, *, zeroes: bool) -> Owners:
        """Return the owner of each record that a reader reads: those of the reader, unless others are given.

        A reader with a column of units protects units, also if nobody repeats them here. Its numbers are -1 for a
        record without a unit. `n_records` is the number of units if it is None.
        """
        of_reader = getattr(read, "units", None)
        units = of_reader if units is None else units
        if units is None or units is not of_reader:
            return cls.of(units, n_records or (0 if units is None else len(units)), zeroes=zeroes)  # type: ignore[arg-type]
        numbers = np.asarray(units)
        present = present_numbers(numbers)
        if not (zeroes or present.all()):
            raise DataError("units must have no missing value: give every record a unit.")
        require_one_per_record("units", numbers, len(numbers) if n_records is None else n_records)
        return cls(numbers[present], present)

    @cached_property
    def numbers(self) -> Integers:
        """Number of each present record's unit, counted from 0."""
        n_present = int(self.present.sum())
        return np.arange(n_present) if self.units is None else unit_numbers(self.units, n_present)

    @property
    def n_units(self) -> int:
        """Number of units. Public under replace-one only."""
        return len(self.present) if self.units is None else 1 + int(self.numbers.max())

    def part(self, start: int, n_records: int) -> Owners:
        """Return the owners of a block of records, without their units, which are not needed."""
        return Owners(None, self.present[start : start + n_records])

    def kept(self, *columns: Any) -> tuple[Any, ...]:
        """Return the entries of present records in rows, labels and the like. None stays None."""
        if self.present.all():
            return columns
        return tuple(None if one is None else one[self.present] for one in columns)

    def kept_values(self, name: str, values: Any) -> Any:
        """Return one value for each present record, or `values` themselves if all records are present."""
        if values is None or self.present.all():
            return values
        require_readable(name, values)
        values = np.asarray(values)
        require_one_per_record(name, values, len(self.present))
        return values[self.present]


def identities(X: Floats, targets: Integers, units: ArrayLike | None, relation: Relation) -> Sequence[Hashable]:
    """Return the unit of each record: declared, by position, or by content."""
    if units is not None:
        return cast("Sequence[Hashable]", declared_units(units, len(X)))
    if relation is Relation.REPLACE_ONE:
        return range(len(X))
    # A position would shift when another record is removed, but the content of a record does not.
    return [row.tobytes() + target.tobytes() for row, target in zip(X, targets, strict=True)]


def one_per_record(name: str, values: ArrayLike, n_records: int) -> NDArray[Any]:
    """Return the values called `name` as objects, one for each record. Raise for masked or complex values."""
    require_readable(name, values)
    entries = np.asarray(values, dtype=object)
    require_one_per_record(name, entries, n_records)
    return entries
