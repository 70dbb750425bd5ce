"""Plans of bagged teachers: any two of epsilon, labels and noise give the third, and a run agrees."""

import json
import pickle

import pytest

from dpensemble import BaggedPATEClassifier, plan
from dpensemble.accounting import Accounting
from dpensemble.allocation import BootstrapScheme
from dpensemble.budget import Budget
from dpensemble.design import Drawn, Partitioned
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.laws import GaussianNoisyMax, LawChoice

SETTINGS = {"subsample": 20, "n_teachers": 40}


def bagged(n_records=2000, **settings):
    return BaggedPATEClassifier(**SETTINGS | settings).design(n_records=n_records)


@pytest.mark.parametrize("scheme", ["distinct", "with-replacement", "subsets"])
def test_two_of_three_give_the_third(scheme):
    found = plan(bagged(scheme=scheme), epsilon=2.0, labels=40)
    assert found.labels == 40
    assert 1.97 < found.epsilon_spent <= 2.0
    fixed = bagged(scheme=scheme, law=found.design.law)
    assert 40 <= plan(fixed, epsilon=2.0).labels <= 42
    there = plan(fixed, labels=40)
    assert there.epsilon == pytest.approx(2.0, rel=0.02)
    assert there.epsilon_spent <= there.epsilon
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    again = pickle.loads(pickle.dumps(found.design))  # noqa: S301
    assert again.spent(40) == pytest.approx(found.design.spent(40), rel=1e-3)


def test_all_records_drawn_once_are_a_partition():
    law = GaussianNoisyMax(9)
    whole = plan(bagged(subsample=50, law=law), epsilon=2.0)
    partition = Partitioned(name="pate", choice=LawChoice.of(law), n_teachers=40)
    assert whole.extras["held"] == 1.0
    assert whole.labels == whole.extras["partition_labels"] == plan(partition, epsilon=2.0).labels


def test_fewer_distinct_draws_buy_more_labels_and_overlapping_ones_fewer():
    law = GaussianNoisyMax(9)
    distinct = [plan(bagged(subsample=k, law=law), epsilon=1.0).labels for k in (50, 25, 10, 2)]
    assert distinct == sorted(distinct)
    assert distinct[1] > 1.5 * distinct[0]
    overlapping = plan(bagged(subsample=50, law=law, scheme="with-replacement"), epsilon=2.0)
    assert overlapping.labels < overlapping.extras["partition_labels"]


@pytest.mark.parametrize(
    ("settings", "wanted", "error", "text"),
    [
        ({}, {}, InvalidParameterError, "nothing to plan for"),
        (
            {"law": GaussianNoisyMax(3)},
            {"epsilon": 1.0, "labels": 5},
            InvalidParameterError,
            "cannot all be given",
        ),
        (
            {"law": "confident-gnmax"},
            {"epsilon": 1.0},
            InvalidParameterError,
            "may leave queries of bagged teachers unanswered",
        ),
        ({"subsample": 51}, {"epsilon": 1.0}, InvalidParameterError, "distinct draws"),
        (
            {"subsample": 50, "relation": "add-or-remove-one"},
            {"epsilon": 1.0},
            InvalidParameterError,
            "distinct draws",
        ),
        ({"scheme": "no"}, {"epsilon": 1.0}, InvalidParameterError, "scheme='no'"),
        ({"n_records": None}, {"epsilon": 1.0}, InvalidParameterError, "n_records=None"),
        ({}, {"epsilon": 1.0, "delta": 0.1}, BudgetError, "not below 1/N"),
        ({"law": GaussianNoisyMax(1)}, {"epsilon": 1e-3}, BudgetError, "smallest epsilon that would do"),
        (
            {"subsample": 40, "scheme": "with-replacement"},
            {"epsilon": 1e-6, "labels": 10_000},
            BudgetError,
            "do not fit",
        ),
    ],
)
def test_bad_plans_are_one_sentence(settings, wanted, error, text):
    with pytest.raises(error, match=text):
        plan(bagged(**settings), **wanted)


def test_the_meter_of_a_plan_is_that_of_a_run():
    drawn = Drawn(
        name="bagged-pate",
        choice=LawChoice.of(GaussianNoisyMax(9)),
        scheme=BootstrapScheme("distinct", 40, 20),
        n_units=2000,
        budget=Budget(epsilon=1, delta=1e-5),
    )
    assert drawn.with_noise(5.0).law.sigma == 5.0
    assert drawn.scheme.holders(2000)[1] == pytest.approx(0.4)
    with pytest.raises(InvalidParameterError, match="no price for bagged"):
        drawn.with_accounting(Accounting.PUBLISHED)


def test_fewer_questions_than_the_budget_pays_for_are_composed_exactly_too():
    drawn = bagged(law=GaussianNoisyMax(20))
    few = drawn.meter(40)
    assert few.sure_queries == 40
    # A Renyi curve would give a seventh more.
    assert (bagged(law=GaussianNoisyMax(20)).cost * 40).epsilon(1e-5) > 1.1 * (drawn.cost * 40).epsilon(1e-5)
