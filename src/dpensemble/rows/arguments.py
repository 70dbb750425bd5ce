"""Checks of the arguments that `fit` gets: rows as arrays or as tables, and public rows.

Messages never quote a private value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import is_missing, names_checked, number_of_workers
from dpensemble._hide_private_rows import on_public_rows
from dpensemble._refusals import (
    blanked,
    label_array,
    plain_array,
    read_rows,
    require_labels,
    require_readable,
    require_rows,
    row_array,
)
from dpensemble.allocation.partition import unit_numbers
from dpensemble.datasets import as_table, same_columns
from dpensemble.datasets.equal_rows import share_memory
from dpensemble.datasets.tables import kinds_by
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments.maps.grid import declared_grid, with_texts
from dpensemble.rows.bad_records import zeroes_bad


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


def in_order_of(names: list[str] | None, X: Any) -> Any:
    """Return rows with their columns in the order of `names`, if these are all of their names."""
    own = names_of(X)
    if names is None or own is None or names == own or set(names) != set(own):
        return X
    return X[names]


def take_nan(*learners: Any) -> bool:
    """Return whether all of these learners accept NaN for missing entries. None does not."""
    return all(one is not None and get_tags(one).input_tags.allow_nan for one in learners)


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


def width_of(X_public: object) -> int | None:
    """Return the number of columns of public rows, or None if they are no table."""
    shape = getattr(X_public, "shape", None)
    shape = plain_array(X_public).shape if shape is None else shape
    return int(shape[1]) if len(shape) == 2 else None


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


def checked_entries(X: Any, n_columns: int, *, keep_bad: bool, first: int = 0) -> Any:
    """Return private rows in which every entry can be read, and none affects how another is read.

    Other entries raise errors, or are blank with `keep_bad`. `first` is the number of the first row, in errors.
    """
    X = row_array(X, n_columns) if keep_bad else X
    require_rows("X", X, keep_bad=keep_bad, first=first)
    return _each_alone("X", blanked(X) if keep_bad else X)


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


def _each_alone(name: str, X: Any) -> Any:
    """Return rows in which no entry affects how another is read. Numbers become floats, other rows stay unchanged."""
    if hasattr(X, "columns"):
        return X
    rows = _array(X)
    if rows.dtype.kind in "SU":
        raise DataError(
            f"{name} is an array of texts (dtype={rows.dtype}), in which numpy also stores numbers beside a text as "
            "texts: pass a DataFrame, or np.asarray(rows, dtype=object)."
        )
    return rows.astype(np.float64) if rows.dtype.kind in "iuf" else rows


def _array(X: Any) -> NDArray[Any]:
    """Return rows as an array. Lists become arrays of objects."""
    return np.asarray(X) if hasattr(X, "__array__") else np.asarray(X, dtype=object)


def in_public_columns(name: str, X: Any, columns: Any, *, declared: bool, keep_bad: bool = False) -> Any:
    """Return the rows called `name` as a table with the columns and kinds of the table `columns`."""
    if not declared:
        return same_columns(name, X, columns, keep_bad=keep_bad)
    with kinds_by("declared_columns"):
        return same_columns(name, with_texts(X, columns), columns, keep_bad=keep_bad)


def new_rows(estimator: Any, X: Any, columns: Any) -> Any:
    """Return rows to classify as a table with the columns and kinds of the empty table `columns`."""
    require_rows("X", X)
    X = _each_alone("X", X)
    with names_checked():
        if hasattr(X, "columns"):
            validate_data(estimator, X, skip_check_array=True, reset=False)
        else:
            X = validate_data(estimator, X, dtype=None, ensure_all_finite=False, reset=False)
    return in_public_columns("new", X, columns, declared=estimator.declared_columns is not None)
