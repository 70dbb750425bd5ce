"""Soft votes: teachers answer with probabilities or coefficients, and the noisy average of the answers is released."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression

from dpensemble._checks import integer_between, member
from dpensemble._entries import Floats
from dpensemble._random import Stream, seed_integer
from dpensemble._units import number_units
from dpensemble._work import progress_bar
from dpensemble.accounting import EVERYONE, Group
from dpensemble.allocation import Allocation, partitions
from dpensemble.allocation.partition import teachers_of_groups
from dpensemble.design.sums import NoisySums
from dpensemble.engine import classifier
from dpensemble.engine.classifier import ArrayClassifier
from dpensemble.engine.planned import store_params
from dpensemble.engine.records import ReleasedLabels, TeacherRecords, groups_by_epsilon, teacher_records
from dpensemble.engine.result import Result
from dpensemble.engine.run import Steps, run
from dpensemble.engine.voting import bytes_of_votes
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.moments.averages import AnswerBound
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser, SumsMeter
from dpensemble.rows import arguments
from dpensemble.rows.arguments import BAD
from dpensemble.student import fit_soft_student, publishable
from dpensemble.teachers import SoftTeacherEnsemble


class Answers(StrEnum):
    """The kind of answer that a teacher gives."""

    PROBABILITIES = "probabilities"
    PARAMETERS = "parameters"


@dataclass(frozen=True, kw_only=True, eq=False)
class TeacherAverages(NoisySums):
    """One noisy sum, of a vector that every teacher of a partition adds. Public.

    Parameters
    ----------
    name, title, everyone, n_classes, relation
        As for `NoisySums`.
    answers : Answers
        The kind of answer that a teacher gives.
    n_teachers : int
        Number of teachers.
    clip : float
        Longest answer: a share of the longest possible answer for probabilities, a length for parameters.
    """

    answers: Answers
    n_teachers: int
    clip: float

    def __post_init__(self) -> None:
        integer_between("n_teachers", self.n_teachers, 1, 2**20)

    @property
    def count_share(self) -> float:
        """Zero, since the number of teachers is public under both relations."""
        return 0.0

    @property
    def ordinary(self) -> bool:
        """Whether the teachers are ordinary models."""
        return True

    def teachers_of(self, group_of_unit: NDArray[np.int64] | None) -> tuple[int, ...]:
        """Return how many teachers each group has, by public numbers of units."""
        if group_of_unit is None or len(self.groups) == 1:
            return (self.n_teachers,)
        shares = np.bincount(group_of_unit, minlength=len(self.groups))
        return teachers_of_groups(self.n_teachers, shares, [group.name for group in self.groups])

    def allocate(
        self,
        identities: Sequence[Hashable],
        *,
        entropy: int,
        group_of_record: NDArray[np.int64] | None = None,
        group_of_unit: NDArray[np.int64] | None = None,
    ) -> tuple[Allocation, NDArray[np.float64]]:
        """Return one partition, within each group separately, and every teacher's weight."""
        teachers = self.teachers_of(group_of_unit)
        weights = np.repeat([group.weight for group in self.groups], teachers)
        if group_of_record is None or len(teachers) == 1:
            allocation = partitions(identities, self.n_teachers, relation=self.relation, entropy=entropy)
        else:
            allocation = Allocation.by_group(
                identities, group_of_record, teachers, relation=self.relation, entropy=entropy
            )
        if allocation.votes_per_unit > 1:
            raise InvalidParameterError("a unit must teach one teacher only, since the sum is charged for one teacher.")
        return allocation, weights

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        settings = super().settings()
        for name in ("compares_rows", "synthetic_rows"):
            del settings[name]
        return settings | {"answers": self.answers.value, "clip": self.clip, "n_teachers": self.n_teachers}


def answers_of(value: Any) -> Answers:
    """Return the kind of the teachers' answers, by name."""
    return member("answers", value, Answers)


# The default students.
_STUDENTS = {
    Answers.PROBABILITIES: "logistic regression on averaged probabilities, its penalty by evidence",
    Answers.PARAMETERS: "the average of the teachers' parameters",
}


# Numbers about each averaged answer that are in memory at once, mostly Python integers.
_AVERAGES = 16
# Most answers of teachers that are in memory at once, with their copies.
_ANSWERS_AT_ONCE = 2**24


