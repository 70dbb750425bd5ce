"""Coefficients from noisy moments: a logistic fit of two classes, and a softmax of several.

No fit has a setting to choose. Both have a Gaussian model of the noise, and both set the scales of priors by evidence.

**Two classes** (`fit_moments`). Every released moment is a normal observation of a known function of the coefficients
``w``. Its expectation is the mean of ``phi omega (p_w - c)`` over public rows, and its covariance is known. Three terms
add to the covariance:

- private labels are a sample, with ``omega**2 p (1 - p) / n``,
- public rows stand for the private ones, with ``(omega (p - c))**2 (1 / n + kappa / m)``,
- noise was added.

The share of the second class is a further observation (`_BaseRate`).

Coefficients of a block of features have a normal prior. The scale of each block is set where the observations are most
likely (D. MacKay, "Bayesian interpolation", Neural Computation 1992, the evidence updates). So nothing is chosen by a
look at labels. Gauss-Newton steps find the best coefficients.

The share of the second class comes from the moments of the constant. Coefficients that are most likely with many noisy
moments give a rare class too large a share. With a larger share, smaller coefficients explain the same noise, and
priors prefer small coefficients. So the mode of the posterior lies off its mean (on modes and means see L. Tierney and
J. Kadane, "Accurate approximations for posterior moments and marginal densities", JASA 1986). The cause is the third
derivative of the logistic function, ``p (1 - p) (1 - 2 p)``, which is 0 at one half. The moments of the constant
estimate the share without any other coefficient. The weight of this estimate grows with ``(1 - 2 p)**2``. All of this
reads released moments and public rows only.

**Several classes** (`fit_softmax`). A softmax is fitted to noisy moments of labels, with calibrated probabilities. The
likelihood of a softmax depends on the labels only through the class sums, the means of ``phi 1{y = c}``. A round
releases such moments with noise. Each moment is a normal observation with mean ``E[omega phi (p_c - centre_c)]``, an
average over public rows, and a known covariance. Coefficients of a block of features have a normal prior. The prior
scale of each block is set by evidence, as for two classes, with the mean curvature over classes. The most likely
coefficients come from a quasi-Newton method that starts at linear chances.

Where rounds are residuals, as for images, logits are averaged with those of linear chances. The two fits err in
different ways. Linear chances were better on MNIST, whose classes can almost be separated.

A factor of all coefficients is fitted last, since shrinkage makes probabilities too cautious. The coefficients are
fitted to the same noise as the factor, so that the bare likelihood would make probabilities too sharp. The expected
excess is the covariance of noise and prediction (B. Efron, "The estimation of prediction error: covariance penalties
and cross-validation", JASA 2004). Two more fits, to moments with noise added and subtracted, estimate the covariance
(S. Ramani, T. Blu and M. Unser, "Monte-Carlo SURE", IEEE Transactions on Image Processing 2008). A factor of 0 leads
to the shares of the classes. All of this reads released quantities and public rows only.

Linear chances are fitted to all rounds together, in closed form. The chance of class ``c`` in a row is modelled as ``1
/ C + phi(x) . b_c``. Every released moment is then linear in ``b``. Its expectation is ``E[omega phi (1 / C + phi . b_c
- c)]`` over public rows. So the most likely coefficients under normal priors solve one linear system, which all classes
share. The solution needs no iteration that could fail to converge. Noise and the prior scales of blocks are as
for two classes. A linear chance may lie outside 0 to 1. The softmax starts from these coefficients.

Class sums of two classes are read around the share of the second class instead of one half. A round of class sums
releases ``S_0`` and ``S_1``, the means of ``phi 1{y = c}`` with noise. The difference ``(S_1 - S_0) / 2`` is the mean
of ``phi (y - 1 / 2)``. Public rows stand for private ones in its expectation, and they do so with an error that grows
with ``(p - 1 / 2)**2``. That error is large where one class is rare. The mean of ``phi (y - c)`` is known as well: ``(1
- c) S_1 - c S_0``. Its error by public rows grows with ``(p - c)**2``, and its noise with ``(1 - c)**2 + c**2``. The
centre ``c`` between one half and the share of the class makes the sum of both least. All of this reads released
quantities and public rows only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, stats

from dpensemble._entries import Floats
from dpensemble._work import fewer
from dpensemble.moments.model import Information
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.whole import centres_and_weights


@dataclass(frozen=True, eq=False, kw_only=True)
class Moments:
    """The moments that one round released. Public.

    Parameters
    ----------
    values : ndarray of shape (n_features, n_columns)
        Noisy mean of ``phi (onehot(y) - c) omega`` over units. Two classes have one column, for the second class.
    spread : float
        Standard deviation of the noise on each entry. With several classes it is that of the noise along any contrast
        of classes (a vector of length 1 whose entries sum to 0).
    scale : ndarray of shape (n_features,)
        Public weights of the features in this round. `values` are of weighted features.
    centre : ndarray of shape (n_features, n_columns) or None
        Coefficients of the published model whose probabilities are the centre, or None for even shares.
    even_weight : float
        The weight omega of every row if `centre` is None.
    mean : ndarray of shape (n_features,) or None
        Noisy mean of the features, if class sums were released.
    mean_spread : float
        Standard deviation of the noise on its entries.
    """

    values: Floats
    spread: float
    scale: Floats
    centre: Floats | None
    even_weight: float = 1.0
    mean: Floats | None = None
    mean_spread: float = math.nan


# Weight of the estimate if a class has no members, in multiples of its precision. Chosen on generated tables.
_WEIGHT = 12.0


@dataclass(frozen=True, eq=False)
class _BaseRate:
    """The estimated mean probability of public rows, as one more observation in units of its error."""

    public: PublicRows
    share: float
    root: float
    slope: Floats

    def surprise(self, p: Floats) -> Floats:
        """Return how far the mean of probabilities is from the estimate, shape (1, 1)."""
        return np.array([[self.root * (self.share - self.public.mean(p))]])


def _base_rate(
    rounds: Sequence[Moments],
    about: Sequence[tuple[Floats, Floats]],
    public: PublicRows,
    p: Floats,
    n_units: float,
) -> _BaseRate:
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
    share = _within(public.mean(p) + weighted / total, total**-0.5)
    root = abs(1 - 2 * share) * math.sqrt(_WEIGHT * total)
    slope = root * np.asarray(public.features.T @ (q * public.share_of_rows[:, None]))
    return _BaseRate(public, share, root, slope.T)


def _within(estimate: float, error: float) -> float:
    """Return the mean of a normal distribution that is cut off at 0 and at 1: a share without a share below 0.

    Examples
    --------
    >>> _within(0.3, 0.01)
    0.3
    >>> round(_within(-0.01, 0.01), 4)
    0.0053
    """
    return float(stats.truncnorm.mean(-estimate / error, (1 - estimate) / error, loc=estimate, scale=error))


# The first scales, in multiples of typical ones.
_FIRST = 10.0
# Bounds of prior scales.
_SMALLEST_SCALE_OF_TWO, _LARGEST_SCALE_OF_TWO = 0.02, 300.0
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

    @classmethod
    def start(cls, public: PublicRows) -> Fit:
        """Return coefficients of 0 and wide priors."""
        scales = public.typical_scales()
        scales[:-1] *= _FIRST
        n_columns = 1 if public.n_classes == 2 else public.n_classes
        return cls(np.zeros((public.features.shape[1], n_columns)), scales)

    def to_rounds(self, rounds: Sequence[Moments], public: PublicRows, *, n_units: float, class_sums: bool) -> Fit:
        """Return the fit to all rounds together. `class_sums` states whether no round can be of residuals."""
        if public.n_classes == 2 and not class_sums:
            return fit_moments(rounds, public, self, n_units=n_units)
        return fit_softmax(rounds, public, n_units=n_units, with_linear=not class_sums)


def fit_moments(rounds: Sequence[Moments], public: PublicRows, start: Fit, *, n_units: float) -> Fit:
    """Fit coefficients to all rounds together."""
    coefficients, scales, typical = start.coefficients, start.scales, public.typical_scales()
    about = [centres_and_weights(m.centre, public.features, public.n_classes, m.even_weight) for m in rounds]
    p = public.probabilities(coefficients)
    for _ in range(fewer(_MOST_STEPS)):
        by_round = [_ObservedOfTwo.of(m, c, w, public, p, n_units) for m, (c, w) in zip(rounds, about, strict=True)]
        information = np.sum([one.slope.T @ one.slope for one in by_round], axis=0)
        rate = _base_rate(rounds, about, public, p, n_units)
        observed: list[_ObservedOfTwo | _BaseRate] = [*by_round, rate]
        precision = information + rate.slope.T @ rate.slope
        surprises = [one.surprise(p) for one in observed]
        pulls = [one.slope.T @ surprise for one, surprise in zip(observed, surprises, strict=True)]
        evidence = precision @ coefficients + np.sum(pulls, axis=0)
        best, scales = _most_likely_of_two(precision, evidence, public.blocks, scales, typical)
        now = _misfit(coefficients, surprises, scales[public.blocks])
        step, p = _step(coefficients, best - coefficients, observed, public, scales, now)
        coefficients = coefficients + step
        if np.sqrt(np.mean(np.asarray(public.features @ step) ** 2)) < _SHORT_STEP:
            break
    return Fit(coefficients, scales, Information(information, scales[public.blocks], np.ones(1), 1.0))


@dataclass(frozen=True, eq=False)
class _ObservedOfTwo:
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
    ) -> _ObservedOfTwo:
        """Return a round as seen from probabilities `p` of public rows."""
        q, left = (p * (1 - p))[:, 0], omega[:, None] * (p - centre)
        variance = public.curvature(omega**2 * q / n_units) + (1 / n_units + public.doubt) * public.covariance(left)
        variance[np.diag_indices_from(variance)] += (moments.spread / moments.scale) ** 2
        root = _positive_root(variance)
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
    observed: Sequence[_ObservedOfTwo | _BaseRate],
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


def _most_likely_of_two(
    precision: Floats, evidence: Floats, blocks: NDArray[np.int64], scales: Floats, typical: Floats
) -> tuple[Floats, Floats]:
    """Return the best coefficients under the prior, whose scales are moved to where the evidence is largest.

    A block of few coefficients, most of them hidden by noise, determines its scale badly. So each scale is an average
    of the block's own and of one that all blocks share, by pseudo-coefficients: an inverse gamma prior.
    """
    sizes = np.bincount(blocks)
    for _ in range(fewer(3)):
        root, variances = _inverted(precision + np.diag(1 / scales[blocks] ** 2))
        best = linalg.cho_solve((root, True), evidence, check_finite=False)
        determined = np.maximum(sizes - np.bincount(blocks, variances) / scales**2, 1e-9)
        squares = np.bincount(blocks, best[:, 0] ** 2)
        in_all = float((squares / typical**2)[:-1].sum() + _PULL_OF_ALL) / (determined[:-1].sum() + _PULL_OF_ALL)
        pulled = (squares + _PULL * in_all * typical**2) / (determined + _PULL)
        scales = np.sqrt(pulled).clip(_SMALLEST_SCALE_OF_TWO, _LARGEST_SCALE_OF_TWO)
        scales[-1] = typical[-1]
    return best, scales


def _positive_root(matrix: Floats) -> Floats:
    """Return the Cholesky root of a covariance, with as much added to its diagonal as rounding makes necessary."""
    size, extra = np.diag_indices_from(matrix), _JITTER * float(matrix.diagonal().max())
    while True:
        matrix[size] += extra
        try:
            return linalg.cholesky(matrix, lower=True, check_finite=False)
        except linalg.LinAlgError:
            extra *= 10


def _inverted(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the Cholesky root of a matrix, and the diagonal of its inverse."""
    root = _positive_root(matrix)
    inverse_root = linalg.solve_triangular(root, np.eye(len(root)), lower=True, check_finite=False)
    return root, np.einsum("ij,ij->j", inverse_root, inverse_root)


