"""Columns, labels and groups of the private and test tables, as the public table or a declaration defines them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpensemble._class_names import Label, bare, folded
from dpensemble._entries import Integers
from dpensemble._untrusted import JSON, LARGEST_JSON, UnfitJSONError, file_bytes, parse_json
from dpensemble.datasets.columns import as_text, numbers_of
from dpensemble.datasets.tables import kinds_by, require_complete, take_kinds
from dpensemble.errors import DataError, FileError, InvalidParameterError
from dpensemble.moments.maps.grid import declared_grid, with_texts
from dpensemble.quality.release import OTHER_GROUP
from dpensemble.workflow.table_files import ReadOptions

_TRUTH = {"false": 0.0, "true": 1.0}
_DIGITS = {"0": "false", "1": "true"}


def _as_labels(column: pd.Series, classes: Sequence[Label]) -> pd.Series:
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
    """Return labels as `_as_labels` does. A text that is `folded` to the same as a class is that class."""
    labels = _as_labels(column, classes)
    if not isinstance(classes[0], str):
        return labels
    names = {folded(str(name)): str(name) for name in classes}
    return _each(labels, lambda entry: names.get(folded(entry)) or names.get(folded(bare(entry)), entry))


def _refuse_unlike(labels: pd.Series, classes: Sequence[Label]) -> None:
    """Raise for labels that differ from a class only in capitals or spaces. Other undeclared labels raise later."""
    names = {folded(str(name)) for name in classes}
    odd = ~labels.isin(classes).to_numpy()
    unlike = odd & labels.map(lambda entry: folded(str(entry)) in names).to_numpy(dtype=bool)
    if unlike.any():
        raise DataError(
            f"the private table's target has labels that differ from classes={list(classes)!r} only in capitals or "
            f"spaces (the first in row {int(unlike.argmax()):,}, counting from 0): write them alike."
        )


_FORM = 'an object such as {"age": [17, 90], "sex": ["f", "m"]}'


@dataclass(frozen=True, eq=False)
class ColumnKinds:
    """Public features, declared columns if there are any, classes, and what the method can read."""

    public: pd.DataFrame
    declared: dict[str, Any] | None
    classes: list[Any]
    options: ReadOptions

    def without_rows(self) -> ColumnKinds:
        """Return the same kinds without public rows and workers, which conversions of other tables do not need."""
        return replace(self, public=self.public.iloc[:0], options=replace(self.options, workers=None))

    def features(self, name: str, table: pd.DataFrame, *, keep_bad: bool = False) -> pd.DataFrame:
        """Return the table called `name` with the public or declared columns and kinds."""
        if self.declared is None:
            return take_kinds(name, table, self.public, keep_bad=keep_bad)
        with kinds_by("--declared-columns"):
            return take_kinds(name, with_texts(table, self.public), self.public, keep_bad=keep_bad)

    def private_features(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return private rows with the public columns and kinds."""
        return self.features("private", table, keep_bad=self.options.keep_bad)

    def private_labels(self, column: pd.Series) -> pd.Series:
        """Return private labels in the form of the classes, without any check."""
        return alike_labels(column, self.classes) if self.options.keep_bad else _as_labels(column, self.classes)

    def checked_labels(self, features: pd.DataFrame, target: pd.Series, units: pd.Series | None) -> pd.Series:
        """Return the labels of private records, or raise if one of the records is incomplete."""
        if self.options.keep_bad:
            require_two(features)
            return self.private_labels(target)
        require_complete("the private table", features, blanks=self.options.blanks, private=True)
        for name, column in (("target", target), ("unit", units)):
            if column is not None and column.isna().any():
                raise DataError(
                    f"the private table has rows without a {name} in column {column.name!r} (the first in row "
                    f"{int(column.isna().to_numpy().argmax()):,}, counting from 0), where the column is blank or "
                    f"written as NA, None or the like: fill in what is missing, or {LEAVE_OUT[name]}."
                )
        require_two(features)
        labels = self.private_labels(target)
        if labels.isna().any():
            raise DataError(
                f"the private table's target has labels that are not numbers, but all of classes={self.classes!r} are "
                f"(the first in row {int(labels.isna().to_numpy().argmax()):,}, counting from 0): declare every "
                f"possible label as it is written, or {LEAVE_OUT['target']}."
            )
        _refuse_unlike(labels, self.classes)
        return labels


#: What may be done with records without a target or a unit. To drop rows would change how many records there are.
LEAVE_OUT = {
    "target": "let such records add nothing (--on-bad-record zero)",
    "unit": "leave such records out (--on-bad-record zero)",
}


