r"""Privacy of private teachers, and the privacy that their released majority must have.

A teacher votes for the second class with probability ``p`` on some records and ``p'`` on neighbouring ones. It is
``(epsilon, Delta)``-private iff ``p <= exp(epsilon) p' + Delta``, ``p' <= exp(epsilon) p + Delta``, and the same
for ``1 - p`` and ``1 - p'``. With ``w(l) = sign(l - K / 2) gamma(l)`` and the numbers of votes ``L`` and ``L'``,
the answer is ``(m epsilon, delta)``-private iff for all such probabilities

    ``load = (exp(-m epsilon) E[w(L)] - E[w(L')]) / room <= 1``,
    ``room = 1 - exp(-m epsilon) + 2 delta exp(-m epsilon)``

(Lemma 3.4 of "Optimized Tradeoffs for Private Prediction with Majority Ensembling", divided by its right-hand
side). The load is linear in gamma, so dividing gamma by a load above 1 makes it private. It is linear in each
teacher's ``(p, p')``, so its largest value is at corners of their region (Lemma 5.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, real_between
from dpensemble.errors import InvalidParameterError

Corner = tuple[float, float]

MOST_TEACHERS = 2001
# Below this the sampler's mixing would no longer pay for its rounding.
_LEAST_ROOM = 1e-6
_UNIT_ROUNDING = 2.0**-53


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Private teachers and the privacy that their released majority must have.

    Every allowance can be met, if only by a fair coin (gamma equal to 0). None is too small for its teachers.

    Parameters
    ----------
    n_teachers : int
        ``K``, from 1 to 2,001. Odd or even. A fair coin answers a tie.
    epsilon : float
        Epsilon of each teacher, from 1e-6 to 100.
    m : float
        Epsilon of the answer in units of a teacher's: a number above 0, up to ``K``. Need not be whole.
    Delta : float, default=0.0
        Delta of each teacher, in [0, 1).
    delta : float, default=0.0
        Delta of the answer, in [0, 1). Releasing `m` ballots would cost ``m Delta``.

    Raises
    ------
    InvalidParameterError
        If a value is out of range, or the answer may reveal less than 1e-6, which no sampler can honour.

    Examples
    --------
    >>> allowance = Allowance(n_teachers=11, epsilon=0.1, m=3)
    >>> [tuple(round(value, 3) for value in corner) for corner in allowance.corners]
    [(0.0, 0.0), (1.0, 1.0), (0.525, 0.475), (0.475, 0.525)]
    """

    n_teachers: int
    epsilon: float
    m: float
    Delta: float = 0.0
    delta: float = 0.0

    def __post_init__(self) -> None:
        n_teachers = integer_between("n_teachers", self.n_teachers, 1, MOST_TEACHERS)
        settings = {
            "n_teachers": n_teachers,
            "epsilon": real_between("epsilon", self.epsilon, 1e-6, 100),
            "m": _multiple_of(self.m, n_teachers),
            "Delta": _below_one("Delta", self.Delta),
            "delta": _below_one("delta", self.delta),
        }
        for name, value in settings.items():
            object.__setattr__(self, name, value)
        if self.room < _LEAST_ROOM:
            raise InvalidParameterError(
                f"m={self.m:g} and epsilon={self.epsilon:g} let the answer reveal less than {_LEAST_ROOM:g}, "
                "which no sampler can honour: use a larger m or epsilon."
            )

    @property
    def damping(self) -> float:
        """``exp(-m epsilon)``."""
        return float(np.exp(-self.m * self.epsilon))

    @property
    def room(self) -> float:
        """The most that the worst case may use: a load of 1 in these units."""
        return float(-np.expm1(-self.m * self.epsilon) + 2 * self.delta * self.damping)

    @property
    def high(self) -> float:
        """Larger chance at the corner away from 0 and 1. The smaller is ``1 - high``."""
        return float((1 + self.Delta * np.exp(-self.epsilon)) / (1 + np.exp(-self.epsilon)))

    @property
    def corners(self) -> tuple[Corner, ...]:
        """All corners of a teacher's region: 4, or 8 if Delta is above 0."""
        high, low, slack = self.high, 1 - self.high, self.Delta
        inner = ((0.0, 0.0), (1.0, 1.0), (high, low), (low, high))
        outer = ((slack, 0.0), (0.0, slack), (1.0, 1 - slack), (1 - slack, 1.0))
        return inner + (outer if slack else ())

    @property
    def reduced_corners(self) -> tuple[Corner, Corner, Corner]:
        """The corners that can be worst if more votes never make a class less likely.

        Then the load rises with every ``p`` and falls with every ``p'``. Each other corner has a neighbour among
        these three with a larger ``p``, a smaller ``p'``, or both.
        """
        return ((self.Delta, 0.0), (self.high, 1 - self.high), (1.0, 1 - self.Delta))

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of a load that is summed in doubles.

        In units of ``2**-53``, an error of 6 in `high` moves an expectation of a function within [-1, 1] by at
        most ``12 K``. Each of at most ``K`` averaging steps adds 4 to the error, each step of a binomial law 3, and a
        sum of ``K + 1`` products ``K + 1``. Two expectations give ``40 K``, rounded up for the last few operations.
        """
        return 64 * (self.n_teachers + 1) * _UNIT_ROUNDING / self.room

    def upper(self, gamma: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the entries of gamma above ``K / 2``, shape ((K + 1) // 2,)."""
        return gamma[self.n_teachers // 2 + 1 :]

    def signed(self, upper: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``w``, shape (K + 1,), from gamma above ``K / 2``."""
        tie = np.zeros((self.n_teachers + 1) % 2)
        return np.concatenate([-upper[::-1], tie, upper])

    def row(self, corners: tuple[Corner, ...], counts: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the load's coefficients of gamma above ``K / 2``, where `counts` teachers sit at each corner."""
        here = votes_law([p for p, _ in corners], counts)
        there = votes_law([p for _, p in corners], counts)
        change = (self.damping * here - there) / self.room
        return self.upper(change) - self.upper(change[::-1])


def votes_law(chances: list[float], counts: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the law of the number of votes, shape (sum of counts + 1,), of groups with equal chances."""
    law = np.ones(1)
    for chance, count in zip(chances, counts, strict=True):
        law = np.convolve(law, _binomial(count, chance))
    return law


def _binomial(count: int, chance: float) -> NDArray[np.float64]:
    law = np.ones(1)
    square, left = np.array([1 - chance, chance]), count
    # Squaring keeps every term positive, so no digit is lost.
    while left:
        if left % 2:
            law = np.convolve(law, square)
        left //= 2
        if left:
            square = np.convolve(square, square)
    return law


def _multiple_of(m: object, n_teachers: int) -> float:
    if isinstance(m, Real) and not isinstance(m, bool) and 0 < m <= n_teachers:  # type: ignore[operator]
        return float(m)
    raise InvalidParameterError(
        f"m={m!r} is not a number above 0 and up to n_teachers={n_teachers}, beyond which the plain majority is "
        "private as it is."
    )


def _below_one(name: str, value: object) -> float:
    if isinstance(value, Real) and not isinstance(value, bool) and 0 <= value < 1:  # type: ignore[operator]
        return float(value)
    raise InvalidParameterError(f"{name}={value!r} is not a number from 0 to below 1.")
