"""A PyTorch network as a scikit-learn classifier, which may start from a network that was trained on public data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._checks import member, names_checked
from dpensemble._entries import read_rows, require_labels, require_rows
from dpensemble._random import public_entropy
from dpensemble.datasets.frames import ScoresGivenLabels, takes_any_frame
from dpensemble.errors import DataError, InvalidParameterError, TeacherError
from dpensemble.neural._torch import Device, Module, Tensor, one_thread, require_torch
from dpensemble.neural.blocks import StackedTeachers
from dpensemble.neural.networks import hidden_layer_network
from dpensemble.neural.training import Adam, Optimizer, Schedule, Training

# Trains a network in place on its rows and class ids, and returns whether its numbers are still finite.
_Train = Callable[[Training, Module, Tensor, NDArray[np.int64], Schedule], bool]


class _LastLayer(StrEnum):
    """How to treat the start's last layer."""

    AUTO = "auto"
    KEEP = "keep"
    NEW = "new"


def _checked_start(start: object, last_layer: str) -> None:
    """Refuse a start that is not a fitted TorchClassifier, and unknown settings."""
    member("last_layer", last_layer, _LastLayer)
    if start is not None and not (hasattr(start, "state_") and hasattr(start, "fitted_module")):
        raise InvalidParameterError(
            f"start={type(start).__name__} must be a fitted TorchClassifier: fit it on public data first."
        )


def _begin_from(module: Module, start: Any, n_classes: int, last_layer: _LastLayer) -> None:
    """Copy a fitted network's numbers into a new one where names and shapes agree, and refuse if none do."""
    torch = require_torch()
    same_classes = n_classes == len(start.classes_)
    if last_layer is _LastLayer.KEEP and not same_classes:
        raise InvalidParameterError(
            f"last_layer='keep' needs a start of {n_classes} classes, not {len(start.classes_)}: use 'auto'."
        )
    target = module.state_dict()
    # Names are in order of layers, and the names within a layer share all but their last part.
    last = list(target)[-1].rpartition(".")[0]
    keep_last = same_classes and last_layer is not _LastLayer.NEW
    copied = [
        name
        for name, value in target.items()
        if (keep_last or name.rpartition(".")[0] != last)
        and name in start.state_
        and tuple(start.state_[name].shape) == tuple(value.shape)
    ]
    if not copied:
        raise InvalidParameterError(
            "start shares no layer with module: give a start of the same module and input_shape."
        )
    with torch.no_grad():
        for name in copied:
            target[name].copy_(torch.as_tensor(start.state_[name]))


