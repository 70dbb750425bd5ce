"""The published student. It finds columns by their names, and states whether its run is a release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from dpensemble._arrays import is_table
from dpensemble._checks import by_name
from dpensemble._refusals import read_rows, require_labels, require_readable
from dpensemble.datasets.frames import as_given, reads_frames
from dpensemble.errors import DataError

#: Attribute of a student that states whether its run is a release.
MARK = "for_release_"
Method = TypeVar("Method", bound=Callable[..., Any])


def _last_step_has(method: str) -> Callable[[Method], Method]:
    """Return a decorator that hides a method if the last step lacks the method."""
    decorator: Callable[[Method], Method] = available_if(lambda pipeline: hasattr(pipeline.steps[-1][1], method))
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
    >>> student = published(plain, for_release=True, names=table.columns)
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

    def in_order(self, X: Any) -> Any:
        """Return rows for the first step: a table with the columns in order, or anything else unchanged."""
        X = as_given("X", X)
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

    @reads_frames
    def predict(self, X: Any, **params: Any) -> Any:
        """Return the label of each row, shape (n_rows,)."""
        return super().predict(self.in_order(X), **params)

    @_last_step_has("predict_proba")
    @reads_frames
    def predict_proba(self, X: Any, **params: Any) -> Any:
        """Return the probability of each class, shape (n_rows, n_classes)."""
        return super().predict_proba(self.in_order(X), **params)

    @_last_step_has("predict_log_proba")
    @reads_frames
    def predict_log_proba(self, X: Any, **params: Any) -> Any:
        """Return the logarithms of the probabilities, shape (n_rows, n_classes)."""
        return super().predict_log_proba(self.in_order(X), **params)

    @_last_step_has("explanation")
    @reads_frames
    def explain(self, X: ArrayLike, *, bands: bool = True) -> object:
        """Return what each column adds to the logits of rows, an `Explanation` of `dpensemble.moments.explanation`.

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
    @reads_frames
    def decision_function(self, X: Any, **params: Any) -> Any:
        """Return the scores of each row from the last step."""
        return super().decision_function(self.in_order(X), **params)

    @_last_step_has("score")
    @reads_frames
    def score(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> Any:
        """Return the accuracy of the labels."""
        require_labels(y)
        return super().score(self.in_order(X), y, sample_weight, **params)


def published(student: Any, *, for_release: bool, names: Any = None) -> Any:
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
