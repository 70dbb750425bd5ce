"""Coefficients from released moments, with no setting to choose: a Gaussian model of the noise, and evidence.

Every released moment is a normal observation of a known function of the coefficients ``w``. Its expectation is the mean
of ``phi omega (p_w - c)`` over public rows, and its covariance is known. Three terms add to the covariance:

- private labels are a sample, with ``omega**2 p (1 - p) / n``,
- public rows stand for the private ones, with ``(omega (p - c))**2 (1 / n + kappa / m)``,
- noise was added.

The share of the second class is a further observation (`BaseRate`).

Coefficients of a block of features have a normal prior. The scale of each block is set where the observations are most
likely (D. MacKay, "Bayesian interpolation", Neural Computation 1992, the evidence updates). So nothing is chosen by a
look at labels. Gauss-Newton steps find the best coefficients.

This is for two classes. For more classes see `dpensemble.moments.softmax`.

The share of the second class comes from the moments of the constant. Coefficients that are most likely with many noisy
moments give a rare class too large a share. With a larger share, smaller coefficients explain the same noise, and
priors prefer small coefficients. So the mode of the posterior lies off its mean (on modes and means see L. Tierney and
J. Kadane, "Accurate approximations for posterior moments and marginal densities", JASA 1986). The cause is the third
derivative of the logistic function, ``p (1 - p) (1 - 2 p)``, which is 0 at one half. The moments of the constant
estimate the share without any other coefficient. The weight of this estimate grows with ``(1 - 2 p)**2``. All of this
reads released moments and public rows only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, stats

from dpensemble._arrays import Floats
from dpensemble.moments.model import columns, expected
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.queries import Moments
from dpensemble.moments.uncertainty import Information

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


# The first scales, in multiples of typical ones.
_FIRST = 10.0
# Bounds of prior scales.
_SMALLEST_SCALE, _LARGEST_SCALE = 0.02, 300.0
# Pseudo-coefficients: of a block at the scale of all blocks, and of the scale of all blocks at the typical scales.
_PULL, _PULL_OF_ALL = 2.0, 6.0
# Largest change of a logit in one step, and the mean one at which steps end.
_LONGEST_STEP, _SHORT_STEP = 8.0, 0.03
_MOST_STEPS = 12
# Times that a step which overshoots is halved.
_MOST_HALVES = 4
# Relative to the largest variance: keeps covariances without noise invertible.
_JITTER = 1e-9


@dataclass(frozen=True, eq=False)
class Fit:
    """Coefficients, shape (n_features, n_columns), the prior scale of every block, and their precision. Public."""

    coefficients: Floats
    scales: Floats
    information: Information | None = None


def starting_fit(public: PublicRows) -> Fit:
    """Return coefficients of 0 and wide priors."""
    scales = public.typical_scales()
    scales[:-1] *= _FIRST
    return Fit(np.zeros((public.features.shape[1], columns(public.n_classes))), scales)


def fit_moments(rounds: Sequence[Moments], public: PublicRows, start: Fit, *, n_units: float) -> Fit:
    """Fit coefficients to all rounds together."""
    coefficients, scales, typical = start.coefficients, start.scales, public.typical_scales()
    about = [expected(m.centre, public.features, public.n_classes, m.even_weight) for m in rounds]
    p = public.probabilities(coefficients)
    for _ in range(_MOST_STEPS):
        by_round = [_Observed.of(m, c, w, public, p, n_units) for m, (c, w) in zip(rounds, about, strict=True)]
        information = np.sum([one.slope.T @ one.slope for one in by_round], axis=0)
        rate = base_rate(rounds, about, public, p, n_units)
        observed: list[_Observed | BaseRate] = [*by_round, rate]
        precision = information + rate.slope.T @ rate.slope
        surprises = [one.surprise(p) for one in observed]
        pulls = [one.slope.T @ surprise for one, surprise in zip(observed, surprises, strict=True)]
        evidence = precision @ coefficients + np.sum(pulls, axis=0)
        best, scales = _most_likely(precision, evidence, public.blocks, scales, typical)
        now = _misfit(coefficients, surprises, scales[public.blocks])
        step, p = _step(coefficients, best - coefficients, observed, public, scales, now)
        coefficients = coefficients + step
        if np.sqrt(np.mean(np.asarray(public.features @ step) ** 2)) < _SHORT_STEP:
            break
    return Fit(coefficients, scales, Information(information, scales[public.blocks], np.ones(1), 1.0))


@dataclass(frozen=True, eq=False)
class _Observed:
    """A round in units of its error near present coefficients: how it grows with them, and how far it is off."""

    values: Floats
    centre: Floats
    omega: Floats
    public: PublicRows
    root: Floats
    slope: Floats

    @classmethod
    def of(
        cls, moments: Moments, centre: Floats, omega: Floats, public: PublicRows, p: Floats, n_units: float
    ) -> _Observed:
        """Return a round as seen from probabilities `p` of public rows."""
        q, left = (p * (1 - p))[:, 0], omega[:, None] * (p - centre)
        variance = public.curvature(omega**2 * q / n_units) + (1 / n_units + public.doubt) * public.covariance(left)
        variance[np.diag_indices_from(variance)] += (moments.spread / moments.scale) ** 2
        root = positive_root(variance)
        slope = linalg.solve_triangular(root, public.slope(omega * q), lower=True, check_finite=False)
        return cls(moments.values / moments.scale[:, None], centre, omega, public, root, slope)

    def surprise(self, p: Floats) -> Floats:
        """Return how far the released moments are from what probabilities of public rows lead to."""
        surprise = self.values - self.public.average(self.omega[:, None] * (p - self.centre))
        whitened: Floats = linalg.solve_triangular(self.root, surprise, lower=True, check_finite=False)
        return whitened


def _step(
    coefficients: Floats,
    change: Floats,
    observed: Sequence[_Observed | BaseRate],
    public: PublicRows,
    scales: Floats,
    now: float,
) -> tuple[Floats, Floats]:
    """Return the part of a Gauss-Newton step that makes coefficients more likely, since whole steps may overshoot.

    Also return probabilities of public rows behind the step. `now` is the misfit of `coefficients`.
    """
    largest = float(np.abs(np.asarray(public.features @ change)).max(initial=0.0))
    part = min(1.0, _LONGEST_STEP / max(largest, 1e-300))
    for _ in range(_MOST_HALVES):
        at = coefficients + part * change
        p = public.probabilities(at)
        if _misfit(at, [one.surprise(p) for one in observed], scales[public.blocks]) < now:
            return part * change, p
        part /= 2
    return part * change, public.probabilities(coefficients + part * change)


def _misfit(coefficients: Floats, surprises: Sequence[Floats], scales: Floats) -> float:
    """Return minus twice the log posterior density of coefficients, up to a constant. `scales` are of features."""
    precision = 1 / scales[:, None] ** 2
    return float(np.sum(precision * coefficients**2) + sum(np.sum(surprise**2) for surprise in surprises))


def _most_likely(
    precision: Floats, evidence: Floats, blocks: NDArray[np.int64], scales: Floats, typical: Floats
) -> tuple[Floats, Floats]:
    """Return the best coefficients under the prior, whose scales are moved to where the evidence is largest.

    A block of few coefficients, most of them hidden by noise, determines its scale badly. So each scale is an average
    of the block's own and of one that all blocks share, by pseudo-coefficients: an inverse gamma prior.
    """
    sizes = np.bincount(blocks)
    for _ in range(3):
        root, variances = inverted(precision + np.diag(1 / scales[blocks] ** 2))
        best = linalg.cho_solve((root, True), evidence, check_finite=False)
        determined = np.maximum(sizes - np.bincount(blocks, variances) / scales**2, 1e-9)
        squares = np.bincount(blocks, best[:, 0] ** 2)
        in_all = float((squares / typical**2)[:-1].sum() + _PULL_OF_ALL) / (determined[:-1].sum() + _PULL_OF_ALL)
        pulled = (squares + _PULL * in_all * typical**2) / (determined + _PULL)
        scales = np.sqrt(pulled).clip(_SMALLEST_SCALE, _LARGEST_SCALE)
        scales[-1] = typical[-1]
    return best, scales


def positive_root(matrix: Floats) -> Floats:
    """Return the Cholesky root of a covariance, with as much added to its diagonal as rounding makes necessary."""
    size, extra = np.diag_indices_from(matrix), _JITTER * float(matrix.diagonal().max())
    while True:
        matrix[size] += extra
        try:
            return linalg.cholesky(matrix, lower=True, check_finite=False)
        except linalg.LinAlgError:
            extra *= 10


def inverted(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the Cholesky root of a matrix, and the diagonal of its inverse."""
    root = positive_root(matrix)
    inverse_root = linalg.solve_triangular(root, np.eye(len(root)), lower=True, check_finite=False)
    return root, np.einsum("ij,ij->j", inverse_root, inverse_root)
