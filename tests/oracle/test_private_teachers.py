"""Private teachers by enumeration: the exact law of several answers, the teachers' own randomness included.

An (epsilon, Delta)-private model is post-processing of one draw among four (Kairouz, Oh and Viswanath): with
probability Delta it reveals the data set, else it is a bit by randomized response. Divergences are convex in the
post-processing of each model, so its worst is a function of that draw: a table of four votes a query.
"""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from dpensemble.accounting import Group
from dpensemble.accounting.schedule import VotingSchedule
from dpensemble.cost import optimal_composition
from dpensemble.darrm import Allowance
from dpensemble.design.private_answers import _gaussian_law, _majority_law, fitted_answer
from dpensemble.design.private_majority import PrivateModelsMeter, _pure_answers_meter
from dpensemble.guarantee import Budget
from dpensemble.laws import RandomizedResponseMajority, integer_weights
from dpensemble.votes import Votes

AGGREGATORS = ["darrm", "dsub", "sub", "rr"]


def draws(epsilon, Delta):
    """The laws of a model's draw on two neighbours."""
    truth = 1 / (1 + np.exp(-epsilon))
    here = np.array([Delta, (1 - Delta) * truth, (1 - Delta) * (1 - truth), 0.0])
    # The mirror image of the first data set is the second.
    keep = slice(None) if Delta else slice(1, 3)
    return here[keep], here[::-1][keep]


def sampled(law, n_teachers):
    """Probability of the second class for each number of votes, as drawn."""
    votes = np.arange(n_teachers + 1)
    return integer_weights(law, np.stack([n_teachers - votes, votes], axis=1))[:, 1].astype(float) / 2**63


def released(chance, ballots, weights):
    """The law of all answers, where ``ballots[q]`` holds each world's votes and `weights` the worlds' chances."""
    each = [chance[count] for count in ballots]
    return np.array(
        [
            weights @ np.prod([p if said else 1 - p for p, said in zip(each, answers, strict=True)], axis=0)
            for answers in product((0, 1), repeat=len(each))
        ]
    )


def hockey_stick(p, q, epsilon):
    return max(np.maximum(a - np.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))


def largest_loss(p, q):
    return np.abs(np.log(p) - np.log(q)).max()


def of_one_model_each(law, models, tables, n_queries):
    """The laws of the answers to all queries by models that were trained once, on two neighbours.

    ``tables[t][q]`` is teacher ``t``'s vote on query ``q`` for each of its draws.
    """
    laws = [draws(*model) for model in models]
    worlds = np.array(list(product(*(range(len(here)) for here, _ in laws))))
    weights = [np.prod([pair[side][worlds[:, t]] for t, pair in enumerate(laws)], axis=0) for side in (0, 1)]
    ballots = [sum(np.array(table[q])[worlds[:, t]] for t, table in enumerate(tables)) for q in range(n_queries)]
    chance = sampled(law, len(models))
    return tuple(released(chance, ballots, weight) for weight in weights)


# What one answer may reveal, and what many answers of the same models do reveal.


def test_answers_of_one_model_break_the_composition_of_their_own_guarantees():
    """One (1, 0.1)-private teacher, released with chance 1/2: an answer is pure at 0.53, and ten lose 8.7."""
    teacher, law = (1.0, 0.1), RandomizedResponseMajority((0.5, 0.5))
    always = list(product((0, 1), repeat=4))
    one = max(largest_loss(*of_one_model_each(law, [teacher], [[table]], 1)) for table in always)
    assert one == pytest.approx(0.528, abs=1e-3)
    worst = max(
        (largest_loss(*of_one_model_each(law, [teacher], [[table] * 10], 10)) for table in always),
    )
    assert worst == pytest.approx(8.68, abs=0.01)
    assert worst > 10 * one + 3
    # If trained again for every query, the product is exactly the result of composition.
    fresh = [of_one_model_each(law, [teacher], [[table]], 1) for table in always]
    assert max(10 * largest_loss(*pair) for pair in fresh) <= 10 * one + 1e-9


