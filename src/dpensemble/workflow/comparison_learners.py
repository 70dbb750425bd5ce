"""What one method of a comparison gets and returns, and its base learner in the form that the method requires."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpensemble.budget import Budget
from dpensemble.errors import InvalidParameterError
from dpensemble.neural import SGD, DPSGDClassifier, TorchClassifier, bagging_cnn, digit_cnn, linear_network
from dpensemble.relations import Relation
from dpensemble.workflow.comparison_data import ComparedRows, ComparisonData
from dpensemble.workflow.learners import LEARNERS, learner

LINEAR, NETWORK = "logistic-regression", "cnn"
COMPARED_LEARNERS = (*LEARNERS, NETWORK)

# DP-SGD: chosen once for all budgets, by accuracy on test rows of Adult and of MNIST's digits 3 and 8. This choice
# favours DP-SGD there, because other methods keep their defaults.
_BATCHES_AN_EPOCH = 20
_OF_DP_SGD: dict[str, dict[str, Any]] = {
    LINEAR: {"epochs": 10, "optimizer": SGD(1.0)},
    NETWORK: {"epochs": 10, "optimizer": SGD(2.0)},
}
# Looser than scikit-learn's own tolerance, which would take minutes for the last digit of an accuracy.
_LARGE, _TOLERANCE = 20_000, 1e-3
# A network sees about this many rows, in 3 to 100 passes. It passes more often over small tables.
_ROWS_SEEN, _FEWEST, _MOST = 200_000, 3, 100


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedLearner:
    """One base learner by its command-line name. `alone` and `dp_sgd` take the number of training rows."""

    name: str
    alone: Callable[[int], Any]
    # Whether methods have it as their default, with settings that suit noisy labels.
    by_default: bool
    # None for learners without gradients.
    dp_sgd: Callable[[int], DPSGDClassifier] | None
    # Channels, height and width, if rows are images.
    image_shape: tuple[int, int, int] | None = None

    def teacher_and_student(self, n_records: int, n_teachers: int) -> dict[str, Any]:
        """Return teacher and student for a voting method."""
        if self.by_default:
            return {"teacher": None, "student": None}
        each = max(1, n_records // n_teachers)
        return {"teacher": self.alone(each), "student": self.alone(each)}


def compared_learner(name: str, data: ComparisonData) -> ComparedLearner:
    """Return a base learner by name, one of `COMPARED_LEARNERS`."""
    if name not in COMPARED_LEARNERS:
        raise InvalidParameterError(f"learner={name!r} is unknown: use one of {', '.join(COMPARED_LEARNERS)}.")
    if name == NETWORK:
        return _network(data)
    by_gradients = name == LINEAR
    return ComparedLearner(
        name=name,
        alone=lambda n_rows: _classical(name, n_rows),
        by_default=by_gradients,
        dp_sgd=(lambda n_rows: _dp_sgd(name, linear_network, None, n_rows)) if by_gradients else None,
        image_shape=data.image_shape,
    )


def _classical(name: str, n_rows: int) -> Any:
    estimator = learner("learner", name)
    return estimator.set_params(tol=_TOLERANCE) if name == LINEAR and n_rows > _LARGE else estimator


def _network(data: ComparisonData) -> ComparedLearner:
    shape = data.image_shape
    if shape is None:
        raise InvalidParameterError(
            f"learner={NETWORK!r} is for images, but the data are {data.name}: use dataset='mnist', 'fashion-mnist' or "
            "'digits', or learner='logistic-regression'."
        )
    module = bagging_cnn if shape[1:] == (28, 28) else digit_cnn

    def alone(n_rows: int) -> TorchClassifier:
        epochs = min(_MOST, max(_FEWEST, _ROWS_SEEN // n_rows))
        return TorchClassifier(module, input_shape=shape, epochs=epochs)

    return ComparedLearner(
        name=NETWORK,
        alone=alone,
        by_default=False,
        dp_sgd=lambda n_rows: _dp_sgd(NETWORK, module, shape, n_rows),
        image_shape=shape,
    )


def _dp_sgd(name: str, module: Any, shape: tuple[int, int, int] | None, n_rows: int) -> DPSGDClassifier:
    batch_size = -(-n_rows // _BATCHES_AN_EPOCH)
    return DPSGDClassifier(module, input_shape=shape, batch_size=batch_size, **_OF_DP_SGD[name])


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """One repeat's rows, budget and settings. They are the same for every method."""

    rows: ComparedRows
    classes: list[Any]
    learner: ComparedLearner
    budget: Budget
    relation: Relation
    n_teachers: int
    seed: int
    insecure_release_seed: int | None
    n_jobs: int | None

    @property
    def n_records(self) -> int:
        """Number of private records."""
        return len(self.rows.X_private)

    def seeds(self) -> dict[str, Any]:
        """Return the random-state settings that all methods share."""
        return {"random_state": self.seed, "insecure_release_seed": self.insecure_release_seed}


@dataclass(frozen=True, eq=False, kw_only=True)
class TrialResult:
    """The result of one run of one method. Epsilon and delta are None if it has no guarantee."""

    accuracy: float
    # AUROC for two classes, balanced accuracy for more, and the Brier score if there are probabilities.
    measures: dict[str, float] = field(default_factory=dict)
    epsilon: float | None = None
    delta: float | None = None
    # What the budget bought, by name and as text for people.
    bought: dict[str, Any] = field(default_factory=dict)
    text: str
    released: str | None = None
    # A note if the budget was not the requested one.
    note: str | None = None
