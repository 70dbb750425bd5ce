"""Feature maps of users: each private row separately, and no map that changes itself."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import NMF

from dpensemble import LabelMomentsClassifier
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.moments import BoundedMap
from dpensemble.releases import SumReleaser

RNG = np.random.default_rng(0)
X, PUBLIC = RNG.uniform(size=(40, 5)), RNG.uniform(size=(300, 5))
Y = np.arange(40) % 2
SETTINGS = {"classes": [0, 1], "epsilon": 3.0, "delta": 1e-3, "insecure_release_seed": 0}


@pytest.fixture
def sums(monkeypatch):
    """Exact sums of a run, and the sensitivity that each is charged for."""
    seen, real = [], SumReleaser.charge_and_draw

    def watched(self, query, total, share, *, weight=1.0):
        seen.append((total.astype(float), query.sensitivity(self.relation)))
        return real(self, query, total, share, weight=weight)

    monkeypatch.setattr(SumReleaser, "charge_and_draw", watched)
    return seen


def moved(sums, feature_map):
    """Return by how many sensitivities replacing one record moves the first sum."""
    other = X.copy()
    other[0] = 1e4 * RNG.uniform(size=5)
    found = []
    for rows in (X, other):
        sums.clear()
        LabelMomentsClassifier(feature_map=feature_map, **SETTINGS).fit(rows, Y, X_public=PUBLIC)
        found.append(sums[0])
    (one, sensitivity), (two, _) = found
    return np.linalg.norm(one - two) / sensitivity


class Together(TransformerMixin, BaseEstimator):
    """Divides by the largest entry of all rows that it is given."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X, dtype=float) / np.max(X)


@pytest.mark.parametrize("feature_map", [Together(), NMF(n_components=3, max_iter=30, tol=1e-2, random_state=0)])
@pytest.mark.filterwarnings("ignore:Maximum number of iterations")
def test_a_map_that_reads_rows_together_stays_within_the_sensitivity(sums, feature_map):
    assert moved(sums, feature_map) <= 1


@pytest.mark.filterwarnings("ignore:public rows do not look like")
def test_batches_are_declared(sums):
    """The test above can fail: given together, the rows of others change."""
    assert moved(sums, BoundedMap(Together(), in_batches=True)) > 1


class Counting(TransformerMixin, BaseEstimator):
    """Changes its state with every row, or only when it meets a private one."""

    def __init__(self, above=-1.0):
        self.above = above

    def fit(self, X, y=None):
        self.seen_ = 0
        return self

    def transform(self, X):
        self.seen_ += int((np.asarray(X) > self.above).sum())
        return np.asarray(X, dtype=float)


def test_a_map_that_changes_itself_is_refused():
    with pytest.raises(InvalidParameterError, match="feature_map=Counting changes its own state"):
        LabelMomentsClassifier(feature_map=Counting(), **SETTINGS).fit(X, Y, X_public=PUBLIC)
    rows = X.copy()
    rows[3, 2] = 7.0
    with pytest.raises(DataError, match="feature_map=BoundedMap changes its own state"):
        LabelMomentsClassifier(feature_map=Counting(5.0), **SETTINGS).fit(rows, Y, X_public=PUBLIC)


def test_a_map_that_keeps_its_state_is_taken():
    LabelMomentsClassifier(feature_map=Counting(5.0), **SETTINGS).fit(X, Y, X_public=PUBLIC)
