"""Predict the rows of a file, a database, or a Spark or Dask table with a saved student, in chunks.

The student is public, so predictions cost no privacy. Each row of a Spark or Dask table is read as
`dpensemble predict` reads a row. Explanations stand beside the labels. Entries that a student cannot use are counted:
dates in another format, and categories that it never saw.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpensemble._checks import real_between
from dpensemble._entries import Rows
from dpensemble._same_code import other_versions as difference_from
from dpensemble._same_code import versions
from dpensemble.datasets.arrow_sources import names_source, opened_source, source_frames
from dpensemble.datasets.columns import as_text
from dpensemble.datasets.csv import Expected
from dpensemble.datasets.frames import exact_frame
from dpensemble.datasets.preparation import numeric_columns
from dpensemble.datasets.tables import as_kinds, as_library_transformer, require_complete, table_chunks
from dpensemble.engine.classifier import explained, require_explainable
from dpensemble.errors import DataError, FileError, InvalidParameterError
from dpensemble.moments.model import Explanation
from dpensemble.persistence import load_classifier
from dpensemble.workflow.disk import journal_path
from dpensemble.workflow.numbers import NumberColumns, RiskColumns, columns_of
from dpensemble.workflow.outputs import RunFile

_MOST_NAMED = 8


class UnseenValues:
    """Counts of rows with entries that a student cannot use, by column."""

    def __init__(self, student: Any) -> None:
        self.rows = 0
        self.dates: Counter[str] = Counter()
        self.numbers: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        encoder = as_library_transformer(student.named_steps["encoder"])
        preparation = student.named_steps.get("table", encoder.preparation_)
        self._preparation = preparation
        self._categories = encoder.known_categories

    def add(self, table: pd.DataFrame) -> None:
        """Count such entries in a table whose columns have the kinds that the student was trained on."""
        self.rows += len(table)
        if self._preparation is not None:
            for name, number in self._preparation.unread(table).sum().items():
                counts = self.dates if name in self._preparation.dates_ else self.numbers
                counts[str(name)] += int(number)
        for name, categories in self._categories.items():
            if name in table:
                entries = as_text(table[name].dropna())
                self.unknown[name] += int((~entries.isin(categories)).sum())

    def sentence(self) -> str | None:
        """Return a sentence for people, or None if every entry can be used."""
        parts = [
            (+self.dates, "a date that cannot be read", "which counts as blank"),
            (+self.numbers, "a number that is not written as in the public rows", "which counts as blank"),
            (+self.unknown, "a category that is new or rare to the student", "which counts as any other"),
        ]
        sentences = [f"{what} in {_columns(counter)}, {counts}" for counter, what, counts in parts if counter]
        return f"of {self.rows:,} rows some have {'; and '.join(sentences)}." if sentences else None


def _columns(counts: Counter[str]) -> str:
    named = [f"{name!r} ({count:,})" for name, count in counts.most_common(_MOST_NAMED)]
    rest = len(counts) - len(named)
    return ", ".join([*named, f"{rest:,} more columns"] if rest else named)


# Rows whose explanations are in memory together.
_ROWS_AT_ONCE = 1000
#: Columns of a table of explanations, before a column for each contribution.
CLASS, _LOGIT, _BASE, _CONTRIBUTION = "explained class", "logit", "base", "contribution of {}"
_EXPLAINED = "explained {}"


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
    """Return the explanation of each row's number, or predicted class (of two classes: the second), as columns."""
    outputs = np.array(list(_outputs(found)), dtype=np.int64)
    rows = np.arange(len(outputs))
    of_class = found.output == _LOGIT
    columns: dict[str, object] = {CLASS: [found.classes[output] for output in outputs]} if of_class else {}
    columns |= {
        found.output if of_class else _EXPLAINED.format(found.output): found.logits[rows, outputs],
        _BASE: found.base[outputs],
    }
    parts = found.contributions[rows, :, outputs]
    columns |= {_CONTRIBUTION.format(name): parts[:, place] for place, name in enumerate(found.columns)}
    return pd.DataFrame(columns, index=index)


def _outputs(found: Explanation) -> Iterator[int]:
    return (found.output_of(row) for row in range(len(found.contributions)))


# What options of some kind of columns are for, and the first of the options.
_NOT_OF_STUDENT = {
    NumberColumns: (
        "coverage, quantiles and proven are for students of a number, and this one predicts something else: leave "
        "them out.",
        "coverage",
    ),
    RiskColumns: ("at is for students of a risk by a time, and this one predicts something else: leave it out.", "at"),
}
#: Rows of a file that are in memory together.
ROWS_AT_ONCE = 2**14
_ROW, _LABEL = "row", "label"