def require_two(rows: Sequence[Any] | pd.DataFrame) -> None:
    """Raise if a private table has only one row."""
    if len(rows) < 2:
        raise DataError("the private table has only one row, and private learning requires more: give more rows.")


def declared_features(
    columns: Path, public: Path | None, others: set[str | None], drop: Sequence[str]
) -> dict[str, Any]:
    """Return the declared columns without dropped ones. `others` are the columns that are not features."""
    if public is not None:
        raise InvalidParameterError(
            f"declared_columns={str(columns)!r} are only for runs without public rows, but public={str(public)!r} has "
            "some: give one of them.",
            parameter="declared_columns",
        )
    declared = {name: one for name, one in _read_columns(columns).items() if name not in drop}
    both = [name for name in declared if name in others]
    if both or not declared:
        what = f"{both[0]!r}, which is not a feature" if both else "no feature"
        raise InvalidParameterError(
            f"declared_columns={str(columns)!r} declares {what}: declare features.", parameter="declared_columns"
        )
    return declared


def _read_columns(path: Path) -> dict[str, JSON]:
    """Return the declaration of each column in a JSON file: two numbers are a range, and texts are categories."""
    try:
        columns = parse_json(file_bytes(path, links=True, largest=LARGEST_JSON), special_numbers=True, pairs=_each_once)
    except InvalidParameterError:
        raise
    except OSError as error:
        raise FileError(
            f"declared_columns={str(path)!r} cannot be read ({error.strerror or error}): give a JSON file."
        ) from None
    except UnfitJSONError as error:
        raise FileError(
            f"declared_columns={str(path)!r} is not JSON that can be used ({error}): write {_FORM}."
        ) from None
    if not isinstance(columns, dict):
        raise InvalidParameterError(
            f"declared_columns={str(path)!r} declares nothing: write {_FORM}.", parameter="declared_columns"
        )
    declared_grid(columns)
    return columns


def _each_once(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    names = [name for name, _ in pairs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvalidParameterError(
            f"declared_columns names {twice[0]!r} twice: name each once.", parameter="declared_columns"
        )
    return dict(pairs)


_MOST_GROUPS = 20


def parse_groups(text: str | None) -> dict[str, tuple[str, ...] | None]:
    """Return the values of each group column, None to take those of the public rows.

    Examples
    --------
    >>> parse_groups("sex=f|m, ward")
    {'sex': ('f', 'm'), 'ward': None}
    """
    groups: dict[str, tuple[str, ...] | None] = {}
    for part in [] if text is None else text.split(","):
        column, equals, values = (one.strip() for one in part.partition("="))
        if not column or column in groups or (equals and not values):
            raise InvalidParameterError(
                f"groups={text!r} is not a list of columns: write each once, such as sex=f|m,ward.", parameter="groups"
            )
        groups[column] = tuple(one.strip() for one in values.split("|")) if equals else None
    return groups


def declared_groups(
    groups: Mapping[str, Sequence[str] | None], public: pd.DataFrame | None
) -> dict[str, tuple[str, ...]]:
    """Return the values of each group column, those of the public rows where none are declared. Checks all of them."""
    declared = {}
    for column, values in groups.items():
        if values is None and (public is None or column not in public):
            raise InvalidParameterError(
                f"groups={column!r} is not a column of the public table: declare its values, such as {column}=a|b.",
                parameter="groups",
            )
        if values is None and public is not None:
            values = sorted(set(as_text(public[column]).dropna()))  # noqa: PLW2901
        names = tuple(str(value) for value in values or ())
        if not 1 <= len(names) <= _MOST_GROUPS or len({_plain(name) for name in names}) < len(names):
            raise InvalidParameterError(
                f"groups={column!r} must have 1 to {_MOST_GROUPS} different values, and has {len(names):,}: declare "
                f"some of them, such as {column}=a|b.",
                parameter="groups",
            )
        if OTHER_GROUP in names:
            raise InvalidParameterError(
                f"groups={column!r} declares the value {OTHER_GROUP!r}, the group of all other values: leave it out.",
                parameter="groups",
            )
        declared[column] = names
    return declared


def group_places(entries: pd.Series, values: Sequence[str]) -> Integers:
    """Return the place of each record's group, the last one for all other values. Each record is read separately."""
    place_of = {_plain(value): place for place, value in enumerate(values)}
    texts = as_text(entries)
    return np.array(
        [len(values) if pd.isna(text) else place_of.get(_plain(str(text)), len(values)) for text in texts],
        dtype=np.int64,
    )


def _plain(text: str) -> str:
    """Return a text without spaces around it, and a number in one form: 5.0 as 5."""
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return f"{number:.12g}" if math.isfinite(number) else text
