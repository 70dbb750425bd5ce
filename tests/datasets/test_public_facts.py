"""What public facts show to be a mistake."""

import pandas as pd
import pytest

from dpensemble.datasets.public_facts import PublicFacts, ids_of_two_forms, judge
from dpensemble.errors import DataError, InvalidParameterError

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
        judge(PublicFacts(**FACTS, **facts))


def test_what_is_right_or_unknown_is_silent():
    facts = PublicFacts(**FACTS, purposes={"unit": None, "budgets": None}, drop=["age"], labels=labels(None, None))
    assert judge(facts).notes == ()
    assert judge(PublicFacts(**FACTS, labels=labels("no", "yes"))).notes == ()


def test_a_few_undeclared_public_labels_are_a_note():
    (note,) = judge(PublicFacts(**FACTS, labels=labels("no", "yes", "yes", "perhaps"))).notes
    assert "25 % of the labels" in note.text
    assert note.is_doubtful


def test_how_columns_are_read_is_stated():
    judgement = judge(PublicFacts(**FACTS, rows=pd.DataFrame({"age": [1.0, 2.0], "sex": ["f", "m"]})))
    assert judgement.columns == {"age": "number", "sex": "category"}


def notes(rows, units=None):
    facts = PublicFacts(**FACTS, purposes={"unit": "who"}, rows=rows, units=units)
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
