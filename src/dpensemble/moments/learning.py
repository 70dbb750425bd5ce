"""All rounds of label moments, from the first release to a published model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from dpensemble._arrays import Floats
from dpensemble.datasets import fit_encoder
from dpensemble.errors import DataError
from dpensemble.moments.evidence import PublicRows, fit_moments, starting_fit
from dpensemble.moments.linear import fit_linear
from dpensemble.moments.maps.directions import DirectionsMap
from dpensemble.moments.maps.general import BoundedMap
from dpensemble.moments.maps.tables import TableMap
from dpensemble.moments.model import MomentsModel
from dpensemble.moments.release import Moments, MomentsSource
from dpensemble.moments.spending import weights_of_features
from dpensemble.moments.whole import UNIT, whole_features

# Directions of a table's features: so many times the root of records times epsilon, for two and for more classes.
_DIRECTIONS, _FEWEST_DIRECTIONS, _MOST_DIRECTIONS, _MOST_EPSILON = (2.0, 1.2), 60, 500, 10.0


class Rounds(Protocol):
    """What a run's design says of its rounds."""

    @property
    def shares(self) -> tuple[float, ...]: ...  # noqa: D102

    @property
    def count_share(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Learned:
    """A published model, what it was learned from, and the prior scale of every block of features."""

    model: MomentsModel
    rounds: tuple[Moments, ...]
    scales: Floats


def bounded_map(feature_map: Any, *, n_rows: int, n_classes: int, epsilon: float) -> Any:
    """Return an unfitted map of rows to features: the usual one for tables, or what was given, bounded.

    Parameters
    ----------
    feature_map : transformer or None
        What was asked for.
    n_rows : int
        Public number that stands for that of private units.
    n_classes : int
        Number of classes.
    epsilon : float
        Budget.
    """
    if feature_map is None:
        # Noise falls with the number of records and the budget; more classes leave less of it to each.
        wanted = _DIRECTIONS[n_classes > 2] * np.sqrt(n_rows * min(epsilon, _MOST_EPSILON))
        return DirectionsMap(TableMap(), n_directions=int(np.clip(wanted, _FEWEST_DIRECTIONS, _MOST_DIRECTIONS)))
    return clone(feature_map) if hasattr(feature_map, "is_bounded") else BoundedMap(feature_map)


def learn(
    source: MomentsSource,
    feature_map: Any,
    public: Any,
    classes: NDArray[Any],
    rounds: Rounds,
    total_weight: float,
    on_done: Callable[[int], None] = lambda _: None,
) -> Learned:
    """Release all rounds and fit the model to them.

    Parameters
    ----------
    source : MomentsSource
        Private records behind their meter.
    feature_map : fitted map
        Made from public rows alone.
    public : table
        Public rows.
    classes : ndarray of shape (n_classes,)
        Declared labels, sorted.
    rounds : Rounds
        Shares of the budget.
    total_weight : float
        Sum of the units' weights; where it is private it is not used, but released with noise.
    on_done : callable
        Told after every round.

    Returns
    -------
    Learned
    """
    features = whole_features(feature_map.transform(public)) / UNIT
    rows = PublicRows(features, feature_map.blocks_, len(classes), real_rows=features.shape[0])
    if rounds.count_share:
        total_weight, _ = source.count(rounds.count_share)
    fitted, released = starting_fit(rows), []
    for number, share in enumerate(rounds.shares):
        if number == 0:
            released.append(source.first(share, total_weight))
        else:
            scale = None
            if hasattr(feature_map, "squares_"):
                scale = weights_of_features(fitted, rows, feature_map, source.spread(share, total_weight))
            released.append(source.residuals(share, total_weight, centre=fitted.coefficients, scale=scale))
        if len(classes) == 2:
            fitted = fit_moments(released, rows, fitted, n_units=total_weight)
        else:
            fitted = fit_linear(released, rows, n_units=total_weight)
        on_done(1)
    return Learned(MomentsModel.of(fitted.coefficients, classes), tuple(released), fitted.scales)


def distilled(student: Any, model: Any, rows: Any, seed: int) -> Any:
    """Return a student fitted to a published model's predictions for public rows.

    Where the student takes weights, every row teaches each class as much as the model finds it probable.
    """
    if rows.isna().to_numpy().any():
        raise DataError(f"student={type(student).__name__} cannot learn from blanks (NaN); leave student out.")
    encoder = fit_encoder(rows)
    fresh, encoded = clone(student), encoder.transform(rows)
    unseeded = [name for name, value in fresh.get_params().items() if name.endswith("random_state") and value is None]
    fresh.set_params(**dict.fromkeys(unseeded, seed))
    probable, n_classes = model.predict_proba(rows), len(model.classes_)
    if has_fit_parameter(fresh, "sample_weight"):
        every = np.repeat(np.arange(len(probable)), n_classes)
        fresh.fit(encoded[every], np.tile(model.classes_, len(probable)), sample_weight=probable.ravel())
    else:
        fresh.fit(encoded, model.classes_[probable.argmax(axis=1)])
    return Pipeline([("encoder", encoder), ("student", fresh)])
