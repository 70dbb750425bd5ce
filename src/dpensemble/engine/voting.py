"""The one estimator base: check, design, allocate, teach, label, train the student, state the guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression

from dpensemble._checks import integer_between, member
from dpensemble._drawn import drawn_together
from dpensemble._guard import guard_private_rows, on_public_rows
from dpensemble._progress import progress_bar
from dpensemble._random import NoiseSource, Stream, noise_source, public_entropy, seed_integer, seed_sequence
from dpensemble._spending import announce, listen
from dpensemble.accounting import Meter
from dpensemble.allocation import Allocation
from dpensemble.allocation.partition import number_units
from dpensemble.budget import Budget
from dpensemble.datasets.bad_records import BAD
from dpensemble.datasets.notes import warn_of_persons
from dpensemble.design import VotingDesign, with_least_error
from dpensemble.engine import guarantee_text, inputs
from dpensemble.engine.facts import Analysis, Facts
from dpensemble.engine.labelling import PrivateDiagnostics, Questions, Released, label_rows
from dpensemble.engine.labelling_interactive import label_interactively
from dpensemble.engine.on_arrays import ArrayClassifier
from dpensemble.engine.planned import Planned
from dpensemble.engine.records import DeclaredBudgets, PrivateRecords, ReleasedLabels
from dpensemble.engine.repeats import counted
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.relations import Basis, Relation
from dpensemble.student import Learner, default_student, published
from dpensemble.teachers import TeacherEnsemble


class VotingEnsembleClassifier(Planned, ArrayClassifier):
    """Template of all methods that vote: a subclass implements `_design`, and names its settings."""

    #: Whether `fit` takes budgets of records.
    takes_budgets: ClassVar[bool] = False
    #: How votes are analysed, for methods that offer no other.
    analysis: Any = Analysis.WORST_CASE

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

        Every call is a release of its own: the losses of several fits on the same records add up.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records; finite numbers, or NaN where both teacher and student take it, as trees do. Scale and
            encode with statistics of public rows only, as `dpensemble.datasets.TableEncoder` does.
        y : array-like of shape (n_records,)
            Private labels, all among ``classes``.
        X_public : array-like of shape (n_public, n_features)
            Public, unlabelled rows with the same columns.
        units : array-like of shape (n_records,), optional
            Whom each record belongs to; all records of one unit are protected together. By default every record is its
            own unit, identified by its position (replace-one) or by its content (add-or-remove-one).
        diagnostics : PrivateDiagnostics, optional
            Filled with statistics of the secret votes, which must not be published.
        ledger : LedgerAccount, optional
            Account of the records in a `dpensemble.ledger.Ledger`, which is charged before noise is drawn, and refuses.
        fewest_units : int, optional
            Public lower bound on the number of units (of records, without `units`), with which delta is compared under
            add-or-remove-one, where the number itself is private. By default delta is at most 0.01 then.
        **others
            Nothing: ``sample_weight`` is refused, and the reason given.

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
            If delta is not below 1 / n_units, the budget does not cover one label, or the ledger does not allow it.
        TeacherError
            If no teacher could be fitted.
        """
        inputs.refuse_others(others)
        with all_or_nothing(self, ledger, (X, y)):
            return self._fit(X, y, X_public, units, diagnostics, fewest_units=fewest_units)

    def _fit(
        self,
        X: Any,
        y: Any,
        X_public: Any,
        units: ArrayLike | None,
        diagnostics: PrivateDiagnostics | None,
        budgets: DeclaredBudgets | None = None,
        *,
        fewest_units: int | None = None,
    ) -> Self:
        if X_public is X:
            raise DataError("X_public is X itself; the public rows must be others than the private records.")
        if units is None:
            warn_of_persons(X_public)
        X, classes, targets = inputs.array_records(self, X, y, nan=self._takes_nan())
        rows = inputs.public_rows(self, X_public, nan=self._takes_nan())
        units, present = inputs.whose(self, units, len(targets))
        X, targets = inputs.having_unit(present, X, targets)
        if budgets is not None:
            budgets = replace(budgets, values=inputs.values_having_unit("budgets", budgets.values, present))
        inputs.require_workers(self.n_jobs)
        relation = member("relation", self.relation, Relation)
        identities = inputs.identities(X, targets, units, relation)
        records = PrivateRecords(X, targets, units, identities, fewest_units=fewest_units)
        return self._learn(records, classes, rows, diagnostics, budgets)

    def _learn(
        self,
        records: PrivateRecords,
        classes: NDArray[Any],
        rows: NDArray[np.float64],
        diagnostics: PrivateDiagnostics | None,
        budgets: DeclaredBudgets | None = None,
    ) -> Self:
        """Do all that follows once records and public rows are checked."""
        entropy, noise = public_entropy(self.random_state), noise_source(self.insecure_release_seed)
        relation = member("relation", self.relation, Relation)
        order = np.random.default_rng(seed_sequence(entropy, Stream.PUBLIC_ROWS)).permutation(len(rows))
        if self.max_labels is not None:
            order = order[: integer_between("max_labels", self.max_labels, 1)]

        seconds: dict[str, float] = {}
        with _timed(seconds, "accounting"), progress_bar("Pricing answers", None):
            design, allocation, meter = self._prepare(records, len(classes), relation, entropy, len(order), budgets)
        with _timed(seconds, "teachers"):
            ensemble, design = self._fit_teachers(design, meter, records, allocation, classes, entropy)
        if diagnostics is not None:
            diagnostics.clear(n_constant=ensemble.n_constant, n_failed=ensemble.n_failed)
        estimator = default_student() if self.student is None else self.student
        learner = Learner(estimator, rows, classes, seed_integer(entropy, Stream.STUDENT))
        # How far the loop gets is secret under a data-dependent basis, so this bar only moves.
        worst_case = meter.basis is Basis.WORST_CASE
        announce(design.groups, meter.renyi_costs, worst_case=worst_case, relation=relation)
        with _timed(seconds, "labels"), progress_bar("Labelling public rows", None):
            questions = Questions(ensemble.vote, rows, order, allocation.n_teachers)
            with drawn_together():
                released = _label(design, questions, meter, noise, diagnostics, learner)
        if not released.answered.size:
            raise BudgetError(
                "no query was answered, so there is nothing to learn from; lower the threshold, "
                "give more public rows or a larger epsilon."
            )
        labels = ReleasedLabels(released.answered, classes[released.labels], len(released.asked))
        with _timed(seconds, "student"), on_public_rows():
            student = learner.fit(released.lesson_rows, released.lesson_labels)

        names = getattr(self, "feature_names_in_", None)
        self.student_ = published(student, for_release=noise.for_release, names=names)
        self.classes_, self.labels_ = classes, labels
        self.design_, self.law_ = design, design.law
        self.guarantee_ = self._state(design, meter, allocation, noise.for_release, records.units is not None)
        with _timed(seconds, "accounting of the spend"), progress_bar("Adding up what was spent", None):
            self.spend_ = meter.spend_curve()
        self.seconds_ = seconds
        return self

    def _prepare(
        self,
        records: PrivateRecords,
        n_classes: int,
        relation: Relation,
        entropy: int,
        queries: int,
        budgets: DeclaredBudgets | None,  # noqa: ARG002
    ) -> tuple[VotingDesign, Allocation, Meter]:
        """Check every setting and the budget before anything is fitted."""
        facts = Facts(
            n_classes=n_classes,
            n_units=len(number_units(records.identities)[0]),
            relation=relation,
            entropy=entropy,
            has_units=records.units is not None,
            max_labels=self.max_labels,
        )
        return self._allocated(self._design(facts), records, facts, queries)

    def _allocated(
        self, design: VotingDesign, records: PrivateRecords, facts: Facts, queries: int
    ) -> tuple[VotingDesign, Allocation, Meter]:
        """Find the noise that is left open, allocate the records, and make the meter."""
        self._require_student(design)
        records.check_delta(Budget(epsilon=self.epsilon, delta=self.delta), facts.relation)
        analysis = member("analysis", self.analysis, Analysis)
        if analysis is Analysis.DATA_DEPENDENT and self.max_labels is None:
            raise InvalidParameterError(
                "a data-dependent analysis needs max_labels, a public number of labels; or, by name, "
                "analysis='until-spent', whose number of labels depends on secret votes and is not protected."
            )
        if analysis is not Analysis.WORST_CASE and design.law.needs_student:
            raise InvalidParameterError(
                f"analysis={analysis.value!r} is not for law={design.law.name!r}, whose answers also depend on the "
                "student; use 'worst-case'."
            )
        meter = None
        if analysis is Analysis.WORST_CASE:
            design, meter = self._settled(design, queries)
        # Draws that stay secret must not repeat the noise of the released labels.
        seed = self.insecure_release_seed
        source = noise_source(None if seed is None else seed_integer(seed, Stream.ALLOCATION))
        allocation = design.allocate(
            records.identities,
            relation=facts.relation,
            entropy=facts.entropy,
            source=source,
            group_of_record=records.group_of_record,
        )
        if meter is None:
            stop = analysis is Analysis.UNTIL_SPENT
            meter = design.data_dependent_meter(allocation, stop_when_spent=stop)
            meter.require_one_query()
        return design, allocation, meter

    def _settled(self, design: VotingDesign, queries: int) -> tuple[VotingDesign, Meter]:
        """Return the run whose noise uses up the whole budget, and its meter."""
        # Noise that is left open is the usual one, less where the questions would leave some of the budget, and more
        # where their number was asked for; under a gate never more, since questions that go unanswered cost little.
        wants_more = self.max_labels is not None and not design.gated
        if not (wants_more and design.choice.noise_is_open):
            meter = design.meter(queries)
            meter.require_one_query()
            if not design.choice.noise_is_open or meter.sure_queries < queries:
                return design, meter
        design = with_least_error(design, queries).design
        return design, design.meter(queries)

    def _require_student(self, design: VotingDesign) -> None:
        if design.law.needs_student and not hasattr(self.student or default_student(), "predict_proba"):
            raise InvalidParameterError(
                f"student={type(self.student).__name__} has no predict_proba, which law={design.law.name!r} needs; "
                "use logistic regression, naive Bayes, a tree or a forest."
            )

    def _fit_teachers(
        self,
        design: VotingDesign,
        meter: Meter,  # noqa: ARG002
        records: PrivateRecords,
        allocation: Allocation,
        classes: NDArray[Any],
        entropy: int,
    ) -> tuple[Any, VotingDesign]:
        """Return what votes, and the design, in which private teachers may know more of their privacy now."""
        taught = allocation.without(records.targets == BAD)
        ensemble = TeacherEnsemble(self._base_learner(), taught, classes, entropy=entropy, n_jobs=self.n_jobs)
        with progress_bar("Fitting teachers", allocation.n_teachers) as advance:
            return ensemble.fit(records.X, records.targets, advance), design

    def _base_learner(self) -> Any:
        """Return the ordinary classifier that teachers are clones of."""
        return LogisticRegression() if self.teacher is None else self.teacher

    def _state(
        self, design: VotingDesign, meter: Meter, allocation: Allocation, for_release: bool, has_units: bool
    ) -> Guarantee:
        """Return the guarantee; a data-dependent spend stays private behind the public budget."""
        worst_case = meter.basis is Basis.WORST_CASE
        return Guarantee(
            epsilon=meter.spent_epsilon if worst_case else meter.budget.epsilon,
            delta=meter.budget.delta,
            basis=meter.basis,
            relation=allocation.relation,
            unit="unit" if has_units else "record",
            accounting=meter.accounting,
            assumptions=(
                *guarantee_text.of_voting(allocation.relation, has_units, meter),
                *design.assumptions(allocation.relation, has_units),
            ),
            for_release=for_release,
            fixed_number=meter.fixed_number,
        )


