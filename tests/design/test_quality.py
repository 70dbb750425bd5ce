"""How often labels are wrong, and how many teachers make that rare."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpensemble._random import noise_source
from dpensemble.accounting import Accounting
from dpensemble.budget import Budget
from dpensemble.design import Partitioned, answer_rate, plan, smallest_ensemble, wrong_label_rate
from dpensemble.design.noise import PRECISION
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import (
    ConfidentNoisyMax,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    LawChoice,
    sample,
)

MARGINS = np.array([0.0, 10.0, 50.0, 100.0])


def test_closed_forms_of_two_classes():
    gap = MARGINS / 30
    assert wrong_label_rate(LaplaceNoisyMax(30), 100, MARGINS) == pytest.approx((2 + gap) * np.exp(-gap) / 4, abs=2e-6)
    gaussian = norm.sf(MARGINS / (np.sqrt(2) * 30))
    assert wrong_label_rate(GaussianNoisyMax(30), 100, MARGINS) == pytest.approx(gaussian, abs=2e-6)
    assert answer_rate(GaussianNoisyMax(30), 100, MARGINS).tolist() == [1] * 4


@pytest.mark.parametrize("kind", [ConfidentNoisyMax, InteractiveNoisyMax])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_gated_rates_are_those_of_the_sampler(kind, n_classes):
    law, draws = kind(threshold=60, threshold_sigma=20, sigma=15), 20_000
    counts = np.tile([60, 40, 0, 0][:n_classes], (draws, 1))
    outcomes = sample(law, counts, noise_source(0))
    answered = outcomes[outcomes < n_classes]
    rate = answer_rate(law, 100, [20], n_classes)[0]
    assert len(answered) / draws == pytest.approx(rate, abs=5 * np.sqrt(rate * (1 - rate) / draws))
    wrong = wrong_label_rate(law, 100, [20], n_classes)[0]
    tolerance = 5 * np.sqrt(wrong * (1 - wrong) / len(answered))
    assert np.mean(answered != 0) == pytest.approx(wrong, abs=tolerance)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from([LaplaceNoisyMax, GaussianNoisyMax]),
    st.floats(0.5, 500),
    st.floats(1.01, 3),
    st.integers(2, 5),
    st.lists(st.floats(0, 100), min_size=2, max_size=6),
)
def test_wrong_labels_are_rarer_with_margin_and_less_noise(law, noise, factor, n_classes, margins):
    rates = wrong_label_rate(law(noise), 100, sorted(margins), n_classes)
    assert np.all(np.diff(rates) <= 1e-5)
    assert np.all(wrong_label_rate(law(noise * factor), 100, sorted(margins), n_classes) >= rates - 1e-5)


@pytest.mark.parametrize("margins", [[-1], [101], [float("nan")]])
def test_margins_out_of_range_are_refused(margins):
    with pytest.raises(InvalidParameterError, match="margins must be votes from 0 to n_teachers=100"):
        wrong_label_rate(LaplaceNoisyMax(3), 100, margins)


def partitioned(law, epsilon=1.0, delta=1e-5, **settings):
    how = {"n_teachers": 250, "accounting": Accounting.EXACT} | settings
    return Partitioned(name="pate", choice=LawChoice.of(law), budget=Budget(epsilon=epsilon, delta=delta), **how)


@pytest.mark.parametrize(
    ("law", "accounting", "n_partitions"),
    [
        ("lnmax", "exact", 1),
        ("lnmax", "published", 1),
        ("lnmax", "published", 5),
        ("gnmax", "exact", 1),
        ("confident-gnmax", "exact", 1),
    ],
)
def test_the_smallest_ensemble_is_enough_and_one_fewer_is_not(law, accounting, n_partitions):
    design = partitioned(law, delta=1e-4, accounting=Accounting(accounting), n_partitions=n_partitions)
    found = smallest_ensemble(design, labels=30, agreement=0.75, label_accuracy=0.9)
    assert found.label_accuracy >= 0.9
    teachers = found.plan.design.n_teachers

    def accuracy(n_teachers):
        there = plan(replace(design, n_teachers=n_teachers), epsilon=1.0, labels=30, delta=1e-4)
        ballots = n_teachers * n_partitions
        return there, 1 - wrong_label_rate(there.design.law, ballots, [0.5 * ballots])[0]

    there, right = accuracy(teachers)
    assert there.epsilon_spent <= 1
    assert there.design.law.noise == pytest.approx(found.plan.design.law.noise, rel=PRECISION)
    assert right == pytest.approx(found.label_accuracy, abs=2e-4)
    assert accuracy(teachers - 2)[1] < 0.9


def test_the_smallest_ensemble_reads_a_threshold_as_a_share():
    choice = LawChoice.of("confident-gnmax", threshold=700)
    found = smallest_ensemble(partitioned(choice, n_teachers=1000), labels=100, agreement=0.8, label_accuracy=0.95)
    assert found.plan.design.law.threshold == pytest.approx(0.7 * found.plan.design.n_teachers)
    assert found.answer_rate > 0.5


@pytest.mark.parametrize(
    ("law", "changes", "message"),
    [
        ("lnmax", {"agreement": 0.5}, "agreement=0.5"),
        ("lnmax", {"agreement": 1.1}, "agreement=1.1"),
        ("lnmax", {"label_accuracy": 1}, "label_accuracy=1"),
        ("lnmax", {"labels": 0}, "labels=0"),
        (LaplaceNoisyMax(3), {}, r"LaplaceNoisyMax\(scale=3.0\) must be left open"),
    ],
)
def test_nonsense_is_refused(law, changes, message):
    given = {"labels": 10, "agreement": 0.8, "label_accuracy": 0.9}
    with pytest.raises(InvalidParameterError, match=message):
        smallest_ensemble(partitioned(law), **(given | changes))


def test_what_no_ensemble_can_do_is_refused():
    design = partitioned("gnmax", epsilon=0.01, accounting=Accounting.PUBLISHED)
    with pytest.raises(BudgetError, match="no ensemble of up to 10,000,000 teachers"):
        smallest_ensemble(design, labels=10**6, agreement=0.501, label_accuracy=0.999)
