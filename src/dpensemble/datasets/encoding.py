"""From table columns to finite numbers, using statistics of public rows only."""

from __future__ import annotations

from typing import Any

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

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


def takes_blanks(encoder: Any) -> bool:
    """Return whether an encoder has a place for missing entries, as a map of tables has, or fills them in."""
    return bool(getattr(encoder, "takes_blanks", hasattr(encoder, "numeric_columns")))


_NUMBERS = "numbers"
