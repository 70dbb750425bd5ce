"""The steps of label moments where every noisy sum is the sum of all sites, which they open together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpensemble._entries import BigIntegers, Floats, Integers, Rows
from dpensemble._files import JSON
from dpensemble._random import noise_source
from dpensemble.cost import noise_variance
from dpensemble.methods.label_moments import MomentsSteps
from dpensemble.moments import MomentsSource
from dpensemble.moments.whole import WHOLE, RecordsQuery
from dpensemble.quality.release import HeldRecords, Layout, NoisyHistograms
from dpensemble.relations import Relation
from dpensemble.releases import SumQuery, SumReleaser
from dpensemble.releases.sums import Outcome
from dpensemble.rows.checked import CheckedBlock
from dpensemble.rows.passes import CheckedRecords, SumsOfRecords
from dpensemble.sites.charges import Payer
from dpensemble.sites.exchange import (
    CoordinatorExchange,
    SiteExchange,
    coming_sum,
    exact_total,
    read_sum,
    require_no_wrap,
)
from dpensemble.sites.messages import SitesError
from dpensemble.sites.terms import COORDINATOR
from dpensemble.workflow.scoring import probabilities_of


class Place(NamedTuple):
    """A sum among those of a run: its number, the most units that it is of, its shape, and what an example adds."""

    number: int
    units: float
    shape: tuple[int, ...]
    example: Floats | None = None


@dataclass(frozen=True, eq=False, repr=False)
class HeldPart:
    """The held-back records of a site, as they were checked, with the unit of each one from 0. Private."""

    block: CheckedBlock
    unit_of: Integers
    n_units: int
    by_unit: bool

    def records(self, model: Rows) -> HeldRecords:
        """Return a published model's probabilities of these records. A bad record adds nothing."""
        rows, targets = self.block.rows, self.block.targets
        probable = np.zeros((len(targets), len(model.classes_)))
        if len(targets):
            everything = np.ones(len(targets), dtype=bool)
            unit_of = self.unit_of if self.by_unit else None
            probable, _ = probabilities_of(model, rows, unit_of, lambda part: (part, everything[: len(part)]))
        truth = np.maximum(targets, 0)
        return HeldRecords(
            probabilities=probable,
            truth=truth,
            groups={},
            unit_of=self.unit_of,
            n_units=self.n_units,
            usable=targets >= 0,
        )


@dataclass(frozen=True, eq=False)
class Shared:
    """Where the sums of a run with several sites come from, and who pays.

    `example` is a public row as a record. `units` are those of all sites, or the most that there may be.
    """

    exchange: SiteExchange | CoordinatorExchange
    payer: Payer
    example: CheckedRecords
    units: float

    @property
    def place(self) -> int:
        """Place of this site among all of them. The coordinator has none, and adds nothing."""
        name, sites = self.exchange.post.name, self.exchange.terms.sites
        return -1 if name == COORDINATOR else sites.index(name)

    def opened(
        self,
        sums: SumReleaser,
        query: SumQuery[Outcome],
        share: float,
        exact: Callable[[], BigIntegers],
        place: Place,
        *,
        weight: float = 1.0,
    ) -> Outcome:
        """Open the next sum of all sites. A site charges, and adds its own noisy numbers under masks.

        `exact` returns the site's own sum. Private.
        """
        exchange, number, sigma = self.exchange, place.number, sums.meter.sigma(share)
        variance = noise_variance(sigma, query.sensitivity(sums.relation))
        require_no_wrap(exchange.noise, variance)
        spread = float(np.sqrt(float(exchange.noise.opened(variance))))

        def contribute() -> list[int]:
            self.payer.number = number
            return sums.charge_and_draw_part(query, exact(), share, site=self.place)

        coming = coming_sum(query, number, place.example)
        entries = exchange.open(coming, query, spread, place.units, contribute)
        charge = {"sigma": sigma, "variance": exchange.noise.charged(variance), "entries": len(entries)}
        self.payer.opened(number, charge, of_held=sums.meter is self.payer.held)
        return read_sum(sums, query, entries, share, weight, place.shape)

    def quality(self, model: Rows, public: Rows, layout: Layout, held: HeldPart | None) -> NoisyHistograms:
        """Open the histogram of held-back units of all sites: a published model's probabilities by true class.

        A coordinator has no units. `layout` is planned for the number of held-back units of all sites.
        """
        expected = model.predict_proba(public) if len(public) else None
        if expected is not None:
            layout = layout.for_shares(expected.mean(axis=0).tolist())
        edges = layout.edges(expected)
        layout = edges.fitted(layout)
        noise = noise_source(None)
        sums = SumReleaser(relation=layout.relation, meter=self.payer.held, noise=noise, parts=self.exchange.noise)
        # Holds the noise to the cost that a ledger is charged.
        self.payer.held.renyi_costs()
        place = Place(self.payer.next_number, float(layout.n_units), (layout.n_cells,))

        def exact() -> BigIntegers:
            if held is None:
                raise SitesError("a coordinator has no held-back units.")
            return held.records(model).exact_total(layout, edges).astype(object)

        drawn = self.opened(sums, layout.sum_between(edges), 1.0, exact, place)
        return layout.read(edges, drawn, layout.epsilon, tuple(self.payer.public_charges(of_held=True)))

    def source_of(self, source: MomentsSource) -> SharedSource:
        """Return the source of a site's own sums as a source of those of all sites."""
        blocks: JSON = source.blocks
        # Its own features: those of the site's records are kept between passes.
        like = SumsOfRecords(self.example, blocks.features.reading(blocks.features.transform))
        return SharedSource(
            blocks=blocks,
            nonnegative=source.nonnegative,
            sums=replace(source.sums, parts=self.exchange.noise),
            same=source.same,
            shared=self,
            like=like,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class SharedSource(MomentsSource):
    """A source whose noisy sums are those of all sites. `like` is a public row behind the same map."""

    shared: Shared
    like: SumsOfRecords

    def noisy_sum(
        self, query: RecordsQuery[Outcome], share: float, total_weight: float = 1.0, *, title: str = "Statistics"
    ) -> Outcome:
        """Open the next sum of all sites. A site adds its own noisy numbers under masks. See `MomentsSource`."""
        del title
        shared, sums = self.shared, self.sums
        first = 1 if sums.relation is Relation.REPLACE_ONE else 0
        number = first + len(sums.released)
        example = exact_total(self.like, query, 0)[0]

        def exact() -> BigIntegers:
            total, records = exact_total(self.blocks, query, number)
            self.same.require(records)
            return total

        place = Place(number, shared.units, example.shape, example.astype(np.float64) / WHOLE)
        return shared.opened(sums, query, share, exact, place, weight=total_weight)

    def reading(self, transform: JSON, *, nonnegative: bool) -> SharedSource:
        """Return the same records behind another map of the library."""
        blocks, like = self.blocks.reading(transform), self.like.reading(transform)
        return replace(self, blocks=blocks, like=like, nonnegative=nonnegative)


class SharedSteps(MomentsSteps):
    """The steps of label moments, with the sums of all sites."""

    shared: Shared

    def prepare(self) -> None:
        """Choose the map as for one site, and the meter of this site."""
        super().prepare()
        self.meter = self.shared.payer.meter

    def _source(self) -> MomentsSource:
        return self.shared.source_of(super()._source())
