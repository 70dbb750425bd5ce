"""Columns of predictions of a number or of a risk, and what was released about them.

Figures of a run without test rows follow from the released counts of residuals and from public rows only, so they cost
nothing more. Let a group of predictions have counts ``c_j`` of residuals near ``e_j``, and let ``f`` go through the
public predictions of the group. Then the numbers of the group are near ``T^-1(f + e_j)``, and every mean over records
follows from the counts. Errors rest on released laws, in which noise hides long tails. R2 rests on the counts
themselves, since tails decide about squares. Its band is by the known noise of the counts and by chance in them: counts
are drawn again with both. It is left out if its band is too wide. All counts are of training records, so new records
are a little worse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from dpensemble._checks import real_between
from dpensemble._entries import Floats, Rows
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.numbers import NumberModel
from dpensemble.quality.times import NoisyTimes
from dpensemble.workflow.tables import Tables

#: Coverage of intervals that nobody chose.
COVERAGE = 0.9
# Quantiles of numbers in a group, and of predictions.
_OF_NUMBERS, _OF_PREDICTIONS = (0.05, 0.25, 0.5, 0.75, 0.95), (0.1, 0.5, 0.9)
# Times that counts are drawn again, and a band of R2 that is too wide.
_DRAWS, _WIDEST_R2 = 1000, 0.4


class _Student(Protocol):
    """A student, or an estimator, of a number."""

    def predict(self, X: Rows) -> Floats: ...
    def predict_median(self, X: Rows) -> Floats: ...
    def predict_quantile(self, X: Rows, q: float) -> Floats: ...
    def predict_interval(self, X: Rows, coverage: float = ..., *, guaranteed: bool = ...) -> Floats: ...


@dataclass(frozen=True)
class NumberColumns:
    """Which columns of predictions there are: mean, median, an interval, and further quantiles.

    Parameters
    ----------
    coverage : float
        Coverage of the interval, from 0.01 to 0.999.
    quantiles : sequence of float
        Shares of such records that are below a number, from 0.001 to 0.999.
    proven : bool
        Whether the coverage is proven. The run must have paid for that.
    """

    coverage: float = COVERAGE
    quantiles: Sequence[float] = ()
    proven: bool = False

    def __post_init__(self) -> None:
        real_between("coverage", self.coverage, 0.01, 0.999)
        for quantile in self.quantiles:
            real_between("quantiles", quantile, 0.001, 0.999)
        if len(set(self.names)) < len(self.names):
            raise InvalidParameterError(
                f"quantiles={list(self.quantiles)!r} names one twice: name each once.", parameter="quantiles"
            )

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return ["mean", "median", "low", "high", *(f"quantile {quantile:g}" for quantile in self.quantiles)]

    def of(self, student: _Student, rows: Rows) -> dict[str, Floats]:
        """Return the columns of rows by name. A proven end that is open is infinite."""
        try:
            ends = student.predict_interval(rows, self.coverage, guaranteed=self.proven)
        except InvalidParameterError as error:
            if error.parameter == "coverage" and self.proven:
                raise InvalidParameterError(
                    str(error).replace("(guaranteed=False)", "(leave --proven out)"), parameter="coverage"
                ) from None
            if error.parameter != "guaranteed":
                raise
            raise InvalidParameterError(
                "proven intervals need counts that the run did not pay for: train with --proven-coverage, such as 0.9, "
                "or leave proven out.",
                parameter="proven",
            ) from None
        further = [student.predict_quantile(rows, quantile) for quantile in self.quantiles]
        columns = [student.predict(rows), student.predict_median(rows), ends[:, 0], ends[:, 1], *further]
        return dict(zip(self.names, columns, strict=True))


@dataclass(frozen=True)
class RiskColumns:
    """Which columns of risks there are: the chance of the event by each of some times.

    Parameters
    ----------
    at : sequence of float
        Times from 0 to the horizon, each once. None stands for the ends of the declared bins.
    """

    at: Sequence[float] = ()

    def __post_init__(self) -> None:
        if len(set(self.at)) < len(self.at):
            raise InvalidParameterError(f"at={list(self.at)!r} names one twice: name each once.", parameter="at")

    def of(self, student: Rows, rows: Rows) -> dict[str, Floats]:
        """Return the columns of rows by name."""
        ends = student.steps[-1][1].ends_
        times = [real_between("at", time, 0.0, float(ends[-1])) for time in self.at] or ends.tolist()
        risks = student.predict_risk(rows, times)
        return {f"risk by {time:.12g}": risks[:, place] for place, time in enumerate(times)}


# Kinds of columns by a method that only such students have.
_BY_METHOD = {"predict_interval": NumberColumns, "predict_risk": RiskColumns}


def columns_of(student: object) -> type[NumberColumns] | type[RiskColumns] | None:
    """Return the kind of columns that a student predicts, or None for labels."""
    return next((kind for method, kind in _BY_METHOD.items() if hasattr(student, method)), None)


def risk_facts(
    fitted: Rows, tables: Tables, transform: Callable[[pd.DataFrame], Rows], released: NoisyTimes | None = None
) -> dict[str, object]:
    """Return entries of a record's data: the released life table, risks of public rows, and the released quality."""
    if tables.times is None:
        return {}
    columns = RiskColumns().of(fitted.student_, transform(tables.X_public))
    risks = np.column_stack(list(columns.values()))
    low, median, high = np.quantile(risks, _OF_PREDICTIONS, axis=0)
    named = {"mean": risks.mean(axis=0), "low": low, "median": median, "high": high}
    rows = {name: values.tolist() for name, values in named.items()}
    facts = fitted.life_table_.to_dict() | tables.times.declared.facts() | {"public": rows}
    if released is None:
        return {"risk": facts}
    return {"risk": facts | {"score": released.figures()}, "held_back": released.layout.n_units}


