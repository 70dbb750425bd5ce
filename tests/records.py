"""Private records in memory behind a public map, for tests of sums."""

import numpy as np

from dpensemble.moments.whole import WHOLE
from dpensemble.releases import ReleasedSum, SumReleaser
from dpensemble.releases.sums import SameRecords
from dpensemble.rows.checked import CheckedBlock
from dpensemble.rows.passes import ROWS_AT_ONCE, CheckedRecords, Features, SumsOfRecords


def records_behind(transform, X, targets, weights):
    """Return records behind a map, as `fit` has them."""
    n, blocks = len(targets), tuple(CheckedBlock(X, targets, weights).split(ROWS_AT_ONCE))
    return SumsOfRecords(CheckedRecords(n, n, SameRecords((n, 0)), blocks), Features(transform))


def whole_blocks(records):
    """Return whole features, class ids and weights of records, block by block."""
    return list(records.features.whole_blocks(records.records.blocks))


def made_up_sums(patch):
    """Release made-up sums, the same for all data sets. Return a list to which exact sums and sensitivities are added.

    So later sums of two runs have the same settings.
    """
    found = []

    def made_up(self, query, total, share, *, weight=1.0):
        found.append((total.astype(np.float64), query.sensitivity(self.relation)))
        self.meter.charge(self.meter.sigma(share), variance=2**60, entries=total.size)
        self.released.append(ReleasedSum(query.description))
        noisy = np.random.default_rng(len(found)).uniform(0, 3 * WHOLE, size=total.shape)
        return query.read(noisy / query.unit / weight, 2**30 / query.unit / weight)

    patch.setattr(SumReleaser, "charge_and_draw", made_up)
    return found
