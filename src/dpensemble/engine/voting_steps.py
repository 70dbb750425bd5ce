"""A run in which teachers vote on public rows: its allocation, teachers, queries, student and result.

There is one labelling loop: vote, charge, release. In the interactive loop, teachers are asked where they seem to
contradict the student, which learns meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._entries import Floats
from dpensemble._progress import progress_bar
from dpensemble._random import NoiseSource, Stream, noise_source, seed_integer
from dpensemble._spending import drawn_once, drawn_together
from dpensemble.accounting import Meter
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.allocation import Allocation
from dpensemble.allocation.partition import number_units
from dpensemble.budget import Budget
from dpensemble.design import VotingDesign, with_least_error
from dpensemble.engine import classifier
from dpensemble.engine.planned import Analysis, Facts
from dpensemble.engine.records import DeclaredBudgets, ReleasedLabels, TeacherRecords
from dpensemble.engine.result import LABELS, Result
from dpensemble.engine.run import Steps
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.laws import sample
from dpensemble.relations import Basis
from dpensemble.rows.arguments import BAD
from dpensemble.student.published import Learner, default_student, published
from dpensemble.teachers import TeacherEnsemble
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
class Released:
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


def label_rows(
    questions: Questions,
    schedule: VotingSchedule,
    meter: Meter,
    noise: NoiseSource,
    diagnostics: PrivateDiagnostics | None = None,
) -> Released:
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
        answers = ask(questions, chunk, schedule, meter, noise, diagnostics, n_asked)
        outcomes.append(answers)
        n_asked += len(answers)
        if len(answers) < len(chunk):
            break
    return Released(order[:n_asked], np.concatenate(outcomes) if outcomes else np.empty(0, dtype=np.int64))


def ask(
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
        _note(diagnostics, counts, n_asked + admitted, meter)
    return np.where(outcomes < votes.n_classes, outcomes, -1)


def _largest_chunk(questions: Questions, meter: Meter, diagnostics: PrivateDiagnostics | None) -> int:
    largest = max(1, _CHUNK_BYTES // questions.n_teachers)
    if diagnostics is not None and diagnostics.votes:
        largest = min(largest, max(1, meter.sure_queries // _DIAGNOSTIC_CHUNKS))
    return largest


def _note(diagnostics: PrivateDiagnostics, counts: NDArray[np.int64], n_asked: int, meter: Meter) -> None:
    top = np.sort(counts, axis=1)[:, -2:]
    diagnostics.margins.extend(((top[:, 1] - top[:, 0]) / counts.sum(axis=1)).tolist())
    diagnostics.spend.append((n_asked, meter.charged_epsilon))
    diagnostics.group_spent[:] = meter.group_epsilons


def label_interactively(
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
) -> Released:
    """Query in batches, each with a student of all labels so far (Papernot et al. 2018, Algorithm 2)."""
    order = questions.order
    released = Released(order[:0], np.empty(0, dtype=np.int64))
    while len(released.asked) < len(order):
        n_asked = len(released.asked)
        size = schedule.left_in_stage(n_asked, min(batch_size, max(meter.next_chunk(n_asked), 1)))
        if not size:
            break
        batch = order[n_asked : n_asked + size]
        student = learner.fit(released.lesson_rows, released.lesson_labels) if released.answered.size else None
        # Without a student nothing is expected, and the threshold is on the highest count.
        expected = np.zeros((len(batch), n_classes)) if student is None else learner.probabilities(student, batch)
        outcomes = ask(questions, batch, schedule, meter, noise, diagnostics, n_asked, expected)
        admitted = batch[: len(outcomes)]
        # If the threshold is not passed, the student's confident predictions become lessons, which cost nothing.
        sure = (outcomes < 0) & (expected[: len(outcomes)].max(axis=1, initial=0) >= confidence)
        released = Released(
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
    _released: Released

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
            n_units=len(number_units(self.records.identities)[0]),
            relation=self.relation,
            entropy=self.entropy,
            has_units=self.records.units is not None,
            max_labels=self.method.max_labels,
        )

    def prepare(self) -> None:
        """Find the noise that is not set, allocate the records, and make the meter."""
        with progress_bar("Pricing answers", None):
            self._price()
        student = default_student() if self.method.student is None else self.method.student
        self._learner = Learner(student, self.rows, self.classes, seed_integer(self.entropy, Stream.STUDENT))

    def _price(self) -> None:
        self.design = self.method._design(self.facts())
        analysis = self.check()
        meter = self._settle() if analysis is Analysis.WORST_CASE else None
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

    def check(self) -> Analysis:
        """Raise for settings that contradict the design or the records, and return the analysis."""
        law, student, method = self.design.law, self.method.student, self.method
        if law.needs_student and not hasattr(student or default_student(), "predict_proba"):
            raise InvalidParameterError(
                f"student={type(student).__name__} has no predict_proba, which law={law.name!r} requires: "
                "use logistic regression, naive Bayes, a tree or a forest."
            )
        budget = Budget(epsilon=method.epsilon, delta=method.delta)
        self.records.check_delta(budget, self.relation, self.fewest_units)
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

    def _settle(self) -> Meter:
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

    def _label(self, questions: Questions) -> Released:
        """Query the teachers. If the law compares with the student, the student learns meanwhile."""
        schedule, law = self.design.schedule, self.design.law
        if not law.needs_student:
            return label_rows(questions, schedule, self.meter, self.noise, self.diagnostics)
        return label_interactively(
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
        return published(student, for_release=self.noise.for_release, names=self.method.column_names)

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
