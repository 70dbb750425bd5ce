"""Which units teach which teachers: disjoint subsets of the units, subsets by personal budget, or every unit for all.

An `Allocation` is the frozen result of a scheme. Each scheme of partitions matches the neighbouring relation under
which one unit touches exactly its own ``n_partitions`` teachers and no others:

- `_slot_partitions` splits by position, evenly. Replacing the unit in a slot moves nothing else (replace-one).
- `_keyed_partitions` draws each unit's subset from a key and the unit's own identity. Adding or removing a unit moves
  nothing else (add-or-remove-one).

The mismatched pairs touch other teachers too, so they are not offered.

By personal budget, each teacher has one group, or several teachers learn from a record. A unit's group is public, and
an allocation depends on nothing else of the unit. So the matching relations are those of plain partitions, within a
group: replacing a unit by another of its group, adding or removing one moves no other. With a single group both schemes
are `partitions` with one partition, teacher for teacher.

References
----------
Jordon et al. 2019, section 4 (``k`` partitions into ``n`` subsets of size floor or ceil of N/n). Mühl and Boenisch 2022
(personalised PATE), sections 3.1 to 3.3 and appendix B.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import integer_between, member
from dpensemble._entries import Integers
from dpensemble._random import Stream, seed_integer, seed_sequence
from dpensemble._units import number_units
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation


@dataclass(frozen=True, eq=False, kw_only=True)
class Allocation:
    """Which units teach which teachers, as a sparse 0/1 matrix by unit.

    A unit is what the guarantee protects: one record, or all rows of one person. An allocation depends on positions or
    identities and a public seed, never on the content of other records, so it may be published. The exception is a
    `secret` allocation, such as a bootstrap, which must stay private because the draw of units is secret. Its text
    shows no indices.

    Parameters
    ----------
    n_teachers : int
        Number of teachers.
    offsets : ndarray of shape (n_units + 1,)
        Unit ``u`` teaches ``teachers[offsets[u]:offsets[u + 1]]``.
    teachers : ndarray of shape (offsets[-1],)
        Teacher indices, distinct within a unit.
    unit_of_record : ndarray of shape (n_records,)
        The unit that each record belongs to.
    relation : Relation
        The neighbouring relation under which one unit touches only its own teachers.
    next_slot : ndarray or None
        Teachers that an added unit would join, if the scheme knows them. None if an added unit may join any.
    copies : ndarray of shape (offsets[-1],), optional
        How often the unit was drawn for each of its teachers, at least once. None if once for all.
    secret : bool, default=False
        Whether the allocation was drawn in secret. Publishing any part of a secret allocation, `votes_per_unit`
        included, breaks the guarantee.

    Raises
    ------
    InvalidParameterError
        If the arrays do not describe a 0/1 matrix of that size.
    """

    n_teachers: int
    offsets: NDArray[np.int64] = field(repr=False)
    teachers: NDArray[np.int64] = field(repr=False)
    unit_of_record: NDArray[np.int64] = field(repr=False)
    relation: Relation
    next_slot: NDArray[np.int64] | None = field(default=None, repr=False)
    copies: NDArray[np.int64] | None = field(default=None, repr=False)
    secret: bool = False

    def __post_init__(self) -> None:
        inside = self.teachers.size == 0 or (self.teachers.min() >= 0 and self.teachers.max() < self.n_teachers)
        if self.offsets[0] != 0 or self.offsets[-1] != self.teachers.size or np.any(np.diff(self.offsets) < 0):
            raise InvalidParameterError("offsets must rise from 0 to the number of memberships.")
        if not inside:
            raise InvalidParameterError(f"teachers must lie in 0..{self.n_teachers - 1}.")
        pairs = np.repeat(np.arange(self.n_units), self.multiplicity) * self.n_teachers + self.teachers
        if np.unique(pairs).size != pairs.size:
            raise InvalidParameterError("a unit may join a teacher only once.")
        if self.copies is not None and (self.copies.shape != self.teachers.shape or self.copies.min(initial=1) < 1):
            raise InvalidParameterError("copies must have one entry of at least 1 for each membership.")

    @classmethod
    def by_group(
        cls,
        identities: Sequence[Hashable],
        group_of_record: NDArray[np.int64],
        teachers: Sequence[int],
        *,
        relation: Relation = Relation.REPLACE_ONE,
        entropy: int = 0,
    ) -> Allocation:
        """Give each group of units its own teachers, one disjoint subset each, numbered group after group.

        `identities` and `relation` are those of `partitions`, the relation among units of one group. Groups and numbers
        of teachers are public. Under add-or-remove-one these numbers must not depend on the records.
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
                hashed = _identity_hashes([units[member] for member in members.tolist()], entropy)
                column[members] = _salted_hashes(hashed, salt) % np.uint64(n_teachers)
                column[members] += first
            first += n_teachers
        return cls(
            n_teachers=first,
            offsets=np.arange(len(units) + 1, dtype=np.int64),
            teachers=column,
            unit_of_record=unit_of_record,
            relation=relation,
        )

    @classmethod
    def upsampled(
        cls,
        identities: Sequence[Hashable],
        copies_of_record: NDArray[np.int64],
        n_teachers: int,
        *,
        relation: Relation = Relation.REPLACE_ONE,
        entropy: int = 0,
    ) -> Allocation:
        """Let a public number of distinct teachers learn from each unit, the same for all of its records.

        Under replace-one, units are shuffled within their group. In each block of `n_teachers` units the k-th unit
        starts at teacher k and continues by a stride of its block. Strides are drawn among those prime to the number of
        teachers. So every teacher gets floor or ceil of the mean number of units, and few pairs of teachers have many
        in common. The remaining units of the groups are dealt one after the other. Under add-or-remove-one start and
        stride are drawn from each unit's identity.
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
        starts, strides = (
            _dealt(copies, n_teachers, entropy) if by_position else _draw_moves(units, n_teachers, entropy)
        )
        offsets = np.concatenate([[0], np.cumsum(copies)])
        turn = np.arange(offsets[-1]) - np.repeat(offsets[:-1], copies)
        return cls(
            n_teachers=n_teachers,
            offsets=offsets,
            teachers=(np.repeat(starts, copies) + turn * np.repeat(strides, copies)) % n_teachers,
            unit_of_record=unit_of_record,
            relation=relation,
        )

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.unit_of_record.size)

    @property
    def n_units(self) -> int:
        """Number of units: equal to the number of records unless units were declared."""
        return int(self.offsets.size - 1)

    def without(self, unusable: NDArray[np.bool_]) -> Shards:
        """Return the shards without some records. The places and units of these records stay unchanged.

        Parameters
        ----------
        unusable : ndarray of shape (n_records,)
            True for each record that no teacher may learn from. Private.
        """
        if not unusable.any():
            return Shards(self.shards)
        return Shards(tuple(shard[~unusable[shard]] for shard in self.shards))

    @cached_property
    def multiplicity(self) -> NDArray[np.int64]:
        """Number of teachers that each unit touches, shape (n_units,)."""
        return np.diff(self.offsets)

    @cached_property
    def record_multiplicity(self) -> NDArray[np.int64]:
        """Number of teachers that each record touches, shape (n_records,)."""
        return self.multiplicity[self.unit_of_record]

    @cached_property
    def votes_per_unit(self) -> int:
        """Most votes that one unit can change under `relation`: the sensitivity in votes."""
        joins = 0 if self.next_slot is None else self.next_slot.size
        return int(max(self.multiplicity.max(initial=0), joins))

    @property
    def memberships(self) -> NDArray[np.int64]:
        """Teachers of each unit as rows, with the unit that would be added last. All units must have as many."""
        table = self.teachers.reshape(self.n_units, self.votes_per_unit)
        return table if self.next_slot is None else np.vstack([table, self.next_slot])

    def teachers_of(self, unit: int) -> NDArray[np.int64]:
        """Return the teachers that one unit touches."""
        return self.teachers[self.offsets[unit] : self.offsets[unit + 1]]

    @cached_property
    def shards(self) -> tuple[NDArray[np.int64], ...]:
        """Record indices of each teacher, ascending, each as often as it was drawn. A shard may be empty."""
        record_units = self.unit_of_record
        records = np.repeat(np.arange(self.n_records), self.record_multiplicity)
        starts = np.repeat(self.offsets[record_units], self.record_multiplicity)
        first = np.repeat(np.cumsum(self.record_multiplicity) - self.record_multiplicity, self.record_multiplicity)
        memberships = starts + np.arange(records.size) - first
        if self.copies is not None:
            times = self.copies[memberships]
            records, memberships = np.repeat(records, times), np.repeat(memberships, times)
        teachers = self.teachers[memberships]
        order = np.argsort(teachers, kind="stable")
        bounds = np.searchsorted(teachers[order], np.arange(1, self.n_teachers))
        return tuple(np.split(records[order], bounds))


@dataclass(frozen=True, eq=False, repr=False)
class Shards:
    """The records that each teacher learns from. Private if the records that no teacher learns from are private."""

    shards: tuple[NDArray[np.int64], ...]


def partitions(
    identities: Sequence[Hashable],
    n_subsets: int,
    n_partitions: int = 1,
    *,
    relation: Relation = Relation.REPLACE_ONE,
    entropy: int = 0,
) -> Allocation:
    """Partition units by the scheme that matches `relation`.

    Parameters
    ----------
    identities : sequence of length n_records
        The unit of each record. Records with equal identities stay together. Under replace-one only equality
        matters, and units are numbered in order of first appearance. Under add-or-remove-one the draw depends on the
        identity itself, so the identity must not depend on other records. `_units` states which are equal.
    n_subsets : int
        Disjoint subsets in each partition.
    n_partitions : int, default=1
        Independent partitions. Every unit is in exactly one subset of each.
    relation : Relation, default="replace-one"
        Neighbouring relation of the guarantee.
    entropy : int, default=0
        Public seed. Never derive it from the private records.

    Returns
    -------
    Allocation
        With ``n_subsets * n_partitions`` teachers. Teacher ``p * n_subsets + s`` learns from subset ``s`` of ``p``.

    Raises
    ------
    InvalidParameterError
        If a count is below 1, there are fewer units than subsets, or an identity is of another type.

    Examples
    --------
    >>> allocation = partitions(range(10), n_subsets=3, n_partitions=2)
    >>> [len(shard) for shard in allocation.shards]
    [4, 3, 3, 4, 3, 3]
    >>> allocation.votes_per_unit
    2
    """
    n_subsets = integer_between("n_teachers", n_subsets, 1)
    n_partitions = integer_between("n_partitions", n_partitions, 1)
    relation = member("relation", relation, Relation)
    units, unit_of_record = number_units(identities)
    # Under add-or-remove-one their number is private, and subsets without units are allowed.
    if relation is Relation.REPLACE_ONE and len(units) < n_subsets:
        raise InvalidParameterError(
            f"n_teachers={n_subsets} is more than the {len(units)} private records (or units): "
            f"use at most {len(units)}.",
            parameter="n_teachers",
        )
    if relation is Relation.REPLACE_ONE:
        return _slot_partitions(unit_of_record, n_subsets, n_partitions, entropy)
    return _keyed_partitions(units, unit_of_record, n_subsets, n_partitions, entropy)


def _slot_partitions(unit_of_record: Integers, n_subsets: int, n_partitions: int, entropy: int) -> Allocation:
    """Split unit positions evenly and at random. For replace-one.

    Subset sizes are floor or ceil of ``n_units / n_subsets`` and every unit is used. In each partition
    `Allocation.next_slot` is the first subset of the smaller size. The paper's added record ``*`` goes there (Jordon et
    al. 2019, section 4.3).
    """
    n_units = int(unit_of_record.max()) + 1
    columns = np.empty((n_units, n_partitions), dtype=np.int64)
    for index in range(n_partitions):
        generator = np.random.default_rng(seed_sequence(entropy, Stream.ALLOCATION, index))
        columns[:, index] = generator.permutation(n_units) % n_subsets
    first = np.arange(n_partitions, dtype=np.int64) * n_subsets
    return _allocation(columns, n_subsets, unit_of_record, Relation.REPLACE_ONE, first + n_units % n_subsets)


def _keyed_partitions(
    units: Sequence[bytes], unit_of_record: Integers, n_subsets: int, n_partitions: int, entropy: int
) -> Allocation:
    """Draw each unit's subset from its own identity. For add-or-remove-one.

    Subset sizes vary like binomial draws and may be zero. An added unit may
    land in any subset, so `Allocation.next_slot` is None.
    """
    hashed = _identity_hashes(units, entropy)
    columns = np.empty((len(units), n_partitions), dtype=np.int64)
    for index in range(n_partitions):
        salt = seed_integer(entropy, Stream.ALLOCATION, index)
        columns[:, index] = _salted_hashes(hashed, salt) % np.uint64(n_subsets)
    return _allocation(columns, n_subsets, unit_of_record, Relation.ADD_OR_REMOVE_ONE, None)


def _allocation(
    columns: Integers, n_subsets: int, unit_of_record: Integers, relation: Relation, next_slot: Integers | None
) -> Allocation:
    n_units, n_partitions = columns.shape
    columns += np.arange(n_partitions) * n_subsets
    return Allocation(
        n_teachers=n_subsets * n_partitions,
        offsets=np.arange(n_units + 1, dtype=np.int64) * n_partitions,
        teachers=columns.ravel(),
        unit_of_record=unit_of_record,
        relation=relation,
        next_slot=next_slot,
    )


def _identity_hashes(units: Sequence[bytes], entropy: int) -> NDArray[np.uint64]:
    """Return a keyed hash of each unit, from the public seed and the unit's own identity alone."""
    key = hashlib.blake2b(str(entropy).encode()).digest()
    digests = b"".join(hashlib.blake2b(unit, digest_size=8, key=key).digest() for unit in units)
    return np.frombuffer(digests, dtype=np.uint64)


