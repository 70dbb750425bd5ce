"""Kinds of targets: how their entries are read, and ranges of numbers as options state them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpensemble.datasets.formats import entry_rules
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments.residuals import NumberRange
from dpensemble.workflow.table_files import TableFiles
from dpensemble.workflow.targets import ClassTarget, NumberTarget, parsed_range


def target(*declared, blanks=(), half=None):
    return NumberTarget(NumberRange.of(0, 1000), "price", entry_rules(declared, list(blanks), half))


def texts(*entries):
    return pd.Series(list(entries), dtype=object, name="price")


@pytest.mark.parametrize("text", ["0,500000", " 0 , 5e5 ", "-3.5,-1"])
def test_a_range_is_two_rising_numbers(text):
    low, high = map(float, text.split(","))
    assert parsed_range(text) == NumberRange(low, high)


@pytest.mark.parametrize(
    "text", ["", "5", "5,5", "5,4", "nan,5", "0,nan", "0,inf", "a,b", "0,1,2", "0;1", "1e16,1.0000000000000001e16"]
)
def test_any_other_range_is_refused_by_its_option(text):
    with pytest.raises(InvalidParameterError, match="must be two numbers") as caught:
        parsed_range(text)
    assert caught.value.parameter == "range"


def test_plain_numbers_are_read_entry_by_entry():
    entries = texts("12.5", " 7 ", None, "n/a", "inf", "-inf", 3, True, "1e3", "$5", "9" * 400)
    read = target().shown_by(None).read(entries)
    np.testing.assert_equal(read.tolist()[:-1], [12.5, 7, np.nan, np.nan, np.inf, -np.inf, 3, 1, 1000, np.nan])
    # Some versions of pandas call such a number infinite.
    assert not np.isfinite(read.iloc[-1])
    for place in range(len(entries)):
        np.testing.assert_equal(target().read(entries[place : place + 1]).tolist(), read[place : place + 1].tolist())
    assert target().wrong(read.to_numpy()).tolist() == [not np.isfinite(one) for one in read]


def test_public_targets_show_how_numbers_are_written():
    public = texts(*(f"${x},200.50" for x in range(1, 30)))
    known = target().shown_by(public)
    np.testing.assert_equal(known.read(texts("$3,100.25", "(5)", "€5", 17.5)).tolist(), [3100.25, np.nan, np.nan, 17.5])
    # Private entries show nothing.
    assert target().shown_by(None).read(texts("$3,100.25")).isna().all()


def test_declarations_hold_without_public_targets():
    money = target("price=money:$1,234.5").shown_by(None)
    np.testing.assert_equal(money.read(texts("$1,200", "1,200.5", "€7")).tolist(), [1200, 1200.5, np.nan])
    comma = target("price=number:1.234,5", blanks=["price=99"]).shown_by(None)
    np.testing.assert_equal(comma.read(texts("12,5", "1.200", "99", "99,0")).tolist(), [12.5, 1200, np.nan, 99])
    limits = target("price=number", half="half").shown_by(None)
    assert limits.read(texts("<5")).tolist() == [2.5]


def test_public_targets_that_are_mostly_no_numbers_are_refused():
    with pytest.raises(DataError, match="97% of its entries are not numbers"):
        target().shown_by(texts(*["high"] * 29, "5"))
    with pytest.raises(InvalidParameterError, match="declared to hold date"):
        target("price=date:%d.%m.%Y")


def test_features_do_not_hear_what_is_declared_about_the_target():
    rules = entry_rules(["price=money", "age=number"], ["price=0", "n/a"], None)
    kept = NumberTarget(NumberRange.of(0, 1), "price", rules).features(rules)
    assert dict(kept.columns) == {"age": "number"}
    assert (kept.blanks_of("price"), kept.blanks_of("age")) == (["n/a"], ["n/a"])


def test_files_predict_classes_or_a_number_and_not_both():
    files = {"private": Path("p.csv"), "public": Path("q.csv"), "target": "price"}
    assert TableFiles(**files, number=NumberRange.of(0, 1)).predicted.settings() == {"low": 0, "high": 1}
    assert TableFiles(**files, classes=["no", "yes"]).predicted == ClassTarget(["no", "yes"])
    with pytest.raises(InvalidParameterError, match="only one of them"):
        _ = TableFiles(**files, classes=["no", "yes"], number=NumberRange.of(0, 1)).predicted


def test_stand_ins_are_all_over_the_target():
    ranks = np.array([3, 0, 1, 2])
    assert target().stand_ins(ranks) == [750, 0, 250, 500]
    assert ClassTarget(["a", "b"]).stand_ins(ranks) == ["b", "a", "a", "b"]


def test_numbers_beyond_the_range_are_counted():
    assert target().beyond(np.array([-1, 0, 1000, 1001, 5, np.nan, np.inf])) == (1, 1)
