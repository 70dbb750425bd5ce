"""Coefficients of several classes from noisy moments: a softmax, linear chances, and a factor of both.

**A softmax** is fitted to noisy moments of labels, with calibrated probabilities (`fit_softmax`). The likelihood of a
softmax depends on the labels only through the class sums, the means of ``phi 1{y = c}``. A round releases such moments
with noise. Each moment is a normal observation with mean ``E[omega phi (p_c - centre_c)]``, an average over public
rows, and a known covariance. Coefficients of a block of features have a normal prior. The prior scale of each block is
set by evidence, as for two classes, with the mean curvature over classes. The most likely coefficients come from a
quasi-Newton method that starts at linear chances.

Where rounds are residuals, as for images, logits are averaged with those of linear chances. The two fits err in
different ways. Linear chances were better on MNIST, whose classes can almost be separated. The mean of both keeps the
mean chances of the softmax.

A factor of all coefficients is fitted last, since shrinkage makes probabilities too cautious. The coefficients are
fitted to the same noise as the factor, so that the bare likelihood would make probabilities too sharp. The expected
excess is the covariance of noise and prediction (B. Efron, "The estimation of prediction error: covariance penalties
and cross-validation", JASA 2004). Two more fits, to moments with noise added and subtracted, estimate the covariance
(S. Ramani, T. Blu and M. Unser, "Monte-Carlo SURE", IEEE Transactions on Image Processing 2008). The least factor leads
to the shares of the classes to three digits. It is not 0, so that rows keep their order where shares are the best
probabilities.

Linear chances are fitted to all rounds together, in closed form. The chance of class ``c`` in a row is modelled as ``1
/ C + phi(x) . b_c``. Every released moment is then linear in ``b``. Its expectation is ``E[omega phi (1 / C + phi . b_c
- c)]`` over public rows. So the most likely coefficients under normal priors solve one linear system, which all classes
share. Noise and the prior scales of blocks are as for two classes. A linear chance may lie outside 0 to 1. The softmax
starts from these coefficients.

**Class sums are read around the shares of the classes.** A round of class sums releases ``S_1, ..., S_C`` with noise of
variance ``s**2`` on each entry. Public rows stand for private ones in what is expected of ``S_c - M / C``, where ``M``
is the sum of all. They do so with an error that grows with ``(p_c - 1 / C)**2``, which is large where classes are
uneven. Most of the error is that of the mean of the features, times the share of the class less ``1 / C``. ``M`` is a
second observation of that mean, with noise of variance ``C s**2`` that is independent of differences between classes.
Let ``R`` be the covariance of a mean over units less a mean over public rows. Then the mean of private features is
known as the public mean plus ``R (R + C s**2)**-1`` times its distance to ``M``, and ``C s**2 R (R + C s**2)**-1`` is
what stays unknown of it. So with the mean known, moments are around the shares ``f`` of the classes. The error of
public rows grows with ``(p_c - f_c)**2``. What is unknown of the mean adds to the covariance along ``f - 1 / C`` only,
times the square of its length. Along all other contrasts of classes the noise is as before. So moments have one
covariance along ``f - 1 / C``, and one along all other contrasts together. With much noise the mean is that of public
rows, and the model is that of even shares.

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
    fit_clear,
    fit_moments,
    inverted,
    positive_root,
    solved,
    within_0_and_1,
)
from dpensemble.moments.model import Information
from dpensemble.moments.public_rows import PublicRows, RowsInMemory

_Singles = NDArray[np.float32]
_Floating = TypeVar("_Floating", np.float32, np.float64)


def fit_rounds(
    start: Fit,
    rounds: Sequence[Moments],
    public: PublicRows,
    *,
    n_units: float,
    class_sums: bool,
    screened: bool = False,
) -> Fit:
    """Return the fit to all rounds together. `class_sums` states whether no round can be of residuals.

    If `screened`, a fit of two classes leaves out most of very many features.
    """
    some = public.seen_of_many()
    if some is not None:
        seen = replace(start, coefficients=start.coefficients[some])
        others = [one.among(some) for one in rounds]
        settings: dict[str, bool] = {"class_sums": class_sums, "screened": screened}
        found = fit_rounds(seen, others, public.among(some), n_units=n_units, **settings)
        coefficients = np.zeros((len(public.blocks), found.coefficients.shape[1]))
        coefficients[some] = found.coefficients
        # A model from which `seen_of_many` took features holds no information.
        return Fit(coefficients, found.scales)
    if public.n_classes == 2 and not class_sums:
        return (fit_clear if screened else fit_moments)(rounds, public, start, n_units=n_units)
    return fit_softmax(rounds, public, n_units=n_units, with_linear=not class_sums)


# Standard deviation of the constant's part of a chance, and bounds of all other prior scales, of linear chances.
_CONSTANT_CHANCE, _LINEAR_SMALLEST_SCALE, _LINEAR_LARGEST_SCALE = 1.0, 1e-3, 100.0
# Times the covariance of the moments is renewed at the present fit, and updates of the scales each time.
_LINEAR_TURNS, _LINEAR_UPDATES = 3, 12
# Least variance of a label that is assumed anywhere.
_LEAST_VARIANCE = 0.02


@dataclass(frozen=True, eq=False)
class _Seen:
    """A round as its fit reads it: moments of features without public weights, shape (n_features, n_classes).

    `spreads` are the noise of each feature along any contrast of classes. `centres`, shape (n_rows, n_classes), and
    `weights` are of all public rows. `added` is a further covariance along the first of the fit's contrasts.
    """

    values: Floats
    spreads: Floats
    centres: Floats
    weights: Floats
    added: Floats | None = None

    @classmethod
    def of(cls, moments: Moments, about: tuple[Floats, Floats]) -> _Seen:
        """Return a round around the centres that it was released with. Two classes get a column for each."""
        centres, weights = about
        values, spread = moments.values, moments.spread
        if values.shape[1] == 1:
            values, centres = np.hstack([-values, values]), np.hstack([1 - centres, centres])
            # Moments of one column have the noise of half a difference.
            spread *= math.sqrt(2)
        return cls(values / moments.scale[:, None], spread / moments.scale, centres, weights)

    def around_shares(self, moments: Moments, shares: Floats, public: PublicRows, n_units: float) -> _Seen:
        """Return the round around shares of the classes, if it released class sums."""
        if moments.mean is None:
            return self
        known, unknown = _private_mean(moments.mean, moments.mean_spread, public, n_units)
        uneven = shares - 1 / public.n_classes
        centres = np.tile(shares, (len(self.centres), 1))
        values = self.values - np.outer(known, uneven)
        return replace(self, values=values, centres=centres, added=float(uneven @ uneven) * unknown)


def _private_mean(released: Floats, spread: float, public: PublicRows, n_units: float) -> tuple[Floats, Floats]:
    """Return the expected mean of private features, by public rows and a noisy mean, and what is unknown of it."""
    ones: Floats = np.ones((public.features.shape[0], 1))
    mean = public.average(ones)[:, 0]
    of_rows = public.sample.covariance(ones[public.sample.rows], 1 / n_units + public.doubt, ridge=public.ridge)
    both = of_rows.copy()
    both[np.diag_indices_from(both)] += spread**2
    weight = linalg.cho_solve((positive_root(both), True), of_rows)
    weight = (weight + weight.T) / 2
    return mean + weight @ (released - mean), spread**2 * weight


def _shares_of(rounds: Sequence[Moments], public: PublicRows) -> Floats:
    """Return the share of each class, above 0, by the constants of rounds of class sums. Even shares without any."""
    even, constant = np.full(public.n_classes, 1 / public.n_classes), public.constant
    sums = [m for m in rounds if m.mean is not None]
    if not sums:
        return even
    estimates = even + np.mean([_Seen.of(m, (even[None, 1:], even[:1])).values[-1] for m in sums], axis=0) / constant
    # The sum of all classes has their number times the variance of one.
    error = math.hypot(*(m.mean_spread for m in sums)) / len(sums) / constant * math.sqrt(even[0] * (1 - even[0]))
    shares = np.array([within_0_and_1(float(one), error) for one in estimates])
    return shares / shares.sum()


def _contrasts(shares: Floats) -> list[Floats]:
    """Return orthonormal contrasts of classes in groups: along the difference to even shares, and all others."""
    along = shares - 1 / len(shares)
    size = float(np.linalg.norm(along))
    if size < 1e-6:
        return [np.eye(len(shares))]
    frame, _ = np.linalg.qr(np.column_stack([np.ones(len(shares)), along, np.eye(len(shares))]))
    first = along[:, None] / size
    return [first, frame[:, 2:]] if len(shares) > 2 else [first]


@dataclass(frozen=True, eq=False)
class _Errors:
    """Roots of the covariances of a round's moments, one for each group of contrasts."""

    bases: list[Floats]
    roots: list[Floats]

    @classmethod
    def of(
        cls,
        seen: _Seen,
        bases: list[Floats],
        chances: Floats,
        fitted: Floats | None,
        public: PublicRows,
        n_units: float,
    ) -> _Errors:
        """Return the errors of a round.

        Labels vary by their `chances` in a sample of units. Public rows stand for private rows, which matters the more
        the more `fitted` values differ from the centre in some rows and not in others. Before the first fit the error
        of the centres is unknown. Chances and values are those of the sample of public rows.
        """
        sample, roots = public.sample, []
        centre, omega = seen.centres[sample.rows], seen.weights[sample.rows]
        left = omega[:, None] * ((centre if fitted is None else fitted) - centre)
        for number, basis in enumerate(bases):
            width = _width(basis)
            labels = np.maximum(_curvature(chances, basis), _LEAST_VARIANCE / (len(basis) - 1))
            doubt = (1 / n_units + public.doubt) / width
            covariance = sample.covariance(left @ basis, doubt, omega**2 * labels / n_units, public.ridge)
            covariance[np.diag_indices_from(covariance)] += seen.spreads**2
            if seen.added is not None and not number:
                covariance += seen.added
            roots.append(positive_root(covariance))
        return cls(bases, roots)

    def solved(self, values: Floats) -> Floats:
        """Return values in units of their error."""
        parts = [solved(root, values @ basis) for basis, root in zip(self.bases, self.roots, strict=True)]
        return np.hstack(parts)

    def pulled(self, surprises: Floats) -> Floats:
        """Return the product of the transposed of `solved` with values in units of their error."""
        parts = zip(self.roots, self.bases, self._apart(surprises), strict=True)
        return np.asarray(sum(solved(root, part, transposed=True) @ basis.T for root, basis, part in parts))

    def noise(self, units: _Singles) -> Floats:
        """Return noise that is given in units of its error."""
        parts = zip(self.roots, self.bases, self._apart(units), strict=True)
        return np.asarray(sum(root @ part @ basis.T for root, basis, part in parts))

    def _apart(self, columns: NDArray[_Floating]) -> list[NDArray[_Floating]]:
        return np.split(columns, np.cumsum([basis.shape[1] for basis in self.bases])[:-1], axis=1)


