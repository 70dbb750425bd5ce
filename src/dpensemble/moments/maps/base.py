"""The statements that every feature map of the library makes, and any scikit-learn transformer as a map."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from dpensemble._entries import Floats, Integers, own_copy
from dpensemble.datasets.frames import takes_any_frame
from dpensemble.datasets.tables import LibraryTransformer, as_library_transformer, fingerprint
from dpensemble.errors import DataError, InvalidParameterError

#: How a map divides a row among its columns: each column adds a part that depends only on its own entry.
ADDITIVE = "exact"
#: Columns act together, and an integral along a path from the public mean to the row divides their joint effect.
ALONG_PATH = "approximate attribution, exact sum"


class FeatureMap(LibraryTransformer, TransformerMixin, BaseEstimator):
    """A feature map of the library: fitted on public rows, with rows of length at most 1 and a constant at the end.

    Attributes
    ----------
    blocks_ : ndarray of shape (n_features_out,)
        Number of the block that each feature is in, the constant's block last.
    nonnegative_ : bool
        Whether no feature is below 0.
    """

    #: Rows are at most 1 long, so that no caller has to shorten them.
    is_bounded = True
    #: Squared length of each block, by which later rounds weigh the blocks. None if later rounds do not weigh them.
    squares_: Floats | None = None
    #: The number in `squares_` that each feature belongs to. None if this is its block.
    groups_: NDArray[np.int64] | None = None

    def reference(self, public: pd.DataFrame) -> Floats:
        """Return the features that `column_parts` start from, from public rows or what is known of them."""
        raise NotImplementedError

    def column_parts(self, X: pd.DataFrame | Floats, weights: Floats, reference: Floats) -> Floats:
        """Return what each column adds to ``features @ weights`` beyond the reference.

        Shape (n_rows, n_columns, n_outputs). `weights` have the shape (n_features_out, n_outputs). Parts are linear in
        them, and add up to the difference up to rounding (and, along a path, up to the error of the integral).
        """
        raise NotImplementedError

    @staticmethod
    def octaves_of(n_directions: int) -> NDArray[np.int64]:
        """Return block numbers of directions and a constant: 1, 2 to 3, 4 to 7 and so on, then the constant."""
        octaves = np.floor(np.log2(np.arange(1, n_directions + 1))).astype(np.int64)
        return np.append(octaves, octaves.max(initial=-1) + 1)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002
        """Return a name for each feature."""
        check_is_fitted(self)
        return np.asarray([*(f"direction {n}" for n in range(1, len(self.blocks_))), "constant"], dtype=object)


class MapOnBase(FeatureMap):
    """A map that reads tables through another map, and makes the same statements of columns as this map.

    Attributes
    ----------
    base_ : feature map
        The other map, fitted on public rows.
    """

    base_: FeatureMap

    @property
    def is_recent(self) -> bool:  # type: ignore[override]
        """Whether the base map is recent."""
        return as_library_transformer(self.base_).is_recent

    @property
    def reads_rows_alone(self) -> bool:  # type: ignore[override]
        """Whether a row's features depend only on that row, to the last digit."""
        return bool(as_library_transformer(self.base_).reads_rows_alone)

    def as_fresh(self, public: pd.DataFrame, units: Integers | None) -> pd.DataFrame:
        """Return public rows whose mean features are those of rows that the base map was not fitted on."""
        fresh: pd.DataFrame = as_library_transformer(self.base_).as_fresh(public, units)
        return fresh

    @property
    def numeric_columns(self) -> list[str]:
        """Columns that the base map takes as numbers."""
        return list(self.base_.numeric_columns)

    @property
    def takes_blanks(self) -> bool:  # type: ignore[override]
        """Whether the base map accepts missing entries."""
        return bool(as_library_transformer(self.base_).takes_blanks)

    @property
    def known_categories(self) -> dict[str, set[str]]:  # type: ignore[override]
        """Categories that the base map has a place for, by column."""
        return as_library_transformer(self.base_).known_categories

    def _take_columns(self) -> None:
        """Take number and names of columns from the fitted base map."""
        self.n_features_in_ = self.base_.n_features_in_
        if hasattr(self.base_, "feature_names_in_"):
            self.feature_names_in_ = self.base_.feature_names_in_


