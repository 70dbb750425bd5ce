"""What rivals on marginals are given, and logistic regression from tables of pairs."""

import numpy as np
import pandas as pd
import pytest

from arena.discrete import BINS, CATEGORIES, codes_of
from arena.rival_side import moments


def test_bins_and_categories_come_from_public_rows():
    public = pd.DataFrame({"number": [1.0, 2.0, 3.0, 3.0], "colour": ["red", "red", "blue", "blue"]})
    private = pd.DataFrame({"number": [-9.0, 1.4, 9.0], "colour": ["red", "green", "blue"]})
    codes = codes_of(private, public, public)
    assert codes.sizes.tolist() == [3, 3]
    assert codes.ordered.tolist() == [True, False]
    assert codes.private.tolist() == [[0, 1], [0, 2], [2, 0]]
    assert codes.values[0] == pytest.approx((np.array([1.0, 2.0, 3.0]) - 2.25) / np.std([1, 2, 3, 3]))


def test_private_rows_change_no_bin():
    generator = np.random.default_rng(0)
    public = pd.DataFrame({"number": generator.normal(size=500)})
    one, other = (codes_of(pd.DataFrame({"number": n}), public, public) for n in (np.zeros(3), np.full(3, 1e6)))
    assert np.array_equal(one.test, other.test)
    assert np.array_equal(one.values, other.values)


@pytest.mark.parametrize("seed", range(5))
def test_every_bin_has_public_rows(seed):
    generator = np.random.default_rng(seed)
    numbers = np.round(generator.exponential(size=800), 1) * (generator.uniform(size=800) < 0.3)
    public = pd.DataFrame({"number": numbers})
    codes = codes_of(public, public, public)
    counts = np.bincount(codes.private[:, 0], minlength=codes.sizes[0])
    assert counts.min() > 0
    assert codes.sizes[0] <= BINS + 1
    # Seven in ten are 0 and have a bin of their own.
    assert counts.max() == (numbers == 0).sum()


def test_rare_categories_share_a_code():
    public = pd.DataFrame({"name": [f"n{i}" for i in range(2 * CATEGORIES)] + ["n0"] * 3})
    assert codes_of(public, public, public).sizes.tolist() == [CATEGORIES + 1]


def test_a_column_with_one_code_is_left_out():
    public = pd.DataFrame({"same": [1.0, 1.0], "number": [1.0, 2.0]})
    assert codes_of(public, public, public).private.shape == (2, 1)


def test_the_polynomial_meets_the_log_likelihood_at_its_nodes():
    constant, slope, curvature = moments.polynomial()
    node = 6 * np.cos(np.pi / 6)
    for margin in (-node, 0.0, node):
        assert constant + slope * margin + curvature * margin**2 == pytest.approx(-np.logaddexp(0, -margin))
    assert slope == pytest.approx(0.5)


@pytest.mark.parametrize("classes", [2, 3])
def test_coefficients_from_tables_are_those_from_rows(classes):
    generator = np.random.default_rng(classes)
    sizes, ordered = np.array([4, 3]), np.array([True, False])
    values = np.array([[-1.0, 0.0, 0.5, 2.0], [0.0, 0.0, 0.0, 0.0]])
    codes = np.column_stack([generator.integers(size, size=400) for size in sizes])
    y = (codes.sum(axis=1) + generator.integers(2, size=400)) % classes
    held = [*codes.T, y]
    columns = moments.designs(sizes, ordered, values)

    def table(a, b):
        counts = np.zeros((max(held[a]) + 1, max(held[b]) + 1))
        np.add.at(counts, (held[a], held[b]), 1.0)
        return counts

    X = np.column_stack([values[0][codes[:, 0]], np.eye(3)[codes[:, 1]], np.ones(400)])
    signs = 2.0 * np.eye(classes)[y] - 1.0
    _, slope, curvature = moments.polynomial()
    penalty = np.diag([1.0] * 4 + [0.0])
    expected = np.linalg.solve(-2 * curvature * X.T @ X + penalty, slope * X.T @ signs)
    weights = moments.coefficients(table, columns, 400.0)
    assert weights == pytest.approx(expected)
    probabilities = moments.probabilities(codes, columns, weights)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(400))
    assert probabilities.min() > 0
