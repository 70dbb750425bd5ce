r"""Exact adaptive composition: the true worst case over all sequences of answers.

The votes differ from query to query and may depend on earlier answers, so the worst case over ``n`` answers is a
supremum over strategies, not a product. With ``r`` the likelihood ratio so far, backward induction gives this worst
case (the project's own, by dynamic programming over the hockey-stick divergence):

    ``W_0(r) = max(r - exp(epsilon), 0)``, ``W_t(r) = max over pairs (P, Q) of sum_o Q(o) W_{t-1}(r P(o) / Q(o))``,

and ``delta = W_n(1)``. Written in ``y = log r - epsilon`` and divided by ``exp(epsilon)`` the recursion does not depend
on epsilon, so one pass serves every epsilon: ``delta(epsilon) = exp(epsilon) V_n(-epsilon)``.

Why the computed value is an upper bound
----------------------------------------
Every ``W_t`` is convex and non-decreasing in ``r`` with slope at most 1. Between the nodes of a grid it is replaced by
its chord. Above the grid it continues with slope 1, and below it keeps the lowest node's value. Each replacement can
only raise it, and the recursion is monotone. Replacing a group of pairs by a pair that dominates them (Blackwell) can
also only raise it. Many answers are followed one by one up to a block only. Blocks are composed as
`dpensemble.cost.loss_curve` proves.
"""

from __future__ import annotations

import math
from functools import lru_cache

from dpensemble.cost.blocks import Blocks, joined_curves
from dpensemble.cost.loss_curve import Kernel, LossCurve
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.cost.recursion import Recursion, laid_out
from dpensemble.errors import AccountingError

# A larger epsilon gives no useful guarantee, and its grid would be needlessly large.
MOST_EPSILON = 200.0
# In standard deviations of the loss. Beyond it, ratios leave the range of floating-point numbers.
_MOST_SPREAD = 25.0
# More answers than any user asks for, so that a search ends.
MOST_ANSWERS = 2**50


class AdaptiveComposition:
    """Delta and epsilon after any number of answers, each from any of the pairs.

    Tight for about `n_answers` that cost about `largest_epsilon`, sound for all others.
    """

    def __init__(self, pairs: DominatingPairs, n_answers: int, largest_epsilon: float) -> None:
        deviation = math.sqrt(float(pairs.renyi([2.0])[0]))
        largest = float(abs(pairs.losses()).max())
        spread = deviation * math.sqrt(n_answers)
        _require_range(largest_epsilon, spread + largest)
        # How steeply the function rises where epsilon is read or delta is about 1e-5, with a margin for earlier steps.
        farthest = max(largest_epsilon, spread**2 / 2 + 4.3 * spread)
        steepest = 3.3 * (farthest / spread**2 + 1)
        layout, followed = laid_out(pairs, n_answers, steepest)
        #: What one answer can reveal.
        self.pairs = pairs
        #: How finely answers are distinguished.
        self.layout = layout
        self._recursion = Recursion(layout, min(followed, n_answers))
        self._followed = followed if followed < n_answers else MOST_ANSWERS
        self._block = followed // 2
        self._blocks = Blocks(self._of_block)

    def _of_block(self) -> LossCurve:
        return self._recursion.curve(self._block)

    def block_of(self, n_answers: int) -> int | None:
        """Return the number of answers in a block, or None if all are followed one by one."""
        return None if n_answers <= self._followed else self._block

    def delta(self, n_answers: int, epsilon: float) -> float:
        """Return the delta that `n_answers` have at `epsilon`, rounded up."""
        if n_answers <= self._followed:
            return self._recursion.curve(n_answers).delta(epsilon)
        joined, rest = self._parts(n_answers)
        return joined.delta_with(rest, epsilon)

    def epsilon(self, n_answers: int, delta: float) -> float:
        """Return the smallest epsilon at which `n_answers` have at most `delta`, rounded up."""
        return self.curve(n_answers).epsilon(delta)

    def largest(self, epsilon: float, delta: float, most: int = MOST_ANSWERS) -> int:
        """Return how many answers have at most `delta` at `epsilon`, at most `most`."""

        def fits(n_answers: int) -> bool:
            return n_answers <= most and self.delta(n_answers, epsilon) <= delta

        most, bit = min(most, MOST_ANSWERS), 0
        if self._followed >= most or not fits(2 * self._block):
            # Answers that are followed one by one come in order.
            within = 0
            while within < self._followed and fits(within + 1):
                within += 1
            return within
        while fits(((2 << bit) + 1) * self._block):
            bit += 1
        whole = 1 << bit
        for lower in range(bit - 1, -1, -1):
            whole += (1 << lower) * fits((whole + (1 << lower) + 1) * self._block)
        within, beyond = (whole + 1) * self._block, (whole + 2) * self._block
        while beyond - within > 1:
            middle = (within + beyond) // 2
            within, beyond = (middle, beyond) if fits(middle) else (within, middle)
        return within

    def curve(self, n_answers: int) -> LossCurve:
        """Return all deltas of `n_answers`."""
        if n_answers <= self._followed:
            return self._recursion.curve(n_answers)
        joined, rest = self._parts(n_answers)
        return joined.then(rest)

    def _parts(self, n_answers: int) -> tuple[LossCurve, Kernel]:
        """Return the curve of whole blocks, and the kernel of the remaining one to two blocks, on its grid."""
        whole = n_answers // self._block - 1
        return self._blocks.with_rest(whole, self._recursion.curve(n_answers - whole * self._block))


