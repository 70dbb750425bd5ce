"""From tables to a published folder: the work of the command line, callable from Python."""

from importlib import import_module
from typing import TYPE_CHECKING

from dpensemble.workflow.outputs import Outcome
from dpensemble.workflow.run_folder import RunFolder
from dpensemble.workflow.table_files import ReadOptions, TableFiles
from dpensemble.workflow.tables import Tables, file_tables
from dpensemble.workflow.train import train

if TYPE_CHECKING:
    from dpensemble.workflow.comparison import Comparison, compare

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

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # A run needs no comparison, and a comparison imports every method and the networks.
        if name not in ("Comparison", "compare"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return vars(import_module(f"{__name__}.comparison"))[name]
