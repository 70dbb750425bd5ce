"""Standard deviations of contributions: those of a ridge estimate, by brute force.

Contributions of columns: they add up, they are those of brute force, and a column without a part gets none.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from dpensemble.datasets.preparation import LibraryTransformer
from dpensemble.errors import InvalidParameterError
from dpensemble.moments import BoundedMap, DirectionsMap, MomentsModel, TableMap
from dpensemble.moments.fits import Fit, fit_moments
from dpensemble.moments.maps.curved import CurvedMap, KernelDirections
from dpensemble.moments.maps.grid import SnappedMap, observed_grid
from dpensemble.moments.model import (
    Explanation,
    Information,
    Sources,
    Uncertainty,
    _rows_at,
    column_effects,
)
from dpensemble.moments.softmax import fit_softmax
from dpensemble.moments.whole import logits, probabilities


@given(arrays(np.float64, (3, 4), elements=st.floats(-1e6, 1e6)), st.sampled_from([1, 3, 7]))
def test_probabilities_are_some_whatever_the_scores(features, width):
    coefficients = np.random.default_rng(width).normal(size=(4, width))
    found = MomentsModel.of(coefficients, np.arange(max(2, width))).predict_proba(features)
    assert found.shape == (3, max(2, width))
    assert found.min() >= 0
    assert np.allclose(found.sum(axis=1), 1)


def test_two_columns_that_differ_equal_one():
    features, one = np.random.default_rng(0).normal(size=(2, 50, 4))
    coefficients = one[:4, :1]
    both = np.hstack([np.zeros((4, 1)), coefficients])
    assert np.allclose(probabilities(features, coefficients)[:, 0], probabilities(features, both)[:, 1])


def test_it_cannot_be_fitted_to_labels():
    with pytest.raises(InvalidParameterError, match="LabelMomentsClassifier"):
        MomentsModel().fit([[1.0]], [1])


def test_it_predicts_nothing_before_it_is_made():
    with pytest.raises(NotFittedError):
        MomentsModel().predict_proba([[1.0]])
    with pytest.raises(NotFittedError):
        MomentsModel().predict([[1.0]])


def information(size, seed=0, **more):
    draws = np.random.default_rng(seed)
    root = draws.normal(size=(size, size))
    return Information(root @ root.T, draws.uniform(0.5, 2, size), **{"curvatures": np.ones(1), "factor": 1.0, **more})


@pytest.mark.parametrize("curvature", [1.0, 0.3])
def test_deviations_are_those_of_a_ridge_estimate(curvature):
    given = information(6, curvatures=np.array([curvature]), factor=1.7)
    found = Uncertainty.of(given)
    precision, prior = curvature**2 * given.precision, np.diag(1 / given.deviations**2)
    shrunk = np.linalg.inv(precision + prior)
    covariance = 1.7 * shrunk @ precision @ shrunk
    along = np.random.default_rng(1).normal(size=(20, 6))
    expected = np.sqrt(np.einsum("ij,jk,ik->i", along, covariance, along))
    np.testing.assert_allclose(found.deviations(along @ found.basis)[:, 0], expected, rtol=1e-4)


def test_directions_that_nothing_was_released_about_do_not_move():
    given = information(4)
    blind = Information(np.diag([1.0, 0, 0, 0]), given.deviations, np.ones(1), 1.0)
    found = Uncertainty.of(blind)
    assert found.basis.shape == (4, 1)
    assert found.deviations(np.eye(4)[1] @ found.basis)[0] == 0


def test_many_features_have_no_uncertainty(monkeypatch):
    monkeypatch.setattr("dpensemble.moments.model._MOST_FEATURES", 3)
    assert Uncertainty.of(information(4)) is None


@pytest.mark.parametrize(("n_classes", "draws"), [(2, 25), pytest.param(3, 40, marks=pytest.mark.nightly)])
def test_stated_deviations_are_those_of_fits_to_other_noise(made, n_classes, draws):
    """The root mean square over coefficients is between 0.6 and 1.5 of what is stated.

    From 25 draws even a single coefficient has such a ratio with a standard error of 15 %. False alarms are below 1 %.
    """
    stated, fitted = [], []
    for seed in range(draws):
        public, _, rounds = made(n_classes, spread=0.004, n_rounds=1, seed=7)
        other = np.random.default_rng(seed).normal(size=rounds[0].values.shape) * 0.004
        moved = type(rounds[0])(**{**vars_of(rounds[0]), "values": rounds[0].values + other})
        if n_classes == 2:
            fit = fit_moments([moved], public, Fit.start(public), n_units=1e6)
        else:
            fit = fit_softmax([moved], public, n_units=1e6)
        uncertainty = Uncertainty.of(fit.information)
        coefficients = fit.coefficients - (fit.coefficients.mean(axis=1, keepdims=True) if n_classes > 2 else 0)
        fitted.append(coefficients[:-1])
        stated.append(uncertainty.deviations(np.eye(len(coefficients)) @ uncertainty.basis)[:-1])
    ratio = np.sqrt(np.var(fitted, axis=0, ddof=1).mean() / np.square(stated).mean())
    assert 0.6 < ratio < 1.5


def vars_of(moments):
    return {name: getattr(moments, name) for name in moments.__dataclass_fields__}


def test_effects_have_deviations_of_each_point():
    public = pd.DataFrame({"age": np.arange(40.0), "sex": ["f", "m"] * 20})
    feature_map = TableMap(knots=(2, 3)).fit(public)
    coefficients = np.random.default_rng(0).normal(size=(len(feature_map.blocks_), 1))
    uncertainty = Uncertainty.of(information(len(coefficients)))
    for effect in column_effects(feature_map, coefficients, public, uncertainty):
        assert [len(row) for row in effect["deviations"]] == [1] * len(effect["points"])
        assert min(value for (value,) in effect["deviations"]) > 0
        assert "approximation" not in effect
    without = column_effects(feature_map, coefficients, public)
    assert all("deviations" not in effect for effect in without)


rng = np.random.default_rng(0)
PUBLIC = pd.DataFrame(
    {
        "age": rng.integers(20, 90, 300).astype(float),
        "ward": rng.choice(np.array(["a", "b", "c", None], dtype=object), 300),
        "dose": np.where(rng.random(300) < 0.2, np.nan, rng.normal(size=300)),
    }
)
MEASURED = pd.DataFrame(rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 3)), columns=["x", "y", "z"])
TABLE = TableMap(knots=(2, 3, 5)).fit(PUBLIC)
MAPS = {
    "table": (TABLE, PUBLIC),
    "directions": (DirectionsMap(TableMap(knots=(2, 3, 5)), n_directions=12).fit(PUBLIC), PUBLIC),
    "snapped": (
        SnappedMap(TableMap(knots=(2, 3), fewest=1), observed_grid(PUBLIC).columns).fit(PUBLIC),
        PUBLIC,
    ),
    "curved": (
        CurvedMap(DirectionsMap(TableMap(knots=(2, 3)), n_directions=8), n_landmarks=20).fit(MEASURED).decoder_,
        MEASURED,
    ),
}


def model_of(name, n_columns=1, seed=1):
    """A model with random coefficients on a map's features."""
    feature_map, public = MAPS[name]
    coefficients = np.random.default_rng(seed).normal(size=(len(feature_map.blocks_), n_columns))
    classes = np.array(["no", "yes"] if n_columns == 1 else list("abcdef")[:n_columns])
    model = MomentsModel.of(coefficients, classes)
    model.reference_ = feature_map.reference(public)
    return feature_map, public, model


