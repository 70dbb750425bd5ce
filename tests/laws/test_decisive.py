"""No law within the rule is more decisive, and every neighbour stays within the rule."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.optimize import linprog

from dpensemble.errors import InvalidParameterError
from dpensemble.laws import GaussianNoisyMax, HockeyStickRule, LaplaceNoisyMax, RenyiRule, decisive_law

RENYI = RenyiRule(8.0, 0.05)
HOCKEY = HockeyStickRule(0.3, 0.01)
SIZES = [*range(1, 9), 30]


def second(law, n):
    counts = np.arange(n + 1)
    return law.probabilities(np.stack([n - counts, counts], axis=1))[:, 1]


def renyi(p, q, order):
    p, q = np.array([p, 1 - p]), np.array([q, 1 - q])
    return np.log(np.sum(p**order * q ** (1 - order))) / (order - 1)


def excess(p, q, rule):
    """How far a pair is beyond the rule, straight from its definition, both ways."""
    if isinstance(rule, RenyiRule):
        return max(renyi(p, q, rule.order), renyi(q, p, rule.order)) / rule.cost - 1
    coins = [((p, 1 - p), (q, 1 - q)), ((q, 1 - q), (p, 1 - p))]
    return max(
        sum(max(a - np.exp(rule.epsilon) * b, 0) for a, b in zip(one, other, strict=True)) - rule.delta
        for one, other in coins
    )


def worst(table, rule, votes):
    n = len(table) - 1
    return max(excess(table[a], table[b], rule) for a, b in product(range(n + 1), repeat=2) if 0 < abs(a - b) <= votes)


@pytest.mark.parametrize("rule", [RENYI, HOCKEY], ids=repr)
@pytest.mark.parametrize("votes", [1, 2, 3, 5])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("has_prior", [False, True])
def test_every_neighbour_obeys_the_rule(rule, votes, n, has_prior):
    prior = np.random.default_rng(n).dirichlet(np.ones(n + 1)) if has_prior else None
    table = second(decisive_law(rule, n, votes, prior), n)
    votes = min(votes, n)
    assert worst(table, rule, votes) <= 1e-9
    assert np.allclose(table + table[::-1], 1, atol=1e-15)
    assert all(low <= high + 1e-15 for low, high in pairwise(table))
    # It cannot be a little more decisive: a stretched law breaks the rule.
    if votes == 1 and table[0] > 0.01:
        assert worst(0.5 + (table - 0.5) * (1 + 1e-5), rule, votes) > 0


@pytest.mark.parametrize("rule", [RENYI, HOCKEY], ids=repr)
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_no_law_within_the_rule_is_nearer_to_certainty_anywhere(rule, n):
    best = second(decisive_law(rule, n), n)
    rng = np.random.default_rng(7)
    closest = 1.0
    for trial in range(60):
        # Near the best law, and far from it, with classes alike, not always monotone.
        raw = best + rng.normal(scale=0.1 / (1 + trial), size=n + 1)
        raw = np.clip((raw + 1 - raw[::-1]) / 2, 1e-9, 1 - 1e-9)
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            within = worst(0.5 + middle * (raw - 0.5), rule, 1) <= 0
            low, high = (middle, high) if within else (low, middle)
        other = 0.5 + low * (raw - 0.5)
        lead = np.arange(n + 1) > n / 2
        assert np.all(other[lead] <= best[lead] + 1e-9)
        closest = min(closest, float(np.max(best[lead] - other[lead])))
    # Some came close, so the comparison means something.
    assert closest < 0.05


@pytest.mark.parametrize("votes", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [4, 7, 8])
def test_a_linear_program_finds_no_better_law_under_a_prior(votes, n):
    """The hockey-stick rule is linear, so all laws (monotone or not) compete in one program."""
    prior = np.random.default_rng(10 * n + votes).dirichlet(np.ones(n + 1))
    growth, delta = np.exp(HOCKEY.epsilon), HOCKEY.delta
    rows, limits = [], []
    for a, b in product(range(n + 1), repeat=2):
        if 0 < abs(a - b) <= votes:
            for sign in (1, -1):
                row = np.zeros(n + 1)
                row[a], row[b] = sign, -sign * growth
                rows.append(row)
                limits.append(delta if sign > 0 else delta + growth - 1)
    mirror = np.eye(n + 1) + np.eye(n + 1)[::-1]
    gain = np.zeros(n + 1)
    for count in range(n + 1):
        if count > n / 2:
            gain[count] = prior[2 * count - n]
    found = linprog(-gain, np.array(rows), limits, mirror, np.ones(n + 1), bounds=(0, 1))
    ours = gain @ second(decisive_law(HOCKEY, n, votes, prior), n)
    assert ours <= -found.fun + 1e-9
    # The free chances lie on a grid of 1/256 or so of their range.
    assert ours >= -found.fun - (1e-9 if votes == 1 else 2e-3)
    if votes > 2:
        assert ours >= gain @ second(decisive_law(HOCKEY, n, votes), n) - 1e-9


def test_noise_of_the_same_cost_is_never_more_decisive():
    for noisy in (GaussianNoisyMax(12.0), LaplaceNoisyMax(15.0)):
        table = second(noisy, 40)
        for order in (1.5, 4.0, 20.0, 80.0):
            cost = max(max(renyi(a, b, order), renyi(b, a, order)) for a, b in pairwise(table))
            ours = second(decisive_law(RenyiRule(order, cost * (1 + 1e-9)), 40), 40)
            assert np.all(ours[21:] >= table[21:])
            assert ours[-1] > table[-1] + 1e-4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_teachers": 0}, "n_teachers=0"),
        ({"n_teachers": 3, "votes_per_unit": 0}, "votes_per_unit=0"),
        ({"n_teachers": 3, "prior": [1.0, 0.0]}, "prior must be 4 weights"),
        ({"n_teachers": 3, "prior": [np.nan] * 4}, "prior must be 4 weights"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InvalidParameterError, match=message):
        decisive_law(HOCKEY, **settings)


@pytest.mark.parametrize(("order", "cost"), [(1.0, 0.1), (np.nan, 0.1), (2.0, 0.0), (2.0, np.inf)])
def test_a_renyi_rule_checks_its_numbers(order, cost):
    with pytest.raises(InvalidParameterError):
        RenyiRule(order, cost)
