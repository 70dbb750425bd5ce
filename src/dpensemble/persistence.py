"""Save and load the publishable classifier without running code from the file.

The format is skops. It rebuilds objects of named types instead of executing a
pickle. Only the few estimator classes listed here are written or read. Data that their compiled code would use
without a check (nodes of trees, category counts) are checked, because prediction follows such indices unchecked.

A file of an earlier version names our classes by their paths of then. One exact table has these paths. A path that is
not in the table is refused, also if something is there.

So a file cannot run code. Compiled code still trusts its arrays, so a malicious
file might crash a program that predicts with it.
"""

from __future__ import annotations

import gc
import io
import json
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from sklearn._loss.loss import HalfBinomialLoss, HalfMultinomialLoss
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from dpensemble._files import JSON, LARGEST_JSON, file_bytes, parse_json
from dpensemble._moved import SAVED_CLASSES
from dpensemble.datasets import TableEncoder, TablePreparation
from dpensemble.errors import FileError, InvalidParameterError, NotForReleaseWarning, file_errors
from dpensemble.moments import DirectionsMap, ImageMap, MomentsModel, TableMap
from dpensemble.moments.discriminant import DiscriminantModel
from dpensemble.moments.maps.curved import BesideMap, CurvedDecoder, KernelDirections, Nearness, WhitenedNumbers
from dpensemble.moments.maps.directions import ColumnDirectionsMap
from dpensemble.moments.maps.grid import SnappedMap
from dpensemble.moments.numbers import NumberModel
from dpensemble.moments.survival import SurvivalModel
from dpensemble.student import MARK, NamedPipeline, release_mark, with_names

__all__ = ["load_classifier", "require_savable", "save_classifier"]

# skops lists all estimators of scikit-learn. For that it imports every package of scikit-learn, with adapters of array
# libraries and helpers of its tests. PyTorch takes longer than predicting a file of rows.
_UNUSED = ("pytest", *(f"sklearn.externals.array_api_compat.{library}" for library in ("cupy", "dask", "torch")))


def _skops_io() -> ModuleType:
    """Return ``skops.io``. What it does not need is not imported for it, and garbage is not collected meanwhile."""
    held_back = [] if "skops.io" in sys.modules else [name for name in _UNUSED if name not in sys.modules]
    collects = gc.isenabled()
    gc.disable()
    for name in held_back:
        # Importing it fails from now on, and the search for estimators skips it.
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        from skops import io  # noqa: PLC0415
    finally:
        if collects:
            gc.enable()
        for name in held_back:
            # Another thread may have put the module there meanwhile.
            if sys.modules.get(name, ...) is None:
                del sys.modules[name]
    return io


#: Losses of boosted trees: for two classes, and for more.
_LOSSES = (HalfBinomialLoss, HalfMultinomialLoss)


class _Unvetted(Exception):  # noqa: N818
    """A part of a classifier is not on the list, or not sound."""


def _vet_tree(tree: Any, n_features: int) -> None:
    """Raise for child or feature indices that compiled prediction would follow out of bounds."""
    nodes = np.arange(tree.node_count)
    left, right = tree.children_left, tree.children_right
    leaf = (left == -1) & (right == -1)
    inside = (left > nodes) & (right > nodes) & (left < len(nodes)) & (right < len(nodes))
    features = (tree.feature >= 0) & (tree.feature < n_features)
    if len(nodes) == 0 or tree.n_features != n_features or not np.all(leaf | (inside & features)):
        raise _Unvetted("it holds a broken decision tree")


def _vet_forest(forest: Any) -> None:
    """Raise for a forest with anything but sound trees."""
    trees = forest.estimators_
    if not isinstance(trees, list) or any(type(tree) is not DecisionTreeClassifier for tree in trees):
        raise _Unvetted("it holds a broken forest")
    # A forest passes rows to its trees without checking their width again.
    for tree in trees:
        _vet_tree(tree.tree_, forest.n_features_in_)


