"""Products of features and directions, against whole numbers of Python, in any order and by any number of threads.

Principal directions of a table's features.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from dpensemble import LabelMomentsRegressor, Ledger, load_classifier, save_classifier
from dpensemble.errors import ColumnWarning, DataError, InvalidParameterError
from dpensemble.methods import LabelMomentsClassifier
from dpensemble.moments import DirectionsMap, TableMap
from dpensemble.moments.fits import MOST_TOGETHER
from dpensemble.moments.maps import directions as exact
from dpensemble.moments.maps.directions import (
    ColumnDirectionsMap,
    _exact_lengths,
    _exact_products,
    _whole_directions,
    effective_directions,
    exact_features,
)
from dpensemble.moments.maps.tables import fitted_map
from dpensemble.moments.model import column_effects

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
    features, directions = bounded_rows(7, 9), _whole_directions(RNG.normal(size=(9, 4)) * [1e-3, 1, 7, 1e5])
    products = _exact_products(features, directions)
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
        direction = _whole_directions(row.T * length)
        unit = np.ldexp(1.0, np.frexp(length * (1 + 1e-9))[1] - BITS)
        whole = np.rint(direction / unit).astype(np.int64)
        terms = np.rint(exact_features(row) * 2**BITS).astype(np.int64) * whole.T
        assert int(np.abs(terms).sum()) < 2**53


def test_rounding_is_far_below_the_units_of_released_sums():
    features, directions = bounded_rows(50, 30), RNG.normal(size=(30, 5))
    products = _exact_products(features, _whole_directions(directions))
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
    directions, order = _whole_directions(directions), RNG.permutation(n_features)
    whole = _exact_products(features, directions)
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, "blas"):
            assert np.array_equal(exact_features(features) @ directions, whole)
            assert np.array_equal(exact_features(features)[:, order] @ directions[order], whole)
    with pytest.raises(AssertionError):
        # Terms that are not whole have other last digits.
        assert np.array_equal((features / 3)[:, order] @ directions[order] / 3, (features / 3) @ directions / 3)


def test_sparse_features_and_arrays_have_the_same_products():
    rows = bounded_rows(40, 60) * (RNG.random((40, 60)) < 0.03)
    directions = _whole_directions(RNG.normal(size=(60, 8)))
    assert np.array_equal(_exact_products(sparse.csr_matrix(rows), directions), _exact_products(rows, directions))
    assert np.array_equal(_exact_products(np.asfortranarray(rows), directions), _exact_products(rows, directions))


@pytest.mark.parametrize("n_entries", [1, 2, 6, 64, 65])
def test_lengths_come_from_exact_squares(n_entries):
    rows = RNG.normal(size=(40, n_entries)) * 10.0 ** RNG.integers(-9, 9, size=(40, 1))
    # Squares add up to most if all entries are equal and just below a power of two.
    rows = np.vstack([rows, np.full(n_entries, np.nextafter(1, 0)), -np.ones(n_entries), np.eye(n_entries)[:1]])
    lengths = _exact_lengths(rows)
    assert np.allclose(lengths, np.linalg.norm(rows, axis=1), rtol=1e-11, atol=0)
    assert _exact_lengths(np.zeros((1, n_entries))) == 0
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


@pytest.fixture
def public():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"x": rng.normal(size=500), "name": rng.choice(["a", "b"], size=500), "y": rng.normal(size=500)}
    )


def test_rows_have_length_one_and_are_read_for_themselves(public):
    fitted = DirectionsMap(TableMap(), n_directions=30).fit(public)
    together = fitted.transform(public)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-9)
    assert fitted.reads_rows_alone
    alone = np.vstack([fitted.transform(public.iloc[i : i + 1]) for i in range(40)])
    assert np.array_equal(together[:40], alone)


def test_directions_are_uncorrelated_and_whitening_makes_them_alike(public):
    def spreads(whitening):
        base = DirectionsMap(TableMap(), n_directions=10, whitening=whitening).fit(public)
        rows = np.asarray(base.base_.transform(public) @ base.directions_)
        covariance = np.cov(rows.T)
        # Directions are rounded to whole numbers of about 2**-26 of their length.
        assert np.allclose(covariance, np.diag(covariance.diagonal()), atol=1e-7)
        return covariance.diagonal()

    plain, half, full = spreads(0.0), spreads(0.5), spreads(1.0)
    assert plain[0] > 1.5 * plain[-1]
    assert np.allclose(half, np.sqrt(plain), rtol=1e-2)
    assert np.allclose(full, 1, rtol=1e-2)


def test_no_more_directions_than_rows_can_tell(public):
    fitted = DirectionsMap(TableMap(), n_directions=100).fit(public.iloc[:5])
    assert fitted.n_features_out_ <= 6
    constant = pd.DataFrame({"x": np.ones(50)})
    assert DirectionsMap(TableMap()).fit(constant).transform(constant).shape == (50, 1)


def test_effects_of_columns_follow_the_coefficients(public):
    fitted = DirectionsMap(TableMap(), n_directions=40).fit(public)
    features = fitted.transform(public)
    wanted = np.where(public["name"] == "a", 2.0, -2.0) + 0.5 * public["x"]
    coefficients = np.linalg.lstsq(features, wanted, rcond=None)[0][:, None]
    found = column_effects(fitted, coefficients, public)
    assert found[0]["column"] == "name"
    pushes = {name: values[0] for name, values in found[0]["points"]}
    assert pushes["a"] - pushes["b"] == pytest.approx(4.0, rel=0.1)
    assert set(pushes) == {"a", "b"}
    by_column = {one["column"]: one for one in found}
    line = [values[0] for _, values in by_column["x"]["points"]]
    assert line[-1] > line[0]
    assert by_column["y"]["importance"] < 0.2 * found[0]["importance"]


def test_directions_of_many_features_come_from_products_of_rows(public, monkeypatch):
    """The same directions, up to their signs, without a square matrix of features."""
    twice = pd.concat([public, public.rename(columns=lambda name: f"{name} again")], axis=1).iloc[:30]
    found = DirectionsMap(TableMap(), n_directions=20).fit(twice)
    monkeypatch.setattr(exact, "_of_rows", exact._of_features)
    wanted = DirectionsMap(TableMap(), n_directions=20).fit(twice)
    assert found.base_.n_features_out_ > len(twice)
    assert found.n_features_out_ == wanted.n_features_out_ > 5
    assert np.allclose(np.abs(found.transform(twice)), np.abs(wanted.transform(twice)), atol=1e-6)


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_products_of_rows_do_not_depend_on_how_they_are_stored(share):
    rows = sparse.random(20, 90, density=share, random_state=0, format="csr")
    assert np.allclose(exact._products(rows), rows.toarray() @ rows.toarray().T)
    assert np.allclose(exact._products(rows.T), rows.toarray().T @ rows.toarray())


def test_few_public_rows_of_many_columns_are_fitted_by_few_features():
    """Features of 2,500 columns would need square matrices of more than 5,000."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2500))
    y = (X[:, 0] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LabelMomentsClassifier(classes=[0, 1], delta=1e-3, insecure_release_seed=0).fit(
            X, y, X_public=X[:80] + 0.1
        )
    assert isinstance(model.model_[0], DirectionsMap)
    assert model.moments_[0].values.shape[0] == 2501
    assert np.count_nonzero(model.model_[1].coefficients_) <= MOST_TOGETHER
    assert len(model.effects_) == 2500


def test_very_many_features_are_made_in_blocks_of_rows(public, monkeypatch):
    fitted = DirectionsMap(TableMap(), n_directions=30).fit(public)
    whole, sizes, real = fitted.transform(public), [], TableMap.for_products
    monkeypatch.setattr("dpensemble.moments.maps.directions._FEATURES_AT_ONCE", 40 * fitted.directions_.shape[0])
    monkeypatch.setattr(TableMap, "for_products", lambda self, X: sizes.append(len(X)) or real(self, X))
    assert np.array_equal(fitted.transform(public), whole)
    assert sizes == [40] * 12 + [20]


@pytest.mark.parametrize("share_missing", [0.0, 0.1])
def test_products_of_distinct_entries_change_no_bit(share_missing):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "few": rng.integers(0, 9, 1200).astype(float),
            "many": rng.normal(size=1200),
            "text": rng.choice(np.array(["a", "b", "c"], dtype=object), 1200),
            "zeros": rng.choice([0.0, -0.0, 1.0], 1200),
        }
    )
    rows = rows.mask(rng.random(rows.shape) < share_missing)
    fitted = DirectionsMap(TableMap(), n_directions=20).fit(rows)
    shared = fitted.base_.for_shared_products(rows)
    assert {fitted.base_.columns_[one.column]["name"] for one in shared.columns} == {"few", "text", "zeros"}
    together = fitted.transform(rows)
    # So few rows are multiplied one by one.
    for size in (1, 7, 300):
        some = range(0, 1200 if size > 1 else 50, size)
        apart = np.vstack([fitted.transform(rows[start : start + size]) for start in some])
        assert np.array_equal(apart, together[: len(apart)])


