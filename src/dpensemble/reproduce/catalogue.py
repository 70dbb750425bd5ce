"""All tables and figures of the five texts: those that run, and what is said of the others."""

from __future__ import annotations

from collections.abc import Sequence

from dpensemble.errors import InvalidParameterError
from dpensemble.reproduce.bagging_tables import BAGGING_TABLES
from dpensemble.reproduce.darrm_tables import DARRM_TABLES
from dpensemble.reproduce.declared import Table
from dpensemble.reproduce.dpbag_tables import DPBAG_TABLES
from dpensemble.reproduce.personalised_tables import PERSONALISED_TABLES

#: Tables that run, in the order of the papers.
TABLES: tuple[Table, ...] = (*DPBAG_TABLES, *BAGGING_TABLES, *DARRM_TABLES, *PERSONALISED_TABLES)
ALL = "all"


def chosen(names: Sequence[str]) -> tuple[list[Table], bool]:
    """Return tables by name, and whether all were asked for.

    Parameters
    ----------
    names : sequence of str
        Short names such as ``dpbag-5``, or beginnings of several such as ``dpbag``, or ``all``.

    Returns
    -------
    list of Table, bool

    Raises
    ------
    InvalidParameterError
        If a name is unknown; the message lists what there is.
    """
    if ALL in names:
        return list(TABLES), True
    found: list[Table] = []
    for name in names:
        fitting = [table for table in TABLES if table.name == name or table.name.startswith(f"{name}-")]
        if not fitting:
            known = ", ".join(table.name for table in TABLES)
            raise InvalidParameterError(f"table={name!r} is unknown; use {ALL}, or some of {known}.")
        found += [table for table in fitting if table not in found]
    return found, False