def load_student(path: Path) -> Any:
    """Return the student of a run, from its file or the folder of the run."""
    if path.is_dir():
        if not (path / RunFile.STUDENT).exists() and journal_path(path.resolve()).exists():
            raise FileError(
                f"{path} holds no {RunFile.STUDENT}, but a run into it was interrupted: see 'dpensemble recover'."
            )
        if not (path / RunFile.STUDENT).exists():
            raise FileError(f"{path} holds no {RunFile.STUDENT}: give the folder of a run, or the file itself.")
        path = path / RunFile.STUDENT
    student = load_classifier(path)
    if "encoder" not in getattr(student, "named_steps", {}):
        raise FileError(f"{path} must be a student that `dpensemble train` wrote: give student.skops or its folder.")
    return student


def predictions(
    student: Any,
    rows: Path | str,
    *,
    keep: Sequence[str] = (),
    probabilities: bool = False,
    sep: str | None = None,
    decimal: str | None = None,
    multiline_text: bool = False,
    skip_lines: int | None = None,
    sheet: str | None = None,
    at_once: int | None = None,
    unseen: UnseenValues | None = None,
    explanations: RowExplanations | None = None,
    threshold: float | None = None,
    positive_class: str | None = None,
    number: NumberColumns | None = None,
    risk: RiskColumns | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield a table for each chunk of rows: ``row`` from 0, requested columns, label, probabilities, reasons.

    With a `threshold` from 0 to 1, rows are labelled with the positive class from this probability on, and with the
    other class below it. Probabilities stay the same. `rows` is a file or an address, as `opened_source` describes it.
    A student of a number has the columns of `number` in place of labels, and one of risks those of `risk`.
    """
    kind = columns_of(student)
    for given, own in ((number, NumberColumns), (risk, RiskColumns)):
        if given is not None and kind is not own:
            sentence, parameter = _NOT_OF_STUDENT[own]
            raise InvalidParameterError(sentence, parameter=parameter)
    if kind is not None:
        _refuse_labels(probabilities=probabilities or None, threshold=threshold, positive_class=positive_class)
    columns = None if kind is None else number or risk or kind()
    rule = None if kind else _rule([str(label) for label in student.classes_], threshold, positive_class)
    start, at_once = 0, ROWS_AT_ONCE if at_once is None else at_once
    how: dict[str, Rows] = {"sep": sep, "decimal": decimal, "multiline_text": multiline_text}
    how |= {"skip_lines": skip_lines, "sheet": sheet}
    if names_source(str(rows)):
        _refuse_csv_settings(how | {"multiline_text": multiline_text or None})
        tables = _of_source(student, str(rows), keep, at_once)
    else:
        needed = frozenset(_needed_columns(student))
        like = Expected(names=needed | set(keep), required=needed, search=True, whose="the student")
        tables = table_chunks(rows, at_once, **how, like=like)
    # An error also ends the connection to a database.
    with closing(tables):
        for table in tables:
            if len(table):
                numbered = table.set_index(pd.RangeIndex(start, start + len(table)))
                features = _features_of(student, numbered, str(rows))
                if unseen is not None:
                    unseen.add(features)
                if columns is None:
                    new = _labels(student, features, probabilities, rule)
                else:
                    new = columns.of(student, features)
                labels = _with_kept(numbered, new, rows, keep)
                reasons = None if explanations is None else explanations.of(features, start)
                yield labels if reasons is None else _beside(labels, reasons)
            start += len(table)
    if not start:
        raise DataError(f"{rows} has no rows: give at least one.")


def _refuse_csv_settings(settings: Mapping[str, object]) -> None:
    for name, value in settings.items():
        if value is not None:
            raise InvalidParameterError(
                f"{name}={value!r} is for CSV files: leave it out, or name a view whose columns are numbers.",
                parameter=name,
            )


def _of_source(student: Rows, address: str, keep: Sequence[str], at_once: int) -> Generator[pd.DataFrame]:
    """Yield the columns of a table in a database or an Arrow file that a student or a result needs."""
    with opened_source(address, "rows") as source:
        wanted = {*_require_columns(student, source.columns, source.name), *keep}
        yield from source_frames(source, [name for name in source.columns if name in wanted], at_once)


def _rule(names: Sequence[str], threshold: float | None, positive_class: str | None) -> tuple[int, float] | None:
    """Return the place of the positive class and its threshold, or None for the most probable class."""
    if threshold is None:
        if positive_class is not None:
            raise InvalidParameterError(
                f"positive_class={positive_class!r} belongs to a threshold: give threshold, or leave it out.",
                parameter="positive_class",
            )
        return None
    threshold = real_between("threshold", threshold, 0.0, 1.0)
    if len(names) != 2:
        raise InvalidParameterError(
            f"threshold={threshold:g} requires a student of two classes, and this one has {len(names)}: use the "
            "probabilities.",
            parameter="threshold",
        )
    if positive_class is not None and positive_class not in names:
        raise InvalidParameterError(
            f"positive_class={positive_class!r} is not a class of the student: use {names[0]!r} or {names[1]!r}.",
            parameter="positive_class",
        )
    return 1 if positive_class is None else names.index(positive_class), threshold


def _needed_columns(student: Rows) -> list[str]:
    """Return the columns that a student was trained on."""
    first = as_library_transformer(student.steps[0][1])
    return list(student.feature_names_in_ if first.needed_columns is None else first.needed_columns)


def _require_columns(student: Rows, columns: Sequence[str], name: str) -> list[str]:
    """Return the columns that a student needs, or raise if the table called `name` lacks one."""
    expected = _needed_columns(student)
    lacking = [column for column in expected if column not in columns]
    if lacking:
        raise DataError(
            f"{name} lacks the columns {lacking} that the student was trained on{_alike(lacking, columns)}."
        )
    return expected


def _features_of(student: Any, table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the columns that a student was trained on, with the kinds of its public rows."""
    first, encoder = as_library_transformer(student.steps[0][1]), as_library_transformer(student.named_steps["encoder"])
    expected = _require_columns(student, list(table.columns), name)
    # The student's public rows define the kinds of columns. The new rows never do.
    features = as_kinds("new", first.as_declared(table[expected]), numeric_columns(student.steps[0][1]))
    require_complete(name, features, blanks=first.takes_blanks or encoder.takes_blanks)
    return features


def _refuse_labels(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise InvalidParameterError(
                f"{name} is about labels, and this student predicts a number or a risk: leave it out, or use coverage "
                "or quantiles of a number, or times (at) of a risk.",
                parameter=name,
            )


def _with_kept(table: pd.DataFrame, new: dict[str, Rows], rows: Path | str, keep: Sequence[str]) -> pd.DataFrame:
    """Return new columns behind the number of each row and the columns to keep."""
    unknown = [name for name in keep if name not in table.columns]
    if unknown:
        raise InvalidParameterError(f"keep={unknown[0]!r} is not a column of {rows}: remove it.", parameter="keep")
    columns: dict[str, Any] = {_ROW: table.index} | {name: as_text(table[name]) for name in keep}
    taken = [name for name in keep if name in (_ROW, *new)]
    if taken:
        raise InvalidParameterError(f"keep={taken[0]!r} is also a column of the result: rename it.", parameter="keep")
    kept = pd.DataFrame(columns, index=table.index)
    # Together, since there may be many classes.
    return pd.concat([kept, pd.DataFrame(new, index=table.index)], axis=1)


def _labels(
    student: Rows, features: pd.DataFrame, probabilities: bool, rule: tuple[int, float] | None
) -> dict[str, Rows]:
    """Return the label of each row and, on request, the probability of each class."""
    columns: dict[str, Rows] = {}
    names = [f"probability of {name}" for name in student.classes_] if probabilities else []
    chances: Rows = student.predict_proba(features) if names or rule else None
    if rule is None:
        columns[_LABEL] = student.predict(features)
    else:
        place, threshold = rule
        columns[_LABEL] = np.where(chances[:, place] >= threshold, student.classes_[place], student.classes_[1 - place])
    return columns | {name: chances[:, place] for place, name in enumerate(names)}


def _beside(labels: pd.DataFrame, reasons: pd.DataFrame) -> pd.DataFrame:
    """Return labels with the columns of their explanations."""
    taken = [name for name in labels.columns if name in reasons.columns]
    if taken:
        raise InvalidParameterError(f"keep={taken[0]!r} is also a column of the result: rename it.", parameter="keep")
    return pd.concat([labels, reasons], axis=1)


def _alike(lacking: Sequence[str], columns: Sequence[str]) -> str:
    """Return a hint if a column differs only in capitals or blanks."""
    there = {str(name).strip().casefold() for name in columns}
    alike = [name for name in lacking if str(name).strip().casefold() in there]
    return f"; {alike[0]!r} has other capitals or spaces" if alike else ""


_TABLE = "the table"
# Types of Spark by the kind of a label in numpy. Any other label is text.
_TYPES = {"b": "boolean", "i": "long", "u": "long", "f": "double"}


def spark_predictions(
    student: Rows, frame: Rows, *, label: str = "label", probabilities: bool = False, other_versions: bool = False
) -> Rows:
    """Return a Spark DataFrame with a column of labels and, on request, one of the probability of each class.

    The column of a student of a number holds the mean, and that of a student of risks the logarithm of the cumulative
    hazard up to the horizon.

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
        if columns_of(loaded) is not None:
            _refuse_labels(probabilities=probabilities or None)
        needed = _require_columns(loaded, columns, _TABLE)
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
        return str(self._no_labels.dtype.kind)

    @property
    def _no_labels(self) -> Rows:
        """An array without entries, of the type of the labels, or of predicted means or scores."""
        return np.empty(0) if columns_of(self.student) is not None else np.asarray(self.student.classes_)[:0]

    def of_rows(self, table: pd.DataFrame) -> dict[str, Rows]:
        """Return the new columns of a table, by name."""
        if not len(table):
            labels, chances = self._no_labels, np.empty((0, len(self.names)))
        else:
            rows = _features_of(self.student, table, _TABLE)
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
