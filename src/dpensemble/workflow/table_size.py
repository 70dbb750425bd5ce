"""Is a table large enough? Estimates of label moments by number of records and epsilon, before anything is spent.

`dpensemble.workflow.stand_ins` makes the fits behind the estimates. Nothing here takes a private table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from dpensemble._checks import ShownAsSentences, epsilon_of, integer_between, real_between, shown
from dpensemble._entries import Integers
from dpensemble._hide_private_rows import on_public_rows
from dpensemble._work import progress_bar
from dpensemble.datasets.preparation import LEFT_OUT, TablePreparation
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.methods import LabelMomentsClassifier
from dpensemble.moments.maps.grid import declared_grid
from dpensemble.rows.arguments import BAD, class_ids_or_bad, sorted_classes
from dpensemble.workflow.difficulty import FOLDS, HIGH, LOW, Range, usual_points
from dpensemble.workflow.stand_ins import (
    COLUMNS,
    ROWS,
    SHARE,
    Costs,
    Labelled,
    Setting,
    Unlabelled,
    made_up_rows,
    nothing_spent,
)

#: Usual numbers of records, and the multiples of a single epsilon that are tried.
USUAL_RECORDS, USUAL_EPSILONS = (500, 2_000, 10_000), (0.3, 1.0, 3.0)
_FEWEST_LABELS, _MOST_RECORDS = 50, 1_000_000
# What a sufficient epsilon may lose beside the largest one that is shown.
_LOSS = 0.02
_MADE_UP = "The public rows are made up."


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """The estimate for one number of records and one epsilon.

    `sigma` is the standard deviation of the noise of the first sum in sensitivities, as a run charges it. `seen` is the
    part of what all columns show together that noise leaves, or None for declared columns. `costly` names columns that
    cost more than they pay for, if all columns matter alike.
    """

    records: int
    units: int
    epsilon: float
    delta: float
    sigma: float
    auroc: Range
    accuracy: Range
    seen: float | None
    costly: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain values."""
        return {
            "records": self.records,
            "units": self.units,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "noise": self.sigma,
            "auroc": self.auroc.to_dict(),
            "accuracy": self.accuracy.to_dict(),
            "seen_beside_noise": None if self.seen is None else round(self.seen, 4),
            "costly_columns": list(self.costly),
        }


@dataclass(frozen=True, eq=False)
class TableSizePlan(ShownAsSentences):
    """Estimates by number of records and epsilon, from public facts only.

    Attributes
    ----------
    sizes : tuple of TableSize
        One estimate for each number of records and epsilon.
    basis : str
        In words: what the estimates rest on.
    share : float or None
        Share of the last of two sorted classes that was assumed. None if labelled public rows show it, or for more
        classes.
    n_columns, n_public : int
        Numbers of columns and of public rows.
    is_made_up : bool
        Whether the public rows are made up.

    Examples
    --------
    >>> from dpensemble import plan_label_moments
    >>> plan = plan_label_moments(epsilon=3.0, records=500, n_columns=3, n_public=300)
    >>> 0.5 < plan.sizes[0].auroc.low < plan.sizes[0].auroc.high <= 1
    True
    """

    sizes: tuple[TableSize, ...]
    basis: str
    share: float | None
    n_columns: int
    n_public: int
    is_made_up: bool = False

    @property
    def sufficient(self) -> dict[int, float]:
        """By number of records, the smallest epsilon that loses at most .02 AUROC beside the largest one shown."""
        found = {}
        for records in dict.fromkeys(size.records for size in self.sizes):
            sizes = sorted((size for size in self.sizes if size.records == records), key=lambda size: size.epsilon)
            enough = [size.epsilon for size in sizes if size.auroc.estimate >= sizes[-1].auroc.estimate - _LOSS]
            if len(sizes) > 1:
                found[records] = enough[0]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {
            "method": LabelMomentsClassifier.name,
            "basis": self.basis,
            "share": self.share,
            "columns": self.n_columns,
            "public_rows": self.n_public,
            "interval": round(HIGH - LOW, 2),
            "sizes": [size.to_dict() for size in self.sizes],
            "sufficient_epsilon": {str(records): epsilon for records, epsilon in self.sufficient.items()},
        }

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def remarks(self) -> list[str]:
        """Return sentences about the basis, columns and epsilons."""
        lines = [f"{self.basis} Nothing was spent."]
        for size in self.sizes:
            if size.costly:
                # Names of made-up columns would mean nothing.
                costly = f"{len(size.costly)} of {self.n_columns} columns" if self.is_made_up else _names(size.costly)
                lines.append(
                    f"{size.records:,} records at epsilon {size.epsilon:g} do not pay for {costly}, if all columns "
                    "matter alike: drop those that you expect to matter least."
                )
        for records, epsilon in self.sufficient.items():
            largest = max(size.epsilon for size in self.sizes)
            if epsilon < largest:
                lines.append(
                    f"With {records:,} records, epsilon {epsilon:g} would do: it loses at most {_LOSS:g} AUROC beside "
                    f"epsilon {largest:g}."
                )
            else:
                lines.append(f"With {records:,} records, each epsilon up to {largest:g} still pays.")
        return lines

    def __str__(self) -> str:
        lines = [
            f"{size.records:,} records, epsilon {size.epsilon:g}: AUROC {_words(size.auroc)}, accuracy "
            f"{_words(size.accuracy)}"
            for size in self.sizes
        ]
        return "\n".join([*lines, *self.remarks()])


