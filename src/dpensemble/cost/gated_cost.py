"""Cost of gated queries under a purse: a Renyi curve, and their exact composition."""

from __future__ import annotations

from dataclasses import dataclass

from dpensemble._checks import integer_between
from dpensemble.cost.gated import GatedComposition
from dpensemble.cost.loss_curve import LossCurve
from dpensemble.cost.privacy_cost import PrivacyCost


@dataclass(frozen=True, slots=True, eq=False)
class GatedCost(PrivacyCost):
    """Privacy loss of a purse that pays for a number of gated queries if every one of them is answered.

    Multiples are larger purses. Adding another cost leaves only the curve.

    Parameters
    ----------
    rdp, orders, parts
        As for `PrivacyCost`, for that many checks and labels, and without parts.
    composition : GatedComposition
        Composition of such queries under any purse.
    queries : int
        How many answered queries the purse pays for.
    """

    composition: GatedComposition | None = None
    queries: int = 0

    @property
    def composes(self) -> bool:
        """Whether exact composition is available."""
        return self.composition is not None

    def composed(self, delta: float) -> LossCurve | None:  # noqa: ARG002
        """Return all deltas of the purse, or None if the purse is empty."""
        assert self.composition is not None  # noqa: S101
        return self.composition.curve(self.queries) if self.queries else None

    def __mul__(self, count: int) -> PrivacyCost:
        count = integer_between("count", count, 0, 2**62)
        return GatedCost(
            rdp=self.rdp * count, orders=self.orders, composition=self.composition, queries=self.queries * count
        )

    __rmul__ = __mul__

    # Python calls this method before that of a plain cost on the left, so an empty cost plus a gated cost stays gated.
    __radd__ = PrivacyCost.__add__
