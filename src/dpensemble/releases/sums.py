"""The one place that charges sums of whole numbers and adds their noise.

A `SumQuery` states how far one unit can move a sum. `PartialSums` of parts of the records merge in any order, on any
machine, before noise is added once. A `SumReleaser` charges its meter, draws the noise, and describes what it released.
A `SumsMeter` refuses what does not fit its budgets. `dpensemble.cost.gaussian` computes what a sum costs.

`DiscreteNoise` draws noise on whole numbers exactly: discrete Laplace and discrete Gaussian. Every probability is a
ratio of integers and is compared with uniform bits, so no floating-point number takes part in a draw. The algorithms
are those of C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020
(Algorithms 1 to 3). The time of a draw depends on the noise drawn. The guarantee does not cover this.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isqrt
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from dpensemble._checks import member, real_between
from dpensemble._entries import BigIntegers, Floats, Integers
from dpensemble._random import NOISE_BITS, NoiseSource
from dpensemble._spending import Original, drawn_once
from dpensemble.accounting.base import BudgetMeter, Group, require_one_delta
from dpensemble.cost import GaussianCost, PrivacyCost, gaussian_mu, noise_variance
from dpensemble.cost.gaussian import PROMISED_SLACK
from dpensemble.errors import BudgetError, DataError, FileError, InvalidParameterError
from dpensemble.guarantee import Budget
from dpensemble.relations import Relation

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class ReleasedTable:
    """Released statistics for people to read. Public.

    Parameters
    ----------
    title : str
        Heading of the table.
    rows : tuple of (str, float, float)
        Label, value, and standard deviation of the noise on the value.
    """

    title: str
    rows: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, slots=True)
class ReleasedSum:
    """Description of a released sum. Public. `dataclasses.asdict` makes it JSON.

    Parameters
    ----------
    description : str
        What was released. For example, "the mean of the features".
    table : ReleasedTable, optional
        Statistics to show.
    noise : float, optional
        Standard deviation of the Gaussian noise on each entry, in sensitivities of the sum.
    """

    description: str
    table: ReleasedTable | None = None
    noise: float | None = None


class SumQuery(ABC, Generic[Outcome]):
    """One noisy sum over units: how far one unit can move the sum, and how to interpret the noisy sum.

    A new kind of released sum is one subclass. The exact sum is computed elsewhere, in one place or in parts.
    """

    @property
    @abstractmethod
    def description(self) -> str:
        """What is released, as reports print it. For example, "the mean of the features"."""

    @property
    @abstractmethod
    def unit(self) -> int:
        """Whole units in 1 of the sum."""

    @property
    @abstractmethod
    def replacing(self) -> int:
        """Most whole units by which the sum moves when a unit of weight 1 is replaced by another."""

    @property
    @abstractmethod
    def removing(self) -> int:
        """Most whole units by which the sum moves when a unit of weight 1 is added or removed."""

    @property
    def public_arrays(self) -> tuple[Floats | None, ...]:
        """Arrays of earlier releases that the sum depends on, such as the centre of residuals. Public."""
        return ()

    def sensitivity(self, relation: Relation) -> int:
        """Return the most whole units by which neighbouring data sets can move the sum."""
        return self.removing if relation is Relation.ADD_OR_REMOVE_ONE else max(self.replacing, self.removing)

    @abstractmethod
    def read(self, sums: Floats, spread: float) -> Outcome:
        """Return the result, from noisy sums per unit of weight and the standard deviation of their noise."""

    def table(self, outcome: Outcome) -> ReleasedTable | None:  # noqa: ARG002
        """Return released statistics for people to read, or None (the default)."""
        return None


#: Checksums are added modulo this number.
CHECKSUMS = 2**128
# Most records of a run, whose counts then fit 64 bits.
_MOST_ROWS = 2**40


@dataclass(frozen=True, eq=False, repr=False)
class PartialSums:
    """The exact sum of some records, and what identifies these records. Private.

    Two partial sums of different records of one round add up to the partial sum of all of them. Entries are Python
    integers, so no number of rows is too large.

    Parameters
    ----------
    total : ndarray of Python integers or None
        The sum in whole units. None without records.
    rows : int
        Number of records.
    checksum : int
        Sum of keyed hashes of the records, modulo ``2**128`` (`dpensemble.rows.checksums`). It does not depend
        on the order of records. The sum is 0 for records that cannot change.
    round : int
        Number of the release that the sum is for.
    """

    total: BigIntegers | None
    rows: int = 0
    checksum: int = 0
    round: int = 0

    def __add__(self, other: PartialSums) -> PartialSums:
        """Return the partial sum of the records of both."""
        if self.round != other.round:
            raise DataError("partial sums of two different rounds cannot be added: compute all parts of a round again.")
        if self.total is None or other.total is None:
            total = other.total if self.total is None else self.total
        elif self.total.shape != other.total.shape:
            raise DataError("partial sums of different shapes cannot be added: use the same query for all parts.")
        else:
            total = self.total + other.total
        checksum = (self.checksum + other.checksum) % CHECKSUMS
        return PartialSums(total, self.rows + other.rows, checksum, self.round)

    @property
    def is_sound(self) -> bool:
        """Whether the entries have the right types, and records have a sum if there are any to sum."""
        counts = (self.rows, self.checksum, self.round)
        if set(map(type, counts)) != {int} or not (0 <= self.rows <= _MOST_ROWS and 0 <= self.checksum < CHECKSUMS):
            return False
        return self.total is None or (self.rows > 0 and self.total.ndim == 2 and _whole_numbers(self.total))

    def fits(self, longest: int, *, never_negative: bool) -> bool:
        """Return whether the sum is at most `longest` whole units long, by exact arithmetic."""
        entries = [] if self.total is None else list(map(int, self.total.ravel().tolist()))
        if never_negative and min(entries, default=0) < 0:
            return False
        # Every entry is compared before it is squared, since a square of a huge entry takes long.
        return max(map(abs, entries), default=0) <= longest and sum(one * one for one in entries) <= longest**2

    @property
    def records(self) -> tuple[int, int]:
        """Number of records and their checksum, which are the same in every round of a run."""
        return self.rows, self.checksum


class SameRecords:
    """Compares the records of every pass of a run with those of the first one, before anything is charged or drawn.

    The bound on what one unit changes holds only if every round sums the same records. A query that is computed again
    may lose, change or repeat rows.
    """

    def __init__(self, records: tuple[int, int] | None = None) -> None:
        self._records = records

    def require(self, records: tuple[int, int]) -> None:
        """Raise if these are not the records of the first pass."""
        if self._records is None:
            self._records = records
        elif records != self._records:
            # No count and no hash is named: a refusal is not covered by the guarantee.
            raise DataError(
                "the private records changed between two passes over them, so nothing more was released: give a table "
                "or a query that returns the same records every time, such as a stored copy."
            )


def _whole_numbers(entries: Integers | BigIntegers) -> bool:
    """Return whether an array holds nothing but integers, of numpy or of Python."""
    return entries.dtype.kind in "iu" or (
        entries.dtype.kind == "O" and set(map(type, entries.ravel().tolist())) <= {int}
    )


_BUFFER = 256


class DiscreteNoise(Original, spends=("laplace", "gaussian", "below")):
    """Draws of integer noise from a source of uniform bits."""

    def __init__(self, noise: NoiseSource) -> None:
        self._noise = noise
        self._words: list[int] = []

    def laplace(self, scale: int) -> int:
        """Return ``y`` with probability in proportion to ``exp(-abs(y) / scale)``, an integer scale from 1."""
        _require_positive("scale", scale)
        return self._laplace(scale)

    def _laplace(self, scale: int) -> int:
        while True:
            start = self._below(scale)
            if not self._happens_exp(Fraction(start, scale)):
                continue
            blocks = 0
            while self._happens_exp(Fraction(1)):
                blocks += 1
            size = start + scale * blocks
            negative = self._below(2) == 1
            # Zero has only one sign.
            if not (negative and size == 0):
                return -size if negative else size

    def gaussian(self, variance: int) -> int:
        """Return ``y`` with probability in proportion to ``exp(-y**2 / (2 variance))``, for an integer from 1."""
        _require_positive("variance", variance)
        scale = isqrt(variance) + 1
        while True:
            value = self._laplace(scale)
            # (abs(y) - variance / scale)**2 / (2 variance), over one denominator.
            excess = abs(value) * scale - variance
            if self._happens_exp(Fraction(excess * excess, 2 * variance * scale * scale)):
                return value

    def _happens_exp(self, exponent: Fraction) -> bool:
        """Return True with probability ``exp(-exponent)``."""
        whole = exponent.numerator // exponent.denominator
        if not all(self._happens_exp_unit(1, 1) for _ in range(whole)):
            return False
        return self._happens_exp_unit(exponent.numerator - whole * exponent.denominator, exponent.denominator)

    def _happens_exp_unit(self, numerator: int, denominator: int) -> bool:
        """Return True with probability ``exp(-numerator / denominator)``, an exponent from 0 to 1."""
        k = 1
        # An alternating series: the number of successes in a row is even with that probability.
        while self._below(denominator * k) < numerator:
            k += 1
        return k % 2 == 1

    def below(self, bound: int) -> int:
        """Return an integer uniform on ``0 .. bound - 1``, by rejection."""
        return self._below(bound)

    def _below(self, bound: int) -> int:
        n_bits = (bound - 1).bit_length()
        n_words = -(-n_bits // NOISE_BITS)
        while True:
            value = 0
            for _ in range(n_words):
                if not self._words:
                    self._words = self._noise.uniform_bits(_BUFFER).tolist()
                value = value << NOISE_BITS | self._words.pop()
            value >>= n_words * NOISE_BITS - n_bits
            if value < bound:
                return value


def _require_positive(name: str, value: int) -> None:
    if not (isinstance(value, int) and value >= 1):
        raise InvalidParameterError(f"{name}={value!r} must be an integer from 1.")


class NoiseParts(Protocol):
    """How several sites share the noise of a sum. See `dpensemble.releases.parts.SiteNoise`."""

    def drawn(self, variance: int, site: int) -> int:
        """Return the variance that one site draws for a sum whose whole noise has some variance."""

    def charged(self, variance: int) -> int:
        """Return the least variance of the parts of the sites that do not collude."""

    def opened(self, variance: int) -> int:
        """Return the variance of the parts of all sites."""


class SumPayer(Protocol):
    """Pays for noisy sums."""

    def sigma(self, share: float) -> float:
        """Return the noise, in sensitivities, of a sum that takes a share of the budget's ``mu**2``."""

    def charge(self, sigma: float, *, variance: int, entries: int) -> None:
        """Charge for a sum before its noise is drawn, or refuse."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SumReleaser:
    """Releases noisy sums: charges for each, draws its noise, and stores a description of it.

    Parameters
    ----------
    relation : Relation
        Neighbouring relation.
    meter : SumPayer
        Pays for the sums, usually a `dpensemble.releases.SumsMeter`.
    noise : NoiseSource
        Secret bits.
    kept_as : str, default="a noisy sum"
        Under which name an interrupted run keeps its noisy sums. A run that asks for another name is not finished with
        them.
    parts : NoiseParts, optional
        How several sites share the noise of each sum. By default all noise is drawn here.

    Attributes
    ----------
    released : list of ReleasedSum
        Descriptions of all released sums, in order. Public.
    """

    relation: Relation
    meter: SumPayer
    noise: NoiseSource
    kept_as: str = "a noisy sum"
    parts: NoiseParts | None = None
    released: list[ReleasedSum] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", member("relation", self.relation, Relation))

    def charge_and_draw(
        self, query: SumQuery[Outcome], total: Integers | BigIntegers | None, share: float, *, weight: float = 1.0
    ) -> Outcome:
        """Charge for a sum, then draw the noise of each entry, and return the query's result.

        Every noisy sum of the package is charged and drawn here, or, if several sites share the noise, by
        `charge_and_draw_part`.

        Parameters
        ----------
        query : SumQuery
            What the sum holds, and how far one unit can move the sum.
        total : ndarray of int, or of Python integers, or None
            The exact sum in whole units, which may be the total of sums that were computed elsewhere. Private. None if
            there are no records.
        share : float
            Share of the budget's ``mu**2``.
        weight : float, default=1.0
            Sum of the units' weights, by which the noisy sum is divided. Public.

        Raises
        ------
        DataError
            If there are no records, or if the total is not of whole numbers, since noise would not hide fractions.
        BudgetError
            If the budget does not cover the sum. Then no noise is drawn.
        """
        if self.parts is not None:
            raise InvalidParameterError("the noise of this sum is shared among sites: use charge_and_draw_part.")
        drawn = self._charged(query, total, share)
        shape = () if total is None else total.shape

        def draw() -> Floats:
            return np.array([float(entry) for entry in drawn()]).reshape(shape)

        noisy: Any = drawn_once(self.kept_as, draw, seeded=not self.noise.for_release)
        if noisy.shape != shape:
            raise FileError(
                "the run that is finished here drew a sum of another size: finish it with the version and the files of "
                "its start."
            )
        return self._read(query, noisy, share, weight)

    def charge_and_draw_part(
        self, query: SumQuery[Outcome], total: Integers | BigIntegers | None, share: float, *, site: int
    ) -> list[int]:
        """Charge for a sum of several sites, then add one site's part of the noise to the site's own exact sum.

        The result is private, because its noise is smaller than what was charged. It must be masked before it leaves
        the site.

        Parameters
        ----------
        query, share
            As for `charge_and_draw`.
        total : ndarray of int, or of Python integers, or None
            The exact sum of the site's own records, in whole units. Private.
        site : int
            Place of the site among all sites, from 0.

        Returns
        -------
        list of int
            Entries in order, in whole units. Private.
        """
        if self.parts is None:
            raise InvalidParameterError("the noise of this sum is not shared among sites: use charge_and_draw.")
        return self._charged(query, total, share, site)()

    def read_opened(self, query: SumQuery[Outcome], opened: Integers, share: float, *, weight: float = 1.0) -> Outcome:
        """Return a query's result from the opened sum of all sites, which holds the noise of all of them. Public."""
        if self.parts is None:
            raise InvalidParameterError("the noise of this sum is not shared among sites: use charge_and_draw.")
        return self._read(query, opened.astype(np.float64), share, weight)

    def _charged(
        self, query: SumQuery[Outcome], total: Integers | BigIntegers | None, share: float, site: int | None = None
    ) -> Callable[[], list[int]]:
        """Charge for a sum, and return a function that adds noise to the entries."""
        if total is None:
            raise DataError("there are no private records; a reader of blocks must give all records on every call.")
        if not _whole_numbers(total):
            raise DataError(f"total must be a sum of whole numbers; got the type {total.dtype}.")
        sigma = self.meter.sigma(share)
        charged = drawn = noise_variance(sigma, query.sensitivity(self.relation))
        if self.parts is not None and site is not None:
            charged, drawn = self.parts.charged(charged), self.parts.drawn(charged, site)
        self.meter.charge(sigma, variance=charged, entries=total.size)

        def draw() -> list[int]:
            draws = DiscreteNoise(self.noise)
            return [entry + draws.gaussian(drawn) for entry in total.ravel().tolist()]

        return draw

    def _read(self, query: SumQuery[Outcome], noisy: Floats, share: float, weight: float) -> Outcome:
        """Return the query's result, and store a description of the released sum."""
        sigma = self.meter.sigma(share)
        variance = noise_variance(sigma, query.sensitivity(self.relation))
        variance = variance if self.parts is None else self.parts.opened(variance)
        outcome = query.read(noisy / query.unit / weight, math.sqrt(variance) / query.unit / weight)
        self.released.append(ReleasedSum(query.description, query.table(outcome), sigma))
        return outcome

    def spread(self, query: SumQuery[Outcome], share: float, *, weight: float = 1.0) -> float:
        """Return the standard deviation of the noise on each entry of a coming sum per unit of weight. Public."""
        spread = self.meter.sigma(share) * query.sensitivity(self.relation)
        if self.parts is not None:
            spread = math.sqrt(
                self.parts.opened(noise_variance(self.meter.sigma(share), query.sensitivity(self.relation)))
            )
        return spread / query.unit / weight


