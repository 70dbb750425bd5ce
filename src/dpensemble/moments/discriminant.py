"""Gaussian discriminant analysis from noisy sums: the sums of each class, the fit to them, and the published model.

Public rows fix directions, their scale and a radius. A row is a point ``u`` of length 1 at most in those directions.
Rows are read in whole numbers, so that a row's point does not depend on the rows that are read together with it. Three
sums are released. Each sum uses the released sums before it:

1. `ClassMeans`: size and mean of each class.
2. `ClassProducts`: second moments of each class around its released mean, in units of the spread within classes.
3. `OwnScore`: how far the class of a record scores below the best class, on average. With public rows this mean
   decides how sharp probabilities are. Of the labels, the log-likelihood of ``softmax(T s(x) + b)`` needs only the mean
   score of the own class and the shares of classes: ``T E[s_y(x)] + sum of shares_c b_c - E[logsumexp(T s(x) + b)]``.
   Public rows estimate the last mean.

Everything else follows from released sums and their known noise. A class may have few records, so its moments shrink
towards those of all classes by empirical Bayes. J. H. Friedman ("Regularized discriminant analysis", JASA 1989) shrinks
by cross-validation, which would cost privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpensemble._entries import Floats, Integers, blocks_of
from dpensemble.datasets.tables import settled
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.maps.base import ALONG_PATH
from dpensemble.moments.model import Explanation, Sources
from dpensemble.moments.whole import (
    UNIT,
    WHOLE,
    RecordsQuery,
    WholeBlock,
    bounded_answers,
    bounded_features,
    bounded_products,
    partial_sums,
)
from dpensemble.releases import SumReleaser
from dpensemble.releases.sums import Outcome

#: Least variance in a direction, within classes.
_LEAST_VARIANCE = 0.05
#: Largest standardised entry of a row, and largest entry of a factor in `_exact_product`.
_LARGEST = 2.0**6
# Whole units in 1 of rows and of matrices in `_exact_product`.
_ROW, _MATRIX = 2.0**14, 2.0**16
# Directions at most, share of their mean variance that is added before scaling, and quantile of public lengths.
_MOST_DIRECTIONS, _RIDGE, _QUANTILE = 40, 0.02, 0.9


def _exact_product(rows: Floats, matrix: Floats) -> Floats:
    """Return ``rows @ matrix`` by whole numbers, so that no row depends on the rows beside it.

    Sums are exact in any order while the length of a row times that of a column is below ``2**53`` whole units, by the
    inequality of Cauchy and Schwarz. Rows of ``n`` entries are at most ``2**20 sqrt(n)`` long, and columns of every
    matrix here at most ``2**21``, so that ``n`` may be up to ``2**24``.
    """
    whole = np.rint(np.clip(rows, -_LARGEST, _LARGEST) * _ROW)
    product: Floats = whole @ np.rint(np.clip(matrix, -_LARGEST, _LARGEST) * _MATRIX)
    return product / (_ROW * _MATRIX)


@dataclass(frozen=True, eq=False)
class PublicDirections:
    """Uncorrelated directions of public rows, scaled to variance 1.

    Parameters
    ----------
    centre, scale : ndarray of shape (n_columns,)
        Mean and standard deviation of public rows.
    directions : ndarray of shape (n_columns, n_directions)
        Columns map a standardised row to its point.
    radius : float
        Length to which longer points are cut.
    """

    centre: Floats
    scale: Floats
    directions: Floats
    radius: float

    @classmethod
    def of(cls, public: Floats) -> PublicDirections:
        """Return the directions of public rows, shape (n_public, n_columns)."""
        # Squares of larger entries overflow.
        public = np.clip(public, -1e100, 1e100)
        centre, scale = public.mean(axis=0), public.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        standard = np.clip((public - centre) / scale, -_LARGEST, _LARGEST)
        variances, vectors = np.linalg.eigh(standard.T @ standard / len(public))
        most = min(_MOST_DIRECTIONS, max(1, len(public) // 5))
        order = np.argsort(-variances)[:most]
        # One direction at least, also when public rows are all alike.
        chosen = [place for place in order if place == order[0] or variances[place] > 1e-3 * variances.max()]
        ridge = _RIDGE * variances[chosen].mean()
        directions = vectors[:, chosen] / np.sqrt(np.maximum(variances[chosen] + ridge, _LEAST_VARIANCE**2))
        lengths = np.linalg.norm(_exact_product(standard, directions), axis=1)
        return cls(centre, scale, directions, max(float(np.quantile(lengths, _QUANTILE)), 1e-3))

    def points(self, rows: Floats) -> Floats:
        """Return whole points of rows, none longer than `UNIT`, shape (n_rows, n_directions)."""
        # A warning about a private row would reveal something of the row.
        with np.errstate(over="ignore"):
            standard = np.clip((rows - self.centre) / self.scale, -_LARGEST, _LARGEST)
        points: Floats = bounded_features(_exact_product(standard, self.directions) / self.radius)
        return points


# Whole units of the constant in `ClassMeans`, and the factor of the point beside it.
_CONSTANT, _POINT = 11_586, 0.707


class _OfClasses(RecordsQuery[Any]):
    """A sum of a vector of each record, by class."""

    n_classes: int

    def _by_class(self, targets: Integers, weights: Floats) -> Floats:
        labels = np.zeros((len(targets), self.n_classes))
        labels[np.arange(len(targets)), targets] = weights
        return bounded_answers(labels, weights)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Means:
    """Released size and mean of each class. Public.

    Parameters
    ----------
    sizes : ndarray of shape (n_classes,)
        Weighted number of units, at least the smallest number that the noise lets one distinguish from 0.
    means : ndarray of shape (n_classes, n_directions)
        Means in units of the radius, shrunk towards 0 by their noise.
    """

    sizes: Floats
    means: Floats


@dataclass(frozen=True)
class ClassMeans(_OfClasses):
    """Size and mean of each class.

    A record adds ``(a, b u)`` in the column of its class, with ``a = .70715``, ``b = .707`` and ``|u| <= 1``. Its
    length is at most ``sqrt(a**2 + b**2) <= 1``. Two such vectors of one class have the inner product ``a**2 + b**2 u.v
    >= a**2 - b**2 >= 0``. Vectors of different classes are orthogonal. The same holds for weighted means of vectors. So
    replacing a unit moves the sum by at most ``sqrt(2)``, and adding or removing one by at most 1.
    """

    n_classes: int
    description = "the size and the mean of each class"

    def bounded_factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:
        """Return a constant beside the point, and weights in the columns of classes."""
        left = np.hstack([np.full((len(targets), 1), float(_CONSTANT)), np.trunc(features * _POINT)])
        return left, self._by_class(targets, weights)

    def read(self, sums: Floats, spread: float) -> _Means:
        """Return sizes and shrunk means."""
        noise = spread * UNIT / _CONSTANT
        sizes = np.maximum(sums[0] * UNIT / _CONSTANT, 1.0 + noise)
        means = sums[1:].T / _POINT / sizes[:, None]
        variances = (spread / _POINT / sizes) ** 2
        signal = max(float((means**2).mean() - variances.mean()), 1e-12)
        return _Means(sizes=sizes, means=means * (signal / (signal + variances))[:, None])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Spreads:
    """Released second moments of each class around its mean. Public.

    Parameters
    ----------
    moments : ndarray of shape (n_classes, n_directions, n_directions)
        Sums over units, in units of the squared radius of the second sum.
    noise : float
        Standard deviation of the noise on an entry off the diagonal, after both halves are averaged.
    """

    moments: Floats
    noise: float


@dataclass(frozen=True)
class ClassProducts(_OfClasses):
    """Second moments of each class.

    A record adds ``v outer v``, ``|v| <= 1``, in the column of its class. This product is at most 1 long. The inner
    product of two such products is a square or, for different classes, 0. So replacing a unit moves the sum by at most
    ``sqrt(2)``, and adding or removing one by at most 1.
    """

    n_classes: int
    description = "the spread of each class around its mean, and which columns go together there"

    def bounded_factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:
        """Return all products, and weights in the columns of classes."""
        return bounded_products(features), self._by_class(targets, weights)

    def read(self, sums: Floats, spread: float) -> _Spreads:
        """Return symmetric sums of each class."""
        size = math.isqrt(len(sums))
        moments = sums.T.reshape(self.n_classes, size, size)
        return _Spreads(moments=(moments + moments.transpose(0, 2, 1)) / 2, noise=spread * math.sqrt(0.5))


@dataclass(frozen=True)
class OwnScore(RecordsQuery[float]):
    """How far the own class scores below the best class. A record adds a number from 0 (far below) to 1 (the best)."""

    description = "how far a record's class scores below the best class, on average, to calibrate probabilities"
    replacing = WHOLE

    def bounded_factors(self, features: Any, targets: Integers, weights: Floats) -> tuple[Any, Floats]:  # noqa: ARG002
        """Return numbers from 0 to 1, given as features of shape (n_records, 1), in whole units, and weights."""
        return np.trunc(np.clip(features, 0.0, 1.0) * UNIT), bounded_answers(weights[:, None], weights)

    def read(self, sums: Floats, spread: float) -> float:  # noqa: ARG002
        """Return the sum over units."""
        return float(sums[0, 0])


# Whole units in 1 of whitened differences in scores, and their largest entry.
_SCORE, _FAR = 2.0**10, 2.0**8
# Rows that are explained together.
_EXPLAINED = 512


class DiscriminantModel(ClassifierMixin, BaseEstimator):
    """A Gaussian distribution for each class, from released sums. May be published.

    Attributes
    ----------
    centre_, scale_, directions_, radius_
        The public directions, as in `PublicDirections`.
    means_ : ndarray of shape (n_classes, n_directions)
        Mean of each class, in directions.
    whitening_ : ndarray of shape (n_classes, n_directions, n_directions)
        Matrices that map a difference to its class's mean to a vector of variance 1.
    offsets_ : ndarray of shape (n_classes,)
        Logarithm of each share, less half the logarithm of the determinant of each covariance.
    sharpness_ : float
        Factor of scores in probabilities.
    shift_ : ndarray of shape (n_classes,)
        Added to scores in probabilities, so that mean probabilities are the released shares.
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    """

    @classmethod
    def of(cls, public: PublicDirections, sums: _Means, classes: NDArray[Any]) -> DiscriminantModel:
        """Return the model whose classes all have the covariance 1."""
        model, size = cls(), public.directions.shape[1]
        model.centre_, model.scale_ = public.centre, public.scale
        model.directions_, model.radius_ = public.directions, public.radius
        model.means_, model.classes_ = sums.means * public.radius, classes
        model.whitening_ = np.tile(np.eye(size), (len(classes), 1, 1))
        model.offsets_ = np.log(sums.sizes / sums.sizes.sum())
        model.sharpness_, model.shift_ = 1.0, np.zeros(len(classes))
        return model

    def fit(self, X: Any, y: Any = None) -> DiscriminantModel:  # noqa: ARG002
        """Refuse: labels are for `DiscriminantClassifier`, which releases sums of them."""
        raise InvalidParameterError("a DiscriminantModel is made of released sums: fit a DiscriminantClassifier.")

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, shape (n_rows, n_classes)."""
        check_is_fitted(self, "means_")
        scores = self.scores(self.points(np.asarray(X, dtype=np.float64)))
        probabilities: Floats = softmax(self.sharpness_ * scores + self.shift_, axis=1)
        return probabilities

    def explain(self, X: pd.DataFrame | Floats, *, bands: bool = True) -> Explanation:
        """Return what each column adds to the logits of rows. There are no bands."""
        return self.explanation([], X, bands=bands)

    def explanation(
        self,
        steps: Sequence[TransformerMixin],
        rows: pd.DataFrame | Floats,
        *,
        names: Sequence[str] | None = None,
        bands: bool = True,  # noqa: ARG002
    ) -> Explanation:
        """Return what each column of rows adds to the logits, behind the `steps` that make numbers of the columns.

        A logit is quadratic in the point of a row. So an integrated gradient from the public mean is the slope half-way
        (M. Sundararajan, A. Taly and Q. Yan, "Axiomatic attribution for deep networks", ICML 2017), without an error of
        an integral. A point that was cut to the radius is divided as if each column had been cut by the same factor.
        """
        check_is_fitted(self, "means_")
        table = settled(rows)
        table = table.set_axis(list(map(str, names or table.columns)), axis=1)
        sources = Sources(steps, list(table.columns))
        columns = sources.columns
        base = self._logits(np.zeros((1, self.directions_.shape[1])))
        parts, labels = np.empty((len(table), len(columns), base.shape[1])), np.empty(len(table), self.classes_.dtype)
        for part, block in blocks_of(table, _EXPLAINED):
            numbers, count = np.asarray(sources.transform(block), dtype=np.float64), part.stop - part.start
            parts[part] = self._parts(numbers, base, sources)[:count]
            labels[part] = self.predict(numbers)[:count]
        return Explanation(
            columns=columns,
            classes=self.classes_[-base.shape[1] :].tolist(),
            base=base[0],
            contributions=parts,
            deviations=None,
            values=table[columns],
            predicted=labels,
            attribution=ALONG_PATH,
            reference="the mean of the public rows",
        )

    def _logits(self, points: Floats) -> Floats:
        """Return logits of whole points: of the second of two classes, or of each class less their mean."""
        scores = self.sharpness_ * self.scores(points) + self.shift_
        return scores[:, 1:] - scores[:, :1] if scores.shape[1] == 2 else scores - scores.mean(axis=1, keepdims=True)

    def _parts(self, numbers: Floats, base: Floats, sources: Sources) -> Floats:
        """Return what each column of some rows adds to the logits."""
        points = self.points(numbers)
        standard = np.clip((numbers - self.centre_) / self.scale_, -_LARGEST, _LARGEST)
        along = standard[:, :, None] * self.directions_
        lengths = np.linalg.norm(along.sum(axis=1), axis=1)
        cut = np.linalg.norm(points, axis=1) * (self.radius_ / UNIT) / np.maximum(lengths, 1e-300)
        halves = points * (self.radius_ / UNIT / 2)
        slopes = np.stack(
            [-(halves - mean) @ root @ root.T for mean, root in zip(self.means_, self.whitening_, strict=True)], axis=2
        )
        raw = self.sharpness_ * np.matmul(along * cut[:, None, None], slopes)
        raw = raw[..., 1:] - raw[..., :1] if raw.shape[2] == 2 else raw - raw.mean(axis=2, keepdims=True)
        return sources.completed(sources.gathered(raw), self._logits(points) - base)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_rows,)."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def points(self, rows: Floats) -> Floats:
        """Return the whole points of rows."""
        return PublicDirections(self.centre_, self.scale_, self.directions_, self.radius_).points(rows)

    def differences(self, points: Floats, class_id: int) -> Floats:
        """Return differences of whole points to the mean of a class, of variance 1 in the released covariance."""
        return _exact_product(points * (self.radius_ / UNIT) - self.means_[class_id], self.whitening_[class_id])

    def own_differences(self, points: Floats, targets: Integers) -> Floats:
        """Return the whitened difference of each whole point to the mean of its own class. Private."""
        differences = np.zeros_like(points)
        for class_id in range(len(self.classes_)):
            own = targets == class_id
            differences[own] = self.differences(points[own], class_id)
        return differences

    def scores(self, points: Floats) -> Floats:
        """Return log-densities of whole points less those of the best class, shape (n_rows, n_classes)."""
        scores = np.empty((len(points), len(self.classes_)))
        for class_id, offset in enumerate(self.offsets_):
            # Whole numbers, whose squares add up exactly.
            whole = np.rint(np.clip(self.differences(points, class_id), -_FAR, _FAR) * _SCORE)
            scores[:, class_id] = offset - np.einsum("ij,ij->i", whole, whole) / (2 * _SCORE**2)
        scores -= scores.max(axis=1, keepdims=True)
        return scores


