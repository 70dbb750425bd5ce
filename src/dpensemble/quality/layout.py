"""The cells of a quality release, chosen from public numbers before anything is charged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dpensemble._nouns import plural
from dpensemble.accounting import Group, SumsMeter
from dpensemble.budget import Budget
from dpensemble.errors import BudgetError
from dpensemble.quality.areas import FEWEST_BINS
from dpensemble.relations import Relation

#: The name of the group of all values that were not declared.
OTHER = "other"
MOST_BINS = 20
# The most noise of one class's total, as a share of the held-back units.
_MOST = 0.1
# What is aimed at within the rarest class, as a share of its expected units.
_AIM_OF_CLASS = 0.15
# The same within a group of average size, which is a smaller number of units.
_AIM_OF_GROUP, _MOST_OF_GROUP = 0.05, 0.3


@dataclass(frozen=True)
class Histogram:
    """One histogram of the release.

    Parameters
    ----------
    kind : str
        ``"bins"`` (true class or not, by bin of the class's probability), ``"decisions"`` (true class by predicted
        class), ``"bins by group"`` or ``"decisions by group"`` (true class by right and wrong).
    name : str
        The class of the bins, or the column of the groups. Empty for decisions.
    shape : tuple of int
        Numbers of cells along each axis.
    """

    kind: str
    name: str
    shape: tuple[int, ...]

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The histograms of a release, and their noise. Everything in it follows from public numbers.

    Parameters
    ----------
    classes : tuple of str
        All classes.
    positive : int
        Place of the class whose probability is divided into bins, if there are two classes.
    groups : mapping of str to tuple of str
        Declared values of each group column.
    n_units : int
        Number of held-back units.
    bins, group_bins : int
        Bins of a probability at most, for all units and within a group. `Edges.fitted` states how many bins for all
        units are open.
    epsilon, delta : float
        Budget of a held-back unit.
    relation : Relation
        Neighbouring relation.
    """

    classes: tuple[str, ...]
    positive: int
    groups: Mapping[str, tuple[str, ...]]
    n_units: int
    bins: int
    group_bins: int
    epsilon: float
    delta: float
    relation: Relation = Relation.REPLACE_ONE

    @cached_property
    def histograms(self) -> tuple[Histogram, ...]:
        """All histograms, in the order of the released sum."""
        n_classes = len(self.classes)
        if n_classes == 2:
            first = [Histogram("bins", self.classes[self.positive], (2, self.bins))]
        else:
            first = [Histogram("decisions", "", (n_classes, n_classes))]
            if self.bins:
                first += [Histogram("bins", name, (2, self.bins)) for name in self.classes]
        kind = "bins by group" if n_classes == 2 else "decisions by group"
        inner = (2, self.group_bins) if n_classes == 2 else (n_classes, 2)
        by_group = [Histogram(kind, column, (len(values) + 1, *inner)) for column, values in self.groups.items()]
        return (*first, *by_group)

    @property
    def n_cells(self) -> int:
        """Number of entries of the released sum."""
        return sum(one.n_cells for one in self.histograms)

    @property
    def sensitivity(self) -> float:
        """Most units by which one unit moves the sum, as `QualitySum` proves."""
        return sensitivity_of(len(self.histograms), self.relation)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each cell, in units."""
        return _noise(self.epsilon, self.delta) * self.sensitivity

    def for_shares(self, shares: Sequence[float], required: int = 1) -> Layout:
        """Return fewer bins within groups if the published student expects few units of a class.

        The noise of a class's total over as many bins is then at most 15 % of the units that are expected of the rarest
        class, if the edges that are required allow that. The student is public, so the choice costs nothing.

        Parameters
        ----------
        shares : sequence of float
            Expected share of each class, for example the mean of the student's probabilities of public rows.
        required : int, default=1
            Number of thresholds that must be edges of bins.
        """
        most = _affordable(_AIM_OF_CLASS * min(shares) * self.n_units, self.sigma, required + 1)
        return replace(self, group_bins=min(self.group_bins, most))

    def sentence(self, unit: str = "unit") -> str:
        """State what the release holds, before it is drawn. `unit` is the noun for what is held back."""
        units = plural(unit)
        columns = "".join(f", and by {column}" for column in self.groups)
        bins = f"at most {self.bins} bins of the probability" if self.bins else "no bins of probabilities"
        by = "true class" if len(self.classes) == 2 else "true class and predicted class"
        return (
            f"Quality of the student: {self.n_units:,} {units} are held back for one noisy histogram by {by}, with "
            f"{bins}{columns}. It has at most {self.n_cells:,} cells, each with noise of standard deviation "
            f"{self.sigma:.3g} {units} at epsilon {self.epsilon:g}."
        )


def sensitivity_of(n_histograms: int, relation: Relation) -> float:
    """Return how far one unit moves a sum of histograms, in units. `QualitySum` has the proof."""
    return math.sqrt(n_histograms if relation is Relation.ADD_OR_REMOVE_ONE else 2 * n_histograms)


def _noise(epsilon: float, delta: float) -> float:
    """Return the noise of one sum that takes the whole budget, in sensitivities."""
    return SumsMeter([Group("held back", Budget(epsilon=epsilon, delta=delta))]).sigma(1.0)


def plan_layout(
    classes: tuple[str, ...],
    n_units: int,
    epsilon: float,
    delta: float,
    *,
    positive: int = 1,
    groups: Mapping[str, tuple[str, ...]] | None = None,
    required: int = 1,
    relation: Relation = Relation.REPLACE_ONE,
) -> Layout:
    """Choose the cells that a budget supports.

    There are at most ``b`` bins for all units, up to 20, if a bin of average size holds ``b`` times the noise of its
    cell. There are at least four, and one more than the `required` thresholds. `areas.area_edges` opens fewer bins if
    that makes little difference. Within groups, the noise of a total over ``b`` bins is at most 5 % of a group of
    average size, unless thresholds require more bins.

    A run is refused if the noise of a total over one bin more than thresholds is above 10 % of the units, or 30 % of a
    group. With three and more classes, the bins of each class are left out instead.

    Parameters
    ----------
    classes : tuple of str
        All classes.
    n_units : int
        Number of held-back units. Public.
    epsilon, delta : float
        Budget of a held-back unit.
    positive : int, default=1
        Place of the positive of two classes.
    groups : mapping, optional
        Declared values of each group column.
    required : int, default=1
        Number of thresholds that must be edges of bins.
    relation : Relation
        Neighbouring relation.

    Raises
    ------
    BudgetError
        If noise would hide the units in even the coarsest histogram.

    Examples
    --------
    >>> layout = plan_layout(("no", "yes"), 1400, 1.0, 1e-5)
    >>> layout.bins, layout.n_cells, round(layout.sigma, 2)
    (16, 32, 5.28)
    """
    groups = dict(groups or {})
    n_classes, noise = len(classes), _noise(epsilon, delta)
    fewest = required + 1

    def layout(bins: int, group_bins: int) -> Layout:
        return Layout(
            classes=classes,
            positive=positive,
            groups=groups,
            n_units=n_units,
            bins=bins,
            group_bins=group_bins,
            epsilon=epsilon,
            delta=delta,
            relation=relation,
        )

    def spread(n_histograms: int, n_added: int) -> float:
        return noise * sensitivity_of(n_histograms, relation) * math.sqrt(n_added)

    n_histograms = len(layout(fewest, fewest).histograms)
    bins = max(fewest, FEWEST_BINS, min(MOST_BINS, math.floor(math.sqrt(n_units / spread(n_histograms, 1)))))
    if n_classes > 2 and spread(n_histograms, fewest) > _MOST * n_units:
        bins, n_histograms = 0, 1 + len(groups)
    added = fewest if n_classes == 2 else n_classes
    if spread(n_histograms, added) > _MOST * n_units:
        raise BudgetError(
            f"holdout_score: {n_units:,} held-back units are too few for any cell at epsilon={epsilon:g}, because the "
            f"noise of a class's total would be {spread(n_histograms, added):,.0f} units; hold back more, raise "
            "epsilon, or name fewer group columns."
        )
    group_bins = fewest
    for column, values in groups.items():
        size = n_units / (len(values) + 1)
        if spread(n_histograms, 2) > _MOST_OF_GROUP * size:
            raise BudgetError(
                f"groups: column {column!r} has {len(values) + 1} groups of about {size:,.0f} held-back units, in "
                f"which the noise would be {spread(n_histograms, 2):,.0f} units; hold back more, or declare fewer "
                "groups."
            )
    if groups:
        size = n_units / max(len(values) + 1 for values in groups.values())
        group_bins = min(_affordable(_AIM_OF_GROUP * size, spread(n_histograms, 1), fewest), max(bins, fewest))
    return layout(bins, group_bins)


def _affordable(allowed: float, one: float, fewest: int) -> int:
    """Return the number of bins whose noise together stays within what is allowed."""
    return max(fewest, min(MOST_BINS, math.floor((allowed / one) ** 2)))
