"""Checks of the arguments that `fit` gets: rows as arrays or as tables, labels, units, and public rows.

Messages never quote a private value.

Which records are bad depends only on each record, and is the same in every round and in a held-out score. A record is
bad if its label is not declared, if an entry is infinite, or if a feature map cannot read the row. It is also bad if an
entry is missing and the method takes no blanks. A bad record adds a zero vector to every sum, and no teacher learns
from it. The record still counts in the number of records, in its unit and in noisy counts. So one person cannot stop a
run, and the number of bad records appears only in what is released with noise.

Replacing a record by a zero vector depends only on that record, so neighbouring data sets stay neighbours. The vector
of a bad record is no longer than any other, so every sensitivity holds unchanged.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from numbers import Real
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dpensemble._checks import is_missing, member, names_checked, number_of_workers, shown, sorted_array
from dpensemble._entries import (
    Floats,
    Integers,
    Rows,
    as_array,
    blanked,
    is_table,
    label_array,
    plain_array,
    read_rows,
    require_labels,
    require_one_per_record,
    require_readable,
    require_rows,
    row_array,
)
from dpensemble._hide_private_rows import on_public_rows
from dpensemble._units import declared_units, present_numbers, unit_numbers, units_or_none
from dpensemble.datasets import TablePreparation, as_table, same_columns
from dpensemble.datasets.columns import assembled, number_columns, numbers_of, share_memory, text_of
from dpensemble.datasets.frames import as_pandas
from dpensemble.datasets.public_facts import warn_of_identifiers
from dpensemble.datasets.tables import kinds_by, named_by
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments.maps.grid import declared_grid, with_texts
from dpensemble.relations import Relation
from dpensemble.rows.source import converted_source
from dpensemble.student import marked, with_names

#: Class id of a bad record.
BAD = -1
# Types of labels that stand for the text that writes them, and that may be declared numbers. A complex number is never
# one, even if its imaginary part is 0.
_WRITTEN = (bool, int, float, np.bool_, np.integer, np.floating)
_NUMBERS = (int, float, Real, Decimal, np.bool_)


class OnBadRecord(StrEnum):
    """What happens to a bad record."""

    RAISE = "raise"
    ZERO = "zero"


def zeroes_bad(estimator: Any) -> bool:
    """Return whether an estimator takes bad records as zero vectors. An unknown setting raises an error."""
    return member("on_bad_record", estimator.on_bad_record, OnBadRecord) is OnBadRecord.ZERO


def class_ids_or_bad(classes: NDArray[Any], labels: Any) -> Integers:
    """Return each label's position among the sorted declared classes, or `BAD` for an undeclared label.

    Each label is compared separately, also in a list, which has no declared type. A text that writes a declared number
    stands for the number, and a number for the text that writes it.
    """
    given = as_array(labels)
    if classes.dtype.kind in given.dtype.kind == "i":
        near = np.searchsorted(classes, given).clip(max=len(classes) - 1)
        return np.where(classes[near] == given, near, BAD)
    # A list of dates, because NumPy writes some of them as whole numbers.
    entries = list(given) if given.dtype.kind in "mM" else given.tolist()
    places: dict[Any, int] = {label: place for place, label in enumerate(classes.tolist())}
    if classes.dtype.kind in "OUS":
        found = [_found(_as_text(label), places) for label in entries]
    else:
        found = [_found(label, places) if isinstance(label, _NUMBERS) else BAD for label in _as_numbers(entries)]
    return np.array(found, dtype=np.int64)


def _as_text(label: Any) -> Any:
    """Return a number as the text that writes it. Anything else stays unchanged."""
    return text_of(label) if isinstance(label, _WRITTEN) else label


def _as_numbers(entries: list[Any]) -> list[Any]:
    """Return labels in which texts that write numbers are numbers, as in columns of numbers. Other texts are NaN."""
    places = [place for place, label in enumerate(entries) if isinstance(label, str)]
    if places:
        texts = pd.DataFrame({"labels": pd.Series([entries[place] for place in places], dtype=object)})
        entries = list(entries)
        for place, number in zip(places, numbers_of(texts)[0][:, 0].tolist(), strict=True):
            entries[place] = number
    return entries


def _found(label: Any, places: dict[Any, int]) -> int:
    try:
        return places.get(label, BAD)
    except (ArithmeticError, TypeError, ValueError):
        return BAD


def readable_rows(table: pd.DataFrame, *, nan: bool = True) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """Return a table without infinite entries, and which rows had none. Without `nan`, blanks count as infinite.

    A row with such an entry becomes a row of zeros and blanks, which every map of the library can read.
    """
    numeric = number_columns(table)
    numbers = table.iloc[:, np.flatnonzero(numeric)].to_numpy(dtype=np.float64, na_value=np.nan)
    bad: NDArray[np.bool_] = np.isinf(numbers).any(axis=1)
    if not nan:
        bad |= table.isna().to_numpy().any(axis=1)
    if bad.any():
        numbers = np.where(bad[:, None], 0.0, numbers)
        texts = table.iloc[:, np.flatnonzero(~numeric)]
        texts = texts.where(np.broadcast_to(~bad[:, None], texts.shape))
        table = assembled(table, np.flatnonzero(numeric), numbers, texts)
    return table, ~bad


def readable_array(X: NDArray[np.floating[Any]], *, nan: bool) -> NDArray[np.bool_]:
    """Return which rows of an array are usable: those without infinity and, unless `nan`, without NaN."""
    bad = np.isinf(X) if nan else ~np.isfinite(X)
    return np.asarray(~bad.any(axis=1), dtype=bool)


def as_numbers(X: Any) -> Any:
    """Return rows as numbers. Each entry is read separately, and an entry that is not a number becomes NaN."""
    if is_table(X):
        return pd.DataFrame(numbers_of(X)[0], columns=X.columns)
    rows = as_array(X)
    return rows if rows.dtype.kind in "biuf" or rows.ndim != 2 else numbers_of(pd.DataFrame(rows))[0]


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
                f"Unknown label type: classes={shown(classes)} are not names or whole numbers; to predict a number, "
                "declare its range (LabelMomentsRegressor, or train --range), or cut it into ranges and declare them "
                "as classes.",
                parameter="classes",
            ) from None
    return distinct


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


def refuse_others(others: Mapping[str, Any]) -> None:
    """Raise for arguments that `fit` does not take. For weights, give the reason."""
    if others.get("sample_weight") is not None:
        raise InvalidParameterError(
            "sample_weight is not supported: weights are usually computed from all records together, so one record "
            "would change the weights of others, which no guarantee here covers; use a teacher with "
            "class_weight, which only uses its own records, or budgets by group. Survey weights: put the columns "
            "of the survey's design, such as the stratum, among the features.",
            parameter="sample_weight",
        )
    unknown = [name for name in others if name != "sample_weight"]
    if unknown:
        raise TypeError(f"fit() got an unexpected keyword argument {unknown[0]!r}")


def require_others(X: Any, X_public: Any) -> None:
    """Raise if the public rows are the private records, as a fact of the program. Equal rows are no reason."""
    if X_public is X and X is not None:
        raise DataError("X_public is X itself: give public rows that are not the private records.")
    if share_memory(X, X_public):
        raise DataError("X_public is a part of X (they share memory): give public rows that are not private records.")


def required(y: Any) -> Any:
    """Return the labels. Raise if there are none."""
    if y is None:
        raise DataError("this method requires y to be passed, but the target y is None: pass the private labels.")
    return y


def require_dense(name: str, X: Any) -> None:
    """Raise for sparse matrices, because lengths, public statistics and identities by content require dense rows."""
    if hasattr(X, "tocsr"):
        raise DataError(
            f"{name} is a sparse matrix, but sparse input is not supported: pass a table or {name}.toarray(), or "
            "reduce the columns with an encoder: EncodedClassifier(method, encoder=TruncatedSVD(100))."
        )


def require_finite(name: str, X: Floats, *, nan: bool = False, first: int = 0) -> None:
    """Raise for infinity and, unless `nan`, for NaN, with the row and column. `first` is the first row's number."""
    bad = np.isinf(X) if nan else ~np.isfinite(X)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise DataError(
            f"{name} contains {'' if nan else 'NaN or '}infinity (the first in row {first + row}, column {column}, "
            "counting from 0): fill or drop such values, using statistics of public rows only."
        )


