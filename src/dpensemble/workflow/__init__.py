"""From tables to a published folder: what the command line does, callable from Python."""

from dpensemble.workflow.learners import LEARNERS, STUDENTS, learner
from dpensemble.workflow.outputs import Outcome, load_run, staged_folder, write_outcome
from dpensemble.workflow.tables import Tables, adult_tables, file_tables
from dpensemble.workflow.train import train

__all__ = [
    "LEARNERS",
    "STUDENTS",
    "Outcome",
    "Tables",
    "adult_tables",
    "file_tables",
    "learner",
    "load_run",
    "staged_folder",
    "train",
    "write_outcome",
]
