"""Saving and loading the publishable classifier without running code from the file.

The format is skops: it rebuilds objects of named types instead of executing a
pickle. Loading refuses every type outside a short list, and checks tree
arrays, which scikit-learn's compiled code would otherwise follow blindly.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.tree import BaseDecisionTree
from skops import io as skops_io

from dpensemble.errors import FileError

# Types beyond skops' own safe list: a fitted tree's arrays, checked after loading.
_VETTED = frozenset({"sklearn.tree._tree.Tree"})


def save_classifier(classifier: Any, path: Path | str) -> None:
    """Write a fitted scikit-learn classifier or pipeline.

    Parameters
    ----------
    classifier : fitted scikit-learn estimator
        Must be built of types that `load_classifier` accepts.
    path : path
        Where to write; by convention ``*.skops``.

    Raises
    ------
    FileError
        If the classifier holds types that could not be loaded safely; nothing is written.
    """
    content = skops_io.dumps(classifier)
    _refuse_unvetted(skops_io.get_untrusted_types(data=content), str(path))
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror}).") from None


def load_classifier(path: Path | str) -> Any:
    """Load a classifier written by `save_classifier`.

    Parameters
    ----------
    path : path
        File to read; it may come from anybody.

    Returns
    -------
    fitted scikit-learn estimator
        Its ``predict`` takes what the classifier was trained on.

    Raises
    ------
    FileError
        If the file cannot be read, holds types that are not on the list, or a broken tree.
    """
    try:
        content = Path(path).read_bytes()
        untrusted = skops_io.get_untrusted_types(data=content)
    except Exception as error:  # a hostile file may fail in any way
        raise FileError(f"{path} cannot be read as a saved classifier ({type(error).__name__}).") from None
    _refuse_unvetted(untrusted, str(path))
    try:
        classifier = skops_io.loads(content, trusted=untrusted)
    except Exception as error:
        raise FileError(f"{path} is damaged ({type(error).__name__}).") from None
    for tree in _trees(classifier):
        _check_tree(tree, str(path))
    return classifier


def _refuse_unvetted(types: list[str], path: str) -> None:
    unvetted = sorted(set(types) - _VETTED)
    if unvetted:
        raise FileError(
            f"{path} needs types that are not vetted for loading ({', '.join(unvetted)}); "
            "use a linear, naive Bayes, decision-tree or random-forest student."
        )


def _trees(value: Any) -> list[Any]:
    """Return all fitted decision trees inside an estimator, its steps and its members."""
    if isinstance(value, BaseDecisionTree):
        # A forest also carries the unfitted template of its trees.
        return [value] if hasattr(value, "tree_") else []
    if isinstance(value, (list, tuple, np.ndarray)):
        return [tree for item in value for tree in _trees(item)]
    if isinstance(value, dict):
        return _trees(list(value.values()))
    if hasattr(value, "get_params"):
        return _trees(list(vars(value).values()))
    return []


def _check_tree(tree: Any, path: str) -> None:
    """Refuse child or feature indices that compiled prediction would follow out of bounds."""
    inner = tree.tree_
    nodes = np.arange(inner.node_count)
    left, right = inner.children_left, inner.children_right
    leaf = (left == -1) & (right == -1)
    inside = (left > nodes) & (right > nodes) & (left < len(nodes)) & (right < len(nodes))
    features = (inner.feature >= 0) & (inner.feature < tree.n_features_in_)
    sound = len(nodes) > 0 and np.all(leaf | (inside & features)) and np.all(np.isfinite(inner.value))
    if not sound or inner.n_features != tree.n_features_in_:
        raise FileError(f"{path} holds a broken decision tree and is refused.")
