"""Bagging with a noisy vote: the exact law of all answers over every draw never reveals more than is charged."""

from itertools import combinations, permutations, product

import numpy as np
import pytest

from dpensemble.accounting.worst_case import second_class_table
from dpensemble.design.voting import _subsampled_cost
from dpensemble.laws import GaussianNoisyMax, LaplaceNoisyMax, OptimalVote

EPSILONS = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0)
LAWS = [LaplaceNoisyMax(1.5), GaussianNoisyMax(1.0), OptimalVote(3.0)]
# Scheme, records, teachers, subsample.
SETTINGS = [
    ("with-replacement", 3, 2, 1),
    ("with-replacement", 4, 2, 2),
    ("with-replacement", 3, 3, 1),
    ("distinct", 4, 2, 1),
    ("distinct", 5, 2, 2),
    ("distinct", 4, 3, 1),
    ("distinct", 4, 2, 2),
    ("subsets", 4, 2, 2),
    ("subsets", 4, 3, 1),
    ("subsets", 3, 2, 2),
]


def draws(scheme, n, n_teachers, k):
    """Return every draw, all equally likely, as shards of positions."""

    def dealt(flat):
        return tuple(flat[t * k : (t + 1) * k] for t in range(n_teachers))

    if scheme == "with-replacement":
        return [dealt(flat) for flat in product(range(n), repeat=n_teachers * k)]
    if scheme == "distinct":
        return [dealt(flat) for flat in permutations(range(n), n_teachers * k)]
    return list(product(combinations(range(n), k), repeat=n_teachers))


def holders(scheme, n, n_teachers, k):
    """Return the law of the number of teachers that hold the last record."""
    found = [sum(n - 1 in shard for shard in shards) for shards in draws(scheme, n, n_teachers, k)]
    return np.bincount(found, minlength=n_teachers + 1) / len(found)


def law_of_answers(records, scheme, n_teachers, k, rules, law):
    """Return the chance of every sequence of answers. One of `rules` a query maps shards to ballots."""
    second = second_class_table(law, n_teachers)[0][:, 1]
    every = draws(scheme, len(records), n_teachers, k)
    total = np.zeros((2,) * len(rules))
    for shards in every:
        held = [tuple(sorted(records[i] for i in shard)) for shard in shards]
        answers = np.ones(())
        for rule in rules:
            chance = second[sum(rule(shard) for shard in held)]
            answers = np.multiply.outer(answers, np.array([1 - chance, chance]))
        total += answers
    return total / len(every)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


def neighbours(n):
    """Yield pairs of data sets: the last record replaced, removed, and added."""
    shared = [str(i) for i in range(n - 1)]
    yield [*shared, "x"], [*shared, "y"]
    yield [*shared, "x"], shared
    yield shared, [*shared, "x"]


def rules_for(rng, n_queries, kind):
    """Return teachers that reveal the record as well as they can, or that are drawn at random."""
    if kind == "holds":
        return [lambda shard: "x" in shard] * n_queries
    if kind == "either":
        return [lambda shard, sign=i % 2: ("x" in shard) ^ ("y" in shard) ^ sign for i in range(n_queries)]
    ballots = [{} for _ in range(n_queries)]
    return [lambda shard, memory=memory: memory.setdefault(shard, int(rng.integers(2))) for memory in ballots]


def drawable(scheme, n, n_teachers, k):
    return scheme == "with-replacement" or n >= k * (n_teachers if scheme == "distinct" else 1)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_no_teachers_reveal_more_than_is_charged(setting, law):
    scheme, n, n_teachers, k = setting
    rng = np.random.default_rng(n * 100 + n_teachers * 10 + k)
    cost = _subsampled_cost(law, holders(*setting), n_teachers=n_teachers, n_classes=2)
    for n_queries in (1, 2, 3):
        (cost * n_queries).refine(1.0, 1e-3)
        allowed = [(cost * n_queries).delta(epsilon) for epsilon in EPSILONS]
        closest = 0.0
        for kind in ("holds", "either", *["random"] * 4):
            rules = rules_for(rng, n_queries, kind)
            for pair in neighbours(n):
                if not all(drawable(scheme, len(data), n_teachers, k) for data in pair):
                    continue
                p, q = (law_of_answers(data, scheme, n_teachers, k, rules, law) for data in pair)
                for epsilon, most in zip(EPSILONS, allowed, strict=True):
                    found = hockey_stick(p, q, epsilon)
                    assert found <= most + 1e-12
                    closest = max(closest, found / most if most > 1e-6 else 0.0)
        # Some teachers come near the bound, so it is not idle.
        assert closest > 0.3
