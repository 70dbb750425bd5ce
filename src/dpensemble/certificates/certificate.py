"""Certificates of plans and of runs, and the program that checks certificates in a process of its own.

A part of a certificate has a statement, and what a verifier needs to follow the answers. A `_Listing` holds all
possible votes of a law, their answers, and the pairs that stand for neighbours, as the verifier lists them. A
`_Witness` holds groups of pairs, the grid, its windows and blocks, as coarse as the budget allows.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dpensemble._entries import Floats, Integers
from dpensemble._files import STANDARD_INPUT
from dpensemble.accounting import Change, Group
from dpensemble.accounting.subsampling import SubsampledCost
from dpensemble.accounting.worst_case import sorted_histograms
from dpensemble.allocation import BootstrapScheme
from dpensemble.cost import PrivacyCost
from dpensemble.cost.composition import AdaptiveComposition, Layout, Recursion
from dpensemble.cost.gated import GatedComposition
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.darrm import Allowance
from dpensemble.errors import AccountingError, FileError, VerifierError
from dpensemble.guarantee import Budget
from dpensemble.laws import (
    ExponentialVote,
    GaussianNoisyMax,
    LaplaceNoisyMax,
    OptimalVote,
    RandomizedResponseMajority,
    ReleaseLaw,
)
from dpensemble.laws.sampling import integer_weights
from dpensemble.releases.parts import SiteNoise

#: The most that a verifier accepts.
_MOST_GROUPS, _MOST_BLOCKS, _MOST_UNITS = 1_000, 2_000, 19_999
# Fewest standard deviations of the loss around the way from the start to where epsilon is evaluated.
_AROUND = 4.5
# The verifier's bound on errors of a sampled weight.
_NEAR = 3e-14
# Share that the verifier's rounding may add to delta.
_ROUNDING = 1e-5
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


@dataclass(frozen=True, eq=False, slots=True)
class _Witness:
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


def _votes_witness(composed: AdaptiveComposition, neighbours: _Listing, answers: int, budget: Budget) -> _Witness:
    """Return how a number of answers of one law is followed, on the coarsest grid on which it fits the budget."""
    followed = _coarsest(composed, neighbours, answers, budget)
    layout, size = followed.layout, followed.block
    block = None if size is None else [size, answers // size - 1]
    return _Witness(answers, layout.groups, layout.step, _windows(followed, budget), block, followed.corners)


def _coarsest(composed: AdaptiveComposition, neighbours: _Listing, answers: int, budget: Budget) -> _Followed:
    """Return the coarsest grid on which as many answers still fit the budget, to save the verifier work."""
    block = composed.block_of(answers)
    if composed.delta(answers, budget.epsilon) > budget.delta * (1 - _ROUNDING):
        raise AccountingError(_by_a_hair(answers, budget))
    groups = composed.layout.groups
    stand_alone = len(groups) <= _MOST_GROUPS and neighbours.is_covered(groups)
    if block is None or not stand_alone:
        for layout, corners in _layouts(composed, answers) if stand_alone else _of_listed(neighbours, answers):
            delta = Recursion(layout, answers).curve(answers).delta(budget.epsilon)
            if delta <= budget.delta * (1 - _ROUNDING):
                return _Followed(layout, answers, None, corners)
    if not stand_alone:
        raise AccountingError(_by_a_hair(answers, budget))
    return _Followed(composed.layout, answers, block)


def _by_a_hair(answers: int, budget: Budget) -> str:
    return (
        f"{answers:,} answers are within epsilon={budget.epsilon:g} only narrowly, or by a Renyi conversion; "
        "certificates are for exact composition, so plan for one label less."
    )


def _within_rounding(budget: Budget, errors: float) -> Budget:
    """Return the budget less what a verifier adds for the sampler's roundings, or raise if nothing remains."""
    delta = budget.delta - errors * _NEAR * (1 + math.exp(budget.epsilon)) * (1 + 1e-9)
    if delta <= 0:
        raise AccountingError(
            f"delta={budget.delta:g} must exceed what the verifier adds for rounding: use a larger delta."
        )
    return Budget(epsilon=budget.epsilon, delta=delta)


def _of_listed(neighbours: _Listing, answers: int) -> Iterator[tuple[Layout, bool]]:
    """Return layouts whose groups stand for similar listed neighbours, coarser ones first."""
    for fineness, tolerance, largest_order in _OF_MANY:
        groups = neighbours.pairs.few(tolerance, largest_order)
        whole = Layout(groups, 1)
        layout = Layout(groups, math.ceil(fineness * whole.step / whole.deviation))
        if layout.work(answers) < _MOST_WORK_OF_MANY:
            yield layout, False


