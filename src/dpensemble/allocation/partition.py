"""One or several partitions of the units into disjoint subsets, one teacher a subset.

Each scheme matches the neighbouring relation under which one unit touches exactly its own ``n_partitions`` teachers
and no others:

- `slot_partitions` splits by position, evenly. Replacing the unit in a slot moves nothing else (replace-one).
- `keyed_partitions` draws each unit's subset from a key and the unit's own identity. Adding or removing a unit moves
  nothing else (add-or-remove-one).

The mismatched pairs touch other teachers too, so they are not offered.

References
----------
Jordon et al. 2019, section 4 (``k`` partitions into ``n`` subsets of size floor or ceil of N/n).
"""

import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._arrays import Integers
from dpensemble._checks import integer_between, member
from dpensemble._identity import ID_WORDS, identity
from dpensemble._random import Stream, seed_integer, seed_sequence
from dpensemble.allocation.base import Allocation
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation


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
        identity itself, so the identity must not depend on other records. `_identity` states which are equal.
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
        return slot_partitions(unit_of_record, n_subsets, n_partitions, entropy)
    return keyed_partitions(units, unit_of_record, n_subsets, n_partitions, entropy)


def slot_partitions(unit_of_record: Integers, n_subsets: int, n_partitions: int, entropy: int) -> Allocation:
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


def keyed_partitions(
    units: Sequence[bytes], unit_of_record: Integers, n_subsets: int, n_partitions: int, entropy: int
) -> Allocation:
    """Draw each unit's subset from its own identity. For add-or-remove-one.

    Subset sizes vary like binomial draws and may be zero. An added unit may
    land in any subset, so `Allocation.next_slot` is None.
    """
    hashed = hashed_identities(units, entropy)
    columns = np.empty((len(units), n_partitions), dtype=np.int64)
    for index in range(n_partitions):
        salt = seed_integer(entropy, Stream.ALLOCATION, index)
        columns[:, index] = mixed(hashed, salt) % np.uint64(n_subsets)
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


def number_units(identities: Sequence[Hashable] | NDArray[np.generic]) -> tuple[Sequence[bytes], Integers]:
    """Give numbers to distinct identities in order of first appearance."""
    # Ten million whole numbers need no dictionary.
    if isinstance(identities, range):
        return _Written(np.asarray(identities)), np.arange(len(identities))
    if isinstance(identities, np.ndarray) and identities.dtype.kind in "iu":
        values, first, places = np.unique(identities, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return _Written(values[order]), np.argsort(order)[places]
    numbers: dict[bytes, int] = {}
    unit_of_record = np.array([numbers.setdefault(_canonical(x), len(numbers)) for x in identities], dtype=np.int64)
    return list(numbers), unit_of_record


class _Written(Sequence[bytes]):
    """Distinct whole numbers as identities, converted to bytes on access."""

    def __init__(self, values: Integers) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _Written(self._values[index])
        return _canonical(int(self._values[index]))


def hashed_identities(units: Sequence[bytes], entropy: int) -> NDArray[np.uint64]:
    """Return a keyed hash of each unit, from the public seed and the unit's own identity alone."""
    key = hashlib.blake2b(str(entropy).encode()).digest()
    digests = b"".join(hashlib.blake2b(unit, digest_size=8, key=key).digest() for unit in units)
    return np.frombuffer(digests, dtype=np.uint64)


def mixed(hashed: NDArray[np.uint64], salt: int) -> NDArray[np.uint64]:
    """Return hashes that look independent for each salt."""
    return _mix(hashed ^ _mix(np.array([salt], dtype=np.uint64)))


def _canonical(entry: Hashable) -> bytes:
    """Return bytes that depend on one identity alone. 7 and "7" are the same unit."""
    written = identity(entry)
    if written is None:
        # Fractions are refused too, since whole numbers that other units turned into floats may have lost digits.
        raise InvalidParameterError(f"units must be {ID_WORDS}; got {type(entry).__name__}.")
    return written


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit integers one by one (the finaliser of SplitMix64)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
