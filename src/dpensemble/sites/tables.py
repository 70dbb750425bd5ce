"""What a party reads: public rows or declared columns, the same at every party, and the records of one site."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._entries import Rows
from dpensemble._files import JSON
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble.engine.run import Steps
from dpensemble.errors import DataError
from dpensemble.guarantee import Budget
from dpensemble.methods.label_moments import LabelMomentsClassifier, row_check
from dpensemble.methods.label_moments_regressor import LabelMomentsRegressor, NumberSteps
from dpensemble.methods.label_moments_survival import CellsReader, LabelMomentsSurvival, SurvivalSteps
from dpensemble.methods.life_table import LifeTableSteps, TimesAndEnds
from dpensemble.moments import MomentsSource
from dpensemble.moments.maps.grid import declared_grid
from dpensemble.moments.public_rows import PublicUnits
from dpensemble.persistence import save_classifier
from dpensemble.quality.release import Layout
from dpensemble.releases.parts import SiteNoise
from dpensemble.rows import arguments
from dpensemble.rows.arguments import Owners, PreparedRows, public_unit_numbers, sorted_classes
from dpensemble.rows.checked import CheckedBlock, RowCheck, UnitsByPlace
from dpensemble.rows.passes import CheckedRecords
from dpensemble.sites.messages import SitesError, Transport, public_file
from dpensemble.sites.sums import HeldPart, Shared, SharedSteps
from dpensemble.sites.terms import RunTerms, digest_of
from dpensemble.workflow.disk import replace_own_file
from dpensemble.workflow.life_tables import DeclaredLifeTable, in_words, life_table_rows_of, outcome_of_life_table
from dpensemble.workflow.numbers import risk_facts
from dpensemble.workflow.outputs import RunFile
from dpensemble.workflow.table_files import ReadOptions, TableFiles
from dpensemble.workflow.tables import Tables, file_tables
from dpensemble.workflow.targets import TimesTarget

#: File of public rows, among the messages and in the folder of a party, and file of the model in the latter.
PUBLIC_FILE, STUDENT = "public.csv", "student.skops"
# Files in the folder of a party: declared columns, and made-up records of a coordinator.
_COLUMNS_FILE, _EXAMPLE_FILE = "columns.json", "example.csv"


@dataclass(frozen=True, eq=False, repr=False)
class SiteRecords:
    """The checked records of a site, the number of units that teach, and those that are held back. Private.

    `times` are those of records whose classes are cells of a model of risks.
    """

    records: CheckedRecords
    n_units: int
    held: HeldPart | None = None
    times: TimesAndEnds | None = None

    @property
    def counts(self) -> list[int]:
        """Number of units that teach, and of those that are held back, if any are."""
        return [self.n_units] if self.held is None else [self.n_units, self.held.n_units]

    @property
    def blocks(self) -> list[CheckedBlock]:
        """All records, those that are held back last."""
        return [*(self.records.blocks or ()), *([] if self.held is None else [self.held.block])]

    @property
    def read(self) -> list[tuple[Rows, Rows]]:
        """Tables and targets that identify all that was read."""
        times = [] if self.times is None else [(self.times.table, self.times.targets)]
        return [*((block.rows, block.targets) for block in self.blocks), *times]


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Public rows as all parties read them, which are none if columns are declared, or for a life table.

    `method` is the estimator that checked them. `example` is a public or a made-up row in place of records, which shows
    the shape of a sum.
    """

    method: Rows
    rows: PreparedRows | None
    table: pd.DataFrame
    units: PublicUnits
    example: CheckedRecords


