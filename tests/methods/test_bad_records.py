"""Bad records: each is judged alone, adds zeros, keeps its place, and is counted."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from dpensemble import (
    AutoClassifier,
    BaggingPrivacyClassifier,
    DPBaggingClassifier,
    EncodedClassifier,
    LabelMomentsClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
    SoftVotesClassifier,
    SubsampleAggregateClassifier,
)
from dpensemble._units import present_numbers, units_or_none
from dpensemble.datasets import ParquetBlocks
from dpensemble.datasets.columns import as_text
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments import ImageMap
from dpensemble.moments.whole import WHOLE
from dpensemble.releases import SumReleaser
from dpensemble.rows.arguments import BAD, class_ids_or_bad, readable_rows

pytestmark = pytest.mark.usefixtures("few_synthetic_rows")

N = 60
RNG = np.random.default_rng(0)
PUBLIC = pd.DataFrame({"x": RNG.normal(size=80), "c": RNG.choice(["a", "b"], size=80)})
TABLE = pd.DataFrame({"x": RNG.normal(size=N), "c": RNG.choice(["a", "b"], size=N)})
LABELS = np.arange(N) % 2
PLACE = 7


def kept(table):
    return table.astype(object)


def infinite():
    return TABLE.assign(x=TABLE["x"].where(np.arange(N) != PLACE, np.inf)), LABELS


def undeclared():
    return TABLE, np.where(np.arange(N) == PLACE, 9, LABELS)


def missing_label():
    return TABLE, np.where(np.arange(N) == PLACE, np.nan, LABELS)


def odd_label():
    labels = LABELS.astype(object)
    labels[PLACE] = "Zaphod"
    return TABLE, labels


KINDS = [infinite, undeclared, missing_label, odd_label]
SETTINGS = {"classes": [0, 1], "epsilon": 5.0, "delta": 1e-3, "insecure_release_seed": 3, "on_bad_record": "zero"}


@pytest.fixture
def sums(monkeypatch):
    """Exact sums of a run of label moments, and the sensitivity that each is charged for."""
    seen = []
    real = SumReleaser.charge_and_draw

    def watched(self, query, total, share, *, weight=1.0):
        seen.append((total.copy(), query.sensitivity(self.relation)))
        return real(self, query, total, share, weight=weight)

    monkeypatch.setattr(SumReleaser, "charge_and_draw", watched)
    return seen


def moments(table, labels, **more):
    return LabelMomentsClassifier(**SETTINGS | more).fit(table, labels, X_public=PUBLIC)


def first_sum(sums, *arguments, **more):
    sums.clear()
    moments(*arguments, **more)
    return sums[0]


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("feature_map", [None, StandardScaler()])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_record_adds_a_zero_vector(sums, kind, feature_map, relation):
    """The sum is exactly that of all other records: the vector of a lone record is added to it, or is not."""
    more = {"relation": relation, "feature_map": feature_map}
    columns = ["x"] if feature_map is not None else ["x", "c"]
    public = PUBLIC[columns]

    def sum_of(table, labels):
        sums.clear()
        LabelMomentsClassifier(**SETTINGS | more).fit(table[columns], labels, X_public=public)
        # The noisy count is the first sum where the number of records is private.
        return sums[relation != "replace-one"]

    bad, sensitivity = sum_of(*kind())
    without, _ = sum_of(TABLE.drop(index=PLACE), np.delete(LABELS, PLACE))
    good, _ = sum_of(TABLE, LABELS)
    assert np.array_equal(bad, without)
    assert 0 < np.linalg.norm((good - bad).astype(float)) <= sensitivity


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_record_counts(sums, kind):
    for table, labels in (kind(), (TABLE, LABELS)):
        sums.clear()
        model = moments(table, labels, relation="add-or-remove-one")
        assert sums[0][0].item() == N * WHOLE
    assert model.guarantee_.epsilon <= 5.0


@pytest.mark.parametrize("kind", KINDS)
def test_by_default_a_bad_record_is_refused(kind):
    table, labels = kind()
    with pytest.raises((DataError, ValueError)) as caught:
        moments(table, labels, on_bad_record="raise")
    assert "Zaphod" not in str(caught.value)
    with pytest.raises(InvalidParameterError, match="on_bad_record='skip' is unknown"):
        moments(table, labels, on_bad_record="skip")


def test_text_among_numbers_is_a_blank_where_blanks_are_taken(sums):
    table = kept(TABLE)
    table.loc[PLACE, "x"] = "Zaphod"
    found, _ = first_sum(sums, table, LABELS)
    blank, _ = first_sum(sums, TABLE.assign(x=TABLE["x"].where(np.arange(N) != PLACE)), LABELS)
    assert np.array_equal(found, blank)


class Picky(TransformerMixin, BaseEstimator):
    """Cannot read some rows: raises, or gives NaN."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        rows = np.asarray(X, dtype=float)
        if (rows > 50).any():
            raise ValueError(f"cannot read {rows}")
        return np.where(rows > 10, np.nan, rows)


