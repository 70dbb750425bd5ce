"""Rows as small whole numbers, for methods that count. Bins and categories come from public rows only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

#: At most this number of bins of a number column, and of categories of another column, with one more for the rest.
BINS, CATEGORIES = 16, 31


@dataclass(frozen=True, eq=False)
class Codes:
    """One split in codes.

    Attributes
    ----------
    private, test : numpy.ndarray
        Codes, shape (n_rows, n_columns): whole numbers from 0 to ``sizes[column] - 1``.
    sizes : numpy.ndarray
        The number of codes of each column.
    ordered : numpy.ndarray
        True for a column of numbers, whose codes are bins in ascending order.
    values : numpy.ndarray
        The standardised public mean of each bin, shape (n_columns, largest size); 0 for categories.
    """

    private: np.ndarray
    test: np.ndarray
    sizes: np.ndarray
    ordered: np.ndarray
    values: np.ndarray


def codes_of(private: pd.DataFrame, public: pd.DataFrame, test: pd.DataFrame) -> Codes:
    """Return private and test rows in codes; the frames have no blanks. Columns with one code are left out."""
    columns = [_numbers(public[name]) if public[name].dtype == float else _categories(public[name]) for name in public]
    kept = [(name, column) for name, column in zip(public.columns, columns, strict=True) if column.size > 1]
    values = np.zeros((len(kept), max((column.size for _, column in kept), default=0)))
    for row, (_, column) in zip(values, kept, strict=True):
        row[: len(column.values)] = column.values
    return Codes(
        private=_coded(private, kept),
        test=_coded(test, kept),
        sizes=np.array([column.size for _, column in kept], dtype=int),
        ordered=np.array([isinstance(column, _Bins) for _, column in kept], dtype=bool),
        values=values,
    )


@dataclass(frozen=True, eq=False)
class _Bins:
    edges: np.ndarray
    values: np.ndarray

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    def code(self, column: pd.Series) -> np.ndarray:
        return np.searchsorted(self.edges, column.to_numpy(float), side="right")


@dataclass(frozen=True, eq=False)
class _Categories:
    known: dict[str, int]
    values: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        # One more for what public rows lack or have seldom.
        return len(self.known) + 1

    def code(self, column: pd.Series) -> np.ndarray:
        return column.map(self.known).fillna(len(self.known)).to_numpy(int)


def _numbers(public: pd.Series) -> _Bins:
    numbers = public.to_numpy(float)
    distinct = np.unique(numbers)
    edges = (distinct[1:] + distinct[:-1]) / 2 if len(distinct) <= BINS else _equal_mass(numbers, BINS)
    places = np.searchsorted(edges, numbers, side="right")
    means = np.bincount(places, weights=numbers, minlength=len(edges) + 1) / np.bincount(places)
    return _Bins(edges, (means - numbers.mean()) / (numbers.std() or 1.0))


def _equal_mass(numbers: np.ndarray, bins: int) -> np.ndarray:
    """Return edges of bins that hold about equally many numbers; a number that fills a bin gets a bin of its own."""
    distinct, counts = np.unique(numbers, return_counts=True)
    commonest, most = counts.argmax(), counts.max()
    around = []
    if most > len(numbers) / bins:
        # For example capital gains, of which nine in ten are 0 and the rest say much.
        around = list((distinct[1:] + distinct[:-1])[max(commonest - 1, 0) : commonest + 1] / 2)
        numbers, bins = np.delete(numbers, numbers == distinct[commonest]), bins - len(around)
    inner = np.quantile(numbers, np.arange(1, bins) / bins, method="inverted_cdf")
    edges = np.unique(np.append(inner, around))
    # An edge that ends a bin without public rows says nothing.
    below = np.bincount(np.searchsorted(edges, np.repeat(distinct, counts), side="right"), minlength=len(edges) + 1)
    return edges[below[:-1] > 0]


def _categories(public: pd.Series) -> _Categories:
    commonest = public.value_counts().index[:CATEGORIES]
    return _Categories({str(name): code for code, name in enumerate(sorted(commonest))})


def _coded(frame: pd.DataFrame, columns: list[tuple[str, _Bins | _Categories]]) -> np.ndarray:
    return np.column_stack([column.code(frame[name]) for name, column in columns]).astype(np.int64)
