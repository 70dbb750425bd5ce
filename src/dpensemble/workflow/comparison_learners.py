"""The base learner of a comparison, in the form that each method requires."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpensemble.errors import InvalidParameterError
from dpensemble.neural import SGD, DPSGDClassifier, TorchClassifier, bagging_cnn, digit_cnn, linear_network
from dpensemble.workflow.comparison_data import ComparisonData
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
