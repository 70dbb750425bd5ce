from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from dpensemble.accounting import Change
from dpensemble.accounting.worst_case import worst_case_cost
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.laws import RandomizedResponseMajority, integer_weights

SIZES = [(k, m) for k in (1, 2, 3, 4, 5, 8, 9) for m in range(1, k + 1)]


def subsampled(ballots, m):
    """Return Pr[second class] of the majority of m of the ballots, by listing every subset."""
    wins = [
        Fraction(1) if 2 * votes > m else Fraction(1, 2) if 2 * votes == m else Fraction(0)
        for votes in (sum(drawn) for drawn in combinations(ballots, m))
    ]
    return sum(wins) / len(wins)


def second(law, ballots):
    return law.probabilities(np.array([[len(ballots) - sum(ballots), sum(ballots)]]))[0, 1]


@pytest.mark.parametrize(("k", "m"), SIZES)
def test_sub_is_what_really_subsampling_teachers_gives(k, m):
    law = RandomizedResponseMajority.subsampling(k, m)
    for ballots in product((0, 1), repeat=k):
        assert second(law, ballots) == pytest.approx(float(subsampled(ballots, m)), abs=2e-16)


@pytest.mark.parametrize(("k", "m"), SIZES)
def test_dsub_is_what_really_subsampling_twice_as_many_gives(k, m):
    law = RandomizedResponseMajority.double_subsampling(k, m)
    for ballots in product((0, 1), repeat=k):
        assert second(law, ballots) == pytest.approx(float(subsampled(ballots, min(2 * m - 1, k))), abs=2e-16)
    if 2 * m >= k + 1:
        assert set(law.gamma) <= {0.0, 1.0}
        assert law.gamma[0] == 1


@pytest.mark.parametrize("k", [4, 7, 101])
def test_an_even_subsample_is_worth_one_less(k):
    for m in range(2, k, 2):
        even, odd = (RandomizedResponseMajority.subsampling(k, size) for size in (m, m - 1))
        assert np.allclose(even.gamma, odd.gamma, rtol=0, atol=1e-15)


