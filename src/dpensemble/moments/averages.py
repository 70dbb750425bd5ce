r"""The noisy average of teachers' answers, each a vector of bounded length.

Teachers are a partition of the units. Every unit teaches one teacher. The choice of this teacher does not depend on the
other units, and a teacher's answer depends only on its own units. So replacing a unit (by slots), and adding or
removing one (by keys), changes the answer of one teacher, from any allowed answer to any other. The number of the
unit's records does not matter. When answers ``u, v`` have length at most ``L``, the difference ``u - v`` is at most

- ``2 L`` long, in general, and
- ``sqrt(2) L`` long if no entry of an answer is negative, since then ``|u - v|**2 <= |u|**2 + |v|**2``.

The sum moves by at most the same length. There are three kinds of answers.

*Probabilities of two classes*: ``p - 1/2`` for each of ``Q`` public rows, ``p`` that of the second class, so ``L =
sqrt(Q) / 2``. *Of more classes*: all of them, ``C Q`` numbers from 0 that add up to 1 in a row, so ``L = sqrt(Q)``, and
no entry is negative. A public `clip` below 1 shortens longer answers to that share of ``L``. *Parameters*: coefficients
and intercepts, shortened to the public length `clip`.

A teacher whose units have a smaller budget answers with ``a`` times its vector, where ``a < 1`` is public. The teacher
moves the sum by at most ``a`` sensitivities. Averages are divided by the sum of all ``a``.

Lengths are enforced, not trusted. A vector is scaled to ``(1 - 1e-9)`` of the allowed length if it is longer. Then it
is cut towards zero to whole multiples of ``1 / _UNIT``, which makes no entry longer. The length is computed in doubles.
Its relative error is below ``(n + 4) 2**-53``, less than 1e-9 for up to `_MOST_ENTRIES` entries. Sums of whole numbers
are exact in 64 bits, in any order. Every entry gets discrete Gaussian noise, which is charged before it is drawn
(`dpensemble.releases.SumReleaser`). `dpensemble.releases.SumsMeter` computes its cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpensemble._checks import integer_between, real_between
from dpensemble._entries import Floats, Integers
from dpensemble.releases import SumQuery, SumReleaser

#: Whole units in 1 of an answer.
_UNIT = 2**30
#: Entries of one answer, at most.
_MOST_ENTRIES = 2**22
# Relative margin for rounding in lengths (see the module).
_MARGIN = 1e-9
_ROUND_UP = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class AnswerBound:
    """How long an answer may be, and how far another answer of one teacher moves the sum."""

    n_entries: int
    length: float
    nonnegative: bool

    def __post_init__(self) -> None:
        integer_between("number of entries of an answer", self.n_entries, 1, _MOST_ENTRIES)
        real_between("length of an answer", self.length, 1e-6, 1e6)

    @classmethod
    def of_probabilities(cls, n_rows: int, n_classes: int, *, clip: float) -> AnswerBound:
        """Return the bound of probabilities on public rows, which allows the share `clip` of their largest length."""
        integer_between("number of public rows", n_rows, 1, _MOST_ENTRIES)
        clip = real_between("clip", clip, 1e-3, 1.0)
        if n_classes == 2:
            return cls(n_rows, clip * math.sqrt(n_rows) / 2, nonnegative=False)
        return cls(n_rows * n_classes, clip * math.sqrt(n_rows), nonnegative=True)

    @classmethod
    def of_parameters(cls, n_parameters: int, *, clip: float) -> AnswerBound:
        """Return the bound of parameters."""
        return cls(n_parameters, real_between("clip", clip, 1e-3, 1e3), nonnegative=False)

    @property
    def distance(self) -> float:
        """Largest distance between two answers."""
        return self.length * (math.sqrt(2) if self.nonnegative else 2.0)

    @property
    def sensitivity(self) -> int:
        """Most whole units by which a teacher of weight 1 can move the sum."""
        return math.ceil(self.distance * _UNIT * _ROUND_UP)

    def whole(self, answers: Floats, weights: Floats) -> Integers:
        """Return finite answers, shape (n_teachers, n_entries), in whole units, none longer than its weight allows."""
        allowed = answers.clip(0.0, None) if self.nonnegative else answers
        # Dividing by the largest entry first keeps squares from overflowing.
        top = np.maximum(np.abs(allowed).max(axis=1, initial=0.0), self.length)
        scaled = allowed / top[:, None]
        norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        with np.errstate(over="ignore"):
            lengths = np.minimum(top * norms, self.length * (1 - _MARGIN)) * weights
        factors = np.divide(lengths * _UNIT, norms, out=np.zeros_like(norms), where=norms > 0)
        return np.trunc(scaled * factors[:, None]).astype(np.int64)

    def noisy_average(self, chunks: Iterable[Floats], weights: Floats, sums: SumReleaser) -> tuple[Floats, float]:
        """Release the average of all teachers' answers, given in chunks and in order. The largest weight is 1."""
        total, done = np.zeros(self.n_entries, dtype=np.int64), 0
        for answers in chunks:
            total += self.whole(answers, weights[done : done + len(answers)]).sum(axis=0)
            done += len(answers)
        return sums.charge_and_draw(_AnswersSum(self), total, 1.0, weight=float(weights.sum()))


@dataclass(frozen=True)
class _AnswersSum(SumQuery[tuple[Floats, float]]):
    """The sum of all teachers' answers. A unit can change one answer."""

    bound: AnswerBound
    description = "the average of the teachers' answers"
    unit = _UNIT

    @property
    def replacing(self) -> int:
        """Whole units by which another answer of one teacher moves the sum."""
        return self.bound.sensitivity

    removing = replacing

    def read(self, sums: Floats, spread: float) -> tuple[Floats, float]:
        """Return the average, and the standard deviation of its noise."""
        return sums, spread
