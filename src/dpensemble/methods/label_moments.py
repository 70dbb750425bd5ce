"""A classifier from noisy moments of labels: every unit is its own teacher, and answers with a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from dpensemble._arrays import Integers
from dpensemble._checks import integer_between
from dpensemble.accounting import Group
from dpensemble.budget import Budget
from dpensemble.design.sums import NoisySums, noisy_sums
from dpensemble.engine.classifier import TableClassifier
from dpensemble.engine.label_moments import of_blocks, of_checked_tables
from dpensemble.engine.planned import store_params
from dpensemble.engine.run import all_or_nothing, compared_once, run, run_steps
from dpensemble.moments.queries import statistics_of
from dpensemble.rows import arguments
from dpensemble.rows.bad_records import zeroes_bad
from dpensemble.rows.labels_and_units import Owners
from dpensemble.rows.source import Read, RowSource

_EVERYONE = "everyone"


class LabelMomentsClassifier(TableClassifier):
    """Private classifier by noisy moments of labels: no teachers are trained, and public rows need no labels.

    The logistic loss of a linear student depends on the labels only through their *moments*, the sums of features over
    the records of each class. Every unit adds one bounded vector to such a sum, and the sum is released with Gaussian
    noise. Public rows provide the rest. Further rounds release the differences between the labels and the present
    student's expectations, which become smaller and smaller. All rounds are fitted together, with prior scales by
    evidence, so nothing is tuned.

    Parameters
    ----------
    feature_map : scikit-learn transformer, optional
        Turns rows into features. It is cloned and fitted on public rows. By default tables are read column by column:
        numbers at several scales, categories, and missing entries (`TableMap`). With at least 1,000 public rows, the
        features are principal directions over public rows (`DirectionsMap`). Tables of measured numbers get curved
        boundaries, by nearness to landmarks among public rows (`dpensemble.moments.maps.curved`). With fewer than
        200 public rows, or when public rows do not look like the private ones, synthetic rows take their place. A part
        of the budget then pays for the shares of entries and their correlations.
    student : scikit-learn classifier, optional
        Trained on the published model's predictions for public rows. By default the model itself is the student.
    classes : sequence
        All possible labels. Must be declared: reading them off private labels would leak.
    declared_columns : mapping, optional
        Declares columns if there are no public rows. A column of numbers has a range ``(low, high)``, and entries
        outside count as its ends. Any other column has a list of categories. Must not depend on private rows.
    rounds : int, optional
        Number of noisy sums of labels. By default 1 for curved boundaries and for three and more classes of a table
        with at least 1,000 public rows. Otherwise 3 for two classes (4 with synthetic rows), and 2 for more.
    statistics : str or list of str, optional
        Names of additional statistics to release, as a list or a text with commas. ``"class-shares"`` is the only
        one. Each takes 2 % of the budget. The report shows the statistic, and ``result_.releases`` holds it.
    epsilon, delta
        As for `SubsampleAggregateClassifier`. All of the budget is used.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. Under the second the number of units is released with noise, too.
    random_state : int, RandomState or None
        Public seed of the distilled student. Only this student and the noise are random.
    on_bad_record : {"raise", "zero"}, default="raise"
        How to treat a record with an infinite entry, an undeclared label or a row that the map cannot read. With
        ``"raise"`` the run is refused, so one person can stop it. With ``"zero"`` the record adds nothing, and still
        counts.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment and marks the guarantee "not for release".

    Attributes
    ----------
    student_ : scikit-learn classifier
        The published model, or the student trained on its predictions. Takes rows in their original form.
    model_ : Pipeline
        Feature map and published model. May be published.
    moments_ : tuple of Moments
        The released moments of each round. May be published.
    guarantee_ : Guarantee
        The privacy guarantee.
    design_ : NoisySums
        Groups, rounds, noise. Public.
    charges_ : tuple of dict
        ``sigma`` (noise in sensitivities), ``variance`` and ``entries`` of each released sum. Public.
    labels_ : ReleasedLabels
        The published model's label of every public row.
    drift_ : Drift
        A test of whether public rows look like the private ones, from a released mean. The outcome is an alarm, no
        alarm, or the test cannot decide (`Drift.undecided`). May be published.
    readable_share_ : ReadableShare or None
        Estimated share of private records that could be read, with the standard deviation of its noise. Present when
        bad records add zeros and a mean of features was released. May be published.
    effects_ : list of dict
        How far each column of a table pushes towards each class, the most important column first. May be published.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.

    References
    ----------
    Method and proof are this library's (`dpensemble.moments`). The exact trade-off is from B. Balle and Y.-X. Wang,
    ICML 2018, and J. Dong, A. Roth and W. Su, JRSS B 2022.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 4)); y = (X[:, 0] > 0).astype(int)
    >>> model = LabelMomentsClassifier(classes=[0, 1], epsilon=1.0, insecure_release_seed=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(500, 4)))
    >>> bool(model.score(X, y) > 0.9), model.guarantee_.epsilon <= 1.0
    (True, True)
    """

    name: ClassVar[str] = "label-moments"
    title: ClassVar[str] = "Label moments"

    def __init__(
        self,
        feature_map: Any = None,
        student: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        declared_columns: Mapping[Any, Sequence[Any]] | None = None,
        rounds: int | None = None,
        statistics: str | list[str] | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        relation: str = "replace-one",
        random_state: Any = None,
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
    ) -> None:
        store_params(self, locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        plain = self.feature_map is None or hasattr(self.feature_map, "numeric_columns")
        tags.input_tags.allow_nan = plain and self.student is None
        tags.input_tags.string = True
        return tags

    def design(
        self,
        *,
        n_classes: int | None = None,
        groups: tuple[Group, ...] | None = None,
        synthetic_rows: bool | None = None,
    ) -> NoisySums:
        """Return everything public about a run with these settings, before any record is touched."""
        synthetic = self.declared_columns is not None if synthetic_rows is None else synthetic_rows
        if n_classes is None:
            n_classes = 2 if self.classes is None else len(self.classes)
        n_classes = integer_between("n_classes", n_classes, 2)
        everyone = (Group(_EVERYONE, Budget(epsilon=self.epsilon, delta=self.delta)),)
        return noisy_sums(
            name=self.name,
            title=self.title,
            groups=everyone if groups is None else groups,
            n_classes=n_classes,
            rounds=((4 if synthetic else 3) if n_classes == 2 else 2) if self.rounds is None else self.rounds,
            relation=self.relation,
            synthetic_rows=synthetic,
            statistics=statistics_of(self.statistics),
        )

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_public: Any = None,
        units: ArrayLike | None = None,
        public_units: ArrayLike | None = None,
        personal_epsilons: ArrayLike | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
        **others: Any,
    ) -> LabelMomentsClassifier:
        """Release noisy moments of the private labels, and fit the student to them.

        Every call is a separate release. The losses of several fits on the same records add up.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_records, n_columns)
            Private records: numbers, truth values or texts, with NaN or None for missing entries.
        y, units, ledger, fewest_units, **others
            As for `PATEClassifier.fit`.
        X_public : DataFrame or array-like of shape (n_public, n_columns)
            Public, unlabelled rows with the same columns. Required unless columns are declared.
        public_units : array-like of shape (n_public,), optional
            The person of each public row, if one person can have several public rows. Give `public_units` whenever
            `units` are given. Otherwise the test whether public rows look like the private ones cannot decide, and
            public rows are trusted less. Public units without `units` mean that each private record is a unit of one
            record.
        personal_epsilons : array-like of shape (n_records,), optional
            Epsilon of each record (and of all records of its unit) in place of ``epsilon``. Records with a smaller
            epsilon weigh less. The epsilon of each record is assumed to be public. Replace-one only.

        Returns
        -------
        self
        """
        arguments.refuse_others(others)
        with all_or_nothing(self, ledger, (X, y, X_public)):
            X, y, public = arguments.checked_tables(self, X, arguments.required(y), X_public)
            numbers = arguments.public_unit_numbers(public_units, len(public))
            owners = Owners.of(units, len(X), zeroes=zeroes_bad(self))
            return self.fit_checked(X, y, public, owners, numbers, personal_epsilons, fewest_units)

    def fit_checked(
        self,
        X: Any,
        y: Any,
        public: Any,
        owners: Owners,
        public_units: Integers | None,
        personal_epsilons: ArrayLike | None,
        fewest_units: int | None,
    ) -> Self:
        """Fit to rows and labels that `checked_tables` returned, within `all_or_nothing`."""
        more = (personal_epsilons, fewest_units, public_units)
        self.result_ = run_steps(of_checked_tables(self, X, y, public, owners, *more))
        return self

    def fit_blocks(
        self,
        read: Read | RowSource,
        *,
        X_public: Any = None,
        n_records: int | None = None,
        units: ArrayLike | None = None,
        public_units: ArrayLike | None = None,
        ledger: Any = None,
        fewest_units: int | None = None,
    ) -> LabelMomentsClassifier:
        """Fit to private records that come in blocks and need not fit into memory together.

        With the same seed of the noise the release equals that of `fit` on all records together, to the last bit,
        since sums are of whole numbers.

        Parameters
        ----------
        read : callable or table in parts
            A callable returns an iterator over blocks ``(X, y)``. Called once a round, for the same records in order.
            A table in parts is summed in parts: `dpensemble.datasets.partitions.ParquetParts` in several processes,
            `DaskParts` on Dask, and `dpensemble.datasets.partitions.SparkParts` or `ParquetOnSpark` on Spark. One
            more pass checks and counts all records before anything is spent. The records of every later pass must equal
            those of this one.
        n_records : int, optional
            Number of private records, to be compared with the records that are counted. Not used under
            add-or-remove-one, where the number is private.
        units : array-like of shape (n_records,), optional
            The unit of each record, in the order of `read`. A unit's records may lie in any blocks. By default those of
            the reader, if it has a column of units. A table in parts has such a column instead.
        X_public, public_units, ledger, fewest_units
            As for `fit`.

        Returns
        -------
        self
        """
        if callable(read):
            read = compared_once(read, X_public)
        given = (read, X_public, n_records, units, fewest_units, public_units)
        return run(self, lambda: of_blocks(self, *given), ledger=ledger)
