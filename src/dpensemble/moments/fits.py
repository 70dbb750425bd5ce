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

Features of very many columns are first fitted one by one (`_fit_clear`), and most of them are left out of the joint
fit. Prior scales then follow from a mixture that all features share.

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
from scipy import linalg, optimize, special, stats

from dpensemble._entries import Floats
from dpensemble._work import fewer
from dpensemble.moments.model import Information
from dpensemble.moments.public_rows import PublicRows, RowsInMemory
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

    def among(self, some: NDArray[np.int64]) -> Moments:
        """Return the moments of some features, if the centre reads no others of any public row."""
        centre, mean = (None if one is None else one[some] for one in (self.centre, self.mean))
        return replace(self, values=self.values[some], scale=self.scale[some], centre=centre, mean=mean)


def _about(rounds: Sequence[Moments], public: PublicRows) -> list[tuple[Floats, Floats]]:
    """Return centres and weights of public rows in each round."""
    features, n_classes = public.features, public.n_classes
    return [centres_and_weights(m.centre, features, n_classes, m.even_weight, rounded=True) for m in rounds]


# Weight of the estimate if a class has no members, in multiples of its precision. Chosen on generated tables.
_WEIGHT = 12.0


@dataclass(frozen=True, eq=False)
class _BaseRate:
    """The estimated mean probability of public rows, as one more observation in units of its error."""

    share: float
    root: float
    slope: Floats

    @classmethod
    def of(cls, seen: _RoundsOfTwo, place: _Place) -> _BaseRate:
        """Return the share of the second class by the constants of all rounds, as seen from a place."""
        public = seen.public
        sampling = public.mean(place.p * (1 - place.p)) / seen.n_units
        # A constant's moment is the mean of omega (p - centre). It grows with p by the mean weight.
        usual = public.constant * (public.share_of_rows @ seen.weights)
        precisions = 1 / ((seen.spreads[-1] / usual) ** 2 + sampling)
        total = float(precisions.sum())
        weighted = float(precisions @ (place.surprises[-1] / usual))
        share = _within(public.mean(place.p) + weighted / total, total**-0.5)
        root = abs(1 - 2 * share) * math.sqrt(_WEIGHT * total)
        return cls(share, root, root * place.growth.T)

    def surprise(self, place: _Place) -> Floats:
        """Return how far the mean of probabilities is from the estimate, shape (1, 1)."""
        return np.array([[self.root * (self.share - place.mean)]])


