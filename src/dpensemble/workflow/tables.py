"""The tables of one run, after checks that they belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from dpensemble.allocation.partition import number_units
from dpensemble.allocation.units import named_units
from dpensemble.datasets import load_adult, three_way_split
from dpensemble.datasets.public_facts import Note
from dpensemble.design.by_group import BudgetRequest, parse_budgets
from dpensemble.errors import InvalidParameterError
from dpensemble.workflow.budgets import assign_at_random, column_entries
from dpensemble.workflow.private_rows import PrivateStream


@dataclass(frozen=True, eq=False, kw_only=True)
class Tables:
    """Private, public and test rows of one run.

    Public rows have the private columns' order, and their labels only score the released labels. If the data are
    packaged (`data_is_public`), figures without privacy reveal nothing. `budgets` holds the epsilon of each private
    record, or the name of its consent level. `levels` holds the epsilon of each level, and `group_shares` the public
    share of the records with each level. With `budgets_at_random`, budgets were dealt at random, not by consent. If
    private records are read in blocks (`stream`), ``X_private`` and ``y_private`` are empty. `public_units` holds the
    units of public rows, or None if they are unknown. `declared_columns` has the range or the categories of each column
    in a run without public rows. `groups` holds the declared values of each column by which the student's quality is
    stated. `private_groups` and `test_groups` hold these columns for private and test rows, if they are not features.
    `columns` states in words how each public column is read, and `notes` what is suspicious about it.
    """

    name: str
    classes: list[Any]
    X_private: pd.DataFrame
    y_private: pd.Series
    X_public: pd.DataFrame
    y_public: pd.Series | None = None
    X_test: pd.DataFrame | None = None
    y_test: pd.Series | None = None
    units: NDArray[Any] | None = None
    public_units: list[Any] | None = None
    data_is_public: bool = False
    test_is_public: bool = False
    unit_column: str | None = None
    budgets: NDArray[Any] | None = None
    levels: dict[str, float] | None = None
    group_shares: dict[Any, float] | None = None
    budgets_at_random: bool = False
    stream: PrivateStream | None = None
    notes: tuple[Note, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    declared_columns: dict[str, Any] | None = None
    target: str | None = None
    groups: dict[str, tuple[str, ...]] | None = None
    private_groups: pd.DataFrame | None = None
    test_groups: pd.DataFrame | None = None

    @property
    def n_records(self) -> int:
        """Number of private records."""
        return len(self.X_private) if self.stream is None else self.stream.n_records

    @property
    def n_units(self) -> int | None:
        """Number of units of the private records, or of records if each record is a unit. None if not known here."""
        if self.stream is not None:
            return self.stream.n_units
        if self.units is None:
            return len(self.X_private)
        names, present = named_units(self.units)
        return len(number_units(names[present])[0])


def adult_tables(seed: int | None, *, budgets: str | None = None, levels: str | None = None) -> Tables:
    """Return UCI Adult in the paper's split: a third private, a third public, a third test.

    The public seed determines the split and the budgets, which are groups with shares. See `parse_budgets`. Packaged
    data have no column of budgets, so `levels` raise an error.
    """
    request = parse_budgets(budgets, levels)
    if request is not None and request.column is not None:
        raise InvalidParameterError(
            f"budgets={request.column!r} would be a column, but packaged data have no column of budgets: give groups "
            'and shares, such as "0.7:50%,1.4:50%".'
        )
    adult = load_adult()
    split = three_way_split(len(adult.X), seed)
    parts = {
        name: (adult.X.iloc[rows].reset_index(drop=True), adult.y.iloc[rows].reset_index(drop=True))
        for name, rows in (("private", split.private), ("public", split.public), ("test", split.test))
    }
    tables = Tables(
        name=adult.name,
        classes=list(adult.classes),
        X_private=parts["private"][0],
        y_private=parts["private"][1],
        X_public=parts["public"][0],
        y_public=parts["public"][1],
        X_test=parts["test"][0],
        y_test=parts["test"][1],
        data_is_public=True,
        test_is_public=True,
    )
    return with_budgets(tables, request, None, seed)


def with_budgets(tables: Tables, request: BudgetRequest | None, entries: pd.Series | None, seed: int | None) -> Tables:
    """Return the tables with a budget for each private record, from a column or, without `entries`, dealt at random."""
    if request is None:
        return tables
    if entries is not None:
        epsilons = column_entries(entries, request)
    else:
        epsilons = assign_at_random(request.shares or {}, len(tables.X_private), tables.units, seed)
    return replace(
        tables,
        budgets=epsilons,
        levels=request.levels,
        group_shares=request.shares,
        budgets_at_random=entries is None,
    )
