"""Secret subsamples: statistics with fixed seeds and a false-alarm rate of 1e-4, and planted errors that must alarm."""

from collections import Counter
from itertools import combinations, combinations_with_replacement
from math import comb, factorial, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from dpensemble._random import SeededNoise, SystemNoise
from dpensemble.allocation import Allocation, Bootstrap, BootstrapScheme
from dpensemble.allocation.bootstrap import _random_order, _subsets, integers_below
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation

FALSE_ALARM = 1e-4
REPLACE = Relation.REPLACE_ONE


def draw(scheme, n_models, size, n, noise=None, relation=REPLACE):
    noise = SeededNoise(3) if noise is None else noise
    identities = range(n) if isinstance(n, int) else n
    return BootstrapScheme(scheme, n_models, size).draw(identities, relation=relation, noise=noise)


@given(st.sampled_from(list(Bootstrap)), st.integers(1, 4), st.integers(1, 12), st.integers(1, 40))
def test_every_model_learns_as_many_units_as_it_should(scheme, n_models, size, n):
    needed = {Bootstrap.DISTINCT: n_models * size, Bootstrap.SUBSETS: size}.get(scheme, 1)
    if needed > n:
        with pytest.raises(InvalidParameterError, match=f"subsample={size} .* private records"):
            draw(scheme, n_models, size, n)
        return
    allocation = draw(scheme, n_models, size, n)
    assert [len(shard) for shard in allocation.shards] == [size] * n_models
    assert all(np.all(np.diff(shard) >= (scheme is not Bootstrap.WITH_REPLACEMENT)) for shard in allocation.shards)
    assert allocation.secret
    together = np.concatenate(allocation.shards)
    assert scheme is not Bootstrap.DISTINCT or np.unique(together).size == together.size
    assert scheme is Bootstrap.WITH_REPLACEMENT or np.all(allocation.copies == 1)
    assert allocation.copies.sum() == n_models * size


def test_a_drawn_unit_brings_all_its_records_each_time():
    people = ["ann", "bob", "ann", "cem", "bob", "ann"]
    for relation in Relation:
        allocation = draw("with-replacement", 3, 4, people, relation=relation)
        assert (allocation.n_units, allocation.n_records, allocation.relation) == (3, 6, relation)
        for teacher, shard in enumerate(allocation.shards):
            found = Counter(shard.tolist())
            for unit, records in enumerate([(0, 2, 5), (1, 4), (3,)]):
                here = np.flatnonzero(allocation.teachers_of(unit) == teacher)
                times = allocation.copies[allocation.offsets[unit] + here].sum()
                assert [found[record] for record in records] == [times] * len(records)


def test_copies_repeat_records_in_shards():
    arrays = {"offsets": [0, 2, 3], "teachers": [0, 1, 1], "unit_of_record": [0, 1, 0], "copies": [1, 2, 3]}
    arrays = {name: np.array(values) for name, values in arrays.items()}
    allocation = Allocation(n_teachers=2, relation=REPLACE, **arrays)
    assert [shard.tolist() for shard in allocation.shards] == [[0, 2], [0, 0, 1, 1, 1, 2, 2]]
    for copies in ([1, 0, 1], [1, 1]):
        with pytest.raises(InvalidParameterError, match="copies"):
            Allocation(n_teachers=2, relation=REPLACE, **arrays | {"copies": np.array(copies)})


def test_a_secret_allocation_does_not_print_itself():
    text = repr(draw("subsets", 2, 3, 9))
    assert text == "Allocation(n_teachers=2, relation=<Relation.REPLACE_ONE: 'replace-one'>, secret=True)"


class Scripted:
    """Gives the integers of a script, and notes how many were asked for."""

    for_release = False

    def __init__(self, *script):
        self.script, self.asked = list(script), []

    def uniform_bits(self, size):
        self.asked.append(size)
        given, self.script = self.script[:size], self.script[size:]
        return np.array(given, dtype=np.uint64)


def test_integers_beyond_the_last_whole_multiple_are_drawn_again():
    top = 2**63 - 1
    # 2**63 is 2 modulo 3, so the two largest integers would favour 0 and 1.
    noise = Scripted(top, 4, top - 1, top - 2, top, 8, 7)
    assert integers_below(3, 4, noise).tolist() == [1, 1, 2, 2]
    assert noise.asked == [4, 2, 1]
    assert (top - 2) % 3 == 2
    powers = Scripted(top, 0)
    assert integers_below(2**40, 2, powers).tolist() == [2**40 - 1, 0]
    assert powers.asked == [2]
    assert integers_below(2**63, 1, Scripted(top)).tolist() == [top]
    assert integers_below(1, 2, Scripted(top, 5)).tolist() == [0, 0]


def test_equal_keys_are_drawn_again():
    noise = Scripted(5, 1, 5, 9, 2, 4)
    assert _random_order(3, noise).tolist() == [1, 2, 0]
    assert noise.asked == [3, 3]


def test_items_that_a_subset_holds_are_drawn_again():
    # Two subsets of two out of five: the second repeats itself, and is given what it lacks.
    noise = Scripted(0, 3, 4, 4, 4, 1)
    assert _subsets(5, 2, 2, noise).tolist() == [[0, 3], [1, 4]]
    assert noise.asked == [4, 1, 1]
    # Three out of five: the two that are left out are drawn.
    assert _subsets(5, 3, 1, Scripted(0, 3)).tolist() == [[1, 2, 4]]
    assert _subsets(4, 4, 2, Scripted()).tolist() == [[0, 1, 2, 3]] * 2


# A draw of many models at once is as many independent draws, except where all draws are distinct.
DRAWS = 20_000


