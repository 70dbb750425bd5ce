"""One charge for a fit and for the score of its student on held-back units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dpensemble._spending import Spending
from dpensemble.errors import BudgetError
from dpensemble.quality.release import quality_cost


class WithScore:
    """An account that is charged for a fit and its score together, before either is drawn.

    The place of a unit decides whether the unit is used for the fit or for the score. So a replaced unit changes either
    the fit, whose score is then computed as before, or only the score. Together they cost the larger of both, for each
    Renyi order and as a trade-off (parallel composition: F. McSherry, SIGMOD 2009, Theorem 4).
    """

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self._paid: list[Spending] = []

    def one_release(self, what: str) -> Callable[[Sequence[Spending]], None]:
        """Return the function that charges one fit and its score."""
        charge = self._ledger.one_release(f"{what} and its score")

        def both(spendings: Sequence[Spending]) -> None:
            # Of several spendings on one account, the ledger takes the largest.
            charge([*spendings, *(_score_of(one) for one in spendings)])
            self._paid.extend(spendings)

        return both

    def require_paid(self, epsilon: float, delta: float) -> None:
        """Raise unless a single charge of the fit covers the score. Charges of parts are not added up."""
        if not any(epsilon <= one.epsilon and delta <= one.delta for one in self._paid):
            raise BudgetError(
                f"holdout_score: a score at epsilon={epsilon:g}, delta={delta:g} was not charged to the ledger, "
                "because the fit was charged in parts; leave it out."
            )


def _score_of(fit: Spending) -> Spending:
    return replace(fit, find_cost=lambda: quality_cost(fit.epsilon, fit.delta))
