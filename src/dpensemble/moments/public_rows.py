"""Public rows, which stand for the private ones in a fit, or synthetic rows in their place.

Means over public rows weigh their units equally. Synthetic rows are drawn from noisy shares of cells, and from noisy
second moments of columns' scores.

Synthetic rows replace public rows if there are none, if there are few, or if they do not look like the private ones.
The shares describe how common each entry is, and a normal copula describes which entries go together. Each column's
cells are put in the order of their effects in a first published model. Then rows are drawn. Their normal scores have
the correlations that were released. A model that adds up the effects of columns depends little on other interactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from dpensemble._entries import Floats, Integers, dense
from dpensemble.moments.maps.grid import Grid
from dpensemble.moments.model import chances_of, logits_of_whole, whole_units


@dataclass(frozen=True, eq=False)
class PublicUnits:
    """The unit of each public row, if it is known, and whether private records have units. Public.

    Parameters
    ----------
    numbers : ndarray of shape (n_public,) or None
        The number of each row's unit, counted from 0. None when it is unknown which rows belong to one unit.
    private : bool
        Whether units of private records were given, so that several records may belong to one unit.
    """

    numbers: Integers | None = None
    private: bool = False

    @property
    def known(self) -> bool:
        """Whether the unit of each public row is known."""
        return self.numbers is not None

    @property
    def shares(self) -> Floats | None:
        """Share of each row in a mean that weighs units equally, as private sums do. None when units are unknown."""
        if self.numbers is None:
            return None
        sizes = np.bincount(self.numbers)
        shares: Floats = 1 / (len(sizes) * sizes[self.numbers])
        return shares

    def count(self, n_rows: int) -> int:
        """Return the number of units, or of rows when units are unknown."""
        return n_rows if self.numbers is None else int(self.numbers.max()) + 1

    def covariance(self, features: Floats) -> Floats:
        """Return the covariance of one row of a unit, when units are equally likely, shape (n_features, n_features)."""
        shares = np.full(len(features), 1 / len(features)) if self.shares is None else self.shares
        apart = (features - shares @ features) * np.sqrt(shares)[:, None]
        products: Floats = apart.T @ apart
        return products

    def means(self, features: Floats) -> Floats:
        """Return the mean of the rows of each unit, shape (n_units, n_features)."""
        if self.numbers is None:
            return features
        sizes, rows = np.bincount(self.numbers), np.arange(len(self.numbers))
        average = sparse.csr_matrix((1 / sizes[self.numbers], (self.numbers, rows)))
        return np.asarray(average @ features)


#: Standard deviation of the constant's part of a logit, before any data.
CONSTANT_LOGIT = 5.0
# The same of the other features together, and the smallest mean square of a block that is assumed.
_LOGIT, _SMALLEST_SQUARE = 1.0, 1e-6
# Rows from which curvatures are estimated: limited by the number of products, but never fewer than these.
_MOST_PRODUCTS, _FEWEST_ROWS, _ROWS_PER_FEATURE = 4e9, 4000, 6


@dataclass(frozen=True, eq=False)
class _RowsInMemory:
    """Some public rows: their numbers, their features, their features as released, and shares that add up to 1."""

    rows: NDArray[np.int64]
    features: NDArray[np.float32]
    released: NDArray[np.float32]
    shares: Floats

    def products(self, weights: Floats, features: NDArray[np.float32]) -> Floats:
        """Return the mean of weighted products of released features and `features`. `weights` are of all rows."""
        weighted = features * (weights[self.rows] * self.shares)[:, None].astype(np.float32)
        means: Floats = (self.released.T @ weighted).astype(np.float64)
        return means


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Features of public rows, their blocks (the last is the constant's), and how well rows stand for private ones.

    A row counts 1 / `kappa` as much as a row of a sample of the same population. By default all rows have the same
    share, and each row is a unit of its own. `units` are the number of each row's unit, when they are known. When the
    model reads other features than those that are released, `released` holds the released features of the rows.
    """

    features: Any
    blocks: NDArray[np.int64]
    n_classes: int
    kappa: float = 1.0
    shares: Floats | None = None
    units: NDArray[np.int64] | None = None
    released: Floats | None = None
    _some: _RowsInMemory = field(init=False)

    def __post_init__(self) -> None:
        n_rows, n_features = self.features.shape
        most = max(_FEWEST_ROWS, _ROWS_PER_FEATURE * n_features, int(_MOST_PRODUCTS / n_features**2))
        rows = np.sort(np.random.default_rng(0).permutation(n_rows)[:most])
        features = dense(self.features[rows]).astype(np.float32)
        released = features if self.released is None else dense(self.released[rows]).astype(np.float32)
        shares = np.ones(len(rows)) if self.shares is None else self.shares[rows]
        object.__setattr__(self, "_some", _RowsInMemory(rows, features, released, shares / shares.sum()))

    @property
    def in_memory(self) -> _RowsInMemory:
        """Some of the rows, as dense matrices. The number of products of features limits their number."""
        return self._some

    @cached_property
    def _sparse_whole(self) -> sparse.csr_matrix:
        return whole_units(self.features)

    @cached_property
    def _across(self) -> Floats | sparse.csr_matrix:
        """Released features, one row a feature."""
        return (self.features if self.released is None else self.released).T

    def probabilities(self, coefficients: Floats) -> Floats:
        """Return the probability of each class in each row, as `dpensemble.moments.model.probabilities` does."""
        # Whole units of a dense matrix would take as much memory as the matrix.
        whole = whole_units(self.features) if isinstance(self.features, np.ndarray) else self._sparse_whole
        return chances_of(logits_of_whole(whole, coefficients))

    @property
    def constant(self) -> float:
        """The value of the last feature, the same in every row."""
        return float(self._some.features[0, -1])

    @property
    def doubt(self) -> float:
        """Variance of a mean over the rows, in that of one row: ``kappa`` over the effective number of units (Kish).

        Rows of one unit count once, since they may all be alike.
        """
        if self.shares is None:
            return self.kappa * (1 / self.features.shape[0])
        shares = self.shares if self.units is None else np.bincount(self.units, self.shares)
        return self.kappa * float(np.sum(shares**2))

    def average(self, weights: Floats) -> Floats:
        """Return the mean of released features times `weights` over rows, shape (n_released, n_columns)."""
        shares = 1 / self.features.shape[0] if self.shares is None else self.shares[:, None]
        return np.asarray(self._across @ (weights * shares))

    @property
    def share_of_rows(self) -> Floats:
        """The share of each row in means, shape (n_rows,)."""
        n_rows = self.features.shape[0]
        return np.full(n_rows, 1 / n_rows) if self.shares is None else self.shares

    def mean(self, values: Floats) -> float:
        """Return the mean over rows of values with shape (n_rows, 1)."""
        return float(self.share_of_rows @ values[:, 0])

    def curvature(self, weights: Floats) -> Floats:
        """Return the mean of ``weight phi outer phi`` over rows, phi as released, shape (n_released, n_released)."""
        return self._some.products(weights, self._some.released)

    def covariance(self, values: Floats) -> Floats:
        """Return the covariance over rows of ``value phi``, phi as released, added up over the columns of `values`.

        A mean over a sample of rows varies by the covariance. Where all rows agree, as on the constant, it is exact.
        """
        some = self._some
        means = some.released.T.astype(np.float64) @ (values[some.rows] * some.shares[:, None])
        return self.curvature((values**2).sum(axis=1)) - means @ means.T

    def typical_scales(self) -> Floats:
        """Return a typical size of the coefficients of every block. The last is the constant's.

        Features that vary little seldom matter much, so that a typical coefficient grows with the root mean square.
        """
        some = self._some.features
        squares = np.einsum("ij,ij->j", some, some, dtype=np.float64) / len(some)
        of_blocks = np.bincount(self.blocks, squares) / np.bincount(self.blocks)
        scales = np.sqrt(np.maximum(of_blocks, _SMALLEST_SQUARE))
        others = self.blocks < len(scales) - 1
        variance = float(squares[others] @ scales[self.blocks[others]] ** 2)
        scales *= _LOGIT / np.sqrt(max(variance, _SMALLEST_SQUARE**2))
        scales[-1] = CONSTANT_LOGIT / self.constant
        return scales

    def slope(self, weights: Floats) -> Floats:
        """Return how means of released features grow with coefficients, shape (n_released, n_features)."""
        return self._some.products(weights, self._some.features)


# Standard deviations of the noise that a cell must hold.
_LEAST = 2.0
#: Most columns whose correlations are released. These columns have the largest effects.
_MOST_COLUMNS = 40
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
        return cls(coarse, [_on_simplex(one) for one in held])

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


def _on_simplex(values: Floats) -> Floats:
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
        chosen = np.sort(np.argsort(spreads, kind="stable")[::-1][:_MOST_COLUMNS])
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
