"""Bagging that is protected only by the secret draw of the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dpensemble._entries import Floats
from dpensemble.engine.averaging import BaggingSteps
from dpensemble.engine.classifier import ArrayClassifier
from dpensemble.engine.planned import store_params
from dpensemble.engine.records import teacher_records
from dpensemble.engine.run import run
from dpensemble.relations import Relation
from dpensemble.rows import arguments
from dpensemble.student.published import class_probabilities
from dpensemble.votes import Votes


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

        def checked() -> BaggingSteps:
            # By position under either relation: equal records are separate units, and every position is equally likely.
            relation = Relation.REPLACE_ONE
            records, classes, _ = teacher_records(self, X, y, units, nan=False, relation=relation)
            return BaggingSteps(self, records, classes)

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

    def _votes(self, X: Floats) -> Votes:
        ids = [np.searchsorted(self.classes_, model.predict(X.copy())) for model in self.models_]
        return Votes(np.column_stack(ids), n_classes=len(self.classes_))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return each row's most frequent label, or the first of several in ``classes_``. This costs no privacy."""
        check_is_fitted(self)
        rows = self._new_rows(X)
        labels: NDArray[Any] = self.classes_[self._votes(rows).counts.argmax(axis=1)]
        return labels

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return each class's share of the models' votes. A single model returns its own probabilities if possible."""
        check_is_fitted(self)
        rows = self._new_rows(X)
        if len(self.models_) == 1 and hasattr(self.models_[0], "predict_proba"):
            return class_probabilities(self.models_[0], rows, self.classes_)
        return self._votes(rows).counts / len(self.models_)
