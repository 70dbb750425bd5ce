"""Private records as they come in, and released labels as they go out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble.allocation.partition import number_units
from dpensemble.budget import Budget


@dataclass(frozen=True, eq=False)
class ReleasedLabels:
    """The labels that were released, and the public rows that they belong to.

    Parameters
    ----------
    indices : ndarray of shape (n_labels,)
        Positions in ``X_public`` of the answered rows, in the order of asking.
    labels : ndarray of shape (n_labels,)
        Released label of each. Covered by the guarantee.
    n_asked : int
        Public rows that the teachers were asked about; more than were answered under a gate.
    """

    indices: NDArray[np.int64]
    labels: NDArray[Any]
    n_asked: int

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False, repr=False)
class PrivateRecords:
    """Checked private records, and whose they are.

    `X` (an array, or `RowsInBlocks`), `targets` (class ids) and `identities` (unit of each record: declared, by
    position, or by content) are private; `units`, where declared, and `group_of_record`, where budgets differ, are
    public.
    """

    X: Any
    targets: NDArray[np.int64]
    units: ArrayLike | None
    identities: Sequence[Hashable]
    group_of_record: NDArray[np.int64] | None = None

    def check_delta(self, budget: Budget) -> None:
        """Refuse a delta that would allow publishing one record or unit outright."""
        if self.units is None:
            # By content, equal records are one unit; the number to beat is still that of records.
            budget.check_delta_for(len(self.X))
        else:
            budget.check_delta_for(len(number_units(self.identities)[0]), "units")
