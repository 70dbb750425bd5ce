"""What every feature map of the library states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpensemble._arrays import Floats
from dpensemble.datasets.encoding import LibraryTransformer


class FeatureMap(LibraryTransformer, TransformerMixin, BaseEstimator):
    """A feature map of the library: fitted on public rows, with rows of length at most 1 and a constant at the end.

    Attributes
    ----------
    blocks_ : ndarray of shape (n_features_out,)
        Number of the block that each feature is in, the constant's block last.
    nonnegative_ : bool
        Whether no feature is below 0.
    """

    #: Rows are at most 1 long, so that no one has to shorten them.
    is_bounded = True
    #: Whether a row's features depend on that row alone, to the last digit, in tables of the public rows' kinds.
    reads_rows_alone: bool = False
    #: Squared length of each block, by which later rounds weigh the blocks. None if later rounds do not weigh them.
    squares_: Floats | None = None

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return a name for each feature."""
        check_is_fitted(self)
        return np.asarray([*(f"direction {n}" for n in range(1, len(self.blocks_))), "constant"], dtype=object)
