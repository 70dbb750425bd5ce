r"""Exact worst case of one answer: what the released label alone can reveal, over all votes.

The published bounds charge for noisy counts that nobody sees. Here the law that
is sampled (mixing included) is taken at its word:

- *Two classes*: the reachable counts are finitely many, so all neighbouring
  pairs of rows are listed. Where the chance of one label rises with its count, the row furthest
  away dominates all nearer ones (its operating point lies above theirs); many such pairs are
  covered in blocks (`dpensemble.accounting.lattice`).
- *Three or more classes, one vote*: `dpensemble.accounting.two_gaps`.
- *Three or more classes, several votes* (or noise beyond the range of that analysis): pure
  privacy of Laplace noise, or the Gaussian mechanism's own curve.
- *Three or more classes, optimal vote*: all histograms are listed (`dpensemble.accounting.listed`).
- *Gates*: `dpensemble.accounting.gates` adds the threshold check.
"""

from __future__ import annotations

from functools import lru_cache, singledispatch
from typing import Literal

import numpy as np

from dpensemble._checks import integer_between
from dpensemble.accounting.exact_neighbours import is_rising, second_class_table
from dpensemble.accounting.lattice import MOST_LISTED, block_pairs
from dpensemble.accounting.listed import listed_cost
from dpensemble.accounting.two_gaps import two_gap_pairs
from dpensemble.cost import DEFAULT_ORDERS, DominatingPairs, PrivacyCost
from dpensemble.errors import AccountingError
from dpensemble.laws import (
    AgainstStudent,
    GaussianNoisyMax,
    InteractiveNoisyMax,
    LaplaceNoisyMax,
    OptimalVote,
    RandomizedResponse,
    ReleaseLaw,
)
from dpensemble.laws.sampling import PROBABILITY_ERROR

# Tables over all counts stay within seconds and a gigabyte.
MOST_TEACHERS = 1_000_000
# Beyond this pure epsilon a probability of randomized response is lost to rounding.
_LARGEST_EPSILON = 500.0
# Range of one vote in units of the noise for which three and more classes are analysed.
_SMALLEST_SHIFT, _LARGEST_SHIFT = 1e-4, 4.0


