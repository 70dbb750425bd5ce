"""Methods by name, and the release law of each with its published defaults."""

from __future__ import annotations

import warnings
from enum import StrEnum

from dpensemble._checks import integer_between, member
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import (
    ConfidentNoisyMax,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    OptimalVote,
    ReleaseLaw,
)

# Shares of the number of teachers. Papernot et al. 2017: gamma 0.05 at 250 teachers, a scale of 20 votes.
_LNMAX_SCALE = 0.08
# Papernot et al. 2018, MNIST at 250 teachers: sigma 40, threshold 200 with sigma 150.
_GNMAX_SIGMA = 0.16
_THRESHOLD = 0.8
_THRESHOLD_SIGMA = 0.6
# Near a tie as decisive as published GNMax; shapes that do well for a whole budget at all margins.
_REACH = 0.74
_SHAPE_OF_TWO, _SHAPE_OF_MANY = 0.25, 0.3
#: Noise on the check, as a multiple of that on the answer.
THRESHOLD_NOISE_RATIO = _THRESHOLD_SIGMA / _GNMAX_SIGMA


class VotingMethod(StrEnum):
    """Methods by their short names."""

    SAA = "saa"
    DPBAG = "dpbag"
    LNMAX = "lnmax"
    GNMAX = "gnmax"
    CONFIDENT_GNMAX = "confident-gnmax"
    INTERACTIVE_GNMAX = "interactive-gnmax"
    OPTIMAL = "optimal"

    @property
    def gated(self) -> bool:
        """Whether a query is answered only where it passes a noisy threshold."""
        return self in (VotingMethod.CONFIDENT_GNMAX, VotingMethod.INTERACTIVE_GNMAX)

    @property
    def noise_name(self) -> str:
        """What the noise on an answer is called: ``"scale"`` (Laplace), ``"sigma"`` (Gaussian) or ``"reach"``."""
        if self is VotingMethod.OPTIMAL:
            return "reach"
        return "scale" if self in (VotingMethod.SAA, VotingMethod.DPBAG, VotingMethod.LNMAX) else "sigma"

    @property
    def many_partitions(self) -> bool:
        """Whether there may be several partitions."""
        return self in (VotingMethod.DPBAG, VotingMethod.OPTIMAL)


def default_scale(n_teachers: int, n_partitions: int) -> float:
    """Return the published Laplace scale in votes: ``k / lambda`` with ``lambda = 2 / n``.

    Parameters
    ----------
    n_teachers : int
        Disjoint subsets ``n`` in each partition.
    n_partitions : int
        Partitions ``k``.

    Returns
    -------
    float
        ``n_teachers * n_partitions / 2`` (Jordon et al. 2019, section 5).

    Examples
    --------
    >>> default_scale(250, 1)
    125.0
    """
    n_teachers = integer_between("n_teachers", n_teachers, 1)
    return n_teachers * integer_between("n_partitions", n_partitions, 1) / 2


def law_of(
    method: str,
    n_teachers: int,
    n_partitions: int = 1,
    *,
    noise: float | None = None,
    threshold: float | None = None,
    threshold_sigma: float | None = None,
    shape: float | None = None,
    n_classes: int = 2,
) -> ReleaseLaw:
    """Return the release law of a method, with published defaults for what is not given.

    Parameters
    ----------
    method : VotingMethod or str
        Short name of the method.
    n_teachers : int
        Teachers in each partition. Public.
    n_partitions : int, default=1
        Partitions; more than one for ``"dpbag"`` and ``"optimal"`` only.
    noise : float, optional
        Noise on the answer, in votes: the Laplace scale (saa and dpbag ``n k / 2``, lnmax
        ``0.08 n`` by default), the Gaussian standard deviation (``0.16 n``) or the reach of the optimal vote
        (``0.74 n k``: near a tie as decisive as the Gaussian default).
    threshold, threshold_sigma : float, optional
        Gated methods only: votes needed for an answer (``0.8 n``) and the standard
        deviation of the noise on that check (``0.6 n``).
    shape : float, optional
        Optimal vote only: see `dpensemble.laws.OptimalVote`; 0.25 for two classes, 0.3 for more.
    n_classes : int, default=2
        Declared classes; matters to that default only.

    Returns
    -------
    ReleaseLaw

    Raises
    ------
    InvalidParameterError
        If a setting is out of range or no setting of the method.

    Warns
    -----
    UserWarning
        If the threshold is above the number of teachers.

    References
    ----------
    Jordon et al. 2019, section 5 (saa, dpbag); Papernot et al. 2017, section 3 (lnmax) and 2018, table 1
    (the Gaussian ones, MNIST).

    Examples
    --------
    >>> law_of("gnmax", 250)
    GaussianNoisyMax(sigma=40.0)
    >>> law_of("confident-gnmax", 250, noise=50)
    ConfidentNoisyMax(threshold=200.0, threshold_sigma=150.0, sigma=50.0)
    """
    method = member("method", method, VotingMethod)
    fallback = default_scale(n_teachers, n_partitions)
    if n_partitions != 1 and not method.many_partitions:
        raise InvalidParameterError(
            f"n_partitions={n_partitions} is a setting of method 'dpbag'; {method.value!r} has one partition."
        )
    if shape is not None and method is not VotingMethod.OPTIMAL:
        raise InvalidParameterError(f"shape={shape!r} is a setting of method 'optimal', not of {method.value!r}.")
    if not method.gated:
        _refuse_threshold(method, threshold, threshold_sigma)
        if method is VotingMethod.GNMAX:
            return GaussianNoisyMax(_GNMAX_SIGMA * n_teachers if noise is None else noise)
        if method is VotingMethod.OPTIMAL:
            reach = _REACH * n_teachers * n_partitions if noise is None else noise
            best = _SHAPE_OF_TWO if n_classes == 2 else _SHAPE_OF_MANY
            return OptimalVote(reach, best if shape is None else shape)
        fallback = _LNMAX_SCALE * n_teachers if method is VotingMethod.LNMAX else fallback
        return LaplaceNoisyMax(fallback if noise is None else noise)
    kind = ConfidentNoisyMax if method is VotingMethod.CONFIDENT_GNMAX else InteractiveNoisyMax
    law = kind(
        threshold=_THRESHOLD * n_teachers if threshold is None else threshold,
        threshold_sigma=_THRESHOLD_SIGMA * n_teachers if threshold_sigma is None else threshold_sigma,
        sigma=_GNMAX_SIGMA * n_teachers if noise is None else noise,
    )
    if law.threshold > n_teachers:
        warnings.warn(
            f"threshold={law.threshold:g} is above the number of teachers, {n_teachers}, so "
            "only noise lets a query pass; use a threshold of fewer votes.",
            UserWarning,
            stacklevel=2,
        )
    return law


def _refuse_threshold(method: VotingMethod, threshold: float | None, threshold_sigma: float | None) -> None:
    for name, value in (("threshold", threshold), ("threshold_sigma", threshold_sigma)):
        if value is not None:
            raise InvalidParameterError(
                f"{name}={value!r} is no setting of method {method.value!r}; "
                "use 'confident-gnmax' or 'interactive-gnmax'."
            )
