"""The one registry of prices, which maps a law and a change of votes to the cost of one answer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import ndtr, ndtri

from dpensemble.accounting.base import Accounting
from dpensemble.accounting.change import Change
from dpensemble.accounting.published.moments import published_cost, published_gate_cost
from dpensemble.accounting.worst_case.answers import worst_case_cost
from dpensemble.accounting.worst_case.gates import BEYOND, check_corners, gate_cost
from dpensemble.cost import DominatingPairs, GatedCost, PrivacyCost
from dpensemble.cost.gated import gated_composition
from dpensemble.errors import AccountingError
from dpensemble.laws import ReleaseLaw
from dpensemble.laws.choice import is_proven
from dpensemble.laws.sampling import PROBABILITY_ERROR


@dataclass(frozen=True, slots=True)
class Price:
    """Cost of a query: the check always, the label only when the law releases one.

    Parameters
    ----------
    label : PrivacyCost
        Cost of a label.
    check : PrivacyCost or None
        Further cost of revealing whether the query passed a gate. None for laws that always answer.
    corners : DominatingPairs or None
        Corners of a polygon around a check's chances, when check and label can be composed exactly.
    """

    label: PrivacyCost
    check: PrivacyCost | None = None
    corners: DominatingPairs | None = None

    @property
    def answered(self) -> PrivacyCost:
        """Cost of an answered query. For a gated query with finite outcomes, the cost under a purse."""
        if self.check is None:
            return self.label
        both = self.check + self.label
        if self.corners is None or self.label.parts is None:
            return both
        # Losses beyond the grid leave the Renyi curve.
        with suppress(AccountingError):
            composition = gated_composition(self.corners, self.label.parts[0].pairs, BEYOND)
            return GatedCost(rdp=both.rdp, orders=both.orders, composition=composition, queries=1)
        return both


def price(law: ReleaseLaw, change: Change, accounting: Accounting = Accounting.EXACT) -> Price:
    """Return the most that one answer can cost, over all votes and all neighbours.

    Parameters
    ----------
    law : ReleaseLaw
        The law that answers. A law that compares with a student is priced for every possible prediction of the student.
    change : Change
        What one unit can do to the votes.
    accounting : Accounting, default="exact"
        Charge for what the label alone reveals, or by the published bound.

    Returns
    -------
    Price
        Public.

    Raises
    ------
    AccountingError
        If no price exists. The message names a remedy.

    Examples
    --------
    Laplace noise costs a quarter of the published price here, since the noisy counts stay secret:

    >>> from dpensemble.laws import LaplaceNoisyMax
    >>> law, change = LaplaceNoisyMax(125), Change(ballots=250, classes=2)
    >>> exact, published = price(law, change), price(law, change, Accounting.PUBLISHED)
    >>> round(float(exact.label.rdp[0] / published.label.rdp[0]), 3)
    0.25
    """
    exact = accounting is Accounting.EXACT
    of_label = worst_case_cost if exact else published_cost
    if not is_proven(law):
        _require_law(law, change)
    if not law.gated:
        return Price(of_label(law, change))
    check = gate_cost if exact else published_gate_cost
    label, sigma = of_label(law.answer, change), law.gate.sigma  # type: ignore[attr-defined]
    corners = check_corners(sigma, change.moved) if exact and label.parts is not None else None
    if corners is None or not _rounding_is_paid(law, label, change, change.moved / sigma):
        corners = None
    return Price(label, check(sigma, change.moved), corners)


def _rounding_is_paid(law: ReleaseLaw, label: PrivacyCost, change: Change, shift: float) -> bool:
    """Return whether a check and a label reveal more than rounding can do to a gated answer."""
    # The sampled answer mixes the exact one with a law whose outcomes are all within a share of uniform, since its
    # weight bears all rounding errors. That law is a check with such chances, then such a label.
    outcomes = change.classes + 1
    share = PROBABILITY_ERROR * outcomes / law.mixing_weight(change.classes)
    passing = change.classes / outcomes
    within = ndtr(ndtri(passing * (1 - share)) + shift) >= passing * (1 + share)
    return bool(within) and label.parts[0].pairs.dominate_randomized_response(4.1 * share)  # type: ignore[index]


def _require_law(law: ReleaseLaw, change: Change) -> None:
    """Refuse an object that does not satisfy the protocol of a law, and name the remedy."""
    name, n_outcomes, n = type(law).__name__, change.classes, change.ballots
    # A law that can change, or that equals a different law, would keep a stale price.
    dataclass_params = vars(type(law)).get("__dataclass_params__")
    if dataclass_params is None or not dataclass_params.frozen or not all(field.compare for field in fields(law)):  # type: ignore[arg-type]
        raise AccountingError(
            f"law={name} must be a frozen dataclass that compares all settings: declare it by @dataclass(frozen=True)."
        )
    if law.gated or law.needs_student:
        raise AccountingError(
            f"law={name} has a gate or needs a student, which only laws of the library may have: answer every query."
        )
    try:
        hash(law)
    except TypeError:
        raise AccountingError(
            f"law={name} has a setting that cannot be hashed, such as an array: use tuples."
        ) from None
    first = np.unique(np.linspace(0, n, 20).astype(int))[::-1]
    counts = np.zeros((len(first), change.classes), dtype=np.int64)
    counts[:, 0], counts[:, 1] = first, n - first
    counts.flags.writeable = False
    try:
        probabilities = np.asarray(law.probabilities(counts))
    except ValueError as error:
        raise AccountingError(f"law={name} fails on read-only counts: {str(error).rstrip('.')}.") from None
    if probabilities.shape != (len(first), n_outcomes):
        raise AccountingError(
            f"law={name} gives probabilities of shape {probabilities.shape} for {len(first)} queries and "
            f"{change.classes} classes: return one row a query and {n_outcomes} columns."
        )
    alone = np.concatenate([law.probabilities(row[None]) for row in counts])
    if np.abs(alone - probabilities).max() > 2 * PROBABILITY_ERROR:
        raise AccountingError(
            f"law={name} gives a query other probabilities beside other queries than alone: compute each row by itself "
            "(axis=1)."
        )
