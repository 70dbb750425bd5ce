"""Bagging by exhaustive enumeration: every draw of every scheme on up to six records, with exact fractions.

The law of all subsamples together is written down naively, for a data set and
for all its neighbours; the hockey-stick divergences are then exact, at exact
values of e**epsilon.
"""

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product
from math import comb, exp, log

import numpy as np
import pytest

from dpensemble.accounting import bagging_delta, largest_subsample, published_bagging
from dpensemble.allocation import Bootstrap, BootstrapScheme
from dpensemble.relations import Relation

# e**epsilon for epsilon = 0, 0.1, ln 2 and 2, and beyond any use.
FACTORS = [Fraction(1), Fraction(exp(0.1)), Fraction(2), Fraction(exp(2)), Fraction(10**9)]
# Models and size of each subsample.
SHAPES = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1), (3, 2), (1, 5)]


def every_draw(scheme, n_models, size, n):
    """Yield every equally likely draw of positions, one tuple a model."""
    if scheme is Bootstrap.SUBSETS:
        yield from product(combinations(range(n), size), repeat=n_models)
        return
    flat = (
        product(range(n), repeat=n_models * size)
        if scheme is Bootstrap.WITH_REPLACEMENT
        else permutations(range(n), n_models * size)
    )
    for draw in flat:
        yield tuple(draw[t * size : (t + 1) * size] for t in range(n_models))


@cache
def law(scheme, n_models, size, records):
    """Exact law of what the models learn: one multiset of records a model."""
    outcomes = Counter(
        tuple(tuple(sorted(records[i] for i in drawn)) for drawn in draw)
        for draw in every_draw(scheme, n_models, size, len(records))
    )
    total = sum(outcomes.values())
    return {outcome: Fraction(count, total) for outcome, count in outcomes.items()}


def hockey_stick(p, q, factor):
    return sum((max(Fraction(0), mass - factor * q.get(outcome, 0)) for outcome, mass in p.items()), Fraction(0))


def drawable(scheme, n_models, size, n):
    """Whether the scheme works for n records, and is small enough to enumerate."""
    return {
        Bootstrap.WITH_REPLACEMENT: n ** (n_models * size) <= 2000,
        Bootstrap.DISTINCT: n_models * size <= n,
        Bootstrap.SUBSETS: size <= n and comb(n, size) ** n_models <= 2000,
    }[scheme]


WORLDS = [
    pytest.param(scheme, n_models, size, n, id=f"{scheme}-{n_models}x{size}-of-{n}")
    for scheme, (n_models, size), n in product(Bootstrap, SHAPES, range(1, 7))
    if drawable(scheme, n_models, size, n)
]


def is_rounded_up(claim, exact):
    """Whether a double is an exact probability rounded up, as the decimal that is printed."""
    return exact <= Fraction(repr(claim)) <= exact * (1 + Fraction(1, 10**14))


@pytest.mark.parametrize(("scheme", "n_models", "size", "n"), WORLDS)
def test_delta_is_exact_at_every_epsilon(scheme, n_models, size, n):
    whole = tuple("abcdef"[:n])
    claim = bagging_delta(BootstrapScheme(scheme, n_models, size), n)
    p = law(scheme, n_models, size, whole)
    delta = sum(mass for outcome, mass in p.items() if any("a" in drawn for drawn in outcome))
    assert is_rounded_up(claim, delta)
    for gone in range(n):
        replaced = (*whole[:gone], "z", *whole[gone + 1 :])
        q = law(scheme, n_models, size, replaced)
        for factor in FACTORS:
            assert hockey_stick(p, q, factor) == hockey_stick(q, p, factor) == delta
        if n > 1 and drawable(scheme, n_models, size, n - 1):
            removed = whole[:gone] + whole[gone + 1 :]
            q = law(scheme, n_models, size, removed)
            for factor in FACTORS:
                assert hockey_stick(p, q, factor) == delta
                assert hockey_stick(q, p, factor) == max(0, 1 - factor * (1 - delta))


@pytest.mark.parametrize(("scheme", "n_models", "size", "n"), WORLDS)
def test_adding_a_record_is_covered_and_the_published_pair_holds(scheme, n_models, size, n):
    whole = tuple("abcdef"[:n])
    claim = Fraction(repr(bagging_delta(BootstrapScheme(scheme, n_models, size), n)))
    published = published_bagging(BootstrapScheme(scheme, n_models, size), n)
    if not drawable(scheme, n_models, size, n + 1):
        return
    smaller, larger = (law(scheme, n_models, size, records) for records in (whole, (*whole, "z")))
    for factor in FACTORS:
        assert hockey_stick(larger, smaller, factor) <= claim
        assert hockey_stick(smaller, larger, factor) <= claim
    if scheme is Bootstrap.SUBSETS:
        assert published is None
        return
    # The paper's epsilon is the largest ratio of what both data sets can give, over all neighbours.
    ratio = max(mass / larger[outcome] for outcome, mass in smaller.items())
    assert log(ratio) <= published[0] <= log(ratio) * (1 + 1e-13)
    assert published[1] == float(claim)
    assert hockey_stick(smaller, larger, ratio) == 0
    assert hockey_stick(larger, smaller, ratio) <= claim


