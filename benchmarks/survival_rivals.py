"""A rival of `LabelMomentsSurvival`: private descent on the pooled logistic loss of bins, with an exact account."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import pandas as pd
from scipy.special import expit

from arena.dp_gd import mu_of
from arena.gradients import scaled

# Hazards of a bin before the first step.
_START = 0.05


@dataclass(frozen=True)
class Settings:
    """How to descend: how far steps lead in all where gradients have length `clip`, and pieces of constant hazard.

    Without `way` it is `factor` times what public facts suggest, as by `far`.
    """

    clip: float
    pieces: int
    way: float | None = None
    factor: float = 1.5
    steps: int = 60


#: The best of `CANDIDATES` by the development tables of `survival.py`, none of which is shown.
FIXED = Settings(clip=1.0, pieces=4, factor=1.5)
CANDIDATES = tuple(
    Settings(clip, pieces, factor=factor)
    for clip in (0.3, 1.0, 3.0)
    for pieces in (4, 20)
    for factor in (0.5, 1.5, 5.0)
)
#: The best of these by test rows is more than a private method can reach.
GRID = tuple(
    Settings(clip, pieces, way)
    for clip in (0.3, 1.0, 3.0)
    for pieces in (4, 20)
    for way in (3.0, 10.0, 30.0, 100.0, 300.0)
)


def encoded(by, *others):
    """Return tables as numbers, by categories of all, and by medians, means and deviations of the first one."""
    table = pd.get_dummies(pd.concat([by, *others]), drop_first=True, dtype=float)
    table = table.fillna(table[: len(by)].median()).to_numpy()
    middle, spread = table[: len(by)].mean(axis=0), table[: len(by)].std(axis=0)
    table = (table[:, spread > 0] - middle[spread > 0]) / spread[spread > 0]
    return np.split(table, np.cumsum([len(by), *map(len, others)])[:-1])


def clipped_sum(parameters, rows, pieces, cells, clip):
    """Return the sum of people's gradients of the pooled logistic loss, each at most `clip` long.

    The hazard of a bin is ``expit(baseline of its piece + rows @ slopes)``. A person has a term for each bin at risk,
    and the sum of these terms is clipped. So replacing a person moves the sum by at most twice `clip`. `cells`, shape
    (n_people, n_bins), are 0 for a bin survived, 1 for the bin of the event, and NaN later. `pieces`, shape (n_bins,
    n_pieces), has a one for the piece of each bin.
    """
    n_pieces = pieces.shape[1]
    hazards = expit(pieces @ parameters[:n_pieces] + (rows @ parameters[n_pieces:])[:, None])
    apart = np.where(np.isnan(cells), 0.0, hazards - np.nan_to_num(cells))
    of_pieces, together = apart @ pieces, apart.sum(axis=1)
    lengths = np.sqrt((of_pieces**2).sum(axis=1) + together**2 * (rows**2).sum(axis=1))
    factors = np.minimum(1.0, clip / np.maximum(lengths, 1e-300))
    return np.concatenate([factors @ of_pieces, (factors * together) @ rows])


def cells_of(times, is_event, ends):
    """Return what each person adds to each bin. Who is censored within a bin adds nothing to the bin."""
    last = np.searchsorted(ends, times, side="left")[:, None]
    # A censoring at the end of a bin comes after the bin.
    survived = np.where(is_event, 0, np.searchsorted(ends, times, side="right"))[:, None]
    bins = np.arange(len(ends))
    cells = np.where(bins < np.where(is_event[:, None], last, survived), 0.0, np.nan)
    return np.where(is_event[:, None] & (bins == last), 1.0, cells)


def descent(public, private, test, cells, *, epsilon, delta, seed, settings):
    """Return scores of test rows, and chances to be free at the end of each bin, by private descent on all people.

    All steps together are one Gaussian mechanism with mu = 2 clip sqrt(steps) / deviation (Dong, Roth and Su 2022,
    Corollary 3.3), and mu is all that epsilon and delta allow. Rows are read by public ones. The result is the mean of
    the second half of the steps, which costs nothing.
    """
    public, private, test = encoded(public, private, test)
    rows, test = (one[:, :-1] for one in scaled(public, private, test))
    n_bins, mu, rng = cells.shape[1], mu_of(epsilon, delta), np.random.default_rng(seed)
    pieces = np.eye(settings.pieces).repeat(n_bins // settings.pieces, axis=0)
    parameters = np.concatenate([np.full(settings.pieces, np.log(_START / (1 - _START))), np.zeros(rows.shape[1])])
    by_rule = np.clip(settings.factor * mu * len(rows) / sqrt(len(parameters)), 3.0, 300.0)
    pace, deviation = (settings.way or by_rule) / settings.steps / len(rows), 2 * sqrt(settings.steps) / mu
    late = []
    for step in range(settings.steps):
        noisy = clipped_sum(parameters, rows, pieces, cells, settings.clip) / settings.clip
        parameters = parameters - pace * (noisy + deviation * rng.normal(size=len(parameters)))
        if 2 * step >= settings.steps:
            late.append(parameters)
    found = np.mean(late, axis=0)
    scores = test @ found[settings.pieces :]
    hazards = expit(pieces @ found[: settings.pieces] + scores[:, None])
    return scores, np.cumprod(1 - hazards, axis=1)
