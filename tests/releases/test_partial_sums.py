"""Partial sums: merged in any order, without a limit, and only of the same records in every round."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble._random import SeededNoise
from dpensemble.accounting import Group, SumsMeter
from dpensemble.budget import Budget
from dpensemble.errors import DataError
from dpensemble.moments.queries import ClassSums
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser
from dpensemble.releases.partial_sums import CHECKSUMS, PartialSums, SameRecords, python_integers, whole_numbers

entries = st.lists(st.integers(-(2**70), 2**70), min_size=2, max_size=2)
parts = st.builds(
    lambda total, rows, checksum: PartialSums(np.array(total, dtype=object), rows, checksum),
    entries,
    st.integers(0, 9),
    st.integers(0, CHECKSUMS - 1),
)


def same(one, other):
    assert one.total.tolist() == other.total.tolist()
    assert one.records == other.records


@given(parts, parts, parts)
def test_the_order_of_parts_does_not_matter(a, b, c):
    same(a + b, b + a)
    same((a + b) + c, a + (b + c))
    same(a + PartialSums(None), a)
    same(PartialSums(None) + a, a)
    assert (a + b).checksum == (a.checksum + b.checksum) % 2**128
    assert (PartialSums(None) + PartialSums(None)).total is None


def test_merged_sums_have_no_limit():
    largest = PartialSums(python_integers(np.array([[2**62]])), 2**28)
    merged = sum([largest] * 9, PartialSums(None))
    assert merged.total.tolist() == [[9 * 2**62]]
    assert merged.rows == 9 * 2**28


def test_what_does_not_belong_together_is_refused():
    one = PartialSums(np.array([1], dtype=object))
    with pytest.raises(DataError, match="two different rounds"):
        one + PartialSums(np.array([1], dtype=object), round=1)
    with pytest.raises(DataError, match="different shapes"):
        one + PartialSums(np.array([1, 2], dtype=object))


@pytest.mark.parametrize("changed", [(2, 7), (3, 8), (0, 0)])
def test_other_records_are_refused_without_their_number(changed):
    records = SameRecords()
    records.require((3, 7))
    records.require((3, 7))
    with pytest.raises(DataError, match="changed between two passes") as found:
        records.require(changed)
    assert not any(letter.isdigit() for letter in str(found.value))


def releaser():
    meter = SumsMeter([Group("everyone", Budget(epsilon=1.0, delta=1e-5))])
    return SumReleaser(relation=Relation.REPLACE_ONE, meter=meter, noise=SeededNoise(1))


def test_python_integers_get_the_same_noise_as_those_of_numpy():
    total = np.arange(6).reshape(3, 2)
    one, other = (releaser().release(ClassSums(2), values, 0.5) for values in (total, python_integers(total)))
    assert np.array_equal(one.values, other.values)


@pytest.mark.parametrize(
    "total", [np.array([0.5]), np.array([1, 0.5], dtype=object), np.array([True, 2], dtype=object)]
)
def test_fractions_get_no_noise(total):
    assert not whole_numbers(total)
    with pytest.raises(DataError, match="whole numbers"):
        releaser().release(ClassSums(2), total, 0.5)