def chances(scheme, size, n):
    """Chance of each multiset that one model may learn."""
    if scheme is not Bootstrap.WITH_REPLACEMENT:
        return dict.fromkeys(combinations(range(n), size), 1 / comb(n, size))
    ways = {
        drawn: factorial(size) / prod(factorial(count) for count in Counter(drawn).values())
        for drawn in combinations_with_replacement(range(n), size)
    }
    return {drawn: count / n**size for drawn, count in ways.items()}


def subsamples(scheme, size, n, noise):
    """Many independent subsamples, as tuples."""
    if scheme is not Bootstrap.DISTINCT:
        return [tuple(shard.tolist()) for shard in draw(scheme, DRAWS, size, n, noise).shards]
    # Two models each, of which the first is looked at.
    return [tuple(draw(scheme, 2, size, n, noise).shards[0].tolist()) for _ in range(DRAWS // 5)]


class FewBits(SeededNoise):
    """Sixteen values only, which favour small remainders."""

    def uniform_bits(self, size):
        return super().uniform_bits(size) >> np.uint64(59)


class Leaning(SeededNoise):
    """Favours the first key of each call."""

    def uniform_bits(self, size):
        found = super().uniform_bits(size)
        found[0] = found[0] // np.uint64(2)
        return found


FAULTY = {
    Bootstrap.WITH_REPLACEMENT: FewBits,
    Bootstrap.DISTINCT: Leaning,
    Bootstrap.SUBSETS: FewBits,
}


@pytest.mark.parametrize(("size", "n"), [(2, 5), (3, 5)])
@pytest.mark.parametrize("scheme", Bootstrap)
def test_subsamples_follow_the_law_and_a_faulty_source_is_noticed(scheme, size, n):
    n = 6 if scheme is Bootstrap.DISTINCT else n
    expected = chances(scheme, size, n)
    for source, alarm in ((SeededNoise, False), (FAULTY[scheme], True)):
        found = Counter(subsamples(scheme, size, n, source(12)))
        assert set(found) <= set(expected)
        observed = np.array([found[drawn] for drawn in expected])
        claimed = np.array(list(expected.values())) * observed.sum()
        assert (chisquare(observed, claimed).pvalue < FALSE_ALARM) == alarm


@pytest.mark.parametrize("scheme", Bootstrap)
def test_units_and_pairs_of_units_are_drawn_as_often_as_claimed(scheme):
    """A record's inclusion is the claimed delta. That of two records together leaves no pair favoured."""
    n, n_models, size, runs = 12, 2, 3, 4000
    noise, held = SeededNoise(8), np.zeros((runs, n), dtype=bool)
    for run in range(runs):
        held[run, np.concatenate(draw(scheme, n_models, size, n, noise).shards)] = True
    one = BootstrapScheme(scheme, n_models, size).inclusion_probability(n)
    neither = {
        Bootstrap.WITH_REPLACEMENT: (1 - 2 / n) ** (n_models * size),
        Bootstrap.DISTINCT: comb(n - 2, n_models * size) / comb(n, n_models * size),
        Bootstrap.SUBSETS: (comb(n - 2, size) / comb(n, size)) ** n_models,
    }[scheme]
    pairs = list(combinations(range(n), 2))
    claims = [(held[:, i].sum(), one) for i in range(n)]
    claims += [(np.sum(held[:, i] & held[:, j]), 2 * one - 1 + neither) for i, j in pairs]
    share = FALSE_ALARM / len(claims)
    assert min(binomtest(int(count), runs, chance).pvalue for count, chance in claims) > share
    # Off by a tenth, every one of them would be noticed together.
    wrong = [binomtest(int(count), runs, 1.1 * chance).pvalue for count, chance in claims]
    assert min(wrong) < share


def test_positions_of_the_models_are_alike_in_distinct_draws():
    """Which model gets a record is as random as whether it is drawn."""
    noise, n, runs = SeededNoise(5), 6, 4000
    table = np.zeros((n, 3))
    for _ in range(runs):
        for model, shard in enumerate(draw("distinct", 3, 1, n, noise).shards):
            table[shard[0], model] += 1
    # Each model's column is multinomial separately.
    assert min(chisquare(column).pvalue for column in table.T) > FALSE_ALARM / 3


def test_the_system_draws_anew_each_time():
    drawn = [draw("subsets", 1, 50, 1000, SystemNoise()).shards[0].tolist() for _ in range(2)]
    # Equal with probability 1 / C(1000, 50), below 1e-84.
    assert drawn[0] != drawn[1]
    assert draw("subsets", 1, 50, 1000).shards[0].tolist() == draw("subsets", 1, 50, 1000).shards[0].tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("jackknife", 1, 1), "scheme='jackknife' is unknown"),
        (("distinct", 0, 1), "n_models=0"),
        (("distinct", 1, True), "subsample=True"),
        (("subsets", 1.0, 1), "n_models=1.0"),
    ],
)
def test_nonsense_is_refused(settings, message):
    with pytest.raises(InvalidParameterError, match=message):
        BootstrapScheme(*settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("subsets", 2, 11), r"subsample=11 is more than the 10 .* use at most 10, or scheme='with-replacement'"),
        (
            ("distinct", 3, 4),
            r"subsample=4 for 3 models makes 12 distinct draws, .* use a subsample of at most 3, or",
        ),
        (("distinct", 11, 1), r"makes 11 distinct draws, .* use at most 10 models, or scheme='subsets'"),
    ],
)
def test_more_draws_than_units_are_refused(settings, message):
    scheme = BootstrapScheme(*settings)
    for call in (scheme.check, scheme.inclusion_probability, scheme.holders):
        with pytest.raises(InvalidParameterError, match=message):
            call(10)
    BootstrapScheme("with-replacement", 5, 100).check(10)
    with pytest.raises(InvalidParameterError, match="n_units=0"):
        scheme.check(0)
