"""Whose each public row is, and means that weigh people equally.

Whether public rows look like private ones.

The share of readable records is estimated from released means, within its stated error.
"""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpensemble import AutoClassifier, LabelMomentsClassifier
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments import public_rows
from dpensemble.moments.fits import fit_moments
from dpensemble.moments.maps.tables import TableMap
from dpensemble.moments.public_rows import (
    _CAUTION,
    Drift,
    PublicRows,
    PublicUnits,
    Undecided,
    _always_one,
    _always_one_of_cells,
    _Covariance,
    _readable_share,
    _some_rows,
)
from dpensemble.moments.whole import UNIT, probabilities

ROWS = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 4.0], [5.0, 5.0]])
UNITS = PublicUnits(np.array([0, 0, 1, 2]), private=True)


def test_each_unit_has_the_same_share():
    assert UNITS.shares.tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 3, 1 / 3])
    assert UNITS.count(4) == 3
    assert UNITS.means(ROWS).tolist() == [[2.0, 0.0], [0.0, 4.0], [5.0, 5.0]]
    assert UNITS.shares @ ROWS == pytest.approx(UNITS.means(ROWS).mean(axis=0))


def test_unknown_units():
    unknown = PublicUnits()
    assert unknown.shares is None
    assert unknown.count(4) == 4
    assert unknown.means(ROWS) is ROWS


