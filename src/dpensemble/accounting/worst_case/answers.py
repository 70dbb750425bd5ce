r"""Exact worst case of one answer: what the released label alone can reveal, over all votes.

The published bounds charge for noisy counts that are never published. Here the price is that of the law that is
sampled, mixing included:

- *Two classes*: the reachable counts are finitely many, so all neighbouring pairs of rows are listed. When the chance
  of one label rises with its count, the row furthest away dominates all nearer ones (its operating point lies above
  theirs). Many such pairs are covered in blocks (`dpensemble.accounting.worst_case.lattice`).
- *Three or more classes, few teachers*: all histograms are listed, and similar neighbours are grouped behind one pair
  (`dpensemble.accounting.worst_case.listed`). This is worthwhile only if counts are near, in units of the noise.
- *Three or more classes, one vote*: `dpensemble.accounting.worst_case.two_gaps`, as if counts could lie at any
  distance.
- *Three or more classes, several votes*: a Renyi curve from the same two gaps
  (`dpensemble.accounting.worst_case.several_votes`), and pure privacy of Laplace noise or the Gaussian mechanism's own
  curve. The latter two also serve for noise beyond the range of that analysis.
- *Three or more classes, optimal vote*: all histograms are listed (`dpensemble.accounting.worst_case.listed`).
- *Gates*: `dpensemble.accounting.worst_case.gates` adds the threshold check.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

from dpensemble._checks import real_between
from dpensemble.accounting.change import Change
from dpensemble.accounting.worst_case.lattice import MOST_LISTED, block_pairs
from dpensemble.accounting.worst_case.listed import can_list, gathered_cost, is_listed_soon, listed_cost
from dpensemble.accounting.worst_case.neighbours import is_rising, second_class_table
from dpensemble.accounting.worst_case.several_votes import several_votes_rdp
from dpensemble.accounting.worst_case.two_gaps import two_gap_pairs
from dpensemble.cost import DEFAULT_ORDERS, DominatingPairs, PrivacyCost
from dpensemble.errors import AccountingError
from dpensemble.laws import (
    ByLaw,
    ExponentialVote,
    GaussianNoisyMax,
    LaplaceNoisyMax,
    RandomizedResponse,
    ReleaseLaw,
)
from dpensemble.laws.choice import is_proven
from dpensemble.laws.sampling import PROBABILITY_ERROR

# Beyond this pure epsilon a probability of randomized response is lost to rounding.
_LARGEST_EPSILON = 500.0
# Range of one vote in units of the noise for which three and more classes are analysed.
_SMALLEST_SHIFT, _LARGEST_SHIFT = 1e-4, 4.0
# Counts farther apart than this are priced as if they could be at any distance, which costs little there.
_LARGEST_GAP_LAPLACE, _LARGEST_GAP_GAUSSIAN = 12.0, 4.0
# Cells for the start of a bounded range.
_CELLS = 1024


def worst_case_cost(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the most that one answer can cost, over all votes and all neighbours. Public."""
    # With two classes all whole counts up to the sum of weights are treated as reachable. They contain every sum of
    # ballots, for all weights of the other ballots, so the bound holds.
    refuse_students(law)
    general = of_any_classes(law, change)
    if general is not None:
        return general
    cost = _two_classes(law, change) if change.classes == 2 else many_classes(law, change)
    if not is_proven(law):
        _refuse_false(law, change, cost)
    return cost


def _declared(law: ReleaseLaw, change: Change) -> float | None:
    """Return the pure epsilon that a law declares, unless a parent with other probabilities declared it."""
    ancestors = type(law).__mro__
    claim, answers = (
        next(place for place, kind in enumerate(ancestors) if name in vars(kind))
        for name in ("pure_epsilon", "probabilities")
    )
    return law.pure_epsilon(change.moved) if claim <= answers else None


def _refuse_false(law: ReleaseLaw, change: Change, cost: PrivacyCost) -> None:
    """Refuse a user's law whose declared pure epsilon is false for the pairs that were listed."""
    declared_epsilon = _declared(law, change)
    if declared_epsilon is None or cost.parts is None:
        return
    pairs = cost.parts[0].pairs
    largest_loss = float(np.log(pairs.p / pairs.q).max())
    if not largest_loss <= declared_epsilon * (1 + 1e-6) + 1e-6:
        raise AccountingError(
            f"law={type(law).__name__} declares pure_epsilon={declared_epsilon:g} of {change.moved} votes and loses "
            f"{largest_loss:.6g}: declare an epsilon that holds, or nothing."
        )


