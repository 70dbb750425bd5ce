"""Nonnegative features for class sums, landmarks, and the public facts that decide about them."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist
from sklearn.preprocessing import StandardScaler

from dpensemble import LabelMomentsClassifier
from dpensemble._random import SeededNoise
from dpensemble.accounting import Group
from dpensemble.cost import gaussian_mu
from dpensemble.guarantee import Budget
from dpensemble.moments import DirectionsMap, TableMap
from dpensemble.moments.learning import ClassSums
from dpensemble.moments.maps import curved as landmarks
from dpensemble.moments.maps.curved import (
    BesideMap,
    CurvedMap,
    WhitenedNumbers,
    _are_measured,
    _chosen_landmarks,
    beside,
)
from dpensemble.moments.maps.tables import fitted_map
from dpensemble.moments.whole import WHOLE, partial_sums
from dpensemble.persistence import load_classifier, save_classifier
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser, SumsMeter
from tests.records import records_behind, whole_blocks


def rows(n=1200, columns=4, seed=0):
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(n, columns)), columns=list("abcdefgh")[:columns])


def curved(public, n_landmarks=30):
    return CurvedMap(DirectionsMap(TableMap(), n_directions=6), n_landmarks).fit(public)


@pytest.fixture(scope="module")
def fitted():
    return curved(rows())


def test_positive_and_negative_parts_differ_by_the_base_map(fitted):
    features, base = fitted.transform(rows(50, seed=1)), fitted.base_.transform(rows(50, seed=1))
    near, (more, less), constant = features[:, :30], np.split(features[:, 30:-1], 2, axis=1), features[:, -1]
    assert features.min() >= 0
    assert np.allclose((features**2).sum(axis=1), 1)
    assert np.allclose((near**2).sum(axis=1), 0.75)
    assert np.allclose(more - less, math.sqrt(0.25) * base[:, :-1])
    assert np.allclose(constant, math.sqrt(0.25) * base[:, -1])


@pytest.mark.parametrize("n_landmarks", [0, 30])
def test_class_sums_move_by_at_most_the_square_root_of_two(n_landmarks):
    """All pairs of rows and labels, opposite rows among them, for which a signed map would move sums by 2."""
    one = curved(rows(), n_landmarks)
    some = pd.concat([rows(12, seed=3), -rows(12, seed=3)])
    features = one.transform(some)
    worst = 0.0
    for (u, y), (v, z) in itertools.product(itertools.product(features, range(2)), repeat=2):
        worst = max(worst, np.linalg.norm(np.outer(u, np.eye(2)[y]) - np.outer(v, np.eye(2)[z])))
    assert 1.2 < worst <= math.sqrt(2) + 1e-9


@pytest.mark.nightly
@pytest.mark.parametrize("relation", list(Relation))
def test_an_audit_sees_almost_all_of_mu_and_not_more(fitted, relation):
    """2 x 4,000 releases of a data set and a neighbour. False alarms below 1e-6: five standard errors each way."""
    some = pd.concat([rows(40, seed=3), -rows(40, seed=3)], ignore_index=True)
    features = fitted.transform(some)
    one, other = np.unravel_index((features @ features.T).argmin(), (80, 80))
    removes = relation is Relation.ADD_OR_REMOVE_ONE
    worlds = ([one], []) if removes else ([one], [other])
    budget = Budget(epsilon=8.0, delta=1e-5)
    mu = gaussian_mu(8.0, 1e-5)
    noise = SeededNoise(11)

    def released(place):
        at = [0, *place]
        targets, weights = np.zeros(len(at), dtype=np.int64), np.ones(len(at))
        sums = SumReleaser(relation=relation, meter=SumsMeter([Group("everyone", budget)]), noise=noise)
        blocks = whole_blocks(records_behind(lambda given: given, features[at], targets, weights))
        query = ClassSums(2)
        return sums, query, partial_sums(query, blocks).total

    totals = [released(place)[2].ravel().astype(float) for place in worlds]
    direction = (totals[0] - totals[1]) / WHOLE
    draws = []
    for place in worlds:
        values = []
        for _ in range(4000):
            sums, query, total = released(place)
            moments = sums.charge_and_draw(query, total, 1.0)
            both = np.hstack([moments.mean[:, None] / 2 - moments.values, moments.mean[:, None] / 2 + moments.values])
            values.append(float(both.ravel() @ direction))
        draws.append(np.array(values))
    spread = math.sqrt((draws[0].var(ddof=1) + draws[1].var(ddof=1)) / 2)
    measured = (draws[0].mean() - draws[1].mean()) / spread
    error = math.sqrt(2 / 4000 + measured**2 / 16_000)
    assert measured < mu + 5 * error
    # The pair is almost the worst one: five standard errors are 8 % of mu.
    assert measured > 0.9 * mu


def test_each_row_is_read_alone_to_the_last_digit(fitted):
    """A private row must not change the features of others."""
    some = rows(40, seed=2)
    assert fitted.reads_rows_alone
    together = fitted.transform(some)
    assert np.array_equal(together, np.vstack([fitted.transform(some.iloc[i : i + 1]) for i in range(40)]))
    others = pd.concat([some.iloc[:1], 100 * rows(39, seed=5)])
    assert np.array_equal(together[0], fitted.transform(others)[0])
    assert not fitted.decoder_.reads_rows_alone


def test_blanks_and_entries_out_of_range_are_read(fitted):
    odd = pd.DataFrame([[np.nan] * 4, [np.inf, -np.inf, 1e300, -1e300]], columns=list("abcd"))
    assert np.isfinite(fitted.transform(odd)).all()
    assert np.isfinite(fitted.decoder_.transform(odd)).all()


def test_what_the_model_reads_is_short_with_a_constant_last(fitted):
    features = fitted.decoder_.transform(rows(200, seed=4))
    assert features.shape[1] == len(fitted.decoder_.blocks_)
    assert np.linalg.norm(features, axis=1).max() <= 1 + 1e-9
    assert np.ptp(features[:, -1]) == 0
    assert (fitted.decoder_.blocks_ == fitted.decoder_.blocks_.max()).sum() == 1


@pytest.mark.parametrize(
    ("public", "n_landmarks"),
    [
        (rows(999), 30),
        (rows(), 0),
        (rows().assign(ward=["one", "two"] * 600), 30),
        (rows().assign(smokes=[0.0, 1.0] * 600), 30),
        (pd.concat([rows(2)] * 600), 30),
        (rows(columns=8).assign(**{f"more {i}": rows(seed=i + 9)["a"] for i in range(40)}), 30),
    ],
    ids=["few rows", "none asked", "category", "two values", "identical rows", "far from landmarks"],
)
def test_public_facts_keep_landmarks_away(public, n_landmarks):
    one = curved(public.reset_index(drop=True), n_landmarks)
    assert one.landmarks_ is None
    assert one.decoder_ is one.base_
    assert len(one.blocks_) == 2 * (len(one.base_.blocks_) - 1) + 1


class ReadsTogether(StandardScaler):
    """A map of others that reads rows together: a row's features depend on the rows beside it."""

    def transform(self, X):
        features = super().transform(X)
        return features - features.mean(axis=0)


