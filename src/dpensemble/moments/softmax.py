"""Coefficients of several classes from noisy moments: a softmax, linear chances, and a factor of both.

A softmax is fitted to noisy moments of labels, with calibrated probabilities. The
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
to the shares of the classes.

Linear chances are fitted to all rounds together, in closed form. The chance of class ``c`` in a row is modelled as ``1
/ C + phi(x) . b_c``. Every released moment is then linear in ``b``. Its expectation is ``E[omega phi (1 / C + phi . b_c
- c)]`` over public rows. So the most likely coefficients under normal priors solve one linear system, which all classes
share. Noise and the prior scales of blocks are as for two classes. A linear chance may lie outside 0 to 1. The softmax
starts from these coefficients.

Class sums of two classes are read around the share of the second class instead of one half. A round of class sums
releases ``S_0`` and ``S_1``, the means of ``phi 1{y = c}`` with noise. The difference ``(S_1 - S_0) / 2`` is the mean
of ``phi (y - 1 / 2)``. Public rows stand for private ones in its expectation, and they do so with an error that grows
with ``(p - 1 / 2)**2``. That error is large where one class is rare. The mean of ``phi (y - c)`` is known as well: ``(1
- c) S_1 - c S_0``. Its error by public rows grows with ``(p - c)**2``, and its noise with ``(1 - c)**2 + c**2``. The
centre ``c`` between one half and the share of the class makes the sum of both least.

Expectations are means over all public rows. Curvatures and covariances come from a sample. All of this reads released
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
from scipy import linalg, optimize

from dpensemble._entries import Floats
from dpensemble._work import fewer
from dpensemble.moments.fits import (
    Fit,
    Moments,
    centres_of_rounds,
    fit_moments,
    inverted,
    positive_root,
    solved,
    within_0_and_1,
)
from dpensemble.moments.model import Information
from dpensemble.moments.public_rows import PublicRows, RowsInMemory


def fit_rounds(start: Fit, rounds: Sequence[Moments], public: PublicRows, *, n_units: float, class_sums: bool) -> Fit:
    """Return the fit to all rounds together. `class_sums` states whether no round can be of residuals."""
    some = public.seen_of_many()
    if some is not None:
        seen = replace(start, coefficients=start.coefficients[some])
        others = [one.among(some) for one in rounds]
        found = fit_rounds(seen, others, public.among(some), n_units=n_units, class_sums=class_sums)
        coefficients = np.zeros((len(public.blocks), found.coefficients.shape[1]))
        coefficients[some] = found.coefficients
        # A model from which `seen_of_many` took features holds no information.
        return Fit(coefficients, found.scales)
    if public.n_classes == 2 and not class_sums:
        return fit_moments(rounds, public, start, n_units=n_units)
    return fit_softmax(rounds, public, n_units=n_units, with_linear=not class_sums)


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
    n_classes, sample = public.n_classes, public.sample
    slopes = [sample.slope(omega[sample.rows]) for _, omega in about]
    # What is left of the moments without any coefficients.
    fixed = [public.average(omega[:, None] * (1 / n_classes - c)) for c, omega in about]
    rests = [m.values / m.scale[:, None] - part for m, part in zip(rounds, fixed, strict=True)]
    scales = np.ones(int(public.blocks.max()) + 1)
    scales[-1] = _CONSTANT_CHANCE / public.constant
    fitted, chances = None, np.full((len(sample.rows), n_classes), 1 / n_classes)
    for _ in range(fewer(_LINEAR_TURNS, 2)):
        size = public.features.shape[1]
        information, target = np.zeros((size, size)), np.zeros((size, n_classes))
        for moments, one, slope, rest in zip(rounds, about, slopes, rests, strict=True):
            root = _root_of_errors(moments, one, chances, fitted, public, n_units)
            whitened = solved(root, slope)
            information += whitened.T @ whitened
            target += whitened.T @ solved(root, rest - rest.mean(axis=1, keepdims=True))
        coefficients, scales = _most_likely_linear(information, target, public.blocks, scales)
        fitted = 1 / n_classes + sample.features @ coefficients
        chances = fitted.clip(0.0, 1.0)
        chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1e-6)
    return Fit(coefficients, scales)


def _root_of_errors(
    moments: Moments,
    about: tuple[Floats, Floats],
    chances: Floats,
    fitted: Floats | None,
    public: PublicRows,
    n_units: float,
) -> Floats:
    """Return the root of the covariance of a round's moments along a contrast of classes.

    Labels vary by their `chances` in a sample of units. Public rows stand for private rows, which matters the more the
    more `fitted` values differ from the centre in some rows and not in others. Before the first fit the error of the
    centres is unknown. `about` holds centres and weights of all public rows, and other values are of their sample.
    """
    contrasts, sample = public.n_classes - 1, public.sample
    centre, omega = (one[sample.rows] for one in about)
    labels = np.maximum(1 - (chances**2).sum(axis=1), _LEAST_VARIANCE) / contrasts
    left = omega[:, None] * ((centre if fitted is None else fitted) - centre)
    doubt = (1 / n_units + public.doubt) / contrasts
    covariance = sample.covariance(left, doubt, omega**2 * labels / n_units)
    covariance[np.diag_indices_from(covariance)] += (moments.spread / moments.scale) ** 2
    return positive_root(covariance)


def _most_likely_linear(
    information: Floats, target: Floats, blocks: NDArray[np.int64], scales: Floats
) -> tuple[Floats, Floats]:
    """Return the best coefficients under the prior, whose scales are moved to where the evidence is largest."""
    sizes, contrasts, of_constant = np.bincount(blocks), target.shape[1] - 1, scales[-1]
    for _ in range(fewer(_LINEAR_UPDATES)):
        precision = 1 / scales[blocks] ** 2
        root, variances = inverted(information + np.diag(precision))
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
    share = within_0_and_1(float(moments.values[-1, 0]) / constant + 0.5, moments.spread / constant)
    centre = _best_centre(share, _error_of_rows(public, n_units), len(moments.values) * moments.spread**2)
    values = moments.values + (0.5 - centre) * moments.mean[:, None]
    spread = math.hypot(moments.spread, (0.5 - centre) * moments.mean_spread)
    return replace(moments, values=values, spread=spread), (np.full_like(about[0], centre), about[1])


def _best_centre(share: float, of_rows: float, of_noise: float) -> float:
    """Return the centre of least error, ``of_rows (share - c)**2 + of_noise (1 + 4 (1 / 2 - c)**2)``."""
    return (of_rows * share + 2 * of_noise) / (of_rows + 4 * of_noise)


def _error_of_rows(public: PublicRows, n_units: float) -> float:
    """Return the summed variance of mean features, of a sample of units against the public rows."""
    ones: Floats = np.ones((len(public.sample.rows), 1))
    return (1 / n_units + public.doubt) * float(np.trace(public.sample.covariance(ones)))


_Singles = NDArray[np.float32]
_Floating = TypeVar("_Floating", np.float32, np.float64)

# Logits of the first coefficients, in multiples of the linear chances. The fit moves them.
_FIRST_SHARPNESS = 8.0
# Bounds of prior scales, in logits.
_SMALLEST_SCALE, _LARGEST_SCALE = 0.03, 300.0
# Fits with renewed covariances and scales, updates of scales in each, and quasi-Newton steps of each.
_TURNS, _UPDATES, _STEPS = 5, 4, 20
# Gain of a step, relative to the loss, at which steps end. The loss of a good fit is about half the number of moments.
_LEAST_GAIN = 1e-4
# Least share of a class that is assumed.
_LEAST_SHARE = 1e-6
# Factors that are compared, and standard errors by which a factor must be better than the bare shares.
_FACTORS, _CAUTION = (0.0, *np.geomspace(0.05, 5.0, 80).tolist()), 0.5
# Every factor at this stride is compared first, and then those around the best of them.
_STRIDE = 5
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
    about = centres_of_rounds(rounds, public)
    if of_two:
        pairs = [_around_share(m, one, public, n_units) for m, one in zip(rounds, about, strict=True)]
        rounds = [_of_both(m) for m, _ in pairs]
        about = [(np.hstack([1 - c, c]), omega) for _, (c, omega) in pairs]
    linear = _fit_linear(rounds, about, public, n_units=n_units)
    coefficients, scales = _FIRST_SHARPNESS * linear.coefficients, _FIRST_SHARPNESS * linear.scales
    scales[-1] = public.constant_scale
    sample, rows = public.sample, public.in_memory
    for turn in range(fewer(_TURNS, 2)):
        chances = _softmax(sample.features @ coefficients.astype(np.float32)).astype(np.float64)
        both = zip(rounds, about, strict=True)
        roots = [_root_of_errors(m, one, chances, chances, public, n_units) for m, one in both]
        information = _information(roots, [omega for _, omega in about], chances, sample)
        if turn:
            scales = _likeliest_scales(information, coefficients, public.blocks, scales)
        observed = _Observed.by(rows, rounds, about, roots)
        posterior = _Posterior.of(rows, observed, information, scales[public.blocks])
        coefficients = posterior.most_likely(coefficients)
    draws = np.random.default_rng(0)
    noise = [public.noise(draws, m.values.shape) for m in rounds]
    # For the difference of two fits the sample is enough.
    small = replace(posterior, rows=sample, observed=_Observed.by(sample, rounds, about, roots))
    fits = [coefficients, *(small.moved(noise, sign).most_likely(coefficients) for sign in (1.0, -1.0))]
    if with_linear:
        moved = ([_moved(*parts, sign) for parts in zip(rounds, roots, noise, strict=True)] for sign in (1.0, -1.0))
        others = [linear, *(_fit_linear(moments, about, public, n_units=n_units) for moments in moved)]
        fits = _blended(fits, [other.coefficients for other in others], public)
    factor, fitted = _calibrated(posterior, small, fits, noise)
    # A logit less the mean logit of C classes has (1 - 1 / C) of the variance of one column, and a difference of two
    # logits has twice that variance.
    of_column = 2.0 if of_two else 1 - 1 / public.n_classes
    each = sample.shares @ (chances * (1 - chances))
    curvatures = np.ones(1) if of_two else each * public.n_classes / each.sum()
    certain = Information(information, scales[public.blocks], curvatures, factor**2 * of_column)
    return Fit(fitted[:, 1:] - fitted[:, :1] if of_two else fitted, scales, certain)


def _of_both(moments: Moments) -> Moments:
    """Return moments of two classes with a column for each. Moments of one column have the noise of a contrast."""
    values = np.hstack([-moments.values, moments.values])
    return replace(moments, values=values, spread=moments.spread * math.sqrt(2))


def _information(roots: Sequence[Floats], weights: Sequence[Floats], chances: Floats, sample: RowsInMemory) -> Floats:
    """Return the precision of the coefficients of a class by the rounds, with the mean curvature over classes."""
    # Chances of single precision may add up to a little more than 1.
    curvature = np.maximum(1 - (chances**2).sum(axis=1), 0.0) / (chances.shape[1] - 1)
    slopes = [
        solved(root, sample.slope(omega[sample.rows] * curvature)) for root, omega in zip(roots, weights, strict=True)
    ]
    return np.asarray(sum(slope.T @ slope for slope in slopes))


def _likeliest_scales(information: Floats, coefficients: Floats, blocks: NDArray[np.int64], scales: Floats) -> Floats:
    """Return prior scales of blocks, moved to where the evidence is largest."""
    sizes, of_constant = np.bincount(blocks), scales[-1]
    squares = np.bincount(blocks, (coefficients**2).sum(axis=1)) / (coefficients.shape[1] - 1)
    for _ in range(fewer(_UPDATES)):
        _, variances = inverted(information + np.diag(1 / scales[blocks] ** 2))
        determined = np.maximum(sizes - np.bincount(blocks, variances) / scales**2, 1e-3)
        scales = np.sqrt(squares / determined).clip(_SMALLEST_SCALE, _LARGEST_SCALE)
        scales[-1] = of_constant
    return scales


@dataclass(frozen=True, eq=False)
class _Observed:
    """A round as some public rows lead to it: their weights, the moments around 0, and the root of their covariance."""

    weights: _Singles
    values: Floats
    root: Floats

    @classmethod
    def by(
        cls,
        rows: RowsInMemory,
        rounds: Sequence[Moments],
        about: Sequence[tuple[Floats, Floats]],
        roots: Sequence[Floats],
    ) -> list[_Observed]:
        """Return all rounds. `about` holds centres and weights of all public rows."""
        seen = []
        for moments, (centre, omega), root in zip(rounds, about, roots, strict=True):
            weights = (omega[rows.rows] * rows.shares).astype(np.float32)[:, None]
            of_centre = rows.released.T @ (weights * centre[rows.rows].astype(np.float32))
            seen.append(cls(weights, moments.values / moments.scale[:, None] + of_centre, root))
        return seen


@dataclass(frozen=True, eq=False)
class _Posterior:
    """Information on the coefficients, with a root in whose basis the loss has about the same curvature everywhere."""

    rows: RowsInMemory
    observed: list[_Observed]
    precisions: Floats
    root: Floats

    @classmethod
    def of(cls, rows: RowsInMemory, observed: list[_Observed], information: Floats, scales: Floats) -> _Posterior:
        """Return the posterior by some rows, under prior scales of features."""
        precisions = 1 / scales**2
        return cls(rows, observed, precisions[:, None], positive_root(information + np.diag(precisions)))

    def moved(self, noise: Sequence[_Singles], sign: float) -> _Posterior:
        """Return the same with noise on the moments, which is given in units of their error."""
        parts = zip(self.observed, noise, strict=True)
        return replace(self, observed=[replace(o, values=o.values + sign * (o.root @ e)) for o, e in parts])

    def most_likely(self, start: Floats) -> Floats:
        """Return the most likely coefficients, shape (n_features, n_classes)."""
        steps = optimize.minimize(
            lambda u: self._loss(u.reshape(start.shape)),
            (self.root.T @ start).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": fewer(_STEPS), "maxcor": 15, "ftol": _LEAST_GAIN},
        )
        return solved(self.root, steps.x.reshape(start.shape), transposed=True)

    def surprises(self, chances: _Singles) -> list[Floats]:
        """Return how far moments are from what chances lead to, in units of their error, one array a round."""
        weighted = np.hstack([one.weights * chances for one in self.observed])
        means = np.hsplit((self.rows.released.T @ weighted).astype(np.float64), len(self.observed))
        return [solved(one.root, one.values - mean) for one, mean in zip(self.observed, means, strict=True)]

    def _loss(self, place: Floats) -> tuple[float, Floats]:
        """Return minus the log posterior at a place in the basis, and the gradient."""
        coefficients = solved(self.root, place, transposed=True)
        chances = _softmax(self.rows.features @ coefficients.astype(np.float32))
        surprises = self.surprises(chances)
        loss = 0.5 * float((self.precisions * coefficients**2).sum() + sum((one**2).sum() for one in surprises))
        whitened = [solved(o.root, one, transposed=True) for o, one in zip(self.observed, surprises, strict=True)]
        pulls = np.hsplit(self.rows.released @ np.hstack(whitened).astype(np.float32), len(whitened))
        pull = -sum(one.weights * each for one, each in zip(self.observed, pulls, strict=True))
        slopes = chances * (pull - _row_sums(chances * pull))
        gradient = self.rows.features.T @ slopes + self.precisions * coefficients
        return loss, solved(self.root, gradient).ravel()


def _moved(moments: Moments, root: Floats, noise: _Singles, sign: float) -> Moments:
    """Return moments with noise on them, which is given in units of their error."""
    added = (root @ noise) * moments.scale[:, None]
    return replace(moments, values=moments.values + sign * added)


def _blended(fits: Sequence[Floats], others: Sequence[Floats], public: PublicRows) -> list[Floats]:
    """Return means of two kinds of fits. The first pair determines how other fits are multiplied to equal size."""
    sizes = [float(np.linalg.norm(np.asarray(public.features @ kind[0]).std(axis=0))) for kind in (fits, others)]
    multiple = sizes[0] / max(sizes[1], 1e-12)
    return [(fit + multiple * other) / 2 for fit, other in zip(fits, others, strict=True)]


def _calibrated(
    posterior: _Posterior, small: _Posterior, fits: Sequence[Floats], noise: Sequence[_Singles]
) -> tuple[float, Floats]:
    """Return the factor of least expected error, between the classes' shares and sharper chances, and coefficients.

    `fits` are coefficients by the moments, and by the moments with `noise` added and subtracted. The latter two are
    compared by the rows of the `small` posterior.
    """
    singles = [fit.astype(np.float32) for fit in fits]
    scores, more, less = (one.rows.features @ fit for one, fit in zip((posterior, small, small), singles, strict=True))
    logarithms = np.log(np.maximum(posterior.rows.shares @ _softmax(scores), _LEAST_SHARE)).astype(np.float32)

    def surprises(of: _Posterior, factor: float, scores: _Singles) -> list[Floats]:
        return of.surprises(_softmax(np.float32(factor) * scores + np.float32(1 - factor) * logarithms))

    by_shares = surprises(posterior, 0.0, scores)

    def error(factor: float) -> float:
        """Return the expected error of a factor, and what chance may make of how much better it is than shares."""
        here, (above, below) = (
            surprises(posterior, factor, scores),
            (surprises(small, factor, one) for one in (more, less)),
        )
        total = distance = 0.0
        for e, one, up, down, alone in zip(noise, here, above, below, by_shares, strict=True):
            total += 0.5 * float((one**2).sum() + (e * (down - up)).sum())
            distance += float(((one - alone) ** 2).sum())
        return total + _CAUTION * math.sqrt(distance)

    coarse = _FACTORS[::_STRIDE][: fewer(len(_FACTORS), 2)]
    place = _FACTORS.index(min(coarse, key=error))
    factor = min(_FACTORS[max(0, place - _STRIDE + 1) : place + fewer(_STRIDE)], key=error)
    scaled = factor * fits[0]
    # The constant is the last feature, the same in every row.
    scaled[-1] += (1 - factor) * logarithms / posterior.rows.features[0, -1]
    return factor, scaled