def _width(basis: Floats) -> int:
    """Return the number of contrasts in a basis, which may be of all classes."""
    return basis.shape[1] - (basis.shape[1] == len(basis))


def _curvature(chances: Floats, basis: Floats) -> Floats:
    """Return the mean variance of labels along the contrasts of a basis in each row."""
    if basis.shape[1] == len(basis):
        # Chances of single precision may add up to a little more than 1.
        return np.maximum(1 - (chances**2).sum(axis=1), 0.0) / (len(basis) - 1)
    along = chances @ basis**2 - (chances @ basis) ** 2
    return np.asarray(np.maximum(along, 0.0).mean(axis=1))


def _fit_linear(
    rounds: Sequence[_Seen], bases: list[Floats], shares: Floats, public: PublicRows, *, n_units: float
) -> Fit:
    """Fit linear chances of all classes to all rounds."""
    n_classes, sample = public.n_classes, public.sample
    slopes = [sample.slope(seen.weights[sample.rows]) for seen in rounds]
    # What is left of the moments without any coefficients.
    rests = [m.values - public.average(m.weights[:, None] * (1 / n_classes - m.centres)) for m in rounds]
    rests = [rest - rest.mean(axis=1, keepdims=True) for rest in rests]
    scales = np.ones(int(public.blocks.max()) + 1)
    scales[-1] = _CONSTANT_CHANCE / public.constant
    fitted, chances = None, np.tile(shares, (len(sample.rows), 1))
    for _ in range(fewer(_LINEAR_TURNS, 2)):
        size = public.features.shape[1]
        systems = [_System(np.zeros((size, size)), np.zeros((size, basis.shape[1])), basis) for basis in bases]
        for seen, slope, rest in zip(rounds, slopes, rests, strict=True):
            errors = _Errors.of(seen, bases, chances, fitted, public, n_units)
            systems = [one.with_round(root, slope, rest) for one, root in zip(systems, errors.roots, strict=True)]
        coefficients, scales = _most_likely_linear(systems, public.blocks, scales)
        fitted = 1 / n_classes + sample.features @ coefficients
        chances = fitted.clip(0.0, 1.0)
        chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1e-6)
    return Fit(coefficients, scales)


