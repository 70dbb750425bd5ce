"""Label moments: soft votes of single units, released as noisy sums, and a student fitted to them."""

from dpensemble.moments.fits import Moments
from dpensemble.moments.learning import MomentsSource
from dpensemble.moments.maps.base import BoundedMap
from dpensemble.moments.maps.directions import DirectionsMap
from dpensemble.moments.maps.images import ImageMap
from dpensemble.moments.maps.tables import TableMap
from dpensemble.moments.model import MomentsModel

__all__ = [
    "BoundedMap",
    "DirectionsMap",
    "ImageMap",
    "Moments",
    "MomentsModel",
    "MomentsSource",
    "TableMap",
]
