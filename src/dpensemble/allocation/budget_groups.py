"""Personal budgets: the privacy loss that each record's owner allows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import delta_of, is_missing, real_between, shown
from dpensemble._entries import require_readable
from dpensemble.budget import Budget
from dpensemble.errors import BudgetError, DataError, InvalidParameterError

_MOST_GROUPS = 1000


@dataclass(frozen=True, eq=False, kw_only=True)
class PersonalBudgets:
    """Budgets of groups of records, the strictest first. Group membership is assumed to be public."""

    names: tuple[str, ...]
    # Epsilons ascend, all at one delta. Records with equal epsilons form one group.
    budgets: tuple[Budget, ...]
    group_of_record: NDArray[np.int64]

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.budgets)

    @property
    def epsilons(self) -> NDArray[np.float64]:
        """Epsilon of each group, ascending."""
        return np.array([budget.epsilon for budget in self.budgets])

    def group_of_unit(self, unit_of_record: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the group of each unit. All records of a unit must have one budget."""
        groups = np.empty(int(unit_of_record.max()) + 1, dtype=np.int64)
        groups[unit_of_record] = self.group_of_record
        other = np.flatnonzero(groups[unit_of_record] != self.group_of_record)
        if other.size:
            raise DataError(
                f"budgets differ between records of one unit (the first in row {other[0]}, counting from 0): "
                "give all records of a unit the strictest of them."
            )
        return groups


def personal_budgets(
    values: ArrayLike, *, delta: float, levels: Mapping[Any, float] | None = None, declared: Iterable[Any] | None = None
) -> PersonalBudgets:
    """Group records by their budgets, at most a thousand groups.

    `values` are the records' epsilons or, with `levels`, the names of their consent levels. `declared` contains all
    values that a record may have, even if no record has them. By default it is read from `values`.
    """
    delta = delta_of(delta)
    if levels is not None and not isinstance(levels, Mapping):
        raise InvalidParameterError(
            f"levels must map names to epsilons, e.g. {{'low': 2.0, 'high': 0.5}}; got {shown(levels)}."
        )
    require_readable("budgets", values)
    items = np.asarray(values, dtype=object)
    if items.ndim != 1 or not items.size:
        raise DataError(f"budgets must have one entry for each record; got the shape {items.shape}.")
    names = (
        None
        if levels is None
        else {level: real_between(f"levels[{level!r}]", levels[level], 1e-9, 1e12) for level in levels}
    )
    read = _plain_epsilons if names is None else partial(_epsilons_of_levels, levels=names)
    epsilons = read(items)
    distinct = np.unique(epsilons if declared is None else read(np.array(list(declared), dtype=object)))
    group_of_record = np.searchsorted(distinct, epsilons).clip(max=len(distinct) - 1)
    undeclared = np.flatnonzero(distinct[group_of_record] != epsilons)
    if undeclared.size:
        raise BudgetError(
            f"budgets is not one of the declared ones in row {undeclared[0]}, counting from 0: declare a share "
            "for every budget that a record may have."
        )
    if len(distinct) > _MOST_GROUPS:
        raise BudgetError(
            f"budgets has {len(distinct)} values, but at most {_MOST_GROUPS} are allowed: round them down to fewer."
        )
    return PersonalBudgets(
        names=_names(distinct, names),
        budgets=tuple(Budget(epsilon=epsilon, delta=delta) for epsilon in distinct.tolist()),
        group_of_record=group_of_record,
    )


def _plain_epsilons(items: NDArray[Any]) -> NDArray[np.float64]:
    epsilons = np.empty(len(items))
    for row, item in enumerate(items.tolist()):
        epsilon = _epsilon_or_none(item)
        if epsilon is None:
            # If the wrong column was named, this is a private entry, so it is not shown.
            what = "missing" if is_missing(item) else "not an epsilon"
            raise BudgetError(
                f"budgets is {what} in row {row}, counting from 0; every record needs an epsilon from 1e-09 to "
                "1e+12 (or give levels, which define the names)."
            )
        epsilons[row] = epsilon
    return epsilons


def _epsilon_or_none(item: object) -> float | None:
    # Its error shows the entry, and would stay in the context of any error that is raised while it is handled.
    try:
        return real_between("budgets", item, 1e-9, 1e12)
    except InvalidParameterError:
        return None


def _epsilons_of_levels(items: NDArray[Any], levels: Mapping[Any, float]) -> NDArray[np.float64]:
    epsilons = np.empty(len(items))
    for row, item in enumerate(items.tolist()):
        if is_missing(item) or not isinstance(item, Hashable) or item not in levels:
            what = "missing" if is_missing(item) else "another name"
            raise BudgetError(
                f"budgets is {what} in row {row}, counting from 0, which is not in levels={list(levels)!r}: "
                "give every record one of them."
            )
        epsilons[row] = levels[item]
    return epsilons


def _names(epsilons: NDArray[np.float64], levels: Mapping[Any, float] | None) -> tuple[str, ...]:
    """Return the level of each group, or its epsilon with enough digits to distinguish it from the others."""
    if levels is not None:
        return tuple(
            ", ".join(str(level) for level, value in levels.items() if value == epsilon)
            for epsilon in epsilons.tolist()
        )
    for digits in (4, 6, 9):
        names = tuple(f"{epsilon:.{digits}g}" for epsilon in epsilons.tolist())
        if len(set(names)) == len(names):
            return names
    return tuple(map(repr, epsilons.tolist()))


def whole_number_ratios(ratios: ArrayLike, precision: float, largest: int) -> tuple[int, ...]:
    """Return the smallest whole numbers, at most `largest`, that are proportional to `ratios` to a precision."""
    precision = real_between("precision", precision, 1e-6, 0.5)
    relative = np.asarray(ratios, dtype=np.float64)
    relative = relative / relative.min()
    best, best_error = None, np.inf
    for least in range(1, max(1, int(largest / relative.max() + 0.5)) + 1):
        numbers = np.maximum(np.floor(relative * least + 0.5), 1)
        error = float(np.abs(numbers / (relative * least) - 1).max())
        if numbers.max() > largest:
            break
        if error < best_error:
            best, best_error = numbers, error
        if error <= precision * (1 + 1e-9):
            return tuple(int(number) for number in numbers)
    needed = int(np.ceil(relative.max()))
    if best is None:
        raise InvalidParameterError(
            f"budgets whose parameters are {relative.max():.4g} to 1 need {needed} copies of a record, more than "
            f"{largest}: use n_teachers={needed} or more, or bring the budgets closer together."
        )
    raise InvalidParameterError(
        f"precision={precision:g} needs more copies of a record than n_teachers={largest}; "
        f"precision={_up(best_error):g} would do with {int(best.max())}."
    )


def _up(error: float) -> float:
    """Return an error rounded up to three digits."""
    scale = 10.0 ** (np.floor(np.log10(max(error, 1e-6))) - 2)
    return float(np.ceil(error / scale) * scale)
