"""What the verifier needs to follow gated queries under a purse: prices, corners of the checks, and windows by unit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpensemble.accounting import Change
from dpensemble.accounting.meters.gate_budget import RenyiFilter, UnitBudget
from dpensemble.budget import Budget
from dpensemble.certificates.listing import Listing, listing_of, whole_laws
from dpensemble.certificates.votes import ROUNDING, around, lens, within_rounding
from dpensemble.cost import GatedComposition
from dpensemble.errors import AccountingError
from dpensemble.laws import ConfidentNoisyMax, ReleaseLaw

_MOST_UNITS = 19_999
# Roundings of a query.
_ERRORS = 7
# Nodes in a deviation and looseness of a label's corners, the least work first.
_COARSE = ((6, 0.01), (8, 0.003), (10, 0.002), (12, 0.001))
# The same for groups of listed neighbours of more classes.
_OF_MANY = ((6, 0.01), (6, 0.006), (7, 0.005), (8, 0.003))


def gated_part(law: ReleaseLaw, change: Change, purse: RenyiFilter) -> dict[str, Any]:
    """Return the body of a part about all that a group's purse pays for.

    Raises
    ------
    AccountingError
        If the group has a Renyi filter instead, or there are too many units for the verifier.
    """
    if not isinstance(purse, UnitBudget) or not isinstance(law, ConfidentNoisyMax):
        raise AccountingError(
            "these gated queries are admitted by a Renyi filter, which cannot be certified; a purse can, which admits "
            "them wherever it pays for more, as with more noise on the check or a larger epsilon."
        )
    composition, queries, budget = purse.composition, purse.within, purse.group.budget
    listing = listing_of(law.answer, change)
    query, block, followed = composition.query_units, None, queries
    if queries > composition.followed:
        # Where blocks meet, a query is lost.
        followed = composition.followed
        block = [followed, -(-(queries - followed) // (followed - 1))]
    if followed * query > _MOST_UNITS:
        raise AccountingError(
            f"{queries:,} gated queries are {followed * query:,} units one by one, and certificates hold "
            f"{_MOST_UNITS:,}; use a smaller epsilon, or a law without a gate."
        )
    coarse = _coarsest(composition, listing, queries, budget)
    return {
        "answers": queries,
        **listing.body(coarse.labels, coarse.step, corners=change.classes == 2),
        "windows": _windows(coarse, followed, budget if block is None else None),
        "block": block,
        "gate": {
            "sigma": repr(float(law.threshold_sigma)),
            "check": composition.check_units,
            "label": composition.label_units,
            "corners": _upper(composition),
        },
    }


def _coarsest(composition: GatedComposition, listing: Listing, queries: int, budget: Budget) -> GatedComposition:
    """Return the coarsest composition by which so many queries still fit the budget, which spares the verifier work."""
    checks = (queries + 1) * composition.query_units / composition.check_units
    of_labels = listing.classes**3 * queries if listing.classes > 2 else 0
    allowed = within_rounding(budget, _ERRORS * checks + of_labels).delta * (1 - ROUNDING)
    for followed in _looser(composition, listing):
        if followed.delta(queries, budget.epsilon) <= allowed:
            return followed
    raise AccountingError(
        f"{queries:,} gated queries are within delta={budget.delta:g} by less than the verifier adds for rounding; use "
        "a smaller epsilon."
    )


def _looser(composition: GatedComposition, listing: Listing) -> Iterator[GatedComposition]:
    """Return compositions of the same purse that are less work, the least first."""
    if composition.labels.p.shape[1] == 2:
        yield from (composition.coarser(*settings) for settings in _COARSE)
        yield composition
    else:
        # The composition's pairs stand for others only together; the verifier wants one that stands alone.
        yield from (composition.coarser(*settings, listing.pairs) for settings in _OF_MANY)


def _upper(composition: GatedComposition) -> list[list[int]]:
    """Return the corners at which the first input passes more often; the others mirror them."""
    both = whole_laws(composition.checks)
    return [[p[0], q[0]] for p, q in both if p[0] > q[0] and p[0] + q[0] <= 2**63]


def _windows(composition: GatedComposition, queries: int, budget: Budget | None) -> list[list[int]]:
    """Return the nodes that are followed for each number of units left; all within reach where there is no budget."""
    found, units = [], queries * composition.query_units
    for u in range(units + 1):
        below, above = composition.reach(u) if u else (0, 0)
        if budget is None:
            found.append([-below, above])
        else:
            spread, deviations = composition.spread(units - u), around(budget.delta, queries)
            found.append(lens((below, above), spread, composition.step, budget.epsilon, deviations))
    return found