@dataclass(frozen=True, eq=False)
class _System:
    """Precision and evidence of the coefficients along a group of contrasts."""

    information: Floats
    target: Floats
    basis: Floats

    def with_round(self, root: Floats, slope: Floats, rest: Floats) -> _System:
        """Return the system with the moments of one more round."""
        whitened = solved(root, slope)
        target = self.target + whitened.T @ solved(root, rest @ self.basis)
        return replace(self, information=self.information + whitened.T @ whitened, target=target)


def _most_likely_linear(systems: Sequence[_System], blocks: NDArray[np.int64], scales: Floats) -> tuple[Floats, Floats]:
    """Return the best coefficients under the prior, whose scales are moved to where the evidence is largest."""
    sizes, of_constant = np.bincount(blocks), scales[-1]
    contrasts = sum(_width(one.basis) for one in systems)
    for _ in range(fewer(_LINEAR_UPDATES)):
        precision = 1 / scales[blocks] ** 2
        determined: Floats = np.zeros(len(sizes))
        coefficients: Floats = np.zeros((len(blocks), len(systems[0].basis)))
        for one in systems:
            root, variances = inverted(one.information + np.diag(precision))
            coefficients = coefficients + linalg.cho_solve((root, True), one.target) @ one.basis.T
            determined += _width(one.basis) / contrasts * (sizes - np.bincount(blocks, variances * precision))
        squares = np.bincount(blocks, (coefficients**2).sum(axis=1)) / contrasts
        scales = np.sqrt(squares / np.maximum(determined, 1e-3)).clip(_LINEAR_SMALLEST_SCALE, _LINEAR_LARGEST_SCALE)
        scales[-1] = of_constant
    return coefficients, scales


