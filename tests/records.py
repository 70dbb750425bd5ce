"""Private records in memory behind a public map, for tests of sums."""

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
