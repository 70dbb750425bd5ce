"""The state of an account, and the error for a release that does not fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpensemble._spending import Spending
from dpensemble.cost import gaussian_epsilon
from dpensemble.errors import BudgetError
from dpensemble.ledger.filters import DELTA_UNITS, LOSS_UNITS, Amount, Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """State of an account. Public.

    Parameters
    ----------
    data_set, whom : str
        Data set, and the owner of the account.
    terms : Terms
        Terms of the account.
    spent, left : Amount
        Amounts in whole units.
    """

    data_set: str
    whom: str
    terms: Terms
    spent: Amount
    left: Amount

    @property
    def share_left(self) -> float:
        """Share of the limit that is left."""
        return self.left.loss / self.terms.limit.loss

    @property
    def fitting_epsilon(self) -> float:
        """Largest epsilon of a release with delta 0 that would still fit, rounded down, or 0 if none would."""
        low, high = 0.0, self.terms.budget.epsilon
        while high - low > 1e-4 * max(high, 1e-3):
            middle = (low + high) / 2
            price = self.terms.price(Spending(name=self.whom, epsilon=middle, delta=0.0))
            low, high = (middle, high) if price.loss <= self.left.loss else (low, middle)
        return math.floor(low * 1e4) / 1e4

    @property
    def fitting_gaussian(self) -> float | None:
        """Largest epsilon, at the account's delta, of Gaussian noise that would still fit, or None for other filters.

        Label moments are such noise. For answers by a law, about as much fits.
        """
        mu = self.terms.gaussian_left(self.left)
        return None if mu is None else math.floor(gaussian_epsilon(mu, self.terms.budget.delta) * 1e3) / 1e3

    @property
    def fitting_words(self) -> str:
        """Which single release would still fit, in words that follow "enough for"."""
        fits, gaussian = self.fitting_epsilon, self.fitting_gaussian
        delta = f"delta {self.terms.budget.delta:g}"
        if not gaussian:
            return f"a release of epsilon up to {fits:.4g} without a delta" if fits else "no further release"
        other = f", or of epsilon up to {fits:.4g} without a delta if only its epsilon is known" if fits else ""
        return f"a release by Gaussian noise of epsilon up to {gaussian:.4g} at {delta}{other}"

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values, with losses in units of 1."""
        return {
            "data_set": self.data_set,
            "whom": self.whom,
            **self.terms.to_dict(),
            "limit": self.terms.limit.loss / LOSS_UNITS,
            "spent": self.spent.loss / LOSS_UNITS,
            "left": self.left.loss / LOSS_UNITS,
            "share_left": self.share_left,
            "delta_left": self.left.delta / DELTA_UNITS,
            "fitting_epsilon": self.fitting_epsilon,
            "fitting_gaussian": self.fitting_gaussian,
        }


def refusal(state: AccountState, price: Amount) -> BudgetError:
    """Return the error of a release that would exceed what an account allows. It contains only public numbers."""
    terms, parts = state.terms, []
    if price.loss > state.left.loss:
        loss, left, limit = (one / LOSS_UNITS for one in (price.loss, state.left.loss, terms.limit.loss))
        parts.append(f"takes {loss:.6g} of {terms.unit}, but {left:.6g} of {limit:.6g} is left")
    if price.delta > state.left.delta:
        delta, left = price.delta / DELTA_UNITS, state.left.delta / DELTA_UNITS
        parts.append(f"takes a delta of {delta:.3g}, but {left:.3g} is left for releases without a Renyi curve")
    words = state.fitting_words
    would = f"{words} would fit" if state.fitting_epsilon or state.fitting_gaussian else "no further release fits"
    figures = {
        "unit": terms.unit,
        **{name: one.loss / LOSS_UNITS for name, one in _three(state, price)},
        **{f"{name}_delta": one.delta / DELTA_UNITS for name, one in _three(state, price)},
        # In the unit of the request.
        "fits": state.left.loss / LOSS_UNITS,
    }
    return BudgetError(
        f"ledger: this release {' and '.join(parts)} for {state.whom} of data set {state.data_set!r} (lifetime epsilon "
        f"{terms.budget.epsilon:g} at delta {terms.budget.delta:g}); nothing was charged, and {would}.",
        figures=figures,
    )


def _three(state: AccountState, price: Amount) -> list[tuple[str, Amount]]:
    return [("requested", price), ("spent", state.spent), ("remaining", state.left)]
