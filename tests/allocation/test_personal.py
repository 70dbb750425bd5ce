import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpensemble.allocation import partitions
from dpensemble.allocation.personal import grouped_partitions, teachers_of_groups, upsampled_partition
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation

RELATIONS = list(Relation)


@pytest.mark.parametrize("relation", RELATIONS)
def test_one_group_is_a_plain_partition(relation):
    plain = partitions(range(203), 20, relation=relation, entropy=3)
    grouped = grouped_partitions(range(203), np.zeros(203, dtype=int), [20], relation=relation, entropy=3)
    copied = upsampled_partition(range(203), np.ones(203, dtype=int), 20, relation=relation, entropy=3)
    assert grouped.teachers.tolist() == plain.teachers.tolist()
    assert copied.teachers.tolist() == plain.teachers.tolist()


@pytest.mark.parametrize("relation", RELATIONS)
def test_teachers_learn_one_group_only(relation):
    groups = np.random.default_rng(0).choice(3, size=400, p=[0.2, 0.3, 0.5])
    found = grouped_partitions(range(400), groups, [4, 6, 10], relation=relation)
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
    st.sampled_from(RELATIONS),
    st.integers(0, 10),
)
def test_copies_go_to_distinct_teachers_and_fill_them_evenly(n_teachers, kinds, relation, entropy):
    copies = np.random.default_rng(entropy).permutation(np.repeat(*np.array(kinds).T))
    if copies.max() > n_teachers or copies.sum() < n_teachers:
        return
    # `Allocation` refuses a unit that joins a teacher twice.
    found = upsampled_partition(range(len(copies)), copies, n_teachers, relation=relation, entropy=entropy)
    assert found.multiplicity.tolist() == copies.tolist()
    if relation is Relation.REPLACE_ONE:
        assert np.ptp([len(shard) for shard in found.shards]) <= 1


def test_few_pairs_of_teachers_share_many_records():
    copies = np.full(3000, 4)
    found = upsampled_partition(range(3000), copies, 100)
    member = np.zeros((3000, 100))
    member[np.repeat(np.arange(3000), 4), found.teachers] = 1
    shared = member.T @ member
    np.fill_diagonal(shared, 0)
    # On average 120 * 3 / 99 = 3.6 of a teacher's 120 records. Neighbours in a row of windows would share 90.
    assert shared.max() < 20


@pytest.mark.parametrize("relation", RELATIONS)
def test_another_record_in_a_slot_moves_nobody(relation):
    names = [f"person {number}" for number in range(60)]
    groups = np.arange(60) % 3
    changed = [*names[:10], "somebody else", *names[11:]]
    rest = np.arange(60) != 10
    for build in (
        lambda who: grouped_partitions(who, groups, [5, 5, 5], relation=relation),
        lambda who: upsampled_partition(who, groups + 1, 30, relation=relation),
    ):
        before, after = build(names), build(changed)
        for unit in np.flatnonzero(rest):
            assert before.teachers_of(unit).tolist() == after.teachers_of(unit).tolist()


def test_an_added_record_moves_nobody_under_add_or_remove_one():
    names = [f"person {number}" for number in range(60)]
    groups = np.arange(61) % 3
    relation = Relation.ADD_OR_REMOVE_ONE
    for build in (
        lambda n: grouped_partitions([*names, "new"][:n], groups[:n], [5, 5, 5], relation=relation),
        lambda n: upsampled_partition([*names, "new"][:n], groups[:n] + 1, 30, relation=relation),
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
        upsampled_partition(range(10), np.full(10, 4), 3)
    with pytest.raises(InvalidParameterError, match="more than the 10 copies"):
        upsampled_partition(range(10), np.ones(10, dtype=int), 11)
    with pytest.raises(InvalidParameterError, match="one group"):
        grouped_partitions([0, 0, 1], np.array([0, 1, 1]), [1, 1])
    with pytest.raises(InvalidParameterError, match="3 teachers to a group of 2"):
        grouped_partitions(range(4), np.array([0, 0, 1, 1]), [3, 1])
