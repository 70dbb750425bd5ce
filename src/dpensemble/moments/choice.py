"""Which map a run uses, and what is trained from its model in the end."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from dpensemble._hide_private_rows import on_public_rows
from dpensemble.datasets import fit_encoder
from dpensemble.errors import DataError
from dpensemble.moments.maps.curved import CurvedMap
from dpensemble.moments.maps.directions import DirectionsMap
from dpensemble.moments.maps.general import BoundedMap
from dpensemble.moments.maps.tables import TableMap

# Directions of a table's features, in multiples of the root of records times epsilon: two classes, more classes.
_DIRECTIONS, _FEWEST_DIRECTIONS, _MOST_DIRECTIONS, _MOST_EPSILON = (2.0, 1.2), 60, 500, 10.0
# Length of the constant of two classes, over records times epsilon. Its noise is the error of the base rate, which
# matters most if one class is rare.
_CONSTANT, _SHORTEST_CONSTANT, _LONGEST_CONSTANT = 1400.0, 0.1, 0.2
# Landmarks among public rows, as multiples of the same root, and their part of the squared length.
_LANDMARKS, _FEWEST_LANDMARKS, _MOST_LANDMARKS, _PARTS = (5.0, 3.0), 100, 800, (0.5, 0.75)
#: Public rows below which directions are those of chance, so that a table's features are taken as they are.
FEW_ROWS = 1000
#: Columns above which directions are always taken, since a fit cannot use that many features.
MANY_COLUMNS = 2000
#: Public rows below which the shares of entries are released with noise, since public rows do not show them well.
VERY_FEW_ROWS = 200


def fitted_map(feature_map: Any, public: Any, *, n_rows: int, n_classes: int, epsilon: float) -> Any:
    """Return a map of rows to features, fitted on public rows: the default map of tables, or the given map, bounded."""
    if feature_map is not None:
        bounded = clone(feature_map) if hasattr(feature_map, "is_bounded") else BoundedMap(feature_map)
        return bounded.fit(public)
    n_public, n_columns = public.shape
    if n_public < FEW_ROWS and n_columns <= MANY_COLUMNS:
        return TableMap().fit(public)
    # Noise falls with the number of records and the budget, and more classes leave less of the budget to each.
    root = np.sqrt(n_rows * min(epsilon, _MOST_EPSILON))
    n_directions = int(np.clip(_DIRECTIONS[n_classes > 2] * root, _FEWEST_DIRECTIONS, _MOST_DIRECTIONS))
    n_landmarks = int(np.clip(_LANDMARKS[n_classes > 2] * root, _FEWEST_LANDMARKS, _MOST_LANDMARKS))
    longest = _LONGEST_CONSTANT if n_classes == 2 else _SHORTEST_CONSTANT
    constant = float(np.clip(_CONSTANT / root**2, _SHORTEST_CONSTANT, longest))
    directions = DirectionsMap(TableMap(), n_directions=n_directions, constant=constant)
    curved = CurvedMap(directions, n_landmarks=n_landmarks, part=_PARTS[n_classes > 2]).fit(public)
    # Without landmarks, rounds of residuals serve two classes better than one round of class sums.
    return curved.base_ if n_classes == 2 and curved.landmarks_ is None else curved


def require_no_blanks(student: Any, rows: Any) -> None:
    """Refuse public rows that a student could not be trained on, before anything is released."""
    if student is not None and rows.isna().to_numpy().any():
        raise DataError(f"student={type(student).__name__} cannot learn from blanks (NaN): leave student out.")


@on_public_rows()
def distilled(student: Any, model: Any, rows: Any, seed: int) -> Any:
    """Return a student fitted to a published model's predictions for public (or synthetic) rows without blanks.

    If the student takes weights, every row teaches each class, with the probability of the class as weight.
    """
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
