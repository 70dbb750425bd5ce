"""The unit of each public row, and means over public rows that weigh units equally."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from dpensemble._arrays import Floats, Integers


@dataclass(frozen=True, eq=False)
class PublicUnits:
    """The unit of each public row, if it is known, and whether private records have units. Public.

    Parameters
    ----------
    numbers : ndarray of shape (n_public,) or None
        The number of each row's unit, counted from 0. None when it is unknown which rows belong to one unit.
    private : bool
        Whether units of private records were given, so that several records may belong to one unit.
    """

    numbers: Integers | None = None
    private: bool = False

    @property
    def known(self) -> bool:
        """Whether the unit of each public row is known."""
        return self.numbers is not None

    @property
    def shares(self) -> Floats | None:
        """Share of each row in a mean that weighs units equally, as private sums do. None when units are unknown."""
        if self.numbers is None:
            return None
        sizes = np.bincount(self.numbers)
        shares: Floats = 1 / (len(sizes) * sizes[self.numbers])
        return shares

    def count(self, n_rows: int) -> int:
        """Return the number of units, or of rows when units are unknown."""
        return n_rows if self.numbers is None else int(self.numbers.max()) + 1

    def covariance(self, features: Floats) -> Floats:
        """Return the covariance of one row of a unit, when units are equally likely, shape (n_features, n_features)."""
        shares = np.full(len(features), 1 / len(features)) if self.shares is None else self.shares
        apart = (features - shares @ features) * np.sqrt(shares)[:, None]
        products: Floats = apart.T @ apart
        return products

    def means(self, features: Floats) -> Floats:
        """Return the mean of the rows of each unit, shape (n_units, n_features)."""
        if self.numbers is None:
            return features
        sizes, rows = np.bincount(self.numbers), np.arange(len(self.numbers))
        average = sparse.csr_matrix((1 / sizes[self.numbers], (self.numbers, rows)))
        return np.asarray(average @ features)