def worst_case_cost(
    law: ReleaseLaw, *, n_teachers: int, n_classes: int, votes_per_unit: int = 1, ballot_weight: int = 1
) -> PrivacyCost:
    """Return the most that one answer can cost, over all votes and all neighbours.

    Parameters
    ----------
    law : ReleaseLaw
        The law that answers, without a gate (for those see `dpensemble.accounting.gates`).
    n_teachers : int
        Sum of the weights of all ballots, which is their number if each weighs 1.
    n_classes : int
        Number of declared classes.
    votes_per_unit : int, default=1
        Most ballots that one unit can change.
    ballot_weight : int, default=1
        Weight of each of those ballots; other units' ballots may weigh otherwise.

    Returns
    -------
    PrivacyCost
        With dominating pairs, except for three or more classes under Gaussian
        noise when several votes can change. Public.

    Raises
    ------
    AccountingError
        If no exact analysis of the law is known.

    Notes
    -----
    With two classes all whole counts up to the sum of weights are taken for reachable. They contain every sum
    of ballots, whatever the weights of the other ballots, so the bound holds.

    Examples
    --------
    Four times less than the published ``2 * order / scale**2``:

    >>> cost = worst_case_cost(LaplaceNoisyMax(125), n_teachers=250, n_classes=2)
    >>> round(float(cost.rdp[0] / (2 * cost.orders[0] / 125**2)), 3)
    0.25
    """
    _refuse_students(law)
    n_classes = integer_between("n_classes", n_classes, 2)
    n_teachers = integer_between("n_teachers", n_teachers, 1, MOST_TEACHERS)
    weight = integer_between("ballot_weight", ballot_weight, 1)
    # No more ballots of this weight fit into the sum of all.
    votes = min(integer_between("votes_per_unit", votes_per_unit, 1), max(1, n_teachers // weight))
    if n_classes == 2 and not isinstance(law, RandomizedResponse):
        return _two_classes(law, n_teachers, votes, weight)
    if isinstance(law, OptimalVote):
        if weight != 1:
            raise AccountingError(
                f"ballot_weight={weight} of the optimal vote is priced for two classes only; use Gaussian noise."
            )
        return listed_cost(law, n_teachers, n_classes, votes)
    return _many_classes(law, n_classes, votes, weight)


@lru_cache(maxsize=64)
def _two_classes(law: ReleaseLaw, n_teachers: int, votes: int, weight: int) -> PrivacyCost:
    if n_teachers > MOST_LISTED:
        table = second_class_table(law, n_teachers)
        if is_rising(table):
            return PrivacyCost.of(block_pairs(table[:, 1], votes * weight).inflated(PROBABILITY_ERROR))
    return PrivacyCost.of(table_pairs(law, n_teachers, votes, weight))


def table_pairs(law: ReleaseLaw, n_teachers: int, votes: int, ballot_weight: int = 1) -> DominatingPairs:
    """Return all neighbouring pairs of outcome laws for two classes, neighbours side by side.

    Parameters
    ----------
    law : ReleaseLaw
        Any law of two classes.
    n_teachers, votes : int
        Sum of the ballots' weights, and how many ballots can change.
    ballot_weight : int, default=1
        Weight of each ballot that can change.

    Returns
    -------
    DominatingPairs
        Both ways up to the names of the labels, on the probabilities that are sampled.
    """
    _refuse_students(law)
    second = np.arange(n_teachers + 1)
    table = second_class_table(law, n_teachers)
    # A law that does not rise, or has further outcomes, may be worst at a smaller change.
    shifts = [votes] if is_rising(table) else range(1, votes + 1)
    # Under a law that treats the classes alike, moving down is moving up with the labels swapped.
    uneven = float(np.abs(table - table[::-1, [1, 0, *range(2, table.shape[1])]]).max())
    alike = uneven <= PROBABILITY_ERROR
    steps = [shift * ballot_weight * sign for shift in shifts for sign in ((1,) if alike else (1, -1))]
    moved = np.concatenate([np.clip(second + step, 0, n_teachers) for step in steps])
    here = np.tile(second, len(steps))
    apart = moved != here
    error = PROBABILITY_ERROR + (uneven if alike else 0.0)
    return DominatingPairs(table[moved[apart]], table[here[apart]]).inflated(error)


@singledispatch
def _many_classes(law: ReleaseLaw, n_classes: int, votes: int, weight: int) -> PrivacyCost:  # noqa: ARG001
    raise AccountingError(
        f"no exact worst case is known for {type(law).__name__} with n_classes={n_classes} and "
        f"votes_per_unit={votes}; use accounting='published' or two classes."
    )


@_many_classes.register
def _(law: LaplaceNoisyMax, n_classes: int, votes: int, weight: int) -> PrivacyCost:
    if votes == 1 and _covered(weight / law.scale):
        return _noisy_max("laplace", law, weight / law.scale, n_classes)
    # Moving `votes` ballots changes the counts by at most twice their weight in the L1 norm.
    return _pure(2 * votes * weight / law.scale)


@_many_classes.register
def _(law: GaussianNoisyMax, n_classes: int, votes: int, weight: int) -> PrivacyCost:
    if votes == 1 and _covered(weight / law.sigma):
        return _noisy_max("gaussian", law, weight / law.sigma, n_classes)
    # Papernot et al. 2018, Proposition 8: two counts move by the ballots' weight each.
    return PrivacyCost(rdp=DEFAULT_ORDERS * (votes * weight / law.sigma) ** 2)


@_many_classes.register
def _(law: RandomizedResponse, n_classes: int, votes: int, weight: int) -> PrivacyCost:  # noqa: ARG001
    # Whatever wins, a changed winner swaps two probabilities; ties are averages of such laws.
    other = np.exp(-law.epsilon) / (1 + (n_classes - 1) * np.exp(-law.epsilon))
    rest = (n_classes - 2) * other
    table = np.array([[1 - rest - other, other, rest]])
    return PrivacyCost.of(DominatingPairs(table, table[:, [1, 0, 2]]))


@lru_cache(maxsize=64)
def _noisy_max(
    noise: Literal["gaussian", "laplace"], law: ReleaseLaw, shift: float, n_classes: int
) -> PrivacyCost:
    """Price noisy-max over two gaps; half of the sampler's mixing pays for its rounding.

    The sampled law is a mixture: with weight ``w / 2`` a law within a factor ``exp(eta)``
    of uniform (all rounding errors, spread over that half), else the other half's mixture, which the
    pairs dominate. The former is dominated by randomized response at ``eta``.
    """
    weight = law.mixing_weight(n_classes)
    pairs = two_gap_pairs(noise, shift, n_classes, weight / 2)
    eta = 5 * PROBABILITY_ERROR * n_classes**2 / weight
    if not pairs.dominate_randomized_response(eta):
        raise AccountingError("the noise is so large that the sampler's rounding outweighs it; use less noise.")
    return PrivacyCost.of(pairs)


def _refuse_students(law: ReleaseLaw) -> None:
    if isinstance(law, AgainstStudent | InteractiveNoisyMax):
        raise AccountingError(
            f"{type(law).__name__} depends on a student too, so counts alone do not price it; use gated_cost."
        )


def _covered(shift: float) -> bool:
    return _SMALLEST_SHIFT <= shift <= _LARGEST_SHIFT


def _pure(epsilon: float) -> PrivacyCost:
    """Return the cost of an epsilon-private answer: that of randomized response (Kairouz et al. 2015)."""
    if epsilon > _LARGEST_EPSILON:
        return PrivacyCost(rdp=np.full_like(DEFAULT_ORDERS, epsilon))
    table = np.array([[1.0, np.exp(-epsilon)]]) / (1 + np.exp(-epsilon))
    return PrivacyCost.of(DominatingPairs(table, table[:, ::-1]))