@pytest.mark.parametrize("name", MAPS)
def test_parts_add_up_before_the_remainder_is_divided(name):
    feature_map, public = MAPS[name]
    weights = np.random.default_rng(0).normal(size=(len(feature_map.blocks_), 2))
    reference = feature_map.reference(public)
    parts = feature_map.column_parts(public, weights, reference)
    assert parts.shape == (len(public), public.shape[1], 2)
    differences = np.asarray(feature_map.transform(public) @ weights) - reference @ weights
    remainder = np.abs(parts.sum(axis=1) - differences)
    # An integral along a path has an error. Directions read features that are rounded to whole numbers of 2**-26.
    assert remainder.max() < {"curved": 0.15, "directions": 1e-7}.get(name, 1e-10)
    assert remainder.mean() < 5e-3


@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("name", MAPS)
def test_contributions_and_base_are_the_logit_of_the_model(name, n_columns):
    feature_map, public, model = model_of(name, n_columns)
    found = model.explanation([feature_map], public)
    wanted = logits(feature_map.transform(public), model.coefficients_)
    if n_columns > 1:
        wanted -= wanted.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found.logits, wanted, atol=1e-9)
    np.testing.assert_array_equal(found.predicted, model.predict(feature_map.transform(public)))
    assert found.columns == list(public)
    assert found.classes == list(model.classes_[-n_columns:])
    assert found.attribution == feature_map.attribution


