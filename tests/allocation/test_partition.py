"""Partitions of units, and units as people declare them: any type is numbered, or refused in one sentence."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble import LabelMomentsClassifier
from dpensemble._units import unit_numbers
from dpensemble.allocation import Allocation, partitions
from dpensemble.allocation.partition import teachers_of_groups
from dpensemble.errors import DataError, DPEnsembleError, HiddenError, InvalidParameterError
from dpensemble.relations import Relation

SIZES = st.tuples(st.integers(1, 60), st.integers(1, 8), st.integers(1, 5), st.integers(0, 9)).filter(
    lambda t: t[0] >= t[1]
)
RELATIONS = st.sampled_from(list(Relation))


@given(SIZES, RELATIONS)
def test_every_record_is_in_exactly_one_subset_of_each_partition(sizes, relation):
    n, subsets, k, entropy = sizes
    allocation = partitions(range(n), subsets, k, relation=relation, entropy=entropy)
    assert allocation.n_teachers == len(allocation.shards) == subsets * k
    assert np.all(allocation.multiplicity == k)
    assert np.all(allocation.record_multiplicity == k)
    for p in range(k):
        together = np.concatenate(allocation.shards[p * subsets : (p + 1) * subsets])
        assert sorted(together) == list(range(n))


@given(SIZES)
def test_slots_are_of_floor_or_ceil_size_and_the_next_unit_joins_the_first_small_one(sizes):
    n, subsets, k, entropy = sizes
    allocation = partitions(range(n), subsets, k, entropy=entropy)
    lengths = np.array([len(s) for s in allocation.shards]).reshape(k, subsets)
    assert set(lengths.ravel()) <= {n // subsets, -(-n // subsets)}
    for p in range(k):
        first_small = int(np.flatnonzero(lengths[p] == n // subsets)[0])
        assert allocation.next_slot[p] == p * subsets + first_small


@given(SIZES, st.integers(0, 59))
def test_removing_a_keyed_unit_moves_no_other(sizes, gone):
    n, subsets, k, entropy = sizes
    names = [f"person {i}" for i in range(n + 1)]
    kept = names[: gone % (n + 1)] + names[gone % (n + 1) + 1 :]
    relation = Relation.ADD_OR_REMOVE_ONE
    both = [partitions(who, subsets, k, relation=relation, entropy=entropy) for who in (names, kept)]
    before, after = (
        {w: tuple(a.teachers_of(i)) for i, w in enumerate(who)} for who, a in zip((names, kept), both, strict=True)
    )
    assert all(before[w] == after[w] for w in kept)


def test_keyed_draws_are_uniform_and_independent_between_partitions():
    allocation = partitions(range(20_000), 10, 2, relation=Relation.ADD_OR_REMOVE_ONE, entropy=1)
    pairs = allocation.teachers.reshape(-1, 2) - [0, 10]
    table = np.bincount(pairs[:, 0] * 10 + pairs[:, 1], minlength=100)
    # Chi-square with 99 degrees of freedom exceeds 160 with probability 1e-4. The seed is fixed.
    assert ((table - 200) ** 2 / 200).sum() < 160


@pytest.mark.parametrize("relation", list(Relation))
def test_all_records_of_a_unit_share_its_teachers(relation):
    who = ["b", "a", "b", "c", "a", "b"]
    allocation = partitions(who, 2, 3, relation=relation)
    assert allocation.n_units == 3
    assert allocation.unit_of_record.tolist() == [0, 1, 0, 2, 1, 0]
    for shard in allocation.shards:
        taught = {who[i] for i in shard}
        assert sorted(shard) == [i for i, w in enumerate(who) if w in taught]


def test_another_seed_gives_another_allocation_and_the_same_seed_the_same():
    for relation in Relation:
        a, b, c = (partitions(range(50), 5, 2, relation=relation, entropy=e).teachers for e in (1, 1, 2))
        assert np.array_equal(a, b)
        assert not np.array_equal(a, c)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((range(3), 4, 1), "n_teachers=4 is more than the 3 private records"),
        ((["a", "a", "b"], 3, 1), "more than the 2 private records"),
        ((range(3), 0, 1), "n_teachers=0"),
        ((range(3), 2, 0), "n_partitions=0"),
        ((range(3), True, 1), "n_teachers=True"),
    ],
)
def test_bad_sizes_are_refused_in_one_sentence(arguments, message):
    with pytest.raises(InvalidParameterError, match=message):
        partitions(*arguments)


def test_an_unknown_relation_is_refused():
    with pytest.raises(InvalidParameterError, match="use 'replace-one' or 'add-or-remove-one'"):
        partitions(range(3), 1, relation="swap")


def test_an_allocation_must_be_a_zero_one_matrix():
    good = {
        "n_teachers": 2,
        "offsets": np.array([0, 2]),
        "teachers": np.array([0, 1]),
        "unit_of_record": np.array([0]),
        "relation": Relation.REPLACE_ONE,
    }
    assert Allocation(**good).votes_per_unit == 2
    for broken in ({"teachers": np.array([0, 0])}, {"teachers": np.array([0, 2])}, {"offsets": np.array([0, 1])}):
        with pytest.raises(InvalidParameterError):
            Allocation(**(good | broken))


def test_multiplicity_may_differ_between_units():
    allocation = Allocation(
        n_teachers=3,
        offsets=np.array([0, 1, 4]),
        teachers=np.array([2, 0, 1, 2]),
        unit_of_record=np.array([1, 0]),
        relation=Relation.REPLACE_ONE,
    )
    assert allocation.record_multiplicity.tolist() == [3, 1]
    assert allocation.votes_per_unit == 3
    assert [s.tolist() for s in allocation.shards] == [[0], [0], [0, 1]]


def test_identities_mean_the_same_whatever_the_others_are():
    """7 and "7" are one unit, and neither an odd id nor its type moves anybody."""
    relation = Relation.ADD_OR_REMOVE_ONE
    plain = partitions(list(range(40)), 5, 3, relation=relation)
    mixed = partitions([*map(str, range(40)), "A1"], 5, 3, relation=relation)
    numpy_ids = partitions(list(np.arange(40)), 5, 3, relation=relation)
    assert np.array_equal(plain.teachers, numpy_ids.teachers)
    assert np.array_equal(plain.teachers, mixed.teachers[: plain.teachers.size])
    assert partitions(["x", 1, "y", "1"], 2).n_units == 3
    assert partitions(["07", 7, "\ud800"], 2).n_units == 3


@pytest.mark.parametrize("identity", [7.0, 7.5, None, (1, 2)])
def test_identities_that_may_have_been_rounded_are_refused(identity):
    with pytest.raises(InvalidParameterError, match="units must be strings, integers or bytes; got"):
        partitions([1, 2, identity], 2)


EVERY_RELATION = list(Relation)


@pytest.mark.parametrize("relation", EVERY_RELATION)
def test_one_group_is_a_plain_partition(relation):
    plain = partitions(range(203), 20, relation=relation, entropy=3)
    grouped = Allocation.by_group(range(203), np.zeros(203, dtype=int), [20], relation=relation, entropy=3)
    copied = Allocation.upsampled(range(203), np.ones(203, dtype=int), 20, relation=relation, entropy=3)
    assert grouped.teachers.tolist() == plain.teachers.tolist()
    assert copied.teachers.tolist() == plain.teachers.tolist()


@pytest.mark.parametrize("relation", EVERY_RELATION)
def test_teachers_learn_one_group_only(relation):
    groups = np.random.default_rng(0).choice(3, size=400, p=[0.2, 0.3, 0.5])
    found = Allocation.by_group(range(400), groups, [4, 6, 10], relation=relation)
    first = np.array([0, 4, 10, 20])
    for unit, group in enumerate(groups):
        (teacher,) = found.teachers_of(unit)
        assert first[group] <= teacher < first[group + 1]
    assert found.votes_per_unit == 1
    if relation is Relation.REPLACE_ONE:
        sizes = np.array([len(shard) for shard in found.shards])
        for group in range(3):
            assert np.ptp(sizes[first[group] : first[group + 1]]) <= 1


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 60)), min_size=1, max_size=4, unique_by=lambda item: item[0]),
    st.sampled_from(EVERY_RELATION),
    st.integers(0, 10),
)
def test_copies_go_to_distinct_teachers_and_fill_them_evenly(n_teachers, kinds, relation, entropy):
    copies = np.random.default_rng(entropy).permutation(np.repeat(*np.array(kinds).T))
    if copies.max() > n_teachers or copies.sum() < n_teachers:
        return
    # `Allocation` refuses a unit that joins a teacher twice.
    found = Allocation.upsampled(range(len(copies)), copies, n_teachers, relation=relation, entropy=entropy)
    assert found.multiplicity.tolist() == copies.tolist()
    if relation is Relation.REPLACE_ONE:
        assert np.ptp([len(shard) for shard in found.shards]) <= 1


def test_few_pairs_of_teachers_share_many_records():
    copies = np.full(3000, 4)
    found = Allocation.upsampled(range(3000), copies, 100)
    member = np.zeros((3000, 100))
    member[np.repeat(np.arange(3000), 4), found.teachers] = 1
    shared = member.T @ member
    np.fill_diagonal(shared, 0)
    # On average 120 * 3 / 99 = 3.6 of a teacher's 120 records. Neighbours in a row of windows would share 90.
    assert shared.max() < 20


@pytest.mark.parametrize("relation", EVERY_RELATION)
def test_another_record_in_a_slot_moves_nobody(relation):
    names = [f"person {number}" for number in range(60)]
    groups = np.arange(60) % 3
    changed = [*names[:10], "somebody else", *names[11:]]
    rest = np.arange(60) != 10
    for build in (
        lambda who: Allocation.by_group(who, groups, [5, 5, 5], relation=relation),
        lambda who: Allocation.upsampled(who, groups + 1, 30, relation=relation),
    ):
        before, after = build(names), build(changed)
        for unit in np.flatnonzero(rest):
            assert before.teachers_of(unit).tolist() == after.teachers_of(unit).tolist()


def test_an_added_record_moves_nobody_under_add_or_remove_one():
    names = [f"person {number}" for number in range(60)]
    groups = np.arange(61) % 3
    relation = Relation.ADD_OR_REMOVE_ONE
    for build in (
        lambda n: Allocation.by_group([*names, "new"][:n], groups[:n], [5, 5, 5], relation=relation),
        lambda n: Allocation.upsampled([*names, "new"][:n], groups[:n] + 1, 30, relation=relation),
    ):
        before, after = build(60), build(61)
        for unit in range(60):
            assert before.teachers_of(unit).tolist() == after.teachers_of(unit).tolist()


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6), st.integers(6, 300))
def test_teachers_follow_the_shares(shares, n_teachers):
    exact = n_teachers * np.array(shares) / sum(shares)
    names = [str(index) for index in range(len(shares))]
    if exact.min() < 0.5:
        with pytest.raises(InvalidParameterError, match="too small"):
            teachers_of_groups(n_teachers, shares, names)
        return
    found = np.array(teachers_of_groups(n_teachers, shares, names))
    assert found.sum() == n_teachers
    assert found.min() >= 1
    assert np.abs(found - exact).max() < 1 + 1e-9


def test_the_number_of_teachers_that_a_small_group_needs_works():
    with pytest.raises(InvalidParameterError, match=r"'strict' is too small .* at least 50 teachers"):
        teachers_of_groups(10, [1, 99], ["strict", "lax"])
    assert teachers_of_groups(50, [1, 99], ["strict", "lax"]) == (1, 49)


def test_more_groups_than_teachers_are_refused():
    with pytest.raises(InvalidParameterError, match=r"n_teachers=2 is fewer than the 3 groups .* at least 3"):
        teachers_of_groups(2, [1, 1, 1], "abc")


def test_bad_numbers_are_refused():
    with pytest.raises(InvalidParameterError, match="fewer than the 4 copies"):
        Allocation.upsampled(range(10), np.full(10, 4), 3)
    with pytest.raises(InvalidParameterError, match="more than the 10 copies"):
        Allocation.upsampled(range(10), np.ones(10, dtype=int), 11)
    with pytest.raises(InvalidParameterError, match="one group"):
        Allocation.by_group([0, 0, 1], np.array([0, 1, 1]), [1, 1])
    with pytest.raises(InvalidParameterError, match="3 teachers to a group of 2"):
        Allocation.by_group(range(4), np.array([0, 0, 1, 1]), [3, 1])


N = 40
DAY = datetime.date(2024, 1, 1)
UNITS = {
    "floats": [place // 2 + 0.5 for place in range(N)],
    "lists": [[place // 2] for place in range(N)],
    "lists of different lengths": [[1] * (1 + place % 3) for place in range(N)],
    "dates": [DAY + datetime.timedelta(days=place // 2) for place in range(N)],
    "times": pd.Series(pd.date_range("2024-01-01", periods=N, tz="UTC")),
    "signaling NaN": [Decimal("sNaN")] * N,
    "none": [None] * N,
}


# Label moments number the units of `raise` themselves. Lists of different lengths end there without a message.
KINDS = [(kind, bad) for kind in UNITS for bad in ("raise", "zero") if (kind[:9], bad) != ("lists of ", "raise")]


@pytest.mark.parametrize(("kind", "on_bad_record"), KINDS)
def test_units_of_other_types_raise_what_can_be_shown(kind, on_bad_record):
    X = np.random.default_rng(0).normal(size=(N, 2))
    model = LabelMomentsClassifier(epsilon=5, delta=1e-3, classes=[0, 1], on_bad_record=on_bad_record)
    with pytest.raises(DPEnsembleError) as raised:
        model.fit(X, (X[:, 0] > 0).astype(int), X_public=X, units=UNITS[kind])
    assert not isinstance(raised.value, HiddenError)


@pytest.mark.parametrize("units", [[[1], [1, 2]], [0.5, 1.5], [DAY, DAY]])
def test_a_unit_must_be_a_text_a_whole_number_or_bytes(units):
    with pytest.raises(DPEnsembleError, match="must be strings, integers or bytes"):
        unit_numbers(units, 2)


def test_a_unit_is_needed_of_one_record_at_least():
    with pytest.raises(DataError, match="missing"):
        unit_numbers([None, None], 2)
