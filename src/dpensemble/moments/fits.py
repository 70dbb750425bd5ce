"""What a round released, and a logistic fit of two classes to all rounds.

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

Features of very many columns are first fitted one by one (`fit_clear`), and most of them are left out of the joint
fit. Prior scales then follow from a mixture that all features share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special, stats

from dpensemble._entries import Floats
from dpensemble._work import fewer
from dpensemble.moments.model import Information
from dpensemble.moments.public_rows import PublicRows, RowsInMemory
from dpensemble.moments.whole import centres_and_weights


class Link(NamedTuple):
    """What a record is expected to add to a released mean of ``phi r``, given its score ``phi w``. Public.

    `mean`, `slope` (by the score) and `variance` of ``r`` have one entry for each public row, at the present
    coefficients. Two classes, clipped residuals and hazards differ in their links only.
    """

    mean: Floats
    slope: Floats
    variance: Floats

    def seen(
        self, sample: RowsInMemory, public: PublicRows, spread: Floats | float, *, n_units: float
    ) -> tuple[Floats, Floats]:
        """Return the Cholesky root of a released mean's covariance, and how the mean grows with the coefficients.

        The growth is in units of the error. `sample` are the public rows that curvatures are computed by, and `spread`
        is the standard deviation of the noise.
        """
        mean, slope, variance = (part[sample.rows] for part in self)
        doubt = 1 / n_units + public.doubt
        covariance = sample.covariance(mean[:, None], doubt, variance / n_units, public.ridge)
        covariance[np.diag_indices_from(covariance)] += spread**2
        root = positive_root(covariance)
        return root, solved(root, sample.slope(slope))


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


def centres_of_rounds(rounds: Sequence[Moments], public: PublicRows) -> list[tuple[Floats, Floats]]:
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
        share = within_0_and_1(public.mean(place.p) + weighted / total, total**-0.5)
        root = abs(1 - 2 * share) * math.sqrt(_WEIGHT * total)
        return cls(share, root, root * place.growth.T)

    def surprise(self, place: _Place) -> Floats:
        """Return how far the mean of probabilities is from the estimate, shape (1, 1)."""
        return np.array([[self.root * (self.share - place.mean)]])


def within_0_and_1(estimate: float, error: float) -> float:
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
        best, scales = most_likely_column(precision, evidence, public.blocks, scales, typical, updates)
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
        about = centres_of_rounds(rounds, public)
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
        omega, p = seen.weights[:, number], place.p[:, 0]
        q = p * (1 - p)
        link = Link(omega * (p - seen.centres[:, number]), omega * q, omega**2 * q)
        return cls(number, *link.seen(sample, seen.public, seen.spreads[:, number], n_units=seen.n_units))

    def surprise(self, place: _Place) -> Floats:
        """Return how far the released moments are from what probabilities of public rows lead to."""
        return solved(self.root, place.surprises[:, [self.number]])


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


def most_likely_column(
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
        root = positive_root(precision + np.diag(1 / scales[blocks] ** 2))
        return linalg.cho_solve((root, True), evidence, check_finite=False), scales
    for _ in range(fewer(updates)):
        root, variances = inverted(precision + np.diag(1 / scales[blocks] ** 2))
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


def fit_clear(rounds: Sequence[Moments], public: PublicRows, start: Fit, *, n_units: float) -> Fit:
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


def positive_root(matrix: Floats) -> Floats:
    """Return the Cholesky root of a covariance, with as much added to its diagonal as rounding makes necessary."""
    size, extra = np.diag_indices_from(matrix), _JITTER * float(matrix.diagonal().max())
    while True:
        matrix[size] += extra
        try:
            return linalg.cholesky(matrix, lower=True, check_finite=False)
        except linalg.LinAlgError:
            extra *= 10


def solved(root: Floats, values: Floats, *, transposed: bool = False) -> Floats:
    """Return the inverse of a root, or of the transposed root, times values."""
    return np.asarray(linalg.solve_triangular(root, values, trans=int(transposed), lower=True, check_finite=False))


def inverted(matrix: Floats) -> tuple[Floats, Floats]:
    """Return the Cholesky root of a matrix, and the diagonal of its inverse."""
    root = positive_root(matrix)
    inverse_root, _ = linalg.lapack.dtrtri(root, lower=1)
    return root, np.einsum("ij,ij->j", inverse_root, inverse_root)