@pytest.mark.parametrize("aggregator", ["darrm", "rr"])
def test_two_queries_to_three_models_already_break_it(aggregator):
    """The library's own laws, pure for one answer. The same models answer the same question twice."""
    teacher, one = (0.5, 0.3), 0.7
    law = _majority_law(aggregator, 3, epsilon=0.5, Delta=0.3, answer_epsilon=one, prior=0.75)
    tables = list(product((0, 1), repeat=4))
    singles = [
        of_one_model_each(law, [teacher] * 3, [[t] for t in chosen], 1)
        for chosen in combinations_with_replacement(tables, 3)
    ]
    assert max(largest_loss(*pair) for pair in singles) <= one * (1 + 1e-9)
    twice = [
        of_one_model_each(law, [teacher] * 3, [[t, t] for t in chosen], 2)
        for chosen in combinations_with_replacement(tables, 3)
    ]
    assert max(largest_loss(*pair) for pair in twice) > 2 * one + 0.05
    assert max(hockey_stick(*pair, 2 * one) for pair in twice) > 1e-3


def test_pure_models_break_it_too_where_gamma_falls():
    """Five pure teachers, four of which answer two queries in opposite ways: delta 0.15 at 2, not 0.04."""
    law = RandomizedResponseMajority((1.0, 0.238, 1.0, 1.0, 0.238, 1.0))
    tables = list(product((0, 1), repeat=2))
    one = max(
        hockey_stick(*of_one_model_each(law, [(1.0, 0.0)] * 5, [[t] for t in chosen], 1), 1.0)
        for chosen in combinations_with_replacement(tables, 5)
    )
    assert one == pytest.approx(0.0201, abs=1e-4)
    opposite, constant = [(1, 0), (0, 1)], [(0, 0), (0, 0)]
    two = hockey_stick(*of_one_model_each(law, [(1.0, 0.0)] * 5, [opposite] * 4 + [constant], 2), 2.0)
    assert two == pytest.approx(0.1529, abs=1e-4)
    assert two > 2 * one


def test_subsampling_as_published_composes_even_over_models_that_are_shared():
    """Two answers of one drawn teacher each look at two of three models at most, every behaviour of theirs."""
    model, law = (0.5, 0.3), RandomizedResponseMajority.subsampling(3, 1)
    tables = list(product((0, 1), repeat=4))
    rng = np.random.default_rng(0)
    allowed = 1 - (1 - 0.3) ** 2
    worst = 0.0
    same = [[[t, t] for t in chosen] for chosen in combinations_with_replacement(tables, 3)]
    mixed = [[[tables[i] for i in pair] for pair in rng.integers(0, 16, (3, 2))] for _ in range(2000)]
    for behaviour in same + mixed:
        worst = max(worst, hockey_stick(*of_one_model_each(law, [model] * 3, behaviour, 2), 1.0))
    assert 0.1 * allowed < worst <= allowed


@pytest.mark.parametrize("model", [(0.7, 0.0), (0.7, 0.1)])
def test_the_models_pay_for_any_number_of_queries(model):
    """Plain majority of two models of the same records, every behaviour on two or three queries."""
    law, delta = RandomizedResponseMajority((1.0,) * 3), 0.25
    stated = PrivateModelsMeter([[model] * 2], Budget(epsilon=5, delta=delta)).spent_epsilon
    tables = list(product((0, 1), repeat=len(draws(*model)[0])))
    behaviours = list(product(tables, repeat=2 if model[1] else 3))
    worst = 0.0
    rng = np.random.default_rng(0)
    pairs = list(combinations_with_replacement(range(len(behaviours)), 2))
    if len(pairs) > 4000:
        pairs = [pairs[i] for i in rng.choice(len(pairs), 4000, replace=False)]
    for one, other in pairs:
        chosen = [behaviours[one], behaviours[other]]
        p, q = of_one_model_each(law, [model] * 2, chosen, len(chosen[0]))
        worst = max(worst, hockey_stick(p, q, stated))
    assert worst <= delta * (1 + 1e-9)
    assert worst > (0.5 if model[1] else 0.8) * delta
    assert stated <= optimal_composition([model] * 2, delta) * (1 + 1e-12)


# The sound designs, by the laws that are sampled.


