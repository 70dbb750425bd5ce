"""Teachers that answer with vectors: probabilities or coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpensemble._checks import integer_between, member
from dpensemble._entries import Floats
from dpensemble.accounting import Group
from dpensemble.budget import Budget
from dpensemble.design.sums import Answers, TeacherAverages, answers_of
from dpensemble.engine.averaging import AveragesSteps
from dpensemble.engine.classifier import ArrayClassifier
from dpensemble.engine.planned import store_params
from dpensemble.engine.records import teacher_records
from dpensemble.engine.run import run
from dpensemble.errors import DataError
from dpensemble.relations import Relation
from dpensemble.rows import arguments

_EVERYONE = "everyone"
# Of public rows: squares and products must stay finite.
_LARGEST_ENTRY = 1e50
_CLIP = {Answers.PROBABILITIES: 1.0, Answers.PARAMETERS: 2.0}


class SoftVotesClassifier(ArrayClassifier):
    """Private classifier by the noisy average of the teachers' answers.

    The records are divided into disjoint parts, one teacher each. A teacher answers once, with one vector of bounded
    length: its probabilities on all public rows, or its coefficients. The sum of all vectors is released with
    Gaussian noise. Its cost does not depend on the number of public rows.

    Parameters
    ----------
    teacher : scikit-learn classifier, optional
        With ``predict_proba`` for probabilities, and linear for parameters. By default logistic regression.
    student : scikit-learn classifier, optional
        Learns from averages of probabilities, as weights if it takes weights. By default logistic regression, with a
        penalty chosen by what was released. For parameters, the averaged model is the student unless one is given.
    classes : sequence
        All possible labels. They must be declared, because reading them from private labels would leak information.
    answers : {"probabilities", "parameters"}, default="probabilities"
        Content of a teacher's answer: class probabilities on public rows, or coefficients and intercepts.
    n_teachers : int, default=250
        Number of teachers. Each learns from its own part of the records.
    clip : float, optional
        Longest answer. Longer ones are shortened, and noise is in proportion to it. For probabilities a share of the
        longest possible answer, by default 1. For parameters a length, by default 2. Choose it from public data.
    epsilon, delta
        As for `SubsampleAggregateClassifier`. The fit uses all of the budget.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. Under both, one unit changes one teacher.
    max_labels : int, optional
        Number of public rows to query. By default all. The noise on each grows with the square root of their number.
    random_state, on_bad_record, insecure_release_seed, n_jobs
        As for `SubsampleAggregateClassifier`.

    Attributes
    ----------
    student_ : scikit-learn classifier
        The classifier that may be published.
    averages_ : ndarray of shape (n_asked, n_classes)
        Released averages of probabilities on the public rows of ``labels_``. Noise may drive them below 0 or above 1.
        For parameters, of shape (n_outputs, n_features + 1): averaged coefficients, with the intercept last.
    spread_ : float
        Standard deviation of the noise on each released number.
    labels_ : ReleasedLabels
        The student's label of every queried public row.
    guarantee_ : Guarantee
        The guarantee.
    design_ : TeacherAverages
        Groups, teachers, noise. Public.
    charges_ : tuple of dict
        ``sigma`` (noise in sensitivities), ``variance`` and ``entries`` of the released sum. Public.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    Averaging models: M. Pathak, S. Rane and B. Raj, "Multiparty differential privacy via aggregation of locally
    trained classifiers", NIPS 2010. Exact trade-off: B. Balle and Y.-X. Wang, ICML 2018. Proof: `moments.averages`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 4)); y = (X[:, 0] > 0).astype(int)
    >>> model = SoftVotesClassifier(classes=[0, 1], epsilon=1.0, random_state=0, insecure_release_seed=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 4)))
    >>> bool(model.score(X, y) > 0.9), model.guarantee_.epsilon <= 1.0
    (True, True)
    """

    name: ClassVar[str] = "soft-votes"
    title: ClassVar[str] = "Soft votes"

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        answers: str = "probabilities",
        n_teachers: int = 250,
        clip: float | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "replace-one",
        max_labels: int | None = None,
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        store_params(self, locals())

    def design(self, *, n_classes: int | None = None, groups: tuple[Group, ...] | None = None) -> TeacherAverages:
        """Return everything public about a run with these settings. No record is read."""
        if n_classes is None:
            n_classes = 2 if self.classes is None else len(self.classes)
        everyone = (Group(_EVERYONE, Budget(epsilon=self.epsilon, delta=self.delta)),)
        answers = answers_of(self.answers)
        return TeacherAverages(
            name=self.name,
            title=self.title,
            everyone=everyone if groups is None else groups,
            n_classes=integer_between("n_classes", n_classes, 2),
            rounds=1,
            relation=member("relation", self.relation, Relation),
            answers=answers,
            n_teachers=self.n_teachers,
            clip=_CLIP[answers] if self.clip is None else self.clip,
        )

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        personal_epsilons: ArrayLike | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
        **others: Any,
    ) -> SoftVotesClassifier:
        """Fit teachers on private records, release the noisy average of their answers, and fit the student to it.

        Every call is a separate release: the losses of several fits on the same records add up.

        Parameters
        ----------
        X, y, X_public, units, ledger, fewest_units, **others
            As for `PATEClassifier.fit`. For parameters, public rows may be left out.
        personal_epsilons : array-like of shape (n_records,), optional
            Epsilon of each record (and of all records of its unit) in place of ``epsilon``. Teachers learn from records
            of one epsilon, and weigh less the smaller it is. The epsilon of each record is public. Replace-one only.

        Returns
        -------
        self
        """
        arguments.refuse_others(others)

        def checked() -> AveragesSteps:
            arguments.require_others(X, X_public)
            relation, nan = member("relation", self.relation, Relation), self._takes_nan()
            records, classes, owners = teacher_records(self, X, y, units, nan=nan, relation=relation, public=X_public)
            epsilons = owners.kept_values("personal_epsilons", personal_epsilons)
            rows = self._public_rows(X_public)
            return AveragesSteps(self, records, classes, rows, fewest_units=fewest_units, epsilons=epsilons)

        return run(self, checked, ledger=ledger, records=(X, y, X_public))

    def _public_rows(self, X_public: Any) -> Floats:
        if X_public is None and answers_of(self.answers) is Answers.PARAMETERS and self.student is None:
            return np.empty((0, self.n_features_in_))
        rows = arguments.public_rows(self, X_public, nan=self._takes_nan())
        largest = np.abs(rows).max(initial=0.0, where=np.isfinite(rows))
        if largest > _LARGEST_ENTRY:
            raise DataError(
                f"X_public must have entries with which a student can be fitted, but one has size {largest:g}: scale "
                "rows by statistics of the public rows."
            )
        return rows
