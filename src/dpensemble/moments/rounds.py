"""The rounds of a run: private records behind a map, the released moments, and the model fitted to them.

Features have public weights before a later round, so that sensitivity is spent where signal is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from scipy import sparse

from dpensemble._arrays import Floats, Rows
from dpensemble._progress import pass_named
from dpensemble.moments.evidence import Fit, fit_moments, starting_fit
from dpensemble.moments.public_rows import PublicRows
from dpensemble.moments.queries import AnyQuery, ClassSums, Moments, RecordsQuery, Residuals, total_of
from dpensemble.moments.softmax import fit_softmax
from dpensemble.relations import Relation
from dpensemble.releases import SumReleaser
from dpensemble.releases.sums import Outcome, PartialSums, SameRecords

# Share of its present part that every block keeps.
_FLOOR = 0.2


def weights_of_features(fitted: Fit, public: PublicRows, feature_map: Any, spread: float) -> Floats:
    """Return factors for the features of the next round, from the model published so far.

    A block with squared length ``a`` of prior scale ``tau`` leaves an uncertainty of about ``sum of h tau**2 / (1 + a
    h**2 tau**2 / spread**2)`` over its features, where ``h`` is a feature's curvature. The squared lengths that make
    the sum over blocks least, and sum to what they do now, are found by bisection. A row that has no entry in a
    column has that column's whole length, as before, so that no row becomes longer than 1.
    """
    p = public.probabilities(fitted.coefficients)
    curvature = (p * (1 - p)).mean(axis=1)
    squared = public.features.power(2) if sparse.issparse(public.features) else public.features**2
    h = np.asarray(squared.T @ curvature).ravel() / len(p)
    now, blocks = feature_map.squares_, feature_map.blocks_
    gains = h**2 * fitted.scales[blocks] ** 2 / spread**2
    squares = _divided(h * fitted.scales[blocks] ** 2, gains / now[blocks], blocks, now)
    factors: Floats = np.sqrt(squares / now)[blocks]
    owners = feature_map.columns_of_blocks_
    for column, feature in enumerate(feature_map.missing_):
        factors[feature] = np.sqrt(squares[owners == column].sum() / now[owners == column].sum())
    return factors


def _divided(losses: Floats, gains: Floats, blocks: Any, now: Floats) -> Floats:
    """Return squared lengths of blocks, the last as it is, that minimise ``sum of losses / (1 + a gains)``."""
    total, least = 1 - now[-1], _FLOOR * now[:-1]

    def lengths(price: float) -> Floats:
        low, high = least.copy(), np.full(len(least), total)
        for _ in range(40):
            middle = np.sqrt(low * high)
            a = np.append(middle, now[-1])[blocks]
            worth = np.bincount(blocks, losses * gains / (1 + a * gains) ** 2)[:-1]
            low, high = np.where(worth > price, middle, low), np.where(worth > price, high, middle)
        return np.sqrt(low * high)

    cheap, dear = 1e-30, 1e30
    for _ in range(80):
        price = np.sqrt(cheap * dear)
        cheap, dear = (price, dear) if lengths(price).sum() > total else (cheap, price)
    best = lengths(dear)
    return np.append(best * total / best.sum(), now[-1])


#: A public map from rows to features.
Transform = Callable[[Rows], Rows]


class RecordSums(Protocol):
    """Private records behind a public map, in one place or in parts, whose exact sums can be computed."""

    @property
    def alone(self) -> bool:
        """Whether the map transforms one row at a time."""
        ...

    @property
    def zeroes_bad(self) -> bool:
        """Whether a bad record adds zeros. Otherwise it raises an error."""
        ...

    def sums(self, query: AnyQuery, number: int) -> PartialSums:
        """Return the exact sum of all records for the release with a number. Private."""
        ...

    def reading(self, transform: Transform) -> Self:
        """Return the same records behind a map of the library, with the same bad ones."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentsSource:
    """Private records behind a public map, and the releaser of their sums. `nonnegative` features are cut at 0."""

    blocks: RecordSums
    nonnegative: bool
    sums: SumReleaser
    same: SameRecords = field(default_factory=SameRecords)

    def release(
        self, query: RecordsQuery[Outcome], share: float, total_weight: float = 1.0, *, title: str = "Statistics"
    ) -> Outcome:
        """Sum the records exactly, and release the sum for a share of the budget, per unit of weight.

        The order is: pass over the records, compare them with those of the first pass, charge, draw. Bars show the
        `title` of the pass.
        """
        with pass_named(title):
            sums = self.blocks.sums(query, len(self.sums.released))
        total = total_of(sums)
        self.same.require(sums.records)
        return self.sums.release(query, total, share, weight=total_weight)

    def reading(self, transform: Any, *, nonnegative: bool) -> MomentsSource:
        """Return the same records behind another map of the library."""
        return replace(self, blocks=self.blocks.reading(transform), nonnegative=nonnegative)

    def first_query(self, n_classes: int) -> RecordsQuery[Moments]:
        """Return the query of the first round: class sums if they are cheaper, as they are for replacing a unit."""
        cheaper = self.nonnegative and self.sums.relation is Relation.REPLACE_ONE
        return ClassSums(n_classes) if cheaper else Residuals(n_classes)


class Rounds:
    """Releases round after round, and fits the model to all of them after each."""

    def __init__(self, source: MomentsSource, feature_map: Any, rows: PublicRows, total_weight: float) -> None:
        self.source, self.feature_map, self.rows, self.total_weight = source, feature_map, rows, total_weight
        # A model that reads other features than the released ones cannot be the centre of residuals.
        self.class_sums_only = rows.released is not None
        self.released: list[Moments] = []
        self.fitted: Fit = starting_fit(rows)

    def run(
        self, shares: tuple[float, ...], after_first: Callable[[Moments], None], on_done: Callable[[int], None]
    ) -> None:
        """Release a round for each share of the budget. `after_first` gets the first round before it is fitted."""
        for number, share in enumerate(shares):
            query = self._query(share, first=not number)
            title = f"Round {number + 1} of {len(shares)}"
            self.released.append(self.source.release(query, share, self.total_weight, title=title))
            if not number:
                after_first(self.released[0])
            self.fit()
            on_done(1)

    def _query(self, share: float, *, first: bool) -> RecordsQuery[Moments]:
        """Return the query of the next round: class sums, or residuals around the model that is fitted so far."""
        if self.class_sums_only:
            return ClassSums(self.rows.n_classes)
        if first:
            return self.source.first_query(self.rows.n_classes)
        return Residuals(self.rows.n_classes, self.fitted.coefficients, self._weights(share))

    def _weights(self, share: float) -> Floats | None:
        if getattr(self.feature_map, "squares_", None) is None:
            return None
        spread = self.source.sums.spread(Residuals(self.rows.n_classes), share, weight=self.total_weight)
        return weights_of_features(self.fitted, self.rows, self.feature_map, spread)

    def fit(self) -> None:
        """Fit the coefficients to all that was released."""
        if self.rows.n_classes == 2 and not self.class_sums_only:
            self.fitted = fit_moments(self.released, self.rows, self.fitted, n_units=self.total_weight)
        else:
            residuals = not self.class_sums_only
            self.fitted = fit_softmax(self.released, self.rows, n_units=self.total_weight, with_linear=residuals)
