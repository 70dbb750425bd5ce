"""Columns whose groups a quality is stated for: declared values, and the group of each record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dpensemble._arrays import Integers
from dpensemble.datasets.columns import as_text
from dpensemble.errors import InvalidParameterError
from dpensemble.quality.release import OTHER_GROUP

_MOST_GROUPS = 20


def parse_groups(text: str | None) -> dict[str, tuple[str, ...] | None]:
    """Return the values of each group column, None to take those of the public rows.

    Examples
    --------
    >>> parse_groups("sex=f|m, ward")
    {'sex': ('f', 'm'), 'ward': None}
    """
    groups: dict[str, tuple[str, ...] | None] = {}
    for part in [] if text is None else text.split(","):
        column, equals, values = (one.strip() for one in part.partition("="))
        if not column or column in groups or (equals and not values):
            raise InvalidParameterError(
                f"groups={text!r} is not a list of columns: write each once, such as sex=f|m,ward.", parameter="groups"
            )
        groups[column] = tuple(one.strip() for one in values.split("|")) if equals else None
    return groups


def declared_groups(
    groups: Mapping[str, Sequence[str] | None], public: pd.DataFrame | None
) -> dict[str, tuple[str, ...]]:
    """Return the values of each group column, those of the public rows where none are declared. Checks all of them."""
    declared = {}
    for column, values in groups.items():
        if values is None and (public is None or column not in public):
            raise InvalidParameterError(
                f"groups={column!r} is not a column of the public table: declare its values, such as {column}=a|b.",
                parameter="groups",
            )
        if values is None and public is not None:
            values = sorted(set(as_text(public[column]).dropna()))  # noqa: PLW2901
        names = tuple(str(value) for value in values or ())
        if not 1 <= len(names) <= _MOST_GROUPS or len({_plain(name) for name in names}) < len(names):
            raise InvalidParameterError(
                f"groups={column!r} must have 1 to {_MOST_GROUPS} different values, and has {len(names):,}: declare "
                f"some of them, such as {column}=a|b.",
                parameter="groups",
            )
        if OTHER_GROUP in names:
            raise InvalidParameterError(
                f"groups={column!r} declares the value {OTHER_GROUP!r}, the group of all other values: leave it out.",
                parameter="groups",
            )
        declared[column] = names
    return declared


def group_places(entries: pd.Series, values: Sequence[str]) -> Integers:
    """Return the place of each record's group, the last one for all other values. Each record is read separately."""
    place_of = {_plain(value): place for place, value in enumerate(values)}
    texts = as_text(entries)
    return np.array(
        [len(values) if pd.isna(text) else place_of.get(_plain(str(text)), len(values)) for text in texts],
        dtype=np.int64,
    )


def _plain(text: str) -> str:
    """Return a text without spaces around it, and a number in one form: 5.0 as 5."""
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return f"{number:.12g}" if math.isfinite(number) else text
