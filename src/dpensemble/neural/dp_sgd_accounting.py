"""The noise that DP-SGD needs, and its cost, by the accountants of Opacus. Opacus is an optional extra."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from dpensemble.budget import Budget
from dpensemble.errors import BudgetError, InvalidParameterError

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


NAMES = {
    Accountant.PRV: "privacy loss random variables (Gopi, Lee and Wutschitz 2021)",
    Accountant.RDP: "Renyi differential privacy (Mironov, Talwar and Zhang 2019)",
}


def require_opacus() -> Any:
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
def least_noise(budget: Budget, sample_rate: float, n_steps: int, accountant: Accountant) -> NoisySteps:
    """Return steps with about the least noise that keeps a budget, for one record added or removed."""

    def steps(noise: float) -> NoisySteps:
        return NoisySteps(sample_rate=sample_rate, n_steps=n_steps, noise_multiplier=noise, accountant=accountant)

    # About right for many steps. Even a single step needs half of it.
    noise = 0.5 + sample_rate * math.sqrt(2 * n_steps * math.log(1 / budget.delta + 1)) / budget.epsilon
    fine = finest_waste(budget.epsilon)
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


def finest_waste(epsilon: float) -> float:
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
