"""What a budget buys, before any record is touched: labels, epsilon or noise, and how good the labels are."""

from dpensemble.accounting import Accounting
from dpensemble.planning.aggregators import AggregatorComparison, ComparedAggregator, compare_aggregators
from dpensemble.planning.bagged import BaggedEnsemble, BaggedPlan, calibrated_bag, plan_bagged
from dpensemble.planning.ensemble import Ensemble, spend_curve
from dpensemble.planning.optimal import OptimalVotePlan, optimal_law, optimal_vote
from dpensemble.planning.personal import Census, Personalisation, Personalised, Rule
from dpensemble.planning.plan_personal import GroupPlan, PersonalPlan, baselines, plan_personalised
from dpensemble.planning.plans import Plan
from dpensemble.planning.private_answers import AnswerDesign, design_answers
from dpensemble.planning.quality import SmallestEnsemble, answer_rate, smallest_ensemble, wrong_label_rate
from dpensemble.planning.settings import VotingMethod, default_scale, law_of
from dpensemble.planning.solve import plan, plan_epsilon, plan_labels, plan_noise
from dpensemble.planning.solve_personal import group_cost, personalise, queries_of_groups

__all__ = [
    "Accounting",
    "AggregatorComparison",
    "AnswerDesign",
    "BaggedEnsemble",
    "BaggedPlan",
    "Census",
    "ComparedAggregator",
    "Ensemble",
    "GroupPlan",
    "OptimalVotePlan",
    "PersonalPlan",
    "Personalisation",
    "Personalised",
    "Plan",
    "Rule",
    "SmallestEnsemble",
    "VotingMethod",
    "answer_rate",
    "baselines",
    "calibrated_bag",
    "compare_aggregators",
    "default_scale",
    "design_answers",
    "group_cost",
    "law_of",
    "optimal_law",
    "optimal_vote",
    "personalise",
    "plan",
    "plan_bagged",
    "plan_epsilon",
    "plan_labels",
    "plan_noise",
    "plan_personalised",
    "queries_of_groups",
    "smallest_ensemble",
    "spend_curve",
    "wrong_label_rate",
]
