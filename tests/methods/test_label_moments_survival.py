"""`LabelMomentsSurvival`: forms of input, bad records, whose records count, curves and risks, and accounts."""

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dpensemble import LabelMomentsSurvival, Ledger, total_spent
from dpensemble.certificates import certificate_of_fit, confirmed
from dpensemble.errors import (
    BudgetError,
    DataError,
    InvalidParameterError,
    RepeatedReleaseWarning,
    UnlikeRowsWarning,
)
from dpensemble.moments.whole import WHOLE
from dpensemble.persistence import load_classifier, save_classifier

BINS = [1.0, 2.0, 4.0, 8.0]
RNG = np.random.default_rng(0)
PUBLIC = RNG.normal(size=(300, 2))
X = RNG.normal(size=(2000, 2))
DIED, LEFT = RNG.exponential(4 * np.exp(-X[:, 0])), RNG.uniform(1, 12, 2000)

pytestmark = pytest.mark.filterwarnings("ignore:public rows do not look:UserWarning")


def surv(event, time):
    """Return what ``sksurv.util.Surv.from_arrays`` makes."""
    return np.rec.fromarrays([np.asarray(event), np.asarray(time)], names="event,time")


Y = surv(DIED <= LEFT, np.minimum(DIED, LEFT))


def model(**settings):
    return LabelMomentsSurvival(**({"bins": BINS, "delta": 1e-5, "insecure_release_seed": 0} | settings))


@pytest.fixture(scope="module")
def fitted():
    return model(epsilon=3.0).fit(X, Y, X_public=PUBLIC)


def test_swapped_fields_are_refused_by_their_names():
    swapped = np.rec.fromarrays([np.array([3.0, 4.0]), np.array([1, 0])], names="time,status")
    for y in (swapped, pd.DataFrame(swapped)):
        with pytest.raises(DataError, match="'time', 'status': give the event first"):
            model().fit(X[:2], y, X_public=PUBLIC)


def test_the_released_life_table_of_everybody_has_a_curve_with_bands(fitted):
    curve = fitted.life_table_.curves[0]
    # Kaplan and Meier at the ends of bins, without privacy.
    times = np.sort(Y["time"])
    at_risk = 2000 - np.searchsorted(times, times)
    died = Y["event"][np.argsort(Y["time"], kind="stable")]
    exact = [np.prod((1 - died / at_risk)[times <= end]) for end in BINS]
    np.testing.assert_allclose(curve.survival, exact, atol=0.03)
    assert ((curve.low <= exact) & (exact <= curve.high)).all()
    risks = fitted.predict_risk(PUBLIC, t=BINS).mean(axis=0)
    np.testing.assert_allclose(1 - risks, curve.survival, atol=0.03)


def test_risks_beside_competing_events_add_up_and_follow_hazards():
    other = RNG.exponential(6 * np.exp(-X[:, 1]))
    y = surv(np.where(other < Y["time"], 2 + (other < 0.4), Y["event"]), np.minimum(other, Y["time"]))
    swapped = surv(np.select([y["event"] == 1, y["event"] > 1], [2, 1], 0), y["time"])
    event = model(epsilon=50.0, competing=[2, 3]).fit(X, y, X_public=PUBLIC)
    others = model(epsilon=50.0, competing=[2]).fit(X, swapped, X_public=PUBLIC)
    assert [one.kind for one in event.life_table_.curves[0].incidence] == ["1", "2 or 3"]
    grid = np.linspace(0.0, 8.0, 33)
    first, second = event.predict_risk(PUBLIC, grid), others.predict_risk(PUBLIC, grid)
    free = event.predict_survival_function(PUBLIC[:3])
    np.testing.assert_allclose(
        first + second, 1 - np.array([one(grid) for one in event.predict_survival_function(PUBLIC)]), atol=0.05
    )
    assert (np.diff(first, axis=1) >= 0).all()
    # In a bin both hazards are constant, so risks and chances to be free grow alike.
    for one, risks in zip(free, first, strict=False):
        gone = 1 - one(grid)
        for start, end in zip((0.0, 1.0, 2.0, 4.0), BINS, strict=True):
            inside = (start <= grid) & (grid <= end)
            slopes = np.diff(risks[inside]) / np.diff(gone[inside])
            np.testing.assert_allclose(slopes, slopes[0], rtol=1e-6)
    # Without an event that competes, all risks are those of the hazard.
    alone = model(epsilon=50.0).fit(X, Y, X_public=PUBLIC)
    np.testing.assert_array_equal(
        alone.predict_risk(PUBLIC, BINS),
        -np.expm1(-alone.predict_cumulative_hazard_function(PUBLIC, return_array=True)),
    )


