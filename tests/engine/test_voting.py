"""Voting on records in blocks: the same labels as in memory, and the same refusals."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import dpensemble.engine.voting as voting_module
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
from dpensemble._random import SeededNoise
from dpensemble.accounting import Meter
from dpensemble.accounting.published import laplace_moments
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.cost import Conversion
from dpensemble.engine.voting import PrivateDiagnostics, Questions, label_rows
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import LaplaceNoisyMax
from dpensemble.relations import Basis
from dpensemble.votes import Votes

ROWS = np.arange(40.0)[:, None]


class Scripted(Meter):
    """Admits a number of queries that depends on the votes only, and logs what happens in which order."""

    basis = Basis.DATA_DEPENDENT
    accounting = "scripted"

    def __init__(self, sure, most, actual, log):
        super().__init__(Budget(epsilon=1, delta=1e-5), Conversion.BEST)
        self._sure, self._most, self._left, self._log = sure, most, actual, log

    sure_queries = property(lambda self: self._sure)
    most_queries = property(lambda self: self._most)
    cost = property(lambda self: laplace_moments(10.0, 1))
    one_query = cost
    group_epsilons = property(lambda self: (self.cost.epsilon(1e-5, self.conversion),))

    def admit(self, votes):
        admitted = min(votes.n_queries, self._left)
        self._left -= admitted
        self._log.append(("charged", admitted))
        return admitted


class LoggingNoise(SeededNoise):
    def __init__(self, log):
        super().__init__(0)
        self._log = log

    def uniform_bits(self, size):
        self._log.append(("drawn", size))
        return super().uniform_bits(size)


def run(meter, log, order=None, **settings):
    asked = []

    def vote(rows):
        asked.extend(rows[:, 0].astype(int))
        return Votes(np.repeat(rows.astype(int) % 2, 50, axis=1), 2)

    order = np.random.default_rng(0).permutation(40) if order is None else order
    found = label_rows(
        Questions(vote, ROWS, order, 50),
        VotingSchedule.everyone(LaplaceNoisyMax(0.5), 50),
        meter,
        LoggingNoise(log),
        **settings,
    )
    return (found.answered, found.labels), asked, order


@pytest.mark.parametrize(
    ("sure", "most", "actual"), [(8, 32, 19), (8, 32, 8), (1, 4, 3), (8, 32, 32), (50, 90, 60), (8, 20, 30)]
)
def test_it_answers_in_order_until_the_meter_stops(sure, most, actual):
    log = []
    (indices, outcomes), asked, order = run(Scripted(sure, most, actual, log), log)
    answered = min(actual, most, 40)
    assert indices.tolist() == order[:answered].tolist()
    assert outcomes.tolist() == (indices % 2).tolist()
    assert asked == order[: len(asked)].tolist()


def test_every_draw_was_charged_before():
    log = []
    run(Scripted(8, 32, 19, log), log)
    balance = 0
    for what, number in log:
        balance += number if what == "charged" else -number
        assert balance >= 0
    assert balance == 0


def test_a_crash_after_charging_leaves_the_charge():
    log = []
    meter = Scripted(8, 32, 19, log)

    class Broken(LoggingNoise):
        def uniform_bits(self, size):
            raise OSError("no entropy")

    with pytest.raises(OSError, match="no entropy"):
        label_rows(
            Questions(lambda rows: Votes(np.zeros((len(rows), 3), dtype=int), 2), ROWS, np.arange(40), 3),
            VotingSchedule.everyone(LaplaceNoisyMax(1.0), 3),
            meter,
            Broken(log),
        )
    assert log == [("charged", 8)]


def test_nothing_to_ask_is_no_labels():
    (indices, outcomes), asked, _ = run(Scripted(8, 32, 19, []), [], order=np.empty(0, dtype=int))
    assert len(indices) == len(outcomes) == len(asked) == 0


def test_diagnostics_count_what_was_answered():
    diagnostics = PrivateDiagnostics()
    (indices, _), _, _ = run(Scripted(8, 32, 19, []), [], diagnostics=diagnostics)
    assert len(diagnostics.margins) == len(indices) == 19
    assert diagnostics.spend[-1][0] == 19
    assert all(margin == 1 for margin in diagnostics.margins)


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
    for function in ("label_rows", "_label_interactively"):
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
