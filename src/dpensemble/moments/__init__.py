"""Label moments: soft votes of single units, released as noisy sums, and a student fitted to them."""

from dpensemble.moments.averages import AnswerBound, noisy_average
from dpensemble.moments.blocks import PrivateBlocks, blocks_of
from dpensemble.moments.choice import MANY_COLUMNS, VERY_FEW_ROWS, bounded_map, distilled, require_no_blanks
from dpensemble.moments.drift import Drift
from dpensemble.moments.effects import column_effects
from dpensemble.moments.grid import Grid, declared_grid, observed_grid, with_texts
from dpensemble.moments.learning import Learned, learn, learn_by_synthetic_rows
from dpensemble.moments.maps.directions import DirectionsMap
from dpensemble.moments.maps.general import BoundedMap
from dpensemble.moments.maps.images import ImageMap
from dpensemble.moments.maps.snapped import SnappedMap
from dpensemble.moments.maps.tables import TableMap
from dpensemble.moments.model import MomentsModel
from dpensemble.moments.queries import Moments
from dpensemble.moments.rounds import MomentsSource

__all__ = [
    "MANY_COLUMNS",
    "VERY_FEW_ROWS",
    "AnswerBound",
    "BoundedMap",
    "DirectionsMap",
    "Drift",
    "Grid",
    "ImageMap",
    "Learned",
    "Moments",
    "MomentsModel",
    "MomentsSource",
    "PrivateBlocks",
    "SnappedMap",
    "TableMap",
    "blocks_of",
    "bounded_map",
    "column_effects",
    "declared_grid",
    "distilled",
    "learn",
    "learn_by_synthetic_rows",
    "noisy_average",
    "observed_grid",
    "require_no_blanks",
    "with_texts",
]
