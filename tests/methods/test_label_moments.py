"""Label moments from data to student: what is learned, what flows where, and the errors."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dpensemble.datasets import same_columns
from dpensemble.engine.run import once_prepared
from dpensemble.errors import BudgetError, ColumnWarning, DataError, InvalidParameterError
from dpensemble.methods.label_moments import LabelMomentsClassifier
from dpensemble.moments import MomentsSource, TableMap
from dpensemble.moments.whole import WHOLE
from dpensemble.releases import SumReleaser
from tests.records import whole_blocks

ODD = "Zaphod"
ODD_NUMBER = 987654321.5

# Made-up worlds and mocked releases differ from their public rows, and users are warned of such rows.
pytestmark = pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")


def model(**settings):
    return LabelMomentsClassifier(**{"classes": [0, 1], "delta": 1e-4, "insecure_release_seed": 0, **settings})


@pytest.fixture(scope="module")
def world():
    """Two numbers with a smooth and a stepped effect: 4,000 private records, 240 public rows, 2,000 to test."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6240, 2))
    score = 1.5 * X[:, 0] - 2.0 * (X[:, 1] > 0.5) + 0.5
    y = (rng.random(6240) < 1 / (1 + np.exp(-score))).astype(int)
    return X[:4000], y[:4000], X[4000:4240], X[4240:], y[4240:]


@pytest.fixture
def small(monkeypatch):
    """60 private records and 40 public rows, beside which a few synthetic ones are drawn."""
    monkeypatch.setattr("dpensemble.moments.learning._SYNTHETIC_ROWS", 500)
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3))
    return X, (X[:, 0] > 0).astype(int), rng.normal(size=(40, 3))


class ThinScaler(TransformerMixin, BaseEstimator):
    """Standard scores as a sparse matrix."""

    def fit(self, X, y=None):
        self.inner_ = StandardScaler().fit(X)
        return self

    def transform(self, X):
        return sparse.csr_matrix(self.inner_.transform(X))


def test_a_transformer_that_writes_into_its_rows_changes_no_later_round(small):
    X, y, public = 100 + 10 * small[0], small[1], 100 + 10 * small[2]
    released, given = [], (X.copy(), public.copy())
    for copy in (True, False):
        found = model(feature_map=StandardScaler(copy=copy), epsilon=10.0).fit(given[0], y, X_public=given[1])
        released.append(found.moments_)
    for kept, written in zip(*released, strict=True):
        np.testing.assert_array_equal(kept.values, written.values)
    np.testing.assert_array_equal(given[0], X)
    np.testing.assert_array_equal(given[1], public)


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_with_much_budget_it_is_logistic_regression_on_the_map(world, relation):
    X, y, public, X_test, y_test = world
    found = model(feature_map=TableMap(), epsilon=1000.0, relation=relation).fit(X, y, X_public=public)
    encoder = TableMap().fit(public)
    plain = LogisticRegression(C=10.0, max_iter=2000).fit(encoder.transform(X), y)
    best = roc_auc_score(y_test, plain.predict_proba(encoder.transform(X_test))[:, 1])
    assert best > 0.8
    assert roc_auc_score(y_test, found.predict_proba(X_test)[:, 1]) > best - 0.01
    mean = np.abs(found.predict_proba(X_test) - plain.predict_proba(encoder.transform(X_test))).mean()
    assert mean < 0.04


def test_with_little_budget_it_still_learns(world):
    X, y, public, X_test, y_test = world
    strict, loose = (
        roc_auc_score(y_test, model(epsilon=epsilon).fit(X, y, X_public=public).predict_proba(X_test)[:, 1])
        for epsilon in (0.05, 3.0)
    )
    assert 0.5 < strict < loose
    assert loose > 0.8


def test_three_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3600, 2))
    y = np.array(["b", "a", "c"])[np.where(X[:, 0] > 0.5, 0, np.where(X[:, 1] > 0, 1, 2))]
    found = model(classes=["c", "a", "b"], epsilon=10.0).fit(X[:2900], y[:2900], X_public=X[2900:3000])
    assert found.classes_.tolist() == ["a", "b", "c"]
    probable = found.predict_proba(X[3000:])
    assert probable.shape == (600, 3)
    assert probable.min() >= 0
    assert np.allclose(probable.sum(axis=1), 1)
    assert np.array_equal(found.predict(X[3000:]), found.classes_[probable.argmax(axis=1)])
    assert found.score(X[3000:], y[3000:]) > 0.85


