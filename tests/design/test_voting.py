"""Designs by method: published defaults, and settings that do not belong.

Plans of bagged teachers: any two of epsilon, labels and noise give the third, and a run agrees.
"""

import json
import pickle

import pytest

from dpensemble import (
    BaggedPATEClassifier,
    DPBaggingClassifier,
    PATEClassifier,
    SubsampleAggregateClassifier,
    WeightingPATEClassifier,
    plan,
)
from dpensemble.accounting import Accounting
from dpensemble.allocation import BootstrapScheme
from dpensemble.design import Drawn, Partitioned
from dpensemble.errors import BudgetError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.laws import (
    ConfidentNoisyMax,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    LawChoice,
    OptimalVote,
)

DEFAULTS = [
    (SubsampleAggregateClassifier(), LaplaceNoisyMax(125)),
    (DPBaggingClassifier(n_partitions=1), LaplaceNoisyMax(125)),
    (PATEClassifier(law="lnmax"), LaplaceNoisyMax(20)),
    (PATEClassifier(), GaussianNoisyMax(40)),
    (PATEClassifier(law="confident-gnmax"), ConfidentNoisyMax(200, 150, 40)),
    (PATEClassifier(law="interactive-gnmax"), InteractiveNoisyMax(200, 150, 40)),
    (PATEClassifier(law="optimal"), OptimalVote(185, 0.25)),
    (SubsampleAggregateClassifier(law="optimal"), OptimalVote(185, 0.25)),
    (DPBaggingClassifier(n_teachers=100), LaplaceNoisyMax(500)),
    (DPBaggingClassifier(n_teachers=100, law="optimal"), OptimalVote(740, 0.25)),
    (WeightingPATEClassifier(), GaussianNoisyMax(40)),
]


@pytest.mark.parametrize(("model", "law"), DEFAULTS)
def test_defaults_are_the_published_ones(model, law):
    design = model.design()
    assert design.law == law
    assert design.settings()["noise_chosen"] == "usual"
    assert {"law", *law.in_votes} <= set(design.settings())


def partitioned(law, n_teachers=100, n_classes=2, accounting="exact", **settings):
    return Partitioned(
        name="pate",
        choice=LawChoice.of(law),
        n_teachers=n_teachers,
        n_classes=n_classes,
        accounting=Accounting(accounting),
        **settings,
    )


def test_the_optimal_vote_scales_with_its_classes():
    assert partitioned("optimal", n_classes=3).with_noise(7).law == OptimalVote(7, 0.3)
    assert partitioned(LawChoice.of("optimal", shape=0.5)).law == OptimalVote(74, 0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: partitioned("gnmax", n_teachers=0), "n_teachers=0"),
        (lambda: partitioned("gnmax", n_partitions=0), "n_partitions=0"),
        (lambda: partitioned("gnmax", touched=101), "touched=101"),
        (lambda: partitioned("pate"), "law='pate' is unknown: use one of lnmax, gnmax"),
        (lambda: partitioned("gnmax").with_noise(float("nan")).law, "sigma=nan"),
        (lambda: partitioned("confident-gnmax").with_noise(-1).law, "sigma=-"),
        (lambda: partitioned("optimal").with_noise(0).law, "reach=0"),
        (
            lambda: partitioned("optimal", accounting="published").law,
            "'optimal', which no paper covers: use 'exact'",
        ),
        (lambda: SubsampleAggregateClassifier(accounting="best").design(), "accounting='best' is unknown"),
        (lambda: PATEClassifier().design(n_classes=1), "n_classes=1"),
    ],
)
def test_settings_that_do_not_belong_are_refused(make, message):
    with pytest.raises(InvalidParameterError, match=message):
        make()


@pytest.mark.parametrize("law", ["confident-gnmax", "interactive-gnmax"])
def test_a_threshold_above_the_number_of_teachers_warns(law):
    with pytest.warns(UserWarning, match="threshold=300 is above the number of teachers, 250"):
        assert partitioned(LawChoice.of(law, threshold=300), n_teachers=250).law.threshold == 300


def test_noise_on_a_threshold_follows_unless_given():
    gated = partitioned("confident-gnmax", n_teachers=250)
    assert gated.with_noise(80).law == ConfidentNoisyMax(200, 300, 80)
    fixed = partitioned(LawChoice.of("confident-gnmax", threshold_sigma=150), n_teachers=250)
    assert fixed.with_noise(80).law == ConfidentNoisyMax(200, 150, 80)


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
