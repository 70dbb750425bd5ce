"""A classifier from noisy moments of labels: every unit is its own teacher, and answers with a vector.

The module holds the steps of a run that release noisy moments, and the estimator whose `fit` checks their input.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import validate_data

from dpensemble._checks import integer_between, member
from dpensemble._entries import Floats, Integers, Rows
from dpensemble._hide_private_rows import on_public_rows
from dpensemble._random import Stream, seed_integer
from dpensemble._work import ShownPasses, decided, is_rehearsal
from dpensemble.accounting import EVERYONE, Group
from dpensemble.datasets.frames import takes_any_frame
from dpensemble.datasets.public_facts import warn_of_columns
from dpensemble.datasets.tables import as_library_transformer
from dpensemble.design.sums import NoisySums
from dpensemble.engine import classifier
from dpensemble.engine.classifier import TableClassifier
from dpensemble.engine.planned import store_params
from dpensemble.engine.records import ReleasedLabels, groups_by_epsilon
from dpensemble.engine.result import Result
from dpensemble.engine.run import Steps, compared_once, guarded_fit, run_steps
from dpensemble.errors import ColumnWarning, InvalidParameterError, UnlikeRowsWarning
from dpensemble.guarantee import Budget
from dpensemble.moments import MomentsSource
from dpensemble.moments.learning import (
    Learned,
    RareCases,
    bytes_needed,
    bytes_needed_by_synthetic_rows,
    release_and_fit,
    release_and_fit_synthetic_rows,
    statistics_of,
)
from dpensemble.moments.maps.base import FeatureMap
from dpensemble.moments.maps.directions import effective_directions, seen_beside_noise
from dpensemble.moments.maps.grid import Grid, declared_grid, observed_grid
from dpensemble.moments.maps.tables import (
    MANY_COLUMNS,
    VERY_FEW_ROWS,
    fitted_map,
    map_of_rare_cases,
)
from dpensemble.moments.public_rows import PublicUnits
from dpensemble.moments.residuals import NumberRange
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser, SumsMeter
from dpensemble.rows import arguments
from dpensemble.rows.arguments import (
    Owners,
    PreparedRows,
    names_of,
    public_table,
    public_unit_numbers,
    sorted_classes,
    zeroes_bad,
)
from dpensemble.rows.checked import RowCheck, TableForm, Units, UnitsByPlace
from dpensemble.rows.passes import CheckedRecords, Features, SumsOfRecords
from dpensemble.rows.source import BlockSource, Read, RowSource
from dpensemble.student import distilled, marked, require_no_blanks, with_names

# Columns up to which synthetic rows replace public ones after an alarm. More columns would take minutes and gigabytes,
# and pairs of that many columns are mostly noise.
_MOST_REPLACED = 500


# Columns from which a run warns that they cost much, and the least part of what they show that noise should leave.
_MANY_COLUMNS, _LEAST_SEEN = 30, 0.5


class MomentsSteps(Steps):
    """The steps of `LabelMomentsClassifier`."""

    stage: ClassVar[tuple[str, str]] = ("moments", "Releasing moments")
    default_teacher: Any = "each unit answers by itself"
    design: NoisySums
    meter: SumsMeter
    _learned: Learned
    #: Cells of columns if synthetic rows are drawn. Otherwise a map that was made from public rows.
    grid: Grid | None = None
    feature_map: Any = None
    #: The continuation of the run if public rows turn out to be unlike the private ones.
    after_alarm: NoisySums | None = None
    #: The continuation of the run if one of two classes turns out to be rare.
    if_rare: RareCases | None = None

    def __init__(
        self,
        method: Any,
        records: CheckedRecords,
        public: Any,
        classes: NDArray[Any],
        groups: tuple[Group, ...] | None,
        total: float,
        public_units: PublicUnits,
        found_budget: tuple[Budget, str],
    ) -> None:
        super().__init__(method)
        self.budget, self.delta_rule = found_budget
        groups = (Group(EVERYONE, self.budget),) if groups is None else groups
        self.records, self.public, self.classes = records, public, classes
        self.public_units, self.has_units = public_units, public_units.private
        self.groups, self.total = groups, total

    def prepare(self) -> None:
        """Choose the map, the rows and the shares of the budget from public facts."""
        method, public = self.method, self.public
        if not is_rehearsal():
            warn_of_columns(public, has_unit=self.has_units)
        require_no_blanks(method.student, public)
        if method.declared_columns is not None and method.feature_map is not None:
            raise InvalidParameterError(
                "feature_map must be fitted on public rows, but declared_columns are for runs without public rows: "
                "give one of them.",
                parameter="feature_map",
            )
        settings: dict[str, Any] = {"n_classes": len(self.classes), "groups": self.groups}
        self.design = synthetic = method.design(**settings, synthetic_rows=True)
        if method.declared_columns is not None:
            integer_between("number of declared_columns", public.shape[1], 1, MANY_COLUMNS)
            self.grid = declared_grid(method.declared_columns)
        elif method.feature_map is None and len(public) < VERY_FEW_ROWS and public.shape[1] <= MANY_COLUMNS:
            self.grid = observed_grid(public)
        else:
            design = method.design(**settings)
            with on_public_rows():
                self.feature_map = decided("feature map", self._fitted_map)
            has_decoder = as_library_transformer(self.feature_map).decoder_ is not None
            if (has_decoder or as_library_transformer(self.feature_map).screens_features) and method.rounds is None:
                # More rounds would release the same class sums again, or leave more noise on each of many features.
                design = replace(design, rounds=1)
            # Class sums contain the mean of features, too. When synthetic rows may follow, the mean comes first.
            compares = has_decoder or not (self.feature_map.nonnegative_ and self.relation is Relation.REPLACE_ONE)
            if compares and method.feature_map is None and public.shape[1] <= _MOST_REPLACED:
                self.after_alarm = replace(synthetic, compares_rows=True)
            self.design = replace(design, compares_rows=compares)
            if method.feature_map is None and len(self.classes) == 2:
                self._look_for_rare_cases()
        self.meter = self.design.meter()
        # A map of the user, such as that of images, need not read columns apart.
        chosen_here = self.feature_map is not None and method.feature_map is None
        if chosen_here and public.shape[1] >= _MANY_COLUMNS and not is_rehearsal():
            self._warn_of_width()

    def _look_for_rare_cases(self) -> None:
        """Let the run release the shares of both classes, and take fewer directions if one is rare."""
        public, usual, epsilon = self.public, self.feature_map, self.method.epsilon
        with on_public_rows():
            n_rows = self._n_rows()
            few = decided("map of rare cases", lambda: map_of_rare_cases(public, usual, n_rows=n_rows, epsilon=epsilon))
        if few is None:
            return
        # A requested statistic shows the shares, too.
        self.design = replace(self.design, looks_for_rare=not self.design.statistics)
        rounds = self.method.design(n_classes=2, groups=self.groups).rounds
        design = replace(self.design, rounds=rounds, found_rare=True)
        self.if_rare = RareCases(feature_map=few[0], design=design, few_cases=few[1])

    def _warn_of_width(self) -> None:
        """Warn if noise hides most of what many columns show, by public settings and public rows only."""
        public, feature_map = self.public, self.feature_map
        is_public = self.relation is Relation.REPLACE_ONE
        n_records = self.total if is_public else float(len(public))
        spread = self.meter.sigma(sum(self.design.shares)) / n_records
        with on_public_rows():
            width = decided("effective directions", lambda: effective_directions(feature_map, public))
        seen = float(seen_beside_noise(np.array([width]), n_records, spread)[0])
        if seen >= _LEAST_SEEN:
            return
        widths = np.arange(1.0, int(width) + 1)
        of_fewer = seen_beside_noise(widths, n_records, spread)
        paid = max(1, int(public.shape[1] * np.count_nonzero(of_fewer >= _LEAST_SEEN) / width))
        noun = "units" if self.has_units else "records"
        number = f"{n_records:,.0f} {noun}" if is_public else f"as many {noun} as public rows ({len(public):,})"
        warnings.warn(
            f"noise hides about {1 - seen:.0%} of what {public.shape[1]:,} columns show together at "
            f"epsilon={self.method.epsilon:g} with {number}: keep up to {paid:,} columns that you expect to matter "
            "most, or use more records or a larger epsilon.",
            ColumnWarning,
            stacklevel=5,
        )

    def memory(self) -> int:
        """Return about how many bytes the run needs, whether or not an alarm is released."""
        public, n_classes = self.public, len(self.classes)
        # Under the other relation the number of records is private, and so is the number of records of units.
        is_public = self.relation is Relation.REPLACE_ONE and not self.has_units
        n_records = self.records.n_records if self.records.keeps and is_public else 0
        with on_public_rows():
            needed = [] if self.grid is not None else [bytes_needed(self.feature_map, public, n_classes, n_records)]
        if self.grid is not None or self.after_alarm is not None:
            n_public = 0 if self.grid is None else len(public)
            needed.append(bytes_needed_by_synthetic_rows(public.shape[1], n_classes, n_public))
        return max(needed)

    def _n_rows(self) -> int:
        """Return the weighted number of units, or the number of public rows if the number of units is private."""
        return int(self.total) if self.relation is Relation.REPLACE_ONE else len(self.public)

    def _fitted_map(self) -> FeatureMap:
        """Return the map, fitted on public rows."""
        return fitted_map(
            self.method.feature_map,
            self.public,
            n_rows=self._n_rows(),
            n_classes=len(self.classes),
            epsilon=self.method.epsilon,
        )

    @property
    def n_steps(self) -> float:
        """Number of rounds."""
        return self.design.rounds

    def _one_row_at_a_time(self, zeroes: bool) -> bool:
        """Return whether the map gets one row at a time."""
        stated = as_library_transformer(self.feature_map)
        if stated.reads_rows_alone:
            return False
        # Other maps may read rows together. If a unit can have more or fewer records, the places of others depend on
        # it. An image with an unusable pixel is a bad record, and must not end the reading of all rows.
        return not stated.reads_rows_by_place or zeroes or self.has_units or self.relation is not Relation.REPLACE_ONE

    def _source(self) -> MomentsSource:
        """Return the private records behind the map, or behind cells of columns, and the releaser of their sums."""
        grid, map_, zeroes = self.grid, self.feature_map, zeroes_bad(self.method)
        features = Features(
            (as_library_transformer(map_).for_sums or map_.transform) if grid is None else grid.one_hot,
            alone=grid is None and self._one_row_at_a_time(zeroes),
            zeroes_bad=zeroes,
            n_features=0 if map_ is None else len(map_.blocks_),
            keeps=self.records.keeps,
        )
        recent = map_ is not None and (as_library_transformer(map_).is_recent or self.if_rare is not None)
        kept_as = "a noisy sum by a recent map" if recent else "a noisy sum"
        return MomentsSource(
            blocks=SumsOfRecords(self.records, features),
            nonnegative=map_ is None or bool(map_.nonnegative_),
            sums=SumReleaser(relation=self.relation, meter=self.meter, noise=self.noise, kept_as=kept_as),
            same=self.records.same,
        )

    def charge_and_release(self, advance: Callable[[float], None]) -> None:
        """Charge for all rounds and release their sums, and fit the model between them."""
        public, classes, design, grid, map_ = self.public, self.classes, self.design, self.grid, self.feature_map
        source = self._source()
        if grid is not None:
            few = public if len(public) else None
            more: dict[str, Any] = {"units": self.public_units, "on_done": advance}
            learned = release_and_fit_synthetic_rows(source, grid, few, classes, design, self.total, **more)
        else:
            ways = {"after_alarm": self.after_alarm, "if_rare": self.if_rare}
            more = {"units": self.public_units, **ways, "on_done": advance}
            learned = release_and_fit(source, map_, public, classes, design, self.total, **more)
        self._learned = learned
        if learned.synthetic and self.after_alarm is not None:
            self.design = self.after_alarm
        elif self.if_rare is not None and learned.feature_map is self.if_rare.feature_map:
            self.design = self.if_rare.design
        if learned.drift is not None and not learned.drift.trusted:
            self.warn_after_fit(learned.drift.warning(replaced=learned.synthetic), UnlikeRowsWarning)

    def make_student(self) -> Any:
        """Return the published model, or the student that is trained on its predictions."""
        learned = self._learned
        self._model = self._published(Pipeline([("encoder", learned.feature_map), ("student", learned.model)]))
        if self.method.student is None:
            return self._model
        # Synthetic rows may have blanks because of the noise.
        rows = learned.table.dropna() if learned.synthetic else learned.table
        seed = seed_integer(self.entropy, Stream.STUDENT)
        return self._published(distilled(self.method.student, self._model, rows, seed))

    def _published(self, student: Pipeline) -> Any:
        named = with_names(student, names_of(self.public), n_columns=self.public.shape[1])
        return marked(named, for_release=self.noise.for_release)

    def make_result(self, student: Any) -> Result:
        """Return the result of the run. The estimator also stores the model and the moments."""
        learned, method, public, classes = self._learned, self.method, self.public, self.classes
        # No rows, only the kinds of their columns.
        method.model_, method.moments_, method.columns_ = self._model, learned.rounds, public.iloc[:0]
        answers = np.empty(0, dtype=classes.dtype)
        if len(public):
            answers = classes[np.asarray(self._model.predict_proba(public)).argmax(axis=1)]
        texts = classifier.texts_of_moments(self.relation, self.has_units, len(self.meter.groups) > 1)
        return Result(
            design=self.design,
            classes=classes,
            guarantee=classifier.guarantee_of_sums(
                self.meter,
                self.relation,
                texts,
                has_units=self.has_units,
                for_release=self.noise.for_release,
            ),
            student=student,
            labels=ReleasedLabels(np.arange(len(public)), answers, len(public)),
            releases=learned.releases,
            n_features=len(student.named_steps["encoder"].get_feature_names_out()),
            charges=self.meter.charges,
            effects=learned.model.effects_,
            drift=learned.drift,
            readable_share=learned.readable,
        )

    def default_student(self) -> Any:
        """Return a description of the student if the estimator names none."""
        return "softmax of the features, from released moments"


def _form(method: LabelMomentsClassifier, public: Rows) -> TableForm:
    """Return the form of private rows. A map of a user gets texts as they are written."""
    return TableForm(public.iloc[:0], method.declared_columns is not None, encoded=method.feature_map is None)


def records_of_blocks(
    method: Rows,
    read: Read | RowSource,
    X_public: Rows,
    n_records: int | None,
    units: ArrayLike | None,
    public_units: ArrayLike | None,
    *,
    check: Callable[[Rows], RowCheck] | None = None,
) -> tuple[CheckedRecords, Rows, PublicUnits]:
    """Check the arguments of `fit_blocks`, and pass over the records once. Return them, public rows and their units.

    Labels are of the method's classes, unless `check` takes public rows and returns another check.
    """
    public = public_table(method, X_public)
    numbers = public_unit_numbers(public_units, len(public))
    validate_data(method, public, skip_check_array=True)
    of_rows = row_check(method, public) if check is None else check(public)
    records, has_units = checked_records(method, read, of_rows, n_records, units)
    return records, public, PublicUnits(numbers, private=has_units)


def checked_records(
    method: Rows, read: Read | RowSource, check: RowCheck, n_records: int | None, units: ArrayLike | None
) -> tuple[CheckedRecords, bool]:
    """Pass over the records of `fit_blocks` once. Return them, and whether several may be one unit."""
    if callable(read):
        owners = Owners.in_blocks(read, units, None, zeroes=zeroes_bad(method))
        units = owners.units
        # A unit may have any number of records, so their number is private.
        source: RowSource = BlockSource(read, ShownPasses(counts=units is None))
        check = replace(check, units=UnitsByPlace.of_owners(owners))
    elif n_records is not None or units is not None:
        raise InvalidParameterError(
            "n_records and units are counted in a table in parts: name the column of units there.",
            parameter="units",
        )
    else:
        source, units = read, read.unit
    records = CheckedRecords.of_source(source, check)
    if n_records is not None and member("relation", method.relation, Relation) is Relation.REPLACE_ONE:
        _require_number(n_records, records.n_records)
    return records, units is not None


def row_check(method: Rows, public: Rows, number: NumberRange | None = None, units: Units | None = None) -> RowCheck:
    """Return the check of private rows: labels are of the method's classes, unless the range of a `number` is given."""
    classes = sorted_classes(method.classes) if number is None else np.empty(0)
    return RowCheck(_form(method, public), classes, zeroes_bad(method), units, number=number)