class _AveragesSteps(Steps):
    """The steps of `SoftVotesClassifier`."""

    stage: ClassVar[tuple[str, str]] = ("average", "Averaging answers")
    design: TeacherAverages
    meter: SumsMeter

    def __init__(
        self,
        method: Any,
        records: TeacherRecords,
        classes: NDArray[Any],
        rows: Floats,
        *,
        fewest_units: int | None,
        epsilons: ArrayLike | None,
    ) -> None:
        super().__init__(method)
        self.records, self.classes, self.rows = records, classes, rows
        self.fewest_units, self.epsilons = fewest_units, epsilons

    def prepare(self) -> None:
        """Allocate the records, and make the meter."""
        method, records = self.method, self.records
        self.find_budget(records.counted, self.fewest_units, has_units=records.units is not None)
        groups, by_record, by_unit = self._groups()
        self.design = method.design(n_classes=len(self.classes), groups=groups)
        self._asked = self.order(len(self.rows), method.max_labels)
        self._bound = self._answer_bound()
        self._allocation, self._weights = self.design.allocate(
            records.identities, entropy=self.entropy, group_of_record=by_record, group_of_unit=by_unit
        )
        self.meter = self.design.meter()

    def memory(self) -> int:
        """Return about how many bytes logistic teachers, their answers and the student need. Other teachers vary."""
        n_records = self.records.public_number(self.relation)
        n_answers, n_classes = len(self._asked), len(self.classes)
        averages = _AVERAGES * 8 * n_answers * (1 if n_classes == 2 else n_classes)
        averages += 8 * min(2 * n_answers * self._allocation.n_teachers * n_classes, _ANSWERS_AT_ONCE)
        return averages + bytes_of_votes(n_answers, self._allocation.n_teachers, self.rows.shape, n_classes, n_records)

    def _groups(
        self,
    ) -> tuple[tuple[Group, ...], NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """Return groups with their weights, and the group of each record and unit if budgets differ."""
        if self.epsilons is None:
            return (Group(EVERYONE, self.budget),), None, None
        personal, groups = groups_by_epsilon(
            self.epsilons, len(self.records.X), relation=self.relation, delta=self.budget.delta
        )
        by_unit = personal.group_of_unit(number_units(self.records.identities)[1])
        return groups, personal.group_of_record, by_unit

    def _answer_bound(self) -> AnswerBound:
        """Return the largest length of an answer. Raise if the teacher cannot give such an answer."""
        teacher, clip, n_classes = self.method.teacher, self.design.clip, len(self.classes)
        if self.design.answers is Answers.PROBABILITIES:
            if teacher is not None and not hasattr(teacher, "predict_proba"):
                raise InvalidParameterError(
                    f"teacher={type(teacher).__name__} has no predict_proba, which answers='probabilities' requires: "
                    "use one that has it, such as a tree, a forest or logistic regression."
                )
            return AnswerBound.of_probabilities(len(self._asked), n_classes, clip=clip)
        n_features = self.records.X.shape[1]
        if teacher is not None:
            SoftTeacherEnsemble.require_linear(teacher, n_features, n_classes)
        return AnswerBound.of_parameters((1 if n_classes == 2 else n_classes) * (n_features + 1), clip=clip)

    def teach(self) -> None:
        """Fit the teachers on their records."""
        taught = self._allocation.without(self.records.targets == BAD)
        teacher = self.default_teacher if self.method.teacher is None else self.method.teacher
        self._ensemble = SoftTeacherEnsemble(
            teacher, taught, self.classes, entropy=self.entropy, n_jobs=self.method.n_jobs
        )
        with progress_bar("Fitting teachers", self._allocation.n_teachers) as advance:
            self._ensemble.fit(self.records.X, self.records.targets, advance)

    def charge_and_release(self, advance: Callable[[float], None]) -> None:  # noqa: ARG002
        """Release the noisy average of all answers."""
        answers = _answers(self._ensemble, self.design.answers, self.rows[self._asked], len(self.classes))
        self._sums = SumReleaser(relation=self.relation, meter=self.meter, noise=self.noise)
        self._average, self._spread = self._bound.noisy_average(answers, self._weights, self._sums)

    def make_student(self) -> Any:
        """Fit the student to averaged probabilities, or make it from averaged parameters."""
        rows, classes, estimator = self.rows, self.classes, self.method.student
        seed = seed_integer(self.entropy, Stream.STUDENT)
        if self.design.answers is Answers.PROBABILITIES:
            self._average, self._spread = _probabilities(self._average, self._spread, len(classes), self.design.clip)
            student = fit_soft_student(estimator, rows[self._asked], self._average, classes, seed, spread=self._spread)
        else:
            self._average = self._average.reshape(-1, self.records.X.shape[1] + 1)
            student = _averaged_model(self._average, classes)
            if estimator is not None:
                student = fit_soft_student(estimator, rows, student.predict_proba(rows), classes, seed)
        answers = student.predict(rows[self._asked]) if len(self._asked) else classes[:0]
        self._labels = ReleasedLabels(self._asked, answers, len(self._asked))
        return publishable(student, for_release=self.noise.for_release, names=self.method.column_names)

    def make_result(self, student: Any) -> Result:
        """Return the result of the run. The estimator also stores the average itself."""
        self.method.averages_, self.method.spread_ = self._average, self._spread
        has_units = self.records.units is not None
        texts = classifier.texts_of_answers(self.relation, has_units, len(self.design.groups) > 1)
        return Result(
            design=self.design,
            classes=self.classes,
            guarantee=classifier.guarantee_of_sums(
                self.meter, self.relation, texts, has_units=has_units, for_release=self.noise.for_release
            ),
            student=student,
            labels=self._labels,
            releases=tuple(self._sums.released),
            n_features=self.method.n_features_in_,
            charges=self.meter.charges,
        )

    def default_student(self) -> Any:
        """Return a description of the student if the estimator names none."""
        return _STUDENTS[self.design.answers]


def _answers(ensemble: SoftTeacherEnsemble, kind: Answers, rows: Floats, n_classes: int) -> Iterator[Floats]:
    """Yield the answers of a few teachers at a time, one row each."""
    if kind is Answers.PARAMETERS:
        parameters = ensemble.parameters()
        yield parameters.reshape(len(parameters), -1)
        return
    for chances in ensemble.probabilities(rows):
        yield chances[:, :, 1] - 0.5 if n_classes == 2 else chances.reshape(len(chances), -1)


def _probabilities(average: Floats, spread: float, n_classes: int, clip: float) -> tuple[Floats, float]:
    """Return averaged probabilities that add up to 1 in each row, and the spread of their noise."""
    if n_classes == 2:
        return np.stack([0.5 - average, 0.5 + average], axis=1), spread
    probabilities = average.reshape(-1, n_classes)
    if clip < 1:
        # The sums of shortened answers in a row are below 1, by the same factor in all rows.
        scale = float(np.clip(probabilities.sum(axis=1).mean(), clip, 1.0))
        probabilities, spread = probabilities / scale, spread / scale
    return probabilities + (1 - probabilities.sum(axis=1, keepdims=True)) / n_classes, spread


def _averaged_model(averages: Floats, classes: NDArray[Any]) -> LogisticRegression:
    """Return the model with averaged coefficients."""
    model = LogisticRegression()
    model.coef_, model.intercept_ = averages[:, :-1].copy(), averages[:, -1].copy()
    model.classes_, model.n_features_in_ = classes, averages.shape[1] - 1
    model.n_iter_ = np.zeros(1, dtype=np.int32)
    return model


# Of public rows: squares and products must stay finite.
_LARGEST_ENTRY = 1e50
_CLIP = {Answers.PROBABILITIES: 1.0, Answers.PARAMETERS: 2.0}


class SoftVotesClassifier(ArrayClassifier):
    """Private classifier by the noisy average of the teachers' answers.

    The records are divided into disjoint parts, one teacher each. A teacher answers once, with one vector of bounded
    length: its probabilities on all public rows, or its coefficients. The sum of all vectors is released with
    Gaussian noise. Its cost does not depend on the number of public rows.

    Parameters
    ----------
    teacher : scikit-learn classifier, optional
        With ``predict_proba`` for probabilities, and linear for parameters. By default logistic regression.
    student : scikit-learn classifier, optional
        Learns from averages of probabilities, as weights if it takes weights. By default logistic regression, with a
        penalty chosen by what was released. For parameters, the averaged model is the student unless one is given.
    classes : sequence
        All possible labels. They must be declared, because reading them from private labels would leak information.
    answers : {"probabilities", "parameters"}, default="probabilities"
        Content of a teacher's answer: class probabilities on public rows, or coefficients and intercepts.
    n_teachers : int, default=250
        Number of teachers. Each learns from its own part of the records.
    clip : float, optional
        Longest answer. Longer ones are shortened, and noise is in proportion to it. For probabilities a share of the
        longest possible answer, by default 1. For parameters a length, by default 2. Choose it from public data.
    epsilon, delta
        As for `SubsampleAggregateClassifier`. The fit uses all of the budget.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. Under both, one unit changes one teacher.
    max_labels : int, optional
        Number of public rows to query. By default all. The noise on each grows with the square root of their number.
    random_state, on_bad_record, insecure_release_seed, n_jobs
        As for `SubsampleAggregateClassifier`.

    Attributes
    ----------
    student_ : scikit-learn classifier
        The classifier that may be published.
    averages_ : ndarray of shape (n_asked, n_classes)
        Released averages of probabilities on the public rows of ``labels_``. Noise may drive them below 0 or above 1.
        For parameters, of shape (n_outputs, n_features + 1): averaged coefficients, with the intercept last.
    spread_ : float
        Standard deviation of the noise on each released number.
    labels_ : ReleasedLabels
        The student's label of every queried public row.
    guarantee_ : Guarantee
        The guarantee.
    design_ : TeacherAverages
        Groups, teachers, noise. Public.
    charges_ : tuple of dict
        ``sigma`` (noise in sensitivities), ``variance`` and ``entries`` of the released sum. Public.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    Averaging models: M. Pathak, S. Rane and B. Raj, "Multiparty differential privacy via aggregation of locally
    trained classifiers", NIPS 2010. Exact trade-off: B. Balle and Y.-X. Wang, ICML 2018. Proof: `moments.averages`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 4)); y = (X[:, 0] > 0).astype(int)
    >>> model = SoftVotesClassifier(classes=[0, 1], epsilon=1.0, random_state=0, insecure_release_seed=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 4)))
    >>> bool(model.score(X, y) > 0.9), model.guarantee_.epsilon <= 1.0
    (True, True)
    """

    name: ClassVar[str] = "soft-votes"
    title: ClassVar[str] = "Soft votes"

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        answers: str = "probabilities",
        n_teachers: int = 250,
        clip: float | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        relation: str = "replace-one",
        max_labels: int | None = None,
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        store_params(self, locals())

    def design(self, *, n_classes: int | None = None, groups: tuple[Group, ...] | None = None) -> TeacherAverages:
        """Return everything public about a run with these settings. No record is read."""
        if n_classes is None:
            n_classes = 2 if self.classes is None else len(self.classes)
        everyone = (Group(EVERYONE, Budget.of(self.epsilon, self.delta)),)
        answers = _answers_of(self.answers)
        return TeacherAverages(
            name=self.name,
            title=self.title,
            everyone=everyone if groups is None else groups,
            n_classes=integer_between("n_classes", n_classes, 2),
            rounds=1,
            relation=member("relation", self.relation, Relation),
            answers=answers,
            n_teachers=self.n_teachers,
            clip=_CLIP[answers] if self.clip is None else self.clip,
        )

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        personal_epsilons: ArrayLike | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
        **others: Any,
    ) -> SoftVotesClassifier:
        """Fit teachers on private records, release the noisy average of their answers, and fit the student to it.

        Every call is a separate release: the losses of several fits on the same records add up.

        Parameters
        ----------
        X, y, X_public, units, ledger, fewest_units, **others
            As for `PATEClassifier.fit`. For parameters, public rows may be left out.
        personal_epsilons : array-like of shape (n_records,), optional
            Epsilon of each record (and of all records of its unit) in place of ``epsilon``. Teachers learn from records
            of one epsilon, and weigh less the smaller it is. The epsilon of each record is public. Replace-one only.

        Returns
        -------
        self
        """
        arguments.refuse_others(others)

        def checked() -> _AveragesSteps:
            arguments.require_others(X, X_public)
            relation, nan = member("relation", self.relation, Relation), self._takes_nan()
            records, classes, owners = teacher_records(self, X, y, units, nan=nan, relation=relation, public=X_public)
            epsilons = owners.kept_values("personal_epsilons", personal_epsilons)
            rows = self._public_rows(X_public)
            return _AveragesSteps(self, records, classes, rows, fewest_units=fewest_units, epsilons=epsilons)

        return run(self, checked, ledger=ledger, records=(X, y, X_public))

    def _public_rows(self, X_public: Any) -> Floats:
        if X_public is None and _answers_of(self.answers) is Answers.PARAMETERS and self.student is None:
            return np.empty((0, self.n_features_in_))
        rows = arguments.public_rows(self, X_public, nan=self._takes_nan())
        largest = np.abs(rows).max(initial=0.0, where=np.isfinite(rows))
        if largest > _LARGEST_ENTRY:
            raise DataError(
                f"X_public must have entries with which a student can be fitted, but one has size {largest:g}: scale "
                "rows by statistics of the public rows."
            )
        return rows


def _answers_of(value: Any) -> Answers:
    """Return the kind of the teachers' answers, by name."""
    return member("answers", value, Answers)
