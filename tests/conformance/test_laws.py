"""The requirements of every release law. Add a new law to LAWS."""

import inspect

import numpy as np
import pytest

import dpensemble.laws
from dpensemble._random import SeededNoise
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import (
    ConfidentNoisyMax,
    ExponentialVote,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    OptimalVote,
    RandomizedResponse,
    RandomizedResponseMajority,
    ReleaseLaw,
    TableLaw,
    integer_weights,
    sample,
)
from dpensemble.laws.noisy_max import AgainstStudent

LAWS = [
    LaplaceNoisyMax(0.5),
    LaplaceNoisyMax(20.0),
    LaplaceNoisyMax(12_500.0),
    GaussianNoisyMax(0.5),
    GaussianNoisyMax(40.0),
    GaussianNoisyMax(12_500.0),
    ConfidentNoisyMax(200.0, 150.0, 40.0),
    ConfidentNoisyMax(6.0, 1.0, 0.5),
    InteractiveNoisyMax(20.0, 10.0, 5.0),
    OptimalVote(0.5),
    OptimalVote(300.0, 0.4),
    OptimalVote(40_000.0, 0.5),
    RandomizedResponse(0.1),
    RandomizedResponse(5.0),
    ExponentialVote(0.5),
    ExponentialVote(300.0),
]
# Laws for some counts only: tables are for two classes and a number of ballots, a student's predictions for given
# queries.
SPECIAL = {TableLaw, RandomizedResponseMajority, AgainstStudent}
COUNTS = [
    np.array([[5, 5], [9, 0], [0, 9], [25_000, 0]]),
    np.array([[3, 3, 3], [0, 0, 12], [10_000, 9_999, 2]]),
    np.random.default_rng(0).integers(0, 250, (50, 10)),
]
every = pytest.mark.parametrize("law", LAWS, ids=repr)


def test_every_law_is_in_the_list():
    laws = {c for _, c in inspect.getmembers(dpensemble.laws, inspect.isclass) if issubclass(c, ReleaseLaw)}
    assert (laws - {ReleaseLaw}) | {AgainstStudent} == {type(law) for law in LAWS} | SPECIAL


@every
@pytest.mark.parametrize("counts", COUNTS, ids=lambda c: f"{c.shape[1]} classes")
def test_a_law_is_a_law(law, counts):
    p = law.probabilities(counts)
    assert len(p) == len(counts)
    assert np.all((p >= 0) & (p <= 1))
    assert np.allclose(p.sum(axis=1), 1, atol=1e-13)
    # One query at a time gives the same as all at once.
    assert np.allclose(p, np.concatenate([law.probabilities(row[None]) for row in counts]), atol=1e-14)
    assert 0 < law.mixing_weight(counts.shape[1]) <= 0.01
    assert [sum(map(int, row)) for row in integer_weights(law, counts)] == [2**63] * len(counts)


@every
@pytest.mark.parametrize("factor", [0.37, 3.0, 1000.0])
def test_counts_in_other_units_are_answered_alike(law, factor):
    if not law.in_votes:
        assert isinstance(law, RandomizedResponse)
        with pytest.raises(InvalidParameterError, match="no settings in votes, which scaled needs"):
            law.scaled(factor)
        return
    scaled = law.scaled(factor)
    assert type(scaled) is type(law)
    assert scaled != law
    for counts in COUNTS:
        assert np.allclose(scaled.probabilities(factor * counts), law.probabilities(counts), atol=1e-13, rtol=0)
    assert law.scaled(1.0) == law
    for bad in (0.0, -1.0, np.nan, np.inf, "2"):
        with pytest.raises(InvalidParameterError, match="factor="):
            law.scaled(bad)


def test_special_laws_have_no_units():
    for law in (TableLaw(((0.9, 0.1), (0.1, 0.9))), InteractiveNoisyMax(2.0, 1.0, 1.0).against([[0.5, 0.5]])):
        with pytest.raises(InvalidParameterError, match="no settings in votes"):
            law.scaled(2.0)


@every
def test_outcomes_are_repeatable_and_in_range(law):
    first, second = (sample(law, COUNTS[2], SeededNoise(3)) for _ in range(2))
    assert np.array_equal(first, second)
    assert first.min() >= 0
    assert first.max() < law.probabilities(COUNTS[2]).shape[1]


@every
def test_settings_are_frozen_plain_and_compared_by_value(law):
    import copy
    import json
    import pickle

    json.dumps(law.settings())
    assert copy.deepcopy(law) == law == pickle.loads(pickle.dumps(law))  # noqa: S301
    assert hash(copy.deepcopy(law)) == hash(law)
    with pytest.raises((AttributeError, TypeError)):
        law.epsilon = law.scale = law.sigma = 1e9