def _salted_hashes(hashed: NDArray[np.uint64], salt: int) -> NDArray[np.uint64]:
    """Return hashes that look independent for each salt."""
    return _mix(hashed ^ _mix(np.array([salt], dtype=np.uint64)))


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit integers one by one (the finaliser of SplitMix64)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def everyone(
    identities: Sequence[Hashable], n_teachers: int, *, relation: Relation = Relation.REPLACE_ONE
) -> Allocation:
    """Let all teachers learn from every unit, which suits teachers that are themselves private.

    Sound under either relation: a changed unit touches all teachers and moves no other unit. Identities are strings,
    integers or bytes, one for each record.

    Examples
    --------
    >>> everyone(range(3), 2).shards
    (array([0, 1, 2]), array([0, 1, 2]))
    """
    n_teachers = integer_between("n_teachers", n_teachers, 1)
    units, unit_of_record = number_units(identities)
    return Allocation(
        n_teachers=n_teachers,
        offsets=np.arange(len(units) + 1, dtype=np.int64) * n_teachers,
        teachers=np.tile(np.arange(n_teachers, dtype=np.int64), len(units)),
        unit_of_record=unit_of_record,
        relation=member("relation", relation, Relation),
        next_slot=np.arange(n_teachers, dtype=np.int64),
    )


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
    hashed = _identity_hashes(units, entropy)
    coprime = _coprime(n_teachers)
    starts, strides = (
        _salted_hashes(hashed, seed_integer(entropy, Stream.ALLOCATION, index)) % np.uint64(size)
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