def number_facts(fitted: Rows, tables: Tables, transform: Callable[[pd.DataFrame], Rows]) -> dict[str, object]:
    """Return the entries of a record's data about a number. Those of test rows are exact, and no guarantee covers them.

    Everything else follows from what was released and from public rows.
    """
    model: NumberModel = fitted.student_.steps[-1][1]
    rows = transform(tables.X_public)
    facts = _of_public_rows(fitted, model, rows) | _Mixture.of(model).figures()
    facts |= {"low": model.low, "high": model.high, "logarithm": model.scale.shift is not None}
    result: dict[str, object] = {"number": facts}
    if tables.y_public is not None:
        result["public_number"] = _scores(fitted, rows, tables.y_public.to_numpy(), model)
    if tables.X_test is not None and tables.y_test is not None:
        result["test_number"] = _scores(fitted, transform(tables.X_test), tables.y_test.to_numpy(), model)
    return result


def _of_public_rows(fitted: _Student, model: NumberModel, rows: Rows) -> dict[str, object]:
    """Return typical lengths of intervals and shares of open ends, over public rows."""
    facts: dict[str, object] = {"coverage": COVERAGE, "proven": None}
    facts |= _lengths(fitted.predict_interval(rows, COVERAGE), model)
    if model.proof_:
        coverage = float(fitted.design_.proven_coverage)  # type: ignore[attr-defined]
        try:
            ends = fitted.predict_interval(rows, coverage, guaranteed=True)
            facts["proven"] = {"coverage": coverage} | _lengths(ends, model)
        except InvalidParameterError:
            # Noise left nothing that could be proven.
            facts["proven"] = {"coverage": coverage, "width": None}
    return facts


def _lengths(ends: Floats, model: NumberModel) -> dict[str, float | None]:
    """Return the median length of intervals whose ends are inside the range, and shares of open ends."""
    below, above = ends[:, 0] <= model.low, ends[:, 1] >= model.high
    cut = np.clip(ends, model.low, model.high)
    return {
        "width": float(np.median(cut[:, 1] - cut[:, 0])),
        "open_below": float(np.mean(below)),
        "open_above": float(np.mean(above)),
    }


def _scores(fitted: _Student, rows: Rows, truth: Floats, model: NumberModel) -> dict[str, float | int | None]:
    """Return exact figures on rows with known numbers, which count as the end of the range beyond it."""
    cut = np.clip(np.asarray(truth, dtype=np.float64), model.low, model.high)
    mean, median, ends = fitted.predict(rows), fitted.predict_median(rows), fitted.predict_interval(rows, COVERAGE)
    spread = float(np.mean((cut - cut.mean()) ** 2))
    return {
        "rows": len(cut),
        "r2": None if not spread else 1 - float(np.mean((cut - mean) ** 2)) / spread,
        "error": float(np.mean(np.abs(cut - median))),
        "error_of_median": float(np.mean(np.abs(cut - np.median(cut)))),
        "inside": float(np.mean((ends[:, 0] <= cut) & (cut <= ends[:, 1]))),
    }


