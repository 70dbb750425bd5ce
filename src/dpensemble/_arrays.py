"""Types of arrays, and common properties of rows in an array, a table or a sparse matrix."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: Python integers, which never overflow.
BigIntegers = NDArray[np.object_]
#: Rows or features: a table of pandas, an array or a sparse matrix.
Rows = Any
#: One class id for each teacher and query, in the smallest type.
Ballots = NDArray[np.unsignedinteger]


def own_copy(rows: Any) -> Any:
    """Return a copy of an array, table or sparse matrix, for foreign code that may modify its arguments."""
    return rows.copy() if hasattr(rows, "copy") else rows


def is_table(rows: object) -> bool:
    """Return whether rows are a table with column names."""
    return hasattr(rows, "columns")


def row_count(rows: Any) -> int:
    """Return the number of rows of an array, table, list or sparse matrix. The last has no length."""
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)


def rows_at(rows: Any, part: slice) -> Any:
    """Return a part of the rows of an array, table, list or sparse matrix, by position."""
    return (rows.iloc if hasattr(rows, "iloc") else rows)[part]


def dense(features: Any) -> Any:
    """Return a sparse matrix as an array, and anything else unchanged."""
    return features.toarray() if hasattr(features, "toarray") else features
