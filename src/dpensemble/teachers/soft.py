"""Teachers that answer with more than a label: with probabilities, or with all their learned parameters.

Like a ballot, an answer depends on the teacher's own records, on its number and on public settings only. So one unit
changes the answers of its own teachers and no others. A teacher may be unable to answer: for an empty shard, a shard of
a single class, a failed fit, or a probability that is not a number. Such a teacher answers with the shares of its
labels, where each class counts once more than it occurs, or an even share without labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from dpensemble._arrays import Floats, Integers
from dpensemble.errors import InvalidParameterError
from dpensemble.teachers.ensemble import RowsInBlocks, TeacherEnsemble, own_global_randomness, quietly
from dpensemble.teachers.logistic import supports

# Numbers in a chunk of answers.
_NUMBERS = 4_000_000
_LARGEST = 1e150
_MADE_UP_ROWS = 120


class SoftTeacherEnsemble(TeacherEnsemble):
    """Teachers fitted on the shards of an allocation, which also answer with probabilities or parameters.

    Parameters: see `TeacherEnsemble`. The answers are as secret as votes.
    """

    def fit(self, X: Floats | RowsInBlocks, y: Integers, on_done: Callable[[float], None]) -> SoftTeacherEnsemble:
        """Fit every teacher as `TeacherEnsemble.fit` does. All records are in memory together."""
        super().fit(X, y, on_done)
        # Rows of an array have a single turn.
        (fitted,) = self._fitted
        self._teachers: Any = fitted if supports(self.estimator) else _Models(fitted, self.classes)
        shards, n_classes = self.allocation.shards, len(self.classes)
        counts = np.stack([np.bincount(y[shard], minlength=n_classes) for shard in shards])
        self._shares: Floats = (counts + 1) / (counts.sum(axis=1, keepdims=True) + n_classes)
        self._n_features = X.shape[1]
        return self

    def probabilities(self, X: Floats) -> Iterator[Floats]:
        """Yield the teachers' probabilities, a few teachers at a time, in order.

        Parameters
        ----------
        X : ndarray of shape (n_queries, n_features)
            Public rows.

        Yields
        ------
        ndarray of shape (n_teachers, n_queries, n_classes)
            Finite numbers from 0 to 1.
        """
        n_teachers, n_classes = self._shares.shape
        size = max(1, _NUMBERS // max(1, len(X) * n_classes))
        for start in range(0, n_teachers, size):
            part = slice(start, min(start + size, n_teachers))
            chances = self._teachers.probabilities(part, X)
            unusable = ~np.isfinite(chances).all(axis=(1, 2))
            chances[unusable] = self._shares[part][unusable, None, :]
            yield chances.clip(0.0, 1.0)

    def parameters(self) -> Floats:
        """Return the learned parameters of every linear teacher: coefficients and, last, intercepts.

        Returns
        -------
        ndarray of shape (n_teachers, n_outputs, n_features + 1)
            Finite. One output for two classes, the log-odds of the second. Otherwise one a class, which sum to 0.
        """
        n_teachers, n_classes = self._shares.shape
        parameters = np.zeros((n_teachers, n_classes, self._n_features + 1))
        parameters[:, :, -1] = np.log(self._shares)
        for t in range(n_teachers):
            own = self._coefficients_of(t)
            # Numbers that are not finite, or whose differences would not be, do not count as an answer.
            if own is not None and np.isfinite(own).all() and np.abs(own).max() < _LARGEST:
                parameters[t] = own
        if n_classes == 2:
            return parameters[:, 1:] - parameters[:, :1]
        return parameters - parameters.mean(axis=1, keepdims=True)

    def _coefficients_of(self, t: int) -> Floats | None:
        """Return the logit of every class from one fitted teacher, or None if it has none."""
        coefficients = self._teachers.coefficients(t, self._n_features)
        if coefficients is None:
            return None
        columns, coef, intercept = coefficients
        if not coef.any():
            return None
        rows = np.hstack([coef, intercept[:, None]])
        if len(rows) == 1:
            rows = np.concatenate([-rows / 2, rows / 2])
        logits = np.zeros((len(self.classes), rows.shape[1]))
        logits[columns] = rows
        absent = np.setdiff1d(np.arange(len(logits)), columns)
        # A class that no record of the shard has gets less than the rarest class present.
        logs = np.log(self._shares[t])
        logits[absent, -1] = rows[:, -1].min() + logs[absent] - logs[columns].min()
        return logits


class _Models:
    """Teachers as fitted models, one each, of this library or of an estimator that fits all teachers itself."""

    def __init__(self, fitted: Any, classes: NDArray[Any]) -> None:
        self._models, self._classes = fitted.models, classes
        # An estimator's own teachers know the labels, and draw nothing.
        self._seeds, self._seen = getattr(fitted, "seeds", None), getattr(fitted, "seen", None)

    def probabilities(self, part: slice, X: Floats) -> Floats:
        """Return the probabilities of some teachers, NaN for a teacher that has none."""
        return np.stack([self._probabilities_of(t, X) for t in range(part.start, part.stop)])

    def _probabilities_of(self, t: int, X: Floats) -> Floats:
        unknown = np.full((len(X), len(self._classes)), np.nan)
        model = self._models[t]
        if model is None:
            return unknown
        with quietly():
            try:
                with own_global_randomness(0 if self._seeds is None else int(self._seeds[t])):
                    columns = self._classes_of(t)
                    chances = np.zeros_like(unknown)
                    # A copy for each, since a model that transforms rows in place must not affect the next ones.
                    chances[:, columns] = model.predict_proba(X.copy())
                    unknown = chances
            except Exception:  # noqa: S110 - the text may quote records; the shares of its classes stand for this teacher
                pass
        return unknown

    def _classes_of(self, t: int) -> Integers:
        """Return the class ids of a model's columns."""
        labels = self._models[t].classes_
        if self._seen is not None and self._seen[t] is not None:
            own: Integers = self._seen[t][np.asarray(labels, dtype=np.int64)]
            return own
        return np.searchsorted(self._classes, labels)

    def coefficients(self, t: int, n_features: int) -> tuple[Integers, Floats, Floats] | None:
        """Return a teacher's class ids, coefficients and intercepts, or None if it has none."""
        model = self._models[t]
        if model is None:
            return None
        columns = self._classes_of(t)
        try:
            coef = np.asarray(model.coef_, dtype=np.float64)
            intercept = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), len(coef))
        except Exception:  # The text may quote records. The shares of its classes stand for this teacher.
            return None
        return (columns, coef, intercept) if coef.shape in ((len(columns), n_features), (1, n_features)) else None


def require_linear(estimator: object, n_features: int, n_classes: int) -> None:
    """Refuse an estimator whose scores on made-up rows are not linear in the features."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(_MADE_UP_ROWS, n_features)), np.arange(_MADE_UP_ROWS) % n_classes
    with quietly():
        try:
            model = clone(estimator).fit(X, y)
            scores = np.asarray(model.decision_function(X)).reshape(len(X), -1)
            linear = np.allclose(X @ np.asarray(model.coef_).T + model.intercept_, scores, atol=1e-6)
        except Exception:
            linear = False
    if not linear:
        raise InvalidParameterError(
            f"teacher={type(estimator).__name__} must have a coef_ and intercept_ that give its scores, since "
            "answers='parameters' averages these: use logistic regression, or answers='probabilities'."
        )
