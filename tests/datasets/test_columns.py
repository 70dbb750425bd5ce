"""Columns that are converted many at a time come out as each would alone.

Memory of texts is given back.

Public rows that equal private records, and tables that share memory.
"""

import decimal
import sys
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import StandardScaler

from dpensemble._checks import is_missing
from dpensemble.datasets import columns, fit_encoder, load_adult, read_table, three_way_split
from dpensemble.datasets import tables as readers
from dpensemble.datasets.columns import (
    ComparedOnce,
    as_text,
    distinct_entries,
    distinct_texts,
    encoded_texts_of,
    equal_rows,
    filled_texts,
    is_number,
    number_columns,
    places_among,
    plain_texts,
    release_unused,
    share_memory,
    text_of,
    texts_of,
)
from dpensemble.datasets.dates import date_parts
from dpensemble.datasets.preparation import numeric_columns
from dpensemble.errors import DataError

KINDS = {
    "floats": lambda rng, n: rng.normal(size=n),
    "integers": lambda rng, n: rng.integers(0, 9, n),
    "small": lambda rng, n: rng.normal(size=n).astype("float32"),
    "truth": lambda rng, n: rng.random(n) < 0.5,
    "texts": lambda rng, n: rng.choice(np.array(["a", "5", "5.0", None], dtype=object), n),
    "written": lambda rng, n: rng.choice(np.array(["1", "2.5", " 3 ", "1e5", None, "-0"], dtype=object), n),
    "nullable": lambda rng, n: pd.array(rng.choice(np.array([1, 2, None], dtype=object), n), dtype="Int64"),
    "maybe": lambda rng, n: pd.array(rng.choice(np.array([True, None], dtype=object), n), dtype="boolean"),
    "category": lambda rng, n: pd.Categorical(rng.choice(["x", "y"], n)),
    "mixed": lambda rng, n: rng.choice(np.array([1, 2.5, True, None, "7"], dtype=object), n),
    "decimal": lambda rng, n: rng.choice(np.array([decimal.Decimal("1.5"), None], dtype=object), n),
    "days": lambda rng, n: pd.to_datetime(rng.choice(["2020-01-01", "2021-02-03"], n)),
    "arrow": lambda rng, n: pd.array(rng.integers(0, 9, n), dtype="int64[pyarrow]"),
    "empty": lambda rng, n: np.full(n, np.nan),
}


