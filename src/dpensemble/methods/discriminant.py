"""A classifier from noisy sizes, means and spreads of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import integer_between, member
from dpensemble._entries import Floats, Integers
from dpensemble._random import Stream, seed_integer
from dpensemble._units import number_units
from dpensemble.accounting import EVERYONE, Group
from dpensemble.datasets.public_facts import warn_of_columns
from dpensemble.design.sums import NoisySums
from dpensemble.engine import classifier
from dpensemble.engine.classifier import ArrayClassifier
from dpensemble.engine.planned import store_params
from dpensemble.engine.records import ReleasedLabels, TeacherRecords, teacher_records
from dpensemble.engine.result import Result
from dpensemble.engine.run import Steps, run
from dpensemble.guarantee import Budget
from dpensemble.moments.discriminant import DiscriminantModel, DiscriminantRelease
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser, SumsMeter
from dpensemble.rows import arguments
from dpensemble.rows.arguments import BAD
from dpensemble.student import fit_soft_student, publishable

# Number of records whose points are in memory at a time.
_ROWS_AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscriminantSums(NoisySums):
    """Three noisy sums: sizes and means of classes, their spreads, and one mean score. Public."""

    @property
    def count_share(self) -> float:
        """Zero: sizes of classes are released under both relations."""
        return 0.0

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the budget's ``mu**2`` for each sum."""
        return (0.45, 0.5, 0.05)


class DiscriminantClassifier(ArrayClassifier):
    """Private classifier by a Gaussian distribution for each class: curved boundaries, and no teachers.

    Every unit adds bounded vectors to three noisy sums: the size and mean of each class, the spread of each class, and
    the amount by which the own class scores below the best class. Public rows determine directions and scales. The
    model consists of the means and covariances of all classes, shrunk by the known noise. Use this method for tables
    with few numbers whose classes have curved boundaries, and only if it is better than `LabelMomentsClassifier` on
    public data. At epsilon 1 it is worse on each of four measured tables, and much worse on one table with 36 columns.

    Parameters
    ----------
    student : scikit-learn classifier, optional
        Trained on the model's probabilities for public rows. By default the model itself is the student.
    classes : sequence
        All possible labels. They must be declared, because reading them from private labels would leak information.
    epsilon, delta
        As for `SubsampleAggregateClassifier`. The fit uses all of the budget.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation.
    random_state, on_bad_record, insecure_release_seed
        As for `SubsampleAggregateClassifier`.

    Attributes
    ----------
    student_ : scikit-learn classifier
        The classifier that may be published.
    labels_ : ReleasedLabels
        The student's label of every public row.
    guarantee_ : Guarantee
        The guarantee.
    design_ : DiscriminantSums
        Groups and noise. Public.
    charges_ : tuple of dict
        ``sigma`` (noise in sensitivities), ``variance`` and ``entries`` of each released sum. Public.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    Quadratic discriminant analysis with shrinkage: J. H. Friedman, "Regularized discriminant analysis", JASA 1989.
    Sums and proofs: `dpensemble.moments.discriminant`. Exact trade-off: B. Balle and Y.-X. Wang, ICML 2018.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2)); y = (np.hypot(*X.T) > 1.2).astype(int)
    >>> model = DiscriminantClassifier(classes=[0, 1], epsilon=1.0, insecure_release_seed=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 2)))
    >>> bool(model.score(X, y) > 0.8), model.guarantee_.epsilon <= 1.0
    (True, True)
    """

    name: ClassVar[str] = "discriminant"
    title: ClassVar[str] = "A Gaussian distribution for each class"
    #: Without teachers, several workers have nothing to do.
    n_jobs: ClassVar[None] = None

    def __init__(
        self,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        relation: str = "replace-one",
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
    ) -> None:
        store_params(self, locals())

    def _takes_nan(self) -> bool:
        return False

    def design(self, *, n_classes: int | None = None) -> DiscriminantSums:
        """Return everything public about a run with these settings. No record is read."""
        if n_classes is None:
            n_classes = 2 if self.classes is None else len(self.classes)
        return DiscriminantSums(
            name=self.name,
            title=self.title,
            everyone=(Group(EVERYONE, Budget.of(self.epsilon, self.delta)),),
            n_classes=integer_between("n_classes", n_classes, 2),
            rounds=3,
            relation=member("relation", self.relation, Relation),
        )

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
        **others: Any,
    ) -> DiscriminantClassifier:
        """Release noisy sums of the private records, and compute the model from them.

        Every call is a separate release: the losses of several fits on the same records add up.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records, finite numbers.
        y, units, ledger, fewest_units, **others
            As for `PATEClassifier.fit`.
        X_public : array-like of shape (n_public, n_features)
            Public, unlabelled rows with the same columns.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError, DataError, BudgetError
            As for `LabelMomentsClassifier.fit`.
        """
        arguments.refuse_others(others)

        def checked() -> DiscriminantSteps:
            arguments.require_others(X, X_public)
            relation = member("relation", self.relation, Relation)
            records, classes, _ = teacher_records(self, X, y, units, nan=False, relation=relation, public=X_public)
            return DiscriminantSteps(self, records, classes, arguments.public_rows(self, X_public), fewest_units)

        return run(self, checked, ledger=ledger, records=(X, y, X_public))


