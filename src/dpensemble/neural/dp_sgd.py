"""DP-SGD as a classifier: a network whose training is itself private, through Opacus.

Accountants of Opacus find the noise that a training needs, and what the training costs. Opacus is an optional extra.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from dpensemble._checks import declared_classes, delta_of, member, real_between, round_up
from dpensemble._entries import Integers, require_labels, require_rows
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._random import NoiseSource, noise_source
from dpensemble.datasets.frames import takes_any_frame
from dpensemble.errors import BudgetError, DataError, InvalidParameterError
from dpensemble.guarantee import Budget, Guarantee
from dpensemble.neural._torch import Module, Tensor, require_torch
from dpensemble.neural.classifier import TorchClassifier
from dpensemble.neural.networks import hidden_layer_network
from dpensemble.neural.training import SGD, Optimizer, Schedule, Training
from dpensemble.relations import Basis, Relation
from dpensemble.rows.arguments import BAD, as_numbers, class_ids_or_bad, readable_array, zeroes_bad

# PyTorch draws floats in steps of this, so a record may be sampled more often than requested by this much.
_STEP_OF_UNIFORM = 2.0**-24
# Most that discretisation may waste: this share of epsilon, or more of a small epsilon, since time grows as 1 over it.
_SHARE_WASTED, _FINEST = 0.02, 1e-4
# Shares of epsilon at which the search aims, and with which it stops.
_AIM, _ENOUGH = 0.997, 0.99
_LEAST_NOISE, _MOST_NOISE, _RESOLUTION = 0.05, 1e6, 1e-4
_MOST_TRIES = 60


class Accountant(StrEnum):
    """The accountant of Opacus."""

    PRV = "prv"
    RDP = "rdp"


_NAMES = {
    Accountant.PRV: "privacy loss random variables (Gopi, Lee and Wutschitz 2021)",
    Accountant.RDP: "Renyi differential privacy (Mironov, Talwar and Zhang 2019)",
}


def _require_opacus() -> Any:
    """Return the module opacus, or raise an error that names the extra that installs it."""
    try:
        with warnings.catch_warnings():
            # Importing Opacus meets deprecations of PyTorch that users here cannot fix.
            warnings.simplefilter("ignore")
            return import_module("opacus")
    except ImportError:
        raise InvalidParameterError(
            'DPSGDClassifier needs Opacus, which is not installed: run pip install "dpensemble[opacus]".'
        ) from None


@dataclass(frozen=True, kw_only=True)
class NoisySteps:
    """Steps of DP-SGD: each record is in each step with one probability, and Gaussian noise is added."""

    sample_rate: float
    n_steps: int
    noise_multiplier: float  # standard deviation over the length to which gradients are clipped
    accountant: Accountant

    def epsilon(self, delta: float, waste: float = 0.01) -> float:
        """Return a bound on epsilon for one record added or removed. With "prv" it is up to `waste` above the exact."""
        accountant = import_module("opacus.accountants").create_accountant(mechanism=self.accountant.value)
        rate = min(1.0, self.sample_rate + _STEP_OF_UNIFORM)
        accountant.history = [(self.noise_multiplier, rate, self.n_steps)]
        options = {"eps_error": waste} if self.accountant is Accountant.PRV else {}
        try:
            with _quiet_accountant():
                epsilon = float(accountant.get_epsilon(delta=delta, **options))
        except (ValueError, RuntimeError, ArithmeticError, MemoryError):
            epsilon = math.nan
        if not math.isfinite(epsilon):
            raise BudgetError(
                f"accountant={self.accountant.value!r} cannot price {self.n_steps} steps at delta={delta:g}: "
                "use the other accountant ('prv' or 'rdp'), or a larger delta."
            )
        # Negative if delta alone is more than enough.
        return max(0.0, epsilon)


@contextmanager
def _quiet_accountant() -> Iterator[None]:
    """Hide Opacus' warnings on the way to a bound that holds nevertheless."""
    with warnings.catch_warnings(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        warnings.filterwarnings("ignore", message="Optimal order is")
        yield


@lru_cache(maxsize=64)
def _least_noise(budget: Budget, sample_rate: float, n_steps: int, accountant: Accountant) -> NoisySteps:
    """Return steps with about the least noise that keeps a budget, for one record added or removed."""

    def steps(noise: float) -> NoisySteps:
        return NoisySteps(sample_rate=sample_rate, n_steps=n_steps, noise_multiplier=noise, accountant=accountant)

    # About right for many steps. Even a single step needs half of it.
    noise = 0.5 + sample_rate * math.sqrt(2 * n_steps * math.log(1 / budget.delta + 1)) / budget.epsilon
    fine = _finest_waste(budget.epsilon)
    if accountant is Accountant.PRV:
        # A coarse bound may exceed the exact one by this much. Without it the bound guides the search.
        coarse = budget.epsilon / 5
        guess = _least(lambda n: steps(n).epsilon(budget.delta, coarse) - coarse + fine, noise, budget.epsilon)
        noise = noise if guess is None else guess
    least = _least(lambda n: steps(n).epsilon(budget.delta, fine), noise, budget.epsilon)
    if least is None:
        raise BudgetError(
            f"epsilon={budget.epsilon:g} is too small for {n_steps} steps of DP-SGD by accountant="
            f"{accountant.value!r}: use fewer epochs, a larger epsilon or delta."
        )
    return steps(least)


def _finest_waste(epsilon: float) -> float:
    """Return by how much discretisation may raise an epsilon of this size. A finer one takes longer."""
    return max(_SHARE_WASTED * epsilon, min(_FINEST, epsilon / 5))


def _least(price: Callable[[float], float], noise: float, target: float) -> float | None:
    """Return a noise whose epsilon is slightly below the target, or None if no noise of a sensible size qualifies."""
    too_little, enough, last = 0.0, math.inf, math.inf
    for _ in range(_MOST_TRIES):
        epsilon = price(noise)
        if epsilon <= target:
            enough = noise
            if epsilon >= _ENOUGH * target or noise <= _LEAST_NOISE:
                return noise
        else:
            too_little = noise
        # Far too little noise, but much more does not help: the accountant has reached its precision.
        stuck = epsilon > 2 * target and epsilon > 0.8 * last
        if stuck or noise > _MOST_NOISE or enough - too_little < _RESOLUTION * enough:
            break
        last = epsilon if epsilon > target else math.inf
        # Epsilon falls about as one over the noise.
        noise *= min(max(epsilon / (_AIM * target), 0.5), 4.0)
        if not too_little < noise < enough:
            noise = (too_little + enough) / 2
    return enough if enough < math.inf else None


# Position of the Mersenne Twister's 624 words in a generator's state in PyTorch: behind a seed and three numbers.
_WORDS, _FIRST_BYTE, _WORD_BYTES = 624, 24, 8


def _require_bounded(module: Module) -> None:
    """Refuse a network in which DP-SGD cannot bound the effect of one record. For example, batch normalisation."""
    _require_opacus()
    validators = import_module("opacus.validators")
    layers = [type(layer).__name__ for layer in module.modules() if not list(layer.children())]
    normalised = [name for name in layers if "BatchNorm" in name]
    if normalised:
        raise InvalidParameterError(
            f"module has {normalised[0]}, which mixes the records of a batch, so that clipping does not bound "
            "the effect of one record: use GroupNorm, or a network without normalisation, such as bagging_cnn."
        )
    errors = validators.ModuleValidator.validate(module.train(), strict=False)
    frozen = not all(parameter.requires_grad for parameter in module.parameters())
    if errors or frozen:
        why = "frozen parameters" if frozen else f"layers that Opacus refuses ({type(errors[0]).__name__})"
        raise InvalidParameterError(f"module has {why}: use plain layers, such as those of bagging_cnn.")


def _own_generators(noise: NoiseSource, device: str) -> tuple[Any, Any]:
    """Return generators of PyTorch for samples (on the CPU) and for noise (on the device)."""
    torch = require_torch()
    # All 19,937 bits of the state come from the source, whereas a seed would give 32. CUDA takes at most 63.
    samples = torch.Generator()
    state = samples.get_state().numpy().copy()
    words = (noise.uniform_bits(_WORDS) & np.uint64(0xFFFFFFFF)).astype("<u8")
    state[_FIRST_BYTE : _FIRST_BYTE + _WORDS * _WORD_BYTES] = words.view(np.uint8)
    samples.set_state(torch.from_numpy(state))
    if device == "cpu":
        return samples, samples
    return samples, torch.Generator(device=device).manual_seed(int(noise.uniform_bits(1)[0]))


@dataclass(frozen=True, eq=False, kw_only=True)
class _PrivateTraining:
    """Public settings of a private training."""

    training: Training
    steps: NoisySteps  # as accounted for
    clip: float  # length to which each record's gradient is shortened


def _train_privately(
    module: Module,
    rows: Tensor,
    targets: NDArray[np.int64],
    settings: _PrivateTraining,
    noise: NoiseSource,
    readable: NDArray[np.bool_] | None = None,
) -> bool:
    """Train a network in place by DP-SGD, and return whether its numbers are still finite.

    The gradient of a record that is not `readable` is zero, and no other record's gradient depends on that.
    """
    torch, opacus = require_torch(), _require_opacus()
    data = torch.utils.data
    ids = torch.as_tensor(targets, device=rows.device)
    counts = None if readable is None else torch.as_tensor(readable, dtype=rows.dtype, device=rows.device)
    samples, gaussian = _own_generators(noise, rows.device.type)
    loader = data.DataLoader(data.TensorDataset(rows, ids), batch_size=settings.training.batch_size, generator=samples)
    with _quiet_engine():
        private, optimizer, loader = opacus.PrivacyEngine(accountant=settings.steps.accountant.value).make_private(
            module=module.train(),
            optimizer=settings.training.optimizer.of(list(module.parameters())),
            data_loader=loader,
            noise_multiplier=settings.steps.noise_multiplier,
            max_grad_norm=settings.clip,
            noise_generator=gaussian,
        )
        for _ in range(settings.training.epochs):
            # The records of a batch at once, whereas the loader would fetch them one by one. The batch may be empty.
            for batch in loader.batch_sampler:
                places = torch.as_tensor(batch, dtype=torch.int64, device=rows.device)
                optimizer.zero_grad()
                _loss(private(rows[places]), ids[places], None if counts is None else counts[places]).backward()
                _zero_broken_gradients(private.parameters())
                optimizer.step()
    private.cleanup()
    return all(bool(value.isfinite().all()) for value in module.state_dict().values())


def _zero_broken_gradients(parameters: Iterable[Any]) -> None:
    """Set the whole gradient of each record to zero if it has an infinite or missing entry, such as by overflow.

    Otherwise one record would decide whether the network stays finite. A gradient of zero is within the clipping.
    """
    samples = [one.grad_sample for one in parameters if getattr(one, "grad_sample", None) is not None]
    if not samples or not len(samples[0]):
        return
    finite = require_torch().stack([one.flatten(1).isfinite().all(dim=1) for one in samples]).all(dim=0)
    if not bool(finite.all()):
        for one in samples:
            one[~finite] = 0


def _loss(logits: Tensor, targets: Tensor, counts: Tensor | None) -> Any:
    """Return the mean loss of a batch. A record of count 0 adds zero and divides like the others."""
    cross_entropy = require_torch().nn.functional.cross_entropy
    if counts is None:
        return cross_entropy(logits, targets)
    return (cross_entropy(logits, targets, reduction="none") * counts).sum() / max(len(targets), 1)


@contextmanager
def _quiet_engine() -> Iterator[None]:
    """Hide expected warnings of Opacus and PyTorch: about a generator that the guarantee describes, and about hooks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Secure RNG turned off")
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        warnings.filterwarnings("ignore", message="Using a non-full backward hook")
        yield


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

    @takes_any_frame
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
        _require_opacus()
        require_torch()
        epsilon, delta = self.announced_privacy()
        clip = real_between("clip", self.clip, 1e-6, 1e6)
        accountant = member("accountant", self.accountant, Accountant)
        declared_classes(self.classes)
        noise = noise_source(self.insecure_release_seed)
        records, labels, readable = self._records(X, y)
        steps: NoisySteps

        def train(training: Training, module: Module, rows: Tensor, targets: Integers, schedule: Schedule) -> bool:
            nonlocal steps
            _require_bounded(module)
            budget, rate = Budget(epsilon=epsilon, delta=delta), 1 / schedule.n_batches
            steps = _least_noise(budget, rate, schedule.n_batches * training.epochs, accountant)
            settings = _PrivateTraining(training=training, steps=steps, clip=clip)
            return _train_privately(module, rows, targets, settings, noise, readable)

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
            return *self._checked(X, y), None
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
        return self._steps.epsilon(delta_of(delta), _finest_waste(self.epsilon))

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
            f"accountant by {_NAMES[steps.accountant]}"
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
