"""What is known before any record is read: public facts, the settings of a method, and its plan.

This imports no scikit-learn, which takes long to load, so that a plan starts soon.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self

from dpensemble._checks import integer_between, member
from dpensemble.accounting import Accounting
from dpensemble.design import Census, VotingDesign
from dpensemble.guarantee import Budget
from dpensemble.laws import LawChoice, ReleaseLaw
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
    """Public facts that a design may depend on. Only methods that declare `n_units` public may use it.

    `budget` has the settings' epsilon, and their delta or the usual one.
    """

    n_classes: int
    budget: Budget
    n_units: int | None = None
    relation: Relation = Relation.REPLACE_ONE
    entropy: int = 0
    has_units: bool = False
    max_labels: int | None = None
    census: Census | None = None


def store_params(estimator: Any, arguments: dict[str, Any]) -> None:
    """Store a constructor's arguments unchanged, under their own names, as scikit-learn requires."""
    for name, value in arguments.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)


class Planned(ABC):
    """A method that votes, with the settings of its estimator. A subclass implements `_design`."""

    #: Short name, as on the command line, and name for people.
    name: ClassVar[str]
    title: ClassVar[str]

    classes: Sequence[object] | None
    law: ReleaseLaw | str
    epsilon: float
    delta: float | None
    relation: str
    max_labels: int | None
    #: For methods that offer no other analysis.
    accounting: str = Accounting.EXACT

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Self:
        """Return the method with all settings of its estimator, which is not imported."""
        method = cls()
        store_params(method, dict(settings))
        return method

    @abstractmethod
    def _design(self, facts: Facts) -> VotingDesign:
        """Return everything public about a run with these settings. Noise that is not set is the usual noise."""

    def design(self, *, n_classes: int | None = None, n_records: int | None = None) -> VotingDesign:
        """Return everything public about a run with these settings. No record is read.

        Parameters
        ----------
        n_classes : int, optional
            Number of classes. By default the number of declared classes, or 2.
        n_records : int, optional
            Number of private records (or units), for methods that draw records at random. Under replace-one a delta
            that is not given follows from it. Without it, such a delta is 1e-5.

        Returns
        -------
        VotingDesign
            For `dpensemble.plan`.

        Examples
        --------
        >>> from dpensemble import PATEClassifier, plan
        >>> plan(PATEClassifier(n_teachers=100).design(n_classes=10), epsilon=1).labels
        12
        """
        if n_classes is None:
            n_classes = 2 if self.classes is None else len(self.classes)
        relation = member("relation", self.relation, Relation)
        n_public = n_records if relation is Relation.REPLACE_ONE else None
        facts = Facts(
            n_classes=integer_between("n_classes", n_classes, 2),
            budget=Budget.of(self.epsilon, self.delta, n_public),
            n_units=n_records,
            relation=relation,
            max_labels=self.max_labels,
        )
        return self._design(facts)

    def _named(self) -> dict[str, Any]:
        """Return the settings that every method passes to its design in the same way: names, law and accounting."""
        return {
            "name": self.name,
            "title": self.title,
            "choice": LawChoice.of(self.law),
            "accounting": member("accounting", self.accounting, Accounting),
        }
