"""A student of label moments as an ONNX model, whose inputs are raw columns and which reads them as the student does.

Numbers are doubles. Sums of whole numbers below ``2**53`` are exact in any order, in ONNX as in the student, and both
round at the same places. What is left are last digits of exponentials and of products of landmarks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._entries import Floats, Integers
from dpensemble.errors import DPEnsembleError, InvalidParameterError
from dpensemble.exports.description import (
    Column,
    Description,
    Directions,
    Kernel,
    Nearness,
    Piece,
    Table,
    Whitened,
)

if TYPE_CHECKING:
    from onnx import ModelProto

#: Outputs of the model. A column of one of these names has another name as an input.
OUTPUTS = ("label", "probabilities", "guarantee")
#: The format of dates.
DATES = "YYYY-MM-DD"
# Split texts and regular expressions need the first. Models are written for the oldest format that has both.
_OPSET, _OPSET_OF_ML, _FORMAT = 20, 2, 9
# Bytes of a model. Files of the format hold less than 2**31 bytes.
_MOST_BYTES = 1_900_000_000
_UNIT, _CHANCE = 2.0**14, 2.0**24
# Whole units in 1 of features that are multiplied exactly, and the shortest length that features are divided by.
_EXACT, _LEAST_LENGTH = 2.0**26, 1e-12
# Bits of the coarse part of an exact length, and powers of two by which lengths are found.
_HALF_BITS, _LEAST_POWER, _MOST_POWER = 26, -80, 80
_DATE = r"[\s]*[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T](?s:.)*)?"
# What `str.strip` removes, as a class of RE2.
_SPACES = r"[\s\v\x1c-\x1f\x{85}\pZ]*"
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_DAYS_BEFORE = [0, 0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4]
_DAYS_OF_MONTH = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
#: Name of a tensor of the graph.
_Name = str


def as_onnx(student: Description) -> bytes:
    """Return a student as an ONNX model.

    Each raw column is an input of shape (n_rows, 1): a double, where NaN is a blank, or a text, where the empty text is
    a blank. Dates are texts as 2025-12-31. What follows a space or a T is ignored, and a text that is not a date is a
    blank. Outputs are ``label`` (n_rows,), ``probabilities`` (n_rows, n_classes) and ``guarantee`` (n_rows,).
    Metadata name the classes, the inputs, the guarantee and, for a run with seeded noise, the mark.

    Parameters
    ----------
    student : Description
        The student.

    Raises
    ------
    DPEnsembleError
        If the package onnx is not installed.
    InvalidParameterError
        If the model would be larger than its format allows.
    """
    model = _model(student)
    content: bytes = model.SerializeToString()
    return content


def _onnx() -> Any:
    """Return the package, or raise an error that names the extra that installs it."""
    try:
        import onnx  # noqa: PLC0415  an optional extra
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "onnx":
            raise
        raise DPEnsembleError(
            'format=onnx needs the package onnx, which is not installed: run pip install "dpensemble[onnx]".',
            parameter="format",
        ) from None
    return onnx


def _model(student: Description) -> ModelProto:
    onnx = _onnx()
    inputs = _inputs(student)
    graph = _Graph(onnx, [one.name for one in inputs])
    scores = _scores(graph, student, {one.column: one.name for one in inputs})
    chances = _chances(graph, scores, len(student.classes))
    graph.name_output("probabilities", chances)
    best = graph.add("ArgMax", chances, axis=1, keepdims=0)
    graph.name_output("label", graph.add("Gather", graph.texts(student.classes), best))
    text = " ".join([*([student.mark] if student.mark else []), *student.guarantee])
    graph.name_output("guarantee", graph.add("Gather", graph.texts([text]), graph.add("Sub", best, best)))
    types, value = onnx.TensorProto, onnx.helper.make_tensor_value_info
    outputs = [
        value("label", types.STRING, ["rows"]),
        value("probabilities", types.DOUBLE, ["rows", len(student.classes)]),
        value("guarantee", types.STRING, ["rows"]),
    ]
    columns = [value(one.name, types.DOUBLE if one.is_number else types.STRING, ["rows", 1]) for one in inputs]
    model: ModelProto = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "student", columns, outputs, graph.constants),
        opset_imports=[onnx.helper.make_opsetid("", _OPSET), onnx.helper.make_opsetid("ai.onnx.ml", _OPSET_OF_ML)],
        ir_version=_FORMAT,
        producer_name="dpensemble",
        producer_version=version("dpensemble"),
        doc_string=text,
    )
    onnx.helper.set_model_props(model, _metadata(student, inputs))
    onnx.checker.check_model(model)
    return model


def _metadata(student: Description, inputs: Sequence[_Input]) -> dict[str, str]:
    """Return what a program can read of the model: texts, and lists as JSON."""
    listed = {"classes": list(student.classes), "inputs": [one.described() for one in inputs]}
    texts = {"title": student.title, "created": student.created, "not_for_release": student.mark}
    return {name: json.dumps(value, ensure_ascii=False) for name, value in listed.items()} | {
        "dpensemble_version": version("dpensemble"),
        "guarantee": " ".join(student.guarantee),
        "for_release": {None: "not stated", True: "true", False: "false"}[student.for_release],
        **{name: text for name, text in texts.items() if text},
    }


@dataclass(frozen=True, kw_only=True)
class _Input:
    """An input: a raw column, and how its entries are given."""

    name: str
    column: str
    kind: str
    categories: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether entries are doubles, and not texts."""
        return self.kind == "number"

    def described(self) -> dict[str, object]:
        """Return the input's entry in the metadata."""
        about: dict[str, object] = {"input": self.name, "column": self.column, "holds": self.kind}
        about |= {"type": "double", "blank": "NaN"} if self.is_number else {"type": "string", "blank": ""}
        if self.kind == "date":
            about["format"] = DATES
        return about | ({"categories": list(self.categories)} if self.categories else {})


