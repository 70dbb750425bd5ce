"""Label moments: soft votes of single units, released as noisy sums, and a student fitted to them."""

from dpensemble.moments.averages import AnswerBound, noisy_average
from dpensemble.moments.blocks import PrivateBlocks, blocks_of
from dpensemble.moments.choice import MANY_COLUMNS, VERY_FEW_ROWS, bounded_map, distilled, require_no_blanks
from dpensemble.moments.drift import Drift, drift
from dpensemble.moments.effects import column_effects
from dpensemble.moments.evidence import PublicRows, fit_moments, starting_fit
from dpensemble.moments.grid import Grid, declared_grid, observed_grid, with_texts
from dpensemble.moments.learning import Learned, learn, learn_by_synthetic_rows
from dpensemble.moments.linear import fit_linear
from dpensemble.moments.maps.directions import DirectionsMap
from dpensemble.moments.maps.general import BoundedMap
from dpensemble.moments.maps.images import ImageMap
from dpensemble.moments.maps.snapped import SnappedMap
from dpensemble.moments.maps.tables import TableMap
from dpensemble.moments.model import MomentsModel
from dpensemble.moments.queries import (
    ClassSums,
    FeatureMean,
    FeatureProducts,
    Moments,
    RecordsQuery,
    Residuals,
    UnitCount,
    exact_sum,
)
from dpensemble.moments.rounds import MomentsSource

__all__ = [
    "MANY_COLUMNS",
    "VERY_FEW_ROWS",
    "AnswerBound",
    "BoundedMap",
    "ClassSums",
    "DirectionsMap",
    "Drift",
    "FeatureMean",
    "FeatureProducts",
    "Grid",
    "ImageMap",
    "Learned",
    "Moments",
    "MomentsModel",
    "MomentsSource",
    "PrivateBlocks",
    "PublicRows",
    "RecordsQuery",
    "Residuals",
    "SnappedMap",
    "TableMap",
    "UnitCount",
    "blocks_of",
    "bounded_map",
    "column_effects",
    "declared_grid",
    "distilled",
    "drift",
    "exact_sum",
    "fit_linear",
    "fit_moments",
    "learn",
    "learn_by_synthetic_rows",
    "noisy_average",
    "observed_grid",
    "require_no_blanks",
    "starting_fit",
    "with_texts",
]
