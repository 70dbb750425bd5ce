"""What is asked of rows that may be an array, a table, a list or a sparse matrix."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dpensemble._entries import dense, in_blocks, is_table, row_count, rows_at
from dpensemble.errors import DataError

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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 3, 4, 100, None])
def test_blocks_have_the_result_of_each_row(kind, size):
    sizes = []

    def read(rows):
        sizes.append(row_count(rows))
        return np.asarray(dense(rows)).sum(axis=1)

    assert np.array_equal(in_blocks(KINDS[kind], read, size=size), VALUES.sum(axis=1))
    assert sizes == {1: [1] * 4, 3: [3, 3], 4: [4]}.get(size, [64])


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_are_one_block(kind):
    none = rows_at(KINDS[kind], slice(0))
    assert in_blocks(none, lambda rows: np.full(row_count(rows), 7.0)).shape == (0,)


def test_the_rows_of_a_table_keep_their_numbers():
    numbers = []
    table = pd.DataFrame({"a": np.arange(130)})
    in_blocks(table, lambda rows: numbers.append(rows.index) or rows["a"].to_numpy(), size=70)
    in_blocks(table[30:], lambda rows: numbers.append(rows.index) or rows["a"].to_numpy(), size=70)
    assert [(index.start, index.stop) for index in numbers] == [(0, 64), (64, 128), (128, 192), (30, 94), (94, 158)]


def test_an_unreadable_entry_is_named_by_its_row_among_all():
    rows = np.zeros((200, 2), dtype=object)
    rows[150, 1] = 1j
    with pytest.raises(DataError, match="first in row 150, column 1"):
        in_blocks(rows, lambda block: block[:, 0], size=64)


def test_blocks_of_wide_rows_are_small():
    sizes = []
    in_blocks(np.zeros((300, 2**12), dtype=np.int8), lambda rows: sizes.append(len(rows)) or rows[:, 0])
    assert sizes == [64] * 5


def test_a_warning_about_names_comes_once_for_all_blocks():
    def read(rows):
        warnings.warn("X does not have valid feature names, but the model was fitted with names", stacklevel=1)
        return rows[:, 0]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        in_blocks(np.zeros((300, 2)), read, size=64)
    assert len(caught) == 1
