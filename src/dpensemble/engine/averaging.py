"""Runs that average teachers: their noisy average is released, or models of secretly drawn subsamples are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from dpensemble._checks import integer_between, member
from dpensemble._entries import Floats
from dpensemble._progress import progress_bar
from dpensemble._random import Stream, seed_integer
from dpensemble._wording import round_up
from dpensemble.accounting import Group, SumsMeter, largest_subsample, published_bagging
from dpensemble.accounting.subsampling import bagging_delta_below_one
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.allocation.partition import number_units
from dpensemble.budget import Budget
from dpensemble.design.sums import Answers, BaggedModels, TeacherAverages
from dpensemble.engine import classifier
from dpensemble.engine.classifier import UNITS_TOGETHER
from dpensemble.engine.records import ReleasedLabels, TeacherRecords, groups_by_epsilon
from dpensemble.engine.result import MODELS, Result
from dpensemble.engine.run import Steps
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.moments.averages import AnswerBound, noisy_average
from dpensemble.relations import Basis, Relation
from dpensemble.releases import SumReleaser
from dpensemble.rows.arguments import BAD
from dpensemble.student.published import fit_soft_student, published
from dpensemble.teachers import SoftTeacherEnsemble
from dpensemble.teachers.ensemble import constant_voters, fit_separately, require_linear

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

    def charge_and_release(self, advance: Callable[[float], None]) -> None:  # noqa: ARG002
        """Release the noisy average of all answers."""
        answers = _answers(self._ensemble, self.design.answers, self.rows[self._asked], len(self.classes))
        self._sums = SumReleaser(relation=self.relation, meter=self.meter, noise=self.noise)
        self._average, self._spread = noisy_average(answers, self._weights, self._bound, self._sums)

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
        return published(student, for_release=self.noise.for_release, names=self.method.column_names)

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


class BaggingSteps(Steps):
    """Models of secretly drawn subsamples. Only the draw protects the release, without other noise."""

    stage: ClassVar[tuple[str, str]] = ("models", "Fitting models")
    design: BaggedModels
    meter = None

    def __init__(self, method: Any, records: TeacherRecords, classes: NDArray[Any]) -> None:
        super().__init__(method)
        self.records, self.classes = records, classes

    def prepare(self) -> None:
        """Find the subsample, which determines delta."""
        n_units = len(number_units(self.records.identities)[0])
        scheme = self._scheme(n_units)
        self.design = BaggedModels(
            name=self.method.name,
            title=self.method.title,
            scheme=scheme,
            n_units=n_units,
            delta=bagging_delta_below_one(scheme, n_units),
        )

    def _scheme(self, n_units: int) -> BootstrapScheme:
        """Return how to draw. If `delta` is given, use the largest subsample that keeps it."""
        method = self.method
        if (method.subsample is None) == (method.delta is None):
            raise InvalidParameterError(
                f"exactly one of subsample and delta must be given; got subsample={method.subsample!r} and "
                f"delta={method.delta!r}: give delta to find the largest subsample."
            )
        scheme, subsample = member("scheme", method.scheme, Bootstrap), method.subsample
        n_teachers = integer_between("n_teachers", method.n_teachers, 1)
        if method.delta is not None:
            if self.relation is Relation.ADD_OR_REMOVE_ONE:
                raise InvalidParameterError(
                    f"delta={method.delta!r} would let the size of subsamples depend on the number of records, "
                    "which adding or removing a record changes: give subsample, or use relation='replace-one'."
                )
            subsample = largest_subsample(method.delta, n_units, n_teachers, scheme)
        return BootstrapScheme(scheme, n_teachers, subsample)

    def costs(self) -> None:
        """Return None: an epsilon of 0 has no Renyi curve here."""

    @property
    def n_steps(self) -> float:
        """Number of models."""
        return self.design.scheme.n_models

    def charge_and_release(self, advance: Callable[[float], None]) -> None:
        """Draw the subsamples, and fit a model on each."""
        X, targets, classes = self.records.X, self.records.targets, self.classes
        drawn = self.design.scheme.draw(self.records.identities, relation=self.relation, noise=self.noise)
        shards = drawn.without(targets == BAD).shards
        fitted = fit_separately(
            self.default_teacher if self.method.teacher is None else self.method.teacher,
            X,
            targets,
            shards,
            classes=classes,
            constant_votes=constant_voters(targets, shards, len(classes)),
            seeds=[seed_integer(self.entropy, Stream.TEACHERS, t) for t in range(len(shards))],
            n_jobs=self.method.n_jobs,
            on_done=advance,
            # The models are published, and predict labels.
            as_labels=True,
        )
        self._models = [
            _constant(classes[[fallback]], X.shape[1]) if model is None else model
            for model, fallback in zip(fitted.models, fitted.fallback_votes.tolist(), strict=True)
        ]

    def make_student(self) -> list[Any]:
        """Return the models for publication."""
        names = self.method.column_names
        return [published(model, for_release=self.noise.for_release, names=names) for model in self._models]

    def make_result(self, student: list[Any]) -> Result:
        """Return the result of the run. The estimator also stores the paper's pair."""
        design, has_units = self.design, self.records.units is not None
        self.method.published_ = published_bagging(design.scheme, design.n_units)
        guarantee = Guarantee(
            epsilon=0.0,
            delta=design.delta,
            basis=Basis.WORST_CASE,
            relation=self.relation,
            unit="unit" if has_units else "record",
            accounting=_accounting(design.scheme, design.n_units, self.method.published_),
            assumptions=_assumptions(design.scheme, self.relation, has_units),
            for_release=self.noise.for_release,
            n_units=design.n_units,
        )
        return Result(
            design=design,
            classes=self.classes,
            guarantee=guarantee,
            student=student,
            labels=ReleasedLabels(np.empty(0, dtype=np.int64), self.classes[:0], 0),
            releases=MODELS,
            n_features=self.method.n_features_in_,
        )

    def spend_curve(self) -> None:
        """Return None: everything is spent at once."""


