"""Estimates before anything is spent: how well label moments would do with a number of records and an epsilon.

The estimate comes from real fits on stand-in records, with noise of the real size. Stand-ins are public rows, or
made-up rows if there are none.

- Labelled public rows stand in for records with their own labels. A fifth of them is held out in turn and scored.
- Without labels, labels are drawn from made-up effects of a known strength, and the student is scored against the
  chances that made them. How strong the effects of a real table are is unknown. The interval therefore covers what
  other public tables showed without noise (`difficulty.json`, written by ``benchmarks/table_size.py``).

Nothing here takes a private table. Stand-in fits charge no ledger and are not counted.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from numbers import Real
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from dpensemble._checks import ShownAsSentences, epsilon_of, integer_between, real_between, shown
from dpensemble._entries import Floats, Integers
from dpensemble._hide_private_rows import on_public_rows
from dpensemble._spending import kept_in, unheard
from dpensemble._work import progress_bar, show_progress
from dpensemble.datasets.columns import number_columns
from dpensemble.engine.run import uncounted
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.methods import LabelMomentsClassifier
from dpensemble.moments.maps.directions import effective_directions, seen_beside_noise
from dpensemble.moments.maps.grid import declared_grid
from dpensemble.moments.maps.tables import fitted_map
from dpensemble.rows.arguments import BAD, class_ids_or_bad, sorted_classes

#: Usual numbers of records, and the multiples of a single epsilon that are tried.
USUAL_RECORDS, USUAL_EPSILONS = (500, 2_000, 10_000), (0.3, 1.0, 3.0)
_ROWS, _COLUMNS, _SHARE = 1_000, 10, 0.3
# Areas under the curve of made-up effects. Estimates between them are interpolated.
_EFFECTS = (0.65, 0.8, 0.95)
# Columns up to which the cost of each is found, and rows by which.
_MOST_COSTED, _MOST_ROWS_COSTED = 60, 500
_FOLDS, _FEWEST_LABELS = 5, 50
# Made-up effects of each strength, samples of noise for each public table, and quantiles of distances.
_DRAWS, _SAMPLES, _QUANTILES = 2, 20, 200
# The interval of 90 %.
_LOW, _HIGH = 0.05, 0.95
# What a sufficient epsilon may lose beside the largest one that is shown.
_LOSS = 0.02
_NORMAL = NormalDist()
_MOST_RECORDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate, and the ends of its interval of 90 %."""

    estimate: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Return plain numbers with four decimals."""
        return {name: round(getattr(self, name), 4) for name in ("estimate", "low", "high")}


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
        Share of the second of two classes that was assumed. None if labelled public rows show it, or for more classes.
    n_columns, n_public : int
        Numbers of columns and of public rows.

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
            "interval": round(_HIGH - _LOW, 2),
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
                lines.append(
                    f"{size.records:,} records at epsilon {size.epsilon:g} do not pay for {_names(size.costly)}, if "
                    "all columns matter alike: drop those that you expect to matter least."
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
    more = f" and {len(columns) - most:,} more columns" if len(columns) > most else ""
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
    declared_columns : mapping, optional
        Declares columns in place of public rows, as for `LabelMomentsClassifier`.
    share : float, optional
        Share of the second of two classes, from 0 to 1, by default .3. Without labels only.
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
    public = None if declared_columns is not None else rows
    names = sorted_classes(classes)
    labels = None if y_public is None else _codes(y_public, names, len(rows), share)
    setting = _Setting(
        n_classes=len(names),
        public=public,
        declared=declared_columns,
        share=_share_of(share, len(names)),
        unit_size=integer_between("unit_size", unit_size, 1, 10_000),
        delta=delta,
        seed=integer_between("seed", seed, 0),
    )
    epsilons = _epsilons(epsilon)
    sizes = _numbers(records, rows.shape[1], setting.unit_size)
    best = _expected(auroc, labels is not None)
    usual = X_public is None and setting.is_usual and rows.shape == (_ROWS, _COLUMNS)
    cells = [(n_records, one) for n_records in sizes for one in epsilons]
    if labels is not None:
        estimator: _Labelled | _Unlabelled = _Labelled(setting, rows, labels)
    else:
        estimator = _Unlabelled(setting, rows, best, _stored() if usual else None)
    with progress_bar("Simulating", len(cells) * estimator.n_fits) as advance, _nothing_spent():
        costs = _Costs(setting, sizes[-1], epsilons[-1])
        estimates = tuple(_estimated(estimator, setting, costs, *cell, advance) for cell in cells)
    made_up = X_public is None and declared_columns is None
    return TableSizePlan(
        sizes=estimates,
        basis=f"{estimator.basis} {_MADE}" if made_up else estimator.basis,
        share=setting.share if labels is None and len(names) == 2 else None,
        n_columns=rows.shape[1],
        n_public=0 if public is None else len(public),
    )


_MADE = "The public rows are made up."


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
        return _SHARE
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
        n_rows = integer_between("n_public", _ROWS if n_public is None else n_public, 2, 100_000)
        return _made_up(
            n_rows, integer_between("n_columns", _COLUMNS if n_columns is None else n_columns, 1, 500), seed
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
        return grid.rows(np.column_stack([rng.integers(max(1, size - 1), size=_ROWS) for size in grid.sizes]))
    table = X_public if isinstance(X_public, pd.DataFrame) else pd.DataFrame(X_public)
    if not table.shape[1]:
        raise DataError("X_public has no columns besides the target: give public rows with the features of records.")
    if len(table) < 2:
        raise DataError(f"X_public has {len(table)} rows, but an estimate needs at least 2.")
    return table.reset_index(drop=True)


def usual_rows() -> pd.DataFrame:
    """Return the made-up rows of the default settings."""
    return _made_up(_ROWS, _COLUMNS, 0)


def _made_up(n_rows: int, n_columns: int, seed: int) -> pd.DataFrame:
    """Return rows with weakly correlated columns: numbers, skewed numbers, and categories of two to five values."""
    rng = np.random.default_rng([seed, 1])
    scores = rng.normal(size=(n_rows, n_columns)) + 0.5 * rng.normal(size=(n_rows, 1))
    columns: dict[str, Any] = {}
    for place, score in enumerate(scores.T):
        cuts = np.quantile(score, np.linspace(0, 1, 2 + place % 5)[1:-1])
        kinds = (score, np.exp(score), np.array(list("abcde"))[np.searchsorted(cuts, score)])
        columns[f"column {place + 1}"] = kinds[(0, 2, 1, 2)[place % 4]]
    return pd.DataFrame(columns)


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
    if len(codes) < _FEWEST_LABELS or counts.min() < _FOLDS:
        raise DataError(
            f"y_public has {len(codes):,} labels, {counts.min():,} of the rarest class, but an estimate needs "
            f"{_FEWEST_LABELS} labels and {_FOLDS} of each class: leave y_public out."
        )
    return codes


@contextmanager
def _nothing_spent() -> Iterator[None]:
    """Let no ledger, journal or counter notice fits on stand-in records."""
    with (
        unheard(),
        kept_in(None),
        uncounted(),
        show_progress(False),
        on_public_rows(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True, kw_only=True, eq=False)
class _Setting:
    """What all simulated fits have in common."""

    n_classes: int
    public: pd.DataFrame | None
    declared: Any
    share: float
    unit_size: int
    delta: float | None
    seed: int

    @property
    def is_usual(self) -> bool:
        """Whether nothing but the numbers of records and epsilon differs from the default."""
        usual = self.declared is None and self.delta is None and self.seed == 0 and self.unit_size == 1
        return usual and self.n_classes == 2 and self.share == _SHARE

    def method(self, epsilon: float, number: int = 0) -> LabelMomentsClassifier:
        """Return the estimator of a run."""
        return LabelMomentsClassifier(
            classes=list(range(self.n_classes)),
            epsilon=epsilon,
            delta=self.delta,
            columns=None if self.public is None else {},
            declared_columns=self.declared,
            insecure_release_seed=self.seed * 1_000 + number,
        )

    def fit(self, rows: pd.DataFrame, labels: Integers, epsilon: float, number: int) -> LabelMomentsClassifier:
        """Fit the real method to stand-in records, with noise of the real size."""
        units = None if self.unit_size == 1 else np.arange(len(rows)) // self.unit_size
        return self.method(epsilon, number).fit(rows, labels, X_public=self.public, units=units)


@dataclass(frozen=True, slots=True)
class _Cell:
    """What the fits of one number of records and one epsilon show: both ranges, the noise, and delta."""

    auroc: Range
    accuracy: Range
    sigma: float
    delta: float


class _Labelled:
    """Estimates by labelled public rows: most of them stand in for records, and the others are scored."""

    n_fits = _FOLDS
    basis = "By labelled public rows, for one run; records are taken to be like them."

    def __init__(self, setting: _Setting, rows: pd.DataFrame, labels: Integers) -> None:
        self.setting, self.rows, self.labels = setting, rows, labels
        rng = np.random.default_rng([setting.seed, 2])
        self.folds = np.empty(len(labels), dtype=np.int64)
        # Each fold has its part of each class.
        order = rng.permutation(len(labels))
        order = order[np.argsort(labels[order], kind="stable")]
        self.folds[order] = np.arange(len(labels)) % _FOLDS

    def cell(self, n_records: int, epsilon: float, advance: Callable[[float], None]) -> _Cell:
        """Return the mean over folds, with the errors of scored rows and the spread over runs."""
        aurocs, hits = [], []
        for fold in range(_FOLDS):
            rng = np.random.default_rng([self.setting.seed, 3, fold])
            drawn = _stand_ins(rng, np.flatnonzero(self.folds != fold), n_records)
            held = np.flatnonzero(self.folds == fold)
            model = self.setting.fit(_rows_at(self.rows, drawn), self.labels[drawn], epsilon, fold)
            chances = _chances(model, _rows_at(self.rows, held))
            aurocs.append(_auroc(chances, _one_hot(self.labels[held], self.setting.n_classes)))
            hits.append(float(np.mean(chances.argmax(axis=1) == self.labels[held])))
            advance(1)
        auroc, accuracy = float(np.mean(aurocs)), float(np.mean(hits))
        counts = np.bincount(self.labels, minlength=self.setting.n_classes)
        of_rows, n = _variance_of_auroc(auroc, counts), len(self.labels)
        of_share = max(accuracy * (1 - accuracy), 1 / n) / n
        return _Cell(
            _interval(auroc, of_rows, float(np.var(aurocs, ddof=1))),
            _interval(accuracy, of_share, float(np.var(hits, ddof=1))),
            *_noise(model),
        )


def _interval(mean: float, of_rows: float, over_folds: float) -> Range:
    """Return an interval on the scale of the log odds, from the variance of all rows and that over folds.

    A fold has a part of the rows. What folds differ by beyond that is the spread over runs.
    """
    variance = of_rows + max(0.0, over_folds - _FOLDS * of_rows)
    middle = min(max(mean, 1e-4), 1 - 1e-4)
    half = _NORMAL.inv_cdf(_HIGH) * math.sqrt(variance) / (middle * (1 - middle))
    odds = math.log(middle / (1 - middle))
    return Range(mean, *(1 / (1 + math.exp(-one)) for one in (odds - half, odds + half)))


def _variance_of_auroc(auroc: float, counts: Integers) -> float:
    """Return the variance of an AUROC, the mean over classes against the rest (Hanley and McNeil, Radiology 1982)."""
    total, of_classes = counts.sum(), []
    for n in counts.tolist():
        m = total - n
        first, second = auroc / (2 - auroc), 2 * auroc**2 / (1 + auroc)
        square = auroc**2
        of_classes.append((auroc - square + (n - 1) * (first - square) + (m - 1) * (second - square)) / (n * m))
    # The formula depends on which class comes second, and the larger value is safe.
    return max(*of_classes, 1e-8)


class _Unlabelled:
    """Estimates by made-up effects of several strengths, and by how strong effects of public tables are."""

    n_fits = len(_EFFECTS) * _DRAWS
    basis = (
        "By made-up effects on public rows, for one run; the interval covers the difficulty of most public tables, "
        "since that of yours is unknown."
    )

    def __init__(
        self,
        setting: _Setting,
        rows: pd.DataFrame,
        best: float | None = None,
        stored: Mapping[tuple[int, float], Points] | None = None,
    ) -> None:
        self.setting, self.rows, self.best = setting, rows, best
        self.stored = {} if stored is None else stored
        if best is not None:
            self.basis = f"By made-up effects on public rows, for one run, if AUROC without privacy would be {best:g}."
        self.effects = [
            (area, number, _made_up_chances(rows, area, setting, number))
            for area in _EFFECTS
            for number in range(_DRAWS)
        ]

    def points(self, n_records: int, epsilon: float, advance: Callable[[float], None]) -> Points:
        """Return what each made-up effect shows beside noise."""
        shown_effects = []
        for area, number, chances in self.effects:
            rng = np.random.default_rng([self.setting.seed, 4, number, round(100 * area)])
            drawn = _stand_ins(rng, np.arange(len(self.rows)), n_records)
            uniform = rng.random((n_records, 1))
            labels = (uniform > chances[drawn].cumsum(axis=1)[:, :-1]).sum(axis=1)
            model = self.setting.fit(_rows_at(self.rows, drawn), labels, epsilon, number)
            answers = _chances(model, self.rows)
            hits = chances[np.arange(len(answers)), answers.argmax(axis=1)]
            shown_effects.append((area, _auroc(answers, chances), float(hits.mean())))
            advance(1)
        return Points(n_records, epsilon, tuple(shown_effects), *_noise(model))

    def cell(self, n_records: int, epsilon: float, advance: Callable[[float], None]) -> _Cell:
        """Return quantiles over the difficulties of public tables."""
        points = self.stored.get((n_records, epsilon))
        if points is None:
            points = self.points(n_records, epsilon, advance)
        ranges = ranges_of(points, self.setting.n_classes, self.setting.share, self.best)
        return _Cell(*ranges, points.sigma, points.delta)


def _noise(model: LabelMomentsClassifier) -> tuple[float, float]:
    """Return the noise of the first sum, as the run charged it, and delta."""
    return float(model.charges_[0]["sigma"]), model.guarantee_.delta


@dataclass(frozen=True, slots=True)
class Points:
    """What made-up effects show with a number of records and an epsilon. Public.

    An effect has the AUROC of its own chances, and AUROC and accuracy of a student. `sigma` is the noise of the first
    sum, in sensitivities.
    """

    records: int
    epsilon: float
    effects: tuple[tuple[float, float, float], ...]
    sigma: float
    delta: float


def made_up_points(
    rows: pd.DataFrame, n_records: int, epsilon: float, *, share: float = _SHARE, delta: float | None = None
) -> Points:
    """Return what made-up effects on public rows show, for two classes. The measurements of tables use it."""
    setting = _Setting(n_classes=2, public=rows, declared=None, share=share, unit_size=1, delta=delta, seed=0)
    with _nothing_spent():
        return _Unlabelled(setting, rows).points(n_records, epsilon, lambda _: None)


def ranges_of(
    points: Points, n_classes: int, share: float, best: float | None = None, known: Mapping[str, Any] | None = None
) -> tuple[Range, Range]:
    """Return AUROC and accuracy from what made-up effects show, over the difficulties of public tables.

    Parameters
    ----------
    points : Points
        What made-up effects show.
    n_classes : int
        Number of classes.
    share : float
        Share of the second of two classes.
    best : float, optional
        AUROC that is expected without noise. By default that of each public table.
    known : mapping, optional
        ``aurocs`` of public tables without noise, ``losses`` of their runs in multiples of those of made-up effects,
        and ``accuracy_errors``, accuracies less those of the best rule. By default those of the library.
    """
    known = _difficulty() if known is None else known
    loss, spread = attenuation([(one[0], one[1]) for one in points.effects])
    areas_without_noise = known["aurocs"] if best is None else [best]
    distances = np.repeat([distance(one) for one in areas_without_noise], len(known["losses"]))
    losses = loss * np.tile(known["losses"], len(areas_without_noise))
    errors = np.array([_NORMAL.inv_cdf((place + 0.5) / _SAMPLES) for place in range(_SAMPLES)])
    kept = (attenuated(distances, losses)[:, None] + spread * errors).ravel()
    ends = [_NORMAL.cdf(one / math.sqrt(2)) for one in _quantiles(kept)]
    if n_classes == 2:
        grid = np.quantile(kept, (np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        best_rules = np.array([accuracy_at(max(float(one), 0.0), share) for one in grid])
        # How far real students were from the best rule with their AUROC.
        accuracies = _quantiles(np.clip(best_rules[:, None] + known["accuracy_errors"], 0, 1))
    else:
        order = sorted(points.effects, key=lambda effect: effect[1])
        highest = np.maximum.accumulate([effect[2] for effect in order])
        accuracies = np.interp(ends, [effect[1] for effect in order], highest).tolist()
    return Range(*ends), Range(*accuracies)


def _quantiles(values: Floats) -> list[float]:
    return [float(one) for one in np.quantile(values, (0.5, _LOW, _HIGH))]


@cache
def _stored() -> dict[tuple[int, float], Points]:
    """Return what made-up effects show with the usual settings. A script computed it as `plan_label_moments` does."""
    points = [Points(**one | {"effects": tuple(map(tuple, one["effects"]))}) for one in _difficulty()["usual"]]
    return {(one.records, one.epsilon): one for one in points}


@cache
def _difficulty() -> dict[str, Any]:
    """Return what public tables showed without noise, and what their runs lost beside made-up effects."""
    content: dict[str, Any] = json.loads((files("dpensemble.workflow") / "difficulty.json").read_text(encoding="utf-8"))
    return content


def distance(area: float) -> float:
    """Return the distance of two normal distributions of variance 1 whose AUROC is `area`."""
    return math.sqrt(2) * _NORMAL.inv_cdf(min(max(area, 1e-4), 1 - 1e-4))


def attenuated(best: Any, loss: Any) -> Any:
    """Return the distance that a student shows. Noise of variance `loss` stands beside a signal of ``best**2``."""
    return best**2 / np.sqrt(best**2 + loss)


def attenuation(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the loss that fits pairs of the best AUROC and a student's AUROC, and the spread around the fit."""
    best, seen = (np.array([distance(one) for one in column]) for column in zip(*pairs, strict=True))
    losses = np.geomspace(1e-3, 1e3, 241)
    errors = ((attenuated(best, losses[:, None]) - seen) ** 2).mean(axis=1)
    place = int(errors.argmin())
    return float(losses[place]), float(np.sqrt(errors[place]))