def _require_number(n_records: int, counted: int) -> None:
    """Raise if a declared number of records is not their number, which is public when a unit is replaced."""
    if integer_between("n_records", n_records, 1, 2**40) != counted:
        raise InvalidParameterError(
            f"n_records={n_records} must be the number of records that read returns: correct n_records, or leave it "
            "out.",
            parameter="n_records",
        )


def weights_of_records(
    method: Any, units_of: Integers, epsilons: ArrayLike | None, delta: float
) -> tuple[Floats, tuple[Group, ...] | None, float]:
    """Return records' weights, groups if budgets differ, and the sum of units' weights from public counts."""
    weights = 1 / np.bincount(units_of)[units_of]
    if epsilons is None:
        return weights, None, float(int(units_of.max()) + 1)
    relation = member("relation", method.relation, Relation)
    personal, groups = groups_by_epsilon(epsilons, len(units_of), relation=relation, delta=delta)
    units = np.bincount(personal.group_of_unit(units_of), minlength=personal.n_groups)
    parts = np.asarray([group.weight for group in groups])
    return weights * parts[personal.group_of_record], groups, float(units @ parts)


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
        numbers at several scales, categories, and missing entries (`TableMap`). The features are principal directions
        over public rows (`DirectionsMap`). Fewer and smooth ones are taken with fewer than 1,000 public rows, and for
        two classes with less than 3,000 records times epsilon. With more, two classes release their shares first, for
        1 % of the budget, and 30 smooth directions are taken if fewer than 500 cases times epsilon show. Three and more
        classes take the features as they are there if records times epsilon exceed 1,100. Tables of measured numbers
        with at least 1,000 public rows get curved boundaries, by nearness to landmarks among public rows
        (`dpensemble.moments.maps.curved`). With fewer than 200 public rows, or when public rows do not look like the
        private ones, synthetic rows take their place. A part of the budget then pays for the shares of entries and
        their correlations.
    student : scikit-learn classifier, optional
        Trained on the published model's predictions for public rows. By default the model itself is the student.
    classes : sequence
        All possible labels. Must be declared: reading them off private labels would leak.
    columns : dict of str to str or "as given", optional
        The kind of a column, as for `TablePreparation`: ``"number"``, ``"percent"``, ``"money"``, ``"date:%d.%m.%Y"``,
        ``"category"``, ``"text"``, ``"id"`` or ``"drop"``. A table with texts is read as the command line reads it,
        also without a declaration. Numbers with signs and dates are read as public rows write them, and free text,
        names and ids are left out. With ``"as given"`` all texts are categories, as in arrays and with a
        ``feature_map``.
    declared_columns : mapping, optional
        Declares columns if there are no public rows. A column of numbers has a range ``(low, high)``, and entries
        outside count as its ends. Any other column has a list of categories. Must not depend on private rows.
    rounds : int, optional
        Number of noisy sums of labels. By default 1 for curved boundaries and for directions of three and more
        classes of a table. Otherwise 3 for two classes (4 with synthetic rows), and 2 for more.
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
        columns: Mapping[str, str] | str | None = None,
        declared_columns: Mapping[Any, Sequence[Any]] | None = None,
        rounds: int | None = None,
        statistics: str | list[str] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
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
        everyone = (Group(EVERYONE, Budget.of(self.epsilon, self.delta)),)
        return _noisy_sums(
            name=self.name,
            title=self.title,
            groups=everyone if groups is None else groups,
            n_classes=n_classes,
            rounds=((4 if synthetic else 3) if n_classes == 2 else 2) if self.rounds is None else self.rounds,
            relation=self.relation,
            synthetic_rows=synthetic,
            statistics=statistics_of(self.statistics),
        )

    @takes_any_frame
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
        with guarded_fit(self, ledger, (X, y, X_public)):
            rows = PreparedRows(self, X_public)
            rows.warn(units)
            X, y, public = arguments.checked_tables(self, rows.private(X), arguments.required(y), rows.X_public)
            numbers = arguments.public_unit_numbers(public_units, len(public))
            owners = Owners.of(units, len(X), zeroes=zeroes_bad(self))
            self._fit_checked(X, y, public, owners, numbers, personal_epsilons, fewest_units)
            rows.publish(self)
            return self

    def _fit_checked(
        self,
        X: Any,
        y: Any,
        public: Any,
        owners: Owners,
        public_units: Integers | None,
        personal_epsilons: ArrayLike | None,
        fewest_units: int | None,
    ) -> Self:
        """Fit to rows and labels that `checked_tables` returned, within `guarded_fit`."""
        whose = PublicUnits(public_units, private=owners.units is not None)
        epsilons = owners.kept_values("personal_epsilons", personal_epsilons)
        found_budget = MomentsSteps.budget_of(self, owners.n_units, fewest_units, has_units=whose.private)
        units, groups, total = None, None, float(len(X))
        if epsilons is not None or owners.units is not None:
            weights, groups, total = weights_of_records(self, owners.numbers, epsilons, found_budget[0].delta)
            units = UnitsByPlace.of_present(owners.present, owners.numbers, weights)
        classes = sorted_classes(self.classes)
        records = CheckedRecords.in_memory(X, y, row_check(self, public, units=units))
        self.result_ = run_steps(MomentsSteps(self, records, public, classes, groups, total, whose, found_budget))
        return self

    @takes_any_frame
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
        with guarded_fit(self, ledger):
            rows = PreparedRows(self, X_public)
            rows.warn(units, read)
            given = (rows.blocks(read), rows.X_public, n_records, units, public_units)
            records, public, whose = records_of_blocks(self, *given)
            n_units = integer_between("n_records", records.n_units, 1, 2**40)
            found_budget = MomentsSteps.budget_of(self, n_units, fewest_units, has_units=whose.private)
            classes = sorted_classes(self.classes)
            steps = MomentsSteps(self, records, public, classes, None, float(n_units), whose, found_budget)
            self.result_ = run_steps(steps)
            rows.publish(self)
        return self


def _noisy_sums(
    *,
    name: str,
    title: str,
    groups: tuple[Group, ...],
    n_classes: int,
    rounds: int,
    relation: str,
    synthetic_rows: bool = False,
    statistics: tuple[str, ...] = (),
) -> NoisySums:
    """Return the checked design of a run."""
    return NoisySums(
        name=name,
        title=title,
        everyone=groups,
        n_classes=integer_between("n_classes", n_classes, 2),
        rounds=integer_between("rounds", rounds, 1, 100),
        relation=member("relation", relation, Relation),
        synthetic_rows=synthetic_rows,
        statistics=statistics,
    )