def _names(columns: Sequence[str]) -> str:
    most = 5
    extra = len(columns) - most
    more = f" and {extra:,} more column{'s' if extra > 1 else ''}" if extra > 0 else ""
    return ", ".join(columns[:most]) + more


def _words(one: Range) -> str:
    return f"{one.estimate:.2f} ({one.low:.2f} to {one.high:.2f})"


def plan_label_moments(
    *,
    epsilon: float | Sequence[float] = 1.0,
    delta: float | None = None,
    records: int | Sequence[int] = USUAL_RECORDS,
    classes: Sequence[Any] = ("no", "yes"),
    X_public: Any = None,
    y_public: Any = None,
    n_public: int | None = None,
    n_columns: int | None = None,
    columns: Mapping[str, str] | None = None,
    blank: Mapping[str, Sequence[object]] | Sequence[object] | None = None,
    below_limit: str = "limit",
    decimal: str | None = None,
    declared_columns: Any = None,
    share: float | None = None,
    unit_size: int = 1,
    auroc: float | None = None,
    seed: int = 0,
) -> TableSizePlan:
    """Estimate accuracy and AUROC of label moments before anything is spent.

    No private table is read. The number of records is what you state. It is private if units are added or removed
    (``relation="add-or-remove-one"``). State a round number then.

    Parameters
    ----------
    epsilon : float or sequence of float, default=1.0
        Budgets to compare. A single one is shown beside .3 times and three times as much.
    delta : float, optional
        As for a run. By default a run's own rule.
    records : int or sequence of int, default=(500, 2000, 10000)
        Numbers of private records.
    classes : sequence, default=("no", "yes")
        All possible labels.
    X_public : DataFrame or array-like of shape (n_public, n_columns), optional
        Public rows. By default rows are made up, half numbers and half categories.
    y_public : array-like of shape (n_public,), optional
        Their labels, if they are known. The interval is then much shorter.
    n_public, n_columns : int, optional
        Numbers of made-up rows and columns, by default 1,000 and 10.
    columns, blank, below_limit, decimal : optional
        How the entries of `X_public` are read, as by `TablePreparation`.
    declared_columns : mapping, optional
        Declares columns in place of public rows, as for `LabelMomentsClassifier`.
    share : float, optional
        Share of the last of two sorted classes, from 0 to 1, by default .3. Without labels only.
    unit_size : int, default=1
        Records of each unit. The records of a unit are taken to be unlike each other.
    auroc : float, optional
        AUROC that you expect without privacy, for example from a publication. The interval is then much shorter.
        Without labels only. Must not come from the private records.
    seed : int, default=0
        Public seed of all that is drawn.

    Returns
    -------
    TableSizePlan
        Estimates with intervals of 90 %. They are public.

    Raises
    ------
    InvalidParameterError, DataError
        With one sentence, if a setting or the public rows cannot be used.

    Examples
    --------
    >>> from dpensemble import plan_label_moments
    >>> plan = plan_label_moments(epsilon=1.0, records=300, n_columns=2, n_public=300)
    >>> [size.epsilon for size in plan.sizes]
    [0.3, 1.0, 3.0]
    """
    rows = _rows_of(X_public, n_public, n_columns, declared_columns, seed)
    n_features, left_out = rows.shape[1], ""
    if X_public is not None:
        rows, n_features, left_out = _prepared(
            rows, columns=columns, blank=blank, below_limit=below_limit, decimal=decimal
        )
    elif columns is not None:
        raise InvalidParameterError("columns are those of public rows: give X_public, too.", parameter="columns")
    public = None if declared_columns is not None else rows
    names = sorted_classes(classes)
    labels = None if y_public is None else _codes(y_public, names, len(rows), share)
    setting = Setting(
        n_classes=len(names),
        public=public,
        declared=declared_columns,
        share=_share_of(share, len(names)),
        unit_size=integer_between("unit_size", unit_size, 1, 10_000),
        delta=delta,
        seed=integer_between("seed", seed, 0),
        reading={} if X_public is None else "as given",
    )
    epsilons = _epsilons(epsilon)
    sizes = _numbers(records, n_features, setting.unit_size)
    best = _expected(auroc, labels is not None)
    usual = X_public is None and setting.is_usual and rows.shape == (ROWS, COLUMNS)
    cells = [(n_records, one) for n_records in sizes for one in epsilons]
    if labels is not None:
        estimator: Labelled | Unlabelled = Labelled(setting, rows, labels)
    else:
        estimator = Unlabelled(setting, rows, best, usual_points() if usual else None)
    with progress_bar("Simulating", len(cells) * estimator.n_fits) as advance, nothing_spent():
        costs = Costs(setting, sizes[-1], epsilons[-1])
        estimates = tuple(_estimated(estimator, setting, costs, *cell, advance) for cell in cells)
    made_up = X_public is None and declared_columns is None
    return TableSizePlan(
        sizes=estimates,
        basis=f"{estimator.basis} {_MADE_UP}" if made_up else estimator.basis + left_out,
        share=setting.share if labels is None and len(names) == 2 else None,
        n_columns=n_features,
        n_public=0 if public is None else len(public),
        is_made_up=made_up,
    )


