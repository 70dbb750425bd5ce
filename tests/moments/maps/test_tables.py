"""Features of tables."""

import json
import pickle
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from dpensemble import LabelMomentsClassifier
from dpensemble._spending import kept_in
from dpensemble.errors import DataError, FileError
from dpensemble.moments import TableMap
from dpensemble.moments.maps.curved import CurvedMap
from dpensemble.moments.maps.directions import DirectionsMap
from dpensemble.moments.maps.tables import fitted_map, quantiles
from dpensemble.persistence import load_classifier, save_classifier
from dpensemble.workflow.disk import DrawnFile


@pytest.fixture
def public():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=600)
    numbers[::7] = np.nan
    heaps = np.where(rng.random(600) < 0.9, 0.0, rng.exponential(size=600))
    names = rng.choice(["a", "b", "rare"], size=600, p=[0.6, 0.399, 0.001])
    return pd.DataFrame({"number": numbers, "heap": heaps, "name": names, "same": 1.0})


def lengths(features):
    return np.sqrt(np.asarray(features.power(2).sum(axis=1)).ravel())


def test_every_row_has_length_one_whatever_it_holds(public):
    fitted = TableMap().fit(public)
    hostile = pd.DataFrame(
        {
            "number": [1e300, -1e300, np.nan],
            "heap": [np.nan, -5.0, 1e9],
            "name": ["new", None, "a"],
            "same": [2.0, np.nan, 1.0],
        }
    )
    for rows in (public, hostile):
        features = fitted.transform(rows)
        assert np.allclose(lengths(features), 1, atol=1e-12)
        assert features.min() >= 0
    assert len(fitted.get_feature_names_out()) == fitted.n_features_out_ == len(fitted.blocks_)
    assert np.isclose(fitted.squares_.sum(), 1)


def test_there_is_a_place_for_what_public_rows_lack(public):
    fitted = TableMap().fit(public.dropna())
    names = fitted.get_feature_names_out().tolist()
    assert {"heap is missing", "name is missing", "name = any other"} <= set(names)
    assert "name = rare" not in names
    row = pd.DataFrame({"number": [0.0], "heap": [0.0], "name": ["never seen"], "same": [1.0]})
    assert fitted.transform(row)[0, names.index("name = any other")] > 0


def test_private_rows_never_change_the_columns(public):
    fitted = TableMap().fit(public)
    before = fitted.get_feature_names_out().tolist()
    fitted.transform(pd.DataFrame({"number": [99.0], "heap": [7.0], "name": ["z"], "same": [0.0]}))
    assert fitted.get_feature_names_out().tolist() == before


def test_a_row_is_read_for_itself(public):
    fitted = TableMap().fit(public)
    together = fitted.transform(public).toarray()
    alone = np.vstack([fitted.transform(public.iloc[i : i + 1]).toarray() for i in range(50)])
    assert np.array_equal(together[:50], alone)


def test_a_value_that_many_rows_have_is_one_knot():
    values = np.concatenate([np.zeros(900), np.arange(1.0, 101.0)])
    found = quantiles(values, 9)
    assert found[0] == 0
    assert np.count_nonzero(found > 0) >= 7
    assert found[-1] == 100


def test_finer_knots_need_rows_and_room(public):
    assert TableMap().fit(public.iloc[:40]).n_features_out_ < TableMap().fit(public).n_features_out_
    assert TableMap(most_features=30).fit(public).n_features_out_ <= 30


def test_no_rows_and_other_columns_are_refused(public):
    with pytest.raises(DataError, match="X must have rows"):
        TableMap().fit(public.iloc[:0])
    with pytest.raises(DataError, match="it lacks 'same'; rename or add columns"):
        TableMap().fit(public).transform(public.iloc[:, :3])


def test_columns_that_are_read_together_are_read_as_each_alone(public):
    """Columns of equally many knots go together. More than a few knots are found by halving."""
    rng = np.random.default_rng(1)
    wide = public.assign(**{f"more {at}": rng.normal(size=600) for at in range(5)}, flag=rng.random(600) < 0.5)
    for knots in ((2,), (2, 3, 5, 9)):
        fitted = TableMap(knots=knots).fit(wide)
        together = fitted.transform(wide).toarray()
        for column in fitted.columns_:
            own = slice(column["start"], column["start"] + sum(column["sizes"]) + 1)
            alone = fitted.features_of_column(column, wide[column["name"]])
            assert np.abs(together[:, own] - alone).max() < 1e-15


def test_what_is_no_number_is_refused_where_public_rows_have_numbers(public):
    fitted = TableMap().fit(public)
    with pytest.raises(DataError, match="column 'heap' of X must hold numbers"):
        fitted.transform(public.assign(heap="secret"))