def test_a_part_of_a_table_is_that_of_its_own_entry():
    feature_map, public, _ = model_of("table")
    weights = np.random.default_rng(0).normal(size=(len(feature_map.blocks_), 1))
    parts = feature_map.column_parts(public, weights, feature_map.reference(public))
    other = public.assign(ward="b", dose=0.5)
    moved = feature_map.column_parts(other, weights, feature_map.reference(public))
    np.testing.assert_allclose(parts[:, 0], moved[:, 0], atol=1e-12)
    # Over the public rows each column adds nothing on average.
    np.testing.assert_allclose(parts.mean(axis=0), 0, atol=1e-12)


def test_directions_are_divided_among_columns_through_the_projection():
    """Brute force: each feature of the table times its own row of the projection, feature by feature."""
    feature_map, public, _ = model_of("directions")
    weights = np.random.default_rng(0).normal(size=(len(feature_map.blocks_), 1))
    parts = feature_map.column_parts(public, weights, feature_map.reference(public))
    base = feature_map.base_
    features = base.transform(public).toarray() - feature_map.mean_
    along = features @ feature_map.directions_
    for row in (0, 17, 200):
        factor = np.sqrt(1 - feature_map.constant**2) / np.linalg.norm(along[row])
        for number, column in enumerate(base.columns_):
            own = range(column["start"], column["start"] + sum(column["sizes"]) + 1)
            expected = sum(factor * features[row, i] * feature_map.directions_[i] @ weights[:-1, 0] for i in own)
            # The factor is that of rounded features.
            assert parts[row, number, 0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("nodes", [32, 800])
def test_slopes_along_a_path_are_those_of_brute_force(monkeypatch, nodes):
    """Finite differences at many points of the line, for rows that are shortened and rows that are not.

    Slopes jump where a row begins to be shortened. So the error falls as one over the number of nodes.
    """
    monkeypatch.setattr("dpensemble.moments.maps.curved._NODES", nodes)
    draws = np.random.default_rng(3)
    rows = draws.normal(size=(400, 2))
    kernel = KernelDirections(rows[:15]).fit(rows)
    weights = draws.normal(size=(kernel.matrix_.shape[1], 2))

    def value(points):
        features = kernel.transform(points)
        return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1.0) @ weights

    lengths = np.linalg.norm(kernel.transform(rows), axis=1)
    some = rows[np.argsort(lengths)[[0, 1, -2, -1]]]
    assert lengths.min() < 1 < lengths.max()
    step, middles = 1e-6, (np.arange(2000) + 0.5) / 2000
    slopes = kernel.mean_slopes(some, weights)
    for number, row in enumerate(some):
        points = middles[:, None] * row
        for place in range(2):
            moved = np.eye(2)[place] * step
            brute = (value(points + moved) - value(points - moved)).mean(axis=0) / (2 * step)
            np.testing.assert_allclose(slopes[number, place], brute, atol=5 / nodes)


def test_the_remainder_goes_to_columns_that_have_a_part():
    parts = np.array([[[1.0], [-3.0], [0.0]], [[0.0], [0.0], [0.0]]])
    found = Sources.completed(parts, np.array([[-1.6], [0.3]]))
    np.testing.assert_allclose(found[0, :, 0], [1.1, -2.7, 0.0])
    np.testing.assert_allclose(found[1, :, 0], 0.1)


class Repeated(LibraryTransformer):
    source_columns = property(lambda _: ["a", "b", "a"])


def test_parts_of_one_source_are_added():
    parts = np.arange(12.0).reshape(2, 3, 2)
    gathered = Sources([Repeated()], ["a", "b"]).gathered(parts)
    np.testing.assert_array_equal(gathered[:, 0], parts[:, 0] + parts[:, 2])
    assert Sources([], ["a", "b", "c"]).gathered(parts) is parts


def test_a_row_that_is_the_public_mean_has_no_contributions():
    feature_map, public, model = model_of("curved")
    middle = public.mean().to_frame().T
    found = model.explanation([feature_map], middle)
    curved = feature_map.column_parts(middle, np.zeros((len(feature_map.blocks_), 1)), model.reference_)
    assert not curved.any()
    assert found.contributions.shape == (1, 3, 1)


