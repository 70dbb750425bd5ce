"""Columns that are converted many at a time come out as each would alone.

Memory of texts is given back.

Public rows that equal private records, and tables that share memory.
"""

import decimal
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import StandardScaler

from dpensemble.datasets import fit_encoder, load_adult, read_table, three_way_split
from dpensemble.datasets import tables as readers
from dpensemble.datasets.columns import (
    ComparedOnce,
    equal_rows,
    is_number,
    number_columns,
    release_unused,
    share_memory,
)
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
