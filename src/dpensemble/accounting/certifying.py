"""Statements that a design or a meter makes for a certificate."""

from __future__ import annotations

from typing import Protocol

from dpensemble.accounting.neighbours import Change
from dpensemble.accounting.subsampling import SubsampledCost
from dpensemble.allocation import BootstrapScheme
from dpensemble.budget import Budget
from dpensemble.cost import GatedComposition, PrivacyCost
from dpensemble.laws import ReleaseLaw


class Certificate(Protocol):
    """Takes statements that releases keep a budget. Raises AccountingError if a verifier could not check one."""

    def add_votes(self, budget: Budget, law: ReleaseLaw, change: Change, one: PrivacyCost, answers: int) -> None:
        """State that a number of answers of a law keep a budget."""

    def add_gated(
        self, budget: Budget, law: ReleaseLaw, change: Change, composition: GatedComposition, queries: int
    ) -> None:
        """State that all runs paid by the units of as many answered queries keep a budget."""

    def add_drawn(
        self,
        budget: Budget,
        law: ReleaseLaw,
        run: SubsampledCost,
        scheme: BootstrapScheme,
        n_units: int,
        n_classes: int,
    ) -> None:
        """State that a run of answers keeps a budget when its teachers hold a record by chance."""
