"""Private aggregation of teacher ensembles (PATE)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from dpensemble._checks import integer_between, member, real_between
from dpensemble._random import NoiseSource
from dpensemble.accounting import Accounting, ExactPersonalisedMeter, Meter
from dpensemble.allocation import Allocation
from dpensemble.budget import Budget
from dpensemble.electorate import Electorate
from dpensemble.errors import InvalidParameterError
from dpensemble.interactive import label_interactively
from dpensemble.labelling import PrivateDiagnostics, Questions, Released
from dpensemble.laws import InteractiveNoisyMax, ReleaseLaw
from dpensemble.methods import inputs
from dpensemble.methods.base import VotingEnsembleClassifier
from dpensemble.planning import VotingMethod, law_of
from dpensemble.student import Learner, default_student


class Aggregator(StrEnum):
    """How the teachers' votes become a label."""

    LNMAX = "lnmax"
    GNMAX = "gnmax"
    CONFIDENT_GNMAX = "confident-gnmax"
    INTERACTIVE_GNMAX = "interactive-gnmax"
    OPTIMAL = "optimal"


class PATEAnalysis(StrEnum):
    """Which accounting PATE uses."""

    WORST_CASE = "worst-case"
    DATA_DEPENDENT = "data-dependent"


class PATEClassifier(VotingEnsembleClassifier):
    """Private classifier by private aggregation of teacher ensembles (PATE).

    One partition of the private records into `n_teachers` disjoint subsets, one
    teacher each; public rows are labelled by a noisy plurality, a student is
    trained on those labels and is what predicts.

    Parameters
    ----------
    teacher, student : scikit-learn classifier, optional
        Base learners; logistic regression by default. The student needs ``predict_proba``.
    classes : sequence
        All possible labels. Must be declared: reading them off private labels would leak.
    n_teachers : int, default=250
        Number of disjoint subsets.
    aggregator : {"gnmax", "lnmax", "confident-gnmax", "interactive-gnmax", "optimal"}, default="gnmax"
        Gaussian or Laplace noisy-max; answering only where the highest noisy
        count passes a threshold; or where it exceeds what the student expects. ``"optimal"`` adds no noise to
        counts and errs less often at the same cost: see `dpensemble.laws.OptimalVote`; with three or more classes
        few teachers only can be priced.
    sigma : float, optional
        Standard deviation of the Gaussian noise on the votes; ``0.16 * n_teachers`` by default.
    scale : float, optional
        ``"lnmax"`` only: scale of the Laplace noise in votes; ``0.08 * n_teachers`` by default.
    reach : float, optional
        ``"optimal"`` only: margin in votes at which the answer is certain. By default the smallest at which the
        budget pays for `max_labels` in the worst case (a data-dependent analysis with `max_labels` needs a
        reach); without those, ``0.74 * n_teachers``.
    threshold, threshold_sigma : float, optional
        Confident and interactive only: threshold in votes and the standard
        deviation of the noise on it; ``0.8`` and ``0.6 * n_teachers`` by default.
    batch_size : int, default=100
        Interactive only: queries between two fits of the student.
    student_confidence : float, default=0.9
        Interactive only: probability from which the student's own label is
        reinforced where the teachers gave none.
    analysis : {"worst-case", "data-dependent"}, default="worst-case"
        ``"data-dependent"`` charges for the votes at hand, exactly for every query and record: many
        more labels where teachers agree, but the spend must not be published.
        It needs `max_labels`, or `stop_when_spent`; not for the interactive aggregator.
    stop_when_spent : bool, default=False
        Data-dependent analysis only: answer until the budget is used up; the
        number of answers then depends on private votes and is not protected.
    accounting : {"exact", "published"}, default="exact"
        Worst-case analysis: charge for what is released, or as the papers do.
    epsilon, delta : float
        Budget of one fit. `delta` must be below 1 / n_records.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation; decides how records are allocated.
    max_labels : int, optional
        Most public rows to ask about.
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
        What is promised.
    labels_ : ReleasedLabels
        Answered public rows and their released labels; ``labels_.n_asked`` counts unanswered ones too.
    student_ : scikit-learn classifier
        Trained on released labels (and its own, in the interactive loop) only.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    N. Papernot, M. Abadi, U. Erlingsson, I. Goodfellow and K. Talwar, "Semi-supervised knowledge
    transfer for deep learning from private training data", ICLR 2017 (LNMax);
    N. Papernot et al., "Scalable private learning with PATE", ICLR 2018 (the others, Algorithms 1 and 2).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = PATEClassifier(classes=[0, 1], aggregator="gnmax", epsilon=1.0, random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)))
    >>> len(model.labels_)
    88
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        aggregator: str = "gnmax",
        sigma: float | None = None,
        scale: float | None = None,
        reach: float | None = None,
        threshold: float | None = None,
        threshold_sigma: float | None = None,
        batch_size: int = 100,
        student_confidence: float = 0.9,
        analysis: str = "worst-case",
        stop_when_spent: bool = False,
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
        self.aggregator = aggregator
        self.sigma = sigma
        self.scale = scale
        self.reach = reach
        self.threshold = threshold
        self.threshold_sigma = threshold_sigma
        self.batch_size = batch_size
        self.student_confidence = student_confidence
        self.analysis = analysis
        self.stop_when_spent = stop_when_spent

    def _law(self) -> ReleaseLaw:
        aggregator = member("aggregator", self.aggregator, Aggregator)
        integer_between("batch_size", self.batch_size, 1)
        real_between("student_confidence", self.student_confidence, 0.0, 1.0)
        if aggregator is Aggregator.INTERACTIVE_GNMAX and not hasattr(
            self.student or default_student(), "predict_proba"
        ):
            raise InvalidParameterError(
                f"student={type(self.student).__name__} has no predict_proba, which "
                "aggregator='interactive-gnmax' needs; use logistic regression, naive Bayes, a tree or a forest."
            )
        method = VotingMethod(aggregator.value)
        for name in ("sigma", "scale", "reach"):
            if name != method.noise_name and getattr(self, name) is not None:
                raise InvalidParameterError(
                    f"{name}={getattr(self, name)!r} is no setting of aggregator={aggregator.value!r}; "
                    f"give {method.noise_name} instead."
                )
        noise = getattr(self, method.noise_name)
        law = law_of(
            method, self.n_teachers, noise=noise, threshold=self.threshold, threshold_sigma=self.threshold_sigma
        )
        return self._optimal_law(noise) if aggregator is Aggregator.OPTIMAL else law

    def _meter(self, law: ReleaseLaw, allocation: Allocation, budget: Budget, n_classes: int) -> Meter:
        if member("analysis", self.analysis, PATEAnalysis) is PATEAnalysis.WORST_CASE:
            return super()._meter(law, allocation, budget, n_classes)
        refuse_data_dependent(member("accounting", self.accounting, Accounting), law)
        inputs.require_fixed_number(self.max_labels, self.stop_when_spent)
        return ExactPersonalisedMeter(law, allocation, budget, n_classes, stop_when_spent=self.stop_when_spent)

    def _label(
        self,
        questions: Questions,
        electorate: Electorate,
        meter: Meter,
        noise: NoiseSource,
        diagnostics: PrivateDiagnostics | None,
        learner: Learner,
    ) -> Released:
        if not isinstance(electorate.law(0), InteractiveNoisyMax):
            return super()._label(questions, electorate, meter, noise, diagnostics, learner)
        return label_interactively(
            questions,
            electorate,
            meter,
            noise,
            diagnostics,
            learner,
            n_classes=len(learner.classes),
            batch_size=self.batch_size,
            confidence=self.student_confidence,
        )


def refuse_data_dependent(accounting: Accounting, law: ReleaseLaw) -> None:
    """Refuse what has no data-dependent meter."""
    if accounting is Accounting.PUBLISHED:
        raise InvalidParameterError(
            "accounting='published' has no data-dependent meter: the published bounds hold in one direction "
            "only; use accounting='exact', and gnmax_rdp and its kin to compare."
        )
    if isinstance(law, InteractiveNoisyMax):
        raise InvalidParameterError("analysis='data-dependent' is not for aggregator='interactive-gnmax'.")
