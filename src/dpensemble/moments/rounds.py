"""The rounds of a run: what was released so far, and the model that was fitted to it."""

from __future__ import annotations

from typing import Any

from dpensemble._arrays import Floats
from dpensemble.moments.evidence import Fit, PublicRows, fit_moments, starting_fit
from dpensemble.moments.linear import fit_linear
from dpensemble.moments.release import Moments, MomentsSource
from dpensemble.moments.spending import weights_of_features


class Rounds:
    """Releases round after round, and fits all of them together after each.

    Parameters
    ----------
    source : MomentsSource
        Private records behind their meter.
    feature_map : fitted map
        The source's, made from what is public.
    rows : PublicRows
        Rows that say what a model expects.
    total_weight : float
        Sum of the units' weights, or its noisy value.

    Attributes
    ----------
    released : list of Moments
        What was released so far.
    fitted : Fit
        Coefficients that were fitted to it.
    """

    def __init__(self, source: MomentsSource, feature_map: Any, rows: PublicRows, total_weight: float) -> None:
        self.source, self.feature_map, self.rows, self.total_weight = source, feature_map, rows, total_weight
        self.released: list[Moments] = []
        self.fitted: Fit = starting_fit(rows)

    def first(self, share: float) -> Moments:
        """Release the first round, for a share of the budget, and return it; nothing is fitted yet."""
        self.released.append(self.source.first(share, self.total_weight))
        return self.released[0]

    def later(self, share: float) -> None:
        """Release a round around what is fitted so far."""
        self.released.append(
            self.source.residuals(share, self.total_weight, centre=self.fitted.coefficients, scale=self._weights(share))
        )

    def _weights(self, share: float) -> Floats | None:
        if not hasattr(self.feature_map, "squares_"):
            return None
        return weights_of_features(
            self.fitted, self.rows, self.feature_map, self.source.spread(share, self.total_weight)
        )

    def fit(self) -> None:
        """Fit the coefficients to all that was released."""
        if self.rows.n_classes == 2:
            self.fitted = fit_moments(self.released, self.rows, self.fitted, n_units=self.total_weight)
        else:
            self.fitted = fit_linear(self.released, self.rows, n_units=self.total_weight)
