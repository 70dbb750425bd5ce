"""A table map that reads only the grid cell of every entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dpensemble._arrays import Floats
from dpensemble.datasets.preparation import LibraryTransformer, statements_of
from dpensemble.datasets.tables import as_fitted_table
from dpensemble.moments.grid import Grid, with_texts
from dpensemble.moments.maps.base import FeatureMap


class SnappedMap(FeatureMap):
    """Another map's features of rows whose entries are replaced by the values of their cells.

    Synthetic rows have no other entries, so private rows and new rows must not have any either. Otherwise the model
    could predict anything between two cells, where it was never fitted. `base` is cloned and fitted on such rows, and
    `columns` are those of a `dpensemble.moments.grid.Grid`.
    """

    #: The grid has a cell for missing entries.
    takes_blanks = True

    def __init__(self, base: Any = None, columns: Sequence[dict[str, Any]] = ()) -> None:
        self.base = base
        self.columns = columns

    def fit(self, X: pd.DataFrame, y: Any = None) -> SnappedMap:  # noqa: ARG002
        """Fit the base map on synthetic rows. Never pass private rows."""
        self.base_ = clone(self.base).fit(X)
        self.n_features_in_ = X.shape[1]
        if all(isinstance(name, str) for name in X.columns):
            self.feature_names_in_ = X.columns.to_numpy(dtype=object)
        return self

    def transform(self, X: Any) -> Any:
        """Return the features of rows, shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        grid = Grid(self.columns)
        return self.base_.transform(grid.rows(grid.cells(as_fitted_table(self, X))))

    @property
    def blocks_(self) -> Any:
        """Number of the block that each feature is in."""
        return self.base_.blocks_

    @property
    def nonnegative_(self) -> bool:
        """Whether no feature is below 0."""
        return bool(self.base_.nonnegative_)

    @property
    def numeric_columns(self) -> list[str]:
        """Columns that are taken as numbers."""
        return [column["name"] for column in self.columns if column["kind"] == "number"]

    @property
    def known_categories(self) -> dict[str, set[str]]:  # type: ignore[override]
        """Categories that have a cell of their own, by column."""
        return {one["name"]: set(map(str, one["values"])) for one in self.columns if one["kind"] == "category"}

    def as_declared(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table in which codes that were declared as categories are texts."""
        return with_texts(table, Grid(self.columns).empty)

    @property
    def attribution(self) -> str | None:  # type: ignore[override]
        """How the base map divides a row among its columns."""
        return statements_of(self.base_).attribution

    def reference(self, public: pd.DataFrame) -> Floats:
        """Return the base map's mean features of synthetic rows."""
        return self.base_.reference(public)

    def column_parts(self, X: pd.DataFrame | Floats, weights: Floats, reference: Floats) -> Floats:
        """Return what the cell of each column adds beyond the reference."""
        grid = Grid(self.columns)
        return self.base_.column_parts(grid.rows(grid.cells(as_fitted_table(self, X))), weights, reference)

    def on_table(self, coefficients: Floats, public: pd.DataFrame) -> tuple[LibraryTransformer, Floats] | None:
        """Return the table map that reads the cells, and its coefficients."""
        return statements_of(self.base_).on_table(coefficients, public)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return what each feature stands for."""
        names: NDArray[Any] = self.base_.get_feature_names_out(input_features)
        return names
