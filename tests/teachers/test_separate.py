"""Teachers of any kind: the labels that they receive, and the messages about failures."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from dpensemble import PATEClassifier
from dpensemble.errors import TeacherError
from dpensemble.laws import GaussianNoisyMax
from dpensemble.teachers.separate import rehearsed

CLASSES = ["high", "low", "middle"]


def boosted(name):
    if name == "xgboost":
        return pytest.importorskip("xgboost").XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1)
    if name == "lightgbm":
        return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=5, min_child_samples=3, n_jobs=1)
    return HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "scikit-learn"])
def test_boosted_trees_learn_labels_that_are_texts(name):
    """Some shards lack a class, which these libraries know only as 0, 1, ... without a gap."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(640, 3))
    y = np.array(CLASSES)[np.digitize(X[:, 0], [-0.2, 1.6])]
    public = rng.normal(size=(30, 3))
    model = PATEClassifier(
        boosted(name), classes=CLASSES, n_teachers=8, law=GaussianNoisyMax(0.5), epsilon=1e6, random_state=0, n_jobs=1
    )
    model.fit(X, y, X_public=public)
    truth = np.array(CLASSES)[np.digitize(public[model.labels_.indices, 0], [-0.2, 1.6])]
    assert set(model.labels_.labels) <= set(CLASSES)
    assert np.mean(model.labels_.labels == truth) > 0.8


class Noting(ClassifierMixin, BaseEstimator):
    """Learns that classes are numbers from 0, and answers the last one."""

    def __init__(self, classes=None):
        self.classes = classes

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        expected = np.arange(len(self.classes_)) if self.classes is None else sorted(set(y))
        if self.classes_.tolist() != list(expected):
            raise ValueError
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[-1])


@pytest.mark.parametrize("told", [None, CLASSES])
def test_a_shard_without_a_class_counts_from_0_unless_all_classes_were_told(told):
    rng = np.random.default_rng(0)
    y = np.array(["high", "middle"])[rng.integers(2, size=400)]
    model = PATEClassifier(
        Noting(told), classes=CLASSES, n_teachers=10, law=GaussianNoisyMax(0.5), epsilon=1e6, n_jobs=1
    )
    model.fit(rng.normal(size=(400, 2)), y, X_public=rng.normal(size=(20, 2)))
    assert set(model.labels_.labels) == {"middle"}


RECORD = "Erika Mustermann"


class Failing(DecisionTreeClassifier):
    """Quotes what it was given, private or made up."""

    def fit(self, X, y, **more):
        raise ValueError(f"cannot learn\nfrom {RECORD if X.max() > 50 else 'these rows'}")


def failing(teacher):
    rng = np.random.default_rng(0)
    X = rng.normal(100, 1, size=(200, 2))
    model = PATEClassifier(teacher, classes=["a", "b"], n_teachers=50, n_jobs=1)
    with pytest.raises(TeacherError) as caught:
        model.fit(X, rng.choice(["a", "b"], 200), X_public=rng.normal(size=(20, 2)))
    return str(caught.value)


def test_a_teacher_that_fails_says_why_on_made_up_rows_alone():
    said = failing(Failing())
    assert said.endswith("Failing.fit raised ValueError; on 200 made-up rows it says: cannot learn from these rows")
    assert RECORD not in said
    assert "The 'max_depth' parameter of DecisionTreeClassifier must be" in failing(
        DecisionTreeClassifier(max_depth=-3)
    )


def test_a_teacher_that_only_lacks_records_is_told_apart():
    class Greedy(KNeighborsClassifier):
        def fit(self, X, y):
            if len(X) < 100:
                raise ValueError
            return super().fit(X, y)

    assert "use fewer teachers" in rehearsed(Greedy(), 2, 2)
