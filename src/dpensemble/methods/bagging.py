"""Bagging whose only protection is that nobody knows which records were drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._arrays import Floats
from dpensemble._checks import integer_between, member, names_checked
from dpensemble._given import ScoresGivenLabels, read_rows, require_rows
from dpensemble._progress import progress_bar
from dpensemble._random import Stream, noise_source, public_entropy, seed_integer
from dpensemble._rounding import round_up
from dpensemble._spending import announce
from dpensemble.accounting import largest_subsample, published_bagging
from dpensemble.accounting.bagging import bagging_delta_below_one
from dpensemble.accounting.meters.groups import EVERYONE, Group
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.allocation.base import Taught
from dpensemble.allocation.partition import number_units
from dpensemble.budget import Budget
from dpensemble.datasets.bad_records import BAD
from dpensemble.engine import inputs
from dpensemble.engine.guarantee_text import UNITS_TOGETHER
from dpensemble.engine.params import store_params
from dpensemble.engine.voting import all_or_nothing
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.relations import Basis, Relation
from dpensemble.student import class_probabilities, published
from dpensemble.teachers.ensemble import constant_voters
from dpensemble.teachers.separate import fit_separately
from dpensemble.votes import Votes


class BaggingPrivacyClassifier(ScoresGivenLabels, ClassifierMixin, BaseEstimator):
    """Bagging without noise, at a large delta.

    Each model learns a subsample that was drawn in secret, and the models themselves are published. A record is in some
    subsample with a small probability delta and matters in no other case, so the models are (0, delta)-differentially
    private for every base learner; for one that shows its records no smaller delta holds at any epsilon. That delta is
    at least one over the number of records: most of them are protected, but those that were drawn may be exposed
    completely (a nearest-neighbour model *is* its subsample). Where that is not acceptable use another method.

    Parameters
    ----------
    teacher : scikit-learn classifier, optional
        Base learner; logistic regression by default. Cloned for each model.
    classes : sequence
        All possible labels. Must be declared: reading them off private labels would leak.
    n_teachers : int, default=1
        Number of models: the more, the smaller their subsamples at one delta; in the paper, one was most accurate.
    subsample : int, optional
        Records (or units) that each model draws. Give this or `delta`.
    delta : float, optional
        Largest delta allowed; the subsample is then the largest that keeps it. Replace-one only, since the
        size would else depend on the record that is added or removed.
    scheme : {"with-replacement", "distinct", "subsets"}, default="with-replacement"
        Draws that may repeat; all distinct (the paper's "without replacement"); or one independent subset a model.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. Delta is the same; the number of records is public under both.
    random_state : int, RandomState or None
        Public seed of the models. It does not seed the draw.
    on_bad_record : {"raise", "zero"}, default="raise"
        As for `SubsampleAggregateClassifier`.
    insecure_release_seed : int, optional
        Seeds the draw for a repeatable experiment and marks the guarantee "not for release".
    n_jobs : int, optional
        Workers, as in joblib.

    Attributes
    ----------
    models_ : list of fitted scikit-learn classifiers
        May be published, one by one or all together. A constant classifier where a subsample holds one class
        only, or its fit raised. Some models hold records as they are; delta covers that.
    guarantee_ : Guarantee
        What is promised; worst-case. It warns of what such a delta permits.
    published_ : (float, float) or None
        The paper's epsilon and delta, which the guarantee implies; None for subsets.
    subsample_ : int
        Records (or units) drawn for each model.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.
    n_features_in_ : int
        Number of columns.

    References
    ----------
    "On the Intrinsic Differential Privacy of Bagging" (Liu, Jia and Gong), Theorems 3 to 6; that epsilon is 0,
    and subsets, are this library's (`dpensemble.accounting.bagging_delta`).

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

        Every call is a release of its own: the deltas of several fits on the same records add up.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records; finite numbers. Scale and encode with public statistics only.
        y : array-like of shape (n_records,)
            Private labels, all among ``classes``.
        units : array-like of shape (n_records,), optional
            Whom each record belongs to. Units are then drawn, each with all its records, and protected together.
        ledger : LedgerAccount, optional
            Account of the records in a `dpensemble.ledger.Ledger`, which is charged before noise is drawn, and refuses.
        **others
            Nothing: ``sample_weight`` is refused, and the reason given.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            If a setting is out of range, or more is to be drawn without repeats than there is.
        DataError
            If rows or labels cannot be used.
        BudgetError
            If delta is too small for one record per model, or every record would be drawn for sure.
        TeacherError
            If every fit raised.
        """
        inputs.refuse_others(others)
        with all_or_nothing(self, ledger, (X, y)):
            return self._fit(X, y, units)

    def _fit(self, X: Any, y: Any, units: ArrayLike | None) -> BaggingPrivacyClassifier:
        X, classes, targets = inputs.array_records(self, X, y, nan=False)
        units, present = inputs.whose(self, units, len(targets))
        X, targets = inputs.having_unit(present, X, targets)
        inputs.require_workers(self.n_jobs)
        relation = member("relation", self.relation, Relation)
        # By position under either relation: equal records are separate units, and no position favours a record.
        owners = inputs.identities(X, targets, units, Relation.REPLACE_ONE)
        n_units = len(number_units(owners)[0])
        scheme = self._scheme(n_units, relation)
        delta = bagging_delta_below_one(scheme, n_units)
        entropy, noise = public_entropy(self.random_state), noise_source(self.insecure_release_seed)

        # An epsilon of 0 is no budget; the smallest one stands for it.
        announce([Group(EVERYONE, Budget(epsilon=1e-9, delta=delta), pool=0)], relation=relation)
        allocation = scheme.draw(owners, relation=relation, noise=noise).without(targets == BAD)
        models = self._fit_models(X, targets, allocation, classes, entropy)
        names = getattr(self, "feature_names_in_", None)
        self.models_ = [published(model, for_release=noise.for_release, names=names) for model in models]
        self.classes_, self.subsample_ = classes, scheme.subsample
        self.published_ = published_bagging(scheme, n_units)
        self.guarantee_ = Guarantee(
            epsilon=0.0,
            delta=delta,
            basis=Basis.WORST_CASE,
            relation=relation,
            unit="record" if units is None else "unit",
            accounting=_accounting(scheme, n_units, self.published_),
            assumptions=_assumptions(scheme, relation, units is not None),
            for_release=noise.for_release,
            n_units=n_units,
        )
        return self

    def _scheme(self, n_units: int, relation: Relation) -> BootstrapScheme:
        """Return how to draw, with the largest subsample that keeps `delta` where that is given."""
        if (self.subsample is None) == (self.delta is None):
            raise InvalidParameterError(
                f"subsample={self.subsample!r} and delta={self.delta!r}: give exactly one of them; delta finds "
                "the largest subsample."
            )
        scheme, subsample = member("scheme", self.scheme, Bootstrap), self.subsample
        n_teachers = integer_between("n_teachers", self.n_teachers, 1)
        if self.delta is not None:
            if relation is Relation.ADD_OR_REMOVE_ONE:
                raise InvalidParameterError(
                    f"delta={self.delta!r} would let the size of subsamples depend on the number of records, "
                    "which adding or removing one changes; give subsample, or use relation='replace-one'."
                )
            subsample = largest_subsample(self.delta, n_units, n_teachers, scheme)
        return BootstrapScheme(scheme, n_teachers, subsample)

    def _fit_models(
        self, X: Floats, targets: NDArray[np.int64], allocation: Taught, classes: NDArray[Any], entropy: int
    ) -> list[Any]:
        shards = allocation.shards
        with progress_bar("Fitting models", len(shards)) as advance:
            fitted = fit_separately(
                LogisticRegression() if self.teacher is None else self.teacher,
                X,
                targets,
                shards,
                classes=classes,
                constant_votes=constant_voters(targets, shards, len(classes)),
                seeds=[seed_integer(entropy, Stream.TEACHERS, t) for t in range(len(shards))],
                n_jobs=self.n_jobs,
                on_done=advance,
                # They are published, and answer with labels.
                as_labels=True,
            )
        return [
            _constant(classes[[fallback]], X.shape[1]) if model is None else model
            for model, fallback in zip(fitted.models, fitted.fallback_votes.tolist(), strict=True)
        ]

    def _new_rows(self, X: ArrayLike) -> Floats:
        require_rows("X", X)
        with names_checked():
            return read_rows("X", lambda: validate_data(self, X, dtype=np.float64, reset=False))

    def _votes(self, X: Floats) -> Votes:
        ids = [np.searchsorted(self.classes_, model.predict(X.copy())) for model in self.models_]
        return Votes(np.column_stack(ids), n_classes=len(self.classes_))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label that most models give each row; costs no privacy.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels among ``classes_``; of several with equally many votes the first there.
        """
        check_is_fitted(self)
        rows = self._new_rows(X)
        labels: NDArray[Any] = self.classes_[self._votes(rows).counts.argmax(axis=1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return each class's share of the models' votes; of one model, its own probabilities if it has any.

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
        rows = self._new_rows(X)
        if len(self.models_) == 1 and hasattr(self.models_[0], "predict_proba"):
            return class_probabilities(self.models_[0], rows, self.classes_)
        return self._votes(rows).counts / len(self.models_)


def _constant(label: NDArray[Any], n_features: int) -> DummyClassifier:
    """Return an ordinary classifier that always says one label."""
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
    found = [
        f"Which {noun}s were drawn stays secret.",
        f"The subsamples hold at most {scheme.n_draws:,} {noun}s, and a model may contain them as they are.",
        f"The number of {noun}s is public{_ALTHOUGH if relation is Relation.ADD_OR_REMOVE_ONE else ''}.",
        "Neighbouring data sets list their other records in the same order.",
        "Declared classes, settings and seeds do not depend on the private records.",
        "That a run completed, or was refused, is not covered.",
        "This covers one training run; the deltas of further runs on the same records add to it.",
    ]
    return (UNITS_TOGETHER, *found) if has_units else tuple(found)


_ALTHOUGH = ", although a neighbouring data set has one more or one fewer"
_DRAWN = {
    Bootstrap.WITH_REPLACEMENT: "with replacement",
    Bootstrap.DISTINCT: "all draws distinct",
    Bootstrap.SUBSETS: "as independent subsets",
}
