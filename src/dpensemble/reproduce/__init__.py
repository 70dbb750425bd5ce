"""Published tables, printed again beside the papers' figures."""

from dpensemble.reproduce.catalogue import TABLES, chosen
from dpensemble.reproduce.declared import Cell, Experiment, Need, Panel, Status, Table, figure, rows_of
from dpensemble.reproduce.results import read_results, write_results
from dpensemble.reproduce.running import RunSettings, reproduce
from dpensemble.reproduce.store import Workplace
from dpensemble.reproduce.summary import Entry, TableResult

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