@ByLaw
def of_any_classes(law: ReleaseLaw, change: Change) -> PrivacyCost | None:  # noqa: ARG001
    """Return a price that holds for any number of classes, two included. Register a law here if it has one."""
    return None


@of_any_classes.register(RandomizedResponse)
def _(law: RandomizedResponse, change: Change) -> PrivacyCost | None:
    # For every winner, a changed winner swaps two probabilities. Ties are averages of such laws.
    other = np.exp(-law.epsilon) / (1 + (change.classes - 1) * np.exp(-law.epsilon))
    rest = (change.classes - 2) * other
    table = np.array([[1 - rest - other, other, rest]])
    return PrivacyCost.of(DominatingPairs(table, table[:, [1, 0, 2]]))


@lru_cache(maxsize=64)
def _two_classes(law: ReleaseLaw, change: Change) -> PrivacyCost:
    if change.ballots > MOST_LISTED:
        table = second_class_table(law, change.ballots)
        if is_rising(table):
            return PrivacyCost.of(block_pairs(table[:, 1], change.moved).inflated(PROBABILITY_ERROR))
    return PrivacyCost.of(table_pairs(law, change))


def table_pairs(law: ReleaseLaw, change: Change) -> DominatingPairs:
    """Return all neighbouring pairs of the sampled laws of two classes, in both directions up to the labels' names."""
    refuse_students(law)
    second = np.arange(change.ballots + 1)
    table = second_class_table(law, change.ballots)
    # If a law does not rise, or has further outcomes, a smaller change may be worse.
    shifts = [change.votes] if is_rising(table) else range(1, change.votes + 1)
    # If a law treats the classes alike, moving down is moving up with the labels swapped.
    uneven = float(np.abs(table - table[::-1, [1, 0, *range(2, table.shape[1])]]).max())
    alike = uneven <= PROBABILITY_ERROR
    steps = [shift * change.weight * sign for shift in shifts for sign in ((1,) if alike else (1, -1))]
    moved = np.concatenate([np.clip(second + step, 0, change.ballots) for step in steps])
    here = np.tile(second, len(steps))
    apart = moved != here
    error = PROBABILITY_ERROR + (uneven if alike else 0.0)
    return DominatingPairs(table[moved[apart]], table[here[apart]]).inflated(error)


@ByLaw
def many_classes(law: ReleaseLaw, change: Change) -> PrivacyCost:
    """Return the price for three and more classes. A law that is not registered is listed, or pure."""
    if can_list(law, change):
        return listed_cost(law, change)
    declared_epsilon = _declared(law, change)
    if declared_epsilon is None:
        raise AccountingError(_no_price(law, change))
    epsilon = real_between("pure_epsilon", declared_epsilon, 1e-9, 1e12)
    # The mixing must pay for what the sampler's rounding may add.
    least_weight = 2 * PROBABILITY_ERROR * change.classes**2 / -np.expm1(-epsilon)
    if law.mixing_weight(change.classes) < least_weight:
        raise AccountingError(
            f"law={type(law).__name__} has a mixing_weight too small for its pure_epsilon={epsilon:g}: return "
            "dpensemble.laws.least_mixing_weight of that epsilon, or use less noise."
        )
    return pure_cost(epsilon)


def _no_price(law: ReleaseLaw, change: Change) -> str:
    """Return the error text for a law without a price, with its remedies."""
    own = "" if is_proven(law) else ", or define pure_epsilon"
    return (
        f"law={law.name or type(law).__name__!r} cannot be accounted for with n_classes={change.classes} and "
        f"{change.ballots:,} {'teachers' if change.moved == 1 else 'ballots'}: use law='gnmax', two classes or fewer "
        f"teachers{own}."
    )


@many_classes.register(LaplaceNoisyMax)
def _(law: LaplaceNoisyMax, change: Change) -> PrivacyCost:
    if is_listed_soon(law, change, _LARGEST_GAP_LAPLACE):
        return gathered_cost(law, change)
    if change.votes == 1 and _covered(change.weight / law.scale):
        return _noisy_max("laplace", law, change.weight / law.scale, change.classes)
    pure = pure_cost(law.pure_epsilon(change.moved))
    return _with_curve(pure, "laplace", law, change.moved / law.scale, change.classes)


