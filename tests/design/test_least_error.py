"""The optimal vote under a whole budget, against noise calibrated to the same one."""

from functools import cache

import numpy as np
import pytest

from dpensemble import Budget
from dpensemble import plan as find_plan
from dpensemble.accounting import Accounting, Change, price
from dpensemble.design import Partitioned, with_least_error, wrong_label_rate
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import GaussianNoisyMax, LawChoice, OptimalVote, mixed_probabilities


@cache
def plan(law, accounting="exact", n_classes=2, shape=None):
    choice = LawChoice.of(law, shape=shape)
    design = Partitioned(name="pate", choice=choice, accounting=Accounting(accounting), n_classes=n_classes)
    return find_plan(design, epsilon=1.0, labels=300)


def test_it_beats_all_noise_at_the_flagship_setting():
    """300 labels of 250 teachers, and a vote of 200 to 50, all certified by exact adaptive composition."""
    found = plan("optimal", shape=0.3)
    assert found.conversion == "exact adaptive composition"
    assert found.epsilon_spent <= 1
    margins = [50, 100, 150, 200, 250]
    ours = wrong_label_rate(found.design.law, 250, margins)
    assert ours[2] < 0.067
    for law in ("gnmax", "lnmax"):
        for accounting in ("exact", "published"):
            theirs = wrong_label_rate(plan(law, accounting).design.law, 250, margins)
            # At 50 votes both are within a fiftieth of a per cent of each other.
            assert np.all(ours[1:] < theirs[1:])
            assert ours[0] < theirs[0] + 5e-4


def test_a_smaller_shape_is_no_worse_than_gaussian_noise_at_any_margin():
    margins = np.arange(0, 251, 2)
    found = (plan("optimal", shape=0.25), plan("gnmax"))
    rates = [wrong_label_rate(one.design.law, 250, margins) for one in found]
    # Noise and reach are calibrated to 0.05 %, which moves a rate by up to 0.02 %.
    assert np.all(rates[0] <= rates[1] + 2e-4)
    assert np.all(rates[0][50:] < rates[1][50:])


def test_with_three_classes_it_beats_gaussian_noise_at_most_histograms():
    """60 teachers, with slightly less noise than the budget allows."""
    noisy, ours = GaussianNoisyMax(38.0), OptimalVote(175.84, 0.35)
    spent = [
        (price(law, Change(ballots=60, classes=3)).label * 300).epsilon(1e-5, "exact adaptive composition")
        for law in (ours, noisy)
    ]
    assert spent[0] <= 2 < spent[1]
    rows = np.array([(a, b, 60 - a - b) for a in range(21, 61) for b in range(61 - a) if a > b >= 60 - a - b])
    wrong = [1 - mixed_probabilities(law, rows)[:, 0] for law in (ours, noisy)]
    assert np.mean(wrong[0] < wrong[1]) > 0.85
    assert wrong[0].mean() < wrong[1].mean() - 0.001


def optimal(n_teachers=50, **given):
    choice = LawChoice.of("optimal", **given)
    return Partitioned(name="pate", choice=choice, n_teachers=n_teachers, budget=Budget(epsilon=2.0, delta=1e-5))


def test_the_prior_decides_the_shape():
    for margin in (4, 46):
        prior = np.zeros(51)
        prior[margin] = 1.0
        found = with_least_error(optimal(), 20, values=(0.2, 0.4), prior=prior)
        law = found.design.law
        # Values are compared at a rougher noise than the one that is found then.
        assert law.shape == min(found.errors, key=lambda tried: tried[1])[0]
        assert law == OptimalVote(found.design.noise, law.shape)
        assert found.expected_error == wrong_label_rate(law, 50, [margin])[0]
        assert find_plan(optimal(reach=law.reach, shape=law.shape), epsilon=2.0).labels >= 20


def test_a_given_shape_is_not_searched():
    found = with_least_error(optimal(shape=0.4), 20)
    assert (found.design.law.shape, found.expected_error, found.errors) == (0.4, None, ())
    assert found.design.law.shape == found.design.choice.given["shape"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prior": [1.0]}, "prior must be 51 probabilities"),
        ({"prior": np.ones(51)}, "that sum to 1"),
        ({"values": ()}, "values=()"),
        ({"values": (0.7,)}, "shape=0.7"),
    ],
)
def test_bad_settings_are_refused(given, message):
    with pytest.raises(InvalidParameterError, match=message.replace("()", r"\(\)")):
        with_least_error(optimal(), 20, **given)


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(InvalidParameterError, match="n_teachers=0"):
        optimal(n_teachers=0)
    with pytest.raises(InvalidParameterError, match="labels=0"):
        with_least_error(optimal(), 0)
