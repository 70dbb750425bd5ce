"""The steps of label moments where every noisy sum is the sum of all sites, which they open together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpensemble._files import JSON
from dpensemble.cost import noise_variance
from dpensemble.methods.label_moments import MomentsSteps
from dpensemble.moments import MomentsSource
from dpensemble.moments.whole import WHOLE, RecordsQuery
from dpensemble.relations import Relation
from dpensemble.releases.sums import Outcome
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
from dpensemble.sites.terms import COORDINATOR


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
        shared, sums, exchange = self.shared, self.sums, self.shared.exchange
        first = 1 if sums.relation is Relation.REPLACE_ONE else 0
        number = first + len(sums.released)
        sigma = sums.meter.sigma(share)
        variance = noise_variance(sigma, query.sensitivity(sums.relation))
        require_no_wrap(exchange.noise, variance)
        example = exact_total(self.like, query, 0)[0]
        shape = example.shape
        spread = float(np.sqrt(float(exchange.noise.opened(variance))))
        coming = coming_sum(query, number, example.astype(np.float64) / WHOLE)
        site = shared.place

        def contribute() -> list[int]:
            shared.payer.number = number
            total, records = exact_total(self.blocks, query, number)
            self.same.require(records)
            return sums.charge_and_draw_part(query, total, share, site=site)

        entries = exchange.open(coming, query, spread, shared.units, contribute)
        charged = exchange.noise.charged(variance)
        shared.payer.opened(number, {"sigma": sigma, "variance": charged, "entries": len(entries)})
        return read_sum(sums, query, entries, share, total_weight, shape)

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
