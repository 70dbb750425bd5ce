"""Privacy costs of answers, computed from a law, a change of votes and, on request, the votes."""

from dpensemble.accounting.base import EVERYONE, Accounting, Group, Meter
from dpensemble.accounting.meters.data_dependent import exact_query_rdp
from dpensemble.accounting.price import Price, price, sparse_cost
from dpensemble.accounting.published import gnmax_rdp, lnmax_rdp, threshold_rdp
from dpensemble.accounting.subsampling import bagging_delta, fresh_cost, largest_subsample, published_bagging
from dpensemble.accounting.worst_case import Change
from dpensemble.laws.base import GaussianSum

__all__ = [
    "EVERYONE",
    "Accounting",
    "Change",
    "GaussianSum",
    "Group",
    "Meter",
    "Price",
    "bagging_delta",
    "exact_query_rdp",
    "fresh_cost",
    "gnmax_rdp",
    "largest_subsample",
    "lnmax_rdp",
    "price",
    "published_bagging",
    "sparse_cost",
    "threshold_rdp",
]
