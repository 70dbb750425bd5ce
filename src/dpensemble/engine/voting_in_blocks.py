"""Vote on records that are read in blocks, and need not be in memory together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import member
from dpensemble._entries import blanked
from dpensemble._given import read_rows, require_labels, require_rows
from dpensemble.allocation.units import declared_units
from dpensemble.engine.labelling import PrivateDiagnostics
from dpensemble.engine.records import PrivateRecords
from dpensemble.engine.repeats import compared_once
from dpensemble.engine.run import run
from dpensemble.engine.voting import VotingEnsembleClassifier
from dpensemble.engine.voting_steps import VotingSteps
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.relations import Relation
from dpensemble.rows import arguments as inputs
from dpensemble.rows.bad_records import BAD, as_numbers, class_ids_or_bad, readable_array, zeroes_bad
from dpensemble.rows.labels_and_units import Owners, class_ids, sorted_classes
from dpensemble.teachers.turns import RowsInBlocks

_Read = Callable[[], Iterator[tuple[Any, Any]]]


class VotesInBlocks(VotingEnsembleClassifier):
    """Voting methods whose ordinary teachers may be fitted in turns, on records that are read in blocks."""

    def fit_blocks(
        self,
        read: _Read,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        diagnostics: PrivateDiagnostics | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
    ) -> Self:
        """Fit to private records in blocks: teachers in turns, with one pass over all blocks in each turn.

        With the same seeds, every teacher and all released labels are those of `fit` on all records together. The
        records of a turn take at most half a gigabyte, unless those of one teacher are more. In addition, each record
        takes about a hundred bytes for its label and its place.

        Parameters
        ----------
        read : callable
            Returns an iterator over blocks ``(X, y)``: the same records in the same order in each call.
        X_public : array-like of shape (n_public, n_features)
            Public, unlabelled rows with the same columns.
        units : array-like of shape (n_records,), optional
            Owner of each record, in the order of `read`. A unit's records may be in any blocks.
        diagnostics, ledger
            As for `fit`.
        fewest_units : int, optional
            As for `fit`, but refused, because blocks are for replace-one, in which the number of units is public.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            As for `fit`, and if ``relation="add-or-remove-one"``: a record's shard then depends on its content, or on
            the name of its unit, and all of them would have to be compared.
        DataError
            As for `fit`, and if a later pass has another number of records.
        """
        arguments = (compared_once(read, X_public), X_public, units, fewest_units, diagnostics)
        return run(self, lambda: self._checked_blocks(*arguments), ledger=ledger)

    def _checked_blocks(
        self,
        read: _Read,
        X_public: Any,
        units: ArrayLike | None,
        fewest_units: int | None,
        diagnostics: PrivateDiagnostics | None,
    ) -> VotingSteps:
        """Check the arguments of `fit_blocks` and every record, and return the steps of the run."""
        if member("relation", self.relation, Relation) is Relation.ADD_OR_REMOVE_ONE:
            # Unit numbers in a file follow the order of first appearance, which depends on other units.
            raise InvalidParameterError(
                "relation='add-or-remove-one' compares records by content or name, which blocks do not allow: use "
                "'replace-one', or fit on all records at once.",
                parameter="relation",
            )
        if X_public is not None:
            validate_data(self, X_public, skip_check_array=True)
        rows = inputs.public_rows(self, X_public, nan=self._takes_nan())
        inputs.require_workers(self.n_jobs)
        classes = sorted_classes(self.classes)
        targets = self._first_pass(read, classes)
        owners = Owners.in_blocks(read, units, len(targets), zeroes=zeroes_bad(self))
        (targets,) = owners.kept(targets)
        X = RowsInBlocks(lambda: self._rows_of(read, owners), len(targets), rows.shape[1])
        by_place = range(len(targets)) if owners.units is None else declared_units(owners.units, len(targets))
        records = PrivateRecords(X, targets, owners.units, cast("Sequence[Hashable]", by_place))
        return self.steps(self, records, classes, rows, fewest_units, diagnostics)

    def _first_pass(self, read: _Read, classes: NDArray[Any]) -> Integers:
        """Return each record's class. Raise for bad records, or mark them, before anything is spent."""
        ids_of_blocks: list[Integers] = []
        n_records, zeroes, nan = 0, zeroes_bad(self), self._takes_nan()
        for X, y in read():
            if len(X) != len(y):
                raise DataError(f"a block has {len(X)} rows but {len(y)} labels: give one for each.")
            if not len(X):
                continue
            rows = self._block(X, first=n_records)
            require_labels(y, keep_bad=zeroes, first=n_records)
            if zeroes:
                ids = class_ids_or_bad(classes, y)
                ids[~readable_array(rows, nan=nan)] = BAD
            else:
                inputs.require_finite("X", rows, nan=nan, first=n_records)
                ids = class_ids(classes, y, first=n_records)
            ids_of_blocks.append(ids.astype(np.min_scalar_type(-len(classes))))
            n_records += len(ids)
        if n_records < 2:
            raise DataError(f"the blocks hold {n_records} records, too few for private learning: give more.")
        return np.concatenate(ids_of_blocks).astype(np.int64)

    def _rows_of(self, read: _Read, owners: Owners) -> Iterator[Floats]:
        start = 0
        for X, _ in read():
            if len(X):
                (rows,) = owners.part(start, len(X)).kept(self._block(X))
                start += len(X)
                yield rows

    def _block(self, X: Any, *, first: int = 0) -> Floats:
        inputs.require_dense("X", X)
        zeroes = zeroes_bad(self)
        require_rows("X", X, keep_bad=zeroes, first=first)
        rows = as_numbers(blanked(X)) if zeroes else X
        block: Floats = read_rows(
            "X", lambda: validate_data(self, rows, dtype=np.float64, ensure_all_finite=False, reset=False)
        )
        return block
