"""Synthetic rows: shares as released, correlations as released, and nothing that noise alone would produce."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpensemble.moments.grid import declared_grid
from dpensemble.moments.synthetic import Scores, Shares, on_simplex


def shares_of(*columns):
    declared = {f"c{number}": [str(i) for i in range(len(one) - 2)] for number, one in enumerate(columns)}
    return Shares(declared_grid(declared), [np.array(one) for one in columns])


THREE = shares_of([0.5, 0.3, 0.15, 0.05, 0.0], [0.25, 0.25, 0.25, 0.25, 0.0], [0.7, 0.2, 0.1, 0.0])
EFFECTS = [np.arange(5.0)[:, None], np.array([[3.0], [1.0], [2.0], [0.0], [9.0]]), np.zeros((4, 1))]


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=8))
def test_shares_are_the_closest_to_what_was_released(values):
    values = np.array(values)
    found = on_simplex(values)
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
    assert on_simplex(values) == pytest.approx(found.x, abs=2e-3)


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
    monkeypatch.setattr("dpensemble.moments.synthetic.MOST_COLUMNS", 2)
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