def accuracy_at(gap: float, share: float) -> float:
    """Return the accuracy of the best rule for two normal distributions. `share` is that of the higher one."""
    if gap < 1e-3:
        return max(share, 1 - share)
    cut = math.log((1 - share) / share) / gap
    return share * _NORMAL.cdf(gap / 2 - cut) + (1 - share) * _NORMAL.cdf(gap / 2 + cut)


def _stand_ins(rng: np.random.Generator, places: Integers, n_records: int) -> Integers:
    """Return places of stand-in records, each row as often as possible before any row is drawn once more."""
    rounds = -(-n_records // len(places))
    return np.concatenate([rng.permutation(places) for _ in range(rounds)])[:n_records]


def _rows_at(rows: pd.DataFrame, places: Integers) -> pd.DataFrame:
    return rows.iloc[places].reset_index(drop=True)


def _one_hot(labels: Integers, n_classes: int) -> Floats:
    return np.eye(n_classes)[labels]


def _chances(model: LabelMomentsClassifier, rows: pd.DataFrame) -> Floats:
    return np.asarray(model.predict_proba(rows))


def _auroc(answers: Floats, chances: Floats) -> float:
    """Return the area under the curve of answers beside chances of labels: of the second class, or the mean of all."""
    classes = (1,) if chances.shape[1] == 2 else range(chances.shape[1])
    twice = np.repeat([0, 1], len(answers))
    areas = []
    for place in classes:
        weights = np.concatenate([1 - chances[:, place], chances[:, place]])
        areas.append(float(roc_auc_score(twice, np.tile(answers[:, place], 2), sample_weight=weights)))
    return float(np.mean(areas))


def _made_up_chances(rows: pd.DataFrame, area: float, setting: _Setting, number: int) -> Floats:
    """Return chances of the classes, shape (n_rows, n_classes), whose own AUROC is `area`.

    A few columns matter most. The effect of a number is a smooth curve over ranks, and each category has its own.
    """
    rng = np.random.default_rng([setting.seed, 6, number])
    n_scores = setting.n_classes - 1 if setting.n_classes == 2 else setting.n_classes
    scores = np.column_stack([_score(rows, rng) for _ in range(n_scores)])
    low, high = 0.0, 60.0
    for _ in range(40):
        strength = (low + high) / 2
        chances = _at_strength(scores, strength, setting)
        low, high = (strength, high) if _auroc(chances, chances) < area else (low, strength)
    return chances


def _score(rows: pd.DataFrame, rng: np.random.Generator) -> Floats:
    """Return made-up scores of rows with mean 0 and variance 1."""
    total = np.zeros(len(rows))
    numbers = number_columns(rows)
    # Cubes of normal numbers: a few columns matter most.
    for place, weight in enumerate(rng.normal(size=rows.shape[1]) ** 3):
        column = rows.iloc[:, place]
        if numbers[place] and column.nunique() > 2:
            rank = column.rank(pct=True).fillna(0.5).to_numpy() - 0.5
            effect = rank + rng.normal() * (rank**2 - 1 / 12)
        else:
            codes = pd.factorize(column)[0] + 1
            effect = rng.normal(size=codes.max() + 1)[codes]
        deviation = float(effect.std())
        total += weight * (effect - effect.mean()) / deviation if deviation > 0 else 0.0
    deviation = float(total.std())
    return (total - total.mean()) / deviation if deviation > 0 else total


def _at_strength(scores: Floats, strength: float, setting: _Setting) -> Floats:
    if scores.shape[1] > 1:
        weights = np.exp(strength * (scores - scores.max(axis=1, keepdims=True)))
        return weights / weights.sum(axis=1, keepdims=True)
    low, high = -200.0, 200.0
    for _ in range(50):
        middle = (low + high) / 2
        chances = 1 / (1 + np.exp(-np.clip(strength * scores[:, 0] + middle, -500, 500)))
        low, high = (middle, high) if chances.mean() < setting.share else (low, middle)
    return np.column_stack([1 - chances, chances])


def _estimated(
    estimator: _Labelled | _Unlabelled,
    setting: _Setting,
    costs: _Costs,
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


class _Costs:
    """Which part of what columns show noise leaves, and the columns that cost more than they pay for.

    If all columns matter alike, leaving one out loses an even part of what they show. It also frees directions, so that
    more of the rest is seen. Columns are left out, those of most directions first, while that is a gain.
    """

    def __init__(self, setting: _Setting, n_records: int, epsilon: float) -> None:
        self.setting = setting
        self.public = None if setting.public is None else setting.public.iloc[:_MOST_ROWS_COSTED]
        self.more: dict[str, Any] = {"n_rows": n_records, "n_classes": setting.n_classes, "epsilon": epsilon}
        if self.public is None:
            return
        with on_public_rows():
            self.width = self._width(self.public)
            self.freed: dict[str, float] = {}
            if 1 < self.public.shape[1] <= _MOST_COSTED:
                for place, name in enumerate(self.public.columns):
                    others = self.public.drop(columns=self.public.columns[place])
                    self.freed[str(name)] = max(0.0, self.width - self._width(others))

    def _width(self, table: pd.DataFrame) -> float:
        return effective_directions(fitted_map(None, table, **self.more), table)

    def of(self, n_units: int, epsilon: float, delta: float) -> tuple[float | None, tuple[str, ...]]:
        """Return the part that is seen, or None for declared columns, and the costly columns."""
        if self.public is None:
            return None, ()
        design = replace(self.setting, delta=delta).method(epsilon).design(n_classes=self.setting.n_classes)
        spread = design.meter().sigma(sum(design.shares)) / n_units

        def seen_by(width: float) -> float:
            return float(seen_beside_noise(np.array([max(width, 1.0)]), float(n_units), spread)[0])

        everything = best = seen_by(self.width)
        costly: list[str] = []
        width, n_columns = self.width, len(self.freed)
        for name in sorted(self.freed, key=lambda name: -self.freed[name]):
            width -= self.freed[name]
            gain = seen_by(width) * (1 - (len(costly) + 1) / n_columns)
            if gain <= best:
                break
            best = gain
            costly.append(name)
        return everything, tuple(costly)
