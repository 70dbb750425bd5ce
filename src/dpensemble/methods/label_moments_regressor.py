"""A regressor from noisy moments of a number, with medians, quantiles and intervals from the same release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dpensemble._checks import integer_between, member, real_between
from dpensemble._entries import Floats, Rows, require_labels, require_readable
from dpensemble._hide_private_rows import on_public_rows
from dpensemble._work import decided, is_rehearsal
from dpensemble.accounting import EVERYONE, Group
from dpensemble.datasets.frames import takes_any_frame
from dpensemble.datasets.public_facts import warn_of_columns
from dpensemble.datasets.tables import as_library_transformer
from dpensemble.design.sums import NumberSums
from dpensemble.engine import classifier
from dpensemble.engine.classifier import ReadsTables
from dpensemble.engine.planned import store_params
from dpensemble.engine.records import ReleasedLabels
from dpensemble.engine.result import Result
from dpensemble.engine.run import compared_once, guarded_fit, run_steps
from dpensemble.errors import InvalidParameterError, UnlikeRowsWarning
from dpensemble.guarantee import Budget
from dpensemble.methods.label_moments import MomentsSteps, records_of_blocks, row_check, weights_of_records
from dpensemble.moments.learning import bytes_needed
from dpensemble.moments.maps.base import FeatureMap
from dpensemble.moments.maps.tables import fitted_map
from dpensemble.moments.model import Effect
from dpensemble.moments.numbers import LearnedNumber, number_map, provable, release_and_fit_number
from dpensemble.moments.public_rows import PublicUnits
from dpensemble.moments.residuals import NumberRange, TargetCounts
from dpensemble.relations import Relation
from dpensemble.releases import ReleasedTable
from dpensemble.rows import arguments
from dpensemble.rows.arguments import Owners, PreparedRows, zeroes_bad
from dpensemble.rows.checked import RowCheck, UnitsByPlace
from dpensemble.rows.passes import CheckedRecords
from dpensemble.rows.source import Read, RowSource


class LabelMomentsRegressor(RegressorMixin, ReadsTables):
    """Private regressor by noisy moments of a number: means and intervals.

    Every unit adds one bounded vector to a few noisy sums: features, weighted by how far its number is from what was
    published before, cut to a published limit. And it adds a one to a cell of noisy histograms. The model is fitted to
    the sums and to public rows, which need no targets. Nothing is tuned.

    Parameters
    ----------
    low, high : float
        The range of the target, in its units. Must not be read off private records. Numbers outside count as the end of
        the range. A range that is some hundred times too wide costs little.
    feature_map : scikit-learn transformer, optional
        Turns rows into features. It is cloned and fitted on public rows. By default tables are read column by column,
        along their principal directions over public rows.
    columns : dict of str to str or "as given", optional
        As for `LabelMomentsClassifier`.
    proven_coverage : float, optional
        Coverage that intervals are proven to have. For example 0.9. 15 % of the budget then pays for a histogram that
        proves ``predict_interval(X, coverage, guaranteed=True)``.
    epsilon, delta
        As for `LabelMomentsClassifier`. All of the budget is used.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. Under the second the number of units is released with noise, too.
    on_bad_record : {"raise", "zero"}, default="raise"
        How to treat a record with an infinite entry, a target that is not a finite number, or a row that the map cannot
        read. With ``"raise"`` the run is refused, so one person can stop it. With ``"zero"`` the record adds nothing to
        moments, and has cells of its own in the histograms.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment and marks the guarantee "not for release".

    Attributes
    ----------
    student_ : Pipeline
        Feature map and published model. It takes rows in their original form, and may be published.
    rounds_ : tuple of ClippedRound
        The released moments of each round. May be published.
    beyond_range_ : ReleasedTable
        Shares of records below ``low`` and above ``high``, and the standard deviation of their noise. May be published.
    guarantee_ : Guarantee
        The privacy guarantee.
    design_ : NumberSums
        Rounds, shares of the budget and noise. Public.
    charges_ : tuple of dict
        ``sigma`` (noise in sensitivities), ``variance`` and ``entries`` of each released sum. Public.
    drift_ : Drift
        A test of whether public rows look like the private ones, from a released mean. May be published.
    readable_share_ : ReadableShare or None
        Estimated share of private records that could be read, when bad records add zeros. May be published.

    Notes
    -----
    ``predict`` estimates the mean, which is best for squared error. ``predict_median`` is best for absolute error.
    Measured intervals are read off a released histogram of the training records, with a margin for its noise. They
    should cover new records as often as asked, and nothing proves that. Proven intervals are wider.

    References
    ----------
    Method and proofs are this library's (`dpensemble.moments.residuals`, `dpensemble.moments.numbers`). The exact
    trade-off is from B. Balle and Y.-X. Wang, ICML 2018, and J. Dong, A. Roth and W. Su, JRSS B 2022.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3)); y = 50 + 10 * X[:, 0] + rng.normal(size=4000)
    >>> model = LabelMomentsRegressor(0, 1000, epsilon=1.0, insecure_release_seed=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(1000, 3)))
    >>> low, high = model.predict_interval(X, coverage=0.9).T
    >>> bool(model.score(X, y) > 0.8), bool(np.mean((low <= y) & (y <= high)) > 0.8)
    (True, True)
    """

    name: ClassVar[str] = "label-moments-regressor"
    title: ClassVar[str] = "Label moments of a number"
    #: There is no mapping of declared columns in place of public rows.
    declared_columns: ClassVar[None] = None
    #: Numbers have no classes, and the model itself is the student.
    classes: ClassVar[None] = None
    student: ClassVar[None] = None
    #: Nothing but the noise is random.
    random_state: ClassVar[None] = None

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        feature_map: Rows = None,
        columns: Mapping[str, str] | str | None = None,
        proven_coverage: float | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        relation: str = "replace-one",
        on_bad_record: str = "raise",
        insecure_release_seed: int | None = None,
    ) -> None:
        store_params(self, locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.feature_map is None
        tags.input_tags.string = True
        return tags

    def design(self, *, groups: tuple[Group, ...] | None = None) -> NumberSums:
        """Return everything public about a run with these settings, before any record is touched."""
        declared = self._range()
        coverage = self.proven_coverage
        if coverage is not None:
            coverage = real_between("proven_coverage", coverage, 0.01, 0.999)
        return NumberSums(
            name=self.name,
            title=self.title,
            everyone=(Group(EVERYONE, Budget.of(self.epsilon, self.delta)),) if groups is None else groups,
            n_classes=0,
            rounds=3,
            relation=member("relation", self.relation, Relation),
            low=declared.low,
            high=declared.high,
            proven_coverage=coverage,
        )

    def _range(self) -> NumberRange:
        """Return the declared range, or raise."""
        for name, end in (("low", self.low), ("high", self.high)):
            if end is None:
                raise InvalidParameterError(
                    f"{name}=None must be declared: the range (low, high) of the target, without a look at private "
                    "records.",
                    parameter=name,
                )
        return NumberRange.of(self.low, self.high)

    @takes_any_frame
    def fit(
        self,
        X: Rows,
        y: Rows,
        *,
        X_public: Rows = None,
        units: ArrayLike | None = None,
        public_units: ArrayLike | None = None,
        personal_epsilons: ArrayLike | None = None,
        ledger: Rows = None,
        fewest_units: int | None = None,
        **others: Rows,
    ) -> LabelMomentsRegressor:
        """Release noisy moments and histograms of the private numbers, and fit the model to them.

        Every call is a separate release. The losses of several fits on the same records add up.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_records, n_columns)
            Private records: numbers, truth values or texts, with NaN or None for missing entries.
        y : array-like of shape (n_records,)
            Private numbers to predict, in the units of `low` and `high`.
        X_public : DataFrame or array-like of shape (n_public, n_columns)
            Public rows with the same columns, without targets.
        units, public_units, personal_epsilons, ledger, fewest_units, **others
            As for `LabelMomentsClassifier.fit`. Intervals are proven for one budget only, since records with a smaller
            epsilon weigh less in what is released.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            If a setting is wrong, the range is not declared, intervals are to be proven with personal budgets, or noise
            leaves nothing to prove the coverage with. Then nothing is spent.
        DataError
            If a record is bad and bad records are not zeroed, or public rows are missing.
        """
        arguments.refuse_others(others)
        if personal_epsilons is not None and self.proven_coverage is not None:
            raise InvalidParameterError(
                f"proven_coverage={self.proven_coverage!r} cannot be proven with personal_epsilons, since records "
                "weigh differently in what is released: leave out one of them, or take measured intervals.",
                parameter="proven_coverage",
            )
        with guarded_fit(self, ledger, (X, y, X_public)):
            declared = self._range()
            rows = PreparedRows(self, X_public)
            rows.warn(units)

            def check(public: Rows, owners: Owners) -> RowCheck:
                return row_check(self, public, declared, UnitsByPlace.of_owners(owners))

            of_whom = (units, public_units, fewest_units)
            y = arguments.required(y)
            steps = NumberSteps.in_memory(self, rows, X, y, check, of_whom, personal_epsilons=personal_epsilons)
            self.result_ = run_steps(steps)
            rows.publish(self)
        return self

    @takes_any_frame
    def fit_blocks(
        self,
        read: Read | RowSource,
        *,
        X_public: Rows = None,
        n_records: int | None = None,
        units: ArrayLike | None = None,
        public_units: ArrayLike | None = None,
        ledger: Rows = None,
        fewest_units: int | None = None,
    ) -> LabelMomentsRegressor:
        """Fit to private records that come in blocks or parts. With the same seed the release is that of `fit`.

        Parameters
        ----------
        read, n_records, units, X_public, public_units, ledger, fewest_units
            As for `LabelMomentsClassifier.fit_blocks`.

        Returns
        -------
        self
        """
        if callable(read):
            read = compared_once(read, X_public)
        with guarded_fit(self, ledger):
            declared = self._range()
            rows = PreparedRows(self, X_public)
            rows.warn(units, read)
            given = (rows.blocks(read), rows.X_public, n_records, units, public_units)
            records, public, whose = records_of_blocks(
                self, *given, check=lambda public: row_check(self, public, declared)
            )
            n_units = integer_between("n_records", records.n_units, 1, 2**40)
            self.result_ = run_steps(NumberSteps.of(self, records, public, whose, n_units, fewest_units))
            rows.publish(self)
        return self

    @takes_any_frame
    def predict(self, X: Rows) -> Floats:
        """Return the mean that is expected of each row, within the declared range. This costs no privacy.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._read(X, lambda student, rows: student.predict(rows))

    @takes_any_frame
    def predict_median(self, X: Rows) -> Floats:
        """Return the median of each row, which has the least absolute error. This costs no privacy.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to predict.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._read(X, lambda student, rows: student.predict_median(rows))

    @takes_any_frame
    def predict_quantile(self, X: Rows, q: float) -> Floats:
        """Return the number that a record like each row is below with chance `q`. This costs no privacy.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to predict.
        q : float
            From 0.001 to 0.999.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._read(X, lambda student, rows: student.predict_quantile(rows, q))

    @takes_any_frame
    def predict_interval(self, X: Rows, coverage: float = 0.9, *, guaranteed: bool = False) -> Floats:
        """Return an interval for the number of each row. This costs no privacy.

        An end at `low` or `high` is open: numbers beyond the range count as its end. Measured intervals have the end of
        the range there, and proven ones are infinite.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to predict.
        coverage : float, default=0.9
            Share of new records, from 0.01 to 0.999, whose number is inside.
        guaranteed : bool, default=False
            Whether the coverage is proven for a random record of a new unit that is exchangeable with the training
            units, on average over runs. Needs `proven_coverage`. Otherwise it is measured on the training records.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            Lower and upper ends, in the units of the target.

        Raises
        ------
        InvalidParameterError
            If no interval inside the range can be proven to have the coverage.
        """
        return self._read(X, lambda student, rows: student.predict_interval(rows, coverage, guaranteed=guaranteed))

    def _read(self, X: Rows, read: Callable[[Rows, Rows], Rows]) -> Floats:
        check_is_fitted(self)
        values: Floats = self._in_blocks(X, lambda rows: read(self.student_, rows))
        return values

    @property
    def effects_(self) -> list[Effect]:
        """How far each column moves the expected number, as `LabelMomentsClassifier` has it for logits. Public.

        If the target is read on a logarithm, effects are those on the logarithm.
        """
        check_is_fitted(self)
        effects: list[Effect] = self.student_.steps[-1][1].effects_
        return effects

    @takes_any_frame
    def score(self, X: Rows, y: Rows, sample_weight: Rows = None) -> float:
        """Return the R2 of predicted means. This costs no privacy if the rows are not private.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to predict.
        y : array-like of shape (n_rows,)
            True numbers, none of them missing.
        sample_weight : array-like of shape (n_rows,), optional
            Weight of each row.

        Returns
        -------
        float
        """
        require_labels(y)
        require_readable("sample_weight", sample_weight)
        return float(super().score(X, y, sample_weight))


