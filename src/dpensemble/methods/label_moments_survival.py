"""The chance of an event by a time given a row, by noisy sums: the steps of a run, and the class that checks input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dpensemble._checks import integer_between, member, real_between
from dpensemble._entries import Floats, Rows, dense
from dpensemble._hide_private_rows import guard_private_rows, on_public_rows
from dpensemble.accounting import EVERYONE, Group
from dpensemble.datasets.frames import takes_any_frame
from dpensemble.design.sums import SurvivalSums
from dpensemble.engine import classifier
from dpensemble.engine.classifier import ReadsTables
from dpensemble.engine.planned import store_params
from dpensemble.engine.records import ReleasedLabels
from dpensemble.engine.result import Result
from dpensemble.engine.run import compared_once, guarded_fit, run_steps
from dpensemble.errors import DataError, UnlikeRowsWarning
from dpensemble.guarantee import Budget
from dpensemble.methods.label_moments import records_of_blocks
from dpensemble.methods.label_moments_regressor import OneMapSteps
from dpensemble.methods.life_table import LifeTable, TimesAndEnds, TimesReader
from dpensemble.moments.life_table import checked_ends
from dpensemble.moments.model import Effect
from dpensemble.moments.survival import LearnedSurvival, SurvivalFunction, cells_of_times, release_and_fit_survival
from dpensemble.relations import Relation
from dpensemble.rows import arguments
from dpensemble.rows.arguments import BAD, OnBadRecord, Owners, PreparedRows
from dpensemble.rows.checked import RowCheck, TableForm, Units
from dpensemble.rows.source import Read, RowSource


class LabelMomentsSurvival(ReadsTables):
    """Private model of the time until an event: the chance of the event by a time, given a row.

    Every unit adds its features to a noisy mean, and one bounded vector to a noisy life table. To two more noisy sums
    it adds its features, times two numbers: how far the event, and the censoring, are from what is expected. Hazards of
    both are fitted to the sums and to public rows. Public rows need no times. The hazards of two rows have the same
    ratio at all times, as in Cox regression. Nothing is tuned.

    Parameters
    ----------
    bins : sequence of float
        End of each bin, above 0 and ascending, in the unit of the times. The last one is the horizon. A later time is
        censored at the horizon. From 2 to 200 bins. Must not depend on the private records.
    events, censored : sequence
        Codes in the event field of an event, and of a censoring. A record with another code is bad. By default truth
        values or 1 and 0.
    competing : sequence, default=()
        Codes of other events after which this one is not seen any more, such as death before a relapse. Up to 5. The
        risk is then the chance that the event comes, and before any other (cumulative incidence).
    feature_map : scikit-learn transformer, optional
        As for `LabelMomentsRegressor`.
    columns : dict of str to str or "as given", optional
        As for `LabelMomentsClassifier`.
    epsilon, delta
        As for `LabelMomentsClassifier`. All of the budget is used.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Neighbouring relation. Under the second the number of units is released with noise, too.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment and marks the guarantee "not for release".

    Attributes
    ----------
    student_ : Pipeline
        Feature map and published model. It takes rows in their original form, and may be published.
    unique_times_ : ndarray of shape (n_bins,)
        Ends of bins, at which curves are stated.
    guarantee_ : Guarantee
        The privacy guarantee.
    design_ : SurvivalSums
        Bins, shares of the budget and noise. Public.
    charges_ : tuple of dict
        ``sigma`` (noise in sensitivities), ``variance`` and ``entries`` of each released sum. Public.
    drift_ : Drift
        A test of whether public rows look like the private ones, from a released mean. May be published.
    life_table_ : LifeTableEstimate
        The released life table of everybody, whose curve has bands. May be published.
    readable_share_ : ReadableShare
        Estimated share of private records that could be read. May be published.
    effects_ : list of dict
        How far each column moves the logarithm of the event's hazard (`moments.model.column_effects`). Public.

    Notes
    -----
    A bad record (a missing, negative or infinite time, an undeclared code, an infinite entry) adds nothing, still
    counts as a record, and is never named. Everybody is at risk from time 0. Censoring may depend on the row, but
    within equal rows it must not depend on the time of the event.

    References
    ----------
    The sums and their sensitivities are this library's (`dpensemble.moments.survival`). T. Therneau, P. Grambsch and T.
    Fleming, Biometrika 1990. R. Prentice and L. Gloeckler, Biometrics 1978.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2)); died = rng.exponential(np.exp(3 - X[:, 0])); left = rng.uniform(5, 60, 4000)
    >>> y = np.rec.fromarrays([died <= left, np.minimum(died, left)], names="event,time")
    >>> model = LabelMomentsSurvival(bins=range(5, 55, 5), epsilon=1.0, insecure_release_seed=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(1000, 2)))
    >>> model.predict_risk([[2.0, 0.0], [-2.0, 0.0]], t=20).round(1).tolist()
    [1.0, 0.2]
    """

    name: ClassVar[str] = "label-moments-survival"
    title: ClassVar[str] = "Label moments of times until an event"
    #: There is no mapping of declared columns in place of public rows.
    declared_columns: ClassVar[None] = None
    #: Times have no classes, and the model itself is the student.
    classes: ClassVar[None] = None
    student: ClassVar[None] = None
    #: Nothing but the noise is random.
    random_state: ClassVar[None] = None
    #: One person must not be able to stop the run.
    on_bad_record: ClassVar[str] = OnBadRecord.ZERO

    def __init__(
        self,
        bins: Sequence[float] = (),
        *,
        events: Sequence[Rows] = (1,),
        censored: Sequence[Rows] = (0,),
        competing: Sequence[Rows] = (),
        feature_map: Rows = None,
        columns: Mapping[str, str] | str | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        relation: str = "replace-one",
        insecure_release_seed: int | None = None,
    ) -> None:
        store_params(self, locals())

    def __sklearn_tags__(self) -> Rows:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.feature_map is None
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def design(self, *, groups: tuple[Group, ...] | None = None) -> SurvivalSums:
        """Return everything public about a run with these settings, before any record is touched."""
        return SurvivalSums(
            name=self.name,
            title=self.title,
            everyone=(Group(EVERYONE, Budget.of(self.epsilon, self.delta)),) if groups is None else groups,
            n_classes=0,
            rounds=2,
            relation=member("relation", self.relation, Relation),
            bins=tuple(checked_ends(self.bins).tolist()),
        )

    @property
    def unique_times_(self) -> Floats:
        """Ends of bins, at which curves are stated."""
        check_is_fitted(self, "result_")
        return np.array(self.design_.bins)

    @takes_any_frame
    def fit(
        self,
        X: Rows,
        y: Rows,
        *,
        X_public: Rows = None,
        units: ArrayLike | None = None,
        public_units: ArrayLike | None = None,
        ledger: Rows = None,
        fewest_units: int | None = None,
        **others: Rows,
    ) -> LabelMomentsSurvival:
        """Release the noisy sums of the private records, and fit the model to them.

        Every call is a separate release. The losses of several fits on the same records add up.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_records, n_columns)
            Private records: numbers, truth values or texts, with NaN or None for missing entries.
        y : structured array of shape (n_records,), or DataFrame of shape (n_records, 2)
            Code of each record's event or censoring first, and its time second, as ``sksurv.util.Surv`` makes them.
            Private.
        X_public : DataFrame or array-like of shape (n_public, n_columns)
            Public rows with the same columns, without times.
        units : array-like of shape (n_records,), optional
            Person of each record, if one person can have several. The record of a person's first event counts, or
            without events that of the last time.
        public_units, ledger, fewest_units, **others
            As for `LabelMomentsClassifier.fit`.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            If a setting is wrong, or bins or codes are not declared well. Then nothing is spent.
        DataError
            If public rows are missing, or arguments have different lengths or another form.
        """
        arguments.refuse_others(others)
        reader = CellsReader.of(self)
        with guard_private_rows():
            times = reader(X, arguments.required(y))
        # Records are the same in fits with other bins, so fits are counted by times and not by cells.
        with guarded_fit(self, ledger, (X, times.table["time"].to_numpy(), X_public)):
            rows = PreparedRows(self, X_public)
            rows.warn(units)

            def check(public: Rows, owners: Owners) -> RowCheck:
                return reader.row_check(self, public, times.units(owners))

            given = (units, public_units, fewest_units)
            self.result_ = run_steps(SurvivalSteps.in_memory(self, rows, X, times.targets, check, given))
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
    ) -> LabelMomentsSurvival:
        """Fit to private records that come in blocks or parts. With the same seed the release is that of `fit`.

        Parameters
        ----------
        read : callable or table in parts
            A callable returns an iterator over blocks ``(X, y)``, where `y` has two fields as for `fit`. A table in
            parts has the columns of the event and of the time as its target, in this order:
            ``ParquetParts(path, ("status", "days"))``.
        n_records, units, X_public, public_units, ledger, fewest_units
            As for `LabelMomentsClassifier.fit_blocks`. A unit's records may lie in any blocks. The first pass finds
            the record that counts.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError, DataError
            As for `fit`.
        """
        reader = CellsReader.of(self)
        if callable(read):
            read = compared_once(read, X_public)
        with guarded_fit(self, ledger):
            rows = PreparedRows(self, X_public)
            rows.warn(units, read)

            def check(public: Rows) -> RowCheck:
                return replace(reader.row_check(self, public), times=reader)

            given = (rows.blocks(read), rows.X_public, n_records, units, public_units)
            records, public, whose = records_of_blocks(self, *given, check=check)
            n_units = integer_between("n_records", records.n_units, 1, 2**40)
            self.result_ = run_steps(SurvivalSteps.of(self, records, public, whose, n_units, fewest_units))
            rows.publish(self)
        return self

    @takes_any_frame
    def predict(self, X: Rows) -> Floats:
        """Return a risk score of each row: the logarithm of the cumulative hazard of the event up to the horizon.

        The larger it is, the sooner the event is expected, as metrics of scikit-survival take scores. This costs no
        privacy.

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
    def predict_risk(self, X: Rows, t: float | Sequence[float]) -> Floats:
        """Return the chance that the event happens by a time, up to the horizon. This costs no privacy.

        After a competing event it does not happen any more.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to predict.
        t : float or sequence of float
            One time, or several, from 0 to the horizon.

        Returns
        -------
        ndarray of shape (n_rows,), or (n_rows, n_times) for several times

        Raises
        ------
        InvalidParameterError
            If a time is beyond the horizon.
        """
        check_is_fitted(self)
        horizon, several = float(self.unique_times_[-1]), np.iterable(t)
        times = [real_between("t", one, 0.0, horizon) for one in np.ravel(t).tolist()]
        risks = self._read(X, lambda student, rows: student.predict_risk(rows, times))
        return risks if several else risks[:, 0]

    @takes_any_frame
    def predict_survival_function(self, X: Rows, return_array: bool = False) -> Rows:
        """Return the chance of each row to be free of the event, and of competing ones, along time.

        This costs no privacy.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_rows, n_columns)
            Rows to predict.
        return_array : bool, default=False
            Whether to return values at ``unique_times_`` in place of functions.

        Returns
        -------
        ndarray of shape (n_rows,) of functions, or ndarray of shape (n_rows, n_bins)
            A function takes times up to the horizon.
        """
        return self._functions(np.exp(-self._hazards(X, every=True)), return_array, start=1.0)

    @takes_any_frame
    def predict_cumulative_hazard_function(self, X: Rows, return_array: bool = False) -> Rows:
        """Return the cumulative hazard of each row along time. This costs no privacy.

        Parameters
        ----------
        X, return_array
            As for `predict_survival_function`.

        Returns
        -------
        ndarray of shape (n_rows,) of functions, or ndarray of shape (n_rows, n_bins)
        """
        return self._functions(self._hazards(X), return_array, start=0.0)

    @property
    def effects_(self) -> list[Effect]:
        """How far each column moves the logarithm of the event's hazard. Public."""
        check_is_fitted(self)
        effects: list[Effect] = self.result_.effects
        return effects

    def _hazards(self, X: Rows, *, every: bool = False) -> Floats:
        return self._read(X, lambda student, rows: student.predict_cumulative_hazard(rows, every=every))

    def _functions(self, values: Floats, return_array: bool, *, start: float) -> Rows:
        if return_array:
            return values
        functions = np.empty(len(values), dtype=object)
        functions[:] = [SurvivalFunction(self.unique_times_, one, start) for one in values]
        return functions

    def _read(self, X: Rows, read: Callable[[Rows, Rows], Rows]) -> Floats:
        check_is_fitted(self)
        values: Floats = self._in_blocks(X, lambda rows: read(self.student_, rows))
        return values


