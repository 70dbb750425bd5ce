"""A feature map for class sums: another map's features by sign, and nearness to landmarks, with no negative entry."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dpensemble._arrays import Floats, dense
from dpensemble.datasets.preparation import ColumnReading, statements_of
from dpensemble.datasets.tables import as_fitted_table, as_table
from dpensemble.moments.maps.base import ALONG_PATH, FeatureMap, MapOnBase, octaves_of
from dpensemble.moments.maps.landmarks import (
    KernelDirections,
    WhitenedNumbers,
    are_measured,
    chosen_landmarks,
    nearness,
    nearness_scale,
    shortened,
)

# Public rows below which no landmarks are chosen.
_FEWEST_ROWS = 1000


class CurvedMap(MapOnBase):
    """Features for class sums of tables, without negative entries, and of length 1.

    Each feature of the base map becomes two: its positive part and its negative part. Their difference is the base
    map's feature, with the noise that the feature itself would have. Replacing a unit moves sums of nonnegative vectors
    of length 1 by at most ``sqrt(2)`` instead of 2. When every column is a measured number and public rows are near
    their landmarks, a `part` of the squared length goes to nearness to landmarks. Both facts are public.

    The published model reads other features of the same rows (`decoder_`): those of the base map, and smooth functions
    of the distances to the landmarks.

    Parameters
    ----------
    base : feature map
        Cloned and fitted on public rows.
    n_landmarks : int, default=400
        Most landmarks; 0 for none.
    part : float, default=0.75
        Part of the squared length that nearness to landmarks has, above 0 and below 1.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_landmarks, n_columns) or None
        Means of groups of whitened public rows. None when landmarks would not stand for the public rows.
    decoder_ : feature map
        The map whose features the published model reads.
    compared_ : feature map
        The base map, whose features have their private and public means compared.
    blocks_ : ndarray of shape (n_features_out,)
        0 for all features, 1 for the constant.
    nonnegative_ : bool
        True.

    Examples
    --------
    >>> from dpensemble.moments import DirectionsMap, TableMap
    >>> public = pd.DataFrame(np.random.default_rng(0).normal(size=(1000, 3)))
    >>> curved = CurvedMap(DirectionsMap(TableMap(), n_directions=8), n_landmarks=20).fit(public)
    >>> features = curved.transform(public)
    >>> features.shape, bool(features.min() >= 0), bool(np.allclose(np.linalg.norm(features, axis=1), 1))
    ((1000, 37), True, True)
    """

    def __init__(self, base: FeatureMap, n_landmarks: int = 400, part: float = 0.75) -> None:
        self.base = base
        self.n_landmarks = n_landmarks
        self.part = part

    def fit(self, X: pd.DataFrame | Floats, y: None = None) -> CurvedMap:  # noqa: ARG002
        """Fit the base map, and choose landmarks, on public rows. Never pass private rows."""
        table = as_table(X)
        self.base_ = clone(self.base).fit(table)
        self._take_columns()
        self.nonnegative_, self.landmarks_ = True, None
        if self.n_landmarks and len(table) >= _FEWEST_ROWS and are_measured(table):
            self.numbers_ = WhitenedNumbers().fit(table)
            rows = self.numbers_.transform(table)
            self.landmarks_ = chosen_landmarks(rows, self.n_landmarks)
        if self.landmarks_ is None:
            self.decoder_ = self.base_
        else:
            self.scale_ = nearness_scale(rows, self.landmarks_)
            kernel = KernelDirections(self.landmarks_).fit(rows)
            self.decoder_ = CurvedDecoder(self.base_, self.numbers_, kernel).fit(table)
        n_signed = len(self.base_.blocks_) - 1
        n_near = 0 if self.landmarks_ is None else len(self.landmarks_)
        # Landmarks are nearer to the public rows that they were chosen among than to other rows of the same population.
        self.compared_ = self.base_
        self.blocks_ = np.append(np.zeros(2 * n_signed + n_near, dtype=np.int64), 1)
        return self

    def transform(self, X: pd.DataFrame | Floats) -> Floats:
        """Return the features of rows, shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        table = as_fitted_table(self, X)
        features = dense(self.base_.transform(table))
        signed, constant = features[:, :-1], features[:, -1:]
        parts = [np.maximum(signed, 0.0), np.maximum(-signed, 0.0)]
        if self.landmarks_ is None:
            return np.hstack([*parts, constant])
        near = nearness(self.numbers_.transform(table), self.landmarks_, self.scale_)
        rest = np.sqrt(1 - self.part)
        return np.hstack([np.sqrt(self.part) * near, *(rest * one for one in parts), rest * constant])


