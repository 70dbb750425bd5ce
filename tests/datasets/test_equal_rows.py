"""Public rows that equal private records, and tables that share memory."""

import numpy as np
import pandas as pd
import pytest

from dpensemble.datasets import load_adult, three_way_split
from dpensemble.datasets.equal_rows import ComparedOnce, equal_rows, share_memory

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
