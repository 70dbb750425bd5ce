"""Votes that cannot be used are refused before anything is charged."""

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpensemble import Aggregator, Budget
from dpensemble.accounting import GaussianSum
from dpensemble.errors import DataError
from dpensemble.laws import ExponentialVote, GaussianNoisyMax, SparseNoisyMax
from dpensemble.releases import NoisyMean
from dpensemble.releases.answers import _ProbabilitiesSum

BUDGET = Budget(epsilon=4, delta=1e-6)
EVEN = np.log(np.full((10, 3), 1 / 3))
MADE = {
    "named": lambda: Aggregator(
        GaussianNoisyMax(4.0), ["a", "b", 3], 10, relation="replace-one", budget=BUDGET, answers=2
    ),
    "numbered": lambda: Aggregator(GaussianNoisyMax(4.0), 3, 10, relation="replace-one", budget=BUDGET, answers=2),
    "sparse": lambda: Aggregator(
        SparseNoisyMax(4.0, 30.0), 50_000, 10, relation="replace-one", budget=BUDGET, answers=2
    ),
    "clipped": lambda: Aggregator(
        ExponentialVote(9.0), 3, 10, relation="replace-one", budget=BUDGET, answers=2, clip=5.0
    ),
    "mean": lambda: Aggregator(GaussianSum(5.0), 3, 10, relation="replace-one", budget=BUDGET, answers=2),
}


def edited(entry):
    changed = EVEN.copy()
    changed[4, 1] = entry
    return changed


@pytest.mark.parametrize(
    ("which", "given", "match"),
    [
        ("named", {"counts": [11, 0, 0]}, "from 0 to n_voters=10"),
        ("named", {"counts": [5, 5, 1]}, "add up to n_voters=10"),
        ("named", {"counts": [5, 4, 0]}, "declare a class for abstaining"),
        ("named", {"counts": [11, -1, 0]}, "whole numbers"),
        ("named", {"counts": [9.5, 0.5, 0]}, "whole numbers"),
        ("named", {"counts": [np.nan, 5, 5]}, "whole numbers"),
        ("named", {"counts": [np.inf, 0, 0]}, "whole numbers"),
        ("named", {"counts": [2.0**70, 0, 0]}, "whole numbers"),
        ("named", {"counts": ["5", "5", "0"]}, "whole numbers"),
        ("named", {"counts": [True, False, False]}, "whole numbers"),
        ("named", {"counts": [5, 5]}, "3 values, one a class"),
        ("named", {"counts": [[5, 5, 0], [5, 5]]}, "3 values"),
        ("named", {"counts": []}, "3 values"),
        ("named", {"counts": {"a": 5, "c": 5}}, "must hold declared classes only"),
        ("named", {"counts": {}}, "add up"),
        ("named", {"ballots": ["a"] * 9}, "10 values, one a voter"),
        ("named", {"ballots": ["a"] * 9 + ["c"]}, "must hold declared classes only"),
        ("named", {"ballots": ["a"] * 9 + [["b"]]}, "must hold declared classes only|10 values"),
        ("named", {"ballots": ["a"] * 9 + [None]}, "must hold declared classes only"),
        ("numbered", {"ballots": [0] * 9 + [3]}, "from 0 to 2"),
        ("numbered", {"ballots": [0] * 9 + [-1]}, "from 0 to 2"),
        ("numbered", {"ballots": [0.0] * 10}, "from 0 to 2"),
        ("numbered", {"ballots": [[[0] * 10]]}, "10 values"),
        ("numbered", {"ballots": None}, "takes ballots or counts"),
        ("numbered", {"ballots": [0] * 10, "counts": [10, 0, 0]}, "give exactly one, by name"),
        ("numbered", {"log_probs": EVEN}, "takes ballots or counts"),
        ("sparse", {"counts": {50_000: 10}}, "from 0 to 49999"),
        ("sparse", {"counts": {1: 11}}, "from 0 to n_voters"),
        ("sparse", {"counts": {1: 10, 2: -1}}, "from 0 to n_voters"),
        ("sparse", {"counts": {"1": 10}}, "from 0 to 49999"),
        ("clipped", {"counts": [10, 0, 0]}, "takes log_probs"),
        ("clipped", {"log_probs": edited(np.nan)}, "no NaN"),
        ("clipped", {"log_probs": edited(np.inf)}, "none above 0"),
        ("clipped", {"log_probs": edited(0.5)}, "none above 0"),
        ("clipped", {"log_probs": np.full((10, 3), -np.inf)}, "one finite a voter"),
        ("clipped", {"log_probs": EVEN[:9]}, "shape"),
        ("clipped", {"log_probs": "none"}, "array of numbers"),
        ("mean", {"log_probs": edited(np.nan)}, "no NaN"),
        ("mean", {"log_probs": EVEN[:, :2]}, "shape"),
        ("numbered", {"counts": [10, 0, 0], "key": ""}, "key=''"),
        ("numbered", {"counts": [10, 0, 0], "key": "x" * 201}, "key='xxx"),
        ("numbered", {"counts": [10, 0, 0], "key": 7}, "key=7"),
        ("numbered", {"counts": [10, 0, 0], "key": "a\nb"}, "printable"),
    ],
    ids=lambda one: one if isinstance(one, str) else next(iter(one)),
)
def test_bad_votes_are_refused_and_cost_nothing(which, given, match):
    votes = MADE[which]()
    most = votes.remaining()
    with pytest.raises(DataError, match=match):
        votes.answer(**given)
    assert votes.remaining() == most