def test_saved_maps_have_few_parts_however_many_columns(public, tmp_path):
    """An array a column took an hour for 100,000 columns."""
    rng = np.random.default_rng(2)
    sizes = []
    for n_columns in (5, 60):
        wide = public.assign(**{f"more {at}": rng.normal(size=600) for at in range(n_columns)})
        student = make_pipeline(TableMap(), LogisticRegression()).fit(wide, np.arange(600) % 2)
        save_classifier(student, tmp_path / "student.skops")
        with zipfile.ZipFile(tmp_path / "student.skops") as saved:
            sizes.append(len(saved.namelist()))
        for back in (load_classifier(tmp_path / "student.skops"), pickle.loads(pickle.dumps(student))):  # noqa: S301
            assert np.array_equal(back.predict_proba(wide), student.predict_proba(wide))
            assert back[0].get_feature_names_out().tolist() == student[0].get_feature_names_out().tolist()
    assert sizes[0] == sizes[1] < 20


def test_maps_of_earlier_versions_are_read(public):
    fitted = TableMap().fit(public)
    earlier = dict(vars(fitted))
    back = TableMap.__new__(TableMap)
    back.__setstate__(earlier)
    assert (back.transform(public) != fitted.transform(public)).nnz == 0


@pytest.mark.parametrize("knots", [(2,), (3,), (2, 3, 5), (4, 9), (2, 9, 33), (2, 70)])
@pytest.mark.parametrize("share_missing", [0.0, 0.2])
def test_sparse_features_and_arrays_are_the_same_to_the_last_bit(knots, share_missing, monkeypatch):
    """All ways to find the knots beside a number, at knots, between them and outside of them."""
    rng = np.random.default_rng(0)
    numbers = np.vstack([rng.normal(size=(1500, 3)).round(2), [[9.0, -9.0, 0.0]] * 4])
    rows = pd.DataFrame(numbers, columns=list("abc")).assign(d=rng.choice(np.array(["x", "y"], dtype=object), 1504))
    rows = rows.mask(rng.random(rows.shape) < share_missing)
    fitted = TableMap(knots=knots).fit(rows)
    at_knots = pd.DataFrame({name: fitted.columns_[place]["knots"][-1] for place, name in enumerate("ab")})
    rows = pd.concat([rows, at_knots])
    features = fitted.transform(rows)
    monkeypatch.setattr("dpensemble.moments.maps.tables._DENSE", 1000)
    monkeypatch.setattr("dpensemble.moments.maps.tables.DENSE", 1000)
    for array in (fitted.for_sums(rows), fitted.for_products(rows)):
        assert isinstance(array, np.ndarray)
        assert np.array_equal(array, features.toarray())
    assert np.allclose(np.square(array).sum(axis=1), 1, rtol=1e-12)


def test_factors_of_scales_fall_with_the_square_of_their_knots(public):
    fitted = TableMap(knots=(2, 3, 5)).fit(public)
    factors, names = fitted.coarseness, fitted.get_feature_names_out().tolist()
    of_number = {n: {factors[i] for i, name in enumerate(names) if f"({n} knots)" in name} for n in (2, 3, 5)}
    assert {len(values) for values in of_number.values()} == {1}
    (two,), (three,), (five,) = of_number.values()
    assert two / five == pytest.approx(25 / 4)
    assert (two + three + five) / 3 == pytest.approx(1)
    others = [i for i, name in enumerate(names) if "knots" not in name or "same" in name]
    assert np.all(factors[others] == 1)


@pytest.mark.parametrize(
    ("n_rows", "epsilon", "n_classes", "n_directions"),
    [
        (1, 0.1, 2, 10),
        (300, 1.0, 2, 13),
        (300, 8.0, 2, 39),
        (1000, 8.0, 2, 71),
        (10**9, 8.0, 2, 500),
        (300, 1.0, 4, 13),
        (1000, 1.0, 4, 25),
        (1000, 3.0, 4, None),
    ],
)
def test_few_public_rows_leave_few_directions(public, n_rows, epsilon, n_classes, n_directions):
    """Records times epsilon decide how many. From some on, several classes take mixed tables' features as they are."""
    made = fitted_map(None, public, n_rows=n_rows, n_classes=n_classes, epsilon=epsilon)
    assert type(made) is (TableMap if n_directions is None else DirectionsMap if n_classes == 2 else CurvedMap)
    if n_directions is not None:
        directions = made if n_classes == 2 else made.base_
        assert directions.n_directions == n_directions
        assert directions.coarse_first


@pytest.mark.parametrize("n_rows", [300, 1000])
def test_several_classes_of_numbers_have_few_directions_at_every_budget(n_rows):
    numbers = pd.DataFrame(np.random.default_rng(0).normal(size=(450, 4)))
    made = fitted_map(None, numbers, n_rows=n_rows, n_classes=4, epsilon=8.0)
    assert (type(made), made.base_.n_directions) == (CurvedMap, {300: 39, 1000: 71}[n_rows])


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "expected"), [(1000, 4, (43, True)), (1000, 22, (65, False)), (1400, 4, (77, False))]
)
def test_smooth_directions_serve_several_classes_of_few_columns_and_records(n_rows, n_columns, expected):
    """A table with many columns has fewer than two smooth directions for each of them, and keeps all directions."""
    numbers = pd.DataFrame(np.random.default_rng(0).normal(size=(1000, n_columns)))
    directions = fitted_map(None, numbers, n_rows=n_rows, n_classes=4, epsilon=3.0).base_
    assert (directions.n_directions, directions.coarse_first) == expected


