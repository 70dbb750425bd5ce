"""One release, whichever way private rows arrive: sums, charges, noise and the model are equal to the last bit.

The matrix is route x relation x units x bad records x classes. A route that is added is one entry of `ROUTES`.
"""

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dpensemble import LabelMomentsClassifier
from dpensemble.datasets import ParquetBlocks
from dpensemble.datasets.arrow import ArrowBlocks, ArrowPart
from dpensemble.datasets.parts import ParquetParts
from dpensemble.engine.moments_inputs import of_source
from dpensemble.engine.run import run
from dpensemble.moments.maps import curved
from dpensemble.moments.maps.curved import CurvedMap
from dpensemble.moments.maps.general import BoundedMap
from dpensemble.moments.maps.tables import TableMap
from dpensemble.releases import SumReleaser
from dpensemble.rows.source import Blocks, InMemory

N_ROWS, N_PUBLIC = 90, 40
RELATIONS = ["replace-one", "add-or-remove-one"]
KINDS = [2, 3]


def tables(n_classes, bad):
    """Return private rows of 31 persons, in any order, and public rows. Every ninth record is bad if asked for."""
    rng = np.random.default_rng(n_classes)
    n_rows = N_ROWS + N_PUBLIC
    table = pd.DataFrame({"size": rng.normal(size=n_rows), "ward": rng.choice(["a", "b", "c"], n_rows)})
    table["y"] = np.array(["p", "q", "r"])[:n_classes][rng.integers(n_classes, size=n_rows)]
    table["who"] = [f"person {number}" for number in rng.integers(31, size=n_rows)]
    private, public = table[:N_ROWS].copy(), table[N_ROWS:]
    if bad:
        private.loc[::9, "size"] = np.inf
        private.loc[4::9, "y"] = "undeclared"
    return private, public[["size", "ward"]]


def in_blocks(rows):
    def fit(model, table, unit, **more):
        parts = [table[start : start + rows] for start in range(0, len(table), rows)]
        units = {"units": table[unit]} if unit else {}
        return model.fit_blocks(lambda: ((one[["size", "ward"]], one["y"]) for one in parts), **units, **more)

    return fit


def in_memory(model, table, unit, **more):
    return model.fit(table[["size", "ward"]], table["y"], units=table[unit] if unit else None, **more)


def file_of(folder, table):
    path = folder / "private.parquet"
    parquet.write_table(pa.Table.from_pandas(table, preserve_index=False), path, row_group_size=25)
    return path


def without_unit(table, unit):
    return table if unit else table.drop(columns="who")


class InParts:
    """A table in parts of different numbers of rows, of which one is empty."""

    target = "y"

    def __init__(self, table, unit, places=(0, 1, 1, 30, 90)):
        self.unit = unit
        self._parts = [table[start:end] for start, end in pairwise(places)]

    def results(self, work):
        return (work(iter([part])) for part in self._parts)


# Each reads the file at a path, or the table that is in the file.
ROUTES = {
    "blocks of 1": lambda path: in_blocks(1),
    "blocks of 7": lambda path: in_blocks(7),
    "blocks of 2,048": lambda path: in_blocks(2048),
    "a table in uneven parts": lambda path: (
        lambda model, table, unit, **more: model.fit_blocks(InParts(without_unit(table, unit), unit), **more)
    ),
    "Parquet in blocks": lambda path: (
        lambda model, table, unit, **more: model.fit_blocks(
            ParquetBlocks(path, "y", unit=unit, rows=7, keep_bad=model.on_bad_record == "zero"), **more
        )
    ),
    "Parquet in parts": lambda path: (
        lambda model, table, unit, **more: model.fit_blocks(ParquetParts(path, "y", unit=unit), **more)
    ),
    "Arrow in blocks": lambda path: (
        lambda model, table, unit, **more: model.fit_blocks(
            ArrowBlocks(
                lambda: parquet.read_table(path).to_reader(max_chunksize=11),
                "y",
                unit=unit,
                keep_bad=model.on_bad_record == "zero",
            ),
            **more,
        )
    ),
    "Arrow as one part": lambda path: (
        lambda model, table, unit, **more: model.fit_blocks(ArrowPart(parquet.read_table(path), "y", unit=unit), **more)
    ),
}


def by_rows(source_of):
    """Return a route by the one loop over rows, from a function that makes a source of a table and its unit."""

    def fit(model, table, unit, *, X_public):
        source = source_of(table, unit)
        units = table[unit] if unit and source.unit is None else None
        return run(model, lambda: of_source(model, source, X_public, units))

    return fit


def blocks_source(rows):
    def source(table, unit):
        parts = [table[start : start + rows] for start in range(0, len(table), rows)]
        return Blocks(lambda: ((one[["size", "ward"]], one["y"]) for one in parts))

    return source


