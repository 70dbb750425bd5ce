"""How the tables of one run are converted for its method. The rules come from public rows and are published."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from dpensemble._arrays import Rows
from dpensemble.datasets import TableEncoder, TablePreparation
from dpensemble.datasets.columns import number_columns
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.rows.bad_records import readable_array, readable_rows, zeroes_bad
from dpensemble.rows.source import RowSource, converted
from dpensemble.student.published import marked, release_mark, with_names

_MOST_COLUMNS_NAMED = 200


class Reader:
    """The conversion of every table for a method, and for the student in the saved pipeline.

    It learns only from the rows of `public`. Without rows, `public` only defines the kinds of declared columns.
    """

    def __init__(self, public: pd.DataFrame, model: Any, *, fill: bool) -> None:
        tabular, takes_nan = model.takes_tables, get_tags(model).input_tags.allow_nan
        if fill and tabular and takes_nan:
            raise InvalidParameterError(
                f"{model.name} accepts blanks, which is better than filling them in: leave out --fill.",
                parameter="fill",
            )
        how = None if not fill else "nan" if takes_nan else "median"
        self._public, self._tabular, self._takes_nan = public, tabular, takes_nan
        self._keep_bad = zeroes_bad(model)
        self._preparation = TablePreparation(how).fit(public) if len(public) else None
        self._encoder = None if tabular else TableEncoder(how).fit(public)
        self.blanks = {"median": "filled in from public rows", "nan": "filled in from public rows, NaN in numbers"}.get(
            how or "", "taken as they are" if tabular and takes_nan else "refused"
        )

    def transform(self, table: pd.DataFrame) -> Any:
        """Return rows in the form that the method takes."""
        if self._encoder is not None:
            return self._encoder.transform(table)
        # Most tables have no dates and need no copy.
        if self._preparation is None or self._preparation.changes_nothing:
            return table
        return self._preparation.transform(table)

    def private(self, table: pd.DataFrame) -> Any:
        """Return private rows for the method. For a method that takes arrays, a bad row becomes a row of NaN."""
        if self._encoder is None or self._preparation is None:
            return self.transform(table)
        if not self._keep_bad:
            return self._encoder.transform(table)
        table, readable = readable_rows(table)
        prepared = self._preparation.transform(table)
        rows = np.array(self._encoder.encoder_.transform(prepared), dtype=np.float64)
        if not self._encoder.takes_blanks:
            readable &= ~prepared.isna().to_numpy().any(axis=1)
        rows[~readable] = np.nan
        return rows

    def held_back(self, table: pd.DataFrame) -> tuple[Any, NDArray[np.bool_]]:
        """Return private rows for the student, and which of them are readable. The other rows become zeros."""
        if not self._keep_bad:
            rows = self.transform(table)
            if self._encoder is not None and np.isinf(rows).any():
                raise DataError("a number is too large to be standardised: correct it, or leave the column out.")
            return rows, np.ones(len(table), dtype=bool)
        if self._encoder is None:
            table, readable = readable_rows(table, nan=self._takes_nan)
            return self.transform(table), readable
        rows = self.private(table)
        readable = readable_array(rows, nan=self._encoder.fill == "nan")
        if self._encoder.fill == "nan":
            readable &= ~np.isnan(rows).all(axis=1)
        return np.where(readable[:, None], rows, 0.0), readable

    def of(self, source: RowSource) -> RowSource:
        """Return private records whose rows are converted for the method where they are read."""
        reader = copy.copy(self)
        # Workers need no public rows.
        reader._public = self._public.iloc[:0]
        return converted(source, reader._with_labels)

    def _with_labels(self, table: pd.DataFrame, labels: Rows) -> tuple[Rows, Rows]:
        return self.private(table), labels

    def encoded(self, table: pd.DataFrame | None) -> Any:
        """Return rows as numbers, even if the method reads tables."""
        return self._plain_encoder.transform(table)

    @cached_property
    def _plain_encoder(self) -> TableEncoder:
        if self._encoder is not None and self._encoder.fill != "nan":
            return self._encoder
        return TableEncoder("median").fit(self._public)

    def before(self, student: Any) -> Pipeline:
        """Return a student that takes tables as they are read from files."""
        if self._encoder is not None:
            pipeline = Pipeline([("encoder", self._encoder), ("student", student)])
        elif self._preparation is None or self._preparation.changes_nothing:
            return student
        else:
            pipeline = Pipeline([("table", self._preparation), *student.steps])
        mark = release_mark(student)
        return with_names(pipeline) if mark is None else marked(with_names(pipeline), for_release=mark)

    def kinds(self, public: pd.DataFrame) -> str:
        """Describe how each column of the public rows was read. If there are many columns, describe the first ones."""
        if self._preparation is None:
            words = dict(zip(public.columns, np.where(number_columns(public), "number", "declared"), strict=True))
        else:
            words = self._preparation.words()
        shown = list(public.columns)[:_MOST_COLUMNS_NAMED]
        categories = {name: f"{public[name].nunique():,} categories" for name in shown if words[name] == "category"}
        parts = [f"{name} ({categories.get(name, words[name])})" for name in shown]
        rest = number_columns(public)[len(shown) :]
        if len(rest):
            parts.append(f"and {len(rest):,} more ({rest.sum():,} numbers, {(~rest).sum():,} texts)")
        return ", ".join(parts)
