"""PATE whose teachers learn records that were drawn by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from dpensemble._checks import integer_between, member
from dpensemble._random import Stream, noise_source, seed_integer
from dpensemble.accounting import Meter
from dpensemble.allocation import Allocation, Bootstrap, BootstrapScheme
from dpensemble.allocation.partition import number_units
from dpensemble.budget import Budget
from dpensemble.electorate import Electorate
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.laws import ReleaseLaw
from dpensemble.methods.base import PrivateRecords, VotingEnsembleClassifier
from dpensemble.planning import BaggedEnsemble, Ensemble, VotingMethod, calibrated_bag
from dpensemble.relations import Relation


class BaggedVote(StrEnum):
    """How votes of bagged teachers become a label."""

    GNMAX = "gnmax"
    LNMAX = "lnmax"
    OPTIMAL = "optimal"


class BaggedPATEClassifier(VotingEnsembleClassifier):
    """Private classifier by a noisy vote of bagged teachers.

    Each teacher learns records that were drawn for it in secret. A record that nobody drew costs nothing, and one
    that several teachers hold costs more: the guarantee averages over both. With distinct draws of a part of the
    records, answers cost much less than from one partition of them all, which is worth most where teachers hardly
    gain by more records. Overlapping draws (the other two schemes) let a record serve several teachers, at a
    price that rises fast; `dpensemble.planning.plan_bagged` tells it beforehand.

    Parameters
    ----------
    teacher, student : scikit-learn classifier, optional
        Base learners; logistic regression by default. The student needs ``predict_proba``.
    classes : sequence
        All possible labels. Must be declared: reading them off private labels would leak.
    n_teachers : int, default=250
        Number of teachers.
    subsample : int, optional
        Records (or units) drawn for each teacher; by default half of what a partition would give it,
        ``n_units // (2 * n_teachers)``, and at least 1.
    scheme : {"distinct", "with-replacement", "subsets"}, default="distinct"
        Whether all draws differ, so that a record has one teacher at most; or every draw is among all records; or
        each teacher's are.
    aggregator : {"gnmax", "lnmax", "optimal"}, default="gnmax"
        Gaussian or Laplace noisy-max, or the optimal vote.
    sigma, scale, reach : float, optional
        Noise in votes of the respective aggregator. By default the smallest at which the budget pays for
        `max_labels`; without those ``0.16``, ``0.08`` and ``0.74`` times `n_teachers`.
    accounting : {"exact"}, default="exact"
        What the labels reveal, averaged over the draws.
    epsilon, delta : float
        Budget of one fit. `delta` must be below 1 / n_records.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. The number of records is public under either; ``"add-or-remove-one"`` needs
        `subsample`, `max_labels` and the noise, none of which may follow from that number.
    max_labels : int, optional
        Most public rows to label.
    random_state : int, RandomState or None
        Public seed of teachers, the order of public rows and the student. It seeds neither the draws nor the
        noise.
    insecure_release_seed : int, optional
        Seeds the draws and the noise for a repeatable experiment and marks the guarantee "not for release".
    n_jobs : int, optional
        Workers, as in joblib.
    progress : bool, default=False
        Show a progress bar on stderr.
    private_diagnostics : bool, default=False
        Keep private vote statistics in ``private_diagnostics_``.

    Attributes
    ----------
    guarantee_ : Guarantee
        What is promised; may be published.
    scheme_ : BootstrapScheme
        How records were drawn. Public, unlike the draws, which are not kept.
    labels_ : ReleasedLabels
        Public rows and their released labels; may be published.
    student_ : scikit-learn classifier
        Trained on ``labels_`` only; may be published.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    B. Balle, G. Barthe and M. Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 2; that it
    holds for whole runs of bagged teachers is this library's (`dpensemble.accounting.SubsampledCost`).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = BaggedPATEClassifier(classes=[0, 1], epsilon=1.0, random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)))
    >>> model.scheme_.subsample, len(model.labels_)
    (6, 199)
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 250,
        subsample: int | None = None,
        scheme: str = "distinct",
        aggregator: str = "gnmax",
        sigma: float | None = None,
        scale: float | None = None,
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
        self.subsample = subsample
        self.scheme = scheme
        self.aggregator = aggregator
        self.sigma = sigma
        self.scale = scale
        self.reach = reach

    def _law(self) -> ReleaseLaw:
        law: ReleaseLaw = self._bagged.ensemble.law
        return law

    def _prepare(
        self,
        records: PrivateRecords,
        n_classes: int,
        entropy: int,  # noqa: ARG002
    ) -> tuple[Electorate, Allocation, Meter]:
        relation, budget = self._relation(), Budget(epsilon=self.epsilon, delta=self.delta)
        if relation is Relation.ADD_OR_REMOVE_ONE:
            self._require_settings()
        # Equal records are records of their own here, under either relation: draws are tied to nothing.
        positions = range(len(records.X))
        identities = positions if records.units is None else records.identities(relation)
        n_units = len(number_units(identities)[0])
        bagged = BaggedEnsemble(
            ensemble=self._ensemble(n_classes), scheme=self._scheme(n_units), n_units=n_units, relation=relation
        )
        if bagged.ensemble.noise is None and self.max_labels is not None:
            bagged, meter = calibrated_bag(bagged, integer_between("max_labels", self.max_labels, 1), budget)
        else:
            meter = bagged.meter(budget)
        meter.require_one_query()
        if relation is Relation.ADD_OR_REMOVE_ONE and meter.sure_queries < self.max_labels:  # type: ignore[operator]
            raise BudgetError(
                f"max_labels={self.max_labels} do not fit epsilon={budget.epsilon:g} at delta={budget.delta:g}, "
                f"which pays for {meter.sure_queries}; ask for fewer, or use more noise."
            )
        # The draws must not repeat the noise of the released labels.
        seed = self.insecure_release_seed
        source = noise_source(None if seed is None else seed_integer(seed, Stream.ALLOCATION))
        allocation = bagged.scheme.draw(identities, relation=relation, noise=source)
        records.check_delta(budget, allocation)
        self._bagged, self.scheme_ = bagged, bagged.scheme
        return Electorate.everyone(bagged.ensemble.law, allocation.n_teachers), allocation, meter

    def _require_settings(self) -> None:
        """Refuse to find what would differ between data sets of unlike size."""
        name = VotingMethod(member("aggregator", self.aggregator, BaggedVote)).noise_name
        for needed in ("subsample", "max_labels", name):
            if getattr(self, needed) is None:
                raise InvalidParameterError(
                    f"{needed}=None would be found from the number of records, which an added or removed record "
                    f"changes; give subsample, max_labels and {name} (plan_bagged finds them), or use "
                    "relation='replace-one'."
                )

    def _ensemble(self, n_classes: int) -> Ensemble:
        """Return the voting settings; the noise of another aggregator is refused there."""
        return Ensemble(
            n_teachers=self.n_teachers,
            method=member("aggregator", self.aggregator, BaggedVote).value,
            n_classes=n_classes,
            sigma=self.sigma,
            scale=self.scale,
            reach=self.reach,
            accounting=self.accounting,
        )

    def _scheme(self, n_units: int) -> BootstrapScheme:
        n_teachers, subsample = integer_between("n_teachers", self.n_teachers, 1), self.subsample
        if subsample is None:
            subsample = max(1, n_units // (2 * n_teachers))
        return BootstrapScheme(member("scheme", self.scheme, Bootstrap), n_teachers, subsample)

    def _votes_per_unit(self, allocation: Allocation) -> int:
        """Return the most ballots that a unit could change; how many it does is as secret as the draws."""
        return 1 if self.scheme_.scheme is Bootstrap.DISTINCT else allocation.n_teachers

    def _state(self, meter: Meter, allocation: Allocation, for_release: bool, has_units: bool) -> Guarantee:
        guarantee = super()._state(meter, allocation, for_release, has_units)
        noun = "unit" if has_units else "record"
        public = f"The number of private {noun}s is public"
        if allocation.relation is Relation.ADD_OR_REMOVE_ONE:
            public += ", although a neighbouring data set has one more or fewer"
        draws = (
            f"Which {noun}s were drawn for which teacher stays secret, and is drawn anew for every run.",
            f"{public}.",
            "Neighbouring data sets list their other records in the same order.",
        )
        return replace(guarantee, assumptions=(*guarantee.assumptions, *draws))
