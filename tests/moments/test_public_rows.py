"""Whose each public row is, and means that weigh people equally.

Synthetic rows: shares as released, correlations as released, and nothing that noise alone would produce.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpensemble.moments.maps.grid import declared_grid
from dpensemble.moments.public_rows import PublicRows, PublicUnits, Scores, Shares, _on_simplex

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


def shares_of(*columns):
    declared = {f"c{number}": [str(i) for i in range(len(one) - 2)] for number, one in enumerate(columns)}
    return Shares(declared_grid(declared), [np.array(one) for one in columns])


THREE = shares_of([0.5, 0.3, 0.15, 0.05, 0.0], [0.25, 0.25, 0.25, 0.25, 0.0], [0.7, 0.2, 0.1, 0.0])
EFFECTS = [np.arange(5.0)[:, None], np.array([[3.0], [1.0], [2.0], [0.0], [9.0]]), np.zeros((4, 1))]


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=8))
def test_shares_are_the_closest_to_what_was_released(values):
    values = np.array(values)
    found = _on_simplex(values)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    # No better: the gradient of the distance allows no step along the simplex.
    slope = 2 * (found - values)
    assert (slope[found > 1e-9] <= slope.min() + 1e-6).all()


def test_the_closest_shares_are_those_of_a_general_solver():
    values = np.array([0.6, -0.1, 0.45, 0.2])
    found = minimize(
        lambda x: ((x - values) ** 2).sum(),
        np.full(4, 0.25),
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
    )
    assert _on_simplex(values) == pytest.approx(found.x, abs=2e-3)


def test_independent_rows_have_exactly_the_shares():
    cells = THREE.draw(1000)
    for number, share in enumerate(THREE.shares):
        assert np.bincount(cells[:, number], minlength=len(share)) / 1000 == pytest.approx(share, abs=1e-3)
    assert abs(np.corrcoef(cells.T)[0, 1]) < 0.1


@pytest.mark.parametrize("rho", [0.6, -0.6])
def test_rows_together_have_the_shares_and_go_together(rho):
    scores = Scores.of(THREE, EFFECTS)
    wanted = np.array([[1.0, rho, 0], [rho, 1.0, 0], [0, 0, 1.0]])
    cells = scores.draw(wanted, 8000)
    for number, share in enumerate(THREE.shares):
        assert np.bincount(cells[:, number], minlength=len(share)) / 8000 == pytest.approx(share, abs=1e-3)
    along = [effect[cells[:, number], 0] for number, effect in enumerate(EFFECTS[:2])]
    assert np.sign(rho) * np.corrcoef(along)[0, 1] > 0.4


def test_correlations_come_back_from_products_of_rows():
    wanted = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 1.0]])
    even = shares_of(*[[0.1] * 10 + [0.0, 0.0]] * 3)
    effects = [np.arange(12.0)[:, None]] * 3
    scores = Scores.of(even, effects)
    rows = even.grid.rows(scores.draw(wanted, 40_000))
    z = scores.of_rows(rows)
    assert scores.correlation(z.T @ z / len(z), 1e-6) == pytest.approx(wanted, abs=0.05)


def test_what_noise_alone_would_say_is_taken_back():
    scores = Scores.of(THREE, EFFECTS)
    noise = np.random.default_rng(0).normal(size=(3, 3)) * 0.01
    assert np.abs(scores.correlation((noise + noise.T) / 2, 0.05) - np.eye(3)).max() == 0
    strong = scores.correlation(np.full((3, 3), 10.0), 0.05)
    assert np.linalg.eigvalsh(strong).min() > 0
    assert np.diag(strong) == pytest.approx(np.ones(3))


def test_scores_of_rows_are_seldom_longer_than_one():
    scores = Scores.of(THREE, EFFECTS)
    lengths = np.linalg.norm(scores.of_rows(THREE.grid.rows(THREE.draw(1000))), axis=1)
    assert np.mean(lengths > 1) < 0.4
    blank = scores.of_rows(pd.DataFrame({"c0": [None], "c1": ["unheard"], "c2": ["0"]}))
    assert np.isfinite(blank).all()


def test_columns_that_say_most_are_taken_first(monkeypatch):
    monkeypatch.setattr("dpensemble.moments.public_rows._MOST_COLUMNS", 2)
    scores = Scores.of(THREE, [EFFECTS[0] * 0.01, EFFECTS[1], np.array([[9.0], [0.0], [0.0], [0.0]])])
    assert scores.columns.tolist() == [1, 2]
    assert scores.draw(np.array([[1.0, 0.9], [0.9, 1.0]]), 100).shape == (100, 3)


def test_effects_on_several_classes_count_along_what_differs_most():
    two = np.array([[5.0, 0.1], [-5.0, 0.0], [0.0, 0.1], [1.0, 0.0], [0.0, 0.0]])
    scores = Scores.of(THREE, [two, np.hstack([EFFECTS[1], EFFECTS[1]]), np.zeros((4, 2))])
    order = np.argsort(scores.values[0][:4])
    assert order.tolist() in ([1, 2, 3, 0], [0, 3, 2, 1])


def test_cells_that_hold_little_but_noise_are_joined():
    grid = declared_grid({"x": (0.0, 1.0)})
    released = np.zeros(int(grid.sizes.sum()))
    released[3], released[40] = 0.5, 0.5
    found = Shares.of(grid, released + np.random.default_rng(0).normal(size=len(released)) * 0.01, 0.01)
    assert 2 <= len(found.shares[0]) - 1 < 20
    assert found.shares[0].sum() == pytest.approx(1)
