"""Memory of texts is given back."""

import sys

import pandas as pd

from dpensemble.datasets.columns import release_unused


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
