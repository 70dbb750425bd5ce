"""From tables to a published folder: the work of the command line, callable from Python."""

from dpensemble.workflow.comparison import Comparison, compare
from dpensemble.workflow.outputs import Outcome
from dpensemble.workflow.run_folder import RunFolder
from dpensemble.workflow.table_files import ReadOptions, TableFiles
from dpensemble.workflow.tables import Tables, file_tables
from dpensemble.workflow.train import train

__all__ = [
    "Comparison",
    "Outcome",
    "ReadOptions",
    "RunFolder",
    "TableFiles",
    "Tables",
    "compare",
    "file_tables",
    "train",
]
