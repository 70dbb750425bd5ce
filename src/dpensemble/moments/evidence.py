r"""Coefficients from released moments, with no setting to choose: a Gaussian model of the noise, and evidence.

Every released moment is a normal observation of a known function of the coefficients ``w``. Its expectation is the mean
of ``phi omega (p_w - c)`` over public rows, and its covariance is known. Three terms add to the covariance:

- private labels are a sample, with ``omega**2 p (1 - p) / n``,
- public rows stand for the private ones, with ``(omega (p - c))**2 (1 / n + kappa / m)``,
- noise was added.

Coefficients of a block of features have a normal prior. The scale of each block is set where the observations are most
likely (D. MacKay, "Bayesian interpolation", Neural Computation 1992, the evidence updates). So nothing is chosen by a
look at labels. Gauss-Newton steps find the best coefficients.

This is for two classes. For more classes see `dpensemble.moments.softmax`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpensemble._arrays import Floats, dense
from dpensemble.moments.model import columns, expected, probabilities
from dpensemble.moments.queries import Moments
from dpensemble.moments.uncertainty import Information

# Standard deviation of the constant's coefficient in logits, and bounds of all other prior scales.
_CONSTANT_SCALE, _SMALLEST_SCALE, _LARGEST_SCALE, _FIRST_SCALE = 5.0, 0.3, 300.0, 30.0
# Rows from which curvatures are estimated: limited by the number of products, but never fewer than these.
_MOST_PRODUCTS, _FEWEST_ROWS, _ROWS_PER_FEATURE = 4e9, 4000, 6
# Largest change of a logit in one step, and the mean one at which steps end.
_LONGEST_STEP, _SHORT_STEP = 8.0, 0.03
_MOST_STEPS = 12
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
        released = self.features if self.released is None else self.released
        return np.asarray(released.T @ (weights * shares))

    def curvature(self, weights: Floats) -> Floats:
        """Return the mean of ``weight phi outer phi`` over rows, phi as released, shape (n_released, n_released)."""
        return self._some.products(weights, self._some.released)

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
    scales = np.full(int(public.blocks.max()) + 1, _FIRST_SCALE)
    scales[-1] = _CONSTANT_SCALE
    return Fit(np.zeros((public.features.shape[1], columns(public.n_classes))), scales)


def fit_moments(rounds: Sequence[Moments], public: PublicRows, start: Fit, *, n_units: float) -> Fit:
    """Fit coefficients to all rounds together."""
    coefficients, scales = start.coefficients, start.scales
    about = [expected(m.centre, public.features, public.n_classes, m.even_weight) for m in rounds]
    for _ in range(_MOST_STEPS):
        p = probabilities(public.features, coefficients)
        precision, evidence = _observed(rounds, about, public, p, coefficients, n_units)
        best, scales = _most_likely(precision, evidence, public.blocks, scales)
        change = np.asarray(public.features @ (best - coefficients))
        largest = float(np.abs(change).max(initial=0.0))
        coefficients = coefficients + min(1.0, _LONGEST_STEP / max(largest, 1e-300)) * (best - coefficients)
        if np.sqrt(np.mean(change**2)) < _SHORT_STEP:
            break
    return Fit(coefficients, scales, Information(precision, scales[public.blocks], np.ones(1), 1.0))


def _observed(
    rounds: Sequence[Moments],
    about: Sequence[tuple[Floats, Floats]],
    public: PublicRows,
    p: Floats,
    coefficients: Floats,
    n_units: float,
) -> tuple[Floats, Floats]:
    """Return the precision of the rounds' estimate of the coefficients, and that precision times its mean."""
    size, q = len(coefficients), (p * (1 - p))[:, 0]
    precision, evidence = np.zeros((size, size)), np.zeros_like(coefficients)
    doubt = 1 / n_units + public.doubt
    for moments, (c, omega) in zip(rounds, about, strict=True):
        left = omega[:, None] * (p - c)
        surprise = moments.values / moments.scale[:, None] - public.average(left)
        slope = public.curvature(omega * q)
        variance = public.curvature(omega**2 * q / n_units + left[:, 0] ** 2 * doubt)
        variance[np.diag_indices(size)] += (moments.spread / moments.scale) ** 2
        root = positive_root(variance)
        slope = linalg.solve_triangular(root, slope, lower=True, check_finite=False)
        whitened = linalg.solve_triangular(root, surprise, lower=True, check_finite=False)
        precision += slope.T @ slope
        evidence += slope.T @ (whitened + slope @ coefficients)
    return precision, evidence


def _most_likely(
    precision: Floats, evidence: Floats, blocks: NDArray[np.int64], scales: Floats
) -> tuple[Floats, Floats]:
    """Return the best coefficients under the prior, whose scales are moved to where the evidence is largest."""
    sizes = np.bincount(blocks)
    for _ in range(3):
        root, variances = inverted(precision + np.diag(1 / scales[blocks] ** 2))
        best = linalg.cho_solve((root, True), evidence, check_finite=False)
        determined = np.maximum(sizes - np.bincount(blocks, variances) / scales**2, 1e-9)
        scales = np.sqrt(np.bincount(blocks, best[:, 0] ** 2) / determined).clip(_SMALLEST_SCALE, _LARGEST_SCALE)
        scales[-1] = _CONSTANT_SCALE
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
