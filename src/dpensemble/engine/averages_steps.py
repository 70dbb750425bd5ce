"""A run in which teachers answer with vectors, and the noisy average of the vectors is released."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression

from dpensemble._arrays import Floats
from dpensemble._progress import progress_bar
from dpensemble._random import Stream, seed_integer
from dpensemble.accounting import Group, SumsMeter
from dpensemble.allocation.partition import number_units
from dpensemble.budget import Budget
from dpensemble.design.sums import Answers, TeacherAverages
from dpensemble.engine import guarantee_text
from dpensemble.engine.records import PrivateRecords, ReleasedLabels, groups_by_epsilon
from dpensemble.engine.result import Result
from dpensemble.engine.run import Steps
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.averages import AnswerBound, noisy_average
from dpensemble.releases import SumReleaser
from dpensemble.rows.bad_records import BAD
from dpensemble.student.fitting import fit_soft_student
from dpensemble.student.published import published
from dpensemble.teachers import SoftTeacherEnsemble
from dpensemble.teachers.ensemble import require_linear

# The default students.
_STUDENTS = {
    Answers.PROBABILITIES: "logistic regression on averaged probabilities, its penalty by evidence",
    Answers.PARAMETERS: "the average of the teachers' parameters",
}


class AveragesSteps(Steps):
    """The steps of `SoftVotesClassifier`."""

    stage: ClassVar[tuple[str, str]] = ("average", "Averaging answers")
    design: TeacherAverages
    meter: SumsMeter

    def __init__(
        self,
        method: Any,
        records: PrivateRecords,
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
        groups, by_record, by_unit = self._groups()
        self.design = method.design(n_classes=len(self.classes), groups=groups)
        budget = Budget(epsilon=method.epsilon, delta=method.delta)
        records.check_delta(budget, self.relation, self.fewest_units)
        self._asked = self.order(len(self.rows), method.max_labels)
        self._bound = self._answer_bound()
        self._allocation, self._weights = self.design.allocate(
            records.identities, entropy=self.entropy, group_of_record=by_record, group_of_unit=by_unit
        )
        self.meter = self.design.meter()

    def _groups(
        self,
    ) -> tuple[tuple[Group, ...] | None, NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """Return groups with their weights, and the group of each record and unit, if budgets differ."""
        if self.epsilons is None:
            return None, None, None
        personal, groups = groups_by_epsilon(
            self.epsilons, len(self.records.X), relation=self.relation, delta=self.method.delta
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
            require_linear(teacher, n_features, n_classes)
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

    def release(self, advance: Callable[[float], None]) -> None:  # noqa: ARG002
        """Release the noisy average of all answers."""
        answers = _answers(self._ensemble, self.design.answers, self.rows[self._asked], len(self.classes))
        self._sums = SumReleaser(relation=self.relation, meter=self.meter, noise=self.noise)
        self._average, self._spread = noisy_average(answers, self._weights, self._bound, self._sums)

    def learn(self) -> Any:
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
        return published(student, for_release=self.noise.for_release, names=self.method.column_names)

    def state(self, student: Any) -> Result:
        """Return the result of the run. The estimator also stores the average itself."""
        self.method.averages_, self.method.spread_ = self._average, self._spread
        has_units = self.records.units is not None
        texts = guarantee_text.of_answers(self.relation, has_units, len(self.design.groups) > 1)
        return Result(
            design=self.design,
            classes=self.classes,
            guarantee=guarantee_text.of_sums(
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
