"""The statements that every feature map of the library makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpensemble._arrays import Floats
from dpensemble.datasets.preparation import LibraryTransformer, statements_of

#: How a map divides a row among its columns: each column adds a part that depends only on its own entry.
ADDITIVE = "exact"
#: Each column adds such a part, times a factor that depends on the length of the row and so on all of its columns.
SCALED = "exact sum, scaled by the length of the row"
#: Columns act together, and an integral along a path from the public mean to the row divides their joint effect.
ALONG_PATH = "approximate attribution, exact sum"


class FeatureMap(LibraryTransformer, TransformerMixin, BaseEstimator):
    """A feature map of the library: fitted on public rows, with rows of length at most 1 and a constant at the end.

    Attributes
    ----------
    blocks_ : ndarray of shape (n_features_out,)
        Number of the block that each feature is in, the constant's block last.
    nonnegative_ : bool
        Whether no feature is below 0.
    """

    #: Rows are at most 1 long, so that no caller has to shorten them.
    is_bounded = True
    #: Squared length of each block, by which later rounds weigh the blocks. None if later rounds do not weigh them.
    squares_: Floats | None = None

    def reference(self, public: pd.DataFrame) -> Floats:
        """Return the features that `column_parts` start from, from public rows or what is known of them."""
        raise NotImplementedError

    def column_parts(self, X: pd.DataFrame | Floats, weights: Floats, reference: Floats) -> Floats:
        """Return what each column adds to ``features @ weights`` beyond the reference.

        Shape (n_rows, n_columns, n_outputs). `weights` have the shape (n_features_out, n_outputs). Parts are linear in
        them, and add up to the difference up to rounding (and, along a path, up to the error of the integral).
        """
        raise NotImplementedError

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return a name for each feature."""
        check_is_fitted(self)
        return np.asarray([*(f"direction {n}" for n in range(1, len(self.blocks_))), "constant"], dtype=object)


def octaves_of(n_directions: int) -> NDArray[np.int64]:
    """Return block numbers of directions and a constant: directions 1, 2 to 3, 4 to 7 and so on, then the constant."""
    octaves = np.floor(np.log2(np.arange(1, n_directions + 1))).astype(np.int64)
    return np.append(octaves, octaves.max(initial=-1) + 1)


class MapOnBase(FeatureMap):
    """A map that reads tables through another map, and makes the same statements of columns as this map.

    Attributes
    ----------
    base_ : feature map
        The other map, fitted on public rows.
    """

    base_: FeatureMap

    @property
    def reads_rows_alone(self) -> bool:  # type: ignore[override]
        """Whether a row's features depend only on that row, to the last digit."""
        return bool(statements_of(self.base_).reads_rows_alone)

    @property
    def numeric_columns(self) -> list[str]:
        """Columns that the base map takes as numbers."""
        return list(self.base_.numeric_columns)

    @property
    def takes_blanks(self) -> bool:  # type: ignore[override]
        """Whether the base map accepts missing entries."""
        return bool(statements_of(self.base_).takes_blanks)

    @property
    def known_categories(self) -> dict[str, set[str]]:  # type: ignore[override]
        """Categories that the base map has a place for, by column."""
        return statements_of(self.base_).known_categories

    def _take_columns(self) -> None:
        """Take number and names of columns from the fitted base map."""
        self.n_features_in_ = self.base_.n_features_in_
        if hasattr(self.base_, "feature_names_in_"):
            self.feature_names_in_ = self.base_.feature_names_in_
