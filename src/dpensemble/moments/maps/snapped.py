"""A table map that sees of every entry only the cell of a grid in which it lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from dpensemble.moments.grid import Grid


class SnappedMap(TransformerMixin, BaseEstimator):
    """Another map's features of rows whose entries are replaced by what stands for their cells.

    Synthetic rows have no other entries, so private rows and new ones must not have any either: between two cells a
    model could otherwise say what no synthetic row ever held it to. `base` is cloned and fitted on such rows, and
    `columns` are those of a `dpensemble.moments.grid.Grid`.
    """

    is_bounded = True

    def __init__(self, base: Any = None, columns: Sequence[dict[str, Any]] = ()) -> None:
        self.base = base
        self.columns = columns

    def fit(self, X: pd.DataFrame, y: Any = None) -> SnappedMap:  # noqa: ARG002
        """Fit the base map on synthetic rows; never pass private ones."""
        self.base_ = clone(self.base).fit(X)
        self.n_features_in_ = X.shape[1]
        if all(isinstance(name, str) for name in X.columns):
            self.feature_names_in_ = X.columns.to_numpy(dtype=object)
        return self

    def transform(self, X: Any) -> Any:
        """Return the features of rows, shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        grid = Grid(self.columns)
        return self.base_.transform(grid.rows(grid.cells(X)))

    @property
    def blocks_(self) -> Any:
        """Number of the block that each feature is in."""
        return self.base_.blocks_

    @property
    def nonnegative_(self) -> bool:
        """Whether no feature is below 0."""
        return bool(self.base_.nonnegative_)

    @property
    def n_features_out_(self) -> int:
        """Number of features."""
        return int(self.base_.n_features_out_)

    @property
    def reads_rows_alone(self) -> bool:
        """Whether a row's features depend on that row alone to the last digit."""
        return bool(getattr(self.base, "reads_rows_alone", False))

    @property
    def numeric_columns(self) -> list[str]:
        """Columns that are taken as numbers."""
        return [column["name"] for column in self.columns if column["kind"] == "number"]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return what each feature stands for."""
        names: NDArray[Any] = self.base_.get_feature_names_out(input_features)
        return names
