import numpy as np
import pandas as pd
import pytest

from dpensemble.datasets import fit_encoder, load_adult, read_table, three_way_split
from dpensemble.datasets.columns import as_text
from dpensemble.datasets.tables import require_complete, take_kinds
from dpensemble.errors import DataError, FileError, InvalidParameterError


def test_adult_is_whole_and_licensed():
    adult = load_adult()
    assert adult.X.shape == (48_842, 14)
    assert adult.y.value_counts().to_dict() == {"<=50K": 37_155, ">50K": 11_687}
    assert "CC BY 4.0" in adult.licence
    assert fit_encoder(adult.X).transform(adult.X[:3]).shape == (3, 108)


@pytest.mark.parametrize("n", [3, 4, 5, 1000])
def test_the_split_is_in_thirds_and_repeats_with_the_seed(n):
    split = three_way_split(n, random_state=1)
    parts = [split.private, split.public, split.test]
    assert sorted(np.concatenate(parts)) == list(range(n))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    again = three_way_split(n, random_state=1)
    assert np.array_equal(split.private, again.private)


def test_too_few_rows_cannot_be_split():
    with pytest.raises(InvalidParameterError, match="n_rows=2"):
        three_way_split(2)


def test_the_encoder_ignores_what_no_public_row_has():
    public = pd.DataFrame({"a": [1.0, 3.0], "b": ["x", "y"], "c": [True, False]})
    encoded = fit_encoder(public).transform(pd.DataFrame({"a": [2.0], "b": ["z"], "c": [True]}))
    assert encoded.tolist() == [[0, 0, 0, 0, 1]]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_tables_round_trip(tmp_path, name):
    table = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    path = tmp_path / name
    table.to_parquet(path) if name.endswith("parquet") else table.to_csv(path, index=False)
    found = read_table(path, guess=True)
    assert found["a"].tolist() == [1, 2]
    assert found["b"].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("t.ods", "a", FileError, "use .csv"),
        ("t.xlsx", "a", FileError, "it is not an Excel workbook"),
        ("missing.csv", None, FileError, "cannot be read: there is no such file"),
        ("t.csv", "", FileError, "cannot be read"),
        ("t.csv", "a,b\n", DataError, "has no rows"),
        ("t.parquet", "not parquet", FileError, "cannot be read: it is not a parquet table"),
    ],
)
def test_unreadable_tables_are_refused_in_one_sentence(tmp_path, name, content, error, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(error, match=message) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("values", [[1.0, np.nan], [np.inf, 1.0], ["x", None]])
def test_missing_and_infinite_entries_are_refused(values):
    with pytest.raises(DataError, match=r"missing .NaN. or infinite values in b .the first in row"):
        require_complete("the table", pd.DataFrame({"a": [1, 2], "b": values}))


def test_columns_must_agree_in_name_and_kind():
    public = pd.DataFrame({"a": [1], "b": ["x"]})
    assert list(take_kinds("private", public[["b", "a"]], public)) == ["a", "b"]
    with pytest.raises(DataError, match="the private table lacks the columns b, which"):
        take_kinds("private", pd.DataFrame({"a": [1], "c": [1]}), public)
    with pytest.raises(DataError, match=r"columns that the public table lacks: 'c'; drop them .--drop., or name"):
        take_kinds("private", pd.DataFrame({"a": [1], "b": ["x"], "c": [1]}), public)
    # A name that begins with a digit may be a record of a table without a header.
    with pytest.raises(DataError, match=r"lacks: 1 of 3; drop"):
        take_kinds("private", pd.DataFrame({"a": [1], "b": ["x"], "1972": [1]}), public)
    with pytest.raises(
        DataError, match="column 'a' is numbers in the public table but has entries that are not numbers"
    ):
        take_kinds("private", pd.DataFrame({"a": ["1", "old"], "b": ["x", "y"]}), public)
    with pytest.raises(DataError, match="column 'b' is text in the public table but numbers in the private"):
        take_kinds("private", pd.DataFrame({"a": [1], "b": [1]}), public)


def test_errors_of_estimators_name_the_parameters_of_python():
    public = pd.DataFrame({"a": [1.0], "b": ["x"]})
    for table, words in (
        (public.assign(c=1), r"^X has columns that X_public lacks: 'c'; leave them out, or give .* as units=\.$"),
        (public[["a"]], r"^X lacks the columns b, which X_public has: add them to X, or leave them out of X_public\.$"),
        (
            public.assign(a=["1,5"]),
            r"'a' is numbers in X_public .* in X \(.*; if .* read the table with decimal=\",\"\.$",
        ),
        (public.assign(b=[2.0]), r"^column 'b' is text in X_public but numbers in X: write both alike\.$"),
    ):
        with pytest.raises(DataError, match=words):
            take_kinds("X", table, public)


def test_no_private_row_decides_how_another_is_read(tmp_path):
    """One odd entry must not turn a column from numbers into text, nor ids into floats."""
    public = pd.DataFrame({"code": ["1", "x"], "size": [1.5, 2.0]})
    rows = [f"{i % 7},{i},0{i}" for i in range(300)]
    found = {}
    for name, last in (("usual", "3,4,0300"), ("odd", "abc,4.5,A1")):
        (tmp_path / f"{name}.csv").write_text("\n".join(["code,size,who", *rows, last]))
        table = read_table(tmp_path / f"{name}.csv")
        whose = as_text(table.pop("who"))
        found[name] = take_kinds("private", table, public).iloc[:300].assign(who=whose[:300])
    assert found["usual"].astype(str).equals(found["odd"].astype(str))
    assert found["odd"]["who"].tolist()[:2] == ["00", "01"]


def test_entries_are_written_each_for_itself():
    assert as_text(pd.Series([5, 5.0, 5.5, "5", True], dtype=object)).tolist() == ["5", "5", "5.5", "5", "True"]


@pytest.mark.parametrize("kind", [object, "str", "category"])
def test_texts_are_written_as_they_are_whatever_lies_beside_them(kind):
    texts = pd.Series(["5.0", "x", ""], dtype=kind, index=[4, 2, 9], name="a")
    written = as_text(texts)
    assert written.tolist() == as_text(pd.Series(["5.0", "x", "", 5.0], dtype=object)).tolist()[:3]
    assert written.tolist() == as_text(pd.Series(["5.0", "x", "", None], dtype=object)).tolist()[:3]
    assert (written.dtype, written.name, written.index.tolist()) == (object, "a", [4, 2, 9])


def test_one_long_row_does_not_shift_all_others(tmp_path):
    rows = "7,x,x,y,n\n8,y,y,x,n\n"
    (tmp_path / "t.csv").write_text("u,t,f,g,note\n" + rows.replace("n\n", "n,oops\n", 1))
    with pytest.raises(FileError, match="line 2 has 6 entries, but the header has 5"):
        read_table(tmp_path / "t.csv")
    with pytest.raises(DataError, match="its rows have more entries than its header"):
        read_table(tmp_path / "t.csv", multiline_text=True)
    (tmp_path / "t.csv").write_text("u,t,u\n1,2,3\n")
    with pytest.raises(DataError, match="names a column twice"):
        read_table(tmp_path / "t.csv")