def _vet_boosted(model: Any) -> None:
    """Raise for more boosted trees than the sums have columns."""
    trees, n_classes = model.estimators_, len(model.classes_)
    width = 1 if n_classes == 2 else n_classes
    first = model.init_
    if (
        not isinstance(trees, np.ndarray)
        or trees.ndim != 2
        or trees.shape[1] != width
        or (model.n_classes_, model.n_trees_per_iteration_) != (n_classes, width)
        or type(first) is not DummyClassifier
        or len(first.classes_) != n_classes
        or len(first.class_prior_) != n_classes
        or type(model._loss) is not _LOSSES[width > 1]
        or any(type(tree) is not DecisionTreeRegressor for tree in trees.ravel())
    ):
        raise _Unvetted("it holds broken boosted trees")
    for tree in trees.ravel():
        _vet_tree(tree.tree_, model.n_features_in_)
        if (tree.tree_.n_outputs, tree.tree_.max_n_classes) != (1, 1):
            raise _Unvetted("it holds broken boosted trees")


def _vet_histogram_boosted(model: Any) -> None:
    """Raise for nodes of boosted trees on histograms that lead out of bounds, and for trees that split categories."""
    categories = getattr(model, "is_categorical_", None)
    if model._preprocessor is not None or categories is not None or np.any(model._bin_mapper.is_categorical_):
        raise _Unvetted("it holds boosted trees that split categories; encode these first")
    n_classes = len(model.classes_)
    width = 1 if n_classes == 2 else n_classes
    rounds = model._predictors
    if not isinstance(rounds, list) or any(not isinstance(one, list) or len(one) != width for one in rounds):
        raise _Unvetted("it holds broken boosted trees")
    for predictor in (tree for one in rounds for tree in one):
        _vet_nodes(predictor.nodes, model.n_features_in_)


def _vet_nodes(nodes: object, n_features: int) -> None:
    if not isinstance(nodes, np.ndarray) or nodes.ndim != 1 or not len(nodes) or nodes.dtype != PREDICTOR_RECORD_DTYPE:
        raise _Unvetted("it holds broken boosted trees")
    at, leaf = np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
    inside = np.ones(len(nodes), dtype=bool)
    for side in ("left", "right"):
        inside &= (nodes[side] > at) & (nodes[side] < len(nodes))
    features = (nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < n_features)
    if nodes["is_categorical"].any() or not np.all(leaf | (inside & features)):
        raise _Unvetted("it holds broken boosted trees")


_CLASSIFIERS = (
    LogisticRegression,
    GaussianNB,
    DecisionTreeClassifier,
    RandomForestClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    DummyClassifier,
)
# Classes of the parts of boosted trees.
_PARTS = (DecisionTreeRegressor, LabelEncoder, _BinMapper)
_OF_LANDMARKS = (CurvedDecoder, BesideMap, Nearness, WhitenedNumbers, KernelDirections)
_OWN_MAPS = (TableMap, DirectionsMap, ColumnDirectionsMap, SnappedMap, ImageMap, *_OF_LANDMARKS)
_OWN_MODELS = (MomentsModel, DiscriminantModel, NumberModel, SurvivalModel)
_OWN_CLASSES = (NamedPipeline, TableEncoder, TablePreparation, *_OWN_MAPS, *_OWN_MODELS)
_VETTED_CLASSES = (*_CLASSIFIERS, *_PARTS, Pipeline, ColumnTransformer, OneHotEncoder, StandardScaler, *_OWN_CLASSES)
# Not on skops' own list: a fitted tree's arrays, checked after loading, and a list of columns (scikit-learn 1.6).
_VETTED_TYPES = frozenset(
    {
        "sklearn.tree._tree.Tree",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.compose._column_transformer._RemainderColsList",
        *(f"{own.__module__}.{own.__qualname__}" for own in _OWN_CLASSES),
    }
)
# Members of a student, and bytes of all of them once they are unpacked.
_MOST_MEMBERS, _MOST_BYTES = 200_000, 10**9
_SCHEMA = "schema.json"
_BROKEN = "it is broken, or not such a file"
_UNREADABLE = {
    FileNotFoundError: "there is no such file",
    IsADirectoryError: "it is a folder",
    PermissionError: "you have no permission to read it",
}


