"""The one module that uses dp-accounting, for privacy loss distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpensemble.cost.pairs import DominatingPairs
from dpensemble.errors import AccountingError

_MOST_OUTCOMES = 64
# Losses are rounded up to multiples of this share of a typical loss.
_PRECISION = 50
_FINEST, _COARSEST = 1e-7, 1e-4


class Part(Protocol):
    """A number of answers of one kind."""

    @property
    def pairs(self) -> DominatingPairs:
        """What one of the answers can reveal."""

    @property
    def count(self) -> int:
        """Number of answers."""


def pld_epsilon(parts: Sequence[Part], delta: float) -> float:
    """Return the epsilon at `delta` of a composition by privacy loss distributions, by dp-accounting."""
    # A single pair that dominates all its pairs stands for each kind of answer. This is valid for every adaptive
    # order but pays for the worst of every pair at once, which `AdaptiveComposition` avoids.
    # References: S. Meiser and E. Mohammadi, CCS 2018. A. Koskela, J. Jalko and A. Honkela, AISTATS 2020. Zhu, Dong and
    # Wang 2022, Theorem 10 (composition of dominating pairs).
    distributions = _library()
    composed = None
    for part in parts:
        if part.count == 0:
            continue
        pair = part.pairs.single(_MOST_OUTCOMES)
        typical = float(np.sqrt(pair.renyi([2.0])[0]))
        one = distributions.from_two_probability_mass_functions(
            _log_masses(pair.q[0]),
            _log_masses(pair.p[0]),
            value_discretization_interval=float(np.clip(typical / _PRECISION, _FINEST, _COARSEST)),
            symmetric=False,
        )
        several = one.self_compose(part.count)
        composed = several if composed is None else composed.compose(several)
    return 0.0 if composed is None else float(composed.get_epsilon_for_delta(delta))


def _library() -> Any:
    try:
        from dp_accounting.pld import privacy_loss_distribution  # noqa: PLC0415
    except ImportError as error:
        raise AccountingError(
            'conversion="privacy loss distribution" needs dp-accounting, which is not installed: '
            'run pip install "dpensemble[pld]".'
        ) from error
    return privacy_loss_distribution


def _log_masses(probabilities: NDArray[np.float64]) -> dict[int, float]:
    return {outcome: float(np.log(mass)) for outcome, mass in enumerate(probabilities) if mass > 0}
