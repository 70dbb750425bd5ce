"""Gradient boosting by small trees, for thousands of small shards at once.

Each round fits a tree to the gradient and curvature of the log-loss, and adds a share of its leaves' Newton steps to
the scores. Source: J. H. Friedman, "Greedy function approximation", Annals of Statistics 29, 2001. The histograms of a
round are one product of stacked matrices for a block of shards.

A shard's trees depend on its own records and on public splits only, up to rounding, which the shapes of a block may
change. So these trees are for reproductions on public data, and not for releases from private records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble.votes import ballot_dtype

Floats = NDArray[np.float32]
Split = tuple[int, float]
_BLOCK = 12
_LEAST_CURVATURE = 1e-3
_SLOPE, _CURVATURE, _COUNT = range(3)


def thresholds_of(X: NDArray[np.float64], most: int) -> tuple[Split, ...]:
    """Return the splits that trees choose from: (column, threshold) between at most `most` quantiles of public rows."""
    splits = []
    for column, values in enumerate(X.T):
        distinct = np.unique(values)
        if len(distinct) > most + 1:
            distinct = np.unique(np.quantile(values, np.linspace(0, 1, most + 1)))
        splits += [(column, float(middle)) for middle in (distinct[1:] + distinct[:-1]) / 2]
    return tuple(splits)


@dataclass
class BoostedTrees:
    """Gradient boosting of two classes.

    Parameters
    ----------
    splits : tuple of (int, float)
        Columns and thresholds to choose from, which must be public. See `thresholds_of`.
    depth : int, default=3
        Splits on the way to a leaf.
    rounds : int, default=100
        Number of trees.
    rate : float, default=0.1
        Share of each tree that is added.
    fewest : int, default=5
        Records on either side of a split.
    """

    splits: tuple[Split, ...] = ()
    _: KW_ONLY
    depth: int = 3
    rounds: int = 100
    rate: float = 0.1
    fewest: int = 5

    def fit_together(
        self,
        X: NDArray[np.float64],
        y: NDArray[np.int64],
        shards: Sequence[NDArray[np.int64]],
        *,
        classes: NDArray[Any],
        constant_votes: NDArray[np.int64],
        seeds: Sequence[int],  # noqa: ARG002 - nothing is random
        n_jobs: int | None = None,  # noqa: ARG002 - a block takes milliseconds
        on_done: Callable[[int], None] = lambda _: None,
    ) -> FittedTrees:
        """Fit one classifier on each shard, as a `TeacherEnsemble` asks for."""
        # The last split is above no row: a node that cannot be split sends all its records to one side.
        above = np.pad(_above(X, self.splits), ((0, 0), (0, 1)))
        n_nodes = 2**self.depth
        nodes = np.full((len(shards), self.rounds, n_nodes - 1), len(self.splits), dtype=np.int32)
        leaves = np.zeros((len(shards), self.rounds, n_nodes), dtype=np.float32)
        base = np.where(constant_votes == 1, 1, -1).astype(np.float32)
        to_fit = np.flatnonzero(constant_votes < 0)
        for start in range(0, len(to_fit), _BLOCK):
            members = to_fit[start : start + _BLOCK]
            block = _Block.of(above, y, [shards[t] for t in members], self.fewest)
            base[members] = scores = block.log_odds()
            scores = np.repeat(scores[:, None], block.live.shape[1], axis=1)
            for number in range(self.rounds):
                nodes[members, number], steps, leaf = block.tree(scores, self.depth, self.fewest)
                leaves[members, number] = self.rate * steps
                scores += self.rate * np.take_along_axis(steps, leaf, axis=1)
        on_done(len(shards))
        return FittedTrees(self.splits, nodes, leaves, base, len(classes))


@dataclass(frozen=True, eq=False)
class _Block:
    """Shards, and for each the splits that have enough records on either side, padded to the same shapes."""

    above: Floats  # (n_shards, n_rows, n_splits), 1 where a row is above a threshold
    targets: Floats
    live: Floats
    columns: NDArray[np.intp]

    @classmethod
    def of(cls, above: Floats, y: NDArray[np.int64], shards: Sequence[NDArray[np.int64]], fewest: int) -> _Block:
        longest = max(len(shard) for shard in shards)
        live = np.array([np.arange(longest) < len(shard) for shard in shards])
        rows = np.array([np.pad(shard, (0, longest - len(shard)), mode="edge") for shard in shards])
        n_above = np.array([above[shard].sum(axis=0) for shard in shards])
        enough = (n_above >= fewest) & (live.sum(axis=1)[:, None] - n_above >= fewest)
        width = int(enough.sum(axis=1).max())
        # Splits with enough records come first. The one that is above no row is last.
        columns = np.argsort(~enough, axis=1, kind="stable")[:, :width]
        columns = np.pad(columns, ((0, 0), (0, 1)), constant_values=above.shape[1] - 1)
        return cls(
            above[rows[:, :, None], columns[:, None, :]], y[rows].astype(np.float32), live.astype(np.float32), columns
        )

    def log_odds(self) -> Floats:
        """Return the logarithms of the odds of the positive class."""
        share = (self.targets * self.live).sum(axis=1) / self.live.sum(axis=1)
        odds: Floats = np.log(share / (1 - share)).astype(np.float32)
        return odds

    def tree(self, scores: Floats, depth: int, fewest: int) -> tuple[NDArray[np.intp], Floats, NDArray[np.intp]]:
        """Return each shard's tree level by level: split of each node, step of each leaf, and the leaf of each row."""
        chance = 1 / (1 + np.exp(-scores))
        slopes: Floats = np.stack([self.targets - chance, chance * (1 - chance), np.ones_like(chance)], axis=1)
        slopes *= self.live[:, None]
        shards = np.arange(len(scores))[:, None]
        rows = np.arange(scores.shape[1])[None, :]
        node: NDArray[np.intp] = np.zeros(scores.shape, dtype=np.intp)
        sums: Floats = slopes.sum(axis=2)[:, :, None]
        inside: Floats = (slopes @ self.above)[:, :, None]
        splits = []
        for level in range(depth):
            best = _best(inside, sums, fewest)
            splits.append(np.take_along_axis(self.columns, best, axis=1))
            high = self.above[shards, rows, best[shards, node]]
            # Sums of the high sides are computed, and those of the low sides are the rest.
            sides = (node[:, None] == np.arange(2**level)[:, None]) * high[:, None]
            of_high = (slopes[:, :, None] * sides[:, None]).reshape(len(scores), -1, scores.shape[1])
            sums = _interleaved(sums, of_high.sum(axis=2).reshape(sums.shape))
            if level < depth - 1:
                inside = _interleaved(inside, (of_high @ self.above).reshape(inside.shape))
            node = 2 * node + high.astype(np.intp)
        steps = np.divide(sums[:, _SLOPE], np.maximum(sums[:, _CURVATURE], _LEAST_CURVATURE), dtype=np.float32)
        return np.concatenate(splits, axis=1), steps, node