def _constant(label: NDArray[Any], n_features: int) -> DummyClassifier:
    """Return an ordinary classifier that always predicts one label."""
    return DummyClassifier(strategy="constant", constant=label).fit(np.zeros((1, n_features)), label)


def _accounting(scheme: BootstrapScheme, n_units: int, published: tuple[float, float] | None) -> str:
    models = "1 model" if scheme.n_models == 1 else f"each of {scheme.n_models:,} models"
    text = (
        f"probability that one of {n_units:,} is drawn, where {models} draws {scheme.subsample:,}, "
        f"{_DRAWN[scheme.scheme]} (On the Intrinsic Differential Privacy of Bagging, Theorems 3 to 6; "
        "that epsilon is 0 is this library's)"
    )
    if published is None:
        return text
    epsilon, delta = (f"{round_up(value, 4):g}" for value in published)
    return f"{text}; the paper's pair is epsilon = {epsilon} and delta = {delta}"


def _assumptions(scheme: BootstrapScheme, relation: Relation, has_units: bool) -> tuple[str, ...]:
    noun = "unit" if has_units else "record"
    assumptions = [
        f"Which {noun}s were drawn stays secret.",
        f"The subsamples hold at most {scheme.n_draws:,} {noun}s, and a model may contain them unchanged.",
        f"The number of {noun}s is public{_ALTHOUGH if relation is Relation.ADD_OR_REMOVE_ONE else ''}.",
        "Neighbouring data sets list their other records in the same order.",
        "Declared classes, settings and seeds do not depend on the private records.",
        "The guarantee covers what a run publishes. It does not cover whether the run finished or was refused.",
        "This covers one training run. The deltas of further runs on the same records add to it.",
    ]
    return (UNITS_TOGETHER, *assumptions) if has_units else tuple(assumptions)


_ALTHOUGH = ", although a neighbouring data set has one more or one fewer"
_DRAWN = {
    Bootstrap.WITH_REPLACEMENT: "with replacement",
    Bootstrap.DISTINCT: "all draws distinct",
    Bootstrap.SUBSETS: "as independent subsets",
}