@pytest.mark.parametrize("scheme", Bootstrap)
def test_equal_records_lose_no_more(scheme):
    """A record that equals another, or replaces one by an equal one, reveals less."""
    p = law(scheme, 2, 1, tuple("aabc"))
    delta = Fraction(repr(bagging_delta(BootstrapScheme(scheme, 2, 1), 4)))
    for other in ("abc", "aac", "aabb", "abbc", "zabc"):
        q = law(scheme, 2, 1, tuple(other))
        for factor in FACTORS:
            assert hockey_stick(p, q, factor) <= delta
            assert hockey_stick(q, p, factor) <= delta
    assert hockey_stick(p, law(scheme, 2, 1, tuple("zabc")), FACTORS[-1]) < delta


@pytest.mark.parametrize("scheme", Bootstrap)
def test_the_oracle_can_fail(scheme):
    """One draw more than was charged for is noticed."""
    claim = Fraction(repr(bagging_delta(BootstrapScheme(scheme, 1, 2), 5)))
    more = [law(scheme, 1, 3, tuple(records)) for records in ("abcde", "abcdz")]
    assert hockey_stick(*more, Fraction(1)) > claim


@pytest.mark.parametrize(("scheme", "n_models", "size", "n"), WORLDS)
def test_holders_are_counted(scheme, n_models, size, n):
    counted = np.zeros(n_models + 1)
    for outcome, mass in law(scheme, n_models, size, tuple("abcdef"[:n])).items():
        counted[sum("a" in drawn for drawn in outcome)] += mass
    found = BootstrapScheme(scheme, n_models, size).holders(n)
    assert found.shape == (n_models + 1,)
    assert np.allclose(found, counted, rtol=1e-12, atol=0)


class Scripted:
    """Returns the 63-bit integers of a script, for every request."""

    for_release = False

    def __init__(self, script):
        self._script = list(script)

    def uniform_bits(self, size):
        given, self._script = self._script[:size], self._script[size:]
        return np.array(given, dtype=np.uint64)


@pytest.mark.parametrize("scheme", [Bootstrap.WITH_REPLACEMENT, Bootstrap.DISTINCT])
@pytest.mark.parametrize(("n_models", "size", "n"), [(1, 2, 4), (2, 2, 4), (3, 1, 5)])
def test_what_is_drawn_follows_the_law(scheme, n_models, size, n):
    """The shipped code on every sequence of bits that matters: remainders, or orders of keys."""
    drawer = BootstrapScheme(scheme, n_models, size)
    scripts = (
        product(range(n), repeat=n_models * size) if scheme is Bootstrap.WITH_REPLACEMENT else permutations(range(n))
    )
    outcomes = Counter(
        tuple(
            tuple("abcdef"[i] for i in shard)
            for shard in drawer.draw(range(n), relation=Relation.REPLACE_ONE, noise=Scripted(script)).shards
        )
        for script in scripts
    )
    total = sum(outcomes.values())
    found = {outcome: Fraction(count, total) for outcome, count in outcomes.items()}
    assert found == law(scheme, n_models, size, tuple("abcdef"[:n]))


@pytest.mark.parametrize("scheme", Bootstrap)
@pytest.mark.parametrize("n_models", [1, 2])
def test_the_largest_subsample_is_the_largest(scheme, n_models):
    for n, wanted in product((3, 6, 10, 25), (0.11, 0.2, 0.4, 0.75, 0.9)):
        sizes = [
            size
            for size in range(1, 60)
            if n_models * size <= (10**6, n, n_models * n)[list(Bootstrap).index(scheme)]
            and _naive_delta(scheme, n_models, size, n) <= Fraction(str(wanted))
        ]
        if sizes:
            assert largest_subsample(wanted, n, n_models, scheme) == max(sizes)


def _naive_delta(scheme, n_models, size, n):
    missed = {
        Bootstrap.WITH_REPLACEMENT: Fraction(n - 1, n) ** (n_models * size),
        Bootstrap.DISTINCT: 1 - Fraction(n_models * size, n),
        Bootstrap.SUBSETS: Fraction(n - size, n) ** n_models,
    }
    return 1 - missed[scheme]
