"""Private rows by every route: one table of routes for all tests that compare them.

A route that is added is one entry of `ROUTES`. It gets the private table, in memory and in files, and returns what
`fit_blocks` reads, and the units if these are not a column of what is read.
"""

import warnings
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpensemble import LabelMomentsClassifier
from dpensemble.datasets import ParquetBlocks
from dpensemble.datasets.arrow import ArrowBlocks, ArrowPart
from dpensemble.datasets.partitions import ParquetParts
from dpensemble.engine.voting import PrivateDiagnostics
from dpensemble.releases import SumReleaser

N_ROWS, N_PUBLIC, N_PERSONS = 48, 30, 17
NAMES = ["p", "q", "r"]
RELATIONS = ["replace-one", "add-or-remove-one"]
# Parts of a table, by the places where they begin and end. The first is empty, a person is in several, one has one row.
PLACES = (0, 0, 1, 20, 20, N_ROWS)


@dataclass
class PrivateTable:
    """A private table in memory and in Parquet, public rows with its features, and how bad records are treated."""

    table: pd.DataFrame
    public: pd.DataFrame
    unit: str | None
    folder: Path
    zeroes: bool = False
    #: Arguments of every fit to this table.
    more: dict = field(default_factory=dict)
    #: The column of the labels, or two columns that are read together.
    target: str | tuple[str, str] = "y"

    @property
    def places(self):
        """Where parts begin and end, at most at the end of the table."""
        return [min(place, len(self.table)) for place in PLACES]

    @property
    def file(self):
        """The table as one file, in row groups of 15 rows."""
        return self.folder / "private.parquet"

    @property
    def parts(self):
        """The same table as a folder of files. Two of them are empty."""
        return self.folder / "parts"

    @property
    def features(self):
        """Names of the features."""
        return list(self.public.columns)

    def labels(self, part):
        """Return the labels of a part of the table, one column or a table of two."""
        return part[self.target] if isinstance(self.target, str) else part[list(self.target)]

    @property
    def units(self):
        """The unit of each record, or None if each record is a unit."""
        return self.table[self.unit] if self.unit else None

    def write(self):
        """Write the files, and return the table."""
        plain = pa.Table.from_pandas(self.table, preserve_index=False)
        parquet.write_table(plain, self.file, row_group_size=15)
        self.parts.mkdir()
        for place, (start, end) in enumerate(pairwise(self.places)):
            parquet.write_table(plain.slice(start, end - start), self.parts / f"{place}.parquet", row_group_size=11)
        return self


def private_table(folder, n_classes=2, *, bad=False, unit=None, texts=True, n_rows=N_ROWS, **more):
    """Return records of 17 persons, in any order, and 30 public rows. About every fourth record is bad if asked."""
    rng, n_private = np.random.default_rng(n_classes), n_rows
    n_rows += N_PUBLIC
    table = pd.DataFrame({"size": rng.normal(size=n_rows), "ward": rng.choice(["a", "b", "c"], n_rows)})
    if not texts:
        table["ward"] = table["ward"].map({"a": 0.0, "b": 1.0, "c": 2.5})
    features = list(table.columns)
    table["y"] = np.array(NAMES)[:n_classes][rng.integers(n_classes, size=n_rows)]
    table["who"] = [f"person {number}" for number in rng.integers(N_PERSONS, size=n_rows)]
    private, public = table[:n_private].copy(), table[n_private:]
    if bad:
        private.loc[::9, "size"] = np.inf
        private.loc[4::9, "y"] = "undeclared"
        private.loc[7::9, "who"] = None
    if not unit:
        private = private.drop(columns="who")
    public = public[features].reset_index(drop=True)
    return PrivateTable(private, public, unit, Path(folder), zeroes=bad, more=more).write()


class InParts:
    """A table in parts that are in memory, like a frame of Dask."""

    def __init__(self, table, unit, places, target="y"):
        self.unit, self.target = unit, target
        self._parts = [table[start:end] for start, end in pairwise(places)]

    def results(self, work):
        return (work(iter([part])) for part in self._parts)


def cut(table, rows):
    """Return a table in pieces of some rows."""
    return [table[start : start + rows] for start in range(0, len(table), rows)]


def in_memory(model, rows, **more):
    """Fit a model to all rows at once, which every route must equal."""
    return model.fit(
        rows.table[rows.features], rows.labels(rows.table), units=rows.units, X_public=rows.public, **rows.more | more
    )


def blocks(rows, *, size):
    pieces = cut(rows.table, size)
    return lambda: ((one[rows.features], rows.labels(one)) for one in pieces), rows.units