def _inputs(student: Description) -> list[_Input]:
    inputs: list[_Input] = []
    for place, source in enumerate(student.sources):
        first = next(column for column in student.table.columns if column.source == source)
        kind = "date" if first.part else "number" if first.is_number else "text"
        # Programs in C read a name up to its NUL.
        is_plain = source and "\0" not in source and source not in OUTPUTS and _is_unicode(source)
        name, taken = source if is_plain else f"column {place + 1}", {*student.sources, *OUTPUTS}
        while not is_plain and name in taken:
            name += "_"
        inputs.append(_Input(name=name, column=source, kind=kind, categories=() if first.part else first.categories))
    return inputs


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


class _Graph:
    """Nodes and constants of a model. Each is added under a name that no input has."""

    def __init__(self, onnx: Any, inputs: Sequence[str]) -> None:
        self._onnx, self._size = onnx, 0
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._prefix = "step"
        while any(name.startswith(self._prefix) for name in inputs):
            self._prefix += "_"

    def _new(self) -> _Name:
        return f"{self._prefix}{len(self.nodes)}_{len(self.constants)}"

    def add(self, operation: str, *inputs: _Name, outputs: int = 1, domain: str = "", **settings: Any) -> _Name:
        """Add a node, and return the name of its first output."""
        names = [f"{self._new()}_{place}" for place in range(outputs)]
        self.nodes.append(self._onnx.helper.make_node(operation, inputs, names, domain=domain, **settings))
        return names[0]

    def name_output(self, name: str, value: _Name) -> None:
        """Return a tensor from the model under a name."""
        self.nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))

    def constant(self, values: Any, kind: type[Any] = np.float64) -> _Name:
        """Add an array of numbers, and return its name."""
        array = np.ascontiguousarray(np.asarray(values, dtype=kind))
        self._size += array.nbytes
        if self._size > _MOST_BYTES:
            raise InvalidParameterError(
                f"format=onnx cannot hold this student, since ONNX files are smaller than {_MOST_BYTES / 1e9:.1f} GB: "
                "use --format sql.",
                parameter="format",
            )
        name = f"{self._new()}_c"
        # A scalar stays a scalar.
        self.constants.append(self._onnx.numpy_helper.from_array(array.reshape(np.shape(values)), name))
        return name

    def texts(self, values: Sequence[str]) -> _Name:
        """Add texts, and return their name."""
        name = f"{self._new()}_c"
        content = [value.encode("utf-8", "surrogatepass") for value in values]
        types = self._onnx.TensorProto
        self.constants.append(self._onnx.helper.make_tensor(name, types.STRING, [len(values)], content))
        return name

    def whole(self, values: Any) -> _Name:
        """Add whole numbers, and return their name."""
        return self.constant(values, np.int64)

    def cast(self, value: _Name, kind: str) -> _Name:
        """Convert a tensor, for example to ``"DOUBLE"``."""
        return self.add("Cast", value, to=self._onnx.TensorProto.DataType.Value(kind))

    def joined(self, values: Sequence[_Name]) -> _Name:
        """Return columns side by side."""
        return values[0] if len(values) == 1 else self.add("Concat", *values, axis=1)

    def sum(self, value: _Name) -> _Name:
        """Return the sum of each row, shape (n_rows, 1)."""
        return self.add("ReduceSum", value, self.whole([1]), keepdims=1)

    def rounded(self, value: _Name, unit: float) -> _Name:
        """Return whole numbers of ``1 / unit``. Halves become even."""
        return self.add("Round", self.add("Mul", value, self.constant(unit)))

    def any_of(self, conditions: Sequence[_Name]) -> _Name:
        """Return where one of some conditions holds."""
        result = conditions[0]
        for other in conditions[1:]:
            result = self.add("Or", result, other)
        return result

    def all_of(self, conditions: Sequence[_Name]) -> _Name:
        """Return where all of some conditions hold."""
        result = conditions[0]
        for other in conditions[1:]:
            result = self.add("And", result, other)
        return result