def test_the_covariance_of_one_row_of_a_random_unit():
    """Every draw of a unit, and then of one of its rows."""
    chances = [(row, share) for row, share in zip(ROWS, UNITS.shares, strict=True)]
    mean = sum(share * row for row, share in chances)
    expected = sum(share * np.outer(row - mean, row - mean) for row, share in chances)
    for units, covariance in ((UNITS, expected), (PublicUnits(), np.cov(ROWS.T, bias=True))):
        rows = units.apart(ROWS)
        assert rows.T @ rows == pytest.approx(covariance)


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (4, 4), (1, 5)])
def test_a_covariance_is_inverted_at_the_size_of_its_smaller_side(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    rows, diagonal, vectors = rng.normal(size=shape), rng.uniform(0.1, 2, shape[1]), rng.normal(size=(6, shape[1]))
    inverse = np.linalg.inv(np.diag(diagonal) + rows.T @ rows)
    covariance = _Covariance.of(diagonal, rows)
    assert len(covariance.root) == min(shape)
    assert covariance.lengths(vectors) == pytest.approx(np.einsum("ij,jk,ik->i", vectors, inverse, vectors))
    assert covariance.inverse_trace() == pytest.approx(np.trace(inverse))


def test_doubt_counts_units():
    """Rows of one person may all be alike, so that the variance of the mean is that of a mean over people."""
    blocks = np.array([0, 1])
    by_unit = PublicRows(ROWS, blocks, 2, shares=UNITS.shares, units=UNITS.numbers)
    assert by_unit.doubt == pytest.approx(1 / 3)
    assert PublicRows(ROWS, blocks, 2).doubt == 1 / 4
    assert by_unit.average(np.ones((4, 1))).ravel() == pytest.approx(UNITS.means(ROWS).mean(axis=0))


@pytest.mark.parametrize(("n_rows", "together"), [(50, 0.0), (200, 0.0), (200, 0.9)])
def test_the_ridge_is_the_error_of_correlations_relative_to_their_size(n_rows, together):
    """Of 40 features, some of which go together. The expected error of a correlation is known from 200 samples."""
    rng = np.random.default_rng(0)

    def rows():
        shared = rng.normal(size=(n_rows, 1))
        features = np.sqrt(1 - together) * rng.normal(size=(n_rows, 40)) + np.sqrt(together) * shared
        return np.hstack([features / 8, np.full((n_rows, 1), 0.2)])

    blocks = np.append(np.zeros(40, dtype=np.int64), 1)
    ridges = [PublicRows(rows(), blocks, 2).ridge for _ in range(20)]
    size = 40 * (1 + 39 * (together**2 + (1 - together**2) ** 2 / n_rows))
    assert np.mean(ridges) == pytest.approx(40**2 / size / n_rows, rel=0.05)


def test_the_ridge_makes_variances_larger_and_leaves_the_constant():
    rng = np.random.default_rng(0)
    public = PublicRows(np.hstack([rng.normal(size=(30, 4)), np.full((30, 1), 0.2)]), np.array([0, 0, 0, 0, 1]), 2)
    values, factor = rng.normal(size=(30, 2)), 0.3
    values[:, 0] = 0.7
    without, more = (public.sample.covariance(values, factor, 0.1, ridge) for ridge in (0.0, 0.5))
    alone = public.sample.covariance(values, factor)
    assert more - without == pytest.approx(np.diag(0.5 * alone.diagonal()), abs=1e-6)
    assert public.sample.covariance(np.ones((30, 1)), ridge=0.5)[-1] == pytest.approx(np.zeros(5), abs=1e-7)


@pytest.mark.parametrize("n_rows", [60, 2000])
def test_alarms_without_drift_are_as_rare_as_stated(n_rows):
    # 300 draws at a rate of at most 1e-3: more than 4 happen with a probability below 2e-5.
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(300):
        private = rng.normal(size=(3000, 8)) / 4
        mean = private.mean(axis=0) + 0.01 * rng.normal(size=8)
        alarms += Drift.of(mean, 0.01, rng.normal(size=(n_rows, 8)) / 4, 3000).alarm
    assert alarms <= 4


def test_alarms_stay_rare_with_many_features_and_little_noise():
    # 40 draws at a rate of at most 1e-3: more than 2 happen with a probability below 1e-5. Chi-square raised 40 alarms.
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(40):
        mean = (rng.normal(size=(2000, 60)) / 8).mean(axis=0) + 1e-6 * rng.normal(size=60)
        alarms += Drift.of(mean, 1e-6, rng.normal(size=(150, 60)) / 8, 2000).alarm
    assert alarms <= 2


@pytest.mark.parametrize("law", [np.ones(500), 1 / np.arange(1, 501), 0.99 ** np.arange(800)])
@pytest.mark.parametrize("spread", [1e-5, 1e-3])
def test_categories_that_public_rows_chose_raise_no_alarm(law, spread):
    """12 draws at a rate of at most 1e-3: more than 1 happens with a probability below 1e-4. There were 12 alarms."""
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(12):
        public, private = (pd.DataFrame({"code": rng.choice(len(law), n, p=law / law.sum())}) for n in (3000, 10_000))
        public, private = public.astype(str), private.astype(str)
        table_map = TableMap().fit(public)
        mean = np.asarray(table_map.transform(private).mean(axis=0)).ravel()
        mean = mean + spread * rng.normal(size=len(mean))
        fresh = table_map.transform(table_map.as_fresh(public, None))
        alarms += Drift.of(mean, spread, fresh, 10_000).alarm
        moved = (private["code"].astype(int) // 2).astype(str).to_frame()
        mean = np.asarray(table_map.transform(moved).mean(axis=0)).ravel()
        assert Drift.of(mean, spread, fresh, 10_000).alarm
    assert alarms <= 1


def test_a_shift_larger_than_chance_and_noise_is_found():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1000, 8)) / 4
    assert Drift.of(features.mean(axis=0) + 0.1, 0.01, features, 3000).alarm
    assert not Drift.of(features.mean(axis=0) + 0.1, 1.0, features, 3000).alarm


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize("n_public", [300, 1500])
def test_people_are_warned_within_the_same_budget(relation, n_public):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = (X[:, 0] > 0).astype(int)
    model = LabelMomentsClassifier(classes=[0, 1], relation=relation, epsilon=2.0, insecure_release_seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, X_public=rng.normal(size=(n_public, 3)))
    assert not model.drift_.alarm
    assert 1.99 < model.guarantee_.epsilon <= 2.0
    with pytest.warns(UserWarning, match="public rows do not look like the private ones"):
        model.fit(X, y, X_public=rng.normal(loc=[0, 1.5, 0], size=(n_public, 3)))
    assert model.drift_.alarm
    assert 1.99 < model.guarantee_.epsilon <= 2.0


def people(rng, n_people, kind):
    """Return rows of 8 features of people with 1 to 20 rows each, and whose each row is."""
    whose = np.repeat(np.arange(n_people), rng.integers(1, 21, size=n_people))
    each = rng.normal(size=(n_people, 8)) / 4
    if kind == "rare marks":
        return ((rng.random((n_people, 8)) < 0.1) / 4)[whose], whose
    if kind == "more rows, other features":
        return each[whose] + np.bincount(whose)[whose, None] / 80, whose
    if kind == "alike rows":
        return (each[whose] + rng.normal(size=(len(whose), 8)) / 4) / 2, whose
    return each[whose], whose


def mean_of_people(rows, whose, rng, spread):
    return PublicUnits(whose).shares @ rows + spread * rng.normal(size=rows.shape[1])