def test_enough_records_and_public_rows_have_more_directions():
    many = pd.DataFrame(np.random.default_rng(0).normal(size=(1000, 2)))
    for n_rows, expected in ((300, (13, True)), (3000, (109, False))):
        made = fitted_map(None, many, n_rows=n_rows, n_classes=2, epsilon=1.0)
        directions = made if isinstance(made, DirectionsMap) else made.base_
        assert (directions.n_directions, directions.coarse_first) == expected


def few_records(seed, n_rows=300):
    """Return rows of eight numbers and a text, and labels that depend on four of the numbers."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(rng.normal(size=(n_rows, 8)), columns=[f"x{n}" for n in range(8)])
    score = 2 * rows["x0"] - 1.5 * rows["x1"] + rows["x2"] + rows["x3"]
    rows["text"] = rng.choice(np.array(list("abc"), dtype=object), n_rows)
    return rows, (rng.random(n_rows) < 1 / (1 + np.exp(-score))).astype(int)


def test_few_records_rank_better_by_few_directions_than_by_all_features():
    """Of three draws with fixed seeds at epsilon 1."""
    gains = []
    for seed in range(3):
        X, y = few_records(seed)
        (test, labels), public = few_records(100 + seed, 1000), few_records(200 + seed, 400)[0]
        ranks = []
        for feature_map in (None, TableMap()):
            model = LabelMomentsClassifier(classes=[0, 1], feature_map=feature_map, insecure_release_seed=seed)
            scores = pd.Series(model.fit(X, y, X_public=public).predict_proba(test)[:, 1]).rank().to_numpy()
            own = labels == 1
            ranks.append((scores[own].mean() - scores[~own].mean()) / len(labels) + 0.5)
        gains.append(ranks[0] - ranks[1])
        assert ranks[0] > 0.7
    assert np.mean(gains) > 0.03


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("kind", ["identical", "constant", "one group"])
def test_public_rows_with_little_structure_lead_to_a_model(kind, n_classes):
    """All public rows are identical, have constant columns, or lack the rows of one class."""
    X, y = few_records(0)
    y = y if n_classes == 2 else y + 2 * (X["x4"] > 0).to_numpy()
    public = few_records(1, 250)[0]
    if kind == "identical":
        public = pd.concat([public.iloc[:1]] * 250, ignore_index=True)
    elif kind == "constant":
        public = public.assign(x0=1.0, text="a")
    else:
        public = public[public["x0"] > 0].reset_index(drop=True)
        public = pd.concat([public, public], ignore_index=True)
    model = LabelMomentsClassifier(classes=range(n_classes), insecure_release_seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        probabilities = model.fit(X, y, X_public=public).predict_proba(X)
    assert np.isfinite(probabilities).all()
    assert np.allclose(probabilities.sum(axis=1), 1)


def test_fresh_rows_have_as_many_known_categories_as_other_rows():
    """Categories with 5 to 10 rows each: in 40 draws, others have fewer of the known ones, as fresh rows do."""
    rng, known, own, other = np.random.default_rng(0), [], [], []
    for _ in range(40):
        public, more = (pd.DataFrame({"code": rng.integers(0, 300, n).astype(str)}) for n in (1800, 20_000))
        table_map = TableMap().fit(public)
        categories = table_map.known_categories["code"]
        own.append(public["code"].isin(categories).mean())
        known.append(table_map.as_fresh(public, None)["code"].isin(categories).mean())
        other.append(more["code"].isin(categories).mean())
    assert np.mean(own) > np.mean(other) + 0.03
    assert np.mean(known) == pytest.approx(np.mean(other), abs=0.01)


def test_fresh_rows_leave_out_whole_units():
    """Nine rows of one person do not show that others have the category."""
    public = pd.DataFrame({"code": ["a"] * 9 + ["b"] * 9 + ["c"] * 60, "number": np.arange(78.0)})
    units = np.append(np.zeros(9, dtype=np.int64), np.arange(1, 70))
    table_map = TableMap().fit(public)
    assert table_map.as_fresh(public, None) is public
    fresh = table_map.as_fresh(public, units)
    assert (~fresh["code"].isin(["a", "b", "c"])).sum() == 9
    assert fresh["code"].tolist()[18:] == ["c"] * 60
    assert fresh["number"].equals(public["number"])
    assert public["code"].isin(["a", "b", "c"]).all()


def test_sums_that_an_earlier_version_drew_are_not_read_as_those_of_another_map(tmp_path):
    """Such a run had all features of the table and other shares of the budget, so its sums must not be taken over."""
    X, y = few_records(0)
    model = LabelMomentsClassifier(classes=[0, 1], epsilon=1)
    drawn = {"name": "a noisy sum", "value": {"array": [[0.0]]}}
    (tmp_path / "drawn").write_text(json.dumps(drawn) + "\n")
    with (
        kept_in(DrawnFile(tmp_path / "drawn")),
        pytest.raises(FileError, match=r"finish the run with the version and the files of its start"),
    ):
        model.fit(X, y, X_public=few_records(1, 400)[0])
    assert not hasattr(model, "result_")
