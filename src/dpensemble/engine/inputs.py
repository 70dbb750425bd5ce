"""Checks of the arrays that `fit` gets. Messages never quote a private value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Floats
from dpensemble._checks import number_of_workers
from dpensemble._entries import require_readable
from dpensemble._given import read_rows
from dpensemble._guard import on_public_rows
from dpensemble.datasets.equal_rows import share_memory
from dpensemble.errors import DataError, InvalidParameterError


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


def require_workers(n_jobs: int | None) -> None:
    """Raise unless the number of workers is valid."""
    if n_jobs is not None:
        number_of_workers("n_jobs", n_jobs)
