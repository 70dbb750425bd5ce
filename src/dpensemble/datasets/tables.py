"""Reading tables, and checking that private and public ones belong together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from dpensemble.errors import DataError, FileError

_READERS = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".pq": pd.read_parquet}


def read_table(path: Path | str) -> pd.DataFrame:
    """Read a CSV or Parquet file, chosen by its ending.

    Parameters
    ----------
    path : path
        Ending in ``.csv`` (also ``.csv.gz``), ``.parquet`` or ``.pq``.

    Returns
    -------
    DataFrame

    Raises
    ------
    FileError
        If the ending is unknown or the file cannot be read.
    DataError
        If the table has no rows, no columns or repeated column names.
    """
    path = Path(path)
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    reader = _READERS.get(suffix.lower())
    if reader is None:
        raise FileError(f"{path} is not a table that can be read; use .csv, .csv.gz or .parquet.")
    try:
        table: pd.DataFrame = reader(path)  # type: ignore[operator]
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read as a {suffix[1:]} table ({type(error).__name__}).") from None
    if table.empty:
        raise DataError(f"{path} has no rows.")
    if not table.columns.is_unique:
        raise DataError(f"{path} names a column twice.")
    return table


def require_complete(name: str, table: pd.DataFrame) -> None:
    """Refuse missing and infinite entries, naming the first column that has one."""
    for column in table.columns:
        values = table[column]
        infinite = pd.api.types.is_float_dtype(values) and bool(np.isinf(values.to_numpy(dtype=float)).any())
        if infinite or values.isna().any():
            raise DataError(
                f"{name} has missing (NaN) or infinite values in column {column!r}; "
                "fill or drop them, using statistics of public rows only."
            )


def require_same_columns(name: str, table: pd.DataFrame, public: pd.DataFrame) -> pd.DataFrame:
    """Return `table` with its columns in the public order, refusing other columns or other kinds of values."""
    lacks = [str(column) for column in public.columns if column not in table.columns]
    extra = [str(column) for column in table.columns if column not in public.columns]
    if lacks or extra:
        raise DataError(
            f"the {name} and public tables must have the same feature columns; "
            f"the {name} table lacks {lacks} and has in excess {extra}."
        )
    for column in public.columns:
        numeric = pd.api.types.is_numeric_dtype(public[column])
        if pd.api.types.is_numeric_dtype(table[column]) != numeric:
            kinds = ("numbers", "text") if numeric else ("text", "numbers")
            raise DataError(
                f"column {column!r} holds {kinds[0]} in the public table but {kinds[1]} in the {name} table."
            )
    return table[list(public.columns)]
