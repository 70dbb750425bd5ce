"""How certain the coefficients of a published model are, given the known noise of what was released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpensemble._arrays import Floats

# Features above which the square matrix would make a published file large.
_MOST_FEATURES = 1000


@dataclass(frozen=True, eq=False)
class Information:
    """The precision of coefficients by what was released, and what the fit made of it. Public.

    Parameters
    ----------
    precision : ndarray of shape (n_features, n_features)
        Precision of one column of coefficients at the mean curvature of the classes, without the prior.
    deviations : ndarray of shape (n_features,)
        Prior standard deviations.
    curvatures : ndarray of shape (n_columns,)
        Factors of the precision for each column.
    factor : float
        Factor of the variances, which turns a column of coefficients into the logit that the model states.
    """

    precision: Floats
    deviations: Floats
    curvatures: Floats
    factor: float


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """The posterior covariance of coefficients, in a basis in which noise and prior are independent. Public.

    The model is that of `dpensemble.moments.evidence`: normal noise of known size, the sample of people, and a normal
    prior whose scales the fit found. G. Wahba ("Bayesian confidence intervals for the cross-validated smoothing
    spline", JRSS B 1983) gives the reason to take the posterior: it includes what shrinkage hides, and its bands hold
    on average over a curve.

    Parameters
    ----------
    basis : ndarray of shape (n_features, n_features)
        Columns are the directions in which coefficients vary independently, each one prior standard deviation long.
    precisions : ndarray of shape (n_features,)
        Precision by what was released along each direction, in units of the prior precision.
    curvatures : ndarray of shape (n_columns,)
        Factors of `precisions` for each column.
    factor : float
        Factor of all variances.
    """

    basis: NDArray[np.float32]
    precisions: Floats
    curvatures: Floats
    factor: float

    @classmethod
    def of(cls, information: Information) -> Uncertainty | None:
        """Return the posterior. Return None if there are too many features to publish it."""
        scales = information.deviations
        if len(scales) > _MOST_FEATURES:
            return None
        scaled = scales[:, None] * information.precision * scales
        precisions, directions = linalg.eigh((scaled + scaled.T) / 2, check_finite=False)
        basis = (scales[:, None] * directions).astype(np.float32)
        return cls(basis, np.maximum(precisions, 0.0), information.curvatures, information.factor)

    def deviations(self, along: Floats) -> Floats:
        """Return standard deviations of sums of coefficients, shape (..., n_columns).

        `along` are the sums' weights times the basis, shape (..., n_features).
        """
        variances = 1 / (1 + self.curvatures**2 * self.precisions[:, None])
        deviations: Floats = np.sqrt(self.factor * (along**2 @ variances))
        return deviations
