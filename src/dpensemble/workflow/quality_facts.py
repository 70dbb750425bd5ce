"""What a record states about the quality of a student, and about decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._arrays import Floats
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.quality.areas import area_of_rows
from dpensemble.quality.figures import PlainValues
from dpensemble.quality.release import (
    MOST_BINS,
    WHOLE_UNIT,
    HeldRecords,
    Layout,
    NoisyHistograms,
    exact_total,
    public_edges,
    split_cells,
)
from dpensemble.quality.result import Costs, ReleasedQuality, decide, quality_of
from dpensemble.rows.bad_records import BAD, class_ids_or_bad
from dpensemble.workflow.group_columns import group_places
from dpensemble.workflow.holdout import positive_place
from dpensemble.workflow.reader import Reader
from dpensemble.workflow.tables import Tables

_GROUP_BINS = 10


class Fitted(Protocol):
    """A fitted estimator."""

    classes_: NDArray[np.generic]

    def predict_proba(self, X: object) -> Floats:
        """Return probabilities, shape (n_rows, n_classes)."""


@dataclass(frozen=True, slots=True)
class QualityRequest:
    """What is asked about quality: the share of units to hold back, costs of wrong decisions, the positive class."""

    share: float | None
    costs: Costs | None
    positive_class: str | None

    def check(self, tables: Tables) -> None:
        """Raise for a request that these tables cannot serve."""
        positive_place(tables.classes, self.positive_class, self.costs)
        if tables.groups and self.share is None and tables.X_test is None:
            raise InvalidParameterError(
                "groups require held-back units or test rows: give holdout_score, such as 0.2, or test rows.",
                parameter="groups",
            )
        for name, rows, entries in (
            ("private", tables.X_private, tables.private_groups),
            ("test", tables.X_test, tables.test_groups),
        ):
            columns = rows if entries is None else entries
            missing = [] if columns is None else [column for column in tables.groups or () if column not in columns]
            if missing:
                raise DataError(f"groups={missing[0]!r} is not a column of the {name} table: add it, or leave it out.")


def quality_facts(
    tables: Tables, fitted: Fitted, reader: Reader, asked: QualityRequest, released: NoisyHistograms | None
) -> PlainValues:
    """Return the entries of a record's data: the released quality, the quality on test rows, and the decision."""
    facts: PlainValues = {}
    decision = None
    if released is not None:
        quality = quality_of(released, asked.costs)
        facts |= {"released_score": quality.to_dict(), "held_back": released.layout.n_units}
        decision = quality.decision
    elif asked.costs is not None:
        positive = str(fitted.classes_[positive_place(tables.classes, asked.positive_class, asked.costs)])
        decision = decide(asked.costs, positive, None, None, 0.0)
    if decision is not None:
        facts["decision"] = decision.to_dict()
    if tables.X_test is not None and tables.y_test is not None:
        facts["test_quality"] = _on_test_rows(tables, tables.X_test, fitted, reader, asked).to_dict()
    return facts


def _on_test_rows(
    tables: Tables, X_test: pd.DataFrame, fitted: Fitted, reader: Reader, asked: QualityRequest
) -> ReleasedQuality:
    """Return the quality on test rows, without noise. The guarantee does not cover it."""
    classes = fitted.classes_
    probable = fitted.predict_proba(reader.transform(X_test))
    n_rows = len(probable)
    required = (0.5,) if asked.costs is None else (0.5, asked.costs.threshold)
    layout = Layout(
        classes=tuple(map(str, classes)),
        positive=positive_place(tables.classes, asked.positive_class, asked.costs),
        groups=tables.groups or {},
        n_units=n_rows,
        bins=MOST_BINS,
        group_bins=_GROUP_BINS,
        epsilon=0.0,
        delta=0.0,
    )
    edges = public_edges(layout, probable, required)
    entries = X_test if tables.test_groups is None else tables.test_groups
    truth = class_ids_or_bad(classes, np.asarray(tables.y_test))
    records = HeldRecords(
        probabilities=probable,
        truth=truth,
        groups={column: group_places(entries[column], values) for column, values in layout.groups.items()},
        unit_of=np.arange(n_rows),
        n_units=n_rows,
        usable=truth != BAD,
    )
    cells = split_cells(layout, exact_total(layout, edges, records) / WHOLE_UNIT)
    exact = NoisyHistograms(layout=layout, edges=edges, cells=cells, sigma=0.0, epsilon=0.0, delta=0.0)
    areas = {
        name: area_of_rows(column[truth == place], column[(truth != place) & (truth != BAD)])
        for place, (name, column) in enumerate(zip(layout.classes, probable.T, strict=True))
    }
    return quality_of(exact, asked.costs, areas)
