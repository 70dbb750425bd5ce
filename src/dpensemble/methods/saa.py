"""Subsample-and-aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpensemble.laws import ReleaseLaw
from dpensemble.methods.base import VotingEnsembleClassifier


class SubsampleAggregateClassifier(VotingEnsembleClassifier):
    """Private classifier by subsample-and-aggregate with Laplace noisy-max.

    One partition of the private records into `n_teachers` disjoint subsets, one
    teacher each; public rows are labelled by a noisy majority for as long as the
    budget lasts; a student is trained on those labels and is what predicts.

    Parameters
    ----------
    teacher, student : scikit-learn classifier, optional
        Base learners; logistic regression by default. Plain logistic-regression
        teachers are fitted in fast batches; the default student is penalised more
        strongly, since it learns from few and noisy labels.
    classes : sequence
        All possible labels. Must be declared: reading them off private labels would leak.
    n_teachers : int, default=250
        Number of disjoint subsets.
    scale : float, optional
        Scale of the Laplace noise in votes; ``n_teachers / 2`` by default, as published.
    vote : {"laplace", "optimal"}, default="laplace"
        ``"optimal"`` errs less often at the same cost: see `dpensemble.laws.OptimalVote`. With three or more
        classes few teachers only can be priced.
    reach : float, optional
        Optimal vote only: margin in votes at which the answer is certain. By default the smallest at which the
        budget pays for `max_labels`; without those, ``0.74`` times the number of ballots.
    accounting : {"exact", "published"}, default="exact"
        ``"exact"`` charges for what the released label alone reveals, ``"published"``
        for the noisy counts too, as the paper does: about a seventh of the labels.
    epsilon, delta : float
        Budget of one fit. `delta` must be below 1 / n_records.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation; decides how records are allocated.
    max_labels : int, optional
        Most public rows to label.
    random_state : int, RandomState or None
        Public seed of allocation, teachers, the order of public rows and the
        student. It does not seed the noise.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment and marks the guarantee
        "not for release".
    n_jobs : int, optional
        Workers, as in joblib.
    progress : bool, default=False
        Show a progress bar on stderr.
    private_diagnostics : bool, default=False
        Keep private vote statistics in ``private_diagnostics_``.

    Attributes
    ----------
    guarantee_ : Guarantee
        What is promised; may be published (worst-case).
    labels_ : ReleasedLabels
        Answered public rows and their released labels; may be published.
    student_ : scikit-learn classifier
        Trained on ``labels_`` only; may be published.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    J. Jordon, J. Yoon and M. van der Schaar, "Differentially private bagging",
    NeurIPS 2019, supplement, section 4, Algorithm 1; K. Nissim, S. Raskhodnikova and A. Smith, STOC 2007.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = SubsampleAggregateClassifier(classes=[0, 1], n_teachers=250, epsilon=1.0, random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(2000, 2)))
    >>> len(model.labels_)
    1122
    >>> model.guarantee_.basis.value
    'worst-case'
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        scale: float | None = None,
        vote: str = "laplace",
        reach: float | None = None,
        accounting: str = "exact",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "replace-one",
        max_labels: int | None = None,
        random_state: Any = None,
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
        progress: bool = False,
        private_diagnostics: bool = False,
    ) -> None:
        super().__init__(
            teacher,
            student,
            classes=classes,
            n_teachers=n_teachers,
            accounting=accounting,
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            max_labels=max_labels,
            random_state=random_state,
            insecure_release_seed=insecure_release_seed,
            n_jobs=n_jobs,
            progress=progress,
            private_diagnostics=private_diagnostics,
        )
        self.scale = scale
        self.vote = vote
        self.reach = reach

    def _law(self) -> ReleaseLaw:
        return self._laplace_or_optimal(self.vote, self.scale, self.reach)
