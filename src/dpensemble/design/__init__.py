"""Public facts of a run, and what a budget buys before any record is touched."""

from dpensemble.design.by_group import BudgetRequest, ByGroup, Census, InfluenceRule, Personalisation, parse_budgets
from dpensemble.design.given_votes import GivenVotes, Sampling
from dpensemble.design.plan import (
    GroupPlan,
    LeastError,
    Plan,
    SmallestEnsemble,
    answer_rate,
    plan,
    quality_table,
    smallest_ensemble,
    with_least_error,
    wrong_label_rate,
)
from dpensemble.design.private_answers import (
    AggregatorComparison,
    ComparedAggregator,
    FittedAnswer,
    compare_aggregators,
    fitted_answer,
)
from dpensemble.design.private_majority import (
    DaRRM,
    MajorityRule,
    PrivateTeachersDesign,
    PrivateWhat,
    private_teachers,
)
from dpensemble.design.sums import Answers, BaggedModels, NoisySums, TeacherAverages, answers_of, noisy_sums
from dpensemble.design.voting import Design, Drawn, Partitioned, VotingDesign

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