# Squared length of the constant, and the share of public rows that are not shortened.
_CONSTANT, _KEPT_SHARE = 0.2, 0.95


class BoundedMap(FeatureMap):
    """A transformer's features, shortened to a length of at most 1, with a constant.

    Parameters
    ----------
    transformer : scikit-learn transformer
        Cloned and fitted on public rows. Wrap a transformer that is already fitted on other public data in
        `sklearn.frozen.FrozenEstimator`.
    in_batches : bool, default=False
        Declares that the transformer reads each row independently of the others, to the last digit. Then the
        transformer gets many private rows at a time, which is faster. By default it gets one private row at a time. The
        guarantee rests on this declaration. For example, `NMF` reads rows together, and one record then changes the
        features of others.

    Attributes
    ----------
    blocks_ : ndarray of shape (n_features_out,)
        0 for all features, 1 for the constant.
    nonnegative_ : bool
        Whether no feature of a public row is below 0.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> features = BoundedMap(StandardScaler()).fit_transform(np.array([[0.0], [1.0], [2.0]]))
    >>> features.shape, bool((np.linalg.norm(features, axis=1) <= 1 + 1e-12).all())
    ((3, 2), True)
    """

    def __init__(self, transformer: Any = None, in_batches: bool = False) -> None:
        self.transformer = transformer
        self.in_batches = in_batches

    @takes_any_frame
    def fit(self, X: Any, y: Any = None) -> BoundedMap:  # noqa: ARG002
        """Fit the transformer on public rows. Never pass private rows."""
        self.transformer_ = clone(self.transformer).fit(own_copy(X))
        state = fingerprint(self.transformer_)
        features = self._features(X)
        if fingerprint(self.transformer_) != state:
            raise InvalidParameterError(
                f"feature_map={type(self.transformer).__name__} changes its own state when it transforms rows, so that "
                "one record could change the features of others: use a map whose transform changes nothing.",
                parameter="feature_map",
            )
        lengths = np.sqrt(_squares(features))
        self.length_ = max(float(np.quantile(lengths, _KEPT_SHARE)), 1e-12)
        least = features.min() if features.shape[1] else 0.0
        self.nonnegative_ = bool(least >= 0)
        self.n_features_out_ = features.shape[1] + 1
        self.blocks_ = np.append(np.zeros(features.shape[1], dtype=np.int64), 1)
        return self

    @property
    def reads_rows_alone(self) -> bool:  # type: ignore[override]
        """Whether private rows may be given many at a time."""
        return bool(self.in_batches)

    def _features(self, X: Any) -> Any:
        # Rounds read the same rows again, so a transformer that writes into them gets a copy.
        features = self.transformer_.transform(own_copy(X))
        features = (
            features.tocsr().astype(np.float64) if sparse.issparse(features) else np.asarray(features, dtype=np.float64)
        )
        entries = features.data if sparse.issparse(features) else features
        if features.ndim != 2 or not np.isfinite(entries).all():
            raise DataError("feature_map gave NaN, infinity or no table: use a transformer that accepts these rows.")
        return features

    @takes_any_frame
    def transform(self, X: Any) -> Any:
        """Return features, shape (n_rows, n_features_out), each row at most 1 long."""
        check_is_fitted(self)
        features = self._features(X)
        lengths = np.sqrt(_squares(features))
        factors = np.sqrt(1 - _CONSTANT) / np.maximum(lengths, self.length_)
        constant = np.full((features.shape[0], 1), np.sqrt(_CONSTANT))
        if sparse.issparse(features):
            return sparse.hstack([sparse.diags_array(factors) @ features, constant], format="csr")
        return np.hstack([features * factors[:, None], constant])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the transformer's names and the name of the constant."""
        names = getattr(self.transformer_, "get_feature_names_out", None)
        inner = [f"feature {i}" for i in range(self.n_features_out_ - 1)] if names is None else names(input_features)
        return np.asarray([*inner, "constant"], dtype=object)


def _squares(features: Any) -> Floats:
    squared = features.power(2) if sparse.issparse(features) else features**2
    return np.asarray(squared.sum(axis=1)).ravel()
