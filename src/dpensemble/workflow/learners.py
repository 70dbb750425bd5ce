"""Base learners that the command line can name. In Python, any scikit-learn classifier can be used."""

from collections.abc import Callable, Iterable
from typing import Any

from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
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


def learner(parameter: str, name: str, names: Iterable[str] = LEARNERS) -> Any:
    """Return a new base learner by name."""
    if name not in names:
        raise InvalidParameterError(f"{parameter}={name!r} is unknown: use one of {', '.join(names)}.")
    return LEARNERS[name]()
