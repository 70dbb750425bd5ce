r"""The quality of risks of an event by a time: one noisy histogram of held-back units, and what follows from it.

A unit's cell states the group of its risk, and how the unit ends. That is an event of some kind in a bin, a censoring
in a bin, or beyond the last time. A unit adds one to one cell, or nothing. So replacing a unit moves the sum by at most
``sqrt(2)``, and adding or removing a unit by at most 1. `dpensemble.quality.release` has the proof, the charge and the
draw. Groups are quantiles of the published model's risks of public rows. A unit has the risk of its group: the mean
over public rows. Everything below reads released cells and public numbers only.

**Figures.** Let ``e`` be events in a bin, ``r`` who enters it, ``c`` who is censored. The curve of censoring has the
factors ``1 - c / (r - d / 2)``, with ``d`` the events of any kind. The Brier score at a time divides each event before
it by the curve in its bin. Who is still free of events is divided by the curve at the time (E. Graf et al., Statistics
in Medicine 1999). A unit with another kind of event has the outcome 0 (R. Schoop et al., Biometrical Journal 2011).
Weights come from the released curve of censoring. No weight is above a limit that is fixed in advance: figures of later
times are left out. The concordance is the share of pairs in which the group of the one with the earlier event has the
higher risk (F. Harrell, JAMA 1982). Ties of groups count half, and pairs within a bin do not count. Who had another
kind of event never has this one (M. Wolbers et al., Epidemiology 2009). Observed shares are those of Kaplan and Meier,
or of Aalen and Johansen.

**Bands.** Each figure ``f`` is a smooth function of the counts ``x`` of all cells. Counts ``x0`` lie between the noisy
ones and those that the model expects, and nearer to the latter where noise hides the former. A figure is
``f(x0) + f'(x0) (y - x0)`` for the released ``y``. This is linear in the noise, so its variance is that of the noise,
which is known, and that of a sample of units with the shares ``x0``. The mean error is of second order in ``x - x0``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpensemble._checks import plural
from dpensemble._entries import Floats, Integers
from dpensemble._random import NoiseSource
from dpensemble.errors import BudgetError
from dpensemble.quality.figures import Figure, PlainValues
from dpensemble.quality.release import WHOLE_UNIT, noise_of_histogram, release_histogram

# Groups of risks, and times within declared ones.
_FEWEST_GROUPS, _MOST_GROUPS, _TIMES_FIRST, _MOST_TIMES = 3, 10, 4, 8
# Noise of the total over all cells, as a share of the units: what is aimed at, and what is refused.
_AIM, _MOST_NOISE = 0.08, 0.2
#: No unit weighs more than this many units to make up for others who were censored.
WEIGHT_LIMIT = 10.0
# How far counts may be from those that the model expects, by cell of time and by group, as a share.
_DOUBT = 1.0
# Normal quantile of a band, least count of a cell, and step of a derivative in counts.
_Z, _TINY, _STEP = 1.959964, 1e-3, 1e-4


@dataclass(frozen=True, kw_only=True)
class TimesLayout:
    """The cells of a release about risks, and their noise. Everything in it follows from public numbers.

    Parameters
    ----------
    ends : tuple of float
        Times that divide cells: ends of bins up to the last one of `at`.
    at : tuple of float
        Declared times at which figures are stated.
    n_kinds : int
        Kinds of events: 1, or 2 if others compete.
    n_units : int
        Number of held-back units.
    n_groups : int
        Groups of the risk, at most.
    epsilon, delta : float
        Budget of a held-back unit.
    """

    ends: tuple[float, ...]
    at: tuple[float, ...]
    n_kinds: int
    n_units: int
    n_groups: int
    epsilon: float
    delta: float

    @classmethod
    def planned(
        cls, bins: Sequence[float], at: Sequence[float], n_kinds: int, n_units: int, epsilon: float, delta: float
    ) -> TimesLayout:
        """Choose the cells that a budget supports.

        The noise of a total over all cells is at most 8 % of the units, if that leaves three groups at the declared
        times. Four times come before more groups, and eight before more than four groups. There are up to 10 groups.

        Parameters
        ----------
        bins : sequence of float
            Ends of all bins.
        at : sequence of float
            Ends of bins at which figures are stated.
        n_kinds : int
            Kinds of events: 1, or 2 if others compete.
        n_units : int
            Number of held-back units. Public.
        epsilon, delta : float
            Budget of a held-back unit.

        Raises
        ------
        BudgetError
            If the noise of the total would be above a fifth of the units even then.

        Examples
        --------
        >>> layout = TimesLayout.planned([90, 180, 365, 730], [180, 730], 1, 1000, 1.0, 1e-5)
        >>> layout.ends, layout.n_groups, layout.n_cells, round(layout.sigma, 2)
        ((90, 180, 365, 730), 10, 90, 5.28)
        """
        sigma, wanted = noise_of_histogram(epsilon, delta), sorted(set(at))
        cells = (_AIM * n_units / sigma) ** 2

        def groups(n_times: int) -> int:
            return int(cells // ((n_kinds + 1) * n_times + 1))

        others = [end for end in bins if end < wanted[-1] and end not in wanted]
        possible = range(len(wanted), max(len(wanted), min(_MOST_TIMES, len(wanted) + len(others))) + 1)
        enough = [n for n in possible if groups(n) >= _FEWEST_GROUPS + (n > _TIMES_FIRST)]
        n_times = max(enough, default=len(wanted))
        n_groups = min(max(groups(n_times), _FEWEST_GROUPS), _MOST_GROUPS)
        places = np.linspace(0, len(others), n_times - len(wanted) + 2)[1:-1].astype(int)
        ends = sorted({*wanted, *(others[place] for place in places)})
        layout = cls(
            ends=tuple(ends),
            at=tuple(wanted),
            n_kinds=n_kinds,
            n_units=n_units,
            n_groups=n_groups,
            epsilon=epsilon,
            delta=delta,
        )
        noise = layout.sigma * math.sqrt(layout.n_cells)
        if noise > _MOST_NOISE * n_units:
            raise BudgetError(
                f"holdout_score: {n_units:,} held-back units are too few for {layout.n_cells} cells at "
                f"epsilon={epsilon:g}, where their total has noise of {noise:,.0f} units: hold back more, raise "
                "epsilon, or state fewer times (at)."
            )
        return layout

    @property
    def n_cells_of_group(self) -> int:
        """Cells of a group of risks: each kind of event and censorings by time, and one beyond the last time."""
        return (self.n_kinds + 1) * len(self.ends) + 1

    @property
    def n_cells(self) -> int:
        """Number of entries of the released sum."""
        return self.n_groups * self.n_cells_of_group

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each cell, in units."""
        return noise_of_histogram(self.epsilon, self.delta)

    def sentence(self, unit: str = "unit") -> str:
        """State what the release holds, before it is drawn. `unit` is the noun for what is held back."""
        units = plural(unit)
        return (
            f"Quality of the risks: {self.n_units:,} {units} are held back for one noisy histogram by group of the "
            f"risk and by time and kind of the end. It has at most {self.n_cells:,} cells, each with noise of standard "
            f"deviation {self.sigma:.3g} {units} at epsilon {self.epsilon:g}."
        )

    def groups(self, risks: Floats, cells: Floats) -> RiskGroups:
        """Return groups of equal size by a published model, as `RiskGroups.of` does."""
        return RiskGroups.of(risks, cells, self.n_groups)

    def exact_total(self, groups: RiskGroups, risks: Floats, cells: Integers) -> Integers:
        """Return the exact sum of the units' vectors in whole numbers. Private.

        Parameters
        ----------
        groups : RiskGroups
            Groups of the published model.
        risks : ndarray of shape (n_units,)
            Risk of each unit by the last time.
        cells : ndarray of shape (n_units,)
            Place of each unit's end among the cells of a group, -1 for a unit that adds nothing.
        """
        size = self.n_cells_of_group
        total, good = np.zeros((len(groups.edges) + 1) * size, dtype=np.int64), cells >= 0
        places = np.searchsorted(groups.edges, risks[good], side="right") * size + cells[good]
        np.add.at(total, places, WHOLE_UNIT)
        return total

    def release(self, groups: RiskGroups, total: Integers, noise: NoiseSource) -> NoisyTimes:
        """Charge for the sum of the units' vectors, draw its noise, and return the noisy cells."""
        words = "the histogram of the model's risks by time and kind of the end, on held-back units"
        noisy, spread, meter = release_histogram(words, total, noise, epsilon=self.epsilon, delta=self.delta)
        layout = replace(self, n_groups=len(groups.edges) + 1)
        return NoisyTimes(
            layout=layout,
            groups=groups,
            cells=noisy.reshape(layout.n_groups, layout.n_cells_of_group),
            sigma=spread,
            epsilon=meter.spent_epsilon,
            charges=meter.charges,
        )


