"""What is asked of rows that may be an array, a table, a list or a sparse matrix."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dpensemble._entries import dense, is_table, row_count, rows_at

VALUES = np.arange(12.0).reshape(4, 3)
KINDS = {
    "array": VALUES,
    "table": pd.DataFrame(VALUES, index=[7, 3, 3, 0]),
    "list": VALUES.tolist(),
    "sparse matrix": sparse.csr_matrix(VALUES),
    "sparse array": sparse.csr_array(VALUES),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_counted_and_taken_by_position(kind):
    rows = KINDS[kind]
    assert row_count(rows) == 4
    part = rows_at(rows, slice(1, 3))
    assert type(part) is type(rows)
    assert np.array_equal(np.asarray(dense(part)), VALUES[1:3])
    assert row_count(rows_at(rows, slice(0))) == 0


def test_rows_of_a_series_are_taken_by_position():
    assert rows_at(pd.Series([5, 6, 7], index=[2, 1, 0]), slice(0, 1)).tolist() == [5]


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_table_has_named_columns(kind):
    assert is_table(KINDS[kind]) == (kind == "table")


@pytest.mark.parametrize("kind", ["array", "table", "list"])
def test_what_is_dense_stays_as_it_is(kind):
    assert dense(KINDS[kind]) is KINDS[kind]
