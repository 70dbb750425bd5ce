"""Public facts about the records of a run, known before any record is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dpensemble._checks import member
from dpensemble.design import Census
from dpensemble.relations import Relation


class Analysis(StrEnum):
    """Data sets that the guarantee covers, every one or only this one, and whether the spend decides when to stop."""

    WORST_CASE = "worst-case"
    DATA_DEPENDENT = "data-dependent"
    UNTIL_SPENT = "until-spent"

    @classmethod
    def of(cls, value: Any) -> Analysis:
        """Return the analysis of that name."""
        return member("analysis", value, cls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Public facts that a design may depend on. Only methods that declare `n_units` public may use it."""

    n_classes: int
    n_units: int | None = None
    relation: Relation = Relation.REPLACE_ONE
    entropy: int = 0
    has_units: bool = False
    max_labels: int | None = None
    census: Census | None = None
