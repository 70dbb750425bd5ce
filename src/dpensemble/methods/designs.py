"""The plan of each voting method, from its settings. Without scikit-learn, so that a plan starts quickly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dpensemble._checks import integer_between, member, real_between
from dpensemble.accounting import EVERYONE
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.design import ByGroup, Census, Drawn, InfluenceRule, Partitioned, Personalisation, VotingDesign
from dpensemble.engine.planned import Facts, Planned
from dpensemble.errors import InvalidParameterError

#: Jordon et al. 2019, section 5: a Laplace scale of half the ballots.
_USUAL = {"lnmax": 0.5}


class SubsampleAggregate(Planned):
    """One partition, and Laplace noisy-max as published."""

    name: ClassVar[str] = "saa"
    title: ClassVar[str] = "Subsample-and-aggregate"

    n_teachers: int

    def _design(self, facts: Facts) -> VotingDesign:
        return Partitioned(
            **self._named(),
            usual=_USUAL,
            counts_the_breach=True,
            n_classes=facts.n_classes,
            n_teachers=self.n_teachers,
            budget=facts.budget,
        )


class DPBagging(Planned):
    """Several partitions, and Laplace noisy-max as published."""

    name: ClassVar[str] = "dpbag"
    title: ClassVar[str] = "Differentially private bagging"

    n_teachers: int
    n_partitions: int

    def _design(self, facts: Facts) -> VotingDesign:
        return Partitioned(
            **self._named(),
            usual=_USUAL,
            counts_the_breach=True,
            n_classes=facts.n_classes,
            n_teachers=self.n_teachers,
            n_partitions=self.n_partitions,
            budget=facts.budget,
        )


class PATE(Planned):
    """One partition, and Gaussian noisy-max."""

    name: ClassVar[str] = "pate"
    title: ClassVar[str] = "PATE"

    n_teachers: int

    def _design(self, facts: Facts) -> VotingDesign:
        return Partitioned(**self._named(), n_classes=facts.n_classes, n_teachers=self.n_teachers, budget=facts.budget)


class BaggedPATE(Planned):
    """Teachers that draw their records."""

    name: ClassVar[str] = "bagged-pate"
    title: ClassVar[str] = "PATE, teachers that draw their records"

    n_teachers: int
    subsample: int | None
    scheme: str

    def _design(self, facts: Facts) -> VotingDesign:
        if facts.n_units is None:
            raise InvalidParameterError(
                "n_records=None is given, but the probability that a record is drawn depends on the number of private "
                "records: give n_records."
            )
        n_teachers, subsample = integer_between("n_teachers", self.n_teachers, 1), self.subsample
        if subsample is None:
            # Half of a partition's share.
            subsample = max(1, facts.n_units // (2 * n_teachers))
        return Drawn(
            **self._named(),
            n_classes=facts.n_classes,
            scheme=BootstrapScheme(member("scheme", self.scheme, Bootstrap), n_teachers, subsample),
            n_units=facts.n_units,
            relation=facts.relation,
            budget=facts.budget,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class OnSubspaces(Partitioned):
    """One partition in which each teacher sees a part of the columns. The choice of columns is public or secret."""

    columns: float
    secret_columns: bool

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return super().settings() | {"columns": self.columns, "secret_columns": self.secret_columns}


class RandomSubspace(Planned):
    """One partition in which each teacher sees some of the columns."""

    name: ClassVar[str] = "random-subspace"
    title: ClassVar[str] = "Random subspace voting"

    n_teachers: int
    columns: float
    secret_columns: bool

    def _design(self, facts: Facts) -> VotingDesign:
        return OnSubspaces(
            **self._named(),
            n_classes=facts.n_classes,
            n_teachers=self.n_teachers,
            budget=facts.budget,
            columns=real_between("columns", self.columns, 1e-9, 1.0),
            secret_columns=self.secret_columns,
        )


class _ByGroup(Planned):
    """Budgets by group, in one of three ways."""

    _kind: ClassVar[Personalisation]

    n_teachers: int
    rule: InfluenceRule | str

    def _design(self, facts: Facts) -> VotingDesign:
        census = facts.census
        if census is None:
            census = Census(names=(EVERYONE,), budgets=(facts.budget,), shares=(1.0,))
        return ByGroup(
            **self._named(),
            kind=self._kind,
            census=census,
            n_teachers=integer_between("n_teachers", self.n_teachers, 1),
            rule=InfluenceRule.of(self.rule),
            n_classes=facts.n_classes,
            entropy=facts.entropy,
        )

    def design(
        self, *, n_classes: int | None = None, n_records: int | None = None, census: Census | None = None
    ) -> VotingDesign:
        """Return everything public about a run with these settings. No record is read.

        Parameters
        ----------
        n_classes, n_records
            As for `PATEClassifier.design`.
        census : Census, optional
            Groups of records by budget. By default one group, in which every record has `epsilon`.

        Returns
        -------
        ByGroup
            For `dpensemble.plan`.
        """
        design = super().design(n_classes=n_classes, n_records=n_records)
        return design if census is None else replace(design, census=census)  # type: ignore[call-arg]


class UpsamplingPATE(_ByGroup):
    """Budgets by group: records are copied."""

    name: ClassVar[str] = "upsampling-pate"
    title: ClassVar[str] = "Personalised PATE, upsampling"
    _kind: ClassVar[Personalisation] = Personalisation.UPSAMPLING


class VanishingPATE(_ByGroup):
    """Budgets by group: teachers vote more or less often."""

    name: ClassVar[str] = "vanishing-pate"
    title: ClassVar[str] = "Personalised PATE, vanishing"
    _kind: ClassVar[Personalisation] = Personalisation.VANISHING


class WeightingPATE(_ByGroup):
    """Budgets by group: votes are weighted."""

    name: ClassVar[str] = "weighting-pate"
    title: ClassVar[str] = "Personalised PATE, weighting"
    _kind: ClassVar[Personalisation] = Personalisation.WEIGHTING


#: Methods that can be planned, by their short names.
PLANNED: dict[str, type[Planned]] = {
    method.name: method
    for method in (
        SubsampleAggregate,
        DPBagging,
        PATE,
        BaggedPATE,
        RandomSubspace,
        UpsamplingPATE,
        VanishingPATE,
        WeightingPATE,
    )
}
