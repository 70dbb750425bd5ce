"""Parts of certificates, as the verifier reads them: a statement, and how the verifier checks it."""

from __future__ import annotations

import json
from typing import Any

from dpensemble.accounting import Change
from dpensemble.accounting.subsampling import SubsampledCost
from dpensemble.allocation import BootstrapScheme
from dpensemble.budget import Budget
from dpensemble.certificates.listing import listing_of, whole_laws
from dpensemble.cost import GatedComposition, PrivacyCost
from dpensemble.cost.witness import ROUNDING, gated_witness, votes_witness, within_rounding
from dpensemble.errors import AccountingError
from dpensemble.laws import ReleaseLaw

_FORMAT, _VERSION, _MOST_BYTES = "dpensemble certificate", 2, 5_000_000
# Room for everything beside the parts.
_MARGIN = 100
# Fields that only help the verifier. Of several parts with the same statement the strictest claim is kept.
_HELP = frozenset({"groups", "cover", "ratio", "windows", "block"})
# Share of delta for rare numbers of holders, which together are charged in full.
_IN_FULL = 1e-4
# Delta that is charged in full.
_ALL = 0.9


class Parts:
    """Parts of a certificate, in the order in which a design states them."""

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []

    def add_votes(self, budget: Budget, law: ReleaseLaw, change: Change, one: PrivacyCost, answers: int) -> None:
        """Add a part about answers of one law, all of which are given."""
        if one.parts is None:
            raise AccountingError(
                "a certificate needs a cost with finite outcomes, not a Renyi curve: use two classes."
            )
        allowed = within_rounding(budget, change.classes**3 * answers if change.classes > 2 else 0)
        listing = listing_of(law, change)
        body = listing.body(votes_witness(one.layout(answers, allowed.delta), listing, answers, allowed))
        self.parts.append(part("votes", budget.epsilon, budget.delta, body))

    def add_gated(
        self, budget: Budget, law: ReleaseLaw, change: Change, composition: GatedComposition, queries: int
    ) -> None:
        """Add a part about all runs that the units of as many answered queries pay for."""
        listing = listing_of(law.answer, change)  # type: ignore[attr-defined]
        gate = {
            "sigma": repr(float(law.gate.sigma)),  # type: ignore[attr-defined]
            "check": composition.check_units,
            "label": composition.label_units,
            # At these corners the first input passes more often. The others mirror them.
            "corners": [
                [p[0], q[0]] for p, q in whole_laws(composition.checks) if p[0] > q[0] and p[0] + q[0] <= 2**63
            ],
        }
        body = listing.body(gated_witness(composition, listing, queries, budget), gate)
        self.parts.append(part("votes", budget.epsilon, budget.delta, body))

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
        lacking = budget.delta * (1 - ROUNDING) - charged
        if lacking < 0:
            raise AccountingError(
                f"{labels:,} answers are within epsilon={budget.epsilon:g} only narrowly, or by a Renyi conversion: "
                "use two classes, or plan for one label less."
            )
        parts = []
        for holders, ((chance, composition), delta) in enumerate(zip(composed, alone, strict=True), start=1):
            change = Change(ballots=scheme.n_models, classes=n_classes, votes=holders)
            allowed = Budget(
                epsilon=inner, delta=min(0.99, (delta + lacking / len(composed) / chance) / (1 - ROUNDING))
            )
            listing = listing_of(law, change)
            body = listing.body(votes_witness(composition, listing, labels, allowed))
            parts.append({"epsilon": repr(inner), "delta": repr(allowed.delta), "body": body})
        body = draws_of(scheme, n_units) | {"parts": parts}
        self.parts.append(part("drawn", budget.epsilon, budget.delta, body))


def draws_of(scheme: BootstrapScheme, n_units: int) -> dict[str, Any]:
    """Return the body of a part about the draws alone, where every drawn record may be exposed."""
    return {
        "scheme": scheme.scheme.value,
        "records": n_units,
        "subsample": scheme.subsample,
        "models": scheme.n_models,
        "parts": [],
    }


def part(kind: str, epsilon: float, delta: float, body: dict[str, Any]) -> dict[str, Any]:
    """Return a part: its statement, and the body that the verifier follows."""
    return {"kind": kind, "epsilon": repr(float(epsilon)), "delta": repr(float(delta)), "body": body}


def together(parts: list[dict[str, Any]]) -> dict[str, Any]:
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
