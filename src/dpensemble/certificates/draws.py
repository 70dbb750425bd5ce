"""What the verifier needs to follow votes of teachers that hold a record by chance: a part for each number of them."""

from __future__ import annotations

from typing import Any

from dpensemble.accounting import Change
from dpensemble.allocation import BootstrapScheme
from dpensemble.budget import Budget
from dpensemble.certificates.listing import listing_of
from dpensemble.certificates.votes import ROUNDING, coarsest, votes_part
from dpensemble.design import Drawn
from dpensemble.errors import AccountingError

# Share of delta that numbers of holders may have, all together, which are charged in full.
_IN_FULL = 1e-4
# Delta that is charged in full.
_ALL = 0.9


def drawn_part(design: Drawn, labels: int) -> dict[str, Any]:
    """Return the body of a part about so many answers of teachers that learn what was drawn for them.

    Raises
    ------
    AccountingError
        If they fit the budget by a hair only, or one number of holders has a Renyi curve only.
    """
    cost, scheme, budget = design.cost, design.scheme, design.groups[0].budget
    inner = cost.inner_epsilon(budget.epsilon)
    composed = (cost * labels).composed(budget.epsilon, budget.delta, budget.delta * _IN_FULL)
    alone = [composition.delta(labels, inner) for _, composition in composed]
    # From the first number of holders on whose answers reveal nearly all, all are charged in full.
    within = next((place for place, delta in enumerate(alone) if delta > _ALL), len(alone))
    composed, alone = composed[:within], alone[:within]
    # What delta leaves is spread over the numbers of holders, so that each may be followed on a coarser grid.
    in_full = cost.held - sum(chance for chance, _ in composed)
    charged = sum(chance * delta for (chance, _), delta in zip(composed, alone, strict=True)) + max(in_full, 0.0)
    lacking = budget.delta * (1 - ROUNDING) - charged
    if lacking < 0:
        raise AccountingError(
            f"{labels:,} answers are within epsilon={budget.epsilon:g} by a Renyi conversion or by a hair only; "
            "use two classes, or plan for one label less."
        )
    parts = []
    for holders, ((chance, composition), delta) in enumerate(zip(composed, alone, strict=True), start=1):
        change = Change(ballots=scheme.n_models, classes=design.n_classes, votes=holders)
        allowed = Budget(epsilon=inner, delta=min(0.99, (delta + lacking / len(composed) / chance) / (1 - ROUNDING)))
        listing = listing_of(design.law, change)
        body = votes_part(listing, coarsest(composition, listing, labels, allowed), allowed)
        parts.append({"epsilon": repr(inner), "delta": repr(allowed.delta), "body": body})
    return draws_of(scheme, design.n_units) | {"parts": parts}


def draws_of(scheme: BootstrapScheme, n_units: int) -> dict[str, Any]:
    """Return the body of a part about the draws alone, where whoever is drawn may be exposed."""
    return {
        "scheme": scheme.scheme.value,
        "records": n_units,
        "subsample": scheme.subsample,
        "models": scheme.n_models,
        "parts": [],
    }
