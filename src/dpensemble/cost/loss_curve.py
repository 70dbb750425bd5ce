r"""The hockey-stick function of a number of answers, on a grid of the log likelihood ratio, and sums of such numbers.

A `LossCurve` bounds ``V(r) = max over strategies of E_Q[max(r L - 1, 0)]``, where ``L`` is the likelihood ratio of the
answers, from above. The bound uses the values at the nodes ``r = exp(step * i)``, chords between them, the lowest value
below and slope 1 above. Each of these is at least a convex, non-decreasing function of slope at most 1. The curve
stores the excess ``V - max(r - 1, 0)``, which is small on both sides and suffers no cancellation.

Why curves can be composed
--------------------------
Let ``T`` map a function ``W`` of the ratio to the most that its expectation can be after ``k`` further answers,
over all strategies that choose them. ``T`` is sublinear and monotone. A convex ``W`` is a constant and a positive
mixture of hockey-stick functions ``max(r - c, 0)``, and ``T`` maps each of these to at most ``c V(r / c)``. So ``T W``
is at most the same mixture of those. That mixture is ``W`` averaged over the losses of one pair: the pair whose
hockey-stick function ``V`` is. A piecewise linear ``V`` belongs to a pair whose losses are all nodes, so the average is
a sum over nodes. The bound loses because each hockey-stick of the mixture may have a strategy of its own, which costs
at most about half an answer per composition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpensemble._arrays import Floats

_UNIT = 2.0**-52
_UNLIMITED = 1e13
# Grids of one family differ by powers of two, up to rounding.
_SAME = 1e-12
# Relative precision of an epsilon that the grid gives.
EPSILON_PRECISION = 1e-10
# Least number of nodes per standard deviation of the loss.
_FINENESS = 100
# Standard deviations of the loss that a grid covers below and above. Beyond, the bound is loose by less than 1e-21.
_BELOW, _ABOVE = 9.5, 7.0


@dataclass(frozen=True, eq=False, slots=True)
class LossCurve:
    """A convex function of the likelihood ratio: its excess over ``max(r - 1, 0)`` on nodes around 0."""

    step: float
    #: Number of nodes below 0.
    below: int
    excess: Floats
    #: Share by which the function may be smaller than the truth, through rounding.
    slack: float

    @property
    def y(self) -> Floats:
        """Logarithms of the ratio on the nodes."""
        nodes: Floats = np.arange(-self.below, len(self.excess) - self.below, dtype=np.float64)
        return self.step * nodes

    def delta(self, epsilon: float) -> float:
        """Interpolate ``exp(epsilon) V(exp(-epsilon))`` along the chord, rounded up."""
        return delta_between(*self.around(epsilon), epsilon, self.slack)

    def around(self, epsilon: float) -> tuple[float, float, float]:
        """Return the values on the nodes around ``-epsilon``, and the share of the upper one."""
        node, share = self.place(epsilon)
        return float(self.excess[node]), float(self.excess[min(node + 1, len(self.excess) - 1)]), share

    def place(self, epsilon: float) -> tuple[int, float]:
        """Return the node below ``-epsilon``, and the share of the next one in its chord."""
        place = self.below - epsilon / self.step
        if place <= 0:
            return 0, 0.0
        node = min(int(place), len(self.excess) - 2)
        return node, math.expm1((place - node) * self.step) / math.expm1(self.step)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at which the delta is at most `delta`, rounded up."""
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta and high < _UNLIMITED:
            low, high = high, 2 * high
        while high - low > EPSILON_PRECISION * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def coarser(self) -> LossCurve:
        """Return the chords over every second node."""
        before, after = self.below % 2, (len(self.excess) - 1 - self.below) % 2
        padded = np.pad(self.excess, (before, after), mode="edge")
        return LossCurve(2 * self.step, (self.below + before) // 2, padded[::2], self.slack)

    def on_step(self, step: float) -> LossCurve:
        """Return the curve on a grid with at least this step."""
        curve = self
        while 2 * curve.step <= step * (1 + _SAME):
            curve = curve.coarser()
        return curve if abs(curve.step / step - 1) <= _SAME else curve._regridded(step)

    def _regridded(self, step: float) -> LossCurve:
        """Return the chords over other nodes, 0 among them."""
        below = math.ceil(self.below * self.step / step)
        above = math.ceil((len(self.excess) - 1 - self.below) * self.step / step)
        place = np.arange(-below, above + 1) * (step / self.step) + self.below
        node = np.clip(np.floor(place).astype(np.int64), 0, len(self.excess) - 2)
        share = np.clip(np.expm1((place - node) * self.step) / math.expm1(self.step), 0.0, 1.0)
        excess = (1 - share) * self.excess[node] + share * self.excess[node + 1]
        return LossCurve(step, below, excess, _added(self.slack, 1e-11))

    def thinned(self) -> LossCurve:
        """Return the curve on the coarsest grid that is still fine for its spread, and no wider than necessary."""
        curve, kernel = self, Kernel.of(self)
        while kernel.deviation >= 2 * _FINENESS * curve.step:
            curve = curve.coarser()
        middle, deviation = kernel.deviation**2 / 2, kernel.deviation + kernel.largest
        lowest = min(curve.below, math.ceil((middle + _BELOW * deviation) / curve.step))
        highest = math.ceil((middle + _ABOVE * deviation) / curve.step)
        start = curve.below - lowest
        return LossCurve(curve.step, lowest, curve.excess[start : curve.below + highest + 1], curve.slack)

    def then(self, kernel: Kernel) -> LossCurve:
        """Return the curve of these answers and those of a kernel on the same grid, in either order."""
        curve = kernel.curve
        below, above = self.below + curve.below, len(self.excess) + len(curve.excess) - 2 - self.below - curve.below
        padded = _widened(self, below + kernel.above, above + curve.below)
        mixed = np.convolve(padded, kernel.q, "valid")
        total = mixed + _widened(curve, below, above) + curve.excess[-1] * self.excess[0]
        rounding = 4 * _UNIT * len(kernel.q)
        return LossCurve(self.step, below, total, _added(self.slack, curve.slack, kernel.slack, rounding))

    def delta_with(self, kernel: Kernel, epsilon: float) -> float:
        """Return `then(kernel).delta(epsilon)` without the rest of that curve."""
        curve = kernel.curve
        place = (self.below + curve.below) - epsilon / self.step
        if place <= 0:
            return self.then(kernel).delta(epsilon)
        node = int(place)
        share = math.expm1((place - node) * self.step) / math.expm1(self.step)
        values = []
        for i in (node - self.below - curve.below, node + 1 - self.below - curve.below):
            # Node i of the sum combines with node i - j of this curve for each node j of the kernel.
            here = np.arange(i + curve.below, i - kernel.above - 1, -1) + self.below
            mixed = float(self.excess[np.clip(here, 0, len(self.excess) - 1)] @ kernel.q)
            own = float(curve.excess[min(max(i + curve.below, 0), len(curve.excess) - 1)])
            values.append(mixed + own + curve.excess[-1] * self.excess[0])
        rounding = 4 * _UNIT * len(kernel.q)
        slack = _added(self.slack, curve.slack, kernel.slack, rounding)
        return delta_between(float(values[0]), float(values[1]), share, epsilon, slack)


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """The pair of output laws of a curve: the mass that the second law gives to each node's loss."""

    curve: LossCurve
    #: Mass of the loss ``-y`` at each node ``y`` of the curve.
    q: Floats
    slack: float
    deviation: float
    #: Largest loss that is not negligible.
    largest: float = 0.0

    @property
    def above(self) -> int:
        """Number of nodes above 0."""
        return len(self.q) - 1 - self.curve.below

    @classmethod
    def of(cls, curve: LossCurve) -> Kernel:
        """Return the kernel of a curve: the second differences of its values."""
        y, excess = curve.y, curve.excess
        r = np.exp(y)
        slopes = np.diff(excess) / np.diff(r)
        p = np.diff(slopes, prepend=0.0, append=0.0)
        p[curve.below] += 1.0
        p = np.maximum(p, 0.0)
        # Rounding may have bent the function. Its size is measured on the function that these masses have.
        rebuilt = excess[0] + np.concatenate([[0.0], np.cumsum(np.cumsum(p[:-1]) * np.diff(r))])
        values = excess + np.maximum(np.expm1(y), 0.0)
        ratio = np.where(values > 0, rebuilt, 1.0) / np.where(values > 0, values, 1.0)
        bent = max(float(ratio.max()), 1 / float(ratio.min())) - 1 + 8 * _UNIT * len(p)
        q = p * r
        deviation = math.sqrt(float(q @ y**2) / float(q.sum()))
        return cls(curve, q, _added(bent, bent), deviation)


def delta_between(lower: float, upper: float, share: float, epsilon: float, slack: float) -> float:
    """Return the delta that a chord gives, rounded up."""
    chord = (1 - share) * lower + share * upper
    return float(min(1.0, math.exp(min(epsilon, 700.0)) * chord * (1 + slack + 1e-12)))


def _added(*slacks: float) -> float:
    return math.expm1(math.fsum(math.log1p(slack) for slack in slacks)) * (1 + 1e-9)


def _widened(curve: LossCurve, below: int, above: int) -> Floats:
    """Return the excess on `below` nodes below 0 and `above` nodes above, constant beyond the stored nodes."""
    start, stop = curve.below - below, curve.below + above + 1
    inner = curve.excess[max(start, 0) : min(stop, len(curve.excess))]
    return np.pad(inner, (max(-start, 0), max(stop - len(curve.excess), 0)), mode="edge")
