"""From table columns to finite numbers, using statistics of public rows only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dpensemble._arrays import Floats
from dpensemble.datasets.columns import number_columns


def fit_encoder(public: pd.DataFrame) -> Any:
    """Fit one-hot encoding and standardisation on public rows.

    Parameters
    ----------
    public : DataFrame of shape (n_rows, n_columns)
        Public rows. Private rows must never be passed: what is fitted here is published with the student.

    Returns
    -------
    ColumnTransformer
        Numeric columns are standardised; others are one-hot encoded, all zeros for a category that no public row has.

    Examples
    --------
    >>> public = pd.DataFrame({"age": [20.0, 40.0], "sex": ["f", "m"]})
    >>> fit_encoder(public).transform(pd.DataFrame({"age": [30.0], "sex": ["x"]}))
    array([[0., 0., 0.]])
    """
    # As masks: names are looked for one by one, which takes minutes where there are 100,000.
    numeric = number_columns(public)
    encoder = ColumnTransformer(
        [
            (_NUMBERS, StandardScaler(), numeric),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ~numeric),
        ]
    )
    return encoder.fit(public)


def numeric_columns(encoder: Any) -> list[str]:
    """Return the columns that an encoder of `fit_encoder`, or a feature map of tables, takes as numbers."""
    if hasattr(encoder, "numeric_columns"):
        return list(encoder.numeric_columns)
    columns = next(columns for name, _, columns in encoder.transformers_ if name == _NUMBERS)
    # Students saved by earlier versions have the names themselves.
    return list(encoder.feature_names_in_[columns] if hasattr(columns, "dtype") else columns)


class LibraryTransformer:
    """What a transformer of this library states about how it reads rows. Other transformers get the safe defaults."""

    #: What is done to dates and blanks first, a fitted `TablePreparation`.
    preparation_: Any = None
    #: Whether entries may be missing.
    takes_blanks: bool = False
    #: Columns that rows must have; None for all.
    needed_columns: list[str] | None = None
    #: Categories that have a place of their own, by column.
    known_categories: Mapping[str, set[str]] = MappingProxyType({})
    #: Whether a row's features depend on that row and its place among the rows alone, to the last digit.
    reads_rows_by_place = False
    #: Whether an encoded row depends on that row alone, in rows of any type. Private rows may then be given together.
    encodes_rows_alone = False
    #: The map whose features the published model reads, None for this map itself.
    decoder_: Any = None
    #: Combinations of features, as orthonormal columns, of which private and public means are compared; None for all.
    compared_: Floats | None = None
    #: Whether each feature depends on one column alone, so that made-up rows may have columns drawn apart.
    reads_columns_apart = False

    def as_declared(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table in which declared categories are texts, also where they are written as numbers."""
        return table

    def on_table(self, coefficients: Floats, public: pd.DataFrame) -> tuple[LibraryTransformer, Floats] | None:  # noqa: ARG002
        """Return the map that reads columns apart, and coefficients of its features; None where there is none."""
        return (self, coefficients) if self.reads_columns_apart else None


def statements_of(transformer: Any) -> Any:
    """Return a transformer of this library itself, and the safe defaults for any other transformer."""
    # By class, because another transformer may pass attributes of a library's one on and still read rows together.
    return transformer if isinstance(transformer, LibraryTransformer) else LibraryTransformer()


_NUMBERS = "numbers"
