"""Any method behind an encoder that is fitted on public rows, for texts, blanks and sparse rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._checks import names_checked
from dpensemble._entries import (
    Floats,
    Rows,
    dense,
    is_table,
    own_copy,
    require_labels,
    require_readable,
    row_count,
    rows_at,
)
from dpensemble._hide_private_rows import on_public_rows
from dpensemble.datasets import TableEncoder, as_table
from dpensemble.datasets.frames import takes_any_frame
from dpensemble.datasets.public_facts import warn_of_columns
from dpensemble.datasets.tables import as_library_transformer, fingerprint, settled
from dpensemble.engine.classifier import PrivateClassifier, explained
from dpensemble.engine.planned import store_params
from dpensemble.engine.run import guarded_fit
from dpensemble.errors import DataError, DPEnsembleError, InvalidParameterError, SettingWarning
from dpensemble.moments.model import Explanation
from dpensemble.rows import arguments
from dpensemble.rows.arguments import names_of, zeroes_bad
from dpensemble.student import NamedPipeline, marked, with_names

_ROWS_TRIED = 20
_ASSUMPTION = "The encoder was fitted on public rows, and transforms each row independently of the others."


class EncodedClassifier(PrivateClassifier):
    """A private classifier with an encoder that turns rows into numbers. The encoder learns only from public rows.

    A scikit-learn ``Pipeline`` around a method would fit its encoder on private rows, and would not encode public rows.
    This class fits the encoder on public rows, encodes both, and puts the encoder before the published student.

    Parameters
    ----------
    method : estimator of this library
        The unfitted method. Any method that takes arrays of numbers.
    encoder : scikit-learn transformer, optional
        Cloned and fitted on public rows. For example a ``ColumnTransformer``, a pipeline, or ``TruncatedSVD`` for
        sparse rows. The encoder gets private rows one at a time. By default a `TableEncoder`.
    fill : {"median", "nan"}, optional
        How the default encoder fills blanks in. See `TableEncoder`. By default, blanks raise an error. The option
        ``--fill`` of the command line means ``"median"``, or ``"nan"`` if both teacher and student take NaN.
    in_batches : bool, default=False
        Declares that `encoder` transforms each row independently of the others, to the last digit. Then private rows
        may be encoded together, which is faster. The guarantee relies on this declaration.

    Attributes
    ----------
    fitted_ : estimator
        The fitted method.
    student_ : Pipeline
        Encoder and student, which may be published.
    guarantee_, labels_, design_, classes_, charges_, spend_
        Those of the fitted method, and other results of its run.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpensemble import SubsampleAggregateClassifier
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"ward": rng.choice(["A", "B"], 3000), "age": rng.normal(size=3000)})
    >>> y = ((rows["ward"] == "A") & (rows["age"] > -1)).astype(int)
    >>> method = SubsampleAggregateClassifier(n_teachers=40, classes=[0, 1], insecure_release_seed=0, random_state=0)
    >>> model = EncodedClassifier(method).fit(rows[:2500], y[:2500], X_public=rows[2500:])
    >>> bool(model.score(rows, y) > 0.8)
    True
    """

    def __init__(
        self, method: Any = None, *, encoder: Any = None, fill: str | None = None, in_batches: bool = False
    ) -> None:
        store_params(self, locals())

    @property
    def insecure_release_seed(self) -> int | None:
        """Seed of the method's noise."""
        seed: int | None = self.method.insecure_release_seed
        return seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    @takes_any_frame
    def fit(self, X: Any, y: Any, *, X_public: Any = None, **more: Any) -> EncodedClassifier:
        """Fit the encoder on public rows, and the method on encoded rows.

        Parameters
        ----------
        X : DataFrame, array or sparse matrix of shape (n_records, n_columns)
            Private records, in a form that the encoder takes.
        y : array-like of shape (n_records,)
            Private labels, all among the method's ``classes``.
        X_public : DataFrame, array or sparse matrix of shape (n_public, n_columns)
            Public, unlabelled rows with the same columns.
        **more
            Arguments of the method's `fit`, such as ``units``, ``budgets`` or ``ledger``.

        Returns
        -------
        self

        Raises
        ------
        InvalidParameterError
            If the method is missing, both an encoder and ``fill`` are given, or the encoder changes its own state.
        DataError
            If public rows are missing, or the encoder cannot read a private row.
        """
        if self.method is None or not hasattr(self.method, "fit"):
            raise InvalidParameterError(
                f"method must be an estimator, e.g. PATEClassifier(classes=[0, 1]); got {self.method!r}.",
                parameter="method",
            )
        if self.encoder is not None and self.fill is not None:
            raise InvalidParameterError(
                f"fill={self.fill!r} is a setting of the default encoder, but encoder={type(self.encoder).__name__} is "
                "given: drop fill, and let that encoder fill blanks in.",
                parameter="fill",
            )
        if X_public is None or not row_count(X_public):
            raise DataError("X_public is missing or empty, but the encoder is fitted on public rows: give some.")
        arguments.require_others(X, X_public)
        X = _in_order_of(arguments.names_of(X_public), X)
        zeroes = zeroes_bad(self.method)
        require_readable("X", X, keep_bad=zeroes)
        require_labels(y, keep_bad=True)
        require_readable("X_public", X_public)
        if self.encoder is None and is_table(X_public):
            warn_of_columns(as_table(X_public), has_unit=more.get("units") is not None)
        with guarded_fit(self, records=(X, y, X_public)):
            with on_public_rows():
                if arguments.names_of(X_public):
                    validate_data(self, X_public, skip_check_array=True)
                encoder = clone(TableEncoder(self.fill) if self.encoder is None else self.encoder)
                encoder.fit(own_copy(X_public))
                state = fingerprint(encoder)
                _warn_unless_alone(encoder, X_public)
                public = _encoded(encoder, X_public)
            _require_state(encoder, state)
            together = (self.in_batches or as_library_transformer(encoder).encodes_rows_alone) and not zeroes
            private = _of_private(encoder, X) if together else _each_of_private(encoder, X, public.shape[1], zeroes)
            _require_state(encoder, state)
            model = clone(self.method).fit(private, y, X_public=public, **more)
            self.fitted_, self.encoder_ = model, encoder
            student = Pipeline([("encoder", encoder), ("student", model.student_)])
            student = with_names(student, arguments.names_of(X_public))
            stated = replace(model.guarantee_, assumptions=(*model.guarantee_.assumptions, _ASSUMPTION))
            self.result_ = replace(
                model.result_, student=marked(student, for_release=stated.for_release), guarantee=stated
            )
        return self

    def _new_rows(self, X: Any) -> Any:
        require_readable("X", X)
        if self.column_names is not None and is_table(X):
            X = _in_order_of(list(self.column_names), X)
            with names_checked():
                validate_data(self, X, skip_check_array=True, reset=False)
        rows = self.student_.in_order(X) if isinstance(self.student_, NamedPipeline) else X
        return _encoded(self.encoder_, rows)

    @takes_any_frame
    def explain(self, X: ArrayLike, *, bands: bool = True) -> Explanation:
        """Return what each column adds to the student's logits, by the columns before the encoder."""
        check_is_fitted(self)
        return explained(self.student_, X, bands=bands)

    @takes_any_frame
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the student's label for each row. This costs no privacy."""
        check_is_fitted(self)
        labels: NDArray[Any] = self._in_blocks(X, self.fitted_.predict)
        return labels

    def _in_blocks(self, X: Rows, read: Callable[[Rows], Rows]) -> Rows:
        if as_library_transformer(self.encoder_).encodes_rows_alone and not is_table(X):
            # All rows together decide which columns of objects hold numbers.
            X = settled(self.student_.in_order(X)).set_axis(list(self.encoder_.feature_names_in_), axis=1)
        return super()._in_blocks(X, read)

    @takes_any_frame
    def predict_proba(self, X: Any) -> Floats:
        """Return the student's class probabilities for each row, in the order of ``classes_``, at no privacy cost."""
        check_is_fitted(self)
        probabilities: Floats = self._in_blocks(X, self.fitted_.predict_proba)
        return probabilities


