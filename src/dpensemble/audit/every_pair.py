"""The exact worst case of one answer: every histogram of a small vote against every neighbour."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb

import numpy as np

from dpensemble._arrays import Integers
from dpensemble._checks import integer_between, real_between
from dpensemble.audit.exact import exact_epsilon, renyi_divergence, sampled_probabilities
from dpensemble.errors import InvalidParameterError
from dpensemble.laws import ReleaseLaw

_MOST_PAIRS = 5 * 10**6
# The last digits do not refute a claim that is met with equality.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class LawAudit:
    """Exact worst case of one answer over all small histograms. Public, since it depends on no data.

    Parameters
    ----------
    epsilon : float
        Largest exact epsilon over all pairs at `delta`, or infinity if no epsilon holds.
    delta : float
        Delta at which `epsilon` was computed.
    counts, neighbour_counts : tuple of int
        A pair of histograms that attains `epsilon`.
    renyi : tuple of float
        Largest Renyi divergence over all pairs at each requested order, in the order of the request.
    n_pairs : int
        Number of pairs of different histograms that were compared.

    Notes
    -----
    The result is the cost of one answer for this law, number of teachers and number of movable ballots. The audit does
    not show that the pipeline moves no more ballots than that.
    """

    epsilon: float
    delta: float
    counts: tuple[int, ...]
    neighbour_counts: tuple[int, ...]
    renyi: tuple[float, ...]
    n_pairs: int

    def caught(self, claimed_epsilon: float) -> bool:
        """Return whether one answer costs more than `claimed_epsilon` at the same delta, beyond rounding.

        Parameters
        ----------
        claimed_epsilon : float
            Claim for a single answer, from 0 to infinity.

        Returns
        -------
        bool
            True refutes the claim. False means that the claim holds for one answer at these sizes.
        """
        claim = real_between("claimed_epsilon", claimed_epsilon, 0, np.inf)
        return self.epsilon > claim * (1 + _ROUNDING) + _ROUNDING


def audit_law(
    law: ReleaseLaw,
    n_teachers: int,
    n_classes: int,
    votes_per_unit: int = 1,
    *,
    delta: float = 0.0,
    orders: Sequence[float] = (),
) -> LawAudit:
    """Return the exact worst case of one answer over all votes of `n_teachers` and all their neighbours.

    The probabilities are those of the integers that the sampler draws from, so the audit includes mixing and rounding.
    Outcomes need not be classes. For example, a law may also give no answer.

    Parameters
    ----------
    law : ReleaseLaw
        Law to audit.
    n_teachers : int
        Number of ballots. The work grows like ``n_teachers**(n_classes - 1)``.
    n_classes : int
        Number of classes, at least 2.
    votes_per_unit : int, default=1
        Most ballots that one unit moves from one class to another.
    delta : float, default=0
        Delta at which epsilon is computed. 0 is pure differential privacy.
    orders : sequence of float, optional
        Orders above 1 at which to compute the largest Renyi divergence, too.

    Returns
    -------
    LawAudit
        May be published, since it depends on settings only.

    Raises
    ------
    InvalidParameterError
        If a setting is out of range, or more than 5 million pairs would have to be compared.

    Examples
    --------
    The published cost of an answer, ``2 / scale``, is nearly attained. The audit detects noise of half the size:

    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> claim = 2 / 4.0
    >>> audit = audit_law(LaplaceNoisyMax(scale=4.0), n_teachers=40, n_classes=2)
    >>> round(audit.epsilon, 3), audit.caught(claim)
    (0.456, False)
    >>> audit_law(LaplaceNoisyMax(scale=2.0), n_teachers=40, n_classes=2).caught(claim)
    True
    """
    n_classes = integer_between("n_classes", n_classes, 2, 100)
    n_teachers = integer_between("n_teachers", n_teachers, 1, 100_000)
    moved = integer_between("votes_per_unit", votes_per_unit, 1, n_teachers)
    _require_few(n_teachers, n_classes, moved)
    histograms = _histograms(n_teachers, n_classes)
    laws = sampled_probabilities(law, histograms)
    worst, pair, n_pairs = -1.0, (0, 0), 0
    divergences = np.zeros(len(orders))
    for before, after in _neighbours(histograms, _moves(moved, n_classes)):
        losses = exact_epsilon(laws[before], laws[after], delta)
        n_pairs += len(losses)
        place = int(np.argmax(losses))
        if losses[place] > worst:
            worst, pair = float(losses[place]), (int(before[place]), int(after[place]))
        if len(orders):
            divergences = np.maximum(divergences, renyi_divergence(laws[before], laws[after], orders).max(axis=0))
    return LawAudit(
        epsilon=worst,
        delta=float(delta),
        counts=tuple(histograms[pair[0]].tolist()),
        neighbour_counts=tuple(histograms[pair[1]].tolist()),
        renyi=tuple(divergences.tolist()),
        n_pairs=n_pairs,
    )


def _require_few(n_teachers: int, n_classes: int, moved: int) -> None:
    """Refuse work that would not end, and histograms whose codes would not fit into 63 bits."""
    ways = comb(moved + n_classes - 1, n_classes - 1)
    pairs = comb(n_teachers + n_classes - 1, n_classes - 1) * ways**2 // 2
    if pairs > _MOST_PAIRS or (n_teachers + 1) ** n_classes >= 2**63:
        raise InvalidParameterError(
            f"n_teachers={n_teachers}, n_classes={n_classes} and votes_per_unit={moved} make too many pairs of "
            f"histograms to compare (over {_MOST_PAIRS:,}): audit fewer teachers or classes."
        )


def _histograms(n_votes: int, n_classes: int) -> Integers:
    """Return all counts that sum to `n_votes`, shape (n_histograms, n_classes), in rising order."""
    # Stars and bars: enumerate the bars' places among the stars.
    places = combinations(range(n_votes + n_classes - 1), n_classes - 1)
    bars = np.fromiter(chain.from_iterable(places), dtype=np.int64).reshape(-1, n_classes - 1)
    return np.diff(bars, axis=1, prepend=-1, append=n_votes + n_classes - 1) - 1


def _moves(moved: int, n_classes: int) -> Integers:
    """Return one of each pair of opposite differences that moving at most `moved` ballots makes."""
    ways = _histograms(moved, n_classes)
    differences = np.unique((ways[:, None] - ways[None, :]).reshape(-1, n_classes), axis=0)
    # The differences are sorted and symmetric about zero, which lies in the middle.
    return differences[len(differences) // 2 + 1 :]


def _neighbours(histograms: Integers, moves: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Yield, for each move, the places of the histograms to which it applies and of the resulting histograms."""
    base = (int(histograms[0].sum()) + 1) ** np.arange(histograms.shape[1])[::-1]
    codes = histograms @ base
    for move in moves:
        before = np.flatnonzero(np.all(histograms + move >= 0, axis=1))
        if before.size:
            yield before, np.searchsorted(codes, codes[before] + move @ base)
