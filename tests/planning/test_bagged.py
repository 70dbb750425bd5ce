"""Plans of bagged teachers: any two of epsilon, labels and noise give the third, and a run agrees."""

import json
from dataclasses import asdict

import pytest

from dpensemble.allocation import BootstrapScheme
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.planning import BaggedEnsemble, Ensemble, plan, plan_bagged

SETTINGS = {"records": 2000, "subsample": 20, "n_teachers": 40, "delta": 1e-5, "method": "gnmax"}


@pytest.mark.parametrize("scheme", ["distinct", "with-replacement", "subsets"])
def test_two_of_three_give_the_third(scheme):
    found = plan_bagged(**SETTINGS, scheme=scheme, epsilon=2.0, labels=40)
    assert found.labels == 40
    assert 1.97 < found.epsilon_spent <= 2.0
    back = plan_bagged(**SETTINGS, scheme=scheme, epsilon=2.0, sigma=found.sigma)
    assert 40 <= back.labels <= 42
    there = plan_bagged(**SETTINGS, scheme=scheme, labels=40, sigma=found.sigma)
    assert there.epsilon == pytest.approx(2.0, rel=0.02)
    assert there.epsilon_spent <= there.epsilon
    assert json.loads(json.dumps(found.to_dict())) == asdict(found)


def test_all_records_drawn_once_are_a_partition():
    whole = plan_bagged(**SETTINGS | {"subsample": 50}, epsilon=2.0, sigma=9.0)
    assert whole.held == 1.0
    assert (
        whole.labels
        == whole.partition_labels
        == plan(epsilon=2.0, delta=1e-5, method="gnmax", sigma=9.0, n_teachers=40).labels
    )


def test_fewer_distinct_draws_buy_more_labels_and_overlapping_ones_fewer():
    distinct = [
        plan_bagged(**SETTINGS | {"subsample": k}, epsilon=1.0, sigma=9.0).labels for k in (50, 25, 10, 2)
    ]
    assert distinct == sorted(distinct)
    assert distinct[1] > 1.5 * distinct[0]
    overlapping = plan_bagged(**SETTINGS | {"subsample": 50}, scheme="with-replacement", epsilon=2.0, sigma=9.0)
    assert overlapping.labels < overlapping.partition_labels


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({}, InvalidParameterError, "nothing to plan for"),
        ({"epsilon": 1.0, "labels": 5, "sigma": 3.0}, InvalidParameterError, "cannot all be given"),
        ({"epsilon": 1.0, "method": "confident-gnmax"}, InvalidParameterError, "no vote of bagged teachers"),
        (
            {"epsilon": 1.0, "method": "dpbag", "n_partitions": 3},
            InvalidParameterError,
            "no vote of bagged teachers",
        ),
        ({"epsilon": 1.0, "accounting": "published"}, InvalidParameterError, "no price for bagged"),
        ({"epsilon": 1.0, "subsample": 51}, InvalidParameterError, "distinct draws"),
        (
            {"epsilon": 1.0, "subsample": 50, "relation": "add-or-remove-one"},
            InvalidParameterError,
            "distinct draws",
        ),
        ({"epsilon": 1.0, "scheme": "no"}, InvalidParameterError, "scheme='no'"),
        ({"epsilon": 1.0, "delta": 0.1}, BudgetError, "not below 1/N"),
        ({"epsilon": 1e-3, "sigma": 1.0}, BudgetError, "smallest epsilon that would do"),
        (
            {"epsilon": 1e-6, "labels": 10_000, "subsample": 40, "scheme": "with-replacement"},
            BudgetError,
            "do not fit",
        ),
    ],
)
def test_bad_plans_are_one_sentence(settings, error, text):
    with pytest.raises(error, match=text):
        plan_bagged(**SETTINGS | settings)


def test_the_meter_of_a_plan_is_that_of_a_run():
    bagged = BaggedEnsemble(
        ensemble=Ensemble(method="gnmax", n_teachers=40, sigma=9.0),
        scheme=BootstrapScheme("distinct", 40, 20),
        n_units=2000,
    )
    assert bagged.with_noise(5.0).ensemble.sigma == 5.0
    assert bagged.scheme.holders(2000)[1] == pytest.approx(0.4)