def test_bins_that_can_be_read_once_only_are_refused():
    with pytest.raises(InvalidParameterError, match="is not a list of times"):
        model(bins=iter(BINS)).fit(X, Y, X_public=PUBLIC)


def test_fits_with_other_bins_count_as_fits_to_the_same_records():
    rows = X[:500] + 7
    fits = [{"bins": BINS}, {"bins": [0.5, *BINS]}, {"bins": BINS[:3]}]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for settings in fits:
            model(epsilon=50.0, insecure_release_seed=None, **settings).fit(rows, Y[:500], X_public=PUBLIC)
    assert any("2 private fits" in str(one.message) for one in caught if one.category is RepeatedReleaseWarning)
    assert total_spent().epsilon >= 149


def test_a_person_with_bad_records_only_counts_as_a_person():
    y = Y.copy()
    y["time"][:1000] = np.nan
    settings = {"epsilon": 200.0, "relation": "add-or-remove-one"}
    found = model(**settings).fit(
        X, y, X_public=PUBLIC, units=np.arange(2000), public_units=np.arange(300), fewest_units=100
    )
    assert found.result_.releases[0].description == "the number of units"
    assert abs(found.readable_share_.share - 0.5) < 0.02


def test_a_warning_that_is_an_error_does_not_lose_what_was_charged():
    unlike = model(epsilon=5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnlikeRowsWarning)
        with pytest.raises(UnlikeRowsWarning):
            unlike.fit(X + 3, Y, X_public=PUBLIC)
    assert unlike.predict_risk(X[:2], t=4).shape == (2,)


def test_the_warning_of_unlike_rows_names_the_line_of_the_fit():
    with pytest.warns(UnlikeRowsWarning) as caught:
        model(epsilon=5.0).fit(X + 3, Y, X_public=PUBLIC)
    assert [one.filename for one in caught if one.category is UnlikeRowsWarning] == [__file__]


def test_curves_and_risks_have_the_forms_that_metrics_of_scikit_survival_take(fitted):
    curves = fitted.predict_survival_function(X[:7], return_array=True)
    assert curves.shape == (7, 4)
    assert (np.diff(curves, axis=1) <= 0).all()
    functions = fitted.predict_survival_function(X[:7])
    assert functions.shape == (7,)
    # As `as_integrated_brier_score_scorer` reads them.
    read = np.vstack([one(BINS) for one in functions])
    assert np.allclose(read, curves)
    assert functions[0].x.tolist() == fitted.unique_times_.tolist() == BINS
    assert functions[0].domain == (0.0, 8.0)
    assert functions[0](0.0) == 1.0
    hazards = fitted.predict_cumulative_hazard_function(X[:7], return_array=True)
    assert np.allclose(np.exp(-hazards), curves)
    assert np.allclose(fitted.predict_cumulative_hazard_function(X[:7])[3](BINS), hazards[3])
    # The score is in the order of the risk, at any time.
    order = np.argsort(fitted.predict(X[:50]))
    assert (np.diff(fitted.predict_risk(X[:50], 3.0)[order]) >= 0).all()


def test_risks_between_ends_of_bins_agree_with_the_functions(fitted):
    times = [0.0, 0.5, 1.0, 3.3, 8.0]
    risks = fitted.predict_risk(X[:5], times)
    assert risks.shape == (5, 5)
    assert (risks[:, 0] == 0).all()
    assert np.allclose(risks, [1 - one(times) for one in fitted.predict_survival_function(X[:5])])
    assert np.allclose(fitted.predict_risk(X[:5], 3.3), risks[:, 3])
    with pytest.raises(InvalidParameterError, match="t=9"):
        fitted.predict_risk(X[:5], 9.0)
    with pytest.raises(InvalidParameterError, match="times=9"):
        fitted.predict_survival_function(X[:1])[0](9.0)


def test_a_column_that_matters_orders_risks_and_their_mean_is_that_of_the_table(fitted):
    risk = fitted.predict_risk(X, 4.0)
    assert np.corrcoef(risk, X[:, 0])[0, 1] > 0.8
    truth = -np.expm1(-np.exp(X[:, 0]))
    # The noise on the share has a standard deviation of about .01.
    assert abs(risk.mean() - truth.mean()) < 0.05


