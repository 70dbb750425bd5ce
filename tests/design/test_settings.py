"""Designs by method: published defaults, and settings that do not belong."""

import pytest

from dpensemble import DPBaggingClassifier, PATEClassifier, SubsampleAggregateClassifier, WeightingPATEClassifier
from dpensemble.accounting import Accounting
from dpensemble.design import Partitioned
from dpensemble.errors import InvalidParameterError
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