class OneMapSteps(MomentsSteps):
    """Steps of runs without classes, whose model reads the features that are released."""

    #: Part of the usual number of directions in the default map.
    part_of_directions: ClassVar[float] = 1.0
    #: Part of the squared length in the default map that linear functions of numbers have.
    linear: ClassVar[float] = 0.0

    @classmethod
    def of(
        cls,
        method: Rows,
        records: CheckedRecords,
        public: Rows,
        whose: PublicUnits,
        n_units: int,
        fewest_units: int | None,
    ) -> Self:
        """Return the steps for checked records."""
        found_budget = cls.budget_of(method, n_units, fewest_units, has_units=whose.private)
        return cls(method, records, public, np.empty(0), None, float(n_units), whose, found_budget)

    @classmethod
    def in_memory(
        cls,
        method: Rows,
        rows: PreparedRows,
        X: Rows,
        y: Rows,
        check: Callable[[Rows, Owners], RowCheck],
        whose: tuple[ArrayLike | None, ArrayLike | None, int | None],
        *,
        personal_epsilons: ArrayLike | None = None,
    ) -> Self:
        """Return the steps for records in memory. `check` takes public rows and owners.

        `whose` are the units of records, those of public rows, and the fewest units, as `fit` takes them, and so are
        `personal_epsilons`.
        """
        units, public_units, fewest_units = whose
        X, y, public = arguments.checked_tables(method, rows.private(X), y, rows.X_public)
        numbers = arguments.public_unit_numbers(public_units, len(public))
        owners = Owners.of(units, len(X), zeroes=zeroes_bad(method))
        epsilons = owners.kept_values("personal_epsilons", personal_epsilons)
        shown, checked = PublicUnits(numbers, private=owners.units is not None), check(public, owners)
        found_budget = cls.budget_of(method, owners.n_units, fewest_units, has_units=shown.private)
        groups, total = None, float(owners.n_units)
        if epsilons is not None:
            weights, groups, total = weights_of_records(method, owners.numbers, epsilons, found_budget[0].delta)
            checked = replace(checked, units=UnitsByPlace.of_present(owners.present, owners.numbers, weights))
        records = CheckedRecords.in_memory(X, y, checked)
        return cls(method, records, public, np.empty(0), groups, total, shown, found_budget)

    def prepare(self) -> None:
        """Choose the map and the shares of the budget from public facts."""
        public, method = self.public, self.method
        if not is_rehearsal():
            warn_of_columns(public, has_unit=self.has_units)
        self.design = method.design(groups=self.groups)
        self.meter = self.design.meter()
        self.require_possible()
        with on_public_rows():
            self.feature_map = decided("feature map", self._fitted_map)
        if as_library_transformer(self.feature_map).decoder_ is not None:
            raise InvalidParameterError(
                f"feature_map={type(self.feature_map).__name__} has another map for the model, which numbers do not "
                "have: leave feature_map out, or give a map of one set of features.",
                parameter="feature_map",
            )

    def require_possible(self) -> None:
        """Raise if public settings show that the run cannot give what is asked for. Nothing by default."""

    def _fitted_map(self) -> FeatureMap:
        n_units = self.total if self.relation is Relation.REPLACE_ONE else float(len(self.public))
        epsilon = self.method.epsilon
        if self.method.feature_map is None:
            settings = {"n_units": n_units, "epsilon": epsilon, "mu": self.meter.mu}
            return number_map(self.public, **settings, part=self.part_of_directions, linear=self.linear)
        fitted: FeatureMap = fitted_map(
            self.method.feature_map, self.public, n_rows=int(n_units), n_classes=2, epsilon=epsilon
        )
        return fitted

    def memory(self) -> int:
        """Return about how many bytes the run needs."""
        is_public = self.relation is Relation.REPLACE_ONE and not self.has_units
        n_records = self.records.n_records if self.records.keeps and is_public else 0
        with on_public_rows():
            return bytes_needed(self.feature_map, self.public, 2, n_records)

    def default_student(self) -> str:
        """Return a description of the student."""
        return "a linear function of the features, from released moments"


