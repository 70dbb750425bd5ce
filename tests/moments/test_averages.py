"""Averages of bounded answers: lengths as whole numbers, sums, and what is charged."""

import math
from itertools import product

import numpy as np
import pytest

from dpensemble._random import SeededNoise
from dpensemble.accounting import Group
from dpensemble.errors import InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.moments.averages import _UNIT, AnswerBound, _AnswersSum
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser, SumsMeter

BOUNDS = {
    "probabilities of two": AnswerBound.of_probabilities(3, 2, clip=1.0),
    "of two, shortened": AnswerBound.of_probabilities(3, 2, clip=0.3),
    "of three": AnswerBound.of_probabilities(1, 3, clip=1.0),
    "of three, shortened": AnswerBound.of_probabilities(1, 3, clip=0.4),
    "parameters": AnswerBound.of_parameters(3, clip=2.0),
}
#: Answers of three entries: allowed, too long, huge, tiny, and such that rounding is worst.
HOSTILE = np.array(
    [
        *product([-1.0, -0.5, 0.0, 1 / 3, 0.5, 1.0], repeat=3),
        [1e308, -1e308, 1e308],
        [5e-324, 1e-310, -5e-324],
        [1e-160, 1e-170, 1e-165],
        [1e200, 1e-200, 0.0],
        [7.0, -11.0, 13.0],
        [-7.0, 11.0, -13.0],
    ]
)


def norms(rows):
    """Exact squared lengths, by whole numbers of any size."""
    return [sum(int(entry) ** 2 for entry in row) for row in rows]


@pytest.mark.parametrize("weight", [1.0, 1 / 3, 0.017])
@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)
def test_no_answer_is_longer_and_no_two_further_apart_than_is_charged(bound, weight):
    whole = bound.whole(HOSTILE, np.full(len(HOSTILE), weight))
    assert math.sqrt(max(norms(whole))) <= bound.length * weight * _UNIT
    differences = (whole[:, None, :] - whole[None, :, :]).reshape(-1, 3)
    furthest = math.sqrt(max(norms(differences)))
    assert furthest <= bound.sensitivity * weight
    # Attained, so that less noise would be too little.
    assert furthest > bound.sensitivity * weight * (1 - 1e-6)
    if bound.nonnegative:
        assert whole.min() >= 0


def test_a_forgotten_clip_would_show():
    bound = BOUNDS["of two, shortened"]
    assert math.sqrt(max(norms(np.trunc(HOSTILE[:216] * _UNIT)))) > 2 * bound.length * _UNIT


def test_lengths_hold_for_long_answers():
    rng = np.random.default_rng(0)
    answers = rng.normal(size=(3, 200_001)) * [[1.0], [1e-9], [1e30]]
    bound = AnswerBound.of_parameters(200_001, clip=1.0)
    whole = bound.whole(answers, np.ones(3))
    squares = norms(whole)
    assert max(squares) <= _UNIT**2
    assert squares[0] > _UNIT**2 * (1 - 1e-6)
    assert np.array_equal(whole[1], np.trunc(answers[1] * _UNIT))


def test_short_answers_stay_as_they_are():
    bound = AnswerBound.of_probabilities(2, 2, clip=1.0)
    assert np.array_equal(bound.whole(np.array([[0.25, -0.125]]), np.ones(1)), [[_UNIT // 4, -_UNIT // 8]])


def meter(epsilon=1.0):
    return SumsMeter([Group("everyone", Budget(epsilon=epsilon, delta=1e-5))])


def releaser(meter, noise=None):
    return SumReleaser(relation=Relation.REPLACE_ONE, meter=meter, noise=noise)


def test_both_relations_change_one_answer():
    query = _AnswersSum(AnswerBound.of_parameters(2, clip=1.0))
    assert [query.sensitivity(relation) for relation in Relation] == [query.bound.sensitivity] * 2


def test_the_average_is_that_of_all_chunks_and_is_charged_first():
    bound, one = AnswerBound.of_parameters(2, clip=1.0), meter(1e6)
    chunks = [np.array([[0.5, 0.0], [0.0, 0.5]]), np.array([[-0.25, 0.25]])]
    found, spread = bound.noisy_average(chunks, np.ones(3), releaser(one, SeededNoise(0)))
    assert found == pytest.approx([0.25 / 3, 0.75 / 3], abs=6 * spread)
    assert spread == pytest.approx(2 * one.charges[0]["sigma"] / 3, rel=1e-6)
    assert one.charges[0]["entries"] == 2
    weights = np.array([1.0, 0.5, 0.5])
    found, spread = bound.noisy_average(chunks, weights, releaser(meter(1e6), SeededNoise(0)))
    assert found == pytest.approx([(0.5 - 0.125) / 2, (0.25 + 0.125) / 2], abs=6 * spread)


def test_nothing_is_drawn_once_the_budget_is_used_up():
    spent = meter()
    spent.charge(spent.sigma(1.0), variance=2**60, entries=1)
    bound = AnswerBound.of_parameters(1, clip=1.0)
    with pytest.raises(Exception, match="does not fit"):
        bound.noisy_average([np.ones((1, 1))], np.ones(1), releaser(spent))


@pytest.mark.parametrize(
    "make",
    [
        lambda: AnswerBound.of_probabilities(0, 2, clip=1.0),
        lambda: AnswerBound.of_probabilities(10, 2, clip=1.5),
        lambda: AnswerBound.of_probabilities(10, 2, clip=math.nan),
        lambda: AnswerBound.of_probabilities(2**22, 3, clip=1.0),
        lambda: AnswerBound.of_parameters(3, clip=0.0),
        lambda: AnswerBound.of_parameters(3, clip=math.inf),
    ],
)
def test_bounds_out_of_range(make):
    with pytest.raises(InvalidParameterError):
        make()