KINDS = ["equal rows", "alike rows", "rare marks", "more rows, other features"]


@pytest.mark.parametrize(("n_people", "spread"), [(30, 0.01), (80, 0.001)])
@pytest.mark.parametrize("kind", KINDS)
def test_people_with_several_rows_raise_no_false_alarm(kind, n_people, spread):
    # 300 draws at a rate of at most 1e-3: more than 4 happen with a probability below 2e-5.
    rng, alarms, decided = np.random.default_rng(0), 0, 0
    for _ in range(300):
        private, public = people(rng, 60, kind), people(rng, n_people, kind)
        mean = mean_of_people(*private, rng, spread)
        found = Drift.of(mean, spread, public[0], 60, PublicUnits(public[1], private=True))
        alarms, decided = alarms + found.alarm, decided + (found.undecided is None)
    assert alarms <= 4
    assert decided >= 290


def test_the_tail_has_an_even_distribution():
    """Kolmogorov's test with a false-alarm rate of 1e-4, where the covariance is known badly and noise is small."""
    rng, tails = np.random.default_rng(0), []
    for _ in range(300):
        private, public = people(rng, 100, "equal rows"), people(rng, 60, "equal rows")
        mean = mean_of_people(*private, rng, 0.001)
        tails.append(Drift.of(mean, 0.001, public[0], 100, PublicUnits(public[1], private=True)).tail)
    # A feature counts as seen in one unit more, so tails may be too large, not too small.
    assert stats.kstest(tails, "uniform", alternative="greater").pvalue > 1e-4


def test_rows_taken_for_independent_would_raise_false_alarms():
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(30):
        private, public = people(rng, 1000, "equal rows"), people(rng, 100, "equal rows")
        alarms += Drift.of(mean_of_people(*private, rng, 0.001), 0.001, public[0], 1000).alarm
    assert alarms > 10


def test_drift_is_found_as_well_as_with_one_row_of_each_person():
    """The mean statistic less its value without drift, in both tests: within 5 % over 60 draws."""
    rng, sums = np.random.default_rng(0), np.zeros(2)
    for _ in range(60):
        private, (rows, whose) = people(rng, 1000, "equal rows"), people(rng, 400, "equal rows")
        mean = mean_of_people(*private, rng, 0.005) + 0.04
        by_people = Drift.of(mean, 0.005, rows, 1000, PublicUnits(whose, private=True))
        one_each = Drift.of(mean, 0.005, rows[np.unique(whose, return_index=True)[1]], 1000)
        assert by_people.alarm == one_each.alarm
        sums += [by_people.statistic - 8, one_each.statistic - 8]
    assert sums[0] / sums[1] == pytest.approx(1, abs=0.05)
    assert sums[0] > 60 * 8


def test_many_rows_of_each_person_do_not_hide_drift():
    rng = np.random.default_rng(0)
    private, (rows, whose) = people(rng, 1000, "alike rows"), people(rng, 400, "alike rows")
    mean = mean_of_people(*private, rng, 0.005) + 0.04
    one_each = Drift.of(mean, 0.005, rows[np.unique(whose, return_index=True)[1]], 1000)
    by_people = Drift.of(mean, 0.005, rows, 1000, PublicUnits(whose, private=True))
    assert by_people.alarm
    assert by_people.statistic > one_each.statistic


def test_private_records_without_units_are_people_with_one_record():
    # 300 draws at a rate of at most 1e-3: more than 4 happen with a probability below 2e-5.
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(300):
        private, (rows, whose) = people(rng, 60, "alike rows"), people(rng, 80, "alike rows")
        firsts = private[0][np.unique(private[1], return_index=True)[1]]
        mean = firsts.mean(axis=0) + 0.001 * rng.normal(size=8)
        alarms += Drift.of(mean, 0.001, rows, 60, PublicUnits(whose)).alarm
    assert alarms <= 4


def test_without_units_each_row_is_a_unit():
    rng = np.random.default_rng(0)
    rows, mean = rng.normal(size=(500, 4)) / 4, rng.normal(size=4) / 50
    by_rows = Drift.of(mean, 0.01, rows, 3000)
    assert by_rows == Drift.of(mean, 0.01, rows, 3000, PublicUnits(np.arange(500), private=True))