def _epsilons(epsilon: float | Sequence[float]) -> list[float]:
    if isinstance(epsilon, Real):
        return [multiple * epsilon_of(epsilon) for multiple in USUAL_EPSILONS]
    if isinstance(epsilon, str) or not isinstance(epsilon, Sequence | np.ndarray) or not len(epsilon):
        raise InvalidParameterError(
            f"epsilon={shown(epsilon)} is not a number or a list of numbers, such as [1, 3].", parameter="epsilon"
        )
    return sorted({epsilon_of(one) for one in epsilon})


def _numbers(records: int | Sequence[int], n_columns: int, unit_size: int) -> list[int]:
    given = [records] if isinstance(records, Real) else records
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) or not len(given):
        raise InvalidParameterError(
            f"records={shown(records)} is not a number or a list of numbers, such as [500, 2000].", parameter="records"
        )
    numbers = sorted({integer_between("records", one, 1, _MOST_RECORDS) for one in given})
    least = max(n_columns, unit_size)
    if numbers[0] < least:
        raise InvalidParameterError(
            f"records={numbers[0]} are fewer than {n_columns:,} columns or a unit of {unit_size:,}: give at least "
            f"{least:,} records, or drop columns.",
            parameter="records",
        )
    return numbers


def _share_of(share: float | None, n_classes: int) -> float:
    if share is None:
        return SHARE
    if n_classes > 2:
        raise InvalidParameterError(f"share={share} is for two classes, but there are {n_classes}.", parameter="share")
    if not 0 < real_between("share", share, 0, 1) < 1:
        raise InvalidParameterError(f"share={share} is not strictly between 0 and 1.", parameter="share")
    return float(share)


