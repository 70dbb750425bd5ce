"""What answering costs: from a law, a change of votes and (where asked for) the votes to a privacy cost."""

from dpensemble.accounting.bagging import bagging_delta, largest_subsample, published_bagging
from dpensemble.accounting.base import Accounting, Meter
from dpensemble.accounting.change import Change
from dpensemble.accounting.fresh import fresh_cost
from dpensemble.accounting.gaussian_sum import GaussianSum
from dpensemble.accounting.meters.by_group import DataDependentGroupMeter
from dpensemble.accounting.meters.by_record import PerRecordMeter
from dpensemble.accounting.meters.choose import data_dependent_meter, worst_case_meter
from dpensemble.accounting.meters.drawn import SubsampledMeter
from dpensemble.accounting.meters.filter import FilterMeter
from dpensemble.accounting.meters.groups import Group, GroupMeter
from dpensemble.accounting.meters.prepaid import PrivateModelsMeter, PureAnswersMeter
from dpensemble.accounting.meters.published_by_record import PublishedPerRecordMeter
from dpensemble.accounting.meters.scheduled import ScheduledMeter, vanishing_end
from dpensemble.accounting.price import Price, price
from dpensemble.accounting.published.groups import PublishedRdp, published_group_rdp
from dpensemble.accounting.published.moments import laplace_moments
from dpensemble.accounting.published.pate import conjectured_lnmax_rdp, gnmax_rdp, lnmax_rdp, threshold_rdp
from dpensemble.accounting.queries import exact_query_rdp
from dpensemble.accounting.smooth.release import SmoothRelease, release_epsilon
from dpensemble.accounting.smooth.sensitivity import SmoothCost
from dpensemble.accounting.sparse import SparseCost, sparse_cost
from dpensemble.accounting.subsampled import SubsampledCost, subsampled_cost
from dpensemble.accounting.sums import (
    SumsMeter,
    WeightedGroup,
    weighted_groups,
)
from dpensemble.accounting.worst_case.answers import table_pairs
from dpensemble.cost import gaussian_delta, gaussian_epsilon, gaussian_mu

__all__ = [
    "Accounting",
    "Change",
    "DataDependentGroupMeter",
    "FilterMeter",
    "GaussianSum",
    "Group",
    "GroupMeter",
    "Meter",
    "PerRecordMeter",
    "Price",
    "PrivateModelsMeter",
    "PublishedPerRecordMeter",
    "PublishedRdp",
    "PureAnswersMeter",
    "ScheduledMeter",
    "SmoothCost",
    "SmoothRelease",
    "SparseCost",
    "SubsampledCost",
    "SubsampledMeter",
    "SumsMeter",
    "WeightedGroup",
    "bagging_delta",
    "conjectured_lnmax_rdp",
    "data_dependent_meter",
    "exact_query_rdp",
    "fresh_cost",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gnmax_rdp",
    "laplace_moments",
    "largest_subsample",
    "lnmax_rdp",
    "price",
    "published_bagging",
    "published_group_rdp",
    "release_epsilon",
    "sparse_cost",
    "subsampled_cost",
    "table_pairs",
    "threshold_rdp",
    "vanishing_end",
    "weighted_groups",
    "worst_case_meter",
]
