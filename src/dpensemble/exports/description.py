"""What a student of label moments computes, in plain numbers and texts: the form that every export is written from.

A description has the columns that the student reads, the layers of features that follow, and the coefficients. It
holds released quantities and public facts only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpensemble._entries import Floats
from dpensemble._files import read_json
from dpensemble.datasets.preparation import TablePreparation
from dpensemble.errors import FileError, InvalidParameterError
from dpensemble.moments import DirectionsMap, MomentsModel, TableMap
from dpensemble.moments.maps.curved import BesideMap, CurvedDecoder, WhitenedNumbers
from dpensemble.moments.maps.grid import SnappedMap
from dpensemble.moments.numbers import NumberModel
from dpensemble.moments.survival import SurvivalModel
from dpensemble.moments.whole import rounded_coefficients
from dpensemble.student import release_mark
from dpensemble.workflow.outputs import RunFile, load_run, undamaged
from dpensemble.workflow.predict import load_student

# Text that `TablePreparation` puts in place of a blank.
BLANK = "(blank)"
# What the guarantee of a run states whose number of labels is secret.
_UNTIL_SPENT = "for a given number of them"


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

    is_additive: ClassVar[bool] = True
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

    is_additive: ClassVar[bool] = False
    numbers: Whitened
    landmarks: Floats
    scale: float


@dataclass(frozen=True, kw_only=True)
class Directions:
    """``(features @ matrix - offset)``, times ``sqrt(1 - constant**2) / length of the row``, and the constant behind.

    With `is_exact` the features of `base` are rounded to whole multiples of 2**-26 before the product. The length is
    then that of `dpensemble.moments.maps.directions`, which differs from the root of the sum of squares by up to
    1e-12. `matrix` has the shape (n_features of base, n_directions).
    """

    is_additive: ClassVar[bool] = False
    base: Table | Nearness
    matrix: Floats
    offset: Floats
    constant: float
    is_exact: bool

    @property
    def n_features(self) -> int:
        """Number of directions, and the constant."""
        return int(self.matrix.shape[1]) + 1


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """``exp(-distance to landmarks / width) @ matrix - mean``, shortened to a length of at most 1."""

    is_additive: ClassVar[bool] = False
    numbers: Whitened
    landmarks: Floats
    width: float
    matrix: Floats
    mean: Floats


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Features of a layer times factors. Without `constant` the last feature of `Directions` is left out.

    Each format has one function for each kind of layer, by `functools.singledispatch`. A layer is additive when each of
    its features is of one column. Features of a `Table` have all factors 1.
    """

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
    guarantee : tuple of str
        The guarantee of the run's card, one sentence each.
    for_release : bool or None
        False if the noise of the run came from a seed. None if the file does not state it.
    title, created : str
        Name and time of the run, or empty texts.
    """

    table: Table
    pieces: tuple[Piece, ...]
    coefficients: Floats
    classes: tuple[str, ...]
    guarantee: tuple[str, ...]
    for_release: bool | None = None
    title: str = ""
    created: str = ""

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
        return all(piece.layer.is_additive for piece in self.pieces)


def described(run: Path) -> Description:
    """Return the description of a run's student, from its folder or the student's file.

    Raises
    ------
    FileError
        If the file cannot be read, or the run may not be shared.
    InvalidParameterError
        If the student has no export. The message names what has one.
    """
    known = list(_facts(run if run.is_dir() else run.parent))
    for one in known:
        _require_shareable(run, one)
    facts = known[0] if known else {}
    student = load_student(run)
    model, encoder = student.steps[-1][1], student.named_steps["encoder"]
    try:
        coefficients = _coefficients(model)
        table, pieces = _read_map(encoder, student.named_steps.get("table"))
    except _NoExportError as error:
        raise InvalidParameterError(
            f"run={str(run)!r} holds a student without an export ({error}): exports exist for students of "
            "label-moments on tables, so train with label-moments and its default feature map and student.",
            parameter="run",
        ) from None
    privacy = facts.get("privacy", {})
    about = facts.get("model", {})
    return Description(
        table=table,
        pieces=pieces,
        coefficients=coefficients,
        classes=tuple(map(str, model.classes_.tolist())),
        guarantee=tuple(map(str, privacy.get("in_words") or (_NO_CARD,))),
        for_release=_for_release(student, known),
        title=str(about.get("title") or ""),
        created=str(about.get("created") or ""),
    )


_NO_CARD = "Guarantee not stated: the student's file has none, and no card.json of its run is beside it."


class _NoExportError(Exception):
    """Why a student has no export, in words."""


@singledispatch
def _coefficients(model: object) -> Floats:
    """Return the coefficients as the model reads them, shape (n_features, n_columns)."""
    raise _NoExportError(f"its model is {type(model).__name__}")


@_coefficients.register
def _(model: NumberModel) -> Floats:  # noqa: ARG001
    raise _NoExportError("it predicts a number")


@_coefficients.register
def _(model: SurvivalModel) -> Floats:  # noqa: ARG001
    raise _NoExportError("it predicts when an event happens")


@_coefficients.register
def _(model: MomentsModel) -> Floats:
    return rounded_coefficients(model.coefficients_)


def _facts(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what the card of a run states, and what its record states. Runs of earlier versions have no card."""
    card, record = folder / RunFile.CARD, folder / RunFile.RECORD
    if card.exists():
        with undamaged(card):
            yield _checked(read_json(card, FileError, special_numbers=True))
    if record.exists():
        run, _ = load_run(folder, private=False)
        statement = run.statement()
        privacy = {"in_words": statement.sentences(), "basis": statement.basis.value}
        yield {"privacy": privacy, "model": {"created": run.created}, "for_release": statement.for_release}


