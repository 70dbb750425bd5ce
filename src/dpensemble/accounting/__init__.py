"""What answering costs: from a law, an allocation and (where asked for) the votes to a privacy cost."""

from dpensemble.accounting.bagging import bagging_delta, largest_subsample, published_bagging
from dpensemble.accounting.base import Accounting, Meter
from dpensemble.accounting.exact_personalised import ExactPersonalisedMeter
from dpensemble.accounting.exact_queries import exact_query_rdp
from dpensemble.accounting.gates import GatedCost, gate_cost, gated_cost, published_gated_cost
from dpensemble.accounting.group_data import GroupDataMeter
from dpensemble.accounting.group_filter import GroupFilterMeter
from dpensemble.accounting.group_meters import grouped_meter
from dpensemble.accounting.groups import Group, GroupMeter
from dpensemble.accounting.meters import FilterMeter, WorstCaseMeter, worst_case_meter
from dpensemble.accounting.moments import laplace_moments, published_cost
from dpensemble.accounting.pate import conjectured_lnmax_rdp, gnmax_rdp, lnmax_rdp, threshold_rdp
from dpensemble.accounting.personalised import PersonalisedMeter
from dpensemble.accounting.private_teachers import PrivateModelsMeter, PureAnswersMeter
from dpensemble.accounting.published_groups import PublishedRdp, published_group_rdp
from dpensemble.accounting.scheduled_groups import ScheduledGroupMeter, vanishing_end
from dpensemble.accounting.smooth_release import SmoothRelease, release_epsilon
from dpensemble.accounting.smooth_sensitivity import SmoothCost
from dpensemble.accounting.subsampled import SubsampledCost, subsampled_cost
from dpensemble.accounting.subsampled_meter import SubsampledMeter
from dpensemble.accounting.worst_case import table_pairs, worst_case_cost

__all__ = [
    "Accounting",
    "ExactPersonalisedMeter",
    "FilterMeter",
    "GatedCost",
    "Group",
    "GroupDataMeter",
    "GroupFilterMeter",
    "GroupMeter",
    "Meter",
    "PersonalisedMeter",
    "PrivateModelsMeter",
    "PublishedRdp",
    "PureAnswersMeter",
    "ScheduledGroupMeter",
    "SmoothCost",
    "SmoothRelease",
    "SubsampledCost",
    "SubsampledMeter",
    "WorstCaseMeter",
    "bagging_delta",
    "conjectured_lnmax_rdp",
    "exact_query_rdp",
    "gate_cost",
    "gated_cost",
    "gnmax_rdp",
    "grouped_meter",
    "laplace_moments",
    "largest_subsample",
    "lnmax_rdp",
    "published_bagging",
    "published_cost",
    "published_gated_cost",
    "published_group_rdp",
    "release_epsilon",
    "subsampled_cost",
    "table_pairs",
    "threshold_rdp",
    "vanishing_end",
    "worst_case_cost",
    "worst_case_meter",
]
