"""Frames and series of any library become tables and series of pandas, by their schema alone."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble import LabelMomentsClassifier
from dpensemble.datasets.frames import as_pandas, require_names
from dpensemble.errors import DataError, DPEnsembleError
from dpensemble.moments import TableMap
from dpensemble.workflow import rehearsal

BEYOND = 2**53 + 1


@pytest.mark.parametrize(
    "series",
    [
        pa.array([BEYOND, None]),
        pa.chunked_array([[BEYOND], [None]]),
        pd.Series([BEYOND, None], dtype="Int64"),
        pd.Series([BEYOND, None], dtype="int64[pyarrow]"),
        pd.Series(pd.Categorical.from_codes([0, -1], categories=[BEYOND])),
        pa.array([BEYOND, None]).dictionary_encode(),
    ],
)
def test_an_integer_beside_a_blank_keeps_all_digits(series):
    entries = as_pandas("units", series)
    assert entries.dtype.kind == "i"
    assert np.asarray(entries, dtype=object).tolist() == [BEYOND, pd.NA]


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5), st.none() | st.integers(-9, 9))
def test_no_entry_changes_how_another_is_read(entries, replaced):
    """The kind of the type, and every other entry, stay the same if one entry is replaced by anything."""
    one = as_pandas("y", pa.array([*entries, 1], pa.int64()))
    other = as_pandas("y", pa.array([*entries, replaced], pa.int64()))
    assert one.dtype.kind == other.dtype.kind
    pairs = zip(np.asarray(one, dtype=object)[:-1], np.asarray(other, dtype=object)[:-1], strict=True)
    assert all(a is b or a == b for a, b in pairs)


def test_schema_decides_in_tables():
    full = as_pandas("X", pa.table({"i": [1, BEYOND], "b": [True, False]}))
    holes = as_pandas("X", pa.table({"i": [1, None], "b": [True, None]}))
    assert full.dtypes.tolist() == holes.dtypes.tolist()
    assert full["i"].tolist() == [1, BEYOND]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())]
)
def test_nested_columns_are_refused_by_their_schema(kind):
    with pytest.raises(DataError, match=r"lists, structs or maps \(column 1"):
        as_pandas("X", pa.table({"a": [1], "b": pa.nulls(1, kind)}))


def test_lazy_frames_get_a_sentence():
    polars = pytest.importorskip("polars")
    lazy = polars.LazyFrame({"a": [1.0]})
    with pytest.raises(DataError, match=r"X_public is a lazy LazyFrame.*give X_public\.collect\(\)\.$"):
        LabelMomentsClassifier(classes=[0, 1]).fit(lazy, [1], X_public=lazy)
    with pytest.raises(DataError, match=r"give X\.collect\(\), or read the records in blocks"):
        LabelMomentsClassifier(classes=[0, 1]).fit(lazy, [1], X_public=np.ones((3, 1)))


def test_lazy_frames_of_unknown_libraries_get_a_sentence():
    class Lazy:
        columns = ("a",)

    with pytest.raises(DataError, match="give a table of pandas or Arrow"):
        as_pandas("X", Lazy())


def test_objects_of_polars_are_refused():
    polars = pytest.importorskip("polars")
    with pytest.raises(DataError, match="type Object"):
        as_pandas("X", polars.DataFrame({"a": [object()]}))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["age", "age", "bmi"], r"X_public names a column twice \('age'\)"),
        ([0, 0], r"names a column twice \(0\)"),
        ([0, "age", "bmi"], r"several types, such as .*'age'"),
        ([None, "age", "bmi"], r"without a name \(column 0"),
        (["age", np.nan, "bmi"], r"without a name \(column 1"),
        ([b"age", "age", "bmi"], "several types, such as"),
    ],
)
def test_names_of_public_columns_are_quoted_and_those_of_private_ones_are_not(names, message):
    with pytest.raises(DataError, match=message):
        require_names("X_public", names, quoted=True)
    table = pd.DataFrame(np.ones((4, len(names))), columns=names)
    with pytest.raises(DPEnsembleError, match=message):
        LabelMomentsClassifier(classes=[0, 1]).fit(table, [0, 1, 0, 1], X_public=table)
    with pytest.raises(DataError, match=r"X (names|has)") as caught:
        LabelMomentsClassifier(classes=[0, 1]).fit(table, [0, 1, 0, 1], X_public=pd.DataFrame({"a": [1.0]}))
    assert "age" not in str(caught.value)


@pytest.mark.parametrize("names", [["a", "A", "e\u0301", "\u00e9", "", " "], [0, 1, np.int64(2)], [(1, "a"), (2, "b")]])
def test_distinct_names_of_one_type_are_legal(names):
    require_names("X", names, quoted=True)


def test_one_object_for_both_tables_is_noticed():
    table = pa.table({"a": [1.0, 2.0]})
    with pytest.raises(DataError, match="X_public is X itself"):
        LabelMomentsClassifier(classes=[0, 1]).fit(table, pa.array([0, 1]), X_public=table)


def test_blocks_may_be_frames():
    rng = np.random.default_rng(0)
    table, public = (pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"]) for _ in range(2))
    y = (table["a"] > 0).astype(int)
    settings = {"classes": [0, 1], "epsilon": 4.0, "delta": 1e-4, "insecure_release_seed": 0, "random_state": 0}

    def chances(of):
        def read():
            for part in (slice(0, 100), slice(100, None)):
                yield of(table[part]), of(y[part].to_frame()).column(0) if of is not id_ else y[part]

        model = LabelMomentsClassifier(**settings).fit_blocks(read, X_public=of(public))
        return model.predict_proba(public)

    def id_(rows):
        return rows

    assert np.array_equal(chances(id_), chances(lambda rows: pa.Table.from_pandas(rows, preserve_index=False)))


def test_a_map_finds_columns_by_name():
    public = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [5.0, 9.0, 7.0]})
    features = TableMap(fewest=1).fit(public)
    mixed = pa.Table.from_pandas(public[["b", "a"]], preserve_index=False)
    assert (features.transform(mixed) != features.transform(public)).nnz == 0


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_names_keep_the_character_nul(library):
    frames = pytest.importorskip(library)
    make = frames.DataFrame if library == "polars" else frames.table
    assert list(as_pandas("X", make({"": [1], "\x00": [2], "a\x00b": [3]})).columns) == ["", "\x00", "a\x00b"]


@pytest.mark.parametrize("name", ["self", "cls", "y", "rows", "None", "{x}", "<b>", "a: year", "\n"])
def test_any_text_names_a_column_of_stand_ins(name):
    rows = pd.DataFrame({name: np.arange(100.0), "text": ["a", "b"] * 50})
    bad, labels = rehearsal._with_bad(rows, pd.Series(["yes"] * 100))
    assert list(bad.columns) == [name, "text"]
    assert np.isinf(bad[name]).sum() == labels.isna().sum() == bad["text"].isna().sum() == 4