def _for_release(student: Any, known: Sequence[Mapping[str, Any]]) -> bool | None:
    """Return False if the student or any file of its run states that the noise came from a seed."""
    own = release_mark(student)
    # Students of earlier versions do not state it.
    return False if any(facts.get("for_release") is False for facts in known) else own


def _checked(card: Any) -> dict[str, Any]:
    """Return a card. Raise if its parts have other types."""
    parts = {"privacy": dict(card["privacy"]), "model": dict(card["model"])}
    return parts | {"for_release": card.get("for_release")}


def _require_shareable(run: Path, facts: Mapping[str, Any]) -> None:
    """Raise for a run whose number of labels is secret, and may be read from its student."""
    text = " ".join(map(str, facts.get("privacy", {}).get("in_words", ())))
    if _UNTIL_SPENT in text:
        raise FileError(
            f"{run} may not be shared, since --analysis until-spent let secret votes decide how many labels there are: "
            "train again with --analysis worst-case to export a student."
        )


_Read = tuple[Table, tuple[Piece, ...]]


@singledispatch
def _read_map(encoder: object, preparation: TablePreparation | None) -> _Read:  # noqa: ARG001
    """Return how a feature map reads the columns of a table, and the features that a model reads, side by side."""
    raise _NoExportError(f"its feature map is {type(encoder).__name__}")


@_read_map.register
def _(encoder: TableMap, preparation: TablePreparation | None) -> _Read:
    return _alone(_table(encoder, preparation, None))


@_read_map.register
def _(encoder: SnappedMap, preparation: TablePreparation | None) -> _Read:
    return _alone(_table(encoder.base_, preparation, encoder.columns))


@_read_map.register
def _(encoder: DirectionsMap, preparation: TablePreparation | None) -> _Read:
    table, _ = _read_map(encoder.base_, preparation)
    layer = _directions(encoder, table)
    return table, (Piece(layer=layer, factors=np.ones(layer.n_features)),)


@_read_map.register
def _(encoder: CurvedDecoder, preparation: TablePreparation | None) -> _Read:
    table, (base,) = _read_map(encoder.base_, preparation)
    if base.layer.is_additive:
        raise _NoExportError(f"its feature map is CurvedDecoder on {type(encoder.base_).__name__}")
    kernel, half = encoder.kernel, np.sqrt(0.5)
    layer = Kernel(
        numbers=_whitened(encoder.numbers, range(len(table.columns))),
        landmarks=np.asarray(kernel.landmarks_, dtype=float),
        width=float(kernel.width_),
        matrix=np.asarray(kernel.matrix_, dtype=float),
        mean=np.asarray(kernel.mean_, dtype=float),
    )
    curved = Piece(layer=layer, factors=np.full(kernel.matrix_.shape[1], half))
    return table, (curved, replace(base, factors=base.factors * half))


@_read_map.register
def _(encoder: BesideMap, preparation: TablePreparation | None) -> _Read:
    table, (base,) = _read_map(encoder.base_, preparation)
    near, part = encoder.near, encoder.part
    nearness = Nearness(
        numbers=_whitened(near.numbers, near.places), landmarks=np.asarray(near.landmarks), scale=float(near.scale)
    )
    directions = _directions(encoder.near_, nearness)
    of_near = np.sqrt(part * (1 - encoder.base_.constant**2))
    beside = Piece(layer=directions, factors=np.full(directions.n_features - 1, of_near), constant=False)
    factors = np.append(np.full(len(base.factors) - 1, np.sqrt(1 - part)), 1.0)
    return table, (beside, replace(base, factors=factors))


def _alone(table: Table) -> _Read:
    return table, (Piece(layer=table, factors=np.ones(table.n_features)),)


def _table(
    table_map: TableMap, preparation: TablePreparation | None, snapped: Sequence[Mapping[str, Any]] | None
) -> Table:
    """Return how the columns of a table become features."""
    columns = []
    for place, reading in enumerate(table_map.columns_):
        own = _reading(reading, table_map.length_)
        if snapped is not None:
            own |= _snap(snapped[place])
        columns.append(Column(**_source(reading["name"], preparation) | own))
    return Table(columns=tuple(columns), constant=1.0 / table_map.length_, n_features=int(table_map.n_features_out_))


