"""Teachers that answer with vectors: what they find probable, or what they learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression

from dpensemble._arrays import Floats
from dpensemble._checks import integer_between, member
from dpensemble._guard import on_public_rows
from dpensemble._progress import progress_bar
from dpensemble._random import Stream, noise_source, public_entropy, seed_integer, seed_sequence
from dpensemble._spending import announce
from dpensemble.accounting import WeightedGroup, weighted_groups
from dpensemble.allocation.partition import number_units
from dpensemble.budget import Budget
from dpensemble.budget_groups import personal_budgets
from dpensemble.datasets.bad_records import BAD
from dpensemble.design import Answers, TeacherAverages, answers_of
from dpensemble.engine import guarantee_text, inputs
from dpensemble.engine.on_arrays import ArrayClassifier
from dpensemble.engine.params import store_params
from dpensemble.engine.records import PrivateRecords, ReleasedLabels
from dpensemble.engine.voting import all_or_nothing
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments import AnswerBound, noisy_average
from dpensemble.relations import Relation
from dpensemble.student import fit_soft_student, published
from dpensemble.teachers import SoftTeacherEnsemble
from dpensemble.teachers.soft import require_linear

_EVERYONE = "everyone"
# Of public rows: squares and products must be numbers still.
_LARGEST_ENTRY = 1e50
_CLIP = {Answers.PROBABILITIES: 1.0, Answers.PARAMETERS: 2.0}


class SoftVotesClassifier(ArrayClassifier):
    """Private classifier by the noisy average of what teachers find probable, or of what they learned.

    The records are divided into disjoint parts, one teacher each. A teacher answers once, with one vector of bounded
    length: its probabilities on all public rows, or its coefficients. The sum of all vectors is released with
    Gaussian noise, whatever the number of public rows.

    Parameters
    ----------
    teacher : scikit-learn classifier, optional
        With ``predict_proba`` for probabilities, and linear for parameters; by default logistic regression.
    student : scikit-learn classifier, optional
        Learns averages of probabilities, as weights where it takes them; by default logistic regression, whose
        penalty is chosen by what was released. For parameters the averaged model is the student, unless one is given.
    classes : sequence
        All possible labels. Must be declared: reading them off private labels would leak.
    answers : {"probabilities", "parameters"}, default="probabilities"
        What a teacher answers with: class probabilities on public rows, or coefficients and intercepts.
    n_teachers : int, default=250
        Number of teachers, each of whom learns its own part of the records.
    clip : float, optional
        Longest answer; longer ones are shortened, and noise is in proportion to it. For probabilities a share of the
        longest possible, by default 1; for parameters a length, by default 2. Choose it from public data.
    epsilon, delta
        As for `SubsampleAggregateClassifier`. All of the budget is used.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation; under both one unit changes one teacher.
    max_labels : int, optional
        Number of public rows to ask about; by default all. The noise on each grows with the root of their number.
    random_state, on_bad_record, insecure_release_seed, n_jobs
        As for `SubsampleAggregateClassifier`.

    Attributes
    ----------
    student_ : scikit-learn classifier
        What may be published.
    averages_ : ndarray of shape (n_asked, n_classes)
        Released averages of probabilities on the public rows of ``labels_``; noise may drive them below 0 or above 1.
        For parameters, of shape (n_outputs, n_features + 1): averaged coefficients, the intercept last.
    spread_ : float
        Standard deviation of the noise on each released number.
    labels_ : ReleasedLabels
        The student's label of every public row that was asked about.
    guarantee_ : Guarantee
        What is promised.
    design_ : TeacherAverages
        Groups, teachers, noise. Public.
    charges_ : tuple of dict
        ``sigma`` (noise in sensitivities), ``variance`` and ``entries`` of the released sum. Public.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    Averaging models: M. Pathak, S. Rane and B. Raj, "Multiparty differential privacy via aggregation of locally
    trained classifiers", NIPS 2010; exact trade-off: B. Balle and Y.-X. Wang, ICML 2018. Proof: `moments.averages`.

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
    #: Whether `fit` takes budgets as methods that vote do.
    takes_budgets: ClassVar[bool] = False

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

    def design(
        self, *, n_classes: int | None = None, groups: tuple[WeightedGroup, ...] | None = None
    ) -> TeacherAverages:
        """Return everything public about a run with these settings, before any record is touched."""
        if n_classes is None:
            n_classes = 2 if self.classes is None else len(self.classes)
        everyone = (WeightedGroup(_EVERYONE, Budget(epsilon=self.epsilon, delta=self.delta)),)
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

        Every call is a release of its own: the losses of several fits on the same records add up.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records; finite numbers, or NaN where both teacher and student take it. Scale and encode with
            statistics of public rows only.
        y : array-like of shape (n_records,)
            Private labels, all among ``classes``.
        X_public : array-like of shape (n_public, n_features)
            Public, unlabelled rows with the same columns; for parameters they may be left out.
        units : array-like of shape (n_records,), optional
            Whom each record belongs to; all records of one unit are protected together.
        personal_epsilons : array-like of shape (n_records,), optional
            Epsilon of each record (and of all of its unit's) in place of ``epsilon``: teachers learn from records of
            one epsilon, and weigh less the smaller it is. Which record has which is public. Replace-one only.
        ledger : LedgerAccount, optional
            Account of the records in a `dpensemble.ledger.Ledger`, which is charged before noise is drawn, and refuses.
        fewest_units : int, optional
            Public lower bound on the number of units (of records, without `units`), with which delta is compared under
            add-or-remove-one, where the number itself is private. By default delta is at most 0.01 then.
        **others
            Nothing: ``sample_weight`` is refused, and the reason given.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            If a setting is out of range, or there are more teachers than units.
        DataError
            If rows or labels cannot be used, or public rows are needed and there are none.
        BudgetError
            If delta is not below 1 / n_units.
        TeacherError
            If no teacher could be fitted.
        """
        inputs.refuse_others(others)
        with all_or_nothing(self, ledger, (X, y)):
            if X_public is X and X is not None:
                raise DataError("X_public is X itself; the public rows must be others than the private records.")
            X, classes, targets = inputs.array_records(self, X, y, nan=self._takes_nan())
            rows = self._public_rows(X_public)
            units, present = inputs.whose(self, units, len(targets))
            X, targets = inputs.having_unit(present, X, targets)
            personal_epsilons = inputs.values_having_unit("personal_epsilons", personal_epsilons, present)
            inputs.require_workers(self.n_jobs)
            relation = member("relation", self.relation, Relation)
            identities = inputs.identities(X, targets, units, relation)
            records = PrivateRecords(X, targets, units, identities, fewest_units=fewest_units)
            self._release(records, rows, classes, personal_epsilons)
            return self

    def _public_rows(self, X_public: Any) -> Floats:
        if X_public is None and answers_of(self.answers) is Answers.PARAMETERS and self.student is None:
            return np.empty((0, self.n_features_in_))
        rows = inputs.public_rows(self, X_public, nan=self._takes_nan())
        largest = np.abs(rows).max(initial=0.0, where=np.isfinite(rows))
        if largest > _LARGEST_ENTRY:
            raise DataError(
                f"X_public has an entry of size {largest:g}, with which no student can be fitted; scale rows by "
                "statistics of the public ones."
            )
        return rows

    def _release(
        self,
        records: PrivateRecords,
        rows: Floats,
        classes: NDArray[Any],
        epsilons: ArrayLike | None,
    ) -> None:
        """Check every setting, fit the teachers, charge and draw the average, and train the student on it."""
        start, entropy = perf_counter(), public_entropy(self.random_state)
        groups, by_record, by_unit = self._groups(records, epsilons)
        design = self.design(n_classes=len(classes), groups=groups)
        records.check_delta(Budget(epsilon=self.epsilon, delta=self.delta), member("relation", self.relation, Relation))
        asked = self._asked(len(rows), entropy)
        bound = self._bound(design, records.X.shape[1], len(asked), len(classes))
        allocation, weights = design.allocate(
            records.identities, entropy=entropy, group_of_record=by_record, group_of_unit=by_unit
        )
        teacher = LogisticRegression() if self.teacher is None else self.teacher
        taught = allocation.without(records.targets == BAD)
        ensemble = SoftTeacherEnsemble(teacher, taught, classes, entropy=entropy, n_jobs=self.n_jobs)
        with progress_bar("Fitting teachers", allocation.n_teachers) as advance:
            ensemble.fit(records.X, records.targets, advance)
        seconds, start = {"teachers": perf_counter() - start}, perf_counter()
        meter, noise = design.meter(), noise_source(self.insecure_release_seed)
        announce(design.groups, meter.renyi_costs, relation=design.relation)
        with progress_bar("Averaging answers", None):
            answers = _answers(ensemble, design.answers, rows[asked], len(classes))
            found, spread = noisy_average(answers, weights, bound, meter=meter, noise=noise)
        seconds["average"], start = perf_counter() - start, perf_counter()
        seed = seed_integer(entropy, Stream.STUDENT)
        with on_public_rows():
            if design.answers is Answers.PROBABILITIES:
                averages, spread = _probabilities(found, spread, len(classes), design.clip)
                student = fit_soft_student(self.student, rows[asked], averages, classes, seed, spread=spread)
            else:
                averages = found.reshape(-1, records.X.shape[1] + 1)
                student = _averaged_model(averages, classes)
                if self.student is not None:
                    student = fit_soft_student(self.student, rows, student.predict_proba(rows), classes, seed)
        seconds["student"] = perf_counter() - start
        names = getattr(self, "feature_names_in_", None)
        self.student_ = published(student, for_release=noise.for_release, names=names)
        self.classes_, self.averages_, self.spread_ = classes, averages, spread
        labels = student.predict(rows[asked]) if len(asked) else classes[:0]
        self.labels_ = ReleasedLabels(asked, labels, len(asked))
        self.design_, self.law_, self.seconds_ = design, design.law, seconds
        self.spend_, self.charges_ = meter.spend_curve(), meter.charges
        has_units = records.units is not None
        told = guarantee_text.of_answers(design.relation, has_units, len(design.groups) > 1)
        self.guarantee_ = guarantee_text.of_sums(
            meter, design.relation, told, has_units=has_units, for_release=noise.for_release
        )

    def _groups(
        self, records: PrivateRecords, epsilons: ArrayLike | None
    ) -> tuple[tuple[WeightedGroup, ...] | None, NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """Return groups with their weights, and the group of each record and unit, where budgets differ."""
        if epsilons is None:
            return None, None, None
        if self.relation != Relation.REPLACE_ONE:
            raise InvalidParameterError(
                f"personal_epsilons need relation='replace-one', not {self.relation!r}, under which the number of "
                "records in each group would be private."
            )
        values = inputs.one_per_record("personal_epsilons", epsilons, len(records.X))
        personal = personal_budgets(values, delta=self.delta)
        by_unit = personal.group_of_unit(number_units(records.identities)[1])
        return weighted_groups(personal.names, personal.budgets), personal.group_of_record, by_unit

    def _asked(self, n_rows: int, entropy: int) -> NDArray[np.int64]:
        order = np.random.default_rng(seed_sequence(entropy, Stream.PUBLIC_ROWS)).permutation(n_rows)
        return order if self.max_labels is None else order[: integer_between("max_labels", self.max_labels, 1)]

    def _bound(self, design: TeacherAverages, n_features: int, n_rows: int, n_classes: int) -> AnswerBound:
        """Return how long an answer may be; refuse a teacher that cannot give such an answer."""
        if design.answers is Answers.PROBABILITIES:
            if self.teacher is not None and not hasattr(self.teacher, "predict_proba"):
                raise InvalidParameterError(
                    f"teacher={type(self.teacher).__name__} has no predict_proba, which answers='probabilities' "
                    "averages; use one that has, such as a tree, a forest or logistic regression."
                )
            return AnswerBound.of_probabilities(n_rows, n_classes, clip=design.clip)
        if self.teacher is not None:
            require_linear(self.teacher, n_features, n_classes)
        n_outputs = 1 if n_classes == 2 else n_classes
        return AnswerBound.of_parameters(n_outputs * (n_features + 1), clip=design.clip)


def _answers(ensemble: SoftTeacherEnsemble, kind: Answers, rows: Floats, n_classes: int) -> Iterator[Floats]:
    """Yield the answers of a few teachers at a time, one row each."""
    if kind is Answers.PARAMETERS:
        parameters = ensemble.parameters()
        yield parameters.reshape(len(parameters), -1)
        return
    for chances in ensemble.probabilities(rows):
        yield chances[:, :, 1] - 0.5 if n_classes == 2 else chances.reshape(len(chances), -1)


def _probabilities(average: Floats, spread: float, n_classes: int, clip: float) -> tuple[Floats, float]:
    """Return averaged probabilities that add up to 1 in each row, and the spread of their noise."""
    if n_classes == 2:
        return np.stack([0.5 - average, 0.5 + average], axis=1), spread
    found = average.reshape(-1, n_classes)
    if clip < 1:
        # Shortened answers add up to less than 1 in a row, by the same factor in all rows.
        kept = float(np.clip(found.sum(axis=1).mean(), clip, 1.0))
        found, spread = found / kept, spread / kept
    return found + (1 - found.sum(axis=1, keepdims=True)) / n_classes, spread


def _averaged_model(averages: Floats, classes: NDArray[Any]) -> LogisticRegression:
    """Return the model with averaged coefficients."""
    model = LogisticRegression()
    model.coef_, model.intercept_ = averages[:, :-1].copy(), averages[:, -1].copy()
    model.classes_, model.n_features_in_ = classes, averages.shape[1] - 1
    model.n_iter_ = np.zeros(1, dtype=np.int32)
    return model