class PartyTables:
    """The tables of one party, read as the terms state, and the steps that release sums of them. For labels.

    Parameters
    ----------
    terms : RunTerms
        What the sites agree on.
    transport : Transport
        Carries the file of public rows.
    own : Path
        Folder of the party.

    Attributes
    ----------
    site : SiteRecords or None
        Records of the site, after `read_private`. A coordinator has none. Private.
    """

    _steps: ClassVar[type[SharedSteps]] = SharedSteps

    @staticmethod
    def of(terms: RunTerms, transport: Transport, own: Path) -> PartyTables:
        """Return the tables of a party for what the terms release."""
        kind = PartyTables if terms.number is None else _NumberTables
        if terms.times is not None:
            kind = _LifeTables if terms.public_digest is None else _RiskTables
        return kind(terms, transport, own)

    def __init__(self, terms: RunTerms, transport: Transport, own: Path) -> None:
        self._terms, self._transport, self._own = terms, transport, own
        self.site: SiteRecords | None = None
        self._tables: Tables | None = None
        self._times: TimesAndEnds | None = None
        self._public: PublicRows | None = None

    def read_private(self, private: Path, secret: bytes) -> None:
        """Read and check the private table. The site's `secret` decides which units are held back, if any are."""
        with guard_private_rows():
            tables = self._read(private)
            method = self._estimator(tables)
            rows = PreparedRows(method, self._public_of(tables))
            targets = self._targets(tables)
            X, y, public = arguments.checked_tables(method, rows.private(tables.X_private), targets, rows.X_public)
            owners = Owners.of(tables.units, len(X), zeroes=True)
            held = self._held(owners, secret)

            def part(which: NDArray[np.bool_]) -> tuple[Rows, Rows, RowCheck, Owners]:
                """Return the records of some units, all of each, and what checks them."""
                units = None if tables.units is None else tables.units[which]
                own = Owners.of(units, int(which.sum()), zeroes=True)
                check = self._check(method, public, self._units(own))
                rows = X[which].reset_index(drop=True), targets[which].reset_index(drop=True)
                return *(rows if held.any() else (X, y)), check, own

            *teaching, own = part(~held)
            back = None if self._terms.holdout_score is None else _held_part(*part(held) if held.any() else ())
            self.site = SiteRecords(CheckedRecords.in_memory(*teaching), own.n_units, back, self._times)
            self._tables = tables

    @property
    def terms(self) -> RunTerms:
        """What the sites agree on."""
        return self._terms

    def counts_of_records(self) -> dict[str, int]:
        """Return how many records `read_private` read, and how many are bad. For the site only."""
        blocks = [] if self.site is None else self.site.blocks
        bad = sum(int(np.sum(block.targets < 0)) for block in blocks)
        return {"records": sum(len(block.targets) for block in blocks), "bad": bad}

    def _units(self, owners: Owners) -> UnitsByPlace | None:
        """Return what each record of a unit weighs: all of them together weigh 1."""
        return UnitsByPlace.of_owners(owners)

    def _held(self, owners: Owners, secret: bytes) -> NDArray[np.bool_]:
        """Return which records are held back: those of each unit together, by its place and the site's secret.

        A process that starts again finds the same units. Entries of records decide nothing.
        """
        held = np.zeros(len(owners.present), dtype=bool)
        if self._terms.holdout_score is not None:
            seed = hashlib.sha256(b"dpensemble sites held back" + secret).digest()
            draws = np.random.default_rng(int.from_bytes(seed)).random(owners.n_units)
            # One unit teaches in any case, since a site without records cannot take part.
            draws[0] = 1.0
            held[owners.present] = draws[owners.numbers] < self._terms.holdout_score
        return held

    def public(self) -> PublicRows:
        """Return public rows, or declared columns in their place, with the estimator's checks."""
        if self._public is not None:
            return self._public
        # Public rows are read the same way at every party. A coordinator reads made-up records, too, to find columns
        # and kinds.
        tables = self._read(self._made_up_records()) if self._tables is None else self._tables
        method = self._estimator(tables)
        rows = PreparedRows(method, self._public_of(tables))
        rows.warn(None)
        label = self._example_target(method)
        public = arguments.public_table(method, rows.X_public)
        example = public.iloc[:1] if self._terms.declared_columns is None else self._made_up_rows(1)
        arguments.checked_tables(method, example, label, rows.X_public)
        numbers = public_unit_numbers(tables.public_units, len(public))
        units = PublicUnits(numbers, private=self._terms.unit is not None)
        records = CheckedRecords.in_memory(example, label, self._check(method, public, None))
        self._public = PublicRows(method, rows, public, units, records)
        return self._public

    def steps(self, public: PublicRows, n_units: int | None, shared: Shared) -> Steps:
        """Return the steps of this party. `n_units` are those of all sites, or None if their number is private.

        A coordinator has no records, and takes the example in their place. It sends no sum of the example.
        """
        method = public.method
        total = float(max(len(public.table), 1) if n_units is None else n_units)
        found, records = self._budget(method, n_units), self._records(public)
        steps = self._steps(method, records, public.table, self._classes(method), None, total, public.units, found)
        steps.shared = shared
        return steps

    def layout(self, public: PublicRows, n_held: int, noise: SiteNoise) -> Layout:
        """Return the cells for held-back units of all sites, or raise if noise would hide them. Nothing was charged."""
        terms, size = self._terms, 2**60
        return Layout.planned(
            tuple(map(str, self._classes(public.method))),
            n_held,
            terms.epsilon,
            terms.delta,
            larger=float((noise.opened(size) / size) ** 0.5),
        )

    def _budget(self, method: Rows, n_units: int | None) -> tuple[Budget, str]:
        has_units = self._terms.unit is not None
        return Steps.budget_of(method, 1 if n_units is None else n_units, None, has_units=has_units)

    def _records(self, public: PublicRows) -> CheckedRecords:
        return public.example if self.site is None else self.site.records

    def write(self, public: PublicRows, n_units: int | None) -> str:  # noqa: ARG002
        """Write the result of a fitted method into the folder of the party. Return where it is, in a sentence."""
        save_classifier(public.method.student_, self._own / STUDENT)
        return f"The model is in {self._own / STUDENT}."

    def facts(self, method: Rows) -> dict[str, JSON]:  # noqa: ARG002
        """Return more public facts about a fitted method as plain values: none by default."""
        return {}

    def _classes(self, method: Rows) -> Rows:
        return sorted_classes(method.classes)

    def _targets(self, tables: Tables) -> Rows:
        """Return private targets as they are checked."""
        # A column of blanks has numbers as its type. Such records count as bad, as single blanks do.
        return tables.y_private.astype(object)

    def _check(self, method: Rows, public: Rows, units: UnitsByPlace | None) -> RowCheck:
        return row_check(method, public, units=units)

    def _example_target(self, method: Rows) -> Rows:
        return self._classes(method)[:1]

    def _written_targets(self) -> dict[str, str]:
        """Return the target of made-up records by column, as a file has it."""
        return {self._terms.target: str(self._terms.classes[0])}

    def _public_of(self, tables: Tables) -> pd.DataFrame | None:
        return tables.X_public if self._terms.declared_columns is None else None

    def _read(self, private: Path) -> Tables:
        """Read public rows, whose digest the sites sign, and private ones as public rows or declarations show them."""
        try:
            return file_tables(self.files(private), ReadOptions(blanks=True, on_bad_record="zero"))
        except DataError as error:
            # A site has no such options: the sites agreed on them.
            words = re.sub(r"--(drop|unit)", r"sites new --\1", str(error))
            if private != self._own / _EXAMPLE_FILE:
                words = words.replace("sites new", "ask the coordinator for new terms: sites new", 1)
            raise DataError(words) from None

    def files(self, private: Path) -> TableFiles:
        """Return how a table of private records is read by the terms."""
        terms = self._terms
        if terms.declared_columns is None:
            rows: dict[str, JSON] = {"public": self._public_copy()}
        else:
            path = self._own / _COLUMNS_FILE
            replace_own_file(path, json.dumps(terms.declared_columns))
            rows = {"public": None, "declared_columns": path}
        return TableFiles(
            private=private,
            target=terms.target,
            classes=list(terms.classes) or None,
            number=terms.number,
            unit=terms.unit,
            drop=terms.drop,
            **rows,
        )

    def _public_copy(self) -> Path:
        """Return a copy of the file of public rows in the folder of the party, if it is the file of the terms."""
        path = self._own / PUBLIC_FILE
        content = public_file(self._transport, PUBLIC_FILE)
        if digest_of(content) != self._terms.public_digest:
            raise SitesError(f"{PUBLIC_FILE} is not the file of the terms: get the file from the coordinator again.")
        replace_own_file(path, content)
        return path

    def _made_up_records(self) -> Path:
        """Return a table of made-up records for a coordinator: public or made-up rows with the first class."""
        terms, path = self._terms, self._own / _EXAMPLE_FILE
        if terms.declared_columns is None:
            files = self.files(path)
            table = files.read(self._own / PUBLIC_FILE).iloc[:2]
        else:
            table = self._made_up_rows(2)
            for name in terms.drop:
                table[name] = "1"
        for name, entry in self._written_targets().items():
            table[name] = entry
        if terms.unit is not None:
            table[terms.unit] = "1"
        replace_own_file(path, table.to_csv(index=False))
        return path

    def _made_up_rows(self, n: int) -> pd.DataFrame:
        """Return rows with the first cell of each declared column."""
        grid = declared_grid(self._terms.declared_columns)
        return grid.rows(np.zeros((n, len(grid.columns)), dtype=np.int64))

    def _estimator(self, tables: Tables) -> Rows:
        terms = self._terms
        return LabelMomentsClassifier(
            classes=tables.classes,
            declared_columns=terms.declared_columns,
            epsilon=terms.epsilon,
            delta=terms.delta,
            relation=terms.relation,
            rounds=terms.rounds,
            statistics=list(terms.statistics) or None,
            on_bad_record="zero",
            random_state=0,
        )