def test_a_base_map_that_reads_rows_together_gets_each_private_row_alone(monkeypatch):
    sizes = []
    real = ReadsTogether.transform
    public, private = rows(1000), rows(30, seed=8)

    def watched(self, X):
        sizes.append(len(X))
        return real(self, X)

    y = (private["a"] > 0).astype(int)
    monkeypatch.setattr(ReadsTogether, "transform", watched)
    one = CurvedMap(DirectionsMap(ReadsTogether(), n_directions=3), 30)
    LabelMomentsClassifier(one, classes=[0, 1], delta=1e-3, insecure_release_seed=0).fit(private, y, X_public=public)
    # Public rows may be read together, and so may copies of them that fill up a block.
    assert not set(sizes) & set(range(2, len(private) + 1))
    assert sizes.count(1) >= 30


def test_numbers_whose_squares_overflow_keep_landmarks_away():
    assert curved(1e200 * rows()).landmarks_ is None


def test_a_base_map_may_be_sparse():
    assert CurvedMap(TableMap(), 30).fit(rows()).transform(rows(5)).min() >= 0


def test_a_constant_column_changes_no_distance():
    public = rows(40)
    with_constant = public.assign(same=1.0)
    white = [WhitenedNumbers().fit(table).transform(table) for table in (public, with_constant)]
    assert np.allclose(*(white_rows @ white_rows.T for white_rows in white))
    assert curved(rows().assign(same=1.0)).landmarks_ is not None