def test_entries_are_plain_values_and_the_largest_contributions_come_first():
    feature_map, public, model = model_of("table")
    row = public.iloc[[int(np.flatnonzero(public["dose"].isna())[0])]]
    found = model.explanation([feature_map], row).of_row()
    sizes = [abs(part["contribution"]) for part in found["contributions"]]
    assert sizes == sorted(sizes, reverse=True)
    values = {part["column"]: part["value"] for part in found["contributions"]}
    assert values["dose"] is None
    assert type(values["age"]) is float
    assert found["class"] == "yes"
    assert found["base"] + sum(part["contribution"] for part in found["contributions"]) == pytest.approx(found["logit"])


def test_no_rows_have_no_explanations():
    feature_map, public, model = model_of("directions")
    explanation = model.explanation([feature_map], public.iloc[:0])
    assert explanation.contributions.shape == (0, 3, 1)
    assert str(explanation) == "No row is explained."
    assert explanation._repr_html_() == "<p>No row is explained.</p>"


def test_an_explanation_prints_the_first_row_and_draws_it_in_a_notebook(monkeypatch):
    feature_map, public, model = model_of("table")
    explanation = model.explanation([feature_map], public)
    first, *lines, last = str(explanation).splitlines()
    assert first.startswith("Row 0 of 300: the logit of yes is ")
    parts = explanation.parts(0)
    assert [line.split(" = ")[0].strip() for line in lines] == [part.column for part in parts]
    assert all(f"adds {part.contribution:+.3g}" in line for line, part in zip(lines, parts, strict=True))
    assert explanation.attribution in last
    assert explanation._repr_html_().startswith("<svg ")
    assert repr(explanation) == "<Explanation: 300 rows, 3 columns; print shows the first row>"
    monkeypatch.setattr("dpensemble.moments.model._MOST_LINES", 1)
    rest = sum(part.contribution for part in parts[1:])
    assert f"  2 more columns add {rest:+.3g}." in str(explanation).splitlines()


def test_names_in_a_notebook_are_no_markup():
    feature_map, public, model = model_of("table")
    explanation = model.explanation([feature_map], public)
    named = replace(explanation, columns=["<b>age", *explanation.columns[1:]])
    assert "<b>" not in named._repr_html_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda found: found.of_row(300), "row=300 is not an integer from 0 to 299"),
        (lambda found: found.waterfall(0, "b"), r"label='b' has no logit of its own: use one of \['yes'\]"),
        (lambda found: found.waterfall(most=0), "most=0 is not an integer"),
    ],
)
def test_bad_input(call, message):
    feature_map, public, model = model_of("table")
    found = model.explanation([feature_map], public)
    assert type(found) is Explanation
    with pytest.raises(InvalidParameterError, match=message):
        call(found)


def test_maps_without_parts_and_earlier_files_are_refused():
    bounded = BoundedMap(StandardScaler()).fit(PUBLIC[["age"]])
    model = MomentsModel.of(np.zeros((len(bounded.blocks_), 1)), np.array([0, 1]))
    with pytest.raises(InvalidParameterError, match=r"^explain cannot divide the features of BoundedMap .* default"):
        model.explanation([bounded], PUBLIC[["age"]])
    feature_map, public, model = model_of("table")
    model.reference_ = None
    with pytest.raises(InvalidParameterError, match=r"^the student was saved before explanations existed: [^.]*\.$"):
        model.explanation([feature_map], public)


def effects_of(public):
    feature_map = TableMap(fewest=2).fit(public)
    coefficients = np.ones((feature_map.n_features_out_, 1))
    return {one["column"]: one for one in column_effects(feature_map, coefficients, public)}


def rows_of(effect):
    return {str(entry): rows for (entry, _), rows in zip(effect["points"], effect["rows"], strict=True)}


def test_public_rows_are_counted_for_each_category():
    public = pd.DataFrame({"ward": ["a"] * 5 + ["b"] * 3 + ["c", "d", None, None]})
    assert rows_of(effects_of(public)["ward"]) == {"a": 5, "b": 3, "any other": 2, "missing": 2}


def test_public_rows_are_counted_at_the_nearest_number():
    rng = np.random.default_rng(0)
    public = pd.DataFrame({"age": rng.normal(60, 10, 400)})
    public.loc[:9, "age"] = np.nan
    effect = effects_of(public)["age"]
    assert sum(effect["rows"]) == 400
    assert rows_of(effect)["missing"] == 10


@pytest.mark.parametrize(("seen", "rows"), [([0.0, 0.4, 0.6, 9.0, np.nan], [2, 2, 1]), ([1.0], [0, 1, 0])])
def test_a_number_counts_for_the_nearest_entry(seen, rows):
    assert _rows_at([(0.0, 0.0), (1.0, 1.0), (np.nan, "missing")], pd.Series(seen), "number") == rows
