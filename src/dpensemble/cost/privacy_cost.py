"""What answers cost: Renyi curves that add, their conversions to epsilon at a delta, and how many answers fit a budget.

`Cost` is the interface of every cost. A `PrivacyCost` is a Renyi curve and, if outcomes are finite, the data that exact
composition needs. A `GatedCost` is the curve of a purse of gated queries, and their exact composition. A `PureCost` is
for answers of which only an epsilon is known: it has their optimal composition. No other module uses dp-accounting, for
privacy loss distributions.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import delta_of, epsilon_of, integer_between, member, real_between, round_up
from dpensemble._entries import Floats
from dpensemble.cost.composition import (
    MOST_ANSWERS,
    MOST_EPSILON,
    AdaptiveComposition,
    LossCurve,
    ProductComposition,
    last_fitting,
)
from dpensemble.cost.gated import GatedComposition
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.errors import AccountingError
from dpensemble.guarantee import Budget


def _gaussian_guess(variance: float, epsilon: float, delta: float) -> int:
    """Return about how many answers with losses of this variance fit, if the losses were Gaussian."""
    low, high = 0.0, 2.0
    while _gaussian_delta(high, epsilon) < delta:
        high *= 2
    low, _ = bisection(lambda mu: _gaussian_delta(mu, epsilon) < delta, low, high, 50)
    return int(min(low**2 / variance, 2.0**50))


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of Gaussian noise (Balle and Wang 2018, Theorem 8)."""
    above, below = (math.erfc((epsilon / mu + sign * mu / 2) / math.sqrt(2)) / 2 for sign in (-1, 1))
    return above - (math.exp(min(epsilon, 700.0)) * below if below else 0.0)


def bisection(fits: Callable[[float], bool], low: float, high: float, times: int) -> tuple[float, float]:
    """Return the interval in which `fits` stops to hold, after halving it `times` times."""
    for _ in range(times):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low, high


class Conversion(StrEnum):
    """How a cost becomes an epsilon at a delta."""

    BEST = "best"
    EXACT = "exact adaptive composition"
    IMPROVED = "improved Renyi conversion"
    CLASSICAL = "classical Renyi conversion"
    PLD = "privacy loss distribution"


