"""Whole vectors: never longer than they may be, in integer arithmetic, for every input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from dpensemble.errors import DataError
from dpensemble.moments.whole import (
    _ANSWER_UNIT,
    UNIT,
    WHOLE,
    WholeBlock,
    bounded_answers,
    bounded_features,
    partial_sums,
)
from tests.records import records_behind, whole_blocks

anything = arrays(np.float64, (4, 5), elements=st.floats(allow_nan=False, allow_infinity=False, width=64))


def squares(rows):
    dense = rows.toarray() if sparse.issparse(rows) else rows
    assert np.array_equal(dense, np.rint(dense))
    return [sum(int(entry) ** 2 for entry in row) for row in dense]


@given(anything)
def test_features_are_never_longer_than_one(rows):
    for kind in (rows, sparse.csr_matrix(rows), sparse.coo_array(rows)):
        assert max(squares(bounded_features(kind))) <= UNIT**2
    dense, thin = bounded_features(rows), bounded_features(sparse.csr_matrix(rows))
    assert np.array_equal(dense, thin.toarray())


@given(anything, arrays(np.float64, 4, elements=st.floats(0, 1)))
def test_answers_are_never_longer_than_their_weight(rows, bounds):
    for found, bound in zip(squares(bounded_answers(rows, bounds)), bounds, strict=True):
        assert found <= int(np.floor(bound * _ANSWER_UNIT)) ** 2


@given(anything, arrays(np.float64, 5, elements=st.floats(0, 1e300)))
def test_weighted_features_are_never_longer_than_one(rows, scale):
    whole = bounded_features(rows)
    dense, thin = (bounded_features(one, scale / UNIT) for one in (whole, sparse.csr_matrix(whole)))
    assert max(squares(dense)) <= UNIT**2
    assert np.array_equal(dense, thin.toarray())


def test_entries_that_came_in_parts_count_together():
    parts = sparse.coo_matrix((np.full(50, 0.5), (np.zeros(50, int), np.zeros(50, int))), shape=(1, 2))
    assert UNIT - 1 <= bounded_features(parts).toarray()[0, 0] <= UNIT
    hostile = sparse.csr_matrix((np.full(3, 1e308), np.zeros(3, int), [0, 3]), shape=(1, 2))
    with np.errstate(over="ignore"):
        assert max(squares(bounded_features(hostile))) <= UNIT**2


def test_short_rows_are_cut_and_nothing_else():
    rows = np.random.default_rng(0).normal(size=(100, 6))
    rows /= 1.01 * np.linalg.norm(rows, axis=1, keepdims=True)
    assert np.array_equal(bounded_features(rows), np.trunc(rows * UNIT))
    before = rows.copy()
    bounded_features(rows)
    bounded_features(sparse.csr_matrix(rows))
    assert np.array_equal(rows, before)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_no_numbers_are_refused_without_a_quote(bad):
    rows = np.array([[12345.678, bad]])
    for call in (lambda: bounded_features(rows), lambda: bounded_features(sparse.csr_matrix(rows))):
        with pytest.raises(DataError, match="NaN or infinity") as found:
            call()
        assert "12345" not in str(found.value)


class Bounded:
    """A query whose answers are given instead of weights."""

    @staticmethod
    def rows_at_once(_):
        return 2**30

    @staticmethod
    def bounded_factors(features, _, answers):
        return features, answers


def total_of(pairs):
    blocks = (WholeBlock(features, np.zeros(len(answers)), answers) for features, answers in pairs)
    return partial_sums(Bounded, blocks).total.tolist()


@pytest.mark.parametrize("thin", [False, True])
def test_the_sum_is_exact_in_any_order(thin):
    rng = np.random.default_rng(0)
    features = bounded_features(rng.normal(size=(3000, 7)))
    answers = bounded_answers(rng.normal(size=(3000, 3)), rng.uniform(size=3000))
    wanted = [
        [sum(int(f) * int(a) for f, a in zip(features[:, i], answers[:, j], strict=True)) for j in range(3)]
        for i in range(7)
    ]
    for order in (np.arange(3000), rng.permutation(3000)):
        rows = [(features[part], answers[part]) for part in np.array_split(order, 4)]
        assert total_of((sparse.csr_matrix(one) if thin else one, other) for one, other in rows) == wanted


def test_extreme_sums_are_exact():
    """As many rows as a block may have, all at full length: still whole numbers below 2**53."""
    longest = np.full((2**18, 1), float(UNIT)), np.full((2**18, 1), float(_ANSWER_UNIT))
    assert total_of([longest, longest]) == [[2**19 * WHOLE]]
    with pytest.raises(DataError, match="smaller blocks"):
        total_of([(np.zeros((2**18 + 1, 1)), np.zeros((2**18 + 1, 1)))])


def test_the_sum_of_many_rows_is_kept_in_python_integers(monkeypatch):
    monkeypatch.setattr("dpensemble.moments.whole._MOST_ROWS", 3)
    rows = np.full((2, 1), float(UNIT)), np.full((2, 1), float(_ANSWER_UNIT))
    sums = partial_sums(
        Bounded, (WholeBlock(features, np.zeros(2), answers, 2**127 + 1) for features, answers in [rows] * 5)
    )
    assert (sums.total.tolist(), sums.rows, sums.checksum) == ([[10 * WHOLE]], 10, (5 * (2**127 + 1)) % 2**128)


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