# Logits of the first coefficients, in multiples of the linear chances. The fit moves them.
_FIRST_SHARPNESS = 8.0
# Bounds of prior scales, in logits.
_SMALLEST_SCALE, _LARGEST_SCALE = 0.03, 300.0
# Fits with renewed covariances and scales, updates of scales in each, and quasi-Newton steps of each.
_TURNS, _UPDATES, _STEPS = 5, 4, 20
# Gain of a step, relative to the loss, at which steps end. The loss of a good fit is about half the number of moments.
_LEAST_GAIN = 1e-4
# Steps that match the mean chances of two fits.
_MATCHED = 10
# Least share of a class that is assumed.
_LEAST_SHARE = 1e-6
# Factors that are compared, and standard errors by which a factor must be better than the bare shares.
_FACTORS, _CAUTION = (1e-3, *np.geomspace(0.05, 5.0, 80).tolist()), 0.5
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
    shares = _shares_of(rounds, public)
    bases = _contrasts(shares)
    about = zip(rounds, centres_of_rounds(rounds, public), strict=True)
    seen = [_Seen.of(m, one).around_shares(m, shares, public, n_units) for m, one in about]
    linear = _fit_linear(seen, bases, shares, public, n_units=n_units)
    coefficients, scales = _FIRST_SHARPNESS * linear.coefficients, _FIRST_SHARPNESS * linear.scales
    scales[-1] = public.constant_scale
    sample, rows = public.sample, public.in_memory
    for turn in range(fewer(_TURNS, 2)):
        chances = _softmax(sample.features @ coefficients.astype(np.float32)).astype(np.float64)
        errors = [_Errors.of(one, bases, chances, chances, public, n_units) for one in seen]
        information = _information(errors, seen, chances, sample)
        if turn:
            scales = _likeliest_scales(information, coefficients, public.blocks, scales)
        observed = _Observed.by(rows, seen, errors)
        posterior = _Posterior.of(rows, observed, information, scales[public.blocks])
        coefficients = posterior.most_likely(coefficients)
    draws = np.random.default_rng(0)
    noise = [public.noise(draws, one.values.shape) @ np.hstack(bases).astype(np.float32) for one in seen]
    # For the difference of two fits the sample is enough.
    small = replace(posterior, rows=sample, observed=_Observed.by(sample, seen, errors))
    fits = [coefficients, *(small.moved(noise, sign).most_likely(coefficients) for sign in (1.0, -1.0))]
    if with_linear:
        moved = ([_moved(*parts, sign) for parts in zip(seen, errors, noise, strict=True)] for sign in (1.0, -1.0))
        others = [linear, *(_fit_linear(one, bases, shares, public, n_units=n_units) for one in moved)]
        fits = _blended(fits, [other.coefficients for other in others], public)
    factor, fitted = _calibrated(posterior, small, fits, noise)
    # A logit less the mean logit of C classes has (1 - 1 / C) of the variance of one column, and a difference of two
    # logits has twice that variance.
    of_column = 2.0 if of_two else 1 - 1 / public.n_classes
    each = sample.shares @ (chances * (1 - chances))
    curvatures = np.ones(1) if of_two else each * public.n_classes / each.sum()
    certain = Information(information, scales[public.blocks], curvatures, factor**2 * of_column)
    return Fit(fitted[:, 1:] - fitted[:, :1] if of_two else fitted, scales, certain)


