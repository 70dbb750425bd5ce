"""Rows and labels given to an estimator. Unusable ones are refused before they are converted.

Messages name places and never show an entry. Errors of other libraries, which quote entries, are replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._arrays import is_table
from dpensemble._checks import is_missing
from dpensemble._entries import as_array, is_masked, masked, require_readable
from dpensemble.errors import DataError, DPEnsembleError

Read = TypeVar("Read")
# Parts of errors of NumPy, pandas and scikit-learn that quote an entry, and of those about missing entries.
_SIGNS_OF_AN_ENTRY = ("could not convert", "cannot convert", "too large to convert")
_SIGNS_OF_NAN = ("Input X contains", "not 'NAType'", "not 'NaTType'")

#: The end of a sentence about a target of several columns.
SEVERAL_LABELS = (
    "several labels for each record (multi-label) are not supported; train a model for each column, and divide "
    "epsilon and delta among the models."
)


def require_rows(name: str, X: Any, *, keep_bad: bool = False, first: int = 0) -> None:
    """Raise as `require_readable` does, and for rows in one dimension, which scikit-learn's own message would print."""
    if X is None or is_table(X) or hasattr(X, "tocsr"):
        require_readable(name, X, keep_bad=keep_bad, first=first)
        return
    if is_masked(X):
        raise masked(name)
    rows = as_array(X)
    require_readable(name, rows, keep_bad=keep_bad, first=first)
    if rows.ndim < 2:
        raise DataError(f"Expected 2D array, got {rows.ndim}D: {name} must be a table of rows. Reshape your data.")


def require_labels(y: Any, *, name: str = "y", keep_bad: bool = False, first: int = 0) -> None:
    """Raise as `require_readable` does, for several labels of a record, and for missing labels such as None or NaN."""
    if keep_bad and isinstance(y, (list, tuple)):
        # A list has no declared shape, and each of its labels is judged alone.
        return
    require_readable(name, y, keep_bad=keep_bad, first=first)
    if y is None:
        return
    _require_one_each(name, y)
    if keep_bad:
        return
    labels = as_array(y)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind == "M":
        missing = np.isnat(labels)
    elif labels.dtype.kind == "O":
        missing = np.array([is_missing(label) for label in labels.ravel().tolist()], dtype=bool)
    else:
        return
    if missing.any():
        row = first + int(np.argmax(missing.reshape(len(labels), -1).any(axis=1)))
        raise DataError(
            f"{name} has a missing label (NaN or None, the first in row {row}, counting from 0): correct that label, "
            "or let such records add nothing (on_bad_record='zero')."
        )


def _require_one_each(name: str, y: ArrayLike) -> None:
    """Raise if records have several labels: a table of columns, or a sparse matrix as scikit-learn uses."""
    try:
        # A matrix has a shape, too. Only lists are converted.
        shape = np.shape(y)
    except TypeError:
        # Some containers only allow to be converted.
        shape = np.asarray(y).shape
    except ValueError:
        # Lists of different lengths have no columns. Each is a bad label.
        return
    if len(shape) > 1 and shape[1] > 1:
        raise DataError(f"{name} has {shape[1]:,} columns, but {SEVERAL_LABELS}")


def require_one_per_record(name: str, values: NDArray[Any], n_records: int) -> None:
    """Raise unless there is one entry for each record."""
    if values.shape != (n_records,):
        raise DataError(f"{name} must have one entry for each of {n_records} records; got the shape {values.shape}.")


def read_rows(name: str, read: Callable[[], Read]) -> Read:
    """Return what `read` makes of rows. Errors of other libraries, which may quote an entry, are replaced."""
    try:
        return read()
    except DPEnsembleError:
        raise
    except (ArithmeticError, TypeError, ValueError) as error:
        # A TypeError about an entry of another type, such as a dict, names only its type, so it is raised.
        nan = any(sign in str(error) for sign in _SIGNS_OF_NAN)
        if not nan and not any(sign in str(error) for sign in _SIGNS_OF_AN_ENTRY):
            raise
    # Outside the handler, so that the first error does not become the context of this one.
    if nan:
        raise DataError(f"{name} contains NaN or infinity: fill or drop such values, using public statistics only.")
    raise DataError(f"{name} has entries that are not numbers: encode text columns first, as EncodedClassifier does.")
