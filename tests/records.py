"""Private records in memory behind a public map, for tests of sums."""

from dpensemble.releases.sums import SameRecords
from dpensemble.rows.checked import Block
from dpensemble.rows.passes import (
    ROWS_AT_ONCE,
    CheckedRecords,
    CheckedRows,
    Features,
    PartTask,
    PartWeights,
    SumsOfRecords,
)


def records_behind(transform, X, targets, weights):
    """Return records behind a map, as `fit` has them."""
    rows = CheckedRows((Block(X, targets, weights),))
    task = PartTask(None, b"", {}, checksums=False, here=True, is_checked=True)
    n = len(targets)
    return SumsOfRecords(CheckedRecords(rows, task, SameRecords(), n, n, PartWeights()), Features(transform))


def whole_blocks(records):
    """Return whole features, class ids and weights of records, block by block."""
    (blocks,) = records.records.source.results(
        lambda tables: list(records.features.of(part for table in tables for part in table.split(ROWS_AT_ONCE)))
    )
    return blocks
