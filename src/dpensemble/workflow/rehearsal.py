"""A whole run on stand-in records before anything is spent, so that every later step has run once already."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils import get_tags

from dpensemble._entries import Rows
from dpensemble._hide_private_rows import on_public_rows
from dpensemble._spending import kept_in, unheard
from dpensemble._work import Way, progress_heard_by, rehearsing, show_progress
from dpensemble.datasets.columns import assembled, number_columns
from dpensemble.engine.run import Steps, uncounted
from dpensemble.errors import BudgetError, DataError, TeacherError
from dpensemble.moments.maps.grid import declared_grid
from dpensemble.persistence import save_classifier
from dpensemble.rows.arguments import zeroes_bad
from dpensemble.workflow.outputs import RunFile
from dpensemble.workflow.private_rows import PrivateStream
from dpensemble.workflow.tables import Tables
from dpensemble.workflow.targets import Target
from dpensemble.workflow.train import Prepared

# One in this many stand-in records is bad in each way.
_ONE_IN = 25
# Numbers of stand-in records, and of public rows for methods that need not label all of them. With fewer public rows,
# a run draws synthetic rows instead.
_RECORDS, _ROWS, _RECORDS_A_TEACHER, _TEST_ROWS, _SHARE = 500, 250, 3, 50, 0.2
# Columns up to which synthetic rows are rehearsed. More columns take longer than a real run that sees no alarm.
_MOST_COLUMNS = 200


def rehearse(run: Prepared, steps: Steps) -> None:
    """Finish a prepared run on stand-in records, and write all of its files to a temporary folder.

    Stand-ins are public rows (or declared entries) with made-up labels, so nothing private is used and nothing is
    charged. What the real run decided by public facts, such as its map, holds here as well. So arrays have the same
    number of features, and fits take every step, but few times. If released sums can change what follows, every way is
    rehearsed: after an alarm for few columns only. A fast teacher replaces an ordinary one.

    Errors of a step are raised. Errors about budgets, records and teachers are left to the real run, which raises them
    before it spends, because stand-ins are fewer than the records and unlike them.
    """
    with (
        unheard(),
        kept_in(None),
        uncounted(),
        show_progress(False),
        progress_heard_by(None),
        on_public_rows(),
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
    ):
        warnings.simplefilter("ignore")
        for way in _ways(run, steps):
            with rehearsing(way):
                try:
                    outcome = _with_stand_ins(run).finish()
                except (BudgetError, DataError, TeacherError):
                    continue
                outcome.file_contents()
                save_classifier(outcome.classifier, Path(folder) / RunFile.STUDENT)


def _ways(run: Prepared, steps: Steps) -> list[Way]:
    """Return the ways that released sums may send the run. Synthetic rows are rehearsed for few columns only."""
    quick = run.tables.X_public.shape[1] <= _MOST_COLUMNS
    ways = {Way.UNLIKE_ROWS: steps.after_alarm is not None and quick, Way.RARE_CASES: steps.if_rare is not None}
    return [Way.AS_PLANNED, *(way for way, possible in ways.items() if possible)]


def _with_stand_ins(run: Prepared) -> Prepared:
    model = clone(run.model)
    settings = model.get_params(deep=False)
    if settings.get("teacher") is not None and "teacher_privacy" not in settings:
        model.set_params(teacher=LogisticRegression(max_iter=20))
    # Of few records, a small share is too few.
    asked = run.asked if run.asked.share is None else replace(run.asked, share=max(run.asked.share, _SHARE))
    return run.with_stand_ins(stand_ins(run.tables, model), model, asked)


def stand_ins(tables: Tables, model: Any) -> Tables:
    """Return tables of the same kinds, in which public rows stand in for private and test records."""
    rng = np.random.default_rng(0)
    n_records = _n_records(tables, model)
    public, truth, owners = tables.X_public, tables.y_public, tables.public_units
    if model.takes_tables and len(public) > _ROWS:
        public, truth = public[:_ROWS], None if truth is None else truth[:_ROWS]
        owners = None if owners is None else owners[:_ROWS]
    if len(public):
        rows = public.iloc[rng.integers(len(public), size=n_records)].reset_index(drop=True)
    else:
        grid = declared_grid(tables.declared_columns)
        # The last cell of a column is for blanks.
        n_cells = grid.sizes if get_tags(model).input_tags.allow_nan else [size - 1 for size in grid.sizes]
        rows = grid.rows(np.column_stack([rng.integers(n, size=n_records) for n in n_cells]))
    labels = _labels(rows, tables.predicted)
    test, test_labels = rows[:_TEST_ROWS], labels[:_TEST_ROWS]
    if zeroes_bad(model):
        rows, labels = _with_bad(rows, labels)
    whose: Any = None
    if tables.units is not None or (tables.stream is not None and tables.stream.has_units):
        whose = np.arange(n_records) // 2
    result = replace(tables, X_public=public, y_public=truth, public_units=owners)
    result = replace(result, private_groups=_groups(tables, n_records), test_groups=_groups(tables, len(test)))
    if tables.X_test is not None:
        result = replace(result, X_test=test, y_test=test_labels)
    if tables.stream is not None:
        return replace(result, stream=PrivateStream.in_memory(rows, labels, whose, result.private_groups))
    if tables.budgets is not None:
        whose = tables.units
    return replace(result, X_private=rows, y_private=labels, units=whose)


def _n_records(tables: Tables, model: Any) -> int:
    if tables.budgets is not None:
        # Each record has a budget, which is public.
        return tables.n_records
    return min(
        tables.n_records, max(_RECORDS, _RECORDS_A_TEACHER * (model.get_params(deep=False).get("n_teachers") or 0))
    )


def _labels(rows: pd.DataFrame, predicted: Target) -> Rows:
    """Return labels that teachers can learn: by the order of one column's entries."""
    column = max(rows.columns, key=lambda name: rows[name].nunique())
    places: NDArray[np.int64] = rows[column].rank(method="first", na_option="top").to_numpy().astype(np.int64) - 1
    return predicted.table_of_stand_ins(places)


def _groups(tables: Tables, n_records: int) -> pd.DataFrame | None:
    """Return made-up groups, those of undeclared values and of blanks included."""
    if not tables.groups:
        return None
    entries = {
        column: [(*values, "undeclared", None)[place % (len(values) + 2)] for place in range(n_records)]
        for column, values in tables.groups.items()
    }
    return pd.DataFrame(entries, dtype=object)


def _with_bad(rows: pd.DataFrame, labels: Rows) -> tuple[pd.DataFrame, Rows]:
    """Give some records blanks, infinite entries or no label, because private records may have them."""
    places = np.arange(len(rows)) % _ONE_IN
    rows = rows.where(np.broadcast_to((places != 0)[:, None], rows.shape))
    numbers = np.flatnonzero(number_columns(rows))
    infinite = rows.iloc[:, numbers].to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    infinite[places == 1] = np.inf
    others = rows.iloc[:, np.flatnonzero(~number_columns(rows))]
    # Labels may be several columns.
    labels = labels.where(np.broadcast_to(places != 2, labels.shape[::-1]).T)
    return assembled(rows, numbers, infinite, others), labels