def test_landmarks_are_at_most_a_third_of_the_distinct_rows():
    few = pd.concat([rows(60)] * 20).reset_index(drop=True)
    assert _are_measured(few)
    numbers = WhitenedNumbers().fit(few)
    assert len(_chosen_landmarks(numbers.transform(few), numbers.from_mean(few), 400)) == 20


def test_whitened_numbers_have_a_total_variance_of_one_and_a_floor():
    public = rows(2000)
    public["b"] = public["a"] + 1e-3 * public["b"]
    white = WhitenedNumbers().fit(public).transform(public)
    assert white.var(axis=0).sum() == pytest.approx(1, abs=1e-9)
    # A direction in which rows hardly differ stays short.
    assert white.var(axis=0).min() < 1e-5


def wide_rows():
    """More columns than rows, of very different variances, one of them constant and one a copy."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(20, 5)) @ rng.normal(size=(5, 30)) + 0.1 * rng.normal(size=(20, 30))
    numbers[:, 3], numbers[:, 4] = 7.0, numbers[:, 5]
    return pd.DataFrame(numbers)


def test_a_wide_table_is_whitened_by_products_of_rows_as_by_those_of_columns():
    public, others = wide_rows(), wide_rows() + np.random.default_rng(1).normal(size=(20, 30))
    wide = WhitenedNumbers().fit(public)
    # Rows that are taken twice have the same covariance, and are as many as columns.
    tall = WhitenedNumbers().fit(pd.concat([public] * 2, ignore_index=True))
    distances = [pdist(whitened.transform(pd.concat([public, others]))) for whitened in (wide, tall)]
    assert distances[0] == pytest.approx(distances[1], rel=1e-6)
    standard, _ = WhitenedNumbers()._standardised(public)
    assert pdist(landmarks._apart_alike(standard)) == pytest.approx(pdist(wide.transform(public)), rel=1e-5)


@pytest.mark.parametrize("spread", [0.01, 3.0])
def test_landmarks_of_a_wide_table_are_tried_without_its_matrix(monkeypatch, spread):
    """Rows on a curve are near landmarks, and scattered ones are not."""
    monkeypatch.setattr(landmarks, "_FEWEST_ROWS", 60)
    rng = np.random.default_rng(0)
    numbers = np.sin(rng.uniform(0, 3, 60)[:, None] + np.linspace(0, 3, 70)) + spread * rng.normal(size=(60, 70))
    public, numbers_of = pd.DataFrame(numbers), WhitenedNumbers()
    directly = _chosen_landmarks(numbers_of.fit(public).transform(public), numbers_of.from_mean(public), 30)
    assert (curved(public).landmarks_ is None) == (directly is None) == (spread > 1)


def test_landmarks_are_fitted_on_public_rows_alone(monkeypatch):
    """The run never gives private rows to what chooses landmarks."""
    seen = []
    real = landmarks.WhitenedNumbers.fit
    monkeypatch.setattr(landmarks.WhitenedNumbers, "fit", lambda self, X: (seen.append(X.copy()), real(self, X))[1])
    public, private = rows(1000), rows(300, seed=8)
    y = private["a"].to_numpy().round().clip(-1, 1)
    LabelMomentsClassifier(classes=[-1, 0, 1], insecure_release_seed=0).fit(private, y, X_public=public)
    assert len(seen) == 1
    pd.testing.assert_frame_equal(seen[0], public)


def test_map_and_rounds_follow_from_public_rows_alone():
    """Other private rows, and other labels of them, change neither the map nor the number of rounds."""
    public, runs = rows(1200, seed=1), []
    for first_label in (0, 2):
        model = LabelMomentsClassifier(classes=[0, 1, 2], epsilon=1.0, insecure_release_seed=0, random_state=0)
        y = np.random.default_rng(first_label).integers(0, 3, 300)
        y[0] = first_label
        model.fit(rows(300, seed=2 + first_label), y, X_public=public)
        runs.append((model.model_.named_steps["encoder"].transform(public), len(model.moments_)))
    assert np.array_equal(runs[0][0], runs[1][0])
    assert runs[0][1] == runs[1][1] == 1


def test_a_curved_student_is_saved_and_read_back(tmp_path):
    private = rows(2000, seed=8)
    y = (private["a"] ** 2 + private["b"] ** 2 > 1.4).astype(int)
    model = LabelMomentsClassifier(classes=[0, 1], epsilon=3.0, insecure_release_seed=0)
    model.fit(private, y, X_public=rows(1000))
    assert model.design_.rounds == 1
    assert model.score(private, y) > 0.8
    save_classifier(model.student_, tmp_path / "student.skops")
    with pytest.warns(UserWarning, match="noise"):
        again = load_classifier(tmp_path / "student.skops")
    assert np.array_equal(again.predict_proba(private), model.predict_proba(private))


def mixed(n=1200, seed=0):
    """Four numbers, a text column and a column of two values."""
    draw = np.random.default_rng(seed + 100)
    return rows(n, seed=seed).assign(ward=draw.choice(["north", "south"], n), smokes=draw.integers(0, 2, n) * 1.0)


def beside_map(public, n_landmarks=30):
    return beside(DirectionsMap(TableMap(), n_directions=6).fit(public), public, n_landmarks, 8)


@pytest.fixture(scope="module")
def mixed_map():
    return beside_map(mixed())


def test_groups_of_features_beside_each_other_have_constant_lengths(mixed_map):
    features = mixed_map.transform(mixed(50, seed=1))
    assert isinstance(mixed_map, BesideMap)
    assert features.shape[1] == len(mixed_map.blocks_) == len(mixed_map.get_feature_names_out())
    for group, squared in enumerate(mixed_map.squares_):
        assert np.allclose((features[:, mixed_map.groups_ == group] ** 2).sum(axis=1), squared, rtol=1e-6)
    assert mixed_map.squares_.sum() == pytest.approx(1)
    assert not mixed_map.nonnegative_
    assert (mixed_map.blocks_ == mixed_map.blocks_.max()).sum() == 1
    assert mixed_map.numeric_columns == ["a", "b", "c", "d", "smokes"]
    assert mixed_map.compared_ is mixed_map.base_


@pytest.mark.parametrize("squares", [(0.0, 0.95), (0.475, 0.475), (0.95, 0.0)])
def test_residuals_of_features_beside_each_other_move_by_at_most_two(mixed_map, squares):
    """All pairs of rows and chances, with any division of the length among the groups."""
    some = pd.concat([mixed(8, seed=3), mixed(8, seed=3).assign(**dict.fromkeys("abcd", -9.0))])
    new = np.array([*squares, mixed_map.squares_[2]])
    factors = np.sqrt(new / new.sum() / mixed_map.squares_)[mixed_map.groups_]
    moved = mixed_map.transform(some) * factors
    answers = [sign * row for row in moved for sign in (-1.0, 0.3, 1.0)]
    worst = max(np.linalg.norm(one - other) for one, other in itertools.product(answers, repeat=2))
    assert 1.2 < worst <= 2 + 1e-6


def test_each_mixed_row_is_read_alone_to_the_last_digit(mixed_map):
    some = mixed(40, seed=2)
    assert mixed_map.reads_rows_alone
    together = mixed_map.transform(some)
    assert np.array_equal(together, np.vstack([mixed_map.transform(some.iloc[i : i + 1]) for i in range(40)]))
    others = pd.concat([some.iloc[:1], mixed(39, seed=5).assign(a=1e6)])
    assert np.array_equal(together[0], mixed_map.transform(others)[0])


def test_blanks_and_new_categories_of_mixed_rows_are_read(mixed_map):
    odd = pd.DataFrame([[np.nan] * 4 + [None, np.nan], [1e300, -1e300, 0.0, 0.0, "new", 7.0]], columns=mixed().columns)
    assert np.isfinite(mixed_map.transform(odd)).all()


@pytest.mark.parametrize(
    "public",
    [
        mixed(999),
        mixed().drop(columns=["b", "c", "d"]),
        mixed().assign(**{f"ward {i}": mixed(seed=i)["ward"] for i in range(9)}),
        pd.concat([mixed(2)] * 600, ignore_index=True),
        mixed().assign(**dict.fromkeys("abcd", 1.0)),
        mixed().assign(**{name: 1e200 * mixed()[name] for name in "abc"}),
        mixed().assign(**{f"more {i}": rows(seed=i + 9)["a"] for i in range(60)}),
        rows(1200, 8),
    ],
    ids=[
        "few rows",
        "one number",
        "mostly texts",
        "identical rows",
        "constant numbers",
        "huge numbers",
        "far",
        "numbers alone",
    ],
)
def test_public_facts_keep_nearness_from_standing_beside_a_table(public):
    assert isinstance(beside_map(public), DirectionsMap)


def test_constant_columns_do_not_count_against_measured_ones():
    public = mixed().assign(**{f"same {i}": "one" for i in range(9)})
    assert isinstance(beside_map(public), BesideMap)


def test_two_classes_of_a_mixed_table_get_nearness_and_three_do_not():
    for n_classes, kind in ((2, BesideMap), (3, CurvedMap)):
        one = fitted_map(None, mixed(), n_rows=6000, n_classes=n_classes, epsilon=1.0)
        assert type(one) is kind
        assert getattr(one, "landmarks_", None) is None


def test_few_records_and_a_small_budget_do_not_pay_for_nearness():
    one = fitted_map(None, mixed(), n_rows=4000, n_classes=2, epsilon=1.0)
    assert isinstance(one, DirectionsMap)


def test_slopes_of_nearness_add_up_to_the_difference_from_the_public_mean(mixed_map):
    some = mixed(20, seed=6)
    weights = np.random.default_rng(0).normal(size=(len(mixed_map.blocks_), 2))
    reference = mixed_map.reference(mixed())
    parts = mixed_map.column_parts(some, weights, reference)
    assert parts.shape == (20, 6, 2)
    expected = mixed_map.transform(some) @ weights - reference @ weights
    assert np.allclose(parts.sum(axis=1), expected, atol=5e-3)


def agreeing(n, seed):
    """Return rows and whether two of their numbers agree in sign, which no single column shows."""
    table = mixed(n, seed=seed)
    return table, ((table["a"] > 0) == (table["b"] > 0)).astype(int)


def test_a_student_sees_that_two_numbers_agree_beside_a_text_column(tmp_path):
    private, y = agreeing(3000, seed=8)
    model = LabelMomentsClassifier(classes=[0, 1], epsilon=3.0, insecure_release_seed=0)
    model.fit(private, y, X_public=mixed(1000))
    assert model.score(private, y) > 0.75
    # The second round gives nearness a larger part than the first one.
    encoder, scale = model.model_.named_steps["encoder"], model.moments_[1].scale
    assert scale[encoder.groups_ == 0].min() > 1 > scale[encoder.groups_ == 1].max()
    save_classifier(model.student_, tmp_path / "student.skops")
    with pytest.warns(UserWarning, match="noise"):
        again = load_classifier(tmp_path / "student.skops")
    assert np.array_equal(again.predict_proba(private), model.predict_proba(private))


def test_a_table_without_interactions_gives_length_back_to_its_columns():
    private = mixed(3000, seed=8)
    y = (private["a"] + private["b"] + (private["ward"] == "north") > 0.5).astype(int)
    model = LabelMomentsClassifier(classes=[0, 1], epsilon=3.0, insecure_release_seed=0)
    model.fit(private, y, X_public=mixed(1000))
    encoder, scale = model.model_.named_steps["encoder"], model.moments_[1].scale
    assert scale[encoder.groups_ == 0].max() < 2
