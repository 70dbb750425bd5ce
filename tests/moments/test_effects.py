import numpy as np
import pandas as pd
import pytest

from dpensemble.moments import TableMap
from dpensemble.moments.effects import _rows_at, column_effects


def effects_of(public):
    feature_map = TableMap(fewest=2).fit(public)
    coefficients = np.ones((feature_map.n_features_out_, 1))
    return {one["column"]: one for one in column_effects(feature_map, coefficients, public)}


def rows_of(effect):
    return {str(entry): rows for (entry, _), rows in zip(effect["points"], effect["rows"], strict=True)}


def test_public_rows_are_counted_for_each_category():
    public = pd.DataFrame({"ward": ["a"] * 5 + ["b"] * 3 + ["c", "d", None, None]})
    assert rows_of(effects_of(public)["ward"]) == {"a": 5, "b": 3, "any other": 2, "missing": 2}


def test_public_rows_are_counted_at_the_nearest_number():
    rng = np.random.default_rng(0)
    public = pd.DataFrame({"age": rng.normal(60, 10, 400)})
    public.loc[:9, "age"] = np.nan
    effect = effects_of(public)["age"]
    assert sum(effect["rows"]) == 400
    assert rows_of(effect)["missing"] == 10


@pytest.mark.parametrize(("seen", "rows"), [([0.0, 0.4, 0.6, 9.0, np.nan], [2, 2, 1]), ([1.0], [0, 1, 0])])
def test_a_number_counts_for_the_nearest_entry(seen, rows):
    assert _rows_at([(0.0, 0.0), (1.0, 1.0), (np.nan, "missing")], pd.Series(seen), "number") == rows