def _reading(reading: Mapping[str, Any], whole: float) -> dict[str, Any]:
    """Return the features of a column of a table map whose rows have a length."""
    own = {"name": str(reading["name"]), "is_number": reading["kind"] == "number", "start": int(reading["start"])}
    own["length"] = float(np.sqrt(reading["square"]) / whole)
    if own["is_number"]:
        return own | {"knots": tuple(np.asarray(one, dtype=np.float64) for one in reading["knots"])}
    return own | {"categories": tuple(map(str, reading["categories"]))}


def _snap(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a snapped column."""
    if cells["kind"] == "number":
        return {"edges": np.asarray(cells["edges"], dtype=float), "values": np.asarray(cells["values"], dtype=float)}
    return {"known": tuple(map(str, cells["values"]))}


def _source(name: str, preparation: TablePreparation | None) -> dict[str, Any]:
    """Return how a prepared column comes from a raw one."""
    if preparation is None:
        return {"source": name}
    source = dict(zip(preparation.output_columns, preparation.source_columns, strict=True))[name]
    kind = dict(zip(preparation.feature_names_in_, preparation.kinds_, strict=True))[source]
    steps: dict[str, Any] = {"source": source, "blanks": tuple(preparation.blanks_.get(source, ()))}
    fills = preparation.fill is not None
    if source in preparation.dates_:
        date = preparation.dates_[source]
        # The parts of a date come in the order of their columns.
        names = [
            one
            for one, own in zip(preparation.output_columns, preparation.source_columns, strict=True)
            if own == source
        ]
        part = date["parts"][names.index(name)]
        steps |= {"part": part, "date_format": str(date["format"])}
        if fills and part == "weekday":
            steps["fill"] = BLANK
        elif preparation.fill == "median":
            steps["fill"] = float(date["fill"][part])
        return steps
    if kind == "category":
        return steps | ({"fill": BLANK} if fills else {})
    if source in preparation.formats_:
        steps["number_format"] = dict(preparation.formats_[source])
    if preparation.fill == "median":
        place = list(preparation.feature_names_in_).index(source)
        steps["fill"] = float(preparation.medians_[place])
    return steps


def _directions(directions: DirectionsMap, base: Table | Nearness) -> Directions:
    # Also of a sparse matrix, the product with a unit matrix is an array with the same entries.
    unit_matrix = np.eye(directions.directions_.shape[1])
    return Directions(
        base=base,
        matrix=np.asarray(directions.directions_ @ unit_matrix, dtype=np.float64),
        offset=np.asarray(directions.mean_ @ directions.directions_, dtype=np.float64),
        constant=float(directions.constant),
        is_exact=bool(directions.reads_rows_alone),
    )


def _whitened(numbers: WhitenedNumbers, places: Sequence[int]) -> Whitened:
    return Whitened(
        places=tuple(map(int, places)),
        low=numbers.low_,
        high=numbers.high_,
        median=numbers.median_,
        mean=numbers.mean_,
        matrix=np.asarray(numbers.matrix_, dtype=float),
    )


def number_of_text(text: str) -> float:
    """Return a text as a number, NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def places_of_texts(column: Column) -> tuple[dict[str, int], int, int]:
    """Return the place of each known text among the features, and the places of any other and of a missing entry."""
    own = {text: place for place, text in enumerate(column.categories)}
    unknown = len(own)
    if column.known is None:
        codes, other = own, unknown
    else:
        codes = {text: own.get(text, unknown) for text in column.known}
        other = own.get(column.known[-1], unknown)
    missing = unknown + 1 if column.fill is None else codes.get(BLANK, other)
    return codes, other, missing


def features_of_numbers(column: Column, numbers: Floats) -> Floats:
    """Return the features of numbers of a column, NaN for missing ones, shape (n_numbers, n_features)."""
    features, missing = np.zeros((len(numbers), column.n_features)), np.isnan(numbers)
    present, rows = np.where(missing, 0.0, numbers), np.arange(len(numbers))
    share, start = column.length / math.sqrt(len(column.knots)), 0
    for knots in column.knots:
        if len(knots) == 1:
            features[:, start] = share
        else:
            low = np.searchsorted(knots[1:-1], present, side="right")
            way = np.clip((present - knots[low]) / (knots[low + 1] - knots[low]), 0.0, 1.0)
            features[rows, start + low] = np.sqrt(1 - way) * share
            features[rows, start + low + 1] = np.sqrt(way) * share
        start += len(knots)
    features[missing] = 0.0
    features[missing, -1] = column.length
    return features


def release_text(student: Description) -> str:
    """Return whether a run is a release, for a column of the result."""
    return student.mark or ("true" if student.for_release else "not stated")
