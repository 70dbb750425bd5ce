"""The public design of bagging that publishes the models themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from dpensemble.accounting import EVERYONE, Accounting, Group
from dpensemble.allocation import BootstrapScheme
from dpensemble.budget import Budget
from dpensemble.design.base import Design
from dpensemble.errors import InvalidParameterError


@dataclass(frozen=True, kw_only=True, eq=False)
class BaggedModels(Design):
    """Models of secret subsamples, at an epsilon of 0. Public.

    Parameters
    ----------
    name, title : str
        Short name of the method, and its common name.
    scheme : BootstrapScheme
        How subsamples are drawn.
    n_units : int
        Number of private records (or units).
    delta : float
        Probability that a record is drawn.
    """

    name: str
    title: str
    scheme: BootstrapScheme
    n_units: int
    delta: float
    accounting: Accounting = Accounting.EXACT
    #: No noise is drawn.
    law: None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        """The one group of all records, with the smallest possible budget, since a budget cannot have epsilon 0."""
        return (Group(EVERYONE, Budget(epsilon=1e-9, delta=self.delta), pool=0),)

    def with_budget(self, budget: Budget) -> Self:
        """Refuse, since the subsample decides delta."""
        raise InvalidParameterError(
            f"budget={budget!r} cannot be given for {self.name}, whose subsample decides delta: give subsample."
        )

    def with_noise(self, noise: float) -> Self:
        """Refuse, since the method adds no noise."""
        raise InvalidParameterError(
            f"noise={noise!r} cannot be given for {self.name}, which adds no noise: leave it out."
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {
            "method": self.name,
            "title": self.title,
            "n_teachers": self.scheme.n_models,
            "subsample": self.scheme.subsample,
            "scheme": self.scheme.scheme.value,
        }
