"""The student, trained on public rows and released labels, and its published form.

The student is trained only on released labels, so it may be published. A published student finds columns by their
names, and states whether its run is a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from dpensemble._entries import Rows, in_blocks, is_table, read_rows, require_labels, require_readable
from dpensemble._hide_private_rows import on_public_rows
from dpensemble.datasets import fit_encoder
from dpensemble.datasets.frames import as_pandas, takes_any_frame
from dpensemble.datasets.tables import by_name, settled
from dpensemble.errors import DataError, InvalidParameterError

# Variance of averages of probabilities that a linear student cannot learn, and the weakest penalty on a student.
_MISFIT, _LARGEST_C = 0.01, 10.0


def default_student() -> LogisticRegression:
    """Return the student that methods train unless another is given."""
    # Penalised ten times as strongly as by default, since labels are few and often wrong. On public census data this
    # gains 2 to 5 points of accuracy and more of AUROC.
    return LogisticRegression(C=0.1, max_iter=1000)


def fit_student(estimator: Any, X: NDArray[np.float64], labels: NDArray[Any], seed: int) -> Any:
    """Fit a clone of `estimator` on public rows and their released labels, or a constant if all labels agree."""
    if np.all(labels == labels[0]):
        return DummyClassifier(strategy="constant", constant=labels[:1]).fit(X, labels)
    return seeded(estimator, seed).fit(X, labels)


def fit_soft_student(
    estimator: Any,
    X: NDArray[np.float64],
    averages: NDArray[np.float64],
    classes: NDArray[Any],
    seed: int,
    *,
    spread: float = 0.0,
) -> Any:
    """Fit a student to released averages of probabilities. The default is logistic regression, its penalty by evidence.

    The logistic loss is linear in the learned probabilities, and convex for all values of a row that sum to 1.
    So averages that noise has driven below 0 or above 1 are learned unchanged, without the bias of
    cutting them. Other students get weights of at least 0, or labels if they take no weights.
    """
    if estimator is None:
        model = LogisticRegression(C=_penalty(X, averages, spread), max_iter=1000)
        return _on_averages(model, X, averages, classes)
    fresh = seeded(estimator, seed)
    if not has_fit_parameter(fresh, "sample_weight"):
        return fit_student(estimator, X, classes[averages.argmax(axis=1)], seed)
    shares = averages.clip(0.0, None)
    return _on_averages(fresh, X, shares / shares.sum(axis=1, keepdims=True), classes)


def _on_averages(estimator: Any, X: NDArray[np.float64], averages: NDArray[np.float64], classes: NDArray[Any]) -> Any:
    """Fit to every row once for each class, weighted by the averages."""
    n_rows, n_classes = averages.shape
    rows = np.repeat(np.arange(n_rows), n_classes)
    return estimator.fit(X[rows], np.tile(classes, n_rows), sample_weight=averages.ravel())


def _penalty(X: NDArray[np.float64], averages: NDArray[np.float64], spread: float) -> float:
    r"""Return scikit-learn's ``C`` for averages with noise of this spread: that of the prior with the largest evidence.

    Near even chances, the loss of ``K`` classes is ``w.S w / (2 K) - g.w`` for each class, up to a constant. Here ``S``
    is the features' covariance, and ``g`` is the mean of features times averages. Noise on ``g`` has the covariance
    ``spread**2 S / n``, so the loss is a log-likelihood times ``K spread**2 / n``. With a prior ``w ~ N(0,
    tau**2)``, the most likely ``w`` is that of ``C = tau**2 / (K spread**2)``. In the principal directions of the
    features, of variance ``s``, ``g`` has the variance ``(s tau / K)**2 + spread**2 s / n``, which determines ``tau``.
    Two classes have one vector, twice that of a class, so ``K`` is 4.
    """
    n_rows, n_classes = averages.shape
    factor = 4.0 if n_classes == 2 else float(n_classes)
    noise = spread**2 + _MISFIT
    centred = X - X.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred.T @ centred / n_rows, hermitian=True)
    positive = sizes > 1e-9 * max(sizes[0], 1e-300)
    if not positive.any():
        return _LARGEST_C
    targets = (averages[:, 1:] if n_classes == 2 else averages) - 1 / n_classes
    g = directions[positive] @ (centred.T @ targets) / n_rows
    taus = np.geomspace(1e-3, 1e2, 61)
    variances = (sizes[positive, None] * taus / factor) ** 2 + noise / n_rows * sizes[positive, None]
    evidence = -(g.shape[1] * np.log(variances) + (g**2).sum(axis=1)[:, None] / variances).sum(axis=0)
    return float(np.clip(taus[evidence.argmax()] ** 2 / (factor * noise), 1e-6, _LARGEST_C))


def require_no_blanks(student: Any, rows: Any) -> None:
    """Refuse public rows that a student could not be trained on, before anything is released."""
    if student is not None and rows.isna().to_numpy().any():
        raise DataError(f"student={type(student).__name__} cannot learn from blanks (NaN): leave student out.")


@on_public_rows()
def distilled(student: Any, model: Any, rows: Any, seed: int) -> Any:
    """Return a student fitted to a published model's predictions for public (or synthetic) rows without blanks.

    If the student takes weights, every row teaches each class, with the probability of the class as weight.
    """
    encoder = fit_encoder(rows)
    fresh, encoded = clone(student), encoder.transform(rows)
    unseeded = [name for name, value in fresh.get_params().items() if name.endswith("random_state") and value is None]
    fresh.set_params(**dict.fromkeys(unseeded, seed))
    probable, n_classes = model.predict_proba(rows), len(model.classes_)
    if has_fit_parameter(fresh, "sample_weight"):
        every = np.repeat(np.arange(len(probable)), n_classes)
        fresh.fit(encoded[every], np.tile(model.classes_, len(probable)), sample_weight=probable.ravel())
    else:
        fresh.fit(encoded, model.classes_[probable.argmax(axis=1)])
    return Pipeline([("encoder", encoder), ("student", fresh)])


def seeded(estimator: Any, seed: int) -> Any:
    """Return a clone in which this seed fills all seeds that are not set."""
    fresh = clone(estimator)
    unseeded = [
        name for name, value in fresh.get_params().items() if name.split("__")[-1] == "random_state" and value is None
    ]
    return fresh.set_params(**dict.fromkeys(unseeded, seed))


def class_probabilities(student: Any, X: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the student's probabilities with one column for each declared class."""
    # Classes without a released label have probability 0.
    probabilities = np.zeros((len(X), len(classes)))
    probabilities[:, np.searchsorted(classes, student.classes_)] = student.predict_proba(X)
    return probabilities


