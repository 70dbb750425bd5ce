"""Types of arrays, and copies for code of others."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: One class id a teacher and query, in the smallest type.
Ballots = NDArray[np.unsignedinteger]


def own_copy(rows: Any) -> Any:
    """Return a copy of an array, table or sparse matrix, for code of others that may write into what it is given."""
    return rows.copy() if hasattr(rows, "copy") else rows
