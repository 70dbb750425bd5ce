"""Input and output of one method in a comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpensemble.budget import Budget
from dpensemble.relations import Relation
from dpensemble.workflow.comparison_data import ComparedRows
from dpensemble.workflow.comparison_learners import ComparedLearner


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """One repeat's rows, budget and settings. They are the same for every method."""

    rows: ComparedRows
    classes: list[Any]
    learner: ComparedLearner
    budget: Budget
    relation: Relation
    n_teachers: int
    seed: int
    insecure_release_seed: int | None
    n_jobs: int | None

    @property
    def n_records(self) -> int:
        """Number of private records."""
        return len(self.rows.X_private)

    def seeds(self) -> dict[str, Any]:
        """Return the random-state settings that all methods share."""
        return {"random_state": self.seed, "insecure_release_seed": self.insecure_release_seed}


@dataclass(frozen=True, eq=False, kw_only=True)
class TrialResult:
    """The result of one run of one method. Epsilon and delta are None if it has no guarantee."""

    accuracy: float
    # AUROC for two classes, balanced accuracy for more, and the Brier score if there are probabilities.
    measures: dict[str, float] = field(default_factory=dict)
    epsilon: float | None = None
    delta: float | None = None
    # What the budget bought, by name and as text for people.
    bought: dict[str, Any] = field(default_factory=dict)
    text: str
    released: str | None = None
    # A note if the budget was not the requested one.
    note: str | None = None
