"""What the verifier needs to follow answers of one law: weights, groups of pairs, who covers whom, grid and windows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble.accounting import Change
from dpensemble.accounting.worst_case.listed import sorted_histograms
from dpensemble.budget import Budget
from dpensemble.cost.composition import AdaptiveComposition
from dpensemble.cost.groups import outlined
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.cost.recursion import Layout, Recursion
from dpensemble.cost.roc import vertices
from dpensemble.errors import AccountingError
from dpensemble.laws import ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax, OptimalVote, ReleaseLaw
from dpensemble.laws.sampling import integer_weights

_TOTAL = 2**63
_RATIO_BITS = 40
MOST_GROUPS, _MOST_ROWS, _MOST_BALLOTS, _MOST_BLOCKS = 300, 30_000, 50_000, 2_000
# Fewest standard deviations of the loss around the way from the start to where epsilon is read.
_AROUND = 4.5
# The verifier's: errors of a sampled weight.
_NEAR = 3e-14
# What the verifier's rounding may add to delta, as a share.
ROUNDING = 1e-5
_COARSE, _MOST_WORK = (4, 6, 8, 10, 12, 16), 5e9
# By how much corners may exceed the worst pair, up to which order; and the finest grid that they are worth.
_TOLERANCES, _LARGEST_ORDER, _FINE = (1e-3, 2e-4, 5e-5), 50.0, 24
# What may be lacking of domination in double precision; the verifier decides in whole numbers.
_NEARLY = 4e-16


@dataclass(frozen=True, eq=False, slots=True)
class Followed:
    """How the verifier follows a number of answers: on which grid, and in blocks of how many."""

    layout: Layout
    answers: int
    block: int | None
    #: Whether groups are corners of two outcomes, between which all pairs lie.
    corners: bool = False


def coarsest(composed: AdaptiveComposition, answers: int, budget: Budget) -> Followed:
    """Return the coarsest grid on which so many answers still fit the budget, which spares the verifier work.

    Raises
    ------
    AccountingError
        If they fit it by another conversion only.
    """
    block = composed.block_of(answers)
    if composed.delta(answers, budget.epsilon) > budget.delta * (1 - ROUNDING):
        raise AccountingError(
            f"{answers:,} answers are within epsilon={budget.epsilon:g} by a Renyi conversion or by a hair only; "
            "certificates are for exact composition, so plan for one label less."
        )
    if block is None:
        for layout, corners in _layouts(composed):
            if layout.work(answers) < _MOST_WORK:
                delta = Recursion(layout, answers).curve(answers).delta(budget.epsilon)
                if delta <= budget.delta * (1 - ROUNDING):
                    return Followed(layout, answers, None, corners)
    return Followed(composed.layout, answers, block)


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


def _layouts(composed: AdaptiveComposition) -> Iterator[tuple[Layout, bool]]:
    """Return coarser layouts than the composition's, and whether groups are corners: where these are fewer."""
    groups = composed.layout.groups
    for tolerance in _TOLERANCES if composed.pairs.p.shape[1] == 2 else ():
        corners = outlined(composed.pairs, tolerance, _LARGEST_ORDER)
        if len(corners) < len(groups):
            yield from ((Layout(corners, n_steps), True) for n_steps in (*_COARSE, _FINE))
    yield from ((Layout(groups, n_steps), False) for n_steps in _COARSE if n_steps < composed.layout.n_steps)


