"""Whether public rows look like the private ones, as far as what was released tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, stats

from dpensemble._arrays import Floats, dense

#: Chance of a false alarm, and how much worse than a sample public rows are taken for after an alarm.
FALSE_ALARM, DISTRUST = 1e-3, 30.0


@dataclass(frozen=True, slots=True)
class Drift:
    """How far public rows are from private ones, in units of what chance does, and the chance of as much; public."""

    statistic: float
    tail: float

    @property
    def alarm(self) -> bool:
        """Whether public rows differ from private ones by more than chance does."""
        return self.tail < FALSE_ALARM

    def warning(self, *, replaced: bool = False) -> str:
        """Return what to tell people after an alarm: public rows count less, or were `replaced` by synthetic ones."""
        chance = f"chance of such a difference: {max(self.tail, 1e-300):.1g}"
        return (
            f"public rows do not look like the private ones ({chance}), so "
            f"{'synthetic rows were drawn instead' if replaced else 'they are trusted less'} and the student is less "
            "accurate; use public rows of the same population."
        )


def drift(mean: Floats, spread: float, features: Any, n_units: float) -> Drift:
    """Compare a released mean of private features with public rows; costs no privacy."""
    rows, size = features.shape
    features = dense(features)
    own = features.mean(axis=0)
    covariance = features.T @ features / rows - np.outer(own, own)
    # A feature counts as seen once more than it was, at its largest: means of few rows are far from normal.
    covariance[np.diag_indices(size)] += np.abs(features).max(axis=0) ** 2 / rows
    covariance *= 1 / n_units + 1 / rows
    covariance[np.diag_indices(size)] += spread**2
    gap = mean - own
    statistic = float(gap @ linalg.solve(covariance, gap, assume_a="pos"))
    return Drift(statistic, float(stats.chi2.sf(statistic, size)))
