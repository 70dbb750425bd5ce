"""The one estimator base: check, allocate, teach, label, train the student, state the guarantee."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._checks import declared_classes, integer_between, member
from dpensemble._progress import progress_bar
from dpensemble._random import NoiseSource, Stream, noise_source, public_entropy, seed_integer, seed_sequence
from dpensemble.accounting import Accounting, Meter, worst_case_meter
from dpensemble.allocation import Allocation, partitions
from dpensemble.budget import Budget
from dpensemble.electorate import Electorate
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.labelling import PrivateDiagnostics, Questions, Released, label_rows
from dpensemble.laws import LaplaceNoisyMax, OptimalVote, ReleaseLaw
from dpensemble.methods import inputs
from dpensemble.planning import default_scale, optimal_law
from dpensemble.relations import Basis, Relation
from dpensemble.student import Learner, class_probabilities, default_student
from dpensemble.teachers import TeacherEnsemble

_WORST_CASE = "worst-case"


class Vote(StrEnum):
    """How votes become a label, where the method is published with Laplace noise."""

    LAPLACE = "laplace"
    OPTIMAL = "optimal"


@dataclass(frozen=True, eq=False)
class ReleasedLabels:
    """The labels that were released, and the public rows that they belong to.

    Parameters
    ----------
    indices : ndarray of shape (n_labels,)
        Positions in ``X_public`` of the answered rows, in the order of asking.
    labels : ndarray of shape (n_labels,)
        Released label of each. Covered by the guarantee.
    n_asked : int
        Public rows that the teachers were asked about; more than were answered under a gate.
    """

    indices: NDArray[np.int64]
    labels: NDArray[Any]
    n_asked: int

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False, repr=False)
class PrivateRecords:
    """Checked private records and what is known about whose they are.

    Parameters
    ----------
    X : ndarray of shape (n_records, n_features)
        Features. Private.
    targets : ndarray of shape (n_records,)
        Class ids. Private.
    units, budgets : array-like of shape (n_records,) or None
        Unit, and budget or consent level, of each record. Public.
    """

    X: NDArray[np.float64]
    targets: NDArray[np.int64]
    units: ArrayLike | None
    budgets: ArrayLike | None

    def identities(self, relation: Relation) -> Sequence[Hashable]:
        """Return the unit of each record."""
        return inputs.identities(self.X, self.targets, self.units, relation)

    def check_delta(self, budget: Budget, allocation: Allocation) -> None:
        """Refuse a delta that would allow publishing one record or unit outright."""
        # By content, equal records are one unit; the number to beat is still that of records.
        n_units, noun = (len(self.X), "records") if self.units is None else (allocation.n_units, "units")
        budget.check_delta_for(n_units, noun)


class VotingEnsembleClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Template of all methods; a subclass picks a law and, where it has others, partitions and a meter.

    A subclass implements `_law`, may replace `_n_partitions`, `_meter` and
    `_label`, and repeats the settings in its own ``__init__`` to add some.
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        accounting: str = "exact",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "replace-one",
        max_labels: int | None = None,
        random_state: Any = None,
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
        progress: bool = False,
        private_diagnostics: bool = False,
    ) -> None:
        self.teacher = teacher
        self.student = student
        self.classes = classes
        self.n_teachers = n_teachers
        self.accounting = accounting
        self.epsilon = epsilon
        self.delta = delta
        self.relation = relation
        self.max_labels = max_labels
        self.random_state = random_state
        self.insecure_release_seed = insecure_release_seed
        self.n_jobs = n_jobs
        self.progress = progress
        self.private_diagnostics = private_diagnostics

    def _n_partitions(self) -> int:
        """Return the number of partitions."""
        return 1

    @abstractmethod
    def _law(self) -> ReleaseLaw:
        """Return the release law."""

    def _optimal_law(self, reach: float | None) -> OptimalVote:
        """Return the optimal vote; without a reach it spends the budget on `max_labels`, where they are given."""
        member("accounting", self.accounting, Accounting)
        if self.accounting == Accounting.PUBLISHED:
            raise InvalidParameterError(
                "accounting='published' has no price for the optimal vote, which no paper covers; use 'exact'."
            )
        n_classes = len(declared_classes(self.classes))
        budget = Budget(epsilon=self.epsilon, delta=self.delta)
        law_at = partial(optimal_law, self.n_teachers, self._n_partitions(), n_classes)
        analysis = str(getattr(self, "analysis", _WORST_CASE))
        if reach is None and self.max_labels is not None and analysis != _WORST_CASE:
            raise InvalidParameterError(
                f"reach=None is fitted to max_labels in the worst case only, and analysis={analysis!r} charges "
                f"for the votes at hand; give a reach, such as {law_at(None, None, budget).reach:.3g} votes."
            )
        return law_at(reach, self.max_labels, budget)

    def _laplace_or_optimal(self, vote: str, scale: float | None, reach: float | None) -> ReleaseLaw:
        """Return the law of a method that is published with Laplace noise."""
        optimal = member("vote", vote, Vote) is Vote.OPTIMAL
        foreign, name, own = (scale, "scale", "reach") if optimal else (reach, "reach", "scale")
        if foreign is not None:
            raise InvalidParameterError(f"{name}={foreign!r} is no setting of vote={vote!r}; give {own} instead.")
        if optimal:
            return self._optimal_law(reach)
        return LaplaceNoisyMax(default_scale(self.n_teachers, self._n_partitions()) if scale is None else scale)

    def _meter(self, law: Any, allocation: Allocation, budget: Budget, n_classes: int) -> Meter:
        """Return the meter that prices the law on the allocation; worst-case unless a method knows better."""
        return worst_case_meter(
            law,
            n_teachers=allocation.n_teachers,
            n_classes=n_classes,
            votes_per_unit=allocation.votes_per_unit,
            budget=budget,
            accounting=member("accounting", self.accounting, Accounting),
        )

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
    ) -> VotingEnsembleClassifier:
        """Fit teachers on private records, label public rows under the budget, and fit the student on those.

        Every call is a release of its own: the losses of several fits on the
        same records add up.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records; finite numbers. Scale and encode with statistics of
            public rows only.
        y : array-like of shape (n_records,)
            Private labels, all among ``classes``.
        X_public : array-like of shape (n_public, n_features)
            Public, unlabelled rows with the same columns.
        units : array-like of shape (n_records,), optional
            Whom each record belongs to; all records of one unit are protected
            together. By default every record is its own unit, identified by
            its position (replace-one) or by its content (add-or-remove-one).

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            If a setting is out of range, or there are more teachers than units.
        DataError
            If rows or labels cannot be used, or there are no public rows.
        BudgetError
            If delta is not below 1 / n_units, or the budget does not cover one label.
        TeacherError
            If no teacher could be fitted.
        """
        with all_or_nothing(self):
            return self._fit(X, y, X_public, units)

    def _fit(
        self, X: Any, y: Any, X_public: Any, units: ArrayLike | None, budgets: ArrayLike | None = None
    ) -> VotingEnsembleClassifier:
        if X_public is X:
            raise DataError("X_public is X itself; the public rows must be others than the private records.")
        X, y = inputs.private_rows(self, X, y)
        rows = inputs.public_rows(self, X_public)
        inputs.require_finite("X", X)
        classes, targets = inputs.class_ids(self, y)
        entropy = public_entropy(self.random_state)
        noise = noise_source(self.insecure_release_seed)
        records = PrivateRecords(X, targets, units, budgets)
        electorate, allocation, meter = self._prepare(records, len(classes), entropy)
        order = np.random.default_rng(seed_sequence(entropy, Stream.PUBLIC_ROWS)).permutation(len(rows))
        if self.max_labels is not None:
            order = order[: integer_between("max_labels", self.max_labels, 1)]

        seconds: dict[str, float] = {}
        with _timed(seconds, "teachers"):
            ensemble = self._fit_teachers(X, targets, allocation, classes, entropy)
        diagnostics = None
        if self.private_diagnostics:
            diagnostics = PrivateDiagnostics(n_constant=ensemble.n_constant, n_failed=ensemble.n_failed)
        estimator = default_student() if self.student is None else self.student
        learner = Learner(estimator, rows, classes, seed_integer(entropy, Stream.STUDENT))
        # How far the loop gets is private under a data-dependent basis, so this bar only moves.
        with _timed(seconds, "labels"), progress_bar("Labelling public rows", None, shown=self.progress):
            released = self._label(
                Questions(ensemble.vote, rows, order, allocation.n_teachers),
                electorate,
                meter,
                noise,
                diagnostics,
                learner,
            )
        if not released.answered.size:
            raise BudgetError(
                "no query was answered, so there is nothing to learn from; lower the threshold, "
                "give more public rows or a larger epsilon."
            )
        labels = ReleasedLabels(released.answered, classes[released.labels], len(released.asked))
        with _timed(seconds, "student"):
            student = learner.fit(released.lesson_rows, released.lesson_labels)

        self.classes_, self.labels_, self.student_ = classes, labels, student
        self.law_, self.votes_per_unit_ = self._law(), self._votes_per_unit(allocation)
        self.query_cost_ = meter.one_query if meter.additive else None
        self.conversion_ = meter.conversion
        self.public_spend_ = meter.public_spend
        self.guarantee_ = self._state(meter, allocation, noise.for_release, units is not None)
        self.seconds_, self.private_diagnostics_ = seconds, diagnostics
        return self

    def _label(
        self,
        questions: Questions,
        electorate: Electorate,
        meter: Meter,
        noise: NoiseSource,
        diagnostics: PrivateDiagnostics | None,
        learner: Learner,  # noqa: ARG002
    ) -> Released:
        """Ask the teachers; a method may let the student learn on the way."""
        return label_rows(questions, electorate, meter, noise, diagnostics)

    def _prepare(
        self, records: PrivateRecords, n_classes: int, entropy: int
    ) -> tuple[Electorate, Allocation, Meter]:
        """Check every setting and the budget before anything is fitted."""
        return self._one_budget(records, Budget(epsilon=self.epsilon, delta=self.delta), n_classes, entropy)

    def _one_budget(
        self, records: PrivateRecords, budget: Budget, n_classes: int, entropy: int
    ) -> tuple[Electorate, Allocation, Meter]:
        """Let every teacher vote on every query, and charge all records alike."""
        relation, law = self._relation(), self._law()
        law.mixing_weight(n_classes)
        allocation = partitions(
            records.identities(relation),
            self.n_teachers,
            self._n_partitions(),
            relation=relation,
            entropy=entropy,
        )
        records.check_delta(budget, allocation)
        meter = self._meter(law, allocation, budget, n_classes)
        meter.require_one_query()
        return Electorate.everyone(law, allocation.n_teachers), allocation, meter

    def _relation(self) -> Relation:
        """Return the neighbouring relation, with the settings checked that every method has."""
        inputs.require_workers(self.n_jobs)
        return member("relation", self.relation, Relation)

    def _votes_per_unit(self, allocation: Allocation) -> int:
        """Return the most ballots that a unit can change; public."""
        return allocation.votes_per_unit

    def _fit_teachers(
        self,
        X: NDArray[np.float64],
        targets: NDArray[np.int64],
        allocation: Allocation,
        classes: NDArray[Any],
        entropy: int,
    ) -> TeacherEnsemble:
        teacher = LogisticRegression() if self.teacher is None else self.teacher
        ensemble = TeacherEnsemble(teacher, allocation, classes, entropy=entropy, n_jobs=self.n_jobs)
        with progress_bar("Fitting teachers", allocation.n_teachers, shown=self.progress) as advance:
            return ensemble.fit(X, targets, advance)

    def _state(self, meter: Meter, allocation: Allocation, for_release: bool, has_units: bool) -> Guarantee:
        """Return the guarantee; a data-dependent spend stays private behind the public budget."""
        worst_case = meter.basis is Basis.WORST_CASE
        return Guarantee(
            epsilon=meter.spent_epsilon if worst_case else meter.budget.epsilon,
            delta=meter.budget.delta,
            basis=meter.basis,
            relation=allocation.relation,
            unit="unit" if has_units else "record",
            accounting=meter.accounting,
            assumptions=self._assumptions(allocation, has_units, meter),
            for_release=for_release,
            fixed_number=meter.fixed_number,
        )

    @staticmethod
    def _assumptions(allocation: Allocation, has_units: bool, meter: Meter) -> tuple[str, ...]:
        found = []
        if has_units:
            found.append(UNITS_TOGETHER)
            if allocation.relation is Relation.REPLACE_ONE:
                found.append(_UNIT_ORDER)
        found += [_RELEASE if meter.fixed_number else _RELEASE_TELLS_NUMBER, *_COMMON_ASSUMPTIONS]
        return tuple(found)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the student's label for each row; costs no privacy.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels among ``classes_``.
        """
        check_is_fitted(self)
        labels: NDArray[Any] = self.student_.predict(validate_data(self, X, dtype=np.float64, reset=False))
        return labels

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the student's class probabilities for each row; costs no privacy.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return class_probabilities(self.student_, rows, self.classes_)


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Put an estimator's attributes back if the block fails, so that no fit mixes with an earlier one."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    start = perf_counter()
    yield
    seconds[stage] = perf_counter() - start


UNITS_TOGETHER = (
    "A unit is all records that share a value of the unit column, for example those of one person; "
    "they are protected together."
)
_UNIT_ORDER = "Neighbouring data sets list their units in the same order, each by its first record."
_RELEASE = (
    "Only the released labels and what is computed from them (the student) leave the house; teachers and "
    "votes stay secret."
)
_RELEASE_TELLS_NUMBER = (
    "Whoever sees the released labels, or a student that betrays how many there were, sees a number that is not "
    "protected; teachers and votes stay secret."
)
_COMMON_ASSUMPTIONS = (
    "Public rows, declared classes, settings and seeds do not depend on the private records.",
    "That a run completed, or was refused, is not covered.",
    "This covers one training run; the losses of further runs on the same records add to it.",
)
