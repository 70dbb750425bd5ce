"""Convert table columns to finite numbers, using statistics of public rows only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dpensemble._arrays import Floats, Rows
from dpensemble.datasets.columns import number_columns


def fit_encoder(public: pd.DataFrame) -> Any:
    """Fit one-hot encoding and standardisation on public rows.

    Parameters
    ----------
    public : DataFrame of shape (n_rows, n_columns)
        Public rows. Never pass private rows: the fitted statistics are published with the student.

    Returns
    -------
    ColumnTransformer
        Numeric columns are standardised. Others are one-hot encoded, with zeros for a category that no public row has.

    Examples
    --------
    >>> public = pd.DataFrame({"age": [20.0, 40.0], "sex": ["f", "m"]})
    >>> fit_encoder(public).transform(pd.DataFrame({"age": [30.0], "sex": ["x"]}))
    array([[0., 0., 0.]])
    """
    # As masks: looking up 100,000 names one at a time takes minutes.
    numeric = number_columns(public)
    encoder = ColumnTransformer(
        [
            (_NUMBERS, StandardScaler(), numeric),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ~numeric),
        ]
    )
    return encoder.fit(public)


def numeric_columns(encoder: Any) -> list[str]:
    """Return the numeric columns of an encoder of `fit_encoder` or of a feature map of tables."""
    if hasattr(encoder, "numeric_columns"):
        return list(encoder.numeric_columns)
    columns = next(columns for name, _, columns in encoder.transformers_ if name == _NUMBERS)
    # Students of earlier versions store the names themselves.
    return list(encoder.feature_names_in_[columns] if hasattr(columns, "dtype") else columns)


#: How one column of a table is read: its name, kind, knots or categories, and the places of its features.
ColumnReading = dict[str, Any]


class LibraryTransformer:
    """What a transformer of this library states about how it reads rows. Other transformers get safe defaults."""

    #: The step that first converts dates and blanks, a fitted `TablePreparation`.
    preparation_: Any = None
    #: Whether entries may be missing.
    takes_blanks: bool = False
    #: Required columns, or None for all.
    needed_columns: list[str] | None = None
    #: Known categories, by column.
    known_categories: Mapping[str, set[str]] = MappingProxyType({})
    #: Whether a row's features depend only on that row and its place among the rows, to the last digit.
    reads_rows_by_place = False
    #: Whether an encoded row depends only on that row, for rows of any type. Then private rows may be encoded together.
    encodes_rows_alone = False
    #: The map whose features the published model reads, or None for this map.
    decoder_: LibraryTransformer | None = None
    #: The map whose features have their private and public means compared, or None for this map.
    compared_: LibraryTransformer | None = None
    #: Returns the same features of rows as `transform`, in the form that is summed up fastest. None for `transform`.
    for_sums: Callable[[Rows], Rows] | None = None
    #: The same, in the form that is multiplied fastest by an array with many columns.
    for_products: Callable[[Rows], Rows] | None = None
    #: Whether a row's features depend only on that row, to the last digit, in tables of the public rows' kinds.
    reads_rows_alone: bool = False
    #: Whether each feature depends on only one column, so that the columns of made-up rows may be drawn separately.
    reads_columns_apart = False

    #: How `column_parts` divides a row among its columns. None if the features have no parts by column.
    attribution: str | None = None
    #: How each column of a table is read, as `TableMap.columns_` describes it. None if that is not known.
    table_columns: list[ColumnReading] | None = None
    #: The column of the rows before the transformation that each column of the rows after it comes from, by place.
    source_columns: list[str] | None = None

    def as_declared(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table in which declared categories are texts, even if they are written as numbers."""
        return table

    def on_table(self, coefficients: Floats, public: pd.DataFrame) -> tuple[LibraryTransformer, Floats] | None:  # noqa: ARG002
        """Return a map that reads columns separately, and coefficients of its features, or None."""
        return (self, coefficients) if self.reads_columns_apart else None


def statements_of(transformer: Any) -> Any:
    """Return a transformer of this library itself, or the safe defaults for any other transformer."""
    # By class, because another transformer may copy attributes of this library's and still read rows together.
    return transformer if isinstance(transformer, LibraryTransformer) else LibraryTransformer()


_NUMBERS = "numbers"