@pytest.mark.parametrize("value", [99.0, 20.0])
@pytest.mark.parametrize("n_public", [80, 300])
def test_a_row_that_a_map_cannot_read_is_bad_in_every_round(sums, value, n_public):
    """Also behind another map, which takes over if public rows look unlike the private ones."""
    public = pd.DataFrame({"x": RNG.normal(size=n_public)})
    table = TABLE[["x"]].assign(x=np.where(np.arange(N) == PLACE, value, TABLE["x"]))
    found = []
    for rows, labels in ((table, LABELS), (table.drop(index=PLACE), np.delete(LABELS, PLACE))):
        sums.clear()
        LabelMomentsClassifier(feature_map=Picky(), **SETTINGS).fit(rows, labels, X_public=public)
        found.append(sums[0][0])
    assert np.array_equal(*found)
    with pytest.raises(DataError, match=r"cannot read a private row \(ValueError\)|gave NaN") as caught:
        LabelMomentsClassifier(feature_map=Picky(), **SETTINGS | {"on_bad_record": "raise"}).fit(
            table, LABELS, X_public=public
        )
    assert caught.value.__context__ is None


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_a_record_without_a_unit_adds_nothing_at_all(sums, relation):
    units = (np.arange(N) // 3).astype(object)
    lost, gone = units.copy(), [PLACE, PLACE + 20]
    lost[gone] = None, np.nan
    found = []
    for rows, labels, whose in (
        (TABLE, LABELS, lost),
        (
            TABLE.drop(index=[PLACE, PLACE + 20]),
            np.delete(LABELS, [PLACE, PLACE + 20]),
            np.delete(units, [PLACE, PLACE + 20]),
        ),
    ):
        sums.clear()
        LabelMomentsClassifier(**SETTINGS | {"relation": relation}).fit(rows, labels, X_public=PUBLIC, units=whose)
        found.append([total for total, _ in sums[:2]])
    assert all(np.array_equal(*pair) for pair in zip(*found, strict=True))


def test_blocks_of_parquet_are_judged_as_tables_are(sums, tmp_path):
    table = TABLE.assign(
        x=TABLE["x"].where(np.arange(N) != PLACE, np.inf), y=LABELS, who=pd.array(np.arange(N) // 3, dtype="Int64")
    )
    table.loc[11, "who"] = pd.NA
    table.loc[12, "y"] = 5
    table.to_parquet(tmp_path / "t.parquet")
    first = first_sum_of_fit(sums, table)
    blocks = ParquetBlocks(tmp_path / "t.parquet", "y", unit="who", rows=7, keep_bad=True)
    assert blocks.units[11] == -1
    # A reader with a column of units protects units, also if nobody repeats them.
    for units in ({"units": blocks.units}, {}):
        sums.clear()
        model = LabelMomentsClassifier(**SETTINGS).fit_blocks(blocks, X_public=PUBLIC, **units)
        assert np.array_equal(first, sums[0][0])
        assert model.guarantee_.unit == "unit"
    with pytest.raises(DataError, match="rows without a unit"):
        ParquetBlocks(tmp_path / "t.parquet", "y", unit="who")


def first_sum_of_fit(sums, table):
    sums.clear()
    LabelMomentsClassifier(**SETTINGS).fit(
        table[["x", "c"]], table["y"], X_public=PUBLIC, units=as_text(table["who"]).to_numpy()
    )
    return sums[0][0]


X = RNG.normal(size=(N, 2))
X_PUBLIC = RNG.normal(size=(50, 2))
VOTES = SETTINGS | {"random_state": 0}
METHODS = [
    SubsampleAggregateClassifier(n_teachers=6, **VOTES),
    PATEClassifier(n_teachers=6, teacher=LogisticRegression(C=0.5, solver="liblinear"), **VOTES),
    DPBaggingClassifier(n_teachers=4, **VOTES),
    SoftVotesClassifier(n_teachers=6, **VOTES),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda one: one.name)
@pytest.mark.parametrize("kind", [*KINDS, None])
def test_no_teacher_learns_from_a_bad_record(monkeypatch, method, kind):
    """Teachers are those of the same places without the record, for every content of the record."""
    rows, labels = X.copy(), LABELS
    if kind is not None:
        table, labels = kind()
        rows[PLACE] = np.where(np.isinf(table["x"][PLACE]), np.inf, rows[PLACE])
    else:
        rows = rows.astype(object)
        rows[PLACE, 1] = "Zaphod"
    shards = []
    for name in ("TeacherEnsemble", "SoftTeacherEnsemble"):
        module = f"dpensemble.{'methods.soft_votes' if name.startswith('Soft') else 'engine.voting'}"
        real = getattr(__import__(module, fromlist=[name]), name)

        def watched(estimator, taught, *rest, real=real, **more):
            shards.append(taught.shards)
            return real(estimator, taught, *rest, **more)

        monkeypatch.setattr(f"{module}.{name}", watched)
    method.fit(rows, labels, X_public=X_PUBLIC)
    method.fit(X, LABELS, X_public=X_PUBLIC)
    with_bad, whole = shards
    assert all(PLACE not in shard for shard in with_bad)
    for one, other in zip(with_bad, whole, strict=True):
        assert one.tolist() == [place for place in other.tolist() if place != PLACE]


def test_teachers_without_usable_records_vote_a_fixed_public_class():
    rows = np.full((N, 2), np.inf)
    answers = [
        SubsampleAggregateClassifier(n_teachers=6, law="lnmax", **VOTES)
        .fit(rows, labels, X_public=X_PUBLIC)
        .labels_.labels
        for labels in (LABELS, 1 - LABELS)
    ]
    assert np.array_equal(*answers)


def test_a_private_teacher_reads_a_bad_record_as_zeros():
    settings = VOTES | {"epsilon": 20.0, "delta": 1e-3}
    rows = X.copy()
    rows[PLACE] = np.inf
    bad = PrivateMajorityClassifier(n_teachers=3, **settings).fit(rows, LABELS, X_public=X_PUBLIC)
    zeros, labels = X.copy(), LABELS.copy()
    zeros[PLACE], labels[PLACE] = 0.0, 0
    plain = PrivateMajorityClassifier(n_teachers=3, **settings).fit(zeros, labels, X_public=X_PUBLIC)
    assert np.array_equal(bad.labels_.labels, plain.labels_.labels)


def test_each_label_is_judged_alone():
    classes = np.array([0, 1])
    labels = ["1", 1.0, True, None, np.nan, 10**400, "x", 2, [1], pd.NA]
    ids = class_ids_or_bad(classes, np.array(labels, dtype=object))
    assert ids.tolist() == [1, 1, 1, BAD, BAD, BAD, BAD, BAD, BAD, BAD]
    for place, label in enumerate(labels):
        alone = np.empty(1, dtype=object)
        alone[0] = label
        assert class_ids_or_bad(classes, alone)[0] == ids[place]
    assert class_ids_or_bad(np.array(["1", "a"]), np.array([1, 1.0, "a", "b"], dtype=object)).tolist() == [0, 0, 1, BAD]


def test_types_of_classes_are_compared_before_records_are():
    with pytest.raises(DataError, match="of different types"):
        moments(TABLE, LABELS, classes=["0", "1"])


def test_rows_and_units_are_judged_alone():
    table = pd.DataFrame({"x": [1.0, np.inf, np.nan], "c": ["a", "b", None]})
    found, readable = readable_rows(table)
    assert readable.tolist() == [True, False, True]
    assert found["x"][1] == 0
    assert found["c"].isna().tolist() == [False, True, True]
    assert found.iloc[[0, 2]].equals(table.iloc[[0, 2]])
    assert units_or_none([1, -1])[1].tolist() == [True, True]
    assert present_numbers(np.array([1, -1])).tolist() == [True, False]
    assert units_or_none(["a", None, np.nan, pd.NA])[1].tolist() == [True, False, False, False]


VOTERS = {
    "saa": (SubsampleAggregateClassifier, {"n_teachers": 5}),
    "pate": (PATEClassifier, {"n_teachers": 5}),
    "soft": (SoftVotesClassifier, {"n_teachers": 5}),
}


@pytest.mark.parametrize("name", VOTERS)
def test_records_without_a_unit_change_no_place_of_others(name, monkeypatch):
    """At every place, and for all names of other units."""
    from dpensemble.allocation.partition import Allocation

    seen = []
    real = Allocation.without
    monkeypatch.setattr(Allocation, "without", lambda self, bad: seen.append(self.shards) or real(self, bad))
    make, more = VOTERS[name]
    rows, units = TABLE[["x"]].to_numpy(), np.array([f"unit {k // 3}" for k in range(N)], dtype=object)
    units[5:9] = [f"record {k} without a unit" for k in range(4)]
    for places in ([], [0, 7, 30]):
        X, y, who = (np.insert(one, places, one[:1], axis=0) for one in (rows, LABELS, units))
        who[[place + shift for shift, place in enumerate(places)]] = None
        make(**SETTINGS | {"random_state": 0, "epsilon": 50.0} | more).fit(
            X, y, X_public=PUBLIC[["x"]].to_numpy(), units=who
        )
    whole, with_lost = seen
    assert all(np.array_equal(*pair) for pair in zip(whole, with_lost, strict=True))


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_the_total_weight_is_that_of_records_with_a_unit(sums, relation, monkeypatch):
    """Also with budgets by person, whose weights are below 1."""
    units = (np.arange(N) // 3).astype(object)
    lost = units.copy()
    lost[[PLACE, PLACE + 1]] = None
    epsilons = np.where(np.arange(N) < N // 2, 0.1, 5.0) if relation == "replace-one" else None
    more = {"relation": relation}
    kept = np.setdiff1d(np.arange(N), [PLACE, PLACE + 1])
    found = LabelMomentsClassifier(**SETTINGS | more).fit(
        TABLE, LABELS, X_public=PUBLIC, units=lost, personal_epsilons=epsilons
    )
    wanted = LabelMomentsClassifier(**SETTINGS | more).fit(
        TABLE.iloc[kept].reset_index(drop=True),
        LABELS[kept],
        X_public=PUBLIC,
        units=units[kept],
        personal_epsilons=None if epsilons is None else epsilons[kept],
    )
    assert found.moments_[0].spread == wanted.moments_[0].spread
    assert np.array_equal(found.moments_[0].values, wanted.moments_[0].values)


def test_a_bad_record_that_is_drawn_stops_no_bagging():
    rows, labels = TABLE[["x"]].to_numpy().copy(), LABELS.astype(object)
    rows[PLACE], labels[PLACE + 1] = np.inf, "Zaphod"
    for seed in range(5):
        BaggingPrivacyClassifier(
            classes=[0, 1], subsample=N // 2, n_teachers=4, insecure_release_seed=seed, on_bad_record="zero"
        ).fit(rows, labels)


def test_an_image_with_a_pixel_that_cannot_be_used_is_bad_alone(sums):
    images, public = RNG.random(size=(N, 64)), RNG.random(size=(60, 64))
    settings = SETTINGS | {"feature_map": ImageMap(shape=(8, 8), n_components=5)}
    found = []
    for pixel in (np.nan, 1e308, 1e20, None):
        rows = images.astype(object) if pixel is None else images.copy()
        rows[PLACE, 3] = pixel
        sums.clear()
        LabelMomentsClassifier(**settings).fit(rows, LABELS, X_public=public)
        found.append(sums[0][0])
    sums.clear()
    LabelMomentsClassifier(**settings).fit(np.delete(images, PLACE, axis=0), np.delete(LABELS, PLACE), X_public=public)
    assert all(np.array_equal(one, sums[0][0]) for one in found)


def test_a_bad_row_behind_an_encoder_stops_no_run():
    table = kept(TABLE)
    table.loc[PLACE, "x"] = np.inf
    for encoder in (None, StandardScaler()):
        columns = ["x", "c"] if encoder is None else ["x"]
        method = PATEClassifier(**SETTINGS | {"n_teachers": 5, "random_state": 0, "epsilon": 50.0})
        EncodedClassifier(method, encoder=encoder).fit(table[columns], LABELS, X_public=PUBLIC[columns])
    AutoClassifier(**SETTINGS | {"random_state": 0}).fit(table, LABELS, X_public=PUBLIC)


@pytest.mark.parametrize("odd", [[], [1.0], None, "ab", [1.0, 2.0, 3.0], np.ma.masked_array([1.0, 2.0], mask=[1, 0])])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_one_row_of_another_width_stops_no_vote(odd, in_blocks):
    """The row of a list is bad, and what the others are does not depend on it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
    public = rng.normal(size=(12, 2))

    def labels(rows):
        model = SubsampleAggregateClassifier(
            GaussianNB(), GaussianNB(), classes=[0, 1], n_teachers=5, epsilon=30.0, delta=1e-3, random_state=0,
            insecure_release_seed=1, on_bad_record="zero",
        )  # fmt: skip
        if in_blocks:
            model.fit_blocks(lambda: iter([(rows[:20], y[:20]), (rows[20:], y[20:])]), X_public=public)
        else:
            model.fit(rows, y, X_public=public)
        return model.labels_.labels.tolist(), model.predict_proba(public).tolist()

    rows = X.tolist()
    rows[7] = odd
    blank = X.copy()
    blank[7] = np.nan
    assert labels(rows) == labels(blank)
