"""Predicted classes against true classes, and figures by group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpensemble._arrays import Floats
from dpensemble.quality.curves import accuracy_at, threshold_parts
from dpensemble.quality.figures import Figure, Parts, Plain, critical, shares

_OF_GROUPS = ("sensitivity", "specificity", "positive_predictive_value", "alarms")


@dataclass(frozen=True, kw_only=True)
class ClassDecisions:
    """What the student decides among three and more classes. All figures but the accuracy hold together.

    Parameters
    ----------
    accuracy : Figure
        Share of units that are right. It holds alone.
    shares, recall, precision : mapping of str to Figure
        For each class its share of units, the share of its units that are found, and how often its prediction is right.
    """

    accuracy: Figure
    shares: Mapping[str, Figure]
    recall: Mapping[str, Figure]
    precision: Mapping[str, Figure]

    def to_dict(self) -> list[Plain]:
        """Return an entry for each class, as plain values."""
        return [
            {
                "class": name,
                "share": share.to_dict(),
                "recall": self.recall[name].to_dict(),
                "precision": self.precision[name].to_dict(),
            }
            for name, share in self.shares.items()
        ]


def class_decisions(names: tuple[str, ...], cells: Floats, sigma: float) -> ClassDecisions:
    """Return what noisy cells, true class by predicted class, show."""
    n, right = len(names), np.diag(cells)
    rows, columns = cells.sum(axis=1), cells.sum(axis=0)
    z = critical(3 * n)
    (accuracy,) = shares(Parts.of(right.sum(), cells.sum() - right.sum(), n, n * (n - 1)), sigma, critical(1))
    return ClassDecisions(
        accuracy=accuracy,
        shares=_named(names, shares(Parts.of(rows, cells.sum() - rows, n, n * (n - 1)), sigma, z)),
        recall=_named(names, shares(Parts.of(right, rows - right, 1, n - 1), sigma, z)),
        precision=_named(names, shares(Parts.of(right, columns - right, 1, n - 1), sigma, z)),
    )


def _named(names: tuple[str, ...], figures: list[Figure]) -> dict[str, Figure]:
    return dict(zip(names, figures, strict=True))


@dataclass(frozen=True, kw_only=True)
class GroupQuality:
    """Figures of one group of units. All figures of all groups of a column hold together.

    Parameters
    ----------
    name : str
        Value of the group column, or "other".
    share : Figure
        Share of units in the group.
    accuracy : Figure
        Share that is right. For two classes, at threshold one half.
    class_shares : mapping of str to Figure
        Share of the positive class, or of every class, within the group.
    recall : mapping of str to Figure
        For three and more classes, the share of each class's units that are found.
    thresholds : tuple of float
        For two classes, inner edges of the bins.
    at : mapping of str to tuple of Figure
        For two classes, figures for each threshold.
    """

    name: str
    share: Figure
    accuracy: Figure
    class_shares: Mapping[str, Figure]
    recall: Mapping[str, Figure]
    thresholds: tuple[float, ...] = ()
    at: Mapping[str, tuple[Figure, ...]]

    def to_dict(self) -> Plain:
        """Return the group as plain values, alarms per 1,000 units of the group."""
        return {
            "group": self.name,
            "share": self.share.to_dict(),
            "accuracy": self.accuracy.to_dict(),
            "class_shares": {name: one.to_dict() for name, one in self.class_shares.items()},
            "recall": {name: one.to_dict() for name, one in self.recall.items()},
            "thresholds": [
                {"threshold": threshold}
                | {
                    "alarms_per_1000" if name == "alarms" else name: (
                        figures[place].times(1000) if name == "alarms" else figures[place]
                    ).to_dict()
                    for name, figures in self.at.items()
                }
                for place, threshold in enumerate(self.thresholds)
            ],
        }


def groups_of_bins(
    names: tuple[str, ...], positive: str, cells: Floats, edges: Floats, half: float, sigma: float
) -> tuple[GroupQuality, ...]:
    """Return the groups of noisy cells, shape (n_groups, 2, n_bins)."""
    n_groups, _, n_bins = cells.shape
    z = critical(n_groups * (3 + len(_OF_GROUPS) * (n_bins - 1)))
    in_groups = _group_shares(cells, sigma, z)
    groups = []
    for name, share, (rest, ill) in zip(names, in_groups, cells, strict=True):
        parts = threshold_parts(ill, rest)
        (prevalence,) = shares(Parts.of(ill.sum(), rest.sum(), n_bins, n_bins), sigma, z)
        groups.append(
            GroupQuality(
                name=name,
                share=share,
                accuracy=accuracy_at(ill, rest, int(np.searchsorted(edges, half)), sigma, z),
                class_shares={positive: prevalence},
                recall={},
                thresholds=tuple(edges.tolist()),
                at={which: tuple(shares(parts[which], sigma, z)) for which in _OF_GROUPS},
            )
        )
    return tuple(groups)


def groups_of_decisions(
    names: tuple[str, ...], classes: tuple[str, ...], cells: Floats, sigma: float
) -> tuple[GroupQuality, ...]:
    """Return the groups of noisy cells, true class by wrong and right, shape (n_groups, n_classes, 2)."""
    n_groups, n_classes, _ = cells.shape
    z = critical(n_groups * (2 + 2 * n_classes))
    groups = []
    for name, share, one in zip(names, _group_shares(cells, sigma, z), cells, strict=True):
        wrong, right = one.T
        of_class = one.sum(axis=1)
        (accuracy,) = shares(Parts.of(right.sum(), wrong.sum(), n_classes, n_classes), sigma, z)
        rest = Parts.of(of_class, one.sum() - of_class, 2, 2 * (n_classes - 1))
        groups.append(
            GroupQuality(
                name=name,
                share=share,
                accuracy=accuracy,
                class_shares=_named(classes, shares(rest, sigma, z)),
                recall=_named(classes, shares(Parts.of(right, wrong, 1, 1), sigma, z)),
                at={},
            )
        )
    return tuple(groups)


def _group_shares(cells: Floats, sigma: float, z: float) -> list[Figure]:
    totals, size = cells.sum(axis=(1, 2)), cells[0].size
    return shares(Parts.of(totals, cells.sum() - totals, size, size * (len(cells) - 1)), sigma, z)