def save_classifier(classifier: Any, path: Path | str) -> None:
    """Write a fitted scikit-learn classifier or pipeline.

    Parameters
    ----------
    classifier : fitted scikit-learn estimator
        Logistic regression, Gaussian naive Bayes, a decision tree, a random forest, gradient boosting (also on
        histograms) or a constant classifier. Alone, or in a pipeline behind standardisation and one-hot encoding.
    path : path
        Path to write, by convention ``*.skops``.

    Raises
    ------
    FileError
        If the classifier could not be loaded again, or the path cannot be written.
    """
    try:
        _vet(classifier)
        content = _skops_io().dumps(classifier)
    except _Unvetted as problem:
        raise FileError(f"{path} was not written: {problem}.") from None
    with file_errors(lambda reason: f"{path} cannot be written ({reason})."):
        Path(path).write_bytes(content)


def require_savable(estimator: Any) -> None:
    """Raise before anything is spent if `save_classifier` could not write an unfitted student.

    Raises
    ------
    InvalidParameterError
        If the student, or an estimator in it, is not of the vetted classes.
    """
    try:
        _vet(estimator)
    except _Unvetted as problem:
        raise InvalidParameterError(f"student cannot be saved: {problem}.", parameter="student") from None


def load_classifier(path: Path | str) -> Any:
    """Load a classifier written by `save_classifier`. Runs no code from the file.

    Parameters
    ----------
    path : path
        File to read.

    Returns
    -------
    fitted scikit-learn estimator
        Its ``predict`` takes rows like those of the training. Its attribute ``for_release_`` is True for a release,
        False for an experiment with seeded noise, and None if the file does not state it.

    Raises
    ------
    FileError
        If the file cannot be read, contains anything that is not on the list, or has a broken tree or encoder.

    Warns
    -----
    NotForReleaseWarning
        If the noise of the run came from a seed, so that its guarantee does not hold.
    """
    try:
        content = _at_new_paths(file_bytes(path))
        skops = _skops_io()
        types = skops.get_untrusted_types(data=content)
        if not _VETTED_TYPES.issuperset(types):
            raise _Unvetted(f"it holds types that are not vetted ({', '.join(sorted(types))})")
        classifier = skops.loads(content, trusted=types)
        _vet(classifier)
        if isinstance(classifier, Pipeline):
            # Students of earlier versions read columns by position.
            classifier = with_names(classifier)
        mark = release_mark(classifier)
        setattr(classifier, MARK, mark)
    except _Unvetted as problem:
        raise FileError(f"{path} is refused: {problem}.") from None
    except Exception as error:  # a hostile file may fail in any way
        named = error.strerror if isinstance(error, OSError) and error.errno == 0 else None
        reason = named or next((words for kind, words in _UNREADABLE.items() if isinstance(error, kind)), _BROKEN)
        raise FileError(f"{path} cannot be read as a saved classifier ({reason}).") from None
    if mark is False:
        text = f"{path} is NOT FOR RELEASE: the noise of its run came from a seed, with which it can be removed."
        warnings.warn(text, NotForReleaseWarning, stacklevel=2)
    return classifier


def _at_new_paths(content: bytes) -> bytes:
    """Return a file that names each class of ours by its path of today. Other paths stay, and are judged as they are.

    All types are audited afterwards, so an old path permits no more than the new path does.
    """
    description = _small_description(content)
    if not _rename(description):
        return content
    renamed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(renamed, "w") as new:
        for name in old.namelist():
            new.writestr(name, json.dumps(description) if name == _SCHEMA else old.read(name))
    return renamed.getvalue()


def _rename(part: JSON) -> int:
    """Rename the classes in a part of a description that stand in the table of old paths, and return how many."""
    if isinstance(part, list):
        return sum(map(_rename, part))
    if not isinstance(part, dict):
        return 0
    n_renamed = sum(map(_rename, part.values()))
    path = SAVED_CLASSES.get(f"{part.get('__module__')}:{part.get('__class__')}")
    if path is None:
        return n_renamed
    part["__module__"], part["__class__"] = path.split(":")
    return n_renamed + 1