@dataclass(frozen=True, eq=False)
class _Mixture:
    """Numbers near each cell of released counts, shape (n_groups, n_places, n_cells), and the counts."""

    model: NumberModel
    numbers: Floats
    counts: Floats
    #: By the released law of each group, with chances of shape (n_groups, n_points).
    of_law: Floats

    @classmethod
    def of(cls, model: NumberModel) -> _Mixture:
        places = model.typical_[:, :, None]
        numbers, of_law = (model.scale.numbers(places + points) for points in (model.middles_, model.law_points_))
        return cls(model, numbers, model.counts_, of_law)

    @property
    def _shares(self) -> Floats:
        """Shares of records in groups."""
        return np.asarray(self.model.totals_ / self.model.totals_.sum())

    def _quantiles(self, shares: Sequence[float], groups: Floats) -> list[float]:
        """Return quantiles of the numbers of some groups, by the released laws. `groups` are their weights."""
        weights = np.broadcast_to(self.model.law_chances_[:, None, :], self.of_law.shape) * groups[:, None, None]
        order = np.argsort(self.of_law, axis=None, kind="stable")
        below = np.cumsum(weights.ravel()[order]) / weights.sum()
        values = self.of_law.ravel()[order]
        return [float(values[min(int(np.searchsorted(below, share)), len(values) - 1)]) for share in shares]

    def figures(self) -> dict[str, object]:
        """Return numbers by groups, and errors beside those of always giving one number."""
        one = np.eye(len(self.counts))
        all_ = self._quantiles(_OF_NUMBERS, self._shares)
        groups = [
            {
                "share": float(share),
                "predicted": [float(v) for v in np.quantile(self._medians()[place], _OF_PREDICTIONS)],
                "numbers": self._quantiles(_OF_NUMBERS, one[place]),
            }
            for place, share in enumerate(self._shares)
        ]
        medians = self._medians()
        facts: dict[str, object] = {"groups": groups, "width_of_all": all_[4] - all_[0], "median": all_[2]}
        facts |= {"error": self._error(medians), "error_of_median": self._error(np.full_like(medians, all_[2]))}
        return facts | {"r2": self._r2()}

    def _error(self, given: Floats) -> float:
        """Return the mean absolute error of given numbers, shape (n_groups, n_places), by the released laws."""
        away = np.abs(self.of_law - given[:, :, None]).mean(axis=1)
        return float(np.einsum("g,gj,gj->", self._shares, away, self.model.law_chances_))

    def _medians(self) -> Floats:
        """Return predicted medians, shape (n_groups, n_places)."""
        model = self.model
        middles = [model.law_points_[int(np.searchsorted(np.cumsum(chances), 0.5))] for chances in model.law_chances_]
        return model.scale.numbers(model.typical_ + np.array(middles)[:, None])

    def _means(self) -> Floats:
        """Return predicted means, shape (n_groups, n_places)."""
        model = self.model
        if model.scale.shift is None:
            along = model.typical_ - model.centre_
            return model.scale.numbers(model.typical_ + model.offset_ + model.slope_ * along)
        return np.asarray(np.einsum("gpj,gj->gp", self.of_law, model.law_chances_))

    def _drawn(self) -> Floats:
        """Return counts, first as they are and then drawn again, shape (1 + n_draws, n_groups * n_cells)."""
        deviation = np.sqrt(self.model.noise_**2 + np.maximum(self.counts, 0.0)).ravel()
        rng = np.random.default_rng(0)
        counts = self.counts.ravel()
        again = counts + deviation * rng.normal(size=(_DRAWS, len(counts)))
        return np.vstack([counts, again])

    def _means_of(self, values: Floats) -> Floats:
        """Return the mean of values of shape (n_groups, n_places, n_cells) over records, for all drawn counts."""
        drawn = self._drawn()
        return np.asarray(drawn @ values.mean(axis=1).ravel() / np.maximum(drawn.sum(axis=1), 1.0))

    def _r2(self) -> dict[str, float] | None:
        """Return R2 with its band, or None if noise hides it, as it does where tails are long."""
        middle = float(np.einsum("g,gpj,gj->", self._shares, self.of_law, self.model.law_chances_))
        middle /= self.of_law.shape[1]
        errors = self._means_of((self.numbers - self._means()[:, :, None]) ** 2)
        centred = self.numbers - middle
        spreads = self._means_of(centred**2) - self._means_of(centred) ** 2
        if spreads.min() <= 0:
            return None
        r2 = 1 - errors / spreads
        low, high = (float(end) for end in np.quantile(r2[1:], (0.025, 0.975)))
        if high - low > _WIDEST_R2:
            return None
        return {"value": min(float(r2[0]), 1.0), "low": low, "high": min(high, 1.0)}
