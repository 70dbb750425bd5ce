"""Labels as class ids, and the owners of private records. Messages never quote a private value."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import shown
from dpensemble._class_names import sorted_array
from dpensemble._entries import require_readable
from dpensemble._given import require_one_per_record
from dpensemble.allocation.units import declared_units
from dpensemble.datasets.bad_records import class_ids_or_bad, units_or_none
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.relations import Relation

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


def class_ids(classes: NDArray[Any], y: Any, *, first: int = 0) -> Integers:
    """Return each label's position among the sorted classes. `first` is the row of the first label."""
    labels = np.asarray(y)
    if (labels.dtype.kind in "OUS") != (classes.dtype.kind in "OUS"):
        raise DataError(f"Unknown label type: classes={classes.tolist()!r} and the labels in y are of different types.")
    try:
        ids = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    except TypeError:
        # Texts among numbers. The original text contains only types, but is not a sentence.
        raise DataError(
            "the private labels (y) mix texts and numbers: write all of them in the form of the classes."
        ) from None
    undeclared = np.flatnonzero(classes[ids] != labels)
    if undeclared.size:
        ranges = _RANGES if labels.dtype.kind == "f" else ""
        raise DataError(
            f"the private labels (y) contain one that is not among classes={classes.tolist()!r} (the first in "
            f"row {first + undeclared[0]}, counting from 0). Declare every possible label, or let such records add "
            f"nothing (on_bad_record='zero'){ranges}."
        )
    return ids


def ids_or_bad(classes: NDArray[Any], y: Any, n_records: int) -> Integers:
    """Return each label's position among the sorted classes, or `BAD` for an undeclared label."""
    labels = y if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    if classes.dtype.kind in "OUS" and getattr(labels.dtype, "kind", "O") in "biufc":
        # By type, before any label is read. Otherwise every record would be bad.
        raise DataError(f"Unknown label type: classes={classes.tolist()!r} and the labels in y are of different types.")
    targets = class_ids_or_bad(classes, np.asarray(labels).ravel())
    if len(targets) != n_records:
        raise DataError(f"X has {n_records} records, but y has {len(targets)} labels: give one for each.")
    return targets


@dataclass(frozen=True, eq=False, repr=False)
class Owners:
    """Owners of private records: `units` of the records that are `present`, or None if each record is its own unit."""

    units: ArrayLike | None
    present: NDArray[np.bool_]

    @classmethod
    def of(cls, units: ArrayLike | None, n_records: int, *, zeroes: bool) -> Owners:
        """Return the owner of each record. If bad records are zeroed, a record without a unit is left out."""
        # Such a record is left out before units are numbered, so that it does not change the number of another unit.
        zeroes = units is not None and zeroes
        require_readable("units", units, keep_bad=zeroes)
        if units is None or not zeroes:
            return cls(units, np.ones(n_records, dtype=bool))
        names, present = units_or_none(units)
        require_one_per_record("units", names, n_records)
        return cls(names[present], present)

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
        return declared_units(units, len(X))
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