class CellsReader(TimesReader):
    """Reads rows whose classes are cells of a kind of event and a bin. All competing events are one kind."""

    @classmethod
    def of(cls, method: LabelMomentsSurvival) -> CellsReader:
        """Return the reader of what a model of risks declares. Raise if bins or codes are not declared well."""
        declared = LifeTable(method.bins, events=method.events, censored=method.censored, competing=method.competing)
        declared.check()
        return cls(declared)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the event of interest and of all others together, if there are any."""
        first, *others = self.declared.kinds_of_events
        return (first, " or ".join(others)) if others else (first,)

    def row_check(self, method: LabelMomentsSurvival, public: Rows, units: Units | None = None) -> RowCheck:
        """Return the check of private rows, whose classes are cells."""
        form = TableForm(public.iloc[:0], encoded=method.feature_map is None)
        return RowCheck(form, np.arange((1 + len(self.kinds)) * len(method.bins) + 1), True, units)

    def __call__(self, X: Rows, y: Rows) -> TimesAndEnds:
        """Return times and cells."""
        times, n_events = super().__call__(X, y), len(self.kinds)
        own = np.clip(times.targets, 0, n_events)
        ends = checked_ends(self.declared.bins)
        cells = cells_of_times(ends, times.table["time"].to_numpy(), own, n_events=n_events)
        return times._replace(targets=np.where(times.targets == BAD, BAD, cells))


class SurvivalSteps(OneMapSteps):
    """The steps of `LabelMomentsSurvival`."""

    #: A time shows little about people without an event.
    part_of_directions: ClassVar[float] = 0.5
    design: SurvivalSums
    _learned_times: LearnedSurvival

    def prepare(self) -> None:
        """Choose the map and the shares of the budget, and raise if no public column could show a risk."""
        super().prepare()
        with on_public_rows():
            self.require_unlike(dense(self.feature_map.transform(self.public)))

    @staticmethod
    def require_unlike(public: Floats) -> None:
        """Raise for numbers of public rows that are the same in all rows."""
        if not np.ptp(public, axis=0).any():
            raise DataError(
                f"X_public has {len(public):,} rows whose entries are all the same, so that no column can show a "
                "risk: give public rows that differ as private ones do, or take a LifeTable."
            )

    def charge_and_release(self, advance: Callable[[float], None]) -> None:
        """Charge for all sums and release them, and fit the model."""
        source = self._source()
        self._learned_times = release_and_fit_survival(
            source,
            self.feature_map,
            self.public,
            np.array(self.design.bins),
            self.design,
            self.total,
            units=self.public_units,
            kinds=CellsReader.of(self.method).kinds,
            on_done=advance,
        )
        self._released = tuple(source.sums.released)
        drift = self._learned_times.drift
        if not drift.trusted:
            self.warn_after_fit(drift.warning(), UnlikeRowsWarning)

    def make_student(self) -> Pipeline:
        """Return the published model behind its map."""
        steps = [("encoder", self.feature_map), ("student", self._learned_times.model)]
        student: Pipeline = self._published(Pipeline(steps))
        return student

    def make_result(self, student: Pipeline) -> Result:
        """Return the result of the run."""
        learned = self._learned_times
        self.method.columns_, self.method.life_table_ = self.public.iloc[:0], learned.life_table
        texts = classifier.texts_of_times(self.relation, self.has_units)
        return Result(
            design=self.design,
            classes=self.classes,
            guarantee=classifier.guarantee_of_sums(
                self.meter, self.relation, texts, has_units=self.has_units, for_release=self.noise.for_release
            ),
            student=student,
            labels=ReleasedLabels(np.empty(0, dtype=np.int64), np.empty(0), 0),
            releases=self._released,
            n_features=learned.model.n_features_in_,
            charges=self.meter.charges,
            drift=learned.drift,
            readable_share=learned.readable,
            effects=learned.model.effects_,
        )