def uneven_blocks(rows):
    """Blocks with labels and units as arrays of objects, or labels with two fields. Some blocks are empty."""

    def labels(part):
        own = rows.labels(part)
        return own.to_records(index=False) if isinstance(own, pd.DataFrame) else own.to_numpy(dtype=object)

    pieces = [rows.table[start:end] for start, end in pairwise(rows.places)]
    units = None if rows.units is None else rows.units.to_numpy(dtype=object)
    return lambda: ((one[rows.features], labels(one)) for one in pieces), units


def parquet_blocks(rows, *, path="file", size=7):
    return ParquetBlocks(getattr(rows, path), rows.target, unit=rows.unit, rows=size, keep_bad=rows.zeroes), None


def arrow_blocks(rows, *, size=11):
    plain = parquet.read_table(rows.file)
    reader = partial(plain.to_reader, max_chunksize=size)
    return ArrowBlocks(reader, rows.target, unit=rows.unit, keep_bad=rows.zeroes), None


def parquet_parts(rows, *, path="file", n_jobs=1):
    return ParquetParts(getattr(rows, path), rows.target, unit=rows.unit, n_jobs=n_jobs), None


def arrow_part(rows):
    return ArrowPart(partial(parquet.read_table, rows.file), rows.target, unit=rows.unit), None


def parts_in_memory(rows, *, size=None):
    places = rows.places if size is None else range(0, len(rows.table) + size, size)
    return InParts(rows.table, rows.unit, places, rows.target), None


# Readers of blocks, which voting methods take, too.
IN_BLOCKS = {
    "blocks of 7": partial(blocks, size=7),
    "blocks of 2,048": partial(blocks, size=2048),
    "uneven blocks": uneven_blocks,
    "Parquet in blocks": parquet_blocks,
    "a folder in blocks": partial(parquet_blocks, path="parts"),
    "Arrow in blocks": arrow_blocks,
}
# Tables in parts, which are summed up where they are.
IN_PARTS = {
    "a table in uneven parts": parts_in_memory,
    "Parquet in parts": parquet_parts,
    "a folder in parts": partial(parquet_parts, path="parts"),
    "Arrow as one part": arrow_part,
}
ROUTES = IN_BLOCKS | IN_PARTS
# These take long for many rows.
ROW_BY_ROW = {"blocks of 1": partial(blocks, size=1), "parts of 1": partial(parts_in_memory, size=1)}
# Processes take long to begin.
BY_PROCESSES = {"two processes": partial(parquet_parts, path="parts", n_jobs=2)}


def by_route(route):
    """Return a function that fits a model to a private table by a route, and like `in_memory` takes more arguments."""

    def fit(model, rows, **more):
        read, units = route(rows)
        return model.fit_blocks(read, units=units, X_public=rows.public, **rows.more | more)

    return fit


def moments_model(rows, n_classes, *, relation="replace-one", **settings):
    """Return an estimator of label moments for a private table."""
    settings = {"epsilon": 3.0, "rounds": 2} | settings
    return LabelMomentsClassifier(
        classes=NAMES[:n_classes],
        delta=1e-4,
        relation=relation,
        on_bad_record="zero" if rows.zeroes else "raise",
        insecure_release_seed=5,
        random_state=0,
        **settings,
    )


def released_moments(fit, model, rows, **more):
    """Return all that a fit of label moments sums, charges, releases and learns."""
    sums, noisy, real = [], [], SumReleaser.charge_and_draw

    def watched(self, query, total, share, *, weight=1.0):
        outcome = real(self, query, total, share, weight=weight)
        sums.append((total.tolist(), query.sensitivity(self.relation), share, weight))
        noisy.append(self.released[-1])
        return outcome

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(SumReleaser, "charge_and_draw", watched)
        fit(model, rows, **more)
    assert len(sums) > 1
    return {
        "sums": sums,
        "released": noisy,
        "charges": (model.charges_, model.guarantee_, model.spend_),
        "run": (model.design_.settings(), model.result_.settings, model.drift_, model.readable_share_),
        "model": bits(model.predict_proba(rows.public)),
    }


def released_votes(fit, model, rows, **more):
    """Return all that a vote counts, charges, releases and learns."""
    diagnostics = PrivateDiagnostics(votes=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(model, rows, diagnostics=diagnostics, **more)
    labels = model.labels_
    return {
        "votes": (diagnostics.margins, diagnostics.n_constant, diagnostics.n_failed, diagnostics.spend),
        "labels": (labels.indices.tolist(), labels.labels.tolist(), labels.n_asked),
        "charges": (model.guarantee_, model.spend_),
        "run": (model.design_.settings(), model.result_.settings),
        "model": bits(model.predict_proba(rows.public)),
    }


def bits(values):
    """Return every digit of some numbers."""
    return [value.hex() for value in np.asarray(values, dtype=np.float64).ravel().tolist()]


def differing(wanted, result):
    """Return what differs between two runs."""
    return [name for name in wanted if result[name] != wanted[name]]