def test_sub_matches_the_hypergeometric_sum_of_the_paper():
    k, m = 1001, 21
    law = RandomizedResponseMajority.subsampling(k, m)
    for votes in (0, 3, 400, 500, 501, 900):
        low = min(votes, k - votes)
        tail = sum(Fraction(comb(low, j) * comb(k - low, m - j), comb(k, m)) for j in range((m + 1) // 2, m + 1))
        assert law.gamma[votes] == pytest.approx(float(1 - 2 * tail), abs=1e-16)


def majority_chances(chances):
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    return law


@pytest.mark.parametrize(("k", "m"), [(5, 2), (6, 2), (7, 3), (8, 4)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_dsub_is_private_for_teachers_that_differ(k, m, epsilon):
    # The paper proves it for one common probability only.
    law = RandomizedResponseMajority.double_subsampling(k, m)
    wins = np.array([second(law, [1] * votes + [0] * (k - votes)) for votes in range(k + 1)])
    high = 1 / (1 + np.exp(-epsilon))
    worst = 0.0
    for sure in range(k + 1):
        for unsure in range(k + 1 - sure):
            rest = [1.0] * sure + [0.0] * (k - sure - unsure)
            above = wins @ majority_chances(rest + [high] * unsure)
            below = wins @ majority_chances(rest + [1 - high] * unsure)
            worst = max(worst, np.log(above / below) if above else 0.0)
    assert worst <= m * epsilon + 1e-12
    # One vote fewer of allowance would not do: the worst case is nearly reached.
    assert worst > (m - 1) * epsilon


def test_constant_is_private_at_the_worst_corner_and_no_smaller_than_need_be():
    law = RandomizedResponseMajority.constant(
        35, ballots_epsilon=1.40328, ballots_delta=0.1003, epsilon=0.64521, delta=0.1001
    )
    high = (np.exp(1.40328) + 0.1003) / (1 + np.exp(1.40328))
    here, there = (0.5 + law.gamma[0] * (chance - 0.5) for chance in (high, 1 - high))
    assert here == pytest.approx(np.exp(0.64521) * there + 0.1001, abs=1e-12)
    assert set(law.gamma) == {law.gamma[0]}


def test_constant_tells_the_majority_where_the_ballots_could_be_released():
    law = RandomizedResponseMajority.constant(4, ballots_epsilon=1.0, ballots_delta=0.0, epsilon=1.0, delta=0.0)
    assert law.gamma == pytest.approx((1.0, 1.0, 0.0, 1.0, 1.0), abs=1e-11)


def test_a_tie_is_a_fair_coin_whatever_gamma_says():
    law = RandomizedResponseMajority((1.0, 0.5, 1.0))
    assert law == RandomizedResponseMajority((1.0, 0.0, 1.0))
    assert law.probabilities(np.array([[1, 1]])).tolist() == [[0.5, 0.5]]


def test_what_is_sampled_is_a_law_that_accounting_takes():
    law = RandomizedResponseMajority.subsampling(5, 3)
    counts = np.array([[5 - votes, votes] for votes in range(6)])
    assert [sum(map(int, row)) for row in integer_weights(law, counts)] == [2**63] * 6
    assert worst_case_cost(law, Change(ballots=5, classes=2)).epsilon(1e-5) > 0
    assert hash(law) == hash(RandomizedResponseMajority(tuple(law.gamma)))


@pytest.mark.parametrize(
    ("gamma", "words"),
    [
        ((1.0,), "at least two"),
        (0.5, "at least two"),
        ((1.2, 1.2), "from 0 to 1"),
        ((float("nan"), float("nan")), "from 0 to 1"),
        ((1.0, 0.5), "read backwards"),
        (("1", "1"), "numbers only"),
        ((True, True), "numbers only"),
    ],
)
def test_bad_gammas_are_refused(gamma, words):
    with pytest.raises(InvalidParameterError, match=words):
        RandomizedResponseMajority(gamma)


@pytest.mark.parametrize("m", [0, 4, 1.5, None, True])
def test_bad_subsamples_are_refused(m):
    for build in (RandomizedResponseMajority.subsampling, RandomizedResponseMajority.double_subsampling):
        with pytest.raises(InvalidParameterError, match="m="):
            build(3, m)


def test_other_numbers_of_ballots_are_refused():
    with pytest.raises(DataError, match="two classes and 3 ballots"):
        RandomizedResponseMajority((1.0, 0.5, 0.5, 1.0)).probabilities(np.array([[2, 2]]))


def test_constant_holds_where_the_answer_may_lose_more_than_the_ballots():
    """With a large allowed epsilon the worst corner is that of the ballots' delta."""
    law = RandomizedResponseMajority.constant(1, ballots_epsilon=0.1, ballots_delta=0.1, epsilon=2.0, delta=0.0)
    for p, q in ((0.1, 0.0), (1.0, 0.9), ((np.exp(0.1) + 0.1) / (1 + np.exp(0.1)), 0.9 / (1 + np.exp(0.1)))):
        chances = [0.5 + (x - 0.5) * law.gamma[1] for x in (p, q)]
        assert chances[0] <= np.exp(2.0) * chances[1] + 1e-12
    assert law.gamma[1] > 0.8


def test_constant_refuses_what_no_sampler_can_honour():
    for epsilon in (1e-12, 3e-16, 0.0):
        with pytest.raises(InvalidParameterError, match="less than 1e-06"):
            RandomizedResponseMajority.constant(3, ballots_epsilon=1.1, ballots_delta=0, epsilon=epsilon, delta=0)
    huge = 10**400
    with pytest.raises(InvalidParameterError, match="gamma"):
        RandomizedResponseMajority((huge, huge))
