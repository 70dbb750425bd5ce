"""The published model of label moments: a softmax of a public map's features."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpensemble._entries import Floats
from dpensemble.datasets.preparation import statements_of
from dpensemble.datasets.tables import as_table
from dpensemble.errors import InvalidParameterError
from dpensemble.moments.explanation import (
    Effect,
    Explanation,
    Singles,
    Uncertainty,
    by_source,
    centred,
    completed,
    gathered,
    through,
)
from dpensemble.moments.whole import UNIT

# Units in 1 of coefficients, and of probabilities and odds.
_COEFFICIENT, _CHANCE = 2.0**16, 2.0**24
_LARGEST_COEFFICIENT = 2.0**12
# Rows, and numbers about them, that are explained together.
_ROWS_AT_ONCE, _NUMBERS_AT_ONCE = 512, 2**22


def probabilities(features: Any, coefficients: Floats) -> Floats:
    """Return the probability of each class, shape (n_rows, n_columns). One column is the second class of two.

    Sums are over whole numbers below ``2**53``, so they are exact in any order. A row's probabilities depend only on
    that row and on the coefficients, not on the rows read together with it. A private row's centre rests on that.
    """
    return chances_of(_logits_of(features, coefficients))


def chances_of(scores: Floats) -> Floats:
    """Return the probability of each class by `_logits_of`, shape (n_rows, n_columns)."""
    if scores.shape[1] == 1:
        # The logistic function, without overflow on either side.
        return np.rint(0.5 * (1 + np.tanh(scores / 2)) * _CHANCE) / _CHANCE
    odds = np.rint(np.exp(scores - scores.max(axis=1, keepdims=True)) * _CHANCE)
    # No release can show that a probability is 0.
    chances: Floats = np.maximum(np.rint(odds / odds.sum(axis=1, keepdims=True) * _CHANCE), 1.0) / _CHANCE
    return chances


def _logits_of(features: Floats | sparse.csr_matrix, coefficients: Floats) -> Floats:
    """Return the logit of each column of coefficients, shape (n_rows, n_columns)."""
    return logits_of_whole(whole_units(features), coefficients)


def whole_units(features: Floats | sparse.csr_matrix) -> Floats | sparse.csr_matrix:
    """Return features as whole numbers of ``1 / UNIT``."""
    return np.rint(features * UNIT) if isinstance(features, np.ndarray) else (features * UNIT).rint()


def logits_of_whole(whole: Floats | sparse.csr_matrix, coefficients: Floats) -> Floats:
    """Return the same as `_logits_of`, of features in whole units."""
    # Products stay below 2**14 * 2**28 in length, since rows are at most 1 long.
    return np.asarray(whole @ (rounded(coefficients) * _COEFFICIENT)) / (UNIT * _COEFFICIENT)


def rounded(coefficients: Floats) -> Floats:
    """Return the coefficients that a model reads: whole multiples of ``2**-16`` in a wide range."""
    limited = np.clip(coefficients, -_LARGEST_COEFFICIENT, _LARGEST_COEFFICIENT)
    return np.asarray(np.rint(limited * _COEFFICIENT) / _COEFFICIENT)


def expected(
    centre: Floats | None, features: Any, n_classes: int, even_weight: float, *, whole: bool = False
) -> tuple[Floats, Floats]:
    """Return what a published model expects of rows, and the public weight of each row.

    Features are numbers up to 1, or `whole` numbers of ``1 / UNIT``.
    """
    n_rows, n_columns = features.shape[0], columns(n_classes)
    if centre is None:
        return np.full((n_rows, n_columns), 1 / n_classes), np.full(n_rows, even_weight)
    c = chances_of(logits_of_whole(features if whole else whole_units(features), centre))
    if n_columns == 1:
        return c, 0.5 / np.maximum(c, 1 - c)[:, 0]
    # Chances are whole numbers of 2**-24, so this sum of squares is exact in any order.
    longest = np.sqrt(1 - 2 * c.min(axis=1) + (c**2).sum(axis=1))
    return c, 0.5 / longest


def columns(n_classes: int) -> int:
    """Return the number of columns of coefficients: one for two classes, otherwise one a class."""
    return 1 if n_classes == 2 else n_classes


def even_weight(n_classes: int) -> float:
    """Return the weight of rows where residuals are taken from even shares of the classes."""
    return 1.0 if n_classes == 2 else 0.5 / math.sqrt((n_classes - 1) / n_classes)


class MomentsModel(ClassifierMixin, BaseEstimator):
    """A softmax of features, with coefficients fitted to released moments. May be published.

    Attributes
    ----------
    coefficients_ : ndarray of shape (n_features, n_columns)
        One column for two classes (for the second class), otherwise one column a class.
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    reference_ : ndarray of shape (n_features,) or None
        Features that contributions are relative to: those of the mean of public rows, or of rows that were drawn from
        released sums. None in files of versions before 0.2.
    uncertainty_ : dict or None
        Arrays of an `Uncertainty`: how certain the coefficients are by the known noise.
    effects_text_ : str
        ``effects_`` as JSON.
    effects_ : list of dict
        How far each column pushes towards each class (`column_effects`). Empty if no column has an effect of its own.

    Examples
    --------
    >>> model = MomentsModel.of(np.array([[2.0]]), np.array(["no", "yes"]))
    >>> model.predict(np.array([[1.0], [-1.0]])).tolist()
    ['yes', 'no']
    """

    #: Files of earlier versions have none of these.
    reference_: Floats | None = None
    uncertainty_: dict[str, Singles] | None = None
    effects_text_: str = "[]"
    reference_rows_: str = "public rows"

    @classmethod
    def of(cls, coefficients: Floats, classes: NDArray[Any]) -> MomentsModel:
        """Return the model with these coefficients."""
        model = cls()
        model.coefficients_, model.classes_ = coefficients, classes
        return model

    @property
    def effects_(self) -> list[Effect]:
        """How far each column pushes towards each class."""
        effects: list[Effect] = json.loads(self.effects_text_)
        return effects

    def fit(self, X: Any, y: Any = None) -> MomentsModel:  # noqa: ARG002
        """Refuse: labels are for `LabelMomentsClassifier`, which releases their moments."""
        raise InvalidParameterError("a MomentsModel is made of released moments: fit a LabelMomentsClassifier.")

    def predict_proba(self, features: Any) -> Floats:
        """Return the probability of each class, shape (n_rows, n_classes)."""
        check_is_fitted(self, "coefficients_")
        chances = probabilities(features, self.coefficients_)
        return np.hstack([1 - chances, chances]) if chances.shape[1] == 1 else chances

    def explanation(
        self,
        steps: Sequence[TransformerMixin],
        rows: pd.DataFrame | Floats,
        *,
        names: Sequence[str] | None = None,
        bands: bool = True,
    ) -> Explanation:
        """Return what each column of rows adds to the logits. The last of the `steps` makes the model's features."""
        check_is_fitted(self, "coefficients_")
        *before, feature_map = map(statements_of, steps)
        if feature_map.attribution is None:
            raise InvalidParameterError(
                f"explain cannot divide the features of {type(steps[-1]).__name__} among columns: train with the "
                "default feature_map, or explain with a tool for any model.",
                parameter="explain",
            )
        if self.reference_ is None:
            raise InvalidParameterError("the student was saved before explanations existed: train again to explain it.")
        table = as_table(rows)
        table = table.set_axis(list(map(str, names or table.columns)), axis=1)
        columns, owners = by_source(before, list(table.columns))
        weights, uncertainty = centred(rounded(self.coefficients_)), self._uncertainty() if bands else None
        n_outputs = weights.shape[1]
        both = weights if uncertainty is None else np.hstack([weights, uncertainty.basis])
        parts = np.empty((len(table), len(columns), n_outputs))
        deviations = None if uncertainty is None else np.empty_like(parts)
        base, labels = self.reference_ @ weights, np.empty(len(table), dtype=self.classes_.dtype)
        size = max(1, min(_ROWS_AT_ONCE, _NUMBERS_AT_ONCE // (len(owners) * both.shape[1])))
        for part in (slice(start, start + size) for start in range(0, len(table), size)):
            prepared = through(before, table[part])
            raw = gathered(feature_map.column_parts(prepared, both, self.reference_), owners, len(columns))
            features = feature_map.transform(prepared)
            labels[part] = self.predict(features)
            differences = centred(_logits_of(features, self.coefficients_)) - base
            parts[part] = completed(raw[..., :n_outputs], differences)
            if uncertainty is not None and deviations is not None:
                deviations[part] = uncertainty.deviations(raw[..., n_outputs:])
        return Explanation(
            columns=columns,
            classes=self.classes_[-n_outputs:].tolist(),
            base=base,
            contributions=parts,
            deviations=deviations,
            values=table[columns],
            predicted=labels,
            attribution=feature_map.attribution,
            reference=f"the mean of the {self.reference_rows_}",
        )

    def _uncertainty(self) -> Uncertainty | None:
        return None if self.uncertainty_ is None else Uncertainty(**self.uncertainty_)

    def predict(self, features: Any) -> NDArray[Any]:
        """Return the most probable class of each row, shape (n_rows,)."""
        most_probable = self.predict_proba(features).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[most_probable]
        return labels
