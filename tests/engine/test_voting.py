"""Voting on records in blocks: the same labels as in memory, and the same refusals."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import dpensemble.engine.voting_steps as voting_module
import dpensemble.teachers.ensemble as ensemble_module
from dpensemble import (
    BaggedPATEClassifier,
    DPBaggingClassifier,
    PATEClassifier,
    PrivateMajorityClassifier,
    RandomSubspaceClassifier,
    SubsampleAggregateClassifier,
    UpsamplingPATEClassifier,
)
from dpensemble.errors import DataError, InvalidParameterError

METHODS = {
    "saa": (SubsampleAggregateClassifier, {"n_teachers": 40}),
    "pate": (PATEClassifier, {"n_teachers": 40}),
    "dpbag": (DPBaggingClassifier, {"n_teachers": 30, "n_partitions": 3}),
    "bagged-pate": (BaggedPATEClassifier, {"n_teachers": 30}),
    "random-subspace": (RandomSubspaceClassifier, {"n_teachers": 40, "columns": 0.7}),
}
CHANGED = "the private records changed between two passes"
SETTINGS = {"classes": [0, 1], "epsilon": 2.0, "delta": 1e-4, "random_state": 3, "insecure_release_seed": 5}


def in_blocks(X, y, size=70):
    def read():
        for start in range(0, len(X), size):
            yield X[start : start + size], y[start : start + size]
        yield X[:0], y[:0]

    return read


@pytest.fixture(autouse=True)
def small_turns(monkeypatch):
    monkeypatch.setattr(ensemble_module, "_BYTES_AT_ONCE", 3 * 8 * 100)


@pytest.mark.parametrize("name", METHODS)
def test_labels_are_those_of_all_records_together(blobs, name):
    X, y, public = blobs
    kind, own = METHODS[name]
    together = kind(**SETTINGS, **own).fit(X, y, X_public=public)
    blockwise = kind(**SETTINGS, **own).fit_blocks(in_blocks(X, y), X_public=public)
    np.testing.assert_array_equal(together.labels_.labels, blockwise.labels_.labels)
    np.testing.assert_array_equal(together.labels_.indices, blockwise.labels_.indices)
    assert together.guarantee_ == blockwise.guarantee_


@pytest.mark.parametrize("units", ["numbers", "names"])
def test_units_may_lie_in_any_blocks(blobs, units):
    X, y, public = blobs
    numbers = np.random.default_rng(0).integers(0, 200, size=len(X))
    given = numbers if units == "numbers" else np.array([f"patient {one}" for one in numbers], dtype=object)
    model = SubsampleAggregateClassifier(DecisionTreeClassifier(max_depth=2), n_teachers=20, **SETTINGS)
    together = model.fit(X, y, X_public=public, units=given).labels_.labels
    blockwise = model.fit_blocks(in_blocks(X, y), X_public=public, units=given)
    np.testing.assert_array_equal(together, blockwise.labels_.labels)
    assert blockwise.guarantee_.unit == "unit"


def test_no_more_rows_than_memory_allows_are_kept(blobs, monkeypatch):
    X, y, public = blobs
    taken = []
    take = ensemble_module.RowsInBlocks.take

    def counted(self, wanted):
        taken.append(len(wanted))
        return take(self, wanted)

    monkeypatch.setattr(ensemble_module.RowsInBlocks, "take", counted)
    model = SubsampleAggregateClassifier(n_teachers=40, **SETTINGS)
    model.fit_blocks(in_blocks(X, y), X_public=public)
    assert max(taken) <= 100
    assert sum(taken) == len(X)


def test_what_cannot_be_used_is_refused_before_anything_is_spent(blobs):
    X, y, public = blobs
    model = SubsampleAggregateClassifier(n_teachers=40, **SETTINGS)
    bad = X.copy()
    bad[205, 1] = np.nan
    with pytest.raises(DataError, match="the first in row 205, column 1"):
        model.fit_blocks(in_blocks(bad, y), X_public=public)
    wrong = y.copy()
    wrong[300] = 7
    with pytest.raises(DataError, match="row 300"):
        model.fit_blocks(in_blocks(X, wrong), X_public=public)
    with pytest.raises(ValueError, match="has 2 features"):
        model.fit_blocks(in_blocks(X[:, :2], y), X_public=public)
    with pytest.raises(DataError, match="70 rows but 600 labels"):
        model.fit_blocks(lambda: iter([(X[:70], y)]), X_public=public)
    with pytest.raises(DataError, match="the blocks hold 0 records"):
        model.fit_blocks(lambda: iter([]), X_public=public)
    with pytest.raises(DataError, match="not numbers"):
        model.fit_blocks(lambda: iter([([["a", 1, 2]], [0])]), X_public=public)
    with pytest.raises(DataError, match="X_public is missing"):
        model.fit_blocks(in_blocks(X, y))
    with pytest.raises(DataError, match="units must have one entry for each of"):
        model.fit_blocks(in_blocks(X, y), X_public=public, units=np.arange(4))
    assert not hasattr(model, "guarantee_")


def test_add_or_remove_one_is_refused(blobs):
    X, y, public = blobs
    model = SubsampleAggregateClassifier(n_teachers=40, relation="add-or-remove-one", **SETTINGS)
    with pytest.raises(InvalidParameterError, match="use 'replace-one'"):
        model.fit_blocks(in_blocks(X, y), X_public=public)


def test_blocks_that_change_between_passes_are_refused(blobs):
    X, y, public = blobs
    passes = []

    def read():
        passes.append(1)
        return in_blocks(X, y)() if len(passes) == 1 else in_blocks(X[:-1], y[:-1])()

    with pytest.raises(DataError, match=CHANGED):
        SubsampleAggregateClassifier(n_teachers=40, **SETTINGS).fit_blocks(read, X_public=public)


def changing(X, y, change, *, pass_number, passes):
    """Return a reader whose pass with a number reads other rows."""

    def read():
        passes.append(1)
        yield from in_blocks(*(change(X, y) if len(passes) == pass_number else (X, y)), size=70)()

    return read


def swapped(X, y):
    order = np.arange(len(X))
    order[[3, 4]] = 4, 3
    return X[order], y[order]


def relabelled(X, y):
    return X, np.where(np.arange(len(y)) == 5, 1 - y, y)


CHANGES = {
    "moved": swapped,
    "reversed": lambda X, y: (X[::-1], y[::-1]),
    "relabelled": relabelled,
    "longer": lambda X, y: (np.vstack([X, X[:90]]), np.append(y, y[:90])),
    "shorter": lambda X, y: (X[:-1], y[:-1]),
    "repeated": lambda X, y: (X[np.r_[0, 0, 2 : len(X)]], y[np.r_[0, 0, 2 : len(X)]]),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("change", CHANGES)
def test_every_later_pass_has_the_rows_of_the_first_in_order(blobs, name, change, monkeypatch):
    X, y, public = blobs
    X, y = X[:120], y[:120]
    asked = []
    # Each teacher has a turn.
    monkeypatch.setattr(ensemble_module, "_BYTES_AT_ONCE", 1)
    for function in ("label_rows", "label_interactively"):
        monkeypatch.setattr(voting_module, function, lambda *_, **__: asked.append(1))
    kind, own = METHODS[name]
    for pass_number in (2, 3):
        passes, model = [], kind(**SETTINGS | own | {"n_teachers": 9, "epsilon": 40.0})
        reader = changing(X, y, CHANGES[change], pass_number=pass_number, passes=passes)
        with pytest.raises(DataError, match=CHANGED):
            model.fit_blocks(reader, X_public=public)
        assert (len(passes), asked, hasattr(model, "guarantee_")) == (pass_number, [], False)


def test_later_passes_may_cut_blocks_elsewhere(blobs):
    X, y, public = blobs
    sizes = iter([70, 599, 41, 33, 600, *range(80, 200)])
    model = SubsampleAggregateClassifier(n_teachers=10, **SETTINGS)

    def reader():
        yield from in_blocks(X, y, size=next(sizes))()

    other = model.fit_blocks(reader, X_public=public).labels_.labels
    np.testing.assert_array_equal(other, model.fit_blocks(in_blocks(X, y), X_public=public).labels_.labels)


def test_a_pass_with_more_rows_is_refused_if_some_records_have_no_unit(blobs):
    X, y, public = blobs
    units = np.where(np.arange(len(X)) % 7 == 0, None, np.arange(len(X)).astype(str))
    model = SubsampleAggregateClassifier(n_teachers=9, on_bad_record="zero", **SETTINGS)
    together = model.fit(X, y, X_public=public, units=units).labels_.labels
    np.testing.assert_array_equal(
        together, model.fit_blocks(in_blocks(X, y), X_public=public, units=units).labels_.labels
    )
    reader = changing(X, y, CHANGES["longer"], pass_number=3, passes=[])
    with pytest.raises(DataError, match=CHANGED):
        model.fit_blocks(reader, X_public=public, units=units)


@pytest.mark.parametrize("kind", [PrivateMajorityClassifier, UpsamplingPATEClassifier])
def test_methods_that_need_all_records_together_do_not_offer_it(kind):
    assert not hasattr(kind, "fit_blocks")