# Standard deviation of the constant's part of a chance, and bounds of all other prior scales, of linear chances.
_CONSTANT_CHANCE, _LINEAR_SMALLEST_SCALE, _LINEAR_LARGEST_SCALE = 1.0, 1e-3, 100.0
# Times the covariance of the moments is renewed at the present fit, and updates of the scales each time.
_LINEAR_TURNS, _LINEAR_UPDATES = 3, 12
# Least variance of a label that is assumed anywhere.
_LEAST_VARIANCE = 0.02


def _fit_linear(
    rounds: Sequence[Moments], about: Sequence[tuple[Floats, Floats]], public: PublicRows, *, n_units: float
) -> Fit:
    """Fit linear chances of all classes to all rounds. `about` holds centres and weights of public rows."""
    n_classes = public.n_classes
    systems = [_system(m, c, omega, public) for m, (c, omega) in zip(rounds, about, strict=True)]
    scales = np.ones(int(public.blocks.max()) + 1)
    scales[-1] = _CONSTANT_CHANCE / public.constant
    fitted: Floats | None = None
    for _ in range(fewer(_LINEAR_TURNS, 2)):
        size = public.features.shape[1]
        information, target = np.zeros((size, size)), np.zeros((size, n_classes))
        for moments, (c, omega), (slope, rest) in zip(rounds, about, systems, strict=True):
            covariance = _covariance(fitted, c, omega, public, n_units)
            covariance[np.diag_indices_from(covariance)] += (moments.spread / moments.scale) ** 2
            weighted = linalg.cho_solve((_positive_root(covariance), True), slope)
            information += slope.T @ weighted
            target += weighted.T @ rest
        coefficients, scales = _most_likely_linear(information, target, public.blocks, scales)
        fitted = 1 / n_classes + np.asarray(public.features @ coefficients)
    return Fit(coefficients, scales)


