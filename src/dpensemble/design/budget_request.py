"""Budgets of records, parsed from the command line.

A group is written ``epsilon``, ``name=epsilon``, ``epsilon:share`` or ``name=epsilon:share``, and a share as ``0.25``
or ``25%``. Commas separate groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpensemble._checks import real_between
from dpensemble.allocation.budget_groups import personal_budgets
from dpensemble.design.influence import Census
from dpensemble.errors import InvalidParameterError

_EXAMPLE = '"high=0.5:20%,low=2:80%"'
_SHARES_OFF = 1e-6


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
        return declared_census(self.shares, self.levels, delta)


def declared_census(shares: dict[Any, float], levels: dict[str, float] | None, delta: float) -> Census:
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
