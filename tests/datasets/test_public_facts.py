"""What public facts show to be a mistake, and notes on columns of a public table before training."""

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsClassifier, SubsampleAggregateClassifier
from dpensemble.datasets import TablePreparation, load_adult
from dpensemble.datasets.public_facts import (
    FactsToJudge,
    _number_like,
    _table_notes,
    ids_of_two_forms,
    judge,
    lines,
    refuse_doubts,
    warn_of_columns,
)
from dpensemble.errors import ColumnWarning, DataError, InvalidParameterError

V = np.random.default_rng(0).integers(10, 80, 120).tolist()
ODD = {
    "one ?": ["?" if i == 7 else str(x) for i, x in enumerate(V)],
    "error": ["#DIV/0!" if i == 7 else str(x) for i, x in enumerate(V)],
    "SAS": ["." if i % 20 == 0 else f"{x}.5" for i, x in enumerate(V)],
    "censored": [f"<{x}" if x < 20 else str(x) for x in V],
    "some units": [str(x) if i % 3 else f"{x} mg" for i, x in enumerate(V)],
    "mixed types": [float(x) if i else "unknown" for i, x in enumerate(V)],
}
DRESSED = {
    "percent": [f"{x}.5%" for x in V],
    "dollars": [f"${x * 1001:,.2f}" for x in V],
    "euros": [f"1.{x}4,50 €" for x in V],
    "francs": [f"CHF {x}.20" for x in V],
    "kg": [f"{x} kg" for x in V],
    "mmHg": [f"{x} mm Hg" for x in V],
    "cells": [f"{x}.1 10^9/L" for x in V],
    "Swiss": [f"{x}'001.0" for x in V],
    "French": [f"{x}\u202f001" for x in V],
    "thin": [f"{x}\u2009001" for x in V],
    "accountants": [f"({x}.00)" for x in V],
    "minus": [f"\u2212{x}" for x in V],
    "above": [f">{x}" for x in V],
}
DATES = {
    "short years": [f"{x % 28 + 1:02}.03.{x}" for x in V],
    "short names": [f"{x % 28 + 1:02}-Mar-{x}" for x in V],
    "unknown dates": ["unknown" if i % 9 == 0 else f"2024-03-{x % 28 + 1:02}" for i, x in enumerate(V)],
}
CATEGORIES = {
    "rooms": [f"{x}{'ABCDEF'[x % 6]}" for x in V],
    "codes": [f"E{x}.1" for x in V],
    "zips": [f"0{x}123" if x % 2 else f"1{x}123" for x in V],
    "ranges": [f"{x // 10 * 10}-{x // 10 * 10 + 9}" for x in V],
    "grades": [f"{x % 12 + 1}th" for x in V],
    "phones": [f"555-{x}00" for x in V],
    "doses": [f"{x % 3 * 10} mg" for x in V],
    "streets": [f"{x} Main Street" for x in V],
    "words": [["a", "b", "c 1"][x % 3] for x in V],
    "dates": [f"2024-03-{x % 28 + 1:02}" for x in V],
    "times": [f"{x % 24:02}:{x}" for x in V],
}


@pytest.mark.parametrize("kind", [*ODD, *DRESSED, *DATES])
def test_numbers_among_texts_are_doubtful(kind):
    like = _number_like("score", pd.Series((ODD | DRESSED | DATES)[kind], dtype=object))
    assert like.is_doubtful
    assert like.text.startswith("column 'score' is not read as " + ("dates" if kind in DATES else "numbers"))
    assert ("none" in like.text) == (kind in ODD or kind == "unknown dates")


@pytest.mark.parametrize("kind", CATEGORIES)
def test_categories_and_codes_are_not_remarkable(kind):
    assert _number_like("score", pd.Series(CATEGORIES[kind])) is None


def test_few_numbers_are_a_remark():
    few = _number_like("children", pd.Series(["0", "1", "2", "3+"] * 10))
    assert not few.is_doubtful
    assert "25 % of its public entries are none: '3+'" in few.text
    assert not _number_like("stored", pd.Series(list(map(str, V)))).is_doubtful


def test_entries_are_cut_and_tamed():
    like = _number_like("score", pd.Series([*map(str, V), "\x1b[31m\n" + "x" * 90, "?", "?", "-", "-", "-"]))
    assert "'-', '?', '\N{REPLACEMENT CHARACTER}[31m " in like.text
    assert "\x1b" not in like.text
    assert "x" * 30 not in like.text


def test_decimal_commas_name_the_option():
    assert '--decimal ","' in _number_like("fee", pd.Series(DRESSED["euros"])).cure
    assert "--decimal" not in _number_like("fee", pd.Series(DRESSED["dollars"])).cure


def test_warnings_are_one_for_each_column_and_capped():
    with pytest.warns(ColumnWarning) as caught:
        warn_of_columns(pd.DataFrame({f"c{i}": ODD["one ?"] for i in range(8)}), has_unit=True)
    texts = [str(one.message) for one in caught]
    assert len(texts) == 6
    assert all(f"'c{i}'" in text and text.endswith("out of X and X_public.") for i, text in enumerate(texts[:5]))
    assert texts[5].startswith("and 3 more columns")


