"""What a student of label moments computes, in plain numbers and texts: the form that every export is written from.

A description has the columns that the student reads, the layers of features that follow, and the coefficients. It
holds released quantities and public facts only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpensemble._entries import Floats
from dpensemble._files import read_json
from dpensemble.datasets.preparation import LEFT_OUT, TablePreparation
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.moments import DirectionsMap, MomentsModel, TableMap
from dpensemble.moments.maps.curved import BesideMap, CurvedDecoder, WhitenedNumbers
from dpensemble.moments.maps.grid import SnappedMap
from dpensemble.moments.whole import rounded_coefficients
from dpensemble.student import release_mark
from dpensemble.workflow.outputs import RunFile
from dpensemble.workflow.predict import load_student

#: Whole units in 1 of features that are multiplied exactly.
EXACT = 2.0**26
#: Shortest length that features are divided by.
LEAST_LENGTH = 1e-12


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one column of features is read, from the raw column to its weights.

    Steps in order: take `source`, turn declared `blanks` into missing entries, take the `part` of a date, put `fill`
    in place of missing entries, `snap` to a cell, and weigh.

    Parameters
    ----------
    name : str
        Name of the prepared column, such as ``seen: year``.
    source : str
        Name of the raw column.
    is_number : bool
        Whether the map reads a number. Otherwise it reads a text.
    part : {"year", "month", "weekday"}, optional
        Part of a date. The weekday is the English name.
    date_format : str, optional
        Format of the raw dates in files that the student reads, as of `time.strptime`.
    number_format : dict, optional
        Settings of `dpensemble.datasets.formats.NumberFormat`, if the raw column holds written numbers.
    blanks : tuple of str
        Declared blanks of the raw column, as texts.
    fill : float, str or None
        What a missing entry becomes.
    edges, values : ndarray or None
        For a snapped number: a number becomes ``values[count of edges <= number]``. A missing one stays missing.
    known : tuple of str or None
        For a snapped text: an entry outside of `known` becomes the last of them. A missing one stays missing.
    knots : tuple of ndarray
        Of a number, the increasing knots of each scale. A number has the weights ``share * sqrt(1 - t)`` and ``share *
        sqrt(t)`` at the knots beside it, where ``t`` in [0, 1] is its part of the way, and ``share = length /
        sqrt(number of scales)``. Beyond the ends ``t`` is 0 or 1. A scale of one knot has the weight ``share``.
    categories : tuple of str
        Of a text, those with a feature of their own, in order. Then come the features of *any other* and *missing*.
    start : int
        Place of the first feature. A missing number has its feature behind those of all knots, of weight `length`.
    length : float
        Weight of a category, and root of the summed squares of a number's weights.
    """

    name: str
    source: str
    is_number: bool
    part: str | None = None
    date_format: str | None = None
    number_format: Mapping[str, Any] | None = None
    blanks: tuple[str, ...] = ()
    fill: float | str | None = None
    edges: Floats | None = None
    values: Floats | None = None
    known: tuple[str, ...] | None = None
    knots: tuple[Floats, ...] = ()
    categories: tuple[str, ...] = ()
    start: int = 0
    length: float = 1.0

    @property
    def n_features(self) -> int:
        """Number of features, with that of missing entries."""
        return 1 + (sum(map(len, self.knots)) if self.is_number else len(self.categories) + 1)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Features of all columns, and a constant behind them. `n_features` counts the constant."""

    columns: tuple[Column, ...]
    constant: float
    n_features: int


@dataclass(frozen=True, kw_only=True)
class Whitened:
    """Numbers of some columns, by place: blanks become medians, clipped to a range, less the mean, times a matrix."""

    places: tuple[int, ...]
    low: Floats
    high: Floats
    median: Floats
    mean: Floats
    matrix: Floats


@dataclass(frozen=True, kw_only=True)
class Nearness:
    """Root of ``softmax(-squared distance / scale)`` over landmarks, of whitened numbers."""

    numbers: Whitened
    landmarks: Floats
    scale: float


@dataclass(frozen=True, kw_only=True)
class Directions:
    """``(features @ matrix - offset)``, times ``sqrt(1 - constant**2) / length of the row``, and the constant behind.

    With `is_exact` the features of `base` are rounded to whole multiples of 2**-26 before the product, and the length
    is that of `dpensemble.moments.maps.directions`, which differs from the root of the sum of squares by up to 1e-12.
    Otherwise neither. `matrix` has the shape (n_features of base, n_directions).
    """

    base: Table | Nearness
    matrix: Floats
    offset: Floats
    constant: float
    is_exact: bool


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """``exp(-distance to landmarks / width) @ matrix - mean``, shortened to a length of at most 1."""

    numbers: Whitened
    landmarks: Floats
    width: float
    matrix: Floats
    mean: Floats


#: A piece of the features: a layer without its constant, or with it, and the factor of each of its features.
@dataclass(frozen=True, kw_only=True)
class Piece:
    """Features of a layer times factors. Without `constant` the last feature of `Directions` is left out."""

    layer: Table | Directions | Kernel
    factors: Floats
    constant: bool = True


@dataclass(frozen=True, kw_only=True)
class Description:
    """A student of label moments: the pieces of its features side by side, and its coefficients.

    The score of a column of coefficients is ``rint(features * 2**14) / 2**14 @ coefficients``. One column means two
    classes, and ``rint(2**24 * logistic(score)) / 2**24`` is the probability of the second. Otherwise probabilities are
    ``max(1, rint(2**24 * odds / sum(odds))) / 2**24`` with ``odds = rint(2**24 * exp(score - largest score))``. `rint`
    rounds halves to the even number.

    Parameters
    ----------
    table : Table
        The columns, which every layer reads.
    pieces : tuple of Piece
        Features side by side.
    coefficients : ndarray of shape (n_features, n_columns)
        As the model reads them: whole multiples of 2**-16.
    classes : tuple of str
        Names of the classes, sorted as the student's classes.
    guarantee : str
        The guarantee in one line.
    for_release : bool or None
        False if the noise of the run came from a seed. None if the file does not state it.
    title : str
        Name of the run, or an empty text.
    """

    table: Table
    pieces: tuple[Piece, ...]
    coefficients: Floats
    classes: tuple[str, ...]
    guarantee: str = ""
    for_release: bool | None = None
    title: str = ""
    created: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sources(self) -> list[str]:
        """Raw columns that the student reads, each once."""
        return list(dict.fromkeys(column.source for column in self.table.columns))

    @property
    def mark(self) -> str:
        """NOT FOR RELEASE and the reason, or an empty text."""
        if self.for_release is not False:
            return ""
        return "NOT FOR RELEASE: the noise of the run came from a seed, so it can be removed."

    @property
    def is_additive(self) -> bool:
        """Whether the score is a sum over columns: features of the table itself."""
        return all(isinstance(piece.layer, Table) for piece in self.pieces)