class Cost(ABC):
    """Privacy loss of releases. Costs add, and ``cost * 100`` is the cost of a hundred equal releases. Public."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        """Return the cost of both, if their kinds can be added."""
        return NotImplemented

    @abstractmethod
    def __mul__(self, count: int) -> Cost:
        """Return the cost of a number of equal releases."""

    @abstractmethod
    def epsilon(self, delta: float, conversion: str = Conversion.BEST) -> float:
        """Return the epsilon that holds at `delta`, rounded up, or infinity if no epsilon does.

        Parameters
        ----------
        delta : float
            Strictly between 0 and 1.
        conversion : Conversion or str, default="best"
            For a `PrivacyCost`. Other costs support one analysis only.
        """

    def fits(self, budget: Budget, conversion: str = Conversion.BEST) -> bool:
        """Return whether the cost stays within a budget."""
        return self.epsilon(budget.delta, conversion) <= budget.epsilon

    def most(self, budget: Budget, conversion: str = Conversion.BEST, limit: int | None = None) -> int:
        """Return how many equal costs fit a budget, at most `limit`."""
        return last_fitting(lambda count: (self * count).fits(budget, conversion), 0, 2.0, limit)

    @property
    def parts(self) -> tuple[Any, ...] | None:
        """The same releases as dominating pairs, or None where pairs are unknown."""
        return None

    @property
    def renyi(self) -> Any:
        """The cost as a `PrivacyCost` with a Renyi curve, or None where only epsilon and delta are known."""
        return None


# Far above the rounding of the few operations here, far below any figure that is shown.
_ROUND_UP = 1.0 + 1e-13


def _classical_epsilon(rdp: NDArray[np.float64], orders: NDArray[np.float64], delta: float) -> float:
    """Return ``min rdp + log(1/delta) / (order - 1)``, rounded up (Mironov 2017, Prop. 3). 0 if nothing was spent."""
    if not rdp.any():
        return 0.0
    return float(np.min(rdp + math.log(1 / delta) / (orders - 1))) * _ROUND_UP


def improved_epsilon(rdp: NDArray[np.float64], orders: NDArray[np.float64], delta: float) -> float:
    """Return ``min rdp + log((order - 1) / order) - (log delta + log order) / (order - 1)``, at least 0."""
    # C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition
    # 12. It is never above the classical conversion.
    if not rdp.any():
        return 0.0
    epsilons = rdp + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    # The improved form may lie above the classical one through rounding only.
    return max(0.0, min(float(np.min(epsilons)) + 1e-13, _classical_epsilon(rdp, orders, delta)) * _ROUND_UP)


_MOST_OUTCOMES = 64
# Losses are rounded up to multiples of this share of a typical loss.
_PRECISION = 50
_FINEST, _COARSEST = 1e-7, 1e-4


def _pld_epsilon(parts: Sequence[Part], delta: float) -> float:
    """Return the epsilon at `delta` of a composition by privacy loss distributions, by dp-accounting."""
    # A single pair that dominates all its pairs stands for each kind of answer. This is valid for every adaptive
    # order but pays for the worst of every pair at once, which `AdaptiveComposition` avoids.
    # References: S. Meiser and E. Mohammadi, CCS 2018. A. Koskela, J. Jalko and A. Honkela, AISTATS 2020. Zhu, Dong and
    # Wang 2022, Theorem 10 (composition of dominating pairs).
    distributions = _library()
    composed = None
    for part in parts:
        if part.count == 0:
            continue
        pair = part.pairs.single(_MOST_OUTCOMES)
        typical = float(np.sqrt(pair.renyi([2.0])[0]))
        one = distributions.from_two_probability_mass_functions(
            _log_masses(pair.q[0]),
            _log_masses(pair.p[0]),
            value_discretization_interval=float(np.clip(typical / _PRECISION, _FINEST, _COARSEST)),
            symmetric=False,
        )
        several = one.self_compose(part.count)
        composed = several if composed is None else composed.compose(several)
    return 0.0 if composed is None else float(composed.get_epsilon_for_delta(delta))


def _library() -> Any:
    try:
        from dp_accounting.pld import privacy_loss_distribution  # noqa: PLC0415
    except ImportError as error:
        raise AccountingError(
            'conversion="privacy loss distribution" needs dp-accounting, which is not installed: '
            'run pip install "dpensemble[pld]".'
        ) from error
    return privacy_loss_distribution


def _log_masses(probabilities: NDArray[np.float64]) -> dict[int, float]:
    return {outcome: float(np.log(mass)) for outcome, mass in enumerate(probabilities) if mass > 0}


# Beyond this pure epsilon a probability of randomized response is lost to rounding.
_LARGEST_PURE = 500.0
# A larger Renyi conversion is used as it is, without exact composition.
_MOST_CEILING = MOST_EPSILON / 3

# Renyi orders l + 1 of the moments l = 1, 2, ...: every order up to 256, then 5 % apart for tiny epsilons.
DEFAULT_ORDERS: Floats = 1.0 + np.concatenate([np.arange(1, 257), np.unique(np.ceil(256 * 1.05 ** np.arange(1, 171)))])
DEFAULT_ORDERS.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Part:
    """A number of answers of one kind.

    Parameters
    ----------
    pairs : DominatingPairs
        What one of the answers can reveal, both ways.
    count : int
        Number of answers.
    """

    pairs: DominatingPairs
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyCost(Cost):
    """Privacy loss of everything answered so far.

    Costs of successive answers, each chosen by those before it, add. ``cost * 100`` is the cost of a hundred such
    answers. The number of answers of each kind must be settled beforehand. Use a filter for numbers that depend on
    answers. A cost with a NaN, infinite or negative entry is refused, so no arithmetic accident can make answers look
    free.

    Parameters
    ----------
    rdp : ndarray of shape (n_orders,)
        Upper bounds on the Renyi divergence, in nats, one for each order.
    orders : ndarray of shape (n_orders,)
        Renyi orders, increasing and above 1.
    parts : tuple of Part, optional
        The same answers as dominating pairs, or None if only the curve is known.

    Raises
    ------
    AccountingError
        If an entry is not finite, a divergence is negative, an order is not above 1, or `parts` lack answers.

    References
    ----------
    I. Mironov, "Renyi differential privacy", CSF 2017, Proposition 1 (composition). Conversions: see
    `improved_epsilon` and `dpensemble.cost.composition`. Abadi et al. (2016): ``alpha(l) = l * rdp(l + 1)``.

    Examples
    --------
    >>> one = PrivacyCost(rdp=0.0032 / 2 * DEFAULT_ORDERS)
    >>> round((one * 10).epsilon(1e-3, "classical Renyi conversion"), 3)
    0.681
    >>> epsilon, conversion = (one * 10).best(1e-3)
    >>> round(epsilon, 3), conversion.value
    (0.466, 'improved Renyi conversion')
    """

    rdp: Floats
    orders: Floats = field(default_factory=lambda: DEFAULT_ORDERS)
    parts: tuple[Part, ...] | None = None

    def __post_init__(self) -> None:
        rdp = np.array(self.rdp, dtype=np.float64)
        orders = np.array(self.orders, dtype=np.float64)
        if rdp.ndim != 1 or rdp.shape != orders.shape or rdp.size == 0:
            raise AccountingError("rdp and orders must be non-empty and of one length.")
        if not (np.all(np.isfinite(orders)) and np.all(orders > 1) and np.all(np.diff(orders) > 0)):
            raise AccountingError("orders must be finite, increasing and above 1.")
        if not (np.all(np.isfinite(rdp)) and np.all(rdp >= 0)):
            raise AccountingError("every number of a privacy cost must be finite and not negative.")
        if self.parts is not None and (any(part.count < 1 for part in self.parts) or (rdp.any() and not self.parts)):
            raise AccountingError("parts must have at least one answer each, and some answer where rdp is not zero.")
        for name, array in (("rdp", rdp), ("orders", orders)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def zero(cls) -> PrivacyCost:
        """Return the cost of no answers."""
        return cls(rdp=np.zeros_like(DEFAULT_ORDERS), parts=())

    @classmethod
    def of(cls, pairs: DominatingPairs) -> PrivacyCost:
        """Return the cost of one answer that a set of pairs dominates in both directions.

        Parameters
        ----------
        pairs : DominatingPairs
            Stored as they are: the same object in two costs counts as one kind of answer.
        """
        return cls(rdp=pairs.renyi(DEFAULT_ORDERS), parts=(Part(pairs, 1),))

    @classmethod
    def pure(cls, epsilon: float) -> PrivacyCost:
        """Return the cost of an epsilon-private answer: that of randomized response (Kairouz et al. 2015)."""
        if epsilon > _LARGEST_PURE:
            return cls(rdp=np.full_like(DEFAULT_ORDERS, epsilon))
        table = np.array([[1.0, np.exp(-epsilon)]]) / (1 + np.exp(-epsilon))
        return cls.of(DominatingPairs(table, table[:, ::-1]))

    def __add__(self, other: PrivacyCost) -> PrivacyCost:
        if not isinstance(other, PrivacyCost):
            return NotImplemented
        # Without answers, the cost stays of its kind.
        if other.parts == ():
            return self
        if not np.array_equal(self.orders, other.orders):
            raise AccountingError("costs must have the same Renyi orders to be added.")
        parts = None if self.parts is None or other.parts is None else _merged(self.parts + other.parts)
        return PrivacyCost(rdp=self.rdp + other.rdp, orders=self.orders, parts=parts)

    def __mul__(self, count: int) -> PrivacyCost:
        count = integer_between("count", count, 0, 2**62)
        parts = self.parts
        if parts is not None:
            parts = tuple(Part(part.pairs, part.count * count) for part in parts if count)
        return PrivacyCost(rdp=self.rdp * count, orders=self.orders, parts=parts)

    __rmul__ = __mul__

    @property
    def mu(self) -> float | None:
        """Gaussian privacy of the whole cost, or None if unknown."""
        return None

    @property
    def composition(self) -> GatedComposition | None:
        """The exact composition of gated queries under a purse, or None if unknown."""
        return None

    @property
    def renyi(self) -> PrivacyCost | None:
        """The cost as a Renyi curve, or None if only epsilon and delta are known."""
        return self

    def epsilon(self, delta: float, conversion: str = Conversion.BEST) -> float:
        """Convert to the epsilon that holds at `delta`.

        Parameters
        ----------
        delta : float
            From 0 to below 1. At 0 (pure privacy) the largest losses add up, which needs the finite
            outcomes of every answer. A Renyi curve gives no finite epsilon at 0.
        conversion : Conversion or str, default="best"
            ``"best"`` is the smallest of the available sound ones (`best` names it). The privacy loss distribution is
            computed only on request.

        Returns
        -------
        float
            Epsilon, rounded up. Exactly 0 if nothing was spent.

        Raises
        ------
        AccountingError
            If a conversion needs the finite outcomes of every answer and these are unknown.
        """
        conversion = member("conversion", conversion, Conversion)
        if isinstance(delta, int | float) and delta == 0:
            return self._pure(conversion)
        delta = delta_of(delta)
        if conversion is Conversion.BEST:
            return self.best(delta)[0]
        if conversion in (Conversion.EXACT, Conversion.PLD):
            if self.parts is None and not (self.composes and conversion is Conversion.EXACT):
                raise AccountingError(
                    f"conversion={conversion.value!r} needs the finite outcomes of every answer, and this cost has "
                    "only a Renyi curve: use 'best'."
                )
            return self._exact(delta) if conversion is Conversion.EXACT else _pld_epsilon(self.parts or (), delta)
        return _RENYI_CONVERSIONS[conversion](self.rdp, self.orders, delta)

    def best(self, delta: float) -> tuple[float, Conversion]:
        """Return the smallest sound epsilon at `delta` and the conversion that gives it.

        Parameters
        ----------
        delta : float
            Strictly between 0 and 1.

        Returns
        -------
        epsilon : float
        conversion : Conversion
        """
        delta = delta_of(delta)
        candidates = [(improved_epsilon(self.rdp, self.orders, delta), Conversion.IMPROVED)]
        if self.composes and candidates[0][0] <= _MOST_CEILING:
            # Losses too large for the grid leave only the Renyi conversion.
            with suppress(AccountingError):
                candidates.append((self._exact(delta), Conversion.EXACT))
        return min(candidates)

    def fits(self, budget: Budget, conversion: str = Conversion.BEST) -> bool:
        """Return whether the cost stays within a budget.

        Parameters
        ----------
        budget : Budget
            The budget.
        conversion : Conversion or str, default="best"
            As for `epsilon`.
        """
        epsilon, delta = budget.epsilon, budget.delta
        # The cheap conversion often suffices.
        if conversion == Conversion.BEST and improved_epsilon(self.rdp, self.orders, delta) <= epsilon:
            return True
        if conversion == Conversion.BEST and self.composes:
            if improved_epsilon(self.rdp, self.orders, delta) > _MOST_CEILING:
                return False
            with suppress(AccountingError):
                composed = self.composed(delta)
                return composed is None or composed.delta(epsilon) <= delta
            return False
        return self.epsilon(delta, conversion) <= epsilon

    def most(self, budget: Budget, conversion: str = Conversion.BEST, limit: int | None = None) -> int:
        """Return how many equal costs fit a budget.

        Parameters
        ----------
        budget : Budget
            The budget.
        conversion : Conversion or str, default="best"
            As for `epsilon`.
        limit : int, optional
            The search stops at this count, which saves time.

        Returns
        -------
        int
            At most `limit`, and 0 if not even one fits. `fits` checks the count, like the code that reports the spend.

        Raises
        ------
        AccountingError
            If the cost is zero.

        Examples
        --------
        >>> one, budget = PrivacyCost(rdp=2 / 125**2 * DEFAULT_ORDERS), Budget(epsilon=1, delta=1e-5)
        >>> one.most(budget, "classical Renyi conversion"), one.most(budget)
        (162, 238)
        """
        return _most(self, budget, conversion, limit)

    def _pure(self, conversion: Conversion) -> float:
        """Return the sum of the largest losses, rounded up."""
        if self.parts is None or conversion not in (Conversion.BEST, Conversion.EXACT):
            raise AccountingError(
                "delta=0 needs the finite outcomes of every answer, since a Renyi curve gives no finite epsilon "
                "there: use a delta above 0."
            )
        largest = (part.count * float(part.pairs.losses().max()) for part in self.parts)
        return math.fsum(largest) * (1 + 1e-9)

    @property
    def composes(self) -> bool:
        """Whether the answers, at least one, can be composed exactly."""
        return bool(self.parts)

    @property
    def _n_answers(self) -> int:
        return sum(part.count for part in self.parts or ())

    def _exact(self, delta: float) -> float:
        composed = self.composed(delta)
        return 0.0 if composed is None else composed.epsilon(delta)

    def composed(self, delta: float) -> LossCurve | None:
        """Return all deltas of the answers by exact composition, tightest near `delta`, or None without answers."""
        if not self.parts:
            return None
        if len(self.parts) > 1:
            ceiling = improved_epsilon(self.rdp, self.orders, delta)
            return ProductComposition([(part.pairs, part.count) for part in self.parts], ceiling).curve
        return self.layout(self.parts[0].count, delta).curve(self.parts[0].count)

    def layout(self, count: int, delta: float) -> AdaptiveComposition:
        """Return the composition for about `count` of these answers, all of one kind."""
        assert self.parts is not None  # noqa: S101
        # Depends on the count and delta alone, so that earlier questions never change a result.
        laid_out = AdaptiveComposition.answers_laid_out(count)
        ceiling = improved_epsilon(self.rdp / self.parts[0].count * laid_out, self.orders, delta)
        largest = round_up(min(ceiling, MOST_EPSILON / 2), 2)
        return AdaptiveComposition.laid_out_for(self.parts[0].pairs, laid_out, largest)

    def __repr__(self) -> str:
        answers = "unknown answers" if self.parts is None else f"{self._n_answers} answers"
        epsilon = improved_epsilon(self.rdp, self.orders, 1e-5)
        return f"PrivacyCost({answers}, {len(self.orders)} Renyi orders, epsilon below {epsilon:.4g} at delta 1e-05)"


@lru_cache(maxsize=256)
def _most(one: PrivacyCost, budget: Budget, conversion: str, limit: int | None) -> int:
    """Return how many of a cost fit a budget."""
    if not one.rdp.any():
        raise AccountingError("one answer must cost something to be counted; this one fits any number of times.")
    cheap = Conversion.IMPROVED if conversion in (Conversion.BEST, Conversion.EXACT) else conversion
    within = last_fitting(lambda count: (one * count).fits(budget, cheap), 0, 2.0, limit)
    if cheap == conversion or one.parts is None:
        return within
    most = min(MOST_ANSWERS, sys.maxsize if limit is None else limit)
    if within >= most or len(one.parts) != 1 or one.parts[0].count != 1:
        return last_fitting(lambda count: (one * count).fits(budget, conversion), within, 1.06, most)

    def laid_out(size: int) -> AdaptiveComposition | None:
        if improved_epsilon(one.rdp * size, one.orders, budget.delta) > _MOST_CEILING:
            return None
        with suppress(AccountingError):
            return one.layout(size, budget.delta)
        return None

    guess = _gaussian_guess(float(one.parts[0].pairs.renyi([2.0])[0]), budget.epsilon, budget.delta)
    # Exact composition seldom gives more than a quarter above the conversion.
    guess = min(max(within, guess), max(1, round(1.25 * within)), most)
    return max(within, AdaptiveComposition.most_answers(laid_out, budget.epsilon, budget.delta, guess, most))


_RENYI_CONVERSIONS: dict[Conversion, Callable[[Floats, Floats, float], float]] = {
    Conversion.CLASSICAL: _classical_epsilon,
    Conversion.IMPROVED: improved_epsilon,
}


def _merged(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts, with parts of one kind counted together."""
    kinds = {id(part.pairs): part.pairs for part in parts}
    return tuple(Part(pairs, sum(part.count for part in parts if part.pairs is pairs)) for pairs in kinds.values())


