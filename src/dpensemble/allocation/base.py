"""The frozen result of an allocation scheme."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.unit_of_record.size)

    @property
    def n_units(self) -> int:
        """Number of units: equal to the number of records unless units were declared."""
        return int(self.offsets.size - 1)

    def without(self, unusable: NDArray[np.bool_]) -> Taught:
        """Return the shards without some records. The places and units of these records stay unchanged.

        Parameters
        ----------
        unusable : ndarray of shape (n_records,)
            True for each record that no teacher may learn from. Private.
        """
        if not unusable.any():
            return Taught(self.shards)
        return Taught(tuple(shard[~unusable[shard]] for shard in self.shards))

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
class Taught:
    """The records that each teacher learns from. Private if the records that no teacher learns from are private."""

    shards: tuple[NDArray[np.int64], ...]
