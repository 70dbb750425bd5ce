"""What answering cost, as a curve of Renyi divergences that adds up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import delta_of, integer_between
from dpensemble.errors import AccountingError

# Renyi orders l + 1 of the moments l = 1, 2, ...: every one up to 256, then 5 % apart for tiny epsilons.
DEFAULT_ORDERS: NDArray[np.float64] = 1.0 + np.concatenate(
    [np.arange(1, 257), np.unique(np.ceil(256 * 1.05 ** np.arange(1, 171)))]
)
DEFAULT_ORDERS.flags.writeable = False

# Far above the rounding of the few operations in `epsilon`, far below any figure that is shown.
_ROUND_UP = 1.0 + 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyCost:
    """Renyi differential privacy of everything answered so far.

    Costs of successive (also adaptively chosen) answers add; ``cost * 100`` is
    a hundred of the same. A cost with a NaN, infinite or negative entry is
    refused, so no arithmetic accident can make answers look free.

    Parameters
    ----------
    rdp : ndarray of shape (n_orders,)
        Upper bounds on the Renyi divergence, in nats, one an order.
    orders : ndarray of shape (n_orders,)
        Renyi orders, increasing and above 1.

    Raises
    ------
    AccountingError
        If an entry is not finite, a divergence is negative or an order is not above 1.

    References
    ----------
    I. Mironov, "Renyi differential privacy", CSF 2017: Proposition 1
    (composition) and Proposition 3 (conversion). In the notation of Abadi et
    al. (2016) the moment is ``alpha(l) = l * rdp(l + 1)``.

    Examples
    --------
    >>> one = PrivacyCost(rdp=0.0032 / 2 * DEFAULT_ORDERS)
    >>> round((one * 10).epsilon(1e-3), 3)
    0.681
    """

    rdp: NDArray[np.float64]
    orders: NDArray[np.float64] = field(default_factory=lambda: DEFAULT_ORDERS)

    def __post_init__(self) -> None:
        rdp = np.array(self.rdp, dtype=np.float64)
        orders = np.array(self.orders, dtype=np.float64)
        if rdp.ndim != 1 or rdp.shape != orders.shape or rdp.size == 0:
            raise AccountingError("rdp and orders must be non-empty and of one length.")
        if not (np.all(np.isfinite(orders)) and np.all(orders > 1) and np.all(np.diff(orders) > 0)):
            raise AccountingError("orders must be finite, increasing and above 1.")
        if not (np.all(np.isfinite(rdp)) and np.all(rdp >= 0)):
            raise AccountingError("a privacy cost that is NaN, infinite or negative is refused.")
        for name, array in (("rdp", rdp), ("orders", orders)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def zero(cls) -> PrivacyCost:
        """Return the cost of answering nothing."""
        return cls(rdp=np.zeros_like(DEFAULT_ORDERS))

    def __add__(self, other: PrivacyCost) -> PrivacyCost:
        if not isinstance(other, PrivacyCost):
            return NotImplemented
        if not np.array_equal(self.orders, other.orders):
            raise AccountingError("costs over different orders cannot be added.")
        return PrivacyCost(rdp=self.rdp + other.rdp, orders=self.orders)

    def __mul__(self, count: int) -> PrivacyCost:
        return PrivacyCost(rdp=self.rdp * integer_between("count", count, 0, 2**62), orders=self.orders)

    __rmul__ = __mul__

    def epsilon(self, delta: float) -> float:
        """Convert to the epsilon that holds at `delta`.

        Uses ``min over orders of rdp + log(1/delta) / (order - 1)``, the
        conversion of the published moments accountant (Abadi et al. 2016,
        Theorem 2.2; Jordon et al. 2019, Theorem 3).

        Parameters
        ----------
        delta : float
            Strictly between 0 and 1.

        Returns
        -------
        float
            Epsilon, rounded up by a relative 1e-13. Exactly 0 if nothing was spent.
        """
        delta = delta_of(delta)
        if not self.rdp.any():
            return 0.0
        return float(np.min(self.rdp + math.log(1 / delta) / (self.orders - 1))) * _ROUND_UP
