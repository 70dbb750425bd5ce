"""Methods by name: published defaults, and settings that do not belong."""

import pytest

from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ConfidentNoisyMax, GaussianNoisyMax, InteractiveNoisyMax, LaplaceNoisyMax, OptimalVote
from dpensemble.planning import Ensemble, VotingMethod, default_scale, law_of

DEFAULTS = {
    "saa": LaplaceNoisyMax(125),
    "dpbag": LaplaceNoisyMax(125),
    "lnmax": LaplaceNoisyMax(20),
    "gnmax": GaussianNoisyMax(40),
    "confident-gnmax": ConfidentNoisyMax(200, 150, 40),
    "interactive-gnmax": InteractiveNoisyMax(200, 150, 40),
    "optimal": OptimalVote(185, 0.25),
}


@pytest.mark.parametrize("method", list(VotingMethod))
def test_defaults_are_the_published_ones(method):
    assert law_of(method, 250) == DEFAULTS[method.value]
    assert law_of(method.value, 250) == DEFAULTS[method.value]


def test_the_optimal_vote_scales_with_its_partitions_and_classes():
    assert law_of("optimal", 100, 10) == OptimalVote(740, 0.25)
    assert law_of("optimal", 100, n_classes=3, noise=7) == OptimalVote(7, 0.3)
    assert law_of("optimal", 100, shape=0.5) == OptimalVote(74, 0.5)


def test_dpbag_scales_with_its_partitions():
    assert law_of("dpbag", 100, 10) == LaplaceNoisyMax(500)
    assert default_scale(100, 10) == 500


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "saa", "threshold": 3}, "threshold=3 is no setting of method 'saa'"),
        ({"method": "gnmax", "threshold_sigma": 3}, "threshold_sigma=3 is no setting of method 'gnmax'"),
        ({"method": "saa", "n_partitions": 2}, "n_partitions=2 is a setting of method 'dpbag'"),
        ({"method": "confident-gnmax", "n_partitions": 2}, "has one partition"),
        ({"method": "pate"}, "method='pate' is unknown; use 'saa' or"),
        ({"method": "saa", "n_teachers": 0}, "n_teachers=0"),
        ({"method": "saa", "noise": 0}, "scale=0"),
        ({"method": "gnmax", "noise": float("nan")}, "sigma=nan"),
        ({"method": "confident-gnmax", "noise": -1}, "sigma=-1"),
        ({"method": "confident-gnmax", "threshold_sigma": 0}, "threshold_sigma=0"),
        ({"method": "optimal", "noise": 0}, "reach=0"),
        ({"method": "optimal", "shape": 0.6}, "shape=0.6"),
        ({"method": "optimal", "threshold": 3}, "threshold=3 is no setting of method 'optimal'"),
        ({"method": "gnmax", "shape": 0.3}, "shape=0.3 is a setting of method 'optimal'"),
    ],
)
def test_settings_that_do_not_belong_are_refused(settings, message):
    with pytest.raises(InvalidParameterError, match=message):
        law_of(**({"n_teachers": 250} | settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "gnmax", "scale": 3}, "scale=3 is no setting of method 'gnmax'; give sigma"),
        ({"method": "lnmax", "sigma": 3}, "sigma=3 is no setting of method 'lnmax'; give scale"),
        ({"n_classes": 1}, "n_classes=1"),
        ({"method": "optimal", "sigma": 3}, "sigma=3 is no setting of method 'optimal'; give reach"),
        ({"method": "gnmax", "reach": 3}, "reach=3 is no setting of method 'gnmax'; give sigma"),
        ({"method": "optimal", "accounting": "published"}, "'optimal', which no paper covers; use 'exact'"),
        ({"accounting": "best"}, "accounting='best' is unknown"),
    ],
)
def test_an_ensemble_checks_its_settings(settings, message):
    with pytest.raises(InvalidParameterError, match=message):
        Ensemble(**settings)


@pytest.mark.parametrize("method", ["confident-gnmax", "interactive-gnmax"])
def test_a_threshold_above_the_number_of_teachers_warns(method):
    with pytest.warns(UserWarning, match="threshold=300 is above the number of teachers, 250"):
        assert law_of(method, 250, threshold=300).threshold == 300


def test_noise_on_a_threshold_follows_unless_given():
    ensemble = Ensemble(method="confident-gnmax")
    assert ensemble.with_noise(80).law == ConfidentNoisyMax(200, 300, 80)
    fixed = Ensemble(method="confident-gnmax", threshold_sigma=150)
    assert fixed.with_noise(80).law == ConfidentNoisyMax(200, 150, 80)