def fresh_pairs(epsilon, Delta, n_teachers, touched):
    """Laws of the number of votes on neighbours: the first `touched` teachers at corners, the rest at 0 or 1."""
    corners = Allowance(n_teachers=max(n_teachers, 1), epsilon=epsilon, m=1, Delta=Delta).corners
    for moved in combinations_with_replacement(corners, touched):
        for sure in range(n_teachers - touched + 1):
            still = [(1.0, 1.0)] * sure + [(0.0, 0.0)] * (n_teachers - touched - sure)
            chances = np.array([*moved, *still])
            yield votes_law(chances[:, 0]), votes_law(chances[:, 1])


def votes_law(chances):
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1 - p, p])
    return law


@pytest.mark.parametrize("touched", [1, 3])
@pytest.mark.parametrize("Delta", [0.0, 1e-3])
@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_fresh_randomness_for_every_query(aggregator, Delta, touched):
    epsilon, queries, budget = 0.4, 2, Budget(epsilon=0.9, delta=1e-2)
    design = fitted_answer(
        aggregator, 3, touched=touched, teacher=(epsilon, Delta), queries=queries, budget=budget, prior=0.75
    )
    voting = VotingSchedule.everyone(design.law, 3)
    meter = _pure_answers_meter(voting, Group("everyone", budget), design.epsilon, queries, "")
    meter.admit(Votes(np.zeros((queries, 3), dtype=int), n_classes=2))
    chance = sampled(design.law, 3)
    answers = [(p @ chance, q @ chance) for p, q in fresh_pairs(epsilon, Delta, 3, touched)]
    one = max(largest_loss(np.array([p, 1 - p]), np.array([q, 1 - q])) for p, q in answers)
    assert one <= design.epsilon * (1 + 1e-12)
    # Neighbouring data sets may be worst in another way on each query.
    worst = 0.0
    for several in product(answers, repeat=queries):
        p, q = (
            np.array([np.prod(c) for c in product(*((pair[side], 1 - pair[side]) for pair in several))])
            for side in (0, 1)
        )
        worst = max(worst, hockey_stick(p, q, meter.spent_epsilon))
    assert worst <= budget.delta
    # All of it is used where the aggregator can use it: the m of Sub and DSub is a whole number.
    if aggregator in ("darrm", "rr") and touched == 3:
        assert worst > 0.3 * budget.delta


@pytest.mark.parametrize("touched", [1, 3])
@pytest.mark.parametrize("aggregator", [*AGGREGATORS, "gnmax"])
def test_randomised_ballots_and_gaussian_noise(aggregator, touched):
    """Ordinary teachers vote arbitrarily. The ballots' noise is drawn again for each of two queries."""
    epsilon, queries, budget = 0.5, 2, Budget(epsilon=0.8, delta=1e-2)
    if aggregator == "gnmax":
        law, stated = _gaussian_law(3, touched, queries, budget), budget.epsilon
        truth = 1.0
    else:
        design = fitted_answer(
            aggregator, 3, touched=touched, teacher=(epsilon, 0.0), queries=queries, budget=budget, prior=0.75
        )
        law, truth = design.law, 1 / (1 + np.exp(-epsilon))
        stated = optimal_composition([(design.epsilon, 0.0)] * queries, budget.delta)
    chance = sampled(law, 3)
    said = {
        votes: votes_law([truth if vote else 1 - truth for vote in votes]) @ chance
        for votes in product((0, 1), repeat=3)
    }
    pairs = [
        (said[a], said[b])
        for a, b in product(said, repeat=2)
        if sum(x != y for x, y in zip(a, b, strict=True)) <= touched
    ]
    worst = 0.0
    for several in product(set(pairs), repeat=queries):
        p, q = (
            np.array([np.prod(c) for c in product(*((pair[side], 1 - pair[side]) for pair in several))])
            for side in (0, 1)
        )
        worst = max(worst, hockey_stick(p, q, stated))
    assert worst <= budget.delta * (1 + 1e-9)


def test_too_little_noise_is_caught():
    """The oracle can fail: the plain majority at the loss of a noisy one."""
    chance = sampled(RandomizedResponseMajority((1.0,) * 4), 3)
    answers = [(p @ chance, q @ chance) for p, q in fresh_pairs(0.4, 0.0, 3, 3)]
    assert max(largest_loss(np.array([p, 1 - p]), np.array([q, 1 - q])) for p, q in answers) > 0.45
