"""All possible votes of a law, their answers, and the pairs that stand for neighbours, as the verifier lists them."""

from __future__ import annotations

import math
from dataclasses import astuple
from functools import lru_cache
from typing import Any

import numpy as np

from dpensemble._arrays import Floats, Integers
from dpensemble.accounting import Change
from dpensemble.accounting.worst_case import sorted_histograms
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.cost.roc import vertices
from dpensemble.cost.witness import MOST_GROUPS, Witness
from dpensemble.errors import AccountingError
from dpensemble.laws import ExponentialVote, GaussianNoisyMax, LaplaceNoisyMax, OptimalVote, ReleaseLaw
from dpensemble.laws.sampling import integer_weights

_TOTAL = 2**63
_RATIO_BITS = 40
_MOST_ROWS, _MOST_BALLOTS = 30_000, 50_000
# Domination may be missed by this much in double precision. The verifier decides in whole numbers.
_LEAST_ABOVE = -4e-13


class Listing:
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

    def body(self, witness: Witness, gate: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the body of a part: the law, the pairs for all neighbours, and how answers are followed."""
        groups = witness.groups
        if len(groups) > MOST_GROUPS:
            raise AccountingError(
                f"the answers need {len(groups):,} groups of neighbouring counts, and certificates hold "
                f"{MOST_GROUPS:,}: use two classes, or Laplace noise."
            )
        return {
            "answers": witness.answers,
            "ballots": self._change.ballots,
            "classes": self._change.classes,
            "votes": self._change.votes,
            "weight": self._change.weight,
            "law": _named(self._law, self._change.classes),
            "weights": self._weights.tolist(),
            "groups": whole_laws(groups),
            "cover": None if witness.corners else self._cover(groups),
            "ratio": round(math.exp(witness.step) * 2**_RATIO_BITS),
            "windows": witness.windows,
            "block": witness.block,
            "gate": gate,
        }

    def is_covered(self, groups: DominatingPairs) -> bool:
        """Return whether every pair of neighbours lies below one of `groups`, within double precision."""
        # All pairs of two outcomes do: see `grouped`.
        return self._change.classes == 2 or bool(_farthest_above(groups, self.pairs)[0].min() >= _LEAST_ABOVE)

    def _cover(self, groups: DominatingPairs) -> list[int]:
        above, which = _farthest_above(groups, self.pairs)
        if above.min() < _LEAST_ABOVE:
            raise AccountingError(
                "a group must cover every pair of neighbours; this is a defect of dpensemble, please report it."
            )
        return which.tolist()


@lru_cache(maxsize=2)
def listing_of(law: ReleaseLaw, change: Change) -> Listing:
    """Return the listing of such votes, refusing too many counts for the verifier. Recent listings are cached."""
    return Listing(law, change)


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


def whole_laws(pairs: DominatingPairs) -> list[list[list[int]]]:
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
    inner = vertices(pairs.p, pairs.q)[:, 1:-1]
    best, place = np.full(len(pairs), -np.inf), np.zeros(len(pairs), dtype=np.int64)
    for index, curve in enumerate(vertices(groups.p, groups.q)):
        above = np.interp(inner[:, :, 0], curve[:, 0], curve[:, 1]) - inner[:, :, 1]
        # Near an end of the curve for both, the distance between them is small, too.
        share = (above / np.minimum(inner[:, :, 1], 1 - inner[:, :, 1] + 1e-18)).min(axis=1)
        place[share > best] = index
        best = np.maximum(best, share)
    return best, place
