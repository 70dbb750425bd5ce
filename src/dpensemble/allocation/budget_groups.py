"""Personal budgets: the privacy loss that each record's owner allows, how users state budgets, and groups by budget.

On the command line a group is written ``epsilon``, ``name=epsilon``, ``epsilon:share`` or ``name=epsilon:share``, and a
share as ``0.25`` or ``25%``. Commas separate groups.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpensemble._checks import delta_of, is_missing, real_between, shown
from dpensemble._entries import require_readable
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Budget

_MOST_GROUPS = 1000
_EXAMPLE = '"high=0.5:20%,low=2:80%"'
_SHARES_OFF = 1e-6


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Groups of records by budget, the strictest first. Public.

    Parameters
    ----------
    names : tuple of str
        Names of the groups.
    budgets : tuple of Budget
        Their budgets, epsilons ascending.
    shares : tuple of float
        Numbers of records, or any positive shares.
    """

    names: tuple[str, ...]
    budgets: tuple[Budget, ...]
    shares: tuple[float, ...]

    @property
    def epsilons(self) -> NDArray[np.float64]:
        """Epsilon of each group."""
        return np.array([budget.epsilon for budget in self.budgets])

    @property
    def baselines(self) -> dict[str, float]:
        """Epsilons of one budget for all: the ``minimum``, the ``average`` over records and the ``maximum``."""
        return {
            "minimum": float(self.epsilons.min()),
            "average": float(np.average(self.epsilons, weights=self.shares)),
            "maximum": float(self.epsilons.max()),
        }


@dataclass(frozen=True, kw_only=True)
class BudgetRequest:
    """The source of the records' budgets: a private column, or shares of groups that are assigned at random.

    `levels` has the epsilon of each consent level, or is None if records have epsilons. `shares` has the share of the
    records with each level (or epsilon).
    """

    column: str | None
    levels: dict[str, float] | None
    shares: dict[Any, float] | None

    def census(self, delta: float) -> Census:
        """Return the groups by their declared shares."""
        if self.shares is None:
            raise InvalidParameterError(
                f"budgets={self.column!r} names a column: give budgets and shares, such as {_EXAMPLE}."
            )
        return _declared_census(self.shares, self.levels, delta)


def _declared_census(shares: dict[Any, float], levels: dict[str, float] | None, delta: float) -> Census:
    """Return groups of records by declared shares. Levels with the same epsilon count together."""
    personal = personal_budgets(list(shares), delta=delta, levels=levels)
    together = np.bincount(personal.group_of_record, weights=list(shares.values()))
    return Census(names=personal.names, budgets=personal.budgets, shares=tuple(together.tolist()))


def parse_budgets(budgets: str | None, levels: str | None = None) -> BudgetRequest | None:
    """Parse the two options.

    Parameters
    ----------
    budgets : str or None
        A column, or groups with shares, which are then assigned at random.
    levels : str or None
        The meaning of the column's entries.

    Returns
    -------
    BudgetRequest or None
        None if neither is given.

    Raises
    ------
    InvalidParameterError
        If a group cannot be parsed, shares do not add up to 1, or the options do not fit together.

    Examples
    --------
    >>> parse_budgets("consent", "high=0.5, low=2")
    BudgetRequest(column='consent', levels={'high': 0.5, 'low': 2.0}, shares=None)
    >>> parse_budgets("0.5:25%, 2:75%").shares
    {0.5: 0.25, 2.0: 0.75}
    """
    if budgets is None:
        if levels is not None:
            raise InvalidParameterError(
                f"levels={levels!r} gives the meaning of the entries of a budgets column: name the column by "
                "--budgets COLUMN."
            )
        return None
    if levels is not None:
        if ":" in budgets:
            raise InvalidParameterError(
                f"budgets={budgets!r} gives levels and shares itself: drop --levels, or name a column."
            )
        return _request(budgets, levels, "levels")
    if ":" in budgets:
        return _request(None, budgets, "budgets")
    if "=" in budgets or "," in budgets:
        raise InvalidParameterError(
            f"budgets={budgets!r} must name a column, or give the share of the records with each budget: write "
            f"{_EXAMPLE}."
        )
    return BudgetRequest(column=budgets, levels=None, shares=None)


def _request(column: str | None, text: str, parameter: str) -> BudgetRequest:
    groups = [_group(part.strip(), text, parameter) for part in text.split(",")]
    has_name, has_share = {name is not None for name, _, _ in groups}, {share is not None for _, _, share in groups}
    if len(has_name) > 1 or len(has_share) > 1:
        raise InvalidParameterError(
            f"{parameter}={text!r} must name all of its groups or none, and give a share for all or none."
        )
    if has_name == {False} and has_share == {False}:
        raise InvalidParameterError(f'{parameter}={text!r} lacks names: write "high=0.5,low=2".')
    keys = [epsilon if name is None else name for name, epsilon, _ in groups]
    if len(set(keys)) < len(keys):
        raise InvalidParameterError(f"{parameter}={text!r} gives a group twice: give each once.")
    total = math.fsum(share for _, _, share in groups if share is not None)
    if has_share == {True} and abs(total - 1) > _SHARES_OFF:
        raise InvalidParameterError(
            f"{parameter}={text!r} has shares that add up to {100 * total:.6g}%: make them add up to 100%."
        )
    return BudgetRequest(
        column=column,
        levels={name: epsilon for name, epsilon, _ in groups if name is not None} or None,
        shares={key: share for key, (_, _, share) in zip(keys, groups, strict=True) if share is not None} or None,
    )


def _group(part: str, text: str, parameter: str) -> tuple[str | None, float, float | None]:
    """Parse ``name=epsilon:share``. The name and the share may be missing."""
    rest, colon, share_text = part.rpartition(":") if ":" in part else (part, "", "")
    name, equals, epsilon_text = rest.rpartition("=")
    name = name.strip()
    try:
        epsilon = float(epsilon_text)
        percent = share_text.strip().endswith("%")
        share = float(share_text.strip().removesuffix("%")) / (100 if percent else 1) if colon else None
        readable = bool(name) == bool(equals) and (share is None or 0 < share <= 1)
    except ValueError:
        readable = False
    if not readable:
        raise InvalidParameterError(
            f"{parameter}={text!r} has the part {part!r}, which is not name=epsilon:share such as high=0.5:20%."
        )
    return name or None, real_between(parameter, epsilon, 1e-9, 1e12), share