class CurvedDecoder(MapOnBase):
    """What a published model reads of rows: a base map's features, and smooth functions of distances to landmarks.

    `base`, `numbers` and `kernel` are fitted on public rows already. Rows are at most 1 long.
    """

    #: A product of matrices may round a row differently beside others. No private row is read by this map.
    reads_rows_alone = False

    def __init__(self, base: FeatureMap, numbers: WhitenedNumbers, kernel: KernelDirections) -> None:
        self.base = base
        self.numbers = numbers
        self.kernel = kernel

    def fit(self, X: pd.DataFrame, y: None = None) -> CurvedDecoder:  # noqa: ARG002
        """Take the fitted parts as they are."""
        self.base_ = self.base
        self._take_columns()
        self.nonnegative_ = False
        # The base map's blocks take the place of the constant that follows the kernel's directions.
        octaves = octaves_of(self.kernel.matrix_.shape[1])
        self.blocks_ = np.append(octaves[:-1], octaves[-1] + self.base.blocks_)
        return self

    def transform(self, X: pd.DataFrame | Floats) -> Floats:
        """Return the features of rows, shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        table = as_table(X)
        curved = shortened(self.kernel.transform(self.numbers.transform(table)))
        return np.hstack([curved, dense(self.base_.transform(table))]) * np.sqrt(0.5)

    @property
    def table_columns(self) -> list[ColumnReading] | None:  # type: ignore[override]
        """How the base map reads each column."""
        columns: list[ColumnReading] | None = statements_of(self.base_).table_columns
        return columns

    @property
    def attribution(self) -> str | None:  # type: ignore[override]
        """How a row is divided among its columns, if the base map divides rows."""
        return ALONG_PATH if statements_of(self.base_).attribution is not None else None

    def reference(self, public: pd.DataFrame) -> Floats:
        """Return the features that parts start from: those of the row of public means, and the base map's."""
        middle = np.zeros((1, self.numbers.matrix_.shape[1]))
        curved = shortened(self.kernel.transform(middle))[0]
        return np.append(curved, self.base_.reference(public)) * np.sqrt(0.5)

    def column_parts(self, X: pd.DataFrame | Floats, weights: Floats, reference: Floats) -> Floats:
        """Return what each column adds: a part of the base map's features, and a part of the curved ones.

        The curved part is an integrated gradient from the row of public means (M. Sundararajan, A. Taly and Q. Yan,
        "Axiomatic attribution for deep networks", ICML 2017). The integral is approximate.
        """
        table, n_curved = as_table(X), self.kernel.matrix_.shape[1]
        of_curved, of_base = weights[:n_curved] * np.sqrt(0.5), weights[n_curved:] * np.sqrt(0.5)
        parts = self.base_.column_parts(table, of_base, reference[n_curved:] / np.sqrt(0.5))
        from_mean = self.numbers.from_mean(table)
        slopes = self.kernel.mean_slopes(self.numbers.transform(table), of_curved)
        return parts + from_mean[:, :, None] * np.matmul(self.numbers.matrix_, slopes)

    def on_table(self, coefficients: Floats, public: pd.DataFrame) -> None:
        """Return None: a curved function of several columns has no effect of a single column."""
