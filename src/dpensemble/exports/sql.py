"""A student as one SELECT statement, whose probabilities are those of the student.

The statement has steps, each a common table expression whose columns are computed from those of the step before.
Products of features and directions are sums of whole numbers below 2**53, as in `dpensemble.moments.maps.directions`.
So every order of adding gives the same result, and the same features as in the student.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from itertools import pairwise

import numpy as np

from dpensemble._checks import shown
from dpensemble._entries import Floats
from dpensemble.errors import InvalidParameterError
from dpensemble.exports.description import (
    Column,
    Description,
    Directions,
    Kernel,
    Nearness,
    Piece,
    Table,
    Whitened,
    features_of_numbers,
    number_of_text,
    places_of_texts,
    release_text,
)
from dpensemble.exports.dialects import DIALECTS, DUCKDB, SQLITE, Dialect

# Whole units in 1 of features of exact products, of features of the model, of its coefficients and of chances.
_EXACT, _FEATURE, _COEFFICIENT, _CHANCE = 2.0**26, 2.0**14, 2.0**16, 2.0**24
_BITS = 26
# Arguments of exp below which PostgreSQL would raise an error, or a chance rounds to 0 anyway.
_LOWEST, _LOWEST_OF_CHANCE = 600, 40
# Powers of two that lengths are compared with. Shorter rows count as the middle of all directions.
_LEAST_POWER = -60
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NAME = re.compile(r"[a-z]+\d+(?:_\d+)*")

#: Columns of the result behind the probabilities.
LABEL, GUARANTEE, FOR_RELEASE = "label", "guarantee", "for_release"


def as_sql(student: Description, dialect: str = "sqlite", *, table: str = "rows", keep: Sequence[str] = ()) -> str:
    """Return a SELECT statement that gives the probabilities and the label of each row of a table.

    Parameters
    ----------
    student : Description
        What the student computes.
    dialect : {"sqlite", "postgresql", "duckdb"}
        The database.
    table : str
        Table to read. A dot stands between schema and table.
    keep : sequence of str
        Columns of the table that the result repeats.

    Raises
    ------
    InvalidParameterError
        If the database cannot have a name or that many columns, or if two names of the result are the same.
    """
    if dialect not in DIALECTS:
        raise InvalidParameterError(
            f"dialect={dialect!r} is unknown: use one of {', '.join(DIALECTS)}.", parameter="dialect"
        )
    return _Statement(student, DIALECTS[dialect], table, keep).text()


# Terms of each score.
_Terms = list[list[str]]


@dataclass(frozen=True)
class _Vector:
    """A vector of the statement: its name, numbers for each entry, and an expression as `_reduced` takes it."""

    name: str
    numbers: list[list[float]]
    expression: str


class _Statement:
    """The steps of one statement. `steps` are lists of names and expressions, which see all names before."""

    def __init__(self, student: Description, dialect: Dialect, table: str, keep: Sequence[str]) -> None:
        self.student, self.dialect, self.keep = student, dialect, tuple(keep)
        self.table = ".".join(dialect.identifier(part) for part in table.split("."))
        self.names = [*self.keep, *(f"probability of {name}" for name in student.classes)]
        self.names += [LABEL, GUARANTEE, FOR_RELEASE]
        self._require_distinct()
        self.steps: list[list[tuple[str, str]]] = []
        self.sides: list[tuple[str, Sequence[Sequence[float]]]] = []
        self.unit = _FEATURE if student.is_additive else _EXACT

    def _require_distinct(self) -> None:
        """Raise if the database takes two names of the table, or of the result, for one."""
        for names in (self.student.sources, self.names):
            alike = [name.casefold() if self.dialect.ignores_capitals else name for name in names]
            twice = [name for name, one in zip(names, alike, strict=True) if alike.count(one) > 1]
            if twice and twice[0] in self.keep:
                raise InvalidParameterError(
                    f"keep={twice[0]!r} is also a column of the result: rename it.", parameter="keep"
                )
            if twice:
                raise InvalidParameterError(
                    f"{shown(twice[0])} and {shown(twice[1])} differ only in capitals, which {self.dialect.name} takes "
                    "for one name: use --dialect postgresql, --format python or --format onnx."
                )

    def text(self) -> str:
        """Return the statement, below comments."""
        self._read()
        self._prepare()
        self._weigh()
        terms: list[list[str]] = [[] for _ in range(self.student.coefficients.shape[1])]
        done = 0
        for number, piece in enumerate(self.student.pieces):
            width = len(piece.factors)
            coefficients = np.rint(self.student.coefficients[done : done + width] * _COEFFICIENT)
            for of_score, more in zip(terms, self._terms(piece.layer, number, piece, coefficients), strict=True):
                of_score.extend(more)
            done += width
        divisor = self._double(_FEATURE * _COEFFICIENT)
        self.steps.append([(f"s{k}", f"{_total(own)} / {divisor}") for k, own in enumerate(terms)])
        self._chances()
        return self._comments() + self._joined()

    def _number(self, value: float) -> str:
        return self.dialect.number(value)

    def _double(self, value: float) -> str:
        return self.dialect.double(value)

    def _read(self) -> None:
        """Add the step that reads the table: numbers, texts, and dates as texts."""
        columns = {column.source: column for column in self.student.table.columns}
        step = [(f"k{number}", f"t.{self.dialect.identifier(name)}") for number, name in enumerate(self.keep)]
        for number, (source, column) in enumerate(columns.items()):
            given = f"t.{self.dialect.identifier(source)}"
            is_number = column.is_number and column.part is None
            step.append((f"r{number}", self.dialect.as_number(given) if is_number else self.dialect.as_text(given)))
        self.steps.append(step)
        self.places = {source: number for number, source in enumerate(columns)}
        dates = [self.places[source] for source, column in columns.items() if column.part is not None]
        if not dates:
            return
        parts = (("y", 1, 4), ("m", 6, 2), ("d", 9, 2))
        self.steps.append(
            [
                (f"{part}{n}", f"CASE WHEN {self.dialect.is_date(f'r{n}')} THEN {self._digits(n, first, length)} END")
                for n in dates
                for part, first, length in parts
            ]
        )
        self.steps.append([(f"w{n}", self._weekday(n)) for n in dates])

    def _digits(self, number: int, first: int, length: int) -> str:
        return self.dialect.part_of_date(f"r{number}", first, length)

    def _weekday(self, n: int) -> str:
        """Return the day of the week from 0 for Sunday, NULL if there is no such day (Zeller's congruence)."""
        leap = f"(y{n} % 4 = 0 AND y{n} % 100 <> 0) OR y{n} % 400 = 0"
        last = f"CASE WHEN m{n} IN (4, 6, 9, 11) THEN 30 WHEN m{n} <> 2 THEN 31 WHEN {leap} THEN 29 ELSE 28 END"
        early = f"(CASE WHEN m{n} < 3 THEN 1 ELSE 0 END)"
        year, quotient = f"(y{n} - {early})", self.dialect.quotient
        shifted = f"31 * (m{n} + 12 * {early} - 2)"
        days = " + ".join([f"d{n}", year, quotient(year, 4), quotient(year, 400), quotient(shifted, 12)])
        days = f"({days} - {quotient(year, 100)}) % 7"
        return f"CASE WHEN y{n} >= 1 AND m{n} BETWEEN 1 AND 12 AND d{n} BETWEEN 1 AND {last} THEN {days} END"

    def _prepare(self) -> None:
        """Add the step with a number, or with the place of a text among the categories, for each column."""
        step = []
        for number, column in enumerate(self.student.table.columns):
            read = self._number_of(column) if column.is_number else self._place_of(column)
            step.append((f"{'p' if column.is_number else 'c'}{number}", read))
        self.steps.append(step)

    def _number_of(self, column: Column) -> str:
        n = self.places[column.source]
        if column.part is not None:
            number = f"CASE WHEN w{n} IS NOT NULL THEN CAST({column.part[0]}{n} AS {self.dialect.real}) END"
        else:
            blanks = [self._double(value) for value in map(number_of_text, column.blanks) if np.isfinite(value)]
            number = f"CASE WHEN r{n} IN ({', '.join(blanks)}) THEN NULL ELSE r{n} END" if blanks else f"r{n}"
        if column.fill is None:
            return number
        return f"coalesce({number}, {self._double(float(column.fill))})"

    def _place_of(self, column: Column) -> str:
        n, codes, other, missing = self.places[column.source], *places_of_texts(column)
        if column.part is not None:
            days = [codes.get(day, other) for day in _DAYS]
            choice = " ".join(f"WHEN w{n} = {day} THEN {code}" for day, code in enumerate(days) if code != other)
            return f"CASE WHEN w{n} IS NULL THEN {missing} {choice} ELSE {other} END"
        blank = ", ".join(self.dialect.literal(text) for text in column.blanks)
        blanks = f"r{n} IS NULL OR trim(r{n}) IN ({blank})" if blank else f"r{n} IS NULL"
        choice = " ".join(
            f"WHEN r{n} = {self.dialect.literal(text)} THEN {code}" for text, code in codes.items() if code != other
        )
        return f"CASE WHEN {blanks} THEN {missing} {choice} ELSE {other} END"

    def _weigh(self) -> None:
        """Add the steps with the weights of a number at the two knots beside it, in whole units."""
        within, ways, weights = [], [], []
        for number, column in enumerate(self.student.table.columns):
            if not column.is_number or column.edges is not None:
                continue
            low, high = min(one[0] for one in column.knots), max(one[-1] for one in column.knots)
            within.append((f"q{number}", self._clipped(f"p{number}", low, high)))
            share = self._number(column.length / math.sqrt(len(column.knots)))
            for scale, knots in enumerate(column.knots):
                if len(knots) < 2:
                    continue
                own = f"{number}_{scale}"
                leaves = [
                    f"(q{number} - {self._number(below)}) / {self._number(above - below)}"
                    for below, above in pairwise(knots.tolist())
                ]
                way = self._choice(f"q{number}", [self._number(knot) for knot in knots[1:-1]], leaves)
                inside = knots[0] == low and knots[-1] == high
                ways.append((f"t{own}", way if inside else f"{self._clipped(f'({way})', 0.0, 1.0)}"))
                for name, part in (("a", f"1.0 - t{own}"), ("b", f"t{own}")):
                    scaled = f"sqrt({part}) * {share} * {self._number(self.unit)}"
                    weights.append((f"{name}{own}", self.dialect.rounded(scaled)))
        self.steps += [step for step in (within, ways, weights) if step]

    def _clipped(self, expression: str, low: float, high: float) -> str:
        """Return a number that is at least `low` and at most `high`. NULL stays NULL."""
        ends = self._double(low), self._double(high)
        return f"CASE WHEN {expression} < {ends[0]} THEN {ends[0]} WHEN {expression} > {ends[1]} THEN {ends[1]} " + (
            f"ELSE {expression} END"
        )

    def _choice(self, name: str, limits: Sequence[str], leaves: Sequence[str]) -> str:
        """Return the leaf whose limits a number lies between. The last leaf begins at the last limit."""
        if all(leaf == leaves[0] for leaf in leaves):
            return leaves[0]
        middle = len(leaves) // 2
        below = self._choice(name, limits[: middle - 1], leaves[:middle])
        above = self._choice(name, limits[middle:], leaves[middle:])
        return f"CASE WHEN {name} < {limits[middle - 1]} THEN {below} ELSE {above} END"

    def _products(self, matrix: Floats) -> list[list[str]]:
        """Return the terms of the products of the table's features, in whole units, and each column of a matrix."""
        outputs = []
        for column_of_matrix in matrix.T:
            weights = column_of_matrix.tolist()
            terms = [self._term(number, column, weights) for number, column in enumerate(self.student.table.columns)]
            constant = np.rint(self.student.table.constant * self.unit) * weights[-1]
            outputs.append([*(term for term in terms if term != "0"), self._double(constant)])
        return outputs

    def _term(self, number: int, column: Column, weights: Sequence[float]) -> str:
        own = weights[column.start : column.start + column.n_features]
        if not any(own):
            return "0"
        whole = float(np.rint(column.length * self.unit))
        if not column.is_number:
            leaves = [self._double(whole * weight) for weight in own]
            return self._choice(f"c{number}", [str(place) for place in range(1, len(leaves))], leaves)
        missing = self._double(whole * own[-1])
        if column.edges is not None:
            leaves = [self._double(value) for value in self._of_cells(column, own)]
            present = self._choice(f"p{number}", [self._double(edge) for edge in column.edges], leaves)
            return f"CASE WHEN p{number} IS NULL THEN {missing} ELSE {present} END"
        terms, start = [], 0
        for scale, knots in enumerate(column.knots):
            at = own[start : start + len(knots)]
            start += len(knots)
            if len(knots) == 1:
                share = np.rint(column.length / math.sqrt(len(column.knots)) * self.unit)
                terms.append(self._double(share * at[0]))
                continue
            leaves = [
                f"a{number}_{scale}*{self._factor(below)}+b{number}_{scale}*{self._factor(above)}"
                for below, above in pairwise(at)
            ]
            terms.append(self._choice(f"q{number}", [self._number(knot) for knot in knots[1:-1]], leaves))
        return f"CASE WHEN q{number} IS NULL THEN {missing} ELSE {_total(terms)} END"

    def _factor(self, value: float) -> str:
        text = self._number(value)
        return f"({text})" if text.startswith("-") else text

    def _of_cells(self, column: Column, weights: Sequence[float]) -> list[float]:
        """Return the product of each cell of a snapped number."""
        features = np.rint(features_of_numbers(column, np.asarray(column.values)) * self.unit)
        return np.asarray(features @ np.asarray(weights), dtype=float).tolist()

    @singledispatchmethod
    def _terms(self, layer: object, number: int, piece: Piece, coefficients: Floats) -> _Terms:
        """Add the steps of a piece of the features, and return the terms of each score, in whole units."""
        raise NotImplementedError(type(layer).__name__)

    @_terms.register
    def _(self, layer: Table, number: int, piece: Piece, coefficients: Floats) -> _Terms:  # noqa: ARG002
        return self._products(coefficients)

    @_terms.register
    def _(self, layer: Kernel, number: int, piece: Piece, coefficients: Floats) -> _Terms:
        return self._terms_of(self._kernel(number, layer), number, piece, coefficients)

    @_terms.register
    def _(self, layer: Directions, number: int, piece: Piece, coefficients: Floats) -> _Terms:
        if self.dialect is SQLITE:
            return self._terms_by_name(layer, number, piece, coefficients)
        terms = self._terms_of(self._directions(number, layer), number, piece, coefficients)
        if piece.constant:
            constants = np.rint(layer.constant * piece.factors[-1] * _FEATURE) * coefficients[-1]
            terms = [[*own, self._double(float(end))] for own, end in zip(terms, constants, strict=True)]
        return terms

    def _terms_of(self, own: _Vector, number: int, piece: Piece, coefficients: Floats) -> _Terms:
        """Add the steps of the products of a vector and each column of coefficients. Return the names of products."""
        width = len(own.numbers[0])
        factor = self._number(float(piece.factors[0]))
        feature = self.dialect.rounded(f"{own.expression} * {factor} * {self._number(_FEATURE)}")
        numbers = [*own.numbers, *coefficients[:width].T.tolist()]
        step = []
        for k in range(coefficients.shape[1]):
            total = self._reduced(own.name, numbers, "sum", f"{feature} * {{{len(own.numbers) + k}}}")
            step.append((f"v{number}_{k}", total))
        self.steps.append(step)
        return [[name] for name, _ in step]

    def _terms_by_name(self, layer: Directions, number: int, piece: Piece, coefficients: Floats) -> _Terms:
        """Add the steps of directions with a name for each, and return the terms of each score. For SQLite.

        SQLite has no arrays, and looks a matrix up in a table again for every row.
        """
        if not layer.base.is_additive:
            self._require_arrays()
        units = _units(layer.matrix)
        whole, offset = layer.matrix / units, layer.offset * _EXACT / units
        step = []
        for j, (terms, unit) in enumerate(zip(self._products(whole), (units / _EXACT).tolist(), strict=True)):
            total = _total([*terms, self._double(-float(offset[j]))])
            step.append((f"d{number}_{j}", f"{total} * {self._number(unit)}"))
        self.steps.append(step)
        names = [name for name, _ in step]
        factor, rounded = self._number(math.sqrt(1 - layer.constant**2)), self.dialect.rounded
        root, fine_units = _root_and_units(len(names))
        self.steps.append([(f"x{number}", self.dialect.extreme([f"abs({name})" for name in names], largest=True))])
        self.steps.append([(f"u{number}", self._scale(number, layer, root))])
        coarse = [(f"g{number}_{j}", rounded(f"{name} * u{number}")) for j, name in enumerate(names)]
        self.steps.append(coarse)
        products = []
        for j, name in enumerate(names):
            fine = rounded(f"({name} * u{number} - g{number}_{j}) * {self._number(fine_units)}")
            products.append((f"f{number}_{j}", f"g{number}_{j} * {fine}"))
        self.steps.append(products)
        squares = _total([f"{name}*{name}" for name, _ in coarse])
        mixed = f"{_total([name for name, _ in products])} * {self._number(2 / fine_units)}"
        self.steps.append([(f"e{number}", f"sqrt({squares} + {mixed}) / u{number}")])
        longest = self.dialect.extreme([f"e{number}", self._double(1e-12)], largest=True)
        self.steps.append([(f"l{number}", f"{factor} / {longest}")])
        own = self._number(float(piece.factors[0]))
        features = [rounded(f"{name} * l{number} * {own} * {self._number(_FEATURE)}") for name in names]
        self.steps.append([(f"v{number}_{j}", feature) for j, feature in enumerate(features)])
        last = np.rint(layer.constant * piece.factors[-1] * _FEATURE) * coefficients[-1]
        return [
            [*(f"v{number}_{j}*{self._factor(c)}" for j, c in enumerate(of_score[:-1]) if c), self._double(float(end))]
            for of_score, end in zip(coefficients.T.tolist(), last, strict=True)
        ]

    def _scale(self, number: int, layer: Directions, root: int) -> str:
        """Return the power of two by which the longest entry of a row gets `_BITS` less `root` bits."""
        longest = np.linalg.norm(layer.matrix, axis=0).max(initial=1.0) * 4.0
        powers = range(_LEAST_POWER, max(int(math.frexp(longest)[1]) + 2, 4))
        leaves = [self._double(2.0 ** (_BITS - root - power)) for power in powers]
        return self._choice(f"x{number}", [self._double(2.0**power) for power in powers[:-1]], leaves)

    def _side(self, rows: Sequence[Sequence[float]]) -> str:
        """Return the name of a new side table of the statement, one row of numbers for each place."""
        name = f"side{len(self.sides) + 1}"
        self.sides.append((name, rows))
        return name

    def _reduced(self, vector: str, numbers: Sequence[Sequence[float]], aggregate: str, expression: str) -> str:
        """Return the sum or another aggregate of an expression over the entries of a vector.

        In the expression ``{x}`` is the entry, and ``{0}``, ``{1}``, ... are the numbers at its place.
        """
        names = [f"n{k}" for k in range(len(numbers))]
        if self.dialect is DUCKDB:
            zipped = f"list_zip({', '.join([vector, *map(self._array, numbers)])})" if numbers else vector
            entry = "u[1]" if numbers else "u"
            own = expression.format(*(f"u[{k + 2}]" for k in range(len(numbers))), x=entry)
            return f"list_{aggregate}(list_transform({zipped}, lambda u: {own}))"
        own = expression.format(*names, x="x")
        arrays = ", ".join([vector, *map(self._array, numbers)])
        return f"(SELECT {aggregate}({own}) FROM unnest({arrays}) AS u({', '.join(['x', *names])}))"

    def _mapped(self, vector: str, numbers: Sequence[Sequence[float]], expression: str) -> str:
        """Return the vector of an expression over the entries of a vector, written as for `_reduced`."""
        if self.dialect is DUCKDB:
            return self._reduced(vector, numbers, "x", expression).removeprefix("list_x(").removesuffix(")")
        return self._reduced(vector, numbers, "x", expression).replace("(SELECT x(", "ARRAY(SELECT (", 1)

    def _array(self, numbers: Iterable[float]) -> str:
        """Return a list of doubles."""
        text = ", ".join(str(int(one)) if one.is_integer() and abs(one) < 2**53 else repr(one) for one in numbers)
        return f"CAST('[{text}]' AS DOUBLE[])" if self.dialect is DUCKDB else f"'{{{text}}}'::float8[]"

    def _multiplied(self, vector: tuple[str, str], matrix: Floats) -> str:
        """Return the vector of the products of a vector and each column of a matrix.

        `vector` has the places and the entries that differ from 0. Empty places mean all entries.
        """
        places, entries = vector
        columns = [[float(one) for one in column] for column in matrix.T.tolist()]
        if self.dialect is DUCKDB:
            side = self._side(columns)
            return f"list_transform((SELECT w FROM {side}), lambda w: list_dot_product(w, {entries}))"
        side = self._side(columns)
        given = f"unnest({places}, {entries}) AS e(p, x)" if places else f"unnest({entries}) WITH ORDINALITY AS e(x, p)"
        total = f"(SELECT sum(e.x * side.w[e.p]) FROM {given})"
        return f"ARRAY(SELECT {total} FROM {side} AS side ORDER BY side.j)"

    def _features(self) -> tuple[str, str]:
        """Add the steps with the table's features in whole units, and return the names of places and entries."""
        slots: list[tuple[str, str]] = []
        places: list[tuple[str, str]] = []
        dense: list[str] = ["0.0"] * self.student.table.n_features
        for number, column in enumerate(self.student.table.columns):
            whole = self._double(float(np.rint(column.length * self.unit)))
            if not column.is_number:
                slots.append((f"(c{number} + {column.start})", whole))
                for k in range(column.n_features):
                    dense[column.start + k] = f"CASE WHEN c{number} = {k} THEN {whole} ELSE 0.0 END"
                continue
            last = column.start + column.n_features - 1
            if column.edges is not None:
                msg = "snapped numbers have no directions"
                raise AssertionError(msg)
            slots.append((str(last), f"CASE WHEN q{number} IS NULL THEN {whole} ELSE {self._double(0.0)} END"))
            dense[last] = slots[-1][1]
            start = column.start
            for scale, knots in enumerate(column.knots):
                own, size = f"{number}_{scale}", len(knots)
                if size == 1:
                    share = self._double(float(np.rint(column.length / math.sqrt(len(column.knots)) * self.unit)))
                    dense[start] = f"CASE WHEN q{number} IS NULL THEN 0.0 ELSE {share} END"
                    slots.append((str(start), dense[start]))
                else:
                    lows = [str(start + k) for k in range(size - 1)]
                    low = self._choice(f"q{number}", [self._number(knot) for knot in knots[1:-1]], lows)
                    places.append((f"i{own}", f"CASE WHEN q{number} IS NULL THEN {start} ELSE {low} END"))
                    a, b = f"coalesce(a{own}, 0)", f"coalesce(b{own}, 0)"
                    slots += [(f"i{own}", a), (f"(i{own} + 1)", b)]
                    for k in range(start, start + size):
                        dense[k] = f"CASE WHEN i{own} = {k} THEN {a} WHEN i{own} = {k - 1} THEN {b} ELSE 0.0 END"
                start += size
        constant = self._double(float(np.rint(self.student.table.constant * self.unit)))
        slots.append((str(self.student.table.n_features - 1), constant))
        dense[-1] = constant
        self.steps.append(places or [("i0", "0")])
        if self.dialect is DUCKDB:
            self.steps.append([("y0", f"CAST([{', '.join(dense)}] AS DOUBLE[])")])
            return "", "y0"
        ones = ", ".join(f"{place} + 1" for place, _ in slots)
        listed = ", ".join(weight for _, weight in slots)
        self.steps.append([("y0", f"ARRAY[{ones}]::int[]"), ("y1", f"ARRAY[{listed}]::float8[]")])
        return "y0", "y1"

    def _directions(self, number: int, layer: Directions) -> _Vector:
        """Add the steps of directions, and return each feature of a row that was made equally long."""
        units = _units(layer.matrix)
        whole, offset = layer.matrix / units, (layer.offset * _EXACT / units).tolist()
        self.steps.append([(f"d{number}", self._multiplied(self._given(layer.base, number), whole))])
        numbers = [offset, (units / _EXACT).tolist()]
        vector = _Vector(f"d{number}", numbers, "(({x} - {0}) * {1})")
        self._length(number, vector, layer)
        return replace(vector, expression=f"{vector.expression} * l{number}")

    def _length(self, number: int, vector: _Vector, layer: Directions) -> None:
        """Add the steps that compute the factor of a row, as `dpensemble.moments.maps.directions` does."""
        factor, name, x = self._number(math.sqrt(1 - layer.constant**2)), vector.name, vector.expression
        if layer.is_exact:
            root, fine_units = _root_and_units(layer.matrix.shape[1])
            self.steps.append([(f"x{number}", self._reduced(name, vector.numbers, "max", f"abs({x})"))])
            self.steps.append([(f"u{number}", self._scale(number, layer, root))])
            coarse = self.dialect.rounded(f"{x} * u{number}")
            fine = self.dialect.rounded(f"({x} * u{number} - {coarse}) * {self._number(fine_units)}")
            squares = self._reduced(name, vector.numbers, "sum", f"{coarse} * {coarse}")
            mixed = self._reduced(name, vector.numbers, "sum", f"{coarse} * {fine}")
            self.steps.append(
                [(f"e{number}", f"sqrt({squares} + {mixed} * {self._number(2 / fine_units)}) / u{number}")]
            )
        else:
            self.steps.append([(f"e{number}", f"sqrt({self._reduced(name, vector.numbers, 'sum', f'{x} * {x}')})")])
        divided = f"{factor} / {self.dialect.extreme([f'e{number}', self._double(1e-12)], largest=True)}"
        self.steps.append([(f"l{number}", divided)])

    @singledispatchmethod
    def _given(self, layer: object, number: int) -> tuple[str, str]:
        """Add the steps of what directions are multiplied with, and return the names of places and entries."""
        raise NotImplementedError(type(layer).__name__)

    @_given.register
    def _(self, layer: Table, number: int) -> tuple[str, str]:  # noqa: ARG002
        return self._features()

    @_given.register
    def _(self, layer: Nearness, number: int) -> tuple[str, str]:
        return "", self._nearness(number, layer)

    def _require_arrays(self) -> None:
        """Raise in a database without arrays, for a student of landmarks."""
        if self.dialect is SQLITE:
            raise InvalidParameterError(
                "the student is curved (it reads distances to landmarks), which SQLite cannot compute in reasonable "
                "time: use --dialect duckdb, which also reads tables of SQLite, postgresql, or --format python.",
                parameter="dialect",
            )

    def _squares(self, number: int, numbers: Whitened, landmarks: Floats) -> tuple[str, list[list[float]], str]:
        """Add the steps of whitened numbers and their products with landmarks. Return what squared distances are of."""
        self._require_arrays()
        step = []
        for n, place in enumerate(numbers.places):
            low, high, mean = float(numbers.low[n]), float(numbers.high[n]), float(numbers.mean[n])
            median = self._double(min(max(float(numbers.median[n]), low), high))
            clipped = self._clipped(f"p{place}", low, high)
            step.append((f"h{number}_{n}", f"coalesce({clipped}, {median}) - {self._factor(mean)}"))
        self.steps.append(step)
        points = [
            (f"z{number}_{k}", _total([f"h{number}_{n}*{self._factor(w)}" for n, w in enumerate(column)]))
            for k, column in enumerate(np.asarray(numbers.matrix).T.tolist())
        ]
        self.steps.append(points)
        names = ", ".join(name for name, _ in points)
        listed = f"[{names}]" if self.dialect is DUCKDB else f"ARRAY[{names}]"
        own = _total([f"{name}*{name}" for name, _ in points])
        self.steps.append([(f"y{number + 2}", listed), (f"w{number}_0", own)])
        self.steps.append([(f"i{number}", self._multiplied(("", f"y{number + 2}"), landmarks.T))])
        lengths = (landmarks**2).sum(axis=1).tolist()
        apart = self.dialect.extreme([f"w{number}_0 + {{0}} - {{x}} * 2", self._double(0.0)], largest=True)
        return f"i{number}", [lengths], apart

    def _nearness(self, number: int, layer: Nearness) -> str:
        products, lengths, square = self._squares(number, layer.numbers, layer.landmarks)
        self.steps.append([(f"j{number}", self._reduced(products, lengths, "min", square))])
        near = self._exp(f"(j{number} - {square}) / {self._number(layer.scale)}", _LOWEST)
        self.steps.append([(f"o{number}", self._mapped(products, lengths, near))])
        self.steps.append([(f"b{number}", self._reduced(f"o{number}", [], "sum", "{x}"))])
        rounded = self.dialect.rounded(f"sqrt({{x}} / b{number}) * {self._number(_EXACT)}")
        self.steps.append([(f"n{number}", self._mapped(f"o{number}", [], rounded))])
        return f"n{number}"

    def _exp(self, argument: str, lowest: int) -> str:
        """Return exp of an argument that is raised to a least value first."""
        return f"exp({self.dialect.extreme([argument, self._double(-lowest)], largest=True)})"

    def _kernel(self, number: int, layer: Kernel) -> _Vector:
        """Add the steps of the kernel's directions, and return each feature of a row that was shortened."""
        products, lengths, square = self._squares(number, layer.numbers, layer.landmarks)
        near = self._exp(f"-sqrt({square}) / {self._number(layer.width)}", _LOWEST)
        self.steps.append([(f"o{number}", self._mapped(products, lengths, near))])
        self.steps.append([(f"d{number}", self._multiplied(("", f"o{number}"), layer.matrix))])
        vector = _Vector(f"d{number}", [layer.mean.tolist()], "({x} - {0})")
        squares = self._reduced(vector.name, vector.numbers, "sum", f"{vector.expression} * {vector.expression}")
        self.steps.append([(f"e{number}", f"sqrt({squares})")])
        self.steps.append([(f"l{number}", self.dialect.extreme([f"e{number}", self._double(1.0)], largest=True))])
        return replace(vector, expression=f"{vector.expression} / l{number}")

    def _chances(self) -> None:
        """Add the steps that turn scores into probabilities."""
        unit, rounded = self._double(_CHANCE), self.dialect.rounded
        n_scores = self.student.coefficients.shape[1]
        if n_scores == 1:
            limited = self._clipped("s0", -_LOWEST_OF_CHANCE, _LOWEST_OF_CHANCE)
            self.steps.append([("o0", limited)])
            self.steps.append([("c0", f"{rounded(f'1.0 / (1.0 + exp(-o0)) * {unit}')} / {unit}")])
            self.steps.append([("z0", "1.0 - c0"), ("z1", "c0")])
            return
        names = [f"s{k}" for k in range(n_scores)]
        self.steps.append([("j0", self.dialect.extreme(names, largest=True))])
        odds = [rounded(f"{self._exp(f'{name} - j0', _LOWEST_OF_CHANCE)} * {unit}") for name in names]
        self.steps.append([(f"o{k}", one) for k, one in enumerate(odds)])
        self.steps.append([("b0", _total([f"o{k}" for k in range(n_scores)]))])
        step = []
        for k in range(n_scores):
            chance = self.dialect.extreme([rounded(f"o{k} / b0 * {unit}"), self._double(1.0)], largest=True)
            step.append((f"z{k}", f"{chance} / {unit}"))
        self.steps.append(step)

    def _label(self) -> str:
        """Return the most probable class, the first of several."""
        *some, last = (self.dialect.literal(name) for name in self.student.classes)
        cases = []
        for k, name in enumerate(some):
            others = [f"z{k} >= z{other}" for other in range(k + 1, len(some) + 1)]
            others += [f"z{k} > z{other}" for other in range(k)]
            cases.append(f"WHEN {' AND '.join(others)} THEN {name}")
        return f"CASE {' '.join(cases)} ELSE {last} END"

    def _joined(self) -> str:
        """Return the steps as one statement. Each step carries the names that later steps need."""
        results = [f"k{n}" for n in range(len(self.keep))] + [f"z{k}" for k in range(len(self.student.classes))]
        guarantee, mark = " ".join(self.student.guarantee), release_text(self.student)
        results += [self._label(), self.dialect.literal(guarantee), self.dialect.literal(mark)]
        needed = set(_NAME.findall(" ".join(results)))
        prefix = "step"
        while self.table.strip('"').startswith(prefix):
            prefix += "_"
        texts = []
        for place in range(len(self.steps) - 1, -1, -1):
            defined = dict(self.steps[place])
            before = {name for step in self.steps[:place] for name, _ in step}
            carried = sorted(needed & before - set(defined))
            if len(carried) + len(defined) > self.dialect.most_columns:
                raise InvalidParameterError(
                    f"the student needs {len(carried) + len(defined):,} columns in a step, and {self.dialect.name} has "
                    f"at most {self.dialect.most_columns:,}: use --format python or --format onnx."
                )
            source = f"{self.table} AS t" if place == 0 else f"{prefix}{place}"
            columns = [*carried, *(f"{expression} AS {name}" for name, expression in defined.items())]
            texts.append(f"{prefix}{place + 1} AS (\nSELECT {_lines(columns)}\nFROM {source}{self.dialect.fence})")
            needed = set(carried).union(*map(_NAME.findall, defined.values())) & before
        last = [f"{value} AS {self.dialect.identifier(name)}" for value, name in zip(results, self.names, strict=True)]
        end = f"\nSELECT {_lines(last)}\nFROM {prefix}{len(self.steps)}{self.dialect.fence}\n"
        sides = [self._written_side(name, rows) for name, rows in self.sides]
        return "WITH " + ",\n".join([*sides, *reversed(texts)]) + end

    def _written_side(self, name: str, rows: Sequence[Sequence[float]]) -> str:
        """Return a side table: a list of lists, or arrays by number."""
        if self.dialect is DUCKDB:
            lists = ", ".join("[" + ", ".join(map(_written, row)) + "]" for row in rows)
            return f"{name} AS MATERIALIZED (SELECT CAST('[{lists}]' AS DOUBLE[][]) AS w)"
        values = ",\n  ".join(f"({j}, {self._array(row)})" for j, row in enumerate(rows))
        return f"{name}(j, w) AS MATERIALIZED (VALUES {values})"

    def _comments(self) -> str:
        """Return what a reader must know, as comments."""
        student = self.student
        lines = [f"A student of dpensemble in SQL for {self.dialect.name}: {student.title or 'no title'}."]
        lines += [student.mark] if student.mark else []
        lines += [*student.guarantee, self.dialect.note]
        lines.append(f"It reads the table {self.table}. Write CREATE TABLE scores AS before it to store the result.")
        lines.append(
            "Numbers are numbers, texts are texts (codes as in the file), truth values are the texts True and False, "
            "and dates are dates or texts such as 2025-12-31. Blanks are NULL or empty texts. Other entries in columns"
            " of dates, and in SQLite of numbers such as 1,5, count as blanks without an error."
        )
        lines += [f"{kind}: {', '.join(names)}." for kind, names in _kinds(student).items()]
        return "".join(f"-- {' '.join(_plain(line).split())}\n" for line in lines)


def _kinds(student: Description) -> dict[str, list[str]]:
    """Return the columns of the table by what they hold."""
    kinds: dict[str, dict[str, None]] = {}
    for column in student.table.columns:
        kind = "Numbers" if column.is_number else "Texts"
        kinds.setdefault("Dates" if column.part is not None else kind, {})[column.source] = None
    return {kind: list(names) for kind, names in kinds.items()}


def _plain(text: str) -> str:
    """Return a text without control characters, so that it stays in its comment."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _lines(columns: Iterable[str]) -> str:
    return ",\n  ".join(columns)


def _total(terms: Sequence[str], sign: str = " + ") -> str:
    """Return a sum in brackets, as a tree of small depth."""
    if not terms:
        return "0.0"
    if len(terms) == 1:
        return f"({terms[0]})"
    if len(terms) <= _FLAT:
        return f"({sign.join(terms)})"
    middle = len(terms) // 2
    return f"({_total(terms[:middle], sign)}{sign}{_total(terms[middle:], sign)})"


# Terms of a sum without inner brackets.
_FLAT = 16


def _root_and_units(n_directions: int) -> tuple[int, float]:
    """Return bits of the root of the number of directions, and the fine units in a coarse one."""
    root = ((n_directions - 1).bit_length() + 1) // 2
    return root, 2.0 ** (_BITS + 1 - root)


def _units(matrix: Floats) -> Floats:
    """Return a power of two for each column, in units of which its entries are whole numbers, or 1."""
    _, exponents = np.frexp(np.linalg.norm(matrix, axis=0))
    units = np.ldexp(1.0, exponents - _BITS)
    whole = (np.rint(matrix / units) * units == matrix).all(axis=0)
    return np.asarray(np.where(whole, units, 1.0))


def _written(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