def _information(errors: Sequence[_Errors], rounds: Sequence[_Seen], chances: Floats, sample: RowsInMemory) -> Floats:
    """Return the precision of the coefficients of a class by the rounds: the mean over contrasts."""
    total: Floats = np.zeros((sample.features.shape[1],) * 2)
    for one, seen in zip(errors, rounds, strict=True):
        contrasts = sum(map(_width, one.bases))
        for basis, root in zip(one.bases, one.roots, strict=True):
            slope = solved(root, sample.slope(seen.weights[sample.rows] * _curvature(chances, basis)))
            total += _width(basis) / contrasts * (slope.T @ slope)
    return total


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
    errors: _Errors

    @classmethod
    def by(cls, rows: RowsInMemory, rounds: Sequence[_Seen], errors: Sequence[_Errors]) -> list[_Observed]:
        """Return all rounds."""
        observed = []
        for seen, one in zip(rounds, errors, strict=True):
            weights = (seen.weights[rows.rows] * rows.shares).astype(np.float32)[:, None]
            of_centre = rows.released.T @ (weights * seen.centres[rows.rows].astype(np.float32))
            observed.append(cls(weights, seen.values + of_centre, one))
        return observed


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
        return replace(self, observed=[replace(o, values=o.values + sign * o.errors.noise(e)) for o, e in parts])

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
        return [one.errors.solved(one.values - mean) for one, mean in zip(self.observed, means, strict=True)]

    def _loss(self, place: Floats) -> tuple[float, Floats]:
        """Return minus the log posterior at a place in the basis, and the gradient."""
        coefficients = solved(self.root, place, transposed=True)
        chances = _softmax(self.rows.features @ coefficients.astype(np.float32))
        surprises = self.surprises(chances)
        loss = 0.5 * float((self.precisions * coefficients**2).sum() + sum((one**2).sum() for one in surprises))
        whitened = [o.errors.pulled(one) for o, one in zip(self.observed, surprises, strict=True)]
        pulls = np.hsplit(self.rows.released @ np.hstack(whitened).astype(np.float32), len(whitened))
        pull = -sum(one.weights * each for one, each in zip(self.observed, pulls, strict=True))
        slopes = chances * (pull - _row_sums(chances * pull))
        gradient = self.rows.features.T @ slopes + self.precisions * coefficients
        return loss, solved(self.root, gradient).ravel()


def _moved(seen: _Seen, errors: _Errors, noise: _Singles, sign: float) -> _Seen:
    """Return a round with noise on its moments, which is given in units of their error."""
    return replace(seen, values=seen.values + sign * errors.noise(noise))


def _blended(fits: Sequence[Floats], others: Sequence[Floats], public: PublicRows) -> list[Floats]:
    """Return means of two kinds of fits. The first pair determines how other fits are multiplied to equal size.

    Chances differ from logits, so that the constant of linear chances does not lead to the shares of the classes. Mean
    chances of fits of the first kind are kept.
    """
    sizes = [float(np.linalg.norm(np.asarray(public.features @ kind[0]).std(axis=0))) for kind in (fits, others)]
    multiple = sizes[0] / max(sizes[1], 1e-12)
    sample, means = public.sample, []
    for fit, other in zip(fits, others, strict=True):
        mean = (fit + multiple * other) / 2
        aim = sample.shares @ _softmax(sample.features @ fit)
        for _ in range(_MATCHED):
            # The steps of iterative proportional fitting.
            chances = sample.shares @ _softmax(sample.features @ mean)
            mean[-1] += np.log(np.maximum(aim, _LEAST_SHARE) / np.maximum(chances, _LEAST_SHARE)) / public.constant
        means.append(mean)
    return means


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
