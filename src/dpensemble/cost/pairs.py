r"""Dominating pairs: finitely many pairs of output laws that stand for all that one answer can reveal.

Consider every divergence that data processing cannot increase: Renyi, hockey-stick, and the backward induction of
`dpensemble.cost.composition`. A set of pairs ``(P, Q)`` dominates a mechanism if, for all neighbouring inputs in either
order, every such divergence is at most the largest over the set. Pairs are compared through their receiver operating
characteristic: the curve through the cumulative ``(Q, P)`` of the outcomes, by falling likelihood ratio. A pair whose
curve lies nowhere below another's dominates it (Blackwell 1953, and Y. Zhu, J. Dong and Y.-X. Wang, "Optimal accounting
of differential privacy via characteristic function", AISTATS 2022, Definition 7 and Proposition 8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpensemble._arrays import Floats
from dpensemble.cost.roc import NEAR_END, concave_hull, few_edges, vertices
from dpensemble.errors import AccountingError

_BLOCK_CELLS = 4_000_000
# Bounds the rounding of one logarithm of a sum, relative and absolute.
_RELATIVE_SLACK, _ABSOLUTE_SLACK = 1e-9, 1e-15


@dataclass(frozen=True, eq=False, slots=True)
class DominatingPairs:
    """Pairs of output laws, one a row, that together dominate one answer.

    Parameters
    ----------
    p, q : ndarray of shape (n_pairs, n_outcomes)
        Probabilities of the outcomes under either input. Rows sum to 1. Rows with fewer outcomes are filled up with
        zeros. The set must hold for both orders of the neighbours.

    Raises
    ------
    AccountingError
        If a probability is not finite, is negative, does not add up to 1, or an outcome is possible under only one of
        the two laws.

    Examples
    --------
    Randomized response that answers truthfully three times in four:

    >>> pairs = DominatingPairs([[0.75, 0.25]], [[0.25, 0.75]])
    >>> round(pairs.hockey_stick(0.0), 3), round(float(pairs.renyi([2.0])[0]), 3)
    (0.5, 0.847)
    """

    p: Floats
    q: Floats

    def __post_init__(self) -> None:
        p, q = np.array(self.p, dtype=np.float64), np.array(self.q, dtype=np.float64)
        if p.ndim != 2 or p.shape != q.shape or p.size == 0:
            raise AccountingError("p and q must be non-empty tables of one shape, one pair a row.")
        for name, table in (("p", p), ("q", q)):
            if not (np.all(table >= 0) and np.all(np.abs(table.sum(axis=1) - 1) < 1e-9)):
                raise AccountingError(f"the rows of {name} must be probabilities that sum to 1.")
            table.flags.writeable = False
            object.__setattr__(self, name, table)
        # In both orders, since the composition drops outcomes that the first of two laws cannot produce.
        if np.any((q == 0) != (p == 0)):
            raise AccountingError("every outcome must be possible under both p and q; otherwise its loss is unlimited.")

    def __len__(self) -> int:
        return len(self.p)

    @classmethod
    def union(cls, sets: Iterable[DominatingPairs]) -> DominatingPairs:
        """Return all pairs of several sets, filled up to one number of outcomes."""
        sets = list(sets)
        width = max(pairs.p.shape[1] for pairs in sets)

        def filled(table: Floats) -> Floats:
            return np.pad(table, ((0, 0), (0, width - table.shape[1])))

        return cls(np.concatenate([filled(s.p) for s in sets]), np.concatenate([filled(s.q) for s in sets]))

    def both_ways(self) -> DominatingPairs:
        """Return the set together with every pair in reverse order."""
        return DominatingPairs(np.concatenate([self.p, self.q]), np.concatenate([self.q, self.p]))

    def losses(self) -> Floats:
        """Return the privacy loss ``log(p / q)`` of each outcome, or 0 if it cannot occur."""
        possible = (self.p > 0) & (self.q > 0)
        return np.log(np.where(possible, self.p, 1.0)) - np.log(np.where(possible, self.q, 1.0))

    def renyi(self, orders: ArrayLike) -> Floats:
        """Return the largest Renyi divergence of any pair, rounded up.

        Parameters
        ----------
        orders : array-like of shape (n_orders,)
            Above 1.

        Returns
        -------
        ndarray of shape (n_orders,)
            In nats.
        """
        exponents = np.asarray(orders, dtype=np.float64) - 1
        largest = np.zeros(exponents.size)
        for moments in self._log_moments(exponents):
            np.maximum(largest, moments.max(axis=0), out=largest)
        return largest / exponents * (1 + _RELATIVE_SLACK) + _ABSOLUTE_SLACK

    def renyi_of_each(self, orders: ArrayLike) -> Floats:
        """Return the Renyi divergence of every pair, rounded up, shape (n_pairs, n_orders)."""
        exponents = np.asarray(orders, dtype=np.float64) - 1
        moments = np.concatenate(list(self._log_moments(exponents)))
        return np.maximum(moments, 0.0) / exponents * (1 + _RELATIVE_SLACK) + _ABSOLUTE_SLACK

    def _log_moments(self, exponents: Floats) -> Iterator[Floats]:
        """Yield ``log sum p exp(exponent * loss)`` of a block of pairs, one column an exponent."""
        losses = self.losses()
        block = max(1, _BLOCK_CELLS // (exponents.size * losses.shape[1]))
        for start in range(0, len(losses), block):
            rows = slice(start, start + block)
            yield _log_moments(self.p[rows], losses[rows], exponents)

    def hockey_stick(self, epsilon: float) -> float:
        """Return the largest ``sum of max(p - exp(epsilon) q, 0)``, the delta of a single answer."""
        with np.errstate(over="ignore"):
            excess = np.maximum(self.p - np.exp(np.float64(epsilon)) * self.q, 0).sum(axis=1)
        return float(min(excess.max(), 1.0))

    def dominate_randomized_response(self, epsilon: float) -> bool:
        """Return whether one of the pairs dominates randomized response at `epsilon`."""
        corner = 1 / (1 + np.exp(epsilon)), 1 / (1 + np.exp(-epsilon))
        curves = vertices(self.p, self.q)
        return any(np.interp(corner[0], curve[:, 0], curve[:, 1]) >= corner[1] for curve in curves)

    def inflated(self, error: float) -> DominatingPairs:
        """Return pairs that dominate all laws within `error` of these in every probability.

        The curve's corners move up and to the left by at most the number of
        outcomes times `error`, which shifts mass between the first and the last outcome only.
        """
        order = np.argsort(-self.losses(), axis=1, kind="stable")
        p, q = (np.take_along_axis(table, order, axis=1) for table in (self.p, self.q))
        possible = q > 0
        first = np.argmax(possible, axis=1)
        last = q.shape[1] - 1 - np.argmax(possible[:, ::-1], axis=1)
        rows, shift = np.arange(len(q)), q.shape[1] * error
        p[rows, first] += shift
        q[rows, first] -= shift
        p[rows, last] -= shift
        q[rows, last] += shift
        if np.any(q[rows, first] <= 0) or np.any(p[rows, last] <= 0):
            raise AccountingError("every probability must exceed its own rounding: use less noise or fewer classes.")
        return DominatingPairs(p, q)

    def single(self, n_outcomes: int | None = None) -> DominatingPairs:
        """Return one pair that dominates the whole set.

        Parameters
        ----------
        n_outcomes : int, optional
            Most outcomes of the pair. A pair with fewer outcomes is looser.
        """
        corners = concave_hull(vertices(self.p, self.q).reshape(-1, 2))
        if n_outcomes is not None:
            corners = few_edges(corners, n_outcomes)
        steps = np.diff(corners, axis=0)
        return DominatingPairs(steps[:, 1][None], steps[:, 0][None]).inflated(2 * NEAR_END / len(steps))

    def rows(self, start: int, stop: int) -> DominatingPairs:
        """Return the pairs from `start` up to `stop`."""
        return DominatingPairs(self.p[start:stop], self.q[start:stop])


def _log_moments(p: Floats, losses: Floats, exponents: Floats) -> Floats:
    """Return ``log sum p exp(exponent * loss)``, accurate also where it is tiny."""
    powers = losses[:, :, None] * exponents
    top = np.where(p[:, :, None] > 0, powers, 0.0).max(axis=1)
    small = top < 1.0
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        near = np.log1p(np.einsum("po,poe->pe", p, np.expm1(np.minimum(powers, 1.0))))
        far = top + np.log(np.einsum("po,poe->pe", p, np.exp(powers - top[:, None, :])))
    return np.where(small, near, far)
