"""What a party reads: public rows or declared columns, the same at every party, and the records of one site."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dpensemble._files import JSON
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble.errors import DataError
from dpensemble.methods.label_moments import LabelMomentsClassifier, row_check
from dpensemble.moments.maps.grid import declared_grid
from dpensemble.moments.public_rows import PublicUnits
from dpensemble.rows import arguments
from dpensemble.rows.arguments import Owners, PreparedRows, public_unit_numbers, sorted_classes
from dpensemble.rows.checked import UnitsByPlace
from dpensemble.rows.passes import CheckedRecords
from dpensemble.sites.messages import SitesError, Transport, public_file
from dpensemble.sites.terms import RunTerms, digest_of
from dpensemble.workflow.disk import replace_own_file
from dpensemble.workflow.table_files import ReadOptions, TableFiles
from dpensemble.workflow.tables import Tables, file_tables

#: File of public rows, among the messages and in the folder of a party.
PUBLIC_FILE = "public.csv"
# Files in the folder of a party: declared columns, and made-up records of a coordinator.
_COLUMNS_FILE, _EXAMPLE_FILE = "columns.json", "example.csv"


@dataclass(frozen=True, eq=False, repr=False)
class SiteRecords:
    """The checked records of a site, and what counts its units. Private."""

    records: CheckedRecords
    n_units: int


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Public rows as all parties read them, which are none if columns are declared.

    `method` is the estimator that checked them. `example` is a public or a made-up row in place of records, which shows
    the shape of a sum.
    """

    method: LabelMomentsClassifier
    rows: PreparedRows
    table: pd.DataFrame
    units: PublicUnits
    example: CheckedRecords


class PartyTables:
    """The tables of one party, read as the terms state.

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

    def __init__(self, terms: RunTerms, transport: Transport, own: Path) -> None:
        self._terms, self._transport, self._own = terms, transport, own
        self.site: SiteRecords | None = None
        self._tables: Tables | None = None
        self._public: PublicRows | None = None

    def read_private(self, private: Path) -> None:
        """Read and check the private table."""
        with guard_private_rows():
            tables = self._read(private)
            method = self._estimator(tables)
            rows = PreparedRows(method, self._public_of(tables))
            # A column of blanks has numbers as its type. Such records count as bad, as single blanks do.
            labels = tables.y_private.astype(object)
            X, y, public = arguments.checked_tables(method, rows.private(tables.X_private), labels, rows.X_public)
            owners = Owners.of(tables.units, len(X), zeroes=True)
            check = row_check(method, public, units=UnitsByPlace.of_owners(owners))
            self.site = SiteRecords(CheckedRecords.in_memory(X, y, check), owners.n_units)
            self._tables = tables

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
        label = np.array([sorted_classes(method.classes)[0]])
        public = arguments.public_table(method, rows.X_public)
        example = public.iloc[:1] if self._terms.declared_columns is None else self._made_up_rows(1)
        arguments.checked_tables(method, example, label, rows.X_public)
        numbers = public_unit_numbers(tables.public_units, len(public))
        units = PublicUnits(numbers, private=self._terms.unit is not None)
        records = CheckedRecords.in_memory(example, label, row_check(method, public))
        self._public = PublicRows(method, rows, public, units, records)
        return self._public

    def _public_of(self, tables: Tables) -> pd.DataFrame | None:
        return tables.X_public if self._terms.declared_columns is None else None

    def _read(self, private: Path) -> Tables:
        """Read public rows, whose digest the sites sign, and private ones as public rows or declarations show them."""
        try:
            return file_tables(self.files(private), ReadOptions(blanks=True, on_bad_record="zero"))
        except DataError as error:
            # A site has no such options: the sites agreed on them.
            raise DataError(re.sub(r"--(drop|unit)", r"sites new --\1", str(error))) from None

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
            classes=list(terms.classes),
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
        table[terms.target] = str(terms.classes[0])
        if terms.unit is not None:
            table[terms.unit] = "1"
        replace_own_file(path, table.to_csv(index=False))
        return path

    def _made_up_rows(self, n: int) -> pd.DataFrame:
        """Return rows with the first cell of each declared column."""
        grid = declared_grid(self._terms.declared_columns)
        return grid.rows(np.zeros((n, len(grid.columns)), dtype=np.int64))

    def _estimator(self, tables: Tables) -> LabelMomentsClassifier:
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
