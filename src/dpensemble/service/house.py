"""An ensemble kept in the house: teachers of disjoint private records, fitted when the service starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import integer_between, member
from dpensemble._guard import guard_private_rows
from dpensemble.allocation.partition import partitions
from dpensemble.datasets import TableEncoder
from dpensemble.datasets.bad_records import BAD
from dpensemble.datasets.tables import as_kinds
from dpensemble.engine.inputs import having_unit, identities, table_targets, whose
from dpensemble.engine.records import PrivateRecords
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.service.settings import GrantSettings, ServiceSettings
from dpensemble.teachers import TeacherEnsemble
from dpensemble.workflow.files import file_tables
from dpensemble.workflow.learners import learner

_LONGEST_TEXT = 1_000


class House:
    """Teachers that vote on rows.

    Parameters
    ----------
    settings : ServiceSettings
        For the places of files.
    grant : GrantSettings
        With its ensemble.

    Raises
    ------
    DataError, FileError, InvalidParameterError, BudgetError, TeacherError
        If the tables cannot be used, or delta is not below one over the number of units.

    Notes
    -----
    The partition depends on the public seed, and on positions or units, as the relation has it; each unit teaches one
    teacher. Private and never shown: the ensemble and its votes.
    """

    @guard_private_rows()
    def __init__(self, settings: ServiceSettings, grant: GrantSettings) -> None:
        given = grant.ensemble
        assert given is not None  # noqa: S101
        if grant.votes_per_unit != 1:
            raise InvalidParameterError(
                f"grant {grant.name!r}: votes_per_unit={grant.votes_per_unit!r:.20} does not go with an ensemble, in "
                "which every unit teaches one teacher; leave it out."
            )
        if (grant.unit == "record") != (given.unit is None):
            raise InvalidParameterError(
                f"grant {grant.name!r}: unit={grant.unit!r:.60} and ensemble.unit={given.unit!r:.60} do not go "
                "together; name the column that says whose record it is just where unit is not 'record'."
            )
        if not isinstance(grant.classes, list):
            raise InvalidParameterError(f"grant {grant.name!r}: an ensemble needs classes as a list of labels.")
        tables = file_tables(
            settings.path(given.private),
            settings.path(given.public),
            given.target,
            classes=",".join(map(str, grant.classes)),
            unit=given.unit,
            drop=given.drop,
            blanks=True,
            sep=given.sep,
            decimal=given.decimal,
            multiline_text=bool(given.multiline_text),
            on_bad_record=given.bad_records,
        )
        relation = member("relation", grant.relation, Relation)
        self._public = tables.X_public.iloc[:0]
        self._encoder = TableEncoder("median").fit(tables.X_public)
        if len(tables.classes) != len(grant.classes):
            raise InvalidParameterError(f"grant {grant.name!r}: classes of an ensemble must not hold commas.")
        as_declared = _Declared(tables.classes, given.bad_records)
        table, classes, y = table_targets(as_declared, tables.X_private, tables.y_private.to_numpy())
        units, present = whose(as_declared, tables.units, len(y))
        table, y = having_unit(present, table, y)
        X = np.where((y == BAD)[:, None], 0.0, self._encoder.transform(table))
        owners = identities(X, y, units, relation)
        PrivateRecords(X, y, units, owners).check_delta(grant.budget, relation)
        seed = integer_between("seed", given.seed, 0)
        taught = partitions(owners, grant.voters, relation=relation, entropy=seed).without(y == BAD)
        teacher = learner("teacher", given.teacher)
        self._teachers = TeacherEnsemble(teacher, taught, classes, entropy=seed).fit(X, y, lambda _: None)
        # The grant's own order of classes, in which ballots are told.
        self._place = np.array([tables.classes.index(one) for one in classes.tolist()])
        self._labels = np.array(grant.classes, dtype=object)

    @property
    def columns(self) -> dict[str, str]:
        """Columns of a row, and whether each is a number or a text; public."""
        numeric = set(self._encoder.numeric_columns)
        return {str(name): "number" if name in numeric else "text" for name in self._public.columns}

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        """Return rows as teachers take them, or refuse them without quoting them.

        Parameters
        ----------
        rows : sequence of mapping
            From column to entry; None for a blank.
        """
        columns = self.columns
        for row in rows:
            if not isinstance(row, Mapping) or set(row) != set(columns):
                raise DataError(f"rows must have exactly the columns {', '.join(columns)}; null stands for a blank.")
            for name, kind in columns.items():
                if not _fits(row[name], kind):
                    raise DataError(f"column {name!r} of rows takes a {kind}, finite and not too long, or null.")
        table = pd.DataFrame([[row[name] for name in columns] for row in rows], columns=list(columns), dtype=object)
        kept = as_kinds("new", table, [name for name, kind in columns.items() if kind == "number"])
        found: NDArray[np.float64] = np.asarray(self._encoder.transform(kept), dtype=np.float64)
        return found

    def vote(self, X: NDArray[np.float64]) -> NDArray[Any]:
        """Return every teacher's ballot on rows, as labels, shape (n_rows, n_teachers); private."""
        return self._labels[self._place[self._teachers.vote(X).ballots.astype(np.int64)]]


class _Declared:
    """Stands for an estimator with declared classes, and with what a bad record does."""

    def __init__(self, classes: Sequence[Any], on_bad_record: str) -> None:
        self.classes, self.on_bad_record = classes, on_bad_record


def _fits(entry: Any, kind: str) -> bool:
    if entry is None:
        return True
    if kind == "number":
        return isinstance(entry, int | float) and not isinstance(entry, bool) and abs(entry) < 1e300
    return isinstance(entry, str) and len(entry) <= _LONGEST_TEXT
