"""Majorities of teachers that are themselves private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import member
from dpensemble._random import Stream, noise_source, seed_integer
from dpensemble.accounting import Meter, PrivateModelsMeter
from dpensemble.allocation import Allocation, everyone, partitions
from dpensemble.budget import Budget
from dpensemble.darrm import AlikeTeachers
from dpensemble.electorate import Electorate
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Guarantee
from dpensemble.laws import ReleaseLaw
from dpensemble.methods.base import PrivateRecords, VotingEnsembleClassifier
from dpensemble.methods.private_design import (
    MajorityRule,
    PrivateWhat,
    design_majority,
    design_meter,
    touched_models,
)
from dpensemble.methods.private_teacher import default_teacher
from dpensemble.teachers import FreshTeachers, PrivateTeachers, RandomizedBallots
from dpensemble.teachers.accountants import spent_privacy
from dpensemble.teachers.private import fit_private


class Sharing(StrEnum):
    """Who learns which records."""

    EVERYONE = "everyone"
    PARTITION = "partition"


class PrivateMajorityClassifier(VotingEnsembleClassifier):
    """Private classifier by the majority of teachers that are themselves private; two classes.

    What is private decides what any number of labels costs:

    - ``private="models"``: each teacher is trained once and is private by itself. All its votes on all queries
      are computed from the model, so the models are paid for once, the plain majority is told without noise, and
      the number of labels plays no part. An answer's own guarantee must *not* be composed over queries here: the
      answers share the models' randomness, and composing them as if they did not can understate the loss.
    - ``private="fresh-models"``: private teachers are trained anew for every query.
    - ``private="ballots"``: ordinary teachers, and randomized response on every ballot.

    In the last two every query has fresh randomness, so that answers compose; `aggregator` is then how the
    ballots become an answer, each at a loss such that `max_labels` of them meet the budget exactly.

    Parameters
    ----------
    teacher, student : scikit-learn classifier, optional
        The teacher must be private by itself, except for ``"ballots"`` and ``"gnmax"``, where it is logistic
        regression by default. Else it is `GradientPerturbedLogisticRegression`, with an even share of the
        budget's zero-concentrated privacy or with the `teacher_epsilon` and `teacher_delta` given; or, for fresh
        models and a `teacher_delta` of 0, `OutputPerturbedLogisticRegression` with a delta of 0.
    classes : sequence of two labels
        All possible labels. Must be declared: reading them off private labels would leak.
    n_teachers : int, default=11
        Number of teachers, up to 2,001 where answers are noisy.
    private : {"models", "fresh-models", "ballots"}, default="models"
        What is private; not for ``"gnmax"``.
    teacher_epsilon, teacher_delta : float or sequence of floats, optional
        Privacy of each teacher (of each ballot, under ``"ballots"``) under `relation`; a delta is 0 by default.
        Without them the teacher's own word is taken: ``announced_privacy()`` (and ``announced_zcdp()``, which
        composes better) before the fit; or for ``"models"`` after it
        ``privacy_spent_(delta)``, ``guarantee_`` or Opacus' ``privacy_engine_``.
    sharing : {"everyone", "partition"}, default="everyone"
        Whether every teacher learns all records, or each its own part: a record then touches one teacher only.
    aggregator : {"majority", "darrm", "dsub", "sub", "rr", "gnmax"}, optional
        ``"majority"`` for models, else ``"darrm"`` by default. ``"gnmax"`` is Gaussian noise on votes of ordinary
        teachers, to compare with.
    prior : float or VotePrior, optional
        What votes to expect, for ``"darrm"``; `AlikeTeachers` by default. Never derive it from private records.
    accounting : {"exact"}, default="exact"
        Optimal composition.
    epsilon, delta : float
        Budget of one fit. `delta` must be below 1 / n_records.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation; what teachers say of themselves must hold under it.
    max_labels : int, optional
        Number of public rows to label; needed unless the models are private.
    random_state : int, RandomState or None
        Public seed of allocation, ordinary teachers, the order of public rows and the student. It seeds neither
        noise nor private teachers.
    insecure_release_seed : int, optional
        Seeds all noise for a repeatable experiment and marks the guarantee "not for release".
    n_jobs : int, optional
        Workers, as in joblib.
    progress : bool, default=False
        Show a progress bar on stderr.
    private_diagnostics : bool, default=False
        Keep private vote statistics in ``private_diagnostics_``.

    Attributes
    ----------
    guarantee_ : Guarantee
        What is promised, and what each teacher's privacy rests on.
    design_ : MajorityDesign
        Law, privacy of teachers and of one answer. Public.
    labels_ : ReleasedLabels
        Answered public rows and their released labels.
    student_ : scikit-learn classifier
        Trained on ``labels_`` only.
    classes_ : ndarray of shape (2,)
        Declared labels, sorted.

    References
    ----------
    "Optimized Tradeoffs for Private Prediction with Majority Ensembling" (DaRRM), for one query; many queries are
    this library's analysis.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateMajorityClassifier(classes=[0, 1], sharing="partition", epsilon=1.0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)))
    >>> len(model.labels_), model.guarantee_.epsilon
    (500, 1.0)
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 11,
        private: str = "models",
        teacher_epsilon: Any = None,
        teacher_delta: Any = None,
        sharing: str = "everyone",
        aggregator: str | None = None,
        prior: Any = None,
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
        self.private = private
        self.teacher_epsilon = teacher_epsilon
        self.teacher_delta = teacher_delta
        self.sharing = sharing
        self.aggregator = aggregator
        self.prior = prior

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _law(self) -> ReleaseLaw:
        law: ReleaseLaw = self.design_.law
        return law

    def _prepare(
        self, records: PrivateRecords, n_classes: int, entropy: int
    ) -> tuple[Electorate, Allocation, Meter]:
        relation = self._relation()
        if n_classes != 2:
            raise InvalidParameterError(
                f"Only binary classification is supported by private majorities, not classes of {n_classes} "
                "labels; use PATEClassifier."
            )
        if self.accounting != "exact":
            raise InvalidParameterError(f"accounting={self.accounting!r} is unknown here; use 'exact'.")
        identities = records.identities(relation)
        if member("sharing", self.sharing, Sharing) is Sharing.EVERYONE:
            allocation = everyone(identities, self.n_teachers, relation=relation)
        else:
            allocation = partitions(identities, self.n_teachers, relation=relation, entropy=entropy)
        budget = Budget(epsilon=self.epsilon, delta=self.delta)
        records.check_delta(budget, allocation)
        self.design_ = design_majority(
            self._resolved_teacher(),
            private=member("private", self.private, PrivateWhat),
            rule=None if self.aggregator is None else member("aggregator", self.aggregator, MajorityRule),
            declared=(self.teacher_epsilon, self.teacher_delta),
            n_teachers=self.n_teachers,
            touched=allocation.votes_per_unit,
            queries=self.max_labels,
            budget=budget,
            prior=AlikeTeachers() if self.prior is None else self.prior,
            has_units=records.units is not None,
            relation=relation,
        )
        meter = self._meter(self.design_.law, allocation, budget, n_classes)
        meter.require_one_query()
        self._models_meter = meter if isinstance(meter, PrivateModelsMeter) else None
        return Electorate.everyone(self.design_.law, allocation.n_teachers), allocation, meter

    def _meter(self, law: Any, allocation: Allocation, budget: Budget, n_classes: int) -> Meter:
        if self.design_.rule is MajorityRule.GNMAX:
            return super()._meter(law, allocation, budget, n_classes)
        return design_meter(self.design_, allocation.votes_per_unit, budget)

    def _resolved_teacher(self) -> Any:
        """Return the teacher; the default one is as private as was declared, or as the budget asks of a model."""
        ordinary = self.private == PrivateWhat.BALLOTS or self.aggregator == MajorityRule.GNMAX
        if self.teacher is not None or ordinary:
            return self.teacher
        return default_teacher(
            member("private", self.private, PrivateWhat),
            Budget(epsilon=self.epsilon, delta=self.delta),
            self.n_teachers if self.sharing == Sharing.EVERYONE else 1,
            (self.teacher_epsilon, self.teacher_delta),
        )

    def _fit_teachers(
        self,
        X: NDArray[np.float64],
        targets: NDArray[np.int64],
        allocation: Allocation,
        classes: NDArray[Any],
        entropy: int,
    ) -> Any:
        design, seed = self.design_, self.insecure_release_seed
        if design.ordinary:
            ensemble = super()._fit_teachers(X, targets, allocation, classes, entropy)
            if design.private is not PrivateWhat.BALLOTS:
                return ensemble
            # The released labels' noise must not repeat that of the ballots.
            source = noise_source(None if seed is None else seed_integer(seed, Stream.PARTICIPATION))
            return RandomizedBallots(ensemble, max(e for e, _ in design.teachers or ()), source)
        teacher, n_teachers, turns = self._resolved_teacher(), allocation.n_teachers, count()

        def fit() -> PrivateTeachers:
            first = next(turns) * n_teachers
            seeds = None
            if seed is not None:
                seeds = [seed_integer(seed, Stream.TEACHERS, first + t) for t in range(n_teachers)]
            return fit_private(
                teacher, X, targets, allocation.shards, classes=classes, seeds=seeds, n_jobs=self.n_jobs
            )

        if design.private is PrivateWhat.FRESH_MODELS:
            return FreshTeachers(fit, classes)
        fitted = fit()
        if design.teachers is None:
            self._pay(fitted, allocation)
        return fitted

    def _pay(self, fitted: PrivateTeachers, allocation: Allocation) -> None:
        """Charge for fitted models what their own accountants say, before anything is computed from them."""
        touched = allocation.votes_per_unit
        share = self.delta / (2 * touched)
        spent = tuple(spent_privacy(model, share, allocation.relation) for model in fitted.models)
        assert self._models_meter is not None  # noqa: S101
        self._models_meter.pay(touched_models(spent, touched))
        self.design_ = replace(self.design_, teachers=spent)

    def _state(self, meter: Meter, allocation: Allocation, for_release: bool, has_units: bool) -> Guarantee:
        guarantee = super()._state(meter, allocation, for_release, has_units)
        return replace(guarantee, assumptions=guarantee.assumptions + self.design_.assumptions)
