"""Base learners that the command line can name, and how good a classifier is on test rows.

In Python, any scikit-learn classifier can be used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from dpensemble.errors import InvalidParameterError

LEARNERS: dict[str, Callable[[], Any]] = {
    "logistic-regression": lambda: LogisticRegression(max_iter=1000),
    "naive-bayes": GaussianNB,
    "decision-tree": lambda: DecisionTreeClassifier(min_samples_leaf=5),
    "random-forest": RandomForestClassifier,
    "gradient-boosting": GradientBoostingClassifier,
}

#: Learners that can be saved and loaded without running code from the file.
STUDENTS = tuple(LEARNERS)


def learner(parameter: str, name: str) -> Any:
    """Return a new base learner by name. A student must be one that can be saved."""
    names = STUDENTS if parameter == "student" else tuple(LEARNERS)
    if name not in names:
        raise InvalidParameterError(f"{parameter}={name!r} is unknown: use one of {', '.join(names)}.")
    return LEARNERS[name]()


def scores(probabilities: NDArray[np.float64], truth: NDArray[Any], classes: NDArray[Any]) -> dict[str, float]:
    """Return accuracy, areas under the ROC and the precision-recall curve, and the Brier score."""
    # Of two classes, the second is positive. Of more, each class with both kinds of rows counts against the rest.
    metrics = {"accuracy": float(np.mean(classes[np.argmax(probabilities, axis=1)] == truth))}
    columns = range(1, 2) if len(classes) == 2 else range(len(classes))
    mixed = [c for c in columns if 0 < np.count_nonzero(truth == classes[c]) < len(truth)]
    if mixed:
        positive = {c: truth == classes[c] for c in mixed}
        metrics["auroc"] = float(np.mean([roc_auc_score(positive[c], probabilities[:, c]) for c in mixed]))
        metrics["auprc"] = float(np.mean([average_precision_score(positive[c], probabilities[:, c]) for c in mixed]))
    # Mean squared error of the probabilities: 0 is best. For two classes, that of one class.
    errors = (probabilities - (truth[:, None] == classes)) ** 2
    metrics["brier"] = float(np.mean(errors.sum(axis=1))) / (2 if len(classes) == 2 else 1)
    return metrics
