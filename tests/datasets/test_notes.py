"""Notes on a public table before training."""

import numpy as np
import pandas as pd
import pytest

from dpensemble import LabelMomentsClassifier, SubsampleAggregateClassifier
from dpensemble.datasets import TablePreparation
from dpensemble.datasets.public_facts import lines, refuse_doubts, table_notes
from dpensemble.errors import ColumnWarning, DataError

N = 40
RNG = np.random.default_rng(0)
CASES = [
    ("Unnamed: 0", range(N), "has no name"),
    ("site", ["north"] * N, "the same entry in every public row"),
    ("empty", [None] * N, "blank in every public row"),
    ("remark", [f"pain since day {i}" for i in range(N)], "like free text"),
    ("sample", [f"S{i:05d}" for i in range(N)], "like an id"),
    ("town", [f"T{i * 3 // 4}" for i in range(N)], "text with hardly a group"),
    ("record_no", RNG.permutation(N), "seems to number the rows"),
    ("line", range(N), "seems to number the rows"),
    ("patient_id", np.arange(N) // 3, "--unit patient_id"),
    ("CustomerNo", [f"c{i // 2}" for i in range(N)], "--unit CustomerNo"),
    ("person", np.arange(N) // 2, "--unit person"),
    ("seen", ["01/02/2025", "03/04/2025"] * (N // 2), "days may be months"),
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
    return table_notes(public, TablePreparation().fit(public), has_unit=has_unit)


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
    assert notes_of({**PLAIN, "patient_id": np.arange(N) // 3}, has_unit=True) == []


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
    (note,) = table_notes(public, TablePreparation().fit(public), has_unit=False)
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
