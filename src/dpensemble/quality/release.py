"""The release: cells of held-back units, one exact sum of whole numbers, one charge, one draw.

The cells are chosen from public numbers before anything is charged.

Each record of a held-back unit falls into one cell of each histogram. A unit's ``k`` records weigh ``1 / k`` each,
rounded down. So a unit adds a vector ``u`` to a histogram that has no negative entry and a sum of 1 at most, for any
records. Then ``|u|**2 <= (sum of u)**2 <= 1``. Because vectors ``u`` and ``v`` of two units have no negative
entry, ``|u - v|**2 <= |u|**2 + |v|**2 <= 2``. Over ``h`` histograms squared lengths add up. Replacing a unit moves the
sum by at most ``sqrt(2 h)``, and adding or removing a unit by at most ``sqrt(h)``.

Held-back units teach nothing. Their places and a public seed decide which units are held back. Let neighbouring data
differ in one unit. If this unit teaches, the held-back units are the same, and the histogram is computed from the
released student and data that do not differ. If this unit is held back, training is the same, and only the histogram
differs. So both releases together are as private as the less private of the two (parallel composition: F. McSherry,
"Privacy integrated queries", SIGMOD 2009, Theorem 4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import plural
from dpensemble._entries import Floats, Integers
from dpensemble._random import NoiseSource
from dpensemble.accounting import Group
from dpensemble.errors import BudgetError
from dpensemble.guarantee import Budget
from dpensemble.quality.figures import ABOVE_HALF, FROM_END
from dpensemble.relations import Relation
from dpensemble.releases import SumQuery, SumReleaser, SumsMeter

#: With fewer bins an area may be unknown.
FEWEST_BINS = 4
# Places at which bins may end, and how much wider than the narrowest an interval may be to save bins.
_PLACES, _SAVED = 64, 1.1
# Share of the other class that is mixed into each expected class, in case the probabilities are too sure.
_DOUBT = 0.15
_ROUNDS = 3
#: The name of the group of all values that were not declared.
OTHER_GROUP = "other"
MOST_BINS = 20
# Bins within groups if there is no noise.
_EXACT_GROUP_BINS = 10
# The most noise of one class's total, as a share of the held-back units.
_MOST_NOISE = 0.1
# What is aimed at within the rarest class, as a share of its expected units.
_AIM_OF_CLASS = 0.15
# The same within a group of average size, which is a smaller number of units.
_AIM_OF_GROUP, _MOST_OF_GROUP = 0.05, 0.3
#: Whole numbers in 1. A sum of 2**30 units fits 63 bits.
WHOLE_UNIT = 2**32


@dataclass(frozen=True)
class _Histogram:
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
    larger : float, default=1.0
        How many times the noise is that which the budget needs, when several sites share the noise.
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
    larger: float = 1.0

    @classmethod
    def planned(
        cls,
        classes: tuple[str, ...],
        n_units: int,
        epsilon: float,
        delta: float,
        *,
        positive: int = 1,
        groups: Mapping[str, tuple[str, ...]] | None = None,
        required: int = 1,
        relation: Relation = Relation.REPLACE_ONE,
        larger: float = 1.0,
    ) -> Layout:
        """Choose the cells that a budget supports.

        There are at most ``b`` bins for all units, up to 20, if a bin of average size holds ``b`` times the noise of
        its cell. There are at least four, and one more than the `required` thresholds. `area_edges` opens fewer bins
        if that makes little difference. Within groups, the noise of a total over ``b`` bins is at most 5 % of a group
        of average size, unless thresholds require more bins.

        A run is refused if the noise of a total over one bin more than thresholds is above 10 % of the units, or 30 %
        of a group. With three and more classes, the bins of each class are left out instead.

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
        larger : float, default=1.0
            How many times the noise is that which the budget needs.

        Raises
        ------
        BudgetError
            If noise would hide the units in even the coarsest histogram.

        Examples
        --------
        >>> layout = Layout.planned(("no", "yes"), 1400, 1.0, 1e-5)
        >>> layout.bins, layout.n_cells, round(layout.sigma, 2)
        (16, 32, 5.28)
        """
        groups = dict(groups or {})
        n_classes, noise = len(classes), _noise(epsilon, delta) * larger
        fewest = required + 1

        def layout(bins: int, group_bins: int) -> Layout:
            return cls(
                classes=classes,
                positive=positive,
                groups=groups,
                n_units=n_units,
                bins=bins,
                group_bins=group_bins,
                epsilon=epsilon,
                delta=delta,
                relation=relation,
                larger=larger,
            )

        def spread(n_histograms: int, n_added: int) -> float:
            return noise * _sensitivity_of(n_histograms, relation) * math.sqrt(n_added)

        n_histograms = len(layout(fewest, fewest).histograms)
        bins = max(fewest, FEWEST_BINS, min(MOST_BINS, math.floor(math.sqrt(n_units / spread(n_histograms, 1)))))
        if n_classes > 2 and spread(n_histograms, fewest) > _MOST_NOISE * n_units:
            bins, n_histograms = 0, 1 + len(groups)
        added = fewest if n_classes == 2 else n_classes
        if spread(n_histograms, added) > _MOST_NOISE * n_units:
            raise BudgetError(
                f"holdout_score: {n_units:,} held-back units are too few for any cell at epsilon={epsilon:g}, because "
                f"the noise of a class's total would be {spread(n_histograms, added):,.0f} units; hold back more, "
                "raise epsilon, or name fewer group columns."
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

    @classmethod
    def without_noise(
        cls, classes: tuple[str, ...], positive: int, groups: Mapping[str, tuple[str, ...]], n_rows: int
    ) -> Layout:
        """Return the cells for rows that need no noise: as many as a reader can use."""
        return cls(
            classes=classes,
            positive=positive,
            groups=groups,
            n_units=n_rows,
            bins=MOST_BINS,
            group_bins=_EXACT_GROUP_BINS,
            epsilon=0.0,
            delta=0.0,
        )

    @cached_property
    def histograms(self) -> tuple[_Histogram, ...]:
        """All histograms, in the order of the released sum."""
        n_classes = len(self.classes)
        if n_classes == 2:
            first = [_Histogram("bins", self.classes[self.positive], (2, self.bins))]
        else:
            first = [_Histogram("decisions", "", (n_classes, n_classes))]
            if self.bins:
                first += [_Histogram("bins", name, (2, self.bins)) for name in self.classes]
        kind = "bins by group" if n_classes == 2 else "decisions by group"
        inner = (2, self.group_bins) if n_classes == 2 else (n_classes, 2)
        by_group = [_Histogram(kind, column, (len(values) + 1, *inner)) for column, values in self.groups.items()]
        return (*first, *by_group)

    @property
    def n_cells(self) -> int:
        """Number of entries of the released sum."""
        return sum(one.n_cells for one in self.histograms)

    @property
    def sensitivity(self) -> float:
        """Most units by which one unit moves the sum, as `_QualitySum` proves."""
        return _sensitivity_of(len(self.histograms), self.relation)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each cell, in units."""
        return _noise(self.epsilon, self.delta) * self.sensitivity * self.larger

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

    def edges(self, public: Floats | None, required: Sequence[float] = ()) -> _Edges:
        """Return the edges of all bins, from the student's probabilities of public rows.

        `area_edges` chooses the edges for all units, for a narrow interval of the area under the curve. Edges within
        groups are quantiles. So are all edges without noise or without public rows.

        Parameters
        ----------
        public : ndarray of shape (n_rows, n_classes) or None
            Probabilities of public rows. Without public rows, edges are spread evenly over logits.
        required : sequence of float
            Thresholds that must be edges, beside one half.
        """
        is_known = public is not None and len(public) > 0
        if public is None or not is_known:
            logits = np.linspace(-6, 6, 1001)
            high = 1 / (1 + np.exp(-logits))
            columns = [1 - high, high] if self.positive == 1 else [high, 1 - high]
            public = np.column_stack(columns if len(self.classes) == 2 else [high] * len(self.classes))
        names = [self.classes[self.positive]] if len(self.classes) == 2 else list(self.classes)
        of_class, middles, inside = {}, {}, {}
        fixed = _fixed_edges(required)
        for name in names if self.bins else []:
            column = public[:, self.classes.index(name)]
            if is_known and self.epsilon > 0:
                edges = area_edges(column, self.n_units, self.sigma, self.bins, fixed)
            else:
                edges = bin_edges(column, self.bins, required)
            of_class[name], middles[name], inside[name] = edges, _middles(column, edges), pairs_inside(column, edges)
        groups = bin_edges(public[:, self.positive], self.group_bins, required)
        return _Edges(of_class, groups, middles, inside)

    def release(self, edges: _Edges, total: Integers, noise: NoiseSource) -> NoisyHistograms:
        """Charge for the sum of the units' vectors, draw its noise, and return the noisy histograms."""
        query = self.sum_between(edges)
        noisy, spread, meter = _drawn(query, total, noise, self.relation, self.epsilon, self.delta)
        return self.read(edges, (noisy, spread), meter.spent_epsilon, meter.charges)

    def sum_between(self, edges: _Edges) -> _QualitySum:
        """Return the sum of the units' vectors, which takes the whole budget. Its result is for `read`."""
        return _QualitySum(len(self.histograms), edges=(*edges.of_class.values(), edges.of_groups))

    def read(
        self, edges: _Edges, drawn: tuple[Floats, float], epsilon: float, charges: tuple[dict[str, float], ...]
    ) -> NoisyHistograms:
        """Return the histograms of noisy cells and of the standard deviation of their noise."""
        noisy, spread = drawn
        return NoisyHistograms(
            layout=self,
            edges=edges,
            cells=self.split(noisy),
            sigma=spread,
            epsilon=epsilon,
            delta=self.delta,
            charges=charges,
        )

    def split(self, cells: Floats) -> tuple[Floats, ...]:
        """Return the cells of each histogram in its shape."""
        ends = np.cumsum([one.n_cells for one in self.histograms])[:-1]
        return tuple(part.reshape(one.shape) for one, part in zip(self.histograms, np.split(cells, ends), strict=True))

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


