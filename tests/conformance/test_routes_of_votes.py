"""One vote by every route of private rows: the votes, labels, charges and the student are equal to the last bit.

The matrix is method x route x units x bad records x classes. Voting methods take rows in blocks. What they do not take
is stated here, as a known difference.
"""

import inspect
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import dpensemble
from dpensemble import (
    BaggedPATEClassifier,
    DPBaggingClassifier,
    PATEClassifier,
    RandomSubspaceClassifier,
    SoftVotesClassifier,
    SubsampleAggregateClassifier,
    WeightingPATEClassifier,
)
from dpensemble.engine.classifier import PrivateClassifier
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.laws import GaussianNoisyMax
from dpensemble.teachers import ensemble

from .routes import (
    IN_BLOCKS,
    IN_PARTS,
    N_ROWS,
    NAMES,
    ROW_BY_ROW,
    by_route,
    differing,
    in_memory,
    private_table,
    released_votes,
)

METHODS = {
    "saa": (SubsampleAggregateClassifier, {"n_teachers": 6}),
    "pate": (PATEClassifier, {"n_teachers": 6}),
    "dpbag": (DPBaggingClassifier, {"n_teachers": 6, "n_partitions": 3}),
    "bagged-pate": (BaggedPATEClassifier, {"n_teachers": 6}),
    "random-subspace": (RandomSubspaceClassifier, {"n_teachers": 6, "columns": 0.5}),
}
ROUTES = IN_BLOCKS | {"blocks of 1": ROW_BY_ROW["blocks of 1"]}
MATRIX = list(product(METHODS, [None, "who"], [False, True], [2, 3]))
# By day with 2 or 3 classes, and a noise that need not be searched.
BY_DAY = [case for place, case in enumerate(MATRIX) if (place ^ place >> 1 ^ place >> 2 ^ place // 8) & 1]
FEW_LABELS = {"law": GaussianNoisyMax(1.0), "max_labels": 8}


@pytest.fixture(autouse=True)
def small_turns(monkeypatch):
    """Fit teachers in several turns: each keeps at most 20 rows of two numbers."""
    monkeypatch.setattr(ensemble, "_BYTES_AT_ONCE", 20 * 8 * 2)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return the private table for a number of classes, with bad records or not, and with units or not."""
    made = {}

    def table(n_classes, bad, unit):
        case = n_classes, bad, unit
        if case not in made:
            made[case] = private_table(tmp_path_factory.mktemp("rows"), n_classes, bad=bad, unit=unit, texts=False)
        return made[case]

    return table


def voting_model(method, rows, n_classes, **settings):
    kind, own = METHODS[method]
    return kind(
        **{"teacher": GaussianNB(), "student": DecisionTreeClassifier(max_depth=2)} | own | settings,
        classes=NAMES[:n_classes],
        epsilon=30.0,
        delta=1e-3,
        on_bad_record="zero" if rows.zeroes else "raise",
        insecure_release_seed=5,
        random_state=0,
    )


def different(tables, routes, *, method, unit, bad, n_classes, **settings):
    """Return what differs from a fit in memory, by route."""
    rows = tables(n_classes, bad, unit)

    def released(fit):
        return released_votes(fit, voting_model(method, rows, n_classes, **settings), rows)

    wanted = released(in_memory)
    parts = {name: differing(wanted, released(by_route(route))) for name, route in routes.items()}
    return {name: names for name, names in parts.items() if names}


def named(case):
    method, unit, bad, n_classes = case
    return f"{method}, {'units' if unit else 'rows'}, {'bad' if bad else 'clean'}, {n_classes} classes"


def some_routes(place):
    """Return every fourth route, others for other cases."""
    chosen = (place + place // 4) & 3
    return {name: route for number, (name, route) in enumerate(ROUTES.items()) if number & 3 == chosen}


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(BY_DAY)), ids=lambda place: named(BY_DAY[place]))
def test_some_routes_have_the_same_votes(tables, place):
    method, unit, bad, n_classes = BY_DAY[place]
    case = {"method": method, "unit": unit, "bad": bad, "n_classes": n_classes}
    assert different(tables, some_routes(place), **case, **FEW_LABELS) == {}


def test_each_route_meets_each_value():
    cases = [(name, case) for place, case in enumerate(BY_DAY) for name in some_routes(place)]
    met = {(name, place, value) for name, case in cases for place, value in enumerate(case[1:])}
    assert len(met) == 6 * len(ROUTES)


@pytest.mark.nightly
@pytest.mark.parametrize("case", MATRIX, ids=named)
def test_every_route_has_the_same_votes(tables, case):
    method, unit, bad, n_classes = case
    case = {"method": method, "unit": unit, "bad": bad, "n_classes": n_classes}
    assert different(tables, ROUTES, **case) == {}


# Without a teacher, many logistic regressions are fitted at a time, and trees take blanks.
LEARNERS = {
    "logistic regressions": {"teacher": None},
    "trees": {"teacher": DecisionTreeClassifier(max_depth=2)},
    "two threads": {"n_jobs": 2},
}


@pytest.mark.nightly
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("method", METHODS)
def test_other_teachers_have_the_same_votes(tables, method, learner):
    case = {"method": method, "unit": "who", "bad": True, "n_classes": 3}
    routes = {name: ROUTES[name] for name in ("blocks of 7", "Arrow in blocks")}
    assert different(tables, routes, **case, **FEW_LABELS, **LEARNERS[learner]) == {}


def test_every_method_that_takes_blocks_is_compared():
    kinds = {kind for kind in vars(dpensemble).values() if inspect.isclass(kind)}
    kinds |= {getattr(dpensemble, name) for name in dpensemble.__all__}
    able = {
        kind
        for kind in kinds
        if inspect.isclass(kind) and issubclass(kind, PrivateClassifier) and hasattr(kind, "fit_blocks")
    }
    assert able == {kind for kind, _ in METHODS.values()} | {dpensemble.LabelMomentsClassifier}


def test_a_route_that_loses_a_record_is_found(tables):
    rows = tables(2, False, None)

    def fit(model, rows, **more):
        return model.fit(rows.table[rows.features][1:], rows.table["y"][1:], X_public=rows.public, **more)

    wanted, result = (released_votes(one, voting_model("saa", rows, 2, **FEW_LABELS), rows) for one in (in_memory, fit))
    assert "votes" in differing(wanted, result)


@pytest.mark.parametrize("method", METHODS)
def test_places_are_not_public_when_records_are_added(tables, method):
    """A known difference: under add-or-remove-one, shards follow contents or names, which blocks do not compare."""
    rows = tables(2, False, None)
    with pytest.raises(InvalidParameterError, match="which blocks do not allow"):
        by_route(ROUTES["blocks of 7"])(voting_model(method, rows, 2).set_params(relation="add-or-remove-one"), rows)


@pytest.mark.parametrize("route", IN_PARTS)
def test_parts_are_for_sums(tables, route):
    """A known difference: teachers learn from rows, which a table in parts does not return."""
    rows = tables(2, False, "who")
    with pytest.raises((TypeError, DataError)):
        by_route(IN_PARTS[route])(voting_model("saa", rows, 2), rows)


@pytest.mark.parametrize("kind", [SoftVotesClassifier, WeightingPATEClassifier])
def test_budgets_of_persons_are_for_rows_in_memory(kind):
    """A known difference: methods that take a budget of each record do not take blocks."""
    assert {"budgets", "personal_epsilons"} & set(inspect.signature(kind.fit).parameters)
    assert not hasattr(kind, "fit_blocks")


HOLDERS = {"lists": list, "series": pd.Series, "an index": pd.Index}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SoftVotesClassifier, WeightingPATEClassifier])
def test_budgets_of_persons_are_the_same_in_every_holder(tables, kind):
    rows = tables(2, True, "who")
    epsilons = np.array([30.0, 20.0])[pd.factorize(rows.table["who"])[0] % 2]
    name = "budgets" if kind is WeightingPATEClassifier else "personal_epsilons"

    def released(hold):
        model = kind(
            GaussianNB(), DecisionTreeClassifier(max_depth=2), classes=NAMES[:2], n_teachers=6, delta=1e-3,
            on_bad_record="zero", insecure_release_seed=5, random_state=0, epsilon=30.0,
        )  # fmt: skip
        table = rows.table
        given = {"units": hold(table["who"].tolist()), name: hold(epsilons.tolist())}
        model.fit(table[rows.features], hold(table["y"].tolist()), X_public=rows.public, **given)
        return model.labels_.labels.tolist(), model.guarantee_, model.predict_proba(rows.public).tolist()

    wanted = released(lambda values: np.fromiter(values, dtype=object, count=N_ROWS))
    assert [one for one, hold in HOLDERS.items() if released(hold) != wanted] == []
