"""The one place where a sum of whole numbers is charged and gets its noise."""

from __future__ import annotations

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble._drawn import drawn_once
from dpensemble._random import NoiseSource
from dpensemble.accounting.sums import SumsMeter
from dpensemble.cost import noise_variance
from dpensemble.teachers.discrete_noise import DiscreteNoise


def noisy_sum(
    total: Integers, share: float, sensitivity: int, meter: SumsMeter, noise: NoiseSource
) -> tuple[Floats, int]:
    """Charge for a sum, then draw the noise of each entry; return both together in whole units, and the variance.

    Parameters
    ----------
    total : ndarray of int
        The exact sum; private.
    share : float
        Share of the budget's ``mu**2``.
    sensitivity : int
        Whole units by which a unit of weight 1 can move the sum at most.
    meter : SumsMeter
        What charges.
    noise : NoiseSource
        Secret bits.
    """
    sigma = meter.sigma(share)
    variance = noise_variance(sigma, sensitivity)
    meter.charge(sigma, variance=variance, entries=total.size)

    def draw() -> Floats:
        draws = DiscreteNoise(noise)
        noisy = [float(entry + draws.gaussian(variance)) for entry in total.ravel().tolist()]
        return np.array(noisy).reshape(total.shape)

    return drawn_once("a noisy sum", draw, seeded=not noise.for_release), variance