@dataclass(frozen=True, slots=True, eq=False)
class GatedCost(PrivacyCost):
    """Privacy loss of a purse that pays for a number of gated queries if every one of them is answered.

    Multiples are larger purses. Adding another cost leaves only the curve.

    Parameters
    ----------
    rdp, orders, parts
        As for `PrivacyCost`, for that many checks and labels, and without parts.
    composition : GatedComposition
        Composition of such queries under any purse.
    queries : int
        How many answered queries the purse pays for.
    """

    composition: GatedComposition | None = None
    queries: int = 0

    @property
    def composes(self) -> bool:
        """Whether exact composition is available."""
        return self.composition is not None

    def composed(self, delta: float) -> LossCurve | None:  # noqa: ARG002
        """Return all deltas of the purse, or None if the purse is empty."""
        assert self.composition is not None  # noqa: S101
        return self.composition.curve(self.queries) if self.queries else None

    def __mul__(self, count: int) -> PrivacyCost:
        count = integer_between("count", count, 0, 2**62)
        return GatedCost(
            rdp=self.rdp * count, orders=self.orders, composition=self.composition, queries=self.queries * count
        )

    __rmul__ = __mul__

    # Python calls this method before that of a plain cost on the left, so an empty cost plus a gated cost stays gated.
    __radd__ = PrivacyCost.__add__


