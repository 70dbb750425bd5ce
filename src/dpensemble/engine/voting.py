"""The base classes of estimators whose teachers vote: on records in memory, in blocks, and with budgets of groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dpensemble._checks import member, real_between, shown
from dpensemble._entries import Integers
from dpensemble.allocation.budget_groups import PersonalBudgets, personal_budgets
from dpensemble.allocation.partition import declared_units, number_units
from dpensemble.datasets.public_facts import warn_of_columns
from dpensemble.design import Census, InfluenceRule
from dpensemble.engine import classifier
from dpensemble.engine.classifier import ArrayClassifier
from dpensemble.engine.planned import Facts, Planned, store_params
from dpensemble.engine.records import DeclaredBudgets, TeacherRecords, teacher_records
from dpensemble.engine.run import compared_once, run
from dpensemble.engine.voting_steps import PrivateDiagnostics, VotingSteps
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.guarantee import GroupGuarantee, Guarantee
from dpensemble.laws import ReleaseLaw
from dpensemble.relations import Basis, Relation
from dpensemble.rows import arguments as inputs
from dpensemble.rows.arguments import Owners, one_per_record, sorted_classes, zeroes_bad
from dpensemble.rows.checked import CheckedBlock, NumberForm, RowCheck
from dpensemble.rows.passes import RecordsInOrder
from dpensemble.rows.source import BlockSource, Read
from dpensemble.teachers.ensemble import RowsInBlocks


class VotingEnsembleClassifier(Planned, ArrayClassifier):
    """Template of all methods that vote. A subclass implements `_design`, and names its settings."""

    votes: ClassVar[bool] = True
    #: The steps of the run.
    steps: ClassVar[type[VotingSteps]] = VotingSteps

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        diagnostics: PrivateDiagnostics | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
        **others: Any,
    ) -> Self:
        """Fit teachers on private records, label public rows under the budget, and fit the student on those.

        Every call is a separate release: the losses of several fits on the same records add up.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records: finite numbers, or NaN if both teacher and student accept it, as trees do. Scale and
            encode with statistics of public rows only, as `dpensemble.datasets.TableEncoder` does.
        y : array-like of shape (n_records,)
            Private labels, all among ``classes``.
        X_public : array-like of shape (n_public, n_features)
            Public, unlabelled rows with the same columns.
        units : array-like of shape (n_records,), optional
            Owner of each record. All records of one unit are protected together. By default every record is its
            own unit, identified by its position (replace-one) or by its content (add-or-remove-one).
        diagnostics : PrivateDiagnostics, optional
            Filled with statistics of the secret votes, which must not be published.
        ledger : LedgerAccount, optional
            Account of the records in a `dpensemble.server.Ledger`. It is charged before noise is drawn, and may refuse.
        fewest_units : int, optional
            Public lower bound on the number of units (of records, without `units`). Delta is compared with it under
            add-or-remove-one, in which the number itself is private. Without it, delta is at most 0.01 then.
        **others
            Not supported. ``sample_weight`` raises an error with the reason.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            If a setting is out of range, or if there are more teachers than units.
        DataError
            If rows or labels cannot be used, or public rows are missing.
        BudgetError
            If delta is not below 1 / n_units, the budget does not cover one label, or the ledger does not allow it.
        TeacherError
            If no teacher could be fitted.
        """
        inputs.refuse_others(others)
        arguments = (X, y, X_public, units, fewest_units, diagnostics)
        return run(self, lambda: self._checked(*arguments), ledger=ledger, records=(X, y, X_public))

    def _checked(
        self,
        X: Any,
        y: Any,
        X_public: Any,
        units: ArrayLike | None,
        fewest_units: int | None,
        diagnostics: PrivateDiagnostics | None,
        budgets: DeclaredBudgets | None = None,
    ) -> VotingSteps:
        """Check the arguments of `fit`, and return the steps of the run."""
        inputs.require_others(X, X_public)
        warn_of_columns(X_public, has_unit=units is not None)
        relation, nan = member("relation", self.relation, Relation), self._takes_nan()
        given = {"nan": nan, "relation": relation, "public": X_public}
        records, classes, owners = teacher_records(self, X, y, units, **given)
        rows = inputs.public_rows(self, X_public, nan=nan)
        if budgets is not None:
            budgets = replace(budgets, values=owners.kept_values("budgets", budgets.values))
        return self.steps(self, records, classes, rows, fewest_units, diagnostics, budgets)


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
            As for `fit`, and if a later pass has other records, or the same ones in another order.
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
        check = RowCheck(NumberForm(self._takes_nan(), self), classes, zeroes)
        passes = RecordsInOrder(BlockSource(read), check)
        targets = _class_ids(passes.blocks(), len(classes))
        owners = Owners.in_blocks(read, units, len(targets), zeroes=zeroes)
        (targets,) = owners.kept(targets)
        X = RowsInBlocks(lambda: passes.rows(owners.present), len(targets), rows.shape[1])
        by_place = range(len(targets)) if owners.units is None else declared_units(owners.units, len(targets))
        records = TeacherRecords(X, targets, owners.units, cast("Sequence[Hashable]", by_place))
        return self.steps(self, records, classes, rows, fewest_units, diagnostics)


def _class_ids(blocks: Iterator[CheckedBlock], n_classes: int) -> Integers:
    """Return each record's class. Bad records raise, or are marked, before anything is spent."""
    # One byte a record, as a rule.
    small = np.min_scalar_type(-n_classes)
    ids = [block.targets.astype(small) for block in blocks]
    n_records = sum(map(len, ids))
    if n_records < 2:
        raise DataError(f"the blocks hold {n_records} records, too few for private learning: give more.")
    return np.concatenate(ids).astype(np.int64)


