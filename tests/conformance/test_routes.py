"""One release by every route of private rows: sums, charges, noise and the model are equal to the last bit.

The matrix is route x relation x units x bad records x classes, for label moments. `routes` holds the routes. By day
each case of the matrix takes some routes, so that each route meets each value, and at night all of them.
"""

import inspect
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dpensemble import LabelMomentsClassifier
from dpensemble.datasets.partitions import DaskParts
from dpensemble.errors import ColumnWarning
from dpensemble.moments import learning
from dpensemble.moments.maps import curved
from dpensemble.moments.maps.base import BoundedMap
from dpensemble.moments.maps.curved import CurvedMap
from dpensemble.moments.maps.tables import TableMap

from .routes import (
    BY_PROCESSES,
    N_PUBLIC,
    N_ROWS,
    PLACES,
    RELATIONS,
    ROUTES,
    ROW_BY_ROW,
    by_route,
    cut,
    differing,
    in_memory,
    moments_model,
    private_table,
    released_moments,
)

KINDS = [2, 3]
MATRIX = list(product(RELATIONS, [None, "who"], [False, True], KINDS))
ALL_AT_ONCE = {"relation": "replace-one", "unit": "who", "bad": True, "n_classes": 3}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Draw few synthetic rows, since no test here measures accuracy, and let small tables have landmarks."""
    monkeypatch.setattr(learning, "_SYNTHETIC_ROWS", 60)
    monkeypatch.setattr(curved, "_FEWEST_ROWS", 10)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return the private table for a number of classes, with bad records or not, and with units or not."""
    made = {}

    def table(n_classes, bad, unit, n_rows=N_ROWS):
        case = n_classes, bad, unit, n_rows
        if case not in made:
            folder = tmp_path_factory.mktemp("rows")
            made[case] = private_table(folder, n_classes, bad=bad, unit=unit, n_rows=n_rows)
        return made[case]

    return table


def different(tables, routes, *, relation, unit, bad, n_classes, n_rows=N_ROWS, **settings):
    """Return what differs from a fit in memory, by route."""
    rows = tables(n_classes, bad, unit, n_rows)
    more = {name: settings.pop(name) for name in ("public_units",) if name in settings}

    def released(fit):
        return released_moments(fit, moments_model(rows, n_classes, relation=relation, **settings), rows, **more)

    wanted = released(in_memory)
    parts = {name: differing(wanted, released(by_route(route))) for name, route in routes.items()}
    return {name: names for name, names in parts.items() if names}


def some_routes(place):
    """Return every fourth route, others for other cases, so that each route meets each relation, unit and so on."""
    return {
        name: route for number, (name, route) in enumerate(ROUTES.items()) if (place ^ place >> 2 ^ number) & 3 == 0
    }


def named(case):
    relation, unit, bad, n_classes = case
    return f"{relation}, {'units' if unit else 'rows'}, {'bad' if bad else 'clean'}, {n_classes} classes"


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(MATRIX)), ids=lambda place: named(MATRIX[place]))
def test_some_routes_release_the_same(tables, place):
    relation, unit, bad, n_classes = MATRIX[place]
    case = {"relation": relation, "unit": unit, "bad": bad, "n_classes": n_classes}
    assert different(tables, some_routes(place), **case) == {}


def test_each_route_meets_each_value():
    cases = [(name, case) for place, case in enumerate(MATRIX) for name in some_routes(place)]
    met = {(name, place, value) for name, case in cases for place, value in enumerate(case)}
    assert len(met) == 8 * len(ROUTES)


@pytest.mark.slow
@pytest.mark.parametrize("route", ROW_BY_ROW)
def test_pieces_of_one_row_release_the_same(tables, route):
    assert different(tables, {route: ROW_BY_ROW[route]}, **ALL_AT_ONCE, n_rows=12, rounds=1) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("case", MATRIX, ids=named)
