"""A run that publishes models of secretly drawn subsamples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier

from dpensemble._checks import integer_between, member
from dpensemble._random import Stream, seed_integer
from dpensemble._wording import round_up
from dpensemble.accounting import largest_subsample, published_bagging
from dpensemble.accounting.subsampling import bagging_delta_below_one
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.allocation.partition import number_units
from dpensemble.design.sums import BaggedModels
from dpensemble.engine.guarantee_text import UNITS_TOGETHER
from dpensemble.engine.records import PrivateRecords, ReleasedLabels
from dpensemble.engine.result import MODELS, Result
from dpensemble.engine.run import Steps
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.relations import Basis, Relation
from dpensemble.rows.bad_records import BAD
from dpensemble.student.published import published
from dpensemble.teachers.ensemble import constant_voters, fit_separately


class BaggingSteps(Steps):
    """Models of secretly drawn subsamples. Only the draw protects the release, without other noise."""

    stage: ClassVar[tuple[str, str]] = ("models", "Fitting models")
    design: BaggedModels
    meter = None

    def __init__(self, method: Any, records: PrivateRecords, classes: NDArray[Any]) -> None:
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

    def release(self, advance: Callable[[float], None]) -> None:
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

    def learn(self) -> list[Any]:
        """Return the models for publication."""
        names = self.method.column_names
        return [published(model, for_release=self.noise.for_release, names=names) for model in self._models]

    def state(self, student: list[Any]) -> Result:
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
