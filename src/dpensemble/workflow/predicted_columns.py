"""Predictions of a published student as columns of a Spark or Dask table.

The student is public, so predictions cost no privacy. Each row is read as `dpensemble predict` reads a row.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from dpensemble._arrays import Rows
from dpensemble.clusters.vetting import other_versions as difference_from
from dpensemble.clusters.vetting import versions
from dpensemble.datasets.frames import exact_frame
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.workflow.predict import features_of, load_student, require_columns

_TABLE = "the table"
# Types of Spark by the kind of a label in numpy. Any other label is text.
_TYPES = {"b": "boolean", "i": "long", "u": "long", "f": "double"}


def spark_predictions(
    student: Rows, frame: Rows, *, label: str = "label", probabilities: bool = False, other_versions: bool = False
) -> Rows:
    """Return a Spark DataFrame with a column of labels and, on request, one of the probability of each class.

    Nothing is computed before an action on the result. Executors need this library. Rows are read in batches, without
    a shuffle.

    Parameters
    ----------
    student : classifier or path
        ``student_`` of a fitted estimator, what `dpensemble.load_classifier` returns, or the folder of a run.
    frame : pyspark.sql.DataFrame
        Rows with the columns that the student was trained on, in any order. Other columns are kept.
    label : str
        Name of the new column.
    probabilities : bool, default=False
        Whether to add columns ``probability_of_CLASS`` from 0 to 1.
    other_versions : bool, default=False
        Whether executors may have other versions of Python, this library, numpy, scipy or scikit-learn.

    Returns
    -------
    pyspark.sql.DataFrame
        `frame` with the new columns.

    Raises
    ------
    DataError
        If the frame lacks a column, before any job. In a job, if a column of numbers holds text, or if an executor has
        other versions.
    InvalidParameterError
        If the frame has a column with the name of a new one.

    Examples
    --------
    >>> spark_predictions("run", spark.table("visits"), probabilities=True).write.saveAsTable("risks")  # doctest: +SKIP
    """
    predicted = _Predicted.of(student, list(frame.columns), label, probabilities)
    # A copy, since `add` changes the schema in place.
    schema = copy.deepcopy(frame.schema).add(label, _TYPES.get(predicted.kind, "string"))
    for name in predicted.names:
        schema = schema.add(name, "double")
    wanted = None if other_versions else versions()
    return frame.mapInArrow(partial(_with_columns, predicted, wanted), schema)


def dask_predictions(student: Rows, frame: Rows, *, label: str = "label", probabilities: bool = False) -> Rows:
    """Return a Dask DataFrame with a column of labels and, on request, one of the probability of each class.

    Parameters
    ----------
    student, label, probabilities
        As for `spark_predictions`.
    frame : dask.dataframe.DataFrame
        As for `spark_predictions`.

    Returns
    -------
    dask.dataframe.DataFrame
        `frame` with the new columns, to be computed partition by partition.

    Raises
    ------
    DataError, InvalidParameterError
        As for `spark_predictions`.

    Examples
    --------
    >>> dask_predictions("run", dask.dataframe.read_parquet("visits")).to_parquet("labels")  # doctest: +SKIP
    """
    predicted = _Predicted.of(student, list(frame.columns), label, probabilities)
    return frame.map_partitions(predicted.beside, meta=predicted.beside(frame._meta.iloc[:0]))


@dataclass(frozen=True, eq=False)
class _Predicted:
    """The new columns of a table: a label and perhaps probabilities."""

    student: Rows
    needed: list[str]
    label: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, student: Rows, columns: Sequence[str], label: str, probabilities: bool) -> _Predicted:
        """Load a student, and raise if a table with these columns cannot get the new ones."""
        loaded = load_student(Path(student)) if isinstance(student, str | Path) else student
        needed = require_columns(loaded, columns, _TABLE)
        names = tuple(f"probability_of_{name}" for name in loaded.classes_) if probabilities else ()
        taken = [name for name in (label, *names) if name in columns]
        if taken or label in names:
            raise InvalidParameterError(
                f"label={label!r} would add a column {(taken or [label])[0]!r}, which is there already: give another "
                "label, or rename the column.",
                parameter="label",
            )
        return cls(loaded, needed, label, names)

    @property
    def kind(self) -> str:
        """Kind of the labels in numpy."""
        return str(np.asarray(self.student.classes_).dtype.kind)

    def of_rows(self, table: pd.DataFrame) -> dict[str, Rows]:
        """Return the new columns of a table, by name."""
        if not len(table):
            labels, chances = np.asarray(self.student.classes_)[:0], np.empty((0, len(self.names)))
        else:
            rows = features_of(self.student, table, _TABLE)
            labels = self.student.predict(rows)
            chances = self.student.predict_proba(rows) if self.names else np.empty((len(table), 0))
        return {self.label: labels} | {name: chances[:, place] for place, name in enumerate(self.names)}

    def beside(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table with the new columns."""
        new = pd.DataFrame(self.of_rows(table), index=table.index)
        return pd.concat([table, new], axis=1)


def _with_columns(predicted: _Predicted, wanted: dict[str, str] | None, batches: Iterator[Rows]) -> Iterator[Rows]:
    """Yield the batches of a partition with the new columns."""
    import pyarrow as pa  # noqa: PLC0415  takes long to import

    difference = "" if wanted is None else difference_from(wanted)
    if difference:
        raise DataError(
            f"an executor has {difference}, so that predictions could differ: install the same version there, or give "
            "other_versions=True."
        )
    for batch in batches:
        new = predicted.of_rows(exact_frame(batch.select(predicted.needed)))
        entries = [pa.array(np.asarray(column).tolist(), _arrow_type(column)) for column in new.values()]
        yield pa.RecordBatch.from_arrays([*batch.columns, *entries], names=[*batch.schema.names, *new])


def _arrow_type(column: Rows) -> str:
    """Return the name of the type of a column in Arrow, which a batch without rows needs, too."""
    return {"b": "bool", "i": "int64", "u": "int64", "f": "float64"}.get(np.asarray(column).dtype.kind, "string")
