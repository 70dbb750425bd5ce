"""The experiment split of the DPBag paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between
from dpensemble._random import Stream, public_entropy, seed_sequence


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of the private, public and test rows. They are disjoint, and together they are all rows."""

    private: NDArray[np.int64]
    public: NDArray[np.int64]
    test: NDArray[np.int64]


def three_way_split(n_rows: int, random_state: int | None = None) -> Split:
    """Divide rows at random into a third private, a third public and a third test.

    Parameters
    ----------
    n_rows : int
        Number of rows, at least 3.
    random_state : int or None
        Seed.

    Returns
    -------
    Split
        Sizes differ by at most one.

    References
    ----------
    Jordon et al. 2019, section 5.

    Examples
    --------
    >>> split = three_way_split(10, random_state=0)
    >>> len(split.private), len(split.public), len(split.test)
    (4, 3, 3)
    """
    n_rows = integer_between("n_rows", n_rows, 3)
    generator = np.random.default_rng(seed_sequence(public_entropy(random_state), Stream.SPLIT))
    return Split(*np.array_split(generator.permutation(n_rows), 3))
