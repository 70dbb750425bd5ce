"""A noisy sum of bounded vectors, which releases soft votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dpensemble._checks import real_between


@dataclass(frozen=True, slots=True)
class GaussianSum:
    """Gaussian noise on a sum of vectors that one unit can move by at most a fixed length, the sensitivity.

    A GaussianSum differs from a `dpensemble.laws.ReleaseLaw`: teachers answer with vectors instead of ballots, and the
    sum is released.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on every entry, in units of the sensitivity. The sensitivity is the length by
        which one unit can move the sum.

    Examples
    --------
    >>> GaussianSum(sigma=4.0).words()
    'Gaussian noise of 4 sensitivities on a sum of vectors'
    """

    name: ClassVar[str] = "gaussian-sum"
    title: ClassVar[str] = "Gaussian sum of soft votes"

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", real_between("sigma", self.sigma, 1e-9, 1e12))

    def words(self) -> str:
        """Return the noise in words, for reports."""
        return f"Gaussian noise of {self.sigma:.4g} sensitivities on a sum of vectors"

    def settings(self) -> dict[str, Any]:
        """Return the law as plain values."""
        return {"law": repr(self), "sigma": self.sigma}
