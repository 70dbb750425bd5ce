"""Features of tables."""

import numpy as np
import pandas as pd
import pytest

from dpensemble.errors import DataError
from dpensemble.moments import TableMap
from dpensemble.moments.maps.tables import quantiles


@pytest.fixture
def public():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=600)
    numbers[::7] = np.nan
    heaps = np.where(rng.random(600) < 0.9, 0.0, rng.exponential(size=600))
    names = rng.choice(["a", "b", "rare"], size=600, p=[0.6, 0.399, 0.001])
    return pd.DataFrame({"number": numbers, "heap": heaps, "name": names, "same": 1.0})


def lengths(features):
    return np.sqrt(np.asarray(features.power(2).sum(axis=1)).ravel())


def test_every_row_has_length_one_whatever_it_holds(public):
    fitted = TableMap().fit(public)
    hostile = pd.DataFrame(
        {
            "number": [1e300, -1e300, np.nan],
            "heap": [np.nan, -5.0, 1e9],
            "name": ["new", None, "a"],
            "same": [2.0, np.nan, 1.0],
        }
    )
    for rows in (public, hostile):
        features = fitted.transform(rows)
        assert np.allclose(lengths(features), 1, atol=1e-12)
        assert features.min() >= 0
    assert len(fitted.get_feature_names_out()) == fitted.n_features_out_ == len(fitted.blocks_)
    assert np.isclose(fitted.squares_.sum(), 1)


def test_there_is_a_place_for_what_public_rows_lack(public):
    fitted = TableMap().fit(public.dropna())
    names = fitted.get_feature_names_out().tolist()
    assert {"heap is missing", "name is missing", "name = any other"} <= set(names)
    assert "name = rare" not in names
    row = pd.DataFrame({"number": [0.0], "heap": [0.0], "name": ["never seen"], "same": [1.0]})
    assert fitted.transform(row)[0, names.index("name = any other")] > 0


def test_private_rows_never_change_the_columns(public):
    fitted = TableMap().fit(public)
    before = fitted.get_feature_names_out().tolist()
    fitted.transform(pd.DataFrame({"number": [99.0], "heap": [7.0], "name": ["z"], "same": [0.0]}))
    assert fitted.get_feature_names_out().tolist() == before


def test_a_row_is_read_for_itself(public):
    fitted = TableMap().fit(public)
    together = fitted.transform(public).toarray()
    alone = np.vstack([fitted.transform(public.iloc[i : i + 1]).toarray() for i in range(50)])
    assert np.array_equal(together[:50], alone)


def test_a_value_that_many_rows_have_is_one_knot():
    values = np.concatenate([np.zeros(900), np.arange(1.0, 101.0)])
    found = quantiles(values, 9)
    assert found[0] == 0
    assert np.count_nonzero(found > 0) >= 7
    assert found[-1] == 100


def test_finer_knots_need_rows_and_room(public):
    assert TableMap().fit(public.iloc[:40]).n_features_out_ < TableMap().fit(public).n_features_out_
    assert TableMap(most_features=30).fit(public).n_features_out_ <= 30


def test_no_rows_and_other_columns_are_refused(public):
    with pytest.raises(DataError, match="X has no rows"):
        TableMap().fit(public.iloc[:0])
    with pytest.raises(DataError, match="X has 3 columns but the map was fitted on 4"):
        TableMap().fit(public).transform(public.iloc[:, :3])