@dataclass(frozen=True, eq=False)
class RiskGroups:
    """Groups of the published model's risk, by public rows. Public.

    Parameters
    ----------
    edges : ndarray of shape (n_groups - 1,)
        Risks by the last time between groups, ascending. A risk that equals an edge is above the edge.
    risks : ndarray of shape (n_groups, n_times)
        Mean risk of each group at the ends.
    alike : ndarray of shape (n_times,)
        Mean risk of all public rows.
    expected : ndarray of shape (n_groups, n_cells_of_group)
        Share of all units that the model expects in each cell. They add up to 1.
    """

    edges: Floats
    risks: Floats
    alike: Floats
    expected: Floats

    @classmethod
    def of(cls, risks: Floats, cells: Floats, n_groups: int) -> RiskGroups:
        """Return groups of equal size, fewer where risks coincide.

        Parameters
        ----------
        risks : ndarray of shape (n_public, n_times)
            Risks of public rows at the ends.
        cells : ndarray of shape (n_public, n_cells_of_group)
            The model's chance of each cell.
        n_groups : int
            Number of groups, at most.
        """
        order = np.sort(risks[:, -1])
        places = (np.arange(1, n_groups) * len(order)) // n_groups
        edges = np.unique(order[places])
        # No row is below the smallest risk.
        edges = edges[edges > order[0]]
        own = np.eye(len(edges) + 1)[np.searchsorted(edges, risks[:, -1], side="right")]
        sizes = own.sum(axis=0)
        return cls(edges, own.T @ risks / sizes[:, None], risks.mean(axis=0), own.T @ cells / len(risks))


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyTimes:
    """The released cells, and everything public about their release.

    Parameters
    ----------
    layout : TimesLayout
        The cells.
    groups : RiskGroups
        Groups of the risk.
    cells : ndarray of shape (n_groups, n_cells_of_group)
        Noisy numbers of units.
    sigma : float
        Standard deviation of the noise on each cell, in units.
    epsilon : float
        Cost of the release for a held-back unit.
    charges : tuple of dict
        The charged sum, for a certificate.
    """

    layout: TimesLayout
    groups: RiskGroups
    cells: Floats
    sigma: float
    epsilon: float
    charges: tuple[dict[str, float], ...] = ()

    @cached_property
    def smoothed(self) -> Floats:
        """Counts between the noisy ones and those that the model expects, above 0.

        A prior lets counts of a group, and of a cell of time, be off by a half from what the model expects.
        """
        expected = np.maximum(self.groups.expected * self.layout.n_units, _TINY)
        flat, (n_groups, n_cells) = expected.ravel(), expected.shape
        group, cell = np.divmod(np.arange(len(flat)), n_cells)
        alike = (group[:, None] == group).astype(float) + (cell[:, None] == cell)
        prior = np.diag(flat) + _DOUBT**2 * np.outer(flat, flat) * alike
        noisy = prior + self.sigma**2 * np.eye(len(flat))
        counts = flat + prior @ np.linalg.solve(noisy, self.cells.ravel() - flat)
        # A cell is never far below what is expected, so that no group is empty.
        return np.maximum(counts, np.maximum(flat / 10, _TINY)).reshape(n_groups, n_cells)

    @cached_property
    def counts(self) -> Counts:
        """The smoothed counts by kind and time."""
        return Counts.of(self.smoothed, self.layout)

    @property
    def n_weighted(self) -> int:
        """Number of ends at which no weight is above the limit."""
        low = np.flatnonzero(self.counts.censoring < 1 / WEIGHT_LIMIT)
        return int(low[0]) if len(low) else len(self.layout.ends)

    def banded(self, of: Callable[[Counts], Floats]) -> tuple[list[Figure], Floats]:
        """Return figures with bands, and their slopes by counts. `of` takes counts to figures, the last axis."""
        start, layout = self.smoothed, self.layout
        size, shape = start.size, start.shape
        steps = (_STEP * np.eye(size)).reshape(size, *shape)
        values = of(self.counts)
        slopes = (of(Counts.of(start + steps, layout)) - of(Counts.of(start - steps, layout))) / (2 * _STEP)
        best = values + (self.cells - start).ravel() @ slopes
        shares = start.ravel() / max(float(start.sum()), float(layout.n_units))
        sampling = layout.n_units * (shares @ slopes**2 - (shares @ slopes) ** 2)
        spread = np.sqrt(sampling + self.sigma**2 * (slopes**2).sum(axis=0))
        bands = zip(best.tolist(), (best - _Z * spread).tolist(), (best + _Z * spread).tolist(), strict=True)
        return [Figure(*one) for one in bands], slopes

    def figures(self) -> PlainValues:
        """Return how good the risks are, with 95 % bands, as plain values. May be published.

        Scores are integrated up to `until`, the last time at which no weight is above `WEIGHT_LIMIT`. At each declared
        time `times` has an entry.
        """
        layout, n = self.layout, self.n_weighted
        (order,), _ = self.banded(lambda counts: counts.concordance[..., None])
        return {
            "units": layout.n_units,
            "sigma": self.sigma,
            "epsilon": self.epsilon,
            "level": Figure.LEVEL,
            "weight_limit": WEIGHT_LIMIT,
            "ends": list(layout.ends),
            "edges": self.groups.edges.tolist(),
            "cells": self.cells.tolist(),
            "censoring": self.counts.censoring.tolist(),
            "concordance": _inside(order),
            "until": layout.ends[n - 1] if n else None,
            "integrated": _scores(self, lambda brier: integrated(layout.ends[:n], brier[..., :n])[..., None])
            if n
            else None,
            "times": [self._at(layout.ends.index(time), n) for time in layout.at],
        }

    def _at(self, place: int, n: int) -> PlainValues:
        """Return what is known at the end of a bin."""
        groups = self.groups
        seen, _ = self.banded(lambda counts: counts.incidence[..., place])
        together, _ = self.banded(lambda counts: counts.together.incidence[..., place])
        sizes, _ = self.banded(_shares)
        mean, _ = self.banded(lambda counts: (_shares(counts) @ groups.risks[:, place])[..., None])
        return {
            "time": self.layout.ends[place],
            "brier": _scores(self, lambda brier: brier[..., [place]]) if place < n else None,
            "predicted": float(np.clip(mean[0].value, 0.0, 1.0)),  # type: ignore[arg-type]
            "observed": _inside(together[0]),
            "groups": [
                {"predicted": float(risk), "share": _inside(size), "observed": _inside(one)}
                for risk, size, one in zip(groups.risks[:, place], sizes, seen, strict=True)
            ],
        }


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of events, shape (..., n_groups, n_kinds, n_times), censorings without kinds, and those beyond."""

    events: Floats
    censored: Floats
    beyond: Floats

    @classmethod
    def of(cls, cells: Floats, layout: TimesLayout) -> Counts:
        """Return counts of cells, shape (..., n_groups, n_cells_of_group)."""
        n_times, n_kinds = len(layout.ends), layout.n_kinds
        by_kind = cells[..., :-1].reshape(*cells.shape[:-1], n_kinds + 1, n_times)
        return cls(by_kind[..., :-1, :], by_kind[..., -1, :], cells[..., -1])

    @property
    def together(self) -> Counts:
        """All groups as one."""
        return Counts(
            self.events.sum(axis=-3, keepdims=True),
            self.censored.sum(axis=-2, keepdims=True),
            self.beyond.sum(axis=-1, keepdims=True),
        )

    @property
    def entering(self) -> Floats:
        """Who enters each bin, and who is beyond the last one, shape (..., n_groups, n_times + 1)."""
        leaving = self.events.sum(axis=-2) + self.censored
        both = np.concatenate([leaving, self.beyond[..., None]], axis=-1)
        return np.asarray(np.cumsum(both[..., ::-1], axis=-1)[..., ::-1])

    @property
    def censoring(self) -> Floats:
        """The curve of censoring of all groups together, shape (..., n_times)."""
        own = self.together
        exposed = own.entering[..., :-1] - own.events.sum(axis=-2) / 2
        return np.cumprod(1 - np.minimum(own.censored / np.maximum(exposed, _TINY), 0.999), axis=-1)[..., 0, :]

    @property
    def incidence(self) -> Floats:
        """The chance of the first kind of event by each end, and before any other, shape (..., n_groups, n_times)."""
        exposed = np.maximum(self.entering[..., :-1] - self.censored / 2, _TINY)
        every = np.minimum(self.events.sum(axis=-2) / exposed, 1.0)
        free = np.cumprod(1 - every, axis=-1)
        before = np.concatenate([np.ones_like(free[..., :1]), free[..., :-1]], axis=-1)
        return np.cumsum(before * self.events[..., 0, :] / exposed, axis=-1)

    def brier(self, risks: Floats) -> Floats:
        """Return the Brier score at each end, shape (..., n_times), of risks of groups, shape (n_groups, n_times)."""
        curve = self.censoring
        before = np.concatenate([np.ones_like(curve[..., :1]), curve[..., :-1]], axis=-1)
        weights = 2 / (before + curve)
        first = np.cumsum(self.events[..., 0, :] * weights[..., None, :], axis=-1)
        others = np.cumsum(self.events[..., 1:, :].sum(axis=-2) * weights[..., None, :], axis=-1)
        free = self.entering[..., 1:] / curve[..., None, :]
        errors = first * (1 - risks) ** 2 + (others + free) * risks**2
        return np.asarray(errors.sum(axis=-2) / (first + others + free).sum(axis=-2))

    @property
    def concordance(self) -> Floats:
        """The share of comparable pairs in which the group of the earlier event has the higher risk."""
        first = self.events[..., 0, :]
        # Who had another kind of event up to the bin never has this one.
        later = self.entering[..., 1:] + np.cumsum(self.events[..., 1:, :].sum(axis=-2), axis=-1)
        below = np.cumsum(later, axis=-2) - later / 2
        right = (first * below).sum(axis=(-2, -1))
        pairs = (first * later.sum(axis=-2, keepdims=True)).sum(axis=(-2, -1))
        return np.asarray(right / np.maximum(pairs, _TINY))


def integrated(ends: Sequence[float], scores: Floats) -> Floats:
    """Return the mean over time of scores at ends, from 0 at time 0 and by lines between ends."""
    padded = np.concatenate([np.zeros_like(scores[..., :1]), scores], axis=-1)
    return np.asarray(np.trapezoid(padded, [0.0, *ends], axis=-1) / ends[-1])


def _shares(counts: Counts) -> Floats:
    """Return the share of each group."""
    sizes = counts.entering[..., 0]
    return np.asarray(sizes / sizes.sum(axis=-1, keepdims=True))


def _scores(noisy: NoisyTimes, read: Callable[[Floats], Floats]) -> PlainValues:
    """Return a figure of Brier scores of the model, of everybody alike, and of their difference."""
    groups = noisy.groups
    alike = np.broadcast_to(groups.alike, groups.risks.shape)

    def both(counts: Counts) -> Floats:
        own, other = (read(counts.brier(risks)) for risks in (groups.risks, alike))
        return np.concatenate([own, other, other - own], axis=-1)

    (own, other, better), _ = noisy.banded(both)
    return {"model": _inside(own), "alike": _inside(other), "better": better.to_dict()}


def _inside(figure: Figure) -> dict[str, float | None]:
    """Return a share and its band, cut to what is possible."""
    return {name: min(max(value, 0.0), 1.0) for name, value in figure.to_dict().items() if value is not None}
