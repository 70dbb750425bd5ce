"""`LifeTable`: what a person adds, whose rows count, bad input, and the accounts of a release."""

import itertools
import json
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from dpensemble import Ledger, LifeTable
from dpensemble.certificates import certificate_of_fit, confirmed
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.methods import life_table
from dpensemble.moments.whole import WHOLE
from dpensemble.relations import Relation

BINS = [1.0, 2.0, 4.0]


def fitted(times, events, *, units=None):
    return LifeTable(BINS, delta=1e-3, insecure_release_seed=0).fit(times, events, units=units)


def test_brute_force_no_person_with_several_rows_moves_the_sum_further_than_one_row(totals):
    rows = [(0.0, 1), (1.0, 0), (1.5, 1), (4.0, 1), (9.0, 0), (math.nan, 1), (2.0, 7)]
    people = [list(one) for size in (1, 2) for one in itertools.product(rows, repeat=size)]
    for own in people:
        times, events = zip(*own, (3.0, 1), strict=True)
        fitted(times, events, units=["a"] * len(own) + ["b"])
    differences = [np.linalg.norm(one - other) for one, other in itertools.combinations(totals, 2)]
    assert max(differences) <= life_table.LifeTableSum(2).sensitivity(Relation.REPLACE_ONE)
    assert max(differences) > 0.999 * math.sqrt(2) * WHOLE
    alone = totals[people.index([(math.nan, 1)])]
    assert max(np.linalg.norm(one - alone) for one in totals) <= life_table.LifeTableSum(2).sensitivity(
        Relation.ADD_OR_REMOVE_ONE
    )


def test_rows_of_a_person_count_once_whatever_their_order(totals):
    fitted([3.0, 0.5, 1.5], [0, 1, 1], units=[1, 1, 2])
    fitted([1.5, 0.5, 3.0], [1, 1, 0], units=[2, 1, 1])
    fitted([0.5, 1.5], [1, 1])
    assert (totals[0] == totals[1]).all()
    assert (totals[0] == totals[2]).all()


def test_bad_records_add_nothing_and_are_not_named(totals):
    fitted([0.5, math.nan, -1.0, math.inf, 1.0, 2.0], [1, 1, 0, 1, 9, None])
    fitted([0.5] + [math.nan] * 5, [1] * 6)
    assert (totals[0] == totals[1]).all()
    fitted(pd.Series(["0.5", "never"]), ["1", "0"])
    fitted([0.5, math.nan], [1, 0])
    assert (totals[2] == totals[3]).all()
    # Entries of any kind in one record of a list change no other.
    for odd in ([1.0, 2.0], 1j, np.ma.masked, 10**400, "\ud800", None, {}, Decimal("sNaN")):
        fitted([0.5, odd], [1, odd])
        assert (totals[-1] == totals[3]).all()
        fitted([0.5, 1.0], [1, odd])
        assert (totals[-1] == totals[3]).all()


def test_an_event_after_the_horizon_is_a_censoring_there(totals):
    fitted([9.0, 4.0], [1, 1])
    fitted([4.0, 4.0], [0, 1])
    assert (totals[0] == totals[1]).all()


def test_strata_are_in_the_order_of_their_declaration(totals):
    declared = {"sex": ["m", "f"], "arm": [2, 1]}
    given = pd.DataFrame({"sex": ["f", "m", "x"], "arm": [2, 1, 1]})
    table = LifeTable(BINS, strata=declared, delta=1e-3, insecure_release_seed=0)
    table.fit([0.5, 0.5, 0.5], [1, 1, 1], strata=given)
    assert table.stratum_names == ("sex=m, arm=2", "sex=m, arm=1", "sex=f, arm=2", "sex=f, arm=1")
    assert (totals[0].any(axis=0)).tolist() == [False, False, False, True, False, True, False, False]


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_one_sum_takes_the_whole_budget_and_is_certified(tmp_path, relation):
    rng = np.random.default_rng(0)
    table = LifeTable(BINS, relation=relation, delta=1e-5).fit(rng.exponential(2, 500), rng.integers(0, 2, 500))
    (charge,) = table.charges_
    assert charge["entries"] == 8
    assert 0.999 < table.guarantee_.epsilon <= 1.0
    sensitivity = math.sqrt(2) if relation == "replace-one" else 1.0
    assert math.isclose(math.sqrt(charge["variance"]) / WHOLE, charge["sigma"] * sensitivity, rel_tol=1e-6)
    assert math.isclose(table.life_table_.spread, charge["sigma"] * sensitivity, rel_tol=1e-6)
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(certificate_of_fit(table)))
    assert confirmed(path)[0]
    json.dumps(table.life_table_.to_dict(), allow_nan=False)


