r"""Synthetic rows in place of public ones: from noisy shares of cells, and noisy second moments of columns' scores.

Synthetic rows replace public rows if there are none, if there are few, or if they do not look like the private ones.
The shares describe how common each entry is, and a normal copula describes which entries go together. Each column's
cells are put in the order of their effects in a first published model. Then rows are drawn. Their normal scores have
the correlations that were released. A model that adds up the effects of columns depends little on other interactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpensemble._arrays import Floats
from dpensemble.moments.grid import Grid

# Standard deviations of the noise that a cell must hold.
_LEAST = 2.0
#: Most columns whose correlations are released. These columns have the largest effects.
MOST_COLUMNS = 40
# Strongest correlation, and the tail in which a normal score stays the same.
_CLOSEST, _RAREST = 0.95, 1e-4


@dataclass(frozen=True, eq=False)
class Shares:
    """Noisy shares of a grid's cells, one array a column, from 0 and with sum 1. Public."""

    grid: Grid
    shares: list[Floats]

    @classmethod
    def of(cls, grid: Grid, released: Floats, spread: float) -> Shares:
        """Return shares from the released mean of `Grid.one_hot`, with cells joined that hold little but noise."""
        factor = np.sqrt(len(grid.columns))
        parts = np.split(released * factor, np.cumsum(grid.sizes)[:-1])
        coarse, held = grid.joined(parts, _LEAST * spread * factor)
        return cls(coarse, [on_simplex(one) for one in held])

    def draw(self, n_rows: int, seed: int = 0) -> NDArray[np.int64]:
        """Return cells of rows whose columns are independent, each with its shares as exactly as can be."""
        order = np.random.default_rng(seed)
        ranks = np.stack([order.permutation(n_rows) for _ in self.shares], axis=1)
        return self.at(ranks, [np.arange(len(one)) for one in self.shares])

    def at(self, ranks: NDArray[np.int64], orders: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the cells at ranks from 0 of rows in each column, whose cells lie in an order."""
        cells = np.empty_like(ranks)
        for number, (share, order) in enumerate(zip(self.shares, orders, strict=True)):
            ends = np.cumsum(share[order])
            cells[:, number] = order[np.searchsorted(ends / ends[-1], (ranks[:, number] + 0.5) / len(ranks))]
        return cells


def on_simplex(values: Floats) -> Floats:
    """Return the shares (from 0, with sum 1) that are closest to some numbers."""
    falling = np.sort(values)[::-1]
    above = (np.cumsum(falling) - 1) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(falling > above)[-1])
    shares: Floats = np.maximum(values - above[last], 0.0)
    return shares / shares.sum()


@dataclass(frozen=True, eq=False)
class Scores:
    """Normal scores of the cells of some columns: quantiles in the order of the cells' effects in a published model."""

    shares: Shares
    columns: NDArray[np.int64]
    values: list[Floats]

    @classmethod
    def of(cls, shares: Shares, effects: Sequence[Floats]) -> Scores:
        """Return the scores by effects, shape (n_cells, n_classes or 1) for each column."""
        along = [_main_effect(effect, share) for effect, share in zip(effects, shares.shares, strict=True)]
        spreads = [share @ one**2 for one, share in zip(along, shares.shares, strict=True)]
        chosen = np.sort(np.argsort(spreads, kind="stable")[::-1][:MOST_COLUMNS])
        return cls(shares, chosen, [_scores(along[number], shares.shares[number]) for number in chosen])

    def of_rows(self, X: Any) -> Floats:
        """Return rows' scores over the root of the number of columns, so that they are hardly ever longer than 1."""
        cells = self.shares.grid.cells(X)[:, self.columns]
        scores = np.stack([score[cells[:, number]] for number, score in enumerate(self.values)], axis=1)
        return scores / np.sqrt(len(self.values))

    def correlation(self, products: Floats, spread: float) -> Floats:
        """Return correlations by noisy mean products of `of_rows`, shrunk by their noise."""
        held = [self.shares.shares[number] for number in self.columns]
        variances = np.array([share @ score**2 for share, score in zip(held, self.values, strict=True)]).clip(min=1e-3)
        scale = np.sqrt(np.outer(variances, variances)) / len(self.values)
        correlations = products / scale
        # Subtracts the correlation that pure noise would show.
        correlations *= np.maximum(0.0, 1 - (spread / scale) ** 2 / np.maximum(correlations**2, 1e-12))
        correlations = correlations.clip(-_CLOSEST, _CLOSEST)
        np.fill_diagonal(correlations, 1.0)
        values, vectors = np.linalg.eigh(correlations)
        positive = (vectors * values.clip(min=1e-3)) @ vectors.T
        size = np.sqrt(np.diag(positive))
        result: Floats = positive / np.outer(size, size)
        return result

    def draw(self, correlation: Floats, n_rows: int, seed: int = 0) -> NDArray[np.int64]:
        """Return cells of rows drawn by a normal copula of these columns. All other columns are independent."""
        draws = np.random.default_rng(seed)
        latent = draws.normal(size=(n_rows, len(self.shares.shares)))
        latent[:, self.columns] @= np.linalg.cholesky(correlation).T
        orders = [np.arange(len(one)) for one in self.shares.shares]
        for number, score in zip(self.columns, self.values, strict=True):
            orders[number] = np.argsort(score, kind="stable")
        return self.shares.at(latent.argsort(axis=0).argsort(axis=0), orders)


def _main_effect(effect: Floats, share: Floats) -> Floats:
    """Return effects along the direction of classes in which they differ most."""
    centred = effect - share @ effect
    _, vectors = np.linalg.eigh((centred * share[:, None]).T @ centred)
    main_effect: Floats = centred @ vectors[:, -1]
    return main_effect


def _scores(effect: Floats, share: Floats) -> Floats:
    order = np.argsort(effect, kind="stable")
    score = np.empty(len(share))
    score[order] = stats.norm.ppf((np.cumsum(share[order]) - share[order] / 2).clip(_RAREST, 1 - _RAREST))
    centred: Floats = score - share @ score
    return centred