def _scores(graph: _Graph, student: Description, inputs: dict[str, _Name]) -> _Name:
    """Return the scores of rows, shape (n_rows, n_columns)."""
    columns = _Columns(graph, student.table, inputs)
    parts, start = [], 0
    for piece in student.pieces:
        width = len(piece.factors)
        parts.append(_score_of(graph, columns, piece, student.coefficients[start : start + width]))
        start += width
    score = parts[0]
    for part in parts[1:]:
        score = graph.add("Add", score, part)
    return score


def _score_of(graph: _Graph, columns: _Columns, piece: Piece, coefficients: Floats) -> _Name:
    """Return what the features of a piece add to the scores. Sums are of whole numbers, so any order gives the same."""
    features, constant = _features(piece.layer, graph, columns)
    if constant is None or not piece.constant:
        return _product(graph, features, piece.factors, coefficients)
    # The constant behind the features adds the same to each row.
    added = np.rint(constant * piece.factors[-1] * _UNIT) / _UNIT * coefficients[-1:]
    product = _product(graph, features, piece.factors[:-1], coefficients[:-1])
    return graph.add("Add", product, graph.constant(added))


def _product(graph: _Graph, features: _Name, factors: Floats, coefficients: Floats) -> _Name:
    if np.any(factors != 1):
        features = graph.add("Mul", features, graph.constant(factors[None]))
    return graph.add("MatMul", graph.rounded(features, _UNIT), graph.constant(coefficients / _UNIT))