def _expected(auroc: float | None, has_labels: bool) -> float | None:
    if auroc is not None and has_labels:
        raise InvalidParameterError(
            f"auroc={auroc} is for rows without labels, which show it: leave auroc out.", parameter="auroc"
        )
    return None if auroc is None else real_between("auroc", auroc, 0.5, 0.9999)


def _rows_of(X_public: Any, n_public: int | None, n_columns: int | None, declared: Any, seed: int) -> pd.DataFrame:
    """Return public rows, rows of declared entries, or made-up rows."""
    if X_public is not None and declared is not None:
        raise InvalidParameterError(
            "X_public and declared_columns are both given: declare columns only without public rows.",
            parameter="declared_columns",
        )
    if X_public is None and declared is None:
        n_rows = integer_between("n_public", ROWS if n_public is None else n_public, 2, 100_000)
        return made_up_rows(
            n_rows, integer_between("n_columns", COLUMNS if n_columns is None else n_columns, 1, 500), seed
        )
    for name, value in (("n_public", n_public), ("n_columns", n_columns)):
        if value is not None:
            raise InvalidParameterError(
                f"{name}={value} is for made-up rows, but public rows or columns are given: leave {name} out.",
                parameter=name,
            )
    if declared is not None:
        grid = declared_grid(declared)
        rng = np.random.default_rng(seed)
        return grid.rows(np.column_stack([rng.integers(max(1, size - 1), size=ROWS) for size in grid.sizes]))
    table = X_public if isinstance(X_public, pd.DataFrame) else pd.DataFrame(X_public)
    if not table.shape[1]:
        raise DataError("X_public has no columns besides the target: give public rows with the features of records.")
    if len(table) < 2:
        raise DataError(f"X_public has {len(table)} rows, but an estimate needs at least 2.")
    return table.reset_index(drop=True)


def _prepared(rows: pd.DataFrame, **rules: Any) -> tuple[pd.DataFrame, int, str]:
    """Return public rows as a run reads them, the number of columns that it uses, and a sentence about the others."""
    with on_public_rows():
        preparation = TablePreparation(**rules).fit(rows)
        kinds = zip(preparation.feature_names_in_, preparation.kinds_, strict=True)
        others = [str(name) for name, kind in kinds if kind == LEFT_OUT]
        if not preparation.changes_nothing:
            rows = preparation.transform(rows)
    sentence = f" A run leaves out {_names(others)}." if others else ""
    return rows, len(preparation.feature_names_in_) - len(others), sentence


def _codes(labels: Any, classes: Any, n_rows: int, share: float | None) -> Integers:
    """Return the position of each label among the classes."""
    if share is not None:
        raise InvalidParameterError("share is for rows without labels: leave share out.", parameter="share")
    given = np.asarray(labels)
    if given.shape != (n_rows,):
        raise DataError(f"y_public has shape {given.shape}, but X_public has {n_rows:,} rows: give one label a row.")
    codes = class_ids_or_bad(classes, labels)
    if (codes == BAD).any():
        unknown = given[codes == BAD].tolist()[0]
        raise InvalidParameterError(
            f"y_public has the label {shown(unknown)}, which is not one of the classes {shown(classes.tolist())}.",
            parameter="classes",
        )
    counts = np.bincount(codes, minlength=len(classes))
    if len(codes) < _FEWEST_LABELS or counts.min() < FOLDS:
        raise DataError(
            f"y_public has {len(codes):,} labels, {counts.min():,} of the rarest class, but an estimate needs "
            f"{_FEWEST_LABELS} labels and {FOLDS} of each class: leave y_public out."
        )
    return codes


def _estimated(
    estimator: Labelled | Unlabelled,
    setting: Setting,
    costs: Costs,
    n_records: int,
    epsilon: float,
    advance: Callable[[float], None],
) -> TableSize:
    cell = estimator.cell(n_records, epsilon, advance)
    n_units = -(-n_records // setting.unit_size)
    seen, costly = costs.of(n_units, epsilon, cell.delta)
    return TableSize(
        records=n_records,
        units=n_units,
        epsilon=epsilon,
        delta=cell.delta,
        sigma=cell.sigma,
        auroc=cell.auroc,
        accuracy=cell.accuracy,
        seen=seen,
        costly=costly,
    )
