"""Differentially private bagging."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from dpensemble._checks import integer_between, member
from dpensemble.accounting import Accounting, ExactPersonalisedMeter, Meter, PersonalisedMeter
from dpensemble.allocation import Allocation
from dpensemble.budget import Budget
from dpensemble.laws import LaplaceNoisyMax, ReleaseLaw
from dpensemble.methods import inputs
from dpensemble.methods.base import VotingEnsembleClassifier


class Analysis(StrEnum):
    """Which accounting DPBag uses."""

    PERSONALISED = "personalised"
    WORST_CASE = "worst-case"


class DPBaggingClassifier(VotingEnsembleClassifier):
    """Private classifier by differentially private bagging (DPBag) with Laplace noisy-max.

    Like `SubsampleAggregateClassifier`, but the records are partitioned
    `n_partitions` times, so every record teaches that many teachers and the
    noise grows in proportion. Votes are steadier at the same worst-case cost,
    and the personalised analysis answers more queries.

    Parameters
    ----------
    teacher, student : scikit-learn classifier, optional
        Base learners; logistic regression by default. Plain logistic-regression
        teachers are fitted in fast batches; the default student is penalised more
        strongly, since it learns from few and noisy labels.
    classes : sequence
        All possible labels. Must be declared: reading them off private labels would leak.
    n_teachers : int, default=250
        Disjoint subsets in each partition; there are ``n_teachers * n_partitions`` teachers.
    n_partitions : int, default=10
        Number of partitions.
    analysis : {"worst-case", "personalised"}, default="worst-case"
        ``"worst-case"`` is DPBag-: a guarantee for every data set.
        ``"personalised"`` is DPBag proper: data-dependent, so more labels for the
        same budget, but the spend must not be published. It needs `max_labels`, or
        `stop_when_spent`.
    stop_when_spent : bool, default=False
        Personalised analysis only: answer until the budget of the most exposed unit is
        used up, as published. The number of labels then depends on private votes
        and is not protected. By default all `max_labels` are answered, and a fit whose
        spend would exceed the budget releases nothing and raises.
    scale : float, optional
        Scale of the Laplace noise in votes; ``n_teachers * n_partitions / 2`` by
        default, as published.
    vote : {"laplace", "optimal"}, default="laplace"
        ``"optimal"`` errs less often at the same cost: see `dpensemble.laws.OptimalVote`. With three or more
        classes few teachers only can be priced.
    reach : float, optional
        Optimal vote only: margin in votes at which the answer is certain. By default the smallest at which the
        budget pays for `max_labels` in the worst case (a personalised analysis with `max_labels` needs a
        reach); without those, ``0.74`` times the number of ballots.
    accounting : {"exact", "published"}, default="exact"
        ``"exact"`` charges for what the released label alone reveals, ``"published"``
        for the noisy counts too, as the paper does.
    epsilon, delta : float
        Budget of one fit. `delta` must be below 1 / n_records.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation; decides how records are allocated. The personalised
        analysis gains nothing under add-or-remove-one with two classes, since an
        added record might join any teachers and is charged for that.
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
        What is promised. Under the personalised analysis it holds for the data set at hand.
    labels_ : ReleasedLabels
        Answered public rows and their released labels.
    student_ : scikit-learn classifier
        Trained on ``labels_`` only.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    J. Jordon, J. Yoon and M. van der Schaar, "Differentially private bagging",
    NeurIPS 2019, Algorithm 1 and Theorems 1 to 6.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = DPBaggingClassifier(classes=[0, 1], n_teachers=100, n_partitions=5, analysis="worst-case",
    ...                             epsilon=1.0, random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)))
    >>> len(model.labels_)
    180
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        n_partitions: int = 10,
        analysis: str = "worst-case",
        stop_when_spent: bool = False,
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
        self.n_partitions = n_partitions
        self.analysis = analysis
        self.stop_when_spent = stop_when_spent
        self.scale = scale
        self.vote = vote
        self.reach = reach

    def _n_partitions(self) -> int:
        return integer_between("n_partitions", self.n_partitions, 1)

    def _law(self) -> ReleaseLaw:
        return self._laplace_or_optimal(self.vote, self.scale, self.reach)

    def _meter(self, law: ReleaseLaw, allocation: Allocation, budget: Budget, n_classes: int) -> Meter:
        if member("analysis", self.analysis, Analysis) is Analysis.WORST_CASE:
            return super()._meter(law, allocation, budget, n_classes)
        inputs.require_fixed_number(self.max_labels, self.stop_when_spent)
        stop = self.stop_when_spent
        if member("accounting", self.accounting, Accounting) is Accounting.PUBLISHED:
            assert isinstance(law, LaplaceNoisyMax)  # noqa: S101
            return PersonalisedMeter(law, allocation, budget, n_classes, stop_when_spent=stop)
        return ExactPersonalisedMeter(law, allocation, budget, n_classes, stop_when_spent=stop)
