"""Privacy costs: curves and dominating pairs that add up, and their conversion to epsilon and delta."""

from dpensemble.cost.base import Conversion, Cost
from dpensemble.cost.gated import GatedComposition
from dpensemble.cost.gated_cost import GatedCost
from dpensemble.cost.gaussian import GaussianCost, noise_variance
from dpensemble.cost.optimal import PureCost, optimal_composition
from dpensemble.cost.pairs import DominatingPairs
from dpensemble.cost.privacy_cost import DEFAULT_ORDERS, Part, PrivacyCost
from dpensemble.cost.trade_off import gaussian_delta, gaussian_epsilon, gaussian_mu, pure_mu

__all__ = [
    "DEFAULT_ORDERS",
    "Conversion",
    "Cost",
    "DominatingPairs",
    "GatedComposition",
    "GatedCost",
    "GaussianCost",
    "Part",
    "PrivacyCost",
    "PureCost",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "noise_variance",
    "optimal_composition",
    "pure_mu",
]
