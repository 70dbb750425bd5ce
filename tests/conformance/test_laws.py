"""What every release law must satisfy; add a new law to LAWS."""

import inspect

import numpy as np
import pytest

import dpensemble.laws
from dpensemble._random import SeededNoise
from dpensemble.laws import LaplaceNoisyMax, ReleaseLaw, integer_weights, sample

LAWS = [LaplaceNoisyMax(0.5), LaplaceNoisyMax(20.0), LaplaceNoisyMax(12_500.0)]
COUNTS = [
    np.array([[5, 5], [9, 0], [0, 9], [25_000, 0]]),
    np.array([[3, 3, 3], [0, 0, 12], [10_000, 9_999, 2]]),
    np.random.default_rng(0).integers(0, 250, (50, 10)),
]
every = pytest.mark.parametrize("law", LAWS, ids=repr)


def test_every_law_is_in_the_list():
    laws = {c for _, c in inspect.getmembers(dpensemble.laws, inspect.isclass) if issubclass(c, ReleaseLaw)}
    assert laws - {ReleaseLaw} == {type(law) for law in LAWS}


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
        law.scale = 1e9