# Radius of the second sum in root mean squares, and the lowest score that is distinguished.
_RADIUS, _LOWEST = 1.2, 15.0
# Sharpness that is tried, and steps towards released shares for each.
_SHARPNESS, _SHIFTS = np.geomspace(0.02, 1.5, 40), 30


def _common_whitening(public: PublicDirections, points: Floats, sums: _Means) -> Floats:
    """Return the matrix that whitens differences within classes: the spread of public rows less that between means."""
    scaled = points * (public.radius / UNIT)
    means, shares = sums.means * public.radius, sums.sizes / sums.sizes.sum()
    within = scaled.T @ scaled / len(points) - (means.T * shares) @ means
    variances, vectors = np.linalg.eigh(within)
    return vectors / np.sqrt(np.maximum(variances, _LEAST_VARIANCE))


def _squared_radius(n_directions: int) -> float:
    """Return the squared length to which whitened differences are cut for `ClassProducts`."""
    return _RADIUS**2 * n_directions


def _covariances(sums: _Means, spreads: _Spreads) -> Floats:
    """Return the covariance of each class, shrunk towards that of all classes, and that towards a multiple of 1."""
    size = spreads.moments.shape[1]
    unit = _squared_radius(size)
    each = spreads.moments * unit / sums.sizes[:, None, None]
    noise = (spreads.noise * unit / sums.sizes) ** 2
    shares = sums.sizes / sums.sizes.sum()
    common = np.einsum("c,cij->ij", shares, each)
    level = np.eye(size) * max(float(np.trace(common)) / size, _LEAST_VARIANCE)
    common = level + _kept(common - level, np.array([shares**2 @ noise]))[0] * (common - level)
    apart = each - np.einsum("c,cij->ij", shares, each)
    return np.stack([_positive(common + part * own) for part, own in zip(_kept(apart, noise), apart, strict=True)])


