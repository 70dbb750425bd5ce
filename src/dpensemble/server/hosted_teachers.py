"""A hosted ensemble: teachers of disjoint private records, fitted when the service starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import integer_between, member
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble.allocation.partition import partitions
from dpensemble.datasets import CSVFormat, TableEncoder
from dpensemble.datasets.tables import as_kinds
from dpensemble.engine.records import records_by_owner
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.rows.arguments import BAD, OnBadRecord, sorted_classes
from dpensemble.rows.checked import RowCheck, TableForm
from dpensemble.server.settings import GrantSettings, ServiceSettings
from dpensemble.teachers import TeacherEnsemble
from dpensemble.workflow import ReadOptions, TableFiles, file_tables
from dpensemble.workflow.learners import learner

_LONGEST_TEXT = 1_000


class HostedEnsemble:
    """Teachers that vote on rows."""

    @guard_private_rows()
    def __init__(self, settings: ServiceSettings, grant: GrantSettings) -> None:
        hosted = grant.ensemble
        assert hosted is not None  # noqa: S101
        if grant.votes_per_unit != 1:
            raise InvalidParameterError(
                f"grant {grant.name!r}: votes_per_unit={grant.votes_per_unit!r:.20} cannot be combined with an "
                "ensemble, because there every unit teaches one teacher; leave it out."
            )
        if (grant.unit == "record") != (hosted.unit is None):
            raise InvalidParameterError(
                f"grant {grant.name!r}: unit={grant.unit!r:.60} and ensemble.unit={hosted.unit!r:.60} do not match; "
                "name the column that identifies units if, and only if, unit is not 'record'."
            )
        if not isinstance(grant.classes, list):
            raise InvalidParameterError(f"grant {grant.name!r}: an ensemble requires classes as a list of labels.")
        files = TableFiles(
            private=settings.path(hosted.private),
            public=settings.path(hosted.public),
            target=hosted.target,
            classes=grant.classes,
            unit=hosted.unit,
            drop=(*hosted.drop, *hosted.entries.dropped),
            entries=hosted.entries,
            form=CSVFormat(hosted.sep, hosted.decimal, bool(hosted.multiline_text), hosted.skip_lines, hosted.sheet),
        )
        tables = file_tables(files, ReadOptions(blanks=True, on_bad_record=hosted.bad_records))
        relation = member("relation", grant.relation, Relation)
        self._public = tables.X_public.iloc[:0]
        self._encoder = TableEncoder("median", **tables.entries.settings()).fit(tables.X_public)
        classes = sorted_classes(tables.classes)
        zeroes = member("bad_records", hosted.bad_records, OnBadRecord) is OnBadRecord.ZERO
        given = tables.X_private, tables.y_private.to_numpy()
        (block,) = RowCheck(TableForm(self._public), classes, zeroes).checked_blocks([given])
        y = block.targets
        X = np.where((y == BAD)[:, None], 0.0, self._encoder.transform(block.rows))
        records, _ = records_by_owner(X, y, tables.units, relation, zeroes=zeroes)
        records.check_delta(grant.budget, relation)
        seed = integer_between("seed", hosted.seed, 0)
        drawn = partitions(records.identities, grant.voters, relation=relation, entropy=seed)
        ensemble = TeacherEnsemble(
            learner("teacher", hosted.teacher), drawn.without(records.targets == BAD), classes, entropy=seed
        )
        self._teachers = ensemble.fit(records.X, records.targets, lambda _: None)
        # The grant's own order of classes, which ballots use.
        self._place = np.array([tables.classes.index(one) for one in classes.tolist()])
        self._labels = np.array(grant.classes, dtype=object)

    @property
    def columns(self) -> dict[str, str]:
        """Columns of a row, and whether each is a number or a text. Rows may lack what is left out. Public."""
        numeric, needed = set(self._encoder.numeric_columns), set(self._encoder.needed_columns)
        return {str(name): "number" if name in numeric else "text" for name in self._public.columns if name in needed}

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        """Return rows for the teachers. Raise if they are malformed, without quoting them."""
        columns, others = self.columns, set(map(str, self._public.columns))
        for row in rows:
            if not isinstance(row, Mapping) or not set(columns) <= set(row) <= others:
                raise DataError(f"rows must have exactly the columns {', '.join(columns)}; null stands for a blank.")
            for name, kind in columns.items():
                if not _fits(row[name], kind):
                    raise DataError(f"column {name!r} of rows must be a {kind}, finite and not too long, or null.")
        table = pd.DataFrame([[row[name] for name in columns] for row in rows], columns=list(columns), dtype=object)
        numeric = as_kinds("new", table, [name for name, kind in columns.items() if kind == "number"])
        encoded: NDArray[np.float64] = np.asarray(self._encoder.transform(numeric), dtype=np.float64)
        return encoded

    def vote(self, X: NDArray[np.float64]) -> NDArray[Any]:
        """Return every teacher's ballot on rows, as labels, shape (n_rows, n_teachers). Private."""
        return self._labels[self._place[self._teachers.vote(X).ballots.astype(np.int64)]]


def _fits(entry: object, kind: str) -> bool:
    if entry is None:
        return True
    if kind == "number":
        return isinstance(entry, int | float) and not isinstance(entry, bool) and abs(entry) < 1e300
    return isinstance(entry, str) and len(entry) <= _LONGEST_TEXT
