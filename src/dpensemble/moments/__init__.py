"""Label moments: soft votes of single units, released as noisy sums, and a student fitted to them."""

from dpensemble.moments.blocks import PrivateBlocks, blocks_of
from dpensemble.moments.drift import MEAN_SHARE, Drift, drift
from dpensemble.moments.effects import column_effects
from dpensemble.moments.evidence import PublicRows, fit_moments, starting_fit
from dpensemble.moments.learning import Learned, bounded_map, distilled, learn
from dpensemble.moments.linear import fit_linear
from dpensemble.moments.maps.directions import DirectionsMap
from dpensemble.moments.maps.general import BoundedMap
from dpensemble.moments.maps.images import ImageMap
from dpensemble.moments.maps.tables import TableMap
from dpensemble.moments.model import MomentsModel
from dpensemble.moments.release import Moments, MomentsSource

__all__ = [
    "MEAN_SHARE",
    "BoundedMap",
    "DirectionsMap",
    "Drift",
    "ImageMap",
    "Learned",
    "Moments",
    "MomentsModel",
    "MomentsSource",
    "PrivateBlocks",
    "PublicRows",
    "TableMap",
    "blocks_of",
    "bounded_map",
    "column_effects",
    "distilled",
    "drift",
    "fit_linear",
    "fit_moments",
    "learn",
    "starting_fit",
]