@pytest.mark.filterwarnings("ignore:.*NOT FOR RELEASE")
def test_a_saved_student_states_the_same_risks_without_the_estimator(fitted, tmp_path):
    path = tmp_path / "student.skops"
    save_classifier(fitted.student_, path)
    student = load_classifier(path)
    expected = -np.log1p(-fitted.predict_risk(X[:9], BINS))
    assert np.allclose(student.predict_cumulative_hazard(X[:9]), expected)
    assert np.allclose(
        student.predict_cumulative_hazard(X[:9], [3.0])[:, 0], -np.log1p(-fitted.predict_risk(X[:9], 3.0))
    )
    assert np.allclose(student.predict(X[:9]), fitted.predict(X[:9]))
    with pytest.raises(InvalidParameterError, match="fit a LabelMomentsSurvival"):
        student.steps[-1][1].fit(X, DIED)


def test_tables_with_texts_and_other_forms_of_y_are_read(totals):
    rows = pd.DataFrame({"age": X[:200, 0], "sex": np.where(X[:200, 1] > 0, "f", "m")})
    public = pd.DataFrame({"age": PUBLIC[:, 0], "sex": np.where(PUBLIC[:, 1] > 0, "f", "m")})
    texts = np.where(Y["event"], "dead", "alive")[:200]
    forms = [
        (Y[:200], {}),
        (pd.DataFrame({"status": Y["event"][:200].astype(int), "days": Y["time"][:200]}), {}),
        (pd.DataFrame({"status": texts, "days": Y["time"][:200]}), {"events": ["dead"], "censored": ["alive"]}),
        (np.column_stack([Y["event"][:200].astype(float), Y["time"][:200]]), {}),
    ]
    risks = [model(**more).fit(rows, y, X_public=public).predict_risk(rows, 2.0) for y, more in forms]
    assert all((one == risks[0]).all() for one in risks)
    assert len(totals) == 16


@pytest.mark.parametrize("bad", [(math.nan, 1), (-1.0, 1), (math.inf, 0), (2.0, 7)])
def test_a_bad_record_adds_nothing_and_is_not_named(totals, bad):
    time, event = Y["time"][:100].copy(), Y["event"][:100].astype(int)
    time[3], event[3] = bad
    model().fit(X[:100], surv(event, time), X_public=PUBLIC)
    time[3], event[3] = math.nan, 1
    model().fit(X[:100], surv(event, time), X_public=PUBLIC)
    assert all((one == other).all() for one, other in zip(totals[:3], totals[4:7], strict=True))
    rows = X[:100].copy()
    rows[3] = math.inf
    model().fit(rows, Y[:100], X_public=PUBLIC)
    assert all((one == other).all() for one, other in zip(totals[:3], totals[8:11], strict=True))


def test_an_event_after_the_horizon_is_a_censoring_there(totals):
    for event, time in ((True, 9.0), (False, 8.0), (False, 1e9)):
        model().fit(X[:3], surv([True, False, event], [0.5, 1.0, time]), X_public=PUBLIC)
    for later in (totals[4:7], totals[8:11]):
        assert all((one == other).all() for one, other in zip(totals[:3], later, strict=True))


def test_the_record_of_the_first_event_counts_with_its_own_columns(totals):
    own = {"X_public": PUBLIC}
    of_people = own | {"public_units": np.arange(300)}
    people = ["a", "a", "b", "b", "c"]
    model().fit(X[:5], surv([0, 1, 0, 0, 1], [0.5, 3.0, 2.0, 1.0, 5.0]), units=people, **of_people)
    # Another order, and one more event later.
    order, more = [4, 1, 0, 3, 2, 1], surv([1, 1, 0, 0, 0, 1], [5.0, 3.0, 0.5, 1.0, 2.0, 7.0])
    model().fit(X[order], more, units=["c", "a", "a", "b", "b", "a"], **of_people)
    model().fit(X[[1, 2, 4]], surv([1, 0, 1], [3.0, 2.0, 5.0]), **own)
    # The mean of features is of records that count.
    assert all((one == other).all() for one, other in zip(totals[:3], totals[4:7], strict=True))
    assert all((one == other).all() for one, other in zip(totals[:3], totals[8:11], strict=True))


@pytest.mark.parametrize("relation", ["replace-one", "add-or-remove-one"])
def test_all_sums_are_charged_and_certified(tmp_path, relation):
    one = LabelMomentsSurvival(BINS, relation=relation, delta=1e-5).fit(X[:500], Y[:500], X_public=PUBLIC)
    adds = relation == "add-or-remove-one"
    assert len(one.charges_) == 4 + adds
    assert 0.999 < one.guarantee_.epsilon <= 1.0
    table, *residuals = one.charges_[-3:]
    assert table["entries"] == 10
    sensitivity = (1.0, 0.5, 0.5) if adds else (math.sqrt(2), 1.0, 1.0)
    for charge, own in zip((table, *residuals), sensitivity, strict=True):
        assert math.isclose(math.sqrt(charge["variance"]) / WHOLE, charge["sigma"] * own, rel_tol=1e-6)
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(certificate_of_fit(one)))
    assert confirmed(path)[0]
    assert abs(one.readable_share_.share - 1) < 6 * one.readable_share_.error
    assert not any("declared classes" in text for text in one.guarantee_.assumptions)


