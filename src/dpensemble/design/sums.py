"""The public designs of runs that release no votes: noisy sums, averages of the teachers' answers, and bagged models.

An answer of a teacher is one vector. Bagging publishes the models themselves.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, member
from dpensemble.accounting import EVERYONE, Accounting, GaussianSum, Group
from dpensemble.allocation import Allocation, BootstrapScheme, partitions
from dpensemble.allocation.partition import grouped_partitions, teachers_of_groups
from dpensemble.budget import Budget
from dpensemble.design.voting import Design
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.releases import SumsMeter

# Shares of the budget's ``mu**2``: for a private number of units, for the mean of features that public rows are
# compared with, for the shares of cells and the products of scores for synthetic rows, and for each statistic.
_COUNT, _MEAN, _CELLS, _PRODUCTS, _STATISTIC = 0.02, 0.03, 0.1, 0.04, 0.02
# The last round determines most of the result.
_LAST = 0.4


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisySums(Design):
    """Rounds of one noisy sum each, of a vector that every unit adds. Public.

    Parameters
    ----------
    name, title : str
        Short name of the method, and its common name.
    everyone : tuple of Group
        The groups whose units are charged, and their weights. One group if all are treated alike.
    n_classes : int
        Number of declared classes.
    rounds : int
        Number of sums.
    relation : Relation
        Neighbouring relation.
    compares_rows : bool
        Whether public rows are compared with a noisy mean that is released for this purpose.
    synthetic_rows : bool
        Whether rows are drawn from released statistics of the columns, in place of public rows.
    statistics : tuple of str
        Further released statistics, by name.
    """

    name: str
    title: str
    everyone: tuple[Group, ...]
    n_classes: int
    rounds: int
    relation: Relation
    compares_rows: bool = False
    synthetic_rows: bool = False
    statistics: tuple[str, ...] = ()
    accounting: Accounting = Accounting.EXACT

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups whose units are charged."""
        return self.everyone

    @property
    def count_share(self) -> float:
        """Share of the budget that the noisy number of units takes."""
        return 0.0 if self.relation is Relation.REPLACE_ONE else _COUNT

    @property
    def mean_share(self) -> float:
        """Share of the budget that the noisy mean of features takes."""
        return _MEAN if self.compares_rows else 0.0

    @property
    def cells_share(self) -> float:
        """Share of the budget that noisy shares of cells take."""
        return _CELLS if self.synthetic_rows else 0.0

    @property
    def products_share(self) -> float:
        """Share of the budget that noisy products of columns' scores take."""
        return _PRODUCTS if self.synthetic_rows else 0.0

    @property
    def statistic_share(self) -> float:
        """Share of the budget that each statistic takes."""
        return _STATISTIC

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the budget's ``mu**2`` that each round takes."""
        left = 1 - self.count_share - self.mean_share - self.cells_share - self.products_share
        left -= self.statistic_share * len(self.statistics)
        if self.rounds == 1:
            return (left,)
        last = max(_LAST, 1 / self.rounds)
        early = (1 - last) / (self.rounds - 1)
        return tuple(left * share for share in (*([early] * (self.rounds - 1)), last))

    @property
    def law(self) -> GaussianSum:
        """The law of the first round."""
        return GaussianSum(self.meter().sigma(self.shares[0]))

    def meter(self) -> SumsMeter:
        """Return the meter of such a run."""
        return SumsMeter(self.groups)

    def with_budget(self, budget: Budget) -> Self:
        """Return the same run with another budget, the same for all groups of weight 1."""
        if len(self.groups) > 1:
            raise InvalidParameterError("budget must be left out, since the groups have budgets of their own.")
        return replace(self, everyone=(replace(self.groups[0], budget=budget),))

    def with_noise(self, noise: float) -> Self:
        """Refuse, since the noise follows from the budget, all of which is used."""
        raise InvalidParameterError(
            f"noise={noise!r} cannot be given for {self.name}, whose noise follows from the budget: give epsilon."
        )

    @property
    def ordinary(self) -> bool:
        """Whether the teachers are ordinary models. Here each unit is its own teacher."""
        return False

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {
            "method": self.name,
            "title": self.title,
            **self.law.settings(),
            "law_name": self.law.name,
            "noise_chosen": "from the budget",
            "noise_in_words": self.law.words(),
            "gated": False,
            "n_classes": self.n_classes,
            "accounting": self.accounting.value,
            "rounds": self.rounds,
            "compares_rows": self.compares_rows,
            "synthetic_rows": self.synthetic_rows,
            **({"statistics": ", ".join(self.statistics)} if self.statistics else {}),
            "relation": self.relation.value,
            "n_teachers": None,
        }


