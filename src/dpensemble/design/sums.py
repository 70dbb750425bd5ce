"""The public design of runs that release noisy sums in rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from dpensemble.accounting import Accounting, GaussianSum, Group
from dpensemble.design.voting import Design
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.relations import Relation
from dpensemble.releases import SumsMeter

# Shares of the budget's ``mu**2``: for a private number of units, for the mean of features that public rows are
# compared with, for the shares of cells and the products of scores for synthetic rows, and for each statistic. The last
# one is for the shares of two classes that show whether one is rare.
_COUNT, _MEAN, _CELLS, _PRODUCTS, _STATISTIC, _RARITY = 0.02, 0.03, 0.1, 0.04, 0.02, 0.01
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
    looks_for_rare : bool
        Whether the shares of two classes are released before the rounds, to see whether one of them is rare.
    found_rare : bool
        Whether released shares showed that one of two classes is rare, so that few directions were taken.
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
    looks_for_rare: bool = False
    found_rare: bool = False
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
    def rarity_share(self) -> float:
        """Share of the budget that the shares of two classes take, which show whether one is rare."""
        return _RARITY if self.looks_for_rare else 0.0

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the budget's ``mu**2`` that each round takes."""
        left = 1 - self.count_share - self.mean_share - self.cells_share - self.products_share - self.rarity_share
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
            **({"looks_for_rare": True} if self.looks_for_rare else {}),
            **({"found_rare": True} if self.found_rare else {}),
            **({"statistics": ", ".join(self.statistics)} if self.statistics else {}),
            "relation": self.relation.value,
            "n_teachers": None,
        }


# Shares of what the mean and the count leave: counts of the target, rounds, counts of residuals between rounds, counts
# at the end. And the share of a proof, if there is one.
_TARGET, _ROUNDS, _RESIDUALS, _COUNTS = 0.04, (0.2, 0.25, 0.36), 0.03, 0.09
_PROOF = 0.15


@dataclass(frozen=True, kw_only=True, eq=False)
class NumberSums(NoisySums):
    """Noisy sums for a number: its counts, three rounds of clipped residuals, and counts of residuals. Public.

    Parameters
    ----------
    low, high : float
        The declared range.
    proven_coverage : float or None
        Coverage that intervals should be proven to have, or None if none are to be proven.
    """

    low: float
    high: float
    proven_coverage: float | None = None
    compares_rows: bool = True

    @property
    def proof_share(self) -> float:
        """Share of the budget that counts of nested intervals take."""
        return 0.0 if self.proven_coverage is None else _PROOF

    @property
    def _left(self) -> float:
        return 1 - self.count_share - self.mean_share - self.proof_share

    @property
    def target_share(self) -> float:
        """Share of the budget that counts of the target take."""
        return self._left * _TARGET

    @property
    def residuals_share(self) -> float:
        """Share of the budget that each count of residuals between two rounds takes."""
        return self._left * _RESIDUALS

    @property
    def last_share(self) -> float:
        """Share of the budget that the last counts of residuals take."""
        return self._left * _COUNTS

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the budget's ``mu**2`` that each round takes."""
        return tuple(self._left * share for share in _ROUNDS)

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        settings = super().settings() | {"low": self.low, "high": self.high, "proven_coverage": self.proven_coverage}
        return {name: value for name, value in settings.items() if name != "n_classes"}


# Share of what the mean and the count leave for a life table of all people. Two rounds take the rest, and the first one
# takes a part of that.
_TABLE, _FIRST = 0.12, 0.4


@dataclass(frozen=True, kw_only=True, eq=False)
class SurvivalSums(NoisySums):
    """Noisy sums for times until an event: a life table of all people, and two rounds of residuals. Public.

    Parameters
    ----------
    bins : tuple of float
        End of each bin.
    """

    bins: tuple[float, ...]
    compares_rows: bool = True

    @property
    def _left(self) -> float:
        return 1 - self.count_share - self.mean_share

    @property
    def table_share(self) -> float:
        """Share of the budget that the life table takes."""
        return self._left * _TABLE

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the budget's ``mu**2`` that each round takes."""
        return tuple(self._left * (1 - _TABLE) * share for share in (_FIRST, 1 - _FIRST))

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        settings = super().settings() | {"bins": ", ".join(f"{end:g}" for end in self.bins)}
        return {name: value for name, value in settings.items() if name != "n_classes"}
