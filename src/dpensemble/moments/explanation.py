"""Why a published model predicts what it predicts for a row: what each column adds to the logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._arrays import Floats
from dpensemble._checks import integer_between
from dpensemble.errors import InvalidParameterError
from dpensemble.report.waterfall import Step, waterfall

#: Standard deviations to either side that a band covers: 95 % of a normal law.
BAND = 1.96


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation:
    """What each column adds to the logits of rows, relative to the public mean.

    ``base + contributions.sum(axis=1)`` equals ``logits``, up to rounding of doubles. With two classes there is one
    output, the logit of the second class (the logarithm of its odds). With more classes there is an output for each
    class: its logit less the mean logit of all classes.

    A contribution shows what the model uses. It does not show what causes what. Nothing here reads private rows: the
    model, the mean and the bands follow from public rows and released sums, so an explanation of a row of your own
    costs no privacy. The explanation quotes that row.

    Attributes
    ----------
    columns : list of str
        Names of the columns, in the order of the rows.
    classes : list
        The class of each output.
    base : ndarray of shape (n_outputs,)
        Logits of the reference.
    contributions : ndarray of shape (n_rows, n_columns, n_outputs)
        What each column adds, in logits.
    deviations : ndarray of shape (n_rows, n_columns, n_outputs) or None
        Standard deviations of the contributions by the known noise. None if they were not asked for, or if the model
        does not hold them.
    values : DataFrame of shape (n_rows, n_columns)
        The entries of the rows.
    predicted : ndarray of shape (n_rows,)
        Predicted class of each row.
    attribution : str
        How contributions are made: ``"exact"``, ``"exact sum, scaled by the length of the row"`` or ``"approximate
        attribution, exact sum"``.
    reference : str
        What contributions are relative to.
    """

    columns: list[str]
    classes: list[Any]
    base: Floats
    contributions: Floats
    deviations: Floats | None
    values: pd.DataFrame
    predicted: NDArray[Any]
    attribution: str
    reference: str

    @property
    def logits(self) -> Floats:
        """Logits of rows, shape (n_rows, n_outputs)."""
        logits: Floats = self.base + self.contributions.sum(axis=1)
        return logits

    def output_of(self, row: int, label: Any = None) -> int:
        """Return the place of the output that explains a row: that of a class, or of the predicted class.

        With two classes it is always the only output.
        """
        if label is not None and label not in self.classes:
            raise InvalidParameterError(
                f"label={label!r} has no logit of its own; use one of {self.classes}.", parameter="label"
            )
        if len(self.classes) == 1:
            return 0
        return self.classes.index(self.predicted[row] if label is None else label)

    def of_row(self, row: int, label: Any = None) -> dict[str, Any]:
        """Return one row's explanation as plain values, ready for JSON, with the largest contributions first."""
        row = integer_between("row", row, 0, len(self.contributions) - 1)
        output = self.output_of(row, label)
        contributions = self.contributions[row, :, output]
        deviations = None if self.deviations is None else self.deviations[row, :, output]
        parts = []
        for place in np.argsort(-np.abs(contributions), kind="stable").tolist():
            part = {
                "column": self.columns[place],
                "value": _plain(self.values.iloc[row, place]),
                "contribution": float(contributions[place]),
            }
            parts.append(part if deviations is None else part | {"deviation": float(deviations[place])})
        return {
            "class": _plain(self.classes[output]),
            "logit": float(self.logits[row, output]),
            "base": float(self.base[output]),
            "reference": self.reference,
            "attribution": self.attribution,
            "contributions": parts,
        }

    def waterfall(self, row: int = 0, label: Any = None, *, most: int = 12) -> str:
        """Return a picture of one row as SVG: from the base to the logit, column by column, the largest first.

        Parameters
        ----------
        row : int, default=0
            Number of the row, from 0.
        label : optional
            Class to explain, for three and more classes. By default the predicted class.
        most : int, default=12
            Number of columns with a bar of their own. The others share one bar.
        """
        most = integer_between("most", most, 1)
        found = self.of_row(row, label)
        own, others = found["contributions"][:most], found["contributions"][most:]
        steps = [
            Step(f"{one['column']} = {_written(one['value'])}", one["contribution"], BAND * one.get("deviation", 0.0))
            for one in own
        ]
        if others:
            steps.append(Step(f"{len(others)} more columns", sum(one["contribution"] for one in others), 0.0))
        return waterfall(
            steps,
            found["base"],
            towards=str(found["class"]),
            chances=len(self.classes) == 1,
            attribution=self.attribution,
            reference=self.reference,
        )


def completed(parts: Floats, differences: Floats) -> Floats:
    """Return parts, shape (n_rows, n_columns, n_outputs), that add up to differences, shape (n_rows, n_outputs).

    The remainder comes from whole features, and from the integral along a path. Each part takes a share of it that is
    in proportion to the size of the part, so that a column without a part gets none.
    """
    sizes = np.abs(parts)
    totals = sizes.sum(axis=1)
    remainder = differences - parts.sum(axis=1)
    even = np.full(parts.shape, 1 / parts.shape[1])
    shares = np.divide(sizes, totals[:, None], out=even, where=totals[:, None] > 0)
    return parts + shares * remainder[:, None]


def by_source(steps: Sequence[Any], columns: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the user's columns, and the place of the source of each column that the last step reads."""
    sources = list(columns)
    for step in steps:
        if step.source_columns is not None:
            sources = step.source_columns
    names = list(dict.fromkeys(sources))
    places = {name: place for place, name in enumerate(names)}
    return names, np.array([places[name] for name in sources])


def gathered(parts: Floats, owners: NDArray[np.int64], n_columns: int) -> Floats:
    """Return sums of the parts of each source column."""
    if n_columns == parts.shape[1]:
        return parts
    sums = np.zeros((parts.shape[0], n_columns, parts.shape[2]))
    np.add.at(sums, (slice(None), owners), parts)
    return sums


def _plain(value: Any) -> Any:
    """Return an entry as a value of JSON: a number, truth value, text or None."""
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if isinstance(plain, bool | int | float | str) else str(plain)


def _written(value: Any) -> str:
    """Write an entry for people."""
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
