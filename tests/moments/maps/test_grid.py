"""Cells of columns: every entry has one, joined cells hold what their parts held, and bad declarations are refused.

Synthetic rows: shares as released, correlations as released, and nothing that noise alone would produce.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpensemble.errors import InvalidParameterError
from dpensemble.moments.maps.grid import _OTHER, Grid, Shares, _on_simplex, declared_grid, observed_grid, with_texts

COLUMNS = {"age": (0, 3), "money": (-10.0, 1e5), "sex": ["f", "m"], "code": ("7", "8")}


def test_every_entry_has_a_cell():
    table = pd.DataFrame(
        {
            "age": [0.2, 2.9, -7.0, 99.0, np.nan],
            "money": [-11.0, 0.001, 1e5, 2e5, np.nan],
            "sex": ["f", "m", "x", _OTHER, None],
            "code": ["8", "7", "9", "8", None],
        }
    )
    grid = declared_grid(COLUMNS)
    cells = grid.cells(table)
    last = grid.sizes[0] - 1
    assert cells[1:, 0].tolist() == [cells[1, 0], 0, last - 1, last]
    assert cells[2, 0] < cells[0, 0] < cells[1, 0]
    assert cells[:, 2].tolist() == [0, 1, 2, 2, 3]
    assert cells[:, 3].tolist() == [1, 0, 2, 1, 3]
    assert cells[0, 1] == 0
    assert cells[2, 1] == cells[3, 1] == grid.sizes[1] - 2
    assert cells[4, 1] == grid.sizes[1] - 1


@given(st.lists(st.floats(-20, 2e5), min_size=1, max_size=20))
def test_what_stands_for_a_cell_lies_in_it(numbers):
    grid = declared_grid({"money": (-10.0, 1e5)})
    table = pd.DataFrame({"money": numbers})
    cells = grid.cells(table)
    assert np.array_equal(grid.cells(grid.rows(cells)), cells)


def test_cells_are_fine_at_the_ends_and_beside_zero():
    grid = declared_grid({"money": (-10.0, 1e5)})
    near = pd.DataFrame({"money": [0.0, 5.0, 30.0, 200.0, 600.0, 1400.0]})
    assert len(set(grid.cells(near)[:, 0].tolist())) == 6


def test_blanks_stay_blank():
    grid = declared_grid(COLUMNS)
    blank = pd.DataFrame({"age": [np.nan], "money": [np.nan], "sex": [None], "code": [None]})
    assert grid.rows(grid.cells(blank)).isna().to_numpy().all()
    assert list(grid.rows(grid.cells(blank)).dtypes) == list(grid.empty.dtypes)


def test_one_hot_rows_have_length_one_and_no_entry_below_zero():
    grid = declared_grid(COLUMNS)
    rows = grid.one_hot(pd.DataFrame({"age": [1.0], "money": [7.0], "sex": ["m"], "code": ["1"]}))
    assert rows.shape == (1, int(grid.sizes.sum()))
    assert rows.power(2).sum() == pytest.approx(1.0)
    assert rows.min() >= 0


def test_observed_cells_reach_beyond_public_rows():
    public = pd.DataFrame({"age": [20.0, 21.0, 25.0, np.nan], "sex": ["f", None, "f", "f"], "same": [3.0] * 4})
    grid = observed_grid(public)
    others = pd.DataFrame({"age": [25.2, 25.4, 27.0, 80.0], "sex": ["m"] * 4, "same": [3.0, 3.2, 4.0, 99.0]})
    cells = grid.cells(others)
    assert len(set(cells[:, 0].tolist())) > 2
    assert len(set(cells[:, 2].tolist())) > 2
    assert set(cells[:, 1].tolist()) == {1}


@given(st.lists(st.floats(0, 1), min_size=5, max_size=5), st.floats(0, 0.5))
def test_joined_cells_hold_what_their_parts_held(shares, least):
    grid = Grid([{"name": "x", "kind": "number", "edges": np.arange(3.0), "values": np.arange(4.0) - 0.5}])
    coarse, (held,) = grid.joined([np.array(shares)], least)
    assert held.sum() == pytest.approx(sum(shares))
    assert held[-1] == shares[-1]
    assert len(held) == coarse.sizes[0] <= 5
    values, edges = coarse.columns[0]["values"], coarse.columns[0]["edges"]
    assert (np.diff(values) > 0).all()
    assert ((values[:-1] <= edges) & (edges <= values[1:])).all()


def test_empty_cells_are_no_burden_to_the_next():
    grid = Grid([{"name": "x", "kind": "number", "edges": np.arange(9.0), "values": np.arange(10.0) - 0.5}])
    shares = np.array([0.5, -0.01, -0.01, -0.01, -0.01, -0.01, -0.01, -0.01, 0.11, 0.4, 0.0])
    coarse, (held,) = grid.joined([shares], 0.1)
    assert len(held) == 4
    assert coarse.columns[0]["edges"].tolist() == [0.0, 8.0]


def test_rare_categories_become_other_ones():
    grid = declared_grid({"sex": ["a", "b", "c"]})
    coarse, (held,) = grid.joined([np.array([0.6, 0.02, 0.3, 0.05, 0.03])], 0.1)
    assert coarse.columns[0]["values"] == ["a", "c", _OTHER]
    assert held == pytest.approx([0.6, 0.3, 0.07, 0.03])
    # One is kept, however rare.
    coarse, _ = grid.joined([np.array([0.06, 0.02, 0.03, 0.05, 0.03])], 0.1)
    assert coarse.columns[0]["values"] == ["a", _OTHER]


@pytest.mark.parametrize("names", [["a", _OTHER], [_OTHER, f"({_OTHER})"]])
def test_a_category_with_the_name_of_all_others_is_another_one(names):
    public = pd.DataFrame({"c": [*names, "b", *names]})
    for grid in (observed_grid(public), declared_grid({"c": [*names, "b"]})):
        (column,) = grid.columns
        assert len(set(column["values"])) == 4
        cells = grid.cells(pd.DataFrame({"c": [*names, "x", None]}))[:, 0]
        assert len(set(cells.tolist())) == 4
        coarse, _ = grid.joined([np.array([0.5, 0.3, 0.1, 0.05, 0.05])], 0.2)
        assert len(set(coarse.columns[0]["values"])) == 3
        assert grid.rows(cells[:, None])["c"].tolist()[:2] == names


def test_codes_of_categories_become_texts():
    table = with_texts(np.array([[7.0, 1.5], [8.0, 2.5]]), declared_grid({"code": ["7", "8"], "x": (0, 3)}).empty)
    assert table["code"].tolist() == ["7", "8"]
    assert table["x"].tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (None, "declares nothing"),
        ({}, "declares nothing"),
        ([("age", (0, 1))], "declares nothing"),
        ({"age": "0-99"}, "must be a range or a list"),
        ({"age": 7}, "must be a range or a list"),
        ({"age": ()}, "must be a range or a list"),
        ({"age": (1, 0)}, "must be a range"),
        ({"age": (1, 1)}, "must be a range"),
        ({"age": (0, np.inf)}, "must be a range"),
        ({"age": (np.nan, 1.0)}, "must be a range"),
        ({"age": (0, 1, 2)}, "must be a range"),
        ({"sex": ["f", "f"]}, "twice"),
        ({"sex": ["f", None]}, "missing"),
        ({"born": ["1930-01-01", "31.12.2006"]}, "dates"),
    ],
)
def test_bad_declarations_are_refused(columns, words):
    with pytest.raises(InvalidParameterError, match=words):
        declared_grid(columns)


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
    scores = THREE.scores(EFFECTS)
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
    scores = even.scores(effects)
    rows = even.grid.rows(scores.draw(wanted, 40_000))
    z = scores.of_rows(rows)
    assert scores.correlation(z.T @ z / len(z), 1e-6) == pytest.approx(wanted, abs=0.05)


def test_what_noise_alone_would_say_is_taken_back():
    scores = THREE.scores(EFFECTS)
    noise = np.random.default_rng(0).normal(size=(3, 3)) * 0.01
    assert np.abs(scores.correlation((noise + noise.T) / 2, 0.05) - np.eye(3)).max() == 0
    strong = scores.correlation(np.full((3, 3), 10.0), 0.05)
    assert np.linalg.eigvalsh(strong).min() > 0
    assert np.diag(strong) == pytest.approx(np.ones(3))


def test_scores_of_rows_are_seldom_longer_than_one():
    scores = THREE.scores(EFFECTS)
    lengths = np.linalg.norm(scores.of_rows(THREE.grid.rows(THREE.draw(1000))), axis=1)
    assert np.mean(lengths > 1) < 0.4
    blank = scores.of_rows(pd.DataFrame({"c0": [None], "c1": ["unheard"], "c2": ["0"]}))
    assert np.isfinite(blank).all()


def test_columns_that_say_most_are_taken_first(monkeypatch):
    monkeypatch.setattr("dpensemble.moments.maps.grid._MOST_COLUMNS", 2)
    scores = THREE.scores([EFFECTS[0] * 0.01, EFFECTS[1], np.array([[9.0], [0.0], [0.0], [0.0]])])
    assert scores.columns.tolist() == [1, 2]
    assert scores.draw(np.array([[1.0, 0.9], [0.9, 1.0]]), 100).shape == (100, 3)


def test_effects_on_several_classes_count_along_what_differs_most():
    two = np.array([[5.0, 0.1], [-5.0, 0.0], [0.0, 0.1], [1.0, 0.0], [0.0, 0.0]])
    scores = THREE.scores([two, np.hstack([EFFECTS[1], EFFECTS[1]]), np.zeros((4, 2))])
    order = np.argsort(scores.values[0][:4])
    assert order.tolist() in ([1, 2, 3, 0], [0, 3, 2, 1])


def test_cells_that_hold_little_but_noise_are_joined():
    grid = declared_grid({"x": (0.0, 1.0)})
    released = np.zeros(int(grid.sizes.sum()))
    released[3], released[40] = 0.5, 0.5
    found = grid.shares(released + np.random.default_rng(0).normal(size=len(released)) * 0.01, 0.01)
    assert 2 <= len(found.shares[0]) - 1 < 20
    assert found.shares[0].sum() == pytest.approx(1)