def test_a_ledger_is_charged_once_and_refuses_what_does_not_fit(tmp_path, totals):
    ledger = Ledger.create(tmp_path / "ledger.db")
    account = ledger.open_account("patients", epsilon=1.1, delta=1e-4)
    LifeTable(BINS, delta=1e-5).fit([0.5] * 9, [1] * 9, ledger=account)
    with pytest.raises(BudgetError):
        LifeTable(BINS, delta=1e-5).fit([0.5] * 9, [1] * 9, ledger=account)
    assert len(totals) == 1


@pytest.mark.parametrize(
    ("settings", "more", "words"),
    [
        ({"bins": [1.0]}, {}, "has 1 entries"),
        ({"events": 1}, {}, "events=1 is not a list of codes"),
        ({"events": ["dead"]}, {}, "two or more texts"),
        ({"strata": {"sex": 5}}, {}, "does not name columns"),
        ({"strata": {"sex": [1, "b"]}}, {}, "two or more whole numbers"),
        ({"bins": ()}, {}, "has 0 entries"),
        ({"events": [1], "censored": [1]}, {}, "no code twice"),
        ({"censored": []}, {}, "at least one code"),
        ({"strata": {"sex": ["f"]}}, {"strata": {"sex": ["f", "f"]}}, "two or more texts"),
        ({"strata": {"sex": ["f", "m"]}}, {}, "but LifeTable declares"),
        ({}, {"strata": {"sex": ["f", "m"]}}, "but LifeTable declares"),
        ({"strata": {"a": range(5), "b": range(5)}}, {"strata": {"a": [1, 1], "b": [1, 1]}}, "25 strata"),
        ({"strata": ["f", "m"]}, {"strata": {"sex": ["f", "m"]}}, "does not name columns"),
        ({"epsilon": -1.0}, {}, "epsilon"),
        ({"relation": "none"}, {}, "relation"),
    ],
)
def test_what_public_settings_show_is_refused_before_anything_is_charged(totals, settings, more, words):
    with pytest.raises(InvalidParameterError, match=words):
        LifeTable(**({"bins": BINS, "delta": 1e-3} | settings)).fit([0.5, 1.5], [1, 0], **more)
    assert not totals


@pytest.mark.parametrize(
    ("times", "events", "words"),
    [
        ([0.5, 1.5], [1], "events"),
        (np.ones((2, 2)), [1, 0], "2 columns"),
        (np.ma.array([0.5, 1.5], mask=[False, True]), [1, 0], "masked"),
        ([0.5, 1.5], np.ma.array([1, 0], mask=[False, True]), "masked"),
        (np.array([0.5, 1j]), [1, 0], "complex"),
        (pd.to_datetime(["2020-01-01", "2020-02-01"]), [1, 0], "give numbers"),
        (pd.to_timedelta([1, 2], unit="D"), [1, 0], "give numbers"),
    ],
)
def test_arguments_of_another_form_are_refused(totals, times, events, words):
    with pytest.raises(DataError, match=words):
        LifeTable(BINS, delta=1e-3).fit(times, events)
    assert not totals


def test_swapped_columns_are_refused_by_their_names(totals):
    times, events = pd.Series([1.0, 2.0], name="days"), pd.Series([0, 1], name="status")
    with pytest.raises(DataError, match=r"give fit\(times, events\)"):
        LifeTable([30, 90]).fit(events, times)
    assert totals == []