def test_the_share_of_readable_records_is_that_of_the_life_table():
    time = np.where(np.arange(2000) % 4, Y["time"], math.nan)
    share = model(epsilon=3.0).fit(X, surv(Y["event"], time), X_public=PUBLIC).readable_share_
    assert abs(share.share - 0.75) < 5 * share.error < 0.1


def test_a_ledger_is_charged_once_and_refuses_what_does_not_fit(tmp_path, totals):
    ledger = Ledger.create(tmp_path / "ledger.db")
    account = ledger.open_account("patients", epsilon=1.1, delta=1e-4)
    one = LabelMomentsSurvival(BINS, delta=1e-5)
    one.fit(X[:50], Y[:50], X_public=PUBLIC, ledger=account)
    with pytest.raises(BudgetError):
        clone(one).fit(X[:50], Y[:50], X_public=PUBLIC, ledger=account)
    assert len(totals) == 4


@pytest.mark.parametrize(
    ("settings", "more", "words"),
    [
        ({"bins": [1.0]}, {}, "has 1 entries"),
        ({"bins": ()}, {}, "has 0 entries"),
        ({"bins": [2.0, 1.0]}, {}, "must ascend"),
        ({"bins": 5}, {}, "bins=5 is not a list"),
        ({"events": 1}, {}, "events=1 is not a list of codes"),
        ({"events": [1], "censored": [1]}, {}, "no code twice"),
        ({"epsilon": -1.0}, {}, "epsilon"),
        ({"relation": "none"}, {}, "relation"),
        ({}, {"X_public": None}, "X_public is missing"),
        ({}, {"X_public": np.ones((300, 2))}, "entries are all the same"),
        ({}, {"X_public": PUBLIC[:1]}, "entries are all the same"),
        ({}, {"X_public": np.ones((300, 3))}, "lacks the columns"),
        ({}, {"sample_weight": np.ones(50)}, "sample_weight"),
        ({}, {"y": Y[:20]}, "20 labels"),
        ({}, {"y": None}, "y to be passed"),
        ({}, {"y": Y["time"][:50]}, "two fields"),
        ({}, {"y": list(zip(Y["event"][:50], Y["time"][:50], strict=True))}, "two fields"),
        ({}, {"y": surv(Y["time"][:50], Y["event"][:50])}, "event first"),
        ({}, {"y": pd.DataFrame({"e": Y["event"][:50], "t": pd.to_datetime(["2020-01-01"] * 50)})}, "dates"),
        ({}, {"units": np.arange(9)}, "units"),
    ],
)
def test_what_public_settings_and_public_rows_show_is_refused_before_anything_is_charged(totals, settings, more, words):
    given = {"y": Y[:50], "X_public": PUBLIC} | more
    y = given.pop("y")
    with pytest.raises((InvalidParameterError, DataError), match=words):
        model(**settings).fit(X[:50], y, **given)
    assert not totals


def test_two_hundred_bins_and_times_far_from_the_bins_are_fitted():
    many = model(bins=np.linspace(0.05, 10, 200)).fit(X[:200], Y[:200], X_public=PUBLIC[:50])
    far = model(bins=[1e6, 2e6]).fit(X[:200], Y[:200], X_public=PUBLIC)
    nobody = model().fit(X[:200], surv(np.zeros(200, dtype=bool), Y["time"][:200]), X_public=PUBLIC)
    for one in (many, far, nobody):
        risks = one.predict_risk(X[:9], one.unique_times_)
        assert np.isfinite(risks).all()
        assert ((risks >= 0) & (risks <= 1)).all()


def test_records_that_cannot_be_read_do_not_make_public_rows_unlike():
    """Most times are dates. What can be read is like the public rows, and more noise hides differences."""
    lost = np.random.default_rng(4).random(len(X)) < 0.6
    y = pd.DataFrame({"event": Y["event"].astype(int), "time": np.where(lost, np.nan, Y["time"])})
    fitted = model(epsilon=5.0, delta=1e-4).fit(X, y, X_public=PUBLIC)
    assert fitted.readable_share_.share == pytest.approx(1 - lost.mean(), abs=0.03)
    assert not fitted.drift_.alarm
    assert fitted.drift_.trusted
