"""Any two of epsilon, labels and noise give the third, on the safe side."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.planning import Ensemble, Plan, plan, plan_epsilon, plan_labels, plan_noise, spend_curve
from dpensemble.planning.calibrate import PRECISION

QUICK = settings(max_examples=25, deadline=None)
SLOW = settings(max_examples=15, deadline=None)
METHODS = ["saa", "lnmax", "gnmax", "confident-gnmax", "interactive-gnmax"]
PUBLISHED = [
    (50, 25, 1e-3, (10, 84, 210)),
    (100, 50, 1e-3, (42, 337, 842)),
    (250, 125, 1e-3, (263, 2107, 5268)),
    (250, 125, 1e-5, (162, 1354, 3512)),
]


def noise_of(found):
    return found.scale or found.sigma


def name_of(method):
    return "scale" if method in ("saa", "dpbag", "lnmax") else "sigma"


@pytest.mark.parametrize(("n", "scale", "delta", "labels"), PUBLISHED)
def test_published_counts(n, scale, delta, labels):
    common = {"delta": delta, "n_teachers": n, "accounting": "published"}
    for epsilon, expected in zip((1, 3, 5), labels, strict=True):
        found = plan_labels(epsilon=epsilon, scale=scale, **common)
        assert found.labels == expected
        assert found.labels_in_paper_convention == expected + 1
        assert found.conversion == "classical Renyi conversion"
        bagging = plan_labels(epsilon=epsilon, method="dpbag", n_partitions=4, scale=4 * scale, **common)
        assert bagging.labels == expected


def test_exact_counts_at_the_flagship_setting():
    found = plan_labels(epsilon=1, delta=1e-5, n_teachers=250, scale=125)
    assert 1119 <= found.labels <= 1124
    assert found.epsilon_spent <= 1
    assert found.conversion == "exact adaptive composition"
    assert found.labels_in_paper_convention is None
    assert json.loads(json.dumps(found.to_dict()))["scale"] == 125
    back = plan_epsilon(labels=found.labels, delta=1e-5, n_teachers=250, scale=125)
    assert found.epsilon_spent <= back.epsilon <= 1
    curve = spend_curve(found.ensemble.one_query(), found.labels, 1e-5)
    assert len(curve) == 40
    assert [point[0] for point in curve][-1] == found.labels
    assert [point[1] for point in curve] == sorted(point[1] for point in curve)
    assert curve[-1][1] <= 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("accounting", ["exact", "published"])
def test_round_trips(method, accounting):
    common = {"delta": 1e-4, "method": method, "n_teachers": 100, "accounting": accounting}
    found = plan_noise(epsilon=1.5, labels=60, **common)
    assert found.epsilon_spent <= 1.5
    noise = {name_of(method): noise_of(found), "threshold_sigma": found.threshold_sigma}
    assert plan_labels(epsilon=1.5, **noise, **common).labels >= 60
    back = plan_epsilon(labels=60, **noise, **common)
    assert 1.49 < back.epsilon <= 1.5001
    assert plan_labels(epsilon=back.epsilon, **noise, **common).labels >= 60
    # The endpoint is safe, and close to the smallest.
    less = Ensemble(method=method, n_teachers=100, accounting=accounting).with_noise(
        noise_of(found) * (1 - 3 * PRECISION)
    )
    assert (less.one_query() * 60).epsilon(1e-4, less.conversion) > 1.5


@QUICK
@given(
    st.sampled_from(METHODS), st.floats(0.05, 20), st.floats(1.01, 3), st.floats(2, 500), st.sampled_from([2, 20])
)
def test_labels_rise_with_epsilon_and_noise(method, epsilon, factor, noise, teachers):
    def labels(epsilon, noise):
        ensemble = Ensemble(method=method, n_teachers=teachers, accounting="published").with_noise(noise)
        try:
            return plan_labels(epsilon=epsilon, delta=1e-5, **settings_of(ensemble)).labels
        except BudgetError as error:
            assert "the smallest epsilon that would do is" in str(error)  # noqa: PT017
            return 0

    here = labels(epsilon, noise)
    assert labels(epsilon * factor, noise) >= here
    assert labels(epsilon, noise * factor) >= here


def settings_of(ensemble):
    names = (
        "method",
        "n_teachers",
        "n_partitions",
        "scale",
        "sigma",
        "threshold",
        "threshold_sigma",
        "accounting",
    )
    return {name: getattr(ensemble, name) for name in names}


@SLOW
@given(st.sampled_from(METHODS), st.floats(0.2, 1.2), st.floats(10, 20), st.integers(3, 40), st.floats(1.1, 2))
def test_exact_labels_are_monotone_and_at_least_the_published(method, epsilon, noise, teachers, factor):
    def labels(epsilon, noise, accounting="exact"):
        ensemble = Ensemble(method=method, n_teachers=teachers, accounting=accounting).with_noise(noise)
        try:
            return plan_labels(epsilon=epsilon, delta=1e-4, **settings_of(ensemble)).labels
        except BudgetError:
            return 0

    here = labels(epsilon, noise)
    assert here >= labels(epsilon, noise, "published")
    assert labels(epsilon * factor, noise) >= here
    assert labels(epsilon, noise * factor) >= here


def test_the_gate_is_planned_for_all_answered_and_for_none():
    found = plan_labels(epsilon=1, delta=1e-5, method="confident-gnmax")
    assert found.most_queries > 20 * found.labels > 0
    assert found.epsilon_spent == 1
    assert (found.threshold, found.threshold_sigma, found.sigma) == (200, 150, 40)
    wanted = plan_noise(epsilon=1, labels=100, delta=1e-5, method="confident-gnmax")
    assert wanted.threshold_sigma / wanted.sigma == pytest.approx(3.75)
    held = plan_noise(epsilon=1, labels=100, delta=1e-5, method="confident-gnmax", threshold_sigma=200)
    assert held.threshold_sigma == 200
    assert held.sigma < wanted.sigma


@pytest.mark.parametrize(
    ("given", "sought"),
    [
        ({"epsilon": 1}, "labels"),
        ({"labels": 20}, "epsilon"),
        ({"epsilon": 1, "sigma": 30}, "labels"),
        ({"labels": 20, "sigma": 30}, "epsilon"),
        ({"epsilon": 1, "labels": 20}, "sigma"),
    ],
)
def test_two_give_the_third(given, sought):
    found = plan(delta=1e-5, method="gnmax", n_teachers=100, **given)
    assert isinstance(found, Plan)
    for name, value in given.items():
        assert getattr(found, name) == value
    assert getattr(found, sought) > 0
    assert found.sigma == given.get("sigma", found.sigma if sought == "sigma" else 16)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give at least one of them"),
        ({"scale": 3}, "give at least one of them"),
        ({"epsilon": 1, "labels": 3, "scale": 2}, "cannot all be given"),
        ({"labels": 0}, "labels=0"),
        ({"labels": 2.5}, "labels=2.5"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": float("nan")}, "epsilon=nan"),
        ({"epsilon": 1, "delta": 0}, "delta=0"),
        ({"labels": 1, "delta": 1}, "delta=1"),
    ],
)
def test_nonsense_is_refused(given, message):
    with pytest.raises(InvalidParameterError, match=message):
        plan(**({"delta": 1e-5} | given))


def test_what_no_noise_can_buy_is_refused():
    with pytest.raises(BudgetError, match=r"labels=2000000000 do not fit epsilon=0\.01 .* any noise"):
        plan_noise(epsilon=0.01, labels=2 * 10**9, delta=1e-5, accounting="published")
    with pytest.raises(BudgetError, match="a larger threshold_sigma"):
        plan_noise(epsilon=1, labels=500, delta=1e-5, method="confident-gnmax", threshold_sigma=5)


def test_a_budget_that_any_noise_fits_gets_the_least():
    assert plan_noise(epsilon=100, labels=1, delta=1e-5, method="lnmax").scale == 0.01