@dataclass(repr=False, eq=False)
class TorchClassifier(ScoresGivenLabels, ClassifierMixin, BaseEstimator):
    """A classifier that trains a PyTorch network by mini-batches. Needs the extra ``dpensemble[torch]``.

    As teachers, many networks are trained at once. A fit depends on the rows, the labels, the settings and
    `random_state` only. No global generator is read or changed.

    Parameters
    ----------
    module : callable, default `hidden_layer_network`
        Called with (input_shape, n_classes), under the classifier's own seed. Returns a ``torch.nn.Module`` that
        turns rows of shape (n_rows, *input_shape) into logits of shape (n_rows, n_classes).
    input_shape : sequence of int or None
        Shape that each row is given, such as (1, 28, 28). None leaves rows as they are.
    classes : sequence or None
        All labels, if `y` may lack some. None takes those in `y`. A teacher receives the declared labels.
    epochs : int
        Passes over the rows, at least 1.
    batch_size : int
        Most rows in a step. Rows are divided evenly.
    optimizer : Adam, SGD or None
        The optimizer with its learning rate. None takes ``Adam()``.
    augmentation : ImageAugmentation or None
        Random moves of training images.
    start : fitted TorchClassifier or None
        A network trained on public data. Its parameters are copied where name and shape agree. Use the same `module`.
    last_layer : {"auto", "keep", "new"}
        Whether the start's last layer is copied too. "auto" copies it if the numbers of classes agree.
    precision : {"float32", "bfloat16"}
        Precision of the factors of matrix products in training.
    device : str
        "auto" (CUDA if present), "cpu", "cuda" or "cuda:1".
    random_state : int, RandomState or None
        Seed of start values, order and moves.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    n_features_in_ : int
        Number of columns.
    input_shape_ : tuple of int
        Shape of a row.
    state_ : dict of str to ndarray
        The network's parameters and buffers. As private as the rows.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, or PyTorch is missing.
    DataError
        If rows do not fill `input_shape`, or `y` holds undeclared labels.
    TeacherError
        If training diverges.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]
    >>> TorchClassifier(optimizer=Adam(0.05), random_state=0).fit(X, y).predict([[3.0]])  # doctest: +SKIP
    array(['high'], dtype='<U4')
    """

    default_optimizer: ClassVar[Optimizer] = Adam()

    module: Callable[[Sequence[int], int], Any] = hidden_layer_network
    _: KW_ONLY
    input_shape: Sequence[int] | None = None
    classes: Sequence[Any] | None = None
    epochs: int = 30
    batch_size: int = 32
    optimizer: Optimizer | None = None
    augmentation: Any = None
    start: Any = None
    last_layer: str = "auto"
    precision: str = "float32"
    device: str = "auto"
    random_state: Any = None

    @takes_any_frame
    def fit(self, X: Any, y: Any) -> TorchClassifier:
        """Train the network from its start values.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Finite numbers.
        y : array-like of shape (n_rows,)
            Labels.
        """
        require_torch()
        X, y = self._checked(X, y)
        check_classification_targets(y)
        return self._fit(X, y)

    @takes_any_frame
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return each row's probabilities of the classes, shape (n_rows, n_classes)."""
        check_is_fitted(self)
        torch = require_torch()
        require_rows("X", X)
        with names_checked():
            X = read_rows("X", lambda: validate_data(self, X, dtype=np.float32, reset=False))
        device = Device.of(self.device)
        module, size = device.laid_out(self.fitted_module().to(device.name)), device.rows_at_once
        with torch.no_grad():
            logits = [
                module(self._rows(X[start : start + size], device)).double().softmax(dim=1).cpu().numpy()
                for start in range(0, len(X), size)
            ]
        return np.concatenate(logits)

    @takes_any_frame
    def predict(self, X: Any) -> NDArray[Any]:
        """Return each row's label, shape (n_rows,)."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def fitted_module(self) -> Module:
        """Return a new ``torch.nn.Module`` with the fitted numbers, on the CPU and set to predict."""
        check_is_fitted(self)
        torch = require_torch()
        with Device("cpu").seeded(0):
            module = self.module(self.input_shape_, len(self.classes_))
        module.load_state_dict({name: torch.as_tensor(value) for name, value in self.state_.items()})
        return module.eval()

    def fit_together(
        self,
        X: NDArray[np.float64],
        y: NDArray[np.int64],
        shards: Sequence[NDArray[np.int64]],
        *,
        classes: NDArray[Any],
        constant_votes: NDArray[np.int64],
        seeds: Sequence[int],
        n_jobs: int | None = None,
        on_done: Callable[[int], None] = lambda _: None,
    ) -> StackedTeachers:
        """Train one clone on each shard, many at a time.

        Up to rounding, teacher ``t`` is this classifier with ``classes=classes, random_state=seeds[t]`` fitted on its
        shard. Networks that cannot be stacked are trained one by one. `stacking_obstacle` returns the reason.

        `y` are class ids. `constant_votes` is -1 for a teacher to fit, and otherwise the class id that it always votes
        for. Rows, `y` and constant votes are private, seeds are public. Each worker uses one thread, and `on_done` is
        called with the size of each finished block.
        """
        return StackedTeachers.fit(
            self,
            X,
            y,
            shards,
            classes=classes,
            constant_votes=constant_votes,
            seeds=seeds,
            n_jobs=n_jobs,
            on_done=on_done,
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings. The settings of `start` are not included, for either value of `deep`."""
        return {k: v for k, v in super().get_params(deep=deep).items() if not k.startswith("start__")}

    def __sklearn_clone__(self) -> TorchClassifier:
        # scikit-learn's usual clone would remove the start's fit.
        settings = self.get_params(deep=False)
        return type(self)(**settings | {"optimizer": clone(self.optimizer, safe=False)})

    def _checked(self, X: Any, y: Any) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Return rows and labels as arrays without missing or infinite entries."""
        require_rows("X", X)
        require_labels(y)
        return read_rows("X", lambda: validate_data(self, X, y, dtype=np.float32))

    def _fit(self, X: NDArray[np.float32], y: NDArray[Any], how: _Train = Training.train) -> Self:
        """Train on checked rows."""
        self.classes_, targets = self._class_ids(y)
        self._prepare(X.shape[1])
        training = Training.of(self, self.input_shape_)
        state, finite = self._trained(X, targets, public_entropy(self.random_state), training, how)
        if not finite:
            raise TeacherError(
                f"learning_rate={training.optimizer.learning_rate!r} made the training diverge: lower it or "
                "scale the columns."
            )
        self.state_ = state
        return self

    def _trained(
        self,
        X: NDArray[np.float32],
        targets: NDArray[np.int64],
        entropy: int,
        training: Training,
        how: _Train = Training.train,
    ) -> tuple[dict[str, NDArray[Any]], bool]:
        """Return the numbers of a new network trained alone, and whether they are finite."""
        schedule = Schedule(entropy, len(X), training)
        device = Device.of(self.device)
        # More threads help large networks only, and cost much on a busy machine.
        with device.seeded(schedule.torch_seed), one_thread():
            module = self._new_module().to(device.name)
            finite = how(training, module, self._rows(X, device), targets, schedule)
        return {name: value.cpu().numpy().copy() for name, value in module.state_dict().items()}, finite

    def _class_ids(self, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        if self.classes is None:
            labels, targets = np.unique(y, return_inverse=True)
            return labels, targets
        classes = np.unique(np.asarray(self.classes))
        targets = np.searchsorted(classes, y).clip(max=len(classes) - 1)
        if np.any(classes[targets] != y):
            raise DataError("y must hold labels that classes declares: declare every label.")
        return classes, targets

    def _prepare(self, n_features: int) -> None:
        """Check all that depends on the shape of rows and the start."""
        if not callable(self.module):
            raise InvalidParameterError(
                f"module={self.module!r} must be callable: give a function of (input_shape, n_classes)."
            )
        shape = (n_features,) if self.input_shape is None else tuple(int(size) for size in self.input_shape)
        n_entries = int(np.prod(shape))
        if n_features != n_entries or min(shape, default=0) < 1:
            raise DataError(f"X has {n_features} columns, but input_shape={shape} takes {n_entries}: make them agree.")
        _checked_start(self.start, self.last_layer)
        self.input_shape_ = shape

    def _new_module(self) -> Module:
        """Return an untrained network. The caller has seeded PyTorch."""
        module = self.module(self.input_shape_, len(self.classes_))
        if not isinstance(module, require_torch().nn.Module):
            raise InvalidParameterError(
                f"module must return a torch.nn.Module, the network; got {type(module).__name__}."
            )
        if self.start is not None:
            _begin_from(module, self.start, len(self.classes_), _LastLayer(self.last_layer))
        return module

    def _rows(self, X: NDArray[np.float32], device: Device) -> Tensor:
        torch = require_torch()
        return torch.as_tensor(np.ascontiguousarray(X), device=device.name).view(-1, *self.input_shape_)
