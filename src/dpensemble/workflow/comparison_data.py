"""Public data for a comparison, split alike for all methods, and base learners in the form that a method requires."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpensemble._checks import integer_between, member
from dpensemble.datasets import (
    ImageDataset,
    TableEncoder,
    TablePreparation,
    load_digit_images,
    load_fashion_mnist,
    load_mnist,
    read_table,
    three_way_split,
)
from dpensemble.datasets.columns import as_text, number_columns
from dpensemble.datasets.formats import EntryRules, as_options
from dpensemble.datasets.tables import as_kinds, require_complete
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.neural import SGD, DPSGDClassifier, TorchClassifier, bagging_cnn, digit_cnn, linear_network
from dpensemble.relations import Relation
from dpensemble.workflow.learners import LEARNERS, learner
from dpensemble.workflow.tables import adult_tables

# Default number of public images, and the least number of rows that can be split into thirds.
_PUBLIC_IMAGES, _FEWEST_ROWS = 1000, 30


class ComparedDataset(StrEnum):
    """Data sets by name. The first two need no download."""

    ADULT = "adult"
    DIGITS = "digits"
    MNIST = "mnist"
    FASHION_MNIST = "fashion-mnist"


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedRows:
    """The rows of one repeat for every method, and the same rows as tables for methods that read tables."""

    X_private: NDArray[Any]
    y_private: NDArray[Any]
    X_public: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    tables: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparisonData:
    """Data, and how to split it by a public seed. `how` describes where public and test rows come from."""

    name: str
    classes: Sequence[Any]
    split: Callable[[int], ComparedRows]
    how: str
    image_shape: tuple[int, int, int] | None = None

    def learner(self, name: str) -> _ComparedLearner:
        """Return a base learner by name, one of `_COMPARED_LEARNERS`."""
        if name not in _COMPARED_LEARNERS:
            raise InvalidParameterError(f"learner={name!r} is unknown: use one of {', '.join(_COMPARED_LEARNERS)}.")
        if name == _NETWORK:
            return _network(self)
        by_gradients = name == _LINEAR
        return _ComparedLearner(
            name=name,
            alone=lambda n_rows: _classical(name, n_rows),
            by_default=by_gradients,
            dp_sgd=(lambda n_rows: _dp_sgd(name, linear_network, None, n_rows)) if by_gradients else None,
            image_shape=self.image_shape,
        )


def comparison_data(
    dataset: ComparedDataset | str,
    classes: Sequence[int] | None = None,
    public_rows: int | None = None,
    *,
    progress: bool = False,
) -> ComparisonData:
    """Return a data set to compare methods on, with the labels of images to keep.

    Of MNIST and Fashion-MNIST, the first published test images are public (1,000 by default) and the others are for
    testing. Of other data sets, a third of all rows is public by default and at most.
    """
    dataset = member("dataset", dataset, ComparedDataset)
    if public_rows is not None:
        integer_between("public_rows", public_rows, 1)
    if dataset is ComparedDataset.ADULT:
        if classes is not None:
            raise InvalidParameterError(
                f"classes={list(classes)!r} is for images, but dataset='adult' has two classes: leave classes out."
            )
        return _adult(public_rows)
    if dataset is ComparedDataset.DIGITS:
        return _digits(load_digit_images(classes=classes), public_rows)
    load = load_mnist if dataset is ComparedDataset.MNIST else load_fashion_mnist
    return _published_images(load(classes=classes, progress=progress), public_rows)


def _most(public_rows: int | None, available: int) -> int:
    """Return how many of the available rows become public."""
    return available if public_rows is None else integer_between("public_rows", public_rows, 1, available)


def _adult(public_rows: int | None) -> ComparisonData:
    first = adult_tables(0)
    n_public = _most(public_rows, len(first.X_public))

    def split(seed: int) -> ComparedRows:
        tables = adult_tables(seed)
        assert tables.X_test is not None  # noqa: S101
        assert tables.y_test is not None  # noqa: S101
        parts = (tables.X_private, tables.X_public[:n_public], tables.X_test)
        return _encoded(parts, tables.y_private.to_numpy(), tables.y_test.to_numpy(), tables.entries)

    return ComparisonData(name=first.name, classes=first.classes, split=split, how=_THIRDS)


def _encoded(
    parts: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
    y_private: NDArray[Any],
    y_test: NDArray[Any],
    entries: EntryRules,
) -> ComparedRows:
    """Return rows as tables and, encoded by public rows only, as numbers."""
    private, public, test = parts
    with as_options():
        encoder = TableEncoder("median", **entries.settings()).fit(public)
    preparation = TablePreparation(**entries.settings()).fit(public)
    prepared = parts if preparation.changes_nothing else tuple(preparation.transform(part) for part in parts)
    return ComparedRows(
        X_private=encoder.transform(private),
        y_private=y_private,
        X_public=encoder.transform(public),
        X_test=encoder.transform(test),
        y_test=y_test,
        tables=prepared,  # type: ignore[arg-type]
    )


def table_data(
    path: Path,
    target: str,
    public_rows: int | None = None,
    *,
    sep: str | None = None,
    decimal: str | None = None,
    multiline_text: bool = False,
    skip_lines: int | None = None,
    sheet: str | None = None,
    entries: EntryRules | None = None,
) -> ComparisonData:
    """Return the user's public table, in which every row has a label, as data for a comparison.

    `entries` states how entries are read, as in a run.

    The figures of a comparison are exact, so every row must be public. A third of all rows counts as public by default
    and at most.
    """
    entries = replace(EntryRules() if entries is None else entries, decimal=decimal)
    table = read_table(
        path,
        guess=True,
        sep=sep,
        decimal=decimal,
        multiline_text=multiline_text,
        skip_lines=skip_lines,
        sheet=sheet,
        written=list(entries.columns),
    )
    if target not in table:
        raise InvalidParameterError(f"target must be a column of {path} ({', '.join(table.columns)}); got {target!r}.")
    if target in entries.columns:
        raise InvalidParameterError(
            f"column={target!r} is the target, whose labels are read as they are written: leave it out.",
            parameter="column",
        )
    labels = table.pop(target)
    with as_options():
        entries.require_columns(list(table.columns))
    table = table.drop(columns=entries.dropped)
    if labels.isna().any() or not table.shape[1]:
        what = "rows without a label" if labels.isna().any() else "no column beside the target"
        raise DataError(f"{path} has {what}: give every row features and a label.")
    if len(table) < _FEWEST_ROWS or labels.nunique() < 2:
        raise DataError(
            f"{path} has {len(table):,} rows and {labels.nunique():,} labels: give at least {_FEWEST_ROWS} rows and 2 "
            "labels."
        )
    require_complete(str(path), table, blanks=True)
    X, y = as_kinds("given", table, list(table.columns[number_columns(table)])), as_text(labels).to_numpy()
    n_public = _most(public_rows, len(three_way_split(len(X), 0).public))

    def split(seed: int) -> ComparedRows:
        rows = three_way_split(len(X), seed)
        places = (rows.private, rows.public[:n_public], rows.test)
        private, public, test = (X.iloc[one].reset_index(drop=True) for one in places)
        return _encoded((private, public, test), y[rows.private], y[rows.test], entries)

    return ComparisonData(name=path.name, classes=sorted(set(y)), split=split, how=_THIRDS)


def _digits(images: ImageDataset, public_rows: int | None) -> ComparisonData:
    X = images.scaled(np.concatenate([images.X_train, images.X_test]))
    y = np.concatenate([images.y_train, images.y_test])
    n_public = _most(public_rows, len(three_way_split(len(X), 0).public))

    def split(seed: int) -> ComparedRows:
        parts = three_way_split(len(X), seed)
        return ComparedRows(
            X_private=X[parts.private],
            y_private=y[parts.private],
            X_public=X[parts.public[:n_public]],
            X_test=X[parts.test],
            y_test=y[parts.test],
        )

    return ComparisonData(
        name=images.name, classes=images.classes, split=split, how=_THIRDS, image_shape=images.image_shape
    )


def _published_images(images: ImageDataset, public_rows: int | None) -> ComparisonData:
    available = len(images.X_test) - 1
    n_public = _most(min(_PUBLIC_IMAGES, available) if public_rows is None else public_rows, available)
    test = images.scaled(images.X_test)
    rows = ComparedRows(
        X_private=images.scaled(images.X_train),
        y_private=images.y_train,
        X_public=test[:n_public],
        X_test=test[n_public:],
        y_test=images.y_test[n_public:],
    )
    return ComparisonData(
        name=images.name,
        classes=images.classes,
        split=lambda _seed: rows,
        how="the first published test images are public, the others are for testing, in every repeat",
        image_shape=images.image_shape,
    )


_THIRDS = "random thirds, different in every repeat"

_LINEAR, _NETWORK = "logistic-regression", "cnn"
_COMPARED_LEARNERS = (*LEARNERS, _NETWORK)

# DP-SGD: chosen once for all budgets, by accuracy on test rows of Adult and of MNIST's digits 3 and 8. This choice
# favours DP-SGD there, because other methods keep their defaults.
_BATCHES_AN_EPOCH = 20
_OF_DP_SGD: dict[str, dict[str, Any]] = {
    _LINEAR: {"epochs": 10, "optimizer": SGD(1.0)},
    _NETWORK: {"epochs": 10, "optimizer": SGD(2.0)},
}
# Looser than scikit-learn's own tolerance, which would take minutes for the last digit of an accuracy.
_LARGE, _TOLERANCE = 20_000, 1e-3
# A network sees about this many rows, in 3 to 100 passes. It passes more often over small tables.
_ROWS_SEEN, _FEWEST, _MOST = 200_000, 3, 100


@dataclass(frozen=True, eq=False, kw_only=True)
class _ComparedLearner:
    """One base learner by its command-line name. `alone` and `dp_sgd` take the number of training rows."""

    name: str
    alone: Callable[[int], Any]
    # Whether methods have it as their default, with settings that suit noisy labels.
    by_default: bool
    # None for learners without gradients.
    dp_sgd: Callable[[int], DPSGDClassifier] | None
    # Channels, height and width, if rows are images.
    image_shape: tuple[int, int, int] | None = None

    def teacher_and_student(self, n_records: int, n_teachers: int) -> dict[str, Any]:
        """Return teacher and student for a voting method."""
        if self.by_default:
            return {"teacher": None, "student": None}
        each = max(1, n_records // n_teachers)
        return {"teacher": self.alone(each), "student": self.alone(each)}


def _classical(name: str, n_rows: int) -> Any:
    estimator = learner("learner", name)
    return estimator.set_params(tol=_TOLERANCE) if name == _LINEAR and n_rows > _LARGE else estimator


def _network(data: ComparisonData) -> _ComparedLearner:
    shape = data.image_shape
    if shape is None:
        raise InvalidParameterError(
            f"learner={_NETWORK!r} is for images, but the data are {data.name}: use dataset='mnist', 'fashion-mnist' "
            "or 'digits', or learner='logistic-regression'."
        )
    module = bagging_cnn if shape[1:] == (28, 28) else digit_cnn

    def alone(n_rows: int) -> TorchClassifier:
        epochs = min(_MOST, max(_FEWEST, _ROWS_SEEN // n_rows))
        return TorchClassifier(module, input_shape=shape, epochs=epochs)

    return _ComparedLearner(
        name=_NETWORK,
        alone=alone,
        by_default=False,
        dp_sgd=lambda n_rows: _dp_sgd(_NETWORK, module, shape, n_rows),
        image_shape=shape,
    )


def _dp_sgd(name: str, module: Any, shape: tuple[int, int, int] | None, n_rows: int) -> DPSGDClassifier:
    batch_size = -(-n_rows // _BATCHES_AN_EPOCH)
    return DPSGDClassifier(module, input_shape=shape, batch_size=batch_size, **_OF_DP_SGD[name])


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """One repeat's rows, budget and settings. They are the same for every method."""

    rows: ComparedRows
    classes: list[Any]
    learner: _ComparedLearner
    budget: Budget
    relation: Relation
    n_teachers: int
    seed: int
    insecure_release_seed: int | None
    n_jobs: int | None

    @property
    def n_records(self) -> int:
        """Number of private records."""
        return len(self.rows.X_private)

    def seeds(self) -> dict[str, Any]:
        """Return the random-state settings that all methods share."""
        return {"random_state": self.seed, "insecure_release_seed": self.insecure_release_seed}


@dataclass(frozen=True, eq=False, kw_only=True)
class TrialResult:
    """The result of one run of one method. Epsilon and delta are None if it has no guarantee."""

    accuracy: float
    # AUROC for two classes, balanced accuracy for more, and the Brier score if there are probabilities.
    measures: dict[str, float] = field(default_factory=dict)
    epsilon: float | None = None
    delta: float | None = None
    # What the budget bought, by name and as text for people.
    bought: dict[str, Any] = field(default_factory=dict)
    text: str
    released: str | None = None
    # A note if the budget was not the requested one.
    note: str | None = None
