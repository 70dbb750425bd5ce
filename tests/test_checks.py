"""Names of classes on their way from a shell, a settings file or a notebook to the comparison with a label."""

import unicodedata

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble._checks import (
    ShownAsSentences,
    declared_classes,
    declared_labels,
    folded,
    round_up,
    sorted_array,
    split_names,
)
from dpensemble.errors import InvalidParameterError, nearest
from dpensemble.workflow.targets import _labels_as_classes, _read_labels


class Shown(ShownAsSentences):
    __slots__ = ()

    def __str__(self):
        return "Less than 1 & more.\n<b>Second.</b>"


def test_sentences_are_paragraphs_of_a_notebook_and_no_markup():
    assert Shown()._repr_html_() == "<p>Less than 1 &amp; more.</p><p>&lt;b&gt;Second.&lt;/b&gt;</p>"


NO_YES = [
    "no,yes",
    " no , yes ",
    "'no','yes'",
    '"no","yes"',
    "“no”,“yes”",
    "„no“,‘yes’",
    "`no`,`yes`",
    "no,'yes'",
    "'no,yes'",
    r"\"no\",\"yes\"",
    "[no,yes]",
    "(no,yes)",
    "{no,yes}",
    "[no],[yes]",
    "['no', 'yes']",
    '["no","yes"]',
    'c("no","yes")',
    "np.array(['no','yes'])",
    "tuple(('no','yes'))",
    "[('no'),('yes')]",
    "\ufeffno,yes",
    "no\u200b,yes\u00a0",
    "no,yes\r",
]


@pytest.mark.parametrize("text", NO_YES)
def test_marks_of_a_list_are_taken_off(text):
    assert declared_labels(split_names(text)) == ["no", "yes"]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("None,Severe", ["None", "Severe"]),
        ("NA,n/a", ["NA", "n/a"]),
        ("nan,inf", ["nan", "inf"]),
        ("1,inf", ["1", "inf"]),
        ("-,+", ["-", "+"]),
        ("*,!", ["*", "!"]),
        ("(none),some", ["(none)", "some"]),
        ("'s-Gravenhage,Utrecht", ["'s-Gravenhage", "Utrecht"]),
        ('"(0, 10]","(10, 20]"', ["(0, 10]", "(10, 20]"]),
        ("<=50K,>50K", ["<=50K", ">50K"]),
        ("e\u0301,x", ["\u00e9", "x"]),
        ("no\udce9,yes", ["no\u00e9", "yes"]),
        ("+1,02", [1, 2]),
        ("1_000,2", ["1_000", "2"]),
        ("9007199254740993,9007199254740992", ["9007199254740993", "9007199254740992"]),
        ("0,1", [0, 1]),
        ("1,2,unknown", ["1", "2", "unknown"]),
    ],
)
def test_other_names_stay(text, labels):
    assert declared_labels(split_names(text)) == labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no;yes", "such as 'no,yes'"),
        ("no yes", "such as 'no,yes'"),
        ("no|yes", "such as 'no,yes'"),
        ("no,yes,", "empty label"),
        (",no,yes", "empty label"),
        ("'',yes", "empty label"),
        ("Yes,yes", "twice"),
        ("1,1.0", "twice"),
        ("01,1", "twice"),
        ("1e0,1", "twice"),
        ("\u00e9,e\u0301", "twice"),
        ("no,'no'", "twice"),
        ("$NO,$YES", "variable"),
        ("%NO%,%YES%", "variable"),
        ("no\\,yes", "mark of the shell"),
        ("no^,yes", "mark of the shell"),
        ("a\0,b", "NUL"),
        ("'no, maybe',yes", "between double quotes"),
        ("(0, 10],(10, 20]", "between double quotes"),
        ("[0,10],[10,20]", "between double quotes"),
    ],
)
def test_damaged_names_raise(text, message):
    with pytest.raises(InvalidParameterError, match=message):
        declared_labels(split_names(text))


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("no,yes", "must be a list"),
        (b"ab", "must be a list"),
        (["'no'", "'yes'"], r"write \['no', 'yes'\]"),
        (["[no", "yes]"], r"write \['no', 'yes'\]"),
        (["1", 1], "mix texts and numbers"),
        ([b"a", b"b"], "bytes"),
        ([2**53, 2**53 + 1, 0.5], "no single type"),
        (["a", "a\0"], "NUL"),
        ([None, "a"], "distinct labels"),
    ],
)
def test_classes_of_estimators_that_no_label_equals_raise(classes, message):
    with pytest.raises(InvalidParameterError, match=message):
        sorted_array(classes)


def test_a_missing_name_for_files_raises():
    with pytest.raises(InvalidParameterError, match="missing value"):
        declared_labels([None, "Severe"])


def test_classes_of_estimators_that_labels_can_equal_stay():
    for classes in ([" <=50K", " >50K"], ["(0, 1]", "(1, 2]"], ["", "a"], [True, False], [2**53, 2**53 + 1]):
        assert declared_classes(classes) == classes
    assert sorted_array(np.array(["b", "a"])).tolist() == ["a", "b"]


WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1, max_size=6)


@given(WORDS, st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]), st.sampled_from(["{}", "\ufeff{}", " {}\u00a0", "'{}'"]))
def test_a_label_in_another_form_is_its_class(word, form, written):
    name, other = declared_labels([word + "x", "other class"])
    label = written.format(unicodedata.normalize(form, word + "x"))
    assert _labels_as_classes(pd.Series([label, "other class", "neither"]), [name, other]).tolist() == [
        name,
        other,
        "neither",
    ]


@given(WORDS, WORDS)
def test_names_that_fold_alike_are_never_two_classes(one, two):
    if folded(one) == folded(two):
        with pytest.raises(InvalidParameterError, match="twice"):
            declared_labels([one, two])


@pytest.mark.parametrize("read", [_read_labels, _labels_as_classes])
def test_labels_in_marks_are_their_classes(read):
    assert read(pd.Series(["'no'", '"yes"', "[no]", "maybe"]), ["no", "yes"]).tolist() == ["no", "yes", "no", "maybe"]
    assert read(pd.Series(["'0'", "true", 1.0, "x"], dtype=object), [0, 1]).tolist()[:3] == [0, 1, 1]
    assert read(pd.Series(["0", 1.0, True, "FALSE"], dtype=object), ["false", "true"]).tolist() == [
        *("false", "true", "true", "false")
    ]
    assert read(pd.Series([9007199254740993, 5]), ["9007199254740993", "9007199254740992"]).tolist() == [
        *("9007199254740993", "5")
    ]


@given(st.floats(1e-300, 1e300), st.integers(2, 8))
def test_never_below_and_within_one_unit_of_the_last_digit(value, digits):
    shown = round_up(value, digits)
    assert value <= shown <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)
    assert float(f"{shown:.{digits - 1}e}") == shown


def test_what_people_typed_stays():
    assert [round_up(x, 4) for x in (1.0, 0.1, 1e-5, 2.5e-7)] == [1.0, 0.1, 1e-5, 2.5e-7]


@pytest.mark.parametrize(
    ("name", "names", "meant"),
    [
        ("emial", ["age", "email"], "; did you mean 'email'?"),
        ("AGE", ["Age", "page"], "; did you mean 'Age'?"),
        ("ward", ["age", "dose"], ""),
        ("0", [0, 1], "; did you mean '0'?"),
        ("ward", [], ""),
    ],
)
def test_the_nearest_public_name_is_suggested(name, names, meant):
    assert nearest(name, names) == meant
