"""Public facts of a run, and what a budget buys before any record is touched."""

from dpensemble.design.aggregators import AggregatorComparison, ComparedAggregator, compare_aggregators
from dpensemble.design.averages import Answers, TeacherAverages, answers_of
from dpensemble.design.bagged_models import BaggedModels
from dpensemble.design.base import Design, VotingDesign
from dpensemble.design.budget_request import BudgetRequest, parse_budgets
from dpensemble.design.by_group import ByGroup
from dpensemble.design.drawn import Drawn
from dpensemble.design.given_votes import GivenVotes, Sampling
from dpensemble.design.influence import Census, InfluenceRule, Personalisation
from dpensemble.design.least_error import LeastError, with_least_error
from dpensemble.design.noisy_sums import NoisySums, noisy_sums
from dpensemble.design.partitioned import Partitioned
from dpensemble.design.plan import GroupPlan, Plan, plan
from dpensemble.design.private import DaRRM, MajorityRule, PrivateTeachersDesign, PrivateWhat, private_teachers
from dpensemble.design.private_answers import FittedAnswer, fitted_answer
from dpensemble.design.quality import answer_rate, quality_table, wrong_label_rate
from dpensemble.design.smallest import SmallestEnsemble, smallest_ensemble

__all__ = [
    "AggregatorComparison",
    "Answers",
    "BaggedModels",
    "BudgetRequest",
    "ByGroup",
    "Census",
    "ComparedAggregator",
    "DaRRM",
    "Design",
    "Drawn",
    "FittedAnswer",
    "GivenVotes",
    "GroupPlan",
    "InfluenceRule",
    "LeastError",
    "MajorityRule",
    "NoisySums",
    "Partitioned",
    "Personalisation",
    "Plan",
    "PrivateTeachersDesign",
    "PrivateWhat",
    "Sampling",
    "SmallestEnsemble",
    "TeacherAverages",
    "VotingDesign",
    "answer_rate",
    "answers_of",
    "compare_aggregators",
    "fitted_answer",
    "noisy_sums",
    "parse_budgets",
    "plan",
    "private_teachers",
    "quality_table",
    "smallest_ensemble",
    "with_least_error",
    "wrong_label_rate",
]
