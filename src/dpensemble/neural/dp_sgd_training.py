"""Training of one network by DP-SGD, through Opacus."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._random import NoiseSource
from dpensemble.errors import InvalidParameterError
from dpensemble.neural._torch import Module, Tensor, require_torch
from dpensemble.neural.dp_sgd_accounting import NoisySteps, require_opacus
from dpensemble.neural.schedule import Training

# Position of the Mersenne Twister's 624 words in a generator's state in PyTorch: behind a seed and three numbers.
_WORDS, _FIRST_BYTE, _WORD_BYTES = 624, 24, 8


def require_bounded(module: Module) -> None:
    """Refuse a network in which DP-SGD cannot bound the effect of one record. For example, batch normalisation."""
    require_opacus()
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


def own_generators(noise: NoiseSource, device: str) -> tuple[Any, Any]:
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
class PrivateTraining:
    """Public settings of a private training."""

    training: Training
    steps: NoisySteps  # as accounted for
    clip: float  # length to which each record's gradient is shortened


def train_privately(
    module: Module,
    rows: Tensor,
    targets: NDArray[np.int64],
    settings: PrivateTraining,
    noise: NoiseSource,
    readable: NDArray[np.bool_] | None = None,
) -> bool:
    """Train a network in place by DP-SGD, and return whether its numbers are still finite.

    The gradient of a record that is not `readable` is zero, and no other record's gradient depends on that.
    """
    torch, opacus = require_torch(), require_opacus()
    data = torch.utils.data
    ids = torch.as_tensor(targets, device=rows.device)
    counts = None if readable is None else torch.as_tensor(readable, dtype=rows.dtype, device=rows.device)
    samples, gaussian = own_generators(noise, rows.device.type)
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
                loss(private(rows[places]), ids[places], None if counts is None else counts[places]).backward()
                zero_broken_gradients(private.parameters())
                optimizer.step()
    private.cleanup()
    return all(bool(value.isfinite().all()) for value in module.state_dict().values())


def zero_broken_gradients(parameters: Iterable[Any]) -> None:
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


def loss(logits: Tensor, targets: Tensor, counts: Tensor | None) -> Any:
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