def test_adult_gives_no_warning():
    warn_of_columns(load_adult().X, has_unit=False)


N = 40
RNG = np.random.default_rng(0)
CASES = [
    ("Unnamed: 0", RNG.normal(size=N), "has no name"),
    ("site", ["north"] * N, "the same entry in every public row"),
    ("empty", [None] * N, "blank in every public row"),
    ("remark", [f"pain since day {i}" for i in range(N)], "like free text"),
    ("sample", [f"S{i:05d}" for i in range(N)], "like an id"),
    ("town", [f"T{i * 3 // 4}" for i in range(N)], "text with hardly a group"),
    ("cell_no", RNG.permutation(N), "seems to number the rows"),
    ("step", range(N), "seems to number the rows"),
    ("patient_id", np.arange(N) // 3, "--unit patient_id"),
    ("CustomerNo", [f"c{i // 2}" for i in range(N)], "--unit CustomerNo"),
    ("person", np.arange(N) // 2, "--unit person"),
    ("day", [f"2025-{1 + i % 12:02d}-01" for i in range(N)], "holds dates; used parts: month, weekday"),
]
PLAIN = {
    "age": RNG.integers(18, 90, N),
    "weight": RNG.normal(70, 9, N),
    "ward": RNG.choice(["a", "b"], N),
    "student": RNG.choice(["yes", "no"], N),
    "income": 1000.0 * np.arange(N),
}


def notes_of(columns, *, has_unit=False):
    public = pd.DataFrame(columns)
    return _table_notes(public, TablePreparation().fit(public), has_unit=has_unit)


@pytest.mark.parametrize(("name", "values", "text"), CASES, ids=[case[0] for case in CASES])
def test_what_stands_out_is_told_with_what_to_do(name, values, text):
    (note,) = notes_of({**PLAIN, name: values})
    assert note.column == name
    assert text in note.text
    assert note.text.endswith(".")
    assert note.is_doubtful == ("holds dates; used parts" not in text)


def test_ordinary_columns_and_few_rows_are_not_talked_about():
    assert notes_of(PLAIN) == []
    assert notes_of({"remark": ["a b", "c d", "e f"], "x": [1, 2, 3]}) == []


def test_a_person_is_no_doubt_where_the_unit_was_given():
    (note,) = notes_of({**PLAIN, "patient_id": np.arange(N) // 3}, has_unit=True)
    assert (note.is_doubtful, "left out" in note.text) == (False, True)


def test_columns_that_name_people_are_one_note():
    people = {"id": RNG.permutation(N), "email": [f"p{i}@example.org" for i in range(N)], "Unnamed: 0": range(N)}
    (note,) = notes_of({**PLAIN, **people})
    assert note.text == (
        "columns 'id' (ids), 'email' (e-mail addresses), 'Unnamed: 0' (row numbers) name people or number records, and "
        "are left out; --column id=category keeps 'id'."
    )
    assert not note.is_doubtful
    notes = notes_of({**PLAIN, **people, "patient_id": np.arange(N) // 3})
    assert [note.is_doubtful for note in notes] == [False, True]
    many = notes_of({**PLAIN, **{f"x{i}_id": RNG.permutation(N) for i in range(30)}})
    assert "'x7_id' (ids) and 22 more name people" in many[0].text
    assert "@" not in "".join(lines(notes))


def test_doubts_are_refused_and_what_was_done_is_not():
    refuse_doubts(notes_of({"day": CASES[-1][1]}))
    with pytest.raises(DataError, match=r"strict: column 'site' has .*; check these columns, or leave out --strict"):
        refuse_doubts(notes_of({"site": CASES[1][1], "day": CASES[-1][1]}))


def test_of_many_notes_some_are_shown():
    many = notes_of({f"c{i}": ["same"] * N for i in range(30)})
    assert lines(many)[-1] == "and 18 more columns."
    with pytest.raises(DataError, match="and 18 more; check these"):
        refuse_doubts(many)


def test_decimal_commas_that_were_read_as_text_are_told_of():
    public = pd.DataFrame({"crp": ["12,6", "3,0", "0,5", None] * 10, "ward": ["a", "b", "1,2", "c"] * 10})
    (note,) = _table_notes(public, TablePreparation().fit(public), has_unit=False)
    assert "decimal commas" in note.text
    assert "crp" in note.text


def test_python_warns_of_whose_record_it_is_once_and_only_without_units():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"patient_id": np.arange(300) // 3, "x": rng.normal(size=300)})
    y, model = (rows["x"] > 0).astype(int), LabelMomentsClassifier(classes=[0, 1], delta=1e-4)
    with pytest.warns(ColumnWarning, match="'patient_id' looks like whose record it is: give .* units="):
        model.fit(rows[:200], y[:200], X_public=rows[200:])
    with pytest.warns(ColumnWarning, match="patient_id"):
        SubsampleAggregateClassifier(n_teachers=5, classes=[0, 1], delta=1e-4).fit(
            rows[:200], y[:200], X_public=rows[200:]
        )
    model.fit(rows[:200], y[:200], X_public=rows[200:], units=np.arange(200) // 3)


FACTS = {"classes": ["no", "yes"], "target": "ill"}


def labels(*entries):
    column = pd.Series(entries, dtype=object)
    return {"public": (column, column)}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"purposes": {"unit": "ill"}}, "unit='ill' is also the target"),
        ({"purposes": {"budgets": "ill"}}, "budgets='ill' is also the target"),
        ({"purposes": {"unit": "who", "budgets": "who"}}, "budgets='who' is also the unit"),
        ({"groups": ["ill"]}, "groups='ill' is also the target"),
        ({"purposes": {"unit": "who"}, "groups": ["who"]}, "groups='who' is also the target, the unit"),
        ({"drop": ["age", "ill"]}, "drop='ill' is also the target, which every record needs"),
        ({"purposes": {"unit": "who"}, "drop": ["who"]}, "drop='who' is also the unit"),
        ({"labels": labels("Y", "N", None)}, "100 % of the labels in column 'ill' of the public table .* 'Y', 'N'"),
        ({"labels": labels("Y", "N", "no")}, "67 % of the labels"),
    ],
)
def test_mistakes_raise(facts, message):
    with pytest.raises((DataError, InvalidParameterError), match=message):
        judge(FactsToJudge(**FACTS, **facts))


def test_what_is_right_or_unknown_is_silent():
    facts = FactsToJudge(**FACTS, purposes={"unit": None, "budgets": None}, drop=["age"], labels=labels(None, None))
    assert judge(facts).notes == ()
    assert judge(FactsToJudge(**FACTS, labels=labels("no", "yes"))).notes == ()


def test_a_few_undeclared_public_labels_are_a_note():
    (note,) = judge(FactsToJudge(**FACTS, labels=labels("no", "yes", "yes", "perhaps"))).notes
    assert "25 % of the labels" in note.text
    assert note.is_doubtful


def test_how_columns_are_read_is_stated():
    judgement = judge(FactsToJudge(**FACTS, rows=pd.DataFrame({"age": [1.0, 2.0], "sex": ["f", "m"]})))
    assert judgement.columns == {"age": "number", "sex": "category"}


def notes(rows, units=None):
    facts = FactsToJudge(**FACTS, purposes={"unit": "who"}, rows=rows, units=units)
    return [note.text for note in judge(facts).notes]


@pytest.mark.parametrize("rows_each", [1, 2, 5])
def test_a_text_of_each_person_is_no_category_however_many_rows_a_person_has(rows_each):
    people = [f"p{number}" for number in range(40)]
    table = pd.DataFrame({"words": [f"seen by doctor {one}" for one in people], "ward": ["a", "b"] * 20}).loc[
        lambda rows: rows.index.repeat(rows_each)
    ]
    units = [one for one in people for _ in range(rows_each)]
    (note,) = notes(table, units)
    of = " of 40 units" if rows_each > 1 else ""
    assert f"'words' has 40 different entries in {40 * rows_each} public rows{of}, like free text" in note
    assert len(notes(table)) == (rows_each == 1)


@pytest.mark.parametrize(
    ("ids", "number"),
    [(["7", "7.0", "8.0"], 1), (["7.0", "7.00", "7"], 2), (["007", "7"], 0), (["7.5", "7"], 0), ([7, 7.0, None], 0)],
)
def test_ids_that_are_one_number_in_two_forms_are_noted(ids, number):
    assert ids_of_two_forms(ids) == number
    found = [note for note in notes(None, ids) if "in two forms" in note]
    assert [note.split(" has ")[1].split(" ids")[0] for note in found] == [str(number)] * bool(number)


def second_header(first, **columns):
    rows = {name: [first.get(name), *map(str, values)] for name, values in columns.items()}
    public = pd.DataFrame(rows)
    return [
        note for note in _table_notes(public, TablePreparation().fit(public), has_unit=False) if "second" in note.text
    ]


def test_a_second_row_of_names_is_a_doubt():
    numbers = {"age": RNG.integers(1, 90, N), "crp": RNG.random(N), "sex": RNG.choice(["f", "m"], N)}
    (note,) = second_header({"age": "years", "crp": "mg/l", "sex": "code"}, **numbers)
    assert "columns 'age', 'crp' have a text there and only numbers below" in note.text
    assert note.is_doubtful
    assert "mg/l" not in note.text
    # One odd text, texts in other rows as well, or a number in the first row.
    assert second_header({"age": "years", "crp": "0.5", "sex": "f"}, **numbers) == []
    assert second_header({"age": None, "crp": None, "sex": "f"}, **numbers) == []
    mixed = numbers | {"age": [*numbers["age"][:-1], "x"]}
    assert second_header({"age": "years", "crp": "mg/l"}, **mixed) == []
    public = pd.DataFrame({"a": ["x", *["1"] * N], "b": ["y", *["2"] * N], "c": 1.0})
    assert not any("second" in note.text for note in notes_of(public))