def test_ballots_counts_and_mappings_are_the_same_votes():
    votes = MADE["named"]()
    ways = [
        {"ballots": [3, "b"] * 5},
        {"ballots": np.array([3, "b"] * 5, dtype=object)},
        {"counts": [0, 5, 5]},
        {"counts": np.array([0.0, 5.0, 5.0])},
        {"counts": {3: 5, "b": 5}},
        {"counts": {3: 5, "a": 0, "b": 5}},
    ]
    answers = [votes.answer(**way, key="same") for way in ways]
    assert len({answer.labels for answer in answers}) == 1
    assert all(answer.replayed for answer in answers[1:])


def test_no_voter_can_move_a_sum_of_probabilities_further_than_is_charged():
    rng = np.random.default_rng(0)
    rows = np.log(rng.dirichlet(np.full(6, 0.3), 200))
    hostile = np.array([[0.0] * 6, [1e-7] * 6, [-np.inf] * 5 + [0.0], [-700.0] * 6])
    found = NoisyMean(GaussianSum(5.0)).whole(np.concatenate([rows, hostile])[None])[0].astype(object)
    lengths = [sum(entry**2 for entry in row) for row in found]
    assert max(lengths) <= _ProbabilitiesSum.unit**2
    assert found.min() >= 0
    apart = [sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x in found[-4:] for y in found]
    assert max(apart) <= _ProbabilitiesSum.replacing**2


# What NumPy reads as a number that it is not, and what it raises errors of its own for.
ODD = {
    "huge": 10**400,
    "unwritable": 10**5000,
    "negative": -(10**400),
    "fraction": Fraction(10**5000, 3),
    "signaling": Decimal("sNaN"),
    "decimal": Decimal("NaN"),
    "complex": 0j,
    "masked": np.ma.masked,
}


def objects(values, entry):
    found = np.asarray(values).astype(object)
    found.reshape(-1)[1] = entry
    return found


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("which", MADE)
def test_odd_numbers_among_votes_are_refused(which, odd):
    votes = MADE[which]()
    most, n_classes = votes.remaining(), len(votes.classes)
    if which in ("clipped", "mean"):
        given = [{"log_probs": objects(EVEN, ODD[odd])}, {"log_probs": objects(EVEN, ODD[odd]).tolist()}]
        # Old releases of pandas make no table of a number that no float can hold.
        with suppress(OverflowError):
            given.append({"log_probs": pd.DataFrame(objects(EVEN, ODD[odd]))} if odd != "masked" else given[0])
    else:
        ballots = objects([votes.classes[0]] * 10, ODD[odd])
        given = [{"ballots": ballots}, {"ballots": list(ballots)}, {"counts": {votes.classes[0]: 10, 1: ODD[odd]}}]
        if n_classes < 10:
            given += [{"counts": objects([10, 0, 0], ODD[odd])}, {"counts": [10, ODD[odd], 0]}]
    for one in given:
        with pytest.raises(DataError) as caught:
            votes.answer(**one)
        assert "000000" not in str(caught.value)
    assert votes.remaining() == most


@pytest.mark.parametrize(
    ("which", "given", "match"),
    [
        ("numbered", {"ballots": np.ma.masked_array([0] * 10, mask=[1] + [0] * 9)}, "ballots is a numpy masked array"),
        ("named", {"ballots": np.ma.masked_array(["a"] * 10, mask=[1] + [0] * 9)}, "ballots is a numpy masked array"),
        ("numbered", {"counts": np.ma.masked_array([10, 0, 0], mask=[0, 0, 1])}, "counts is a numpy masked array"),
        ("clipped", {"log_probs": np.ma.masked_array(EVEN, mask=EVEN > 0)}, "log_probs is a numpy masked array"),
        ("mean", {"log_probs": EVEN + 0j}, "Complex data not supported: log_probs"),
        ("numbered", {"ballots": np.zeros(10) + 0j}, "Complex data not supported: ballots"),
        ("named", {"ballots": np.full(10, 3 + 0j)}, "Complex data not supported: ballots"),
        ("numbered", {"counts": np.array([10, 0, 0]) + 0j}, "Complex data not supported: counts"),
        ("numbered", {"counts": {0: np.array([5, 5]), 1: 5}}, "counts must be"),
    ],
)
def test_masked_and_complex_votes_are_refused(which, given, match):
    votes = MADE[which]()
    most = votes.remaining()
    with pytest.raises(DataError, match=match):
        votes.answer(**given)
    assert votes.remaining() == most