def votes_part(law: ReleaseLaw, change: Change, followed: Followed, budget: Budget) -> dict[str, Any]:
    """Return the body of a part about answers of one law, all of them given.

    Raises
    ------
    AccountingError
        If there are too many counts, pairs or answers for the verifier; the message says which.
    """
    return {
        "answers": followed.answers,
        **law_part(law, change, followed.layout.groups, followed.layout.step, corners=followed.corners),
        "windows": _windows(followed, budget),
        "block": followed.block and [followed.block, followed.answers // followed.block - 1],
        "gate": None,
    }


def law_part(
    law: ReleaseLaw, change: Change, groups: DominatingPairs, step: float, *, corners: bool = False
) -> dict[str, Any]:
    """Return which votes are answered by which law, and which pairs stand for neighbouring counts.

    Each count lies below a pair, unless all lie between `corners` of two outcomes.
    """
    rows = _rows(change)
    weights = integer_weights(law, rows)
    if weights.min() < 1:
        raise AccountingError("an outcome that is never sampled cannot be certified; use a law with more mixing.")
    if len(groups) > MOST_GROUPS:
        raise AccountingError(
            f"the answers need {len(groups):,} groups of neighbouring counts, and certificates hold {MOST_GROUPS}; "
            "use two classes, or Laplace noise."
        )
    return {
        "ballots": change.ballots,
        "classes": change.classes,
        "votes": change.votes,
        "weight": change.weight,
        "law": _named(law, change.classes),
        "weights": weights.tolist(),
        "groups": whole_laws(groups),
        "cover": None if corners else _cover(groups, *_neighbours(rows, weights, change)),
        "ratio": round(math.exp(step) * 2**_RATIO_BITS),
    }


def _rows(change: Change) -> Integers:
    """Return the counts that are listed: all of two classes, falling ones of more."""
    if change.ballots > _MOST_BALLOTS:
        raise AccountingError(f"certificates are for at most {_MOST_BALLOTS:,} ballots, not {change.ballots:,}.")
    if change.classes == 2:
        second = np.arange(change.ballots + 1)
        return np.stack([change.ballots - second, second], axis=1)
    listed = math.comb(change.ballots + change.classes - 1, change.classes - 1)
    if listed > _MOST_ROWS * math.factorial(min(change.classes, 5)) or change.votes > 1 or listed > 300_000:
        raise AccountingError(
            f"{change.ballots:,} ballots of {change.classes} classes that change {change.votes} at a time are too many "
            "counts for a certificate; use two classes or fewer teachers."
        )
    return sorted_histograms(change.ballots, change.classes)


def _named(law: ReleaseLaw, n_classes: int) -> list[str]:
    """Return the law's name, mixing and settings where the verifier knows its formula."""
    kinds = (LaplaceNoisyMax, GaussianNoisyMax, ExponentialVote, OptimalVote)
    if n_classes > 2 or type(law) not in kinds:
        return ["table"]
    settings = [law.noise, *([law.shape] if isinstance(law, OptimalVote) else [])]
    return [law.name, *(repr(float(value)) for value in (law.mixing_weight(2), *settings))]


def whole_laws(pairs: DominatingPairs) -> list[list[list[int]]]:
    """Return the laws of each pair in whole numbers that add up to 2**63; what cannot happen is left out."""
    return [_whole(p, q) for p, q in zip(pairs.p.tolist(), pairs.q.tolist(), strict=True)]


def _whole(p: list[float], q: list[float]) -> list[list[int]]:
    """Return a group's laws in whole numbers that add up to 2**63; what cannot happen is left out."""
    possible = [(max(1, int(a * _TOTAL)), int(b * _TOTAL)) for a, b in zip(p, q, strict=True) if b > 0]
    sides = [list(side) for side in zip(*possible, strict=True)]
    for side in sides:
        side[side.index(max(side))] += _TOTAL - sum(side)
    return sides


def _neighbours(rows: Integers, weights: Any, change: Change) -> tuple[Floats, Floats]:
    """Return the laws of all neighbours in the verifier's order."""
    laws = weights / _TOTAL
    if change.classes == 2:
        here_there = []
        moved = change.moved
        rising = bool(np.all(weights[1:, 1] >= weights[:-1, 1]))
        for shift in [moved] if rising else range(1, moved + 1):
            for here in range(change.ballots + 1):
                found = {min(here + shift, change.ballots), max(here - shift, 0)} - {here}
                here_there += [(here, there) for there in found]
        here, there = np.array(here_there).T
        return laws[here], laws[there]
    place = {tuple(row): index for index, row in enumerate(rows.tolist())}
    moves = [(a, b) for a in range(change.classes) for b in range(change.classes) if a != b]
    here_index, moved_laws = [], []
    for index, row in enumerate(rows.tolist()):
        for source, target in moves:
            if row[source] >= change.weight:
                moved_row = np.array(row)
                moved_row[source] -= change.weight
                moved_row[target] += change.weight
                order = np.argsort(-moved_row, kind="stable")
                there_law = np.empty(change.classes)
                there_law[order] = laws[place[tuple(moved_row[order].tolist())]]
                here_index.append(index)
                moved_laws.append(there_law)
    return laws[here_index], np.array(moved_laws)


def _cover(groups: DominatingPairs, p: Floats, q: Floats) -> list[int]:
    """Return, for each pair, the group whose curve lies farthest above its own."""
    inner = vertices(p, q)[:, 1:-1]
    best, place = np.full(len(p), -np.inf), np.zeros(len(p), dtype=np.int64)
    for index, curve in enumerate(vertices(groups.p, groups.q)):
        above = np.interp(inner[:, :, 0], curve[:, 0], curve[:, 1]) - inner[:, :, 1]
        # Where both are near an end of the curve, so is the distance between them.
        share = (above / np.minimum(inner[:, :, 1], 1 - inner[:, :, 1] + 1e-18)).min(axis=1)
        place[share > best] = index
        best = np.maximum(best, share)
    if best.min() < -_NEARLY * 1e3:
        raise AccountingError("some neighbouring counts are covered by no group, which should not happen; report it.")
    return place.tolist()


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
