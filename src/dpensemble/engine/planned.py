"""The plan of a method from its settings. It needs no record, no teacher, and no scikit-learn, which imports slowly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from dpensemble._checks import integer_between, member
from dpensemble.accounting import Accounting
from dpensemble.budget import Budget
from dpensemble.design import VotingDesign
from dpensemble.engine.classifier import store_params
from dpensemble.engine.facts import Facts
from dpensemble.laws import LawChoice, ReleaseLaw
from dpensemble.relations import Relation


class Planned(ABC):
    """A method that votes, with the settings of its estimator. A subclass implements `_design`."""

    #: Short name, as on the command line, and name for people.
    name: ClassVar[str]
    title: ClassVar[str]

    classes: Sequence[object] | None
    law: ReleaseLaw | str
    epsilon: float
    delta: float
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
            Number of private records (or units), for methods that draw records at random.

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
        facts = Facts(
            n_classes=integer_between("n_classes", n_classes, 2),
            n_units=n_records,
            relation=member("relation", self.relation, Relation),
            max_labels=self.max_labels,
        )
        return self._design(facts)

    def _budget(self) -> Budget:
        return Budget(epsilon=self.epsilon, delta=self.delta)

    def _named(self) -> dict[str, Any]:
        """Return the settings that every method passes to its design in the same way: names, law and accounting."""
        return {
            "name": self.name,
            "title": self.title,
            "choice": LawChoice.of(self.law),
            "accounting": member("accounting", self.accounting, Accounting),
        }