def _held_part(*of_units: Rows) -> HeldPart:
    """Return records of some units as held-back ones, in one block, or none."""
    if not of_units:
        nothing = np.empty(0, dtype=np.int64)
        return HeldPart(CheckedBlock(pd.DataFrame(), nothing, np.empty(0)), nothing, 0, False)
    X, y, check, owners = of_units
    return HeldPart(check.checked_block(X, y), owners.numbers, owners.n_units, owners.units is not None)


class _NumberSteps(SharedSteps, NumberSteps):
    """The steps of a number, with the sums of all sites."""


class _NumberTables(PartyTables):
    """The tables of one party whose target is a number in a declared range."""

    _steps = _NumberSteps

    def _estimator(self, tables: Tables) -> Rows:
        del tables
        terms = self._terms
        low, high = terms.range or (None, None)
        return LabelMomentsRegressor(
            low,
            high,
            epsilon=terms.epsilon,
            delta=terms.delta,
            relation=terms.relation,
            on_bad_record="zero",
        )

    def _classes(self, method: Rows) -> Rows:
        del method
        return np.empty(0)

    def _targets(self, tables: Tables) -> Rows:
        return tables.y_private

    def _check(self, method: Rows, public: Rows, units: UnitsByPlace | None) -> RowCheck:
        return row_check(method, public, self._terms.number, units)

    def _example_target(self, method: Rows) -> Rows:
        return np.array([method.low])

    def _written_targets(self) -> dict[str, str]:
        low, _ = self._terms.range or (0.0, 0.0)
        return {self._terms.target: f"{low:.17g}"}


