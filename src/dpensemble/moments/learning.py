"""All rounds of label moments, from the first release to a published model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from dpensemble._arrays import Floats
from dpensemble.datasets import fit_encoder
from dpensemble.errors import DataError
from dpensemble.moments.drift import DISTRUST, Drift, drift
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


#: Public rows below which a table's features are taken as they are, beside made-up rows, and the share of those.
FEW_ROWS = 1000
_MADE_UP_ROWS, _MADE_UP_SHARE = 2000, 0.3


class Rounds(Protocol):
    """What a run's design says of its rounds."""

    @property
    def shares(self) -> tuple[float, ...]: ...  # noqa: D102

    @property
    def before(self) -> float: ...  # noqa: D102

    @property
    def count_share(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Learned:
    """A published model, what it was learned from, prior scales of blocks, and how public rows compare."""

    model: MomentsModel
    rounds: tuple[Moments, ...]
    scales: Floats
    drift: Drift | None


def bounded_map(feature_map: Any, *, n_public: int, n_rows: int, n_classes: int, epsilon: float) -> Any:
    """Return an unfitted map of rows to features: the usual one for tables, or what was given, bounded.

    Parameters
    ----------
    feature_map : transformer or None
        What was asked for.
    n_public : int
        Public rows.
    n_rows : int
        Public number that stands for that of private units.
    n_classes : int
        Number of classes.
    epsilon : float
        Budget.
    """
    if feature_map is None and n_public < FEW_ROWS:
        # Directions of so few rows are those of chance.
        return TableMap()
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
    # Many small products: threads that wait for each other take many times as long on a busy machine.
    with threadpool_limits(1, user_api="blas"):
        return _learned(source, feature_map, public, classes, rounds, total_weight, on_done)


def _learned(
    source: MomentsSource,
    feature_map: Any,
    public: Any,
    classes: NDArray[Any],
    rounds: Rounds,
    total_weight: float,
    on_done: Callable[[int], None],
) -> Learned:
    rows = _rows(feature_map, public, len(classes))
    if rounds.count_share:
        total_weight, _ = source.count(rounds.count_share)
    real = rows.features[: rows.real_rows]
    found: Drift | None = None
    if rounds.before:
        found = drift(*source.mean(rounds.before, total_weight), real, total_weight)
        rows = _trusted(rows, found)
    fitted, released = starting_fit(rows), []
    for number, share in enumerate(rounds.shares):
        if number == 0:
            released.append(source.first(share, total_weight))
            if released[0].mean is not None:
                found = drift(released[0].mean, released[0].mean_spread, real, total_weight)
                rows = _trusted(rows, found)
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
    return Learned(MomentsModel.of(fitted.coefficients, classes), tuple(released), fitted.scales, found)


def _trusted(rows: PublicRows, found: Drift) -> PublicRows:
    """Return public rows that are taken for worse than a sample where they look unlike the private ones."""
    return replace(rows, kappa=DISTRUST) if found.alarm else rows


def _rows(feature_map: Any, public: Any, n_classes: int) -> PublicRows:
    """Return the features of public rows; where they are few, of rows with columns drawn each by itself, too."""
    features, shares = whole_features(feature_map.transform(public)) / UNIT, None
    if isinstance(feature_map, TableMap) and len(public) < FEW_ROWS:
        # Few rows say little of which entries go together; these keep the fit from trusting what chance put together.
        draw = np.random.default_rng(0)
        picked = {name: draw.integers(len(public), size=_MADE_UP_ROWS) for name in public.columns}
        made_up = public.iloc[picked[public.columns[0]]].reset_index(drop=True)
        for name in public.columns:
            made_up[name] = public[name].to_numpy()[picked[name]]
        more = whole_features(feature_map.transform(made_up)) / UNIT
        features = sparse.vstack([features, more], format="csr")
        even = np.repeat(
            [(1 - _MADE_UP_SHARE) / len(public), _MADE_UP_SHARE / _MADE_UP_ROWS], [len(public), len(made_up)]
        )
        shares = even
    return PublicRows(features, feature_map.blocks_, n_classes, real_rows=len(public), shares=shares)


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
