"""Randomized response on the majority: the chance of releasing the majority depends on the votes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import comb
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, real_between
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.laws.base import ReleaseLaw

# How far gamma(l) and gamma(K - l) may differ before they count as two different numbers.
_ASYMMETRY = 1e-12
# A smaller value cannot be distinguished from the sampler's rounding.
_LEAST_ROOM = 1e-6


@dataclass(frozen=True, slots=True)
class RandomizedResponseMajority(ReleaseLaw):
    """Release the majority of two classes with a chance that depends on the votes, or else a fair coin.

    With ``K`` ballots, ``l`` of them for the second class, the answer is the majority with probability
    ``gamma[l]`` and a fair coin otherwise: ``Pr[second | l] = (1 + sign(l - K / 2) gamma[l]) / 2``. Every law of
    two classes that treats them alike and is never worse than a guess is of this form (Lemma 3.3).

    A tie, possible for even ``K`` only, has no majority. The answer is a fair coin, and ``gamma[K / 2]`` is stored as
    0.

    Parameters
    ----------
    gamma : tuple of float
        ``K + 1`` numbers in [0, 1], the same read backwards.

    Raises
    ------
    InvalidParameterError
        If `gamma` is not such a tuple.

    Notes
    -----
    The sampler mixes in a fair coin at weight 1e-6. Mixing is post-processing, so every (epsilon, delta) that the exact
    law satisfies the mixture satisfies too, with ``1e-6 ((exp(epsilon) - 1) / 2 + delta)`` to spare. That
    pays for rounding whenever ``(exp(epsilon) - 1 + 2 delta) / (exp(epsilon) + 1)`` is at least 2e-8.

    References
    ----------
    "Optimized Tradeoffs for Private Prediction with Majority Ensembling", Algorithm 1 (DaRRM).

    Examples
    --------
    >>> law = RandomizedResponseMajority.subsampling(n_teachers=3, m=1)
    >>> [round(value, 3) for value in law.gamma]
    [1.0, 0.333, 0.333, 1.0]
    >>> law.probabilities(np.array([[2, 1]])).round(3)
    array([[0.667, 0.333]])
    """

    title: ClassVar[str] = "randomized response on the majority"

    gamma: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.gamma, tuple | list) or len(self.gamma) < 2:
            raise InvalidParameterError("gamma must be a tuple of at least two numbers, one for each vote count.")
        if not all(isinstance(value, Real) and not isinstance(value, bool) for value in self.gamma):
            raise InvalidParameterError("gamma must hold numbers only, from 0 to 1.")
        if any(abs(value) > 1 for value in self.gamma):
            raise InvalidParameterError("gamma must hold numbers from 0 to 1 only.")
        values = np.array(self.gamma, dtype=np.float64)
        if not np.all((values >= 0) & (values <= 1)):
            raise InvalidParameterError("gamma must hold numbers from 0 to 1 only.")
        if not np.all(np.abs(values - values[::-1]) <= _ASYMMETRY):
            raise InvalidParameterError(
                "gamma must be the same read backwards, so that both classes are treated alike."
            )
        upper = values[len(values) // 2 + len(values) % 2 :]
        tie = [0.0] * (len(values) % 2)
        object.__setattr__(self, "gamma", (*upper[::-1].tolist(), *tie, *upper.tolist()))

    @property
    def n_teachers(self) -> int:
        """Number of ballots, ``K``."""
        return len(self.gamma) - 1

    @classmethod
    def constant(
        cls, n_teachers: int, *, ballots_epsilon: float, ballots_delta: float, epsilon: float, delta: float
    ) -> RandomizedResponseMajority:
        """Return the largest constant gamma that is private for every function of the ballots that is released.

        Parameters
        ----------
        n_teachers : int
            Number of ballots.
        ballots_epsilon, ballots_delta : float
            Privacy of releasing all ballots: ``K`` times that of a teacher, or less by general composition.
        epsilon, delta : float
            Privacy allowed to the answer.

        Returns
        -------
        RandomizedResponseMajority
            With one value throughout.

        References
        ----------
        "Optimized Tradeoffs for Private Prediction with Majority Ensembling", Lemma A.1.

        Examples
        --------
        >>> law = RandomizedResponseMajority.constant(
        ...     11, ballots_epsilon=1.1, ballots_delta=0.0, epsilon=0.3, delta=0.0
        ... )
        >>> round(law.gamma[0], 4)
        0.2975
        """
        n_teachers = integer_between("n_teachers", n_teachers, 1)
        whole = real_between("ballots_epsilon", ballots_epsilon, 0, 1e12)
        epsilon = real_between("epsilon", epsilon, 0, 1e12)
        damping = np.exp(-epsilon)
        slack, delta = real_between("ballots_delta", ballots_delta, 0, 1), real_between("delta", delta, 0, 1)
        # The two corners of the region of (chance here, chance on a neighbour) that can be worst. (slack, 0) is
        # worse if the answer may lose more than the ballots do.
        likely = (1 + slack * np.exp(-whole)) / (1 + np.exp(-whole))
        unlikely = (1 - slack) * np.exp(-whole) / (1 + np.exp(-whole))
        # Lemma A.1's inequality, divided by exp(epsilon).
        loss = -np.expm1(-epsilon)
        room = loss + 2 * delta * damping
        if room < _LEAST_ROOM:
            raise InvalidParameterError(
                f"epsilon={epsilon:g} and delta={delta:g} allow the answer to reveal less than {_LEAST_ROOM:g}, "
                "which no sampler can honour: use a larger epsilon or delta."
            )
        worst_load = loss + 2 * max(damping * likely - unlikely, damping * slack)
        # A few units of rounding go to the private side.
        gamma = 1.0 if worst_load <= room else float(room / worst_load * (1 - 1e-12))
        return cls((gamma,) * (n_teachers + 1))

    @classmethod
    def subsampling(cls, n_teachers: int, m: int) -> RandomizedResponseMajority:
        """Return the law of the majority of `m` teachers drawn without replacement ("Sub").

        A fair coin decides ties among the drawn, possible for even `m` only. The law is then that of ``m - 1``.
        By composition it is ``(m epsilon, m Delta)``-private for teachers that are ``(epsilon, Delta)``-private.

        Parameters
        ----------
        n_teachers : int
            Number of ballots, ``K``.
        m : int
            Number of ballots drawn, from 1 to ``K``.

        Returns
        -------
        RandomizedResponseMajority
            Correctly rounded.

        References
        ----------
        "Optimized Tradeoffs for Private Prediction with Majority Ensembling", Lemma 3.1.

        Examples
        --------
        >>> law = RandomizedResponseMajority.subsampling(n_teachers=5, m=3)
        >>> law.gamma
        (1.0, 1.0, 0.4, 0.4, 1.0, 1.0)
        """
        n_teachers = integer_between("n_teachers", n_teachers, 1)
        m = integer_between("m", m, 1, n_teachers)
        subsets = comb(n_teachers, m)
        # Twice the number of subsets whose majority is the second class, a tie counting once.
        twice = [
            sum(counts)
            for counts in zip(
                _subsets_reaching(n_teachers, m, m // 2 + 1),
                _subsets_reaching(n_teachers, m, (m + 1) // 2),
                strict=True,
            )
        ]
        return cls(tuple(abs(count - subsets) / subsets for count in twice))

    @classmethod
    def double_subsampling(cls, n_teachers: int, m: int) -> RandomizedResponseMajority:
        """Return the law of the majority of ``2 m - 1`` teachers, or of all if there are no more ("DSub").

        The law is ``m epsilon``-private for ``epsilon``-private teachers (``Delta = 0``). The paper proves this for
        teachers with one common probability. It holds for all teachers: a class wins among ``2 m - 1`` with at least
        ``m`` votes, and keeping each vote with chance ``exp(-epsilon)`` keeps those ``m`` with chance ``exp(-m
        epsilon)``.

        Parameters
        ----------
        n_teachers : int
            Number of ballots, ``K``.
        m : int
            Privacy allowance in units of one teacher's, from 1 to ``K``.

        Returns
        -------
        RandomizedResponseMajority
            With gamma equal to 1 where ``m >= (K + 1) / 2``.

        References
        ----------
        "Optimized Tradeoffs for Private Prediction with Majority Ensembling", Theorem 4.1, Lemmas B.5 and B.10.

        Examples
        --------
        >>> RandomizedResponseMajority.double_subsampling(n_teachers=5, m=3).gamma
        (1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
        """
        n_teachers = integer_between("n_teachers", n_teachers, 1)
        m = integer_between("m", m, 1, n_teachers)
        return cls.subsampling(n_teachers, min(2 * m - 1, n_teachers))

    def settings(self) -> dict[str, Any]:
        """Return the law's title and gamma."""
        return {"law": self.title, "gamma": list(self.gamma)}

    def check_ballots(self, ballots: int, n_classes: int) -> None:
        """Refuse more than two classes, and numbers of ballots for which gamma lacks a count."""
        if (ballots, n_classes) != (self.n_teachers, 2):
            raise InvalidParameterError(
                f"law=RandomizedResponseMajority has gamma for two classes and {self.n_teachers} ballots, but there "
                f"are {n_classes} and {ballots}: give {ballots + 1} numbers, or another law."
            )

    def probabilities(self, counts: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class, shape (n_queries, 2)."""
        counts = np.asarray(counts)
        if counts.shape[1] != 2 or np.any(counts.sum(axis=1) != self.n_teachers):
            raise DataError(f"gamma of {len(self.gamma)} numbers is for two classes and {self.n_teachers} ballots.")
        second = counts[:, 1].astype(np.int64)
        lead = np.sign(2 * second - self.n_teachers) * np.array(self.gamma)[second]
        return np.stack([(1 - lead) / 2, (1 + lead) / 2], axis=1)


def _subsets_reaching(n_teachers: int, m: int, threshold: int) -> list[int]:
    """Return, for ``l = 0..K``, how many subsets of `m` hold at least `threshold` of ``l`` marked teachers."""
    # Marking one more teacher adds the subsets that hold it and exactly ``threshold - 1`` of those before it.
    gained = [
        comb(marked, threshold - 1) * comb(n_teachers - 1 - marked, m - threshold) for marked in range(n_teachers)
    ]
    return list(accumulate(gained, initial=0))
