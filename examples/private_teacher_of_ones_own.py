# %% [markdown]
# # A private teacher of one's own
#
# Where teachers are private by themselves, their votes may be used for any number of labels at no further cost. This
# one remembers the mean of each class, with noise, and votes for the nearer one. The library takes its word
# (`announced_privacy`) for what it promises: prove it, as the comments do.

# %%
import random
import warnings

import numpy as np
import pictures
from sklearn.base import BaseEstimator, ClassifierMixin

from dpensemble import PrivateMajorityClassifier
from dpensemble.errors import RepeatedReleaseWarning

_SYSTEM = random.SystemRandom()
_STEPS = 100


def two_sided_geometric(scale):
    """Return a whole number, with a probability that falls by ``exp(-1 / scale)`` a step to either side."""
    stop = 1 - np.exp(-1 / scale)
    first, second = (int(np.floor(np.log(1 - _SYSTEM.random()) / np.log(1 - stop))) for _ in range(2))
    return first - second


class NoisyMeans(ClassifierMixin, BaseEstimator):
    """Sums and numbers of rows of both classes, in hundredths, with noise; the nearer mean wins."""

    def __init__(self, epsilon=1.0, classes=(0, 1)):
        self.epsilon = epsilon
        self.classes = classes

    def announced_privacy(self):
        return self.epsilon, 0.0

    def fit(self, X, y):
        self.classes_ = np.asarray(self.classes)
        whole = np.rint(_STEPS * np.clip(X, -1, 1)).astype(np.int64)
        # Replacing a record moves its d entries out of one sum and others into another, and two numbers by one.
        scale = (2 * _STEPS * whole.shape[1] + 2 * _STEPS) / self.epsilon
        rows = np.hstack([whole, np.full((len(whole), 1), _STEPS)])
        sums = [
            [int(one) + two_sided_geometric(scale) for one in rows[y == label].sum(axis=0)] for label in self.classes
        ]
        self.means_ = np.array([np.array(one[:-1]) / max(one[-1], _STEPS) for one in sums])
        return self

    def predict(self, X):
        distances = ((np.clip(X, -1, 1)[:, None, :] - self.means_) ** 2).sum(axis=2)
        return self.classes_[distances.argmin(axis=1)]


# %%
rng = np.random.default_rng(0)
X = rng.normal(scale=0.5, size=(9000, 4))
y = (X[:, 0] + 0.5 * X[:, 1] + 0.2 * rng.normal(size=len(X)) > 0).astype(int)
private, public, test = slice(0, 6000), slice(6000, 7000), slice(7000, None)

curve = []
warnings.simplefilter("ignore", RepeatedReleaseWarning)  # made-up rows may be used again
for epsilon in (0.05, 0.1, 0.3, 1.0):
    model = PrivateMajorityClassifier(
        NoisyMeans(epsilon=epsilon * 0.999), classes=[0, 1], n_teachers=5, sharing="partition", epsilon=epsilon
    )
    model.fit(X[private], y[private], X_public=X[public])
    curve.append((epsilon, model.score(X[test], y[test])))
    print(f"epsilon {epsilon:g}: {len(model.labels_)} labels, {curve[-1][1]:.3f} right")
print(model.guarantee_)
assert curve[-1][1] > 0.75

# %%
pictures.lines(
    "private-teacher-of-ones-own",
    "Five private teachers, 1,200 records each",
    ("epsilon", "right"),
    {"student": curve},
    {"a guess": 0.5},
)