def _layouts(composed: AdaptiveComposition, answers: int) -> Iterator[tuple[Layout, bool]]:
    """Return layouts coarser than the composition's, and whether groups are corners, if corners are fewer."""
    groups, layouts = composed.layout.groups, []
    for tolerance in _TOLERANCES if composed.pairs.p.shape[1] == 2 else ():
        corners = composed.pairs.few_corners(tolerance, _LARGEST_ORDER)
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


def _gated_witness(composition: GatedComposition, neighbours: _Listing, queries: int, budget: Budget) -> _Witness:
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
    return _Witness(queries, coarse.labels, coarse.step, windows, block, neighbours.classes == 2)


def _coarsest_gate(
    composition: GatedComposition, neighbours: _Listing, queries: int, budget: Budget
) -> GatedComposition:
    """Return the coarsest composition by which `queries` queries still fit the budget, to save the verifier work."""
    checks = (queries + 1) * composition.query_units / composition.check_units
    of_labels = neighbours.classes**3 * queries if neighbours.classes > 2 else 0
    allowed = _within_rounding(budget, _ERRORS * checks + of_labels).delta * (1 - _ROUNDING)
    for followed in _looser(composition, neighbours):
        if followed.delta(queries, budget.epsilon) <= allowed:
            return followed
    raise AccountingError(
        f"{queries:,} gated queries are within delta={budget.delta:g} by less than the verifier adds for rounding: use "
        "a smaller epsilon."
    )


def _looser(composition: GatedComposition, neighbours: _Listing) -> Iterator[GatedComposition]:
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


_TOTAL = 2**63
_RATIO_BITS = 40
_MOST_ROWS, _MOST_BALLOTS = 30_000, 50_000
# Domination may be missed by this much in double precision. The verifier decides in whole numbers.
_LEAST_ABOVE = -4e-13


