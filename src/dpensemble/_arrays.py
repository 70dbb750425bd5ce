"""Types of arrays."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: One class id a teacher and query, in the smallest type.
Ballots = NDArray[np.unsignedinteger]