class DiscriminantSteps(Steps):
    """The steps of `DiscriminantClassifier`."""

    stage: ClassVar[tuple[str, str]] = ("sums", "Releasing sums")
    default_teacher: Any = "each unit answers by itself"
    design: DiscriminantSums
    meter: SumsMeter
    _model: DiscriminantModel

    def __init__(
        self, method: Any, records: TeacherRecords, classes: NDArray[Any], rows: Floats, fewest_units: int | None
    ) -> None:
        super().__init__(method)
        self.records, self.classes, self.rows, self.fewest_units = records, classes, rows, fewest_units

    def prepare(self) -> None:
        """Make the meter, and directions from public rows."""
        warn_of_columns(self.rows, has_unit=self.records.units is not None)
        self.find_budget(self.records.counted, self.fewest_units, has_units=self.records.units is not None)
        self.design = self.method.design(n_classes=len(self.classes)).with_budget(self.budget)
        self.meter = self.design.meter()
        self._release = DiscriminantRelease(self.rows, self.classes)
        # Equal records are separate units here: each adds its own vector.
        units = self.records.units
        unit_of = np.arange(len(self.records.targets)) if units is None else number_units(self.records.identities)[1]
        # A bad record adds nothing, but still counts among the records of its unit.
        self._weights = np.where(self.records.targets == BAD, 0.0, 1 / np.bincount(unit_of)[unit_of])

    def memory(self) -> int:
        """Return about how many bytes the sums, their noise and the model need."""
        return self._release.bytes_needed(_ROWS_AT_ONCE)

    @property
    def n_steps(self) -> float:
        """Number of sums."""
        return self.design.rounds

    def _blocks(self) -> Iterator[tuple[Floats, Integers, Floats]]:
        """Yield rows, class ids and weights of the records, block by block."""
        for start in range(0, len(self._weights), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            yield self.records.X[part], np.maximum(self.records.targets[part], 0), self._weights[part]

    def charge_and_release(self, advance: Callable[[float], None]) -> None:
        """Let `DiscriminantRelease` release the three sums, each with the model of the earlier ones."""
        self._sums = SumReleaser(relation=self.relation, meter=self.meter, noise=self.noise)
        self._model = self._release.model(self._blocks, self._sums, self.design.shares, advance)

    def make_student(self) -> Any:
        """Return the model, or the student that is trained on its probabilities."""
        student: Any = self._model
        if self.method.student is not None:
            seed = seed_integer(self.entropy, Stream.STUDENT)
            probabilities = self._model.predict_proba(self.rows)
            student = fit_soft_student(self.method.student, self.rows, probabilities, self.classes, seed)
        self._labels = ReleasedLabels(np.arange(len(self.rows)), student.predict(self.rows), len(self.rows))
        return publishable(student, for_release=self.noise.for_release, names=self.method.column_names)

    def make_result(self, student: Any) -> Result:
        """Return the result of the run."""
        has_units = self.records.units is not None
        texts = classifier.texts_of_moments(self.relation, has_units, by_group=False)
        return Result(
            design=self.design,
            classes=self.classes,
            guarantee=classifier.guarantee_of_sums(
                self.meter, self.relation, texts, has_units=has_units, for_release=self.noise.for_release
            ),
            student=student,
            labels=self._labels,
            releases=tuple(self._sums.released),
            n_features=self.method.n_features_in_,
            charges=self.meter.charges,
        )

    def default_student(self) -> Any:
        """Return a description of the student if the estimator names none."""
        return "a Gaussian distribution for each class, from released sums"