def _small_description(content: bytes) -> JSON:
    """Return the description in a file. Raise for a file that would take much memory. Nothing is unpacked before."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        # No member gives more bytes than its size states.
        sizes = {one.filename: one.file_size for one in members}
        if len(members) > _MOST_MEMBERS or sum(one.file_size for one in members) > _MOST_BYTES:
            raise _Unvetted(f"it holds more than {_MOST_BYTES / 10**6:,.0f} MB or {_MOST_MEMBERS:,} parts")
        if len(sizes) < len(members):
            raise _Unvetted("it holds a part twice")
        if sizes.get(_SCHEMA, 0) > LARGEST_JSON:
            raise _Unvetted("its description is too large")
        # skops reads the description without limits of its own.
        return parse_json(archive.read(_SCHEMA), special_numbers=True)


def _vet(value: object) -> None:
    """Raise for estimators that are not listed, anywhere inside, and for unsound trees and encoders."""
    if isinstance(value, BaseEstimator):
        if type(value) not in _VETTED_CLASSES:
            if hasattr(value, "student_"):
                raise _Unvetted("it is a whole ensemble estimator; save its student_ instead")
            raise _Unvetted(
                f"{type(value).__name__} is not vetted; use a logistic-regression, naive-bayes, "
                "decision-tree, random-forest or gradient-boosting student"
            )
        if not isinstance(vars(value).get(MARK), bool | None):
            raise _Unvetted(f"its {MARK} is neither true nor false")
        _vet_arrays(value)
        _vet(vars(value))
    elif callable(value) and not isinstance(value, type) and type(value) not in _LOSSES:
        raise _Unvetted("it holds a function")
    elif isinstance(value, dict):
        for item in value.values():
            _vet(item)
    elif isinstance(value, (list, tuple, set, frozenset)) or (isinstance(value, np.ndarray) and value.dtype == object):
        for item in np.ravel(value) if isinstance(value, np.ndarray) else value:
            _vet(item)


def _vet_arrays(estimator: object) -> None:
    for kind, fitted, vet in _FITTED:
        if isinstance(estimator, kind) and hasattr(estimator, fitted):
            vet(estimator)


def _vet_names(student: NamedPipeline) -> None:
    for names in (student.names or [], student.needed or []):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise _Unvetted("it holds broken names of columns")


def _vet_table_map(table_map: TableMap) -> None:
    """Raise for places of features that a sparse product would follow out of bounds."""
    start = 0
    for column in table_map.columns_:
        own = [len(one) for one in column["knots"]] if "knots" in column else [len(column["categories"]) + 1]
        if list(column["sizes"]) != own or column["start"] != start:
            raise _Unvetted("it holds a broken feature map")
        start += sum(own) + 1
    if table_map.n_features_out_ != start + 1 or table_map.n_features_in_ != len(table_map.columns_):
        raise _Unvetted("it holds a broken feature map")


def _vet_encoder(encoder: Any) -> None:
    """Raise for categories and counts that would make an encoder write outside its matrix."""
    widths = [len(categories) for categories in encoder.categories_]
    plain = encoder.drop is None and encoder.min_frequency is None and encoder.max_categories is None
    grouped = getattr(encoder, "_infrequent_enabled", False) or getattr(encoder, "drop_idx_", None) is not None
    # Numbers are looked up by bisection, so they must be sorted. Texts are looked up one by one.
    ordered = all(
        np.ndim(values) == 1 and (values.dtype == object or np.all(values[1:] > values[:-1]))
        for values in encoder.categories_
    )
    if not plain or grouped or not ordered or list(encoder._n_features_outs) != widths:
        raise _Unvetted("it holds a broken one-hot encoder")


# Estimators whose arrays a file could make unsound, with the attribute that a fitted one has.
_FITTED: tuple[tuple[type, str, Callable[[Any], None]], ...] = (
    (DecisionTreeClassifier, "tree_", lambda model: _vet_tree(model.tree_, model.n_features_in_)),
    (DecisionTreeRegressor, "tree_", lambda model: _vet_tree(model.tree_, model.n_features_in_)),
    (RandomForestClassifier, "estimators_", _vet_forest),
    (GradientBoostingClassifier, "estimators_", _vet_boosted),
    (HistGradientBoostingClassifier, "_predictors", _vet_histogram_boosted),
    (OneHotEncoder, "categories_", _vet_encoder),
    (TableMap, "columns_", _vet_table_map),
    (NamedPipeline, "__class__", _vet_names),
)
