"""Published tables, printed again beside the papers' figures."""

from reproductions.catalogue import TABLES, chosen
from reproductions.declared import Cell, Experiment, Need, Panel, Status, Table, figure, rows_of
from reproductions.results import read_results, write_results
from reproductions.running import RunSettings, reproduce
from reproductions.store import Workplace
from reproductions.summary import Entry, TableResult

__all__ = [
    "TABLES",
    "Cell",
    "Entry",
    "Experiment",
    "Need",
    "Panel",
    "RunSettings",
    "Status",
    "Table",
    "TableResult",
    "Workplace",
    "chosen",
    "figure",
    "read_results",
    "reproduce",
    "rows_of",
    "write_results",
]