class _RiskSteps(SharedSteps, SurvivalSteps):
    """The steps of a model of risks, with the sums of all sites."""


class _RiskTables(PartyTables):
    """The tables of one party whose target is the time until an event, for the risk given a row."""

    _steps = _RiskSteps

    def files(self, private: Path) -> TableFiles:
        """Return how a table of private records is read by the terms."""
        declared = _declared_times(self._terms)
        return replace(super().files(private), times=declared, classes=declared.codes)

    def public(self) -> PublicRows:
        """Return public rows. Raise if they are all the same, so that terms are not written."""
        public = super().public()
        SurvivalSteps.require_unlike(public.table.apply(lambda column: pd.factorize(column)[0]).to_numpy())
        return public

    def write(self, public: PublicRows, n_units: int | None) -> str:
        """Write the model into the folder of the party. Return where it is, and risks of public rows, in sentences."""
        where, risk = super().write(public, n_units), self.facts(public.method)["risk"]
        by_time = dict(zip(risk["bins"], risk["public"]["mean"], strict=True))
        unit = f" {risk['time_unit']}" if risk["time_unit"] else ""
        risks = ", ".join(f"{by_time[time]:.3f} by {time:g}{unit}" for time in risk["at"])
        return f"{where}\nThe mean risk of public rows is {risks}."

    def facts(self, method: Rows) -> dict[str, JSON]:
        """Return the released life table, and risks of public rows, in the form of a run's record."""
        table, nobody = self.public().table, pd.DataFrame()
        tables = Tables(
            name="",
            classes=[],
            X_private=nobody,
            y_private=pd.Series(dtype=object),
            X_public=table,
            times=TimesTarget(_declared_times(self._terms)),
        )
        return risk_facts(method, tables, lambda rows: rows)

    def _estimator(self, tables: Tables) -> Rows:
        del tables
        declared, terms = _declared_times(self._terms), self._terms
        return LabelMomentsSurvival(
            **declared.settings, epsilon=terms.epsilon, delta=terms.delta, relation=terms.relation
        )

    def _classes(self, method: Rows) -> Rows:
        del method
        return np.empty(0)

    def _targets(self, tables: Tables) -> Rows:
        """Return the cell of each record. Its time stays here, since the first event of a unit counts."""
        self._times = CellsReader.of(self._estimator(tables))(tables.X_private, tables.y_private)
        return pd.Series(self._times.targets)

    def _units(self, owners: Owners) -> UnitsByPlace | None:
        return None if self._times is None else self._times.units(owners)

    def _check(self, method: Rows, public: Rows, units: UnitsByPlace | None) -> RowCheck:
        return CellsReader.of(method).row_check(method, public, units)

    def _example_target(self, method: Rows) -> Rows:
        """Return an event in the first bin."""
        del method
        return np.array([0])

    def _written_targets(self) -> dict[str, str]:
        declared = _declared_times(self._terms)
        return {declared.event: declared.events[0], declared.time: "0"}


