"""Budgets of records: as a column of a table, or assigned at random in given shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._arrays import Integers
from dpensemble._random import Stream, public_entropy, seed_sequence
from dpensemble.allocation.partition import number_units
from dpensemble.allocation.units import units_or_none
from dpensemble.datasets.columns import as_text
from dpensemble.design.by_group import BudgetRequest


def column_entries(column: pd.Series, request: BudgetRequest) -> NDArray[np.generic]:
    """Return the entries of a budgets column: names if there are levels, else numbers if the entries are numbers."""
    if request.levels is not None:
        return as_text(column).to_numpy(dtype=object)
    # Missing entries and non-numbers stay unchanged. They are refused later, with their row.
    return np.array([_number(entry) for entry in column.tolist()], dtype=object)


def _number(entry: object) -> object:
    try:
        return float(entry)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return entry


def _owners(units: NDArray[np.generic]) -> Integers:
    """Return the number of each record's unit. A record without a unit, which `fit` leaves out, has any number."""
    names, present = units_or_none(units)
    owners = np.zeros(len(present), dtype=np.int64)
    owners[present] = number_units(names[present])[1]
    return owners


def assign_at_random(
    shares: dict[Any, float], n_records: int, units: NDArray[np.generic] | None, seed: int | None
) -> NDArray[np.generic]:
    """Deal levels (or epsilons) to records in the given shares, by position and a public seed."""
    # A record that replaces another keeps its place and budget, so this is for replace-one only. Units are numbered in
    # order of first appearance, as in an allocation.
    owners = np.arange(n_records) if units is None else _owners(units)
    size = int(owners.max()) + 1
    ends = np.floor(np.cumsum(list(shares.values())) * size + 0.5).astype(int)
    # Rounding of shares must not leave a record without a budget.
    ends[-1] = size
    dealt = np.searchsorted(ends, np.arange(size), side="right")
    generator = np.random.default_rng(seed_sequence(public_entropy(seed), Stream.CONSENT))
    entries = np.empty(len(shares), dtype=object)
    entries[:] = list(shares)
    budgets: NDArray[np.generic] = entries[generator.permutation(dealt)][owners]
    return budgets
