"""Laws by their short names: published defaults, what is given, and settings that do not belong."""

import math

import pytest

from dpensemble.errors import InvalidParameterError
from dpensemble.laws import (
    LAWS,
    ConfidentNoisyMax,
    ExponentialVote,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    LawChoice,
    OptimalVote,
    RandomizedResponse,
    ReleaseLaw,
    TableLaw,
)

# Papernot et al. 2017 and 2018 at 250 teachers. The optimal vote is as decisive near a tie.
DEFAULTS = {
    "lnmax": LaplaceNoisyMax(20),
    "gnmax": GaussianNoisyMax(40),
    "confident-gnmax": ConfidentNoisyMax(200, 150, 40),
    "interactive-gnmax": InteractiveNoisyMax(200, 150, 40, batch_size=100, student_confidence=0.9),
    "optimal": OptimalVote(185, 0.25),
    "exponential": ExponentialVote(20),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_the_published_ones(name):
    choice, law = LawChoice.of(name), DEFAULTS[name]
    assert choice.law(250, 2) == law == LAWS[name].default(250, 2)
    assert choice.noise_is_open
    assert choice.kind is type(law)
    assert LawChoice.of(choice) == choice
    assert law.noise == getattr(law, law.in_votes[0]) == choice.law(250, 2).with_noise(law.noise).noise


def test_every_law_with_a_name_is_in_the_list_and_needs_nothing_else_or_says_what():
    assert set(LAWS) == {*DEFAULTS, "randomized-response"}
    assert all(law.name == name and law.title for name, law in LAWS.items())
    with pytest.raises(InvalidParameterError, match="law='randomized-response' has no usual settings: give epsilon"):
        LawChoice.of("randomized-response").law(250, 2)
    choice = LawChoice.of("randomized-response", epsilon=0.5)
    assert choice.law(250, 2) == RandomizedResponse(0.5)
    assert not choice.noise_is_open


def test_the_optimal_vote_has_another_shape_for_more_classes():
    assert LawChoice.of("optimal").law(100, 3) == OptimalVote(74, 0.3)
    assert LawChoice.of("optimal", shape=0.5).law(100, 2) == OptimalVote(74, 0.5)
    assert LawChoice.of("optimal").law(100, 3, noise=7) == OptimalVote(7, 0.3)


def test_what_is_given_stays_and_the_rest_is_usual():
    choice = LawChoice.of("gnmax", sigma=None)
    assert choice.noise_is_open
    assert choice.law(250, 2, noise=7) == GaussianNoisyMax(7)
    given = LawChoice.of("gnmax", sigma=9)
    assert not given.noise_is_open
    assert given.law(250, 2, noise=7) == given.law(25, 10) == GaussianNoisyMax(9)
    assert LawChoice.of("confident-gnmax", threshold=150).law(250, 2) == ConfidentNoisyMax(150, 150, 40)
    assert LawChoice.of(LawChoice.of("confident-gnmax", threshold=150), sigma=20).law(250, 2) == ConfidentNoisyMax(
        150, 150, 20
    )


def test_noise_on_a_threshold_follows_unless_given():
    assert LawChoice.of("confident-gnmax").law(250, 2, noise=80) == ConfidentNoisyMax(200, 300, 80)
    fixed = LawChoice.of("confident-gnmax", threshold_sigma=150)
    assert fixed.law(250, 2, noise=80) == ConfidentNoisyMax(200, 150, 80)


def test_an_object_is_never_changed():
    law = GaussianNoisyMax(3)
    choice = LawChoice.of(law)
    assert choice.law(250, 2, noise=7) is law
    assert not choice.noise_is_open
    assert LawChoice.of(law, sigma=5).law(250, 2) == GaussianNoisyMax(5)


@pytest.mark.parametrize("name", ["confident-gnmax", "interactive-gnmax"])
def test_a_threshold_above_the_number_of_teachers_warns(name):
    with pytest.warns(UserWarning, match="threshold=300 is above the number of teachers, 250"):
        assert LawChoice.of(name, threshold=300).law(250, 2).threshold == 300


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("lnmax", {"threshold": 3}, "threshold=3 is not a setting of law='lnmax'"),
        ("gnmax", {"threshold_sigma": 3}, "threshold_sigma=3 is not a setting of law='gnmax'"),
        ("gnmax", {"scale": 3}, "scale=3 is not a setting of law='gnmax'"),
        ("lnmax", {"sigma": 3}, "sigma=3 is not a setting of law='lnmax'"),
        ("optimal", {"sigma": 3}, "sigma=3 is not a setting of law='optimal'"),
        ("gnmax", {"shape": 0.3}, "shape=0.3 is not a setting of law='gnmax'"),
        ("confident-gnmax", {"batch_size": 3}, "batch_size=3 is not a setting of law='confident-gnmax'"),
        ("pate", {}, "law='pate' is unknown: use one of lnmax, gnmax, "),
        (ReleaseLaw, {}, "is unknown: use one of"),
        (GaussianNoisyMax, {"scale": 3}, "scale=3 is not a setting of law='gnmax'"),
        (None, {}, "law=None is unknown"),
        ("lnmax", {"scale": 0}, "scale=0"),
        ("gnmax", {"sigma": math.nan}, "sigma=nan"),
        ("confident-gnmax", {"sigma": -1}, "sigma=-1"),
        ("confident-gnmax", {"threshold_sigma": 0}, "threshold_sigma=0"),
        ("interactive-gnmax", {"batch_size": 0}, "batch_size=0"),
        ("interactive-gnmax", {"student_confidence": 1.5}, "student_confidence=1.5"),
        ("optimal", {"reach": 0}, "reach=0"),
        ("optimal", {"shape": 0.6}, "shape=0.6"),
    ],
)
def test_settings_that_do_not_belong_are_refused(name, given, message):
    with pytest.raises(InvalidParameterError, match=message):
        LawChoice.of(name, **given).law(250, 2)


def test_tables_are_for_a_number_of_ballots():
    with pytest.raises(InvalidParameterError, match="for two classes and 1 ballots, but there are 2 and 250"):
        LawChoice.of(TableLaw(((0.9, 0.1), (0.1, 0.9)))).law(250, 2)


def test_a_class_leaves_its_noise_open():
    choice = LawChoice.of(GaussianNoisyMax)
    assert choice.noise_is_open
    assert choice.law(250, 2) == LawChoice.of("gnmax").law(250, 2)
    assert LawChoice.of(GaussianNoisyMax, sigma=3.0).law(250, 2) == GaussianNoisyMax(3.0)