def outcome(work, *given, **settings):
    try:
        return work(*given, **settings)
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(40))
def test_many_columns_are_read_as_each_alone(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    monkeypatch.setattr("dpensemble.datasets.columns._ENTRIES_AT_ONCE", int(rng.integers(1, 40)))
    names = rng.permutation(list(KINDS))[: rng.integers(1, 9)].tolist()
    n = int(rng.integers(1, 7))
    table = pd.DataFrame({name: KINDS[name](rng, n) for name in names}, index=rng.permutation(n))
    assert number_columns(table).tolist() == [is_number(table[name]) for name in names]
    numeric = [name for name in names if rng.random() < 0.6]
    alone = {name: outcome(readers.as_kinds, "new", table[[name]], [c for c in numeric if c == name]) for name in names}
    together = outcome(readers.as_kinds, "new", table, numeric)
    refused = [found for found in alone.values() if isinstance(found, str)]
    if refused:
        assert together in refused
    else:
        assert list(together) == names
        for name in names:
            pd.testing.assert_frame_equal(together[[name]], alone[name])
    bad = [name for name in names if outcome(readers.require_complete, "t", table[[name]]) is not None]
    found = outcome(readers.require_complete, "t", table)
    assert (found is None) == (not bad)
    assert not bad or f"values in {', '.join(bad)} (the first in row" in found


def test_a_huge_integer_is_read_by_itself():
    """Beside fractions pandas reads it as a float, alone as an integer: no entry may decide that for another."""
    alone = pd.DataFrame({"id": ["9007199254740993"]})
    beside = pd.DataFrame({"id": ["9007199254740993", "0.5"]})
    found = [readers.as_kinds("new", table, ["id"])["id"].iloc[0] for table in (alone, beside)]
    assert found[0] == found[1]


def test_thousands_of_columns_cost_a_few_calls(tmp_path, monkeypatch):
    """One call a column took minutes for the 16,000 columns of a usual table of genes."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(np.round(rng.normal(size=(6, 1200)), 3), columns=[f"gene {i}" for i in range(1200)])
    table.insert(7, "town", ["York", "Bath"] * 3)
    table.to_csv(tmp_path / "t.csv", index=False)
    calls = {"to_numeric": 0, "notna": 0}
    plain, present = pd.to_numeric, pd.Series.notna
    monkeypatch.setattr(
        pd, "to_numeric", lambda *a, **k: calls.update(to_numeric=calls["to_numeric"] + 1) or plain(*a, **k)
    )
    monkeypatch.setattr(pd.Series, "notna", lambda s: calls.update(notna=calls["notna"] + 1) or present(s))
    public = read_table(tmp_path / "t.csv", guess=True)
    private = readers.take_kinds("private", read_table(tmp_path / "t.csv"), public)
    readers.require_complete("private", private)
    assert calls["to_numeric"] <= 4
    assert calls["notna"] <= 4
    pd.testing.assert_frame_equal(private, table.astype({"town": object}), check_dtype=False)
    assert list(private) == list(table)


def test_an_encoder_looks_for_no_column_by_name(tmp_path):
    """Names in a list take minutes to find if there are 100,000. The reader finds them by name nevertheless."""
    public = pd.DataFrame({"a": [1.0, 3.0], "b": ["x", "y"], "c": [2.0, 4.0]})
    encoder = fit_encoder(public)
    assert all(isinstance(columns, np.ndarray) and columns.dtype == bool for _, _, columns in encoder.transformers)
    assert numeric_columns(encoder) == ["a", "c"]
    assert encoder.transform(public[["c", "b", "a"]]).tolist() == encoder.transform(public).tolist()
    earlier = ColumnTransformer([("numbers", StandardScaler(), ["a", "c"])]).fit(public)
    assert numeric_columns(earlier) == ["a", "c"]


def test_the_pool_is_told_where_there_is_one(monkeypatch):
    told = []

    class Pool:
        def release_unused(self):
            told.append(True)

    class Arrow:
        default_memory_pool = Pool

    monkeypatch.setitem(sys.modules, "pyarrow", Arrow)
    release_unused()
    assert told == [True]
    monkeypatch.delitem(sys.modules, "pyarrow")
    release_unused()
    assert told == [True]


def test_texts_that_are_held_stay_as_they_are():
    texts = pd.Series(["a", None, "long " * 100], dtype="string")
    before = texts.copy()
    release_unused()
    pd.testing.assert_series_equal(texts, before)


RNG = np.random.default_rng(0)


def brute_force(private, public):
    rows = {tuple(row) for row in private.astype(object).where(private.notna(), "?").itertuples(index=False)}
    there = list(public.astype(object).where(public.notna(), "?").itertuples(index=False))
    return sum(tuple(row) in rows and set(row) != {"?"} for row in there)


def drawn(n, rng):
    table = pd.DataFrame({"a": rng.choice([0.0, 1.0, np.nan], n), "b": rng.choice(["x", "y", None], n)})
    return table.assign(c=rng.integers(0, 4, n).astype(float))


@pytest.mark.parametrize("seed", range(5))
def test_the_count_is_that_of_comparing_every_pair(seed):
    rng = np.random.default_rng(seed)
    private, public = drawn(20, rng), drawn(30, rng)
    assert equal_rows(private, public).n_equal == brute_force(private, public)
    assert equal_rows(private[["c", "b", "a"]], public).n_equal == brute_force(private, public)
    arrays = private[["a", "c"]], public[["a", "c"]]
    assert equal_rows(arrays[0].to_numpy(), arrays[1]).n_equal == brute_force(*arrays)
    read = ComparedOnce(lambda: iter([(private[:7], None), (private[7:], None)]), public)
    assert [len(X) for X, _ in [*read(), *read()]] == [7, 13] * 2
    assert read.equal.n_equal == brute_force(private, public)


def test_numbers_are_compared_as_numbers_and_zero_has_one_form():
    private = pd.DataFrame({"a": ["1", "0", "x"], "b": ["5", "u", "v"]})
    public = pd.DataFrame({"a": [1.0, -0.0], "b": ["5", "u"]})
    assert equal_rows(private, public).n_equal == 2
    assert equal_rows(np.zeros((2, 3)), np.zeros((2, 4))).n_equal == 0
    assert equal_rows(None, public) is None or not equal_rows(None, public).n_equal


def test_rows_of_few_distinct_values_are_equal_by_chance():
    for trial in range(60):
        rng = np.random.default_rng(trial)
        sizes = rng.integers(2, 60, rng.integers(1, 5))
        shares = [rng.dirichlet(np.full(size, rng.choice([0.1, 1, 5]))) for size in sizes]
        private, public = (
            np.column_stack([rng.choice(len(p), n, p=p) for p in shares]).astype(float)
            for n in (int(rng.integers(100, 5000)), int(rng.integers(20, 1000)))
        )
        assert not equal_rows(private, public).beyond_chance


def test_copies_and_samples_are_more_than_chance():
    X = RNG.normal(size=(400, 3))
    for public in (X, X[:200], np.vstack([X[:100], RNG.normal(size=(200, 3))])):
        assert equal_rows(X, public).beyond_chance
        # Also if every record is there twice.
        assert equal_rows(np.vstack([X, X]), public).beyond_chance
    assert not equal_rows(X, np.vstack([X[:60], RNG.normal(size=(300, 3))])).beyond_chance


def test_in_the_packaged_data_some_rows_are_equal_by_chance():
    adult = load_adult()
    split = three_way_split(len(adult.X), 0)
    private = adult.X.iloc[split.private]
    equal = equal_rows(private, adult.X.iloc[split.public])
    assert (equal.n_equal, equal.beyond_chance) == (19, False)
    assert equal_rows(private, private.sample(1000, random_state=0)).beyond_chance


def test_only_overlapping_memory_is_shared():
    X = RNG.normal(size=(600, 4))
    table = pd.DataFrame(X, columns=list("abcd"))
    for rows, other, shared in [
        (X, X, True),
        (X, X[:200], True),
        (X[:400], X[300:], True),
        (X[:400], X[400:], False),
        (X[::2], X[1::2], False),
        (X[:, :2], X[:, 2:], False),
        (X, X.copy(), False),
        (table, table[:200], True),
        (table[:400], table[400:], False),
        (table, table.copy(), False),
        (table, table.sample(100, random_state=0), False),
        (None, None, False),
        (X, None, False),
    ]:
        assert share_memory(rows, other) is shared


class _Loud(str):
    """A text that is written otherwise than it compares."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{super().__str__()}!"


_ALIKE = [1, True, 1.0, "1", "1.0", "1.00", Decimal("1.0"), Decimal("1.00"), np.float64(1), np.int64(1), np.True_]
_ZEROS = [0, False, 0.0, -0.0, "0", Decimal(0)]
_MISSING = [None, float("nan"), pd.NA, pd.NaT, np.float64("nan")]
_OTHERS = [
    1.5,
    "a",
    "A",
    "",
    " a",
    _Loud("a"),
    np.str_("a"),
    b"a",
    ("a", 1),
    date(2025, 3, 1),
    "2025-03-01",
    "now",
    10**400,
]
_ENTRIES = st.lists(st.sampled_from([*_ALIKE, *_ZEROS, *_MISSING, *_OTHERS]) | st.text(max_size=3), max_size=12)


def _column(entries: list[Any]) -> pd.Series:
    column = np.empty(len(entries), dtype=object)
    for place, entry in enumerate(entries):
        column[place] = entry
    return pd.Series(column, dtype=object)


def _shown(entry: Any) -> tuple[str, str]:
    return type(entry).__name__, str(entry)


@given(_ENTRIES)
def test_the_text_of_an_entry_does_not_depend_on_the_entries_beside_it(entries):
    together = as_text(_column(entries)).tolist()
    alone = [as_text(_column([entry])).tolist()[0] for entry in entries]
    written = [entry if is_missing(entry) else text_of(entry) for entry in entries]
    assert list(map(_shown, together)) == list(map(_shown, alone)) == list(map(_shown, written))


@given(_ENTRIES)
def test_entries_share_a_place_only_if_they_are_of_one_type_and_written_alike(entries):
    places, distinct = distinct_entries(_column(entries))
    for entry, place in zip(entries, places.tolist(), strict=True):
        assert place == -1 if is_missing(entry) else type(distinct[place]) is type(entry)
        assert place == -1 or text_of(distinct[place]) == text_of(entry)


@given(_ENTRIES, _ENTRIES)
def test_encoded_texts_are_the_texts_of_each_entry(first, second):
    size = min(len(first), len(second))
    table = pd.DataFrame({"a": _column(first[:size]), "b": _column(second[:size])})
    pd.testing.assert_frame_equal(plain_texts(encoded_texts_of(table)), texts_of(table))
    for name in table:
        assert as_text(table[name]).isna().tolist() == texts_of(table)[name].isna().tolist()
    filled = plain_texts(filled_texts(encoded_texts_of(table), "a"))
    pd.testing.assert_frame_equal(filled, texts_of(table).fillna("a").astype(object))


# Earlier versions of pandas write a missing entry as "None" under this type.
STR = ["str"] if pd.Series(["a"]).dtype != object else []


@pytest.mark.parametrize("kind", [*STR, "string", "string[python]", "category", object])
@given(entries=st.lists(st.sampled_from(["a", "A", "1", "1.0", "2025-03-01", None]), max_size=8))
def test_texts_of_every_type_are_read_alike(kind, entries):
    column = pd.Series(entries, dtype=object).astype(kind)
    places, texts = distinct_texts(column)
    assert [None if place < 0 else texts[place] for place in places] == entries
    assert places_among(column, ["1", "a"], other=7, missing=8).tolist() == [
        {"1": 0, "a": 1, None: 8}.get(entry, 7) for entry in entries
    ]


@pytest.mark.parametrize("kind", ["bool", "boolean", "Int64", "int8", "float32", "datetime64[s]", "category"])
def test_entries_of_every_type_of_pandas_are_written_as_objects_are(kind):
    column = pd.Series([1, 0, 1, 0, 0] if kind == "category" else pd.array([1, 0, 1, 0, 0])).astype(kind)
    assert as_text(column).tolist() == [text_of(entry) for entry in column.astype(object)]
    assert len(distinct_entries(column)[1]) == 2


@given(st.lists(st.sampled_from([" 2025-03-01T10:00", "2025-03-01", "now", "today", "5 now", "", None, 7, "\ud800"])))
def test_the_day_of_an_entry_does_not_depend_on_the_entries_beside_it(entries):
    together = date_parts(_column(entries), "%Y-%m-%d")
    for place, entry in enumerate(entries):
        alone = date_parts(_column([entry]), "%Y-%m-%d")
        expected = [2025.0, 3.0, "Saturday"] if isinstance(entry, str) and "2025" in entry else [None] * 3
        for values in (alone, {part: column[place:] for part, column in together.items()}):
            assert [None if is_missing(one.iloc[0]) else one.iloc[0] for one in values.values()] == expected


def test_each_distinct_entry_is_written_once(monkeypatch):
    calls = []
    monkeypatch.setattr(columns, "text_of", lambda entry: calls.append(entry) or text_of(entry))
    column = _column([5, "five", 5.0, None, True] * 100)
    assert as_text(column)[:5].tolist() == ["5", "five", "5", None, "True"]
    assert list(map(_shown, calls)) == [("int", "5"), ("str", "five"), ("float", "5.0"), ("bool", "True")]


def test_categories_that_no_entry_has_are_not_read(monkeypatch):
    calls = []
    monkeypatch.setattr(columns, "text_of", lambda entry: calls.append(entry) or text_of(entry))
    column = pd.Series(pd.Categorical([7, None, 9], categories=range(1000)))
    assert as_text(column).fillna("blank").tolist() == ["7", "blank", "9"]
    assert len(calls) == 2


def test_very_many_columns_of_texts_are_no_categories():
    table = pd.DataFrame([["a"] * 501])
    assert encoded_texts_of(table).dtypes.unique().tolist() == [np.dtype(object)]


def test_blanks_are_filled_where_only_some_columns_are_encoded():
    """Parts of a table with very many columns stay texts, and which columns are in a part depends on the rows."""
    table = pd.DataFrame({"a": ["x", None], "b": ["y", None]})
    mixed = pd.concat([encoded_texts_of(table[["a"]]), table[["b"]]], axis=1)
    assert plain_texts(filled_texts(mixed, "?")).to_dict("list") == {"a": ["x", "?"], "b": ["y", "?"]}


def test_a_signaling_nan_is_an_entry_that_is_not_a_number():
    """pandas refuses to look for blanks in a column that holds one."""
    part = pd.DataFrame({"a": [1.0, Decimal("sNaN"), None], "b": [None, 2, Decimal(3)]}, dtype=object)
    values, has_others = columns.numbers_of(part)
    np.testing.assert_equal(values, [[1, np.nan], [np.nan, 2], [np.nan, 3]])
    assert has_others.tolist() == [True, False]
