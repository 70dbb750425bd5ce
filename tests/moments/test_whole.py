"""Whole vectors: never longer than they may be, in integer arithmetic, for every input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from dpensemble.errors import DataError
from dpensemble.moments.whole import _ANSWER_UNIT, UNIT, WHOLE, ExactSum, scaled, whole_answers, whole_features
from tests.records import records_behind, whole_blocks

anything = arrays(np.float64, (4, 5), elements=st.floats(allow_nan=False, allow_infinity=False, width=64))


def squares(rows):
    dense = rows.toarray() if sparse.issparse(rows) else rows
    assert np.array_equal(dense, np.rint(dense))
    return [sum(int(entry) ** 2 for entry in row) for row in dense]


@given(anything)
def test_features_are_never_longer_than_one(rows):
    for kind in (rows, sparse.csr_matrix(rows), sparse.coo_array(rows)):
        assert max(squares(whole_features(kind))) <= UNIT**2
    dense, thin = whole_features(rows), whole_features(sparse.csr_matrix(rows))
    assert np.array_equal(dense, thin.toarray())


@given(anything, arrays(np.float64, 4, elements=st.floats(0, 1)))
def test_answers_are_never_longer_than_their_weight(rows, bounds):
    for found, bound in zip(squares(whole_answers(rows, bounds)), bounds, strict=True):
        assert found <= int(np.floor(bound * _ANSWER_UNIT)) ** 2


@given(anything, arrays(np.float64, 5, elements=st.floats(0, 1e300)))
def test_weighted_features_are_never_longer_than_one(rows, scale):
    whole = whole_features(rows)
    dense, thin = scaled(whole, scale), scaled(sparse.csr_matrix(whole), scale)
    assert max(squares(dense)) <= UNIT**2
    assert np.array_equal(dense, thin.toarray())


def test_entries_that_came_in_parts_count_together():
    parts = sparse.coo_matrix((np.full(50, 0.5), (np.zeros(50, int), np.zeros(50, int))), shape=(1, 2))
    assert UNIT - 1 <= whole_features(parts).toarray()[0, 0] <= UNIT
    hostile = sparse.csr_matrix((np.full(3, 1e308), np.zeros(3, int), [0, 3]), shape=(1, 2))
    with np.errstate(over="ignore"):
        assert max(squares(whole_features(hostile))) <= UNIT**2


def test_short_rows_are_cut_and_nothing_else():
    rows = np.random.default_rng(0).normal(size=(100, 6))
    rows /= 1.01 * np.linalg.norm(rows, axis=1, keepdims=True)
    assert np.array_equal(whole_features(rows), np.trunc(rows * UNIT))
    before = rows.copy()
    whole_features(rows)
    whole_features(sparse.csr_matrix(rows))
    assert np.array_equal(rows, before)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_no_numbers_are_refused_without_a_quote(bad):
    rows = np.array([[12345.678, bad]])
    for call in (lambda: whole_features(rows), lambda: whole_features(sparse.csr_matrix(rows))):
        with pytest.raises(DataError, match="NaN or infinity") as found:
            call()
        assert "12345" not in str(found.value)


@pytest.mark.parametrize("thin", [False, True])
def test_the_sum_is_exact_in_any_order(thin):
    rng = np.random.default_rng(0)
    features = whole_features(rng.normal(size=(3000, 7)))
    answers = whole_answers(rng.normal(size=(3000, 3)), rng.uniform(size=3000))
    wanted = [
        [sum(int(f) * int(a) for f, a in zip(features[:, i], answers[:, j], strict=True)) for j in range(3)]
        for i in range(7)
    ]
    for order in (np.arange(3000), rng.permutation(3000)):
        total = ExactSum()
        for part in np.array_split(order, 4):
            rows = features[part]
            total.add(sparse.csr_matrix(rows) if thin else rows, answers[part])
        assert total.total.tolist() == wanted


def test_extreme_sums_are_exact():
    """As many rows as a block may have, all at full length: still whole numbers below 2**53."""
    total = ExactSum()
    for _ in range(2):
        total.add(np.full((2**18, 1), float(UNIT)), np.full((2**18, 1), float(_ANSWER_UNIT)))
    assert total.total.tolist() == [[2**19 * WHOLE]]
    with pytest.raises(DataError, match="smaller blocks"):
        total.add(np.zeros((2**18 + 1, 1)), np.zeros((2**18 + 1, 1)))


@pytest.mark.parametrize("thin", [False, True])
def test_blocks_are_the_same_when_they_are_kept(thin, monkeypatch):
    rng = np.random.default_rng(0)
    X, targets, weights = rng.normal(size=(50, 4)), np.arange(50) % 2, np.ones(50)
    calls = []

    def transform(rows):
        calls.append(len(rows))
        return sparse.csr_matrix(rows) if thin else rows

    blocks = records_behind(transform, X, targets, weights)

    def read():
        return [(f.toarray() if thin else f, t.tolist(), w.tolist()) for f, t, w, _ in whole_blocks(blocks)]

    first, second = read(), read()
    assert calls == [50]
    assert np.array_equal(first[0][0], second[0][0])
    assert first[0][1:] == second[0][1:]
    # Too large to keep: read again.
    monkeypatch.setattr("dpensemble.rows.passes._KEPT_BYTES", 10)
    blocks = records_behind(transform, X, targets, weights)
    calls.clear()
    first, second, third = read(), read(), read()
    assert calls == [50] * 3
    assert np.array_equal(first[0][0], third[0][0])
