"""Train the student on public rows and released labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import has_fit_parameter

# Variance of averages of probabilities that a linear student cannot learn, and the weakest penalty on a student.
_MISFIT, _LARGEST_C = 0.01, 10.0


def default_student() -> LogisticRegression:
    """Return the student that methods train unless another is given."""
    # Penalised ten times as strongly as by default, since labels are few and often wrong: on public census data this
    # gains 2 to 5 points of accuracy and more of AUROC.
    return LogisticRegression(C=0.1, max_iter=1000)


def fit_student(estimator: Any, X: NDArray[np.float64], labels: NDArray[Any], seed: int) -> Any:
    """Fit a clone of `estimator` on public rows and their released labels, or a constant if all labels agree."""
    if np.all(labels == labels[0]):
        return DummyClassifier(strategy="constant", constant=labels[:1]).fit(X, labels)
    return seeded(estimator, seed).fit(X, labels)


def fit_soft_student(
    estimator: Any,
    X: NDArray[np.float64],
    averages: NDArray[np.float64],
    classes: NDArray[Any],
    seed: int,
    *,
    spread: float = 0.0,
) -> Any:
    """Fit a student to released averages of probabilities. The default is logistic regression, its penalty by evidence.

    The logistic loss is linear in the learned probabilities, and convex for all values of a row that sum to 1.
    So averages that noise has driven below 0 or above 1 are learned unchanged, without the bias of
    cutting them. Other students get weights of at least 0, or labels if they take no weights.
    """
    if estimator is None:
        model = LogisticRegression(C=_penalty(X, averages, spread), max_iter=1000)
        return _on_averages(model, X, averages, classes)
    fresh = seeded(estimator, seed)
    if not has_fit_parameter(fresh, "sample_weight"):
        return fit_student(estimator, X, classes[averages.argmax(axis=1)], seed)
    shares = averages.clip(0.0, None)
    return _on_averages(fresh, X, shares / shares.sum(axis=1, keepdims=True), classes)


def _on_averages(estimator: Any, X: NDArray[np.float64], averages: NDArray[np.float64], classes: NDArray[Any]) -> Any:
    """Fit to every row once for each class, weighted by the averages."""
    n_rows, n_classes = averages.shape
    rows = np.repeat(np.arange(n_rows), n_classes)
    return estimator.fit(X[rows], np.tile(classes, n_rows), sample_weight=averages.ravel())


def _penalty(X: NDArray[np.float64], averages: NDArray[np.float64], spread: float) -> float:
    r"""Return scikit-learn's ``C`` for averages with noise of this spread: that of the prior with the largest evidence.

    Near even chances, the loss of ``K`` classes is ``w.S w / (2 K) - g.w`` for each class, up to a constant. Here ``S``
    is the features' covariance, and ``g`` is the mean of features times averages. Noise on ``g`` has the covariance
    ``spread**2 S / n``, so the loss is a log-likelihood times ``K spread**2 / n``. With a prior ``w ~ N(0,
    tau**2)``, the most likely ``w`` is that of ``C = tau**2 / (K spread**2)``. In the principal directions of the
    features, of variance ``s``, ``g`` has the variance ``(s tau / K)**2 + spread**2 s / n``, which determines ``tau``.
    Two classes have one vector, twice that of a class, so ``K`` is 4.
    """
    n_rows, n_classes = averages.shape
    factor = 4.0 if n_classes == 2 else float(n_classes)
    noise = spread**2 + _MISFIT
    centred = X - X.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred.T @ centred / n_rows, hermitian=True)
    positive = sizes > 1e-9 * max(sizes[0], 1e-300)
    if not positive.any():
        return _LARGEST_C
    targets = (averages[:, 1:] if n_classes == 2 else averages) - 1 / n_classes
    g = directions[positive] @ (centred.T @ targets) / n_rows
    taus = np.geomspace(1e-3, 1e2, 61)
    variances = (sizes[positive, None] * taus / factor) ** 2 + noise / n_rows * sizes[positive, None]
    evidence = -(g.shape[1] * np.log(variances) + (g**2).sum(axis=1)[:, None] / variances).sum(axis=0)
    return float(np.clip(taus[evidence.argmax()] ** 2 / (factor * noise), 1e-6, _LARGEST_C))


def seeded(estimator: Any, seed: int) -> Any:
    """Return a clone in which this seed fills all seeds that are not set."""
    fresh = clone(estimator)
    unseeded = [
        name for name, value in fresh.get_params().items() if name.split("__")[-1] == "random_state" and value is None
    ]
    return fresh.set_params(**dict.fromkeys(unseeded, seed))


def class_probabilities(student: Any, X: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the student's probabilities with one column for each declared class."""
    # Classes without a released label have probability 0.
    probabilities = np.zeros((len(X), len(classes)))
    probabilities[:, np.searchsorted(classes, student.classes_)] = student.predict_proba(X)
    return probabilities


@dataclass(frozen=True, eq=False)
class Learner:
    """Fits students to released labels of public rows, and predicts public rows with them."""

    estimator: Any
    rows: NDArray[np.float64]
    classes: NDArray[Any]
    seed: int

    def fit(self, indices: NDArray[np.int64], class_ids: NDArray[np.int64]) -> Any:
        """Return a student of these rows' labels."""
        return fit_student(self.estimator, self.rows[indices], self.classes[class_ids], self.seed)

    def probabilities(self, student: Any, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return a student's class probabilities of some public rows."""
        return class_probabilities(student, self.rows[indices], self.classes)
