"""Teachers that vote on public rows: the run from records to the student, and the base classes of its estimators.

There is one labelling loop: vote, charge, release. In the interactive loop, teachers are asked where they seem to
contradict the student, which learns meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dpensemble._checks import member
from dpensemble._entries import Floats, Integers
from dpensemble._random import NoiseSource, Stream, noise_source, seed_integer
from dpensemble._spending import drawn_once, drawn_together
from dpensemble._units import declared_units, number_units
from dpensemble._work import progress_bar
from dpensemble.accounting import Meter
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.allocation import Allocation
from dpensemble.datasets.public_facts import warn_of_columns
from dpensemble.design import VotingDesign, with_least_error
from dpensemble.engine import classifier
from dpensemble.engine.classifier import ArrayClassifier
from dpensemble.engine.planned import Analysis, Facts, Planned
from dpensemble.engine.records import DeclaredBudgets, ReleasedLabels, TeacherRecords, teacher_records
from dpensemble.engine.result import LABELS, Result
from dpensemble.engine.run import Steps, compared_once, run
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.laws import sample
from dpensemble.relations import Basis, Relation
from dpensemble.rows import arguments as inputs
from dpensemble.rows.arguments import BAD, Owners, sorted_classes, zeroes_bad
from dpensemble.rows.checked import CheckedBlock, NumberForm, RowCheck
from dpensemble.rows.passes import RecordsInOrder
from dpensemble.rows.source import BlockSource, Read
from dpensemble.student import Learner, default_student, publishable
from dpensemble.teachers import TeacherEnsemble
from dpensemble.teachers.ensemble import RowsInBlocks
from dpensemble.votes import Votes

# Number of ballots in memory at once.
_CHUNK_BYTES = 100_000_000
_DIAGNOSTIC_CHUNKS = 40


@dataclass(eq=False, repr=False)
class PrivateDiagnostics:
    """Statistics of the secret votes on the answered queries. Never publish them.

    A margin is the winner's share of votes minus the runner-up's. `spend` contains numbers of queries, and the epsilon
    charged for them. `group_spent` is the epsilon of each group of records. Constant teachers always vote for one
    class, and the fit of failed teachers raised. Without `votes` only teachers are counted, since margins and spend
    take time.
    """

    margins: list[float] = field(default_factory=list)
    spend: list[tuple[int, float]] = field(default_factory=list)
    n_constant: int = 0
    n_failed: int = 0
    group_spent: list[float] = field(default_factory=list)
    votes: bool = True

    def clear(self, n_constant: int, n_failed: int) -> None:
        """Clear the statistics, for other teachers."""
        self.margins, self.spend, self.group_spent = [], [], []
        self.n_constant, self.n_failed = n_constant, n_failed


@dataclass(frozen=True, eq=False, repr=False)
class Questions:
    """Public rows to query, in order, and the teachers that answer."""

    vote: Callable[[NDArray[np.float64]], Votes]
    rows: NDArray[np.float64]
    # Indices. Their number limits the number of queries.
    order: NDArray[np.int64]
    n_teachers: int


@dataclass(frozen=True, eq=False)
class _ReleasedAnswers:
    """The released answers of the teachers."""

    # Public rows in order, and the class id of each, or -1 for no answer.
    asked: NDArray[np.int64]
    outcomes: NDArray[np.int64]
    # Public rows that the student labelled itself, and their class ids.
    reinforced: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    own_labels: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def answered(self) -> NDArray[np.int64]:
        """Public rows with a label."""
        return self.asked[self.outcomes >= 0]

    @property
    def labels(self) -> NDArray[np.int64]:
        """Released class ids of the rows with a label."""
        return self.outcomes[self.outcomes >= 0]

    @property
    def lesson_rows(self) -> NDArray[np.int64]:
        """Public rows that the student learns from."""
        return np.concatenate([self.answered, self.reinforced])

    @property
    def lesson_labels(self) -> NDArray[np.int64]:
        """Class ids that the student learns."""
        return np.concatenate([self.labels, self.own_labels])


# How often votes of a chunk, parameters of teachers, private rows and public rows are in memory at once.
_VOTES, _PARAMETERS, _COPIES = 4, 6, 3


def bytes_of_votes(n_queries: int, n_teachers: int, public: tuple[int, ...], n_classes: int, n_records: int) -> int:
    """Return about how many bytes a run of votes needs. `public` is the shape of public rows."""
    n_public, n_features = public
    votes = _VOTES * min(n_queries * n_teachers, _CHUNK_BYTES)
    parameters = _PARAMETERS * 8 * n_teachers * (n_features + 1) * (1 if n_classes == 2 else n_classes)
    return votes + parameters + _COPIES * 8 * (n_records + n_public) * n_features


def label_rows(
    questions: Questions,
    schedule: VotingSchedule,
    meter: Meter,
    noise: NoiseSource,
    diagnostics: PrivateDiagnostics | None = None,
) -> _ReleasedAnswers:
    """Answer public rows in a public order for as long as the meter admits them. Each draw is charged beforehand."""
    largest = _largest_chunk(questions, meter, diagnostics)
    order = questions.order[: meter.most_queries]
    outcomes: list[NDArray[np.int64]] = []
    n_asked = 0
    while n_asked < len(order):
        size = schedule.left_in_stage(n_asked, min(largest, max(meter.next_chunk(n_asked), 1)))
        if not size:
            break
        chunk = order[n_asked : n_asked + size]
        answers = _answer_chunk(questions, chunk, schedule, meter, noise, diagnostics, n_asked)
        outcomes.append(answers)
        n_asked += len(answers)
        if len(answers) < len(chunk):
            break
    return _ReleasedAnswers(order[:n_asked], np.concatenate(outcomes) if outcomes else np.empty(0, dtype=np.int64))


def _answer_chunk(
    questions: Questions,
    chunk: NDArray[np.int64],
    schedule: VotingSchedule,
    meter: Meter,
    noise: NoiseSource,
    diagnostics: PrivateDiagnostics | None,
    n_asked: int,
    expected: NDArray[np.float64] | None = None,
) -> NDArray[np.int64]:
    """Charge for and answer the leading queries of a chunk that fit. Return class ids, or -1 for no answer."""
    votes = questions.vote(questions.rows[chunk])
    admitted = meter.admit(votes)
    counts = schedule.counts(votes, n_asked)[:admitted]
    law = schedule.law(n_asked)
    # The student's expectations are public.
    if law.needs_student and expected is not None:
        law = law.against(expected[:admitted])  # type: ignore[attr-defined]
    outcomes = drawn_once("answers", lambda: sample(law, counts, noise), seeded=not noise.for_release)
    meter.settle(outcomes, votes.n_classes)
    if diagnostics is not None and diagnostics.votes:
        _note_margins_and_spend(diagnostics, counts, n_asked + admitted, meter)
    return np.where(outcomes < votes.n_classes, outcomes, -1)


def _largest_chunk(questions: Questions, meter: Meter, diagnostics: PrivateDiagnostics | None) -> int:
    largest = max(1, _CHUNK_BYTES // questions.n_teachers)
    if diagnostics is not None and diagnostics.votes:
        largest = min(largest, max(1, meter.sure_queries // _DIAGNOSTIC_CHUNKS))
    return largest


def _note_margins_and_spend(
    diagnostics: PrivateDiagnostics, counts: NDArray[np.int64], n_asked: int, meter: Meter
) -> None:
    top = np.sort(counts, axis=1)[:, -2:]
    diagnostics.margins.extend(((top[:, 1] - top[:, 0]) / counts.sum(axis=1)).tolist())
    diagnostics.spend.append((n_asked, meter.charged_epsilon))
    diagnostics.group_spent[:] = meter.group_epsilons


def _label_interactively(
    questions: Questions,
    schedule: VotingSchedule,
    meter: Meter,
    noise: NoiseSource,
    diagnostics: PrivateDiagnostics | None,
    learner: Learner,
    *,
    n_classes: int,
    batch_size: int,
    confidence: float,
) -> _ReleasedAnswers:
    """Query in batches, each with a student of all labels so far (Papernot et al. 2018, Algorithm 2)."""
    order = questions.order
    released = _ReleasedAnswers(order[:0], np.empty(0, dtype=np.int64))
    while len(released.asked) < len(order):
        n_asked = len(released.asked)
        size = schedule.left_in_stage(n_asked, min(batch_size, max(meter.next_chunk(n_asked), 1)))
        if not size:
            break
        batch = order[n_asked : n_asked + size]
        student = learner.fit(released.lesson_rows, released.lesson_labels) if released.answered.size else None
        # Without a student nothing is expected, and the threshold is on the highest count.
        expected = np.zeros((len(batch), n_classes)) if student is None else learner.probabilities(student, batch)
        outcomes = _answer_chunk(questions, batch, schedule, meter, noise, diagnostics, n_asked, expected)
        admitted = batch[: len(outcomes)]
        # If the threshold is not passed, the student's confident predictions become lessons, which cost nothing.
        sure = (outcomes < 0) & (expected[: len(outcomes)].max(axis=1, initial=0) >= confidence)
        released = _ReleasedAnswers(
            order[: n_asked + len(outcomes)],
            np.concatenate([released.outcomes, outcomes]),
            np.concatenate([released.reinforced, admitted[sure]]),
            np.concatenate([released.own_labels, expected[: len(outcomes)][sure].argmax(axis=1)]),
        )
        if len(outcomes) < len(batch):
            break
    return released


class VotingSteps(Steps):
    """The steps of every method that votes. A method with its own teachers or groups has a subclass."""

    stage: ClassVar[tuple[str, str]] = ("labels", "Labelling public rows")
    design: VotingDesign
    meter: Meter
    allocation: Allocation
    #: The voters, made by `teach`.
    voters: Any
    labels: ReleasedLabels
    _released: _ReleasedAnswers

    def __init__(
        self,
        method: Any,
        records: TeacherRecords,
        classes: NDArray[Any],
        rows: Floats,
        fewest_units: int | None = None,
        diagnostics: PrivateDiagnostics | None = None,
        budgets: DeclaredBudgets | None = None,
    ) -> None:
        super().__init__(method)
        self.records, self.classes, self.rows = records, classes, rows
        self.fewest_units, self.diagnostics, self.budgets = fewest_units, diagnostics, budgets
        self._order = self.order(len(rows), method.max_labels)

    def facts(self) -> Facts:
        """Return the public facts that the design may depend on."""
        return Facts(
            n_classes=len(self.classes),
            budget=self.budget,
            n_units=len(number_units(self.records.identities)[0]),
            relation=self.relation,
            entropy=self.entropy,
            has_units=self.records.units is not None,
            max_labels=self.method.max_labels,
        )

    def prepare(self) -> None:
        """Find delta and the noise if they are not set, allocate the records, and make the meter."""
        self.find_budget(self.records.counted, self.fewest_units, has_units=self.records.units is not None)
        with progress_bar("Pricing answers", None):
            self._choose_noise_and_allocate()
        student = default_student() if self.method.student is None else self.method.student
        self._learner = Learner(student, self.rows, self.classes, seed_integer(self.entropy, Stream.STUDENT))

    def memory(self) -> int:
        """Return about how many bytes logistic teachers, their votes and the student need. Other teachers vary."""
        n_records = self.records.public_number(self.relation)
        return bytes_of_votes(
            len(self._order), self.allocation.n_teachers, self.rows.shape, len(self.classes), n_records
        )

    def _choose_noise_and_allocate(self) -> None:
        self.design = self.method._design(self.facts())
        analysis = self.checked_analysis()
        meter = self._use_whole_budget() if analysis is Analysis.WORST_CASE else None
        # Secret draws must not repeat the noise of the released labels.
        self.allocation = self.design.allocate(
            self.records.identities,
            relation=self.relation,
            entropy=self.entropy,
            source=self.secret_source(Stream.ALLOCATION),
            group_of_record=self.records.group_of_record,
        )
        if meter is None:
            stop = analysis is Analysis.UNTIL_SPENT
            meter = self.design.data_dependent_meter(self.allocation, stop_when_spent=stop)
            meter.require_one_query()
        self.meter = meter

    def checked_analysis(self) -> Analysis:
        """Raise for settings that contradict the design or the records, and return the analysis."""
        law, student, method = self.design.law, self.method.student, self.method
        if law.needs_student and not hasattr(student or default_student(), "predict_proba"):
            raise InvalidParameterError(
                f"student={type(student).__name__} has no predict_proba, which law={law.name!r} requires: "
                "use logistic regression, naive Bayes, a tree or a forest."
            )
        analysis = Analysis.of(method.analysis)
        if analysis is Analysis.DATA_DEPENDENT and method.max_labels is None:
            raise InvalidParameterError(
                "a data-dependent analysis requires max_labels, a public number of labels: give it, or choose "
                "analysis='until-spent', whose number of labels depends on secret votes and is not protected."
            )
        if analysis is not Analysis.WORST_CASE and law.needs_student:
            raise InvalidParameterError(
                f"analysis={analysis.value!r} cannot be used with law={law.name!r}, whose answers also depend on the "
                "student: use 'worst-case'."
            )
        return analysis

    def _use_whole_budget(self) -> Meter:
        """Find the noise that uses up the whole budget, and return the meter."""
        # Noise that is not set is the usual noise. It is lower if the queries would leave some of the budget, and
        # higher if their number was requested. Under a gate it is never higher, since unanswered queries cost little.
        design, queries = self.design, len(self._order)
        wants_more = self.method.max_labels is not None and not design.gated
        if not (wants_more and design.choice.noise_is_open):
            meter = design.meter(queries)
            meter.require_one_query()
            if not design.choice.noise_is_open or meter.sure_queries < queries:
                return meter
        self.design = with_least_error(design, queries).design
        return self.design.meter(queries)

    def secret_source(self, stream: Stream) -> Any:
        """Return a source of secret draws that never repeat the noise of released labels."""
        seed = self.method.insecure_release_seed
        return noise_source(None if seed is None else seed_integer(seed, stream))

    def teach(self) -> None:
        """Fit the teachers on their records."""
        taught = self.allocation.without(self.records.targets == BAD)
        ensemble = TeacherEnsemble(
            self.base_learner(), taught, self.classes, entropy=self.teaching_entropy(), n_jobs=self.method.n_jobs
        )
        with progress_bar("Fitting teachers", self.allocation.n_teachers) as advance:
            self.voters = ensemble.fit(self.records.X, self.records.targets, advance)

    def base_learner(self) -> Any:
        """Return the ordinary classifier that is cloned for each teacher."""
        return self.default_teacher if self.method.teacher is None else self.method.teacher

    def teaching_entropy(self) -> int:
        """Return the seed of ordinary teachers. It is public unless a method overrides this."""
        return self.entropy

    def charge_and_release(self, advance: Callable[[float], None]) -> None:  # noqa: ARG002
        """Query the teachers about public rows for as long as the budget lasts."""
        # Under a data-dependent basis the progress of the loop is secret, so its bar shows no fraction.
        if self.diagnostics is not None:
            self.diagnostics.clear(n_constant=self.voters.n_constant, n_failed=self.voters.n_failed)
        with drawn_together():
            self._released = self._label(
                Questions(self.voters.vote, self.rows, self._order, self.allocation.n_teachers)
            )
        if not self._released.answered.size:
            raise BudgetError(
                "no query was answered, so there is nothing to learn from: lower the threshold, "
                "give more public rows or a larger epsilon."
            )
        labels = self.classes[self._released.labels]
        self.labels = ReleasedLabels(self._released.answered, labels, len(self._released.asked))

    def _label(self, questions: Questions) -> _ReleasedAnswers:
        """Query the teachers. If the law compares with the student, the student learns meanwhile."""
        schedule, law = self.design.schedule, self.design.law
        if not law.needs_student:
            return label_rows(questions, schedule, self.meter, self.noise, self.diagnostics)
        return _label_interactively(
            questions,
            schedule,
            self.meter,
            self.noise,
            self.diagnostics,
            self._learner,
            n_classes=len(self.classes),
            batch_size=law.batch_size,  # type: ignore[attr-defined]
            confidence=law.student_confidence,  # type: ignore[attr-defined]
        )

    def make_student(self) -> Any:
        """Train the student on the released labels."""
        student = self._learner.fit(self._released.lesson_rows, self._released.lesson_labels)
        return publishable(student, for_release=self.noise.for_release, names=self.method.column_names)

    def make_result(self, student: Any) -> Result:
        """Return the result of the run."""
        return Result(
            design=self.design,
            classes=self.classes,
            guarantee=self.guarantee(),
            student=student,
            labels=self.labels,
            releases=LABELS,
            n_features=self.method.n_features_in_,
        )

    def spend_curve(self) -> Any:
        """Return the epsilon of each group by number of labels, or None if that is secret."""
        with progress_bar("Adding up what was spent", None):
            return super().spend_curve()

    def guarantee(self) -> Guarantee:
        """Return the guarantee. A data-dependent spend stays private: the guarantee states the public budget."""
        meter, has_units = self.meter, self.records.units is not None
        return Guarantee(
            epsilon=meter.spent_epsilon if meter.basis is Basis.WORST_CASE else meter.budget.epsilon,
            delta=meter.budget.delta,
            basis=meter.basis,
            relation=self.allocation.relation,
            unit="unit" if has_units else "record",
            accounting=meter.accounting,
            assumptions=(
                *classifier.texts_of_voting(self.allocation.relation, has_units, meter),
                *self.design.assumptions(self.allocation.relation, has_units),
            ),
            for_release=self.noise.for_release,
            fixed_number=meter.fixed_number,
        )


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
            add-or-remove-one, in which the number itself is private, and follows from it if no delta is given. Without
            it, delta is at most 0.01 then.
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