def test_every_route_releases_the_same(tables, case):
    relation, unit, bad, n_classes = case
    case = {"relation": relation, "unit": unit, "bad": bad, "n_classes": n_classes}
    assert different(tables, ROUTES | ROW_BY_ROW, **case) == {}


# scikit-learn's transformers may read other rows, so the map gives them one row at a time.
EACH_ALONE = make_column_transformer(
    (make_pipeline(SimpleImputer(), StandardScaler()), ["size"]), (OneHotEncoder(handle_unknown="ignore"), ["ward"])
)
SETTINGS = {
    "three rounds": {"rounds": 3},
    "shares of classes": {"statistics": "class-shares", "rounds": 1},
    "landmarks": {"feature_map": CurvedMap(TableMap(), n_landmarks=8)},
    "a row at a time": {"feature_map": BoundedMap(EACH_ALONE)},
    "units of public rows": {"public_units": [f"reader {place // 3}" for place in range(N_PUBLIC)]},
}
# By day, each of these settings takes a route of each kind of code.
BY_DAY = ["blocks of 7", "a table in uneven parts", "Arrow as one part"]


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_some_routes_release_the_same_for_other_settings(tables, setting):
    routes = {name: ROUTES[name] for name in BY_DAY}
    assert different(tables, routes, **ALL_AT_ONCE, **SETTINGS[setting]) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("unit", [None, "who"], ids=["rows", "units"])