def test_rows_of_probabilities_add_up_to_one(small):
    X, y, public = small
    for students in ({}, {"student": DecisionTreeClassifier()}, {"feature_map": StandardScaler()}):
        probable = model(random_state=0, **students).fit(X, y, X_public=public).predict_proba(X)
        assert probable.shape == (60, 2)
        assert np.allclose(probable.sum(axis=1), 1)


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_a_sparse_map_equals_a_dense_one(small, relation):
    X, y, public = small
    dense = model(feature_map=StandardScaler(), relation=relation, delta=1e-3).fit(X, y, X_public=public)
    thin = model(feature_map=ThinScaler(), relation=relation, delta=1e-3).fit(X, y, X_public=public)
    for one, other in zip(dense.moments_, thin.moments_, strict=True):
        # A last digit of the centre may differ, and so a whole unit in 2**20 of some answers.
        assert np.allclose(one.values, other.values, atol=1e-5)
    assert np.allclose(dense.predict_proba(X), thin.predict_proba(X), atol=1e-3)


def test_blocks_equal_all_at_once(world):
    X, y, public, X_test, _ = world
    whole = model().fit(X, y, X_public=public)

    def read():
        for part in np.array_split(np.arange(len(X)), 7):
            yield X[part], y[part]
            yield X[:0], y[:0]

    for n_records in (None, len(X)):
        found = model().fit_blocks(read, X_public=public, n_records=n_records)
        for one, other in zip(whole.moments_, found.moments_, strict=True):
            assert np.array_equal(one.values, other.values)
        assert np.array_equal(whole.predict_proba(X_test), found.predict_proba(X_test))
    assert found.guarantee_.epsilon == whole.guarantee_.epsilon


def test_the_guarantee_is_what_was_asked_for(small):
    X, y, public = small
    for relation in ("replace-one", "add-or-remove-one"):
        for rounds in (1, 3):
            found = model(epsilon=0.7, delta=1e-3, relation=relation, rounds=rounds).fit(X, y, X_public=public)
            assert 0.7 * (1 - 1e-5) < found.guarantee_.epsilon <= 0.7
            assert found.guarantee_.delta == 1e-3
            # Shares of cells and what goes with what, and the number of units where it is private.
            assert found.spend_[-1][0] == rounds + 2 + (relation == "add-or-remove-one")
            assert not found.guarantee_.for_release
            assert len(found.moments_) == rounds
    secure = model(insecure_release_seed=None).fit(X, y, X_public=public)
    assert secure.guarantee_.for_release
    again = clone(secure).fit(X, y, X_public=public)
    assert not np.isin(secure.moments_[0].values, again.moments_[0].values).any()


def test_personal_budgets_have_guarantees_of_their_own(small):
    X, y, public = small
    epsilons = np.repeat([0.5, 1.0, 2.0], 20)
    found = model(epsilon=2.0).fit(X, y, X_public=public, personal_epsilons=epsilons).guarantee_
    assert [group.budget for group in found.groups] == [0.5, 1.0, 2.0]
    for group in found.groups:
        assert group.budget * 0.99 < group.epsilon <= group.budget


def made_up(monkeypatch):
    """Release the same sums for all records."""
    calls = []

    def released(self, query, total, share, *, weight=1.0):
        calls.append(total.copy())
        noisy = np.random.default_rng(total.size).normal(scale=3 * WHOLE, size=total.shape) + 100 * WHOLE
        return query.read(noisy / query.unit / weight, 2**32 / query.unit / weight)

    monkeypatch.setattr(SumReleaser, "charge_and_draw", released)
    return calls


