"""Check trees, forests and boosted trees from a file, because compiled prediction follows their indices unchecked."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn._loss.loss import HalfBinomialLoss, HalfMultinomialLoss
from sklearn.dummy import DummyClassifier
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

#: Losses of boosted trees: for two classes, and for more.
LOSSES = (HalfBinomialLoss, HalfMultinomialLoss)


class Unvetted(Exception):  # noqa: N818
    """A part of a classifier is not on the list, or not sound."""


def vet_tree(tree: Any, n_features: int) -> None:
    """Raise for child or feature indices that compiled prediction would follow out of bounds."""
    nodes = np.arange(tree.node_count)
    left, right = tree.children_left, tree.children_right
    leaf = (left == -1) & (right == -1)
    inside = (left > nodes) & (right > nodes) & (left < len(nodes)) & (right < len(nodes))
    features = (tree.feature >= 0) & (tree.feature < n_features)
    if len(nodes) == 0 or tree.n_features != n_features or not np.all(leaf | (inside & features)):
        raise Unvetted("it holds a broken decision tree")


def vet_forest(forest: Any) -> None:
    """Raise for a forest with anything but sound trees."""
    trees = forest.estimators_
    if not isinstance(trees, list) or any(type(tree) is not DecisionTreeClassifier for tree in trees):
        raise Unvetted("it holds a broken forest")
    # A forest passes rows to its trees without checking their width again.
    for tree in trees:
        vet_tree(tree.tree_, forest.n_features_in_)


def vet_boosted(model: Any) -> None:
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
        or type(model._loss) is not LOSSES[width > 1]
        or any(type(tree) is not DecisionTreeRegressor for tree in trees.ravel())
    ):
        raise Unvetted("it holds broken boosted trees")
    for tree in trees.ravel():
        vet_tree(tree.tree_, model.n_features_in_)
        if (tree.tree_.n_outputs, tree.tree_.max_n_classes) != (1, 1):
            raise Unvetted("it holds broken boosted trees")


def vet_histogram_boosted(model: Any) -> None:
    """Raise for nodes of boosted trees on histograms that lead out of bounds, and for trees that split categories."""
    categories = getattr(model, "is_categorical_", None)
    if model._preprocessor is not None or categories is not None or np.any(model._bin_mapper.is_categorical_):
        raise Unvetted("it holds boosted trees that split categories; encode these first")
    n_classes = len(model.classes_)
    width = 1 if n_classes == 2 else n_classes
    rounds = model._predictors
    if not isinstance(rounds, list) or any(not isinstance(one, list) or len(one) != width for one in rounds):
        raise Unvetted("it holds broken boosted trees")
    for predictor in (tree for one in rounds for tree in one):
        _vet_nodes(predictor.nodes, model.n_features_in_)


def _vet_nodes(nodes: object, n_features: int) -> None:
    if not isinstance(nodes, np.ndarray) or nodes.ndim != 1 or not len(nodes) or nodes.dtype != PREDICTOR_RECORD_DTYPE:
        raise Unvetted("it holds broken boosted trees")
    at, leaf = np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
    inside = np.ones(len(nodes), dtype=bool)
    for side in ("left", "right"):
        inside &= (nodes[side] > at) & (nodes[side] < len(nodes))
    features = (nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < n_features)
    if nodes["is_categorical"].any() or not np.all(leaf | (inside & features)):
        raise Unvetted("it holds broken boosted trees")