@pytest.mark.parametrize("bad", [False, True], ids=["clean", "bad records"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_every_route_releases_the_same_for_other_settings(tables, relation, unit, bad, setting):
    case = {"relation": relation, "unit": unit, "bad": bad, "n_classes": 3}
    assert different(tables, ROUTES, **case, **SETTINGS[setting]) == {}


@pytest.mark.slow
@pytest.mark.usefixtures("has_a_deadline")
def test_two_processes_release_the_same(tables):
    assert different(tables, BY_PROCESSES, **ALL_AT_ONCE, rounds=1) == {}


@pytest.mark.nightly
@pytest.mark.usefixtures("has_a_deadline")
@pytest.mark.parametrize("unit", [None, "who"], ids=["rows", "units"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_two_processes_release_the_same_in_every_case(tables, relation, unit):
    case = {"relation": relation, "unit": unit, "bad": True, "n_classes": 3}
    for settings in ({}, SETTINGS["a row at a time"], SETTINGS["landmarks"]):
        assert different(tables, BY_PROCESSES, **case, **settings) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_frame_of_dask_releases_the_same(tables, relation):
    dask = pytest.importorskip("dask.dataframe")

    def route(rows):
        return DaskParts(dask.from_pandas(rows.table, npartitions=4, sort=False), "y", unit=rows.unit), None

    assert different(tables, {"Dask": route}, **ALL_AT_ONCE | {"relation": relation}) == {}


def test_the_parts_are_as_awkward_as_stated(tables):
    """A part without rows, a part of one row, persons in several parts, and persons without any good record."""
    table = tables(3, True, "who").table
    sizes = [end - start for start, end in pairwise(PLACES)]
    assert (PLACES[-1], min(sizes), 1 in sizes) == (N_ROWS, 0, True)
    persons = [set(table["who"].iloc[start:end].dropna()) for start, end in pairwise(PLACES)]
    assert persons[2] & persons[4]
    assert persons[1] & (persons[2] | persons[4])
    good = np.isfinite(table["size"]) & table["y"].isin(["p", "q", "r"]) & table["who"].notna()
    assert set(table["who"].dropna()) > set(table["who"][good])


def test_a_route_that_loses_a_record_is_found(tables):
    def route(rows):
        return ROUTES["blocks of 7"](replace(rows, table=rows.table[1:]))

    case = {"relation": "add-or-remove-one", "unit": None, "bad": False, "n_classes": 2}
    assert "sums" in different(tables, {"one record less": route}, **case)["one record less"]


# Lists of rows have no types, and a row of another form is blank. Blocks of lists are read like one list.
ODD_ROWS = [[1.0, 2.0, 3.0], [], None, "ab", 5.0, {"a": 1}, [np.inf, 0.0], np.ma.masked_array([1.0, 2.0], mask=[1, 0])]


class Lists:
    """Rows and labels in lists, in which some rows have another form."""

    def __init__(self, odd):
        rng = np.random.default_rng(3)
        self.rows, self.labels = rng.normal(size=(24, 2)).tolist(), rng.choice(["p", "q"], 24).tolist()
        self.rows[5 : 5 + len(odd)] = odd
        self.units, self.public = rng.integers(9, size=24).tolist(), rng.normal(size=(30, 2))
        self.zeroes, self.more = True, {}

    def whole(self, model, _):
        model.fit(self.rows, self.labels, X_public=self.public, units=self.units)

    def blocks_of(self, size):
        def fit(model, _):
            pieces = list(zip(cut(self.rows, size), cut(self.labels, size), strict=True))
            model.fit_blocks(lambda: iter(pieces), X_public=self.public, units=self.units)

        return fit


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 2048])
def test_lists_with_odd_rows_release_the_same(size):
    lists = Lists(ODD_ROWS)
    wanted, result = (
        released_moments(fit, moments_model(lists, 2, rounds=1), lists) for fit in (lists.whole, lists.blocks_of(size))
    )
    assert differing(wanted, result) == []


def test_a_block_of_one_odd_row_is_noted_where_the_whole_list_is_not():
    """A known difference: the note for the owner is about a block, because no pass has all rows."""
    lists = Lists(ODD_ROWS[:1])
    with pytest.warns(ColumnWarning, match="no row has 2 entries"):
        lists.blocks_of(1)(moments_model(lists, 2, rounds=1), None)
    with pytest.MonkeyPatch.context() as patch:
        # Warnings are errors here, and no other warning is raised.
        patch.setattr(learning, "_SYNTHETIC_ROWS", 60)
        lists.whole(moments_model(lists, 2, rounds=1), None)


def test_budgets_of_persons_are_for_rows_in_memory():
    """A known difference: groups by epsilon come from an argument of `fit`, which blocks and parts do not have."""
    assert "personal_epsilons" in inspect.signature(LabelMomentsClassifier.fit).parameters
    assert "personal_epsilons" not in inspect.signature(LabelMomentsClassifier.fit_blocks).parameters


EPSILONS = np.array([1.0, 3.0, 0.5])
# What may hold an argument about each record, or the records themselves.
HOLDERS = {
    "lists": list,
    "tuples": tuple,
    "arrays of objects": lambda values: np.fromiter(values, dtype=object, count=len(values)),
    "series": pd.Series,
    "an index": pd.Index,
}


@pytest.mark.slow
@pytest.mark.parametrize("bad", [False, True], ids=["clean", "bad records"])
def test_budgets_of_persons_are_the_same_in_every_holder(tables, bad):
    rows = tables(2, bad, "who")
    numbers = pd.factorize(rows.table["who"])[0]
    epsilons = EPSILONS[numbers % 3]

    def released(hold):
        def fit(model, rows):
            table = rows.table
            given = {"units": hold(table["who"].tolist()), "personal_epsilons": hold(epsilons.tolist())}
            model.fit(table[rows.features], hold(table["y"].tolist()), X_public=rows.public, **given)

        return released_moments(fit, moments_model(rows, 2), rows)

    wanted = released(np.asarray if not bad else HOLDERS["arrays of objects"])
    assert [name for name, hold in HOLDERS.items() if differing(wanted, released(hold))] == []
    # Weights of three sizes, and not those of one budget for everybody.
    alike = released_moments(in_memory, moments_model(rows, 2), rows)
    assert {"sums", "charges"} <= set(differing(wanted, alike))