def _kept(values: Floats, noise: Floats) -> Floats:
    """Return the share of each value that is kept: its variance beside that of its noise."""
    signal = max(float(np.mean((values**2).mean(axis=(-2, -1)) - noise)), 0.0)
    part: Floats = signal / (signal + np.maximum(noise, 1e-300))
    return part


def _positive(matrix: Floats) -> Floats:
    variances, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(variances, 2 * _LEAST_VARIANCE)) @ vectors.T


def _with_covariances(model: DiscriminantModel, matrices: Floats) -> DiscriminantModel:
    """Return the model with a covariance of each class, in whitened differences."""
    common = model.whitening_
    roots = np.linalg.cholesky(np.linalg.inv(matrices))
    model.whitening_ = common @ roots
    model.offsets_ = model.offsets_ - np.linalg.slogdet(matrices)[1] / 2
    return model


def _own_scores(model: DiscriminantModel, points: Floats, targets: Integers) -> Floats:
    """Return the number from 0 to 1 that each record adds to `OwnScore`, shape (n_records, 1). Private."""
    scores = model.scores(points)[np.arange(len(points)), targets]
    return 1 + scores[:, None] / _LOWEST


def _calibrated(model: DiscriminantModel, total: float, sums: _Means, public: Floats) -> DiscriminantModel:
    """Return the model with the sharpness of greatest likelihood."""
    shares = sums.sizes / sums.sizes.sum()
    own = min(0.0, (total / sums.sizes.sum() - 1) * _LOWEST)
    scores = model.scores(public)
    best = -np.inf
    for sharpness in _SHARPNESS:
        shift = _matching_shift(sharpness * scores, shares)
        likelihood = sharpness * own + shares @ shift - logsumexp(sharpness * scores + shift, axis=1).mean()
        if likelihood > best:
            best, model.sharpness_, model.shift_ = likelihood, float(sharpness), shift
    return model