def _chances(graph: _Graph, scores: _Name, n_classes: int) -> _Name:
    """Return probabilities as whole numbers of ``2**-24``, shape (n_rows, n_classes)."""
    one, unit = graph.constant(1.0), graph.constant(_CHANCE)
    if n_classes == 2:
        bent = graph.add("Tanh", graph.add("Div", scores, graph.constant(2.0)))
        share = graph.add("Mul", graph.constant(0.5), graph.add("Add", one, bent))
        second = graph.add("Div", graph.rounded(share, _CHANCE), unit)
        return graph.joined([graph.add("Sub", one, second), second])
    largest = graph.add("ReduceMax", scores, graph.whole([1]), keepdims=1)
    odds = graph.rounded(graph.add("Exp", graph.add("Sub", scores, largest)), _CHANCE)
    chances = graph.rounded(graph.add("Div", odds, graph.sum(odds)), _CHANCE)
    return graph.add("Div", graph.add("Max", chances, one), unit)


class _Columns:
    """The columns of a table, as they are read. Features and numbers are added to the graph when they are used."""

    def __init__(self, graph: _Graph, table: Table, inputs: dict[str, _Name]) -> None:
        self._graph, self._table, self._inputs = graph, table, inputs
        self._dates: dict[str, _Date] = {}
        self._features: _Name | None = None
        self._numbers: _Name | None = None
        self.numeric = [column for column in table.columns if column.is_number]
        self.textual = [column for column in table.columns if not column.is_number]

    def _order(self) -> Integers:
        """Return places of features of the table: knots of numbers, missing numbers, categories, and the constant."""
        knots = [np.arange(one.start, one.start + one.n_features - 1) for one in self.numeric]
        missing = [np.array([one.start + one.n_features - 1]) for one in self.numeric]
        texts = [np.arange(one.start, one.start + one.n_features) for one in self.textual]
        last = np.array([self._table.n_features - 1])
        return np.concatenate([*knots, *missing, *texts, last]).astype(np.int64)

    def features(self) -> _Name:
        """Return the features of the table, shape (n_rows, n_features)."""
        if self._features is None:
            parts = [*self._of_numbers(), *self._of_texts()]
            # A column of the right length without NaN, from any feature.
            first = self._graph.add("Slice", parts[0], *map(self._graph.whole, ([0], [1], [1])))
            zero = self._graph.add("Mul", first, self._graph.constant(0.0))
            parts.append(self._graph.add("Add", zero, self._graph.constant(self._table.constant)))
            in_order = np.argsort(self._order())
            self._features = self._graph.add("Gather", self._graph.joined(parts), self._graph.whole(in_order), axis=1)
        return self._features

    def numbers(self) -> _Name:
        """Return all columns of numbers, NaN where an entry is missing, shape (n_rows, n_columns)."""
        if self._numbers is None:
            self._numbers = self._graph.joined([self._number(column) for column in self.numeric])
        return self._numbers

    def chosen_numbers(self, places: Sequence[int]) -> _Name:
        """Return the columns of numbers at some places of the table."""
        own = [self.numeric.index(self._table.columns[place]) for place in places]
        if own == list(range(len(self.numeric))):
            return self.numbers()
        return self._graph.add("Gather", self.numbers(), self._graph.whole(own), axis=1)

    def _number(self, column: Column) -> _Name:
        """Return the numbers of a column, shape (n_rows, 1)."""
        graph = self._graph
        if column.part is None:
            number = self._inputs[column.source]
            blanks = _numbers_among(column.blanks)
            if blanks:
                is_blank = graph.any_of([graph.add("Equal", number, graph.constant([[one]])) for one in blanks])
                number = graph.add("Where", is_blank, graph.constant([[np.nan]]), number)
        else:
            number = self._date(column).numbers[column.part]
        if column.fill is not None:
            number = graph.add("Where", graph.add("IsNaN", number), graph.constant([[float(column.fill)]]), number)
        if column.edges is not None and column.values is not None:
            is_behind = graph.add("GreaterOrEqual", number, graph.constant(column.edges[None]))
            place = graph.sum(graph.cast(is_behind, "INT64"))
            snapped = graph.add("Gather", graph.constant(column.values), place)
            number = graph.add("Where", graph.add("IsNaN", number), number, snapped)
        return number

    def _of_numbers(self) -> list[_Name]:
        """Return the weights of the knots of all columns of numbers, and of missing numbers."""
        if not self.numeric:
            return []
        graph, numbers, knots = self._graph, self.numbers(), _Knots.of(self.numeric)
        missing = graph.add("IsNaN", numbers)
        present = graph.add("Where", missing, graph.constant(0.0), numbers)
        owners = graph.whole(knots.owners)
        # The part of the way to each knot, 1 for the first knot of a scale and 0 behind the last.
        way = graph.add("Sub", graph.add("Gather", present, owners, axis=1), graph.constant(knots.below[None]))
        way = graph.add("Div", way, graph.constant(knots.widths[None]))
        way = graph.add("Clip", way, graph.constant(0.0), graph.constant(1.0))
        way = graph.add("Where", graph.constant(knots.is_first[None], np.bool_), graph.constant(1.0), way)
        after = graph.add("Gather", way, graph.whole(knots.next_places), axis=1)
        after = graph.add("Where", graph.constant(knots.is_last[None], np.bool_), graph.constant(0.0), after)
        share = graph.add("Where", missing, graph.constant(0.0), graph.constant(knots.shares[None]))
        weights = graph.add(
            "Mul", graph.add("Sqrt", graph.add("Sub", way, after)), graph.add("Gather", share, owners, axis=1)
        )
        lengths = graph.constant([[column.length for column in self.numeric]])
        return [weights, graph.add("Mul", graph.cast(missing, "DOUBLE"), lengths)]

    def _of_texts(self) -> list[_Name]:
        """Return a weight at the category of each text."""
        if not self.textual:
            return []
        graph, sizes = self._graph, [column.n_features for column in self.textual]
        places = graph.joined([self._place(column) for column in self.textual])
        owners = np.repeat(np.arange(len(sizes)), sizes)
        numbers = np.concatenate([np.arange(size) for size in sizes])
        own = graph.add("Gather", places, graph.whole(owners), axis=1)
        is_at = graph.cast(graph.add("Equal", own, graph.whole(numbers[None])), "DOUBLE")
        lengths = np.repeat([column.length for column in self.textual], sizes)
        return [graph.add("Mul", is_at, graph.constant(lengths[None]))]

    def _place(self, column: Column) -> _Name:
        """Return the place of each text among the categories, any other and missing, shape (n_rows, 1)."""
        graph, place_of = self._graph, _place_of(column)
        if column.part is not None:
            date = self._date(column)
            place = graph.add("Gather", graph.whole([place_of(day) for day in _DAYS]), date.day)
            return graph.add("Where", date.is_date, place, graph.whole([[place_of(None)]]))
        text = self._inputs[column.source]
        if column.blanks:
            pattern = f"{_SPACES}(?:{'|'.join(_blank_patterns(column.blanks))}){_SPACES}"
            text = graph.add("Where", graph.add("RegexFullMatch", text, pattern=pattern), graph.texts([""]), text)
        names = [*dict.fromkeys(("", *column.categories, *(column.known or ())))]
        values = [place_of(name or None) for name in names]
        return graph.add(
            "LabelEncoder",
            text,
            domain="ai.onnx.ml",
            keys_strings=names,
            values_int64s=values,
            # A text that no category can be, since it is longer than all of them.
            default_int64=place_of("".join(names) + "_"),
        )

    def _date(self, column: Column) -> _Date:
        if column.source not in self._dates:
            self._dates[column.source] = _Date.of(self._graph, self._inputs[column.source], column.blanks)
        return self._dates[column.source]