def test_with_much_noise_the_test_is_the_chi_square_test():
    rng = np.random.default_rng(0)
    rows, gap = rng.normal(size=(500, 4)) / 4, rng.normal(size=4)
    found = Drift.of(rows.mean(axis=0) + gap, 0.5, rows, 3000)
    assert found.statistic == pytest.approx(gap @ gap / 0.5**2, rel=0.01)
    assert found.tail == pytest.approx(stats.chi2.sf(found.statistic, 4), rel=0.01)


def test_the_test_cannot_decide_when_public_units_are_unknown():
    rows = np.random.default_rng(0).normal(size=(1000, 8)) / 4
    found = Drift.of(rows.mean(axis=0) + 1, 0.01, rows, 3000, PublicUnits(private=True))
    assert found.undecided is Undecided.UNKNOWN_UNITS
    assert math.isnan(found.tail)
    assert not found.alarm
    assert not found.trusted
    assert "cannot decide" in found.warning()


@pytest.mark.parametrize("n_units", [1, 2, 9])
def test_the_test_cannot_decide_when_public_units_are_few(n_units):
    rows = np.random.default_rng(0).normal(size=(1000, 8)) / 4
    found = Drift.of(rows.mean(axis=0) + 1, 0.001, rows, 3000, PublicUnits(np.arange(1000) % n_units, private=True))
    assert found.undecided is Undecided.FEW_UNITS
    assert not found.alarm
    assert "too few units" in found.warning()


def test_the_test_cannot_decide_when_public_rows_are_few():
    rows = np.random.default_rng(0).normal(size=(9, 8)) / 4
    found = Drift.of(rows.mean(axis=0) + 1, 0.001, rows, 3000)
    assert found.undecided is Undecided.FEW_ROWS
    assert "public rows are too few" in found.warning()


@pytest.fixture(scope="module")
def visits():
    """1,500 private visits of 300 people, and 1,000 public ones of 200 others; the visits of one person are alike."""
    rng = np.random.default_rng(0)
    whose, public_whose = np.repeat(np.arange(300), 5), np.repeat(np.arange(200), 5)
    X, public = rng.normal(size=(300, 3))[whose], rng.normal(size=(200, 3))[public_whose]
    return X, (X[:, 0] > 0).astype(int), whose, public, public_whose


def moments(**settings):
    return LabelMomentsClassifier(classes=[0, 1], epsilon=8.0, delta=1e-4, insecure_release_seed=0, **settings)


def test_a_run_with_units_on_both_sides_decides(visits):
    X, y, whose, public, public_whose = visits
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = moments().fit(X, y, X_public=public, units=whose, public_units=public_whose)
    assert found.drift_.trusted
    with pytest.warns(UserWarning, match="public rows do not look like the private ones"):
        found = moments().fit(X, y, X_public=public + np.array([0, 2, 0]), units=whose, public_units=public_whose)
    assert found.drift_.alarm


def test_a_run_that_cannot_decide_trusts_public_rows_less(visits, monkeypatch):
    X, y, whose, public, _ = visits
    trusted = []

    def fit_and_note(rounds, public_rows, *more, **others):
        trusted.append(public_rows)
        return fit_moments(rounds, public_rows, *more, **others)

    monkeypatch.setattr("dpensemble.moments.softmax.fit_moments", fit_and_note)
    with pytest.warns(UserWarning, match="the test cannot decide whether public rows look like the private ones"):
        found = moments(rounds=1).fit(X, y, X_public=public, units=whose)
    assert found.drift_.undecided is Undecided.UNKNOWN_UNITS
    assert not found.design_.synthetic_rows
    assert [rows.kappa for rows in trusted] == [_CAUTION]


@pytest.mark.parametrize(
    ("public_units", "words"),
    [
        (np.arange(7), "one entry for each of the 1000 rows of X_public"),
        (np.zeros((1000, 1)), "one entry for each of the 1000 rows of X_public"),
        ([None, *range(999)], "missing value .* at row 0"),
        (np.r_[np.arange(999.0), np.nan], "missing value .* at row 999"),
    ],
)
@pytest.mark.parametrize("method", [LabelMomentsClassifier, AutoClassifier])
def test_wrong_public_units_are_refused(visits, method, public_units, words):
    X, y, whose, public, _ = visits
    with pytest.raises(DataError, match=words):
        method(classes=[0, 1]).fit(X, y, X_public=public, units=whose, public_units=public_units)


def test_public_units_without_public_rows_are_refused(visits):
    X, y, whose, _, public_whose = visits
    declared = dict.fromkeys(range(3), (-4, 4))
    with pytest.raises(InvalidParameterError, match="public_units"):
        moments(declared_columns=declared).fit(X, y, units=whose, public_units=public_whose)


