"""Every unit teaches every teacher."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from dpensemble._checks import integer_between, member
from dpensemble.allocation.base import Allocation
from dpensemble.allocation.partition import number_units
from dpensemble.relations import Relation


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
