"""Labels in the form of the declared classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from dpensemble._class_names import Label, bare, folded
from dpensemble.datasets.columns import as_text, numbers_of
from dpensemble.errors import DataError

_TRUTH = {"false": 0.0, "true": 1.0}
_DIGITS = {"0": "false", "1": "true"}


def as_labels(column: pd.Series, classes: Sequence[Label]) -> pd.Series:
    """Return labels in the form of the classes, or NaN. Each label is read separately.

    A text in quotation marks or brackets is the class in them. Truth values are read in any capitals, or as 0 and 1.
    """
    if isinstance(classes[0], str):
        return _each(as_text(column), _names_in_marks(list(map(str, classes))))
    if set(classes) == {0, 1}:
        truth = column.map(lambda entry: _TRUTH.get(bare(str(entry)).casefold(), entry), na_action="ignore")
        return _as_numbers(truth)
    return _as_numbers(column)


def _names_in_marks(classes: Sequence[str]) -> Callable[[str], str]:
    names = {name: name for name in classes}
    truth = {name.casefold(): name for name in classes}
    if set(truth) != {"false", "true"}:
        return lambda entry: names.get(entry) or names.get(bare(entry), entry)
    truth |= {digit: truth[word] for digit, word in _DIGITS.items()}
    return lambda entry: truth.get(bare(entry).casefold(), entry)


def _each(texts: pd.Series, read: Callable[[str], str]) -> pd.Series:
    """Return what `read` makes of each text. Equal texts are read once."""
    known: dict[str, str] = {}

    def known_or_read(entry: object) -> str:
        text = str(entry)
        if text not in known:
            known[text] = read(text)
        return known[text]

    return texts.map(known_or_read, na_action="ignore")


def _as_numbers(column: pd.Series) -> pd.Series:
    if column.dtype.kind == "O":
        column = column.map(lambda entry: bare(entry) if isinstance(entry, str) else entry, na_action="ignore")
    return pd.Series(numbers_of(column.to_frame())[0][:, 0], index=column.index, name=column.name)


def alike_labels(column: pd.Series, classes: Sequence[Label]) -> pd.Series:
    """Return labels as `as_labels` does. A text that is `folded` to the same as a class is that class."""
    labels = as_labels(column, classes)
    if not isinstance(classes[0], str):
        return labels
    names = {folded(str(name)): str(name) for name in classes}
    return _each(labels, lambda entry: names.get(folded(entry)) or names.get(folded(bare(entry)), entry))


def refuse_unlike(labels: pd.Series, classes: Sequence[Label]) -> None:
    """Raise for labels that differ from a class only in capitals or spaces. Other undeclared labels raise later."""
    names = {folded(str(name)) for name in classes}
    odd = ~labels.isin(classes).to_numpy()
    unlike = odd & labels.map(lambda entry: folded(str(entry)) in names).to_numpy(dtype=bool)
    if unlike.any():
        raise DataError(
            f"the private table's target has labels that differ from classes={list(classes)!r} only in capitals or "
            f"spaces (the first in row {int(unlike.argmax()):,}, counting from 0): write them alike."
        )