def _system(moments: Moments, c: Floats, omega: Floats, public: PublicRows) -> tuple[Floats, Floats]:
    """Return how a round's moments grow with the coefficients, and the moments less their part without any."""
    fixed = public.average(omega[:, None] * (1 / public.n_classes - c))
    rest = moments.values / moments.scale[:, None] - fixed
    return public.slope(omega), rest - rest.mean(axis=1, keepdims=True)


def _covariance(fitted: Floats | None, c: Floats, omega: Floats, public: PublicRows, n_units: float) -> Floats:
    n_classes = public.n_classes
    if fitted is None:
        # Before the first fit the error of the centres is unknown.
        return public.curvature(omega**2 / n_classes / n_units)
    chances = fitted.clip(0.0, 1.0)
    chances = chances / np.maximum(chances.sum(axis=1, keepdims=True), 1e-6)
    return _round_covariance(chances, fitted, c, omega, public, n_units)


def _round_covariance(
    chances: Floats, fitted: Floats, centre: Floats, omega: Floats, public: PublicRows, n_units: float
) -> Floats:
    """Return the covariance of a round's moments along a contrast of classes, without that of the added noise.

    Labels vary by their `chances` in a sample of units. Public rows stand for private rows, which matters the more the
    more `fitted` values differ from the centre in some rows and not in others.
    """
    contrasts = public.n_classes - 1
    labels = np.maximum(1 - (chances**2).sum(axis=1), _LEAST_VARIANCE) / contrasts
    of_rows = public.covariance(omega[:, None] * (fitted - centre)) / contrasts
    return public.curvature(omega**2 * labels / n_units) + (1 / n_units + public.doubt) * of_rows


