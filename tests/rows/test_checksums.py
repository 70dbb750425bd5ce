"""Checksums of rows: the same for the same records in any order and form, and others for anything that changes.

SipHash against published values, and one message at a time against many.
"""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from dpensemble.rows.checksums import RowChecksums, siphash

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


@pytest.mark.parametrize("n_words", [1, 127, 128, 129, 300])
def test_sums_of_pieces_are_those_of_pythons_integers(n_words):
    """Also when a row needs several products, and for the largest pieces and coefficients."""
    hashes = RowChecksums(KEY)
    coefficients = hashes._coefficients_of(n_words)
    assert coefficients.shape == (4 * n_words, 6)
    assert 0 <= coefficients.min() <= coefficients.max() < 2**28
    rows = np.random.default_rng(0).integers(0, 2**63, (3, n_words), dtype=np.uint64)
    rows[0] = 2**64 - 1
    sums = hashes._sums(rows.view(np.float64))
    for row, own in zip(rows.tolist(), sums.T.tolist(), strict=True):
        pieces = [word >> 16 * place & 0xFFFF for word in row for place in range(4)]
        whole = coefficients.astype(int).tolist()
        wanted = [sum(piece * c[j] for piece, c in zip(pieces, whole, strict=True)) for j in range(6)]
        assert own == [*(one % 2**64 for one in wanted), n_words]
    assert 512 * (2**16 - 1) * (2**28 - 1) < 2**53


def test_shorter_rows_have_the_first_coefficients_of_longer_rows():
    one, other = RowChecksums(KEY), RowChecksums(KEY)
    longer = one._coefficients_of(50)
    assert np.array_equal(other._coefficients_of(7), longer[:28])
    assert np.array_equal(one._coefficients_of(7), longer[:28])


def test_two_rows_seldom_have_one_sum():
    """Step 1 of the proof by trying all coefficients: rows of three pieces of 2 bits, coefficients of 3 bits."""
    rows = np.array(list(product(range(4), repeat=3)))
    sums = np.array(list(product(range(8), repeat=3))) @ rows.T
    for place in range(len(rows)):
        equal = (sums == sums[:, [place]]).mean(axis=0)
        assert equal[place] == 1
        assert np.delete(equal, place).max() <= 1 / 8


def test_two_collections_seldom_have_one_sum_of_hashes():
    """Step 2 by trying all functions from three rows to hashes of 3 bits, for up to three copies of each row."""
    functions = np.array(list(product(range(8), repeat=3)))
    collections = np.array(list(product(range(4), repeat=3)))
    totals = functions @ collections.T % 8
    for place, one in enumerate(collections):
        equal = (totals == totals[:, [place]]).mean(axis=0)
        differences = np.abs(collections - one)
        # The bound holds for each row in which the collections differ, so for the one that differs least.
        least = np.where(differences == 0, 8, differences).min(axis=1)
        assert (equal <= least / 8).all()


def test_no_change_of_two_rows_cancels():
    """A sum of linear hashes would not notice that one row gained what another row lost."""
    rows = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 6.0]])
    pieces = np.array([[10, 20, 30, 40], [11, 21, 31, 41]], dtype="<u2").view(np.float64)
    shifted = np.array([[11, 20, 30, 40], [10, 21, 31, 41]], dtype="<u2").view(np.float64)
    assert of(pieces, TARGETS[:2], None) != of(shifted, TARGETS[:2], None)
    swapped = rows.copy()
    swapped[[0, 1], 0] = rows[[1, 0], 0]
    assert of(swapped, TARGETS[[0, 0, 1]], None) == of(rows, TARGETS[[0, 0, 1]], None)
    assert of(swapped, TARGETS[:3], None) != of(rows, TARGETS[:3], None)


def test_a_checksum_in_order_covers_the_place_of_each_row():
    rows, targets = np.array([[1.0, 2.0], [3.0, np.nan], [1.0, 2.0]]), np.array([0, 1, 0])
    checksums = RowChecksums.of_new_key()
    whole = checksums.in_order(rows, targets, 0)
    by_part = checksums.in_order(rows[:1], targets[:1], 0) + checksums.in_order(rows[1:], targets[1:], 1)
    assert by_part % 2**128 == whole
    # Equal rows may change places.
    assert checksums.in_order(rows[[2, 1, 0]], targets[[2, 1, 0]], 0) == whole
    assert checksums.in_order(rows[[1, 0, 2]], targets[[1, 0, 2]], 0) != whole
    assert checksums.in_order(rows, targets, 1) != whole


SHORT_KEY = bytes(range(16))
# Of the messages 00, 01, 02 and so on. The first is in the reference implementation, the others come from OpenSSL.
HASHES = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "3b62a9ba6258f5610f83e264f31497b4",
    3: "2db479ae78bd50d8882a8a178a6132ad",
}


@pytest.mark.parametrize("n_words", HASHES)
def test_hashes_are_those_of_other_implementations(n_words):
    message = np.frombuffer(bytes(range(8 * n_words)), dtype="<u8")
    # A message without words still has a row.
    words = np.repeat(message[:, None], 2, axis=1)
    low, high = siphash(words, SHORT_KEY)
    assert {one.tobytes().hex() + other.tobytes().hex() for one, other in zip(low, high, strict=True)} == {
        HASHES[n_words]
    }


def test_messages_and_keys_do_not_mix():
    words = np.random.default_rng(0).integers(0, 2**63, (6, 50), dtype=np.uint64)
    before = words.copy()
    together = np.array(siphash(words, SHORT_KEY))
    alone = np.hstack([np.array(siphash(words[:, [place]], SHORT_KEY)) for place in range(50)])
    assert np.array_equal(together, alone)
    assert len({tuple(one) for one in together.T.tolist()}) == 50
    assert not np.array_equal(together, np.array(siphash(words, bytes(16))))
    assert np.array_equal(words, before)


def test_categories_have_the_checksums_of_their_texts():
    entries, targets = ["x", None, "y", 1, 2.0], np.arange(5)
    checksums = RowChecksums.of_new_key()
    texts = pd.DataFrame({"a": pd.Series(entries, dtype=object)})
    for categories in (["y", "x", 1, 2.0], [2.0, 1, "x", "y", "unused"]):
        encoded = pd.DataFrame({"a": pd.Categorical(entries, categories=categories)})
        assert checksums.of(encoded, targets) == checksums.of(texts, targets)
        parts = [checksums.of(encoded[place : place + 1], targets[place : place + 1]) for place in range(5)]
        assert sum(parts) % 2**128 == checksums.of(texts, targets)


def test_units_may_hold_half_characters():
    rows, targets = np.zeros((2, 1)), np.zeros(2, dtype=np.int64)
    units = np.array(["a", "\ud800"], dtype=object)
    sums = RowChecksums(KEY)
    assert sums.of(rows, targets, units) == sums.of(rows, targets, units[::-1])
    assert sums.of(rows, targets, units) != sums.of(rows, targets, np.array(["a", "\ud801"], dtype=object))