@many_classes.register(GaussianNoisyMax)
def _(law: GaussianNoisyMax, change: Change) -> PrivacyCost:
    if change.votes == 1 and _covered(change.weight / law.sigma):
        curve_cost = _noisy_max("gaussian", law, change.weight / law.sigma, change.classes)
    else:
        # Papernot et al. 2018, Proposition 8: two counts move by at most the ballots' weight each.
        published = PrivacyCost(rdp=DEFAULT_ORDERS * (change.moved / law.sigma) ** 2)
        curve_cost = _with_curve(published, "gaussian", law, change.moved / law.sigma, change.classes)
    if not is_listed_soon(law, change, _LARGEST_GAP_GAUSSIAN):
        return curve_cost
    # Between the orders at which groups are compared, groups may exceed the known curve, which is close here.
    listed = gathered_cost(law, change)
    return PrivacyCost(rdp=np.minimum(curve_cost.rdp, listed.rdp), parts=listed.parts)


def _with_curve(
    known: PrivacyCost, noise: Literal["gaussian", "laplace"], law: ReleaseLaw, shift: float, n_classes: int
) -> PrivacyCost:
    """Return a cost with the smaller of its Renyi curve and that of several votes, if the latter exists."""
    if not _covered(shift):
        return known
    rounding = 5 * PROBABILITY_ERROR * n_classes**2 / law.mixing_weight(n_classes)
    several = several_votes_rdp(noise, shift, n_classes, rounding)
    return PrivacyCost(rdp=np.minimum(known.rdp, several), parts=known.parts)


@many_classes.register(ExponentialVote)
def _(law: ExponentialVote, change: Change) -> PrivacyCost:
    if can_list(law, change):
        return listed_cost(law, change)
    # Losses of one answer lie in a range of that width, whose start depends on the votes. The price covers every start
    # (Dong, Durfee and Rogers 2020, section 3).
    mixed = law.mixing_weight(change.classes)
    return bounded_range_cost(law.pure_epsilon(change.moved), 2 * PROBABILITY_ERROR * change.classes**2 / mixed)


@lru_cache(maxsize=64)
def bounded_range_cost(width: float, slack: float) -> PrivacyCost:
    """Price answers whose losses lie in a range of some width, widened by a slack that pays for rounding.

    Losses between two values are dominated by the pair of laws that takes those two alone. Ranges that start in the
    same cell share a pair that covers them all.
    """
    if width > _LARGEST_EPSILON:
        return pure_cost(width)
    starts = np.linspace(0.0, width, _CELLS + 1)
    high, low = starts[1:] + slack, starts[:-1] - width - slack
    likelier = -np.expm1(low) / -np.expm1(low - high)
    p = np.stack([likelier, 1 - likelier], axis=1)
    return PrivacyCost.of(DominatingPairs(p, p * np.exp(-np.stack([high, low], axis=1))))


@lru_cache(maxsize=64)
def _noisy_max(noise: Literal["gaussian", "laplace"], law: ReleaseLaw, shift: float, n_classes: int) -> PrivacyCost:
    """Price noisy-max over two gaps. Half of the sampler's mixing pays for its rounding."""
    # The sampled law is a mixture. With weight ``w / 2`` it is a law within a factor ``exp(eta)`` of uniform (all
    # rounding errors, spread over that half), which randomized response at ``eta`` dominates. Otherwise it is the other
    # half's mixture, which the pairs dominate.
    weight = law.mixing_weight(n_classes)
    pairs = two_gap_pairs(noise, shift, n_classes, weight / 2)
    eta = 5 * PROBABILITY_ERROR * n_classes**2 / weight
    if not pairs.dominate_randomized_response(eta):
        raise AccountingError("the noise must be smaller, since the sampler's rounding outweighs it: use less noise.")
    return PrivacyCost.of(pairs)


def refuse_students(law: ReleaseLaw) -> None:
    """Refuse a law whose answers depend on a student's predictions as well as on the counts."""
    if law.needs_student:
        raise AccountingError(
            f"{type(law).__name__} depends on a student too, so counts alone cannot price it, and it has no "
            "data-dependent analysis: use price, in the worst case."
        )


def _covered(shift: float) -> bool:
    return _SMALLEST_SHIFT <= shift <= _LARGEST_SHIFT


def pure_cost(epsilon: float) -> PrivacyCost:
    """Return the cost of an epsilon-private answer: that of randomized response (Kairouz et al. 2015)."""
    if epsilon > _LARGEST_EPSILON:
        return PrivacyCost(rdp=np.full_like(DEFAULT_ORDERS, epsilon))
    table = np.array([[1.0, np.exp(-epsilon)]]) / (1 + np.exp(-epsilon))
    return PrivacyCost.of(DominatingPairs(table, table[:, ::-1]))
