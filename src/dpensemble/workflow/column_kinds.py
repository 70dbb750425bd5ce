"""Columns of the private and test tables, converted as the public table or a declaration defines them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from dpensemble._untrusted import JSON, LARGEST_JSON, UnfitJSONError, file_bytes, parse_json
from dpensemble.datasets.tables import kinds_by, require_complete, take_kinds
from dpensemble.errors import DataError, FileError, InvalidParameterError
from dpensemble.moments.grid import declared_grid, with_texts
from dpensemble.workflow.class_labels import alike_labels, as_labels, refuse_unlike
from dpensemble.workflow.table_files import ReadOptions

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
        return alike_labels(column, self.classes) if self.options.keep_bad else as_labels(column, self.classes)

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
        refuse_unlike(labels, self.classes)
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