def _most_likely_linear(
    information: Floats, target: Floats, blocks: NDArray[np.int64], scales: Floats
) -> tuple[Floats, Floats]:
    """Return the best coefficients under the prior, whose scales are moved to where the evidence is largest."""
    sizes, contrasts, of_constant = np.bincount(blocks), target.shape[1] - 1, scales[-1]
    for _ in range(fewer(_LINEAR_UPDATES)):
        precision = 1 / scales[blocks] ** 2
        root, variances = _inverted(information + np.diag(precision))
        coefficients = linalg.cho_solve((root, True), target)
        determined = np.maximum(sizes - np.bincount(blocks, variances * precision), 1e-3)
        squares = np.bincount(blocks, (coefficients**2).sum(axis=1)) / contrasts
        scales = np.sqrt(squares / determined).clip(_LINEAR_SMALLEST_SCALE, _LINEAR_LARGEST_SCALE)
        scales[-1] = of_constant
    return coefficients, scales


def _around_share(
    moments: Moments, about: tuple[Floats, Floats], public: PublicRows, n_units: float
) -> tuple[Moments, tuple[Floats, Floats]]:
    """Return moments of two classes around another centre. Rounds of residuals stay as they are.

    Parameters
    ----------
    moments : Moments
        One round, with one column.
    about : tuple of ndarray
        Centres, shape (n_rows, 1), and weights, shape (n_rows,), of public rows.
    public : PublicRows
        Public rows.
    n_units : float
        Number of private units.

    Returns
    -------
    moments, about
        Both, around the new centre.
    """
    if moments.centre is not None or moments.mean is None:
        return moments, about
    constant = public.constant
    share = _within(float(moments.values[-1, 0]) / constant + 0.5, moments.spread / constant)
    centre = _best_centre(share, _error_of_rows(public, n_units), len(moments.values) * moments.spread**2)
    values = moments.values + (0.5 - centre) * moments.mean[:, None]
    spread = math.hypot(moments.spread, (0.5 - centre) * moments.mean_spread)
    return replace(moments, values=values, spread=spread), (np.full_like(about[0], centre), about[1])


