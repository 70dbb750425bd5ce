"""Explanations of the rows of a file, beside their labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from dpensemble.engine.classifier import explained, require_explainable
from dpensemble.errors import DataError
from dpensemble.moments.explanation import Explanation

# Rows whose explanations are in memory together.
_ROWS_AT_ONCE = 1000
#: Columns of a table of explanations, before a column for each contribution.
CLASS, LOGIT, BASE, CONTRIBUTION = "explained class", "logit", "base", "contribution of {}"


class RowExplanations:
    """Explanations of rows that come in chunks, as columns of a table, as values of JSON, and as a picture of one row.

    Parameters
    ----------
    student : Pipeline
        The student.
    columns : bool
        Whether `of` returns the explanations as a table.
    values : bool
        Whether to keep the explanation of every row in `values`, ready for JSON.
    row : int, optional
        Number of the row, from 0, whose waterfall goes into `picture`.

    Raises
    ------
    InvalidParameterError
        If the student cannot be explained.
    """

    def __init__(self, student: object, *, columns: bool, values: bool, row: int | None = None) -> None:
        require_explainable(student)
        self._student, self._columns, self._keeps, self._row = student, columns, values, row
        self.values: list[dict[str, object]] = []
        #: Names of the columns of the last table.
        self.columns: list[str] = []
        self.picture: str | None = None

    def of(self, features: pd.DataFrame, first: int) -> pd.DataFrame | None:
        """Explain rows, of which the first has the number `first`."""
        if not (self._columns or self._keeps):
            if self._row is not None and first <= self._row < first + len(features):
                self._draw(features.iloc[[self._row - first]])
            return None
        tables = []
        for start in range(0, len(features), _ROWS_AT_ONCE):
            part = features.iloc[start : start + _ROWS_AT_ONCE]
            at = None if self._row is None else self._row - first - start
            explanation = explained(self._student, part, bands=self._keeps)
            if self._columns:
                tables.append(_table(explanation, part.index))
            if self._keeps:
                self.values += [explanation.of_row(row) for row in range(len(part))]
            if at is not None and 0 <= at < len(part):
                self._draw(part.iloc[[at]])
        if not tables:
            return None
        table = pd.concat(tables)
        self.columns = list(table.columns)
        return table

    def _draw(self, row: pd.DataFrame) -> None:
        self.picture = explained(self._student, row, bands=True).waterfall()

    def drawn(self) -> str:
        """Return the picture of the row, or raise if there was no such row."""
        if self.picture is None:
            raise DataError(f"explain_row={self._row} is not a row of the table: give the number of a row, from 0.")
        return self.picture


def _table(found: Explanation, index: pd.Index) -> pd.DataFrame:
    """Return the explanation of each row's predicted class (of two classes: of the second) as columns."""
    outputs = np.array(list(_outputs(found)), dtype=np.int64)
    rows = np.arange(len(outputs))
    columns: dict[str, object] = {
        CLASS: [found.classes[output] for output in outputs],
        LOGIT: found.logits[rows, outputs],
        BASE: found.base[outputs],
    }
    of_class = found.contributions[rows, :, outputs]
    columns |= {CONTRIBUTION.format(name): of_class[:, place] for place, name in enumerate(found.columns)}
    return pd.DataFrame(columns, index=index)


def _outputs(found: Explanation) -> Iterator[int]:
    return (found.output_of(row) for row in range(len(found.contributions)))
