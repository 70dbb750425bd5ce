"""A run of label moments: its input, and the steps that release noisy moments."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import validate_data

from dpensemble._arrays import Floats, Integers
from dpensemble._checks import integer_between, member
from dpensemble._hide_private_rows import on_public_rows
from dpensemble._progress import ShownPasses
from dpensemble._random import Stream, seed_integer
from dpensemble.accounting import Group, SumsMeter
from dpensemble.budget import Budget
from dpensemble.datasets.preparation import statements_of
from dpensemble.datasets.public_facts import warn_of_columns
from dpensemble.design.sums import NoisySums
from dpensemble.engine import classifier
from dpensemble.engine.records import ReleasedLabels, groups_by_epsilon, require_small_delta
from dpensemble.engine.result import Result
from dpensemble.engine.run import Steps
from dpensemble.errors import InvalidParameterError, UnlikeRowsWarning
from dpensemble.moments import MomentsSource
from dpensemble.moments.learning import (
    MANY_COLUMNS,
    VERY_FEW_ROWS,
    Learned,
    distilled,
    fitted_map,
    release_and_fit,
    release_and_fit_synthetic_rows,
    require_no_blanks,
)
from dpensemble.moments.maps.grid import Grid, declared_grid, observed_grid
from dpensemble.moments.public_rows import PublicUnits
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser
from dpensemble.rows.arguments import names_of, public_table, public_unit_numbers
from dpensemble.rows.bad_records import zeroes_bad
from dpensemble.rows.checked import RowCheck, TableForm, UnitsByPlace
from dpensemble.rows.labels_and_units import Owners, sorted_classes
from dpensemble.rows.passes import CheckedRecords, Features, SumsOfRecords
from dpensemble.rows.source import Blocks, Read, RowSource
from dpensemble.student.published import marked, with_names


class _MomentsSteps(Steps):
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

    def __init__(
        self,
        method: Any,
        records: CheckedRecords,
        public: Any,
        classes: NDArray[Any],
        groups: tuple[Group, ...] | None,
        total: float,
        units: PublicUnits,
        fewest_units: int | None,
    ) -> None:
        budget, relation = (
            Budget(epsilon=method.epsilon, delta=method.delta),
            member("relation", method.relation, Relation),
        )
        noun = "units" if units.private else "records"
        require_small_delta(budget, relation, records.n_units, noun, fewest_units)
        super().__init__(method)
        self.records, self.public, self.classes, self.units = records, public, classes, units
        self.groups, self.total = groups, total

    def prepare(self) -> None:
        """Choose the map, the rows and the shares of the budget from public facts."""
        warn_of_columns(self.public, has_unit=self.units.private)
        require_no_blanks(self.method.student, self.public)
        self._choose()
        self.meter = self.design.meter()

    def _choose(self) -> None:
        method, public = self.method, self.public
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
            return
        if method.feature_map is None and len(public) < VERY_FEW_ROWS and public.shape[1] <= MANY_COLUMNS:
            self.grid = observed_grid(public)
            return
        design = method.design(**settings)
        with on_public_rows():
            self.feature_map = fitted_map(
                method.feature_map,
                public,
                n_rows=int(self.total) if self.relation is Relation.REPLACE_ONE else len(public),
                n_classes=len(self.classes),
                epsilon=method.epsilon,
            )
        has_decoder = statements_of(self.feature_map).decoder_ is not None
        if has_decoder and method.rounds is None:
            # More rounds would release the same class sums again.
            design = replace(design, rounds=1)
        # Class sums contain the mean of features, too. When synthetic rows may follow, the mean comes first.
        compares = has_decoder or not (self.feature_map.nonnegative_ and self.relation is Relation.REPLACE_ONE)
        if compares and method.feature_map is None:
            self.after_alarm = replace(synthetic, compares_rows=True)
        self.design = replace(design, compares_rows=compares)

    @property
    def n_steps(self) -> float:
        """Number of rounds."""
        return self.design.rounds

    def _source(self) -> MomentsSource:
        """Return the source that sums over private records and releases the sums."""
        zeroes, map_, grid = zeroes_bad(self.method), self.feature_map, self.grid
        features = Features(
            (statements_of(map_).for_sums or map_.transform) if grid is None else grid.one_hot,
            alone=grid is None and self._reads_alone(zeroes),
            zeroes_bad=zeroes,
            n_features=0 if map_ is None else len(map_.blocks_),
            keeps=self.records.keeps,
        )
        sums = SumReleaser(relation=self.relation, meter=self.meter, noise=self.noise)
        nonnegative = map_ is None or bool(map_.nonnegative_)
        return MomentsSource(
            blocks=SumsOfRecords(self.records, features), nonnegative=nonnegative, sums=sums, same=self.records.same
        )

    def _reads_alone(self, zeroes: bool) -> bool:
        """Return whether the map gets one row at a time."""
        if getattr(self.feature_map, "reads_rows_alone", False):
            return False
        # Other maps may read rows together. If a unit can have more or fewer records, the places of others depend on
        # it. An image with an unusable pixel is a bad record, and must not end the reading of all rows.
        by_place = statements_of(self.feature_map).reads_rows_by_place
        return not by_place or zeroes or self.units.private or self.relation is not Relation.REPLACE_ONE

    def release(self, advance: Callable[[float], None]) -> None:
        """Release all rounds, and fit the model between them."""
        source, public, classes, design = self._source(), self.public, self.classes, self.design
        if self.grid is not None:
            few = public if len(public) else None
            more: dict[str, Any] = {"units": self.units, "on_done": advance}
            learned = release_and_fit_synthetic_rows(source, self.grid, few, classes, design, self.total, **more)
        else:
            more = {"units": self.units, "after_alarm": self.after_alarm, "on_done": advance}
            learned = release_and_fit(source, self.feature_map, public, classes, design, self.total, **more)
        self._learned = learned
        if learned.synthetic and self.after_alarm is not None:
            self.design = self.after_alarm
        if learned.drift is not None and not learned.drift.trusted:
            warnings.warn(learned.drift.warning(replaced=learned.synthetic), UnlikeRowsWarning, stacklevel=5)

    def learn(self) -> Any:
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

    def state(self, student: Any) -> Result:
        """Return the result of the run. The estimator also stores the model and the moments."""
        learned, method, public, classes = self._learned, self.method, self.public, self.classes
        # No rows, only the kinds of their columns.
        method.model_, method.moments_, method.columns_ = self._model, learned.rounds, public.iloc[:0]
        answers = np.empty(0, dtype=classes.dtype)
        if len(public):
            answers = classes[np.asarray(self._model.predict_proba(public)).argmax(axis=1)]
        texts = classifier.texts_of_moments(self.relation, self.units.private, len(self.meter.groups) > 1)
        return Result(
            design=self.design,
            classes=classes,
            guarantee=classifier.guarantee_of_sums(
                self.meter, self.relation, texts, has_units=self.units.private, for_release=self.noise.for_release
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


def of_checked_tables(
    method: Any,
    X: Any,
    y: Any,
    public: Any,
    owners: Owners,
    epsilons: ArrayLike | None,
    fewest_units: int | None,
    public_units: Integers | None,
) -> _MomentsSteps:
    """Convert and weigh the records that `checked_tables` returns, and return the steps of the run."""
    whose = PublicUnits(public_units, private=owners.units is not None)
    epsilons = owners.kept_values("personal_epsilons", epsilons)
    units, groups, total = None, None, float(len(X))
    if epsilons is not None or owners.units is not None:
        numbers = owners.numbers
        weights, groups, total = _weights_of_records(method, numbers, epsilons)
        units = UnitsByPlace.of_present(owners.present, numbers, weights)
    form, classes = (
        TableForm(public.iloc[:0], declared=method.declared_columns is not None),
        sorted_classes(method.classes),
    )
    records = CheckedRecords.in_memory(X, y, RowCheck(form, classes, zeroes_bad(method), units))
    return _MomentsSteps(method, records, public, classes, groups, total, whose, fewest_units)


def of_blocks(
    method: Any,
    read: Read | RowSource,
    X_public: Any,
    n_records: int | None,
    units: ArrayLike | None,
    fewest_units: int | None,
    public_units: ArrayLike | None,
) -> _MomentsSteps:
    """Check the arguments of `LabelMomentsClassifier.fit_blocks`, and return the steps of the run."""
    public = public_table(method, X_public)
    numbers = public_unit_numbers(public_units, len(public))
    validate_data(method, public, skip_check_array=True)
    form, classes = (
        TableForm(public.iloc[:0], declared=method.declared_columns is not None),
        sorted_classes(method.classes),
    )
    check = RowCheck(form, classes, zeroes_bad(method))
    if callable(read):
        source: RowSource = Blocks(read, ShownPasses())
        owners = Owners.in_blocks(read, units, None, zeroes=zeroes_bad(method))
        units = owners.units
        if units is not None:
            shares = 1 / np.bincount(owners.numbers)[owners.numbers]
            check = replace(check, units=UnitsByPlace.of_present(owners.present, owners.numbers, shares))
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
    n_units = integer_between("n_records", records.n_units, 1, 2**40)
    whose = PublicUnits(numbers, private=units is not None)
    return _MomentsSteps(method, records, public, classes, None, float(n_units), whose, fewest_units)


def _require_number(n_records: int, counted: int) -> None:
    """Raise if a declared number of records is not their number, which is public when a unit is replaced."""
    if integer_between("n_records", n_records, 1, 2**40) != counted:
        raise InvalidParameterError(
            f"n_records={n_records} must be the number of records that read returns: correct n_records, or leave it "
            "out.",
            parameter="n_records",
        )


def _weights_of_records(
    method: Any, units_of: Integers, epsilons: ArrayLike | None
) -> tuple[Floats, tuple[Group, ...] | None, float]:
    """Return records' weights, groups if budgets differ, and the sum of units' weights from public counts."""
    weights = 1 / np.bincount(units_of)[units_of]
    if epsilons is None:
        return weights, None, float(int(units_of.max()) + 1)
    relation = member("relation", method.relation, Relation)
    personal, groups = groups_by_epsilon(epsilons, len(units_of), relation=relation, delta=method.delta)
    units = np.bincount(personal.group_of_unit(units_of), minlength=personal.n_groups)
    parts = np.asarray([group.weight for group in groups])
    return weights * parts[personal.group_of_record], groups, float(units @ parts)