def published(found):
    kept = vars(found) | {"result_": replace(found.result_, seconds={}, settings={})}
    del kept["random_state"]
    return pickle.dumps([kept[name] for name in sorted(kept)])


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("student", [None, DecisionTreeClassifier(random_state=0)])
def test_what_is_published_follows_from_what_is_released(small, monkeypatch, relation, student):
    X, y, public = small
    calls = made_up(monkeypatch)
    one = model(relation=relation, student=student, random_state=0, delta=1e-3).fit(X, y, X_public=public)
    other_X, other_y = X.copy(), y.copy()
    other_X[7], other_y[7] = [ODD_NUMBER, -4.0, np.nan], 1 - y[7]
    other = model(relation=relation, student=student, random_state=0, delta=1e-3).fit(other_X, other_y, X_public=public)
    half = len(calls) // 2
    # The record does play a part, but only in sums.
    assert any(not np.array_equal(a, b) for a, b in zip(calls[:half], calls[half:], strict=True))
    assert published(one) == published(other)
    assert np.array_equal(one.predict_proba(public), other.predict_proba(public))


def test_a_centre_from_private_labels_shows(small, monkeypatch, plant):
    """The test above can fail."""
    X, y, public = small
    made_up(monkeypatch)
    release = MomentsSource.noisy_sum

    def private(self, query, share, total_weight=1.0, **more):
        labels = np.concatenate([block.targets for block in whole_blocks(self.blocks)])
        if getattr(query, "centre", None) is not None:
            query = replace(query, centre=query.centre + labels.mean())
        return release(self, query, share, total_weight, **more)

    plant(MomentsSource, "noisy_sum", private)
    other_y = y.copy()
    other_y[7] = 1 - y[7]
    assert published(model(delta=1e-3).fit(X, y, X_public=public)) != published(
        model(delta=1e-3).fit(X, other_y, X_public=public)
    )


def test_no_record_is_kept(small):
    X, y, public = small
    X = X.copy()
    X[7, 0] = ODD_NUMBER
    units = [ODD + str(i // 2) for i in range(60)]
    kept = pickle.dumps(vars(model().fit(X, y, X_public=public, units=units)))
    assert np.float64(ODD_NUMBER).tobytes() not in kept
    assert ODD.encode() not in kept
    for row in X:
        assert row.tobytes() not in kept


def table(rng, n):
    return pd.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "town": rng.choice(["York", "Bath", "Ely"], n).astype(object),
            "member": rng.random(n) < 0.5,
        }
    )


def test_private_categories_and_ranges_change_no_column():
    rng = np.random.default_rng(0)
    private, public = table(rng, 80), table(rng, 60)
    y = rng.integers(0, 2, 80)
    odd = private.astype({"member": object, "town": object})
    odd.loc[0, ["size", "town"]] = [1e300, ODD]
    odd.loc[1, ["size", "town", "member"]] = [np.nan, None, None]
    odd.loc[2, ["size", "town"]] = [-1e300, 5]
    plain = model().fit(private, y, X_public=public)
    other = model().fit(odd, y, X_public=public)
    names = [one.model_[0].get_feature_names_out().tolist() for one in (plain, other)]
    assert names[0] == names[1]
    assert not any(ODD in name for name in names[1])
    assert plain.moments_[0].values.shape == other.moments_[0].values.shape
    assert ODD.encode() not in pickle.dumps(vars(other))


def test_a_record_changes_no_other_ones_features():
    """Row by row, or all at once, beside odd records: the same features."""
    rng = np.random.default_rng(0)
    public, private = table(rng, 60), table(rng, 60).astype(object)
    private.iloc[0] = [5, 5.0, None]
    private.iloc[1] = ["7.25", 5, "True"]
    private.iloc[2] = [None, ODD, np.nan]
    encoder = TableMap().fit(same_columns("public", public, public))
    alone = [encoder.transform(same_columns("private", private.iloc[[i]], public)).toarray() for i in range(60)]
    together = encoder.transform(same_columns("private", private, public)).toarray()
    assert np.array_equal(np.vstack(alone), together)


# Each with the change to (X, y, X_public) or settings, the error, and part of its text.
def with_entry(X, value):
    odd = X.astype(object)
    odd[3, 1] = value
    return odd


