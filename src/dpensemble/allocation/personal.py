"""Allocations by personal budget: each teacher has one group, or several teachers learn from a record.

A unit's group is public, and an allocation depends on nothing else of the unit. So the matching relations are those of
plain partitions, within a group: replacing a unit by another of its group, adding or removing one moves no other.

With a single group both schemes are `partitions` with one partition, teacher for teacher.

References
----------
Mühl and Boenisch 2022 (personalised PATE), sections 3.1 to 3.3 and appendix B.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import integer_between
from dpensemble._random import Stream, seed_integer, seed_sequence
from dpensemble.allocation.base import Allocation
from dpensemble.allocation.partition import hashed_identities, mixed, number_units
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation


def teachers_of_groups(n_teachers: int, shares: ArrayLike, names: Sequence[str]) -> tuple[int, ...]:
    """Divide teachers among groups in proportion to public shares: at least one each, by largest remainders.

    Raises if there are more groups than teachers, or a group is too small for half a teacher.
    """
    n_teachers = integer_between("n_teachers", n_teachers, 1)
    weights = np.asarray(shares, dtype=np.float64)
    if len(weights) > n_teachers:
        raise InvalidParameterError(
            f"n_teachers={n_teachers} is fewer than the {len(weights)} groups of budgets: use at least "
            f"{len(weights)} teachers, or fewer different budgets.",
            parameter="n_teachers",
        )
    exact = n_teachers * weights / weights.sum()
    smallest = int(np.argmin(exact))
    if exact[smallest] < 0.5:
        needed = int(np.ceil(0.5 * weights.sum() / weights[smallest]))
        instead = (
            "give its records the budget of the next stricter group" if smallest else "use upsampling, which needs none"
        )
        raise InvalidParameterError(
            f"the group of budgets {names[smallest]!r} is too small for one of n_teachers={n_teachers}: use at "
            f"least {needed} teachers, or {instead}.",
            parameter="n_teachers",
        )
    teachers = np.maximum(np.floor(exact), 1).astype(np.int64)
    while teachers.sum() < n_teachers:
        teachers[int(np.argmax(exact - teachers))] += 1
    while teachers.sum() > n_teachers:
        teachers[int(np.argmin(np.where(teachers > 1, exact - teachers, np.inf)))] -= 1
    return tuple(teachers.tolist())


def grouped_partitions(
    identities: Sequence[Hashable],
    group_of_record: NDArray[np.int64],
    teachers: Sequence[int],
    *,
    relation: Relation = Relation.REPLACE_ONE,
    entropy: int = 0,
) -> Allocation:
    """Give each group of units its own teachers, one disjoint subset each, numbered group after group.

    `identities` and `relation` are those of `partitions`, the relation among units of one group. Groups and numbers of
    teachers are public. Under add-or-remove-one these numbers must not depend on the records.
    """
    units, unit_of_record = number_units(identities)
    groups = _group_of_unit(unit_of_record, group_of_record)
    column = np.empty(len(units), dtype=np.int64)
    first = 0
    for index, n_teachers in enumerate(teachers):
        members = np.flatnonzero(groups == index)
        if relation is Relation.REPLACE_ONE:
            if len(members) < n_teachers:
                raise InvalidParameterError(
                    f"n_teachers gives {n_teachers} teachers to a group of {len(members)} records (or units): "
                    "use fewer teachers."
                )
            generator = np.random.default_rng(seed_sequence(entropy, Stream.ALLOCATION, index))
            column[members] = generator.permutation(len(members)) % n_teachers + first
        else:
            salt = seed_integer(entropy, Stream.ALLOCATION, index)
            hashed = hashed_identities([units[member] for member in members.tolist()], entropy)
            column[members] = mixed(hashed, salt) % np.uint64(n_teachers)
            column[members] += first
        first += n_teachers
    return Allocation(
        n_teachers=first,
        offsets=np.arange(len(units) + 1, dtype=np.int64),
        teachers=column,
        unit_of_record=unit_of_record,
        relation=relation,
    )


def upsampled_partition(
    identities: Sequence[Hashable],
    copies_of_record: NDArray[np.int64],
    n_teachers: int,
    *,
    relation: Relation = Relation.REPLACE_ONE,
    entropy: int = 0,
) -> Allocation:
    """Let a public number of distinct teachers learn from each unit, the same for all of its records.

    Under replace-one, units are shuffled within their group. In each block of `n_teachers` units the k-th unit starts
    at teacher k and continues by a stride of its block. Strides are drawn among those prime to the number of teachers.
    So every teacher gets floor or ceil of the mean number of units, and few pairs of teachers have many in common.
    The remaining units of the groups are dealt one after the other. Under add-or-remove-one start and stride are drawn
    from each unit's identity.
    """
    units, unit_of_record = number_units(identities)
    copies = _group_of_unit(unit_of_record, copies_of_record)
    if int(copies.max()) > n_teachers:
        raise InvalidParameterError(
            f"n_teachers={n_teachers} is fewer than the {copies.max()} copies of a record: use more.",
            parameter="n_teachers",
        )
    if int(copies.sum()) < n_teachers and relation is Relation.REPLACE_ONE:
        raise InvalidParameterError(
            f"n_teachers={n_teachers} is more than the {copies.sum()} copies of all records: use fewer.",
            parameter="n_teachers",
        )
    by_position = relation is Relation.REPLACE_ONE
    starts, strides = _dealt(copies, n_teachers, entropy) if by_position else _draw_moves(units, n_teachers, entropy)
    offsets = np.concatenate([[0], np.cumsum(copies)])
    turn = np.arange(offsets[-1]) - np.repeat(offsets[:-1], copies)
    return Allocation(
        n_teachers=n_teachers,
        offsets=offsets,
        teachers=(np.repeat(starts, copies) + turn * np.repeat(strides, copies)) % n_teachers,
        unit_of_record=unit_of_record,
        relation=relation,
    )


def _dealt(copies: NDArray[np.int64], n_teachers: int, entropy: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first teacher and stride of each unit, by position."""
    starts, strides = np.empty(len(copies), dtype=np.int64), np.ones(len(copies), dtype=np.int64)
    next_teacher = 0
    for index, number in enumerate(np.unique(copies).tolist()):
        members = np.flatnonzero(copies == number)
        generator = np.random.default_rng(seed_sequence(entropy, Stream.ALLOCATION, index))
        rank = generator.permutation(len(members))
        starts[members] = rank % n_teachers
        n_blocks = len(members) // n_teachers
        drawn = generator.choice(_coprime(n_teachers), size=n_blocks + 1)
        strides[members] = drawn[rank // n_teachers]
        left = rank >= n_blocks * n_teachers
        starts[members[left]] = (next_teacher + (rank[left] % n_teachers) * number) % n_teachers
        strides[members[left]] = 1
        next_teacher += int(left.sum()) * number
    return starts, strides


def _draw_moves(units: Sequence[bytes], n_teachers: int, entropy: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return first teacher and stride of each unit, from its identity."""
    hashed = hashed_identities(units, entropy)
    coprime = _coprime(n_teachers)
    starts, strides = (
        mixed(hashed, seed_integer(entropy, Stream.ALLOCATION, index)) % np.uint64(size)
        for index, size in enumerate((n_teachers, len(coprime)))
    )
    return starts.astype(np.int64), coprime[strides.astype(np.int64)]


def _coprime(n_teachers: int) -> NDArray[np.int64]:
    numbers = np.arange(1, max(2, n_teachers))
    return numbers[np.gcd(numbers, n_teachers) == 1]


def _group_of_unit(unit_of_record: NDArray[np.int64], of_record: NDArray[np.int64]) -> NDArray[np.int64]:
    groups = np.empty(int(unit_of_record.max()) + 1, dtype=np.int64)
    groups[unit_of_record] = of_record
    if np.any(groups[unit_of_record] != of_record):
        raise InvalidParameterError("the records of one unit must be in one group.")
    return groups
