"""Checks of what `fit` is given; messages never quote a private value."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import declared_classes, integer_between, is_missing
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.relations import Relation


def require_finite(name: str, X: Floats) -> None:
    """Refuse NaN and infinity, naming the first row and column."""
    bad = ~np.isfinite(X)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise DataError(
            f"{name} contains NaN or infinity (first at row {row}, column {column}, counting from 0); "
            "fill or drop such values, using statistics of public rows only."
        )


def public_rows(estimator: Any, X_public: Any) -> Floats:
    """Return the public rows as a checked array with the private rows' columns."""
    if X_public is None:
        raise DataError("X_public is missing: pass public, unlabelled rows for the teachers to label.")
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
        lacks = sum(name not in set(names) for name in expected)  # type: ignore[union-attr]
        extra = [str(name) for name in names if name not in set(expected)]  # type: ignore[arg-type]
        if lacks or extra:
            raise DataError(
                # Names of X alone stay unsaid: read without a header, they are a record.
                f"X_public and X must have the same columns; X_public lacks {lacks} of X and has in excess {extra}."
            )
        X_public = X_public[list(expected)]  # type: ignore[arg-type]
    n_columns = X_public.shape[1] if X_public.ndim == 2 else None
    if n_columns not in (None, estimator.n_features_in_):
        raise DataError(f"X_public has {n_columns} columns but X has {estimator.n_features_in_}; use the same columns.")
    rows: Floats = validate_data(estimator, X_public, dtype=np.float64, ensure_all_finite=False, reset=False)
    require_finite("X_public", rows)
    return rows


def private_rows(estimator: Any, X: Any, y: Any) -> tuple[Floats, NDArray[Any]]:
    """Return records and labels as arrays, checked in form but not yet in content."""
    try:
        X, y = validate_data(estimator, X, y, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=2)
    except ValueError as error:
        if "could not convert" in str(error):
            # The original text quotes the entry.
            raise DataError("X has entries that are not numbers; encode text columns first.") from None
        raise
    return X, y


def class_ids(estimator: Any, y: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
    """Return the declared classes, sorted, and each label's position among them."""
    classes = np.unique(np.asarray(declared_classes(estimator.classes)))
    with warnings.catch_warnings():
        # Many classes are no mistake where they are declared.
        warnings.simplefilter("ignore", UserWarning)
        check_classification_targets(classes)
    labels = np.asarray(y)
    if (labels.dtype.kind in "OUS") != (classes.dtype.kind in "OUS"):
        raise DataError(f"Unknown label type: classes={classes.tolist()!r} and the labels in y are of different types.")
    ids = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    undeclared = np.flatnonzero(classes[ids] != labels)
    if undeclared.size:
        raise DataError(
            f"the private labels (y) hold one that is not among classes={classes.tolist()!r} (first at "
            f"row {undeclared[0]}, counting from 0); declare every possible label or drop those rows."
        )
    return classes, ids


def identities(X: Floats, targets: Integers, units: ArrayLike | None, relation: Relation) -> Sequence[Hashable]:
    """Return the unit of each record: declared, by position, or by content."""
    if units is not None:
        declared = np.asarray(units, dtype=object)
        require_one_per_record("units", declared, len(X))
        names: list[Hashable] = declared.tolist()
        if any(map(is_missing, names)):
            raise DataError("units has a missing value; every record needs a unit.")
        return names
    if relation is Relation.REPLACE_ONE:
        return range(len(X))
    # A position would shift when another record goes; the content of a record does not.
    return [row.tobytes() + target.tobytes() for row, target in zip(X, targets, strict=True)]


def require_one_per_record(name: str, values: NDArray[Any], n_records: int) -> None:
    """Refuse what does not have one entry per record."""
    if values.shape != (n_records,):
        raise DataError(f"{name} has shape {values.shape} but must have one entry for each of {n_records} records.")


def require_workers(n_jobs: int | None) -> None:
    """Refuse what is no number of workers."""
    if n_jobs is not None and integer_between("n_jobs", n_jobs, -1024, 1024) == 0:
        raise InvalidParameterError(
            "n_jobs=0 is no number of workers; use 1 or more, or -1 for all cores.", parameter="n_jobs"
        )
