"""From tables to a published folder: what the command line does, callable from Python."""

from dpensemble.workflow.budgets import BudgetRequest, parse_budgets
from dpensemble.workflow.files import file_tables
from dpensemble.workflow.learners import LEARNERS, STUDENTS, learner
from dpensemble.workflow.outputs import Outcome, load_run, staged_folder, write_outcome
from dpensemble.workflow.tables import Tables, adult_tables
from dpensemble.workflow.train import train

__all__ = [
    "LEARNERS",
    "STUDENTS",
    "BudgetRequest",
    "Outcome",
    "Tables",
    "adult_tables",
    "file_tables",
    "learner",
    "load_run",
    "parse_budgets",
    "staged_folder",
    "train",
    "write_outcome",
]
