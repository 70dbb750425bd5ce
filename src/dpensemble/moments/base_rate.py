r"""The share of the second class, from the moments of the constant.

Coefficients that are most likely with many noisy moments give a rare class too large a share. With a larger share,
smaller coefficients explain the same noise, and priors prefer small coefficients. So the mode of the posterior lies off
its mean (on modes and means see L. Tierney and J. Kadane, "Accurate approximations for posterior moments and marginal
densities", JASA 1986). The cause is the third derivative of the logistic function, ``p (1 - p) (1 - 2 p)``, which is 0
at one half. The moments of the constant estimate the share without any other coefficient. The weight of this estimate
grows with ``(1 - 2 p)**2``. All of this reads released moments and public rows only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dpensemble._arrays import Floats
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.queries import Moments

# Weight of the estimate if a class has no members, in multiples of its precision. Chosen on generated tables.
_WEIGHT = 12.0


@dataclass(frozen=True, eq=False)
class BaseRate:
    """The estimated mean probability of public rows, as one more observation in units of its error."""

    public: PublicRows
    share: float
    root: float
    slope: Floats

    def surprise(self, p: Floats) -> Floats:
        """Return how far the mean of probabilities is from the estimate, shape (1, 1)."""
        return np.array([[self.root * (self.share - self.public.mean(p))]])


def base_rate(
    rounds: Sequence[Moments],
    about: Sequence[tuple[Floats, Floats]],
    public: PublicRows,
    p: Floats,
    n_units: float,
) -> BaseRate:
    """Return the share of the second class by the constants of all rounds.

    Parameters
    ----------
    rounds : sequence of Moments
        Released moments of two classes.
    about : sequence of tuple
        Centres, shape (n_rows, 1), and weights, shape (n_rows,), of public rows in each round.
    public : PublicRows
        Public rows.
    p : ndarray of shape (n_rows, 1)
        Present probabilities of public rows.
    n_units : float
        Number of private units.
    """
    q = p * (1 - p)
    sampling = public.mean(q) / n_units
    total = weighted = 0.0
    for moments, (centre, omega) in zip(rounds, about, strict=True):
        # A constant's moment is the mean of omega (p - centre). It grows with p by the mean weight.
        unit, weights = public.constant * float(moments.scale[-1]), omega[:, None]
        usual = public.mean(weights)
        surprise = (float(moments.values[-1, 0]) / unit - public.mean(weights * (p - centre))) / usual
        precision = 1 / ((moments.spread / unit / usual) ** 2 + sampling)
        total, weighted = total + precision, weighted + precision * surprise
    share = within(public.mean(p) + weighted / total, total**-0.5)
    root = abs(1 - 2 * share) * math.sqrt(_WEIGHT * total)
    slope = root * np.asarray(public.features.T @ (q * public.share_of_rows[:, None]))
    return BaseRate(public, share, root, slope.T)


def within(estimate: float, error: float) -> float:
    """Return the mean of a normal distribution that is cut off at 0 and at 1: a share without a share below 0.

    Examples
    --------
    >>> within(0.3, 0.01)
    0.3
    >>> round(within(-0.01, 0.01), 4)
    0.0053
    """
    return float(stats.truncnorm.mean(-estimate / error, (1 - estimate) / error, loc=estimate, scale=error))
