"""Bootstrap subsamples: each model of a bag learns from units that were drawn for it in secret.

The draw is the privacy mechanism, so it comes from secret bits and never from a public seed. Whole numbers, orders and
subsets are drawn exactly uniformly, from the same source as the noise of a release. The three schemes differ by what
may repeat.

References
----------
"On the Intrinsic Differential Privacy of Bagging" (Liu, Jia and Gong), Definition 2, for the first two.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dpensemble._checks import integer_between, member
from dpensemble._random import NOISE_BITS, NoiseSource
from dpensemble._units import number_units
from dpensemble.allocation.partition import Allocation
from dpensemble.errors import InvalidParameterError
from dpensemble.relations import Relation


def integers_below(bound: int, size: int, noise: NoiseSource) -> NDArray[np.int64]:
    """Draw `size` independent integers, each exactly uniform on ``0 .. bound - 1``."""
    # Numbers from the largest multiple of the bound on are drawn again, so that all remainders are equally likely.
    limit = np.uint64(2**NOISE_BITS - 2**NOISE_BITS % bound)
    draws = noise.uniform_bits(size)
    while (again := np.flatnonzero(draws >= limit)).size:
        draws = draws.copy()
        draws[again] = noise.uniform_bits(again.size)
    return (draws % np.uint64(bound)).astype(np.int64)


def _random_order(size: int, noise: NoiseSource) -> NDArray[np.int64]:
    """Draw an order of ``0 .. size - 1``, each exactly as likely as any other."""
    # Equal keys would favour one order, so all are drawn again.
    keys = noise.uniform_bits(size)
    while np.unique(keys).size < size:
        keys = noise.uniform_bits(size)
    return np.argsort(keys)


def _subsets(n_items: int, size: int, n_sets: int, noise: NoiseSource) -> NDArray[np.int64]:
    """Draw subsets of ``0 .. n_items - 1``, shape (n_sets, size), each exactly as likely as any other."""
    # For more than half of the items the complement is drawn, so that each round keeps about half of its draws or more.
    if 2 * size > n_items:
        inside = np.ones((n_sets, n_items), dtype=bool)
        left_out = _subsets(n_items, n_items - size, n_sets, noise) if size < n_items else np.empty((n_sets, 0), int)
        np.put_along_axis(inside, left_out, False, axis=1)
        return np.nonzero(inside)[1].reshape(n_sets, size)
    keys = np.empty(0, dtype=np.int64)
    n_missing = np.full(n_sets, size)
    while n_missing.any():
        owners = np.repeat(np.arange(n_sets), n_missing)
        drawn = owners * n_items + integers_below(n_items, owners.size, noise)
        # A set never gets more items than it lacks, so all new items are kept.
        keys = np.union1d(keys, drawn)
        n_missing = size - np.bincount(keys // n_items, minlength=n_sets)
    return (keys % n_items).reshape(n_sets, size)


# Powers of fractions up to this length are computed exactly.
_EXACT_BITS = 20_000
# Sixteen units in the last place. The formula's rounding errors come to about five.
_SLACK = 2.0**-48


class Bootstrap(StrEnum):
    """How subsamples are drawn.

    Attributes
    ----------
    WITH_REPLACEMENT
        Every draw is among all units, so a unit may be drawn several times.
    DISTINCT
        All draws of all models differ: disjoint subsamples, the paper's "without replacement".
    SUBSETS
        Independent subsets, one for each model. A unit is at most once in a subset, but several subsets may hold it.
    """

    WITH_REPLACEMENT = "with-replacement"
    DISTINCT = "distinct"
    SUBSETS = "subsets"


@dataclass(frozen=True, slots=True)
class BootstrapScheme:
    """Subsamples of equal size, one for each model.

    Parameters
    ----------
    scheme : Bootstrap or str
        How subsamples are drawn.
    n_models : int
        Number of subsamples, at least 1. Public.
    subsample : int
        Units drawn for each, at least 1. Public.

    Raises
    ------
    InvalidParameterError
        If a number is below 1 or the scheme is unknown.

    References
    ----------
    "On the Intrinsic Differential Privacy of Bagging", Definition 2. Independent subsets are the project's own.

    Examples
    --------
    >>> scheme = BootstrapScheme("with-replacement", n_models=1, subsample=300)
    >>> scheme.inclusion_probability(60_000)
    0.0049875...
    >>> BootstrapScheme("distinct", n_models=1, subsample=300).inclusion_probability(60_000)
    0.005
    """

    scheme: Bootstrap
    n_models: int
    subsample: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scheme", member("scheme", self.scheme, Bootstrap))
        object.__setattr__(self, "n_models", integer_between("n_models", self.n_models, 1))
        object.__setattr__(self, "subsample", integer_between("subsample", self.subsample, 1))

    @property
    def n_draws(self) -> int:
        """Number of draws of all models together."""
        return self.n_models * self.subsample

    def check(self, n_units: int) -> None:
        """Raise if there are too few units for a subset, or for all distinct draws together."""
        n_units = integer_between("n_units", n_units, 1)
        if self.scheme is Bootstrap.SUBSETS and self.subsample > n_units:
            raise InvalidParameterError(
                f"subsample={self.subsample} is more than the {n_units} private records (or units), which cannot "
                f"be drawn twice for one subset: use at most {n_units}, or scheme='with-replacement'."
            )
        if self.scheme is Bootstrap.DISTINCT and self.n_draws > n_units:
            fits = n_units // self.n_models
            use = f"a subsample of at most {fits}" if fits else f"at most {n_units} models"
            overlap = "subsets" if self.subsample <= n_units else "with-replacement"
            models = "model" if self.n_models == 1 else "models"
            raise InvalidParameterError(
                f"subsample={self.subsample} for {self.n_models} {models} makes {self.n_draws} distinct draws, "
                f"more than the {n_units} private records (or units): use {use}, or scheme='{overlap}'."
            )

    def inclusion_probability(self, n_units: int) -> float:
        """Return the probability that one given unit is in some subsample.

        With ``N`` models, subsamples of ``k`` and ``n`` units that is ``1 - (1 - 1/n)**(N k)`` with replacement, ``N k
        / n`` for distinct draws and ``1 - (1 - k/n)**N`` for subsets. The result is rounded up, by less than 1e-14 of
        itself. The printed decimal is never below the probability.

        Examples
        --------
        >>> BootstrapScheme("subsets", n_models=2, subsample=1).inclusion_probability(10)
        0.19
        """
        self.check(n_units)
        tries, drawn = self._tries()
        if drawn == n_units or tries * n_units.bit_length() <= _EXACT_BITS:
            return _round_up(1 - Fraction(n_units - drawn, n_units) ** tries)
        return min(1.0, -math.expm1(tries * math.log1p(-drawn / n_units)) * (1 + _SLACK))

    def holders(self, n_units: int) -> NDArray[np.float64]:
        """Return the law of the number of models whose subsample holds one given unit, shape (n_models + 1,).

        The law is binomial, except that with distinct draws at most one model holds a unit. Each probability is exact
        to 1e-11 of itself, unless it is too small for a double.

        Examples
        --------
        >>> BootstrapScheme("subsets", n_models=2, subsample=1).holders(10).round(3)
        array([0.81, 0.18, 0.01])
        """
        self.check(n_units)
        law = np.zeros(self.n_models + 1)
        if self.scheme is Bootstrap.DISTINCT:
            law[:2] = (n_units - self.n_draws) / n_units, self.n_draws / n_units
            return law
        tries, drawn = self._tries()
        if drawn == n_units:
            law[-1] = 1.0
            return law
        # For one model. The logarithm of a probability near 1 is computed from its small complement.
        missed = tries / self.n_models * _log_one_minus(drawn, n_units)
        return _binomial(self.n_models, math.log(-math.expm1(missed)), missed)

    def draw(self, identities: Sequence[Hashable], *, relation: Relation, noise: NoiseSource) -> Allocation:
        """Draw the subsamples in secret. Anyone who knows which units were drawn knows that all others were not.

        `identities` are declared units, or the records' positions, ``range(n_records)``, under either relation, which
        does not affect the draw. Models learn from all records of a drawn unit, twice if the unit is drawn twice.

        Equal records are separate units here, unlike in `partitions` under add-or-remove-one, whose draws depend on
        their content. Under add-or-remove-one a removed record shifts the positions of others, but nothing depends on a
        position. All units are equally likely. So, given that the removed unit was not drawn, the subsamples follow the
        law of those of the smaller data set. Each subsample lists its records in the order that they have in both data
        sets.

        Examples
        --------
        >>> from dpensemble._random import SystemNoise
        >>> scheme = BootstrapScheme("distinct", n_models=2, subsample=3)
        >>> bag = scheme.draw(range(9), relation=Relation.REPLACE_ONE, noise=SystemNoise())
        >>> [len(shard) for shard in bag.shards]
        [3, 3]
        >>> bag
        Allocation(n_teachers=2, relation=<Relation.REPLACE_ONE: 'replace-one'>, secret=True)
        """
        relation = member("relation", relation, Relation)
        units, unit_of_record = number_units(identities)
        self.check(len(units))
        drawn = self._draw_indices(len(units), noise)
        keys, copies = np.unique(drawn * self.n_models + np.arange(self.n_models)[:, None], return_counts=True)
        per_unit = np.bincount(keys // self.n_models, minlength=len(units))
        return Allocation(
            n_teachers=self.n_models,
            offsets=np.concatenate([[0], np.cumsum(per_unit)]),
            teachers=keys % self.n_models,
            unit_of_record=unit_of_record,
            relation=relation,
            copies=copies,
            secret=True,
        )

    def _tries(self) -> tuple[int, int]:
        """Return the number of independent tries and how many units each draws at once, without repeats."""
        if self.scheme is Bootstrap.WITH_REPLACEMENT:
            return self.n_draws, 1
        return (self.n_models, self.subsample) if self.scheme is Bootstrap.SUBSETS else (1, self.n_draws)

    def _draw_indices(self, n_units: int, noise: NoiseSource) -> NDArray[np.int64]:
        """Return the units drawn, shape (n_models, subsample)."""
        shape = self.n_models, self.subsample
        if self.scheme is Bootstrap.WITH_REPLACEMENT:
            return integers_below(n_units, self.n_draws, noise).reshape(shape)
        if self.scheme is Bootstrap.SUBSETS:
            return _subsets(n_units, self.subsample, self.n_models, noise)
        return _random_order(n_units, noise)[: self.n_draws].reshape(shape)


def _round_up(exact: Fraction) -> float:
    """Return the closest double, or the next if its decimal is below, so that 3/10 stays the familiar 0.3."""
    value = exact.numerator / exact.denominator
    return value if Fraction(repr(value)) >= exact else math.nextafter(value, math.inf)


def _log_one_minus(drawn: int, n_units: int) -> float:
    """Return ``log(1 - drawn / n_units)``, accurate at both ends."""
    if 2 * drawn <= n_units:
        return math.log1p(-drawn / n_units)
    return math.log((n_units - drawn) / n_units)


def _binomial(n_models: int, held: float, missed: float) -> NDArray[np.float64]:
    """Return the binomial law, given the logarithms of success and failure."""
    # Exact whole numbers, so that the logarithms do not add up errors.
    ways = accumulate(range(n_models), lambda count, b: count * (n_models - b) // (b + 1), initial=1)
    numbers = np.arange(n_models + 1)
    logs = np.array([math.log(count) for count in ways])
    law: NDArray[np.float64] = np.exp(logs + numbers * held + (n_models - numbers) * missed)
    return law
