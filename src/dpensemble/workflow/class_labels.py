"""Labels in the form of the declared classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dpensemble.datasets.columns import as_text, numbers_of
from dpensemble.errors import DataError, InvalidParameterError

_TRUTH = {"false": 0.0, "true": 1.0}


def declared_labels(classes: Sequence[Any] | None) -> list[Any]:
    """Return the declared labels, as numbers if all of them are numbers. Private labels play no part."""
    if classes is None:
        raise InvalidParameterError(
            "classes is missing: the possible labels must be declared as public knowledge, for example "
            '--classes "no,yes", because reading them from the private labels would leak information.'
        )
    if isinstance(classes, str):
        raise InvalidParameterError(
            f'classes={classes!r} must be a list of labels, for example ["no", "yes"].', parameter="classes"
        )
    names = [str(label).strip() for label in classes]
    joined = ",".join(map(str, classes))
    if "" in names:
        raise InvalidParameterError(f"classes={joined!r} names an empty label: remove a comma.")
    if len({name.casefold() for name in names}) < len(names):
        raise InvalidParameterError(
            f"classes={joined!r} names a label twice, or two that differ only in capitals: name each once."
        )
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return list(names)
    return [int(number) if number.is_integer() else number for number in numbers]


def as_labels(column: pd.Series, classes: list[Any]) -> pd.Series:
    """Return labels in the form of the classes, or NaN. Truth values are read in any capitals, or as 0 and 1."""
    names = {str(name).casefold(): name for name in classes}
    if isinstance(classes[0], str):
        text = as_text(column)
        if set(names) != {"false", "true"}:
            return text
        return text.map(lambda entry: names.get(str(entry).strip().casefold(), entry), na_action="ignore")
    if set(classes) == {0, 1}:
        truth = column.map(lambda entry: _TRUTH.get(str(entry).strip().casefold(), entry), na_action="ignore")
        return _as_numbers(truth)
    return _as_numbers(column)


def _as_numbers(column: pd.Series) -> pd.Series:
    return pd.Series(numbers_of(column.to_frame())[0][:, 0], index=column.index, name=column.name)


def alike_labels(column: pd.Series, classes: list[Any]) -> pd.Series:
    """Return labels as `as_labels` does. A text that differs from a class only in capitals or spaces is that class."""
    labels = as_labels(column, classes)
    if not isinstance(classes[0], str):
        return labels
    names = {name.strip().casefold(): name for name in classes}
    return labels.map(lambda entry: names.get(str(entry).strip().casefold(), entry), na_action="ignore")


def refuse_unlike(labels: pd.Series, classes: list[Any]) -> None:
    """Raise for labels that differ from a class only in capitals or spaces. Other undeclared labels raise later."""
    names = {str(name).strip().casefold() for name in classes}
    odd = ~labels.isin(classes).to_numpy()
    unlike = odd & labels.map(lambda entry: str(entry).strip().casefold() in names).to_numpy(dtype=bool)
    if unlike.any():
        raise DataError(
            f"the private table's target has labels that differ from classes={classes!r} only in capitals or spaces "
            f"(the first in row {int(unlike.argmax()):,}, counting from 0): write them alike."
        )