def names_of(X: Any) -> list[str] | None:
    """Return the names of a table's columns, or None if X is not a table or a column has no name."""
    names = list(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


@on_public_rows()
def public_rows(estimator: Any, X_public: Any, *, nan: bool = False) -> Floats:
    """Return the public rows as a checked array with the private rows' columns."""
    require_dense("X_public", X_public)
    if X_public is None:
        raise DataError("X_public is missing: give public, unlabelled rows for the teachers to label.")
    require_readable("X_public", X_public)
    # scikit-learn knows columns by name only if all names are strings.
    names = names_of(X_public)
    X_public = np.asarray(X_public) if names is None else X_public
    if X_public.shape[:1] == (0,):
        raise DataError("X_public has no rows: give public, unlabelled rows for the teachers to label.")
    expected = getattr(estimator, "feature_names_in_", None)
    if names is not None and expected is None:
        raise DataError(
            "X_public has column names but X has none: pass both from one transformer that was "
            "fitted on public rows (a Pipeline around this estimator would only transform X)."
        )
    if names is not None:
        own, others = set(names), set(expected)  # type: ignore[arg-type]
        lacks, extra = len(others - own), [str(name) for name in names if name not in others]
        if lacks or extra:
            raise DataError(
                # Names that only X has are not shown: read without a header, they are a record.
                f"X_public and X must have the same columns; X_public lacks {lacks} of X and also has {extra}."
            )
        X_public = X_public[list(expected)]  # type: ignore[arg-type]
    n_columns = X_public.shape[1] if X_public.ndim == 2 else None
    if n_columns not in (None, estimator.n_features_in_):
        raise DataError(f"X_public has {n_columns} columns but X has {estimator.n_features_in_}: use the same columns.")
    rows: Floats = read_rows(
        "X_public",
        lambda: validate_data(estimator, X_public, dtype=np.float64, ensure_all_finite=False, reset=False),
    )
    require_finite("X_public", rows, nan=nan)
    return rows


def require_workers(n_jobs: int | None) -> None:
    """Raise unless the number of workers is valid."""
    if n_jobs is not None:
        number_of_workers("n_jobs", n_jobs)


@on_public_rows()
def public_table(estimator: Any, X_public: Any) -> Any:
    """Return public rows as a table. For declared columns, return a table without rows that has their kinds."""
    require_dense("X_public", X_public)
    if estimator.declared_columns is not None:
        if X_public is not None:
            raise InvalidParameterError(
                "declared_columns are for runs without public rows, but X_public has some: give one of them.",
                parameter="declared_columns",
            )
        return declared_grid(estimator.declared_columns).empty
    require_readable("X_public", X_public)
    if not (X_public is None or hasattr(X_public, "columns")):
        X_public = _array(X_public)
    if X_public is None or not len(X_public):
        raise DataError(
            "X_public is missing or empty: give public, unlabelled rows, or declared_columns instead, a mapping from "
            "each column to its range (low, high) or to a list of its categories."
        )
    public = as_table(X_public)
    return same_columns("public", public, public)


#: Setting ``columns`` of an estimator whose rows stay as they are: texts are categories.
AS_GIVEN = "as given"


class PreparedRows:
    """Private and public rows of an estimator, prepared as public rows and the declarations ``columns`` show.

    Without ``columns``, only tables with texts are prepared. Tables of numbers, arrays, and rows for a feature map of
    the user stay as they are, as all rows do with `AS_GIVEN`. Then `preparation` is None.
    """

    def __init__(self, estimator: Rows, X_public: Rows) -> None:
        self._estimator, self.X_public = estimator, X_public
        self.preparation: TablePreparation | None = None
        self._given: Rows = None
        columns = _declared_kinds(estimator)
        if columns is None and not _has_texts(estimator, X_public):
            return
        public = public_table(estimator, X_public)
        with on_public_rows():
            preparation = TablePreparation(columns=columns).fit(public)
            if columns is None and preparation.changes_nothing:
                return
            self._public, self._given, self.preparation = public, X_public, preparation
            self.X_public = preparation.transform(public)

    def warn(self, units: Rows, read: Rows = None) -> None:
        """Warn about public columns that are left out. `read` may name the units in place of `units`."""
        if self.preparation is not None:
            owners = units, getattr(read, "units", None), getattr(read, "unit", None)
            has_unit = any(one is not None for one in owners)
            warn_of_identifiers(self._public, self.preparation.identifiers_, has_unit=has_unit)

    def private(self, X: Rows) -> Rows:
        """Return private rows as prepared ones. No row changes another."""
        if self.preparation is None:
            return X
        keep_bad = zeroes_bad(self._estimator)
        require_dense("X", X)
        require_others(X, self._given)
        rows = named_by(self._public, checked_entries(X, self._public.shape[1], keep_bad=keep_bad))
        rows = same_columns("X", self.preparation.as_declared(rows), self._public, keep_bad=keep_bad, encoded=True)
        return self.preparation.encoded(rows)

    def blocks(self, read: Rows) -> Rows:
        """Return private rows in blocks or parts, prepared where they are read."""
        if self.preparation is None:
            return read
        # Workers need no public rows.
        lean = copy.copy(self)
        lean._public, lean._given, lean.X_public = self._public.iloc[:0], None, None
        return _PreparedBlocks(read, lean) if callable(read) else converted_source(read, lean._with_labels)

    def _with_labels(self, X: Rows, y: Rows) -> tuple[Rows, Rows]:
        return self.private(X), y

    def publish(self, estimator: Rows) -> None:
        """Let a fitted estimator and its student take rows as they were given."""
        estimator.preparation_ = self.preparation
        if self.preparation is None:
            return
        validate_data(estimator, self._public, skip_check_array=True)
        result = estimator.result_
        student = with_names(Pipeline([("table", self.preparation), *result.student.steps]))
        estimator.result_ = replace(result, student=marked(student, for_release=result.guarantee.for_release))


def _declared_kinds(estimator: Rows) -> Mapping[str, str] | None:
    """Return the declared kinds of columns, or None if rows stay as they are or public rows decide."""
    columns = estimator.columns
    if columns is None or (isinstance(columns, str) and columns == AS_GIVEN):
        return None
    if not isinstance(columns, Mapping):
        raise InvalidParameterError(
            f"columns={shown(columns)} must be a dict such as {{'pay': 'money'}}, None, or {AS_GIVEN!r} to read texts "
            "as categories.",
            parameter="columns",
        )
    if estimator.declared_columns is not None:
        raise InvalidParameterError(
            "columns are read as public rows show them, but declared_columns replace public rows: give one of them.",
            parameter="columns",
        )
    return columns


def _has_texts(estimator: Rows, X_public: Rows) -> bool:
    """Return whether public rows are a table with texts that public rows or declarations may explain."""
    of_user = estimator.declared_columns is not None or getattr(estimator, "feature_map", None) is not None
    if estimator.columns is not None or of_user or names_of(X_public) is None:
        return False
    return not number_columns(as_table(X_public)).all()


class _PreparedBlocks:
    """A reader of private blocks whose rows are prepared. Its units are those of the reader."""

    def __init__(self, read: Rows, rows: PreparedRows) -> None:
        self._read, self._rows = read, rows
        self.units = getattr(read, "units", None)

    def __call__(self) -> Iterator[tuple[Rows, Rows]]:
        for X, y in self._read():
            yield self._rows._with_labels(as_pandas("X", X), y)


def public_unit_numbers(public_units: ArrayLike | None, n_public: int) -> Integers | None:
    """Return the number of each public row's unit, counted from 0. None when units were not given."""
    if public_units is None:
        return None
    if not n_public:
        raise InvalidParameterError(
            "public_units belong to rows of X_public, which declared_columns replace: leave public_units out.",
            parameter="public_units",
        )
    require_readable("public_units", public_units)
    shape = plain_array(public_units).shape
    if shape != (n_public,):
        raise DataError(
            f"public_units has shape {shape} but must have one entry for each of the {n_public} rows of X_public."
        )
    missing = [place for place, name in enumerate(np.asarray(public_units, dtype=object).tolist()) if is_missing(name)]
    if missing:
        raise DataError(
            f"public_units has a missing value (None or NaN; first at row {missing[0]}, counting from 0): give the "
            "unit of every public row, or leave out rows without a unit."
        )
    return unit_numbers(public_units, n_public)


def checked_entries(X: Any, n_columns: int | None = None, *, keep_bad: bool = False, first: int = 0) -> Any:
    """Return rows in which every entry can be read, and none affects how another is read.

    Numbers become floats. An entry that cannot be read raises an error, or is blank with `keep_bad`, as is a row of a
    list that has not `n_columns` entries. `first` is the number of the first row, in errors.
    """
    X = row_array(X, n_columns) if keep_bad and n_columns is not None else X
    require_rows("X", X, keep_bad=keep_bad, first=first)
    X = blanked(X) if keep_bad else X
    if hasattr(X, "columns"):
        return X
    rows = _array(X)
    if rows.dtype.kind in "SU":
        raise DataError(
            f"X is an array of texts (dtype={rows.dtype}), in which numpy also stores numbers beside a text as texts: "
            "pass a DataFrame, or np.asarray(rows, dtype=object)."
        )
    return rows.astype(np.float64) if rows.dtype.kind in "iuf" else rows


def checked_tables(estimator: Any, X: Any, y: Any, X_public: Any) -> tuple[Any, Any, Any]:
    """Return private rows and labels whose entries were checked, and public rows (see `public_table`)."""
    keep_bad = zeroes_bad(estimator)
    require_dense("X", X)
    require_others(X, X_public)
    public = public_table(estimator, X_public)
    X = checked_entries(X, public.shape[1], keep_bad=keep_bad)
    require_labels(y, keep_bad=keep_bad)
    if not len(X):
        raise DataError("X has 0 sample(s) (no records) while a minimum of 1 is required.")
    if hasattr(X, "columns"):
        validate_data(estimator, X, skip_check_array=True)
    else:
        labels = {} if keep_bad else {"y": y}
        checked = validate_data(estimator, X, **labels, dtype=None, ensure_all_finite=False, ensure_min_samples=2)
        X, y = (checked, y) if keep_bad else checked
    require_as_many(X, y)
    return X, y, public


def require_as_many(X: Any, y: Any) -> None:
    """Raise unless there are as many labels as rows."""
    n_labels = len(label_array(y))
    if n_labels != len(X):
        raise DataError(f"X has {len(X)} records, but y has {n_labels} labels: give one for each.")


def _array(X: Any) -> NDArray[Any]:
    """Return rows as an array. Lists become arrays of objects."""
    return np.asarray(X) if hasattr(X, "__array__") else np.asarray(X, dtype=object)


def in_public_columns(
    name: str, X: Rows, columns: Rows, *, declared: bool, keep_bad: bool = False, encoded: bool = False
) -> Rows:
    """Return the rows called `name` as a table with the columns and kinds of the table `columns`."""
    if not declared:
        return same_columns(name, X, columns, keep_bad=keep_bad, encoded=encoded)
    with kinds_by("declared_columns"):
        return same_columns(name, with_texts(X, columns), columns, keep_bad=keep_bad, encoded=encoded)


def new_rows(estimator: Any, X: Any, columns: Any) -> Any:
    """Return rows to classify as a table with the columns and kinds of the empty table `columns`."""
    X = checked_entries(X)
    with names_checked():
        if hasattr(X, "columns"):
            validate_data(estimator, X, skip_check_array=True, reset=False)
        else:
            X = validate_data(estimator, X, dtype=None, ensure_all_finite=False, reset=False)
    return in_public_columns("new", X, columns, declared=estimator.declared_columns is not None)
