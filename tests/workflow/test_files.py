"""Tables of one run, as they are read from files."""

import pandas as pd
import pytest

from dpensemble.errors import InvalidParameterError
from dpensemble.workflow import TableFiles, file_tables
from dpensemble.workflow.class_labels import declared_labels


@pytest.fixture
def files(tmp_path):
    rows = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0], "who": list("abcd"), "sick": ["no", "yes, badly"] * 2})
    rows.to_csv(tmp_path / "private.csv", index=False)
    rows.drop(columns="who").to_csv(tmp_path / "public.csv", index=False)
    return {"private": tmp_path / "private.csv", "public": tmp_path / "public.csv", "target": "sick", "unit": "who"}


def test_classes_are_a_list_whose_labels_may_hold_commas(files):
    tables = file_tables(TableFiles(**files, classes=["no", "yes, badly"]))
    assert tables.classes == ["no", "yes, badly"]
    assert tables.y_private.tolist() == ["no", "yes, badly"] * 2
    assert list(tables.X_private) == ["age"]
    assert tables.units.tolist() == list("abcd")


@pytest.mark.parametrize(
    ("classes", "labels"), [([0, 1], [0, 1]), (["0", "1.5"], [0, 1.5]), ([True, False], ["True", "False"])]
)
def test_classes_are_numbers_if_all_of_them_can_be_read_as_numbers(classes, labels):
    assert declared_labels(classes) == labels


@pytest.mark.parametrize(
    ("classes", "message"), [("no,yes", "must be a list"), (["a", "A"], "twice"), (["a", ""], "empty label")]
)
def test_classes_that_are_no_labels_raise(files, classes, message):
    with pytest.raises(InvalidParameterError, match=message):
        file_tables(TableFiles(**files, classes=classes))
