"""Random subspace voting: every teacher sees some of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from dpensemble._random import Stream
from dpensemble.engine.planned import store_params
from dpensemble.engine.voting import VotesInBlocks, VotingSteps
from dpensemble.laws import ReleaseLaw
from dpensemble.methods.designs import RandomSubspace


class SubspaceSteps(VotingSteps):
    """Teachers that each see some of the columns."""

    def base_learner(self) -> Any:
        """Return a classifier of some columns."""
        return OnColumns(super().base_learner(), self.method.columns)

    def teaching_entropy(self) -> int:
        """Return the seed of the columns, which is secret when they are."""
        if not self.method.secret_columns:
            return self.entropy
        return int(self.secret_source(Stream.TEACHERS).uniform_bits(1)[0])


class RandomSubspaceClassifier(RandomSubspace, VotesInBlocks):
    """PATE whose teachers each see random columns.

    Votes differ more between teachers. This helps if a few columns dominate the others or if shards are small.

    The columns are drawn without reading any record. So for every choice of columns, each teacher is a function of its
    own records, and a record changes as many votes as in `PATEClassifier`. That guarantee holds for each choice and,
    because divergences are jointly convex, on average over the choices. The guarantee is also not better, even if the
    choice is secret: protecting a record must count its teacher's vote for every choice of columns.

    Parameters
    ----------
    teacher, student, classes, n_teachers
        As for `SubsampleAggregateClassifier`.
    columns : float, default=0.5
        Share of the columns that each teacher sees, above 0 and at most 1. At least one column.
    secret_columns : bool, default=False
        Draw the columns from the operating system's generator instead of the public seed. The guarantee is the same.
    law : ReleaseLaw or str, default="gnmax"
        As for `PATEClassifier`.
    accounting, epsilon, delta, relation, max_labels, random_state, on_bad_record, insecure_release_seed, n_jobs
        As for `SubsampleAggregateClassifier`.

    Attributes
    ----------
    guarantee_, labels_, student_, design_, classes_
        As for `SubsampleAggregateClassifier`.

    References
    ----------
    T. K. Ho, "The random subspace method for constructing decision forests", IEEE TPAMI 1998. That its privacy is
    that of one partition is a result of this library.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 6)); y = (X[:, :3].sum(axis=1) > 0).astype(int)
    >>> model = RandomSubspaceClassifier(classes=[0, 1], n_teachers=60, random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(100, 6)))
    >>> len(model.labels_), model.design_.settings()["method"]
    (4, 'random-subspace')
    """

    steps: ClassVar[type[VotingSteps]] = SubspaceSteps

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        columns: float = 0.5,
        secret_columns: bool = False,
        law: ReleaseLaw | str = "gnmax",
        accounting: str = "exact",
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


class OnColumns(ClassifierMixin, BaseEstimator):
    """A classifier of some columns. Only its seed determines the columns."""

    def __init__(self, estimator: Any = None, columns: float = 0.5, random_state: int | None = None) -> None:
        store_params(self, locals())

    def fit(self, X: ArrayLike, y: ArrayLike) -> OnColumns:
        """Draw the columns and fit a clone of the classifier on them."""
        rows = np.asarray(X)
        generator = np.random.default_rng(self.random_state)
        size = max(1, round(self.columns * rows.shape[1]))
        self.columns_ = np.sort(generator.choice(rows.shape[1], size, replace=False))
        self.estimator_ = clone(self.estimator).fit(rows[:, self.columns_], y)
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the classifier's labels of the rows."""
        labels: NDArray[Any] = self.estimator_.predict(np.asarray(X)[:, self.columns_])
        return labels
