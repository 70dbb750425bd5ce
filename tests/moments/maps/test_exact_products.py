"""Products of features and directions, against whole numbers of Python, in any order and by any number of threads."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from dpensemble.moments import DirectionsMap, TableMap
from dpensemble.moments.maps import exact_products as exact
from dpensemble.moments.maps.exact_products import (
    exact_lengths,
    exact_products,
    whole_directions,
    whole_features,
)

RNG = np.random.default_rng(0)
BITS = 26


def table(n_rows, seed=0):
    rng = np.random.default_rng(seed)
    columns = {f"x{place}": rng.normal(size=n_rows) for place in range(6)}
    rare = rng.choice(np.array([f"name {number}" for number in range(40)], dtype=object), n_rows)
    public = pd.DataFrame(columns | {"name": rare})
    return public.mask(rng.random(public.shape) < 0.05)


def bounded_rows(n_rows, n_features):
    rows = RNG.normal(size=(n_rows, n_features)) * RNG.choice([1e-6, 1.0], size=(n_rows, n_features))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_products_are_those_of_pythons_integers():
    features, directions = bounded_rows(7, 9), whole_directions(RNG.normal(size=(9, 4)) * [1e-3, 1, 7, 1e5])
    products = exact_products(features, directions)
    for row, column in np.ndindex(products.shape):
        unit = np.ldexp(1.0, np.frexp(np.linalg.norm(directions[:, column]))[1] - BITS - 1)
        whole = [int(entry) for entry in directions[:, column] / unit]
        assert np.array_equal(np.array(whole) * unit, directions[:, column])
        terms = [round(x * 2**BITS) * d for x, d in zip(features[row], whole, strict=True)]
        assert int(products[row, column] * 2**BITS / unit) == sum(terms)
        # Units above are half of those of the directions, since a norm may be just above a power of two.
        assert sum(map(abs, terms)) < 2 * 2**53


@pytest.mark.parametrize("n_features", [1, 3, 1000])
def test_no_order_of_terms_reaches_two_to_the_power_of_53(n_features):
    """The worst case of Cauchy and Schwarz: features along a direction."""
    row = np.full((1, n_features), 1 / np.sqrt(n_features))
    for length in (1.0, 1.999, 2.0, 2.001):
        direction = whole_directions(row.T * length)
        unit = np.ldexp(1.0, np.frexp(length * (1 + 1e-9))[1] - BITS)
        whole = np.rint(direction / unit).astype(np.int64)
        terms = np.rint(whole_features(row) * 2**BITS).astype(np.int64) * whole.T
        assert int(np.abs(terms).sum()) < 2**53


def test_rounding_is_far_below_the_units_of_released_sums():
    features, directions = bounded_rows(50, 30), RNG.normal(size=(30, 5))
    products = exact_products(features, whole_directions(directions))
    assert np.allclose(products, features @ directions, rtol=0, atol=1e-6 * np.linalg.norm(directions, axis=0).max())


@pytest.mark.parametrize("most", [(0, 300), (300, 0)], ids=["array", "sparse"])
def test_features_are_the_same_in_blocks_of_any_size_and_order(monkeypatch, most):
    """Also as sparse rows, and by several threads."""
    public, private = table(300), table(60, seed=1)
    fitted = DirectionsMap(TableMap(knots=(2, 3)), n_directions=20).fit(public)
    whole = fitted.transform(private)
    monkeypatch.setattr(exact, "DENSE", most[1])
    monkeypatch.setattr("dpensemble.moments.maps.tables.DENSE", most[0])
    monkeypatch.setattr(exact, "_ROWS_AT_ONCE", 7)
    order = RNG.permutation(len(private))
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, "blas"):
            assert np.array_equal(fitted.transform(private), whole)
            assert np.array_equal(fitted.transform(private.iloc[order]), whole[order])
            for size in (1, 20):
                part = [fitted.transform(private.iloc[i : i + size]) for i in range(0, min(4 * size, 60), size)]
                assert np.array_equal(np.vstack(part), whole[: 4 * size])


@pytest.mark.parametrize("shape", [(1, 900, 500), (3, 900, 500), (300, 900, 500), (300, 900, 3)])
def test_products_are_exact_in_sizes_that_are_computed_in_different_ways(shape):
    """By kernels for few rows and for many, by one thread and by several, and with the terms in another order."""
    n_rows, n_features, n_directions = shape
    features, directions = bounded_rows(n_rows, n_features), RNG.normal(size=(n_features, n_directions))
    directions, order = whole_directions(directions), RNG.permutation(n_features)
    whole = exact_products(features, directions)
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, "blas"):
            assert np.array_equal(whole_features(features) @ directions, whole)
            assert np.array_equal(whole_features(features)[:, order] @ directions[order], whole)
    with pytest.raises(AssertionError):
        # Terms that are not whole have other last digits.
        assert np.array_equal((features / 3)[:, order] @ directions[order] / 3, (features / 3) @ directions / 3)


def test_sparse_features_and_arrays_have_the_same_products():
    rows = bounded_rows(40, 60) * (RNG.random((40, 60)) < 0.03)
    directions = whole_directions(RNG.normal(size=(60, 8)))
    assert np.array_equal(exact_products(sparse.csr_matrix(rows), directions), exact_products(rows, directions))
    assert np.array_equal(exact_products(np.asfortranarray(rows), directions), exact_products(rows, directions))


@pytest.mark.parametrize("n_entries", [1, 2, 6, 64, 65])
def test_lengths_come_from_exact_squares(n_entries):
    rows = RNG.normal(size=(40, n_entries)) * 10.0 ** RNG.integers(-9, 9, size=(40, 1))
    # Squares add up to most if all entries are equal and just below a power of two.
    rows = np.vstack([rows, np.full(n_entries, np.nextafter(1, 0)), -np.ones(n_entries), np.eye(n_entries)[:1]])
    lengths = exact_lengths(rows)
    assert np.allclose(lengths, np.linalg.norm(rows, axis=1), rtol=1e-11, atol=0)
    assert exact_lengths(np.zeros((1, n_entries))) == 0
    root = next(power for power in range(9) if 4**power >= n_entries)
    fine_units = 2 ** (BITS + 1 - root)
    for row, length in zip(rows, lengths, strict=True):
        unit = np.ldexp(1.0, int(np.frexp(np.abs(row).max())[1]) + root - BITS)
        coarse = np.rint(row / unit)
        fine = np.rint((row / unit - coarse) * fine_units)
        square = sum(int(entry) ** 2 for entry in coarse)
        cross = [int(x) * int(y) for x, y in zip(coarse, fine, strict=True)]
        assert max(square, sum(map(abs, cross))) < 2**53
        assert length == np.sqrt(square + sum(cross) * (2 / fine_units)) * unit
