"""Real fits on stand-in records, before anything is spent.

Stand-ins are public rows, or made-up rows if there are none.

- Labelled public rows stand in for records with their own labels. A fifth of them is held out in turn and scored.
- Without labels, labels are drawn from made-up effects of a known strength, and the student is scored against the
  chances that made them. How strong the effects of a real table are is unknown. The interval therefore covers what
  other public tables showed (`dpensemble.workflow.difficulty`).

Nothing here takes a private table. Fits on stand-ins charge no ledger and are not counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from dpensemble._entries import Floats, Integers
from dpensemble._hide_private_rows import on_public_rows
from dpensemble._spending import kept_in, unheard
from dpensemble._work import show_progress
from dpensemble.datasets.columns import number_columns
from dpensemble.engine.run import uncounted
from dpensemble.methods import LabelMomentsClassifier
from dpensemble.moments.maps.directions import effective_directions, seen_beside_noise
from dpensemble.moments.maps.tables import VERY_FEW_ROWS, fitted_map
from dpensemble.workflow.difficulty import FOLDS, Points, Range, interval_over_folds, ranges_of, variance_of_auroc

#: Made-up rows and columns, and the share of the second class.
ROWS, COLUMNS, SHARE = 1_000, 10, 0.3
# Areas under the curve of made-up effects, and effects of each strength. Estimates between them are interpolated.
_EFFECTS, _DRAWS = (0.65, 0.8, 0.95), 2
# Columns up to which the cost of each is found, and rows by which.
_MOST_COSTED, _MOST_ROWS_COSTED = 60, 300


def usual_rows() -> pd.DataFrame:
    """Return the made-up rows of the default settings."""
    return made_up_rows(ROWS, COLUMNS, 0)


def made_up_rows(n_rows: int, n_columns: int, seed: int) -> pd.DataFrame:
    """Return rows with weakly correlated columns: numbers, skewed numbers, and categories of two to five values."""
    rng = np.random.default_rng([seed, 1])
    scores = rng.normal(size=(n_rows, n_columns)) + 0.5 * rng.normal(size=(n_rows, 1))
    columns: dict[str, pd.Series] = {}
    for place, score in enumerate(scores.T):
        cuts = np.quantile(score, np.linspace(0, 1, 2 + place % 5)[1:-1])
        kinds = (score, np.exp(score), np.array(list("abcde"))[np.searchsorted(cuts, score)])
        columns[f"column {place + 1}"] = kinds[(0, 2, 1, 2)[place % 4]]
    return pd.DataFrame(columns)


@contextmanager
def nothing_spent() -> Iterator[None]:
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
class Setting:
    """What all simulated fits have in common."""

    n_classes: int
    public: pd.DataFrame | None
    declared: Any
    share: float
    unit_size: int
    delta: float | None
    seed: int
    #: How the estimator reads texts: ``"as given"`` if the rows were read before.
    reading: Mapping[str, str] | str = field(default_factory=dict)

    @property
    def is_usual(self) -> bool:
        """Whether nothing but the numbers of records and epsilon differs from the default."""
        usual = self.declared is None and self.delta is None and self.seed == 0 and self.unit_size == 1
        return usual and self.n_classes == 2 and self.share == SHARE

    def method(self, epsilon: float, number: int = 0) -> LabelMomentsClassifier:
        """Return the estimator of a run."""
        return LabelMomentsClassifier(
            classes=list(range(self.n_classes)),
            epsilon=epsilon,
            delta=self.delta,
            columns=None if self.public is None else self.reading,
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


class Labelled:
    """Estimates by labelled public rows: most of them stand in for records, and the others are scored."""

    n_fits = FOLDS
    basis = "Labelled public rows stand in for records, which are taken to be like them."

    def __init__(self, setting: Setting, rows: pd.DataFrame, labels: Integers) -> None:
        self.setting, self.rows, self.labels = setting, rows, labels
        rng = np.random.default_rng([setting.seed, 2])
        self.folds = np.empty(len(labels), dtype=np.int64)
        # Each fold has its part of each class.
        order = rng.permutation(len(labels))
        order = order[np.argsort(labels[order], kind="stable")]
        self.folds[order] = np.arange(len(labels)) % FOLDS

    def cell(self, n_records: int, epsilon: float, advance: Callable[[float], None]) -> _Cell:
        """Return the mean over folds, with the errors of scored rows and the spread over runs."""
        aurocs, hits = [], []
        for fold in range(FOLDS):
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
        of_rows, n = variance_of_auroc(auroc, counts), len(self.labels)
        of_share = max(accuracy * (1 - accuracy), 1 / n) / n
        return _Cell(
            interval_over_folds(auroc, of_rows, float(np.var(aurocs, ddof=1))),
            interval_over_folds(accuracy, of_share, float(np.var(hits, ddof=1))),
            *_noise(model),
        )


class Unlabelled:
    """Estimates by made-up effects of several strengths, and by how strong effects of public tables are."""

    n_fits = len(_EFFECTS) * _DRAWS
    basis = (
        "The effects of columns on labels are made up. How well yours can be predicted is unknown, so the interval "
        "covers most of 41 public tables: labelled public rows or a stated AUROC without privacy make it much shorter."
    )

    def __init__(
        self,
        setting: Setting,
        rows: pd.DataFrame,
        best: float | None = None,
        stored: Mapping[tuple[int, float], Points] | None = None,
    ) -> None:
        self.setting, self.rows, self.best = setting, rows, best
        self.stored = {} if stored is None else stored
        if best is not None:
            self.basis = (
                f"The effects of columns on labels are made up, and AUROC without privacy is taken to be {best:g}."
            )

    @cached_property
    def _effects(self) -> list[tuple[float, int, Floats]]:
        """The AUROC, number and chances of each made-up effect, which stored figures do without."""
        draws = [(area, number) for area in _EFFECTS for number in range(_DRAWS)]
        return [(area, number, _made_up_chances(self.rows, area, self.setting, number)) for area, number in draws]

    def points(self, n_records: int, epsilon: float, advance: Callable[[float], None]) -> Points:
        """Return what each made-up effect shows beside noise."""
        shown_effects = []
        for area, number, chances in self._effects:
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


def made_up_points(
    rows: pd.DataFrame, n_records: int, epsilon: float, *, share: float = SHARE, delta: float | None = None
) -> Points:
    """Return what made-up effects on public rows show, for two classes. The measurements of tables use it."""
    setting = Setting(n_classes=2, public=rows, declared=None, share=share, unit_size=1, delta=delta, seed=0)
    with nothing_spent():
        return Unlabelled(setting, rows).points(n_records, epsilon, lambda _: None)


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


def _made_up_chances(rows: pd.DataFrame, area: float, setting: Setting, number: int) -> Floats:
    """Return chances of the classes, shape (n_rows, n_classes), whose own AUROC is `area`.

    A few columns matter most. The effect of a number is a smooth curve over ranks, and each category has its own.
    """
    rng = np.random.default_rng([setting.seed, 6, number])
    n_scores = setting.n_classes - 1 if setting.n_classes == 2 else setting.n_classes
    scores = np.column_stack([_score(rows, rng) for _ in range(n_scores)])

    def missing(strength: float) -> float:
        chances = _at_strength(scores, strength, setting)
        return _auroc(chances, chances) - area

    return _at_strength(scores, _root(missing, 0.0, 60.0), setting)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where an increasing function is 0, or the nearer end."""
    if function(low) >= 0 or function(high) <= 0:
        return low if function(low) >= 0 else high
    return float(brentq(function, low, high, xtol=1e-10))


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


def _at_strength(scores: Floats, strength: float, setting: Setting) -> Floats:
    if scores.shape[1] > 1:
        weights = np.exp(strength * (scores - scores.max(axis=1, keepdims=True)))
        return weights / weights.sum(axis=1, keepdims=True)

    def second(middle: float) -> Floats:
        return np.asarray(expit(strength * scores[:, 0] + middle))

    middle = _root(lambda middle: float(second(middle).mean()) - setting.share, -200.0, 200.0)
    chances = second(middle)
    return np.column_stack([1 - chances, chances])


class Costs:
    """Which part of what columns show noise leaves, and the columns that cost more than they pay for.

    If all columns matter alike, leaving one out loses an even part of what they show. It also frees directions, so that
    more of the rest is seen. Columns are left out, those of most directions first, while that is a gain.
    """

    def __init__(self, setting: Setting, n_records: int, epsilon: float) -> None:
        self.setting = setting
        # A run with very few public rows learns from synthetic rows, which need no directions.
        many = setting.public if setting.public is not None and len(setting.public) >= VERY_FEW_ROWS else None
        self.public = None if many is None else many[:_MOST_ROWS_COSTED]
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
