r"""Noise on whole numbers, drawn exactly: discrete Laplace and discrete Gaussian.

Every probability is a ratio of integers and is compared with uniform bits, so no floating-point number takes part in a
draw. The algorithms are those of C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential
privacy", NeurIPS 2020 (Algorithms 1 to 3). The time of a draw depends on the noise drawn. The guarantee does not cover
this.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from dpensemble._original import Original
from dpensemble._random import NOISE_BITS, NoiseSource
from dpensemble.errors import InvalidParameterError

_BUFFER = 256


class DiscreteNoise(Original, spends=("laplace", "gaussian", "below")):
    """Draws of integer noise from a source of uniform bits."""

    def __init__(self, noise: NoiseSource) -> None:
        self._noise = noise
        self._words: list[int] = []

    def laplace(self, scale: int) -> int:
        """Return ``y`` with probability in proportion to ``exp(-abs(y) / scale)``, an integer scale from 1."""
        _require_positive("scale", scale)
        return self._laplace(scale)

    def _laplace(self, scale: int) -> int:
        while True:
            start = self._below(scale)
            if not self._happens_exp(Fraction(start, scale)):
                continue
            blocks = 0
            while self._happens_exp(Fraction(1)):
                blocks += 1
            size = start + scale * blocks
            negative = self._below(2) == 1
            # Zero has only one sign.
            if not (negative and size == 0):
                return -size if negative else size

    def gaussian(self, variance: int) -> int:
        """Return ``y`` with probability in proportion to ``exp(-y**2 / (2 variance))``, for an integer from 1."""
        _require_positive("variance", variance)
        scale = isqrt(variance) + 1
        while True:
            value = self._laplace(scale)
            # (abs(y) - variance / scale)**2 / (2 variance), over one denominator.
            excess = abs(value) * scale - variance
            if self._happens_exp(Fraction(excess * excess, 2 * variance * scale * scale)):
                return value

    def _happens_exp(self, exponent: Fraction) -> bool:
        """Return True with probability ``exp(-exponent)``."""
        whole = exponent.numerator // exponent.denominator
        if not all(self._happens_exp_unit(1, 1) for _ in range(whole)):
            return False
        return self._happens_exp_unit(exponent.numerator - whole * exponent.denominator, exponent.denominator)

    def _happens_exp_unit(self, numerator: int, denominator: int) -> bool:
        """Return True with probability ``exp(-numerator / denominator)``, an exponent from 0 to 1."""
        k = 1
        # An alternating series: the number of successes in a row is even with that probability.
        while self._below(denominator * k) < numerator:
            k += 1
        return k % 2 == 1

    def below(self, bound: int) -> int:
        """Return an integer uniform on ``0 .. bound - 1``, by rejection."""
        return self._below(bound)

    def _below(self, bound: int) -> int:
        n_bits = (bound - 1).bit_length()
        n_words = -(-n_bits // NOISE_BITS)
        while True:
            value = 0
            for _ in range(n_words):
                value = value << NOISE_BITS | self._word()
            value >>= n_words * NOISE_BITS - n_bits
            if value < bound:
                return value

    def _word(self) -> int:
        if not self._words:
            self._words = self._noise.uniform_bits(_BUFFER).tolist()
        return self._words.pop()


def _require_positive(name: str, value: int) -> None:
    if not (isinstance(value, int) and value >= 1):
        raise InvalidParameterError(f"{name}={value!r} must be an integer from 1.")