def of_numbers(n_rows, n_columns, seed=0, shared=0):
    """Return columns that have little to do with each other, or follow from a few `shared` numbers."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n_rows, n_columns))
    if shared:
        of_columns = np.random.default_rng(99).normal(size=(shared, n_columns))
        numbers = rng.normal(size=(n_rows, shared)) @ of_columns + 0.1 * numbers
    return pd.DataFrame(numbers, columns=[f"x{place}" for place in range(n_columns)])


def test_directions_of_columns_are_those_of_the_covariance_of_each_column():
    public = table(400)
    fitted = ColumnDirectionsMap(TableMap(knots=(2, 3)), whitening=0.0).fit(public)
    features, directions = fitted.base_.transform(public).toarray(), fitted.directions_.toarray()
    for number, column in enumerate(fitted.base_.columns_):
        span = slice(column["start"], column["start"] + sum(column["sizes"]) + 1)
        of_column = directions[:, fitted.blocks_[:-1] == number]
        assert np.count_nonzero(np.delete(of_column, np.arange(span.start, span.stop), axis=0)) == 0
        covariance = np.cov(features[:, span].T, bias=True)
        kept = of_column[span] @ of_column[span].T
        # Directions of little variance are left out, and nothing else of the covariance is lost.
        assert np.trace(kept @ covariance) > 0.8 * np.trace(covariance)
        assert np.allclose(kept @ covariance, covariance, atol=0.11 * np.linalg.norm(covariance, 2))
        assert np.allclose(of_column[span].T @ of_column[span], np.eye(of_column.shape[1]), atol=1e-6)


def test_columns_without_variance_have_no_direction():
    public = of_numbers(300, 4).assign(x1=1.0)
    fitted = ColumnDirectionsMap(TableMap(knots=(2,))).fit(public)
    assert fitted.blocks_.tolist() == [0, 1, 2, 3]
    assert ColumnDirectionsMap(TableMap()).fit(public[["x1"]]).transform(public[["x1"]]).shape == (300, 1)


@pytest.mark.parametrize("most", [(0, 300), (300, 0)], ids=["array", "sparse"])
def test_directions_of_columns_are_exact_beside_any_rows(monkeypatch, most):
    public, private = table(300), table(60, seed=1)
    fitted = ColumnDirectionsMap(TableMap(knots=(2, 3))).fit(public)
    whole = fitted.transform(private)
    monkeypatch.setattr("dpensemble.moments.maps.tables.DENSE", most[1])
    monkeypatch.setattr(exact, "_FEATURES_AT_ONCE", 7 * len(fitted.mean_))
    assert np.array_equal(whole, fitted.transform(private))
    assert np.array_equal(whole[::-1], fitted.transform(private.iloc[::-1]))
    assert np.allclose(np.linalg.norm(whole, axis=1), 1)


@pytest.mark.parametrize(("n_rows", "shared"), [(60, 0), (400, 0), (400, 3)])
def test_effective_directions_are_those_of_the_covariance(n_rows, shared):
    """With few rows the eigenvalues of their covariance lead to far fewer directions than there are."""
    public = of_numbers(n_rows, 100, shared=shared)
    fitted = ColumnDirectionsMap(TableMap(knots=(2,))).fit(public)
    found = effective_directions(fitted, public)
    features = fitted.transform(of_numbers(20_000, 100, seed=1, shared=shared))
    values = np.linalg.eigvalsh(np.cov(features.T))
    assert found == pytest.approx(values.sum() ** 2 / (values**2).sum(), rel=0.25)
    assert effective_directions(fitted, public.iloc[[0] * 50]) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("n_columns", "shared", "kind"),
    [(80, 0, ColumnDirectionsMap), (80, 5, DirectionsMap), (40, 0, DirectionsMap)],
)
def test_columns_that_have_little_to_do_with_each_other_keep_their_own_directions(n_columns, shared, kind):
    public = of_numbers(300, n_columns, shared=shared)
    chosen = fitted_map(None, public, n_rows=500, n_classes=2, epsilon=1.0)
    assert type(chosen) is kind


def wide_run(n_rows, n_columns, epsilon):
    private, public, test = (of_numbers(n, n_columns, seed) for seed, n in enumerate((n_rows, 400, 1000)))
    logits = [1.5 * (rows["x1"] - rows["x2"]).to_numpy() for rows in (private, test)]
    y, wanted = ((np.random.default_rng(9).random(len(one)) < 1 / (1 + np.exp(-one))).astype(int) for one in logits)
    model = LabelMomentsClassifier(classes=[0, 1], epsilon=epsilon, delta=1e-5, insecure_release_seed=0)
    return model.fit(private, y, X_public=public), test, wanted


def test_few_of_many_columns_are_found(tmp_path):
    """By 170 directions of 300, this model has an accuracy of 0.60."""
    model, test, wanted = wide_run(2000, 300, 3.0)
    assert isinstance(model.model_[0], ColumnDirectionsMap)
    assert (model.predict(test) == wanted).mean() > 0.75
    largest = sorted(model.effects_, key=lambda one: -one["importance"])[:2]
    assert {one["column"] for one in largest} == {"x1", "x2"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save_classifier(model.model_, tmp_path / "model.skops")
        read = load_classifier(tmp_path / "model.skops")
    assert np.array_equal(read.predict_proba(test), model.model_.predict_proba(test))


def test_columns_that_cost_more_than_they_can_pay_for_are_named_before_the_first_charge():
    with pytest.warns(ColumnWarning, match="noise hides about 99% of what 100 columns show together at epsilon=0.5"):
        wide_run(300, 100, 0.5)


@pytest.mark.parametrize("n_rows", [300, 30], ids=["by features", "by rows"])
def test_coarse_scales_come_first_as_if_their_features_were_longer(n_rows):
    """Directions are those of features with other lengths, and read features as they are."""
    public = table(n_rows)
    base = TableMap().fit(public)
    lengths = np.sqrt(base.coarseness)
    fitted = DirectionsMap(TableMap(), n_directions=6, coarse_first=True).fit(public)
    features = base.transform(public).toarray() * lengths
    assert (features.shape[1] > n_rows) == (n_rows == 30)
    variances, vectors = np.linalg.eigh(np.cov(features.T, bias=True))
    expected = lengths[:, None] * (vectors * np.maximum(variances, 1e-12) ** -0.25)[:, :-7:-1]
    signs = np.sign((fitted.directions_ * expected).sum(axis=0))
    assert np.abs(fitted.directions_ - signs * expected).max() < 1e-6 * np.abs(expected).max()


def test_fine_scales_have_little_part_in_few_smooth_directions():
    """A direction is a function of a number. Its slopes vary far less where coarse scales come first."""
    public = pd.DataFrame(
        {"x": np.random.default_rng(0).normal(size=600), "y": np.random.default_rng(1).normal(size=600)}
    )
    jumps = []
    for coarse_first in (False, True):
        fitted = DirectionsMap(TableMap(), n_directions=4, coarse_first=coarse_first).fit(public)
        along = fitted.base_.features_of_column(fitted.base_.columns_[0], pd.Series(np.linspace(-2, 2, 200)))
        curves = along @ fitted.directions_[: along.shape[1]]
        jumps.append((np.square(np.diff(curves, 2, axis=0)).sum(axis=0) / np.square(curves).sum(axis=0)).max())
    assert jumps[1] < jumps[0] / 2


def test_linear_functions_are_numbers_and_have_their_part_of_the_length():
    """Noise-free least squares on public rows: between the outer knots every function is a straight line."""
    public = table(600).assign(constant=3.0, kind=np.where(np.arange(600) % 3, "a", "b"))
    public.loc[:20, "x0"] = np.nan
    fitted = DirectionsMap(TableMap(), n_directions=6, linear=0.2).fit(public)
    n_numbers = 6
    assert fitted.blocks_[-n_numbers - 1 :].tolist() == [fitted.blocks_[5] + 1] * n_numbers + [fitted.blocks_[5] + 2]
    products = fitted.base_.transform(public) @ fitted.directions_
    for name, own in zip(public.columns[:n_numbers], products[:, 6:].T, strict=True):
        known = public[name].notna().to_numpy()
        assert np.corrcoef(own[known], public[name][known].clip(-3, 3))[0, 1] > 0.998
    squares = products.var(axis=0)
    assert squares[6:].sum() / squares.sum() == pytest.approx(0.2, abs=0.01)  # missing entries vary less
    assert fitted.is_recent
    assert not DirectionsMap(TableMap()).fit(public).is_recent


def test_rows_with_linear_functions_have_the_same_bits_in_any_block():
    public = table(400)
    fitted = DirectionsMap(TableMap(), n_directions=6, linear=0.1).fit(public)
    together = fitted.transform(public)
    assert np.allclose(np.linalg.norm(together, axis=1), 1)
    for size in (1, 7, 128):
        parts = [fitted.transform(public.iloc[start : start + size]) for start in range(0, 400, size)]
        assert np.array_equal(np.concatenate(parts), together)


@pytest.mark.parametrize(
    ("base", "linear", "words"),
    [
        (TableMap(), 1.0, "linear=1.0 is not a number from 0 to 0.9"),
        (TableMap(), np.nan, "linear=nan"),
        (DirectionsMap(TableMap()), 0.1, "linear=0.1 needs a base map that states linear functions of numbers"),
    ],
)
def test_linear_functions_that_cannot_be_made_are_refused(base, linear, words):
    with pytest.raises(InvalidParameterError, match=words):
        DirectionsMap(base, linear=linear).fit(table(50))


@pytest.mark.parametrize("method", ["classes", "number"])
def test_a_map_that_gives_nan_is_refused_before_the_charge(method, tmp_path, monkeypatch):
    ordinary = DirectionsMap.transform
    monkeypatch.setattr(DirectionsMap, "transform", lambda self, X: ordinary(self, X) * np.nan)
    account = Ledger.create(str(tmp_path / "ledger.db")).open_account("a", epsilon=5, delta=1e-3)
    feature_map, run = DirectionsMap(TableMap(), n_directions=3), {"epsilon": 1.0, "delta": 1e-4}
    rows, public = table(200, 1), table(60, 2)
    model = (
        LabelMomentsClassifier(feature_map, classes=[0, 1], **run)
        if method == "classes"
        else LabelMomentsRegressor(0, 1, feature_map=feature_map, **run)
    )
    with pytest.raises(DataError, match="a feature map gave NaN or infinity"):
        model.fit(rows, np.arange(200) % 2, X_public=public, ledger=account)
    assert not account.history()


def test_a_table_without_numbers_has_no_linear_functions():
    public = pd.DataFrame({"kind": ["a", "b", "c"] * 40, "same": 1.0})
    fitted, plain = (DirectionsMap(TableMap(), n_directions=3, linear=part).fit(public) for part in (0.1, 0.0))
    assert np.array_equal(fitted.transform(public), plain.transform(public))
    assert np.array_equal(fitted.blocks_, plain.blocks_)


@pytest.mark.parametrize("missing", [0, 90])
def test_a_constant_whose_mean_is_rounded_has_no_linear_function(missing):
    """The computed deviation of 400 thirds is not 0, and would give features that are not finite."""
    public = table(400)
    plain = DirectionsMap(TableMap(), n_directions=6, linear=0.1).fit(public)
    public["third"] = 1 / 3
    public.loc[: missing - 1, "third"] = np.nan
    assert public["third"].std(ddof=0) > 0
    fitted = DirectionsMap(TableMap(), n_directions=6, linear=0.1).fit(public)
    assert len(fitted.blocks_) == len(plain.blocks_)
    assert np.isfinite(fitted.transform(public)).all()


def test_maps_saved_before_there_were_these_settings_are_read():
    fitted = DirectionsMap(TableMap(), n_directions=3).fit(table(50))
    earlier = DirectionsMap.__new__(DirectionsMap)
    later = ("coarse_first", "linear")
    earlier.__dict__.update({name: value for name, value in vars(fitted).items() if name not in later})
    assert repr(earlier) == repr(fitted)
    assert np.array_equal(earlier.transform(table(50)), fitted.transform(table(50)))