def _place_of(column: Column) -> Callable[[str | None], int]:
    """Return a function that finds the place of an entry among the features of a column of texts."""
    places = {name: place for place, name in enumerate(column.categories)}

    def place_of(entry: str | None) -> int:
        if entry is None and column.fill is not None:
            entry = str(column.fill)
        if entry is None:
            return len(places) + 1
        if column.known is not None and entry not in column.known:
            entry = column.known[-1]
        return places.get(entry, len(places))

    return place_of


def _numbers_among(blanks: Sequence[str]) -> list[float]:
    numbers = []
    for text in blanks:
        try:
            number = float(text)
        except ValueError:
            continue
        if np.isfinite(number):
            numbers.append(number)
    return numbers


def _blank_patterns(blanks: Sequence[str]) -> list[str]:
    """Return patterns of texts that are a declared blank, or the same number written with more zeros."""
    patterns = [re.escape(text) for text in blanks]
    for number in _numbers_among(blanks):
        whole, _, rest = np.format_float_positional(abs(number), trim="-").partition(".")
        sign = "[+-]?" if number == 0 else "-" if number < 0 else "[+]?"
        patterns.append(f"{sign}0*{whole}" + (rf"\.{rest}0*" if rest else r"(?:\.0*)?"))
    return patterns


@dataclass(frozen=True, eq=False)
class _Knots:
    """Knots of all scales of some columns of numbers, one after another.

    A knot's weight is the root of the part of the way to it, less the part of the way to the next knot.
    """

    owners: Integers
    below: Floats
    widths: Floats
    is_first: NDArray[np.bool_]
    is_last: NDArray[np.bool_]
    shares: Floats

    @classmethod
    def of(cls, columns: Sequence[Column]) -> _Knots:
        """Return the knots of columns."""
        scales = [(place, knots) for place, column in enumerate(columns) for knots in column.knots]
        sizes = np.array([len(knots) for _, knots in scales])
        ends = np.cumsum(sizes)
        is_first, is_last = np.zeros(ends[-1], dtype=bool), np.zeros(ends[-1], dtype=bool)
        is_first[ends - sizes], is_last[ends - 1] = True, True
        return cls(
            owners=np.repeat([place for place, _ in scales], sizes),
            # The part of the first knot is 1, so these numbers are not used.
            below=np.concatenate([np.append(0.0, knots[:-1]) for _, knots in scales]),
            widths=np.concatenate([np.append(1.0, np.diff(knots)) for _, knots in scales]),
            is_first=is_first,
            is_last=is_last,
            shares=np.array([column.length / np.sqrt(len(column.knots)) for column in columns]),
        )

    @property
    def next_places(self) -> Integers:
        """Place of the next knot. Behind the last knot of a scale the entry is not used."""
        return np.where(self.is_last, 0, np.arange(len(self.owners)) + 1)