def _interleaved(parents: Floats, high: Floats) -> Floats:
    """Return sums of both children of each node, the low one first."""
    children = np.stack([parents - high, high], axis=3)
    return children.reshape(*parents.shape[:2], -1, *parents.shape[3:])


def _best(inside: Floats, sums: Floats, fewest: int) -> NDArray[np.intp]:
    """Return the split of each node that lowers the loss most, or the last split if none has enough records."""
    outside = sums[..., None] - inside
    enough = (np.minimum(inside[:, _COUNT], outside[:, _COUNT]) > fewest - 0.5) & (
        np.minimum(inside[:, _CURVATURE], outside[:, _CURVATURE]) > _LEAST_CURVATURE
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = sum(side[:, _SLOPE] ** 2 / side[:, _CURVATURE] for side in (inside, outside))
    gain = np.where(enough, gain, -1)
    best = gain.argmax(axis=2)
    return np.where(enough.any(axis=2), best, inside.shape[3] - 1)


@dataclass(frozen=True, eq=False)
class FittedTrees:
    """Fitted classifiers: splits of nodes level by level, and what each leaf adds to the score."""

    splits: tuple[Split, ...]
    nodes: NDArray[np.int32]  # (n_shards, rounds, n_leaves - 1)
    leaves: Floats
    base: Floats
    n_classes: int
    n_failed: int = 0

    def vote(self, X: NDArray[np.float64]) -> NDArray[np.unsignedinteger]:
        """Return class ids of shape (n_queries, n_teachers)."""
        above = np.ascontiguousarray(np.pad(_above(X, self.splits), ((0, 0), (0, 1))).T.astype(np.uint8))
        votes = np.empty((len(X), len(self.nodes)), dtype=ballot_dtype(self.n_classes), order="F")
        first = (np.arange(self.leaves.shape[1]) * self.leaves.shape[2])[:, None]
        for t, nodes in enumerate(self.nodes):
            places = first + _leaf(above, nodes)
            votes[:, t] = self.leaves[t].ravel()[places].sum(axis=0) + self.base[t] > 0
        return votes


def _leaf(above: NDArray[np.uint8], nodes: NDArray[np.int32]) -> NDArray[np.integer[Any]]:
    """Return the leaf of each row in each tree, shape (rounds, n_rows)."""
    leaf: NDArray[np.integer[Any]] = np.zeros((len(nodes), above.shape[1]), dtype=np.uint8)
    start = 0
    while start < nodes.shape[1]:
        # The path so far picks one of the choices of a level's nodes.
        choices: list[NDArray[np.integer[Any]]] = [above[nodes[:, start + place]] for place in range(start + 1)]
        for bit in range(len(choices).bit_length() - 1):
            taken = (leaf >> bit) & 1
            choices = [low ^ (taken & (low ^ high)) for low, high in zip(choices[::2], choices[1::2], strict=True)]
        leaf = 2 * leaf + choices[0]
        start = 2 * start + 1
    return leaf


def _above(X: NDArray[np.float64], splits: Sequence[Split]) -> Floats:
    columns, thresholds = (list(part) for part in zip(*splits, strict=True))
    return (X[:, columns] > np.array(thresholds)).astype(np.float32)
