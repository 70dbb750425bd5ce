"""Any two of epsilon, labels and noise give the third, on the safe side."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpensemble import (
    DPBaggingClassifier,
    PATEClassifier,
    Plan,
    PrivateMajorityClassifier,
    SubsampleAggregateClassifier,
    plan,
)
from dpensemble.budget import Budget
from dpensemble.design.noise import PRECISION
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax, LawChoice

QUICK = settings(max_examples=25, deadline=None)
SLOW = settings(max_examples=15, deadline=None)
LAWS = ["lnmax", "gnmax", "confident-gnmax", "interactive-gnmax"]
PUBLISHED = [
    (50, 25, 1e-3, (10, 84, 210)),
    (100, 50, 1e-3, (42, 337, 842)),
    (250, 125, 1e-3, (263, 2107, 5268)),
    (250, 125, 1e-5, (162, 1354, 3512)),
]


def saa(**settings):
    return SubsampleAggregateClassifier(**settings).design()


def pate(**settings):
    return PATEClassifier(**settings).design()


@pytest.mark.parametrize(("n", "scale", "delta", "labels"), PUBLISHED)
def test_published_counts(n, scale, delta, labels):
    common = {"n_teachers": n, "accounting": "published"}
    bagging = DPBaggingClassifier(**common, n_partitions=4, law=LaplaceNoisyMax(4 * scale)).design()
    for epsilon, expected in zip((1, 3, 5), labels, strict=True):
        found = plan(saa(**common, law=LaplaceNoisyMax(scale)), epsilon=epsilon, delta=delta)
        assert found.labels == expected
        assert found.conversion == "classical Renyi conversion"
        of_bagging = plan(bagging, epsilon=epsilon, delta=delta)
        assert of_bagging.labels == expected
        assert found.labels_in_paper_convention == of_bagging.labels_in_paper_convention == expected + 1


def test_exact_counts_at_the_flagship_setting():
    found = plan(saa(), epsilon=1)
    assert 1119 <= found.labels <= 1124
    assert found.epsilon_spent <= 1
    assert found.conversion == "exact adaptive composition"
    assert found.labels_in_paper_convention is None
    assert json.loads(json.dumps(found.to_dict()))["scale"] == 125
    back = plan(saa(), labels=found.labels)
    assert found.epsilon_spent <= back.epsilon <= 1
    curve = found.design.spend_curve(found.labels)
    assert len(curve) == 40
    assert [point[0] for point in curve][-1] == found.labels
    epsilons = [epsilon for _, (epsilon,) in curve]
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] <= 1


@pytest.mark.parametrize("law", ["saa", *LAWS])
@pytest.mark.parametrize("accounting", ["exact", "published"])
def test_round_trips(law, accounting):
    common = {"n_teachers": 100, "accounting": accounting}
    design = saa(**common) if law == "saa" else pate(**common, law=law)
    found = plan(design, epsilon=1.5, labels=60, delta=1e-4)
    assert found.epsilon_spent <= 1.5
    fixed = pate(**common, law=found.design.law)
    assert plan(fixed, epsilon=1.5, delta=1e-4).labels >= 60
    back = plan(fixed, labels=60, delta=1e-4)
    assert 1.49 < back.epsilon <= 1.5001
    assert plan(fixed, epsilon=back.epsilon, delta=1e-4).labels >= 60
    # The endpoint is safe, and close to the smallest.
    less = found.design.with_noise(found.design.law.noise * (1 - 3 * PRECISION))
    assert less.spent(60)[0] > 1.5


def counted(design, epsilon, delta):
    try:
        return plan(design, epsilon=epsilon, delta=delta).labels
    except BudgetError as error:
        assert "the smallest epsilon that would do is" in str(error)  # noqa: PT017
        return 0


@QUICK
@given(st.sampled_from(LAWS), st.floats(0.05, 20), st.floats(1.01, 3), st.floats(2, 500), st.sampled_from([2, 20]))
def test_labels_rise_with_epsilon_and_noise(law, epsilon, factor, noise, teachers):
    design = pate(law=law, n_teachers=teachers, accounting="published")
    here = counted(design.with_noise(noise), epsilon, 1e-5)
    assert counted(design.with_noise(noise), epsilon * factor, 1e-5) >= here
    assert counted(design.with_noise(noise * factor), epsilon, 1e-5) >= here


@SLOW
@given(st.sampled_from(LAWS), st.floats(0.2, 1.2), st.floats(10, 20), st.integers(3, 40), st.floats(1.1, 2))
def test_exact_labels_are_monotone_and_at_least_the_published(law, epsilon, noise, teachers, factor):
    exact, published = (
        pate(law=law, n_teachers=teachers, accounting=accounting).with_noise(noise)
        for accounting in ("exact", "published")
    )
    here = counted(exact, epsilon, 1e-4)
    assert here >= counted(published, epsilon, 1e-4)
    assert counted(exact, epsilon * factor, 1e-4) >= here
    assert counted(exact.with_noise(noise * factor), epsilon, 1e-4) >= here


def test_the_gate_is_planned_for_all_answered_and_for_none():
    gated = pate(law="confident-gnmax")
    found = plan(gated, epsilon=1)
    assert found.most_queries > 20 * found.labels > 0
    assert found.epsilon_spent == 1
    law = found.design.law
    assert (law.threshold, law.threshold_sigma, law.sigma) == (200, 150, 40)
    wanted = plan(gated, epsilon=1, labels=100).design.law
    assert wanted.threshold_sigma / wanted.sigma == pytest.approx(3.75)
    held = replace(gated, choice=LawChoice.of("confident-gnmax", threshold_sigma=200))
    held = plan(held, epsilon=1, labels=100).design.law
    assert held.threshold_sigma == 200
    assert held.sigma < wanted.sigma


@pytest.mark.parametrize(
    ("given", "sigma", "sought"),
    [
        ({"epsilon": 1}, None, "labels"),
        ({"labels": 20}, None, "epsilon"),
        ({"epsilon": 1}, 30, "labels"),
        ({"labels": 20}, 30, "epsilon"),
        ({"epsilon": 1, "labels": 20}, None, "sigma"),
    ],
)
def test_two_give_the_third(given, sigma, sought):
    law = "gnmax" if sigma is None else GaussianNoisyMax(sigma)
    found = plan(pate(law=law, n_teachers=100), **given)
    assert isinstance(found, Plan)
    for name, value in given.items():
        assert getattr(found, name) == value
    noise = found.design.law.sigma
    assert (noise if sought == "sigma" else getattr(found, sought)) > 0
    if sought != "sigma":
        assert noise == (16 if sigma is None else sigma)


@pytest.mark.parametrize(
    ("law", "given", "message"),
    [
        ("lnmax", {}, "give at least one of them"),
        (LaplaceNoisyMax(3), {}, "give at least one of them"),
        (LaplaceNoisyMax(2), {"epsilon": 1, "labels": 3}, "^epsilon=1, labels=3 and scale=2.0 cannot all be given"),
        ("lnmax", {"labels": 0}, "labels=0"),
        ("lnmax", {"labels": 2.5}, "labels=2.5"),
        ("lnmax", {"epsilon": 0}, "epsilon=0"),
        ("lnmax", {"epsilon": float("nan")}, "epsilon=nan"),
        ("lnmax", {"epsilon": 1, "delta": 0}, "delta=0"),
        ("lnmax", {"labels": 1, "delta": 1}, "delta=1"),
    ],
)
def test_nonsense_is_refused(law, given, message):
    with pytest.raises(InvalidParameterError, match=message):
        plan(saa(law=law), **given)


def test_what_no_noise_can_buy_is_refused():
    with pytest.raises(BudgetError, match=r"labels=2000000000 do not fit epsilon=0\.01 .* any noise"):
        plan(saa(accounting="published"), epsilon=0.01, labels=2 * 10**9)
    held = replace(pate(), choice=LawChoice.of("confident-gnmax", threshold_sigma=5))
    with pytest.raises(BudgetError, match=r"^epsilon=0\.01 at delta=1e-05 is too small for one label; the smallest"):
        plan(saa(law=LaplaceNoisyMax(2)), epsilon=0.01)
    with pytest.raises(BudgetError, match="a larger threshold_sigma"):
        plan(held, epsilon=1, labels=500)


def test_a_budget_that_any_noise_fits_gets_the_least():
    assert plan(pate(law="lnmax"), epsilon=100, labels=1).design.law.scale == 0.01


@pytest.mark.parametrize(
    "model",
    [
        PATEClassifier(law="optimal", n_teachers=100),
        PrivateMajorityClassifier(private="ballots", teacher_privacy=0.5, max_labels=10),
        PrivateMajorityClassifier(law="gnmax", max_labels=10),
    ],
    ids=["optimal", "ballots", "gaussian"],
)
def test_a_design_follows_from_an_estimator_alone(model):
    design = model.design()
    assert design.groups[0].budget == Budget(epsilon=1.0, delta=1e-5)
    assert json.loads(json.dumps(design.settings(), default=str))["method"] == design.name
    assert design.with_budget(Budget(epsilon=50.0, delta=1e-5)).meter(5).sure_queries >= 5