ERRORS = {
    "undeclared label": (lambda X, y, P: (X, np.where(np.arange(60) == 5, 777, y), P), DataError, "not among"),
    "label of another kind": (lambda X, y, P: (X, np.where(np.arange(60) == 5, ODD, y), P), DataError, "not among"),
    "infinite entry": (lambda X, y, P: (with_entry(X, np.inf).astype(float), y, P), DataError, "infinite"),
    "text among numbers": (lambda X, y, P: (with_entry(X, ODD), y, P), DataError, "numbers"),
    "too few columns": (lambda X, y, P: (X[:, :2], y, P), DataError, "lacks"),
    "too many columns": (lambda X, y, P: (X, y, P[:, :2]), DataError, "lacks"),
    "no public rows": (lambda X, y, P: (X, y, P[:0]), DataError, "X_public"),
    "public rows missing": (lambda X, y, P: (X, y, None), DataError, "X_public"),
    "public is private": (lambda X, y, P: (X, y, X), DataError, "X_public is X"),
    "too few labels": (lambda X, y, P: (pd.DataFrame(X), y[:9], pd.DataFrame(P)), DataError, "60 records"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_is_wrong_but_no_private_value(small, name):
    change, kind, words = ERRORS[name]
    X, y, public = change(*small)
    with pytest.raises(kind, match=words) as found:
        model().fit(X, y, X_public=public)
    for private in ("777", ODD, repr(float(small[0][3, 0]))[:7]):
        assert private not in str(found.value)


def test_a_maps_own_error_quotes_nothing():
    rng = np.random.default_rng(0)
    X, public = (pd.DataFrame({"town": rng.choice(["York", "Bath"], n)}, dtype=object) for n in (60, 40))
    X.loc[3, "town"] = ODD
    with pytest.raises(ValueError, match=r".") as found:
        model(feature_map=OneHotEncoder()).fit(X, rng.integers(0, 2, 60), X_public=public)
    assert ODD not in str(found.value)


def test_an_empty_table_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(DataError):
        model().fit(pd.DataFrame({"a": []}, dtype=float), [], X_public=pd.DataFrame({"a": rng.normal(size=9)}))


@pytest.mark.parametrize("odd", [5, None])
def test_mixed_labels_are_refused(small, odd):
    X, y, public = small
    labels = np.where(y == 1, "yes", "no").astype(object)
    labels[3] = odd
    with pytest.raises(DataError):
        model(classes=["no", "yes"]).fit(pd.DataFrame(X), labels, X_public=pd.DataFrame(public))


@pytest.mark.parametrize(
    ("keywords", "kind"),
    [
        ({"units": [1, 2]}, DataError),
        ({"units": [None, *range(59)]}, DataError),
        ({"personal_epsilons": [1.0]}, DataError),
        ({"personal_epsilons": np.ones((60, 1))}, DataError),
        ({"personal_epsilons": [-1.0, *[1.0] * 59]}, BudgetError),
        ({"personal_epsilons": [np.nan, *[1.0] * 59]}, BudgetError),
        ({"personal_epsilons": [2.0, *[1.0] * 59], "units": [0, 0, *range(1, 59)]}, DataError),
    ],
)
def test_units_and_budgets_are_checked(small, keywords, kind):
    X, y, public = small
    found = model()
    with pytest.raises(kind):
        found.fit(X, y, X_public=public, **keywords)
    # Nothing was released, so nothing is kept.
    assert not hasattr(found, "moments_")


@pytest.mark.parametrize(
    "settings",
    [
        {"classes": None},
        {"classes": [0]},
        {"classes": [0, 0]},
        {"epsilon": 0.0},
        {"epsilon": np.nan},
        {"epsilon": np.inf},
        {"delta": 0.0},
        {"delta": 1.0},
        {"rounds": 0},
        {"rounds": 2.5},
        {"relation": "swap"},
    ],
)
def test_settings_out_of_range_are_refused(small, settings):
    X, y, public = small
    with pytest.raises(InvalidParameterError):
        model(**settings).fit(X, y, X_public=public)


def test_delta_is_below_one_in_the_number_of_units(small):
    X, y, public = small
    model(delta=0.03).fit(X, y, X_public=public, units=np.arange(60) // 2)
    with pytest.raises(BudgetError, match="1/N"):
        model(delta=0.03).fit(X, y, X_public=public)


def test_personal_budgets_need_replace_one(small):
    X, y, public = small
    with pytest.raises(InvalidParameterError, match="replace-one"):
        model(relation="add-or-remove-one").fit(X, y, X_public=public, personal_epsilons=np.ones(60))


@pytest.mark.parametrize(
    "change",
    [
        lambda X, y, P: (X, np.zeros(60, dtype=int), P),
        lambda X, y, P: (np.ones_like(X), y, np.ones_like(P)),
        lambda X, y, P: (np.tile(X, 8), y, np.tile(P[:20], 8)),
        lambda X, y, P: (X, y, P[:1]),
        lambda X, y, P: (X * np.nan, y, P),
        lambda X, y, P: (X, y, P * np.nan),
    ],
    ids=["one class", "constant", "wide", "one public row", "private missing", "public missing"],
)
@pytest.mark.parametrize("feature_map", [None, PCA(1)], ids=["table", "pca"])
def test_poor_data_are_no_reason_to_fail(small, change, feature_map):
    X, y, public = change(*small)
    if feature_map is not None and (len(public) < 2 or np.isnan(X).any() or np.isnan(public).any()):
        return
    if feature_map is not None and np.ptp(public) == 0:
        feature_map = StandardScaler()
    found = model(feature_map=feature_map).fit(X, y, X_public=public)
    assert np.isfinite(found.predict_proba(X)).all()


def blocks_of(X, y, sizes):
    def read():
        start = 0
        for size in sizes:
            yield X[start : start + size], y[start : start + size]
            start += size

    return read


def test_blocks_are_checked(small):
    X, y, public = small
    with pytest.raises(DataError, match="2 rows but 1 labels"):
        model().fit_blocks(lambda: iter([(X[:2], y[:1])]), X_public=public)
    with pytest.raises(DataError, match="not among") as found:
        model().fit_blocks(lambda: iter([(X[:2], [0, 777])]), X_public=public)
    assert "777" not in str(found.value)
    with pytest.raises(DataError, match="X_public"):
        model().fit_blocks(blocks_of(X, y, [60]), X_public=None)
    with pytest.raises(InvalidParameterError, match="n_records"):
        model().fit_blocks(lambda: iter([]), X_public=public)


def test_a_reader_that_gives_nothing_the_second_time_is_refused(small):
    X, y, public = small
    once = iter([(X, y)])
    with pytest.raises(DataError):
        model().fit_blocks(lambda: once, X_public=public)


def changing(X, y, how):
    """Return a reader whose records change from the second pass on."""
    passes = []

    def read():
        passes.append(0)
        rows, labels = (X, y) if len(passes) == 1 else how(X, y)
        yield rows[:100], labels[:100]
        yield rows[100:], labels[100:]

    return read


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(
    "how",
    [
        lambda X, y: (np.vstack([X, X[:1]]), np.append(y, y[:1])),
        lambda X, y: (X[1:], y[1:]),
        lambda X, y: (np.vstack([X[1:], X[1:2]]), np.append(y[1:], y[1:2])),
        lambda X, y: (X, np.roll(y, 1)),
        lambda X, y: (np.nextafter(X, 9.0), y),
    ],
    ids=["repeated", "lost", "swapped", "other labels", "other entries"],
)
def test_records_that_change_between_passes_are_refused_before_anything_is_drawn(small, how, counts, monkeypatch):
    X, y, public = small
    calls = made_up(monkeypatch)
    with pytest.raises(DataError, match="changed between two passes") as found:
        model(epsilon=1e-3).fit_blocks(changing(X, y, how), X_public=public, n_records=len(X) if counts else None)
    assert calls == []
    assert not any(letter.isdigit() for letter in str(found.value))


def test_a_declared_number_of_records_must_be_right_if_it_is_public(small):
    X, y, public = small
    with pytest.raises(InvalidParameterError, match="n_records=59 must be the number"):
        model().fit_blocks(blocks_of(X, y, [60]), X_public=public, n_records=59)
    model(relation="add-or-remove-one", delta=1e-3).fit_blocks(blocks_of(X, y, [60]), X_public=public, n_records=59)


def test_records_may_come_in_another_order(small):
    X, y, public = small
    whole = model().fit(X, y, X_public=public)
    found = model().fit_blocks(changing(X, y, lambda X, y: (X[::-1], y[::-1])), X_public=public)
    assert np.array_equal(whole.moments_[-1].values, found.moments_[-1].values)
    # With units by position, another order gives records to other people.
    units = np.arange(len(y)) // 2
    with pytest.raises(DataError, match="changed between two passes"):
        model().fit_blocks(changing(X, y, lambda X, y: (X[::-1], y[::-1])), X_public=public, units=units)


DECLARED = {0: (-4, 4), 1: (-4, 4)}


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
def test_without_public_rows(world, relation, epsilon):
    X, y, _, X_test, y_test = world
    found = model(declared_columns=DECLARED, epsilon=epsilon, relation=relation).fit(X, y)
    assert roc_auc_score(y_test, found.predict_proba(X_test)[:, 1]) > 0.8
    assert found.guarantee_.epsilon <= epsilon
    assert len(found.labels_) == 0
    assert found.drift_ is None
    assert {effect["column"] for effect in found.effects_} == {"0", "1"}
    assert found.design_.settings()["synthetic_rows"]
    # What lies outside is taken for the ends, and blanks have a place of their own.
    assert np.isfinite(found.predict_proba([[99.0, np.nan], [-1e9, 0.0]])).all()


def test_several_classes_without_public_rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(5000, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    found = model(classes=[0, 1, 2], declared_columns=DECLARED, epsilon=3.0).fit(X[:4000], y[:4000])
    assert found.score(X[4000:], y[4000:]) > 0.75


def test_columns_that_go_together_count_once(world):
    """Two copies of one column: a model by independent rows would count it twice."""
    X, y, _, X_test, y_test = world
    declared = {"a": (-4, 4), "b": (-4, 4), "copy": (-4, 4)}
    twice = [pd.DataFrame({"a": part[:, 0], "b": part[:, 1], "copy": part[:, 0]}) for part in (X, X_test)]
    found = model(declared_columns=declared, epsilon=20.0).fit(twice[0], y)
    p = found.predict_proba(twice[1])[:, 1]
    # Calibrated: of those with a high chance, as many are of the class.
    sure = p > 0.8
    assert abs(p[sure].mean() - y_test[sure].mean()) < 0.05


def test_a_student_learns_from_synthetic_rows(world):
    X, y, _, X_test, y_test = world
    found = model(declared_columns=DECLARED, epsilon=3.0, student=DecisionTreeClassifier(max_depth=4)).fit(X, y)
    assert isinstance(found.student_.named_steps["student"], DecisionTreeClassifier)
    assert found.score(X_test, y_test) > 0.72


def test_blocks_without_public_rows_equal_all_at_once(world):
    X, y, _, X_test, _ = world
    whole = model(declared_columns=DECLARED).fit(X, y)
    cuts = [slice(i, i + 700) for i in range(0, 4000, 700)]
    parts = model(declared_columns=DECLARED).fit_blocks(lambda: ((X[cut], y[cut]) for cut in cuts))
    assert np.array_equal(whole.predict_proba(X_test), parts.predict_proba(X_test))


def test_public_rows_unlike_the_private_ones_are_replaced(world):
    X, y, _, X_test, y_test = world
    odd = np.random.default_rng(3).normal(size=(2000, 2)) * 0.2 + 1.5
    with pytest.warns(UserWarning, match="synthetic rows were drawn instead"):
        found = model(epsilon=3.0).fit(X, y, X_public=odd)
    assert found.drift_.alarm
    assert found.design_.synthetic_rows
    assert found.design_.compares_rows
    assert found.guarantee_.epsilon <= 3.0
    assert roc_auc_score(y_test, found.predict_proba(X_test)[:, 1]) > 0.8
    assert len(found.labels_) == 2000


@pytest.mark.parametrize(
    ("settings", "rows", "words"),
    [
        ({"declared_columns": DECLARED}, np.zeros((5, 2)), "give one of them"),
        ({"declared_columns": DECLARED, "feature_map": TableMap()}, None, "feature_map"),
        ({"declared_columns": {0: (0, 1)}}, None, "columns"),
        ({"declared_columns": {}}, None, "declares nothing"),
        ({"declared_columns": dict.fromkeys(range(2001), (0, 1))}, None, "2000"),
        ({}, None, "declared_columns"),
    ],
    ids=["both", "map", "too few", "none", "too many", "neither"],
)
def test_declarations_that_do_not_fit_are_refused(small, settings, rows, words):
    X, y, _ = small
    with pytest.raises((DataError, InvalidParameterError), match=words):
        model(**settings).fit(X[:, :2], y, X_public=rows)


@pytest.mark.parametrize("n_columns", [500, 501])
def test_of_very_many_columns_an_alarm_makes_public_rows_count_less(n_columns):
    """Synthetic rows of that many columns would take minutes and gigabytes."""
    rows, prepared = np.random.default_rng(9).normal(size=(480, n_columns)), []

    def stop(steps):
        prepared.append(steps.after_alarm is not None)
        raise KeyboardInterrupt

    model = LabelMomentsClassifier(classes=[False, True], relation="add-or-remove-one", insecure_release_seed=0)
    hidden = pytest.warns(ColumnWarning, match=f"noise hides about 99% of what {n_columns} columns show")
    with once_prepared(stop), hidden, pytest.raises(KeyboardInterrupt):
        model.fit(rows[:230], rows[:230, 0] > 0, X_public=rows[230:])
    assert prepared == [n_columns <= 500]


def rare_table(n, share, seed):
    """Return rows of ten numbers and a text, and labels: cases are further out in three numbers."""
    draw = np.random.default_rng(seed)
    y = draw.permutation(np.arange(n) < share * n)
    X = pd.DataFrame(draw.normal(size=(n, 10)), columns=[f"x{place}" for place in range(10)])
    X.iloc[:, :3] += 1.3 * y[:, None]
    return X.assign(text=draw.choice(list("abc"), n)), y.astype(int)


@pytest.fixture(scope="module")
def rare():
    return (*rare_table(6_000, 0.02, 1), rare_table(1_500, 0.02, 2)[0], *rare_table(6_000, 0.02, 3))


def spent(found):
    return sum(one["sigma"] ** -2 for one in found.charges_)


def test_few_cases_get_few_directions(rare):
    X, y, public, X_test, y_test = rare
    found = model(epsilon=1.0).fit(X, y, X_public=public)
    assert found.design_.found_rare
    assert found.model_.named_steps["encoder"].n_directions == 30
    assert found.result_.releases[1].table.title == "Share of each class"
    assert roc_auc_score(y_test, found.predict_proba(X_test)[:, 1]) > 0.8
    # The same public settings, and other labels: a branch on released shares may not change what is charged.
    usual = model(epsilon=1.0).fit(X, np.arange(len(X)) % 2, X_public=public)
    assert usual.design_.looks_for_rare
    assert not usual.design_.found_rare
    assert len(usual.model_.named_steps["encoder"].blocks_) > 31
    assert spent(found) == pytest.approx(spent(usual), rel=1e-9)
    assert found.guarantee_ == usual.guarantee_


def test_a_requested_statistic_shows_whether_cases_are_few(rare):
    X, y, public, *_ = rare
    found = model(epsilon=1.0, statistics="class-shares").fit(X, y, X_public=public)
    assert found.design_.found_rare
    assert not found.design_.looks_for_rare
    assert [one.description for one in found.result_.releases].count("the share of each class") == 1


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_few_cases_of_units_and_blocks(rare, relation, in_blocks):
    X, y, public, *_ = rare
    given = model(epsilon=3.0, relation=relation)
    if in_blocks:
        parts = [slice(start, start + 1_000) for start in range(0, len(X), 1_000)]
        found = given.fit_blocks(lambda: ((X[part], y[part]) for part in parts), X_public=public)
    else:
        found = given.fit(X, y, X_public=public, units=np.arange(len(X)) // 2, public_units=np.arange(len(public)))
    assert found.design_.found_rare
    assert found.guarantee_.epsilon <= 3.0


@pytest.mark.parametrize(
    ("settings", "n_records"),
    [({"feature_map": TableMap(knots=(2,))}, 6_000), ({}, 2_000)],
    ids=["own map", "few records"],
)
def test_other_runs_do_not_look_for_few_cases(rare, settings, n_records):
    X, y, public, *_ = rare
    found = model(epsilon=1.0, **settings).fit(X[:n_records], y[:n_records], X_public=public)
    assert not found.design_.looks_for_rare
    assert "the share of each class" not in [one.description for one in found.result_.releases]
