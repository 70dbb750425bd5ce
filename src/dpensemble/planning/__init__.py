"""What a budget buys, before any record is touched: labels, epsilon or noise, and how good the labels are."""

from dpensemble.accounting import Accounting
from dpensemble.planning.ensemble import Ensemble, spend_curve
from dpensemble.planning.plans import Plan
from dpensemble.planning.quality import SmallestEnsemble, answer_rate, smallest_ensemble, wrong_label_rate
from dpensemble.planning.settings import VotingMethod, default_scale, law_of
from dpensemble.planning.solve import plan, plan_epsilon, plan_labels, plan_noise

__all__ = [
    "Accounting",
    "Ensemble",
    "Plan",
    "SmallestEnsemble",
    "VotingMethod",
    "answer_rate",
    "default_scale",
    "law_of",
    "plan",
    "plan_epsilon",
    "plan_labels",
    "plan_noise",
    "smallest_ensemble",
    "spend_curve",
    "wrong_label_rate",
]
