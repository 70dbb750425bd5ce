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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dpensemble._arrays import Floats

# Weight of the estimate if a class has no members, in multiples of its precision. Chosen on generated tables.
_WEIGHT = 12.0


@dataclass(frozen=True, eq=False)
class BaseRate:
    """The estimated mean probability of public rows, as one more observation in units of its error."""

    share: float
    root: float
    mean: Callable[[Floats], float]
    slope: Floats

    @classmethod
    def of(
        cls,
        p: Floats,
        surprises: Sequence[float],
        errors: Sequence[float],
        mean: Callable[[Floats], float],
        gradient: Floats,
    ) -> BaseRate:
        """Return the estimate of all rounds together.

        Parameters
        ----------
        p : ndarray of shape (n_rows, 1)
            Present probabilities of public rows.
        surprises, errors : sequence of float
            By how much the constant of each round shows a larger mean probability, and the standard deviation of that.
        mean : callable
            Returns the mean over public rows of values with shape (n_rows, 1).
        gradient : ndarray of shape (n_features, 1)
            Derivative of the mean probability.
        """
        precisions = 1 / np.square(errors)
        error = float(1 / np.sqrt(precisions.sum()))
        share = within(mean(p) + float(precisions @ np.asarray(surprises)) * error**2, error)
        root = math.sqrt(_WEIGHT) * abs(1 - 2 * share) / error
        return cls(share, root, mean, root * gradient.T)

    def surprise(self, p: Floats) -> Floats:
        """Return how far the mean of probabilities is from the estimate, shape (1, 1)."""
        return np.array([[self.root * (self.share - self.mean(p))]])


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