@dataclass(frozen=True)
class _Date:
    """The parts of dates: whether each text is a date, its year and month as numbers, and its day of the week."""

    is_date: _Name
    numbers: dict[str, _Name]
    day: _Name

    @classmethod
    def of(cls, graph: _Graph, text: _Name, blanks: Sequence[str]) -> _Date:
        """Read a column of texts, shape (n_rows, 1)."""
        matches = graph.add("RegexFullMatch", text, pattern=_DATE)
        if blanks:
            pattern = f"{_SPACES}(?:{'|'.join(_blank_patterns(blanks))}){_SPACES}"
            is_blank = graph.add("RegexFullMatch", text, pattern=pattern)
            matches = graph.add("And", matches, graph.add("Not", is_blank))
        text = graph.add("Where", matches, text, graph.texts(["2000-01-01"]))
        parts = graph.add("StringSplit", text, outputs=2, delimiter="-", maxsplit=2)
        year, month, rest = (graph.add("Gather", parts, graph.whole(place), axis=2) for place in range(3))
        for end in ("T", " "):
            split = graph.add("StringSplit", rest, outputs=2, delimiter=end, maxsplit=1)
            rest = graph.add("Gather", split, graph.whole(0), axis=2)
        year, month, day = (graph.cast(one, "INT64") for one in (year, month, rest))
        is_date = graph.all_of([matches, *_bounds(graph, year, month, day)])
        numbers = {
            part: graph.add("Where", is_date, graph.cast(value, "DOUBLE"), graph.constant([[np.nan]]))
            for part, value in (("year", year), ("month", month))
        }
        return cls(is_date, numbers, _day_of_week(graph, year, month, day))


