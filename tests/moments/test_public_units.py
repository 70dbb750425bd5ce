"""Whose each public row is, and means that weigh people equally."""

import numpy as np
import pytest

from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.public_units import PublicUnits

ROWS = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 4.0], [5.0, 5.0]])
UNITS = PublicUnits(np.array([0, 0, 1, 2]), private=True)


def test_each_unit_has_the_same_share():
    assert UNITS.shares.tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 3, 1 / 3])
    assert UNITS.count(4) == 3
    assert UNITS.means(ROWS).tolist() == [[2.0, 0.0], [0.0, 4.0], [5.0, 5.0]]
    assert UNITS.shares @ ROWS == pytest.approx(UNITS.means(ROWS).mean(axis=0))


def test_unknown_units():
    unknown = PublicUnits()
    assert unknown.shares is None
    assert unknown.count(4) == 4
    assert unknown.means(ROWS) is ROWS


def test_the_covariance_of_one_row_of_a_random_unit():
    """Every draw of a unit, and then of one of its rows."""
    chances = [(row, share) for row, share in zip(ROWS, UNITS.shares, strict=True)]
    mean = sum(share * row for row, share in chances)
    expected = sum(share * np.outer(row - mean, row - mean) for row, share in chances)
    assert UNITS.covariance(ROWS) == pytest.approx(expected)
    assert PublicUnits().covariance(ROWS) == pytest.approx(np.cov(ROWS.T, bias=True))


def test_doubt_counts_units():
    """Rows of one person may all be alike, so that the variance of the mean is that of a mean over people."""
    blocks = np.array([0, 1])
    by_unit = PublicRows(ROWS, blocks, 2, shares=UNITS.shares, units=UNITS.numbers)
    assert by_unit.doubt == pytest.approx(1 / 3)
    assert PublicRows(ROWS, blocks, 2).doubt == 1 / 4
    assert by_unit.average(np.ones((4, 1))).ravel() == pytest.approx(UNITS.means(ROWS).mean(axis=0))