def _best_centre(share: float, of_rows: float, of_noise: float) -> float:
    """Return the centre of least error, ``of_rows (share - c)**2 + of_noise (1 + 4 (1 / 2 - c)**2)``.

    Examples
    --------
    >>> _best_centre(0.1, 1.0, 0.0)
    0.1
    >>> _best_centre(0.1, 0.0, 1.0)
    0.5
    """
    return (of_rows * share + 2 * of_noise) / (of_rows + 4 * of_noise)


def _error_of_rows(public: PublicRows, n_units: float) -> float:
    """Return the summed variance of mean features, of a sample of units against the public rows."""
    ones: Floats = np.ones((public.features.shape[0], 1))
    return (1 / n_units + public.doubt) * float(np.trace(public.covariance(ones)))


_Singles = NDArray[np.float32]
_Floating = TypeVar("_Floating", np.float32, np.float64)

# Logits of the first coefficients, in multiples of the linear chances. The fit moves them.
_FIRST_SHARPNESS = 8.0
# Bounds of prior scales, in logits.
_SMALLEST_SCALE, _LARGEST_SCALE = 0.03, 300.0
# Fits with renewed covariances and scales, updates of scales in each, and quasi-Newton steps of each.
_TURNS, _UPDATES, _STEPS = 5, 4, 20
# Least share of a class that is assumed.
_LEAST_SHARE = 1e-6
# Factors that are compared, and standard errors by which a factor must be better than the bare shares.
_FACTORS, _CAUTION = (0.0, *np.geomspace(0.05, 5.0, 80).tolist()), 0.5
# Up to this number, numpy adds the numbers of a row one after another, as `reduce` does, but much more slowly.
_FEW_CLASSES = 7


def _softmax(scores: NDArray[_Floating]) -> NDArray[_Floating]:
    """Return the softmax of each row, shape (n_rows, n_classes)."""
    few = scores.shape[1] <= _FEW_CLASSES
    largest = reduce(np.maximum, scores.T)[:, None] if few else scores.max(axis=1, keepdims=True)
    powers = np.exp(scores - largest)
    return powers / _row_sums(powers)


def _row_sums(values: NDArray[_Floating]) -> NDArray[_Floating]:
    """Return the sum of each row, shape (n_rows, 1)."""
    sums: NDArray[_Floating]
    sums = reduce(np.add, values.T)[:, None] if values.shape[1] <= _FEW_CLASSES else values.sum(axis=1, keepdims=True)
    return sums


def fit_softmax(rounds: Sequence[Moments], public: PublicRows, *, n_units: float, with_linear: bool = False) -> Fit:
    """Fit calibrated coefficients of several classes to all rounds together.

    If `with_linear`, logits are the mean of those of the softmax and of those of linear chances, at equal size.
    """
    of_two = public.n_classes == 2
    about = [centres_and_weights(m.centre, public.features, public.n_classes, m.even_weight) for m in rounds]
    if of_two:
        pairs = [_around_share(m, one, public, n_units) for m, one in zip(rounds, about, strict=True)]
        rounds = [_of_both(m) for m, _ in pairs]
        about = [(np.hstack([1 - c, c]), omega) for _, (c, omega) in pairs]
    linear = _fit_linear(rounds, about, public, n_units=n_units)
    coefficients, scales = _FIRST_SHARPNESS * linear.coefficients, _FIRST_SHARPNESS * linear.scales
    scales[-1] = public.constant_scale
    for turn in range(fewer(_TURNS, 2)):
        chances = _softmax(np.asarray(public.features @ coefficients)).astype(np.float64)
        observed = [_observed(m, c, w, chances, public, n_units) for m, (c, w) in zip(rounds, about, strict=True)]
        information = _information(observed, chances, public)
        if turn:
            scales = _likeliest_scales(information, coefficients, public.blocks, scales)
        posterior = _Posterior.of(public.in_memory.features, observed, information, scales[public.blocks])
        coefficients = posterior.most_likely(coefficients)
    draws = np.random.default_rng(0)
    noise = [draws.standard_normal(one.values.shape, dtype=np.float32) for one in observed]
    fits = [coefficients, *(posterior.moved(noise, sign).most_likely(coefficients) for sign in (1.0, -1.0))]
    if with_linear:
        moved = ([_moved(*parts, sign) for parts in zip(rounds, observed, noise, strict=True)] for sign in (1.0, -1.0))
        others = [linear, *(_fit_linear(moments, about, public, n_units=n_units) for moments in moved)]
        fits = _blended(fits, [other.coefficients for other in others], public)
    factor, fitted = _calibrated(posterior, fits, noise, public.in_memory.shares)
    # A logit less the mean logit of C classes has (1 - 1 / C) of the variance of one column, and a difference of two
    # logits has twice that variance.
    of_column = 2.0 if of_two else 1 - 1 / public.n_classes
    curvatures = np.ones(1) if of_two else _curvatures(chances, public)
    certain = Information(information, scales[public.blocks], curvatures, factor**2 * of_column)
    return Fit(fitted[:, 1:] - fitted[:, :1] if of_two else fitted, scales, certain)


