"""Vote on records that are read in blocks, and need not be in memory together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Integers
from dpensemble._checks import member
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
from dpensemble.rows.bad_records import zeroes_bad
from dpensemble.rows.checked import AsNumbers, Block, RowCheck, UnitsByPlace
from dpensemble.rows.labels_and_units import Owners, sorted_classes
from dpensemble.rows.source import Blocks, Read
from dpensemble.teachers.turns import RowsInBlocks


class VotesInBlocks(VotingEnsembleClassifier):
    """Voting methods whose ordinary teachers may be fitted in turns, on records that are read in blocks."""

    def fit_blocks(
        self,
        read: Read,
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
        read: Read,
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
        classes, zeroes = sorted_classes(self.classes), zeroes_bad(self)
        check = RowCheck(AsNumbers(self._takes_nan(), self, zeroes), classes, zeroes)
        source = Blocks(read)
        targets = _class_ids(check.here(source), len(classes))
        owners = Owners.in_blocks(read, units, len(targets), zeroes=zeroes)
        (targets,) = owners.kept(targets)
        if not owners.present.all():
            check = replace(check, units=UnitsByPlace.of_present(owners.present, np.arange(len(targets)), np.ones(1)))
        X = RowsInBlocks(lambda: (block.rows for block in check.here(source)), len(targets), rows.shape[1])
        by_place = range(len(targets)) if owners.units is None else declared_units(owners.units, len(targets))
        records = PrivateRecords(X, targets, owners.units, cast("Sequence[Hashable]", by_place))
        return self.steps(self, records, classes, rows, fewest_units, diagnostics)


def _class_ids(blocks: Iterator[Block], n_classes: int) -> Integers:
    """Return each record's class. Bad records raise, or are marked, before anything is spent."""
    # One byte a record, as a rule.
    small = np.min_scalar_type(-n_classes)
    ids = [block.targets.astype(small) for block in blocks]
    n_records = sum(map(len, ids))
    if n_records < 2:
        raise DataError(f"the blocks hold {n_records} records, too few for private learning: give more.")
    return np.concatenate(ids).astype(np.int64)