class _Listing:
    """All counts of some votes, the weights of their answers, and the laws of all neighbours."""

    def __init__(self, law: ReleaseLaw, change: Change) -> None:
        self._law, self._change = law, change
        self.classes = change.classes
        rows = _rows(change)
        self._weights = integer_weights(law, rows)
        if self._weights.min() < 1:
            raise AccountingError("every outcome must be sampled to be certified: use a law with more mixing.")
        #: Laws of all neighbours, in both orders.
        self.pairs = DominatingPairs(*_neighbours(rows, self._weights, change))

    def body(self, witness: _Witness, gate: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the body of a part: the law, the pairs for all neighbours, and how answers are followed."""
        groups = witness.groups
        if len(groups) > _MOST_GROUPS:
            raise AccountingError(
                f"the answers need {len(groups):,} groups of neighbouring counts, and certificates hold "
                f"{_MOST_GROUPS:,}: use two classes, or Laplace noise."
            )
        return {
            "answers": witness.answers,
            "ballots": self._change.ballots,
            "classes": self._change.classes,
            "votes": self._change.votes,
            "weight": self._change.weight,
            "law": _named(self._law, self._change.classes),
            "weights": self._weights.tolist(),
            "groups": _whole_laws(groups),
            "cover": None if witness.corners else self._cover(groups),
            "ratio": round(math.exp(witness.step) * 2**_RATIO_BITS),
            "windows": witness.windows,
            "block": witness.block,
            "gate": gate,
        }

    def is_covered(self, groups: DominatingPairs) -> bool:
        """Return whether every pair of neighbours lies below one of `groups`, within double precision."""
        # All pairs of two outcomes do: see `DominatingPairs.few_in_order`.
        return self._change.classes == 2 or bool(_farthest_above(groups, self.pairs)[0].min() >= _LEAST_ABOVE)

    def _cover(self, groups: DominatingPairs) -> list[int]:
        above, which = _farthest_above(groups, self.pairs)
        if above.min() < _LEAST_ABOVE:
            raise AccountingError(
                "a group must cover every pair of neighbours; this is a defect of dpensemble, please report it."
            )
        return which.tolist()


@lru_cache(maxsize=2)
def _listing_of(law: ReleaseLaw, change: Change) -> _Listing:
    """Return the listing of such votes, refusing too many counts for the verifier. Recent listings are cached."""
    return _Listing(law, change)


def _rows(change: Change) -> Integers:
    """Return the counts to list: all counts of two classes, falling counts of more."""
    if change.ballots > _MOST_BALLOTS:
        raise AccountingError(f"certificates need at most {_MOST_BALLOTS:,} ballots; got {change.ballots:,}.")
    if change.classes == 2:
        second = np.arange(change.ballots + 1)
        return np.stack([change.ballots - second, second], axis=1)
    if change.votes > 1:
        raise AccountingError(
            f"certificates for {change.classes} classes need records that change one vote; got {change.votes} votes: "
            "use two classes, or one partition."
        )
    n_rows = math.comb(change.ballots + change.classes - 1, change.classes - 1)
    if n_rows > _MOST_ROWS * math.factorial(min(change.classes, 5)) or n_rows > 300_000:
        raise AccountingError(
            f"{change.ballots:,} ballots of {change.classes} classes are too many counts for a certificate: use two "
            "classes or fewer teachers."
        )
    return sorted_histograms(change.ballots, change.classes)


def _named(law: ReleaseLaw, n_classes: int) -> list[str]:
    """Return the law's name, mixing and settings, if the verifier knows its formula."""
    kinds = (LaplaceNoisyMax, GaussianNoisyMax, ExponentialVote, OptimalVote)
    if n_classes > 2 or type(law) not in kinds:
        return ["table"]
    settings = astuple(law)  # type: ignore[call-overload]
    return [law.name, *(repr(float(value)) for value in (law.mixing_weight(2), *settings))]


def _whole_laws(pairs: DominatingPairs) -> list[list[list[int]]]:
    """Return the laws of each pair in whole numbers that add up to 2**63, without impossible outcomes."""
    return [_whole(p, q) for p, q in zip(pairs.p.tolist(), pairs.q.tolist(), strict=True)]


def _whole(p: list[float], q: list[float]) -> list[list[int]]:
    """Return a group's laws in whole numbers that add up to 2**63, without impossible outcomes."""
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
                neighbours = {min(here + shift, change.ballots), max(here - shift, 0)} - {here}
                here_there += [(here, there) for there in neighbours]
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


def _farthest_above(groups: DominatingPairs, pairs: DominatingPairs) -> tuple[Floats, Integers]:
    """Return, for each pair, by how much and which group's curve lies farthest above its own."""
    inner = pairs.vertices()[:, 1:-1]
    best, place = np.full(len(pairs), -np.inf), np.zeros(len(pairs), dtype=np.int64)
    for index, curve in enumerate(groups.vertices()):
        above = np.interp(inner[:, :, 0], curve[:, 0], curve[:, 1]) - inner[:, :, 1]
        # Near an end of the curve for both, the distance between them is small, too.
        share = (above / np.minimum(inner[:, :, 1], 1 - inner[:, :, 1] + 1e-18)).min(axis=1)
        place[share > best] = index
        best = np.maximum(best, share)
    return best, place


_FORMAT, _VERSION, _MOST_BYTES = "dpensemble certificate", 2, 5_000_000
# Room for everything beside the parts.
_MARGIN = 100
# Fields that only help the verifier. Of several parts with the same statement the strictest claim is kept.
_HELP = frozenset({"groups", "cover", "ratio", "windows", "block"})
# Share of delta for rare numbers of holders, which together are charged in full.
_IN_FULL = 1e-4
# Delta that is charged in full.
_ALL = 0.9


class _Parts:
    """Parts of a certificate, in the order in which a design states them."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []

    def add_votes(self, budget: Budget, law: ReleaseLaw, change: Change, one: PrivacyCost, answers: int) -> None:
        """Add a part about answers of one law, all of which are given."""
        if one.parts is None:
            raise AccountingError(
                "a certificate needs a cost with finite outcomes, not a Renyi curve: use two classes."
            )
        allowed = _within_rounding(budget, change.classes**3 * answers if change.classes > 2 else 0)
        listing = _listing_of(law, change)
        body = listing.body(_votes_witness(one.layout(answers, allowed.delta), listing, answers, allowed))
        self.parts.append(_part("votes", budget.epsilon, budget.delta, body))

    def add_gated(
        self, budget: Budget, law: ReleaseLaw, change: Change, composition: GatedComposition, queries: int
    ) -> None:
        """Add a part about all runs that the units of as many answered queries pay for."""
        listing = _listing_of(law.answer, change)  # type: ignore[attr-defined]
        gate = {
            "sigma": repr(float(law.gate.sigma)),  # type: ignore[attr-defined]
            "check": composition.check_units,
            "label": composition.label_units,
            # At these corners the first input passes more often. The others mirror them.
            "corners": [
                [p[0], q[0]] for p, q in _whole_laws(composition.checks) if p[0] > q[0] and p[0] + q[0] <= 2**63
            ],
        }
        body = listing.body(_gated_witness(composition, listing, queries, budget), gate)
        self.parts.append(_part("votes", budget.epsilon, budget.delta, body))

    def add_drawn(
        self,
        budget: Budget,
        law: ReleaseLaw,
        run: SubsampledCost,
        scheme: BootstrapScheme,
        n_units: int,
        n_classes: int,
    ) -> None:
        """Add a part about teachers that hold a record by chance, with one for each number of holders."""
        inner, labels = run.inner_epsilon(budget.epsilon), run.answers
        composed = run.composed(budget.epsilon, budget.delta, budget.delta * _IN_FULL)
        alone = [composition.delta(labels, inner) for _, composition in composed]
        # From the first number of holders whose answers reveal nearly all, every number is charged in full.
        within = next((place for place, delta in enumerate(alone) if delta > _ALL), len(alone))
        composed, alone = composed[:within], alone[:within]
        # The remaining delta is spread over the numbers of holders, so that each may be followed on a coarser grid.
        in_full = run.held - sum(chance for chance, _ in composed)
        charged = sum(chance * delta for (chance, _), delta in zip(composed, alone, strict=True)) + max(in_full, 0.0)
        lacking = budget.delta * (1 - _ROUNDING) - charged
        if lacking < 0:
            raise AccountingError(
                f"{labels:,} answers are within epsilon={budget.epsilon:g} only narrowly, or by a Renyi conversion: "
                "use two classes, or plan for one label less."
            )
        parts = []
        for holders, ((chance, composition), delta) in enumerate(zip(composed, alone, strict=True), start=1):
            change = Change(ballots=scheme.n_models, classes=n_classes, votes=holders)
            allowed = Budget(
                epsilon=inner, delta=min(0.99, (delta + lacking / len(composed) / chance) / (1 - _ROUNDING))
            )
            listing = _listing_of(law, change)
            body = listing.body(_votes_witness(composition, listing, labels, allowed))
            parts.append({"epsilon": repr(inner), "delta": repr(allowed.delta), "body": body})
        body = _body_of_draws(scheme, n_units) | {"parts": parts}
        self.parts.append(_part("drawn", budget.epsilon, budget.delta, body))


def _body_of_draws(scheme: BootstrapScheme, n_units: int) -> dict[str, Any]:
    """Return the body of a part about the draws alone, where every drawn record may be exposed."""
    return {
        "scheme": scheme.scheme.value,
        "records": n_units,
        "subsample": scheme.subsample,
        "models": scheme.n_models,
        "parts": [],
    }


def _part(kind: str, epsilon: float, delta: float, body: dict[str, Any]) -> dict[str, Any]:
    """Return a part: its statement, and the body that the verifier follows."""
    return {"kind": kind, "epsilon": repr(float(epsilon)), "delta": repr(float(delta)), "body": body}


def _certificate_of_parts(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the certificate of these parts."""
    if not parts:
        raise AccountingError("a certificate needs at least one charged answer: ask for at least one label.")
    parts = _distinct(parts)
    certificate = {
        "format": _FORMAT,
        "version": _VERSION,
        "epsilon": max((part["epsilon"] for part in parts), key=float),
        "delta": max((part["delta"] for part in parts), key=float),
        "parts": parts,
    }
    size = len(json.dumps(certificate, separators=(",", ":")))
    if size > _MOST_BYTES - _MARGIN:
        raise AccountingError(f"a certificate must have at most {_MOST_BYTES:,} bytes; this one would have {size:,}.")
    return certificate


def _distinct(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return parts with different statements. Groups with the same loss share one part, the strictest."""
    strictest_by_statement: dict[str, dict[str, Any]] = {}
    for part in sorted(parts, key=lambda one: float(one["epsilon"])):
        body = {name: value for name, value in part["body"].items() if name not in _HELP}
        strictest_by_statement.setdefault(json.dumps([part["kind"], body]), part)
    strictest = {id(part) for part in strictest_by_statement.values()}
    return [part for part in parts if id(part) in strictest]


_MOST_TEACHERS = 199


class _VotingDesign(Protocol):
    """A design that states what its answers keep, such as `dpensemble.design.VotingDesign`."""

    def certify(self, certificate: Any, labels: int) -> None:
        """Add a part for each group of records."""


def certificate_of(design: _VotingDesign, labels: int) -> dict[str, Any]:
    """Return the certificate that `labels` answers keep the budget of every group of records.

    Parameters
    ----------
    design : VotingDesign
        A run with its budget and noise, such as that of a `Plan`.
    labels : int
        Number of answers, all of which are given.

    Returns
    -------
    dict
        Plain values for JSON. Public, like the settings, since it holds the law for all counts that could occur.

    Raises
    ------
    AccountingError
        If the accounting of the run is not exact composition of one law, or too large for the verifier.

    Examples
    --------
    >>> from dpensemble import PATEClassifier, plan
    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> design = PATEClassifier(law=LaplaceNoisyMax(10), n_teachers=20).design(n_classes=2)
    >>> planned = plan(design, epsilon=1)
    >>> sorted(certificate_of(planned.design, planned.labels))
    ['delta', 'epsilon', 'format', 'parts', 'version']
    """
    parts = _Parts()
    design.certify(parts, labels)
    return _certificate_of_parts(parts.parts)


def certificate_of_draws(scheme: BootstrapScheme, n_units: int) -> dict[str, Any]:
    """Return the certificate of bagging without noise: the chance that a record is drawn, at epsilon 0.

    Parameters
    ----------
    scheme : BootstrapScheme
        How subsamples are drawn.
    n_units : int
        Number of private records (or units). Public.

    Examples
    --------
    >>> scheme = BootstrapScheme("with-replacement", n_models=1, subsample=300)
    >>> round(float(certificate_of_draws(scheme, 60_000)["delta"]), 6)
    0.004988
    """
    # Above the chance itself, since ball arithmetic cannot distinguish the chance from its equal.
    delta = math.nextafter(scheme.inclusion_probability(n_units), 2.0)
    return _certificate_of_parts([_part("drawn", 0.0, delta, _body_of_draws(scheme, n_units))])


def certificate_of_sums(groups: tuple[Group, ...], rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the certificate that Gaussian sums keep the budget of every group of units.

    Parameters
    ----------
    groups : tuple of Group
        Budgets and weights of the units.
    rounds : list of dict
        ``sigma`` (noise in sensitivities), ``variance`` of the discrete noise and ``entries`` of each sum.
    """
    parts = []
    for group in groups:
        body = {"rounds": [{**each, "sigma": repr(each["sigma"]), "weight": repr(group.weight)} for each in rounds]}
        parts.append(_part("sums", group.budget.epsilon, group.budget.delta, body))
    return _certificate_of_parts(parts)


def certificate_of_sites(
    noise: SiteNoise,
    budgets: Mapping[int, Budget],
    rounds: Sequence[dict[str, Any]],
    held_back: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return the certificate that sums of several sites keep a budget for units at some number of sites.

    Parameters
    ----------
    noise : SiteNoise
        How the sites share the noise.
    budgets : dict of int to Budget
        Epsilon and delta of a unit with records at that many sites.
    rounds : list of dict
        ``sigma`` (noise in sensitivities), ``variance`` of the parts of all sites that do not collude, and ``entries``
        of each sum.
    held_back : list of dict
        The same for sums over units that are in none of the others. They are parts of their own, at the same budgets.
    """
    parts, honest = [], noise.n_sites - noise.colluding
    for charges in (rounds, held_back) if held_back else (rounds,):
        for at, budget in budgets.items():
            body = {
                "sites": noise.n_sites,
                "colluding": noise.colluding,
                "at": at,
                "rounds": [
                    {**each, "sigma": repr(each["sigma"]), "weight": "1.0", "drawn": each["variance"] // honest}
                    for each in charges
                ],
            }
            parts.append(_part("sites", budget.epsilon, budget.delta, body))
    return _certificate_of_parts(parts)


def certificate_of_majority(law: RandomizedResponseMajority, allowance: Allowance) -> dict[str, Any]:
    """Return the certificate that a majority of private teachers is as private as its allowance requires.

    Parameters
    ----------
    law : RandomizedResponseMajority
        The majority's law. Its gamma must not fall away from the tie.
    allowance : Allowance
        Privacy of each teacher and of the answer. For example, that of a `GammaSolution`.

    Raises
    ------
    AccountingError
        If gamma falls somewhere, or there are more than 199 teachers.

    Examples
    --------
    >>> from dpensemble.darrm import optimise_gamma
    >>> solution = optimise_gamma(5, epsilon=0.1, m=2)
    >>> certificate_of_majority(solution.law, solution.allowance)["parts"][0]["kind"]
    'majority'
    """
    second = np.arange(allowance.n_teachers + 1)
    weights = integer_weights(law, np.stack([allowance.n_teachers - second, second], axis=1))[:, 1].tolist()
    if allowance.n_teachers > _MOST_TEACHERS or weights != sorted(weights):
        raise AccountingError(
            f"certificates need majorities of up to {_MOST_TEACHERS} teachers whose gamma never falls away from "
            "the tie: use constraints='monotone' and fewer teachers."
        )
    body = {"epsilon": repr(float(allowance.epsilon)), "delta": repr(float(allowance.Delta)), "weights": weights}
    epsilon = allowance.m * allowance.epsilon
    return _certificate_of_parts([_part("majority", epsilon, allowance.delta, body)])


def certificate_of_fit(model: Any, held_back: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the certificate of the releases of a fitted estimator.

    The field ``for_release`` is False when the noise came from a seed. The verifier does not accept such a run.

    Parameters
    ----------
    model : estimator
        Fitted estimator of any method.
    held_back : sequence of dict
        Charged sums over units that the fit does not use. They are parts of their own, at the same budget.

    Raises
    ------
    AccountingError
        If such a run cannot be certified. See `certificate_of`.
    """
    result = model.result_
    if result.charges is not None:
        certificate = certificate_of_sums(result.design.groups, list(result.charges))
    elif result.voted:
        certificate = certificate_of(result.design, result.labels.n_asked)
    else:
        # Models were released, without noise.
        certificate = certificate_of_draws(result.design.scheme, result.design.n_units)
    if held_back:
        stated = result.guarantee
        more = certificate_of_sums(
            (Group("held back", Budget(epsilon=stated.epsilon, delta=stated.delta)),), list(held_back)
        )
        certificate = _certificate_of_parts([*certificate["parts"], *more["parts"]])
    return certificate | {"for_release": bool(result.guarantee.for_release)}


_SECONDS = 600
# Exit code of the verifier where a library that it needs is missing.
_NOT_CHECKED = 3
_SEEDED, _RELEASE = "NOT FOR RELEASE", "stated to be for release"


def _verifier_path() -> Path:
    """Return the path of the verifier, one file that imports nothing of this library."""
    here = Path(__file__).parents[1]
    for path in (here / "verify.py", here.parents[1] / "verify" / "verify.py"):
        if path.exists():
            return path
    raise FileError("the verifier must be installed: get verify/verify.py from the repository.")


def confirmed(path: Path, content: bytes | None = None) -> tuple[bool, str]:
    """Run the verifier on a file in a process of its own.

    Parameters
    ----------
    path : path
        The certificate.
    content : bytes, optional
        What the file holds, if it comes through a pipe, which cannot be read again.

    Returns
    -------
    yes : bool
        Whether the verifier confirms the certificate. False for an experiment, even if its arithmetic is right.
    said : str
        The verifier's sentence. See `release_stated`.

    Raises
    ------
    FileError
        If the verifier is not installed.
    VerifierError
        If python-flint is not installed.
    """
    try:
        # -I keeps this library and the current folder off its path.
        process = subprocess.run(  # noqa: S603
            [sys.executable, "-I", str(_verifier_path()), str(path) if content is None else STANDARD_INPUT],
            input=content,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no: not done after {_SECONDS} seconds"
    if process.returncode == _NOT_CHECKED:
        raise VerifierError(f"the certificate is {_words(process.stdout)}")
    sentence = _words(process.stdout) or f"no: the verifier failed ({process.returncode})"
    return process.returncode == 0 and sentence.startswith("yes:"), sentence


def _words(output: bytes) -> str:
    return output.decode(errors="replace").strip()


def release_stated(said: str) -> bool | None:
    """Return whether the sentence of a confirmed certificate states it is for release, or None if it states neither.

    Parameters
    ----------
    said : str
        The verifier's sentence, from `confirmed`.

    Examples
    --------
    >>> release_stated("NOT FOR RELEASE: the noise came from a seed.")
    False
    """
    if said.startswith(_SEEDED):
        return False
    return True if said.startswith("yes:") and said.endswith(f"; {_RELEASE}") else None
