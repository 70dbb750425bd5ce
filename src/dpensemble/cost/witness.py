"""The data that a verifier needs to check a composition: groups of pairs, grid, windows and blocks, coarsest first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from dpensemble.budget import Budget
from dpensemble.cost.composition import AdaptiveComposition
from dpensemble.cost.gated import GatedComposition
from dpensemble.cost.merging import gathered, outlined
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.cost.recursion import Layout, Recursion
from dpensemble.errors import AccountingError

#: The most that a verifier accepts.
MOST_GROUPS, _MOST_BLOCKS, _MOST_UNITS = 1_000, 2_000, 19_999
# Fewest standard deviations of the loss around the way from the start to where epsilon is evaluated.
_AROUND = 4.5
# The verifier's bound on errors of a sampled weight.
_NEAR = 3e-14
# Share that the verifier's rounding may add to delta.
ROUNDING = 1e-5
_COARSE, _MOST_WORK, _MOST_WORK_OF_MANY = (4, 6, 8, 10, 12, 16), 5e9, 1e11
# By how much corners may exceed the worst pair, up to which order, and the finest grid for which they are useful.
_TOLERANCES, _LARGEST_ORDER, _FINE = (1e-3, 2e-4, 5e-5), 50.0, 24
# If the composition's groups stand for neighbours only together: nodes in a deviation, how loose, to which order.
_OF_MANY = ((6, 0.02, 50.0), (8, 0.01, 50.0), (10, 0.005, 50.0), (12, 0.002, 50.0), (12, 0.0005, 200.0))
# Number of roundings of a query.
_ERRORS = 7
# Nodes in a deviation and looseness of a label's corners, the least work first.
_COARSE_GATES = ((6, 0.01), (8, 0.003), (10, 0.002), (12, 0.001))
# The same for groups of listed neighbours of more classes.
_GATES_OF_MANY = ((6, 0.01), (6, 0.006), (7, 0.005), (8, 0.003))


class Neighbours(Protocol):
    """Laws of all neighbours, as a verifier lists them."""

    classes: int
    pairs: DominatingPairs

    def is_covered(self, groups: DominatingPairs) -> bool:
        """Return whether every pair of neighbours lies below one of `groups`."""


@dataclass(frozen=True, eq=False, slots=True)
class Witness:
    """How a verifier follows answers: pairs for all neighbours, the grid's step, windows of nodes, and blocks."""

    # Groups are corners of two outcomes between which all pairs lie, or groups such that each pair lies below one.
    answers: int
    groups: DominatingPairs
    step: float
    windows: list[list[int]]
    block: list[int] | None
    corners: bool


@dataclass(frozen=True, eq=False, slots=True)
class _Followed:
    """The grid on which a number of answers is followed, and the size of its blocks."""

    layout: Layout
    answers: int
    block: int | None
    corners: bool = False