def weighted_groups(names: Sequence[str], budgets: Sequence[Budget]) -> tuple[Group, ...]:
    """Return groups with weights at which noise on one sum uses up all budgets, the largest weight 1.

    Examples
    --------
    >>> groups = weighted_groups(["low", "high"], [Budget(epsilon=1, delta=1e-5), Budget(epsilon=2, delta=1e-5)])
    >>> [round(group.weight, 3) for group in groups]
    [0.534, 1.0]
    """
    allowed = [gaussian_mu(budget.epsilon, budget.delta) for budget in budgets]
    parts = [one / max(allowed) for one in allowed]
    return tuple(Group(name, budget, weight=part) for name, budget, part in zip(names, budgets, parts, strict=True))


class SumsMeter(BudgetMeter, spends=("charge",)):
    """Charges noisy sums before their noise is drawn. Refuses a sum that does not fit, and never refunds a charge.

    Parameters
    ----------
    groups : sequence of Group
        Groups whose units are charged, at one delta. A unit of weight ``a`` moves a sum by at most ``a`` sensitivities.

    Attributes
    ----------
    mu : float
        Gaussian privacy that the budgets allow a unit of weight 1. A small reserve pays for the noise's rounding.

    Examples
    --------
    >>> meter = SumsMeter([Group("everyone", Budget(epsilon=1, delta=1e-5))])
    >>> meter.charge(meter.sigma(share=0.5), variance=2**54, entries=500)
    >>> meter.charge(meter.sigma(share=0.5), variance=2**54, entries=500)
    >>> round(meter.spent_epsilon, 6)
    1.0
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__(require_one_delta(groups))
        for group in self.groups:
            if group.pool or group.votes != 1:
                raise InvalidParameterError(
                    f"pool={group.pool} and votes={group.votes} of group {group.name!r} are for votes: "
                    "give weight for sums."
                )
        allowed = [
            gaussian_mu(group.budget.epsilon * (1 - 1e-7), group.budget.delta * (1 - 1e-7)) / group.weight
            for group in self.groups
            if group.weight
        ]
        self.mu = min(allowed, default=0.0)
        self._costs = tuple(GaussianCost(0.0) for _ in self.groups)
        self._most_slack = math.inf
        self._charges: list[dict[str, Any]] = []

    def sigma(self, share: float) -> float:
        """Return the noise, in sensitivities, of a sum that takes a share of the whole ``mu**2``."""
        # A relative 1e-12 keeps shares that add up to 1 from rounding above the budget.
        return (1 + 1e-12) / (self.mu * math.sqrt(real_between("share", share, 1e-9, 1.0)))

    def charge(self, sigma: float, *, variance: int, entries: int) -> None:
        """Charge for a sum before its noise is drawn.

        Parameters
        ----------
        sigma : float
            Noise in units of the sensitivity, at most the noise that is drawn.
        variance : int
            Variance of the discrete noise in squared whole units, from 2**40.
        entries : int
            Entries of the sum.

        Raises
        ------
        BudgetError
            If some group's budget does not cover it.
        """
        sigma = real_between("sigma", sigma, 1e-6, 1e12)
        costs = tuple(
            spent + GaussianCost.of_sum(sigma, variance=variance, entries=entries, weight=group.weight)
            for group, spent in zip(self.groups, self._costs, strict=True)
        )
        for group, cost in zip(self.groups, costs, strict=True):
            if not cost.fits(group.budget) or cost.slack > self._most_slack:
                raise BudgetError(
                    f"a sum with noise sigma={sigma:.6g} does not fit what is left of epsilon="
                    f"{group.budget.epsilon:g} at delta={group.budget.delta:g}: use more noise, or a smaller share."
                )
        self._costs = costs
        self._charges.append({"sigma": sigma, "variance": int(variance), "entries": int(entries)})
        self._record(self._charges[-1])

    def _record(self, charge: dict[str, Any]) -> None:
        """Record a charge before its noise is drawn. By default only this object stores the charge."""

    def renyi_costs(self) -> tuple[PrivacyCost | None, ...]:
        """Return the most that each group can be charged. Discrete noise is checked against it from then on."""
        self._most_slack = PROMISED_SLACK
        mus = [gaussian_mu(group.budget.epsilon, group.budget.delta) * (1 + 1e-9) for group in self.groups]
        return tuple(GaussianCost(mu**2, PROMISED_SLACK) for mu in mus)

    @property
    def group_epsilons(self) -> tuple[float, ...]:
        """Epsilon of all sums charged so far, for each group."""
        pairs = zip(self.groups, self._costs, strict=True)
        return tuple(min(group.budget.epsilon, cost.epsilon(group.budget.delta)) for group, cost in pairs)

    @property
    def accounting(self) -> str:
        """Name and source of the analysis."""
        sums = "1 noisy sum" if len(self._charges) == 1 else f"{len(self._charges)} noisy sums"
        return (
            f"exact trade-off of the Gaussian mechanism, {sums} (Balle and Wang 2018, Theorem 8; Dong, Roth and Su "
            "2022, Corollary 3.3); the noise drawn is a discrete Gaussian, whose difference is charged"
        )

    def spend_curve(self) -> list[tuple[int, tuple[float, ...]]]:
        """Return the number of sums and what each group was charged for them."""
        return [(len(self._charges), self.group_epsilons)]

    @property
    def charges(self) -> tuple[dict[str, Any], ...]:
        """``sigma``, ``variance`` and ``entries`` of every sum charged so far. Public."""
        return tuple(self._charges)
