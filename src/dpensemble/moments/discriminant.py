r"""Gaussian discriminant analysis from noisy sums: the size, mean and spread of each class.

Public rows fix directions, their scale and a radius. A row is a point ``u`` of length 1 at most in those directions.
Three sums are released. Each sum uses the released sums before it:

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

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpensemble._arrays import Floats, Integers
from dpensemble.datasets.preparation import statements_of
from dpensemble.datasets.tables import as_table
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.class_sums import Means
from dpensemble.moments.explanation import Explanation, by_source, centred, completed, gathered, through
from dpensemble.moments.maps.base import ALONG_PATH
from dpensemble.moments.public_directions import LARGEST, PublicDirections, exact_product
from dpensemble.moments.whole import UNIT

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
    def of(cls, public: PublicDirections, sums: Means, classes: NDArray[Any]) -> DiscriminantModel:
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
        table = as_table(rows)
        table = table.set_axis(list(map(str, names or table.columns)), axis=1)
        columns, owners = by_source(list(map(statements_of, steps)), list(table.columns))
        numbers = np.asarray(through(steps, table), dtype=np.float64)
        base = self._logits(np.zeros((1, self.directions_.shape[1])))
        parts = [
            self._parts(numbers[start : start + _EXPLAINED], base, owners, len(columns))
            for start in range(0, len(numbers), _EXPLAINED)
        ]
        return Explanation(
            columns=columns,
            classes=self.classes_[-base.shape[1] :].tolist(),
            base=base[0],
            contributions=np.concatenate([np.zeros((0, len(columns), base.shape[1])), *parts]),
            deviations=None,
            values=table[columns],
            predicted=self.predict(numbers),
            attribution=ALONG_PATH,
            reference="the mean of the public rows",
        )

    def _logits(self, points: Floats) -> Floats:
        """Return logits of whole points: of the second of two classes, or of each class less their mean."""
        scores = self.sharpness_ * self.scores(points) + self.shift_
        return scores[:, 1:] - scores[:, :1] if scores.shape[1] == 2 else centred(scores)

    def _parts(self, numbers: Floats, base: Floats, owners: NDArray[np.int64], n_columns: int) -> Floats:
        """Return what each column of some rows adds to the logits."""
        points = self.points(numbers)
        standard = np.clip((numbers - self.centre_) / self.scale_, -LARGEST, LARGEST)
        along = standard[:, :, None] * self.directions_
        lengths = np.linalg.norm(along.sum(axis=1), axis=1)
        cut = np.linalg.norm(points, axis=1) * (self.radius_ / UNIT) / np.maximum(lengths, 1e-300)
        halves = points * (self.radius_ / UNIT / 2)
        slopes = np.stack(
            [-(halves - mean) @ root @ root.T for mean, root in zip(self.means_, self.whitening_, strict=True)], axis=2
        )
        raw = self.sharpness_ * np.matmul(along * cut[:, None, None], slopes)
        raw = raw[..., 1:] - raw[..., :1] if raw.shape[2] == 2 else raw - raw.mean(axis=2, keepdims=True)
        return completed(gathered(raw, owners, n_columns), self._logits(points) - base)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_rows,)."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels

    def points(self, rows: Floats) -> Floats:
        """Return the whole points of rows."""
        return PublicDirections(self.centre_, self.scale_, self.directions_, self.radius_).points(rows)

    def differences(self, points: Floats, class_id: int) -> Floats:
        """Return differences of whole points to the mean of a class, of variance 1 in the released covariance."""
        return exact_product(points * (self.radius_ / UNIT) - self.means_[class_id], self.whitening_[class_id])

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