def _of_private(encoder: Any, X: Any) -> Any:
    """Encode private records. Errors of other libraries may quote entries, so only their type is named."""
    try:
        return _encoded(encoder, X)
    except DPEnsembleError:
        raise
    except Exception as error:
        kind = type(error).__name__
    raise DataError(
        f"encoder={type(encoder).__name__} cannot read the private rows ({kind}), although it read the public rows: "
        "let it accept what public rows lack, such as other categories."
    )


def _each_of_private(encoder: Any, X: Any, n_columns: int, zeroes: bool) -> Any:
    """Encode private records one at a time. If bad records add zeros, an unreadable record becomes a row of NaN."""
    if not hasattr(X, "shape"):
        X = np.asarray(X, dtype=object)
    return np.vstack([_one_of_private(encoder, one, n_columns, zeroes) for one in _single_rows(X, X.shape[0])])


def _one_of_private(encoder: Any, row: Any, n_columns: int, zeroes: bool) -> Any:
    try:
        return _of_private(encoder, row)
    except DataError:
        if not zeroes:
            raise
        return np.full((1, n_columns), np.nan)


def _single_rows(rows: Any, n_rows: int) -> Iterator[Any]:
    return (rows.iloc[[i]] if hasattr(rows, "iloc") else rows[i : i + 1] for i in range(n_rows))


def _require_state(encoder: Any, state: str) -> None:
    if fingerprint(encoder) != state:
        raise InvalidParameterError(
            f"encoder={type(encoder).__name__} changes its own state when it transforms rows, so one record could "
            "change the numbers of others: use an encoder whose transform changes nothing.",
            parameter="encoder",
        )


def _encoded(encoder: Any, rows: Any) -> Any:
    """Return dense encoded rows. The caller's rows stay unchanged even if an encoder works in place."""
    return dense(encoder.transform(own_copy(rows)))


def _warn_unless_alone(encoder: Any, public: Any) -> None:
    """Warn if the encoding of a public row depends on other rows, because then batches would not be private."""
    some = rows_at(public, slice(_ROWS_TRIED))
    together = np.asarray(_encoded(encoder, some), dtype=float)
    each = _single_rows(some, len(together))
    alone = np.vstack([np.asarray(_encoded(encoder, one), dtype=float) for one in each])
    if not np.allclose(together, alone, rtol=1e-6, atol=1e-9, equal_nan=True):
        warnings.warn(
            f"encoder={type(encoder).__name__} encodes a row differently beside other rows; private rows are "
            "encoded one by one, but public rows together.",
            SettingWarning,
            stacklevel=4,
        )


def _in_order_of(names: list[str] | None, X: Any) -> Any:
    """Return rows with their columns in the order of `names`, if these are all of their names."""
    own = names_of(X)
    if names is None or own is None or names == own or set(names) != set(own):
        return X
    return X[names]