@dataclass(frozen=True, slots=True, eq=False)
class PureCost(Cost):
    """Privacy loss of answers that are private at one epsilon each, with fresh randomness, by optimal composition.

    Parameters
    ----------
    each : float
        Epsilon of one answer, at delta 0.
    count : int, default=1
        Number of answers.

    Examples
    --------
    >>> round((PureCost(0.1) * 100).epsilon(1e-5), 3)
    4.307
    """

    each: float
    count: int = 1

    def __post_init__(self) -> None:
        real_between("each", self.each, 0.0, 1e12)
        integer_between("count", self.count, 0, 2**62)

    def __mul__(self, count: int) -> PureCost:
        return replace(self, count=self.count * integer_between("count", count, 0, 2**62))

    def epsilon(self, delta: float, conversion: str = Conversion.BEST) -> float:  # noqa: ARG002
        """Return the smallest epsilon at `delta`, rounded up."""
        return optimal_composition([(self.each, 0.0)] * self.count, delta)


def optimal_composition(parts: Iterable[tuple[float, float]], delta: float) -> float:
    """Return the smallest known epsilon at `delta` of adaptively composed (epsilon, delta) answers.

    An (epsilon, delta)-private answer is dominated by one that reveals everything with probability delta and otherwise
    is randomized response at epsilon. If all epsilons agree, the composition is evaluated in closed form and is
    optimal. Otherwise the losses are rounded up on a fine grid (the exact optimum is #P-hard: J. Murtagh and S. Vadhan,
    TCC 2016).

    Parameters
    ----------
    parts : iterable of (float, float)
        Epsilon (at least 1e-9) and delta (0 to below 1) of each answer.
    delta : float
        Delta of the whole, above ``1 - prod(1 - delta_i)``.

    Returns
    -------
    float
        Rounded up. 0 for no parts.

    Raises
    ------
    AccountingError
        If the deltas of the parts already use up `delta`.

    References
    ----------
    P. Kairouz, S. Oh and P. Viswanath, "The composition theorem for differential privacy", IEEE
    Transactions on Information Theory 2017, Theorems 3.3 (equal parts) and 3.5 (unequal parts).

    Examples
    --------
    >>> round(optimal_composition([(0.1, 0.0)] * 100, 1e-5), 3)
    4.307
    """
    delta = delta_of(delta)
    pairs = [(epsilon_of(epsilon), real_between("delta", each, 0.0, 1 - 1e-9)) for epsilon, each in parts]
    if not pairs:
        return 0.0
    log_safe = math.fsum(math.log1p(-each) for _, each in pairs)
    # The delta that remains once the chances of revealing everything are paid for.
    allowed = -math.expm1(math.log1p(-delta) - log_safe) * (1 - 1e-12)
    if allowed <= 0:
        raise AccountingError(
            f"delta={delta:g} must exceed the parts' own deltas, which come to "
            f"{-math.expm1(log_safe):.6g}: use a larger delta."
        )
    epsilons = sorted(epsilon for epsilon, _ in pairs)
    if epsilons[0] == epsilons[-1]:
        return _equal_parts(epsilons[0], len(epsilons), allowed)
    ceiling = sum(epsilons)
    largest = _advanced(epsilons, allowed)
    if largest + max(epsilons) > MOST_EPSILON / 2:
        return min(ceiling, largest)
    kinds = [(_randomized_response(epsilon), epsilons.count(epsilon)) for epsilon in dict.fromkeys(epsilons)]
    return min(ceiling, ProductComposition(kinds, largest).epsilon(allowed))


