"""Why a published model predicts what it predicts for a row: what each column adds to the logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import TransformerMixin

from dpensemble._arrays import Floats
from dpensemble._checks import integer_between
from dpensemble.datasets.preparation import LibraryTransformer
from dpensemble.errors import InvalidParameterError
from dpensemble.report.effects import Step, waterfall

#: One effect of `dpensemble.moments.effects.column_effects`.
Effect = dict[str, Any]
#: Standard deviations to either side that a band covers: 95 % of a normal law.
BAND = 1.96


class Part(NamedTuple):
    """What one column of one row adds to a logit, and the standard deviation of it by the known noise, if known."""

    column: str
    value: float | str | None
    contribution: float
    deviation: float | None


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

    Examples
    --------
    >>> from dpensemble import LabelMomentsClassifier
    >>> rows = pd.DataFrame({"age": np.random.default_rng(0).integers(20, 90, 900)})
    >>> model = LabelMomentsClassifier(classes=[0, 1], epsilon=5, delta=1e-4, insecure_release_seed=0)
    >>> _ = model.fit(rows[:800], (rows["age"] > 60)[:800].astype(int), X_public=rows[800:])
    >>> explanation = model.explain(pd.DataFrame({"age": [85]}))
    >>> [(part.column, part.contribution > 0) for part in explanation.parts(row=0)]
    [('age', True)]
    """

    columns: list[str]
    classes: list[object]
    base: Floats
    contributions: Floats
    deviations: Floats | None
    values: pd.DataFrame
    predicted: NDArray[np.generic]
    attribution: str
    reference: str

    @property
    def logits(self) -> Floats:
        """Logits of rows, shape (n_rows, n_outputs)."""
        logits: Floats = self.base + self.contributions.sum(axis=1)
        return logits

    def output_of(self, row: int, label: object = None) -> int:
        """Return the place of the output that explains a row: that of a class, or of the predicted class.

        With two classes it is always the only output.
        """
        if label is not None and label not in self.classes:
            raise InvalidParameterError(
                f"label={label!r} has no logit of its own: use one of {self.classes}.", parameter="label"
            )
        if len(self.classes) == 1:
            return 0
        return self.classes.index(self.predicted[row] if label is None else label)

    def parts(self, row: int = 0, label: object = None) -> list[Part]:
        """Return the parts of one row, with the largest contributions first. `row` and `label` as for `waterfall`."""
        row = integer_between("row", row, 0, len(self.contributions) - 1)
        output = self.output_of(row, label)
        contributions = self.contributions[row, :, output]
        deviations = np.full(len(self.columns), np.nan) if self.deviations is None else self.deviations[row, :, output]
        return [
            Part(
                self.columns[place],
                _plain(self.values.iloc[row, place]),
                float(contributions[place]),
                None if np.isnan(deviations[place]) else float(deviations[place]),
            )
            for place in np.argsort(-np.abs(contributions), kind="stable").tolist()
        ]

    def of_row(self, row: int = 0, label: object = None) -> dict[str, object]:
        """Return one row's explanation as plain values, ready for JSON. `row` and `label` as for `waterfall`."""
        parts = [part._asdict() for part in self.parts(row, label)]
        output = self.output_of(row, label)
        return {
            "class": _plain(self.classes[output]),
            "logit": float(self.logits[row, output]),
            "base": float(self.base[output]),
            "reference": self.reference,
            "attribution": self.attribution,
            "contributions": parts,
        }

    def waterfall(self, row: int = 0, label: object = None, *, most: int = 12) -> str:
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
        most, parts = integer_between("most", most, 1), self.parts(row, label)
        steps = [
            Step(f"{part.column} = {_written(part.value)}", part.contribution, BAND * (part.deviation or 0.0))
            for part in parts[:most]
        ]
        if parts[most:]:
            rest = sum(part.contribution for part in parts[most:])
            steps.append(Step(f"{len(parts[most:])} more columns", rest, 0.0))
        output = self.output_of(row, label)
        return waterfall(
            steps,
            float(self.base[output]),
            towards=str(self.classes[output]),
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


def centred(logits: Floats) -> Floats:
    """Return logits less their mean over the classes. The only logit of two classes is the logarithm of the odds."""
    return logits if logits.shape[1] == 1 else logits - logits.mean(axis=1, keepdims=True)


def by_source(steps: Sequence[LibraryTransformer], columns: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """Return the user's columns, and the place of the source of each column that comes out of the steps."""
    sources = list(columns)
    for step in steps:
        if step.source_columns is None:
            raise InvalidParameterError(
                "explain cannot trace what an encoder of your own makes of columns: use the default encoder.",
                parameter="explain",
            )
        sources = step.source_columns
    names = [name for name in columns if name in set(sources)]
    places = {name: place for place, name in enumerate(names)}
    return names, np.array([places[name] for name in sources])


def through(steps: Sequence[TransformerMixin], rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows behind some steps."""
    for step in steps:
        rows = step.transform(rows)
    return rows


def gathered(parts: Floats, owners: NDArray[np.int64], n_columns: int) -> Floats:
    """Return sums of the parts of each source column."""
    if n_columns == parts.shape[1]:
        return parts
    return np.stack([parts[:, owners == place].sum(axis=1) for place in range(n_columns)], axis=1)


def _plain(value: object) -> float | str | None:
    """Return an entry as a value of JSON: a number, truth value, text or None."""
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if isinstance(plain, bool | int | float | str) else str(plain)


def _written(value: object) -> str:
    """Write an entry for people."""
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
