"""Classify the rows of a file or a database with a saved student, in chunks."""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpensemble._arrays import Rows
from dpensemble._checks import real_between
from dpensemble._untrusted import read_json
from dpensemble.datasets.arrow_sources import names_source, opened_source, source_frames
from dpensemble.datasets.columns import as_text
from dpensemble.datasets.csv_layout import Expected
from dpensemble.datasets.preparation import numeric_columns, statements_of
from dpensemble.datasets.tables import as_kinds, require_complete, table_chunks
from dpensemble.errors import DataError, FileError, InvalidParameterError
from dpensemble.persistence import load_classifier
from dpensemble.workflow.claim import journal_path
from dpensemble.workflow.explanations import RowExplanations
from dpensemble.workflow.outputs import RECORD, STUDENT
from dpensemble.workflow.unseen_values import UnseenValues

ROWS_AT_ONCE = 100_000
_ROW, _LABEL = "row", "label"


def load_student(path: Path) -> Any:
    """Return the student of a run, from its file or the folder of the run."""
    if path.is_dir():
        if not (path / STUDENT).exists() and journal_path(path.resolve()).exists():
            raise FileError(f"{path} holds no {STUDENT}, but a run into it was interrupted: see 'dpensemble recover'.")
        if not (path / STUDENT).exists():
            raise FileError(f"{path} holds no {STUDENT}: give the folder of a run, or the file itself.")
        path = path / STUDENT
    student = load_classifier(path)
    if "encoder" not in getattr(student, "named_steps", {}):
        raise FileError(f"{path} must be a student that `dpensemble train` wrote: give student.skops or its folder.")
    return student


def threshold_for_costs(path: Path) -> str | None:
    """Return the options with which `predict` decides by the costs that a run was given, or None without costs."""
    file = path / RECORD if path.is_dir() else path.parent / RECORD
    try:
        decision = read_json(file, FileError, special_numbers=True)["data"]["decision"]
        return f"--threshold {decision['threshold']:.4g} --positive-class {shlex.quote(decision['positive_class'])}"
    except (OSError, ValueError, LookupError, TypeError):
        # A student may be copied away from its run.
        return None


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
    at_once: int = ROWS_AT_ONCE,
    unseen: UnseenValues | None = None,
    explanations: RowExplanations | None = None,
    threshold: float | None = None,
    positive_class: str | None = None,
) -> Iterator[pd.DataFrame]:
    """Yield a table for each chunk of rows: ``row`` from 0, requested columns, label, probabilities, reasons.

    With a `threshold` from 0 to 1, rows are labelled with the positive class from this probability on, and with the
    other class below it. Probabilities stay the same. `rows` is a file or an address, as `opened_source` describes it.
    """
    rule = _rule([str(label) for label in student.classes_], threshold, positive_class)
    start = 0
    if names_source(str(rows)):
        _refuse_csv_settings(
            {"sep": sep, "decimal": decimal, "multiline_text": multiline_text or None, "skip_lines": skip_lines}
        )
        tables = _of_source(student, str(rows), keep, at_once)
    else:
        needed = frozenset(needed_columns(student))
        like = Expected(names=needed | set(keep), required=needed, search=True, whose="the student")
        tables = table_chunks(
            rows, at_once, sep=sep, decimal=decimal, multiline_text=multiline_text, skip_lines=skip_lines, like=like
        )
    # An error also ends the connection to a database.
    with closing(tables):
        for table in tables:
            if len(table):
                numbered = table.set_index(pd.RangeIndex(start, start + len(table)))
                features = features_of(student, numbered, str(rows))
                if unseen is not None:
                    unseen.add(features)
                labels = _with_labels(student, numbered, features, rows, keep, probabilities, rule)
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
        wanted = {*require_columns(student, source.columns, source.name), *keep}
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


def needed_columns(student: Rows) -> list[str]:
    """Return the columns that a student was trained on."""
    first = statements_of(student.steps[0][1])
    return list(student.feature_names_in_ if first.needed_columns is None else first.needed_columns)


def require_columns(student: Rows, columns: Sequence[str], name: str) -> list[str]:
    """Return the columns that a student needs, or raise if the table called `name` lacks one."""
    expected = needed_columns(student)
    lacking = [column for column in expected if column not in columns]
    if lacking:
        raise DataError(
            f"{name} lacks the columns {lacking} that the student was trained on{_alike(lacking, columns)}."
        )
    return expected


def features_of(student: Any, table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the columns that a student was trained on, with the kinds of its public rows."""
    first, encoder = statements_of(student.steps[0][1]), statements_of(student.named_steps["encoder"])
    expected = require_columns(student, list(table.columns), name)
    # The student's public rows define the kinds of columns. The new rows never do.
    features = as_kinds("new", first.as_declared(table[expected]), numeric_columns(student.steps[0][1]))
    require_complete(name, features, blanks=first.takes_blanks or encoder.takes_blanks)
    return features


def _with_labels(
    student: Any,
    table: pd.DataFrame,
    features: pd.DataFrame,
    rows: Path | str,
    keep: Sequence[str],
    probabilities: bool,
    rule: tuple[int, float] | None,
) -> pd.DataFrame:
    unknown = [name for name in keep if name not in table.columns]
    if unknown:
        raise InvalidParameterError(f"keep={unknown[0]!r} is not a column of {rows}: remove it.", parameter="keep")
    columns: dict[str, Any] = {_ROW: table.index} | {name: as_text(table[name]) for name in keep}
    names = [f"probability of {name}" for name in student.classes_] if probabilities else []
    taken = [name for name in keep if name in (_ROW, _LABEL, *names)]
    if taken:
        raise InvalidParameterError(f"keep={taken[0]!r} is also a column of the result: rename it.", parameter="keep")
    if rule is None:
        columns[_LABEL] = student.predict(features)
    else:
        place, threshold = rule
        positive = student.predict_proba(features)[:, place] >= threshold
        columns[_LABEL] = np.where(positive, student.classes_[place], student.classes_[1 - place])
    labels = pd.DataFrame(columns, index=table.index)
    if names:
        labels[names] = student.predict_proba(features)
    return labels


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