@dataclass(frozen=True, eq=False)
class Learner:
    """Fits students to released labels of public rows, and predicts public rows with them."""

    estimator: Any
    rows: NDArray[np.float64]
    classes: NDArray[Any]
    seed: int

    def fit(self, indices: NDArray[np.int64], class_ids: NDArray[np.int64]) -> Any:
        """Return a student of these rows' labels."""
        return fit_student(self.estimator, self.rows[indices], self.classes[class_ids], self.seed)

    def probabilities(self, student: Any, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return a student's class probabilities of some public rows."""
        return class_probabilities(student, self.rows[indices], self.classes)


#: Attribute of a student that states whether its run is a release.
MARK = "for_release_"
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _last_step_has(method: str) -> Callable[[_Method], _Method]:
    """Return a decorator that hides a method if the last step lacks the method."""
    decorator: Callable[[_Method], _Method] = available_if(lambda pipeline: hasattr(pipeline.steps[-1][1], method))
    return decorator


class NamedPipeline(Pipeline):
    """A published student that finds the columns of a table by their names, in any order, and ignores other columns.

    A table may be of pandas, Polars, Arrow, or of another library that narwhals knows. Rows without names, such as
    arrays, are read by position. Every method raises `DataError` for a table that lacks a needed column.

    Parameters
    ----------
    steps, transform_input, memory, verbose
        As for scikit-learn's ``Pipeline``.
    names : sequence of str, optional
        Columns that the student was trained on, in order.
    needed : sequence of str, optional
        Required columns. By default all.
    as_array : bool, default=False
        Whether the first step takes an array of numbers.
    n_columns : int, optional
        Required number of columns for rows without names. By default that of `names`.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> table = pd.DataFrame({"age": [0.0, 0.0, 1.0, 1.0], "dose": [5.0, 7.0, 6.0, 6.0]})
    >>> plain = LogisticRegression().fit(table.to_numpy(), [0, 0, 1, 1])
    >>> student = publishable(plain, for_release=True, names=table.columns)
    >>> student.predict(table[["dose", "age"]]).tolist()
    [0, 0, 1, 1]
    """

    #: Files of earlier versions do not store the number.
    n_columns: int | None = None

    def __init__(
        self,
        steps: list[tuple[str, Any]],
        *,
        transform_input: Any = None,
        memory: Any = None,
        verbose: bool = False,
        names: Sequence[str] | None = None,
        needed: Sequence[str] | None = None,
        as_array: bool = False,
        n_columns: int | None = None,
    ) -> None:
        super().__init__(steps, transform_input=transform_input, memory=memory, verbose=verbose)
        self.names = names
        self.needed = needed
        self.as_array = as_array
        self.n_columns = n_columns

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns, shape (n_columns,)."""
        return super().feature_names_in_ if self.names is None else np.asarray(self.names, dtype=object)

    @feature_names_in_.setter
    def feature_names_in_(self, names: None) -> None:
        # Tools that explain any model set None on a copy, and then give arrays, which are read by position anyway.
        if names is not None:
            raise InvalidParameterError(
                "feature_names_in_ of a student cannot be changed: rename the columns of the rows instead.",
                parameter="feature_names_in_",
            )

    def in_order(self, X: Any) -> Any:
        """Return rows for the first step: a table with the columns in order, or anything else unchanged."""
        X = as_pandas("X", X)
        require_readable("X", X)
        if not is_table(X):
            self._require_columns(X)
        if self.names is None or not is_table(X):
            return X
        ordered = by_name(X, self.names, needed=self.needed)
        if not self.as_array:
            return ordered
        # In one layout, because products of arrays in other layouts round differently.
        return read_rows("X", lambda: np.ascontiguousarray(ordered, dtype=np.float64))

    def _require_columns(self, X: Any) -> None:
        """Raise for rows by position that are not a table, or that have another number of columns."""
        shape = np.shape(X)
        n_columns = len(self.names) if self.n_columns is None and self.names is not None else self.n_columns
        if len(shape) != 2:
            raise DataError(f"Expected 2D array, got {len(shape)}D: X must be a table of rows. Reshape your data.")
        if n_columns is not None and shape[1] != n_columns:
            raise DataError(
                f"X has {shape[1]} columns, but the student was trained on {n_columns}: give the same columns."
            )

    @property
    def effects_(self) -> object:
        """How far each column pushes towards each class, if the last step has such effects."""
        return self.steps[-1][1].effects_

    def _in_blocks(self, X: Rows, read: Callable[[Rows], Rows]) -> Rows:
        """Return what `read` makes of rows for the first step, from blocks, so that memory does not grow with rows."""
        X = as_pandas("X", X)
        by_name, tables = is_table(X), hasattr(self.steps[0][1], "numeric_columns")
        X = X if by_name else self.in_order(X)
        if tables:
            # All rows together decide which columns of objects hold numbers.
            X = settled(X)
        if tables and not by_name and self.names is not None:
            X = X.set_axis(list(self.names), axis=1)
        return in_blocks(X, (lambda rows: read(self.in_order(rows))) if by_name else read)

    @takes_any_frame
    def predict(self, X: Any, **params: Any) -> Any:
        """Return the label of each row, shape (n_rows,)."""
        return self._in_blocks(X, partial(super().predict, **params))

    @_last_step_has("predict_proba")
    @takes_any_frame
    def predict_proba(self, X: Any, **params: Any) -> Any:
        """Return the probability of each class, shape (n_rows, n_classes)."""
        return self._in_blocks(X, partial(super().predict_proba, **params))

    @_last_step_has("predict_log_proba")
    @takes_any_frame
    def predict_log_proba(self, X: Any, **params: Any) -> Any:
        """Return the logarithms of the probabilities, shape (n_rows, n_classes)."""
        return self._in_blocks(X, partial(super().predict_log_proba, **params))

    @_last_step_has("predict_median")
    @takes_any_frame
    def predict_median(self, X: Rows) -> Rows:
        """Return the median that a model of a number states for each row, shape (n_rows,)."""
        return self._in_blocks(X, lambda rows: self.steps[-1][1].predict_median(self[:-1].transform(rows)))

    @_last_step_has("predict_quantile")
    @takes_any_frame
    def predict_quantile(self, X: Rows, q: float) -> Rows:
        """Return a quantile that a model of a number states for each row, shape (n_rows,)."""
        return self._in_blocks(X, lambda rows: self.steps[-1][1].predict_quantile(self[:-1].transform(rows), q))

    @_last_step_has("predict_cumulative_hazard")
    @takes_any_frame
    def predict_cumulative_hazard(self, X: Rows, times: Rows = None, *, every: bool = False) -> Rows:
        """Return the cumulative hazard of the event of each row at times, by default the ends of bins.

        Competing events count, too, if `every`. Shape (n_rows, n_times).
        """

        def read(rows: Rows) -> Rows:
            return self.steps[-1][1].predict_cumulative_hazard(self[:-1].transform(rows), times, every=every)

        return self._in_blocks(X, read)

    @_last_step_has("predict_risk")
    @takes_any_frame
    def predict_risk(self, X: Rows, times: Rows = None) -> Rows:
        """Return the chance of the event of each row by times, by default the ends of bins, shape (n_rows, n_times)."""
        return self._in_blocks(X, lambda rows: self.steps[-1][1].predict_risk(self[:-1].transform(rows), times))

    @_last_step_has("predict_interval")
    @takes_any_frame
    def predict_interval(self, X: Rows, coverage: float = 0.9, *, guaranteed: bool = False) -> Rows:
        """Return the interval that a model of a number states for each row, shape (n_rows, 2)."""

        def intervals(rows: Rows) -> Rows:
            features = self[:-1].transform(rows)
            return self.steps[-1][1].predict_interval(features, coverage, guaranteed=guaranteed)

        return self._in_blocks(X, intervals)

    @_last_step_has("explanation")
    @takes_any_frame
    def explain(self, X: ArrayLike, *, bands: bool = True) -> object:
        """Return what each column adds to the logits of rows, an `Explanation` of `dpensemble.moments.model`.

        Parameters
        ----------
        X : DataFrame or array of shape (n_rows, n_columns)
            Rows to explain.
        bands : bool, default=True
            Whether to compute the standard deviation of each contribution by the known noise.
        """
        steps = [step for _, step in self.steps[:-1]]
        names = None if is_table(X) else self.names
        return self.steps[-1][1].explanation(steps, self.in_order(X), names=names, bands=bands)

    @_last_step_has("decision_function")
    @takes_any_frame
    def decision_function(self, X: Any, **params: Any) -> Any:
        """Return the scores of each row from the last step."""
        return self._in_blocks(X, partial(super().decision_function, **params))

    @_last_step_has("score")
    @takes_any_frame
    def score(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> Any:
        """Return the accuracy of the labels."""
        require_labels(y)
        if type(self.steps[-1][1]).score is ClassifierMixin.score:
            return ClassifierMixin.score(self, X, y, sample_weight)
        return super().score(self.in_order(X), y, sample_weight, **params)


def publishable(student: Any, *, for_release: bool, names: Any = None) -> Any:
    """Return a student that was trained on arrays for publication: marked, and with columns by name if named."""
    if names is not None:
        student = NamedPipeline([("student", student)], names=list(map(str, names)), as_array=True)
    return marked(student, for_release=for_release)


def with_names(student: Pipeline, names: Any = None, *, n_columns: int | None = None) -> Pipeline:
    """Return a pipeline of tables that finds columns by name, if names are known, or else checks their number."""
    if isinstance(student, NamedPipeline):
        return student
    first = student.steps[0][1]
    names = getattr(first, "feature_names_in_", None) if names is None else names
    if names is None:
        return student if n_columns is None else NamedPipeline(student.steps, n_columns=n_columns)
    needed = getattr(first, "needed_columns", None)
    return NamedPipeline(student.steps, names=list(map(str, names)), needed=needed)


def marked(student: Any, *, for_release: bool) -> Any:
    """Return a student that states, even after saving, whether its run is a release: False if noise was seeded.

    Both a pipeline and its last step are marked, so that the mark stays when either goes into another pipeline.
    """
    if isinstance(student, Pipeline):
        marked(student.steps[-1][1], for_release=for_release)
    setattr(student, MARK, for_release)
    return student


def release_mark(student: Any) -> bool | None:
    """Return whether a student's run is a release: False if any noise was seeded, None if not stated."""
    marks = set(_marks(student))
    return None if not marks else False not in marks


def _marks(value: Any) -> Iterator[bool]:
    if isinstance(value, BaseEstimator):
        own = vars(value).get(MARK)
        if own is not None:
            yield own
        value = list(vars(value).values())
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _marks(item)