class NumberSteps(OneMapSteps):
    """The steps of `LabelMomentsRegressor`."""

    #: Chosen on sixteen tables that no figure is reported for.
    linear = 0.1
    design: NumberSums
    _number: LearnedNumber
    _beyond: ReleasedTable

    def require_possible(self) -> None:
        """Raise if noise leaves nothing to prove the coverage with, when the number of units is public."""
        coverage = self.design.proven_coverage
        # Stand-in records are fewer than the records of the run, which were judged before.
        if coverage is None or self.relation is not Relation.REPLACE_ONE or is_rehearsal():
            return
        if not provable(coverage, self.total, self.meter.mu, self.design.proof_share):
            raise InvalidParameterError(
                f"proven_coverage={coverage:g} cannot be proven for {self.total:,.0f} units at "
                f"epsilon={self.method.epsilon:g}: take measured intervals (proven_coverage=None), a smaller coverage, "
                "more records or a larger epsilon.",
                parameter="proven_coverage",
            )

    def charge_and_release(self, advance: Callable[[float], None]) -> None:
        """Charge for all sums and release them, and fit the model between them."""
        source = self._source()
        self._number = release_and_fit_number(
            source,
            self.feature_map,
            self.public,
            NumberRange(self.design.low, self.design.high),
            self.design,
            self.total,
            meter=self.meter,
            units=self.public_units,
            on_done=advance,
        )
        below, above, noise = self._number.beyond
        rows = (("below low", below, noise), ("above high", above, noise))
        self._beyond = ReleasedTable("Share of numbers beyond the declared range", rows)
        self._released = tuple(
            replace(one, table=self._beyond) if one.description == TargetCounts.description else one
            for one in source.sums.released
        )
        drift = self._number.drift
        if drift is not None and not drift.trusted:
            self.warn_after_fit(drift.warning(), UnlikeRowsWarning)

    def make_student(self) -> Pipeline:
        """Return the published model behind its map."""
        student: Pipeline = self._published(Pipeline([("encoder", self.feature_map), ("student", self._number.model)]))
        return student

    def make_result(self, student: Pipeline) -> Result:
        """Return the result of the run. The estimator also stores the moments."""
        number, method = self._number, self.method
        method.rounds_, method.columns_ = number.rounds, self.public.iloc[:0]
        method.beyond_range_ = self._beyond
        texts = classifier.texts_of_numbers(self.relation, self.has_units, len(self.meter.groups) > 1)
        return Result(
            design=self.design,
            classes=self.classes,
            guarantee=classifier.guarantee_of_sums(
                self.meter, self.relation, texts, has_units=self.has_units, for_release=self.noise.for_release
            ),
            student=student,
            labels=ReleasedLabels(np.empty(0, dtype=np.int64), np.empty(0), 0),
            releases=self._released,
            n_features=len(number.model.coefficients_),
            charges=self.meter.charges,
            drift=number.drift,
            readable_share=number.readable,
            effects=number.model.effects_,
        )