def _matching_shift(scores: Floats, shares: Floats) -> Floats:
    """Return the shift of scores that brings mean probabilities of public rows near released shares."""
    shift = np.zeros(len(shares))
    for _ in range(_SHIFTS):
        shift = shift + np.log(shares / (softmax(scores + shift, axis=1).mean(axis=0) + 1e-9))
    return shift


#: Blocks of private rows, shape (n_rows, n_columns), with class ids and weights. Every call starts again.
Blocks = Callable[[], Iterator[tuple[Floats, Integers, Floats]]]
# Features of whole points and class ids of some records.
_FeaturesOf = Callable[[Floats, Integers], Floats]


class DiscriminantRelease:
    """The three sums, each with the model of the earlier ones, by public rows whose directions are fixed before.

    Parameters
    ----------
    rows : ndarray of shape (n_public, n_columns)
        Public rows.
    classes : ndarray of shape (n_classes,)
        Declared labels, sorted.
    """

    def __init__(self, rows: Floats, classes: NDArray[np.generic]) -> None:
        self.classes, self._directions = classes, PublicDirections.of(rows)
        self._points = self._directions.points(rows)

    def bytes_needed(self, n_rows_at_once: int) -> int:
        """Return about how many bytes the sums need with that many records in memory at once."""
        (n_columns, size), n_public = self._directions.directions.shape, len(self._points)
        products = n_rows_at_once * (3 * size**2 + 4 * n_columns) + 16 * len(self.classes) * size**2
        return 8 * (products + n_public * (4 * n_columns + 4 * size + 6 * len(self.classes)))

    def model(
        self, blocks: Blocks, sums: SumReleaser, shares: tuple[float, ...], advance: Callable[[float], None]
    ) -> DiscriminantModel:
        """Release the sums for their shares of the budget, and return the model that follows from all of them."""
        directions, public, (first, second, third) = self._directions, self._points, shares

        def noisy_sum(query: RecordsQuery[Outcome], share: float, features: _FeaturesOf) -> Outcome:
            """Sum the records exactly, and let `SumReleaser.charge_and_draw` release the sum."""
            whole = (
                WholeBlock(features(directions.points(rows), targets), targets, weights)
                for rows, targets, weights in blocks()
            )
            return sums.charge_and_draw(query, partial_sums(query, whole).total, share)

        means = noisy_sum(ClassMeans(len(self.classes)), first, lambda points, _: points)
        advance(1)
        model = DiscriminantModel.of(directions, means, self.classes)
        model.whitening_[:] = _common_whitening(directions, public, means)
        radius = np.sqrt(_squared_radius(public.shape[1]))
        spreads = noisy_sum(
            ClassProducts(len(self.classes)),
            second,
            lambda points, ids: bounded_features(model.own_differences(points, ids) / radius),
        )
        advance(1)
        model = _with_covariances(model, _covariances(means, spreads))
        total = noisy_sum(OwnScore(), third, lambda points, ids: _own_scores(model, points, ids))
        model = _calibrated(model, total, means, public)
        advance(1)
        return model
