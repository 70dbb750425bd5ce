"""Where an account stands, and the error when a release does not fit."""

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
    """Where an account stands; public.

    Parameters
    ----------
    data_set, whom : str
        Whose account.
    terms : Terms
        What it allows.
    spent, left : Amount
        In whole units.
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
        """Largest epsilon of a release without a delta that would still fit, rounded down; 0 if none would."""
        low, high = 0.0, self.terms.budget.epsilon
        while high - low > 1e-4 * max(high, 1e-3):
            middle = (low + high) / 2
            asked = self.terms.price(Spending(name=self.whom, epsilon=middle, delta=0.0))
            low, high = (middle, high) if asked.loss <= self.left.loss else (low, middle)
        return math.floor(low * 1e4) / 1e4

    @property
    def fitting_gaussian(self) -> float | None:
        """Largest epsilon, at the account's delta, of Gaussian noise that would still fit; None for other filters.

        Label moments are such noise; of answers by a law about as much fits.
        """
        mu = self.terms.gaussian_left(self.left)
        return None if mu is None else math.floor(gaussian_epsilon(mu, self.terms.budget.delta) * 1e3) / 1e3

    @property
    def fitting_words(self) -> str:
        """What single release would still fit, in words that follow "enough for"."""
        fits, gaussian = self.fitting_epsilon, self.fitting_gaussian
        delta = f"delta {self.terms.budget.delta:g}"
        if not gaussian:
            return f"a release of epsilon up to {fits:.4g} without a delta" if fits else "nothing any more"
        other = f", or of epsilon up to {fits:.4g} without a delta where no more is known of it" if fits else ""
        return f"a release by Gaussian noise of epsilon up to {gaussian:.4g} at {delta}{other}"

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values; losses in units of 1."""
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


def refusal(state: AccountState, asked: Amount) -> BudgetError:
    """Return the error of a release that would pass what an account allows; it names public numbers only."""
    terms, parts = state.terms, []
    if asked.loss > state.left.loss:
        loss, left, limit = (one / LOSS_UNITS for one in (asked.loss, state.left.loss, terms.limit.loss))
        parts.append(f"takes {loss:.6g} of {terms.unit}, and {left:.6g} of {limit:.6g} is left")
    if asked.delta > state.left.delta:
        delta, left = asked.delta / DELTA_UNITS, state.left.delta / DELTA_UNITS
        parts.append(f"takes a delta of {delta:.3g}, and {left:.3g} is left for releases without a Renyi curve")
    words = state.fitting_words
    would = f"{words} would fit" if state.fitting_epsilon or state.fitting_gaussian else "nothing fits any more"
    figures = {
        "unit": terms.unit,
        **{name: one.loss / LOSS_UNITS for name, one in _three(state, asked)},
        **{f"{name}_delta": one.delta / DELTA_UNITS for name, one in _three(state, asked)},
        # In the unit of what was requested.
        "fits": state.left.loss / LOSS_UNITS,
    }
    return BudgetError(
        f"ledger: this release {' and '.join(parts)} for {state.whom} of data set {state.data_set!r} (lifetime epsilon "
        f"{terms.budget.epsilon:g} at delta {terms.budget.delta:g}); nothing was charged, and {would}.",
        figures=figures,
    )


def _three(state: AccountState, asked: Amount) -> list[tuple[str, Amount]]:
    return [("requested", asked), ("spent", state.spent), ("remaining", state.left)]
