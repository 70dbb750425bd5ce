"""A student as one Python file that needs no package."""

from __future__ import annotations

import json
from functools import singledispatch
from importlib import resources

import numpy as np

from dpensemble._entries import Floats
from dpensemble.exports.description import (
    Column,
    Description,
    Directions,
    Kernel,
    Nearness,
    Piece,
    Table,
    Whitened,
    number_of_text,
    places_of_texts,
    release_text,
)

_JSON = dict[str, object]
_PLACE = 'json.loads("{}")'


def as_script(student: Description) -> str:
    """Return a Python file with a function `classify` for one row, which also classifies CSV files.

    Parameters
    ----------
    student : Description
        What the student computes.
    """
    code = resources.files("dpensemble.exports").joinpath("_scorer.py").read_text(encoding="utf-8")
    described = json.dumps(_facts(student), ensure_ascii=True, separators=(",", ":"))
    # The text of a JSON text is a literal of Python, too.
    filled = code.replace(_PLACE, f"json.loads({json.dumps(described, ensure_ascii=True)})")
    head = [f"A student of dpensemble: {student.title or 'no title'}.", student.mark, *student.guarantee]
    lines = [" ".join("".join(c if c.isprintable() else " " for c in line).split()) for line in head if line]
    # Stated first, because Python would take the words "coding: x" in the next two lines for the file's encoding.
    return "# -*- coding: utf-8 -*-\n" + "".join(f"# {line}\n" for line in lines) + filled


def _facts(student: Description) -> _JSON:
    coefficients = np.rint(student.coefficients * 2.0**16).astype(np.int64)
    return {
        "classes": list(student.classes),
        "guarantee": " ".join(student.guarantee),
        "mark": release_text(student),
        "columns": [_column(column) for column in student.table.columns],
        "constant": student.table.constant,
        "n_features": student.table.n_features,
        "pieces": [_piece(piece) for piece in student.pieces],
        "coefficients": coefficients.T.tolist(),
    }


def _column(column: Column) -> _JSON:
    codes, other, missing = places_of_texts(column)
    numbers = [number for number in map(number_of_text, column.blanks) if np.isfinite(number)]
    return {
        "source": column.source,
        "is_number": column.is_number,
        "part": column.part,
        "blanks": numbers if column.is_number else list(column.blanks),
        "fill": column.fill,
        "edges": None if column.edges is None else column.edges.tolist(),
        "values": None if column.values is None else column.values.tolist(),
        "knots": [knots.tolist() for knots in column.knots],
        "start": column.start,
        "length": column.length,
        "codes": codes,
        "other": other,
        "missing": missing,
    }


def _piece(piece: Piece) -> _JSON:
    own: _JSON = {"width": len(piece.factors), "factors": piece.factors.tolist(), "landmarks": None}
    return own | {"has_constant": piece.constant} | _layer(piece.layer)


@singledispatch
def _layer(layer: object) -> _JSON:
    """Return what a kind of layer computes."""
    raise NotImplementedError(type(layer).__name__)


@_layer.register
def _(layer: Table) -> _JSON:  # noqa: ARG001
    return {"kind": "table"}


@_layer.register
def _(layer: Nearness) -> _JSON:
    return _landmarks(layer.numbers, layer.landmarks) | {"scale": layer.scale}


@_layer.register
def _(layer: Kernel) -> _JSON:
    own: _JSON = {"kind": "kernel", "width_of_kernel": layer.width, "mean": layer.mean.tolist()}
    return own | _landmarks(layer.numbers, layer.landmarks) | {"matrix": layer.matrix.T.tolist()}


@_layer.register
def _(layer: Directions) -> _JSON:
    return _layer(layer.base) | {
        "kind": "directions",
        "is_exact": layer.is_exact,
        "matrix": layer.matrix.T.tolist(),
        "offset": layer.offset.tolist(),
        "constant": layer.constant,
    }


def _landmarks(numbers: Whitened, landmarks: Floats) -> _JSON:
    ranges = (numbers.low, numbers.high, numbers.median, numbers.mean)
    return {
        "numbers": [list(numbers.places), *(np.asarray(one).tolist() for one in ranges)],
        "whitening": np.asarray(numbers.matrix).T.tolist(),
        "landmarks": landmarks.tolist(),
    }