def _bounds(graph: _Graph, year: _Name, month: _Name, day: _Name) -> list[_Name]:
    """Return conditions that year, month and day are those of a date."""
    one, zero = graph.whole(1), graph.whole(0)

    def divides(number: int) -> _Name:
        return graph.add("Equal", graph.add("Mod", year, graph.whole(number)), zero)

    leap = graph.add("Or", graph.add("And", divides(4), graph.add("Not", divides(100))), divides(400))
    known_month = graph.add("Min", month, graph.whole(12))
    days = graph.add("Gather", graph.whole(_DAYS_OF_MONTH), known_month)
    longer = graph.cast(graph.add("And", leap, graph.add("Equal", month, graph.whole(2))), "INT64")
    days = graph.add("Add", days, longer)
    at_least = [graph.add("GreaterOrEqual", value, one) for value in (year, month, day)]
    return [*at_least, graph.add("LessOrEqual", month, graph.whole(12)), graph.add("LessOrEqual", day, days)]


def _day_of_week(graph: _Graph, year: _Name, month: _Name, day: _Name) -> _Name:
    """Return the number of the day of the week from Sunday, by the Gregorian calendar (Sakamoto's method)."""
    known_month = graph.add("Min", month, graph.whole(12))
    before_march = graph.cast(graph.add("Less", month, graph.whole(3)), "INT64")
    counted = graph.add("Sub", graph.add("Max", year, graph.whole(1)), before_march)
    total = graph.add(
        "Add", graph.add("Add", counted, day), graph.add("Gather", graph.whole(_DAYS_BEFORE), known_month)
    )
    for years, operation in ((4, "Add"), (100, "Sub"), (400, "Add")):
        total = graph.add(operation, total, graph.add("Div", counted, graph.whole(years)))
    return graph.add("Mod", total, graph.whole(7))


def _whitened(graph: _Graph, columns: _Columns, numbers: Whitened) -> _Name:
    """Return whitened numbers, shape (n_rows, n_dimensions)."""
    values = columns.chosen_numbers(numbers.places)
    values = graph.add("Where", graph.add("IsNaN", values), graph.constant(numbers.median[None]), values)
    values = graph.add("Max", values, graph.constant(numbers.low[None]))
    values = graph.add("Min", values, graph.constant(numbers.high[None]))
    values = graph.add("Sub", values, graph.constant(numbers.mean[None]))
    return graph.add("MatMul", values, graph.constant(numbers.matrix))


def _squared_distances(graph: _Graph, points: _Name, landmarks: Floats) -> _Name:
    """Return squared distances to landmarks, shape (n_rows, n_landmarks).

    Sums of squared differences do not cancel near a landmark. They go through the dimensions one by one, since all
    differences of all rows would need much memory.
    """
    total: _Name | None = None
    for place, of_dimension in enumerate(landmarks.T):
        own = graph.add("Slice", points, *map(graph.whole, ([place], [place + 1], [1])))
        apart = graph.add("Sub", own, graph.constant(of_dimension[None]))
        square = graph.add("Mul", apart, apart)
        total = square if total is None else graph.add("Add", total, square)
    if total is None:
        raise InvalidParameterError("format=onnx needs a landmark with numbers: train again.", parameter="format")
    return total


@singledispatch
def _features(layer: object, graph: _Graph, columns: _Columns) -> tuple[_Name, float | None]:
    """Return the features of a layer, shape (n_rows, n_features), and the constant behind them if there is one."""
    raise NotImplementedError(type(layer).__name__)


