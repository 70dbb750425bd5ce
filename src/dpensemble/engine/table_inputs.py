"""Checks of the tables that `fit` gets. Messages never quote a private value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Integers
from dpensemble._checks import is_missing, names_checked
from dpensemble._entries import blanked, label_array, plain_array, require_readable, row_array
from dpensemble._given import require_labels, require_rows
from dpensemble._guard import on_public_rows
from dpensemble.allocation.units import unit_numbers
from dpensemble.datasets import as_table, same_columns
from dpensemble.datasets.bad_records import BAD, readable_rows, zeroes_bad
from dpensemble.datasets.tables import kinds_by
from dpensemble.engine.inputs import require_dense, require_others
from dpensemble.engine.labels_and_units import class_ids, ids_or_bad
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments.grid import declared_grid, with_texts


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


def block(estimator: Any, X: Any, public: Any, *, first: int = 0) -> Any:
    """Return private rows as a table with the public columns' kinds. In messages, `first` is the first row's number."""
    keep_bad = zeroes_bad(estimator)
    X = row_array(X, public.shape[1]) if keep_bad else X
    require_rows("X", X, keep_bad=keep_bad, first=first)
    return _like("private", estimator, blanked(X) if keep_bad else X, public, keep_bad=keep_bad)


def tables(estimator: Any, X: Any, y: Any, X_public: Any) -> tuple[Any, Any, Any]:
    """Return private rows, labels, and public rows (see `public_table`), with rows as tables of the same kinds."""
    require_dense("X", X)
    require_others(X, X_public)
    public = public_table(estimator, X_public)
    X = row_array(X, public.shape[1]) if zeroes_bad(estimator) else X
    require_rows("X", X, keep_bad=zeroes_bad(estimator))
    require_labels(y, keep_bad=zeroes_bad(estimator))
    X = each_alone("X", blanked(X) if zeroes_bad(estimator) else X)
    if not len(X):
        raise DataError("X has 0 sample(s) (no records) while a minimum of 1 is required.")
    if hasattr(X, "columns"):
        validate_data(estimator, X, skip_check_array=True)
    else:
        labels = {} if zeroes_bad(estimator) else {"y": y}
        checked = validate_data(estimator, X, **labels, dtype=None, ensure_all_finite=False, ensure_min_samples=2)
        X, y = (checked, y) if zeroes_bad(estimator) else checked
    n_labels = len(label_array(y))
    if n_labels != len(X):
        raise DataError(f"X has {len(X)} records, but y has {n_labels} labels: give one for each.")
    return block(estimator, X, public), y, public


def each_alone(name: str, X: Any) -> Any:
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


def _like(name: str, estimator: Any, X: Any, columns: Any, *, keep_bad: bool = False) -> Any:
    X = each_alone("X", X)
    if estimator.declared_columns is None:
        return same_columns(name, X, columns, keep_bad=keep_bad)
    with kinds_by("declared_columns"):
        return same_columns(name, with_texts(X, columns), columns, keep_bad=keep_bad)


def new_rows(estimator: Any, X: Any, columns: Any) -> Any:
    """Return rows to classify as a table with the columns and kinds of the empty table `columns`."""
    require_rows("X", X)
    X = each_alone("X", X)
    with names_checked():
        if hasattr(X, "columns"):
            validate_data(estimator, X, skip_check_array=True, reset=False)
        else:
            X = validate_data(estimator, X, dtype=None, ensure_all_finite=False, reset=False)
    return _like("new", estimator, X, columns)


def table_targets(classes: NDArray[Any], table: Any, y: Any, *, zeroes: bool, first: int = 0) -> tuple[Any, Integers]:
    """Return private rows and each record's class."""
    require_labels(y, keep_bad=zeroes, first=first)
    if not zeroes:
        return table, class_ids(classes, y, first=first)
    table, readable = readable_rows(table)
    targets = ids_or_bad(classes, y, len(table))
    targets[~readable] = BAD
    return table, targets
