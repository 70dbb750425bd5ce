"""What a method is given in a comparison, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpensemble.budget import Budget
from dpensemble.relations import Relation
from dpensemble.workflow.comparison_data import ComparedRows
from dpensemble.workflow.comparison_learners import ComparedLearner


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """One repeat's rows, budget and settings; the same for every method.

    Parameters
    ----------
    rows : ComparedRows
        Data.
    classes : list
        Declared labels.
    learner : ComparedLearner
        Base learner.
    budget : Budget
        Of the whole run.
    relation : Relation
        Neighbouring relation.
    n_teachers : int
        Of voting methods.
    seed : int
        Public.
    insecure_release_seed : int or None
        For experiments.
    n_jobs : int or None
        Workers, as in joblib.
    """

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
        """Return the settings of randomness that all methods have."""
        return {"random_state": self.seed, "insecure_release_seed": self.insecure_release_seed}


@dataclass(frozen=True, eq=False, kw_only=True)
class TrialResult:
    """What came out of one run of one method.

    Parameters
    ----------
    accuracy : float
        On the test rows.
    epsilon, delta : float or None
        What its guarantee states; None without one.
    bought : dict
        What the budget bought, by name.
    text : str
        The same for people.
    released : str or None
        What is published.
    note : str or None
        Where the budget was not the one asked for.
    """

    accuracy: float
    epsilon: float | None
    delta: float | None
    bought: dict[str, Any]
    text: str
    released: str | None
    note: str | None = None