@_features.register
def _table(layer: Table, graph: _Graph, columns: _Columns) -> tuple[_Name, float | None]:  # noqa: ARG001
    return columns.features(), None


@_features.register
def _nearness(layer: Nearness, graph: _Graph, columns: _Columns) -> tuple[_Name, float | None]:
    squares = _squared_distances(graph, _whitened(graph, columns, layer.numbers), layer.landmarks)
    scores = graph.add("Div", graph.add("Neg", squares), graph.constant(layer.scale))
    largest = graph.add("ReduceMax", scores, graph.whole([1]), keepdims=1)
    odds = graph.add("Exp", graph.add("Sub", scores, largest))
    return graph.add("Sqrt", graph.add("Div", odds, graph.sum(odds))), None


@_features.register
def _kernel(layer: Kernel, graph: _Graph, columns: _Columns) -> tuple[_Name, float | None]:
    squares = _squared_distances(graph, _whitened(graph, columns, layer.numbers), layer.landmarks)
    kernel = graph.add(
        "Exp", graph.add("Div", graph.add("Neg", graph.add("Sqrt", squares)), graph.constant(layer.width))
    )
    features = graph.add(
        "Sub", graph.add("MatMul", kernel, graph.constant(layer.matrix)), graph.constant(layer.mean[None])
    )
    length = graph.add("Sqrt", graph.sum(graph.add("Mul", features, features)))
    return graph.add("Div", features, graph.add("Max", length, graph.constant(1.0))), None


@_features.register
def _directions(layer: Directions, graph: _Graph, columns: _Columns) -> tuple[_Name, float | None]:
    features, _ = _features(layer.base, graph, columns)
    if layer.is_exact:
        features = graph.add("Mul", graph.rounded(features, _EXACT), graph.constant(1 / _EXACT))
    along = graph.add(
        "Sub", graph.add("MatMul", features, graph.constant(layer.matrix)), graph.constant(layer.offset[None])
    )
    if layer.is_exact:
        length = _exact_length(graph, along, layer.matrix.shape[1])
    else:
        length = graph.add("Sqrt", graph.sum(graph.add("Mul", along, along)))
    length = graph.add("Max", length, graph.constant(_LEAST_LENGTH))
    factor = graph.add("Div", graph.constant(np.sqrt(1 - layer.constant**2)), length)
    return graph.add("Mul", along, factor), layer.constant


def _exact_length(graph: _Graph, along: _Name, n_columns: int) -> _Name:
    """Return lengths as `dpensemble.moments.maps.directions` computes them, shape (n_rows, 1)."""
    root = ((n_columns - 1).bit_length() + 1) // 2
    fine_units = 2.0 ** (_HALF_BITS + 1 - root)
    largest = graph.add("ReduceMax", graph.add("Abs", along), graph.whole([1]), keepdims=1)
    # The exponent of the largest entry: the number of powers of two that are at most as large.
    powers = np.arange(_LEAST_POWER, _MOST_POWER)
    is_below = graph.add("GreaterOrEqual", largest, graph.constant(np.ldexp(1.0, powers)[None]))
    place = graph.sum(graph.cast(is_below, "INT64"))
    exponents = np.arange(_LEAST_POWER, _MOST_POWER + 1) + root - _HALF_BITS
    part = graph.add("Mul", along, graph.add("Gather", graph.constant(np.ldexp(1.0, -exponents)), place))
    coarse = graph.add("Round", part)
    fine = graph.rounded(graph.add("Sub", part, coarse), fine_units)
    squares = graph.sum(graph.add("Mul", coarse, coarse))
    mixed = graph.add("Mul", graph.sum(graph.add("Mul", coarse, fine)), graph.constant(2 / fine_units))
    length = graph.add("Sqrt", graph.add("Add", squares, mixed))
    return graph.add("Mul", length, graph.add("Gather", graph.constant(np.ldexp(1.0, exponents)), place))
