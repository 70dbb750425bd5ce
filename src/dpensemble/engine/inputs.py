"""Checks of what `fit` is given; messages never quote a private value."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import declared_classes, integer_between, names_checked
from dpensemble._entries import blanked, require_readable
from dpensemble._given import read_rows, require_labels, require_one_per_record, require_rows
from dpensemble._guard import on_public_rows
from dpensemble.allocation.units import declared_units
from dpensemble.datasets import as_table, same_columns
from dpensemble.datasets.bad_records import (
    BAD,
    as_numbers,
    class_ids_or_bad,
    readable_array,
    readable_rows,
    units_or_none,
    zeroes_bad,
)
from dpensemble.datasets.tables import kinds_by
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments import declared_grid, with_texts
from dpensemble.relations import Relation


def require_finite(name: str, X: Floats, *, nan: bool = False, first: int = 0) -> None:
    """Refuse infinity and, unless `nan` may be, NaN, naming the row and column; `first` is the first row's number."""
    bad = np.isinf(X) if nan else ~np.isfinite(X)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise DataError(
            f"{name} contains {'' if nan else 'NaN or '}infinity (first at row {first + row}, column {column}, "
            "counting from 0); fill or drop such values, using statistics of public rows only."
        )


def names_of(X: Any) -> list[str] | None:
    """Return the names of a table's columns; None when X is no table, or when a column has no name."""
    names = list(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def require_dense(name: str, X: Any) -> None:
    """Refuse sparse matrices: lengths, statistics of public rows and identities by content are those of dense rows."""
    if hasattr(X, "tocsr"):
        raise DataError(
            f"{name} is a sparse matrix, and sparse input is not supported; pass a table or {name}.toarray(), or make "
            "few columns of many by an encoder: EncodedClassifier(method, encoder=TruncatedSVD(100))."
        )


def refuse_others(others: Mapping[str, Any]) -> None:
    """Refuse what `fit` does not take; of weights it says why."""
    if others.get("sample_weight") is not None:
        raise InvalidParameterError(
            "sample_weight is not supported: weights are usually computed from all records together, so that one "
            "record would change the weights of others, which no guarantee here covers; use a teacher with "
            "class_weight, which weighs within its own records, or budgets by group.",
            parameter="sample_weight",
        )
    unknown = [name for name in others if name != "sample_weight"]
    if unknown:
        raise TypeError(f"fit() got an unexpected keyword argument {unknown[0]!r}")


def take_nan(*learners: Any) -> bool:
    """Return whether all of these learners take NaN for what is missing; one that is not given does not."""
    return all(one is not None and get_tags(one).input_tags.allow_nan for one in learners)


@on_public_rows()
def public_rows(estimator: Any, X_public: Any, *, nan: bool = False) -> Floats:
    """Return the public rows as a checked array with the private rows' columns."""
    require_dense("X_public", X_public)
    if X_public is None:
        raise DataError("X_public is missing: pass public, unlabelled rows for the teachers to label.")
    require_readable("X_public", X_public)
    names = getattr(X_public, "columns", None)
    if names is not None and not all(isinstance(name, str) for name in names):
        names = None  # scikit-learn knows columns by name only if all names are strings
    X_public = np.asarray(X_public) if names is None else X_public
    if X_public.shape[:1] == (0,):
        raise DataError("X_public has no rows; pass public, unlabelled rows for the teachers to label.")
    expected = getattr(estimator, "feature_names_in_", None)
    if names is not None and expected is None:
        raise DataError(
            "X_public has column names but X has none; pass both as they come from one transformer that was "
            "fitted on public rows (a Pipeline around this estimator would transform X alone)."
        )
    if names is not None:
        own, others = set(names), set(expected)  # type: ignore[arg-type]
        lacks, extra = len(others - own), [str(name) for name in names if name not in others]
        if lacks or extra:
            raise DataError(
                # Names of X alone stay unsaid: read without a header, they are a record.
                f"X_public and X must have the same columns; X_public lacks {lacks} of X and has in excess {extra}."
            )
        X_public = X_public[list(expected)]  # type: ignore[arg-type]
    n_columns = X_public.shape[1] if X_public.ndim == 2 else None
    if n_columns not in (None, estimator.n_features_in_):
        raise DataError(f"X_public has {n_columns} columns but X has {estimator.n_features_in_}; use the same columns.")
    rows: Floats = read_rows(
        "X_public",
        lambda: validate_data(estimator, X_public, dtype=np.float64, ensure_all_finite=False, reset=False),
    )
    require_finite("X_public", rows, nan=nan)
    return rows


@on_public_rows()
def public_table(estimator: Any, X_public: Any) -> Any:
    """Return public rows as a table; where columns are declared instead, one without rows that says their kinds."""
    require_dense("X_public", X_public)
    if estimator.declared_columns is not None:
        if X_public is not None:
            raise InvalidParameterError(
                "declared_columns are for runs without public rows, but X_public has some; give one of them.",
                parameter="declared_columns",
            )
        return declared_grid(estimator.declared_columns).empty
    require_readable("X_public", X_public)
    if not (X_public is None or hasattr(X_public, "columns")):
        X_public = _array(X_public)
    if X_public is None or not len(X_public):
        raise DataError(
            "X_public is missing or empty: pass public, unlabelled rows, or declared_columns instead, a mapping from "
            "each column to its range (low, high) or to a list of its categories."
        )
    public = as_table(X_public)
    return same_columns("public", public, public)


def block(estimator: Any, X: Any, public: Any, *, first: int = 0) -> Any:
    """Return private rows as a table of the public columns' kinds; bad records are refused, or kept as they are.

    In messages `first` is the first row's number.
    """
    keep_bad = zeroes_bad(estimator)
    require_rows("X", X, keep_bad=keep_bad, first=first)
    return _like("private", estimator, blanked(X) if keep_bad else X, public, keep_bad=keep_bad)


def tables(estimator: Any, X: Any, y: Any, X_public: Any) -> tuple[Any, Any, Any]:
    """Return private rows, labels, and public rows (see `public_table`), rows as tables of the same kinds."""
    require_dense("X", X)
    if X_public is X and X is not None:
        raise DataError("X_public is X itself; the public rows must be others than the private records.")
    require_rows("X", X, keep_bad=zeroes_bad(estimator))
    require_labels(y, keep_bad=zeroes_bad(estimator))
    public = public_table(estimator, X_public)
    X = each_alone("X", blanked(X) if zeroes_bad(estimator) else X)
    if not len(X):
        raise DataError("X has 0 sample(s) (no records) while a minimum of 1 is required.")
    if hasattr(X, "columns"):
        validate_data(estimator, X, skip_check_array=True)
        y = np.asarray(y).ravel()
    else:
        labels = {} if zeroes_bad(estimator) else {"y": y}
        checked = validate_data(estimator, X, **labels, dtype=None, ensure_all_finite=False, ensure_min_samples=2)
        X, y = (checked, y) if zeroes_bad(estimator) else checked
    y = np.asarray(y, dtype=None if hasattr(y, "dtype") else object).ravel() if zeroes_bad(estimator) else y
    if len(y) != len(X):
        raise DataError(f"X has {len(X)} records and y {len(y)} labels; give one for each.")
    return block(estimator, X, public), y, public


def each_alone(name: str, X: Any) -> Any:
    """Return rows in which no entry decides how another is read, as it would where numpy finds a type for all of them.

    A table stays as it is, and so do objects; numbers are read as floats.
    """
    if hasattr(X, "columns"):
        return X
    rows = _array(X)
    if rows.dtype.kind in "SU":
        raise DataError(
            f"{name} is an array of texts (dtype={rows.dtype}), as which numpy also writes the numbers beside a text; "
            "pass a DataFrame, or np.asarray(rows, dtype=object)."
        )
    return rows.astype(np.float64) if rows.dtype.kind in "iuf" else rows


def _array(X: Any) -> NDArray[Any]:
    """Return rows as an array; of lists, as objects."""
    return np.asarray(X) if hasattr(X, "__array__") else np.asarray(X, dtype=object)


def _like(name: str, estimator: Any, X: Any, columns: Any, *, keep_bad: bool = False) -> Any:
    X = each_alone("X", X)
    if estimator.declared_columns is None:
        return same_columns(name, X, columns, keep_bad=keep_bad)
    with kinds_by("declared_columns"):
        return same_columns(name, with_texts(X, columns), columns, keep_bad=keep_bad)


def required(y: Any) -> Any:
    """Return the labels, refusing none at all."""
    if y is None:
        raise DataError("this method requires y to be passed, but the target y is None; pass the private labels.")
    return y


def new_rows(estimator: Any, X: Any, columns: Any) -> Any:
    """Return rows to classify as a table with the columns and kinds of `columns`, a table without rows."""
    require_rows("X", X)
    X = each_alone("X", X)
    with names_checked():
        if hasattr(X, "columns"):
            validate_data(estimator, X, skip_check_array=True, reset=False)
        else:
            X = validate_data(estimator, X, dtype=None, ensure_all_finite=False, reset=False)
    return _like("new", estimator, X, columns)


def array_records(estimator: Any, X: Any, y: Any, *, nan: bool) -> tuple[Floats, NDArray[Any], Integers]:
    """Return private records as an array, the declared classes, and each record's class.

    A bad record is refused or, if the estimator zeroes bad records, a row of zeros of the class `BAD`.

    Parameters
    ----------
    estimator : estimator
        Whose `fit` was called; learns the columns of X.
    X, y : array-like
        Private records and labels.
    nan : bool
        Whether entries may be missing.
    """
    require_dense("X", X)
    zeroes = zeroes_bad(estimator)
    require_rows("X", X, keep_bad=zeroes)
    require_labels(y, keep_bad=zeroes)
    if zeroes:
        return _with_zeros(estimator, X, y, nan)
    X, y = read_rows(
        "X",
        lambda: validate_data(estimator, X, y, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=2),
    )
    require_finite("X", X, nan=nan)
    classes, targets = class_ids(estimator, y)
    return X, classes, targets


def _with_zeros(estimator: Any, X: Any, y: Any, nan: bool) -> tuple[Floats, NDArray[Any], Integers]:
    numbers = as_numbers(blanked(X))
    rows: Floats = validate_data(estimator, numbers, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=2)
    classes = _declared(estimator)
    targets = _targets_or_bad(classes, required(y), len(rows))
    targets[~readable_array(rows, nan=nan)] = BAD
    return np.where((targets == BAD)[:, None], 0.0, rows), classes, targets


def table_targets(estimator: Any, table: Any, y: Any, *, first: int = 0) -> tuple[Any, NDArray[Any], Integers]:
    """Return private rows, the declared classes, and each record's class.

    Parameters
    ----------
    estimator : estimator
        Whose `fit` was called.
    table : DataFrame
        Private rows, from `tables` or `block`.
    y : array-like of shape (n_records,)
        Private labels.
    first : int
        Number of the first row, for messages.
    """
    if not zeroes_bad(estimator):
        require_labels(y, first=first)
        classes, targets = class_ids(estimator, np.asarray(y), first=first)
        return table, classes, targets
    require_labels(y, keep_bad=True)
    classes = _declared(estimator)
    table, readable = readable_rows(table)
    targets = _targets_or_bad(classes, y, len(table))
    targets[~readable] = BAD
    return table, classes, targets


def _declared(estimator: Any) -> NDArray[Any]:
    return class_ids(estimator, np.asarray(estimator.classes))[0]


def _targets_or_bad(classes: NDArray[Any], y: Any, n_records: int) -> Integers:
    labels = y if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    if classes.dtype.kind in "OUS" and getattr(labels.dtype, "kind", "O") in "biufc":
        # By type, before any label is looked at: else every record would be bad.
        raise DataError(f"Unknown label type: classes={classes.tolist()!r} and the labels in y are of different types.")
    targets = class_ids_or_bad(classes, np.asarray(labels).ravel())
    if len(targets) != n_records:
        raise DataError(f"X has {n_records} records and y {len(targets)} labels; give one for each.")
    return targets


def whose(estimator: Any, units: ArrayLike | None, n_records: int) -> tuple[ArrayLike | None, NDArray[np.bool_]]:
    """Return whom each record belongs to, and which records have a unit.

    If the estimator zeroes bad records, a record without a unit is no part of the data: callers leave the record out,
    see `having_unit`, before units are numbered, so that no other unit has another number because of the record.
    """
    zeroes = units is not None and zeroes_bad(estimator)
    require_readable("units", units, keep_bad=zeroes)
    if units is None or not zeroes:
        return units, np.ones(n_records, dtype=bool)
    names, present = units_or_none(units)
    require_one_per_record("units", names, n_records)
    return names[present], present


def having_unit(present: NDArray[np.bool_], *columns: Any) -> tuple[Any, ...]:
    """Return what belongs to records that have a unit: rows, labels and the like; None stays None."""
    if present.all():
        return columns
    return tuple(None if one is None else one[present] for one in columns)


def values_having_unit(name: str, values: Any, present: NDArray[np.bool_]) -> Any:
    """Return one value for each record that has a unit; as they are when all records have one."""
    if values is None or present.all():
        return values
    require_readable(name, values)
    values = np.asarray(values)
    require_one_per_record(name, values, len(present))
    return values[present]


def class_ids(estimator: Any, y: NDArray[Any], *, first: int = 0) -> tuple[NDArray[Any], Integers]:
    """Return the declared classes, sorted, and each label's position among them; `first` is the first label's row."""
    classes = np.unique(np.asarray(declared_classes(estimator.classes)))
    with warnings.catch_warnings():
        # Many classes are no mistake where they are declared.
        warnings.simplefilter("ignore", UserWarning)
        check_classification_targets(classes)
    labels = np.asarray(y)
    if (labels.dtype.kind in "OUS") != (classes.dtype.kind in "OUS"):
        raise DataError(f"Unknown label type: classes={classes.tolist()!r} and the labels in y are of different types.")
    try:
        ids = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    except TypeError:
        # Texts among numbers; the original text names types only, but is no sentence.
        raise DataError("the private labels (y) mix texts and numbers; write all of them as the classes are.") from None
    undeclared = np.flatnonzero(classes[ids] != labels)
    if undeclared.size:
        raise DataError(
            f"the private labels (y) hold one that is not among classes={classes.tolist()!r} (first at "
            f"row {first + undeclared[0]}, counting from 0); declare every possible label or drop those rows."
        )
    return classes, ids


def identities(X: Floats, targets: Integers, units: ArrayLike | None, relation: Relation) -> Sequence[Hashable]:
    """Return the unit of each record: declared, by position, or by content."""
    if units is not None:
        return declared_units(units, len(X))
    if relation is Relation.REPLACE_ONE:
        return range(len(X))
    # A position would shift when another record goes; the content of a record does not.
    return [row.tobytes() + target.tobytes() for row, target in zip(X, targets, strict=True)]


def one_per_record(name: str, values: ArrayLike, n_records: int) -> NDArray[Any]:
    """Return the values called `name` as objects, one for each record, refusing what is masked or complex."""
    require_readable(name, values)
    found = np.asarray(values, dtype=object)
    require_one_per_record(name, found, n_records)
    return found


def require_workers(n_jobs: int | None) -> None:
    """Refuse what is no number of workers."""
    if n_jobs is not None and integer_between("n_jobs", n_jobs, -1024, 1024) == 0:
        raise InvalidParameterError(
            "n_jobs=0 is no number of workers; use 1 or more, or -1 for all cores.", parameter="n_jobs"
        )
