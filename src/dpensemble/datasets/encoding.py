"""From table columns to finite numbers, using statistics of public rows only."""

from __future__ import annotations

from typing import Any

import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dpensemble.datasets.tables import is_number


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
    numeric = [name for name in public.columns if is_number(public[name])]
    categorical = [name for name in public.columns if not is_number(public[name])]
    encoder = ColumnTransformer(
        [
            (_NUMBERS, StandardScaler(), numeric),
            ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), categorical),
        ]
    )
    return encoder.fit(public)


def numeric_columns(encoder: Any) -> list[str]:
    """Return the columns that an encoder of `fit_encoder`, or a feature map of tables, takes as numbers."""
    if hasattr(encoder, "numeric_columns"):
        return list(encoder.numeric_columns)
    return next(list(columns) for name, _, columns in encoder.transformers_ if name == _NUMBERS)


def takes_blanks(encoder: Any) -> bool:
    """Return whether an encoder has a place for missing entries, as a feature map of tables has."""
    return hasattr(encoder, "numeric_columns")


_NUMBERS = "numbers"
