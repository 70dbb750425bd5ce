r"""Coefficients from released moments, with no setting to choose: a Gaussian model of the noise, and evidence.

Every released moment is a normal observation of a known function of the coefficients ``w``. Its expectation is the mean
of ``phi omega (p_w - c)`` over public rows, and its covariance is known. Three terms add to the covariance:

- private labels are a sample, with ``omega**2 p (1 - p) / n``,
- public rows stand for the private ones, with ``(omega (p - c))**2 (1 / n + kappa / m)``,
- noise was added.

The share of the second class is a further observation (`dpensemble.moments.base_rate`).

Coefficients of a block of features have a normal prior. The scale of each block is set where the observations are most
likely (D. MacKay, "Bayesian interpolation", Neural Computation 1992, the evidence updates). So nothing is chosen by a
look at labels. Gauss-Newton steps find the best coefficients.

This is for two classes. For more classes see `dpensemble.moments.softmax`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from dpensemble._arrays import Floats, dense
from dpensemble.moments.base_rate import BaseRate
from dpensemble.moments.model import chances_of, columns, expected, logits_of_whole, whole_units
from dpensemble.moments.queries import Moments
from dpensemble.moments.uncertainty import Information

#: Standard deviation of the constant's part of a logit, before any data.
CONSTANT_LOGIT = 5.0
# The same of the other features together, and the first scales in multiples of such typical ones.
_LOGIT, _FIRST = 1.0, 10.0
# Bounds of prior scales, and the smallest mean square of a block that is assumed.
_SMALLEST_SCALE, _LARGEST_SCALE, _SMALLEST_SQUARE = 0.02, 300.0, 1e-6
# Pseudo-coefficients: of a block at the scale of all blocks, and of the scale of all blocks at the typical scales.
_PULL, _PULL_OF_ALL = 2.0, 6.0
# Rows from which curvatures are estimated: limited by the number of products, but never fewer than these.
_MOST_PRODUCTS, _FEWEST_ROWS, _ROWS_PER_FEATURE = 4e9, 4000, 6
# Largest change of a logit in one step, and the mean one at which steps end.
_LONGEST_STEP, _SHORT_STEP = 8.0, 0.03
_MOST_STEPS = 12
# Times that a step which overshoots is halved.
_MOST_HALVES = 4
# Relative to the largest variance: keeps covariances without noise invertible.
_JITTER = 1e-9


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """Some public rows: their numbers, their features, their features as released, and shares that add up to 1."""

    rows: NDArray[np.int64]
    features: NDArray[np.float32]
    released: NDArray[np.float32]
    shares: Floats

    def products(self, weights: Floats, features: NDArray[np.float32]) -> Floats:
        """Return the mean of weighted products of released features and `features`. `weights` are of all rows."""
        weighted = features * (weights[self.rows] * self.shares)[:, None].astype(np.float32)
        means: Floats = (self.released.T @ weighted).astype(np.float64)
        return means


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Features of public rows, their blocks (the last is the constant's), and how well rows stand for private ones.

    A row counts 1 / `kappa` as much as a row of a sample of the same population. By default all rows have the same
    share, and each row is a unit of its own. `units` are the number of each row's unit, when they are known. When the
    model reads other features than those that are released, `released` holds the released features of the rows.
    """

    features: Any
    blocks: NDArray[np.int64]
    n_classes: int
    kappa: float = 1.0
    shares: Floats | None = None
    units: NDArray[np.int64] | None = None
    released: Floats | None = None
    _some: RowsInMemory = field(init=False)

    def __post_init__(self) -> None:
        n_rows, n_features = self.features.shape
        most = max(_FEWEST_ROWS, _ROWS_PER_FEATURE * n_features, int(_MOST_PRODUCTS / n_features**2))
        rows = np.sort(np.random.default_rng(0).permutation(n_rows)[:most])
        features = dense(self.features[rows]).astype(np.float32)
        released = features if self.released is None else dense(self.released[rows]).astype(np.float32)
        shares = np.ones(len(rows)) if self.shares is None else self.shares[rows]
        object.__setattr__(self, "_some", RowsInMemory(rows, features, released, shares / shares.sum()))

    @property
    def in_memory(self) -> RowsInMemory:
        """Some of the rows, as dense matrices. The number of products of features limits their number."""
        return self._some

    @cached_property
    def _sparse_whole(self) -> sparse.csr_matrix:
        return whole_units(self.features)

    @cached_property
    def _across(self) -> Floats | sparse.csr_matrix:
        """Released features, one row a feature."""
        return (self.features if self.released is None else self.released).T

    def probabilities(self, coefficients: Floats) -> Floats:
        """Return the probability of each class in each row, as `dpensemble.moments.model.probabilities` does."""
        # Whole units of a dense matrix would take as much memory as the matrix.
        whole = whole_units(self.features) if isinstance(self.features, np.ndarray) else self._sparse_whole
        return chances_of(logits_of_whole(whole, coefficients))

    @property
    def constant(self) -> float:
        """The value of the last feature, the same in every row."""
        return float(self._some.features[0, -1])

    @property
    def doubt(self) -> float:
        """Variance of a mean over the rows, in that of one row: ``kappa`` over the effective number of units (Kish).

        Rows of one unit count once, since they may all be alike.
        """
        if self.shares is None:
            return self.kappa * (1 / self.features.shape[0])
        shares = self.shares if self.units is None else np.bincount(self.units, self.shares)
        return self.kappa * float(np.sum(shares**2))

    def average(self, weights: Floats) -> Floats:
        """Return the mean of released features times `weights` over rows, shape (n_released, n_columns)."""
        shares = 1 / self.features.shape[0] if self.shares is None else self.shares[:, None]
        return np.asarray(self._across @ (weights * shares))

    def mean(self, values: Floats) -> float:
        """Return the mean over rows of values with shape (n_rows, 1)."""
        shares = 1 / len(values) if self.shares is None else self.shares[:, None]
        return float(np.sum(values * shares))

    def curvature(self, weights: Floats) -> Floats:
        """Return the mean of ``weight phi outer phi`` over rows, phi as released, shape (n_released, n_released)."""
        return self._some.products(weights, self._some.released)

    def covariance(self, values: Floats) -> Floats:
        """Return the covariance over rows of ``value phi``, phi as released, added up over the columns of `values`.

        A mean over a sample of rows varies by the covariance. Where all rows agree, as on the constant, it is exact.
        """
        some = self._some
        means = some.released.T.astype(np.float64) @ (values[some.rows] * some.shares[:, None])
        return self.curvature((values**2).sum(axis=1)) - means @ means.T

    def typical_scales(self) -> Floats:
        """Return a typical size of the coefficients of every block. The last is the constant's.

        Features that vary little seldom matter much, so that a typical coefficient grows with the root mean square.
        """
        some = self._some.features
        squares = np.einsum("ij,ij->j", some, some, dtype=np.float64) / len(some)
        of_blocks = np.bincount(self.blocks, squares) / np.bincount(self.blocks)
        scales = np.sqrt(np.maximum(of_blocks, _SMALLEST_SQUARE))
        others = self.blocks < len(scales) - 1
        variance = float(squares[others] @ scales[self.blocks[others]] ** 2)
        scales *= _LOGIT / np.sqrt(max(variance, _SMALLEST_SQUARE**2))
        scales[-1] = CONSTANT_LOGIT / self.constant
        return scales

    def slope(self, weights: Floats) -> Floats:
        """Return how means of released features grow with coefficients, shape (n_released, n_features)."""
        return self._some.products(weights, self._some.features)


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
        rate = _base_rate(by_round, public, p, n_units)
        observed, precision = (*by_round, rate), information + rate.slope.T @ rate.slope
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
    # Standard deviation of the noise on the constant, the last moment.
    noise_of_constant: float

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
        noise = float(moments.spread / moments.scale[-1])
        return cls(moments.values / moments.scale[:, None], centre, omega, public, root, slope, noise)

    def surprise(self, p: Floats) -> Floats:
        """Return how far the released moments are from what probabilities of public rows lead to."""
        surprise = self.values - self.public.average(self.omega[:, None] * (p - self.centre))
        whitened: Floats = linalg.solve_triangular(self.root, surprise, lower=True, check_finite=False)
        return whitened

    def share(self, p: Floats) -> tuple[float, float]:
        """Return by how much the constant shows a larger mean probability, and the error by noise."""
        weights, constant = self.omega[:, None], self.public.constant
        usual = self.public.mean(weights)
        surprise = float(self.values[-1, 0]) / constant - self.public.mean(weights * (p - self.centre))
        return surprise / usual, self.noise_of_constant / (constant * usual)


def _base_rate(observed: Sequence[_Observed], public: PublicRows, p: Floats, n_units: float) -> BaseRate:
    """Return what the constants of all rounds show about the mean probability of public rows."""
    q = p * (1 - p)
    surprises, noise = zip(*(one.share(p) for one in observed), strict=True)
    errors = [math.sqrt(error**2 + public.mean(q) / n_units) for error in noise]
    return BaseRate.of(p, surprises, errors, public.mean, public.average(q))


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