def _curvatures(chances: Floats, public: PublicRows) -> Floats:
    """Return the curvature of each class, as a multiple of the mean curvature in `_information`."""
    some = public.in_memory
    each = some.shares @ (chances[some.rows] * (1 - chances[some.rows]))
    return np.asarray(each * public.n_classes / each.sum())


def _of_both(moments: Moments) -> Moments:
    """Return moments of two classes with a column for each. Moments of one column have the noise of a contrast."""
    values = np.hstack([-moments.values, moments.values])
    return replace(moments, values=values, spread=moments.spread * math.sqrt(2))


@dataclass(frozen=True, eq=False)
class _Observed:
    """A round in units of its own noise: the moments, and how chances of public rows lead to their expectation."""

    weights: _Singles
    values: _Singles
    # Root of the covariance of the moments.
    root: Floats

    def surprise(self, chances: _Singles) -> _Singles:
        """Return how far moments are from what chances lead to, shape (n_released, n_classes)."""
        return self.values - self.weights.T @ chances


def _observed(
    moments: Moments, centre: Floats, omega: Floats, chances: Floats, public: PublicRows, n_units: float
) -> _Observed:
    covariance = _round_covariance(chances, chances, centre, omega, public, n_units)
    covariance[np.diag_indices_from(covariance)] += (moments.spread / moments.scale) ** 2
    root = _positive_root(covariance)
    whitening = linalg.solve_triangular(root, np.eye(len(root)), lower=True, check_finite=False)
    some = public.in_memory
    weights = (some.released @ whitening.T.astype(np.float32)) * (omega[some.rows] * some.shares)[:, None]
    weights = weights.astype(np.float32)
    values = whitening @ (moments.values / moments.scale[:, None])
    return _Observed(weights, (values + weights.T @ centre[some.rows]).astype(np.float32), root)


def _information(observed: Sequence[_Observed], chances: Floats, public: PublicRows) -> Floats:
    """Return the precision of the coefficients of a class by the rounds, with the mean curvature over classes."""
    some = public.in_memory
    curvature = (1 - (chances[some.rows] ** 2).sum(axis=1)) / (public.n_classes - 1)
    curved = some.features * curvature[:, None].astype(np.float32)
    slopes = [(one.weights.T @ curved).astype(np.float64) for one in observed]
    return np.asarray(sum(slope.T @ slope for slope in slopes))