def _label(
    design: VotingDesign,
    questions: Questions,
    meter: Meter,
    noise: NoiseSource,
    diagnostics: PrivateDiagnostics | None,
    learner: Learner,
) -> Released:
    """Ask the teachers; where the law compares with the student, the student learns on the way."""
    schedule, law = design.schedule, design.law
    if not law.needs_student:
        return label_rows(questions, schedule, meter, noise, diagnostics)
    return label_interactively(
        questions,
        schedule,
        meter,
        noise,
        diagnostics,
        learner,
        n_classes=len(learner.classes),
        batch_size=law.batch_size,  # type: ignore[attr-defined]
        confidence=law.student_confidence,  # type: ignore[attr-defined]
    )


@contextmanager
def all_or_nothing(estimator: Any, ledger: Any = None, records: tuple[Any, Any] | None = None) -> Iterator[None]:
    """Guard a fit: restore the estimator if the block fails, let a ledger pay, count fits, and quote no private row."""
    if ledger is not None and not hasattr(ledger, "one_release"):
        raise InvalidParameterError(
            f"ledger is a {type(ledger).__name__}, not the account of a data set; pass Ledger(...).account('NAME').",
            parameter="ledger",
        )
    with guard_private_rows(), nullcontext() if records is None else counted(estimator, *records):
        before = dict(vars(estimator))
        try:
            with listen(None if ledger is None else ledger.one_release(type(estimator).__name__)):
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
