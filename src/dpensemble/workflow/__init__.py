"""From tables to a published folder: what the command line does, callable from Python."""

from dpensemble.design import BudgetRequest, parse_budgets
from dpensemble.workflow.charging import JournaledAccount, where_charged
from dpensemble.workflow.check import Checked, check
from dpensemble.workflow.comparison import compare
from dpensemble.workflow.comparison_data import (
    ComparedDataset,
    ComparedRows,
    ComparisonData,
    comparison_data,
    table_data,
)
from dpensemble.workflow.comparison_learners import COMPARED_LEARNERS
from dpensemble.workflow.comparison_methods import METHODS
from dpensemble.workflow.comparison_results import ComparedMethod, Comparison
from dpensemble.workflow.files import file_tables
from dpensemble.workflow.learners import LEARNERS, STUDENTS, learner
from dpensemble.workflow.outputs import Outcome, load_run, write_outcome
from dpensemble.workflow.recover import Recovered, recover, settle_charge
from dpensemble.workflow.rehearsal import rehearse
from dpensemble.workflow.run_folder import RunFolder, claimed_folder, resumed_folder
from dpensemble.workflow.tables import Tables, adult_tables
from dpensemble.workflow.train import train
from dpensemble.workflow.unfinished import about_run, require_unchanged, unfinished_run

__all__ = [
    "COMPARED_LEARNERS",
    "LEARNERS",
    "METHODS",
    "STUDENTS",
    "BudgetRequest",
    "Checked",
    "ComparedDataset",
    "ComparedMethod",
    "ComparedRows",
    "Comparison",
    "ComparisonData",
    "JournaledAccount",
    "Outcome",
    "Recovered",
    "RunFolder",
    "Tables",
    "about_run",
    "adult_tables",
    "check",
    "claimed_folder",
    "compare",
    "comparison_data",
    "file_tables",
    "learner",
    "load_run",
    "parse_budgets",
    "recover",
    "rehearse",
    "require_unchanged",
    "resumed_folder",
    "settle_charge",
    "table_data",
    "train",
    "unfinished_run",
    "where_charged",
    "write_outcome",
]
