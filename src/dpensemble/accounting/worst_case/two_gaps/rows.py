r"""Bounds on three-outcome pairs, each usable as one dominating pair of laws.

Class a is likelier under P, class b and the other classes are likelier under Q. One outcome is described by its
smaller probability `lower` and by the difference ``gain = |P - Q|``. Its share of ``F = sum_o Q_o k(P_o / Q_o)``,
with ``k`` convex and, after subtracting a multiple of ``x - 1`` that sums to nothing, ``k >= 0 = k(1)``, is

    ``f(lower, gain) = gain kappa(gain / lower)``,  ``kappa >= 0`` non-decreasing:

``f`` is homogeneous and convex, and adding the same mass to both laws cannot raise it
(``f(l + m, g) <= f(l, g) + f(m, 0)``). This gives the three rules used everywhere here:

- a smaller `lower`, or a larger `gain`, gives a larger F.
- So does a larger `gain` together with a larger ratio ``gain / lower``.
- The remaining mass goes to a fourth outcome, equal under both laws, and contributes nothing.

The gains of b and the others add up to that of a, because both laws sum to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Floats

# A row that leaves less than this for its likeliest outcome gives no bound.
_LEAST_TOP = 1e-3
# Separates the outcome for the remaining mass from rounding.
_LEAST_REST = 1e-10


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """Bounds on the outcomes a wins, b wins, another class wins, along the last axis of both tables."""

    # The smaller probability of each outcome, above 0, and the difference. The first is the sum of the others.
    lower: Floats
    gain: Floats

    def __getitem__(self, index: Any) -> Rows:
        return Rows(self.lower[index], self.gain[index])

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Return the rows of all parts in one table of shape (n_rows, 3)."""
        lower, gain = (
            np.concatenate([table.reshape(-1, 3) for table in tables])
            for tables in ([part.lower for part in parts], [part.gain for part in parts])
        )
        return cls(lower, gain)

    def merged(self, starts: NDArray[np.intp]) -> Rows:
        """Return one row for each run of rows, from one start to the next, that dominates all of them."""
        gain = np.maximum.reduceat(self.gain, starts, axis=0)
        gain[:, 0] = gain[:, 1] + gain[:, 2]
        ratio = np.maximum.reduceat(self.gain / self.lower, starts, axis=0)
        return Rows(gain / ratio, gain)

    def laws(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Return P, Q of shape (..., 4), and whether each row is a pair of laws."""
        lower, gain = self.lower.copy(), self.gain
        rest = 1 - lower.sum(axis=-1) - gain[..., 0] - _LEAST_REST
        # Too much mass can only be taken when lower bounds were loose. A smaller value is still a lower bound.
        likeliest = lower.argmax(axis=-1)[..., None]
        top = np.take_along_axis(lower, likeliest, axis=-1) + np.minimum(rest, 0.0)[..., None]
        np.put_along_axis(lower, likeliest, top, axis=-1)
        spare = np.maximum(rest, 0.0)[..., None] + _LEAST_REST
        p = np.concatenate([lower[..., :1] + gain[..., :1], lower[..., 1:], spare], axis=-1)
        q = np.concatenate([lower[..., :1], lower[..., 1:] + gain[..., 1:], spare], axis=-1)
        return p, q, top[..., 0] > _LEAST_TOP

    def renyi(self, orders: Floats) -> Floats:
        """Return each row's larger Renyi divergence of the two directions, or infinity if the row is not a pair."""
        # To a relative precision of about 1e-6. It steers the covering, and no bound rests on it.
        p, q, possible = self.laws()
        p, q = (np.where(possible[..., None] & (table > 0), table, 1.0) for table in (p, q))
        loss = np.log(p / q)
        value = np.empty((*possible.shape, orders.size))
        for i, order in enumerate(orders):
            with np.errstate(over="ignore"):
                forth = (p * np.expm1((order - 1) * loss)).sum(axis=-1)
                back = (q * np.expm1((1 - order) * loss)).sum(axis=-1)
            value[..., i] = np.log1p(np.maximum(np.maximum(forth, back), 0.0)) / (order - 1)
        value[~possible] = np.inf
        return value