def _equal_parts(epsilon: float, count: int, delta: float) -> float:
    """Return the optimum of `count` pure parts. The answers' loss is ``(count - 2 i) epsilon``."""
    count = integer_between("count", count, 1)
    n_lost = np.arange(count // 2 + 1)
    losses = (count - 2 * n_lost) * epsilon
    log_choose = np.array([math.lgamma(count + 1) - math.lgamma(i + 1) - math.lgamma(count - i + 1) for i in n_lost])
    log_p = log_choose + (count - n_lost) * epsilon - count * np.logaddexp(0.0, epsilon)
    # Between two possible losses delta is linear in exp(epsilon), so each piece is solved in closed form.
    slack = 1e-12 + 8e-15 * math.lgamma(count + 1)
    above_p = np.exp(np.logaddexp.accumulate(log_p) + slack)
    log_above_q = np.logaddexp.accumulate(log_p - losses) - slack
    if above_p[-1] - math.exp(log_above_q[-1]) <= delta:
        return 0.0
    for i in range(len(n_lost)):
        at_next = losses[i + 1] if i + 1 < len(n_lost) else 0.0
        # With the losses above i counted, the line crosses delta at this epsilon.
        if above_p[i] > delta:
            crossing = math.log(above_p[i] - delta) - log_above_q[i] + 1e-12
            if crossing >= at_next:
                return float(min(crossing, losses[i]))
    return 0.0


def _randomized_response(epsilon: float) -> DominatingPairs:
    table = np.array([[1.0, math.exp(-epsilon)]]) / (1 + math.exp(-epsilon))
    return DominatingPairs(table, table[:, ::-1])


def _advanced(epsilons: list[float], delta: float) -> float:
    """Return the bound of advanced composition, to lay the grid out (Dwork and Roth 2014, Theorem 3.20)."""
    drift = math.fsum(epsilon * math.tanh(epsilon / 2) for epsilon in epsilons)
    squares = math.fsum(epsilon**2 for epsilon in epsilons)
    return min(math.fsum(epsilons), math.sqrt(2 * math.log(1 / delta) * squares) + drift)


def renyi_allowance(order: float, budget: Budget, conversion: Conversion) -> float:
    """Return the Renyi divergence at `order` that converts to the budget, rounded down, or 0 if nothing does."""
    convert = _classical_epsilon if conversion is Conversion.CLASSICAL else improved_epsilon
    orders = np.array([order])
    tiny = 1e-300
    allowed = budget.epsilon - convert(np.array([tiny]), orders, budget.delta)
    allowed *= 1 - 1e-9
    if allowed <= 0 or convert(np.array([allowed]), orders, budget.delta) > budget.epsilon:
        return 0.0
    return allowed
