"""What the verifier needs to follow answers of one law: groups of pairs, grid, windows and blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dpensemble.budget import Budget
from dpensemble.certificates.listing import MOST_GROUPS, Listing
from dpensemble.cost.composition import AdaptiveComposition
from dpensemble.cost.merging import gathered, outlined
from dpensemble.cost.recursion import Layout, Recursion
from dpensemble.errors import AccountingError

_MOST_BLOCKS = 2_000
# Fewest standard deviations of the loss around the way from the start to where epsilon is read.
_AROUND = 4.5
# The verifier's: errors of a sampled weight.
_NEAR = 3e-14
# What the verifier's rounding may add to delta, as a share.
ROUNDING = 1e-5
_COARSE, _MOST_WORK, _MOST_WORK_OF_MANY = (4, 6, 8, 10, 12, 16), 5e9, 1e11
# By how much corners may exceed the worst pair, up to which order; and the finest grid that they are worth.
_TOLERANCES, _LARGEST_ORDER, _FINE = (1e-3, 2e-4, 5e-5), 50.0, 24
# Where the composition's groups stand for neighbours only together: nodes in a deviation, how loose, to which order.
_OF_MANY = ((6, 0.02, 50.0), (8, 0.01, 50.0), (10, 0.005, 50.0), (12, 0.002, 50.0), (12, 0.0005, 200.0))


@dataclass(frozen=True, eq=False, slots=True)
class Followed:
    """How the verifier follows a number of answers: on which grid, and in blocks of how many."""

    layout: Layout
    answers: int
    block: int | None
    #: Whether groups are corners of two outcomes, between which all pairs lie.
    corners: bool = False


def coarsest(composed: AdaptiveComposition, listing: Listing, answers: int, budget: Budget) -> Followed:
    """Return the coarsest grid on which so many answers still fit the budget, which spares the verifier work.

    Raises
    ------
    AccountingError
        If they fit it by another conversion only.
    """
    block = composed.block_of(answers)
    if composed.delta(answers, budget.epsilon) > budget.delta * (1 - ROUNDING):
        raise AccountingError(_by_a_hair(answers, budget))
    groups = composed.layout.groups
    stand_alone = len(groups) <= MOST_GROUPS and listing.is_covered(groups)
    if block is None or not stand_alone:
        for layout, corners in _layouts(composed, answers) if stand_alone else _of_listed(listing, answers):
            delta = Recursion(layout, answers).curve(answers).delta(budget.epsilon)
            if delta <= budget.delta * (1 - ROUNDING):
                return Followed(layout, answers, None, corners)
    if not stand_alone:
        raise AccountingError(_by_a_hair(answers, budget))
    return Followed(composed.layout, answers, block)


def _by_a_hair(answers: int, budget: Budget) -> str:
    return (
        f"{answers:,} answers are within epsilon={budget.epsilon:g} by a Renyi conversion or by a hair only; "
        "certificates are for exact composition, so plan for one label less."
    )


def within_rounding(budget: Budget, errors: float) -> Budget:
    """Return the budget less what the verifier adds for so many roundings of the sampler.

    Raises
    ------
    AccountingError
        If nothing is left.
    """
    delta = budget.delta - errors * _NEAR * (1 + math.exp(budget.epsilon)) * (1 + 1e-9)
    if delta <= 0:
        raise AccountingError(
            f"delta={budget.delta:g} is less than what the verifier adds for rounding; use a larger delta."
        )
    return Budget(epsilon=budget.epsilon, delta=delta)


def _of_listed(listing: Listing, answers: int) -> Iterator[tuple[Layout, bool]]:
    """Return layouts whose groups stand for listed neighbours that are alike, coarser ones first."""
    for fineness, tolerance, largest_order in _OF_MANY:
        groups = gathered(listing.pairs, tolerance, largest_order)
        whole = Layout(groups, 1)
        layout = Layout(groups, math.ceil(fineness * whole.step / whole.deviation))
        if layout.work(answers) < _MOST_WORK_OF_MANY:
            yield layout, False


def _layouts(composed: AdaptiveComposition, answers: int) -> Iterator[tuple[Layout, bool]]:
    """Return coarser layouts than the composition's, and whether groups are corners: where these are fewer."""
    groups, found = composed.layout.groups, []
    for tolerance in _TOLERANCES if composed.pairs.p.shape[1] == 2 else ():
        corners = outlined(composed.pairs, tolerance, _LARGEST_ORDER)
        if len(corners) < len(groups):
            found += [(Layout(corners, n_steps), True) for n_steps in (*_COARSE, _FINE)]
    found += [(Layout(groups, n_steps), False) for n_steps in _COARSE if n_steps < composed.layout.n_steps]
    yield from (each for each in found if each[0].work(answers) < _MOST_WORK)


def votes_part(listing: Listing, followed: Followed, budget: Budget) -> dict[str, Any]:
    """Return the body of a part about answers of one law, all of them given.

    Raises
    ------
    AccountingError
        If there are too many pairs or answers for the verifier; the message says which.
    """
    return {
        "answers": followed.answers,
        **listing.body(followed.layout.groups, followed.layout.step, corners=followed.corners),
        "windows": _windows(followed, budget),
        "block": followed.block and [followed.block, followed.answers // followed.block - 1],
        "gate": None,
    }


def _windows(followed: Followed, budget: Budget) -> list[list[int]]:
    """Return the nodes that are followed after each answer: within reach of the start, and of where epsilon is read."""
    layout, answers, block = followed.layout, followed.answers, followed.block
    if block is not None:
        if answers // block > _MOST_BLOCKS:
            raise AccountingError(f"certificates are for at most {_MOST_BLOCKS * block:,} answers here, not {answers}.")
        rest = answers - block * (answers // block - 1)
        reached = [layout.reach(t) if t else (0, 0) for t in range(rest + 1)]
        return [[-below, above] for below, above in reached]
    deviations = around(budget.delta, answers)
    return [
        lens(
            layout.reach(t) if t else (0, 0),
            layout.deviation * math.sqrt(answers - t) + layout.largest,
            layout.step,
            budget.epsilon,
            deviations,
        )
        for t in range(answers + 1)
    ]


def around(delta: float, answers: int) -> float:
    """Return how many standard deviations to follow: what lies beyond is rarer than delta over the answers."""
    return max(_AROUND, math.sqrt(2 * math.log(answers / delta)))


def lens(reach: tuple[int, int], spread: float, step: float, epsilon: float, deviations: float) -> list[int]:
    """Return the nodes within reach below and above the start that epsilon may be read from, the spread being left."""
    below, above = reach
    far, read = (deviations * spread + spread**2 / 2) / step + 2, -epsilon / step
    low, high = max(-below, math.floor(read - far)), min(above, math.ceil(read + far))
    # The first function is known at 0.
    return [low, max(low, high)] if any(reach) else [min(low, 0), max(low, high, 0)]
