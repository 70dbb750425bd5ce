"""Public facts of a run, and what a budget buys before any record is touched."""

from dpensemble.allocation.budget_groups import Census
from dpensemble.design.by_group import ByGroup, InfluenceRule, Personalisation
from dpensemble.design.plan import (
    GroupPlan,
    Plan,
    answer_rate,
    plan,
    smallest_ensemble,
    with_least_error,
    wrong_label_rate,
)
from dpensemble.design.private_answers import compare_aggregators
from dpensemble.design.private_majority import DaRRM, PrivateWhat, private_teachers
from dpensemble.design.voting import Design, Drawn, Partitioned, VotingDesign

__all__ = [
    "ByGroup",
    "Census",
    "DaRRM",
    "Design",
    "Drawn",
    "GroupPlan",
    "InfluenceRule",
    "Partitioned",
    "Personalisation",
    "Plan",
    "PrivateWhat",
    "VotingDesign",
    "answer_rate",
    "compare_aggregators",
    "plan",
    "private_teachers",
    "smallest_ensemble",
    "with_least_error",
    "wrong_label_rate",
]
