"""Majorities of private teachers: the estimator, its default teacher, and its run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import count
from typing import Any, ClassVar

import numpy as np
from sklearn.linear_model import LogisticRegression

from dpensemble._checks import integer_between, member, shown
from dpensemble._random import NoiseSource, Stream, seed_integer
from dpensemble.allocation import Allocation
from dpensemble.design import DaRRM, PrivateWhat, VotingDesign, private_teachers
from dpensemble.design.private_majority import MajorityRule
from dpensemble.engine.planned import Facts, store_params
from dpensemble.engine.voting import VotingEnsembleClassifier, VotingSteps
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.teachers import FreshTeachers, PrivateTeachers, RandomizedBallots
from dpensemble.teachers.private_logistic import default_teacher


def _declared_pair(privacy: Any) -> tuple[Any, Any]:
    """Return the declared epsilon and delta, numbers or one for each teacher, or None if nothing was declared."""
    if privacy is None or np.ndim(privacy) == 0:
        return privacy, None
    table = np.asarray(privacy, dtype=object)
    if table.shape == (2,) and privacy[0] is not None:
        return privacy[0], privacy[1]
    if table.ndim == 2 and table.shape[1] == 2:
        return tuple(table[:, 0].tolist()), tuple(table[:, 1].tolist())
    raise InvalidParameterError(
        f"teacher_privacy must be an epsilon, a pair of epsilon and delta, or a sequence of such pairs; got "
        f"{shown(privacy)}."
    )


class _PrivateTeachersSteps(VotingSteps):
    """Teachers that are private, or whose ballots are."""

    design: Any

    @property
    def draws_to_teach(self) -> bool:
        """Whether the noise of the models is drawn when the models are fitted."""
        return not self.design.ordinary and self.design.private is PrivateWhat.MODELS

    @property
    def default_teacher(self) -> Any:
        """The default teacher: a classifier for ordinary teachers, otherwise a description."""
        return LogisticRegression() if self.design.ordinary else "private logistic regression"

    def teach(self) -> None:
        """Fit the teachers. Charge for models whose accountants report after the fit."""
        design = self.design
        if design.ordinary:
            super().teach()
            if design.private is PrivateWhat.BALLOTS:
                # The released labels' noise must not repeat that of the ballots.
                source = self.secret_source(Stream.PARTICIPATION)
                epsilon = max(epsilon for epsilon, _ in design.teachers or ())
                self.voters = _with_drawn_ballots(RandomizedBallots(self.voters, epsilon, source), design, source)
        elif design.private is PrivateWhat.FRESH_MODELS:
            fresh = FreshTeachers(self._model_fitter(), self.classes)
            self.voters = _with_drawn_ballots(fresh, design, self.secret_source(Stream.PARTICIPATION))
        else:
            self.voters = self._model_fitter()()
            if design.teachers is None:
                self.design = replace(design, teachers=_charge_reported(self.meter, self.voters, self.allocation))

    def _model_fitter(self) -> Callable[[], PrivateTeachers]:
        """Return a function that fits all private teachers, each time with other noise."""
        seed, allocation, turns = self.method.insecure_release_seed, self.allocation, count()
        teacher, n_teachers = self.method._resolved_teacher(self.budget), self.allocation.n_teachers

        def fit() -> PrivateTeachers:
            first = next(turns) * n_teachers
            seeds = None
            if seed is not None:
                seeds = [seed_integer(seed, Stream.TEACHERS, first + t) for t in range(n_teachers)]
            return PrivateTeachers.fit(
                teacher,
                self.records.X,
                # A private teacher needs a label from every record. A bad record gets the first class.
                np.maximum(self.records.targets, 0),
                allocation.shards,
                classes=self.classes,
                seeds=seeds,
                n_jobs=self.method.n_jobs,
                units=None if self.records.units is None else allocation.unit_of_record,
            )

        return fit


def _with_drawn_ballots(voters: RandomizedBallots | FreshTeachers, design: Any, source: NoiseSource) -> Any:
    """Return voters. If the design requires it, a few of their ballots are drawn for every query."""
    return voters if design.drawn in (None, design.n_teachers) else voters.drawing(design.drawn, source)


def _charge_reported(meter: Any, fitted: PrivateTeachers, allocation: Allocation) -> tuple[tuple[float, float], ...]:
    """Charge for fitted models what their accountants report, before anything is computed from them. Return it."""
    touched = allocation.votes_per_unit
    spent = fitted.spent_privacy(meter.budget.delta / (2 * touched), allocation.relation)
    meter.pay_for(spent, touched)
    return spent


class Sharing(StrEnum):
    """Which teachers learn from which records."""

    EVERYONE = "everyone"
    PARTITION = "partition"


class PrivateMajorityClassifier(VotingEnsembleClassifier):
    """Private classifier by the majority of teachers that are themselves private.

    The cost of labels depends on what is private:

    - ``private="models"``: each teacher is trained once and is private. All its votes on all queries
      are computed from the model. So the models are paid for once, the plain majority is released without noise, and
      the number of labels does not matter. An answer's own guarantee must *not* be composed over queries here: the
      answers share the models' randomness, and composing them as if they did not can understate the loss.
    - ``private="fresh-models"``: private teachers are trained separately for every query.
    - ``private="ballots"``: ordinary teachers, and randomized response on every ballot.

    In the last two cases every query has fresh randomness, so answers compose. Then `law` turns the ballots into an
    answer, each at a loss such that `max_labels` of them use the budget exactly. With three or more
    classes, an answer is the plurality of as many randomly drawn ballots as it may reveal.

    Parameters
    ----------
    teacher : scikit-learn classifier, optional
        Must itself be private, except for ``"ballots"`` and ``law="gnmax"``, where it is logistic
        regression by default. Otherwise the default is `GradientPerturbedLogisticRegression`, with an even share of the
        budget's zero-concentrated privacy, or with the `teacher_privacy` given. For fresh models and a delta of 0, the
        default is `OutputPerturbedLogisticRegression`, for two classes. Teachers whose ``fit`` takes
        ``units``, as these do, protect all records of a unit together.
    student : scikit-learn classifier, optional
        As for `SubsampleAggregateClassifier`.
    classes : sequence
        All possible labels. They must be declared, because reading them from private labels would leak information.
    n_teachers : int, default=11
        Number of teachers. At most 2,001 if answers are noisy.
    private : {"models", "fresh-models", "ballots"}, default="models"
        What is private. Not for ``law="gnmax"``.
    teacher_privacy : float, (float, float), or sequence of such pairs, optional
        Epsilon, or epsilon and delta, of each teacher (of each ballot, under ``"ballots"``) under `relation`.
        Without it, the teacher's own statement is used: ``announced_privacy()`` (and ``announced_zcdp()``, which
        composes better) before the fit. For ``"models"`` it may be stated after the fit, by
        ``privacy_spent_(delta)``, ``guarantee_`` or Opacus' ``privacy_engine_``.
    sharing : {"everyone", "partition"}, default="everyone"
        Whether every teacher learns from all records, or from its own part: then a record affects only one teacher.
    law : {"majority", "darrm", "dsub", "sub", "rr", "gnmax"} or DaRRM, optional
        How ballots become a label: ``"majority"`` for models, otherwise ``"darrm"`` by default, and ``"sub"`` for three
        or more classes. A `DaRRM` object sets other expected votes. ``"gnmax"`` is Gaussian noise on votes of
        ordinary teachers, for comparison.
    epsilon, delta
        As for `SubsampleAggregateClassifier`.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. The teachers' own statements must hold under it.
    max_labels : int, optional
        Number of public rows to label. Required unless the models are private.
    random_state : int, RandomState or None
        Public seed of allocation, ordinary teachers, order of public rows and student, not of noise or private
        teachers.
    on_bad_record : {"raise", "zero"}, default="raise"
        As for `SubsampleAggregateClassifier`. A private teacher reads such a record as zeros of the first class.
    insecure_release_seed : int, optional
        Seeds all noise for a repeatable experiment and marks the guarantee "not for release".
    n_jobs
        As for `SubsampleAggregateClassifier`.

    Attributes
    ----------
    guarantee_ : Guarantee
        The guarantee, with the assumptions about each teacher's privacy.
    design_ : PrivateTeachersDesign
        Law, privacy of teachers and of one answer. Public.
    labels_ : ReleasedLabels
        Answered public rows and their released labels.
    student_ : scikit-learn classifier
        Trained on ``labels_`` only.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    "Optimized Tradeoffs for Private Prediction with Majority Ensembling" (DaRRM), for one query. For many: ours.

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

    name: ClassVar[str] = "private-majority"
    title: ClassVar[str] = "Majority of private teachers"
    steps: ClassVar[type[VotingSteps]] = _PrivateTeachersSteps

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        n_teachers: int = 11,
        private: str = "models",
        teacher_privacy: Any = None,
        sharing: str = "everyone",
        law: DaRRM | str | None = None,
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

    def _takes_nan(self) -> bool:
        """Return False: the proofs of private teachers are about numbers."""
        return False

    def _design(self, facts: Facts) -> VotingDesign:
        partition = member("sharing", self.sharing, Sharing) is Sharing.PARTITION
        n_teachers = integer_between("n_teachers", self.n_teachers, 1)
        return private_teachers(
            self._resolved_teacher(facts.budget),
            named={"name": self.name, "title": self.title},
            private=member("private", self.private, PrivateWhat),
            law=self.law,
            declared=_declared_pair(self.teacher_privacy),
            n_teachers=n_teachers,
            touched=1 if partition else n_teachers,
            queries=facts.max_labels,
            budget=facts.budget,
            has_units=facts.has_units,
            relation=facts.relation,
            n_classes=facts.n_classes,
        )

    def _resolved_teacher(self, budget: Budget) -> Any:
        """Return the teacher. The default teacher is as private as declared, or as the budget requires of a model."""
        ordinary = self.private == PrivateWhat.BALLOTS or self.law == MajorityRule.GNMAX
        if self.teacher is not None or ordinary:
            return self.teacher
        models = member("private", self.private, PrivateWhat) is PrivateWhat.MODELS
        touched = self.n_teachers if self.sharing == Sharing.EVERYONE else 1
        return default_teacher(budget, touched, _declared_pair(self.teacher_privacy), trained_once=models)