def test_blocks_and_records_in_memory_give_the_same_outcome(visits):
    X, y, whose, public, public_whose = visits
    units = {"units": whose, "public_units": public_whose}
    whole = moments(rounds=1).fit(X, y, X_public=public, **units)
    parts = moments(rounds=1).fit_blocks(lambda: [(X[:700], y[:700]), (X[700:], y[700:])], X_public=public, **units)
    assert whole.drift_ == parts.drift_


N, RUNS = 3000, 5
SETTINGS = {"classes": [0, 1], "epsilon": 2.0, "delta": 1e-5, "on_bad_record": "zero"}
RNG = np.random.default_rng(0)


def table(n_rows):
    return pd.DataFrame(
        {"x": RNG.normal(size=n_rows), "z": RNG.normal(size=n_rows), "c": RNG.choice(list("abc"), n_rows)}
    )


TABLE, LABELS = table(N), RNG.integers(0, 2, N)


def spoiled(share):
    """Return labels of which a share is undeclared."""
    return np.where(np.arange(N) < share * N, 9, LABELS)


def fit(labels, seed, n_public=500, **more):
    settings = {
        "classes": [0, 1],
        "epsilon": 2.0,
        "delta": 1e-5,
        "on_bad_record": "zero",
        "insecure_release_seed": seed,
    }
    model = LabelMomentsClassifier(**settings | more)
    return model.fit(TABLE, labels, X_public=table(n_public))


@pytest.mark.filterwarnings("ignore:public rows do not look")
@pytest.mark.parametrize(
    ("n_public", "more"),
    [
        (500, {}),
        (2500, {}),
        (60, {}),
        (12, {}),
        (500, {"relation": "add-or-remove-one"}),
        (2500, {"relation": "add-or-remove-one"}),
    ],
    ids=["table map", "directions", "few rows", "very few rows", "add or remove", "directions, add or remove"],
)
@pytest.mark.parametrize("bad", [0.0, 0.3])
def test_the_estimate_is_within_its_error(bad, n_public, more):
    """Each estimate is within 4.5 standard deviations. A false alarm has chance 1e-3 in all 60 draws."""
    errors = []
    for seed in range(RUNS):
        found = fit(spoiled(bad), seed, n_public, **more).readable_share_
        if found is None:
            # Without class sums and with a map that has no mean of its own, no release could show it.
            assert (more, n_public) == ({"relation": "add-or-remove-one"}, 500)
            return
        errors.append((found.share - (1 - bad)) / found.error)
        assert 0 < found.error < 0.1
    assert np.abs(errors).max() < 4.5
    # The stated error is not a wide guess either: a chi-square of 5 is below 0.21 with chance 1e-3.
    assert np.square(errors).sum() > 0.21


@pytest.mark.filterwarnings("ignore:public rows do not look")
@pytest.mark.parametrize("n_public", [500, 2500, 60])
def test_new_categories_missing_entries_and_far_numbers_can_be_read(n_public):
    """All records are readable, so each estimate is within 4.5 standard deviations (false alarm 1e-4) of 1."""
    odd = TABLE.assign(c="d")
    odd.loc[::3, "x"], odd.loc[1::3, "x"] = np.nan, 1e6
    for seed in range(RUNS):
        model = LabelMomentsClassifier(**SETTINGS | {"insecure_release_seed": seed})
        found = model.fit(odd, LABELS, X_public=table(n_public)).readable_share_
        assert found is None or abs(found.share - 1) < 4.5 * found.error


def test_nothing_is_estimated_when_bad_records_are_refused():
    assert fit(LABELS, 0, on_bad_record="raise").readable_share_ is None


def test_a_combination_that_fits_by_chance_is_not_used():
    rows = RNG.normal(size=(40, 100))
    assert _always_one(rows) is None
    assert _always_one(rows[:1]) is None
    assert _readable_share(np.zeros(100), 0.1, None) is None


def test_weights_of_cells_are_the_shortest_that_add_up_to_1():
    sizes = [2, 3, 5]
    cells = np.stack([RNG.integers(size, size=400) for size in sizes], axis=1)
    rows = np.hstack([np.eye(size)[cells[:, place]] for place, size in enumerate(sizes)]) / np.sqrt(3)
    assert _always_one_of_cells(sizes) == pytest.approx(_always_one(rows), abs=1e-6)


