"""Figures of classes: one class against the rest at each threshold, decisions among several classes, and groups.

One class against the rest has both curves, calibration, and the area.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpensemble._entries import Floats
from dpensemble.quality.areas import Area, area_bounds
from dpensemble.quality.figures import Figure, PlainValues, ShareSums, critical, mean, monotone, shares

#: What is stated at each threshold.
_AT_THRESHOLD = (
    "sensitivity",
    "specificity",
    "positive_predictive_value",
    "negative_predictive_value",
    "alarms",
    "missed",
    "false_alarms",
)
# Figures that fall as the threshold rises, and figures that rise.
_FALLING, _RISING = frozenset({"sensitivity", "alarms", "false_alarms"}), frozenset({"specificity", "missed"})
# Probabilities closer to 0 or 1 are cut in the logarithmic loss, as one unit in a thousand would be.
_LEAST_PROBABILITY = 1e-3
_OF_GROUPS = ("sensitivity", "specificity", "positive_predictive_value", "alarms")


@dataclass(frozen=True, kw_only=True)
class ClassCurves:
    """One class against the rest. All figures but the area and the loss hold together, at every threshold and bin.

    Parameters
    ----------
    name : str
        The class.
    share : Figure
        Share of units with this class.
    accuracy : Figure or None
        Share that is right at threshold one half. None with more than two classes. It holds alone.
    auroc : Area
        Area under the ROC curve of the student, over all distributions within the bins. It holds alone.
    log_loss : Figure
        Logarithmic loss if every bin states one probability, the mean of its public rows. It is not the loss of the
        student, whose probabilities differ within a bin. It holds alone.
    thresholds : tuple of float
        Inner edges of the bins, ascending.
    at : mapping of str to tuple of Figure
        A figure for each threshold. ``alarms``, ``missed`` and ``false_alarms`` are shares of all units.
    calibration : tuple of (float, float, float, Figure)
        For each bin its ends, the mean probability of its public rows, and the share of the class among its units.
    """

    name: str
    share: Figure
    accuracy: Figure | None
    auroc: Area
    log_loss: Figure
    thresholds: tuple[float, ...]
    at: Mapping[str, tuple[Figure, ...]]
    calibration: tuple[tuple[float, float, float, Figure], ...]

    def to_dict(self) -> PlainValues:
        """Return the curves as plain values, counts per 1,000 units."""
        per_1000 = {"alarms", "missed", "false_alarms"}
        rows = [
            {"threshold": threshold}
            | {
                f"{name}_per_1000" if name in per_1000 else name: (
                    figures[place].times(1000) if name in per_1000 else figures[place]
                ).to_dict()
                for name, figures in self.at.items()
            }
            for place, threshold in enumerate(self.thresholds)
        ]
        return {
            "class": self.name,
            "share": self.share.to_dict(),
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
            **self.auroc.entries(),
            "binned_log_loss": self.log_loss.to_dict(),
            "thresholds": rows,
            "calibration": [
                {"from": low, "to": high, "predicted": predicted, "observed": observed.to_dict()}
                for low, high, predicted, observed in self.calibration
            ],
        }


def class_curves(
    name: str, cells: Floats, edges: Floats, middles: Floats, inside: Floats, sigma: float, *, half: float | None
) -> ClassCurves:
    """Return the curves of noisy cells, shape (2, n_bins): the rest, then the class.

    Parameters
    ----------
    name : str
        The class.
    cells : ndarray of shape (2, n_bins)
        Noisy numbers of units.
    edges, middles : ndarray
        Inner edges, shape (n_bins - 1,), and the mean public probability in each bin.
    inside : ndarray of shape (n_bins,)
        Share of pairs within each bin in which the case is higher, on public rows.
    sigma : float
        Standard deviation of the noise on each cell.
    half : float or None
        The edge at which the predicted class changes, for the accuracy. None leaves the accuracy out.
    """
    negative, positive = cells
    parts = threshold_sums(positive, negative)
    n_bins = len(positive)
    z = critical(sum(map(len, parts.values())) + n_bins + 1)
    at = {which: tuple(_ordered(which, shares(one, sigma, z))) for which, one in parts.items()}
    # Two cells each: the class and the rest.
    observed = shares(ShareSums.of(positive, negative, 1, 1), sigma, z)
    (share,) = shares(ShareSums.of(positive.sum(), negative.sum(), n_bins, n_bins), sigma, z)
    ends = np.concatenate([[0.0], edges, [1.0]]).tolist()
    cut = np.clip(middles, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    return ClassCurves(
        name=name,
        share=share,
        accuracy=None if half is None else _accuracy_at(positive, negative, int(np.searchsorted(edges, half)), sigma),
        auroc=area_bounds(positive, negative, inside, sigma),
        log_loss=mean(cells, np.stack([-np.log(1 - cut), -np.log(cut)]), sigma),
        thresholds=tuple(edges.tolist()),
        at=at,
        calibration=tuple(zip(ends[:-1], ends[1:], middles.tolist(), observed, strict=True)),
    )


def threshold_sums(positive: Floats, negative: Floats) -> dict[str, ShareSums]:
    """Return the parts of every share, at each inner edge."""
    n_bins = len(positive)
    below, above = np.arange(1, n_bins), np.arange(n_bins - 1, 0, -1)
    p_low, n_low = np.cumsum(positive)[:-1], np.cumsum(negative)[:-1]
    p_high, n_high = positive.sum() - p_low, negative.sum() - n_low
    all_of = np.full(n_bins - 1, 2.0 * n_bins)
    return {
        "sensitivity": ShareSums.of(p_high, p_low, above, below),
        "specificity": ShareSums.of(n_low, n_high, below, above),
        "positive_predictive_value": ShareSums.of(p_high, n_high, above, above),
        "negative_predictive_value": ShareSums.of(n_low, p_low, below, below),
        "alarms": ShareSums.of(p_high + n_high, p_low + n_low, 2 * above, 2 * below),
        "missed": ShareSums.of(p_low, p_high + n_low + n_high, below, all_of - below),
        "false_alarms": ShareSums.of(n_high, n_low + p_low + p_high, above, all_of - above),
    }


def _ordered(which: str, figures: list[Figure]) -> list[Figure]:
    if which in _FALLING or which in _RISING:
        return monotone(figures, rising=which in _RISING)
    return figures


def _accuracy_at(positive: Floats, negative: Floats, place: int, sigma: float, z: float | None = None) -> Figure:
    """Return the share that is right if bins after an inner edge are called positive."""
    right = positive[place + 1 :].sum() + negative[: place + 1].sum()
    wrong = positive[: place + 1].sum() + negative[place + 1 :].sum()
    n_bins = len(positive)
    return shares(ShareSums.of(right, wrong, n_bins, n_bins), sigma, critical(1) if z is None else z)[0]


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

    def to_dict(self) -> list[PlainValues]:
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
    (accuracy,) = shares(ShareSums.of(right.sum(), cells.sum() - right.sum(), n, n * (n - 1)), sigma, critical(1))
    return ClassDecisions(
        accuracy=accuracy,
        shares=_by_class(names, shares(ShareSums.of(rows, cells.sum() - rows, n, n * (n - 1)), sigma, z)),
        recall=_by_class(names, shares(ShareSums.of(right, rows - right, 1, n - 1), sigma, z)),
        precision=_by_class(names, shares(ShareSums.of(right, columns - right, 1, n - 1), sigma, z)),
    )


def _by_class(names: tuple[str, ...], figures: list[Figure]) -> dict[str, Figure]:
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

    def to_dict(self) -> PlainValues:
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
        parts = threshold_sums(ill, rest)
        (prevalence,) = shares(ShareSums.of(ill.sum(), rest.sum(), n_bins, n_bins), sigma, z)
        groups.append(
            GroupQuality(
                name=name,
                share=share,
                accuracy=_accuracy_at(ill, rest, int(np.searchsorted(edges, half)), sigma, z),
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
        (accuracy,) = shares(ShareSums.of(right.sum(), wrong.sum(), n_classes, n_classes), sigma, z)
        rest = ShareSums.of(of_class, one.sum() - of_class, 2, 2 * (n_classes - 1))
        groups.append(
            GroupQuality(
                name=name,
                share=share,
                accuracy=accuracy,
                class_shares=_by_class(classes, shares(rest, sigma, z)),
                recall=_by_class(classes, shares(ShareSums.of(right, wrong, 1, 1), sigma, z)),
                at={},
            )
        )
    return tuple(groups)


def _group_shares(cells: Floats, sigma: float, z: float) -> list[Figure]:
    totals, size = cells.sum(axis=(1, 2)), cells[0].size
    return shares(ShareSums.of(totals, cells.sum() - totals, size, size * (len(cells) - 1)), sigma, z)
