"""The quality of a student: every figure that a noisy histogram gives, with its band, for a report and for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpensemble.quality.areas import Area
from dpensemble.quality.classes import (
    ClassDecisions,
    GroupQuality,
    class_decisions,
    groups_of_bins,
    groups_of_decisions,
)
from dpensemble.quality.costs import Costs, Decision, decide
from dpensemble.quality.curves import ClassCurves, class_curves
from dpensemble.quality.figures import LEVEL, Figure, Plain
from dpensemble.quality.layout import OTHER
from dpensemble.quality.release import HALF, NoisyHistograms

METHOD = (
    "Noise of known standard deviation and the sampling of units, as sets of shares that the cells do not refute "
    "(Fieller 1954; Wilson 1927). Figures of one class, or of all groups of one column, hold together at every "
    "threshold (Sidak 1967). Accuracy, area under the curve and loss hold one by one. The interval of the area is for "
    "the student, over all distributions of its probabilities within the bins (Imbens and Manski 2004). The area "
    "has no single value. The loss is that of one probability for each bin, the mean of its public rows."
)


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

    def to_dict(self) -> Plain:
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
            "level": LEVEL,
            "method": METHOD,
            "most_common": self.most_common.to_dict() | {"class": self.most_common_class},
            "one_against_rest": [one.to_dict() for one in self.curves],
            "classes": [] if self.decisions is None else self.decisions.to_dict(),
            "groups": {column: [one.to_dict() for one in groups] for column, groups in self.groups.items()},
            "histograms": [
                {"kind": one.kind, "name": one.name, "cells": cells.tolist()}
                for one, cells in zip(layout.histograms, released.cells, strict=True)
            ],
        }


def quality_of(
    released: NoisyHistograms, costs: Costs | None = None, areas: Mapping[str, Area] | None = None
) -> ReleasedQuality:
    """Return every figure of noisy histograms. This is computed from what was released, and costs nothing.

    `areas` of classes take the place of what bins show, if the probabilities of rows are known.
    """
    layout, sigma = released.layout, released.sigma
    curves = []
    for histogram in layout.histograms:
        cells = released.of(histogram.kind, histogram.name)
        if histogram.kind == "bins" and cells is not None:
            edges, middles, inside = (
                one[histogram.name] for one in (released.edges.of_class, released.edges.middles, released.edges.inside)
            )
            half = HALF if len(layout.classes) == 2 else None
            of_class = class_curves(histogram.name, cells, edges, middles, inside, sigma, half=half)
            known = (areas or {}).get(histogram.name)
            curves.append(of_class if known is None else replace(of_class, auroc=known))
    decisions = None
    if len(layout.classes) > 2:
        cells = released.of("decisions")
        decisions = None if cells is None else class_decisions(layout.classes, cells, sigma)
    shares = _class_shares(released, curves, decisions)
    accuracy = curves[0].accuracy if decisions is None else decisions.accuracy
    decision = None
    if costs is not None:
        positive = layout.classes[layout.positive]
        decision = decide(costs, positive, released.of("bins", positive), curves[0], sigma)
    share_values = {name: share.value for name, share in shares.items() if share.value is not None}
    return ReleasedQuality(
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
    names = (*layout.groups[column], OTHER)
    cells = released.of("bins by group", column)
    if cells is not None:
        positive = layout.classes[layout.positive]
        return groups_of_bins(names, positive, cells, released.edges.of_groups, HALF, sigma)
    cells = released.of("decisions by group", column)
    return () if cells is None else groups_of_decisions(names, layout.classes, cells, sigma)
