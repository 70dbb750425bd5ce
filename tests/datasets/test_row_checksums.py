"""Checksums of rows: the same for the same records in any order and form, and others for anything that changes."""

import numpy as np
import pandas as pd
import pytest

from dpensemble.datasets.row_checksums import RowChecksums

KEY = bytes(range(32))
ROWS = pd.DataFrame({"a": [1.0, np.nan, -0.0, 7.0], "b": ["x", None, "y", "x"], "c": [5, 6, 7, 8]})
TARGETS, UNITS = np.array([0, 1, 1, 0]), pd.Series(["p", "q", "q", "r"])


def of(rows=ROWS, targets=TARGETS, units=UNITS, key=KEY):
    return RowChecksums(key).of(rows, targets, units)


def at(places):
    return of(ROWS.iloc[places], TARGETS[places], UNITS.iloc[places])


def test_the_order_and_the_parts_do_not_matter():
    assert at([3, 1, 0, 2]) == of() == (at([0, 2]) + at([1, 3])) % 2**128
    assert 0 <= of() < 2**128


def test_the_form_does_not_matter():
    same = ROWS.assign(a=[1, np.nan, 0.0, 7.0], c=pd.array([5, 6, 7, 8], dtype="Int32"), b=ROWS["b"].astype("category"))
    assert of(same.set_index(pd.Index([9, 3, 1, 2]))) == of()
    numbers = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert of(numbers, TARGETS[:2], [5, 6]) == of(pd.DataFrame(numbers), TARGETS[:2], [5.0, 6.0])


@pytest.mark.parametrize("places", [[0, 1, 2], [0, 1, 2, 2], [0, 1, 2, 3, 3], [0, 0, 2, 3], []])
def test_lost_and_repeated_rows_are_noticed(places):
    if places:
        assert at(places) != of()
    assert of() != 0


def changed():
    yield {"rows": ROWS.assign(a=[1.0, np.nan, 0.0, np.nextafter(7.0, 8.0)])}
    yield {"rows": ROWS.assign(a=[1.0, 0.0, 0.0, 7.0])}
    yield {"rows": ROWS.assign(b=["x", "", "y", "x"])}
    yield {"rows": ROWS.assign(b=["x", "None", "y", "x"])}
    # The same entries in other rows.
    yield {"rows": ROWS.assign(a=[7.0, np.nan, 0.0, 1.0])}
    yield {"targets": TARGETS[::-1].copy()[[1, 0, 2, 3]]}
    yield {"units": UNITS[[3, 1, 2, 0]].reset_index(drop=True)}
    yield {"units": None}
    yield {"key": bytes(32)}


@pytest.mark.parametrize("change", list(changed()), ids=range(9))
def test_every_change_is_noticed(change):
    assert of(**change) != of()


def test_lists_are_hashed_by_their_text():
    rows = pd.DataFrame({"a": [[1, 2], [3]]})
    assert of(rows, TARGETS[:2], None) != of(rows.iloc[::-1], TARGETS[:2], None)


def test_keys_are_new_every_time():
    one, other = (RowChecksums.of_new_key().of(ROWS, TARGETS) for _ in range(2))
    assert one != other


def test_a_unit_has_one_hash_whatever_comes_before_it():
    # pandas counts 1 and True as one entry, and keeps the first of them.
    hashes = RowChecksums(KEY)
    alone, after_1 = (hashes.texts(pd.Series(units, dtype=object))[-1] for units in ([True], [1, None, True]))
    assert np.array_equal(alone, after_1)
    one, same = hashes.texts(pd.Series([5, 5.0], dtype=object))
    assert np.array_equal(one, same)
