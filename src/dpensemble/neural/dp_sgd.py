"""DP-SGD as a classifier: a network whose training is private by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._arrays import Integers
from dpensemble._checks import delta_of, member, real_between
from dpensemble._class_names import declared_classes
from dpensemble._guard import guard_private_rows
from dpensemble._random import noise_source
from dpensemble._refusals import require_labels, require_rows
from dpensemble._rounding import round_up
from dpensemble.budget import Budget
from dpensemble.datasets.frames import reads_frames
from dpensemble.errors import DataError
from dpensemble.guarantee import Guarantee
from dpensemble.neural._torch import Module, Tensor, require_torch
from dpensemble.neural.classifier import TorchClassifier, checked_training_rows
from dpensemble.neural.dp_sgd_accounting import NAMES, Accountant, NoisySteps, finest_waste, least_noise, require_opacus
from dpensemble.neural.dp_sgd_training import PrivateTraining, require_bounded, train_privately
from dpensemble.neural.networks import hidden_layer_network
from dpensemble.neural.optimizers import SGD, Optimizer
from dpensemble.neural.schedule import Schedule, Training
from dpensemble.relations import Basis, Relation
from dpensemble.rows.bad_records import BAD, as_numbers, class_ids_or_bad, readable_array, zeroes_bad


class DPSGDClassifier(TorchClassifier):
    """A network trained by DP-SGD, so that the model may be published. Needs the extra ``dpensemble[opacus]``.

    Every record is in every step with the same probability (Poisson sampling). Its gradient is shortened to
    `clip` and Gaussian noise is added to the sum. The noise is the least that keeps the training within the budget, and
    is computed before any record is touched. There are neither teachers nor public rows.

    Parameters
    ----------
    module : callable, default `hidden_layer_network`
        Called with (input_shape, n_classes). Returns a ``torch.nn.Module``. A row's logits must depend on that
        row alone. Batch normalisation is refused. You must check your own layers yourself.
    input_shape : sequence of int or None
        Shape that each row is given, such as (1, 28, 28). None leaves rows as they are.
    classes : sequence
        All possible labels. You must declare them, because taking them from private labels would leak.
    epsilon, delta : float
        Budget of one fit, for one record added or removed. Epsilon from 0.001 to 1000.
    clip : float, default=1.0
        Length to which each record's gradient is shortened.
    accountant : {"prv", "rdp"}, default="prv"
        Accountant of Opacus: privacy loss random variables, or Renyi differential privacy, which requires more noise.
    epochs : int
        Expected passes over the records.
    batch_size : int
        Expected number of records in a step.
    optimizer : Adam, SGD or None
        The optimizer with its learning rate. None takes ``SGD(0.5)``.
    start, last_layer
        A network trained on public data to start from, as for `TorchClassifier`.
    device : str
        "auto" (CUDA if present), "cpu", "cuda" or "cuda:1".
    random_state : int, RandomState or None
        Public seed of start values only.
    insecure_release_seed : int, optional
        Seeds samples and noise for a repeatable experiment and marks the guarantee "not for release".
    on_bad_record : {"raise", "zero"}, default="raise"
        Whether to refuse a record with an entry that is not a finite number, or with an undeclared label, or to set its
        gradient to zero. Such a record still counts among the records.

    Attributes
    ----------
    guarantee_ : Guarantee
        The guarantee. It warns if delta is not below one over the number of records.
    noise_multiplier_ : float
        Standard deviation of the noise over `clip`. Public.
    classes_ : ndarray of shape (n_classes,)
        Declared labels, sorted.
    n_features_in_ : int
        Number of columns.
    input_shape_ : tuple of int
        Shape of a row.
    state_ : dict of str to ndarray
        The network's parameters and buffers. May be published.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, the network mixes records, or PyTorch or Opacus is missing.
    BudgetError
        If no noise keeps within the budget.
    DataError
        If rows do not fill `input_shape`, or `y` holds undeclared labels.
    TeacherError
        If training diverges.

    Notes
    -----
    Opacus' privacy loss random variables are those of a removed record. That an addition costs no more over many
    steps is the premise of Opacus, and agrees with dp-accounting's bound on both.

    References
    ----------
    M. Abadi et al., "Deep learning with differential privacy", CCS 2016. S. Gopi, Y. T. Lee and L. Wutschitz,
    "Numerical composition of differential privacy", NeurIPS 2021. A. Yousefpour et al., "Opacus", 2021.

    Examples
    --------
    >>> model = DPSGDClassifier(classes=[0, 1], epsilon=1.0, delta=1e-5)
    >>> model.fit(X, y).guarantee_.epsilon <= 1  # doctest: +SKIP
    True
    """

    #: The relation of `privacy_spent_` and `announced_privacy`.
    relation = Relation.ADD_OR_REMOVE_ONE
    # Settings of the base class that have no private form here.
    precision = "float32"
    augmentation = None
    default_optimizer = SGD(0.5)

    def __init__(
        self,
        module: Callable[[Sequence[int], int], Any] = hidden_layer_network,
        *,
        input_shape: Sequence[int] | None = None,
        classes: Sequence[Any] | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        clip: float = 1.0,
        accountant: str = "prv",
        epochs: int = 20,
        batch_size: int = 256,
        optimizer: Optimizer | None = None,
        start: Any = None,
        last_layer: str = "auto",
        device: str = "auto",
        random_state: Any = None,
        insecure_release_seed: int | None = None,
        on_bad_record: str = "raise",
    ) -> None:
        self.module = module
        self.input_shape = input_shape
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.accountant = accountant
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.start = start
        self.last_layer = last_layer
        self.device = device
        self.random_state = random_state
        self.insecure_release_seed = insecure_release_seed
        self.on_bad_record = on_bad_record

    def announced_privacy(self) -> tuple[float, float]:
        """Return the epsilon and delta that no fit exceeds, known before it."""
        return real_between("epsilon", self.epsilon, 1e-3, 1e3), delta_of(self.delta)

    @reads_frames
    @guard_private_rows()
    def fit(self, X: ArrayLike, y: ArrayLike) -> DPSGDClassifier:
        """Train on private records. Every call is a release of its own.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Private records with finite numbers. Scale and encode with public statistics only.
        y : array-like of shape (n_records,)
            Private labels, all among ``classes``.
        """
        # Opacus' extra installs PyTorch too, so the error names that extra.
        require_opacus()
        require_torch()
        epsilon, delta = self.announced_privacy()
        clip = real_between("clip", self.clip, 1e-6, 1e6)
        accountant = member("accountant", self.accountant, Accountant)
        declared_classes(self.classes)
        noise = noise_source(self.insecure_release_seed)
        records, labels, readable = self._records(X, y)
        steps: NoisySteps

        def train(module: Module, rows: Tensor, targets: Integers, schedule: Schedule, training: Training) -> bool:
            nonlocal steps
            require_bounded(module)
            budget, rate = Budget(epsilon=epsilon, delta=delta), 1 / schedule.n_batches
            steps = least_noise(budget, rate, schedule.n_batches * training.epochs, accountant)
            settings = PrivateTraining(training=training, steps=steps, clip=clip)
            return train_privately(module, rows, targets, settings, noise, readable)

        # The public seed is for start values only. The records of each step come from the noise.
        self._fit(records, labels, train)
        self._steps, self.noise_multiplier_ = steps, steps.noise_multiplier
        self.guarantee_ = _guarantee(steps, self.privacy_spent_(delta), delta, noise.for_release, len(records))
        return self

    def _records(
        self, X: ArrayLike, y: ArrayLike
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[np.bool_] | None]:
        """Return rows, labels, and which records are readable, or None if unreadable records are refused."""
        if not zeroes_bad(self):
            return *checked_training_rows(self, X, y), None
        require_rows("X", X, keep_bad=True)
        require_labels(y, keep_bad=True)
        classes = np.unique(np.asarray(self.classes))
        rows: NDArray[np.float32] = validate_data(self, as_numbers(X), dtype=np.float32, ensure_all_finite=False)
        ids = class_ids_or_bad(classes, y)
        if len(ids) != len(rows):
            raise DataError(f"y must have one label for each of the {len(rows)} records of X; got {len(ids)} labels.")
        readable = readable_array(rows, nan=False) & (ids != BAD)
        # The replacement of a bad record is never used, since its loss counts nothing.
        return np.where(readable[:, None], rows, np.float32(0)), classes[np.where(readable, ids, 0)], readable

    def privacy_spent_(self, delta: float) -> float:
        """Return the epsilon of this fit at a delta, for one record added or removed.

        Parameters
        ----------
        delta : float
            Strictly between 0 and 1.
        """
        check_is_fitted(self)
        return self._steps.epsilon(delta_of(delta), finest_waste(self.epsilon))

    @property
    def fit_together(self) -> Any:
        """Not offered, since as teachers these are trained one by one, each with noise of its own."""
        raise AttributeError("fit_together")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        tags.non_deterministic = self.insecure_release_seed is None
        return tags


def _guarantee(steps: NoisySteps, epsilon: float, delta: float, for_release: bool, n_records: int) -> Guarantee:
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        basis=Basis.WORST_CASE,
        relation=Relation.ADD_OR_REMOVE_ONE,
        unit="record",
        accounting=(
            f"DP-SGD: {steps.n_steps:,} steps, a record in each with probability "
            f"{round_up(steps.sample_rate, 4):g}, noise multiplier {steps.noise_multiplier:.4g}; Opacus' "
            f"accountant by {NAMES[steps.accountant]}"
        ),
        assumptions=_ASSUMPTIONS,
        for_release=for_release,
        n_units=n_records,
    )


_ASSUMPTIONS = (
    "Noise and samples come from PyTorch's own generator, which is not a cryptographic one. Its start came from the "
    "operating system.",
    "Noise is in floating point, unlike the exact integers that this library draws elsewhere. The guarantee does not "
    "cover what rounding and the spacing of floating-point numbers reveal.",
    "A row's logits depend on that row alone.",
    "The number of records is public, although a neighbouring data set has one more or one fewer.",
    "Declared classes, settings, the network and what it starts from do not depend on the private records.",
    "The guarantee covers what a run publishes. It does not cover whether the run finished or was refused.",
    "This covers one training run. The losses of further runs on the same records add to it.",
)