def test_the_error_is_that_of_the_combination():
    rows = np.eye(3)[[0, 1, 2, 0, 1, 2]] / 2
    found = _readable_share(np.array([0.2, 0.1, 0.15]), 0.01, _always_one(rows), relative_error=0.03)
    assert found.share == pytest.approx(0.9)
    assert found.error == pytest.approx(np.hypot(2 * np.sqrt(3) * 0.01, 0.9 * 0.03))


def test_all_rows_are_a_sample_if_they_are_few():
    shares = np.array([0.5, 0.2, 0.3])
    rows, weights = _some_rows(shares, 3)
    assert rows.tolist() == [0, 1, 2]
    assert weights.tolist() == shares.tolist()


def test_a_sample_of_rows_with_equal_shares_has_them_equally():
    rows, weights = _some_rows(np.full(9000, 1 / 9000), 4000)
    assert len(rows) == len(set(rows.tolist())) == 4000
    assert weights == pytest.approx(np.full(4000, 1 / 4000))


def test_rows_that_count_much_are_all_in_the_sample():
    """A hundred public rows with half of the weight, beside 16,000 synthetic ones."""
    shares = np.repeat([0.5 / 100, 0.5 / 16_000], [100, 16_000])
    rows, weights = _some_rows(shares, 4000)
    assert len(rows) == pytest.approx(4000, abs=1)
    assert rows[:100].tolist() == list(range(100))
    assert weights[:100] == pytest.approx(shares[:100])
    assert weights.sum() == pytest.approx(1.0, rel=1e-3)


def test_sums_over_a_sample_estimate_sums_over_all_rows():
    rng = np.random.default_rng(1)
    shares = rng.gamma(0.3, size=20_000)
    shares /= shares.sum()
    values = np.exp(rng.normal(size=20_000)) + shares / shares.max()
    rows, weights = _some_rows(shares, 4000)
    assert weights @ values[rows] == pytest.approx(shares @ values, rel=0.05)


def test_rows_of_large_weights_are_likelier_and_sums_still_hold():
    """Of a rare class, with few rows that matter for its curvature."""
    rng = np.random.default_rng(5)
    weights, shares = rng.gamma(0.1, size=20_000), np.full(20_000, 1 / 20_000)
    rows, counts = _some_rows(shares, 4000, weights)
    assert len(rows) == 4000
    assert counts @ weights[rows] == pytest.approx(shares @ weights, rel=0.03)
    assert counts.sum() == pytest.approx(1.0, rel=0.05)
    near, _ = _some_rows(shares, 4000, weights * rng.uniform(0.99, 1.01, 20_000))
    assert len(np.intersect1d(rows, near)) > 3900


def test_curvatures_of_a_sample_are_close_to_those_of_all_rows(monkeypatch):
    rng = np.random.default_rng(2)
    features = np.trunc(rng.normal(size=(12_000, 6)) / 4 * UNIT) / UNIT
    blocks = np.array([0, 0, 0, 0, 0, 1])
    # A sample of rows with few features would save nothing.
    assert len(PublicRows(features, blocks, 2).sample.rows) == 12_000
    monkeypatch.setattr(public_rows, "_FEW_PRODUCTS", 0.0)
    public, q = PublicRows(features, blocks, 2), rng.random(12_000) / 4
    assert len(public.sample.rows) == 4000
    curvature = public.sample.slope(q[public.sample.rows])
    assert np.array_equal(curvature, curvature.T)
    assert curvature == pytest.approx((features * q[:, None]).T @ features / 12_000, abs=1e-3)
    # Means are of all rows.
    assert public.average(q[:, None]) == pytest.approx(features.T @ q[:, None] / 12_000)


def test_a_model_that_reads_other_features_is_fitted_to_what_it_reads(monkeypatch):
    """A published model rounds features to whole multiples of `1 / UNIT`."""
    features = np.random.default_rng(3).normal(size=(50, 4)) / 4
    decoder = SimpleNamespace(transform=lambda _: features, blocks_=np.array([0, 0, 0, 1]))
    monkeypatch.setattr(public_rows, "as_library_transformer", lambda one: one)
    table, released = pd.DataFrame({"a": np.zeros(50)}), np.ones((50, 6))
    feature_map = SimpleNamespace(decoder_=decoder, reads_columns_apart=False)
    public = PublicRows.behind(feature_map, released, table, 3, PublicUnits())
    assert public.released is released
    assert np.array_equal(public.features, np.rint(features * UNIT) / UNIT)
    coefficients = np.random.default_rng(4).normal(size=(4, 3))
    assert np.array_equal(public.probabilities(coefficients), probabilities(features, coefficients))
