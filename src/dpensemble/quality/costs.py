r"""Costs of wrong decisions, and the threshold that they ask for.

If probabilities are right, calling a unit positive costs less exactly when its probability is above
``false_positive / (false_positive + false_negative)`` (C. Elkan, "The foundations of cost-sensitive learning", IJCAI
2001). A released histogram shows whether the probabilities are right: between two thresholds it counts the units whose
decision differs, and so how much one threshold saves over the other. The threshold of least noisy cost would mostly be
the one that noise favours. So another threshold takes the place of Elkan's only if it saves something at the lower end
of a band that holds over all thresholds together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpensemble._arrays import Floats
from dpensemble._checks import real_between
from dpensemble.errors import InvalidParameterError
from dpensemble.quality.curves import ClassCurves
from dpensemble.quality.figures import Figure, Plain, critical
from dpensemble.quality.release import HALF

_MOST = 1e9
_LEAST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs of wrong decisions about two classes. Only their ratio matters for the threshold.

    Parameters
    ----------
    false_negative : float
        Cost of a missed case, above 0.
    false_positive : float
        Cost of a false alarm, above 0.

    Raises
    ------
    InvalidParameterError
        If a cost is not a number above 0.

    Examples
    --------
    >>> Costs(false_negative=9, false_positive=1).threshold
    0.1
    """

    false_negative: float
    false_positive: float

    def __post_init__(self) -> None:
        for name in ("false_negative", "false_positive"):
            value = self.to_dict()[name]
            try:
                real_between(name, value, _LEAST, _MOST)
            except InvalidParameterError:
                raise InvalidParameterError(
                    f"cost_{name}={value!r} must be a number above 0 (at most {_MOST:g}): give what one such mistake "
                    "costs.",
                    parameter=f"cost_{name}",
                ) from None

    @classmethod
    def of(cls, given: Mapping[str, float] | None) -> Costs | None:
        """Return costs from a mapping with both names, or None."""
        if given is None:
            return None
        if not isinstance(given, Mapping) or set(given) != {"false_negative", "false_positive"}:
            raise InvalidParameterError(
                f"costs={given!r} must have false_negative and false_positive: give both.", parameter="costs"
            )
        return cls(**given)

    @property
    def threshold(self) -> float:
        """The threshold for probabilities that are right."""
        return self.false_positive / (self.false_positive + self.false_negative)

    def to_dict(self) -> dict[str, float]:
        """Return both costs."""
        return {"false_negative": self.false_negative, "false_positive": self.false_positive}


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The threshold for some costs, and what it does to 1,000 units. May be published.

    Parameters
    ----------
    costs : Costs
        Costs of wrong decisions.
    positive : str
        The class whose probability is compared with the threshold.
    threshold : float
        Probability from which a unit is called positive.
    formula : float
        The threshold for probabilities that are right.
    why : str
        Where the threshold comes from, in words.
    table : tuple of dict
        What thresholds do to 1,000 units: ``name``, ``threshold``, and figures of ``alarms``, ``missed``,
        ``false_alarms`` and ``cost``. Empty without held-back units.
    """

    costs: Costs
    positive: str
    threshold: float
    formula: float
    why: str
    table: tuple[Plain, ...] = ()

    def to_dict(self) -> Plain:
        """Return the decision as plain values."""
        return {
            "costs": self.costs.to_dict(),
            "positive_class": self.positive,
            "threshold": self.threshold,
            "formula": self.formula,
            "why": self.why,
            "per_1000": [
                {name: one.to_dict() if name in _FIGURES else one for name, one in row.items()} for row in self.table
            ],
        }


_FIGURES = frozenset({"alarms", "missed", "false_alarms", "cost"})


def decide(costs: Costs, positive: str, cells: Floats | None, curves: ClassCurves | None, sigma: float) -> Decision:
    """Return the threshold for some costs.

    Parameters
    ----------
    costs : Costs
        Costs of wrong decisions.
    positive : str
        The positive class.
    cells : ndarray of shape (2, n_bins) or None
        Noisy numbers of units: the rest, then the positive class. None without held-back units.
    curves : ClassCurves or None
        The figures of the cells.
    sigma : float
        Standard deviation of the noise on each cell.
    """
    formula = costs.threshold
    if cells is None or curves is None:
        why = (
            "This threshold is right if the probabilities are. No units were held back, so nothing shows whether they "
            "are. --holdout-score does, and adds a table per 1,000 people."
        )
        return Decision(costs=costs, positive=positive, threshold=formula, formula=formula, why=why)
    thresholds = list(curves.thresholds)
    start = thresholds.index(HALF if formula == 0.5 else formula)
    chosen, saved = _better(costs, cells, start, sigma)
    if chosen == start:
        why = (
            f"The costs ask for {formula:.4g} if the probabilities are right. Of {len(thresholds)} thresholds of the "
            "released histogram, no other one saves anything beyond the noise."
        )
    else:
        why = (
            f"The costs ask for {formula:.4g} if the probabilities are right. The released histogram shows that "
            f"{thresholds[chosen]:.4g} costs at least {1000 * saved / max(cells.sum(), 1):.3g} less per 1,000 people, "
            "noise and chance included."
        )
    # One row for each threshold, by the first of its names.
    rows = {thresholds.index(HALF): "one half"} | {start: "formula"} | {chosen: "for these costs"}
    table = [_row(name, curves, place, costs) for place, name in reversed(rows.items())]
    return Decision(
        costs=costs,
        positive=positive,
        threshold=thresholds[chosen],
        formula=formula,
        why=why,
        table=tuple(table),
    )


def _better(costs: Costs, cells: Floats, start: int, sigma: float) -> tuple[int, float]:
    """Return the threshold that surely saves most over the one at `start`, and how much it saves at least."""
    negative, positive = cells
    n_thresholds = len(positive) - 1
    z = critical(max(n_thresholds - 1, 1))
    best, most = start, 0.0
    for place in range(n_thresholds):
        between = slice(min(place, start) + 1, max(place, start) + 1)
        sign = 1 if place < start else -1
        saved = sign * (costs.false_negative * positive[between].sum() - costs.false_positive * negative[between].sum())
        n_between = abs(place - start)
        variance = costs.false_negative**2 * (
            n_between * sigma**2 + np.maximum(positive[between], 0).sum()
        ) + costs.false_positive**2 * (n_between * sigma**2 + np.maximum(negative[between], 0).sum())
        surely = float(saved - z * np.sqrt(variance))
        if surely > most:
            best, most = place, surely
    return best, most


def _row(name: str, curves: ClassCurves, place: int, costs: Costs) -> Plain:
    alarms, missed, false_alarms = (
        curves.at[which][place].times(1000) for which in ("alarms", "missed", "false_alarms")
    )
    values = missed.value, false_alarms.value
    value = None if None in values else costs.false_negative * values[0] + costs.false_positive * values[1]  # type: ignore[operator]
    cost = Figure(
        value,
        costs.false_negative * missed.low + costs.false_positive * false_alarms.low,
        costs.false_negative * missed.high + costs.false_positive * false_alarms.high,
    )
    return {
        "name": name,
        "threshold": curves.thresholds[place],
        "alarms": alarms,
        "missed": missed,
        "false_alarms": false_alarms,
        "cost": cost,
    }
