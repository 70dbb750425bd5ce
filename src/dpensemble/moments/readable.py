"""Estimate how many private records could be read, from a released mean of features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse.linalg import lsqr

from dpensemble._arrays import Floats
from dpensemble.datasets.columns import as_text
from dpensemble.datasets.preparation import ColumnReading

# Rows that decide which combination of features is always 1, and how far from 1 the combination may be. Features are
# rounded to whole numbers of 2**-14, and rounding averages out over rows.
_ROWS, _CLOSE = 2000, 5e-3
# A number and a category beyond those of public rows.
_FAR, _NEW = 1e12, "a category that no public row has"


@dataclass(frozen=True)
class ReadableShare:
    """An estimate of the share of private records that could be read, and the deviation of its noise. Public."""

    share: float
    error: float


def readable_share(
    mean: Floats, spread: float, weights: Floats | None, *, relative_error: float = 0.0
) -> ReadableShare | None:
    """Estimate the share of records that could be read. This costs no privacy.

    A bad record adds zeros to the mean. So if a combination of features is 1 for every row, the same combination
    of their mean is the share of records that are not bad.
    """
    if weights is None:
        return None
    share = float(weights @ mean)
    error = math.hypot(float(np.linalg.norm(weights)) * spread, share * relative_error)
    return ReadableShare(round(share, 6), error)


def always_one(features: Any) -> Floats | None:
    """Return the shortest weights with which features of every row add up to 1, or None if there are none."""
    rows = features[:_ROWS]
    # Half of the rows find the weights, and the other half show that they do not fit by chance.
    fitted, held = rows[::2], rows[1::2]
    if not held.shape[0]:
        return None
    weights: Floats = lsqr(fitted, np.ones(fitted.shape[0]), atol=1e-12, btol=1e-12, iter_lim=1000)[0]
    return weights if np.abs(np.asarray(held @ weights) - 1).max() < _CLOSE else None


def unusual(table: pd.DataFrame, columns: Sequence[ColumnReading]) -> pd.DataFrame:
    """Return the rows that `always_one` takes, half of them with entries that public rows may lack.

    These are new categories, missing entries and very large or small numbers. `columns` states how a map reads them.
    """
    draw, table = np.random.default_rng(0), table.iloc[:_ROWS]
    parts = {}
    for place, column in enumerate(columns):
        entries = table.iloc[:, place]
        replaced = (np.arange(len(table)) % 4 > 1) & (draw.random(len(table)) < 0.5)
        if column["kind"] == "number":
            values = entries.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
            values[replaced] = draw.choice([np.nan, -_FAR, _FAR], replaced.sum())
        else:
            values = as_text(entries).to_numpy(dtype=object, copy=True)
            values[replaced] = draw.choice(np.array([None, _NEW], dtype=object), replaced.sum())
        parts[table.columns[place]] = values
    return pd.DataFrame(parts)


def always_one_of_cells(sizes: Sequence[int]) -> Floats:
    """Return these weights for one-hot cells of columns of these sizes. Each cell is ``1 / sqrt(n_columns)``."""
    # The shortest weights are in inverse proportion to the number of a column's cells.
    parts = 1 / np.asarray(sizes, dtype=np.float64)
    weights: Floats = np.repeat(math.sqrt(len(parts)) * parts / parts.sum(), sizes)
    return weights
