"""Dates and blanks follow the public rows, each entry separately."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dpensemble.datasets import TableEncoder, TablePreparation
from dpensemble.datasets.preparation import _BLANK
from dpensemble.errors import DataError, InvalidParameterError

PUBLIC = pd.DataFrame(
    {
        "age": [30.0, None, 50.0, 90.0],
        "ward": ["a", "b", None, "a"],
        "seen": ["2025-03-01", "2025-04-02 10:15", "2024-04-07T00:00Z", None],
    }
)


def test_blanks_become_public_medians_and_a_category_of_their_own():
    prepared = TablePreparation("median").fit(PUBLIC).transform(PUBLIC)
    assert prepared["age"].tolist() == [30.0, 50.0, 50.0, 90.0]
    assert prepared["ward"].tolist() == ["a", "b", _BLANK, "a"]
    assert prepared["seen: month"].tolist() == [3.0, 4.0, 4.0, 4.0]
    assert prepared["seen: weekday"].tolist() == ["Saturday", "Wednesday", "Sunday", _BLANK]


def test_what_private_rows_hold_changes_nothing_of_other_rows():
    private = pd.DataFrame({"age": [1.0, 2.0], "ward": ["a", "z"], "seen": ["2025-03-01", "soon"]})
    prepared = TablePreparation("median").fit(PUBLIC).transform(private)
    alone = TablePreparation("median").fit(PUBLIC).transform(private[:1])
    assert prepared[:1].equals(alone)
    assert prepared["seen: year"].tolist() == [2025.0, 2025.0]  # what is no date is filled in like a blank
    assert TablePreparation().fit(PUBLIC).transform(private)["seen: year"].isna().tolist() == [False, True]


def test_nan_stays_among_numbers_where_learners_take_it():
    found = TableEncoder("nan").fit(PUBLIC).transform(PUBLIC)
    assert np.isnan(found).sum() == 3  # one age, one year and one month
    assert np.isfinite(TableEncoder("median").fit(PUBLIC).transform(PUBLIC)).all()


def test_an_entry_that_is_no_date_is_refused_by_name_where_blanks_are():
    days = pd.Series(pd.date_range("2024-11-01", periods=90)).dt.strftime("%Y-%m-%d")
    encoder = TableEncoder().fit(pd.DataFrame({"seen": days, "age": 1.0}))
    rows = pd.DataFrame({"seen": ["2025-01-02", "someday"], "age": [1.0, 2.0]})
    with pytest.raises(DataError, match=r"column 'seen' holds dates .* \(row 1, counting from 0\)") as raised:
        encoder.transform(rows)
    assert "someday" not in str(raised.value)
    assert np.isfinite(encoder.transform(rows[:1])).all()
    with pytest.raises(DataError, match=r"row 7,"):
        encoder.transform(rows[1:].set_index(pd.RangeIndex(7, 8)))


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        (["2025-01-01", "2025-02-28", "2024-12-31"], "date: year, month, weekday"),
        (["31.01.2025", "01.02.2025", "03.02.2025"], "date: month, weekday"),
        (["31/01/2025", "01/02/2025", "03/02/2025"], "date: month, weekday"),
        (["01/31/2025", "01/02/2025", "03/02/2025"], "date: month, weekday"),
        (["20250131", "20250201", "x"], "category"),
        (["20250131", "20250201", "20240101"], "date: year, month, weekday"),
        (["2025-01-01"] * 3, "date: "),
        (["2025-01-01", "2025-01-02"], "category"),  # too few to tell
        (["a", None, None], "category"),
        ([None, None, None], "category"),
    ],
)
def test_dates_are_told_by_public_rows(entries, kind):
    public = pd.DataFrame({"d": pd.Series(entries, dtype=object), "x": 1.0})
    assert TablePreparation().fit(public).words()["d"] == kind


def test_what_new_rows_cannot_share_is_left_out():
    rng = np.random.default_rng(0)
    public = pd.DataFrame(
        {
            "Unnamed: 0": range(60),
            "remark": [f"note {i}" for i in range(60)],
            "town": rng.choice(["rome", *(f"t{i}" for i in range(60))], 60, p=[0.4, *[0.6 / 60] * 60]),
            "ward": rng.choice(["a", "b"], 60),
            "count": range(60),
        }
    )
    found = TablePreparation().fit(public)
    assert found.output_columns == ["town", "ward", "count"]
    assert list(found.transform(public)) == found.output_columns
    assert not found.changes_nothing
    assert TablePreparation().fit(public[["ward", "count"]]).changes_nothing
    few = public[:15]
    assert "remark" in TablePreparation().fit(few).output_columns


def test_time_stamps_of_parquet_are_dates(tmp_path):
    public = pd.DataFrame({"d": pd.date_range("2024-11-01", periods=90, freq="D"), "x": 1.0})
    assert TablePreparation().fit(public).words()["d"] == "date: year, month, weekday"


def test_it_is_a_transformer_of_scikit_learn():
    for one in (TablePreparation("median"), TableEncoder("median")):
        assert clone(one).fit(PUBLIC).feature_names_in_.tolist() == list(PUBLIC)
    encoder = TableEncoder("median").fit(PUBLIC)
    assert encoder.transform(PUBLIC[["seen", "age", "ward"]]).shape[1] == len(encoder.get_feature_names_out())
    array = PUBLIC.to_numpy(dtype=object)
    assert TablePreparation("median").fit(array).transform(array).shape == (4, 5)


def test_bad_input():
    with pytest.raises(InvalidParameterError, match="fill='mean' is unknown: use one of median, nan"):
        TableEncoder("mean").fit(PUBLIC)
    with pytest.raises(DataError, match="X lacks the columns ward"):
        TableEncoder().fit(PUBLIC).transform(PUBLIC.drop(columns="ward"))
    with pytest.raises(DataError, match="has 2 columns, but the public rows had 3"):
        TablePreparation().fit(PUBLIC).transform(np.zeros((1, 2)))
    with pytest.raises(DataError, match="no rows"):
        TablePreparation().fit(PUBLIC[:0])
    with pytest.raises(DataError, match="no column of the public rows can be learned from"):
        TableEncoder().fit(pd.DataFrame({"d": ["2025-01-01"] * 5}))