def _within(estimate: float, error: float) -> float:
    """Return the mean of a normal distribution that is cut off at 0 and at 1: a share without a share below 0."""
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

    def to_rounds(
        self,
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
            seen = replace(self, coefficients=self.coefficients[some])
            others = [one.among(some) for one in rounds]
            settings: dict[str, bool] = {"class_sums": class_sums, "screened": screened}
            found = seen.to_rounds(others, public.among(some), n_units=n_units, **settings)
            coefficients = np.zeros((len(public.blocks), found.coefficients.shape[1]))
            coefficients[some] = found.coefficients
            # A model from which `seen_of_many` took features holds no information.
            return Fit(coefficients, found.scales)
        if public.n_classes == 2 and not class_sums:
            if screened:
                return _fit_clear(rounds, public, self, n_units=n_units)
            return fit_moments(rounds, public, self, n_units=n_units)
        return fit_softmax(rounds, public, n_units=n_units, with_linear=not class_sums)


def fit_moments(rounds: Sequence[Moments], public: PublicRows, start: Fit, *, n_units: float, updates: int = 3) -> Fit:
    """Fit coefficients to all rounds together, with some updates of the prior scales in every step."""
    coefficients, scales, typical = start.coefficients, start.scales, public.typical_scales()
    seen = _RoundsOfTwo.of(rounds, public, n_units)
    place = seen.at(np.asarray(public.features @ coefficients))
    for _ in range(fewer(_MOST_STEPS)):
        some = public.sample_by((place.p * (1 - place.p))[:, 0])
        by_round = [_ObservedOfTwo.of(seen, some, number, place) for number in range(len(rounds))]
        information = np.sum([one.slope.T @ one.slope for one in by_round], axis=0)
        rate = _BaseRate.of(seen, place)
        observed: list[_ObservedOfTwo | _BaseRate] = [*by_round, rate]
        precision = information + rate.slope.T @ rate.slope
        pulls = [one.slope.T @ one.surprise(place) for one in observed]
        evidence = precision @ coefficients + np.sum(pulls, axis=0)
        best, scales = _most_likely_of_two(precision, evidence, public.blocks, scales, typical, updates)
        along = np.asarray(public.features @ (change := best - coefficients))
        part, place = _step(coefficients, change, along, observed, seen, place, scales[public.blocks])
        coefficients = coefficients + part * change
        if part * np.sqrt(np.mean(along**2)) < _SHORT_STEP:
            break
    return Fit(coefficients, scales, Information(information, scales[public.blocks], np.ones(1), 1.0))


@dataclass(frozen=True, eq=False)
class _Place:
    """Logits of public rows, their probabilities, and what follows for means.

    `growth`, shape (n_features, 1), is how the mean probability grows with the coefficients. `surprises`, shape
    (n_features, n_rounds), are how far the moments are from what the probabilities lead to.
    """

    scores: Floats
    p: Floats
    mean: float
    growth: Floats
    surprises: Floats


@dataclass(frozen=True, eq=False)
class _RoundsOfTwo:
    """All rounds of two classes, one a column: centres and weights of public rows, moments and their spreads."""

    public: PublicRows
    n_units: float
    centres: Floats
    weights: Floats
    values: Floats
    spreads: Floats

    @classmethod
    def of(cls, rounds: Sequence[Moments], public: PublicRows, n_units: float) -> _RoundsOfTwo:
        """Return released moments of two classes."""
        about = _about(rounds, public)
        centres, weights = np.hstack([c for c, _ in about]), np.stack([omega for _, omega in about], axis=1)
        values = np.hstack([m.values / m.scale[:, None] for m in rounds])
        spreads = np.stack([m.spread / m.scale for m in rounds], axis=1)
        return cls(public, n_units, centres, weights, values, spreads)

    def at(self, scores: Floats) -> _Place:
        """Return what logits of public rows lead to. Features are read once for all of it."""
        p = special.expit(scores)
        means = self.public.average(np.hstack([p * (1 - p), self.weights * (p - self.centres)]))
        return _Place(scores, p, self.public.mean(p), means[:, :1], self.values - means[:, 1:])


@dataclass(frozen=True, eq=False)
class _ObservedOfTwo:
    """A round in units of its error near a place: how it grows with the coefficients, and how far it is off."""

    number: int
    root: Floats
    slope: Floats

    @classmethod
    def of(cls, seen: _RoundsOfTwo, sample: RowsInMemory, number: int, place: _Place) -> _ObservedOfTwo:
        """Return the round with a number as seen from a place, with curvatures by a sample of public rows."""
        p, omega, centre = (one[sample.rows] for one in (place.p, seen.weights[:, number], seen.centres[:, [number]]))
        q = (p * (1 - p))[:, 0]
        doubt = 1 / seen.n_units + seen.public.doubt
        variance = sample.covariance(omega[:, None] * (p - centre), doubt, omega**2 * q / seen.n_units)
        variance[np.diag_indices_from(variance)] += seen.spreads[:, number] ** 2
        root = _positive_root(variance)
        return cls(number, root, _solved(root, sample.slope(omega * q)))

    def surprise(self, place: _Place) -> Floats:
        """Return how far the released moments are from what probabilities of public rows lead to."""
        return _solved(self.root, place.surprises[:, [self.number]])


def _step(
    coefficients: Floats,
    change: Floats,
    along: Floats,
    observed: Sequence[_ObservedOfTwo | _BaseRate],
    seen: _RoundsOfTwo,
    place: _Place,
    scales: Floats,
) -> tuple[float, _Place]:
    """Return the part of a Gauss-Newton step that makes coefficients more likely, since whole steps may overshoot.

    Also return the place behind the step. `along` is the change of the logits of public rows by a whole step.
    """

    def misfit(at: _Place, part: float) -> float:
        """Return minus twice the log posterior density, up to a constant."""
        misfits = [(coefficients + part * change) / scales[:, None], *(one.surprise(at) for one in observed)]
        return float(sum(np.sum(one**2) for one in misfits))

    now, part = misfit(place, 0.0), min(1.0, _LONGEST_STEP / max(float(np.abs(along).max(initial=0.0)), 1e-300))
    for _ in range(_MOST_HALVES):
        at = seen.at(place.scores + part * along)
        if misfit(at, part) < now:
            return part, at
        part /= 2
    return part, seen.at(place.scores + part * along)


def _most_likely_of_two(
    precision: Floats,
    evidence: Floats,
    blocks: NDArray[np.int64],
    scales: Floats,
    typical: Floats,
    updates: int,
) -> tuple[Floats, Floats]:
    """Return the best coefficients under the prior, whose scales are moved to where the evidence is largest.

    A block of few coefficients, most of them hidden by noise, determines its scale badly. So each scale is an average
    of the block's own and of one that all blocks share, by pseudo-coefficients: an inverse gamma prior.
    """
    sizes = np.bincount(blocks)
    if not updates:
        root = _positive_root(precision + np.diag(1 / scales[blocks] ** 2))
        return linalg.cho_solve((root, True), evidence, check_finite=False), scales
    for _ in range(fewer(updates)):
        root, variances = _inverted(precision + np.diag(1 / scales[blocks] ** 2))
        best = linalg.cho_solve((root, True), evidence, check_finite=False)
        determined = np.maximum(sizes - np.bincount(blocks, variances) / scales**2, 1e-9)
        squares = np.bincount(blocks, best[:, 0] ** 2)
        in_all = float((squares / typical**2)[:-1].sum() + _PULL_OF_ALL) / (determined[:-1].sum() + _PULL_OF_ALL)
        pulled = (squares + _PULL * in_all * typical**2) / (determined + _PULL)
        scales = np.sqrt(pulled).clip(_SMALLEST_SCALE_OF_TWO, _LARGEST_SCALE_OF_TWO)
        scales[-1] = typical[-1]
    return best, scales


#: Features that a fit takes together if most of very many are left out.
MOST_TOGETHER = 250
# Prior scales of single coefficients, in multiples of the typical one, and steps towards the likeliest shares of them.
_SCALES_OF_ONE, _STEPS_OF_SHARES = (0.0, *np.geomspace(0.25, 32.0, 15).tolist()), 200
# Features without effect that are added to those of a table, so that few large moments do not make all features large.
_WITHOUT_EFFECT = 10.0


def _fit_clear(rounds: Sequence[Moments], public: PublicRows, start: Fit, *, n_units: float) -> Fit:
    """Fit the features whose moments stand out from noise. Coefficients of the others are 0.

    A fit of each feature and the constant comes first. How large all of these coefficients are, also those that are
    left out, shows how much of a large one is chance.
    """
    coefficients, typical = start.coefficients, public.typical_scales()
    seen = _RoundsOfTwo.of(rounds, public, n_units)
    place = seen.at(np.asarray(public.features @ coefficients))
    if not coefficients.any():
        share = _BaseRate.of(seen, place).share
        place = seen.at(np.full_like(place.scores, special.logit(share)))
    precision, evidence = _one_by_one(seen, place, coefficients)
    scales = _scales_by_mixture(precision[:-1], evidence[:-1], typical[public.blocks[:-1]])
    scales = np.append(scales, typical[-1])
    # Features that a round has for its centre stay, and so does the constant.
    stays = np.append((coefficients[:-1] != 0).any(axis=1), True)
    order = np.argsort(np.where(stays, -np.inf, -np.abs(evidence) / np.sqrt(precision)), kind="stable")
    some = np.sort(order[: max(MOST_TOGETHER, np.count_nonzero(stays))])
    each, n_all = np.arange(len(some)), len(public.blocks)
    rows = replace(public, features=public.features[:, some], blocks=each, kept=None, sizes=None)
    begin = Fit(coefficients[some], scales[some])
    found = fit_moments([one.among(some) for one in rounds], rows, begin, n_units=n_units, updates=0)
    coefficients = np.zeros_like(coefficients)
    coefficients[some] = found.coefficients
    information = found.information and replace(found.information, places=some, n_all=n_all)
    return Fit(coefficients, start.scales, information)


def _one_by_one(seen: _RoundsOfTwo, place: _Place, coefficients: Floats) -> tuple[Floats, Floats]:
    """Return the precision of each coefficient in a fit of it and the constant, and precision times value."""
    some = seen.public.sample
    features = some.features.astype(np.float64)
    squared = features**2
    p, doubt = place.p[some.rows], 1 / seen.n_units + seen.public.doubt
    precision, evidence = np.zeros((2, len(coefficients)))

    def means(weights: Floats, of: Floats) -> Floats:
        return np.asarray((weights * some.shares) @ of)

    for number in range(seen.values.shape[1]):
        omega, left = seen.weights[some.rows, number], (p - seen.centres[some.rows, [number]][:, None])[:, 0]
        left, q = left * omega, (p * (1 - p))[:, 0]
        grown = means(omega * q, features)
        slope = means(omega * q, squared) - grown**2 / max(float(omega * q @ some.shares), 1e-12)
        variance = means(omega**2 * q / seen.n_units + doubt * left**2, squared) + seen.spreads[:, number] ** 2
        variance -= doubt * means(left, features) ** 2
        surprise = place.surprises[:, number] + slope * coefficients[:, 0]
        precision += slope**2 / variance
        evidence += slope * surprise / variance
    return np.maximum(precision, 1e-12), evidence


def _scales_by_mixture(precision: Floats, evidence: Floats, typical: Floats) -> Floats:
    """Return the prior scale of each coefficient that leads to its mean under a prior which all coefficients share.

    The prior is a mixture of normal distributions of several scales. Their shares are the likeliest ones (M. Stephens,
    "False discovery rates: a new deal", Biostatistics 2017). So it is sparse if few coefficients are large.
    """
    variances = 1 / precision[:, None] + (np.array(_SCALES_OF_ONE) * typical[:, None]) ** 2
    values = evidence / precision
    logs = -0.5 * (np.log(variances) + values[:, None] ** 2 / variances)
    likelihoods = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares = np.full(len(_SCALES_OF_ONE), 1 / len(_SCALES_OF_ONE))
    for _ in range(fewer(_STEPS_OF_SHARES)):
        counts = (likelihoods / (likelihoods @ shares)[:, None]).sum(axis=0) * shares
        counts[0] += _WITHOUT_EFFECT
        shares = counts / counts.sum()
    chances = likelihoods * shares
    chances /= chances.sum(axis=1, keepdims=True)
    # What each normal distribution leaves of the value, which is the posterior mean over the value.
    left = (chances * (1 - 1 / (precision[:, None] * variances))).sum(axis=1).clip(1e-6, 1 - 1e-6)
    return np.asarray(np.sqrt(left / ((1 - left) * precision)))


def _positive_root(matrix: Floats) -> Floats:
    """Return the Cholesky root of a covariance, with as much added to its diagonal as rounding makes necessary."""
    size, extra = np.diag_indices_from(matrix), _JITTER * float(matrix.diagonal().max())
    while True:
        matrix[size] += extra
        try:
            return linalg.cholesky(matrix, lower=True, check_finite=False)
        except linalg.LinAlgError:
            extra *= 10


def _solved(root: Floats, values: Floats, *, transposed: bool = False) -> Floats:
    """Return the inverse of a root, or of the transposed root, times values."""
    return np.asarray(linalg.solve_triangular(root, values, trans=int(transposed), lower=True, check_finite=False))


def _inverted(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the Cholesky root of a matrix, and the diagonal of its inverse."""
    root = _positive_root(matrix)
    inverse_root, _ = linalg.lapack.dtrtri(root, lower=1)
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
            whitened = _solved(root, slope)
            information += whitened.T @ whitened
            target += whitened.T @ _solved(root, rest - rest.mean(axis=1, keepdims=True))
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
    return _positive_root(covariance)


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
    about = _about(rounds, public)
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
        _solved(root, sample.slope(omega[sample.rows] * curvature)) for root, omega in zip(roots, weights, strict=True)
    ]
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
        return cls(rows, observed, precisions[:, None], _positive_root(information + np.diag(precisions)))

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
        return _solved(self.root, steps.x.reshape(start.shape), transposed=True)

    def surprises(self, chances: _Singles) -> list[Floats]:
        """Return how far moments are from what chances lead to, in units of their error, one array a round."""
        weighted = np.hstack([one.weights * chances for one in self.observed])
        means = np.hsplit((self.rows.released.T @ weighted).astype(np.float64), len(self.observed))
        return [_solved(one.root, one.values - mean) for one, mean in zip(self.observed, means, strict=True)]

    def _loss(self, place: Floats) -> tuple[float, Floats]:
        """Return minus the log posterior at a place in the basis, and the gradient."""
        coefficients = _solved(self.root, place, transposed=True)
        chances = _softmax(self.rows.features @ coefficients.astype(np.float32))
        surprises = self.surprises(chances)
        loss = 0.5 * float((self.precisions * coefficients**2).sum() + sum((one**2).sum() for one in surprises))
        whitened = [_solved(o.root, one, transposed=True) for o, one in zip(self.observed, surprises, strict=True)]
        pulls = np.hsplit(self.rows.released @ np.hstack(whitened).astype(np.float32), len(whitened))
        pull = -sum(one.weights * each for one, each in zip(self.observed, pulls, strict=True))
        slopes = chances * (pull - _row_sums(chances * pull))
        gradient = self.rows.features.T @ slopes + self.precisions * coefficients
        return loss, _solved(self.root, gradient).ravel()


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