class ProductComposition:
    """Delta and epsilon of answers of several kinds, in any order.

    The answers of one kind, each chosen by everything before, are an interactive mechanism that the pair of its own
    curve dominates. Such mechanisms compose concurrently like those pairs (Vadhan and Zhang 2023, main theorem: each
    can be simulated by post-processing a single draw from its pair).
    """

    # S. Vadhan and W. Zhang, "Concurrent composition theorems for differential privacy", STOC 2023.

    def __init__(self, kinds: list[tuple[DominatingPairs, int]], largest_epsilon: float) -> None:
        curve = None
        for pairs, count in kinds:
            if count:
                here = composition_of(pairs, layout_size(layout_number(count)), largest_epsilon).curve(count).thinned()
                curve = here if curve is None else joined_curves(curve, here)
        #: All deltas of the answers, or None without answers.
        self.curve = curve

    def delta(self, epsilon: float) -> float:
        """Return the delta at `epsilon`, rounded up."""
        return 0.0 if self.curve is None else self.curve.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at which the delta is at most `delta`, rounded up."""
        return 0.0 if self.curve is None else self.curve.epsilon(delta)


@lru_cache(maxsize=12)
def composition_of(pairs: DominatingPairs, n_answers: int, largest_epsilon: float) -> AdaptiveComposition:
    """Return the composition laid out for exactly these figures. Recent compositions are cached."""
    return AdaptiveComposition(pairs, n_answers, largest_epsilon)


def layout_number(n_answers: int) -> int:
    """Return the number of the layout that follows this many answers: four layouts for every doubling."""
    number = max(0, math.ceil(4 * math.log2(n_answers)))
    # Sizes are whole, so a smaller layout may hold as many answers.
    while number and layout_size(number - 1) >= n_answers:
        number -= 1
    return number


def layout_size(number: int) -> int:
    """Return the largest number of answers that a layout supports, or 0 below the first."""
    return 0 if number < 0 else math.ceil(2 ** (number / 4))


def _require_range(largest_epsilon: float, spread: float) -> None:
    if largest_epsilon + spread > MOST_EPSILON or spread > _MOST_SPREAD:
        raise AccountingError(
            f"exact composition needs an epsilon up to {MOST_EPSILON:g} and losses that spread by up to "
            f"{_MOST_SPREAD:g}; got {largest_epsilon:.4g} and {spread:.4g}: use 'best'."
        )