def votes_witness(composed: AdaptiveComposition, neighbours: Neighbours, answers: int, budget: Budget) -> Witness:
    """Return how a number of answers of one law is followed, on the coarsest grid on which it fits the budget."""
    followed = _coarsest(composed, neighbours, answers, budget)
    layout, size = followed.layout, followed.block
    block = None if size is None else [size, answers // size - 1]
    return Witness(answers, layout.groups, layout.step, _windows(followed, budget), block, followed.corners)


def _coarsest(composed: AdaptiveComposition, neighbours: Neighbours, answers: int, budget: Budget) -> _Followed:
    """Return the coarsest grid on which as many answers still fit the budget, to save the verifier work."""
    block = composed.block_of(answers)
    if composed.delta(answers, budget.epsilon) > budget.delta * (1 - ROUNDING):
        raise AccountingError(_by_a_hair(answers, budget))
    groups = composed.layout.groups
    stand_alone = len(groups) <= MOST_GROUPS and neighbours.is_covered(groups)
    if block is None or not stand_alone:
        for layout, corners in _layouts(composed, answers) if stand_alone else _of_listed(neighbours, answers):
            delta = Recursion(layout, answers).curve(answers).delta(budget.epsilon)
            if delta <= budget.delta * (1 - ROUNDING):
                return _Followed(layout, answers, None, corners)
    if not stand_alone:
        raise AccountingError(_by_a_hair(answers, budget))
    return _Followed(composed.layout, answers, block)


def _by_a_hair(answers: int, budget: Budget) -> str:
    return (
        f"{answers:,} answers are within epsilon={budget.epsilon:g} only narrowly, or by a Renyi conversion; "
        "certificates are for exact composition, so plan for one label less."
    )


def within_rounding(budget: Budget, errors: float) -> Budget:
    """Return the budget less what a verifier adds for the sampler's roundings, or raise if nothing remains."""
    delta = budget.delta - errors * _NEAR * (1 + math.exp(budget.epsilon)) * (1 + 1e-9)
    if delta <= 0:
        raise AccountingError(
            f"delta={budget.delta:g} must exceed what the verifier adds for rounding: use a larger delta."
        )
    return Budget(epsilon=budget.epsilon, delta=delta)


def _of_listed(neighbours: Neighbours, answers: int) -> Iterator[tuple[Layout, bool]]:
    """Return layouts whose groups stand for similar listed neighbours, coarser ones first."""
    for fineness, tolerance, largest_order in _OF_MANY:
        groups = gathered(neighbours.pairs, tolerance, largest_order)
        whole = Layout(groups, 1)
        layout = Layout(groups, math.ceil(fineness * whole.step / whole.deviation))
        if layout.work(answers) < _MOST_WORK_OF_MANY:
            yield layout, False


def _layouts(composed: AdaptiveComposition, answers: int) -> Iterator[tuple[Layout, bool]]:
    """Return layouts coarser than the composition's, and whether groups are corners, if corners are fewer."""
    groups, layouts = composed.layout.groups, []
    for tolerance in _TOLERANCES if composed.pairs.p.shape[1] == 2 else ():
        corners = outlined(composed.pairs, tolerance, _LARGEST_ORDER)
        if len(corners) < len(groups):
            layouts += [(Layout(corners, n_steps), True) for n_steps in (*_COARSE, _FINE)]
    layouts += [(Layout(groups, n_steps), False) for n_steps in _COARSE if n_steps < composed.layout.n_steps]
    yield from (each for each in layouts if each[0].work(answers) < _MOST_WORK)


def _windows(followed: _Followed, budget: Budget) -> list[list[int]]:
    """Return the nodes followed after each answer: within reach of the start, and of where epsilon is evaluated."""
    layout, answers, block = followed.layout, followed.answers, followed.block
    if block is not None:
        if answers // block > _MOST_BLOCKS:
            raise AccountingError(f"certificates hold at most {_MOST_BLOCKS * block:,} answers here; got {answers}.")
        rest = answers - block * (answers // block - 1)
        reached = [layout.reach(t) if t else (0, 0) for t in range(rest + 1)]
        return [[-below, above] for below, above in reached]
    deviations = _around(budget.delta, answers)
    return [
        _lens(
            layout.reach(t) if t else (0, 0),
            layout.deviation * math.sqrt(answers - t) + layout.largest,
            layout.step,
            budget.epsilon,
            deviations,
        )
        for t in range(answers + 1)
    ]


def _around(delta: float, answers: int) -> float:
    """Return how many standard deviations to follow. What lies beyond is rarer than delta divided by the answers."""
    return max(_AROUND, math.sqrt(2 * math.log(answers / delta)))


def _lens(reach: tuple[int, int], spread: float, step: float, epsilon: float, deviations: float) -> list[int]:
    """Return the nodes, within reach of the start, from which epsilon may be evaluated, given the remaining spread."""
    below, above = reach
    far, middle = (deviations * spread + spread**2 / 2) / step + 2, -epsilon / step
    low, high = max(-below, math.floor(middle - far)), min(above, math.ceil(middle + far))
    # The first function is known at 0.
    return [low, max(low, high)] if any(reach) else [min(low, 0), max(low, high, 0)]


def gated_witness(composition: GatedComposition, neighbours: Neighbours, queries: int, budget: Budget) -> Witness:
    """Return how all that the units of as many answered queries pay for is followed, on the coarsest grid."""
    block, followed = None, queries
    if queries > composition.followed:
        # Where blocks meet, one query is lost.
        followed = composition.followed
        block = [followed, -(-(queries - followed) // (followed - 1))]
    units = followed * composition.query_units
    if units > _MOST_UNITS:
        raise AccountingError(
            f"{queries:,} gated queries are {units:,} units one by one, and certificates hold {_MOST_UNITS:,}: use a "
            "smaller epsilon, or a law without a gate."
        )
    coarse = _coarsest_gate(composition, neighbours, queries, budget)
    windows = _unit_windows(coarse, followed, budget if block is None else None)
    return Witness(queries, coarse.labels, coarse.step, windows, block, neighbours.classes == 2)


def _coarsest_gate(
    composition: GatedComposition, neighbours: Neighbours, queries: int, budget: Budget
) -> GatedComposition:
    """Return the coarsest composition by which `queries` queries still fit the budget, to save the verifier work."""
    checks = (queries + 1) * composition.query_units / composition.check_units
    of_labels = neighbours.classes**3 * queries if neighbours.classes > 2 else 0
    allowed = within_rounding(budget, _ERRORS * checks + of_labels).delta * (1 - ROUNDING)
    for followed in _looser(composition, neighbours):
        if followed.delta(queries, budget.epsilon) <= allowed:
            return followed
    raise AccountingError(
        f"{queries:,} gated queries are within delta={budget.delta:g} by less than the verifier adds for rounding: use "
        "a smaller epsilon."
    )


def _looser(composition: GatedComposition, neighbours: Neighbours) -> Iterator[GatedComposition]:
    """Return compositions of the same purse with less work, the least first."""
    if composition.labels.p.shape[1] == 2:
        yield from (composition.coarser(*settings) for settings in _COARSE_GATES)
        yield composition
    else:
        # The composition's pairs stand for others only together. The verifier needs one pair that stands for each.
        yield from (composition.coarser(*settings, neighbours.pairs) for settings in _GATES_OF_MANY)


def _unit_windows(composition: GatedComposition, queries: int, budget: Budget | None) -> list[list[int]]:
    """Return the nodes that are followed for each number of units left, or all within reach without a budget."""
    windows, units = [], queries * composition.query_units
    for u in range(units + 1):
        below, above = composition.reach(u) if u else (0, 0)
        if budget is None:
            windows.append([-below, above])
        else:
            spread, deviations = composition.spread(units - u), _around(budget.delta, queries)
            windows.append(_lens((below, above), spread, composition.step, budget.epsilon, deviations))
    return windows