def _likeliest_scales(information: Floats, coefficients: Floats, blocks: NDArray[np.int64], scales: Floats) -> Floats:
    """Return prior scales of blocks, moved to where the evidence is largest."""
    sizes, of_constant = np.bincount(blocks), scales[-1]
    squares = np.bincount(blocks, (coefficients**2).sum(axis=1)) / (coefficients.shape[1] - 1)
    for _ in range(fewer(_UPDATES)):
        _, variances = _inverted(information + np.diag(1 / scales[blocks] ** 2))
        determined = np.maximum(sizes - np.bincount(blocks, variances) / scales**2, 1e-3)
        scales = np.sqrt(squares / determined).clip(_SMALLEST_SCALE, _LARGEST_SCALE)
        scales[-1] = of_constant
    return scales


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Information on the coefficients, with a basis in which the loss has about the same curvature everywhere."""

    features: _Singles
    observed: tuple[_Observed, ...]
    precisions: _Singles
    root: Floats
    basis: _Singles

    @classmethod
    def of(cls, features: _Singles, observed: Sequence[_Observed], information: Floats, scales: Floats) -> _Posterior:
        """Return the posterior under prior scales of features."""
        root = _positive_root(information + np.diag(1 / scales**2))
        basis = linalg.solve_triangular(root.T, np.eye(len(root)), lower=False, check_finite=False)
        precisions = (1 / scales**2)[:, None].astype(np.float32)
        return cls(features, tuple(observed), precisions, root, basis.astype(np.float32))

    def moved(self, noise: Sequence[_Singles], sign: float) -> _Posterior:
        """Return the same with noise on the moments."""
        shifted = [replace(one, values=one.values + sign * e) for one, e in zip(self.observed, noise, strict=True)]
        return replace(self, observed=tuple(shifted))

    def most_likely(self, start: Floats) -> Floats:
        """Return the most likely coefficients, shape (n_features, n_classes)."""
        # The basis is the inverse of this root, transposed.
        first = self.root.T @ start
        steps = optimize.minimize(
            lambda u: self._loss(u.reshape(start.shape).astype(np.float32)),
            first.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": fewer(_STEPS), "maxcor": 15},
        )
        return np.asarray(self.basis.astype(np.float64) @ steps.x.reshape(start.shape))

    def _loss(self, place: _Singles) -> tuple[float, Floats]:
        """Return minus the log posterior at a place in the basis, and the gradient."""
        coefficients = self.basis @ place
        chances = _softmax(self.features @ coefficients)
        loss = 0.5 * float((self.precisions * coefficients**2).sum(dtype=np.float64))
        pull = np.zeros_like(chances)
        for one in self.observed:
            surprise = one.surprise(chances)
            loss += 0.5 * float((surprise**2).sum(dtype=np.float64))
            pull -= one.weights @ surprise
        slopes = chances * (pull - _row_sums(chances * pull))
        gradient = self.basis.T @ (self.features.T @ slopes + self.precisions * coefficients)
        return loss, gradient.astype(np.float64).ravel()


def _moved(moments: Moments, observed: _Observed, noise: _Singles, sign: float) -> Moments:
    """Return moments with noise on them, which is given in units of their error."""
    added = (observed.root @ noise) * moments.scale[:, None]
    return replace(moments, values=moments.values + sign * added)


def _blended(fits: Sequence[Floats], others: Sequence[Floats], public: PublicRows) -> list[Floats]:
    """Return means of two kinds of fits. The first pair determines how other fits are multiplied to equal size."""
    sizes = [float(np.linalg.norm(np.asarray(public.features @ kind[0]).std(axis=0))) for kind in (fits, others)]
    multiple = sizes[0] / max(sizes[1], 1e-12)
    return [(fit + multiple * other) / 2 for fit, other in zip(fits, others, strict=True)]


def _calibrated(
    posterior: _Posterior, fits: Sequence[Floats], noise: Sequence[_Singles], shares: Floats
) -> tuple[float, Floats]:
    """Return the factor of least expected error, between the classes' shares and sharper chances, and coefficients.

    `fits` are coefficients by the moments, and by the moments with `noise` added and subtracted.
    """
    scores, more, less = (posterior.features @ fit.astype(np.float32) for fit in fits)
    logarithms = np.log(np.maximum(shares @ _softmax(scores), _LEAST_SHARE)).astype(np.float32)

    def expectations(factor: float, scores: _Singles) -> list[_Singles]:
        chances = _softmax(np.float32(factor) * scores + np.float32(1 - factor) * logarithms)
        return [one.weights.T @ chances for one in posterior.observed]

    shares_alone = expectations(0.0, scores)

    def error(factor: float) -> float:
        """Return the expected error of a factor, and what chance may make of how much better it is than shares."""
        fits = (expectations(factor, one) for one in (scores, more, less))
        parts = zip(posterior.observed, noise, *fits, shares_alone, strict=True)
        total = distance = 0.0
        for one, e, here, above, below, alone in parts:
            total += 0.5 * float(((one.values - here) ** 2).sum(dtype=np.float64))
            total += 0.5 * float((e * (above - below)).sum(dtype=np.float64))
            distance += float(((here - alone) ** 2).sum(dtype=np.float64))
        return total + _CAUTION * math.sqrt(distance)

    factor = min(_FACTORS[: fewer(len(_FACTORS), 2)], key=error)
    scaled = factor * fits[0]
    # The constant is the last feature, the same in every row.
    scaled[-1] += (1 - factor) * logarithms / posterior.features[0, -1]
    return factor, scaled
