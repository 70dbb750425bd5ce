"""Bagging that is protected only by the secret draw of the records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import check_is_fitted

from dpensemble._checks import integer_between, member, round_up
from dpensemble._entries import Floats, Integers
from dpensemble._random import Stream, seed_integer
from dpensemble._units import number_units
from dpensemble.accounting import EVERYONE, Accounting, Group, largest_subsample, published_bagging
from dpensemble.accounting.subsampling import bagging_delta_below_one
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.design.voting import Design
from dpensemble.engine.classifier import UNITS_TOGETHER, ArrayClassifier
from dpensemble.engine.planned import store_params
from dpensemble.engine.records import ReleasedLabels, TeacherRecords, teacher_records
from dpensemble.engine.result import MODELS, Result
from dpensemble.engine.run import Steps, run
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget, Guarantee
from dpensemble.relations import Basis, Relation
from dpensemble.rows import arguments
from dpensemble.rows.arguments import BAD
from dpensemble.student import class_probabilities, publishable
from dpensemble.teachers.ensemble import fit_separately
from dpensemble.votes import Votes


@dataclass(frozen=True, kw_only=True, eq=False)
class BaggedModels(Design):
    """Models of secret subsamples, at an epsilon of 0. Public.

    Parameters
    ----------
    name, title : str
        Short name of the method, and its common name.
    scheme : BootstrapScheme
        How subsamples are drawn.
    n_units : int
        Number of private records (or units).
    delta : float
        Probability that a record is drawn.
    """

    name: str
    title: str
    scheme: BootstrapScheme
    n_units: int
    delta: float
    accounting: Accounting = Accounting.EXACT
    #: No noise is drawn.
    law: None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        """The one group of all records, with the smallest possible budget, since a budget cannot have epsilon 0."""
        return (Group(EVERYONE, Budget(epsilon=1e-9, delta=self.delta), pool=0),)

    def with_budget(self, budget: Budget) -> Self:
        """Refuse, since the subsample decides delta."""
        raise InvalidParameterError(
            f"budget={budget!r} cannot be given for {self.name}, whose subsample decides delta: give subsample."
        )

    def with_noise(self, noise: float) -> Self:
        """Refuse, since the method adds no noise."""
        raise InvalidParameterError(
            f"noise={noise!r} cannot be given for {self.name}, which adds no noise: leave it out."
        )

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {
            "method": self.name,
            "title": self.title,
            "n_teachers": self.scheme.n_models,
            "subsample": self.scheme.subsample,
            "scheme": self.scheme.scheme.value,
        }


class _BaggingSteps(Steps):
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
        return [publishable(model, for_release=self.noise.for_release, names=names) for model in self._models]

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


class BaggingPrivacyClassifier(ArrayClassifier):
    """Bagging without noise, at a large delta.

    Each model learns from a subsample that is drawn in secret, and the models themselves are published. A record is in
    some subsample with a small probability delta, and it has no influence otherwise. So the models are
    (0, delta)-differentially private for every base learner. If a base learner shows its records, no smaller delta
    holds at any epsilon. That delta is at least one over the number of records: most records are protected, but
    those that were drawn may be exposed completely (a nearest-neighbour model *is* its subsample). If that is not
    acceptable, use another method.

    Parameters
    ----------
    teacher : scikit-learn classifier, optional
        Base learner, logistic regression by default. Cloned for each model.
    classes : sequence
        All possible labels. They must be declared, because reading them from private labels would leak information.
    n_teachers : int, default=1
        Number of models. More models need smaller subsamples at the same delta. In the paper, one was most accurate.
    subsample : int, optional
        Records (or units) that each model draws. Give this or `delta`.
    delta : float, optional
        Largest delta allowed. The subsample is the largest that keeps it. Replace-one only, because otherwise the size
        would depend on the added or removed record.
    scheme : {"with-replacement", "distinct", "subsets"}, default="with-replacement"
        Draws that may repeat, distinct draws (the paper's "without replacement"), or one independent subset a model.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. Delta is the same for both, and the number of records is public under both.
    random_state : int, RandomState or None
        Public seed of the models. It does not determine the draw.
    on_bad_record : {"raise", "zero"}, default="raise"
        As for `SubsampleAggregateClassifier`.
    insecure_release_seed : int, optional
        Seeds the draw for a repeatable experiment and marks the guarantee "not for release".
    n_jobs : int, optional
        Number of workers, as in joblib.

    Attributes
    ----------
    models_ : list of fitted scikit-learn classifiers
        May be published, one by one or all together. If a subsample holds only one class, or its fit raised an error,
        its model is constant. Some models store records unchanged. Delta covers that.
    guarantee_ : Guarantee
        The worst-case guarantee. It warns about what such a delta permits.
    published_ : (float, float) or None
        The paper's epsilon and delta, which the guarantee implies. None for subsets.
    subsample_ : int
        Records (or units) drawn for each model.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.
    n_features_in_ : int
        Number of columns.

    References
    ----------
    "On the Intrinsic Differential Privacy of Bagging" (Liu, Jia and Gong), Theorems 3 to 6. That epsilon is 0,
    and subsets, are results of this library (`dpensemble.accounting.bagging_delta`).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = BaggingPrivacyClassifier(classes=[0, 1], delta=0.05).fit(X, y)
    >>> model.subsample_, model.guarantee_.epsilon
    (153, 0.0)
    >>> model.guarantee_.delta
    0.0497...
    """

    name: ClassVar[str] = "bagging"
    title: ClassVar[str] = "Bagging"

    def __init__(
        self,
        teacher: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 1,
        subsample: int | None = None,
        delta: float | None = None,
        scheme: str = "with-replacement",
        relation: str = "replace-one",
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        store_params(self, locals())

    def fit(
        self, X: Any, y: Any, *, units: ArrayLike | None = None, ledger: Any = None, **others: Any
    ) -> BaggingPrivacyClassifier:
        """Draw the subsamples in secret and fit a model on each.

        Every call is a separate release: the deltas of several fits on the same records add up.

        Parameters
        ----------
        X, y, units, ledger, **others
            As for `PATEClassifier.fit`. Units are drawn, each with all its records.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError, DataError, TeacherError
            As for `PATEClassifier.fit`, and if a draw without repeats exceeds the number of units.
        BudgetError
            If delta is too small for one record a model, or if every record would certainly be drawn.
        """
        arguments.refuse_others(others)

        def checked() -> _BaggingSteps:
            # By position under either relation: equal records are separate units, and every position is equally likely.
            relation = Relation.REPLACE_ONE
            records, classes, _ = teacher_records(self, X, y, units, nan=False, relation=relation)
            return _BaggingSteps(self, records, classes)

        return run(self, checked, ledger=ledger, records=(X, y))

    @property
    def models_(self) -> list[Any]:
        """The models. Each of them may be published."""
        models: list[Any] = self.result_.student
        return models

    @property
    def subsample_(self) -> int:
        """Number of records (or units) that each model drew."""
        return int(self.result_.design.scheme.subsample)

    def _takes_nan(self) -> bool:
        """Return False: models may be of any kind."""
        return False

    def _counts(self, X: Floats) -> Integers:
        ids = [np.searchsorted(self.classes_, model.predict(X.copy())) for model in self.models_]
        return Votes(np.column_stack(ids), n_classes=len(self.classes_)).counts

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return each row's most frequent label, or the first of several in ``classes_``. This costs no privacy."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.classes_[self._in_blocks(X, self._counts).argmax(axis=1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return each class's share of the models' votes. A single model returns its own probabilities if possible."""
        check_is_fitted(self)
        if len(self.models_) == 1 and hasattr(self.models_[0], "predict_proba"):
            return self._in_blocks(X, lambda rows: class_probabilities(self.models_[0], rows, self.classes_))
        return self._in_blocks(X, self._counts) / len(self.models_)


_ALTHOUGH = ", although a neighbouring data set has one more or one fewer"
_DRAWN = {
    Bootstrap.WITH_REPLACEMENT: "with replacement",
    Bootstrap.DISTINCT: "all draws distinct",
    Bootstrap.SUBSETS: "as independent subsets",
}
