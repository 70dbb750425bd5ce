"""A private life table of times until an event: the steps of its run, and the class whose `fit` checks the input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from dpensemble._checks import integer_between, member
from dpensemble._entries import Integers, Rows, is_table, label_array, require_labels, require_one_per_record
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble.accounting import EVERYONE, Group
from dpensemble.design.sums import NoisySums
from dpensemble.engine.classifier import FIRST_EVENT, guarantee_of_sums
from dpensemble.engine.planned import store_params
from dpensemble.engine.records import ReleasedLabels
from dpensemble.engine.result import Result
from dpensemble.engine.run import Steps, guarded_fit, run_steps
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.guarantee import Budget, Guarantee
from dpensemble.methods.label_moments import checked_records
from dpensemble.moments import MomentsSource
from dpensemble.moments.life_table import (
    MOST_COMPETING,
    MOST_STRATA,
    LifeTableEstimate,
    LifeTableSum,
    PlacesOfTimes,
    checked_ends,
    ranks_of_times,
    rows_of_times,
)
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser, SumsMeter
from dpensemble.rows.arguments import BAD, OnBadRecord, Owners, class_ids_or_bad, sorted_classes
from dpensemble.rows.checked import RowCheck, TableForm, UnitsByPlace, numbers_or_nan
from dpensemble.rows.passes import CheckedRecords, Features, SumsOfRecords, UnitCounts
from dpensemble.rows.source import Read, RowSource

_ASSUMPTIONS = (
    "Only the noisy table and what is computed from it (curves, bands, tests) are published.",
    "Bins, strata, codes and settings do not depend on the private records.",
    "The guarantee covers what a run publishes. It does not cover whether the run finished or was refused.",
    "This covers one run. The losses of further runs on the same records add to it.",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class _OneTable(NoisySums):
    """The design of a life table: one sum. The number of people follows from the table, and is not released again."""

    @property
    def count_share(self) -> float:
        """Nothing."""
        return 0.0


class TimesAndEnds(NamedTuple):
    """Times and classes of all records, `BAD` for a bad one, and ranks within a unit. Private."""

    table: Rows
    targets: Integers
    ranks: NDArray[np.uint8]

    def units(self, owners: Owners) -> UnitsByPlace | None:
        """Return units in which one record of each weighs 1: its first event, or without events its last time.

        Records of a unit with the same event at the same time share the weight.
        """
        if owners.units is None:
            return None
        (ranks,) = owners.kept(self.ranks)
        weights = UnitCounts.of(owners.numbers, ranks).weights(owners.numbers, ranks)
        return UnitsByPlace.of_present(owners.present, owners.numbers, weights)


@dataclass(frozen=True, eq=False)
class TimesReader:
    """Reads rows of times, the same in memory, in blocks, in parts and on a cluster, by what is declared."""

    declared: LifeTable

    def __call__(self, X: Rows, y: Rows) -> TimesAndEnds:
        """Return times and classes. Rows have the columns of strata, and targets an event and its time."""
        event, time = _event_and_time(y)
        # A table in parts may have more columns.
        strata = {name: X[name] for name in self.declared.strata or () if is_table(X) and name in X}
        return self.declared.checked_rows(time, event, strata or None)


# Words in the names of a first and of a second field that are the wrong way round.
_SWAPPED = ("time", "duration", "day", "week", "month", "year"), ("event", "status", "cens", "death", "died", "dead")


def _event_and_time(y: Rows) -> tuple[Rows, Rows]:
    """Return both fields of a structured array, or both columns of a table. Only declared types are judged."""
    if is_table(y) and len(y.columns) == 2:
        event, time = (y.iloc[:, place] for place in range(2))
    elif isinstance(y, np.ndarray) and y.ndim == 1 and len(y.dtype.names or ()) == 2:
        event, time = (y[name] for name in y.dtype.names or ())
    elif isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 2:
        return y[:, 0], y[:, 1]
    else:
        raise DataError(
            "y must have two fields, first the event and then the time: give a structured array, as "
            "sksurv.util.Surv.from_arrays(event, time) makes it, or a table of two columns."
        )
    names = [str(one).lower() for one in (y.columns if is_table(y) else y.dtype.names)]
    swapped = _are_swapped(*names)
    if time.dtype.kind == "b" or swapped:
        raise DataError(
            f"y has the fields {', '.join(map(repr, names))}: give the event first, and then the time."
            if swapped
            else "y has truth values as its second field: give the event first, and then the time."
        )
    return event, time


def _are_swapped(event: str, time: str) -> bool:
    """Return whether names of a code and of a time are the wrong way round."""
    names = event.lower(), time.lower()
    return all(any(word in name for word in words) for name, words in zip(names, _SWAPPED, strict=True))


def _name_of(column: Rows) -> str:
    try:
        return str(column.name)
    except AttributeError:
        return ""


class _LifeTableResult(Result):
    """The result of a life table, which has curves in place of a student."""

    @property
    def about_student(self) -> str:
        """What was computed, in a sentence."""
        strata = [f"“{name}”" for name in self.student.strata if name]
        of = f", one for each stratum: {', '.join(strata)}" if strata else ""
        curves = "curves" if len(strata) > 1 else "curve"
        return f"The life table has {len(self.student.ends)} bins and {len(strata) or 1} {curves}{of}."


class LifeTableSteps(Steps):
    """The steps of `LifeTable`. `records` are those of `records_of`."""

    stage: ClassVar[tuple[str, str]] = ("life table", "Releasing the life table")
    default_teacher: Rows = "each unit answers by itself"
    design: _OneTable
    meter: SumsMeter
    _estimate: LifeTableEstimate

    def __init__(
        self, method: LifeTable, records: CheckedRecords, found_budget: tuple[Budget, str], *, has_units: bool
    ) -> None:
        super().__init__(method)
        self.ends, self.strata, self.kinds = checked_ends(method.bins), method.stratum_names, method.kinds_of_events
        self.budget, self.delta_rule = found_budget
        self.records, self.has_units = records, has_units

    @staticmethod
    def records_of(method: LifeTable, rows: TimesAndEnds, owners: Owners) -> CheckedRecords:
        """Return checked records of times and ends."""
        form = TableForm(rows_of_times(np.empty(0), np.empty(0)), declared=True)
        check = RowCheck(form, np.arange(method.n_classes), True, rows.units(owners))
        return CheckedRecords.in_memory(rows.table, rows.targets, check)

    def prepare(self) -> None:
        """Choose the design and its meter from public settings."""
        self.design = self.method.design(self.budget)
        self.meter = self.design.meter()

    def _source(self) -> MomentsSource:
        """Return the private records behind the map of times, and the releaser of their sum."""
        places = PlacesOfTimes(tuple(self.ends.tolist()))
        features = Features(places, zeroes_bad=True, n_features=len(self.ends) + 1, keeps=self.records.keeps)
        return MomentsSource(
            blocks=SumsOfRecords(self.records, features),
            nonnegative=True,
            sums=SumReleaser(relation=self.relation, meter=self.meter, noise=self.noise),
            same=self.records.same,
        )

    def charge_and_release(self, advance: Callable[[float], None]) -> None:
        """Charge for the table, and draw its noise."""
        self.source = self._source()
        query = LifeTableSum(self.method.n_classes)
        noisy, spread = self.source.noisy_sum(query, 1.0, title="Life table")
        self._estimate = LifeTableEstimate(self.ends, self.strata, noisy, spread, self.kinds)
        advance(1)

    def make_student(self) -> LifeTableEstimate:
        """Return curves and tests of the released table."""
        return self._estimate

    def make_result(self, student: LifeTableEstimate) -> Result:
        """Return the result of the run."""
        assumptions = (FIRST_EVENT, *_ASSUMPTIONS) if self.has_units else _ASSUMPTIONS
        return _LifeTableResult(
            design=self.design,
            classes=np.asarray(self.strata),
            guarantee=guarantee_of_sums(
                self.meter,
                self.relation,
                assumptions,
                has_units=self.has_units,
                for_release=self.noise.for_release,
            ),
            student=student,
            labels=ReleasedLabels(np.arange(0), np.empty(0), 0),
            releases=tuple(self.source.sums.released),
            n_features=len(self.ends),
            charges=self.meter.charges,
        )

    def default_student(self) -> str:
        """Return a description of what is computed."""
        return "curves of the released life table"


class LifeTable(BaseEstimator):
    """Private life table: survival curves, their bands and a log-rank test, from one noisy sum.

    Each person adds one vector of length 1 to the table, for a declared stratum, a declared bin of time, and an event
    or a censoring. Curves, numbers at risk, bands, medians, mean times and tests follow from the noisy table and cost
    nothing more. A curve ends where the released number at risk is below 10, or below three standard deviations of its
    noise.

    Parameters
    ----------
    bins : sequence of float
        End of each bin, above 0 and ascending, in the unit of the times. The last one is the horizon. A later time is
        censored at the horizon. From 2 to 200 bins. Must not depend on the private records.
    events, censored : sequence
        Codes in the event column of an event, and of a censoring. A record with another code is bad.
    competing : sequence, default=()
        Codes of competing events, up to 5, each another kind. The curve is then that of people without any event, and
        ``incidence`` has the chance of each kind.
    strata : mapping of str to sequence, optional
        Declared values of each column of strata. Every combination is a stratum, up to 20. A record with another value
        is bad.
    epsilon, delta, relation
        As for `LabelMomentsClassifier`. Under replace-one only the number of records is public, not sizes of strata.
    insecure_release_seed : int, optional
        Seeds the noise for a repeatable experiment and marks the guarantee "not for release".

    Attributes
    ----------
    life_table_ : LifeTableEstimate
        ``curves``, one for each stratum, and ``log_rank``. May be published.
    guarantee_ : Guarantee
        The privacy guarantee.
    charges_ : tuple of dict
        ``sigma`` (noise in sensitivities), ``variance`` and ``entries`` of the released sum. Public.
    design_ : NoisySums
        Groups and noise. Public.
    result_ : Result
        The result of the run, which `dpensemble.certificates.certificate_of_fit` reads.

    Notes
    -----
    A bad record (a missing, negative or infinite time, an undeclared code or stratum) adds nothing, still counts as a
    record, and is never named. Times must all have one unit, which nobody can check here. Left truncation is not
    supported: everybody is at risk from time 0.

    References
    ----------
    E. L. Kaplan and P. Meier, JASA 1958. N. Mantel, Cancer Chemotherapy Reports 1966. The sum, its sensitivity and the
    bands are this library's (`dpensemble.moments.life_table`).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> died, left = rng.exponential(300, 2000), rng.uniform(100, 900, 2000)
    >>> table = LifeTable(bins=[90, 180, 365, 730], epsilon=1.0, insecure_release_seed=0)
    >>> table = table.fit(np.minimum(died, left), died <= left)
    >>> curve = table.life_table_.curves[0]
    >>> curve.survival.round(1).tolist(), table.guarantee_.epsilon <= 1.0
    ([0.7, 0.6, 0.3, 0.1], True)
    """

    name: ClassVar[str] = "life-table"
    title: ClassVar[str] = "Life table"
    votes: ClassVar[bool] = False
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
        strata: Mapping[str, Sequence[Rows]] | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        relation: str = "replace-one",
        insecure_release_seed: int | None = None,
    ) -> None:
        store_params(self, locals())

    @property
    def life_table_(self) -> LifeTableEstimate:
        """The released curves and tests."""
        estimate: LifeTableEstimate = self.result_.student
        return estimate

    @property
    def guarantee_(self) -> Guarantee:
        """The privacy guarantee."""
        return self.result_.guarantee

    @property
    def charges_(self) -> tuple[dict[str, Any], ...] | None:
        """The charge of the released sum."""
        return self.result_.charges

    @property
    def design_(self) -> NoisySums:
        """The design of the run."""
        design: NoisySums = self.result_.design
        return design

    @property
    def stratum_names(self) -> tuple[str, ...]:
        """Names of all strata. One empty name if there are none."""
        values = [[f"{column}={value}" for value in given] for column, given in self._strata().items()]
        return tuple(", ".join(names) for names in product(*values))

    @property
    def kinds_of_events(self) -> tuple[str, ...]:
        """Names of the kinds of events, that of interest first."""
        codes = [*self.events]
        first = ("event",) if not len(self.competing) else (", ".join(map(str, codes)),)
        return (*first, *map(str, self.competing))

    def check(self) -> None:
        """Raise for bins, codes or strata that are not declared well. Only public settings are read."""
        checked_ends(self.bins)
        self._codes()
        self._strata()

    def design(self, budget: Budget | None = None) -> NoisySums:
        """Return everything public about a run with these settings, before any record is touched."""
        budget = Budget.of(self.epsilon, self.delta) if budget is None else budget
        return _OneTable(
            name=self.name,
            title=self.title,
            everyone=(Group(EVERYONE, budget),),
            n_classes=self.n_classes,
            rounds=1,
            relation=member("relation", self.relation, Relation),
        )

    def fit(
        self,
        times: ArrayLike,
        events: ArrayLike,
        *,
        strata: Rows = None,
        units: ArrayLike | None = None,
        ledger: Rows = None,
        fewest_units: int | None = None,
    ) -> Self:
        """Release the life table. Every call is a separate release, and losses of several calls add up.

        Parameters
        ----------
        times : array-like of shape (n_records,)
            Time until the event or the censoring of each record, from 0. Private.
        events : array-like of shape (n_records,)
            Code of each record's event or censoring. Private.
        strata : DataFrame or mapping of str to array-like, optional
            Each record's values of the declared columns. Private.
        units : array-like of shape (n_records,), optional
            Person of each record, if one person can have several. A person's first event counts, or without events the
            last time.
        ledger, fewest_units
            As for `PATEClassifier.fit`.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            If bins, codes or strata are not declared well, before anything is charged.
        DataError
            If the arguments have different lengths, or times are dates.
        BudgetError
            If the ledger does not cover the release.
        """
        self.check()
        if _are_swapped(_name_of(events), _name_of(times)):
            raise DataError("times are called like codes, and events like times: give fit(times, events).")
        with guard_private_rows():
            rows = self.checked_rows(times, events, strata)
        with guarded_fit(self, ledger, (rows.table, rows.targets, None)):
            owners = Owners.of(units, len(rows.targets), zeroes=True)
            has_units = owners.units is not None
            found = LifeTableSteps.budget_of(self, owners.n_units, fewest_units, has_units=has_units)
            records = LifeTableSteps.records_of(self, rows, owners)
            self.result_ = run_steps(LifeTableSteps(self, records, found, has_units=has_units))
        return self

    def fit_blocks(
        self,
        read: Read | RowSource,
        *,
        n_records: int | None = None,
        units: ArrayLike | None = None,
        ledger: Rows = None,
        fewest_units: int | None = None,
    ) -> Self:
        """Release the life table of records in blocks or parts. With the same seed the release is that of `fit`.

        Parameters
        ----------
        read : callable or table in parts
            A callable returns an iterator over blocks ``(strata, y)``, the same in the same order at every call.
            `strata` is a DataFrame with the declared columns, or None without strata. `y` has two fields, the event and
            then the time, as for `LabelMomentsSurvival.fit`. A table in parts has the columns of both as its target, as
            in ``ParquetParts(path, ("status", "days"), unit="patient")``, and those of strata beside them.
        n_records, units, ledger, fewest_units
            As for `LabelMomentsClassifier.fit_blocks`. A unit's records may lie in any blocks. The first pass finds the
            record that counts.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError, DataError, BudgetError
            As for `fit`. Also if records change between two passes.
        """
        self.check()
        with guarded_fit(self, ledger):
            check = RowCheck(None, np.arange(self.n_classes), True, times=TimesReader(clone(self)))
            records, has_units = checked_records(self, read, check, n_records, units)
            integer_between("n_records", records.n_units, 1, 2**40)
            found = LifeTableSteps.budget_of(self, records.n_units, fewest_units, has_units=has_units)
            self.result_ = run_steps(LifeTableSteps(self, records, found, has_units=has_units))
        return self

    @property
    def n_classes(self) -> int:
        """Number of strata by ends: a censoring, and each kind of event."""
        return (1 + len(self.kinds_of_events)) * len(self.stratum_names)

    def _codes(self) -> NDArray[np.generic]:
        """Return the declared codes, checked and sorted."""
        given = {"events": self.events, "censored": self.censored, "competing": self.competing}
        for name, codes in given.items():
            if isinstance(codes, str) or not np.iterable(codes):
                raise InvalidParameterError(
                    f"{name}={codes!r} is not a list of codes: give one or several, such as {name}=[1].", parameter=name
                )
        words = " and ".join(
            f"{name}={list(codes)!r}" for name, codes in given.items() if len(codes) or name != "competing"
        )
        everything = [*self.events, *self.censored, *self.competing]
        if len(set(map(str, everything))) < len(everything) or not len(self.events) or not len(self.censored):
            raise InvalidParameterError(
                f"{words} must name at least one code of an event and of a censoring, and no code twice.",
                parameter="events",
            )
        if len(self.competing) > MOST_COMPETING:
            raise InvalidParameterError(
                f"competing={list(self.competing)!r} has {len(self.competing)} codes: give at most {MOST_COMPETING}.",
                parameter="competing",
            )
        return _sorted("events", "events and censored", everything)

    def _strata(self) -> dict[str, list[Rows]]:
        """Return declared values of each column, checked."""
        given = {} if self.strata is None else self.strata
        if not isinstance(given, Mapping) or any(
            isinstance(one, str) or not np.iterable(one) for one in given.values()
        ):
            raise InvalidParameterError(
                f"strata={given!r} does not name columns: give the values of each, such as {{'sex': ['f', 'm']}}.",
                parameter="strata",
            )
        columns, number = {str(name): list(values) for name, values in given.items()}, 1
        for name, values in columns.items():
            _sorted("strata", f"strata[{name!r}]", values)
            number *= len(values)
        if number > MOST_STRATA:
            raise InvalidParameterError(
                f"strata={columns!r} make {number} strata: declare at most {MOST_STRATA}.", parameter="strata"
            )
        return columns

    def checked_rows(self, times: Rows, events: Rows, strata: Rows = None) -> TimesAndEnds:
        """Return times and classes. What is bad about one record is not stated."""
        require_labels(times, name="times", keep_bad=True)
        number = numbers_or_nan("times", times)
        n_records = len(number)
        known = self._codes()
        codes = _ids("events", known, events, n_records)
        # Zero is a censoring, and each kind of event has its number.
        numbers_of_codes = class_ids_or_bad(known, [*self.censored, *self.events, *self.competing])
        kinds: Integers = np.empty(len(known), dtype=np.int64)
        kinds[numbers_of_codes] = (
            [0] * len(self.censored) + [1] * len(self.events) + [2 + one for one in range(len(self.competing))]
        )
        kinds = kinds[codes]
        good = (codes != BAD) & np.isfinite(number) & (number >= 0)
        # An event beyond the horizon is not seen.
        kinds = np.where(number <= float(self.bins[-1]), kinds, 0)
        places, declared = np.zeros(n_records, dtype=np.int64), self._strata()
        given = {} if strata is None else {str(name): strata[name] for name in strata}
        if not declared.keys() <= given.keys() or (given and not declared):
            raise InvalidParameterError(
                f"strata has the columns {list(given)}, but LifeTable declares {list(declared)}: declare the values of "
                "each column by LifeTable(strata={'sex': ['f', 'm']}), and pass these columns.",
                parameter="strata",
            )
        for name, values in declared.items():
            in_order = _sorted("strata", f"strata[{name!r}]", values)
            ids = _ids(f"strata[{name!r}]", in_order, given[name], n_records)
            good &= ids != BAD
            # In the order of the declaration.
            order = np.argsort([in_order.tolist().index(value) for value in values])
            places = places * len(values) + order[ids]
        targets = np.where(good, (1 + len(self.kinds_of_events)) * places + kinds, BAD)
        rows = rows_of_times(np.where(good, number, 0.0), good & (kinds > 0))
        return TimesAndEnds(rows, targets, ranks_of_times(number, kinds, good))


def _ids(name: str, declared: NDArray[np.generic], entries: Rows, n_records: int) -> Integers:
    """Return the place of each entry among the sorted declared values, `BAD` for others."""
    require_labels(entries, name=name, keep_bad=True)
    entries = label_array(entries)
    # One odd entry is a bad record, and stops no run.
    require_one_per_record(name, entries, n_records)
    return class_ids_or_bad(declared, entries)


def _sorted(parameter: str, name: str, declared: Sequence[Rows]) -> NDArray[np.generic]:
    """Return declared codes or values, sorted."""
    try:
        return sorted_classes(declared)
    except InvalidParameterError:
        raise InvalidParameterError(
            f"{name}={list(declared)!r} must be two or more texts, or two or more whole numbers, each once.",
            parameter=parameter,
        ) from None
