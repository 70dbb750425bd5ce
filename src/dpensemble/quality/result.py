"""The quality of a student: every figure of a noisy histogram, and the threshold for the costs of wrong decisions.

Figures have their bands, for a report and for JSON.

If probabilities are right, calling a unit positive costs less exactly when its probability is above
``false_positive / (false_positive + false_negative)`` (C. Elkan, "The foundations of cost-sensitive learning", IJCAI
2001). A released histogram shows whether the probabilities are right: between two thresholds it counts the units whose
decision differs, and so how much one threshold saves over the other. The threshold of least noisy cost would mostly be
the one that noise favours. So another threshold takes the place of Elkan's only if it saves something at the lower end
of a band that holds over all thresholds together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpensemble._checks import real_between
from dpensemble._entries import Floats
from dpensemble.errors import InvalidParameterError
from dpensemble.quality.figures import ClassCurves, ClassDecisions, Figure, GroupQuality, PlainValues, critical
from dpensemble.quality.release import OTHER_GROUP, HeldRecords, Layout, NoisyHistograms

_METHOD = (
    "Noise of known standard deviation and the sampling of units, as sets of shares that the cells do not refute "
    "(Fieller 1954; Wilson 1927). Figures of one class, or of all groups of one column, hold together at every "
    "threshold (Sidak 1967). Accuracy, area under the curve and loss hold one by one. The interval of the area is for "
    "the student, over all distributions of its probabilities within the bins (Imbens and Manski 2004). The area "
    "has no single value. The loss is that of one probability for each bin, the mean of its public rows."
)
_LARGEST_COST = 1e9
_SMALLEST_COST = 1e-9
_FIGURES = frozenset({"alarms", "missed", "false_alarms", "cost"})


@dataclass(frozen=True, kw_only=True)
class ReleasedQuality:
    """How good a student is on held-back units, with noise. May be published.

    Each held-back unit counts once and pays epsilon and delta. No other unit pays.

    Parameters
    ----------
    released : NoisyHistograms
        The noisy cells.
    accuracy, most_common : Figure
        Share of units that are right, and of the class that is most common. The latter is what a student without any
        knowledge would reach.
    most_common_class : str or None
        The class that is most common, or None if noise hides which.
    curves : tuple of ClassCurves
        For two classes the positive one, for more each class against the rest (empty if noise would hide them).
    decisions : ClassDecisions or None
        For three and more classes.
    groups : mapping of str to tuple of GroupQuality
        Groups of each declared column.
    decision : Decision or None
        The threshold for the costs of wrong decisions.
    """

    released: NoisyHistograms
    accuracy: Figure
    most_common: Figure
    most_common_class: str | None
    curves: tuple[ClassCurves, ...]
    decisions: ClassDecisions | None
    groups: Mapping[str, tuple[GroupQuality, ...]]
    decision: Decision | None

    @classmethod
    def of_histograms(cls, released: NoisyHistograms, costs: Costs | None = None) -> ReleasedQuality:
        """Return every figure of noisy histograms. This is computed from what was released, and costs nothing."""
        return cls._of(released, costs, None)

    @classmethod
    def of_rows(
        cls,
        classes: tuple[str, ...],
        positive: int,
        groups: Mapping[str, tuple[str, ...]],
        rows: HeldRecords,
        costs: Costs | None = None,
    ) -> ReleasedQuality:
        """Return every figure on rows whose probabilities and labels are known, without noise.

        No guarantee covers these figures.

        Parameters
        ----------
        classes : tuple of str
            All classes.
        positive : int
            Place of the positive of two classes.
        groups : mapping of str to tuple of str
            Declared values of each group column.
        rows : HeldRecords
            The rows. Each is a unit of its own.
        costs : Costs or None
            Costs of wrong decisions.
        """
        layout = Layout.without_noise(classes, positive, groups, rows.n_units)
        required = (0.5,) if costs is None else (0.5, costs.threshold)
        return cls._of(rows.histograms(layout, layout.edges(rows.probabilities, required)), costs, rows)

    @classmethod
    def _of(cls, released: NoisyHistograms, costs: Costs | None, rows: HeldRecords | None) -> ReleasedQuality:
        layout, sigma = released.layout, released.sigma
        curves = _curves(released, rows)
        decisions = None
        if len(layout.classes) > 2:
            cells = released.of("decisions")
            decisions = None if cells is None else ClassDecisions.of_cells(layout.classes, cells, sigma)
        shares = _class_shares(released, curves, decisions)
        accuracy = curves[0].accuracy if decisions is None else decisions.accuracy
        decision = None
        if costs is not None:
            positive = layout.classes[layout.positive]
            decision = costs.decision(positive, released.of("bins", positive), curves[0], sigma)
        share_values = {name: share.value for name, share in shares.items() if share.value is not None}
        return cls(
            released=released,
            accuracy=accuracy or Figure(None, 0.0, 1.0),
            most_common=Figure(
                max(share_values.values()) if len(share_values) == len(shares) else None,
                max(share.low for share in shares.values()),
                max(share.high for share in shares.values()),
            ),
            most_common_class=max(share_values, key=lambda name: share_values[name])
            if len(share_values) == len(shares)
            else None,
            curves=tuple(curves),
            decisions=decisions,
            groups={column: _groups(released, column) for column in layout.groups},
            decision=decision,
        )

    def to_dict(self) -> PlainValues:
        """Return all figures as plain values."""
        layout, released = self.released.layout, self.released
        # Of more than two classes there is no single area.
        auroc = self.curves[0].auroc if len(layout.classes) == 2 else None
        return {
            "units": layout.n_units,
            "accuracy": self.accuracy.value,
            "accuracy_low": self.accuracy.low,
            "accuracy_high": self.accuracy.high,
            "auroc": None if auroc is None else auroc.value,
            "auroc_low": None if auroc is None else auroc.low,
            "auroc_high": None if auroc is None else auroc.high,
            "auroc_if_spread_as_public_rows": None if auroc is None else auroc.if_as_public,
            "epsilon": released.epsilon,
            "delta": released.delta,
            "sigma": released.sigma,
            "level": Figure.LEVEL,
            "method": _METHOD,
            "most_common": self.most_common.to_dict() | {"class": self.most_common_class},
            "one_against_rest": [one.to_dict() for one in self.curves],
            "classes": [] if self.decisions is None else self.decisions.to_dict(),
            "groups": {column: [one.to_dict() for one in groups] for column, groups in self.groups.items()},
            "histograms": [
                {"kind": one.kind, "name": one.name, "cells": cells.tolist()}
                for one, cells in zip(layout.histograms, released.cells, strict=True)
            ],
        }


def _curves(released: NoisyHistograms, rows: HeldRecords | None) -> list[ClassCurves]:
    """Return the curves of each class that has bins. The area of `rows` takes the place of what bins show."""
    layout, edges = released.layout, released.edges
    curves = []
    for histogram in layout.histograms:
        name, cells = histogram.name, released.of(histogram.kind, histogram.name)
        if histogram.kind == "bins" and cells is not None:
            public = edges.of_class[name], edges.middles[name], edges.inside[name]
            one = ClassCurves.of_cells(name, cells, *public, released.sigma, of_two=len(layout.classes) == 2)
            if rows is not None:
                place = layout.classes.index(name)
                column, is_case = rows.probabilities[:, place], rows.truth == place
                one = one.with_area_of(column[is_case], column[~is_case & rows.usable])
            curves.append(one)
    return curves


def _class_shares(
    released: NoisyHistograms, curves: list[ClassCurves], decisions: ClassDecisions | None
) -> Mapping[str, Figure]:
    if decisions is not None:
        return decisions.shares
    layout = released.layout
    other = layout.classes[1 - layout.positive]
    return {layout.classes[layout.positive]: curves[0].share, other: curves[0].share.mirrored()}


def _groups(released: NoisyHistograms, column: str) -> tuple[GroupQuality, ...]:
    layout, sigma = released.layout, released.sigma
    names = (*layout.groups[column], OTHER_GROUP)
    cells = released.of("bins by group", column)
    if cells is not None:
        positive = layout.classes[layout.positive]
        return GroupQuality.of_bins(names, positive, cells, released.edges.of_groups, sigma)
    cells = released.of("decisions by group", column)
    return () if cells is None else GroupQuality.of_decisions(names, layout.classes, cells, sigma)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs of wrong decisions about two classes. Only their ratio matters for the threshold.

    Parameters
    ----------
    false_negative : float
        Cost of a missed case, above 0.
    false_positive : float
        Cost of a false alarm, above 0.

    Raises
    ------
    InvalidParameterError
        If a cost is not a number above 0.

    Examples
    --------
    >>> Costs(false_negative=9, false_positive=1).threshold
    0.1
    """

    false_negative: float
    false_positive: float

    def __post_init__(self) -> None:
        for name in ("false_negative", "false_positive"):
            value = self.to_dict()[name]
            try:
                real_between(name, value, _SMALLEST_COST, _LARGEST_COST)
            except InvalidParameterError:
                raise InvalidParameterError(
                    f"cost_{name}={value!r} must be a number above 0 (at most {_LARGEST_COST:g}): give what one such "
                    "mistake costs.",
                    parameter=f"cost_{name}",
                ) from None

    @classmethod
    def of(cls, given: Mapping[str, float] | None) -> Costs | None:
        """Return costs from a mapping with both names, or None."""
        if given is None:
            return None
        if not isinstance(given, Mapping) or set(given) != {"false_negative", "false_positive"}:
            raise InvalidParameterError(
                f"costs={given!r} must have false_negative and false_positive: give both.", parameter="costs"
            )
        return cls(**given)

    @property
    def threshold(self) -> float:
        """The threshold for probabilities that are right."""
        return self.false_positive / (self.false_positive + self.false_negative)

    def decision(
        self, positive: str, cells: Floats | None = None, curves: ClassCurves | None = None, sigma: float = 0.0
    ) -> Decision:
        """Return the threshold for these costs, and what it does if there are held-back units.

        Parameters
        ----------
        positive : str
            The positive class.
        cells : ndarray of shape (2, n_bins) or None
            Noisy numbers of units: the rest, then the positive class. None without held-back units.
        curves : ClassCurves or None
            The figures of the cells.
        sigma : float
            Standard deviation of the noise on each cell.
        """
        formula = self.threshold
        if cells is None or curves is None:
            why = (
                "This threshold is right if the probabilities are. No units were held back, so nothing shows whether "
                "they are. --holdout-score does, and adds a table per 1,000 people."
            )
            return Decision(costs=self, positive=positive, threshold=formula, formula=formula, why=why)
        thresholds, start = curves.thresholds, curves.place_of(formula)
        chosen, saved = _better(self, cells, start, sigma)
        if chosen == start:
            why = (
                f"The costs ask for {formula:.4g} if the probabilities are right. Of {len(thresholds)} thresholds of "
                "the released histogram, no other one saves anything beyond the noise."
            )
        else:
            why = (
                f"The costs ask for {formula:.4g} if the probabilities are right. The released histogram shows that "
                f"{thresholds[chosen]:.4g} costs at least {1000 * saved / max(cells.sum(), 1):.3g} less per 1,000 "
                "people, noise and chance included."
            )
        # One row for each threshold, by the first of its names.
        rows = {curves.place_of(0.5): "one half"} | {start: "formula"} | {chosen: "for these costs"}
        table = [_row(name, curves, place, self) for place, name in reversed(rows.items())]
        return Decision(
            costs=self,
            positive=positive,
            threshold=thresholds[chosen],
            formula=formula,
            why=why,
            table=tuple(table),
        )

    def to_dict(self) -> dict[str, float]:
        """Return both costs."""
        return {"false_negative": self.false_negative, "false_positive": self.false_positive}


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The threshold for some costs, and what it does to 1,000 units. May be published.

    Parameters
    ----------
    costs : Costs
        Costs of wrong decisions.
    positive : str
        The class whose probability is compared with the threshold.
    threshold : float
        Probability from which a unit is called positive.
    formula : float
        The threshold for probabilities that are right.
    why : str
        Where the threshold comes from, in words.
    table : tuple of dict
        What thresholds do to 1,000 units: ``name``, ``threshold``, and figures of ``alarms``, ``missed``,
        ``false_alarms`` and ``cost``. Empty without held-back units.
    """

    costs: Costs
    positive: str
    threshold: float
    formula: float
    why: str
    table: tuple[PlainValues, ...] = ()

    def to_dict(self) -> PlainValues:
        """Return the decision as plain values."""
        return {
            "costs": self.costs.to_dict(),
            "positive_class": self.positive,
            "threshold": self.threshold,
            "formula": self.formula,
            "why": self.why,
            "per_1000": [
                {name: one.to_dict() if name in _FIGURES else one for name, one in row.items()} for row in self.table
            ],
        }


def _better(costs: Costs, cells: Floats, start: int, sigma: float) -> tuple[int, float]:
    """Return the threshold that surely saves most over the one at `start`, and how much it saves at least."""
    negative, positive = cells
    n_thresholds = len(positive) - 1
    z = critical(max(n_thresholds - 1, 1))
    best, most = start, 0.0
    for place in range(n_thresholds):
        between = slice(min(place, start) + 1, max(place, start) + 1)
        sign = 1 if place < start else -1
        saved = sign * (costs.false_negative * positive[between].sum() - costs.false_positive * negative[between].sum())
        n_between = abs(place - start)
        variance = costs.false_negative**2 * (
            n_between * sigma**2 + np.maximum(positive[between], 0).sum()
        ) + costs.false_positive**2 * (n_between * sigma**2 + np.maximum(negative[between], 0).sum())
        surely = float(saved - z * np.sqrt(variance))
        if surely > most:
            best, most = place, surely
    return best, most


def _row(name: str, curves: ClassCurves, place: int, costs: Costs) -> PlainValues:
    alarms, missed, false_alarms = (
        curves.at[which][place].times(1000) for which in ("alarms", "missed", "false_alarms")
    )
    values = missed.value, false_alarms.value
    value = None if None in values else costs.false_negative * values[0] + costs.false_positive * values[1]  # type: ignore[operator]
    cost = Figure(
        value,
        costs.false_negative * missed.low + costs.false_positive * false_alarms.low,
        costs.false_negative * missed.high + costs.false_positive * false_alarms.high,
    )
    return {
        "name": name,
        "threshold": curves.thresholds[place],
        "alarms": alarms,
        "missed": missed,
        "false_alarms": false_alarms,
        "cost": cost,
    }
