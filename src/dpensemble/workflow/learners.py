"""Base learners that can be named on the command line; from Python any scikit-learn classifier will do."""

from collections.abc import Callable
from typing import Any

from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from dpensemble.errors import InvalidParameterError

#: Every one of these can be saved and loaded without pickle, so each may be a student.
LEARNERS: dict[str, Callable[[], Any]] = {
    "logistic-regression": lambda: LogisticRegression(max_iter=1000),
    "naive-bayes": GaussianNB,
    "decision-tree": lambda: DecisionTreeClassifier(min_samples_leaf=5),
    "random-forest": RandomForestClassifier,
    "gradient-boosting": GradientBoostingClassifier,
}


def learner(parameter: str, name: str) -> Any:
    """Return a new base learner by name.

    Raises
    ------
    InvalidParameterError
        If the name is unknown; the message lists the known ones.
    """
    if name not in LEARNERS:
        raise InvalidParameterError(f"{parameter}={name!r} is unknown; use one of {', '.join(LEARNERS)}.")
    return LEARNERS[name]()
