"""Kinds of targets: how their entries are read, and ranges of numbers as options state them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpensemble.datasets.formats import entry_rules
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments.residuals import NumberRange
from dpensemble.workflow.table_files import ReadOptions, TableFiles
from dpensemble.workflow.targets import (
    EVENT,
    TIME,
    ClassTarget,
    DeclaredTimes,
    NumberTarget,
    TimesTarget,
    parsed_codes,
    parsed_range,
)


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


DECLARED = DeclaredTimes.of_options("days", "status=died", "30,90", censored="alive,left", competing="other")


def test_an_event_has_a_column_and_codes_and_a_name_may_hold_the_sign():
    assert parsed_codes("event", "BMI>=30=1,2", "died=1") == ("BMI>=30", ["1", "2"])
    assert (DECLARED.event, DECLARED.shown_times) == ("status", [30.0, 90.0])
    settings = {"bins": [30.0, 90.0], "events": ["died"], "censored": ["alive", "left"], "competing": ["other"]}
    assert TimesTarget(DECLARED).settings() == settings
    many = DeclaredTimes.of_options("days", "status=1", ",".join(map(str, range(1, 11))))
    assert (many.shown_times, many.codes) == ([4.0, 7.0, 10.0], [1, 0])


def test_codes_and_times_are_read_entry_by_entry():
    entries = pd.DataFrame(
        {
            EVENT: texts("died", "Died ", "alive", "gone", None, "other", "left", "died"),
            TIME: texts("12.5", "7", "-1", "3", "4", "1,5", "inf", ""),
        }
    )
    known = TimesTarget(DECLARED, entry_rules([], [], None)).shown_by(None)
    read = known.read_private(entries, keep_bad=True)
    np.testing.assert_equal(read[TIME].tolist(), [12.5, 7, -1, 3, 4, np.nan, np.inf, np.nan])
    assert known.wrong(read).tolist() == [False, False, True, True, True, True, True, True]
    for place in range(len(entries)):
        alone, own = (
            table.astype(object).where(table.notna(), "").iloc[0]
            for table in (known.read(entries[place : place + 1]), read[place:])
        )
        assert alone.tolist() == own.tolist()
    comma = TimesTarget(DECLARED, entry_rules(["days=number:1.234,5"], [], None)).shown_by(None)
    np.testing.assert_equal(comma.read(entries)[TIME].tolist()[4:6], [4, 1.5])
    # Public times show how they are written.
    shown = known.shown_by(texts(*(f"{day},5" for day in range(30))))
    np.testing.assert_equal(shown.read(entries)[TIME].tolist()[5], 1.5)
    assert list(known.features(entry_rules(["days=number", "age=number"], [], None)).columns) == ["age"]


def test_stand_ins_of_times_have_every_code_and_go_beyond_the_horizon():
    made = TimesTarget(DECLARED).table_of_stand_ins(np.arange(40))
    assert set(made[EVENT]) == {"died", "alive", "left", "other"}
    assert made[TIME].min() == 0
    assert 90 < made[TIME].max() < 110
    assert not TimesTarget(DECLARED).wrong(made).any()


def test_what_runs_about_times_do_not_have_is_refused():
    files = {"private": Path("p.csv"), "public": Path("q.csv"), "target": "status", "times": DECLARED}
    assert TableFiles(**files, classes=DECLARED.codes).predicted.declared is DECLARED
    for more in ({"test": Path("t.csv")}, {"groups": {"town": None}}):
        with pytest.raises(InvalidParameterError, match="is not for times until an event"):
            TableFiles(**files, classes=DECLARED.codes, **more).require_possible(ReadOptions())
    # The code comes first in what readers return.
    assert TableFiles(**files, classes=DECLARED.codes).targets == ("status", "days")
    with pytest.raises(DataError, match="cannot stop this run"):
        TimesTarget(DECLARED).require_private(pd.DataFrame())
