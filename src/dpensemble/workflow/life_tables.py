"""One life table from files: what options declare, the rows, the release, and its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from dpensemble._checks import declared_labels
from dpensemble._entries import Floats, Rows
from dpensemble._files import JSON
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble.certificates import certificate_of_fit
from dpensemble.datasets.arrow import is_parquet
from dpensemble.datasets.csv import is_csv
from dpensemble.datasets.formats import Kind
from dpensemble.datasets.identifiers import names_person
from dpensemble.datasets.public_facts import Note
from dpensemble.engine.run import Steps, once_prepared
from dpensemble.errors import InvalidParameterError
from dpensemble.methods.life_table import LifeTable, TimesAndEnds
from dpensemble.moments.life_table import bins_of_times
from dpensemble.relations import Relation
from dpensemble.report.life_table import life_table_lines
from dpensemble.report.record import declared_noun
from dpensemble.rows.arguments import BAD, Owners
from dpensemble.workflow.outputs import Outcome, RunFile
from dpensemble.workflow.run_record import Measured, run_record
from dpensemble.workflow.stand_ins import nothing_spent
from dpensemble.workflow.table_files import TableFiles, Workers
from dpensemble.workflow.tables import Tables, declared_tables
from dpensemble.workflow.targets import EVENT, TIME, ClassTarget, DeclaredTimes, parsed_codes

# Stand-in records of a rehearsal: many, and too few for any curve.
_STAND_INS = (400, 2)


@dataclass(frozen=True, kw_only=True)
class DeclaredLifeTable(DeclaredTimes):
    """What options declare about a life table, beside times and codes. All of it is public.

    Parameters
    ----------
    strata : mapping of str to sequence of str
        Declared values of each column of strata.
    budget : dict
        ``epsilon``, ``delta``, ``relation`` and ``insecure_release_seed`` of `LifeTable`.
    """

    strata: Mapping[str, Sequence[str]] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, values in self.strata.items():
            if len(set(values)) < max(2, len(values)):
                text = f"{name}={','.join(values)}"
                raise InvalidParameterError(
                    f"strata={text!r:.80} must declare two or more different values: leave it out, or give all of "
                    "them.",
                    parameter="strata",
                )

    @staticmethod
    def strata_of(texts: Sequence[str]) -> dict[str, list[str]]:
        """Return the declared values of each column of options such as ``--strata sex=f,m``."""
        strata: dict[str, list[str]] = {}
        for text in texts:
            name, values = parsed_codes("strata", text, "sex=f,m")
            if name in strata:
                raise InvalidParameterError(f"strata names {name!r} twice: give each column once.", parameter="strata")
            strata[name] = values
        return strata

    def model(self) -> LifeTable:
        """Return the unfitted life table. Raise if its declarations cannot be used."""
        strata = {name: declared_labels(values) for name, values in self.strata.items()} or None
        model = LifeTable(**self.settings, strata=strata, **self.budget)
        model.check()
        self.require_shown()
        return model


def life_table_rows_of(files: TableFiles, declared: DeclaredLifeTable, workers: Workers | None = None) -> Tables:
    """Read the private records of a life table, or find where `workers` read them. A bad record adds nothing later."""
    kinds = {name: files.entries.kind(name) for name in files.entries.columns}
    for name, kind in kinds.items():
        if name != declared.time or kind is not Kind.NUMBER:
            raise InvalidParameterError(
                f"column={name!r} is declared {kind}, but only the time can be declared, and only as a number: give "
                f"--column {declared.time}=number:1.234,5 with an example, or write times as plain numbers.",
                parameter="column",
            )
    known = {"", declared.time, declared.event, *declared.strata}
    if unknown := [name for name in files.entries.settings()["blank"] or () if name not in known]:
        raise InvalidParameterError(
            f"blank names the column {unknown[0]!r}, which no option names: name the time, the event or a stratum.",
            parameter="blank",
        )
    values = {name: declared_labels(own) for name, own in declared.strata.items()}
    tables = declared_tables(files, declared.time, values, workers)
    return tables if files.unit is not None else replace(tables, notes=_notes_without_unit(files, declared, workers))


def _notes_without_unit(files: TableFiles, declared: DeclaredLifeTable, workers: Workers | None) -> tuple[Note, ...]:
    """Return a note if the header, and nothing else, has a column that names people. The column is not named."""
    if is_csv(files.private):
        layout = files.layout(files.private, files.named_columns())
        header = [] if layout is None else list(layout.names)
    elif workers is not None or files.private.is_dir() or is_parquet(files.private):
        header = files.private_columns(workers)
    else:
        header = []
    own = {declared.time, declared.event, *declared.strata}
    if not any(name not in own and _names_person(name) for name in header):
        return ()
    text = (
        "a column of the private table names people, by its header, but no unit is given. Several rows of a person "
        "would count as several people: give --unit if a person can have several rows."
    )
    return (Note("", text, is_doubtful=False),)


def _names_person(name: str) -> bool:
    return names_person(str(name), has_many=True) or str(name).strip().casefold() in _SHORT_IDS


# Usual short headers of ids of people in studies.
_SHORT_IDS = frozenset({"pid", "subjid", "usubjid"})


# Quantiles of targets that the owner is shown.
_QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True, kw_only=True)
class CountsOfTimes:
    """Exact counts of private times until an event. They are for the owner only and must never be published.

    `without_time` counts times that are missing, infinite or no numbers, and `negative_times` those below 0.
    `without_stratum` has the records without a declared value of each column of strata. `quantiles` are the 5 %, 50 %
    and 95 % quantiles of times from 0. `after_last_bin` counts the times after the last bin. `bins` has for each
    stratum and bin how many records end with each kind of event, and how many are censored. Times after the last bin,
    where `until` is None, are censored there. With units the records of a person count as one.
    """

    without_code: int
    without_time: int
    negative_times: int
    without_stratum: dict[str, int]
    readable_times: int
    after_last_bin: int
    quantiles: list[float] | None
    kinds: list[str]
    bins: list[dict[str, JSON]]

    @staticmethod
    def quantiles_of(numbers: Floats) -> list[float] | None:
        """Return the 5 %, 50 % and 95 % quantiles of the finite numbers, or None without any."""
        finite = numbers[np.isfinite(numbers)]
        return np.quantile(finite, _QUANTILES).tolist() if len(finite) else None

    @staticmethod
    def counting(model: LifeTable) -> _TimesToCount:
        """Return what collects blocks of times, as an unfitted life table reads them."""
        return _TimesToCount(model)

    @staticmethod
    @guard_private_rows()
    def of_tables(tables: Tables, declared: DeclaredLifeTable) -> tuple[dict[str, int], CountsOfTimes]:
        """Return how many records of `life_table_rows_of` are bad, and counts of their times."""
        found, stream = _TimesToCount(declared.model()), tables.stream
        if stream is None:
            owners = Owners.of(tables.units, tables.n_records, zeroes=True)
            found.add(pd.DataFrame({EVENT: tables.y_private, TIME: tables.X_private[declared.time]}), tables.X_private)
        else:
            owners = Owners.in_blocks(stream.blocks(), None, tables.n_records, zeroes=True)
            for rows, targets in stream.read():
                found.add(targets, rows)
        return found.bad(owners), found.counts(owners)

    @property
    def ends_without_event(self) -> list[float]:
        """Ends of bins in which no record of any stratum has the event of interest."""
        seen = {one["until"] for one in self.bins if one["events"][0] > 0}
        return [end for end in dict.fromkeys(one["until"] for one in self.bins) if end is not None and end not in seen]


class _TimesToCount:
    """Collects times and codes block by block, as a life table reads them, and counts them."""

    def __init__(self, model: LifeTable) -> None:
        self._model, self._codes = model, ClassTarget([*model.events, *model.censored, *model.competing])
        self._strata = {name: ClassTarget(values) for name, values in (self._model.strata or {}).items()}
        self._wrong_strata = dict.fromkeys(self._strata, 0)
        self._without_code = 0
        self._times: list[Floats] = []
        self._read: list[TimesAndEnds] = []

    def add(self, targets: pd.DataFrame, rows: pd.DataFrame | None = None) -> None:
        """Count one block of codes and times. `rows` have the columns of strata."""
        self._without_code += int(self._codes.wrong(targets[EVENT].to_numpy()).sum())
        strata = {} if rows is None else {name: rows[name].to_numpy() for name in self._strata}
        for name, entries in strata.items():
            self._wrong_strata[name] += int(self._strata[name].wrong(entries).sum())
        times = targets[TIME].to_numpy(dtype=np.float64)
        self._times.append(times)
        self._read.append(self._model.checked_rows(times, targets[EVENT].to_numpy(), strata or None))

    def bad(self, owners: Owners) -> dict[str, int]:
        """Return how many records cannot be read, lack an owner, and add nothing for one of these reasons."""
        wrong, lost = self._all.targets == BAD, ~owners.present
        counted = {"without_class": wrong, "without_unit": lost, "bad": wrong | lost}
        return {name: int(which.sum()) for name, which in counted.items()}

    @property
    def _all(self) -> TimesAndEnds:
        tables, targets, ranks = zip(*self._read, strict=True)
        return TimesAndEnds(pd.concat(tables, ignore_index=True), np.concatenate(targets), np.concatenate(ranks))

    def counts(self, owners: Owners) -> CountsOfTimes:
        """Return the counts of all blocks. Of each owner only the first event counts in bins."""
        times = np.concatenate(self._times)
        known = times[np.isfinite(times) & (times >= 0)]
        negative = int((np.isfinite(times) & (times < 0)).sum())
        return CountsOfTimes(
            without_code=self._without_code,
            without_time=len(times) - len(known) - negative,
            negative_times=negative,
            without_stratum=self._wrong_strata,
            readable_times=len(known),
            after_last_bin=int((known > float(self._model.bins[-1])).sum()),
            quantiles=CountsOfTimes.quantiles_of(known),
            kinds=list(self._model.kinds_of_events),
            bins=self._bins(owners),
        )

    def _bins(self, owners: Owners) -> list[dict[str, JSON]]:
        """Return the events and censorings of each stratum and bin."""
        everything, ends = self._all, np.asarray(self._model.bins, dtype=np.float64)
        units = everything.units(owners)
        weights = np.ones(len(everything.targets)) if units is None else units.weights
        good = everything.targets != BAD
        table, targets = everything.table[good], everything.targets[good]
        n_kinds, names = 1 + len(self._model.kinds_of_events), self._model.stratum_names
        places = bins_of_times(ends, table["time"].to_numpy(), table["event"].to_numpy() > 0)
        cells = targets * (len(ends) + 1) + places
        found = np.bincount(cells, weights[good], minlength=n_kinds * len(names) * (len(ends) + 1))
        # Records of a person that share one event share its weight, so parts of a person are possible.
        table_of_all = found.reshape(len(names), n_kinds, len(ends) + 1).round(2)
        untils = [*ends.tolist(), None]
        return [
            {"stratum": name, "until": until, "events": kinds[1:, place].tolist(), "censored": float(kinds[0, place])}
            for name, kinds in zip(names, table_of_all, strict=True)
            for place, until in enumerate(untils)
        ]


def release_life_table(
    tables: Tables,
    model: LifeTable,
    declared: DeclaredLifeTable,
    *,
    fewest_units: int | None = None,
    ledger: Any = None,
    title: str | None = None,
    unit_name: str | None = None,
    rehearsed: bool = True,
) -> Outcome:
    """Release a life table of rows that were read, and return its record and its certificate.

    Parameters
    ----------
    tables : Tables
        From `life_table_rows_of`.
    model : LifeTable
        From `DeclaredLifeTable.model`.
    declared : DeclaredLifeTable
        Declarations.
    fewest_units, ledger
        As for `LifeTable.fit`.
    title, unit_name : str, optional
        Headline of the page, and noun for what the unit column names.
    rehearsed : bool, default=True
        Whether all later steps run on stand-in records first, so that none can fail after the charge.
    """
    names = {} if title is None else {"title": title}
    if unit_name is not None:
        names["unit_name"] = declared_noun(unit_name, tables.unit_column)

    def rehearse(_: Steps) -> None:
        for n_records in _STAND_INS if rehearsed else ():
            with nothing_spent():
                stand_in = _stand_in(model, n_records)
                certificate = certificate_of_fit(stand_in)
                outcome_of_life_table(stand_in, tables, declared, certificate, names).file_contents()

    start = perf_counter()
    with once_prepared(rehearse), guard_private_rows():
        _fit(model, tables, declared, ledger=ledger, fewest_units=fewest_units)
    outcome = outcome_of_life_table(model, tables, declared, certificate_of_fit(model), names)
    outcome.record.seconds.setdefault("life table", round(perf_counter() - start, 3))
    return outcome


def _fit(model: LifeTable, tables: Tables, declared: DeclaredLifeTable, **more: Rows) -> None:
    """Fit a life table to records in memory, in blocks or in parts."""
    stream = tables.stream
    if stream is None:
        strata = {name: tables.X_private[name].to_numpy() for name in declared.strata} or None
        times, codes = tables.X_private[declared.time].to_numpy(), tables.y_private.to_numpy()
        model.fit(times, codes, strata=strata, units=tables.units, **more)
    elif stream.parts is not None:
        # A column of the table identifies the units.
        model.fit_blocks(stream.parts, **more)
    else:
        read = stream.blocks()
        model.fit_blocks(read, units=read.units, **more)


def _stand_in(model: LifeTable, n_records: int) -> LifeTable:
    """Return a life table of made-up records with the same declarations, which charges nothing."""
    rng = np.random.default_rng(0)
    stand_in = clone(model).set_params(insecure_release_seed=0, delta=1e-5, relation=Relation.REPLACE_ONE.value)
    codes = [*model.events, *model.censored, *model.competing]
    strata = {
        name: [values[place] for place in rng.integers(len(values), size=n_records)]
        for name, values in (model.strata or {}).items()
    }
    times = rng.uniform(0, 1.2 * float(model.bins[-1]), n_records)
    events = [codes[place] for place in rng.integers(len(codes), size=n_records)]
    return stand_in.fit(times, events, strata=strata or None)


def in_words(outcome: Outcome) -> list[str]:
    """Return the curves and the test of a released life table as lines of text."""
    return list(life_table_lines(outcome.record))


class _Reader:
    """How columns were read, for the record."""

    blanks = "such a record adds nothing"

    def __init__(self, declared: DeclaredLifeTable) -> None:
        self._declared = declared

    def kinds(self, public: object) -> str:  # noqa: ARG002
        """Describe how each column was read."""
        declared = self._declared
        codes = f"event {', '.join(declared.events)}; censored {', '.join(declared.censored)}"
        codes += f"; competing {', '.join(declared.competing)}" if declared.competing else ""
        parts = [f"{declared.time} (number)", f"{declared.event} (codes: {codes})"]
        parts += [f"{name} (declared: {', '.join(values)})" for name, values in declared.strata.items()]
        return ", ".join(parts)


def outcome_of_life_table(
    model: LifeTable,
    tables: Tables,
    declared: DeclaredLifeTable,
    certificate: dict[str, JSON] | None,
    names: Mapping[str, str],
) -> Outcome:
    """Return the record of a released life table, with further `names` of its data."""
    estimate, result = model.life_table_, model.result_
    # A run has classes to predict, and a life table has none.
    empty = replace(result, classes=np.array([]))
    facts: dict[str, Any] = {"certificate": RunFile.CERTIFICATE.value, **names}
    facts["life_table"] = estimate.to_dict() | declared.facts() | {"sum": estimate.noisy.tolist()}
    if tables.notes:
        facts["notes"] = [note.text for note in tables.notes]
    if result.guarantee.relation is Relation.REPLACE_ONE and tables.n_units:
        total, error = estimate.total
        facts |= {"readable_share": round(total / tables.n_units, 4)}
        facts |= {"readable_share_error": round(error / tables.n_units, 6)}
    record = run_record(
        empty, replace(tables, classes=[]), _Reader(declared), Measured(seconds=result.seconds, facts=facts)
    )
    for name in ("columns", "features", "classes", "target"):
        del record.data[name]
    return Outcome(record=record, private=None, classifier=None, labels=None, certificate=certificate)