def noisy_sums(
    *,
    name: str,
    title: str,
    groups: tuple[Group, ...],
    n_classes: int,
    rounds: int,
    relation: str,
    synthetic_rows: bool = False,
    statistics: tuple[str, ...] = (),
) -> NoisySums:
    """Return the checked design of a run."""
    return NoisySums(
        name=name,
        title=title,
        everyone=groups,
        n_classes=integer_between("n_classes", n_classes, 2),
        rounds=integer_between("rounds", rounds, 1, 100),
        relation=member("relation", relation, Relation),
        synthetic_rows=synthetic_rows,
        statistics=statistics,
    )


class Answers(StrEnum):
    """The kind of answer that a teacher gives."""

    PROBABILITIES = "probabilities"
    PARAMETERS = "parameters"


@dataclass(frozen=True, kw_only=True, eq=False)
class TeacherAverages(NoisySums):
    """One noisy sum, of a vector that every teacher of a partition adds. Public.

    Parameters
    ----------
    name, title, everyone, n_classes, relation
        As for `NoisySums`.
    answers : Answers
        The kind of answer that a teacher gives.
    n_teachers : int
        Number of teachers.
    clip : float
        Longest answer: a share of the longest possible answer for probabilities, a length for parameters.
    """

    answers: Answers
    n_teachers: int
    clip: float

    def __post_init__(self) -> None:
        integer_between("n_teachers", self.n_teachers, 1, 2**20)

    @property
    def count_share(self) -> float:
        """Zero, since the number of teachers is public under both relations."""
        return 0.0

    @property
    def ordinary(self) -> bool:
        """Whether the teachers are ordinary models."""
        return True

    def teachers_of(self, group_of_unit: NDArray[np.int64] | None) -> tuple[int, ...]:
        """Return how many teachers each group has, by public numbers of units."""
        if group_of_unit is None or len(self.groups) == 1:
            return (self.n_teachers,)
        shares = np.bincount(group_of_unit, minlength=len(self.groups))
        return teachers_of_groups(self.n_teachers, shares, [group.name for group in self.groups])

    def allocate(
        self,
        identities: Sequence[Hashable],
        *,
        entropy: int,
        group_of_record: NDArray[np.int64] | None = None,
        group_of_unit: NDArray[np.int64] | None = None,
    ) -> tuple[Allocation, NDArray[np.float64]]:
        """Return one partition, within each group separately, and every teacher's weight."""
        teachers = self.teachers_of(group_of_unit)
        weights = np.repeat([group.weight for group in self.groups], teachers)
        if group_of_record is None or len(teachers) == 1:
            allocation = partitions(identities, self.n_teachers, relation=self.relation, entropy=entropy)
        else:
            allocation = grouped_partitions(
                identities, group_of_record, teachers, relation=self.relation, entropy=entropy
            )
        if allocation.votes_per_unit > 1:
            raise InvalidParameterError("a unit must teach one teacher only, since the sum is charged for one teacher.")
        return allocation, weights

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        settings = super().settings()
        for name in ("compares_rows", "synthetic_rows"):
            del settings[name]
        return settings | {"answers": self.answers.value, "clip": self.clip, "n_teachers": self.n_teachers}


def answers_of(value: Any) -> Answers:
    """Return the kind of the teachers' answers, by name."""
    return member("answers", value, Answers)


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
