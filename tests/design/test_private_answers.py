"""Pluralities of ballots drawn at random: the closed form against every draw and every ballot."""

import math
from itertools import combinations, product

import numpy as np
import pytest

from dpensemble.cost import optimal_composition
from dpensemble.design.private_answers import Plurality, _most_drawn, _plurality_epsilon, general_composition
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import LawChoice


@pytest.mark.parametrize(("epsilon", "delta", "times", "slack"), [(0.1, 1e-5, 35, 0.1), (0.5, 0.0, 200, 1e-6)])
def test_it_is_simple_composition_or_better_and_never_below_the_optimum(epsilon, delta, times, slack):
    total, total_delta = general_composition(epsilon, delta, times, slack)
    assert total <= times * epsilon
    assert total_delta <= times * delta + slack + 1e-15
    assert optimal_composition([(epsilon, delta)] * times, total_delta) <= total + 1e-9


def test_no_slack_means_simple_composition():
    assert general_composition(0.5, 0.0, 4, 0.0) == (2.0, 0.0)
    assert general_composition(500.0, 0.0, 2, 0.5) == (1000.0, pytest.approx(0.5))


@pytest.mark.parametrize(
    "arguments", [(0.0, 0.0, 1, 0.0), (1.0, 2.0, 1, 0.0), (1.0, 0.0, 0, 0.0), (1.0, 0.0, 1, float("nan"))]
)
def test_bad_input_is_refused(arguments):
    with pytest.raises(InvalidParameterError):
        general_composition(*arguments)


def test_a_tiny_delta_is_not_lost_to_cancellation():
    for epsilon, delta, times, slack, least in ((0.1, 1e-17, 10, 0, 1e-16), (0.1, 1e-18, 100, 0, 1e-16)):
        assert general_composition(epsilon, delta, times, slack)[1] >= least
    assert general_composition(0.1, 0, 10_000, 1e-20)[1] >= 1e-20
    assert general_composition(0.1, 0.0, 3, 0.0) == (pytest.approx(0.3), 0.0)
    assert general_composition(0.1, 1.0, 3, 0.0)[1] == 1.0


def answer(chances, drawn):
    """Exact law of the answer, from each teacher's chances of each class, over every draw and every ballot."""
    n_teachers, n_classes = chances.shape
    found, choices = np.zeros(n_classes), list(combinations(range(n_teachers), drawn))
    for chosen in choices:
        for ballots in product(range(n_classes), repeat=drawn):
            chance = math.prod(chances[t, b] for t, b in zip(chosen, ballots, strict=True))
            counts = np.bincount(ballots, minlength=n_classes)[None]
            found += chance * Plurality().probabilities(counts)[0] / len(choices)
    return found


def randomised(votes, epsilon, n_classes=3):
    return (np.eye(n_classes)[list(votes)] * math.expm1(epsilon) + 1) / (math.exp(epsilon) + n_classes - 1)


@pytest.mark.parametrize(("n_teachers", "drawn", "epsilon"), [(3, 1, 1.0), (3, 2, 1.0), (4, 2, 0.5), (3, 3, 2.0)])
def test_no_true_vote_reveals_more_than_is_charged(n_teachers, drawn, epsilon):
    """A partition, randomised ballots: all true votes of the others."""
    bound = _plurality_epsilon(drawn, n_teachers, touched=1, epsilon=epsilon, randomised=True)
    worst = 0.0
    for others in product(range(3), repeat=n_teachers - 1):
        laws = [answer(randomised((vote, *others), epsilon), drawn) for vote in range(3)]
        worst = max(worst, *(np.log(one / other).max() for one in laws for other in laws))
    assert 0.4 * bound < worst <= bound
    if drawn == 1:
        assert worst == pytest.approx(bound)


@pytest.mark.parametrize(("n_teachers", "drawn", "touched"), [(3, 1, 3), (3, 2, 3), (4, 3, 2), (3, 3, 1)])
def test_no_unit_reveals_more_through_private_models(n_teachers, drawn, touched):
    """Any models whose votes are epsilon-close, not randomised response alone."""
    epsilon, rng = 0.7, np.random.default_rng(0)
    bound = _plurality_epsilon(drawn, n_teachers, touched=touched, epsilon=epsilon, randomised=False)
    worst = 0.0
    for trial in range(60):
        # The extreme points of pairs of epsilon-close laws: a set of classes is raised on one side, lowered on the
        # other.
        raised = (
            rng.integers(0, 2, size=(n_teachers, 3)).astype(bool)
            if trial
            else np.tile([True, False, False], (n_teachers, 1))
        )
        base = rng.dirichlet([0.3] * 3, size=n_teachers) if trial else np.full((n_teachers, 3), 1 / 3)
        one, other = base * np.exp(epsilon / 2 * raised), base * np.exp(-epsilon / 2 * raised)
        one, other = (law / law.sum(axis=1, keepdims=True) for law in (one, other))
        other[touched:] = one[touched:]
        close = np.abs(np.log(one / other)).max()
        assert close <= epsilon * (1 + 1e-9)
        worst = max(worst, np.abs(np.log(answer(one, drawn) / answer(other, drawn))).max())
    assert 0 < worst <= bound


def test_a_draw_that_is_too_large_is_caught():
    bound, worst = _plurality_epsilon(1, 4, touched=1, epsilon=2.0, randomised=True), 0.0
    for others in product(range(3), repeat=3):
        laws = [answer(randomised((vote, *others), 2.0), 3) for vote in range(3)]
        worst = max(worst, *(np.log(one / other).max() for one in laws for other in laws))
    assert worst > 1.2 * bound


def test_the_most_ballots_that_fit():
    def cost(drawn):
        return _plurality_epsilon(drawn, 20, touched=20, epsilon=0.3, randomised=True)

    assert _most_drawn(20, 1.0, cost) == 3
    assert _most_drawn(20, 0.2, cost) is None
    assert _most_drawn(20, 100.0, cost) == 20


def test_ties_are_shared_and_the_law_takes_any_classes():
    found = Plurality().probabilities(np.array([[2, 2, 2, 0], [0, 0, 0, 5]]))
    assert found == pytest.approx(np.array([[1 / 3, 1 / 3, 1 / 3, 0], [0, 0, 0, 1]]))
    assert LawChoice.of(Plurality()).law(7, 5) == Plurality()