def _declared_times(terms: RunTerms) -> DeclaredLifeTable:
    """Return what terms declare about times."""
    if terms.declared_times is None:
        raise SitesError("the terms declare no times until an event.")
    return terms.declared_times


class _LifeTableSteps(LifeTableSteps):
    """The steps of a life table, with the sum of all sites."""

    shared: Shared

    def prepare(self) -> None:
        """Choose the design as for one site, and the meter of this site."""
        super().prepare()
        self.meter = self.shared.payer.meter

    def _source(self) -> MomentsSource:
        return self.shared.source_of(super()._source())


class _LifeTables(PartyTables):
    """The times and codes of one party, for a life table. Nothing is public but the terms."""

    def read_private(self, private: Path, secret: bytes) -> None:
        """Read the columns that the terms name. A bad record stays, and adds nothing."""
        del secret
        with guard_private_rows():
            declared, model = _declared_times(self._terms), _declared_times(self._terms).model()
            tables = life_table_rows_of(self.files(private), declared)
            strata = {name: tables.X_private[name].to_numpy() for name in declared.strata} or None
            rows = model.checked_rows(tables.X_private[declared.time].to_numpy(), tables.y_private.to_numpy(), strata)
            owners = Owners.of(tables.units, len(rows.targets), zeroes=True)
            self.site = SiteRecords(LifeTableSteps.records_of(model, rows, owners), owners.n_units)

    def files(self, private: Path) -> TableFiles:
        """Return how a table of private records is read by the terms."""
        declared, unit = _declared_times(self._terms), self._terms.unit
        return TableFiles(private=private, public=None, target=declared.event, classes=declared.codes, unit=unit)

    def public(self) -> PublicRows:
        """Return no rows, and a made-up record as an example: an event at time 0."""
        if self._public is None:
            model = _declared_times(self._terms).model()
            strata = {name: [values[0]] for name, values in (model.strata or {}).items()} or None
            made_up = model.checked_rows([0.0], [model.events[0]], strata)
            example = LifeTableSteps.records_of(model, made_up, Owners.of(None, 1, zeroes=True))
            units = PublicUnits(None, private=self._terms.unit is not None)
            self._public = PublicRows(model, None, pd.DataFrame(), units, example)
        return self._public

    def steps(self, public: PublicRows, n_units: int | None, shared: Shared) -> Steps:
        """Return the steps of this party. `n_units` are those of all sites, or None if their number is private."""
        found, records = self._budget(public.method, n_units), self._records(public)
        steps = _LifeTableSteps(public.method, records, found, has_units=self._terms.unit is not None)
        steps.shared = shared
        return steps

    def write(self, public: PublicRows, n_units: int | None) -> str:
        """Write the page, the curves and the cards of the released life table, all of which follow from the release."""
        terms, model = self._terms, public.method
        everybody = pd.DataFrame(index=range(n_units or 0))
        tables = Tables(
            name=f"records of {len(terms.sites)} sites",
            classes=[],
            X_private=everybody,
            y_private=pd.Series(dtype=object),
            X_public=public.table,
            unit_column=terms.unit,
            target=terms.target,
        )
        outcome = outcome_of_life_table(model, tables, _declared_times(self._terms), None, {})
        # How many records a unit has is known to its sites only.
        unknown = ["private_records"] if terms.unit is not None or n_units is None else []
        for name in (*unknown, *(() if n_units is not None else ("private_units",))):
            outcome.record.data[name] = None
        for file, (text, _) in outcome.file_contents().items():
            replace_own_file(self._own / file, text)
        return "\n".join([*in_words(outcome), f"The page is {self._own / RunFile.REPORT}, and curves are beside it."])

    def facts(self, method: Rows) -> dict[str, JSON]:
        """Return the curves and the test of the released life table."""
        return {"life_table": method.life_table_.to_dict()}