ROUTES |= {
    "rows in memory": lambda path: by_rows(lambda table, unit: InMemory(table[["size", "ward"]], table["y"])),
    "rows in blocks of 1": lambda path: by_rows(blocks_source(1)),
    "rows in blocks of 7": lambda path: by_rows(blocks_source(7)),
    "rows in uneven parts": lambda path: by_rows(lambda table, unit: InParts(without_unit(table, unit), unit)),
    "rows of Parquet in parts": lambda path: by_rows(lambda table, unit: ParquetParts(path, "y", unit=unit)),
    "rows of Arrow": lambda path: by_rows(lambda table, unit: ArrowPart(parquet.read_table(path), "y", unit=unit)),
}


def released(fit, table, public, unit, *, relation, n_classes, bad, **settings):
    """Return all that a fit sums, charges, releases and learns."""
    sums, noisy, real = [], [], SumReleaser.release

    def watched(self, query, total, share, *, weight=1.0):
        outcome = real(self, query, total, share, weight=weight)
        sums.append((total.tolist(), query.sensitivity(self.relation), share, weight))
        noisy.append(self.released[-1])
        return outcome

    model = LabelMomentsClassifier(
        classes=["p", "q", "r"][:n_classes],
        epsilon=3.0,
        delta=1e-4,
        relation=relation,
        on_bad_record="zero" if bad else "raise",
        insecure_release_seed=5,
        random_state=0,
        **settings,
    )
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(SumReleaser, "release", watched)
        fit(model, table, unit, X_public=public)
    assert len(sums) > 1
    return {
        "sums": sums,
        "released": noisy,
        "charges": (model.charges_, model.guarantee_.epsilon, model.guarantee_.delta),
        "model": [value.hex() for value in model.predict_proba(public).ravel().tolist()],
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the path of a file for each table, with the table and public rows."""
    found = {}
    for n_classes in KINDS:
        for bad in (False, True):
            for unit in (None, "who"):
                private, public = tables(n_classes, bad)
                path = file_of(tmp_path_factory.mktemp("rows"), without_unit(private, unit))
                found[n_classes, bad, unit] = path, private, public
    return found


def different(files, routes, *, relation, unit, bad, n_classes, **settings):
    """Return what differs from a fit in memory, by route."""
    path, table, public = files[n_classes, bad, unit]
    settings |= {"relation": relation, "n_classes": n_classes, "bad": bad}
    wanted = released(in_memory, table, public, unit, **settings)
    results = {name: released(route(path), table, public, unit, **settings) for name, route in routes.items()}
    parts = {name: [part for part in wanted if result[part] != wanted[part]] for name, result in results.items()}
    return {name: names for name, names in parts.items() if names}


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", KINDS)
@pytest.mark.parametrize("bad", [False, True], ids=["clean", "bad records"])
@pytest.mark.parametrize("unit", [None, "who"], ids=["rows", "units"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_route_releases_the_same(files, relation, unit, bad, n_classes):
    assert different(files, ROUTES, relation=relation, unit=unit, bad=bad, n_classes=n_classes) == {}


# scikit-learn's transformers may read other rows, so the map gives them one row at a time.
ROW_BY_ROW = make_column_transformer(
    (make_pipeline(SimpleImputer(), StandardScaler()), ["size"]), (OneHotEncoder(handle_unknown="ignore"), ["ward"])
)
SETTINGS = {
    "three rounds": {"rounds": 3},
    "shares of classes": {"statistics": "class-shares", "rounds": 1},
    "landmarks": {"feature_map": CurvedMap(TableMap(), n_landmarks=8)},
    "a row at a time": {"feature_map": BoundedMap(ROW_BY_ROW)},
}


@pytest.mark.nightly
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("unit", [None, "who"], ids=["rows", "units"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_route_releases_the_same_for_other_settings(files, monkeypatch, relation, unit, setting):
    # Tables with few public rows get no landmarks.
    monkeypatch.setattr(curved, "_FEWEST_ROWS", 10)
    place = {"relation": relation, "unit": unit, "bad": True, "n_classes": 3}
    assert different(files, ROUTES, **place, **SETTINGS[setting]) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("unit", [None, "who"], ids=["rows", "units"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_two_processes_release_the_same(files, relation, unit):
    def route(path):
        return lambda model, table, unit, **more: model.fit_blocks(ParquetParts(path, "y", unit=unit, n_jobs=2), **more)

    place = {"relation": relation, "unit": unit, "bad": True, "n_classes": 3}
    assert different(files, {"two processes": route}, **place) == {}


def test_a_route_that_loses_a_record_is_found(files):
    def route(path):
        return lambda model, table, unit, **more: in_blocks(7)(model, table[1:], unit, **more)

    place = {"relation": "add-or-remove-one", "unit": None, "bad": False, "n_classes": 2}
    assert "sums" in different(files, {"one record less": route}, **place)["one record less"]
