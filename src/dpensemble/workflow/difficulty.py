"""How difficult public tables are, and the intervals that follow for one that nobody has seen.

`difficulty.json` holds what public tables showed without noise, and what their runs lost beside made-up effects.
``benchmarks/table_size.py`` writes it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from statistics import NormalDist

import numpy as np

from dpensemble._entries import Floats, Integers

#: The interval of 90 %.
LOW, HIGH = 0.05, 0.95
#: Folds of labelled rows.
FOLDS = 5
# Samples of noise for each public table, and quantiles of distances.
_SAMPLES, _QUANTILES = 20, 200
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate, and the ends of its interval of 90 %."""

    estimate: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Return plain numbers with four decimals."""
        return {name: round(value, 4) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Points:
    """What made-up effects show with a number of records and an epsilon. Public.

    An effect has the AUROC of its own chances, and AUROC and accuracy of a student. `sigma` is the noise of the first
    sum, in sensitivities.
    """

    records: int
    epsilon: float
    effects: tuple[tuple[float, float, float], ...]
    sigma: float
    delta: float


def interval_over_folds(mean: float, of_rows: float, over_folds: float) -> Range:
    """Return an interval on the scale of the log odds, from the variance of all rows and that over folds.

    A fold has a part of the rows. What folds differ by beyond that is the spread over runs.
    """
    variance = of_rows + max(0.0, over_folds - FOLDS * of_rows)
    middle = min(max(mean, 1e-4), 1 - 1e-4)
    half = _NORMAL.inv_cdf(HIGH) * math.sqrt(variance) / (middle * (1 - middle))
    odds = math.log(middle / (1 - middle))
    return Range(mean, *(1 / (1 + math.exp(-one)) for one in (odds - half, odds + half)))


def variance_of_auroc(auroc: float, counts: Integers) -> float:
    """Return the variance of an AUROC, the mean over classes against the rest (Hanley and McNeil, Radiology 1982)."""
    total, of_classes = counts.sum(), []
    for n in counts.tolist():
        m = total - n
        first, second = auroc / (2 - auroc), 2 * auroc**2 / (1 + auroc)
        square = auroc**2
        of_classes.append((auroc - square + (n - 1) * (first - square) + (m - 1) * (second - square)) / (n * m))
    # The formula depends on which class comes second, and the larger value is safe.
    return max(*of_classes, 1e-8)


def ranges_of(points: Points, n_classes: int, share: float, best: float | None = None) -> tuple[Range, Range]:
    """Return AUROC and accuracy from what made-up effects show, over the difficulties of public tables.

    Parameters
    ----------
    points : Points
        What made-up effects show.
    n_classes : int
        Number of classes.
    share : float
        Share of the second of two classes.
    best : float, optional
        AUROC that is expected without noise. By default that of each public table.
    """
    known = _difficulty()
    loss, spread = attenuation([(one[0], one[1]) for one in points.effects])
    areas_without_noise = known.aurocs if best is None else np.array([best])
    distances = np.repeat([distance(one) for one in areas_without_noise], len(known.losses))
    losses = loss * np.tile(known.losses, len(areas_without_noise))
    errors = np.array([_NORMAL.inv_cdf((place + 0.5) / _SAMPLES) for place in range(_SAMPLES)])
    kept = (attenuated(distances, losses)[:, None] + spread * errors).ravel()
    ends = [_NORMAL.cdf(one / math.sqrt(2)) for one in _quantiles(kept)]
    if n_classes == 2:
        grid = np.quantile(kept, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        best_rules = np.array([accuracy_at(max(float(one), 0.0), share) for one in grid])
        # How far real students were from the best rule with their AUROC.
        accuracies = _quantiles(np.clip(best_rules[:, None] + known.accuracy_errors, 0, 1))
    else:
        order = sorted(points.effects, key=lambda effect: effect[1])
        highest = np.maximum.accumulate([effect[2] for effect in order])
        accuracies = np.interp(ends, [effect[1] for effect in order], highest).tolist()
    return Range(*ends), Range(*accuracies)


def _quantiles(values: Floats) -> list[float]:
    return [float(one) for one in np.quantile(values, (0.5, LOW, HIGH))]


@dataclass(frozen=True, eq=False)
class _Difficulty:
    """What public tables showed.

    `aurocs` are those without noise, `losses` those of runs in multiples of the losses of made-up effects, and
    `accuracy_errors` accuracies less those of the best rule. `usual` is what made-up effects show by default.
    """

    aurocs: Floats
    losses: Floats
    accuracy_errors: Floats
    usual: tuple[Points, ...]


@cache
def _difficulty() -> _Difficulty:
    content = json.loads((files("dpensemble.workflow") / "difficulty.json").read_text(encoding="utf-8"))
    usual = tuple(Points(**one | {"effects": tuple(map(tuple, one["effects"]))}) for one in content["usual"])
    aurocs, losses, errors = (np.array(content[name]) for name in ("aurocs", "losses", "accuracy_errors"))
    return _Difficulty(aurocs, losses, errors, usual)


def usual_points() -> dict[tuple[int, float], Points]:
    """Return what made-up effects show with the usual settings. A script computed it as `plan_label_moments` does."""
    return {(one.records, one.epsilon): one for one in _difficulty().usual}


def distance(area: float) -> float:
    """Return the distance of two normal distributions of variance 1 whose AUROC is `area`."""
    return math.sqrt(2) * _NORMAL.inv_cdf(min(max(area, 1e-4), 1 - 1e-4))


def attenuated(best: float | Floats, loss: float | Floats) -> Floats:
    """Return the distance that a student shows. Noise of variance `loss` stands beside a signal of ``best**2``."""
    return np.square(best) / np.sqrt(np.square(best) + loss)


def attenuation(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the loss that fits pairs of the best AUROC and a student's AUROC, and the spread around the fit."""
    best, seen = (np.array([distance(one) for one in column]) for column in zip(*pairs, strict=True))
    losses = np.geomspace(1e-3, 1e3, 241)
    errors = ((attenuated(best, losses[:, None]) - seen) ** 2).mean(axis=1)
    place = int(errors.argmin())
    return float(losses[place]), float(np.sqrt(errors[place]))


def accuracy_at(gap: float, share: float) -> float:
    """Return the accuracy of the best rule for two normal distributions. `share` is that of the higher one."""
    if gap < 1e-3:
        return max(share, 1 - share)
    cut = math.log((1 - share) / share) / gap
    return share * _NORMAL.cdf(gap / 2 - cut) + (1 - share) * _NORMAL.cdf(gap / 2 + cut)