def _sensitivity_of(n_histograms: int, relation: Relation) -> float:
    """Return how far one unit moves a sum of histograms, in units. `_QualitySum` has the proof."""
    return math.sqrt(n_histograms if relation is Relation.ADD_OR_REMOVE_ONE else 2 * n_histograms)


def _noise(epsilon: float, delta: float) -> float:
    """Return the noise of one sum that takes the whole budget, in sensitivities."""
    return release_meter(epsilon, delta).sigma(1.0)


def _affordable(allowed: float, one: float, fewest: int) -> int:
    """Return the number of bins whose noise together stays within what is allowed."""
    return max(fewest, min(MOST_BINS, math.floor((allowed / one) ** 2)))


@dataclass(frozen=True, eq=False)
class _QualitySum(SumQuery[tuple[Floats, float]]):
    """The sum of the held-back units' histograms, between public edges. The module proves its sensitivity."""

    n_histograms: int
    words: str = "the histogram of the student's probabilities by true class, on held-back units"
    edges: tuple[Floats, ...] = ()
    unit = WHOLE_UNIT

    @property
    def description(self) -> str:
        """What is released."""
        return self.words

    @property
    def public_arrays(self) -> tuple[Floats | None, ...]:
        """Edges of bins."""
        return self.edges

    @property
    def replacing(self) -> int:
        """Whole units by which another vector of one unit moves the sum."""
        return math.isqrt(2 * self.n_histograms * WHOLE_UNIT**2) + 1

    @property
    def removing(self) -> int:
        """Whole units by which one vector more moves the sum."""
        return math.isqrt(self.n_histograms * WHOLE_UNIT**2) + 1

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return the noisy cells in units, and the standard deviation of their noise."""
        return sums, spread


@dataclass(frozen=True, eq=False)
class _Edges:
    """Inner edges of the bins of each class, ascending, for all units and within groups. Public.

    A probability that equals an edge is above the edge. For each bin of all units, `middles` has the mean probability
    of the public rows, and `inside` the share of pairs in which the case is higher, on public rows.
    """

    of_class: Mapping[str, Floats]
    of_groups: Floats
    middles: Mapping[str, Floats]
    inside: Mapping[str, Floats]

    def fitted(self, layout: Layout) -> Layout:
        """Return a layout without cells that no edge opens. What it charges stays the same."""
        return replace(layout, bins=max((len(one) + 1 for one in self.of_class.values()), default=layout.bins))


def _fixed_edges(required: Sequence[float]) -> list[float]:
    """Return the edge just above one half and the required edges, in order."""
    return sorted({ABOVE_HALF, *(ABOVE_HALF if one == 0.5 else float(one) for one in required)})


def bin_edges(public: Floats, n_bins: int, required: Sequence[float] = ()) -> Floats:
    """Return at most ``n_bins - 1`` inner edges, or only one half and the `required` ones if there are more of those.

    The others are quantiles of both classes.
    """
    fixed = _fixed_edges(required)
    return _places(public, fixed, max(1, n_bins - len(fixed)))


def _middles(public: Floats, edges: Floats) -> Floats:
    """Return the mean public probability in each bin, or the middle of a bin without public rows."""
    places = np.searchsorted(edges, public, side="right")
    counts = np.bincount(places, minlength=len(edges) + 1)
    sums = np.bincount(places, public, minlength=len(edges) + 1)
    outer = np.concatenate([[0.0], edges, [1.0]])
    return np.where(counts > 0, sums / np.maximum(counts, 1), (outer[1:] + outer[:-1]) / 2)


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldRecords:
    """Predictions for held-back records. Private.

    Parameters
    ----------
    probabilities : ndarray of shape (n_records, n_classes)
        The student's probabilities.
    truth : ndarray of shape (n_records,)
        Places of the true classes.
    groups : mapping of str to ndarray of shape (n_records,)
        Place of each record's group in each column, the last one for all other values.
    unit_of : ndarray of shape (n_records,)
        The unit of each record, from 0.
    n_units : int
        Number of held-back units.
    usable : ndarray of bool
        Records that count. Others add nothing, but still share their unit's weight.
    """

    probabilities: Floats
    truth: Integers
    groups: Mapping[str, Integers]
    unit_of: Integers
    n_units: int
    usable: NDArray[np.bool_]

    def exact_total(self, layout: Layout, edges: _Edges) -> Integers:
        """Return the exact sum of the units' vectors in whole numbers, shape (n_cells,). Private."""
        # Rounded down, so that the records of a unit weigh 1 at most together.
        weight = WHOLE_UNIT // np.bincount(self.unit_of, minlength=self.n_units)[self.unit_of]
        weight = np.where(self.usable, weight, 0).astype(np.int64)
        predicted = self.probabilities.argmax(axis=1)
        parts = []
        for one in layout.histograms:
            cells: tuple[Integers, ...]
            if one.kind == "bins":
                place = layout.classes.index(one.name)
                bins = np.searchsorted(edges.of_class[one.name], self.probabilities[:, place], side="right")
                cells = ((self.truth == place).astype(np.int64), bins)
            elif one.kind == "decisions":
                cells = (self.truth, predicted)
            elif one.kind == "bins by group":
                bins = np.searchsorted(edges.of_groups, self.probabilities[:, layout.positive], side="right")
                cells = (self.groups[one.name], (self.truth == layout.positive).astype(np.int64), bins)
            else:
                cells = (self.groups[one.name], self.truth, (predicted == self.truth).astype(np.int64))
            total = np.zeros(one.shape, dtype=np.int64)
            np.add.at(total, cells, weight)
            parts.append(total.ravel())
        return np.concatenate(parts)

    def histograms(self, layout: Layout, edges: _Edges) -> NoisyHistograms:
        """Return the histograms without noise. No guarantee covers them."""
        cells = layout.split(self.exact_total(layout, edges) / WHOLE_UNIT)
        return NoisyHistograms(layout=layout, edges=edges, cells=cells, sigma=0.0, epsilon=0.0, delta=0.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyHistograms:
    """The released cells, and everything public about their release.

    Parameters
    ----------
    layout : Layout
        The cells.
    edges : Edges
        Inner edges of bins.
    cells : tuple of ndarray
        Noisy numbers of units, one array for each histogram.
    sigma : float
        Standard deviation of the noise on each cell, in units.
    epsilon, delta : float
        Cost of the release for a held-back unit.
    charges : tuple of dict
        The charged sum, for a certificate.
    """

    layout: Layout
    edges: _Edges
    cells: tuple[Floats, ...]
    sigma: float
    epsilon: float
    delta: float
    charges: tuple[dict[str, float], ...] = ()

    def of(self, kind: str, name: str = "") -> Floats | None:
        """Return the cells of a histogram, or None if it was left out."""
        for histogram, cells in zip(self.layout.histograms, self.cells, strict=True):
            if (histogram.kind, histogram.name) == (kind, name):
                return cells[..., : self._n_bins(kind, name)]
        return None

    def _n_bins(self, kind: str, name: str) -> int | None:
        """Return the number of bins that edges open. Quantiles may coincide, and further cells hold only noise."""
        if kind == "bins":
            return len(self.edges.of_class[name]) + 1
        return len(self.edges.of_groups) + 1 if kind == "bins by group" else None


def release_meter(epsilon: float, delta: float) -> SumsMeter:
    """Return the meter that a release at epsilon and delta is charged to. Its Renyi costs are the most that it costs.

    Examples
    --------
    >>> round(release_meter(1.0, 1e-5).renyi_costs()[0].mu, 3)
    0.268
    """
    return SumsMeter([Group("held back", Budget(epsilon=epsilon, delta=delta))])


def _drawn(
    query: _QualitySum, total: Integers, noise: NoiseSource, relation: Relation, epsilon: float, delta: float
) -> tuple[Floats, float, SumsMeter]:
    """Charge for a sum, draw its noise, and return noisy cells, the deviation of their noise, and what was charged."""
    meter = release_meter(epsilon, delta)
    # Holds the noise to the cost that `release_meter` states.
    meter.renyi_costs()
    sums = SumReleaser(relation=relation, meter=meter, noise=noise)
    return (*sums.charge_and_draw(query, total, 1.0), meter)


def noise_of_histogram(epsilon: float, delta: float) -> float:
    """Return the standard deviation of the noise on each cell of one histogram, in units, under replace-one."""
    return _noise(epsilon, delta) * _sensitivity_of(1, Relation.REPLACE_ONE)


def release_histogram(
    words: str, total: Integers, noise: NoiseSource, *, epsilon: float, delta: float
) -> tuple[Floats, float, SumsMeter]:
    """Charge for one histogram of held-back units under replace-one, and draw its noise.

    Parameters
    ----------
    words : str
        What is released.
    total : ndarray of int
        The exact sum of the units' vectors, each at most one in one cell, in multiples of ``1 / WHOLE_UNIT``. Private.
    noise : NoiseSource
        Where noise comes from.
    epsilon, delta : float
        Budget of a held-back unit.

    Returns
    -------
    tuple of ndarray, float and SumsMeter
        Noisy cells in units, the standard deviation of their noise, and what was charged.
    """
    return _drawn(_QualitySum(1, words), total, noise, Relation.REPLACE_ONE, epsilon, delta)


def pairs_inside(public: Floats, edges: Floats) -> Floats:
    """Return the share of pairs within each bin in which the case is higher, if public rows stand for all.

    A public row counts as a case by its probability. A bin without public rows gets one half.
    """
    order = np.sort(public)
    places = np.searchsorted(edges, order, side="right")
    inside = np.full(len(edges) + 1, 0.5)
    for place in np.unique(places):
        p = order[places == place]
        values, groups = np.unique(p, return_inverse=True)
        cases, others = np.bincount(groups, p), np.bincount(groups, 1 - p)
        pairs = cases.sum() * others.sum()
        if len(values) > 1 and pairs > 0:
            inside[place] = cases @ (np.cumsum(others) - others / 2) / pairs
    return inside


def area_edges(public: Floats, n_units: int, sigma: float, most: int, fixed: Sequence[float]) -> Floats:
    """Return inner edges of at most `most` bins, for which the interval of the area is expected to be narrow.

    Noise counts where the rank of a bin differs from the area, and the order within bins where both classes are common.
    For each number of bins, dynamic programming finds the edges of the narrowest expected interval. Of the numbers from
    four on, the smallest is taken whose interval is at most a tenth wider than the narrowest, because all other figures
    have less noise with fewer bins.

    Parameters
    ----------
    public : ndarray of shape (n_rows,)
        The student's probabilities of public rows.
    n_units : int
        Number of held-back units.
    sigma : float
        Standard deviation of the noise on each cell, in units.
    most : int
        Most bins. The `fixed` edges are there in any case.
    fixed : sequence of float
        Edges that are required.
    """
    ends = _places(public, fixed)
    cases, others = _expected(public, ends)
    m, n = (max(n_units * share, 1.0) for share in (float(public.mean()), float(1 - public.mean())))
    required = np.searchsorted(ends, sorted(fixed)) + 1
    allowed = _without(len(ends) + 1, required)
    below, above = np.cumsum(others) - others, 1 - np.cumsum(cases)
    area = float(cases @ (below + others / 2))
    starts = [np.concatenate([[0.0], np.cumsum(one)]) for one in (cases, others)]
    # Entry (i, j): the bin from place i to place j.
    pi, nu = (one[None, :] - one[:, None] for one in starts)
    rank, rank_of_other = starts[1][:, None] + nu / 2, 1 - starts[0][:, None] - pi / 2
    noise = sigma**2 * (((rank - area) / m) ** 2 + ((rank_of_other - area) / n) ** 2)
    chance = float(cases @ (below + others / 2 - area) ** 2 / m + others @ (above + cases / 2 - area) ** 2 / n)
    variance = chance + sigma**2 * FEWEST_BINS / (6 * m**2)
    best: list[tuple[float, list[int]]] = []
    for _ in range(_ROUNDS):
        # The width is concave in the variance, so it is minimised by repeated linear approximation.
        cost = np.where(allowed, pi * nu + FROM_END / np.sqrt(variance) * noise, np.inf)
        best = []
        for chosen in _cheapest(cost, max(most, len(fixed) + 1)):
            bins = (np.array(chosen[:-1]), np.array(chosen[1:]))
            spread = chance + noise[bins].sum()
            best.append((float((pi * nu)[bins].sum() + 2 * FROM_END * np.sqrt(spread)), chosen))
        narrowest = min(best)
        bins = (np.array(narrowest[1][:-1]), np.array(narrowest[1][1:]))
        variance = chance + float(noise[bins].sum())
    enough = [chosen for width, chosen in best if width <= _SAVED * min(best)[0]]
    enough = [chosen for chosen in enough if len(chosen) > FEWEST_BINS] or [best[-1][1]]
    chosen = min(enough, key=len)
    return ends[np.array(chosen[1:-1], dtype=np.int64) - 1]


def _places(public: Floats, fixed: Sequence[float], n_parts: int = _PLACES) -> Floats:
    """Return where bins may end: quantiles of both classes into as many parts, and the fixed edges.

    Rows count towards quantiles half by the probability of the class and half by that of the others, each scaled to a
    sum of 1. So bins are about equally wide along both axes of a ROC curve, and a rare class has its bins, too.
    """
    order = np.sort(public)
    mass = order / max(order.sum(), 1e-300) + (1 - order) / max((1 - order).sum(), 1e-300)
    at = np.searchsorted(np.cumsum(mass) / mass.sum(), np.linspace(0, 1, n_parts + 1)[1:-1])
    inner = np.unique(np.concatenate([order[np.minimum(at, len(order) - 1)], np.asarray(fixed, dtype=float)]))
    return inner[(inner > 0) & (inner < 1)]


def _expected(public: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Return the expected shares of cases and of others between all places."""
    at = np.searchsorted(ends, public, side="right")
    cases, others = (np.bincount(at, one, minlength=len(ends) + 1) for one in (public, 1 - public))
    cases, others = cases / max(cases.sum(), 1e-300), others / max(others.sum(), 1e-300)
    return (1 - _DOUBT) * cases + _DOUBT * others, (1 - _DOUBT) * others + _DOUBT * cases


def _without(n_places: int, required: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> np.ndarray:
    """Return which bins, from place i to place j, contain no required edge in their inside."""
    i, j = np.arange(n_places + 1)[:, None], np.arange(n_places + 1)[None]
    crossed = np.zeros((n_places + 1, n_places + 1), dtype=bool)
    for one in required:
        crossed |= (i < one) & (one < j)
    return np.asarray((i < j) & ~crossed)


def _cheapest(cost: Floats, most: int) -> list[list[int]]:
    """Return the cheapest places for each possible number of bins, from the first place to the last."""
    last = len(cost) - 1
    totals, before, found = cost[0], [], []
    for n_bins in range(1, min(most, last) + 1):
        if n_bins > 1:
            through = totals[:, None] + cost
            before.append(through.argmin(axis=0))
            totals = through.min(axis=0)
        if np.isfinite(totals[last]):
            chosen = [last]
            for step in reversed(before):
                chosen.append(int(step[chosen[-1]]))
            found.append([0, *chosen[::-1]])
    return found
