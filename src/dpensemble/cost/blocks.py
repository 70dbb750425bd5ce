"""Curves of many blocks of answers. The pair of its own curve dominates each block."""

from __future__ import annotations

from collections.abc import Callable

from dpensemble.cost.loss_curve import Kernel, LossCurve

_MOST_KEPT = 64


class Blocks:
    """Curves of numbers of equal blocks, composed by doubling as `dpensemble.cost.loss_curve` proves.

    `block` returns the curve of one block. It is called once, when the curve is first needed.
    """

    def __init__(self, block: Callable[[], LossCurve]) -> None:
        self._block = block
        self._powers: list[Kernel] = []
        self._joined: dict[int, LossCurve] = {}

    def of(self, number: int) -> LossCurve:
        """Return the curve of `number` blocks: the largest power of two first."""
        if number not in self._joined:
            last = number & -number
            curve = self._power(last.bit_length() - 1).curve
            if number > last:
                curve = joined_curves(self.of(number - last), curve)
            self._joined = {**dict(list(self._joined.items())[1 - _MOST_KEPT :]), number: curve}
        return self._joined[number]

    def with_rest(self, number: int, rest: LossCurve) -> tuple[LossCurve, Kernel]:
        """Return the curve of `number` blocks and the kernel of the remaining answers, on one grid."""
        joined, rest = self.of(number), rest.thinned()
        step = max(joined.step, rest.step)
        return joined.on_step(step), Kernel.of(rest.on_step(step))

    def _power(self, bit: int) -> Kernel:
        """Return the kernel of ``2**bit`` blocks."""
        while len(self._powers) <= bit:
            if self._powers:
                last = self._powers[-1]
                curve = last.curve.then(last)
            else:
                curve = self._block()
            self._powers = [*self._powers, Kernel.of(curve.thinned())]
        return self._powers[bit]


def joined_curves(one: LossCurve, other: LossCurve) -> LossCurve:
    """Return the curve of both sets of answers, on a grid fit for their sum."""
    step = max(one.step, other.step)
    return one.on_step(step).then(Kernel.of(other.on_step(step))).thinned()