class _GroupSteps(VotingSteps):
    """A vote in which groups of records have their own budgets. Without budgets, it is an ordinary vote."""

    def facts(self) -> Facts:
        """Return public facts, with the groups by their public shares."""
        if self.budgets is None:
            return super().facts()
        personal = self._personal_budgets(self.budgets)
        identities = _identities(self.records, personal, self.relation)
        self.records = replace(self.records, identities=identities, group_of_record=personal.group_of_record)
        census = _census(personal, identities, self.budgets)
        return replace(super().facts(), n_units=None, census=census)

    def _personal_budgets(self, budgets: DeclaredBudgets) -> PersonalBudgets:
        values, shares = one_per_record("budgets", budgets.values, len(self.records.X)), budgets.group_shares
        if shares is not None and not (isinstance(shares, Mapping) and shares):
            raise InvalidParameterError(
                f"group_shares must map budgets to shares, e.g. {{'low': 0.8, 'high': 0.2}}; got {shown(shares)}."
            )
        if shares is None and self.relation is Relation.ADD_OR_REMOVE_ONE:
            raise InvalidParameterError(
                "relation='add-or-remove-one' requires group_shares, the public share of each budget among records, "
                "because shares that are read from the records would change when one is added: give group_shares."
            )
        return personal_budgets(values, delta=self.method._budget().delta, levels=budgets.levels, declared=shares)

    def guarantee(self) -> Guarantee:
        """Return the guarantee, with a separate one for each group."""
        stated = super().guarantee()
        if self.budgets is None:
            return stated
        worst_case = self.meter.basis is Basis.WORST_CASE
        groups = tuple(
            GroupGuarantee(
                name=group.name, epsilon=epsilon if worst_case else group.budget.epsilon, budget=group.budget.epsilon
            )
            for group, epsilon in zip(self.design.groups, self.meter.group_epsilons, strict=True)
        )
        membership = classifier.MEMBERSHIP[self.allocation.relation]
        return replace(stated, groups=groups, assumptions=(*stated.assumptions, membership))


class PersonalisedPATEClassifier(VotingEnsembleClassifier):
    """Template of the personalised variants. A subclass names its kind. Parameters: see `WeightingPATEClassifier`."""

    takes_budgets: ClassVar[bool] = True
    steps: ClassVar[type[VotingSteps]] = _GroupSteps

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        law: ReleaseLaw | str = "gnmax",
        rule: InfluenceRule | str = "solved",
        analysis: str = "worst-case",
        accounting: str = "exact",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "replace-one",
        max_labels: int | None = None,
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        store_params(self, locals())

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        budgets: ArrayLike | None = None,
        levels: Mapping[Any, float] | None = None,
        group_shares: Mapping[Any, float] | None = None,
        diagnostics: PrivateDiagnostics | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
        **others: Any,
    ) -> VotingEnsembleClassifier:
        """Fit teachers on private records, label public rows within everybody's budget, and fit the student.

        Parameters
        ----------
        X, y, X_public, units, diagnostics, ledger, fewest_units, **others
            As for `PATEClassifier.fit`.
        budgets : array-like of shape (n_records,), optional
            Epsilon of each record, or the name of its consent level if `levels` is given. All records of a unit have
            the same one. Assumed to be public. By default every record has `epsilon`.
        levels : mapping, optional
            Epsilon of each consent level, such as ``{"low": 2.0, "medium": 1.0, "high": 0.5}``.
        group_shares : mapping, optional
            Public share of the records with each epsilon (or level). By default read from the records. Replacing
            a record by another of its group does not change it, but under add-or-remove-one it must be given.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError, DataError, BudgetError, TeacherError
            As for `PATEClassifier.fit`, and if a group is too small for a teacher, or a record's budget is missing.
        """
        inputs.refuse_others(others)
        declared = None
        if budgets is not None:
            declared = DeclaredBudgets(budgets, levels, group_shares)
        elif levels is not None or group_shares is not None:
            raise InvalidParameterError(
                "levels and group_shares define what budgets mean, but fit got no budgets: pass budgets=, one for each "
                "record."
            )
        arguments = (X, y, X_public, units, fewest_units, diagnostics, declared)
        return run(self, lambda: self._checked(*arguments), ledger=ledger, records=(X, y, X_public))


def _identities(records: TeacherRecords, personal: PersonalBudgets, relation: Relation) -> Sequence[Hashable]:
    """Return the unit of each record. Equal records of different groups are different units."""
    if records.units is not None or relation is Relation.REPLACE_ONE or personal.n_groups == 1:
        return records.identities
    groups = personal.group_of_record.tolist()
    return [repr((identity, group)) for identity, group in zip(records.identities, groups, strict=True)]


def _census(personal: PersonalBudgets, identities: Sequence[Hashable], budgets: DeclaredBudgets) -> Census:
    """Return the groups by their public shares: declared shares, or shares of units."""
    if budgets.group_shares is None:
        groups = personal.group_of_unit(number_units(identities)[1])
        shares = np.bincount(groups, minlength=personal.n_groups).astype(np.float64)
    else:
        shares = _declared_shares(budgets.group_shares, personal, budgets.levels)
    return Census(names=personal.names, budgets=personal.budgets, shares=tuple(shares.tolist()))


def _declared_shares(
    shares: Mapping[Any, float], personal: PersonalBudgets, levels: Mapping[Any, float] | None
) -> NDArray[np.float64]:
    """Return the declared share of each group. Levels with the same epsilon are added up."""
    totals = np.zeros(personal.n_groups)
    for key, share in shares.items():
        epsilon = float(key if levels is None else levels[key])
        totals[int(np.searchsorted(personal.epsilons, epsilon))] += real_between(
            f"group_shares[{key!r}]", share, 1e-9, 1e12
        )
    return totals
