"""The base class of estimators whose teachers vote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from dpensemble._checks import member
from dpensemble.datasets.notes import warn_of_columns
from dpensemble.engine.classifier import ArrayClassifier
from dpensemble.engine.labelling import PrivateDiagnostics
from dpensemble.engine.planned import Planned
from dpensemble.engine.records import DeclaredBudgets, private_records
from dpensemble.engine.run import run
from dpensemble.engine.voting_steps import VotingSteps
from dpensemble.relations import Relation
from dpensemble.rows import arguments as inputs


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
            Account of the records in a `dpensemble.ledger.Ledger`. It is charged before noise is drawn, and may refuse.
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
        records, classes, owners = private_records(self, X, y, units, nan=nan, relation=relation)
        rows = inputs.public_rows(self, X_public, nan=nan)
        if budgets is not None:
            budgets = replace(budgets, values=owners.kept_values("budgets", budgets.values))
        return self.steps(self, records, classes, rows, fewest_units, diagnostics, budgets)
