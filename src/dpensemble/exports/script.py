"""A student as one Python file that needs no package."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy as np

from dpensemble.exports.description import (
    Column,
    Description,
    Kernel,
    Piece,
    Table,
    Whitened,
    number_of_text,
    places_of_texts,
    release_text,
)

_PLACE = 'json.loads("STUDENT")'


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
    return "".join(f"# {line}\n" for line in lines) + filled


def _facts(student: Description) -> dict[str, Any]:
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


def _column(column: Column) -> dict[str, Any]:
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


def _piece(piece: Piece) -> dict[str, Any]:
    layer, width = piece.layer, len(piece.factors)
    own: dict[str, Any] = {"width": width, "factors": piece.factors.tolist(), "landmarks": None}
    if isinstance(layer, Table):
        return own | {"kind": "table"}
    if isinstance(layer, Kernel):
        about = {"kind": "kernel", "width_of_kernel": layer.width, "mean": layer.mean.tolist()}
        return own | about | _landmarks(layer.numbers, layer.landmarks) | {"matrix": layer.matrix.T.tolist()}
    own |= {
        "kind": "directions",
        "is_exact": layer.is_exact,
        "matrix": layer.matrix.T.tolist(),
        "offset": layer.offset.tolist(),
        "constant": layer.constant,
        "has_constant": piece.constant,
    }
    if not isinstance(layer.base, Table):
        own |= _landmarks(layer.base.numbers, layer.base.landmarks) | {"scale": layer.base.scale}
    return own


def _landmarks(numbers: Whitened, landmarks: Any) -> dict[str, Any]:
    ranges = (numbers.low, numbers.high, numbers.median, numbers.mean)
    return {
        "numbers": [list(numbers.places), *(np.asarray(one).tolist() for one in ranges)],
        "whitening": np.asarray(numbers.matrix).T.tolist(),
        "landmarks": np.asarray(landmarks).tolist(),
    }
